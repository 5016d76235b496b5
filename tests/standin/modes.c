// SPDX-License-Identifier: Apache-2.0
// Attributes that come in structs: modes, fabric, platform, vGPU capabilities.
#include "standin.h"

#include <stdlib.h>
#include <string.h>

// A struct of a version word and one number.
static int versioned(const char *function, struct nvml_device *d, enum al_attr attr, unsigned *version, unsigned want,
                     unsigned *out) {
    struct call c;
    int result = standin_begin(&c, function, d);
    if (result)
        return result;
    if (!version || *version != want)
        return standin_end(version ? AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH : AL_NVML_ERROR_INVALID_ARGUMENT);
    return standin_end(standin_attr_u32(&c, attr, out));
}

int nvmlDeviceGetAddressingMode(struct nvml_device *d, struct nvml_addressing_mode *out) {
    return versioned(__func__, d, AL_ATTR_ADDRESSING, out ? &out->version : NULL,
                     NVML_WORD(struct nvml_addressing_mode, 1), out ? &out->value : NULL);
}

int nvmlDeviceGetVgpuHeterogeneousMode(struct nvml_device *d, struct nvml_vgpu_heterogeneous *out) {
    return versioned(__func__, d, AL_ATTR_VGPU_HETEROGENEOUS, out ? &out->version : NULL,
                     NVML_WORD(struct nvml_vgpu_heterogeneous, 1), out ? &out->mode : NULL);
}

int nvmlDeviceGetDramEncryptionMode(struct nvml_device *d, struct nvml_dram_encryption *current,
                                    struct nvml_dram_encryption *pending) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!current || !pending)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    if (!VERSIONED(current, nvml_dram_encryption, 1) || !VERSIONED(pending, nvml_dram_encryption, 1))
        return standin_end(AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    result = standin_attr_u32(&c, AL_ATTR_DRAM_ENCRYPTION, &current->encryptionState);
    return standin_end(result ? result
                              : standin_attr_u32(&c, AL_ATTR_DRAM_ENCRYPTION_PENDING, &pending->encryptionState));
}

int nvmlDeviceGetC2cModeInfoV(struct nvml_device *d, struct nvml_c2c_mode *out) {
    return standin_attr_call(__func__, d, AL_ATTR_C2C_MODE, out ? &out->isC2cEnabled : NULL);
}

static int supported_reasons(const char *function, struct nvml_device *d, unsigned long long *out) {
    unsigned bits = 0;
    int result = standin_attr_call(function, d, AL_ATTR_CLOCKS_SUPPORTED_REASONS, out ? &bits : NULL);
    if (!result)
        *out = bits;
    return result;
}

int nvmlDeviceGetSupportedClocksEventReasons(struct nvml_device *d, unsigned long long *out) {
    return supported_reasons(__func__, d, out);
}

int nvmlDeviceGetSupportedClocksThrottleReasons(struct nvml_device *d, unsigned long long *out) {
    return supported_reasons(__func__, d, out);
}

int nvmlDeviceGetEncoderStats(struct nvml_device *d, unsigned *sessions, unsigned *fps, unsigned *latency) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = standin_attr_u32(&c, AL_ATTR_ENCODER_SESSIONS, sessions);
    if (!result)
        result = standin_attr_u32(&c, AL_ATTR_ENCODER_FPS, fps);
    return standin_end(result ? result : standin_attr_u32(&c, AL_ATTR_ENCODER_LATENCY, latency));
}

int nvmlDeviceGetConfComputeProtectedMemoryUsage(struct nvml_device *d, struct nvml_memory *out) {
    static const enum al_attr attrs[] = {AL_ATTR_PROTECTED_TOTAL, AL_ATTR_PROTECTED_FREE, AL_ATTR_PROTECTED_USED};
    unsigned long long got[3];
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    for (int i = 0; i < 3 && !result; i++) {
        struct al_attr_value v;
        al_scenario_gpu_attr(c.s, c.gpu, attrs[i], c.at_ns, &v);
        result = standin_result(v.status);
        got[i] = v.num > 0 ? (unsigned long long)v.num : 0;
    }
    if (!out)
        result = AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        *out = (struct nvml_memory){got[0], got[1], got[2]};
    return standin_end(result);
}

// "01234567-89ab-…" to bytes; dashes are skipped.
static void uuid_bytes(const char *text, unsigned char *out, size_t size) {
    memset(out, 0, size);
    for (size_t i = 0; i < size && *text;) {
        char two[3] = {text[0], text[1], 0};
        if (*text == '-') {
            text++;
            continue;
        }
        if (!two[1])
            break;
        out[i++] = (unsigned char)strtoul(two, NULL, 16);
        text += 2;
    }
}

static int fabric(const struct call *c, struct nvml_fabric_v3 *out) {
    struct al_attr_value v;
    unsigned state = 0, status = 0, clique = 0, mask = 0, summary = 0;
    int result = standin_attr_u32(c, AL_ATTR_FABRIC_STATE, &state);
    if (result)
        return result;
    standin_attr_u32(c, AL_ATTR_FABRIC_STATUS, &status);
    standin_attr_u32(c, AL_ATTR_FABRIC_CLIQUE, &clique);
    standin_attr_u32(c, AL_ATTR_FABRIC_HEALTH, &mask);
    standin_attr_u32(c, AL_ATTR_FABRIC_SUMMARY, &summary);
    al_scenario_gpu_attr(c->s, c->gpu, AL_ATTR_FABRIC_CLUSTER, c->at_ns, &v);
    *out = (struct nvml_fabric_v3){.status = (int)status,
                                   .cliqueId = clique,
                                   .state = (unsigned char)state,
                                   .healthMask = mask,
                                   .healthSummary = (unsigned char)summary};
    uuid_bytes(v.status == AL_STATUS_OK ? v.text : "", out->clusterUuid, sizeof out->clusterUuid);
    return OK;
}

int nvmlDeviceGetGpuFabricInfo(struct nvml_device *d, struct nvml_fabric_v1 *out) {
    struct call c;
    struct nvml_fabric_v3 f;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = out ? fabric(&c, &f) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result) {
        *out = (struct nvml_fabric_v1){.status = f.status, .cliqueId = f.cliqueId, .state = f.state};
        memcpy(out->clusterUuid, f.clusterUuid, sizeof out->clusterUuid);
    }
    return standin_end(result);
}

// With state 0 (not supported) 580.159 fills the state alone.
int nvmlDeviceGetGpuFabricInfoV(struct nvml_device *d, struct nvml_fabric_v3 *out) {
    struct call c;
    struct nvml_fabric_v3 f;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    bool v3 = VERSIONED(out, nvml_fabric_v3, 3);
    if (!v3 && !VERSIONED(out, nvml_fabric_v2, 2))
        return standin_end(AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    result = fabric(&c, &f);
    if (result)
        return standin_end(result);
    out->state = f.state;
    if (f.state) { // the two versions share all but the last byte
        out->status = f.status;
        out->cliqueId = f.cliqueId;
        out->healthMask = f.healthMask;
        memcpy(out->clusterUuid, f.clusterUuid, sizeof out->clusterUuid);
        if (v3)
            out->healthSummary = f.healthSummary;
    }
    return standin_end(OK);
}

int nvmlDeviceGetPlatformInfo(struct nvml_device *d, struct nvml_platform_v2 *out) {
    struct call c;
    struct al_attr_value guid, chassis;
    unsigned slot = 0, tray = 0, host = 0, peer = 0, module = 0;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    bool v2 = VERSIONED(out, nvml_platform_v2, 2);
    if (!v2 && !VERSIONED(out, nvml_platform_v1, 1))
        return standin_end(AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    result = standin_attr_u32(&c, AL_ATTR_PLATFORM_MODULE, &module);
    if (result)
        return standin_end(result);
    standin_attr_u32(&c, AL_ATTR_PLATFORM_SLOT, &slot);
    standin_attr_u32(&c, AL_ATTR_PLATFORM_TRAY, &tray);
    standin_attr_u32(&c, AL_ATTR_PLATFORM_HOST, &host);
    standin_attr_u32(&c, AL_ATTR_PLATFORM_PEER, &peer);
    al_scenario_gpu_attr(c.s, c.gpu, AL_ATTR_PLATFORM_GUID, c.at_ns, &guid);
    al_scenario_gpu_attr(c.s, c.gpu, AL_ATTR_PLATFORM_CHASSIS, c.at_ns, &chassis);
    memset(out->ibGuid, 0, sizeof out->ibGuid);
    memset(out->chassisSerialNumber, 0, sizeof out->chassisSerialNumber);
    if (guid.status == AL_STATUS_OK)
        uuid_bytes(strncmp(guid.text, "0x", 2) == 0 ? guid.text + 2 : guid.text, out->ibGuid, sizeof out->ibGuid);
    if (v2 && chassis.status == AL_STATUS_OK)
        memcpy(out->chassisSerialNumber, chassis.text, strnlen(chassis.text, sizeof out->chassisSerialNumber - 1));
    out->slotNumber = (unsigned char)slot;
    out->trayIndex = (unsigned char)tray;
    out->hostId = (unsigned char)host;
    out->peerType = (unsigned char)peer;
    out->moduleId = (unsigned char)module;
    return standin_end(OK);
}

int nvmlDeviceGetVgpuCapabilities(struct nvml_device *d, unsigned capability, unsigned *out) {
    static const struct { unsigned capability; enum al_attr attr; } caps[] = {
        {AL_NVML_VGPU_CAP_FRACTIONAL, AL_ATTR_VGPU_FRACTIONAL},
        {AL_NVML_VGPU_CAP_TIMESLICE_PROFILES, AL_ATTR_VGPU_TIMESLICE_PROFILE},
        {AL_NVML_VGPU_CAP_TIMESLICE_SIZES, AL_ATTR_VGPU_TIMESLICE_SIZES},
        {AL_NVML_VGPU_CAP_HOMOGENEOUS_PLACEMENTS, AL_ATTR_VGPU_PLACEMENTS},
        {AL_NVML_VGPU_CAP_MIG_TIMESLICING, AL_ATTR_VGPU_MIG_TIMESLICING},
        {AL_NVML_VGPU_CAP_MIG_TIMESLICING_ENABLED, AL_ATTR_VGPU_MIG_TIMESLICING_MODE},
    };
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        if (caps[i].capability == capability)
            return standin_attr_call(__func__, d, caps[i].attr, out);
    struct call c;
    int result = standin_begin(&c, __func__, d);
    return result ? result : standin_end(AL_NVML_ERROR_NOT_SUPPORTED);
}

// Driver wide, but kept as an attribute of each GPU: the first speaks.
int nvmlGetVgpuDriverCapabilities(unsigned capability, unsigned *out) {
    struct call c;
    const uint32_t *gpus;
    int result = standin_begin_system(&c, __func__);
    if (result)
        return result;
    if (capability != 0 || standin_boards(&gpus) == 0)
        return standin_end(capability ? AL_NVML_ERROR_INVALID_ARGUMENT : AL_NVML_ERROR_NOT_SUPPORTED);
    c.gpu = gpus[0];
    return standin_end(standin_attr_u32(&c, AL_ATTR_VGPU_HETEROGENEOUS, out));
}
