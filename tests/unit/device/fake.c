// SPDX-License-Identifier: Apache-2.0
#include "fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct fake fake;

// The forced answer of a function on a device; counts the call.
static int forced(struct nvml_device *d, enum al_nvml_fn fn) {
    d->calls[fn]++;
    if (d->gone || (d->parent && d->parent->gone))
        return AL_NVML_ERROR_GPU_IS_LOST;
    return d->result[fn];
}
#define FORCED(d, fn)                                                                                                  \
    do {                                                                                                               \
        int forced_ = forced(d, NVML_FN_##fn);                                                                         \
        if (forced_)                                                                                                   \
            return forced_;                                                                                            \
    } while (0)

static int init(void) {
    fake.inits++;
    return fake.init_result;
}
static int shut_down(void) {
    fake.shutdowns++;
    return 0;
}
static int driver_version(char *out, unsigned size) {
    return snprintf(out, size, "580.159.04") < 0;
}
static int cuda_version(int *v) {
    *v = 13010;
    return 0;
}
static int get_count(unsigned *count) {
    *count = fake.count;
    return 0;
}
static int by_index(unsigned index, struct nvml_device **d) {
    if (index >= fake.count || !fake.gpus[index])
        return AL_NVML_ERROR_INVALID_ARGUMENT;
    FORCED(fake.gpus[index], nvmlDeviceGetHandleByIndex_v2);
    *d = fake.gpus[index];
    return 0;
}
static int get_uuid(struct nvml_device *d, char *out, unsigned size) {
    FORCED(d, nvmlDeviceGetUUID);
    return snprintf(out, size, "%s", d->uuid) < 0;
}
static int get_name(struct nvml_device *d, char *out, unsigned size) {
    FORCED(d, nvmlDeviceGetName);
    return snprintf(out, size, "%s", d->name) < 0;
}
static int get_pci(struct nvml_device *d, struct nvml_pci_info *p) {
    FORCED(d, nvmlDeviceGetPciInfo_v3);
    (void)snprintf(p->busId, sizeof p->busId, "00000000:%02X:00.0", d->number);
    return 0;
}
static int mig_mode(struct nvml_device *d, unsigned *current, unsigned *pending) {
    FORCED(d, nvmlDeviceGetMigMode);
    *current = *pending = d->mig;
    return 0;
}
static int max_mig(struct nvml_device *d, unsigned *count) {
    FORCED(d, nvmlDeviceGetMaxMigDeviceCount);
    *count = FAKE_MIG;
    return 0;
}
static int mig_by_index(struct nvml_device *d, unsigned index, struct nvml_device **ret) {
    FORCED(d, nvmlDeviceGetMigDeviceHandleByIndex);
    if (index >= FAKE_MIG || !d->children[index])
        return AL_NVML_ERROR_NOT_FOUND;
    *ret = d->children[index];
    return 0;
}
static int gi_id(struct nvml_device *d, unsigned *id) {
    *id = d->gi;
    return d->parent ? 0 : AL_NVML_ERROR_INVALID_ARGUMENT;
}
static int ci_id(struct nvml_device *d, unsigned *id) {
    *id = d->ci;
    return d->parent ? 0 : AL_NVML_ERROR_INVALID_ARGUMENT;
}
static int attributes(struct nvml_device *d, struct nvml_attributes *a) {
    FORCED(d, nvmlDeviceGetAttributes_v2);
    *a = (struct nvml_attributes){.gpuInstanceSliceCount = 2, .computeInstanceSliceCount = 1, .memorySizeMB = 20096};
    return 0;
}
static int rates(struct nvml_device *d, struct nvml_utilization *u) {
    FORCED(d, nvmlDeviceGetUtilizationRates);
    *u = (struct nvml_utilization){d->util, d->mem_util};
    return d->parent ? AL_NVML_ERROR_INVALID_ARGUMENT : 0;
}
static int memory_v2(struct nvml_device *d, struct nvml_memory_v2 *m) {
    FORCED(d, nvmlDeviceGetMemoryInfo_v2);
    if (m->version != 0x2000028) // as 580.159 answers
        return AL_NVML_ERROR_FUNCTION_NOT_FOUND;
    *m = (struct nvml_memory_v2){m->version, d->total, d->reserved, d->free, d->used};
    return 0;
}
static int memory_v1(struct nvml_device *d, struct nvml_memory *m) {
    FORCED(d, nvmlDeviceGetMemoryInfo);
    *m = (struct nvml_memory){d->total, d->free, d->used + d->reserved};
    return 0;
}
static int temperature(struct nvml_device *d, unsigned sensor, unsigned *out) {
    FORCED(d, nvmlDeviceGetTemperature);
    *out = d->temp;
    return sensor ? AL_NVML_ERROR_INVALID_ARGUMENT : 0;
}
static int temperature_v(struct nvml_device *d, struct nvml_temperature *t) {
    FORCED(d, nvmlDeviceGetTemperatureV);
    t->temperature = (int)d->temp;
    return t->version == 0x100000c ? 0 : AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}
static int power(struct nvml_device *d, unsigned *out) {
    FORCED(d, nvmlDeviceGetPowerUsage);
    *out = d->power_mw;
    return 0;
}
static int constraints(struct nvml_device *d, unsigned *low, unsigned *high) {
    FORCED(d, nvmlDeviceGetPowerManagementLimitConstraints);
    *low = 200000;
    *high = 700000;
    return 0;
}
static int clock_info(struct nvml_device *d, unsigned type, unsigned *out) {
    FORCED(d, nvmlDeviceGetClockInfo);
    *out = d->clock_mhz + type;
    return 0;
}
static int max_clock(struct nvml_device *d, unsigned type, unsigned *out) {
    FORCED(d, nvmlDeviceGetMaxClockInfo);
    *out = 1980 + type;
    return 0;
}
static int app_clock(struct nvml_device *d, unsigned type, unsigned *out) {
    FORCED(d, nvmlDeviceGetApplicationsClock);
    *out = d->clock_mhz + type;
    return 0;
}
static int fan(struct nvml_device *d, unsigned *out) {
    FORCED(d, nvmlDeviceGetFanSpeed);
    *out = 105;
    return 0;
}
static int pstate(struct nvml_device *d, unsigned *out) {
    FORCED(d, nvmlDeviceGetPerformanceState);
    *out = d->pstate;
    return 0;
}
static int reasons(struct nvml_device *d, unsigned long long *out) {
    FORCED(d, nvmlDeviceGetCurrentClocksThrottleReasons);
    *out = d->reasons;
    return 0;
}
static int ecc_at(struct nvml_device *d, unsigned type, unsigned counter, unsigned location, unsigned long long *out) {
    FORCED(d, nvmlDeviceGetMemoryErrorCounter);
    if (location != AL_NVML_LOCATION_DRAM && location != AL_NVML_LOCATION_SRAM)
        return AL_NVML_ERROR_NOT_SUPPORTED;
    *out = type * 100 + counter * 10 + location;
    return 0;
}
static int ecc_total(struct nvml_device *d, unsigned type, unsigned counter, unsigned long long *out) {
    FORCED(d, nvmlDeviceGetTotalEccErrors);
    *out = 1000 + type * 100 + counter * 10;
    return 0;
}
static int retired(struct nvml_device *d, unsigned cause, unsigned *count, unsigned long long *addresses) {
    FORCED(d, nvmlDeviceGetRetiredPages);
    *count = cause == AL_NVML_RETIREMENT_DBE ? 2 : 0;
    return *count && !addresses ? AL_NVML_ERROR_INSUFFICIENT_SIZE : 0;
}
static int link_state(struct nvml_device *d, unsigned link, unsigned *on) {
    FORCED(d, nvmlDeviceGetNvLinkState);
    if (!(d->links >> link & 1))
        return AL_NVML_ERROR_NOT_SUPPORTED;
    *on = link != 5;
    return 0;
}
static int throughput(struct nvml_device *d, unsigned counter, unsigned *out) {
    FORCED(d, nvmlDeviceGetPcieThroughput);
    *out = counter ? 16129 : 7383;
    return 0;
}
static int samples(struct nvml_device *d, unsigned type, unsigned long long since, unsigned *value_type,
                   unsigned *count, struct nvml_sample *out) {
    unsigned found = 0;
    FORCED(d, nvmlDeviceGetSamples);
    fake.sample_since = since;
    *value_type = AL_NVML_VALUE_UNSIGNED_INT;
    if (type != AL_NVML_SAMPLES_GPU_UTILIZATION)
        return AL_NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < d->sample_count && found < *count; i++)
        if (d->samples[i].timeStamp > since)
            out[found++] = d->samples[i];
    if (!found) // the count stays as it was
        return AL_NVML_ERROR_NOT_FOUND;
    *count = found;
    return 0;
}

static int fill_v2(unsigned have, const struct nvml_process_v2 *from, unsigned *count, struct nvml_process_v2 *out) {
    unsigned room = *count;
    *count = have;
    if (room < have)
        return AL_NVML_ERROR_INSUFFICIENT_SIZE;
    if (have)
        memcpy(out, from, have * sizeof *out);
    return 0;
}
static int compute_v3(struct nvml_device *d, unsigned *count, struct nvml_process_v2 *out) {
    FORCED(d, nvmlDeviceGetComputeRunningProcesses_v3);
    if (d->growing) {
        d->growing--;
        for (int i = 0; i < 20 && d->compute_count < 200; i++) {
            d->compute[d->compute_count] = d->compute[0];
            d->compute[d->compute_count].pid = 1000 + d->compute_count;
            d->compute_count++;
        }
    }
    return fill_v2(d->compute_count, d->compute, count, out);
}
static int compute_v2(struct nvml_device *d, unsigned *count, struct nvml_process_v2 *out) {
    FORCED(d, nvmlDeviceGetComputeRunningProcesses_v2);
    return fill_v2(d->compute_count, d->compute, count, out);
}
static int compute_v1(struct nvml_device *d, unsigned *count, struct nvml_process_v1 *out) {
    FORCED(d, nvmlDeviceGetComputeRunningProcesses);
    unsigned room = *count;
    *count = d->compute_count;
    if (room < d->compute_count)
        return AL_NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < d->compute_count; i++)
        out[i] = (struct nvml_process_v1){d->compute[i].pid, d->compute[i].usedGpuMemory};
    return 0;
}
static int graphics_v3(struct nvml_device *d, unsigned *count, struct nvml_process_v2 *out) {
    FORCED(d, nvmlDeviceGetGraphicsRunningProcesses_v3);
    return fill_v2(d->graphics_count, d->graphics, count, out);
}
static int process_name(unsigned pid, char *out, unsigned size) {
    fake.gpus[0]->calls[NVML_FN_nvmlSystemGetProcessName]++;
    return snprintf(out, size, "name\n%u", pid) < 0;
}
static int utils_info(struct nvml_device *d, struct nvml_processes_util *u) {
    FORCED(d, nvmlDeviceGetProcessesUtilizationInfo);
    unsigned found = 0, room = u->processSamplesCount;
    fake.util_since = u->lastSeenTimeStamp;
    if (u->version != 0x1000018)
        return AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (room < d->util_count) {
        u->processSamplesCount = d->util_count;
        return AL_NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < d->util_count; i++)
        if (d->utils[i].timeStamp > u->lastSeenTimeStamp || d->utils[i].timeStamp < 1000)
            u->procUtilArray[found++] = d->utils[i];
    if (!found)
        return AL_NVML_ERROR_NOT_FOUND;
    u->processSamplesCount = found;
    return 0;
}
static int utils_old(struct nvml_device *d, struct nvml_process_sample *out, unsigned *count,
                     unsigned long long since) {
    FORCED(d, nvmlDeviceGetProcessUtilization);
    unsigned found = 0;
    for (unsigned i = 0; i < d->util_count && found < *count; i++)
        if (d->utils[i].timeStamp > since)
            out[found++] = (struct nvml_process_sample){.pid = d->utils[i].pid,
                                                        .timeStamp = d->utils[i].timeStamp,
                                                        .smUtil = d->utils[i].smUtil,
                                                        .memUtil = d->utils[i].memUtil,
                                                        .encUtil = d->utils[i].encUtil,
                                                        .decUtil = d->utils[i].decUtil};
    if (!found)
        return AL_NVML_ERROR_NOT_FOUND;
    *count = found;
    return 0;
}
static int field_values(struct nvml_device *d, int count, struct nvml_field_value *values) {
    FORCED(d, nvmlDeviceGetFieldValues);
    for (int i = 0; i < count; i++)
        for (unsigned j = 0; j < fake.field_count; j++)
            if (fake.fields[j].fieldId == values[i].fieldId) {
                values[i].nvmlReturn = fake.fields[j].nvmlReturn;
                values[i].valueType = fake.fields[j].valueType;
                values[i].value = fake.fields[j].value;
            } // an id that is not there is left as it was, as 580.159 does
    return 0;
}

static int gpm_support(struct nvml_device *d, struct nvml_gpm_support *s) {
    FORCED(d, nvmlGpmQueryDeviceSupport);
    s->isSupportedDevice = 1;
    return s->version == 1 ? 0 : AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}
static int gpm_alloc(struct nvml_gpm_sample **s) {
    *s = calloc(1, sizeof **s);
    fake.samples_alive++;
    return 0;
}
static int gpm_free(struct nvml_gpm_sample *s) {
    free(s);
    fake.samples_alive--;
    return 0;
}
static int gpm_get(struct nvml_device *d, struct nvml_gpm_sample *s) {
    FORCED(d, nvmlGpmSampleGet);
    *s = (struct nvml_gpm_sample){true, fake.now_ns};
    return 0;
}
static int gpm_mig_get(struct nvml_device *d, unsigned instance, struct nvml_gpm_sample *s) {
    FORCED(d, nvmlGpmMigSampleGet);
    fake.gpm_instance = instance;
    *s = (struct nvml_gpm_sample){true, fake.now_ns};
    return 0;
}
static int gpm_metrics(struct nvml_gpm_metrics *m) {
    assert_true(m->sample1->filled && m->sample2->filled); // the real driver crashes
    assert_int_equal(m->version, 1);
    assert_true(m->sample1->at_ns < m->sample2->at_ns);
    double value = fake.gpus[0]->gpm_value;
    for (unsigned i = 0; i < m->numMetrics; i++) {
        m->metrics[i].nvmlReturn = 0;
        m->metrics[i].value = m->metrics[i].metricId >= 20 && isnan(value) ? 0 : value;
    }
    return 0;
}
static int set_create(struct nvml_event_set **set) {
    *set = (struct nvml_event_set *)&fake;
    return 0;
}
static int register_events(struct nvml_device *d, unsigned long long types, struct nvml_event_set *set) {
    FORCED(d, nvmlDeviceRegisterEvents);
    return set == (struct nvml_event_set *)&fake && types == 8 ? 0 : AL_NVML_ERROR_INVALID_ARGUMENT;
}
static int set_wait(struct nvml_event_set *set, struct nvml_event_data *e, unsigned ms) {
    if (set != (struct nvml_event_set *)&fake || ms != 0)
        return AL_NVML_ERROR_INVALID_ARGUMENT;
    if (fake.event_next == fake.event_count)
        return AL_NVML_ERROR_TIMEOUT;
    *e = fake.events[fake.event_next++];
    return 0;
}
static int set_free(struct nvml_event_set *set) {
    return set ? 0 : AL_NVML_ERROR_INVALID_ARGUMENT;
}

static int64_t monotonic(void) {
    return fake.now_ns;
}
static int64_t realtime(void) {
    return fake.now_ns - FAKE_START_NS + FAKE_EPOCH_NS + fake.real_shift_ns;
}

struct nvml_device *fake_gpu(unsigned index, const char *uuid) {
    struct nvml_device *d = calloc(1, sizeof *d);
    *d = (struct nvml_device){.number = (int)index, .index = index, .util = 42, .mem_util = 7, .temp = 37,
                              .power_mw = 79000, .clock_mhz = 345, .reasons = 1, .total = 1000, .reserved = 100,
                              .used = 300, .free = 600};
    (void)snprintf(d->uuid, sizeof d->uuid, "%s", uuid);
    (void)snprintf(d->name, sizeof d->name, "Fake GPU");
    fake.gpus[index] = d;
    if (fake.count <= index)
        fake.count = index + 1;
    return d;
}

struct nvml_device *fake_mig(struct nvml_device *parent, unsigned index, const char *uuid, unsigned gi, unsigned ci) {
    struct nvml_device *d = calloc(1, sizeof *d);
    *d = (struct nvml_device){.number = -1, .parent = parent, .index = index, .gi = gi, .ci = ci, .total = 500,
                              .used = 50, .free = 440, .reserved = 10};
    (void)snprintf(d->uuid, sizeof d->uuid, "%s", uuid);
    (void)snprintf(d->name, sizeof d->name, "Fake GPU MIG %ug.10gb", gi);
    parent->mig = true;
    parent->children[index] = d;
    return d;
}

void fake_field(unsigned id, int type, unsigned long long value) {
    fake.fields[fake.field_count++] =
        (struct nvml_field_value){.fieldId = id, .valueType = type, .value = {.ullVal = value}};
}

int fake_setup(void **state) {
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.now_ns = FAKE_START_NS;
    fake_gpu(0, "GPU-aaaa");
    return 0;
}

int fake_teardown(void **state) {
    (void)state;
    for (int i = 0; i < FAKE_GPUS; i++) {
        for (int j = 0; fake.gpus[i] && j < FAKE_MIG; j++)
            free(fake.gpus[i]->children[j]);
        free(fake.gpus[i]);
    }
    return 0;
}

static void fill(union nvml_api *api) {
    *api = (union nvml_api){
        {.nvmlInit_v2 = init, .nvmlShutdown = shut_down, .nvmlSystemGetDriverVersion = driver_version,
         .nvmlSystemGetCudaDriverVersion = cuda_version, .nvmlDeviceGetCount_v2 = get_count,
         .nvmlDeviceGetHandleByIndex_v2 = by_index, .nvmlDeviceGetUUID = get_uuid, .nvmlDeviceGetName = get_name,
         .nvmlDeviceGetPciInfo_v3 = get_pci, .nvmlDeviceGetMigMode = mig_mode,
         .nvmlDeviceGetMaxMigDeviceCount = max_mig, .nvmlDeviceGetMigDeviceHandleByIndex = mig_by_index,
         .nvmlDeviceGetGpuInstanceId = gi_id, .nvmlDeviceGetComputeInstanceId = ci_id,
         .nvmlDeviceGetAttributes_v2 = attributes, .nvmlDeviceGetUtilizationRates = rates,
         .nvmlDeviceGetMemoryInfo_v2 = memory_v2, .nvmlDeviceGetMemoryInfo = memory_v1,
         .nvmlDeviceGetTemperature = temperature, .nvmlDeviceGetTemperatureV = temperature_v,
         .nvmlDeviceGetPowerUsage = power, .nvmlDeviceGetPowerManagementLimitConstraints = constraints,
         .nvmlDeviceGetClockInfo = clock_info, .nvmlDeviceGetMaxClockInfo = max_clock, .nvmlDeviceGetFanSpeed = fan,
         .nvmlDeviceGetApplicationsClock = app_clock,
         .nvmlDeviceGetPerformanceState = pstate, .nvmlDeviceGetCurrentClocksThrottleReasons = reasons,
         .nvmlDeviceGetMemoryErrorCounter = ecc_at, .nvmlDeviceGetTotalEccErrors = ecc_total,
         .nvmlDeviceGetRetiredPages = retired, .nvmlDeviceGetNvLinkState = link_state,
         .nvmlDeviceGetPcieThroughput = throughput, .nvmlDeviceGetSamples = samples,
         .nvmlDeviceGetComputeRunningProcesses_v3 = compute_v3, .nvmlDeviceGetComputeRunningProcesses_v2 = compute_v2,
         .nvmlDeviceGetComputeRunningProcesses = compute_v1, .nvmlDeviceGetGraphicsRunningProcesses_v3 = graphics_v3,
         .nvmlSystemGetProcessName = process_name, .nvmlDeviceGetProcessesUtilizationInfo = utils_info,
         .nvmlDeviceGetProcessUtilization = utils_old, .nvmlDeviceGetFieldValues = field_values,
         .nvmlGpmQueryDeviceSupport = gpm_support, .nvmlGpmSampleAlloc = gpm_alloc, .nvmlGpmSampleFree = gpm_free,
         .nvmlGpmSampleGet = gpm_get, .nvmlGpmMigSampleGet = gpm_mig_get, .nvmlGpmMetricsGet = gpm_metrics,
         .nvmlEventSetCreate = set_create, .nvmlDeviceRegisterEvents = register_events,
         .nvmlEventSetWait_v2 = set_wait, .nvmlEventSetFree = set_free}};
}

struct al_nvml *fake_backend(void) {
    struct al_nvml *n = al_nvml_new();
    assert_non_null(n);
    fill(&n->api);
    n->monotonic = monotonic;
    n->realtime = realtime;
    return n;
}

struct al_nvml *fake_started(const char *filter) {
    struct al_nvml *n = fake_backend();
    struct al_device_error e = {""};
    int result = al_nvml_start(n, filter, &e);
    if (result)
        fail_msg("start: %d %s", result, e.message);
    return n;
}

void fake_sample(struct al_nvml *n, struct al_snapshot *s, uint32_t groups, int64_t ms) {
    fake.now_ns += ms * AL_NS_PER_MS;
    al_snapshot_clear(s);
    assert_int_equal(al_nvml_sample(&n->base, s, groups, fake.now_ns), 0);
}
