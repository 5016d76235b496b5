// SPDX-License-Identifier: Apache-2.0
// MIG devices: handles, instance ids, what share of the board they are.
#include "standin.h"

#include <stdio.h>
#include <string.h>

int nvmlDeviceGetMaxMigDeviceCount(struct nvml_device *d, unsigned *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    if (standin_attr_u32(&c, AL_ATTR_MIG_DEVICES_MAX, out))
        *out = standin_info(&c)->mig_enabled ? 7 : 0;
    return standin_end(OK);
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct nvml_device *d, unsigned index, struct nvml_device **out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    uint32_t mig = out ? standin_children(&c, c.gpu, index) : UINT32_MAX;
    if (mig == UINT32_MAX)
        return standin_end(out ? AL_NVML_ERROR_NOT_FOUND : AL_NVML_ERROR_INVALID_ARGUMENT);
    *out = standin_handle(mig);
    return standin_end(OK);
}

int nvmlDeviceIsMigDeviceHandle(struct nvml_device *d, unsigned *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (out)
        *out = standin_info(&c)->is_mig;
    return standin_end(out ? OK : AL_NVML_ERROR_INVALID_ARGUMENT);
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct nvml_device *d, struct nvml_device **out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out || !standin_info(&c)->is_mig)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    *out = standin_handle((uint32_t)standin_info(&c)->parent);
    return standin_end(OK);
}

static int instance(const char *function, struct nvml_device *d, enum al_attr attr, unsigned *out) {
    int result = standin_attr_call(function, d, attr, out);
    return result == AL_NVML_ERROR_NOT_SUPPORTED ? AL_NVML_ERROR_INVALID_ARGUMENT : result;
}

int nvmlDeviceGetGpuInstanceId(struct nvml_device *d, unsigned *out) {
    return instance(__func__, d, AL_ATTR_GPU_INSTANCE, out);
}

int nvmlDeviceGetComputeInstanceId(struct nvml_device *d, unsigned *out) {
    return instance(__func__, d, AL_ATTR_COMPUTE_INSTANCE, out);
}

int nvmlDeviceGetIndex(struct nvml_device *d, unsigned *out) {
    struct call c;
    const uint32_t *gpus;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    *out = standin_info(&c)->index;
    uint32_t count = standin_boards(&gpus);
    for (uint32_t i = 0; i < count; i++)
        if (gpus[i] == c.gpu)
            *out = i;
    return standin_end(OK);
}

// "1c.2g.35gb": compute slices, GPU slices. Multiprocessors as an H200 has them: 16 a slice, 132 for all 7.
static int attributes(const char *function, struct nvml_device *d, struct nvml_attributes *out) {
    struct call c;
    unsigned compute = 0, slices = 0;
    uint64_t mib = 0;
    int result = standin_begin(&c, function, d);
    if (result)
        return result;
    if (!out)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    const char *profile = standin_info(&c)->mig_profile;
    if (!standin_info(&c)->is_mig)
        return standin_end(AL_NVML_ERROR_NOT_SUPPORTED);
    if (sscanf(profile, "%1uc.%1ug", &compute, &slices) != 2) {
        sscanf(profile, "%1ug", &slices);
        compute = slices;
    }
    standin_number(&c, AL_GPU_MEM_TOTAL, 1.0 / 1048576, &mib);
    *out = (struct nvml_attributes){.multiprocessorCount = compute == 7 ? 132 : compute * 16,
                                    .sharedCopyEngineCount = slices,
                                    .gpuInstanceSliceCount = slices,
                                    .computeInstanceSliceCount = compute,
                                    .memorySizeMB = mib};
    return standin_end(OK);
}

int nvmlDeviceGetAttributes_v2(struct nvml_device *d, struct nvml_attributes *out) {
    return attributes(__func__, d, out);
}

int nvmlDeviceGetAttributes(struct nvml_device *d, struct nvml_attributes *out) {
    return attributes(__func__, d, out);
}
