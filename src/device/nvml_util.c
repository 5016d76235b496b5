// SPDX-License-Identifier: Apache-2.0
// The driver's buffered utilisation samples, and GPU performance monitoring (GPM).
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "device/nvml_backend.h"

#define FIRST_WINDOW_US 1000000ULL // how far the first sample looks back
#define FUTURE_US 1000000ULL       // a stamp that far ahead is not one
#define SAMPLES_FIRST 256          // the driver keeps 72 (580.159)
#define GPM_WINDOW_NS (100 * AL_NS_PER_MS) // shorter windows are often invalid

static uint64_t real_us(const struct al_nvml *n) {
    return (uint64_t)n->realtime() / 1000;
}

// Where to go on reading: after what was handed out, unless the clock was set back behind it.
static uint64_t continue_from(uint64_t last_us, uint64_t now_us) {
    if (last_us && last_us <= now_us + FUTURE_US)
        return last_us;
    return now_us > FIRST_WINDOW_US ? now_us - FIRST_WINDOW_US : 0;
}

static int fetch(struct al_nvml *n, struct al_nvml_gpu *g, uint64_t since_us, unsigned *ret_type, unsigned *ret_count) {
    int result = AL_NVML_ERROR_INSUFFICIENT_SIZE;
    uint32_t want = n->sample_cap ? n->sample_cap : SAMPLES_FIRST;
    *ret_count = 0;
    for (int attempt = 0; attempt < 4 && result == AL_NVML_ERROR_INSUFFICIENT_SIZE; attempt++) {
        if (al_nvml_grow((void **)&n->samples, &n->sample_cap, want, sizeof *n->samples))
            return AL_NVML_ERROR_MEMORY;
        unsigned count = n->sample_cap;
        result = NVML(n, nvmlDeviceGetSamples,
                      (g->handle, AL_NVML_SAMPLES_GPU_UTILIZATION, since_us, ret_type, &count, n->samples));
        // "Not found" is how the driver says that there is none newer; it leaves the count as it was.
        *ret_count = result == AL_NVML_SUCCESS && count <= n->sample_cap ? count : 0;
        want = n->sample_cap * 2;
    }
    return result == AL_NVML_ERROR_NOT_FOUND ? AL_NVML_SUCCESS : result;
}

static void hand_out(struct al_gpu *out, int64_t at_ns, double ratio) {
    if (out->fresh_count == AL_FRESH_MAX) { // the newest are the ones to keep
        memmove(out->fresh, out->fresh + 1, (AL_FRESH_MAX - 1) * sizeof *out->fresh);
        out->fresh_count--;
    }
    out->fresh[out->fresh_count++] = (struct al_fresh){at_ns, ratio};
}

void al_nvml_drain(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    unsigned type = AL_NVML_VALUE_UNSIGNED_INT, count;
    uint64_t now_us = real_us(n), since_us = continue_from(g->last_sample_us, now_us), newest_us = since_us;
    double sum = 0;
    uint32_t used = 0;
    int result = fetch(n, g, since_us, &type, &count);
    enum al_status status = al_nvml_status(result);
    int64_t now_ns = al_nvml_now(n);
    now_us = real_us(n);
    for (unsigned i = 0; i < count; i++) {
        bool valid;
        uint64_t at_us = n->samples[i].timeStamp;
        double percent = al_nvml_union_number(&n->samples[i].sampleValue, (int)type, &valid);
        if (at_us <= since_us || at_us > now_us + FUTURE_US || !valid || percent < 0 || percent > 100)
            continue;
        hand_out(out, now_ns - ((int64_t)now_us - (int64_t)at_us) * AL_NS_PER_US, percent / 100);
        sum += percent / 100;
        used++;
        newest_us = at_us > newest_us ? at_us : newest_us;
    }
    g->last_sample_us = newest_us;
    if (used) {
        g->mean = al_value_ok(sum / used, out->fresh[out->fresh_count - 1].at_ns);
        out->m[AL_GPU_UTIL_MEAN] = g->mean;
    } else if (status == AL_STATUS_OK) {
        out->m[AL_GPU_UTIL_MEAN] = g->mean;
        if (g->mean.status == AL_STATUS_OK)
            out->m[AL_GPU_UTIL_MEAN].status = AL_STATUS_STALE;
    } else if (!al_nvml_no_answer(status) && status != AL_STATUS_DENIED) {
        out->m[AL_GPU_UTIL_MEAN] = al_value_none(status);
    } // else the rates' reading stands there: whether it is a new one cannot be known
}

static const struct {
    uint16_t metric, id;
    double scale;
} gpm_metrics[AL_NVML_GPM_COUNT] = {
    {AL_GPU_GPM_GRAPHICS, AL_NVML_GPM_GRAPHICS_UTIL, 0.01},   {AL_GPU_GPM_SM, AL_NVML_GPM_SM_UTIL, 0.01},
    {AL_GPU_GPM_OCCUPANCY, AL_NVML_GPM_SM_OCCUPANCY, 0.01},   {AL_GPU_GPM_INTEGER, AL_NVML_GPM_INTEGER_UTIL, 0.01},
    {AL_GPU_GPM_TENSOR, AL_NVML_GPM_ANY_TENSOR_UTIL, 0.01},   {AL_GPU_GPM_DFMA, AL_NVML_GPM_DFMA_TENSOR_UTIL, 0.01},
    {AL_GPU_GPM_HMMA, AL_NVML_GPM_HMMA_TENSOR_UTIL, 0.01},    {AL_GPU_GPM_IMMA, AL_NVML_GPM_IMMA_TENSOR_UTIL, 0.01},
    {AL_GPU_GPM_DRAM, AL_NVML_GPM_DRAM_BW_UTIL, 0.01},        {AL_GPU_GPM_FP64, AL_NVML_GPM_FP64_UTIL, 0.01},
    {AL_GPU_GPM_FP32, AL_NVML_GPM_FP32_UTIL, 0.01},           {AL_GPU_GPM_FP16, AL_NVML_GPM_FP16_UTIL, 0.01},
    {AL_GPU_GPM_PCIE_TX, AL_NVML_GPM_PCIE_TX_PER_SEC, 1048576}, // MiB/s
    {AL_GPU_GPM_PCIE_RX, AL_NVML_GPM_PCIE_RX_PER_SEC, 1048576},
    {AL_GPU_GPM_NVLINK_TX, AL_NVML_GPM_NVLINK_TOTAL_TX_PER_SEC, 1048576},
    {AL_GPU_GPM_NVLINK_RX, AL_NVML_GPM_NVLINK_TOTAL_RX_PER_SEC, 1048576},
};

static void gpm_all(struct al_gpu *out, enum al_status status) {
    for (int i = 0; i < AL_NVML_GPM_COUNT; i++)
        out->m[gpm_metrics[i].metric] = al_value_none(status);
}

static void gpm_previous(const struct al_nvml_gpu *g, struct al_gpu *out) {
    for (int i = 0; i < AL_NVML_GPM_COUNT; i++) {
        out->m[gpm_metrics[i].metric] = g->gpm_last[i];
        if (g->gpm_last[i].status == AL_STATUS_OK)
            out->m[gpm_metrics[i].metric].status = AL_STATUS_STALE;
    }
}

// A MIG device is asked through its GPU and its GPU instance.
static struct nvml_device *gpm_handle(const struct al_nvml *n, const struct al_nvml_gpu *g) {
    return g->info.is_mig ? n->gpus[g->info.parent]->handle : g->handle;
}

static enum al_status gpm_prepare(struct al_nvml *n, struct al_nvml_gpu *g) {
    struct nvml_gpm_support support = {AL_NVML_GPM_SUPPORT_VERSION, 0};
    if (!n->api.nvmlGpmSampleGet || !n->api.nvmlGpmMetricsGet || !n->api.nvmlGpmSampleAlloc)
        return AL_STATUS_MISSING;
    if (g->info.is_mig && !n->api.nvmlGpmMigSampleGet)
        return AL_STATUS_MISSING;
    int result = NVML(n, nvmlGpmQueryDeviceSupport, (gpm_handle(n, g), &support));
    if (result != AL_NVML_SUCCESS)
        return al_nvml_status(result);
    if (!support.isSupportedDevice)
        return AL_STATUS_UNSUPPORTED;
    for (int i = 0; i < 2 && result == AL_NVML_SUCCESS; i++) {
        result = NVML(n, nvmlGpmSampleAlloc, (&g->gpm[i]));
        if (result == AL_NVML_SUCCESS && !g->gpm[i])
            result = AL_NVML_ERROR_MEMORY;
    }
    return al_nvml_status(result);
}

static int gpm_take(struct al_nvml *n, struct al_nvml_gpu *g, struct nvml_gpm_sample *sample) {
    if (g->info.is_mig)
        return NVML(n, nvmlGpmMigSampleGet, (gpm_handle(n, g), g->info.gpu_instance, sample));
    return NVML(n, nvmlGpmSampleGet, (g->handle, sample));
}

static int gpm_compare(struct al_nvml *n, struct al_nvml_gpu *g) {
    memset(&n->gpm, 0, sizeof n->gpm);
    n->gpm.version = AL_NVML_GPM_METRICS_VERSION;
    n->gpm.numMetrics = AL_NVML_GPM_COUNT;
    n->gpm.sample1 = g->gpm[0];
    n->gpm.sample2 = g->gpm[1];
    for (int i = 0; i < AL_NVML_GPM_COUNT; i++) {
        n->gpm.metrics[i].metricId = gpm_metrics[i].id;
        n->gpm.metrics[i].value = NAN;
    }
    return NVML(n, nvmlGpmMetricsGet, (&n->gpm));
}

// A pair between which the counters were not refreshed gives 0 for rates and NaN for ratios: with any NaN about, a 0
// says nothing and is not passed on.
static bool gpm_stale_pair(const struct al_nvml *n) {
    for (int i = 0; i < AL_NVML_GPM_COUNT; i++)
        if (n->gpm.metrics[i].nvmlReturn == AL_NVML_SUCCESS && isnan(n->gpm.metrics[i].value))
            return true;
    return false;
}

static void gpm_keep(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    bool stale = gpm_stale_pair(n);
    for (int i = 0; i < AL_NVML_GPM_COUNT; i++) {
        const struct nvml_gpm_metric *m = &n->gpm.metrics[i];
        struct al_value *last = &g->gpm_last[i], *to = &out->m[gpm_metrics[i].metric];
        if (m->nvmlReturn == AL_NVML_SUCCESS && stale && (isnan(m->value) || m->value == 0)) {
            *to = *last;
            if (last->status == AL_STATUS_OK)
                to->status = AL_STATUS_STALE;
            continue;
        }
        // Rounding in the driver's subtraction leaves a hair more than 100 %.
        double num = al_nvml_scaled(m->value, gpm_metrics[i].scale);
        if (gpm_metrics[i].scale < 1 && num > 1 && num < 1.01)
            num = 1;
        int result = m->nvmlReturn == AL_NVML_ERROR_INVALID_ARGUMENT ? AL_NVML_ERROR_NOT_SUPPORTED : m->nvmlReturn;
        *to = al_nvml_value(n, (enum al_gpu_metric)gpm_metrics[i].metric, result, num);
        *last = *to;
    }
}

void al_nvml_read_gpm(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    if (g->gpm_status == AL_STATUS_UNREAD)
        g->gpm_status = gpm_prepare(n, g);
    if (g->gpm_status != AL_STATUS_OK) {
        gpm_all(out, (enum al_status)g->gpm_status);
        return;
    }
    int64_t now = n->tick_ns;
    if (g->gpm_ns && now - g->gpm_ns < GPM_WINDOW_NS) {
        gpm_previous(g, out);
        return;
    }
    int result = gpm_take(n, g, g->gpm[g->gpm_ns ? 1 : 0]);
    if (result != AL_NVML_SUCCESS) {
        gpm_all(out, al_nvml_status(result));
        return;
    }
    if (!g->gpm_ns) { // the first: nothing to compare with yet
        g->gpm_ns = now;
        gpm_previous(g, out);
        return;
    }
    result = gpm_compare(n, g);
    if (result == AL_NVML_SUCCESS)
        gpm_keep(n, g, out);
    else
        gpm_all(out, al_nvml_status(result));
    struct nvml_gpm_sample *older = g->gpm[0];
    g->gpm[0] = g->gpm[1];
    g->gpm[1] = older;
    g->gpm_ns = now;
}
