// SPDX-License-Identifier: Apache-2.0
// Attributes that are a member of a struct: PCI, fabric, platform, encryption, rows, protected memory, encoder.
#include <stdio.h>
#include <string.h>

#include "device/nvml_attr.h"

union structs {
    struct nvml_pci_info_ext pci;
    struct nvml_fabric_v3 fabric;
    struct nvml_platform_v2 platform;
    struct nvml_memory memory;
    struct nvml_remapped_rows_v2 rows;
    struct nvml_addressing_mode addressing;
    struct nvml_c2c_mode c2c;
    struct nvml_dram_encryption encryption[2];
    unsigned encoder[3];
    int capability[2];
};

static bool unknown_version(int result) {
    return result == AL_NVML_ERROR_FUNCTION_NOT_FOUND || result == AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

static int ask_pci(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    s->pci.version = NVML_WORD(struct nvml_pci_info_ext, 1);
    int result = NVML(n, nvmlDeviceGetPciInfoExt, (d, &s->pci));
    if (!unknown_version(result))
        return result;
    struct nvml_pci_info old = {.busId = ""};
    result = NVML(n, nvmlDeviceGetPciInfo_v3, (d, &old));
    s->pci.domain = old.domain;
    s->pci.bus = old.bus;
    s->pci.device = old.device;
    s->pci.pciDeviceId = old.pciDeviceId;
    s->pci.pciSubSystemId = old.pciSubSystemId;
    s->pci.baseClass = s->pci.subClass = AL_NVML_NO_INSTANCE; // the older struct does not tell: becomes UNSUPPORTED
    memcpy(s->pci.busId, old.busId, sizeof s->pci.busId);
    return result;
}

// v2 is a beginning of v3; v1 has no version word in front.
static int ask_fabric(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    s->fabric.version = NVML_WORD(struct nvml_fabric_v3, 3);
    int result = NVML(n, nvmlDeviceGetGpuFabricInfoV, (d, &s->fabric));
    if (result == AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH) {
        s->fabric.version = NVML_WORD(struct nvml_fabric_v2, 2);
        result = NVML(n, nvmlDeviceGetGpuFabricInfoV, (d, &s->fabric));
    }
    if (!unknown_version(result))
        return result;
    struct nvml_fabric_v1 old;
    memset(&old, 0, sizeof old);
    result = NVML(n, nvmlDeviceGetGpuFabricInfo, (d, &old));
    s->fabric.status = old.status;
    s->fabric.cliqueId = old.cliqueId;
    s->fabric.state = old.state;
    s->fabric.healthMask = AL_NVML_NO_INSTANCE;
    memcpy(s->fabric.clusterUuid, old.clusterUuid, sizeof old.clusterUuid);
    return result;
}

static int ask_platform(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    s->platform.version = NVML_WORD(struct nvml_platform_v2, 2);
    return NVML(n, nvmlDeviceGetPlatformInfo, (d, &s->platform));
}
static int ask_protected(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    return NVML(n, nvmlDeviceGetConfComputeProtectedMemoryUsage, (d, &s->memory));
}
static int ask_rows(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    return NVML(n, nvmlDeviceGetRemappedRows_v2, (d, &s->rows));
}
static int ask_addressing(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    s->addressing.version = NVML_WORD(struct nvml_addressing_mode, 1);
    return NVML(n, nvmlDeviceGetAddressingMode, (d, &s->addressing));
}
static int ask_c2c(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    return NVML(n, nvmlDeviceGetC2cModeInfoV, (d, &s->c2c));
}
static int ask_encryption(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    s->encryption[0].version = s->encryption[1].version = NVML_WORD(struct nvml_dram_encryption, 1);
    return NVML(n, nvmlDeviceGetDramEncryptionMode, (d, &s->encryption[0], &s->encryption[1]));
}
static int ask_encoder(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    return NVML(n, nvmlDeviceGetEncoderStats, (d, &s->encoder[0], &s->encoder[1], &s->encoder[2]));
}
static int ask_capability(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    return NVML(n, nvmlDeviceGetCudaComputeCapability, (d, &s->capability[0], &s->capability[1]));
}

enum kind { BYTE, WORD, WIDE, STRING };

static const struct {
    uint8_t attr, kind;
    uint16_t offset;
    int (*ask)(struct al_nvml *n, struct nvml_device *d, union structs *s);
} members[] = {
#define M(attr, kind, member, ask) {AL_ATTR_##attr, kind, offsetof(union structs, member), ask}
    M(PCI_BUS_ID, STRING, pci.busId, ask_pci),
    M(PCI_DOMAIN, WORD, pci.domain, ask_pci),
    M(PCI_BUS, WORD, pci.bus, ask_pci),
    M(PCI_DEVICE, WORD, pci.device, ask_pci),
    M(PCI_DEVICE_ID, WORD, pci.pciDeviceId, ask_pci),
    M(PCI_SUBSYSTEM_ID, WORD, pci.pciSubSystemId, ask_pci),
    M(PCI_BASE_CLASS, WORD, pci.baseClass, ask_pci),
    M(PCI_SUB_CLASS, WORD, pci.subClass, ask_pci),
    M(FABRIC_STATE, BYTE, fabric.state, ask_fabric),
    M(FABRIC_STATUS, WORD, fabric.status, ask_fabric),
    M(FABRIC_CLIQUE, WORD, fabric.cliqueId, ask_fabric),
    M(FABRIC_HEALTH, WORD, fabric.healthMask, ask_fabric),
    M(FABRIC_SUMMARY, BYTE, fabric.healthSummary, ask_fabric),
    M(FABRIC_CLUSTER, STRING, fabric.clusterUuid, ask_fabric),
    M(PLATFORM_CHASSIS, STRING, platform.chassisSerialNumber, ask_platform),
    M(PLATFORM_SLOT, BYTE, platform.slotNumber, ask_platform),
    M(PLATFORM_TRAY, BYTE, platform.trayIndex, ask_platform),
    M(PLATFORM_HOST, BYTE, platform.hostId, ask_platform),
    M(PLATFORM_PEER, BYTE, platform.peerType, ask_platform),
    M(PLATFORM_GUID, STRING, platform.ibGuid, ask_platform),
    M(PROTECTED_TOTAL, WIDE, memory.total, ask_protected),
    M(PROTECTED_USED, WIDE, memory.used, ask_protected),
    M(PROTECTED_FREE, WIDE, memory.free, ask_protected),
    M(REMAP_COR_INACTIVE, WORD, rows.corrInactiveRemaps, ask_rows),
    M(REMAP_UNC_INACTIVE, WORD, rows.uncInactiveRemaps, ask_rows),
    M(ADDRESSING, WORD, addressing.value, ask_addressing),
    M(C2C_MODE, WORD, c2c.isC2cEnabled, ask_c2c),
    M(DRAM_ENCRYPTION, WORD, encryption[0].encryptionState, ask_encryption),
    M(DRAM_ENCRYPTION_PENDING, WORD, encryption[1].encryptionState, ask_encryption),
    M(COMPUTE_CAP_MAJOR, WORD, capability[0], ask_capability),
    M(COMPUTE_CAP_MINOR, WORD, capability[1], ask_capability),
    M(ENCODER_SESSIONS, WORD, encoder[0], ask_encoder),
    M(ENCODER_FPS, WORD, encoder[1], ask_encoder),
    M(ENCODER_LATENCY, WORD, encoder[2], ask_encoder),
#undef M
};

static void put_string(struct al_attr_value *ret, enum al_attr attr, int result, const unsigned char *bytes) {
    char text[AL_ATTR_TEXT] = "";
    int at = 0;
    if (attr == AL_ATTR_PLATFORM_GUID) { // 16 bytes; a GUID is the first 8
        for (int i = 0; i < 8; i++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%02x", i ? "" : "0x", bytes[i]);
    } else if (attr == AL_ATTR_FABRIC_CLUSTER) {
        for (int i = 0; i < AL_NVML_FABRIC_UUID_LEN; i++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%02x",
                           i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
    } else { // not NUL-terminated when full
        size_t size = attr == AL_ATTR_PCI_BUS_ID ? 32 : 16;
        memcpy(text, bytes, size);
    }
    al_nvml_attr_text(ret, result, text);
}

static bool from_member(struct al_nvml *n, struct nvml_device *d, enum al_attr attr, struct al_attr_value *ret) {
    union structs s;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const unsigned char *at = (const unsigned char *)&s + members[i].offset;
        unsigned long long wide = 0;
        unsigned word = 0;
        if (members[i].attr != attr)
            continue;
        memset(&s, 0, sizeof s);
        int result = members[i].ask(n, d, &s);
        // Without a fabric only the state is told, and the rest of the struct is left as it was.
        if (members[i].ask == ask_fabric && s.fabric.state == 0 && attr != AL_ATTR_FABRIC_STATE &&
            result == AL_NVML_SUCCESS)
            result = AL_NVML_ERROR_NOT_SUPPORTED;
        if (members[i].kind == STRING)
            put_string(ret, attr, result, at);
        else if (members[i].kind == BYTE)
            al_nvml_attr_number(ret, result, *at, false);
        else if (members[i].kind == WIDE)
            al_nvml_attr_number(ret, result, *(unsigned long long *)memcpy(&wide, at, sizeof wide), true);
        else
            al_nvml_attr_number(ret, result, *(unsigned *)memcpy(&word, at, sizeof word), false);
        return true;
    }
    return false;
}

static void checksum(struct al_nvml *n, struct nvml_device *d, struct al_attr_value *ret) {
    int result = NVML(n, nvmlDeviceValidateInforom, (d));
    bool corrupted = result == AL_NVML_ERROR_CORRUPTED_INFOROM;
    al_nvml_attr_number(ret, corrupted ? AL_NVML_SUCCESS : result, corrupted ? 0 : 1, false);
}

static void module_id(struct al_nvml *n, struct nvml_device *d, struct al_attr_value *ret) {
    union structs s;
    unsigned id = 0;
    int result = NVML(n, nvmlDeviceGetModuleId, (d, &id));
    if (unknown_version(result)) {
        memset(&s, 0, sizeof s);
        result = ask_platform(n, d, &s);
        id = s.platform.moduleId;
    }
    al_nvml_attr_number(ret, result, id, false);
}

void al_nvml_attr_struct(struct al_nvml *n, struct nvml_device *d, enum al_attr attr, struct al_attr_value *ret) {
    unsigned capability = 0;
    if (from_member(n, d, attr, ret))
        return;
    if (attr == AL_ATTR_INFOROM_CHECKSUM)
        checksum(n, d, ret);
    else if (attr == AL_ATTR_PLATFORM_MODULE)
        module_id(n, d, ret);
    else if (attr == AL_ATTR_VGPU_HETEROGENEOUS) {
        int result = NVML(n, nvmlGetVgpuDriverCapabilities, (0, &capability));
        al_nvml_attr_number(ret, result, capability, false);
    }
}
