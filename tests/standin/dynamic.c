// SPDX-License-Identifier: Apache-2.0
// What a device does: utilisation, memory, temperature, power, clocks.
#include "standin.h"

#include <math.h>
#include <string.h>

#define PERCENT 100.0
#define MILLI 1000.0
#define MHZ 1e-6

#define METRIC(function, metric, scale)                                                                                \
    int function(struct nvml_device *d, unsigned *out)                                                                 \
    {                                                                                                                  \
        return standin_metric_call(#function, d, AL_GPU_##metric, scale, out);                                         \
    }

METRIC(nvmlDeviceGetFanSpeed, FAN, PERCENT)
METRIC(nvmlDeviceGetPowerUsage, POWER, MILLI)
METRIC(nvmlDeviceGetPowerManagementLimit, POWER_LIMIT, MILLI)
METRIC(nvmlDeviceGetPowerManagementDefaultLimit, POWER_DEFAULT, MILLI)
METRIC(nvmlDeviceGetEnforcedPowerLimit, POWER_ENFORCED, MILLI)
METRIC(nvmlDeviceGetPerformanceState, PSTATE, 1)
METRIC(nvmlDeviceGetPowerState, PSTATE, 1)

int nvmlDeviceGetUtilizationRates(struct nvml_device *d, struct nvml_utilization *out) {
    struct call c;
    struct nvml_utilization u = {0, 0};
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = out ? standin_u32(&c, AL_GPU_UTIL, PERCENT, &u.gpu) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result) {
        standin_u32(&c, AL_GPU_MEM_UTIL, PERCENT, &u.memory);
        *out = u;
    }
    return standin_end(result);
}

struct memory {
    uint64_t total, used, free, reserved;
};

static int memory_of(const struct call *c, struct memory *m) {
    memset(m, 0, sizeof *m);
    int result = standin_number(c, AL_GPU_MEM_TOTAL, 1, &m->total);
    if (!result)
        result = standin_number(c, AL_GPU_MEM_USED, 1, &m->used);
    if (!result)
        result = standin_number(c, AL_GPU_MEM_FREE, 1, &m->free);
    standin_number(c, AL_GPU_MEM_RESERVED, 1, &m->reserved);
    return result;
}

// v1 counts the reserve as used (580.159).
int nvmlDeviceGetMemoryInfo(struct nvml_device *d, struct nvml_memory *out) {
    struct call c;
    struct memory m;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = out ? memory_of(&c, &m) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        *out = (struct nvml_memory){m.total, m.free, m.used + m.reserved};
    return standin_end(result);
}

// A wrong version word is answered by "function not found" here, not by "version mismatch" (580.159).
int nvmlDeviceGetMemoryInfo_v2(struct nvml_device *d, struct nvml_memory_v2 *out) {
    struct call c;
    struct memory m;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out || !VERSIONED(out, nvml_memory_v2, 2))
        return standin_end(out ? AL_NVML_ERROR_FUNCTION_NOT_FOUND : AL_NVML_ERROR_INVALID_ARGUMENT);
    result = memory_of(&c, &m);
    if (!result)
        *out = (struct nvml_memory_v2){out->version, m.total, m.reserved, m.free, m.used};
    return standin_end(result);
}

int nvmlDeviceGetBAR1MemoryInfo(struct nvml_device *d, struct nvml_bar1_memory *out) {
    struct call c;
    uint64_t total = 0, used = 0;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = out ? standin_number(&c, AL_GPU_BAR1_TOTAL, 1, &total) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        result = standin_number(&c, AL_GPU_BAR1_USED, 1, &used);
    if (!result)
        *out = (struct nvml_bar1_memory){total, total > used ? total - used : 0, used};
    return standin_end(result);
}

int nvmlDeviceGetTemperature(struct nvml_device *d, unsigned sensor, unsigned *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    return standin_end(sensor ? AL_NVML_ERROR_INVALID_ARGUMENT : standin_u32(&c, AL_GPU_TEMP, 1, out));
}

int nvmlDeviceGetTemperatureV(struct nvml_device *d, struct nvml_temperature *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out || !VERSIONED(out, nvml_temperature, 1))
        return standin_end(out ? AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH : AL_NVML_ERROR_INVALID_ARGUMENT);
    if (out->sensorType)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    struct al_value v = standin_value(&c, AL_GPU_TEMP);
    result = standin_result(v.status);
    if (!result)
        out->temperature = (int)lround(v.num);
    return standin_end(result);
}

int nvmlDeviceGetTemperatureThreshold(struct nvml_device *d, unsigned threshold, unsigned *out) {
    static const enum al_gpu_metric metrics[] = {AL_GPU_TEMP_SHUTDOWN, AL_GPU_TEMP_SLOWDOWN, AL_GPU_TEMP_MEM_MAX,
                                                 AL_GPU_TEMP_GPU_MAX};
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (threshold >= 4) // acoustic limits and the like exist, on other boards
        return standin_end(threshold < 8 ? AL_NVML_ERROR_NOT_SUPPORTED : AL_NVML_ERROR_INVALID_ARGUMENT);
    return standin_end(standin_u32(&c, metrics[threshold], 1, out));
}

int nvmlDeviceGetMarginTemperature(struct nvml_device *d, struct nvml_margin_temperature *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out || !VERSIONED(out, nvml_margin_temperature, 1))
        return standin_end(out ? AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH : AL_NVML_ERROR_INVALID_ARGUMENT);
    struct al_value v = standin_value(&c, AL_GPU_TEMP_MARGIN);
    result = standin_result(v.status);
    if (!result)
        out->marginTemperature = (int)lround(v.num);
    return standin_end(result);
}

int nvmlDeviceGetPowerManagementLimitConstraints(struct nvml_device *d, unsigned *low, unsigned *high) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = low && high ? standin_u32(&c, AL_GPU_POWER_MIN, MILLI, low) : AL_NVML_ERROR_INVALID_ARGUMENT;
    return standin_end(result ? result : standin_u32(&c, AL_GPU_POWER_MAX, MILLI, high));
}

int nvmlDeviceGetPowerManagementMode(struct nvml_device *d, unsigned *out) {
    int result = standin_metric_call(__func__, d, AL_GPU_POWER_LIMIT, 1, out);
    if (!result)
        *out = 1;
    return result;
}

static int wide(const char *function, struct nvml_device *d, enum al_gpu_metric metric, double scale,
                unsigned long long *out) {
    struct call c;
    uint64_t value = 0;
    int result = standin_begin(&c, function, d);
    if (result)
        return result;
    result = out ? standin_number(&c, metric, scale, &value) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        *out = value;
    return standin_end(result);
}

int nvmlDeviceGetTotalEnergyConsumption(struct nvml_device *d, unsigned long long *out) {
    return wide(__func__, d, AL_GPU_ENERGY, MILLI, out);
}

int nvmlDeviceGetCurrentClocksEventReasons(struct nvml_device *d, unsigned long long *out) {
    return wide(__func__, d, AL_GPU_THROTTLE, 1, out);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *d, unsigned long long *out) {
    return wide(__func__, d, AL_GPU_THROTTLE, 1, out);
}

static const enum al_gpu_metric clock_now[] = {AL_GPU_CLOCK_GR, AL_GPU_CLOCK_SM, AL_GPU_CLOCK_MEM, AL_GPU_CLOCK_VIDEO};
static const enum al_gpu_metric clock_max[] = {AL_GPU_CLOCK_GR_MAX, AL_GPU_CLOCK_SM_MAX, AL_GPU_CLOCK_MEM_MAX,
                                               AL_GPU_CLOCK_VIDEO_MAX};
// The SM's application clock is the graphics clock's.
static const enum al_gpu_metric clock_app[] = {AL_GPU_CLOCK_APP_GR, AL_GPU_CLOCK_APP_GR, AL_GPU_CLOCK_APP_MEM};
static const enum al_gpu_metric clock_default[] = {AL_GPU_CLOCK_DEFAPP_GR, AL_GPU_CLOCK_DEFAPP_GR,
                                                   AL_GPU_CLOCK_DEFAPP_MEM};

// `known` types have a metric; type 3 is there for all, and beyond it `beyond` is the answer.
static int clock_of(const char *function, struct nvml_device *d, const enum al_gpu_metric *metrics, unsigned known,
                    unsigned type, int beyond, unsigned *out) {
    struct call c;
    int result = standin_begin(&c, function, d);
    if (result)
        return result;
    if (type >= known)
        return standin_end(type == 3 ? AL_NVML_ERROR_NOT_SUPPORTED : beyond);
    return standin_end(standin_u32(&c, metrics[type], MHZ, out));
}

int nvmlDeviceGetClockInfo(struct nvml_device *d, unsigned type, unsigned *out) {
    return clock_of(__func__, d, clock_now, 4, type, AL_NVML_ERROR_NOT_SUPPORTED, out);
}

int nvmlDeviceGetMaxClockInfo(struct nvml_device *d, unsigned type, unsigned *out) {
    return clock_of(__func__, d, clock_max, 4, type, AL_NVML_ERROR_INVALID_ARGUMENT, out);
}

int nvmlDeviceGetApplicationsClock(struct nvml_device *d, unsigned type, unsigned *out) {
    return clock_of(__func__, d, clock_app, 3, type, AL_NVML_ERROR_INVALID_ARGUMENT, out);
}

int nvmlDeviceGetDefaultApplicationsClock(struct nvml_device *d, unsigned type, unsigned *out) {
    return clock_of(__func__, d, clock_default, 3, type, AL_NVML_ERROR_INVALID_ARGUMENT, out);
}

int nvmlDeviceGetMaxCustomerBoostClock(struct nvml_device *d, unsigned type, unsigned *out) {
    return clock_of(__func__, d, clock_max, 2, type == 2 ? 3 : type, AL_NVML_ERROR_INVALID_ARGUMENT, out);
}

// Clock ids: 0 now, 1 application, 2 default application, 3 the customer's maximum.
int nvmlDeviceGetClock(struct nvml_device *d, unsigned type, unsigned id, unsigned *out) {
    static const enum al_gpu_metric *const tables[] = {clock_now, clock_app, clock_default, clock_max};
    static const unsigned known[] = {4, 3, 3, 2};
    if (id >= 4)
        return clock_of(__func__, d, clock_now, 0, 4, AL_NVML_ERROR_INVALID_ARGUMENT, out);
    return clock_of(__func__, d, tables[id], known[id], id == 3 && type == 2 ? 3 : type,
                    id ? AL_NVML_ERROR_INVALID_ARGUMENT : AL_NVML_ERROR_NOT_SUPPORTED, out);
}

int nvmlDeviceGetNumFans(struct nvml_device *d, unsigned *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (out)
        *out = standin_result(standin_value(&c, AL_GPU_FAN).status) == OK;
    return standin_end(out ? OK : AL_NVML_ERROR_INVALID_ARGUMENT);
}

int nvmlDeviceGetFanSpeed_v2(struct nvml_device *d, unsigned fan, unsigned *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = fan ? AL_NVML_ERROR_INVALID_ARGUMENT : standin_u32(&c, AL_GPU_FAN, PERCENT, out);
    return standin_end(result == AL_NVML_ERROR_NOT_SUPPORTED ? AL_NVML_ERROR_INVALID_ARGUMENT : result);
}

static int engine(const char *function, struct nvml_device *d, enum al_gpu_metric metric, unsigned *out,
                  unsigned *period_us) {
    int result = standin_metric_call(function, d, metric, PERCENT, period_us ? out : NULL);
    if (!result)
        *period_us = 100000; // 580.159
    return result;
}

int nvmlDeviceGetEncoderUtilization(struct nvml_device *d, unsigned *out, unsigned *period_us) {
    return engine(__func__, d, AL_GPU_ENC_UTIL, out, period_us);
}

int nvmlDeviceGetDecoderUtilization(struct nvml_device *d, unsigned *out, unsigned *period_us) {
    return engine(__func__, d, AL_GPU_DEC_UTIL, out, period_us);
}

int nvmlDeviceGetJpgUtilization(struct nvml_device *d, unsigned *out, unsigned *period_us) {
    return engine(__func__, d, AL_GPU_JPG_UTIL, out, period_us);
}

int nvmlDeviceGetOfaUtilization(struct nvml_device *d, unsigned *out, unsigned *period_us) {
    return engine(__func__, d, AL_GPU_OFA_UTIL, out, period_us);
}

int nvmlDeviceGetViolationStatus(struct nvml_device *d, unsigned policy, struct nvml_violation_time *out) {
    static const enum al_gpu_metric metrics[] = {
        AL_GPU_VIOL_POWER,    AL_GPU_VIOL_THERMAL,     AL_GPU_VIOL_SYNC_BOOST, AL_GPU_VIOL_BOARD_LIMIT,
        AL_GPU_VIOL_LOW_UTIL, AL_GPU_VIOL_RELIABILITY, AL_GPU_VIOL_TOTAL_APP,  AL_GPU_VIOL_TOTAL_BASE};
    struct call c;
    uint64_t ns = 0;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (policy == AL_NVML_POLICY_TOTAL_APP_CLOCKS || policy == AL_NVML_POLICY_TOTAL_BASE_CLOCKS)
        policy -= 4;
    else if (policy > AL_NVML_POLICY_RELIABILITY)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    result = out ? standin_number(&c, metrics[policy], 1e9, &ns) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        *out = (struct nvml_violation_time){standin_real_us(c.at_ns), ns};
    return standin_end(result);
}
