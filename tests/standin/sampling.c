// SPDX-License-Identifier: Apache-2.0
// The driver's own sample buffers, and GPU performance monitoring (GPM).
#include "standin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NS 200000000LL      // 580.159: a utilisation sample each 200 ms
#define KEPT 71                  // ... of which it hands out the last 71, asking room for 72
#define POWER_STEP_NS 20000000LL // and a power sample each 20 ms
#define POWER_KEPT 119
#define MIB (1.0 / 1048576)

struct buffer {
    unsigned type;
    enum al_gpu_metric metric;
    double scale;
    int64_t step_ns;
    unsigned kept;
};

static const struct buffer buffers[] = {
    {AL_NVML_SAMPLES_TOTAL_POWER, AL_GPU_POWER_INST, 1000, POWER_STEP_NS, POWER_KEPT},
    {AL_NVML_SAMPLES_GPU_UTILIZATION, AL_GPU_UTIL, 100, STEP_NS, KEPT},
    {AL_NVML_SAMPLES_MEMORY_UTILIZATION, AL_GPU_MEM_UTIL, 100, STEP_NS, KEPT},
    {AL_NVML_SAMPLES_ENC_UTILIZATION, AL_GPU_ENC_UTIL, 100, STEP_NS, KEPT},
    {AL_NVML_SAMPLES_DEC_UTILIZATION, AL_GPU_DEC_UTIL, 100, STEP_NS, KEPT},
    {AL_NVML_SAMPLES_JPG_UTILIZATION, AL_GPU_JPG_UTIL, 100, STEP_NS, KEPT},
    {AL_NVML_SAMPLES_OFA_UTILIZATION, AL_GPU_OFA_UTIL, 100, STEP_NS, KEPT},
};

// Utilisation is kept as it was at each step; of the others the value of now stands for all steps.
static size_t take(const struct call *c, const struct buffer *b, int64_t after, struct al_fresh *out) {
    size_t count = 0;
    if (b->metric == AL_GPU_UTIL)
        return al_scenario_samples(c->s, c->gpu, after, c->at_ns, out, b->kept);
    struct al_value v = standin_value(c, b->metric);
    int64_t last = c->at_ns / b->step_ns;
    for (int64_t i = last - b->kept + 1; i <= last; i++)
        if (i >= 0 && i * b->step_ns > after)
            out[count++] = (struct al_fresh){i * b->step_ns, v.num};
    return count;
}

int nvmlDeviceGetSamples(struct nvml_device *d, unsigned type, unsigned long long last_seen, unsigned *value_type,
                         unsigned *count, struct nvml_sample *out) {
    struct call c;
    const struct buffer *b = NULL;
    struct al_fresh fresh[POWER_KEPT];
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i].type == type)
            b = &buffers[i];
    if (!value_type || !count || (!b && type != AL_NVML_SAMPLES_PROCESSOR_CLK && type != AL_NVML_SAMPLES_MEMORY_CLK))
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    result = b ? standin_result(standin_value(&c, b->metric).status) : OK;
    if (result)
        return standin_end(result);
    *value_type = AL_NVML_VALUE_UNSIGNED_INT;
    if (!out) {
        *count = b ? b->kept + 1 : 100;
        return standin_end(OK);
    }
    size_t have = 0, kept = 0;
    if (b)
        have = take(&c, b, standin_scenario_ns(last_seen) - (int64_t)1000000000, fresh);
    for (size_t i = 0; i < have && kept < *count; i++) {
        uint64_t stamp = standin_real_us(fresh[i].at_ns);
        if (stamp <= last_seen) // compared as the caller got them: microseconds
            continue;
        out[kept].timeStamp = stamp;
        out[kept++].sampleValue.uiVal = (unsigned)lround(fresh[i].ratio * b->scale);
    }
    if (kept)
        *count = (unsigned)kept;
    return standin_end(kept ? OK : AL_NVML_ERROR_NOT_FOUND);
}

struct gpm_metric {
    unsigned id;
    enum al_gpu_metric metric;
    double scale;
    const char *name, *full;
};

#define PERCENT(id, metric, name, full) {AL_NVML_GPM_##id, AL_GPU_GPM_##metric, 100, name, full}
#define RATE(id, metric, name, full) {AL_NVML_GPM_##id, AL_GPU_GPM_##metric, MIB, name, full}

static const struct gpm_metric gpm_metrics[] = {
    PERCENT(GRAPHICS_UTIL, GRAPHICS, "gract", "GRAPHICS_UTIL"),
    PERCENT(SM_UTIL, SM, "smutil", "SM_UTIL"),
    PERCENT(SM_OCCUPANCY, OCCUPANCY, "smocc", "SM_OCCUPANCY"),
    PERCENT(INTEGER_UTIL, INTEGER, "intutil", "INTEGER_UTIL"),
    PERCENT(ANY_TENSOR_UTIL, TENSOR, "mmaact", "ANY_TENSOR_UTIL"),
    PERCENT(DFMA_TENSOR_UTIL, DFMA, "dfmat", "DFMA_TENSOR_UTIL"),
    PERCENT(HMMA_TENSOR_UTIL, HMMA, "hmmat", "HMMA_TENSOR_UTIL"),
    PERCENT(IMMA_TENSOR_UTIL, IMMA, "immat", "IMMA_TENSOR_UTIL"),
    PERCENT(DRAM_BW_UTIL, DRAM, "dram", "DRAM_BW_UTIL"),
    PERCENT(FP64_UTIL, FP64, "fp64", "FP64_UTIL"),
    PERCENT(FP32_UTIL, FP32, "fp32", "FP32_UTIL"),
    PERCENT(FP16_UTIL, FP16, "fp16", "FP16_UTIL"),
    RATE(PCIE_TX_PER_SEC, PCIE_TX, "pcitx", "PCIE_TX_PER_SEC"),
    RATE(PCIE_RX_PER_SEC, PCIE_RX, "pcirx", "PCIE_RX_PER_SEC"),
    RATE(NVLINK_TOTAL_RX_PER_SEC, NVLINK_RX, "nvlrx", "NVLINK_TOTAL_RX_PER_SEC"),
    RATE(NVLINK_TOTAL_TX_PER_SEC, NVLINK_TX, "nvltx", "NVLINK_TOTAL_TX_PER_SEC"),
};
#define GPM_METRICS (sizeof gpm_metrics / sizeof *gpm_metrics)

struct nvml_gpm_sample {
    bool filled;
    int64_t at_ns;
    struct al_value value[GPM_METRICS];
};

// A recording begins before its first pair of samples: what it has not read yet is what it read first.
static struct al_value gpm_value(const struct call *c, enum al_gpu_metric metric) {
    struct al_value v = standin_value(c, metric);
    for (int64_t ahead_ms = 500; ahead_ms <= 5000 && v.status == AL_STATUS_UNREAD; ahead_ms += 500)
        v = al_scenario_value(c->s, c->gpu, metric, c->at_ns + ahead_ms * 1000000);
    return v;
}

static bool gpm_there(const struct call *c) {
    return gpm_value(c, AL_GPU_GPM_SM).status == AL_STATUS_OK || gpm_value(c, AL_GPU_GPM_GRAPHICS).status == AL_STATUS_OK;
}

int nvmlGpmQueryDeviceSupport(struct nvml_device *d, struct nvml_gpm_support *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out || out->version != AL_NVML_GPM_SUPPORT_VERSION)
        return standin_end(out ? AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH : AL_NVML_ERROR_INVALID_ARGUMENT);
    out->isSupportedDevice = gpm_there(&c);
    return standin_end(OK);
}

int nvmlGpmSampleAlloc(struct nvml_gpm_sample **out) {
    struct call c;
    int result = standin_begin_system(&c, __func__);
    if (result)
        return result;
    if (!out)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    *out = calloc(1, sizeof **out);
    return standin_end(*out ? OK : AL_NVML_ERROR_MEMORY);
}

int nvmlGpmSampleFree(struct nvml_gpm_sample *sample) {
    free(sample);
    return OK;
}

static int fill(struct call *c, struct nvml_gpm_sample *sample) {
    if (!sample)
        return AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!gpm_there(c))
        return AL_NVML_ERROR_NOT_SUPPORTED;
    sample->filled = true;
    sample->at_ns = c->at_ns;
    for (size_t i = 0; i < GPM_METRICS; i++)
        sample->value[i] = gpm_value(c, gpm_metrics[i].metric);
    return OK;
}

int nvmlGpmSampleGet(struct nvml_device *d, struct nvml_gpm_sample *sample) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    return result ? result : standin_end(fill(&c, sample));
}

int nvmlGpmMigSampleGet(struct nvml_device *d, unsigned gpu_instance, struct nvml_gpm_sample *sample) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    uint32_t mig;
    for (uint32_t n = 0; (mig = standin_children(&c, c.gpu, n)) != UINT32_MAX; n++)
        if (al_scenario_gpu_info(c.s, mig)->gpu_instance == gpu_instance) {
            c.gpu = mig;
            return standin_end(fill(&c, sample));
        }
    return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
}

// Windows below about 50 ms give 0, and NaN for DRAM, with result 0 (580.159): a trap that readers must know.
static void measure(struct nvml_gpm_metric *m, const struct nvml_gpm_sample *from, const struct nvml_gpm_sample *to) {
    const struct gpm_metric *known = NULL;
    size_t i = 0;
    for (; i < GPM_METRICS && !known; i++)
        if (gpm_metrics[i].id == m->metricId)
            known = &gpm_metrics[i];
    m->value = 0;
    if (!known) {
        m->nvmlReturn = AL_NVML_ERROR_NOT_SUPPORTED;
        return;
    }
    m->metricInfo.shortName = (char *)known->name;
    m->metricInfo.longName = (char *)known->full;
    m->metricInfo.unit = (char *)(known->scale > 1 ? "%" : "MiB/s");
    m->nvmlReturn = to->filled ? standin_result(to->value[i - 1].status) : AL_NVML_ERROR_UNINITIALIZED;
    if (m->nvmlReturn)
        return;
    if (to->at_ns - from->at_ns < 50000000)
        m->value = m->metricId == AL_NVML_GPM_DRAM_BW_UTIL ? NAN : 0;
    else
        m->value = to->value[i - 1].num * known->scale;
}

int nvmlGpmMetricsGet(struct nvml_gpm_metrics *get) {
    struct call c;
    int result = standin_begin_system(&c, __func__);
    if (result)
        return result;
    if (!get || !get->sample1 || !get->sample2 || get->numMetrics >= AL_NVML_GPM_METRIC_MAX ||
        get->sample1->filled != get->sample2->filled)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    if (get->version != AL_NVML_GPM_METRICS_VERSION)
        return standin_end(AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    for (unsigned i = 0; i < get->numMetrics; i++)
        measure(&get->metrics[i], get->sample1, get->sample2);
    return standin_end(OK);
}
