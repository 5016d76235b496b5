// SPDX-License-Identifier: Apache-2.0
// The parts of NVML's binary interface that alula calls, in our own declarations: layouts, values and signatures only.
// Members carry the interface's own names, so that a test can compare offsets with any nvml.h. The stand-in driver
// (tests/standin) is built from the same file.
#ifndef AL_DEVICE_NVML_ABI_H
#define AL_DEVICE_NVML_ABI_H

#include <stddef.h>

// The "version" word that a versioned struct carries: its size, and the version in the top byte.
#define NVML_WORD(type, version) ((unsigned int)(sizeof(type) | ((unsigned int)(version) << 24)))

// Result codes: AL_NVML_<name>. X(name, value)
#define AL_NVML_RESULTS(X)                                                                                             \
    X(SUCCESS, 0)                                                                                                      \
    X(ERROR_UNINITIALIZED, 1)                                                                                          \
    X(ERROR_INVALID_ARGUMENT, 2)                                                                                       \
    X(ERROR_NOT_SUPPORTED, 3)                                                                                          \
    X(ERROR_NO_PERMISSION, 4)                                                                                          \
    X(ERROR_ALREADY_INITIALIZED, 5)                                                                                    \
    X(ERROR_NOT_FOUND, 6)                                                                                              \
    X(ERROR_INSUFFICIENT_SIZE, 7)                                                                                      \
    X(ERROR_INSUFFICIENT_POWER, 8)                                                                                     \
    X(ERROR_DRIVER_NOT_LOADED, 9)                                                                                      \
    X(ERROR_TIMEOUT, 10)                                                                                               \
    X(ERROR_IRQ_ISSUE, 11)                                                                                             \
    X(ERROR_LIBRARY_NOT_FOUND, 12)                                                                                     \
    X(ERROR_FUNCTION_NOT_FOUND, 13)                                                                                    \
    X(ERROR_CORRUPTED_INFOROM, 14)                                                                                     \
    X(ERROR_GPU_IS_LOST, 15)                                                                                           \
    X(ERROR_RESET_REQUIRED, 16)                                                                                        \
    X(ERROR_OPERATING_SYSTEM, 17)                                                                                      \
    X(ERROR_LIB_RM_VERSION_MISMATCH, 18)                                                                               \
    X(ERROR_IN_USE, 19)                                                                                                \
    X(ERROR_MEMORY, 20)                                                                                                \
    X(ERROR_NO_DATA, 21)                                                                                               \
    X(ERROR_VGPU_ECC_NOT_SUPPORTED, 22)                                                                                \
    X(ERROR_INSUFFICIENT_RESOURCES, 23)                                                                                \
    X(ERROR_FREQ_NOT_SUPPORTED, 24)                                                                                    \
    X(ERROR_ARGUMENT_VERSION_MISMATCH, 25)                                                                             \
    X(ERROR_DEPRECATED, 26)                                                                                            \
    X(ERROR_NOT_READY, 27)                                                                                             \
    X(ERROR_GPU_NOT_FOUND, 28)                                                                                         \
    X(ERROR_INVALID_STATE, 29)                                                                                         \
    X(ERROR_RESET_TYPE_NOT_SUPPORTED, 30)                                                                              \
    X(ERROR_UNKNOWN, 999)

enum al_nvml_result {
#define X(name, value) AL_NVML_##name = (value),
    AL_NVML_RESULTS(X)
#undef X
};

enum al_nvml_constant {
    AL_NVML_TEMPERATURE_GPU = 0,
    AL_NVML_THRESHOLD_SHUTDOWN = 0,
    AL_NVML_THRESHOLD_SLOWDOWN = 1,
    AL_NVML_THRESHOLD_MEM_MAX = 2,
    AL_NVML_THRESHOLD_GPU_MAX = 3,
    AL_NVML_CLOCK_GRAPHICS = 0,
    AL_NVML_CLOCK_SM = 1,
    AL_NVML_CLOCK_MEM = 2,
    AL_NVML_CLOCK_VIDEO = 3,
    AL_NVML_VOLATILE_ECC = 0,
    AL_NVML_AGGREGATE_ECC = 1,
    AL_NVML_ERROR_CORRECTED = 0,
    AL_NVML_ERROR_UNCORRECTED = 1,
    AL_NVML_LOCATION_L1_CACHE = 0,
    AL_NVML_LOCATION_L2_CACHE = 1,
    AL_NVML_LOCATION_DRAM = 2, // also called device memory
    AL_NVML_LOCATION_REGISTER_FILE = 3,
    AL_NVML_LOCATION_TEXTURE_MEMORY = 4,
    AL_NVML_LOCATION_TEXTURE_SHM = 5,
    AL_NVML_LOCATION_CBU = 6,
    AL_NVML_LOCATION_SRAM = 7,
    AL_NVML_SAMPLES_TOTAL_POWER = 0,
    AL_NVML_SAMPLES_GPU_UTILIZATION = 1,
    AL_NVML_SAMPLES_MEMORY_UTILIZATION = 2,
    AL_NVML_SAMPLES_ENC_UTILIZATION = 3,
    AL_NVML_SAMPLES_DEC_UTILIZATION = 4,
    AL_NVML_SAMPLES_PROCESSOR_CLK = 5,
    AL_NVML_SAMPLES_MEMORY_CLK = 6,
    AL_NVML_SAMPLES_MODULE_POWER = 7,
    AL_NVML_SAMPLES_JPG_UTILIZATION = 8,
    AL_NVML_SAMPLES_OFA_UTILIZATION = 9,
    AL_NVML_VALUE_DOUBLE = 0,
    AL_NVML_VALUE_UNSIGNED_INT = 1,
    AL_NVML_VALUE_UNSIGNED_LONG = 2,
    AL_NVML_VALUE_UNSIGNED_LONG_LONG = 3,
    AL_NVML_VALUE_SIGNED_LONG_LONG = 4,
    AL_NVML_VALUE_SIGNED_INT = 5,
    AL_NVML_VALUE_UNSIGNED_SHORT = 6,
    AL_NVML_PCIE_UTIL_TX_BYTES = 0, // KB/s over 20 ms
    AL_NVML_PCIE_UTIL_RX_BYTES = 1,
    AL_NVML_INFOROM_OEM = 0,
    AL_NVML_INFOROM_ECC = 1,
    AL_NVML_INFOROM_POWER = 2,
    AL_NVML_POLICY_POWER = 0,
    AL_NVML_POLICY_THERMAL = 1,
    AL_NVML_POLICY_SYNC_BOOST = 2,
    AL_NVML_POLICY_BOARD_LIMIT = 3,
    AL_NVML_POLICY_LOW_UTILIZATION = 4,
    AL_NVML_POLICY_RELIABILITY = 5,
    AL_NVML_POLICY_TOTAL_APP_CLOCKS = 10,
    AL_NVML_POLICY_TOTAL_BASE_CLOCKS = 11,
    AL_NVML_NVLINK_ERROR_REPLAY = 0,
    AL_NVML_NVLINK_ERROR_RECOVERY = 1,
    AL_NVML_NVLINK_ERROR_CRC_FLIT = 2,
    AL_NVML_NVLINK_ERROR_CRC_DATA = 3,
    AL_NVML_NVLINK_ERROR_ECC_DATA = 4,
    AL_NVML_NVLINK_MAX_LINKS = 36, // 18 until driver 570
    AL_NVML_RETIREMENT_SBE = 0,
    AL_NVML_RETIREMENT_DBE = 1,
    AL_NVML_EVENT_XID = 8,
    AL_NVML_PSTATE_UNKNOWN = 32,
    AL_NVML_GPM_METRICS_VERSION = 1, // not a size word
    AL_NVML_GPM_SUPPORT_VERSION = 1,
    AL_NVML_GPM_METRIC_MAX = 333, // 98 in CUDA 12's headers: the array's length, numMetrics says how many are used
    AL_NVML_VGPU_CAP_FRACTIONAL = 0,
    AL_NVML_VGPU_CAP_TIMESLICE_PROFILES = 1,
    AL_NVML_VGPU_CAP_TIMESLICE_SIZES = 2,
    AL_NVML_VGPU_CAP_HOMOGENEOUS_PLACEMENTS = 9,
    AL_NVML_VGPU_CAP_MIG_TIMESLICING = 10,
    AL_NVML_VGPU_CAP_MIG_TIMESLICING_ENABLED = 11,
    AL_NVML_FABRIC_UUID_LEN = 16,
};

// What used memory reads when the driver cannot tell, and an instance id that does not apply.
#define AL_NVML_VALUE_NOT_AVAILABLE 0xffffffffffffffffULL
#define AL_NVML_NO_INSTANCE 0xffffffffU

// Field value ids (nvmlDeviceGetFieldValues). X(name, id)
#define AL_NVML_FIELDS(X)                                                                                              \
    X(MEMORY_TEMP, 82)                                                                                                 \
    X(TOTAL_ENERGY, 83)                                                                                                \
    X(NVLINK_CRC_FLIT_TOTAL, 38)                                                                                       \
    X(NVLINK_CRC_DATA_TOTAL, 45)                                                                                       \
    X(NVLINK_REPLAY_TOTAL, 52)                                                                                         \
    X(NVLINK_RECOVERY_TOTAL, 59)                                                                                       \
    X(PERF_POLICY_POWER, 74)      /* ns; also the counter of clocks event reason SW power cap */                       \
    X(PERF_POLICY_THERMAL, 75)                                                                                         \
    X(PERF_POLICY_SYNC_BOOST, 76) /* ns; also the counter of clocks event reason sync boost */                         \
    X(PERF_POLICY_BOARD_LIMIT, 77)                                                                                     \
    X(PERF_POLICY_LOW_UTILIZATION, 78)                                                                                 \
    X(PERF_POLICY_RELIABILITY, 79)                                                                                     \
    X(PERF_POLICY_TOTAL_APP_CLOCKS, 80)                                                                                \
    X(PERF_POLICY_TOTAL_BASE_CLOCKS, 81)                                                                               \
    X(NVLINK_LINK_COUNT, 91)                                                                                           \
    X(PCIE_REPLAY, 94)                                                                                                 \
    X(NVLINK_DATA_TX, 138) /* KiB; scope UINT_MAX: all links */                                                        \
    X(NVLINK_DATA_RX, 139)                                                                                             \
    X(REMAPPED_COR, 142)                                                                                               \
    X(REMAPPED_UNC, 143)                                                                                               \
    X(REMAPPED_PENDING, 144)                                                                                           \
    X(REMAPPED_FAILURE, 145)                                                                                           \
    X(NVLINK_DL_REPLAY, 161) /* scope: link */                                                                         \
    X(NVLINK_DL_RECOVERY, 162)                                                                                         \
    X(NVLINK_DL_CRC, 163)                                                                                              \
    X(NVLINK_SPEED, 164)                                                                                               \
    X(NVLINK_STATE, 165)                                                                                               \
    X(C2C_LINK_COUNT, 170)                                                                                             \
    X(POWER_AVERAGE, 185)    /* mW; scope 0 GPU, 1 module, 2 memory */                                                 \
    X(POWER_INSTANT, 186)                                                                                              \
    X(POWER_MIN_LIMIT, 187)                                                                                            \
    X(POWER_MAX_LIMIT, 188)                                                                                            \
    X(POWER_DEFAULT_LIMIT, 189)                                                                                        \
    X(POWER_CURRENT_LIMIT, 190)                                                                                        \
    X(POWER_REQUESTED_LIMIT, 192)                                                                                      \
    X(TEMP_SHUTDOWN_TLIMIT, 193)                                                                                       \
    X(TEMP_SLOWDOWN_TLIMIT, 194)                                                                                       \
    X(TEMP_MEM_MAX_TLIMIT, 195)                                                                                        \
    X(TEMP_GPU_MAX_TLIMIT, 196)                                                                                        \
    X(RESET_STATUS, 226)                                                                                               \
    X(RECOVERY_ACTION, 230)                                                                                            \
    X(EVENT_SW_THERM_SLOWDOWN, 269) /* ns */                                                                           \
    X(EVENT_HW_THERM_SLOWDOWN, 270)                                                                                    \
    X(EVENT_HW_POWER_BRAKE, 271)                                                                                       \
    X(EDPP_MULTIPLIER, 274)                                                                                            \
    X(DELAYED_POWER_SMOOTHING, 280)                                                                                    \
    X(REMAPPED_COR_INACTIVE, 301)                                                                                      \
    X(REMAPPED_UNC_INACTIVE, 302)

enum al_nvml_field {
#define X(name, id) AL_NVML_FI_##name = (id),
    AL_NVML_FIELDS(X)
#undef X
};

// Metrics of GPU performance monitoring. X(name, id)
#define AL_NVML_GPM_METRICS(X)                                                                                         \
    X(GRAPHICS_UTIL, 1) /* percent */                                                                                  \
    X(SM_UTIL, 2)                                                                                                      \
    X(SM_OCCUPANCY, 3)                                                                                                 \
    X(INTEGER_UTIL, 4)                                                                                                 \
    X(ANY_TENSOR_UTIL, 5)                                                                                              \
    X(DFMA_TENSOR_UTIL, 6)                                                                                             \
    X(HMMA_TENSOR_UTIL, 7)                                                                                             \
    X(IMMA_TENSOR_UTIL, 9)                                                                                             \
    X(DRAM_BW_UTIL, 10)                                                                                                \
    X(FP64_UTIL, 11)                                                                                                   \
    X(FP32_UTIL, 12)                                                                                                   \
    X(FP16_UTIL, 13)                                                                                                   \
    X(PCIE_TX_PER_SEC, 20) /* MiB/s */                                                                                 \
    X(PCIE_RX_PER_SEC, 21)                                                                                             \
    X(NVLINK_TOTAL_RX_PER_SEC, 60) /* MiB/s */                                                                         \
    X(NVLINK_TOTAL_TX_PER_SEC, 61)

enum al_nvml_gpm_metric {
#define X(name, id) AL_NVML_GPM_##name = (id),
    AL_NVML_GPM_METRICS(X)
#undef X
};

// Handles; opaque.
struct nvml_device;
struct nvml_event_set;
struct nvml_gpm_sample;

union nvml_value {
    double dVal;
    int siVal;
    unsigned int uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    signed long long sllVal;
    unsigned short usVal;
};
struct nvml_pci_info {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
};
// What nvmlDeviceGetPciInfo and _v2 fill: four words that the driver keeps follow in the first, none has busId.
struct nvml_pci_info_v2 {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    unsigned int reserved[4];
};
struct nvml_pci_info_ext { // version word 1
    unsigned int version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
    char busId[32];
};
struct nvml_utilization { // percent
    unsigned int gpu, memory;
};
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_memory_v2 { // version word 2
    unsigned int version;
    unsigned long long total, reserved, free, used;
};
struct nvml_bar1_memory {
    unsigned long long bar1Total, bar1Free, bar1Used;
};
struct nvml_process_v1 {
    unsigned int pid;
    unsigned long long usedGpuMemory;
};
struct nvml_process_v2 { // of the _v2 and the _v3 functions
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
};
struct nvml_attributes {
    unsigned int multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount,
        sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
    unsigned long long memorySizeMB;
};
struct nvml_row_remapper_histogram {
    unsigned int max, high, partial, low, none;
};
struct nvml_remapped_rows_v2 {
    unsigned int corrActiveRemaps, corrInactiveRemaps, uncActiveRemaps, uncInactiveRemaps, bPending, bFailureOccurred;
};
struct nvml_sample { // timeStamp: microseconds since the epoch
    unsigned long long timeStamp;
    union nvml_value sampleValue;
};
struct nvml_violation_time { // microseconds, nanoseconds
    unsigned long long referenceTime, violationTime;
};
struct nvml_field_value {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType, nvmlReturn;
    union nvml_value value;
};
struct nvml_event_data {
    struct nvml_device *device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
};
struct nvml_process_sample { // percent, microseconds since the epoch
    unsigned int pid;
    unsigned long long timeStamp;
    unsigned int smUtil, memUtil, encUtil, decUtil;
};
struct nvml_process_util {
    unsigned long long timeStamp;
    unsigned int pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
};
struct nvml_processes_util { // version word 1
    unsigned int version, processSamplesCount;
    unsigned long long lastSeenTimeStamp;
    struct nvml_process_util *procUtilArray;
};
struct nvml_sram_errors { // version word 1
    unsigned int version;
    unsigned long long aggregateUncParity, aggregateUncSecDed, aggregateCor, volatileUncParity, volatileUncSecDed,
        volatileCor, aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie, aggregateUncBucketMcu,
        aggregateUncBucketOther;
    unsigned int bThresholdExceeded;
};
struct nvml_gpm_metric {
    unsigned int metricId;
    int nvmlReturn;
    double value;
    struct {
        char *shortName, *longName, *unit;
    } metricInfo;
};
struct nvml_gpm_metrics {
    unsigned int version, numMetrics;
    struct nvml_gpm_sample *sample1, *sample2;
    struct nvml_gpm_metric metrics[AL_NVML_GPM_METRIC_MAX];
};
struct nvml_gpm_support {
    unsigned int version, isSupportedDevice;
};
struct nvml_fabric_v1 { // of nvmlDeviceGetGpuFabricInfo
    unsigned char clusterUuid[AL_NVML_FABRIC_UUID_LEN];
    int status;
    unsigned int cliqueId;
    unsigned char state;
};
struct nvml_fabric_v2 { // version word 2
    unsigned int version;
    unsigned char clusterUuid[AL_NVML_FABRIC_UUID_LEN];
    int status;
    unsigned int cliqueId;
    unsigned char state;
    unsigned int healthMask;
};
struct nvml_fabric_v3 { // version word 3
    unsigned int version;
    unsigned char clusterUuid[AL_NVML_FABRIC_UUID_LEN];
    int status;
    unsigned int cliqueId;
    unsigned char state;
    unsigned int healthMask;
    unsigned char healthSummary;
};
struct nvml_platform_v1 { // version word 1
    unsigned int version;
    unsigned char ibGuid[16], rackGuid[16];
    unsigned char chassisPhysicalSlotNumber, computeSlotIndex, nodeIndex, peerType, moduleId;
};
struct nvml_platform_v2 { // version word 2
    unsigned int version;
    unsigned char ibGuid[16], chassisSerialNumber[16];
    unsigned char slotNumber, trayIndex, hostId, peerType, moduleId;
};
struct nvml_temperature { // version word 1
    unsigned int version, sensorType;
    int temperature;
};
struct nvml_margin_temperature { // version word 1
    unsigned int version;
    int marginTemperature;
};
struct nvml_c2c_mode {
    unsigned int isC2cEnabled;
};
struct nvml_addressing_mode { // version word 1
    unsigned int version, value;
};
struct nvml_dram_encryption { // version word 1
    unsigned int version, encryptionState;
};
struct nvml_vgpu_heterogeneous { // version word 1
    unsigned int version, mode;
};
struct nvml_process_detail {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
    unsigned long long usedGpuCcProtectedMemory;
};
struct nvml_process_details { // version word 1
    unsigned int version, mode, numProcArrayEntries;
    struct nvml_process_detail *procArray;
};

// Every function that alula may call: X(exported name, parameters). All return enum al_nvml_result as int; enumerated
// parameters are passed as unsigned int.
#define AL_NVML_FUNCTIONS(X)                                                                                           \
    X(nvmlInit_v2, (void))                                                                                             \
    X(nvmlInit, (void))                                                                                                \
    X(nvmlShutdown, (void))                                                                                            \
    X(nvmlSystemGetDriverVersion, (char *, unsigned))                                                                  \
    X(nvmlSystemGetNVMLVersion, (char *, unsigned))                                                                    \
    X(nvmlSystemGetCudaDriverVersion_v2, (int *))                                                                      \
    X(nvmlSystemGetCudaDriverVersion, (int *))                                                                         \
    X(nvmlSystemGetProcessName, (unsigned, char *, unsigned))                                                          \
    X(nvmlDeviceGetCount_v2, (unsigned *))                                                                             \
    X(nvmlDeviceGetCount, (unsigned *))                                                                                \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned, struct nvml_device **))                                                \
    X(nvmlDeviceGetHandleByIndex, (unsigned, struct nvml_device **))                                                   \
    X(nvmlDeviceGetName, (struct nvml_device *, char *, unsigned))                                                     \
    X(nvmlDeviceGetUUID, (struct nvml_device *, char *, unsigned))                                                     \
    X(nvmlDeviceGetSerial, (struct nvml_device *, char *, unsigned))                                                   \
    X(nvmlDeviceGetVbiosVersion, (struct nvml_device *, char *, unsigned))                                             \
    X(nvmlDeviceGetBoardPartNumber, (struct nvml_device *, char *, unsigned))                                          \
    X(nvmlDeviceGetInforomVersion, (struct nvml_device *, unsigned, char *, unsigned))                                 \
    X(nvmlDeviceGetInforomImageVersion, (struct nvml_device *, char *, unsigned))                                      \
    X(nvmlDeviceGetInforomConfigurationChecksum, (struct nvml_device *, unsigned *))                                   \
    X(nvmlDeviceValidateInforom, (struct nvml_device *))                                                               \
    X(nvmlDeviceGetGspFirmwareVersion, (struct nvml_device *, char *))                                                 \
    X(nvmlDeviceGetGspFirmwareMode, (struct nvml_device *, unsigned *, unsigned *))                                    \
    X(nvmlDeviceGetBrand, (struct nvml_device *, unsigned *))                                                          \
    X(nvmlDeviceGetArchitecture, (struct nvml_device *, unsigned *))                                                   \
    X(nvmlDeviceGetMinorNumber, (struct nvml_device *, unsigned *))                                                    \
    X(nvmlDeviceGetBoardId, (struct nvml_device *, unsigned *))                                                        \
    X(nvmlDeviceGetCudaComputeCapability, (struct nvml_device *, int *, int *))                                        \
    X(nvmlDeviceGetPciInfo_v3, (struct nvml_device *, struct nvml_pci_info *))                                         \
    X(nvmlDeviceGetPciInfo_v2, (struct nvml_device *, struct nvml_pci_info_v2 *))                                      \
    X(nvmlDeviceGetPciInfo, (struct nvml_device *, struct nvml_pci_info_v2 *))                                         \
    X(nvmlDeviceGetPciInfoExt, (struct nvml_device *, struct nvml_pci_info_ext *))                                     \
    X(nvmlDeviceGetDisplayMode, (struct nvml_device *, unsigned *))                                                    \
    X(nvmlDeviceGetDisplayActive, (struct nvml_device *, unsigned *))                                                  \
    X(nvmlDeviceGetPersistenceMode, (struct nvml_device *, unsigned *))                                                \
    X(nvmlDeviceGetAddressingMode, (struct nvml_device *, struct nvml_addressing_mode *))                              \
    X(nvmlDeviceGetAccountingMode, (struct nvml_device *, unsigned *))                                                 \
    X(nvmlDeviceGetAccountingBufferSize, (struct nvml_device *, unsigned *))                                           \
    X(nvmlDeviceGetDriverModel_v2, (struct nvml_device *, unsigned *, unsigned *))                                     \
    X(nvmlDeviceGetDriverModel, (struct nvml_device *, unsigned *, unsigned *))                                        \
    X(nvmlDeviceGetGpuOperationMode, (struct nvml_device *, unsigned *, unsigned *))                                   \
    X(nvmlDeviceGetComputeMode, (struct nvml_device *, unsigned *))                                                    \
    X(nvmlDeviceGetEccMode, (struct nvml_device *, unsigned *, unsigned *))                                            \
    X(nvmlDeviceGetMigMode, (struct nvml_device *, unsigned *, unsigned *))                                            \
    X(nvmlDeviceGetDramEncryptionMode,                                                                                 \
      (struct nvml_device *, struct nvml_dram_encryption *, struct nvml_dram_encryption *))                            \
    X(nvmlDeviceGetC2cModeInfoV, (struct nvml_device *, struct nvml_c2c_mode *))                                       \
    X(nvmlDeviceGetVirtualizationMode, (struct nvml_device *, unsigned *))                                             \
    X(nvmlDeviceGetSupportedClocksEventReasons, (struct nvml_device *, unsigned long long *))                          \
    X(nvmlDeviceGetSupportedClocksThrottleReasons, (struct nvml_device *, unsigned long long *))                       \
    X(nvmlDeviceGetEncoderStats, (struct nvml_device *, unsigned *, unsigned *, unsigned *))                           \
    X(nvmlDeviceGetConfComputeProtectedMemoryUsage, (struct nvml_device *, struct nvml_memory *))                      \
    X(nvmlDeviceGetGpuFabricInfoV, (struct nvml_device *, struct nvml_fabric_v3 *))                                    \
    X(nvmlDeviceGetGpuFabricInfo, (struct nvml_device *, struct nvml_fabric_v1 *))                                     \
    X(nvmlDeviceGetPlatformInfo, (struct nvml_device *, struct nvml_platform_v2 *))                                    \
    X(nvmlDeviceGetVgpuCapabilities, (struct nvml_device *, unsigned, unsigned *))                                     \
    X(nvmlGetVgpuDriverCapabilities, (unsigned, unsigned *))                                                           \
    X(nvmlDeviceGetModuleId, (struct nvml_device *, unsigned *))                                                       \
    X(nvmlDeviceGetVgpuHeterogeneousMode, (struct nvml_device *, struct nvml_vgpu_heterogeneous *))                    \
    X(nvmlDeviceGetNumGpuCores, (struct nvml_device *, unsigned *))                                                    \
    X(nvmlDeviceGetMemoryBusWidth, (struct nvml_device *, unsigned *))                                                 \
    X(nvmlDeviceGetMaxMigDeviceCount, (struct nvml_device *, unsigned *))                                              \
    X(nvmlDeviceGetMigDeviceHandleByIndex, (struct nvml_device *, unsigned, struct nvml_device **))                    \
    X(nvmlDeviceGetGpuInstanceId, (struct nvml_device *, unsigned *))                                                  \
    X(nvmlDeviceGetComputeInstanceId, (struct nvml_device *, unsigned *))                                              \
    X(nvmlDeviceGetAttributes_v2, (struct nvml_device *, struct nvml_attributes *))                                    \
    X(nvmlDeviceGetAttributes, (struct nvml_device *, struct nvml_attributes *))                                       \
    X(nvmlDeviceGetUtilizationRates, (struct nvml_device *, struct nvml_utilization *))                                \
    X(nvmlDeviceGetMemoryInfo_v2, (struct nvml_device *, struct nvml_memory_v2 *))                                     \
    X(nvmlDeviceGetMemoryInfo, (struct nvml_device *, struct nvml_memory *))                                           \
    X(nvmlDeviceGetBAR1MemoryInfo, (struct nvml_device *, struct nvml_bar1_memory *))                                  \
    X(nvmlDeviceGetTemperature, (struct nvml_device *, unsigned, unsigned *))                                          \
    X(nvmlDeviceGetTemperatureV, (struct nvml_device *, struct nvml_temperature *))                                    \
    X(nvmlDeviceGetTemperatureThreshold, (struct nvml_device *, unsigned, unsigned *))                                 \
    X(nvmlDeviceGetMarginTemperature, (struct nvml_device *, struct nvml_margin_temperature *))                        \
    X(nvmlDeviceGetPowerUsage, (struct nvml_device *, unsigned *))                                                     \
    X(nvmlDeviceGetPowerManagementLimit, (struct nvml_device *, unsigned *))                                           \
    X(nvmlDeviceGetPowerManagementLimitConstraints, (struct nvml_device *, unsigned *, unsigned *))                    \
    X(nvmlDeviceGetPowerManagementDefaultLimit, (struct nvml_device *, unsigned *))                                    \
    X(nvmlDeviceGetEnforcedPowerLimit, (struct nvml_device *, unsigned *))                                             \
    X(nvmlDeviceGetTotalEnergyConsumption, (struct nvml_device *, unsigned long long *))                               \
    X(nvmlDeviceGetClockInfo, (struct nvml_device *, unsigned, unsigned *))                                            \
    X(nvmlDeviceGetMaxClockInfo, (struct nvml_device *, unsigned, unsigned *))                                         \
    X(nvmlDeviceGetApplicationsClock, (struct nvml_device *, unsigned, unsigned *))                                    \
    X(nvmlDeviceGetDefaultApplicationsClock, (struct nvml_device *, unsigned, unsigned *))                             \
    X(nvmlDeviceGetPerformanceState, (struct nvml_device *, unsigned *))                                               \
    X(nvmlDeviceGetCurrentClocksEventReasons, (struct nvml_device *, unsigned long long *))                            \
    X(nvmlDeviceGetCurrentClocksThrottleReasons, (struct nvml_device *, unsigned long long *))                         \
    X(nvmlDeviceGetEncoderUtilization, (struct nvml_device *, unsigned *, unsigned *))                                 \
    X(nvmlDeviceGetDecoderUtilization, (struct nvml_device *, unsigned *, unsigned *))                                 \
    X(nvmlDeviceGetJpgUtilization, (struct nvml_device *, unsigned *, unsigned *))                                     \
    X(nvmlDeviceGetOfaUtilization, (struct nvml_device *, unsigned *, unsigned *))                                     \
    X(nvmlDeviceGetFanSpeed, (struct nvml_device *, unsigned *))                                                       \
    X(nvmlDeviceGetViolationStatus, (struct nvml_device *, unsigned, struct nvml_violation_time *))                    \
    X(nvmlDeviceGetFieldValues, (struct nvml_device *, int, struct nvml_field_value *))                                \
    X(nvmlDeviceGetCurrPcieLinkGeneration, (struct nvml_device *, unsigned *))                                         \
    X(nvmlDeviceGetMaxPcieLinkGeneration, (struct nvml_device *, unsigned *))                                          \
    X(nvmlDeviceGetGpuMaxPcieLinkGeneration, (struct nvml_device *, unsigned *))                                       \
    X(nvmlDeviceGetCurrPcieLinkWidth, (struct nvml_device *, unsigned *))                                              \
    X(nvmlDeviceGetMaxPcieLinkWidth, (struct nvml_device *, unsigned *))                                               \
    X(nvmlDeviceGetPcieReplayCounter, (struct nvml_device *, unsigned *))                                              \
    X(nvmlDeviceGetPcieThroughput, (struct nvml_device *, unsigned, unsigned *))                                       \
    X(nvmlDeviceGetNvLinkState, (struct nvml_device *, unsigned, unsigned *))                                          \
    X(nvmlDeviceGetNvLinkErrorCounter, (struct nvml_device *, unsigned, unsigned, unsigned long long *))               \
    X(nvmlDeviceGetTotalEccErrors, (struct nvml_device *, unsigned, unsigned, unsigned long long *))                   \
    X(nvmlDeviceGetMemoryErrorCounter,                                                                                 \
      (struct nvml_device *, unsigned, unsigned, unsigned, unsigned long long *))                                      \
    X(nvmlDeviceGetSramEccErrorStatus, (struct nvml_device *, struct nvml_sram_errors *))                              \
    X(nvmlDeviceGetRetiredPages, (struct nvml_device *, unsigned, unsigned *, unsigned long long *))                   \
    X(nvmlDeviceGetRetiredPagesPendingStatus, (struct nvml_device *, unsigned *))                                      \
    X(nvmlDeviceGetRemappedRows, (struct nvml_device *, unsigned *, unsigned *, unsigned *, unsigned *))               \
    X(nvmlDeviceGetRemappedRows_v2, (struct nvml_device *, struct nvml_remapped_rows_v2 *))                            \
    X(nvmlDeviceGetRowRemapperHistogram, (struct nvml_device *, struct nvml_row_remapper_histogram *))                 \
    X(nvmlDeviceGetSamples,                                                                                            \
      (struct nvml_device *, unsigned, unsigned long long, unsigned *, unsigned *, struct nvml_sample *))              \
    X(nvmlDeviceGetComputeRunningProcesses_v3, (struct nvml_device *, unsigned *, struct nvml_process_v2 *))           \
    X(nvmlDeviceGetComputeRunningProcesses_v2, (struct nvml_device *, unsigned *, struct nvml_process_v2 *))           \
    X(nvmlDeviceGetComputeRunningProcesses, (struct nvml_device *, unsigned *, struct nvml_process_v1 *))              \
    X(nvmlDeviceGetGraphicsRunningProcesses_v3, (struct nvml_device *, unsigned *, struct nvml_process_v2 *))          \
    X(nvmlDeviceGetGraphicsRunningProcesses_v2, (struct nvml_device *, unsigned *, struct nvml_process_v2 *))          \
    X(nvmlDeviceGetGraphicsRunningProcesses, (struct nvml_device *, unsigned *, struct nvml_process_v1 *))             \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v3, (struct nvml_device *, unsigned *, struct nvml_process_v2 *))        \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v2, (struct nvml_device *, unsigned *, struct nvml_process_v2 *))        \
    X(nvmlDeviceGetMPSComputeRunningProcesses, (struct nvml_device *, unsigned *, struct nvml_process_v1 *))           \
    X(nvmlDeviceGetProcessUtilization,                                                                                 \
      (struct nvml_device *, struct nvml_process_sample *, unsigned *, unsigned long long))                            \
    X(nvmlDeviceGetProcessesUtilizationInfo, (struct nvml_device *, struct nvml_processes_util *))                     \
    X(nvmlGpmQueryDeviceSupport, (struct nvml_device *, struct nvml_gpm_support *))                                    \
    X(nvmlGpmSampleAlloc, (struct nvml_gpm_sample **))                                                                 \
    X(nvmlGpmSampleFree, (struct nvml_gpm_sample *))                                                                   \
    X(nvmlGpmSampleGet, (struct nvml_device *, struct nvml_gpm_sample *))                                              \
    X(nvmlGpmMigSampleGet, (struct nvml_device *, unsigned, struct nvml_gpm_sample *))                                 \
    X(nvmlGpmMetricsGet, (struct nvml_gpm_metrics *))                                                                  \
    X(nvmlEventSetCreate, (struct nvml_event_set **))                                                                  \
    X(nvmlDeviceRegisterEvents, (struct nvml_device *, unsigned long long, struct nvml_event_set *))                   \
    X(nvmlEventSetWait_v2, (struct nvml_event_set *, struct nvml_event_data *, unsigned))                              \
    X(nvmlEventSetWait, (struct nvml_event_set *, struct nvml_event_data *, unsigned))                                 \
    X(nvmlEventSetFree, (struct nvml_event_set *))

// The functions' numbers, in the order of the list.
enum al_nvml_fn {
#define X(name, params) NVML_FN_##name,
    AL_NVML_FUNCTIONS(X)
#undef X
        NVML_FN_COUNT
};

// A library's functions, NULL where it lacks one. Reached by name, or by number through `by_number`.
union nvml_api {
    struct {
#define X(name, params) int(*name) params;
        AL_NVML_FUNCTIONS(X)
#undef X
    };
    void (*by_number[NVML_FN_COUNT])(void);
};

#endif
