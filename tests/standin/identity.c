// SPDX-License-Identifier: Apache-2.0
// What a device is: names, versions, modes.
#include "standin.h"

#include <stdio.h>
#include <string.h>

#define TEXT(function, attr)                                                                                           \
    int function(struct nvml_device *d, char *out, unsigned size)                                                      \
    {                                                                                                                  \
        return standin_text_call(#function, d, AL_ATTR_##attr, out, size);                                             \
    }
#define NUMBER(function, attr)                                                                                         \
    int function(struct nvml_device *d, unsigned *out)                                                                 \
    {                                                                                                                  \
        return standin_attr_call(#function, d, AL_ATTR_##attr, out);                                                   \
    }

TEXT(nvmlDeviceGetName, NAME)
TEXT(nvmlDeviceGetUUID, UUID)
TEXT(nvmlDeviceGetSerial, SERIAL)
TEXT(nvmlDeviceGetVbiosVersion, VBIOS)
TEXT(nvmlDeviceGetBoardPartNumber, BOARD_PART)
TEXT(nvmlDeviceGetInforomImageVersion, INFOROM_IMAGE)

NUMBER(nvmlDeviceGetBrand, BRAND)
NUMBER(nvmlDeviceGetArchitecture, ARCHITECTURE)
NUMBER(nvmlDeviceGetMinorNumber, MINOR)
NUMBER(nvmlDeviceGetBoardId, BOARD_ID)
NUMBER(nvmlDeviceGetDisplayMode, DISPLAY_ATTACHED)
NUMBER(nvmlDeviceGetDisplayActive, DISPLAY_ACTIVE)
NUMBER(nvmlDeviceGetPersistenceMode, PERSISTENCE)
NUMBER(nvmlDeviceGetAccountingMode, ACCOUNTING)
NUMBER(nvmlDeviceGetAccountingBufferSize, ACCOUNTING_BUFFER)
NUMBER(nvmlDeviceGetComputeMode, COMPUTE_MODE)
NUMBER(nvmlDeviceGetVirtualizationMode, VIRTUALIZATION)
NUMBER(nvmlDeviceGetModuleId, PLATFORM_MODULE)
NUMBER(nvmlDeviceGetNumGpuCores, CORES)
NUMBER(nvmlDeviceGetMemoryBusWidth, BUS_WIDTH)
NUMBER(nvmlDeviceGetDefaultEccMode, ECC_MODE)
NUMBER(nvmlDeviceGetInforomConfigurationChecksum, INFOROM_CHECKSUM)

static int pair(const char *function, struct nvml_device *d, enum al_attr first, enum al_attr second, unsigned *a,
                unsigned *b) {
    struct call c;
    int result = standin_begin(&c, function, d);
    if (result)
        return result;
    result = a && b ? standin_attr_u32(&c, first, a) : AL_NVML_ERROR_INVALID_ARGUMENT;
    return standin_end(result ? result : standin_attr_u32(&c, second, b));
}

#define PAIR(function, first, second)                                                                                  \
    int function(struct nvml_device *d, unsigned *a, unsigned *b)                                                      \
    {                                                                                                                  \
        return pair(#function, d, AL_ATTR_##first, AL_ATTR_##second, a, b);                                            \
    }

PAIR(nvmlDeviceGetGspFirmwareMode, GSP_MODE, GSP_MODE_DEFAULT)
PAIR(nvmlDeviceGetDriverModel_v2, DRIVER_MODEL, DRIVER_MODEL_PENDING)
PAIR(nvmlDeviceGetDriverModel, DRIVER_MODEL, DRIVER_MODEL_PENDING)
PAIR(nvmlDeviceGetGpuOperationMode, GOM, GOM_PENDING)
PAIR(nvmlDeviceGetEccMode, ECC_MODE, ECC_MODE_PENDING)
PAIR(nvmlDeviceGetMigMode, MIG_MODE, MIG_MODE_PENDING)

int nvmlDeviceGetCudaComputeCapability(struct nvml_device *d, int *major, int *minor) {
    unsigned a = 0, b = 0;
    int result =
        pair(__func__, d, AL_ATTR_COMPUTE_CAP_MAJOR, AL_ATTR_COMPUTE_CAP_MINOR, major ? &a : NULL, minor ? &b : NULL);
    if (!result) {
        *major = (int)a;
        *minor = (int)b;
    }
    return result;
}

int nvmlDeviceGetInforomVersion(struct nvml_device *d, unsigned object, char *out, unsigned size) {
    static const enum al_attr attrs[] = {AL_ATTR_INFOROM_OEM, AL_ATTR_INFOROM_ECC, AL_ATTR_INFOROM_POWER};
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (object >= 3)
        return standin_end(object == 3 ? AL_NVML_ERROR_NOT_SUPPORTED : AL_NVML_ERROR_INVALID_ARGUMENT);
    return standin_end(standin_attr_text(&c, attrs[object], out, size));
}

int nvmlDeviceValidateInforom(struct nvml_device *d) {
    struct call c;
    unsigned valid = 0;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = standin_attr_u32(&c, AL_ATTR_INFOROM_CHECKSUM, &valid);
    return standin_end(result || valid ? result : AL_NVML_ERROR_CORRUPTED_INFOROM);
}

int nvmlDeviceGetGspFirmwareVersion(struct nvml_device *d, char *out) {
    return standin_text_call(__func__, d, AL_ATTR_GSP_VERSION, out, 80);
}

int nvmlDeviceGetMultiGpuBoard(struct nvml_device *d, unsigned *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (out)
        *out = 0;
    return standin_end(out ? OK : AL_NVML_ERROR_INVALID_ARGUMENT);
}

// The numbers of nvmlPciInfo_t. Absent ids are 0, as the driver cannot leave them out.
struct place {
    unsigned domain, bus, device, id, subsystem, base_class, sub_class;
    char text[32], legacy[16];
};

static int place_of(const struct call *c, struct place *p) {
    struct al_attr_value v;
    unsigned function = 0;
    memset(p, 0, sizeof *p);
    al_scenario_gpu_attr(c->s, c->gpu, AL_ATTR_PCI_BUS_ID, c->at_ns, &v);
    if (v.status != AL_STATUS_OK)
        return standin_result(v.status);
    if (sscanf(v.text, "%8x:%2x:%2x.%1x", &p->domain, &p->bus, &p->device, &function) != 4)
        return AL_NVML_ERROR_UNKNOWN;
    snprintf(p->text, sizeof p->text, "%.31s", v.text);
    snprintf(p->legacy, sizeof p->legacy, "%04X:%02X:%02X.%x", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff,
             function);
    standin_attr_u32(c, AL_ATTR_PCI_DEVICE_ID, &p->id);
    standin_attr_u32(c, AL_ATTR_PCI_SUBSYSTEM_ID, &p->subsystem);
    standin_attr_u32(c, AL_ATTR_PCI_BASE_CLASS, &p->base_class);
    standin_attr_u32(c, AL_ATTR_PCI_SUB_CLASS, &p->sub_class);
    return OK;
}

int nvmlDeviceGetPciInfo_v3(struct nvml_device *d, struct nvml_pci_info *out) {
    struct call c;
    struct place p;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = out ? place_of(&c, &p) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result) {
        *out = (struct nvml_pci_info){.domain = p.domain, .bus = p.bus, .device = p.device, .pciDeviceId = p.id,
                                      .pciSubSystemId = p.subsystem};
        memcpy(out->busId, p.text, sizeof out->busId);
        memcpy(out->busIdLegacy, p.legacy, sizeof out->busIdLegacy);
    }
    return standin_end(result);
}

static int old_pci_info(const char *function, struct nvml_device *d, struct nvml_pci_info_v2 *out) {
    struct call c;
    struct place p;
    int result = standin_begin(&c, function, d);
    if (result)
        return result;
    result = out ? place_of(&c, &p) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result) {
        *out = (struct nvml_pci_info_v2){.domain = p.domain, .bus = p.bus, .device = p.device, .pciDeviceId = p.id,
                                         .pciSubSystemId = p.subsystem};
        memcpy(out->busIdLegacy, p.legacy, sizeof out->busIdLegacy);
    }
    return standin_end(result);
}

int nvmlDeviceGetPciInfo_v2(struct nvml_device *d, struct nvml_pci_info_v2 *out) {
    return old_pci_info(__func__, d, out);
}

int nvmlDeviceGetPciInfo(struct nvml_device *d, struct nvml_pci_info_v2 *out) {
    return old_pci_info(__func__, d, out);
}

int nvmlDeviceGetPciInfoExt(struct nvml_device *d, struct nvml_pci_info_ext *out) {
    struct call c;
    struct place p;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out || !VERSIONED(out, nvml_pci_info_ext, 1))
        return standin_end(out ? AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH : AL_NVML_ERROR_INVALID_ARGUMENT);
    result = place_of(&c, &p);
    if (!result) {
        *out = (struct nvml_pci_info_ext){out->version, p.domain, p.bus, p.device, p.id, p.subsystem, p.base_class,
                                          p.sub_class, ""};
        memcpy(out->busId, p.text, sizeof out->busId);
    }
    return standin_end(result);
}
