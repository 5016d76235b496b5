// SPDX-License-Identifier: Apache-2.0
// nvmlDeviceGetFieldValues: ids, each with its own result, type and idea of a scope.
#include "standin.h"

#include <string.h>

#define LAST_ID 302 // of 580.159; what it does not know is answered by "invalid argument" and left alone
#define ALL_LINKS 0xffffffffU
#define NO_METRIC AL_GPU_METRIC_COUNT

enum scope {
    ANY,   // ignored
    POWER, // 0 the GPU, 1 the module (`second`), 2 memory: not known to a scenario
    LIMIT, // 0 the GPU; the module has none
    LINK   // a link, or all of them; totals stand on link 0
};

struct field {
    unsigned id;
    enum al_gpu_metric metric, second;
    double scale;
    int type;
    enum scope scope;
};

#define ROW(id, metric, scale, type, scope) \
    {AL_NVML_FI_##id, AL_GPU_##metric, NO_METRIC, scale, AL_NVML_VALUE_##type, scope}

static const struct field fields[] = {
    {3, AL_GPU_ECC_COR_VOL_TOTAL, NO_METRIC, 1, AL_NVML_VALUE_UNSIGNED_LONG_LONG, ANY},
    {4, AL_GPU_ECC_UNC_VOL_TOTAL, NO_METRIC, 1, AL_NVML_VALUE_UNSIGNED_LONG_LONG, ANY},
    {5, AL_GPU_ECC_COR_AGG_TOTAL, NO_METRIC, 1, AL_NVML_VALUE_UNSIGNED_LONG_LONG, ANY},
    {6, AL_GPU_ECC_UNC_AGG_TOTAL, NO_METRIC, 1, AL_NVML_VALUE_UNSIGNED_LONG_LONG, ANY},
    ROW(NVLINK_CRC_FLIT_TOTAL, NVLINK_CRC, 1, UNSIGNED_LONG_LONG, ANY),
    ROW(NVLINK_REPLAY_TOTAL, NVLINK_REPLAY, 1, UNSIGNED_LONG_LONG, ANY),
    ROW(NVLINK_RECOVERY_TOTAL, NVLINK_RECOVERY, 1, UNSIGNED_LONG_LONG, ANY),
    ROW(PERF_POLICY_POWER, VIOL_POWER, 1e9, UNSIGNED_LONG_LONG, ANY),
    ROW(PERF_POLICY_THERMAL, VIOL_THERMAL, 1e9, UNSIGNED_LONG_LONG, ANY),
    ROW(PERF_POLICY_SYNC_BOOST, VIOL_SYNC_BOOST, 1e9, UNSIGNED_LONG_LONG, ANY),
    ROW(PERF_POLICY_BOARD_LIMIT, VIOL_BOARD_LIMIT, 1e9, UNSIGNED_LONG_LONG, ANY),
    ROW(PERF_POLICY_LOW_UTILIZATION, VIOL_LOW_UTIL, 1e9, UNSIGNED_LONG_LONG, ANY),
    ROW(PERF_POLICY_RELIABILITY, VIOL_RELIABILITY, 1e9, UNSIGNED_LONG_LONG, ANY),
    ROW(PERF_POLICY_TOTAL_APP_CLOCKS, VIOL_TOTAL_APP, 1e9, UNSIGNED_LONG_LONG, ANY),
    ROW(PERF_POLICY_TOTAL_BASE_CLOCKS, VIOL_TOTAL_BASE, 1e9, UNSIGNED_LONG_LONG, ANY),
    ROW(MEMORY_TEMP, TEMP_MEM, 1, UNSIGNED_INT, ANY),
    ROW(TOTAL_ENERGY, ENERGY, 1e3, UNSIGNED_LONG_LONG, ANY),
    ROW(NVLINK_LINK_COUNT, NVLINK_LINKS, 1, UNSIGNED_INT, ANY),
    ROW(PCIE_REPLAY, PCIE_REPLAY, 1, UNSIGNED_INT, ANY),
    ROW(NVLINK_DATA_TX, NVLINK_TX, 1.0 / 1024, UNSIGNED_LONG_LONG, LINK),
    ROW(NVLINK_DATA_RX, NVLINK_RX, 1.0 / 1024, UNSIGNED_LONG_LONG, LINK),
    {140, AL_GPU_NVLINK_TX, NO_METRIC, 1.0 / 1024, AL_NVML_VALUE_UNSIGNED_LONG_LONG, LINK}, // raw: with protocol
    {141, AL_GPU_NVLINK_RX, NO_METRIC, 1.0 / 1024, AL_NVML_VALUE_UNSIGNED_LONG_LONG, LINK},
    ROW(REMAPPED_COR, REMAP_COR, 1, UNSIGNED_LONG_LONG, ANY),
    ROW(REMAPPED_UNC, REMAP_UNC, 1, UNSIGNED_LONG_LONG, ANY),
    ROW(REMAPPED_PENDING, REMAP_PENDING, 1, UNSIGNED_LONG_LONG, ANY),
    ROW(REMAPPED_FAILURE, REMAP_FAILED, 1, UNSIGNED_LONG_LONG, ANY),
    {AL_NVML_FI_NVLINK_DL_REPLAY, AL_GPU_NVLINK_REPLAY, NO_METRIC, 1, AL_NVML_VALUE_UNSIGNED_LONG_LONG, LINK},
    {AL_NVML_FI_NVLINK_DL_RECOVERY, AL_GPU_NVLINK_RECOVERY, NO_METRIC, 1, AL_NVML_VALUE_UNSIGNED_LONG_LONG, LINK},
    {AL_NVML_FI_NVLINK_DL_CRC, AL_GPU_NVLINK_CRC, NO_METRIC, 1, AL_NVML_VALUE_UNSIGNED_LONG_LONG, LINK},
    {AL_NVML_FI_POWER_AVERAGE, AL_GPU_POWER_AVG, AL_GPU_MODULE_POWER_AVG, 1e3, AL_NVML_VALUE_UNSIGNED_INT, POWER},
    {AL_NVML_FI_POWER_INSTANT, AL_GPU_POWER_INST, AL_GPU_MODULE_POWER_INST, 1e3, AL_NVML_VALUE_UNSIGNED_INT, POWER},
    ROW(POWER_MIN_LIMIT, POWER_MIN, 1e3, UNSIGNED_INT, LIMIT),
    ROW(POWER_MAX_LIMIT, POWER_MAX, 1e3, UNSIGNED_INT, LIMIT),
    ROW(POWER_DEFAULT_LIMIT, POWER_DEFAULT, 1e3, UNSIGNED_INT, LIMIT),
    ROW(POWER_CURRENT_LIMIT, POWER_ENFORCED, 1e3, UNSIGNED_INT, LIMIT),
    ROW(POWER_REQUESTED_LIMIT, POWER_LIMIT, 1e3, UNSIGNED_INT, LIMIT),
    ROW(EVENT_SW_THERM_SLOWDOWN, EVENT_SW_THERMAL, 1e9, UNSIGNED_LONG_LONG, ANY),
    ROW(EVENT_HW_THERM_SLOWDOWN, EVENT_HW_THERMAL, 1e9, UNSIGNED_LONG_LONG, ANY),
    ROW(EVENT_HW_POWER_BRAKE, EVENT_HW_BRAKE, 1e9, UNSIGNED_LONG_LONG, ANY),
};

// Fields that are attributes.
static const struct { unsigned id; enum al_attr attr; int type; } attributes[] = {
    {1, AL_ATTR_ECC_MODE, AL_NVML_VALUE_UNSIGNED_LONG_LONG},
    {2, AL_ATTR_ECC_MODE_PENDING, AL_NVML_VALUE_UNSIGNED_LONG_LONG},
    {AL_NVML_FI_RECOVERY_ACTION, AL_ATTR_RECOVERY_ACTION, AL_NVML_VALUE_UNSIGNED_INT},
    {AL_NVML_FI_REMAPPED_COR_INACTIVE, AL_ATTR_REMAP_COR_INACTIVE, AL_NVML_VALUE_UNSIGNED_LONG_LONG},
    {AL_NVML_FI_REMAPPED_UNC_INACTIVE, AL_ATTR_REMAP_UNC_INACTIVE, AL_NVML_VALUE_UNSIGNED_LONG_LONG},
    {AL_NVML_FI_DELAYED_POWER_SMOOTHING, AL_ATTR_POWER_SMOOTHING, AL_NVML_VALUE_UNSIGNED_INT},
};

// An unsigned int takes 4 bytes of the union and leaves the rest as it was (580.159).
static void put(struct nvml_field_value *f, int type, uint64_t value) {
    f->valueType = type;
    if (type == AL_NVML_VALUE_UNSIGNED_INT)
        f->value.uiVal = value > UINT32_MAX ? UINT32_MAX : (unsigned)value;
    else
        f->value.ullVal = value;
}

static int scoped(const struct call *c, const struct field *row, unsigned scope, uint64_t *ret) {
    enum al_gpu_metric metric = row->metric;
    if (row->scope == POWER || row->scope == LIMIT) {
        if (scope > 2 || (row->scope == LIMIT && scope == 2))
            return AL_NVML_ERROR_INVALID_ARGUMENT;
        metric = scope == 0 ? row->metric : scope == 1 ? row->second : NO_METRIC;
        if (metric == NO_METRIC)
            return AL_NVML_ERROR_NOT_SUPPORTED;
    }
    int result = standin_number(c, metric, row->scale, ret);
    if (!result && row->scope == LINK && scope != ALL_LINKS && scope != 0)
        *ret = 0;
    return result;
}

static int answer(const struct call *c, struct nvml_field_value *f) {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].id == f->fieldId) {
            unsigned number = 0;
            int result = standin_attr_u32(c, attributes[i].attr, &number);
            put(f, attributes[i].type, result ? 0 : number);
            return result;
        }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].id == f->fieldId) {
            int result = scoped(c, &fields[i], f->scopeId, &value);
            put(f, fields[i].type, value);
            return result;
        }
    return AL_NVML_ERROR_NOT_SUPPORTED;
}

int nvmlDeviceGetFieldValues(struct nvml_device *d, int count, struct nvml_field_value *values) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (count <= 0 || !values)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    uint64_t now_us = standin_real_us(c.at_ns);
    for (int i = 0; i < count; i++) {
        struct nvml_field_value *f = &values[i];
        if (f->fieldId == 0 || f->fieldId > LAST_ID) {
            f->nvmlReturn = AL_NVML_ERROR_INVALID_ARGUMENT;
            continue;
        }
        f->timestamp = (long long)now_us;
        f->latencyUsec = 1;
        f->nvmlReturn = answer(&c, f);
    }
    return standin_end(OK);
}
