// SPDX-License-Identifier: Apache-2.0
// PCIe and NVLink.
#include "standin.h"

#define METRIC(function, metric)                                                                                       \
    int function(struct nvml_device *d, unsigned *out)                                                                 \
    {                                                                                                                  \
        return standin_metric_call(#function, d, AL_GPU_##metric, 1, out);                                             \
    }

METRIC(nvmlDeviceGetCurrPcieLinkGeneration, PCIE_GEN)
METRIC(nvmlDeviceGetMaxPcieLinkGeneration, PCIE_GEN_MAX)
METRIC(nvmlDeviceGetGpuMaxPcieLinkGeneration, PCIE_GEN_GPU_MAX)
METRIC(nvmlDeviceGetPcieLinkMaxSpeed, PCIE_GEN_GPU_MAX)
METRIC(nvmlDeviceGetCurrPcieLinkWidth, PCIE_WIDTH)
METRIC(nvmlDeviceGetMaxPcieLinkWidth, PCIE_WIDTH_MAX)
METRIC(nvmlDeviceGetPcieReplayCounter, PCIE_REPLAY)

// In kB/s. The driver counts for 20 ms before it answers; the stand-in does not make anybody wait.
int nvmlDeviceGetPcieThroughput(struct nvml_device *d, unsigned counter, unsigned *out) {
    static const enum al_gpu_metric metrics[] = {AL_GPU_PCIE_TX, AL_GPU_PCIE_RX};
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    return standin_end(counter < 2 ? standin_u32(&c, metrics[counter], 1e-3, out) : AL_NVML_ERROR_INVALID_ARGUMENT);
}

static int link_count(const struct call *c, unsigned *ret) {
    unsigned count = 0;
    int result = standin_u32(c, AL_GPU_NVLINK_LINKS, 1, &count);
    *ret = count;
    return result;
}

int nvmlDeviceGetNvLinkState(struct nvml_device *d, unsigned link, unsigned *out) {
    struct call c;
    unsigned count = 0, active = 0;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = out ? link_count(&c, &count) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result && link >= count)
        result = AL_NVML_ERROR_NOT_SUPPORTED;
    if (!result)
        result = standin_u32(&c, AL_GPU_NVLINK_ACTIVE, 1, &active);
    if (!result)
        *out = link < active;
    return standin_end(result);
}

// A scenario knows totals: they stand on link 0.
int nvmlDeviceGetNvLinkErrorCounter(struct nvml_device *d, unsigned link, unsigned counter, unsigned long long *out) {
    static const enum al_gpu_metric metrics[] = {AL_GPU_NVLINK_REPLAY, AL_GPU_NVLINK_RECOVERY, AL_GPU_NVLINK_CRC};
    struct call c;
    unsigned count = 0;
    uint64_t value = 0;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = out ? link_count(&c, &count) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result && (link >= count || counter > 4))
        result = AL_NVML_ERROR_NOT_SUPPORTED;
    if (!result && counter < 3)
        result = standin_number(&c, metrics[counter], 1, &value);
    if (!result)
        *out = link == 0 ? value : 0;
    return standin_end(result);
}
