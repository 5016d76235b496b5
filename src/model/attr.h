// SPDX-License-Identifier: Apache-2.0
// What a GPU is rather than what it does: names, versions, modes. Read when asked for, not every tick.
#ifndef AL_MODEL_ATTR_H
#define AL_MODEL_ATTR_H

#include <stdint.h>

// X(ID, name, T text or N number, help)
#define AL_ATTRS(X)                                                                                                    \
    X(NAME, "name", T, "product name")                                                                                 \
    X(BRAND, "brand", N, "brand as the driver numbers it")                                                             \
    X(SERIAL, "serial", T, "board serial number")                                                                      \
    X(UUID, "uuid", T, "GPU UUID")                                                                                     \
    X(MINOR, "minor_number", N, "N of /dev/nvidiaN")                                                                   \
    X(ARCHITECTURE, "architecture", N, "architecture as the driver numbers it (9 is Hopper)")                          \
    X(COMPUTE_CAP_MAJOR, "compute_capability_major", N, "CUDA compute capability, before the point")                   \
    X(COMPUTE_CAP_MINOR, "compute_capability_minor", N, "CUDA compute capability, behind the point")                   \
    X(PCI_BUS_ID, "pci_bus_id", T, "domain:bus:device.function with an 8-digit domain")                                \
    X(PCI_DOMAIN, "pci_domain", N, "PCI domain")                                                                       \
    X(PCI_BUS, "pci_bus", N, "PCI bus")                                                                                \
    X(PCI_DEVICE, "pci_device", N, "PCI device")                                                                       \
    X(PCI_DEVICE_ID, "pci_device_id", N, "PCI device and vendor id, 32 bits")                                          \
    X(PCI_SUBSYSTEM_ID, "pci_subsystem_id", N, "PCI subsystem id, 32 bits")                                            \
    X(PCI_BASE_CLASS, "pci_base_class", N, "PCI base class")                                                           \
    X(PCI_SUB_CLASS, "pci_sub_class", N, "PCI sub-class")                                                              \
    X(VBIOS, "vbios_version", T, "VBIOS version")                                                                      \
    X(INFOROM_IMAGE, "inforom_image_version", T, "infoROM image version")                                              \
    X(INFOROM_OEM, "inforom_oem_version", T, "infoROM OEM object version")                                             \
    X(INFOROM_ECC, "inforom_ecc_version", T, "infoROM ECC object version")                                             \
    X(INFOROM_POWER, "inforom_power_version", T, "infoROM power object version")                                       \
    X(INFOROM_CHECKSUM, "inforom_checksum_valid", N, "1 when the infoROM's checksum holds")                            \
    X(BOARD_PART, "board_part_number", T, "board part number")                                                         \
    X(BOARD_ID, "board_id", N, "board id")                                                                             \
    X(GSP_VERSION, "gsp_firmware_version", T, "GSP firmware version")                                                  \
    X(GSP_MODE, "gsp_mode", N, "1 when the GSP firmware runs")                                                         \
    X(GSP_MODE_DEFAULT, "gsp_mode_default", N, "1 when the GSP firmware runs by default")                              \
    X(DISPLAY_ATTACHED, "display_attached", N, "1 when a display is connected")                                        \
    X(DISPLAY_ACTIVE, "display_active", N, "1 when a display is initialised")                                          \
    X(PERSISTENCE, "persistence_mode", N, "1 when the driver stays loaded without clients")                            \
    X(ADDRESSING, "addressing_mode", N, "0 none, 1 HMM, 2 ATS")                                                        \
    X(ACCOUNTING, "accounting_mode", N, "1 when per-process accounting is on")                                         \
    X(ACCOUNTING_BUFFER, "accounting_buffer_size", N, "processes that accounting can remember")                        \
    X(DRIVER_MODEL, "driver_model", N, "0 WDDM, 1 WDM/TCC, 2 MCDM (Windows)")                                          \
    X(DRIVER_MODEL_PENDING, "driver_model_pending", N, "driver model after a restart (Windows)")                       \
    X(RECOVERY_ACTION, "gpu_recovery_action", N, "0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset")          \
    X(GOM, "gpu_operation_mode", N, "0 all on, 1 compute, 2 low double precision")                                     \
    X(GOM_PENDING, "gpu_operation_mode_pending", N, "operation mode after a restart")                                  \
    X(COMPUTE_MODE, "compute_mode", N, "0 default, 1 exclusive thread, 2 prohibited, 3 exclusive process")             \
    X(ECC_MODE, "ecc_mode", N, "1 when ECC is on")                                                                     \
    X(ECC_MODE_PENDING, "ecc_mode_pending", N, "ECC mode after a restart")                                             \
    X(MIG_MODE, "mig_mode", N, "1 when MIG is on")                                                                     \
    X(MIG_MODE_PENDING, "mig_mode_pending", N, "MIG mode after a reset")                                               \
    X(DRAM_ENCRYPTION, "dram_encryption_mode", N, "1 when DRAM is encrypted")                                          \
    X(DRAM_ENCRYPTION_PENDING, "dram_encryption_mode_pending", N, "DRAM encryption after a reset")                     \
    X(C2C_MODE, "c2c_mode", N, "1 when the chip-to-chip link is on")                                                   \
    X(VIRTUALIZATION, "virtualization_mode", N, "0 none, 1 passthrough, 2 vGPU, 3 host vGPU, 4 host vSGA")             \
    X(CLOCKS_SUPPORTED_REASONS, "clocks_event_reasons_supported", N, "clocks event reasons that this GPU can report")  \
    X(ENCODER_SESSIONS, "encoder_sessions", N, "open encoder sessions")                                                \
    X(ENCODER_FPS, "encoder_average_fps", N, "average frames a second of the encoder sessions")                        \
    X(ENCODER_LATENCY, "encoder_average_latency_us", N, "average encoding latency in microseconds")                    \
    X(PROTECTED_TOTAL, "protected_memory_total_bytes", N, "confidential-compute protected memory")                     \
    X(PROTECTED_USED, "protected_memory_used_bytes", N, "of that, used")                                               \
    X(PROTECTED_FREE, "protected_memory_free_bytes", N, "of that, free")                                               \
    X(MODULE_POWER_LIMIT, "module_power_limit_watts", N, "requested power limit of the module")                        \
    X(MODULE_POWER_ENFORCED, "module_power_enforced_limit_watts", N, "power limit of the module in force")             \
    X(MODULE_POWER_DEFAULT, "module_power_default_limit_watts", N, "power limit of the module after a restart")        \
    X(MODULE_POWER_MIN, "module_power_minimum_limit_watts", N, "lowest power limit of the module")                     \
    X(MODULE_POWER_MAX, "module_power_maximum_limit_watts", N, "highest power limit of the module")                    \
    X(FABRIC_STATE, "fabric_state", N, "0 not supported, 1 not started, 2 in progress, 3 completed")                   \
    X(FABRIC_STATUS, "fabric_status", N, "result of the fabric probe as an NVML code")                                 \
    X(FABRIC_CLIQUE, "fabric_clique_id", N, "fabric clique")                                                           \
    X(FABRIC_CLUSTER, "fabric_cluster_uuid", T, "fabric cluster UUID")                                                 \
    X(FABRIC_HEALTH, "fabric_health_mask", N, "fabric health bits")                                                    \
    X(FABRIC_SUMMARY, "fabric_health_summary", N, "0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity")       \
    X(PLATFORM_CHASSIS, "platform_chassis_serial_number", T, "chassis serial number")                                  \
    X(PLATFORM_SLOT, "platform_slot_number", N, "slot in the chassis")                                                 \
    X(PLATFORM_TRAY, "platform_tray_index", N, "tray in the chassis")                                                  \
    X(PLATFORM_HOST, "platform_host_id", N, "host in the chassis")                                                     \
    X(PLATFORM_PEER, "platform_peer_type", N, "1 direct, 2 switch")                                                    \
    X(PLATFORM_MODULE, "platform_module_id", N, "module in the host")                                                  \
    X(PLATFORM_GUID, "platform_fabric_guid", T, "fabric GUID of the GPU")                                              \
    X(VGPU_HETEROGENEOUS, "vgpu_heterogeneous_multi", N, "vGPU capability (driver wide)")                              \
    X(VGPU_FRACTIONAL, "vgpu_fractional_multi", N, "vGPU capability")                                                  \
    X(VGPU_TIMESLICE_PROFILE, "vgpu_heterogeneous_timeslice_profile", N, "vGPU capability")                            \
    X(VGPU_TIMESLICE_SIZES, "vgpu_heterogeneous_timeslice_sizes", N, "vGPU capability")                                \
    X(VGPU_PLACEMENTS, "vgpu_homogeneous_placements", N, "vGPU capability")                                            \
    X(VGPU_MIG_TIMESLICING, "vgpu_mig_timeslicing", N, "vGPU capability")                                              \
    X(VGPU_MIG_TIMESLICING_MODE, "vgpu_mig_timeslicing_mode", N, "vGPU capability")                                    \
    X(REMAP_COR_INACTIVE, "remapped_rows_correctable_inactive", N, "rows remapped but not in use, correctable")        \
    X(REMAP_UNC_INACTIVE, "remapped_rows_uncorrectable_inactive", N, "rows remapped but not in use, uncorrectable")    \
    X(POWER_SMOOTHING, "power_smoothing_supported", N, "1 when delayed power smoothing is supported")                  \
    X(CORES, "cuda_cores", N, "CUDA cores")                                                                            \
    X(BUS_WIDTH, "memory_bus_width_bits", N, "memory bus width")                                                       \
    X(MIG_DEVICES_MAX, "mig_devices_maximum", N, "MIG devices that the GPU can be cut into")                           \
    X(GPU_INSTANCE, "gpu_instance_id", N, "GPU instance of a MIG device")                                              \
    X(COMPUTE_INSTANCE, "compute_instance_id", N, "compute instance of a MIG device")

enum al_attr {
#define X(id, name, type, help) AL_ATTR_##id,
    AL_ATTRS(X)
#undef X
        AL_ATTR_COUNT
};

struct al_attr_info {
    const char *name;
    char type; // 'T' or 'N'
    const char *help;
};

#define AL_ATTR_TEXT 96

struct al_attr_value {
    uint32_t status; // enum al_status
    double num;      // type N
    char text[AL_ATTR_TEXT]; // type T
};

extern const struct al_attr_info al_attrs[AL_ATTR_COUNT];
int al_attr_find(const char *name); // -1 when unknown

#endif
