// SPDX-License-Identifier: Apache-2.0
// Every metric of a GPU: one row gives its name, unit, kind, cost group, true resolution, where it exists, and help.
// Names, JSON keys, SQLite columns, OpenMetrics series and docs/metrics.md all come from here.
#ifndef AL_MODEL_GPU_METRICS_H
#define AL_MODEL_GPU_METRICS_H

// X(ID, name, unit, kind, group, resolution, generations, help)
#define AL_GPU_METRICS(X) \
    X(UTIL, "utilization_ratio", RATIO, GAUGE, FAST, \
      "1/6 to 1 s driver sample (200 ms on H200)", "all", \
      "Share of the driver's last sample period in which at least one kernel ran. It says nothing of how much of the GPU that kernel used: see sm_active_ratio") \
    X(UTIL_MEAN, "utilization_mean_ratio", RATIO, GAUGE, FAST, \
      "mean of the driver's samples since the last tick", "all", \
      "Mean of all driver utilisation samples that arrived since the last tick; each driver sample is counted once") \
    X(MEM_UTIL, "memory_utilization_ratio", RATIO, GAUGE, FAST, \
      "1/6 to 1 s driver sample", "all", \
      "Share of the driver's last sample period in which device memory was read or written (time duty, not bandwidth and not memory used)") \
    X(MEM_TOTAL, "memory_total_bytes", BYTES, GAUGE, FAST, \
      "at the call", "all; not supported on unified-memory boards", \
      "Memory installed on the GPU, without what is set aside for ECC pages") \
    X(MEM_USED, "memory_used_bytes", BYTES, GAUGE, FAST, \
      "at the call", "all; not supported on unified-memory boards", \
      "Memory that contexts have taken from the driver: reserved or allocated blocks, not live data. Without the driver's own reserve where the v2 call exists") \
    X(MEM_FREE, "memory_free_bytes", BYTES, GAUGE, FAST, \
      "at the call", "all; not supported on unified-memory boards", \
      "Memory that the driver can still hand out") \
    X(MEM_RESERVED, "memory_reserved_bytes", BYTES, GAUGE, FAST, \
      "at the call", "driver 510 and newer", \
      "Memory that the driver and firmware keep for themselves") \
    X(TEMP, "temperature_celsius", CELSIUS, GAUGE, FAST, \
      "at the call", "all", \
      "Core temperature") \
    X(POWER, "power_watts", WATTS, GAUGE, FAST, \
      "1 s average on most of Ampere and newer", "all", \
      "Power draw as nvidia-smi's power.draw prints it") \
    X(CLOCK_GR, "graphics_clock_hertz", HERTZ, GAUGE, FAST, \
      "at the call", "all", \
      "Graphics clock now") \
    X(CLOCK_SM, "sm_clock_hertz", HERTZ, GAUGE, FAST, \
      "at the call", "all", \
      "SM clock now") \
    X(CLOCK_MEM, "memory_clock_hertz", HERTZ, GAUGE, FAST, \
      "at the call", "all", \
      "Memory clock now") \
    X(CLOCK_VIDEO, "video_clock_hertz", HERTZ, GAUGE, FAST, \
      "at the call", "all", \
      "Video engine clock now") \
    X(PSTATE, "performance_state", STATE, STATE, FAST, \
      "at the call", "all", \
      "Performance state: 0 is P0, the fastest") \
    X(THROTTLE, "clocks_event_reasons", BITS, STATE, FAST, \
      "at the call", "all", \
      "Bit mask of why the clocks are where they are (nvmlClocksEventReason*)") \
    X(ENC_UTIL, "encoder_utilization_ratio", RATIO, GAUGE, SLOW, \
      "driver sample, its period comes with it", "all", \
      "Share of time in which the video encoder was busy") \
    X(DEC_UTIL, "decoder_utilization_ratio", RATIO, GAUGE, SLOW, \
      "driver sample, its period comes with it", "all", \
      "Share of time in which the video decoder was busy") \
    X(JPG_UTIL, "jpeg_utilization_ratio", RATIO, GAUGE, SLOW, \
      "driver sample", "Ampere and newer", \
      "Share of time in which the JPEG engine was busy") \
    X(OFA_UTIL, "ofa_utilization_ratio", RATIO, GAUGE, SLOW, \
      "driver sample", "Ampere and newer", \
      "Share of time in which the optical flow engine was busy") \
    X(BAR1_TOTAL, "bar1_total_bytes", BYTES, GAUGE, SLOW, \
      "at the call", "all", \
      "Size of the BAR1 window through which the CPU maps device memory") \
    X(BAR1_USED, "bar1_used_bytes", BYTES, GAUGE, SLOW, \
      "at the call", "all", \
      "Part of BAR1 in use") \
    X(TEMP_MEM, "memory_temperature_celsius", CELSIUS, GAUGE, SLOW, \
      "at the call", "HBM boards", \
      "Memory temperature") \
    X(TEMP_MARGIN, "temperature_margin_celsius", CELSIUS, GAUGE, SLOW, \
      "at the call", "Ada, Hopper and newer", \
      "Degrees left until the next slowdown (T.Limit)") \
    X(TEMP_SLOWDOWN, "temperature_slowdown_celsius", CELSIUS, GAUGE, SLOW, \
      "constant", "all", \
      "Core temperature at which the hardware slows down") \
    X(TEMP_SHUTDOWN, "temperature_shutdown_celsius", CELSIUS, GAUGE, SLOW, \
      "constant", "all", \
      "Core temperature at which the GPU shuts down") \
    X(TEMP_GPU_MAX, "temperature_maximum_celsius", CELSIUS, GAUGE, SLOW, \
      "constant", "most", \
      "Highest core temperature at which full clocks are kept") \
    X(TEMP_MEM_MAX, "memory_temperature_maximum_celsius", CELSIUS, GAUGE, SLOW, \
      "constant", "HBM boards", \
      "Highest memory temperature at which full clocks are kept") \
    X(FAN, "fan_speed_ratio", RATIO, GAUGE, SLOW, \
      "at the call", "boards with a fan", \
      "Fan speed as a share of its maximum as the driver intends it") \
    X(POWER_AVG, "power_average_watts", WATTS, GAUGE, SLOW, \
      "1 s average", "Ampere and newer", \
      "Power draw averaged over one second") \
    X(POWER_INST, "power_instant_watts", WATTS, GAUGE, SLOW, \
      "at the call", "Ampere and newer", \
      "Power draw at the moment of the reading") \
    X(POWER_LIMIT, "power_limit_watts", WATTS, GAUGE, SLOW, \
      "at the call", "all", \
      "Power limit that software asked for") \
    X(POWER_ENFORCED, "power_enforced_limit_watts", WATTS, GAUGE, SLOW, \
      "at the call", "all", \
      "Power limit in force, the lowest of all limiters") \
    X(POWER_DEFAULT, "power_default_limit_watts", WATTS, GAUGE, SLOW, \
      "constant", "all", \
      "Power limit after a restart") \
    X(POWER_MIN, "power_minimum_limit_watts", WATTS, GAUGE, SLOW, \
      "constant", "all", \
      "Lowest power limit that can be set") \
    X(POWER_MAX, "power_maximum_limit_watts", WATTS, GAUGE, SLOW, \
      "constant", "all", \
      "Highest power limit that can be set") \
    X(MODULE_POWER_AVG, "module_power_average_watts", WATTS, GAUGE, SLOW, \
      "1 s average", "Grace Hopper and newer modules", \
      "Power of the whole module averaged over one second") \
    X(MODULE_POWER_INST, "module_power_instant_watts", WATTS, GAUGE, SLOW, \
      "at the call", "Grace Hopper and newer modules", \
      "Power of the whole module now") \
    X(ENERGY, "energy_joules", JOULES, COUNTER, SLOW, \
      "about 100 ms", "Volta and newer", \
      "Energy used since the driver was loaded") \
    X(CLOCK_GR_MAX, "graphics_clock_maximum_hertz", HERTZ, GAUGE, SLOW, \
      "constant", "all", \
      "Highest graphics clock") \
    X(CLOCK_SM_MAX, "sm_clock_maximum_hertz", HERTZ, GAUGE, SLOW, \
      "constant", "all", \
      "Highest SM clock") \
    X(CLOCK_MEM_MAX, "memory_clock_maximum_hertz", HERTZ, GAUGE, SLOW, \
      "constant", "all", \
      "Highest memory clock") \
    X(CLOCK_VIDEO_MAX, "video_clock_maximum_hertz", HERTZ, GAUGE, SLOW, \
      "constant", "all", \
      "Highest video clock") \
    X(CLOCK_APP_GR, "graphics_clock_application_hertz", HERTZ, GAUGE, SLOW, \
      "at the call", "until driver 590", \
      "Graphics clock that applications are given") \
    X(CLOCK_APP_MEM, "memory_clock_application_hertz", HERTZ, GAUGE, SLOW, \
      "at the call", "until driver 590", \
      "Memory clock that applications are given") \
    X(CLOCK_DEFAPP_GR, "graphics_clock_default_application_hertz", HERTZ, GAUGE, SLOW, \
      "constant", "until driver 590", \
      "Default of the graphics application clock") \
    X(CLOCK_DEFAPP_MEM, "memory_clock_default_application_hertz", HERTZ, GAUGE, SLOW, \
      "constant", "until driver 590", \
      "Default of the memory application clock") \
    X(VIOL_POWER, "violation_power_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "most", \
      "Time for which clocks were held down by: power (nvmlDeviceGetViolationStatus)") \
    X(VIOL_THERMAL, "violation_thermal_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "most", \
      "Time for which clocks were held down by: thermal (nvmlDeviceGetViolationStatus)") \
    X(VIOL_SYNC_BOOST, "violation_sync_boost_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "most", \
      "Time for which clocks were held down by: sync boost (nvmlDeviceGetViolationStatus)") \
    X(VIOL_BOARD_LIMIT, "violation_board_limit_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "most", \
      "Time for which clocks were held down by: board limit (nvmlDeviceGetViolationStatus)") \
    X(VIOL_LOW_UTIL, "violation_low_utilization_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "most", \
      "Time for which clocks were held down by: low utilization (nvmlDeviceGetViolationStatus)") \
    X(VIOL_RELIABILITY, "violation_reliability_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "most", \
      "Time for which clocks were held down by: reliability (nvmlDeviceGetViolationStatus)") \
    X(VIOL_TOTAL_APP, "violation_application_clocks_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "most", \
      "Time for which clocks were held down by: application clocks (nvmlDeviceGetViolationStatus)") \
    X(VIOL_TOTAL_BASE, "violation_base_clocks_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "most", \
      "Time for which clocks were held down by: base clocks (nvmlDeviceGetViolationStatus)") \
    X(EVENT_SW_POWER, "clocks_event_sw_power_cap_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "driver 550 and newer", \
      "Time for which the clocks event reason sw_power_cap was active") \
    X(EVENT_SYNC_BOOST, "clocks_event_sync_boost_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "driver 550 and newer", \
      "Time for which the clocks event reason sync_boost was active") \
    X(EVENT_SW_THERMAL, "clocks_event_sw_thermal_slowdown_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "driver 550 and newer", \
      "Time for which the clocks event reason sw_thermal_slowdown was active") \
    X(EVENT_HW_THERMAL, "clocks_event_hw_thermal_slowdown_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "driver 550 and newer", \
      "Time for which the clocks event reason hw_thermal_slowdown was active") \
    X(EVENT_HW_BRAKE, "clocks_event_hw_power_brake_slowdown_seconds", SECONDS, COUNTER, SLOW, \
      "driver counter", "driver 550 and newer", \
      "Time for which the clocks event reason hw_power_brake_slowdown was active") \
    X(PCIE_GEN, "pcie_link_generation", STATE, STATE, LINK, \
      "at the call; lowered when idle", "all", \
      "PCIe generation in use now") \
    X(PCIE_GEN_MAX, "pcie_link_generation_maximum", STATE, STATE, LINK, \
      "constant", "all", \
      "Highest PCIe generation of GPU and slot together") \
    X(PCIE_GEN_GPU_MAX, "pcie_link_generation_gpu_maximum", STATE, STATE, LINK, \
      "constant", "all", \
      "Highest PCIe generation of the GPU alone") \
    X(PCIE_GEN_NOW_GPU, "pcie_link_generation_gpu", STATE, STATE, LINK, \
      "at the call", "all", \
      "PCIe generation in use as the GPU reports it") \
    X(PCIE_GEN_HOST_MAX, "pcie_link_generation_host_maximum", STATE, STATE, LINK, \
      "constant", "all", \
      "Highest PCIe generation of the slot") \
    X(PCIE_WIDTH, "pcie_link_width", STATE, STATE, LINK, \
      "at the call", "all", \
      "PCIe lanes in use") \
    X(PCIE_WIDTH_MAX, "pcie_link_width_maximum", STATE, STATE, LINK, \
      "constant", "all", \
      "Highest number of PCIe lanes of GPU and slot together") \
    X(PCIE_REPLAY, "pcie_replays", COUNT, COUNTER, LINK, \
      "driver counter", "all", \
      "PCIe packets sent again because of link errors") \
    X(PCIE_TX, "pcie_tx_bytes_per_second", BYTES_PER_SECOND, GAUGE, PCIE, \
      "20 ms window, a blocking call", "all", \
      "PCIe traffic from the GPU to the host") \
    X(PCIE_RX, "pcie_rx_bytes_per_second", BYTES_PER_SECOND, GAUGE, PCIE, \
      "20 ms window, a blocking call", "all", \
      "PCIe traffic from the host to the GPU") \
    X(NVLINK_LINKS, "nvlink_links", COUNT, GAUGE, LINK, \
      "at the call", "boards with NVLink", \
      "NVLink links that the GPU has") \
    X(NVLINK_ACTIVE, "nvlink_active_links", COUNT, GAUGE, LINK, \
      "at the call", "boards with NVLink", \
      "NVLink links that are up") \
    X(NVLINK_TX, "nvlink_tx_bytes", BYTES, COUNTER, LINK, \
      "driver counter, KiB steps", "Ampere and newer", \
      "Bytes sent over NVLink, all links") \
    X(NVLINK_RX, "nvlink_rx_bytes", BYTES, COUNTER, LINK, \
      "driver counter, KiB steps", "Ampere and newer", \
      "Bytes received over NVLink, all links") \
    X(NVLINK_CRC, "nvlink_crc_errors", COUNT, COUNTER, LINK, \
      "driver counter", "boards with NVLink", \
      "NVLink CRC errors, all links") \
    X(NVLINK_REPLAY, "nvlink_replay_errors", COUNT, COUNTER, LINK, \
      "driver counter", "boards with NVLink", \
      "NVLink replays, all links") \
    X(NVLINK_RECOVERY, "nvlink_recovery_errors", COUNT, COUNTER, LINK, \
      "driver counter", "boards with NVLink", \
      "NVLink recoveries, all links") \
    X(ECC_COR_VOL_TOTAL, "ecc_corrected_volatile_total_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, since the driver was loaded: total") \
    X(ECC_COR_VOL_DRAM, "ecc_corrected_volatile_dram_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, since the driver was loaded: dram") \
    X(ECC_COR_VOL_L1_CACHE, "ecc_corrected_volatile_l1_cache_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, since the driver was loaded: l1 cache") \
    X(ECC_COR_VOL_L2_CACHE, "ecc_corrected_volatile_l2_cache_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, since the driver was loaded: l2 cache") \
    X(ECC_COR_VOL_REGISTER_FILE, "ecc_corrected_volatile_register_file_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, since the driver was loaded: register file") \
    X(ECC_COR_VOL_TEXTURE_MEMORY, "ecc_corrected_volatile_texture_memory_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, since the driver was loaded: texture memory") \
    X(ECC_COR_VOL_CBU, "ecc_corrected_volatile_cbu_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, since the driver was loaded: cbu") \
    X(ECC_COR_VOL_SRAM, "ecc_corrected_volatile_sram_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, since the driver was loaded: sram") \
    X(ECC_COR_VOL_DEVICE_MEMORY, "ecc_corrected_volatile_device_memory_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, since the driver was loaded: device memory") \
    X(ECC_COR_AGG_TOTAL, "ecc_corrected_aggregate_total_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, over the life of the board: total") \
    X(ECC_COR_AGG_DRAM, "ecc_corrected_aggregate_dram_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, over the life of the board: dram") \
    X(ECC_COR_AGG_L1_CACHE, "ecc_corrected_aggregate_l1_cache_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, over the life of the board: l1 cache") \
    X(ECC_COR_AGG_L2_CACHE, "ecc_corrected_aggregate_l2_cache_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, over the life of the board: l2 cache") \
    X(ECC_COR_AGG_REGISTER_FILE, "ecc_corrected_aggregate_register_file_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, over the life of the board: register file") \
    X(ECC_COR_AGG_TEXTURE_MEMORY, "ecc_corrected_aggregate_texture_memory_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, over the life of the board: texture memory") \
    X(ECC_COR_AGG_CBU, "ecc_corrected_aggregate_cbu_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, over the life of the board: cbu") \
    X(ECC_COR_AGG_SRAM, "ecc_corrected_aggregate_sram_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, over the life of the board: sram") \
    X(ECC_COR_AGG_DEVICE_MEMORY, "ecc_corrected_aggregate_device_memory_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Corrected ECC errors, over the life of the board: device memory") \
    X(ECC_UNC_VOL_TOTAL, "ecc_uncorrected_volatile_total_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, since the driver was loaded: total") \
    X(ECC_UNC_VOL_DRAM, "ecc_uncorrected_volatile_dram_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, since the driver was loaded: dram") \
    X(ECC_UNC_VOL_L1_CACHE, "ecc_uncorrected_volatile_l1_cache_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, since the driver was loaded: l1 cache") \
    X(ECC_UNC_VOL_L2_CACHE, "ecc_uncorrected_volatile_l2_cache_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, since the driver was loaded: l2 cache") \
    X(ECC_UNC_VOL_REGISTER_FILE, "ecc_uncorrected_volatile_register_file_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, since the driver was loaded: register file") \
    X(ECC_UNC_VOL_TEXTURE_MEMORY, "ecc_uncorrected_volatile_texture_memory_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, since the driver was loaded: texture memory") \
    X(ECC_UNC_VOL_CBU, "ecc_uncorrected_volatile_cbu_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, since the driver was loaded: cbu") \
    X(ECC_UNC_VOL_SRAM, "ecc_uncorrected_volatile_sram_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, since the driver was loaded: sram") \
    X(ECC_UNC_VOL_DEVICE_MEMORY, "ecc_uncorrected_volatile_device_memory_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, since the driver was loaded: device memory") \
    X(ECC_UNC_AGG_TOTAL, "ecc_uncorrected_aggregate_total_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, over the life of the board: total") \
    X(ECC_UNC_AGG_DRAM, "ecc_uncorrected_aggregate_dram_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, over the life of the board: dram") \
    X(ECC_UNC_AGG_L1_CACHE, "ecc_uncorrected_aggregate_l1_cache_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, over the life of the board: l1 cache") \
    X(ECC_UNC_AGG_L2_CACHE, "ecc_uncorrected_aggregate_l2_cache_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, over the life of the board: l2 cache") \
    X(ECC_UNC_AGG_REGISTER_FILE, "ecc_uncorrected_aggregate_register_file_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, over the life of the board: register file") \
    X(ECC_UNC_AGG_TEXTURE_MEMORY, "ecc_uncorrected_aggregate_texture_memory_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, over the life of the board: texture memory") \
    X(ECC_UNC_AGG_CBU, "ecc_uncorrected_aggregate_cbu_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, over the life of the board: cbu") \
    X(ECC_UNC_AGG_SRAM, "ecc_uncorrected_aggregate_sram_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, over the life of the board: sram") \
    X(ECC_UNC_AGG_DEVICE_MEMORY, "ecc_uncorrected_aggregate_device_memory_errors", COUNT, COUNTER, ECC, \
      "driver counter", "boards with ECC", \
      "Uncorrected ECC errors, over the life of the board: device memory") \
    X(SRAM_UNC_VOL_PARITY, "ecc_uncorrected_volatile_sram_parity_errors", COUNT, COUNTER, ECC, \
      "driver counter", "Hopper and newer", \
      "Uncorrected SRAM errors found by parity, since the driver was loaded") \
    X(SRAM_UNC_VOL_SECDED, "ecc_uncorrected_volatile_sram_secded_errors", COUNT, COUNTER, ECC, \
      "driver counter", "Hopper and newer", \
      "Uncorrected SRAM errors found by secded, since the driver was loaded") \
    X(SRAM_UNC_AGG_PARITY, "ecc_uncorrected_aggregate_sram_parity_errors", COUNT, COUNTER, ECC, \
      "driver counter", "Hopper and newer", \
      "Uncorrected SRAM errors found by parity, over the life of the board") \
    X(SRAM_UNC_AGG_SECDED, "ecc_uncorrected_aggregate_sram_secded_errors", COUNT, COUNTER, ECC, \
      "driver counter", "Hopper and newer", \
      "Uncorrected SRAM errors found by secded, over the life of the board") \
    X(SRAM_UNC_AGG_L2, "ecc_uncorrected_aggregate_sram_l2_errors", COUNT, COUNTER, ECC, \
      "driver counter", "Hopper and newer", \
      "Uncorrected SRAM errors over the life of the board in l2") \
    X(SRAM_UNC_AGG_SM, "ecc_uncorrected_aggregate_sram_sm_errors", COUNT, COUNTER, ECC, \
      "driver counter", "Hopper and newer", \
      "Uncorrected SRAM errors over the life of the board in sm") \
    X(SRAM_UNC_AGG_MCU, "ecc_uncorrected_aggregate_sram_mcu_errors", COUNT, COUNTER, ECC, \
      "driver counter", "Hopper and newer", \
      "Uncorrected SRAM errors over the life of the board in mcu") \
    X(SRAM_UNC_AGG_PCIE, "ecc_uncorrected_aggregate_sram_pcie_errors", COUNT, COUNTER, ECC, \
      "driver counter", "Hopper and newer", \
      "Uncorrected SRAM errors over the life of the board in pcie") \
    X(SRAM_UNC_AGG_OTHER, "ecc_uncorrected_aggregate_sram_other_errors", COUNT, COUNTER, ECC, \
      "driver counter", "Hopper and newer", \
      "Uncorrected SRAM errors over the life of the board in other") \
    X(SRAM_THRESHOLD, "ecc_sram_threshold_exceeded", STATE, STATE, ECC, \
      "at the call", "Hopper and newer", \
      "1 when the count of SRAM errors asks for service") \
    X(RETIRED_SBE, "retired_pages_single_bit", COUNT, COUNTER, ECC, \
      "driver counter", "Kepler to Volta and Turing", \
      "Memory pages retired after many single-bit errors") \
    X(RETIRED_DBE, "retired_pages_double_bit", COUNT, COUNTER, ECC, \
      "driver counter", "Kepler to Volta and Turing", \
      "Memory pages retired after a double-bit error") \
    X(RETIRED_PENDING, "retired_pages_pending", STATE, STATE, ECC, \
      "at the call", "Kepler to Volta and Turing", \
      "1 when pages wait for a restart to be retired") \
    X(REMAP_COR, "remapped_rows_correctable", COUNT, COUNTER, ECC, \
      "driver counter", "Ampere and newer", \
      "Memory rows remapped after correctable errors") \
    X(REMAP_UNC, "remapped_rows_uncorrectable", COUNT, COUNTER, ECC, \
      "driver counter", "Ampere and newer", \
      "Memory rows remapped after uncorrectable errors") \
    X(REMAP_PENDING, "remapped_rows_pending", STATE, STATE, ECC, \
      "at the call", "Ampere and newer", \
      "1 when a row waits for a reset to be remapped") \
    X(REMAP_FAILED, "remapped_rows_failure", STATE, STATE, ECC, \
      "at the call", "Ampere and newer", \
      "1 when a remapping failed") \
    X(REMAP_HIST_MAX, "remapped_rows_banks_max", COUNT, GAUGE, ECC, \
      "at the call", "Ampere and newer", \
      "Memory banks whose spare rows are available: max") \
    X(REMAP_HIST_HIGH, "remapped_rows_banks_high", COUNT, GAUGE, ECC, \
      "at the call", "Ampere and newer", \
      "Memory banks whose spare rows are available: high") \
    X(REMAP_HIST_PARTIAL, "remapped_rows_banks_partial", COUNT, GAUGE, ECC, \
      "at the call", "Ampere and newer", \
      "Memory banks whose spare rows are available: partial") \
    X(REMAP_HIST_LOW, "remapped_rows_banks_low", COUNT, GAUGE, ECC, \
      "at the call", "Ampere and newer", \
      "Memory banks whose spare rows are available: low") \
    X(REMAP_HIST_NONE, "remapped_rows_banks_none", COUNT, GAUGE, ECC, \
      "at the call", "Ampere and newer", \
      "Memory banks whose spare rows are available: none") \
    X(XID_ERRORS, "xid_errors", COUNT, COUNTER, XID, \
      "at the event", "all", \
      "Xid events since alula started, all codes together") \
    X(GPM_GRAPHICS, "graphics_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which any compute or graphics engine was busy") \
    X(GPM_SM, "sm_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which an SM had at least one warp, averaged over the SMs") \
    X(GPM_OCCUPANCY, "sm_occupancy_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which warp slots were filled, averaged over the SMs") \
    X(GPM_INTEGER, "integer_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which integer pipes were busy") \
    X(GPM_TENSOR, "tensor_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which any tensor pipe was busy") \
    X(GPM_DFMA, "tensor_fp64_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which FP64 tensor pipes were busy") \
    X(GPM_HMMA, "tensor_half_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which half-precision tensor pipes were busy") \
    X(GPM_IMMA, "tensor_integer_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which integer tensor pipes were busy") \
    X(GPM_DRAM, "dram_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which device memory bandwidth was used, of the peak") \
    X(GPM_FP64, "fp64_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which FP64 pipes (not tensor) were busy") \
    X(GPM_FP32, "fp32_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which FP32 pipes were busy") \
    X(GPM_FP16, "fp16_active_ratio", RATIO, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "Share in which FP16 pipes (not tensor) were busy") \
    X(GPM_PCIE_TX, "gpm_pcie_tx_bytes_per_second", BYTES_PER_SECOND, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "PCIe traffic from the GPU") \
    X(GPM_PCIE_RX, "gpm_pcie_rx_bytes_per_second", BYTES_PER_SECOND, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "PCIe traffic to the GPU") \
    X(GPM_NVLINK_TX, "gpm_nvlink_tx_bytes_per_second", BYTES_PER_SECOND, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "NVLink traffic from the GPU, all links") \
    X(GPM_NVLINK_RX, "gpm_nvlink_rx_bytes_per_second", BYTES_PER_SECOND, GAUGE, GPM, \
      "mean between two reads, valid from 100 ms", "Hopper and newer", \
      "NVLink traffic to the GPU, all links")

#endif
