// SPDX-License-Identifier: Apache-2.0
// Versions, error texts, counting and finding devices.
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *nvmlErrorString(int result) {
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
        "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
        "Corrupted infoROM", "GPU is lost", "GPU requires reset", "GPU access blocked by the operating system",
        "Driver/library version mismatch", "In use by another client", "Insufficient Memory", "No data",
        "vGPU ECC not supported", "Insufficient Resources", "Invalid Frequency", "Argument version mismatch",
        "Requested functionality has been deprecated", "System is not in ready state", "No supported GPUs were found",
        "Resource not in correct state to perform requested operation", "Reset type is not supported for given device"};
    return result >= 0 && result < (int)(sizeof texts / sizeof *texts) ? texts[result] : "Unknown Error";
}

static const char *or_default(const char *text, const char *otherwise) {
    return text[0] ? text : otherwise;
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    struct call c;
    int result = standin_begin_system(&c, __func__);
    if (result)
        return result;
    return standin_end(standin_text(out, size, or_default(al_scenario_node(c.s)->driver_version, "580.159.04")));
}

// 580.159 answers this one before nvmlInit too; the stand-in has no scenario then.
int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    struct call c;
    char made[64];
    int result = standin_begin_system(&c, __func__);
    if (result)
        return result;
    const struct al_node *n = al_scenario_node(c.s);
    snprintf(made, sizeof made, "13.%s", or_default(n->driver_version, "580.159.04"));
    return standin_end(standin_text(out, size, or_default(n->nvml_version, made)));
}

static int cuda_version(const char *function, int *out) {
    struct call c;
    int major = 13, minor = 0;
    int result = standin_begin_system(&c, function);
    if (result)
        return result;
    if (!out)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    const char *text = al_scenario_node(c.s)->cuda_version;
    if (text[0])
        sscanf(text, "%3d.%3d", &major, &minor);
    *out = major * 1000 + minor * 10;
    return standin_end(OK);
}

int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    return cuda_version(__func__, out);
}

int nvmlSystemGetCudaDriverVersion(int *out) {
    return cuda_version(__func__, out);
}

int nvmlSystemGetDriverBranch(void *info, unsigned length) {
    struct call c;
    (void)info;
    (void)length;
    int result = standin_begin_system(&c, __func__);
    return result ? result : standin_end(AL_NVML_ERROR_NOT_SUPPORTED);
}

static int zero(const char *function, unsigned *out) {
    struct call c;
    int result = standin_begin_system(&c, function);
    if (result)
        return result;
    if (out)
        *out = 0;
    return standin_end(out ? OK : AL_NVML_ERROR_INVALID_ARGUMENT);
}

int nvmlUnitGetCount(unsigned *out) {
    return zero(__func__, out);
}

int nvmlGetExcludedDeviceCount(unsigned *out) {
    return zero(__func__, out);
}

int nvmlGetBlacklistDeviceCount(unsigned *out) {
    return zero(__func__, out);
}

static int device_count(const char *function, unsigned *out) {
    struct call c;
    const uint32_t *gpus;
    int result = standin_begin_system(&c, function);
    if (result)
        return result;
    if (out)
        *out = standin_boards(&gpus);
    return standin_end(out ? OK : AL_NVML_ERROR_INVALID_ARGUMENT);
}

int nvmlDeviceGetCount_v2(unsigned *out) {
    return device_count(__func__, out);
}

int nvmlDeviceGetCount(unsigned *out) {
    return device_count(__func__, out);
}

static int handle_result(const struct call *c, uint32_t gpu, struct nvml_device **out) {
    int result = standin_result(al_scenario_gpu_status(c->s, gpu, c->at_ns, NULL));
    if (!result)
        *out = standin_handle(gpu);
    return result;
}

static int by_index(const char *function, unsigned index, struct nvml_device **out) {
    struct call c;
    const uint32_t *gpus;
    int result = standin_begin_system(&c, function);
    if (result)
        return result;
    if (!out || index >= standin_boards(&gpus))
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    return standin_end(handle_result(&c, gpus[index], out));
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **out) {
    return by_index(__func__, index, out);
}

int nvmlDeviceGetHandleByIndex(unsigned index, struct nvml_device **out) {
    return by_index(__func__, index, out);
}

// The first device that `is` it: boards of the last nvmlInit and their MIG devices.
static int search(const char *function, const char *text, struct nvml_device **out,
                  bool (*is)(const struct al_gpu_info *i, const char *text)) {
    struct call c;
    const uint32_t *gpus;
    int result = standin_begin_system(&c, function);
    if (result)
        return result;
    if (!out || !text)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    uint32_t count = standin_boards(&gpus);
    for (uint32_t b = 0; b < count; b++) {
        if (is(al_scenario_gpu_info(c.s, gpus[b]), text))
            return standin_end(handle_result(&c, gpus[b], out));
        uint32_t mig;
        for (uint32_t n = 0; (mig = standin_children(&c, gpus[b], n)) != UINT32_MAX; n++)
            if (is(al_scenario_gpu_info(c.s, mig), text))
                return standin_end(handle_result(&c, mig, out));
    }
    return standin_end(AL_NVML_ERROR_NOT_FOUND);
}

static bool has_uuid(const struct al_gpu_info *i, const char *text) {
    return strcmp(i->uuid, text) == 0;
}

static bool has_serial(const struct al_gpu_info *i, const char *text) {
    return !i->is_mig && strcmp(i->serial, text) == 0;
}

// "00000000:83:00.0", "0000:83:00.0" and "83:00.0" are one place.
static bool parse_place(const char *text, unsigned *ret) {
    char *end;
    unsigned part[3] = {0, 0, 0};
    int given = 0;
    for (const char *p = text; given < 3; p = end + 1) {
        part[given++] = (unsigned)strtoul(p, &end, 16);
        if (end == p)
            return false;
        if (*end != ':')
            break;
    }
    bool domain = given == 3;
    ret[0] = domain ? part[0] : 0;
    ret[1] = domain ? part[1] : part[0];
    ret[2] = domain ? part[2] : part[1];
    return given >= 2 && (*end == '.' || !*end);
}

static bool has_place(const struct al_gpu_info *i, const char *text) {
    unsigned a[3], b[3];
    return !i->is_mig && parse_place(i->pci_bus_id, a) && parse_place(text, b) && memcmp(a, b, sizeof a) == 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct nvml_device **out) {
    return search(__func__, uuid, out, has_uuid);
}

int nvmlDeviceGetHandleBySerial(const char *serial, struct nvml_device **out) {
    return search(__func__, serial, out, has_serial);
}

static int by_place(const char *function, const char *bus_id, struct nvml_device **out) {
    unsigned place[3];
    int result = search(function, bus_id, out, has_place);
    return result == AL_NVML_ERROR_NOT_FOUND && !parse_place(bus_id, place) ? AL_NVML_ERROR_INVALID_ARGUMENT : result;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct nvml_device **out) {
    return by_place(__func__, bus_id, out);
}

int nvmlDeviceGetHandleByPciBusId(const char *bus_id, struct nvml_device **out) {
    return by_place(__func__, bus_id, out);
}
