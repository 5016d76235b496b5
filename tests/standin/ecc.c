// SPDX-License-Identifier: Apache-2.0
// Memory errors, retired pages, remapped rows.
#include "standin.h"

#include <string.h>

static const enum al_gpu_metric totals[2][2] = {{AL_GPU_ECC_COR_VOL_TOTAL, AL_GPU_ECC_COR_AGG_TOTAL},
                                                {AL_GPU_ECC_UNC_VOL_TOTAL, AL_GPU_ECC_UNC_AGG_TOTAL}};

// By location, for each error type and counter type. The driver has no count for shared texture memory.
#define NONE AL_GPU_METRIC_COUNT
#define LOCATIONS(kind)                                                                                                \
    {AL_GPU_ECC_##kind##_L1_CACHE,       AL_GPU_ECC_##kind##_L2_CACHE, AL_GPU_ECC_##kind##_DRAM,                       \
     AL_GPU_ECC_##kind##_REGISTER_FILE,  AL_GPU_ECC_##kind##_TEXTURE_MEMORY, NONE,                                     \
     AL_GPU_ECC_##kind##_CBU,            AL_GPU_ECC_##kind##_SRAM}
static const enum al_gpu_metric places[2][2][8] = {{LOCATIONS(COR_VOL), LOCATIONS(COR_AGG)},
                                                   {LOCATIONS(UNC_VOL), LOCATIONS(UNC_AGG)}};

static int count_of(const char *function, struct nvml_device *d, enum al_gpu_metric metric, unsigned long long *out) {
    struct call c;
    uint64_t value = 0;
    int result = standin_begin(&c, function, d);
    if (result)
        return result;
    if (metric == NONE)
        return standin_end(AL_NVML_ERROR_NOT_SUPPORTED);
    result = out ? standin_number(&c, metric, 1, &value) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        *out = value;
    return standin_end(result);
}

int nvmlDeviceGetTotalEccErrors(struct nvml_device *d, unsigned type, unsigned counter, unsigned long long *out) {
    if (type > 1 || counter > 1)
        out = NULL;
    return count_of(__func__, d, totals[type > 1 ? 0 : type][counter > 1 ? 0 : counter], out);
}

int nvmlDeviceGetMemoryErrorCounter(struct nvml_device *d, unsigned type, unsigned counter, unsigned location,
                                    unsigned long long *out) {
    if (type > 1 || counter > 1 || location > 7)
        return count_of(__func__, d, totals[0][0], NULL);
    return count_of(__func__, d, places[type][counter][location], out);
}

int nvmlDeviceGetSramEccErrorStatus(struct nvml_device *d, struct nvml_sram_errors *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out || !VERSIONED(out, nvml_sram_errors, 1))
        return standin_end(out ? AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH : AL_NVML_ERROR_INVALID_ARGUMENT);
    const struct { unsigned long long *to; enum al_gpu_metric metric;
    } parts[] = {{&out->aggregateUncParity, AL_GPU_SRAM_UNC_AGG_PARITY},
                 {&out->aggregateUncSecDed, AL_GPU_SRAM_UNC_AGG_SECDED},
                 {&out->aggregateCor, AL_GPU_ECC_COR_AGG_SRAM},
                 {&out->volatileUncParity, AL_GPU_SRAM_UNC_VOL_PARITY},
                 {&out->volatileUncSecDed, AL_GPU_SRAM_UNC_VOL_SECDED},
                 {&out->volatileCor, AL_GPU_ECC_COR_VOL_SRAM},
                 {&out->aggregateUncBucketL2, AL_GPU_SRAM_UNC_AGG_L2},
                 {&out->aggregateUncBucketSm, AL_GPU_SRAM_UNC_AGG_SM},
                 {&out->aggregateUncBucketPcie, AL_GPU_SRAM_UNC_AGG_PCIE},
                 {&out->aggregateUncBucketMcu, AL_GPU_SRAM_UNC_AGG_MCU},
                 {&out->aggregateUncBucketOther, AL_GPU_SRAM_UNC_AGG_OTHER}};
    uint64_t value = 0;
    result = standin_number(&c, AL_GPU_SRAM_UNC_AGG_PARITY, 1, &value);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !result; i++) {
        value = 0;
        standin_number(&c, parts[i].metric, 1, &value);
        *parts[i].to = value;
    }
    if (!result) {
        out->bThresholdExceeded = 0;
        standin_u32(&c, AL_GPU_SRAM_THRESHOLD, 1, &out->bThresholdExceeded);
    }
    return standin_end(result);
}

// Addresses are made up; the count is the scenario's.
int nvmlDeviceGetRetiredPages(struct nvml_device *d, unsigned cause, unsigned *count, unsigned long long *addresses) {
    static const enum al_gpu_metric metrics[] = {AL_GPU_RETIRED_SBE, AL_GPU_RETIRED_DBE};
    struct call c;
    unsigned have = 0;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (cause > 1 || !count)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    result = standin_u32(&c, metrics[cause], 1, &have);
    if (!result && (*count < have || (have && !addresses)))
        result = AL_NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < have && !result; i++)
        addresses[i] = 0x10000ULL * (i + 1);
    if (!result || result == AL_NVML_ERROR_INSUFFICIENT_SIZE)
        *count = have;
    return standin_end(result);
}

int nvmlDeviceGetRetiredPagesPendingStatus(struct nvml_device *d, unsigned *out) {
    return standin_metric_call(__func__, d, AL_GPU_RETIRED_PENDING, 1, out);
}

int nvmlDeviceGetRemappedRows(struct nvml_device *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed) {
    static const enum al_gpu_metric metrics[] = {AL_GPU_REMAP_COR, AL_GPU_REMAP_UNC, AL_GPU_REMAP_PENDING,
                                                 AL_GPU_REMAP_FAILED};
    unsigned *const to[] = {corrected, uncorrected, pending, failed};
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    for (int i = 0; i < 4 && !result; i++)
        result = standin_u32(&c, metrics[i], 1, to[i]);
    return standin_end(result);
}

int nvmlDeviceGetRemappedRows_v2(struct nvml_device *d, struct nvml_remapped_rows_v2 *out) {
    struct call c;
    struct nvml_remapped_rows_v2 r;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    memset(&r, 0, sizeof r);
    result = out ? standin_u32(&c, AL_GPU_REMAP_COR, 1, &r.corrActiveRemaps) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result) {
        standin_u32(&c, AL_GPU_REMAP_UNC, 1, &r.uncActiveRemaps);
        standin_attr_u32(&c, AL_ATTR_REMAP_COR_INACTIVE, &r.corrInactiveRemaps);
        standin_attr_u32(&c, AL_ATTR_REMAP_UNC_INACTIVE, &r.uncInactiveRemaps);
        standin_u32(&c, AL_GPU_REMAP_PENDING, 1, &r.bPending);
        standin_u32(&c, AL_GPU_REMAP_FAILED, 1, &r.bFailureOccurred);
        *out = r;
    }
    return standin_end(result);
}

int nvmlDeviceGetRowRemapperHistogram(struct nvml_device *d, struct nvml_row_remapper_histogram *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    unsigned *const to[] = {&out->max, &out->high, &out->partial, &out->low, &out->none};
    static const enum al_gpu_metric metrics[] = {AL_GPU_REMAP_HIST_MAX, AL_GPU_REMAP_HIST_HIGH,
                                                 AL_GPU_REMAP_HIST_PARTIAL, AL_GPU_REMAP_HIST_LOW,
                                                 AL_GPU_REMAP_HIST_NONE};
    for (int i = 0; i < 5 && !result; i++)
        result = standin_u32(&c, metrics[i], 1, to[i]);
    return standin_end(result);
}
