# SPDX-License-Identifier: Apache-2.0
"""Our declarations of NVML (src/device/nvml_abi.h) against the vendor's header of two CUDA generations.

The vendor's header comes with a pinned PyPI package and is never committed. Everything that the two share is compared:
sizes, offsets, values, and of each function the number and kind of its parameters.
"""

import pathlib
import re
import shutil
import subprocess
import sysconfig

import pytest

SITE = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia"
HEADERS = {"cuda12": SITE / "nvml_dev/include/nvml.h", "cuda13": SITE / "cu13/include/nvml.h"}

# ours: theirs
STRUCTS = {
    "union nvml_value": "nvmlValue_t",
    "struct nvml_pci_info": "nvmlPciInfo_t",
    "struct nvml_pci_info_ext": "nvmlPciInfoExt_v1_t",
    "struct nvml_utilization": "nvmlUtilization_t",
    "struct nvml_memory": "nvmlMemory_t",
    "struct nvml_memory_v2": "nvmlMemory_v2_t",
    "struct nvml_bar1_memory": "nvmlBAR1Memory_t",
    "struct nvml_process_v1": "nvmlProcessInfo_v1_t",
    "struct nvml_process_v2": "nvmlProcessInfo_v2_t",
    "struct nvml_attributes": "nvmlDeviceAttributes_t",
    "struct nvml_row_remapper_histogram": "nvmlRowRemapperHistogramValues_t",
    "struct nvml_sample": "nvmlSample_t",
    "struct nvml_violation_time": "nvmlViolationTime_t",
    "struct nvml_field_value": "nvmlFieldValue_t",
    "struct nvml_event_data": "nvmlEventData_t",
    "struct nvml_process_sample": "nvmlProcessUtilizationSample_t",
    "struct nvml_process_util": "nvmlProcessUtilizationInfo_v1_t",
    "struct nvml_processes_util": "nvmlProcessesUtilizationInfo_v1_t",
    "struct nvml_sram_errors": "nvmlEccSramErrorStatus_v1_t",
    "struct nvml_gpm_metric": "nvmlGpmMetric_t",
    "struct nvml_gpm_metrics": "nvmlGpmMetricsGet_t",
    "struct nvml_gpm_support": "nvmlGpmSupport_t",
    "struct nvml_fabric_v1": "nvmlGpuFabricInfo_t",
    "struct nvml_fabric_v2": "nvmlGpuFabricInfo_v2_t",
    "struct nvml_fabric_v3": "nvmlGpuFabricInfo_v3_t",
    "struct nvml_platform_v1": "nvmlPlatformInfo_v1_t",
    "struct nvml_platform_v2": "nvmlPlatformInfo_v2_t",
    "struct nvml_temperature": "nvmlTemperature_v1_t",
    "struct nvml_margin_temperature": "nvmlMarginTemperature_v1_t",
    "struct nvml_c2c_mode": "nvmlC2cModeInfo_v1_t",
    "struct nvml_addressing_mode": "nvmlDeviceAddressingMode_v1_t",
    "struct nvml_dram_encryption": "nvmlDramEncryptionInfo_v1_t",
    "struct nvml_vgpu_heterogeneous": "nvmlVgpuHeterogeneousMode_v1_t",
    "struct nvml_process_detail": "nvmlProcessDetail_v1_t",
    "struct nvml_process_details": "nvmlProcessDetailList_v1_t",
}
# No header has them: the one is older than both, the other newer. Checked against what a driver does (see the file).
UNCHECKED = {"struct nvml_pci_info_v2", "struct nvml_remapped_rows_v2"}
# The length of its metric array grows with every generation; ours is the driver's own.
GREW = {"struct nvml_gpm_metrics"}

CONSTANTS = {
    "TEMPERATURE_GPU": "NVML_TEMPERATURE_GPU",
    "THRESHOLD_SHUTDOWN": "NVML_TEMPERATURE_THRESHOLD_SHUTDOWN",
    "THRESHOLD_SLOWDOWN": "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN",
    "THRESHOLD_MEM_MAX": "NVML_TEMPERATURE_THRESHOLD_MEM_MAX",
    "THRESHOLD_GPU_MAX": "NVML_TEMPERATURE_THRESHOLD_GPU_MAX",
    "CLOCK_GRAPHICS": "NVML_CLOCK_GRAPHICS",
    "CLOCK_SM": "NVML_CLOCK_SM",
    "CLOCK_MEM": "NVML_CLOCK_MEM",
    "CLOCK_VIDEO": "NVML_CLOCK_VIDEO",
    "VOLATILE_ECC": "NVML_VOLATILE_ECC",
    "AGGREGATE_ECC": "NVML_AGGREGATE_ECC",
    "ERROR_CORRECTED": "NVML_MEMORY_ERROR_TYPE_CORRECTED",
    "ERROR_UNCORRECTED": "NVML_MEMORY_ERROR_TYPE_UNCORRECTED",
    "LOCATION_L1_CACHE": "NVML_MEMORY_LOCATION_L1_CACHE",
    "LOCATION_L2_CACHE": "NVML_MEMORY_LOCATION_L2_CACHE",
    "LOCATION_DRAM": "NVML_MEMORY_LOCATION_DRAM",
    "LOCATION_REGISTER_FILE": "NVML_MEMORY_LOCATION_REGISTER_FILE",
    "LOCATION_TEXTURE_MEMORY": "NVML_MEMORY_LOCATION_TEXTURE_MEMORY",
    "LOCATION_TEXTURE_SHM": "NVML_MEMORY_LOCATION_TEXTURE_SHM",
    "LOCATION_CBU": "NVML_MEMORY_LOCATION_CBU",
    "LOCATION_SRAM": "NVML_MEMORY_LOCATION_SRAM",
    "SAMPLES_TOTAL_POWER": "NVML_TOTAL_POWER_SAMPLES",
    "SAMPLES_GPU_UTILIZATION": "NVML_GPU_UTILIZATION_SAMPLES",
    "SAMPLES_MEMORY_UTILIZATION": "NVML_MEMORY_UTILIZATION_SAMPLES",
    "SAMPLES_ENC_UTILIZATION": "NVML_ENC_UTILIZATION_SAMPLES",
    "SAMPLES_DEC_UTILIZATION": "NVML_DEC_UTILIZATION_SAMPLES",
    "SAMPLES_PROCESSOR_CLK": "NVML_PROCESSOR_CLK_SAMPLES",
    "SAMPLES_MEMORY_CLK": "NVML_MEMORY_CLK_SAMPLES",
    "SAMPLES_MODULE_POWER": "NVML_MODULE_POWER_SAMPLES",
    "SAMPLES_JPG_UTILIZATION": "NVML_JPG_UTILIZATION_SAMPLES",
    "SAMPLES_OFA_UTILIZATION": "NVML_OFA_UTILIZATION_SAMPLES",
    "VALUE_DOUBLE": "NVML_VALUE_TYPE_DOUBLE",
    "VALUE_UNSIGNED_INT": "NVML_VALUE_TYPE_UNSIGNED_INT",
    "VALUE_UNSIGNED_LONG": "NVML_VALUE_TYPE_UNSIGNED_LONG",
    "VALUE_UNSIGNED_LONG_LONG": "NVML_VALUE_TYPE_UNSIGNED_LONG_LONG",
    "VALUE_SIGNED_LONG_LONG": "NVML_VALUE_TYPE_SIGNED_LONG_LONG",
    "VALUE_SIGNED_INT": "NVML_VALUE_TYPE_SIGNED_INT",
    "VALUE_UNSIGNED_SHORT": "NVML_VALUE_TYPE_UNSIGNED_SHORT",
    "PCIE_UTIL_TX_BYTES": "NVML_PCIE_UTIL_TX_BYTES",
    "PCIE_UTIL_RX_BYTES": "NVML_PCIE_UTIL_RX_BYTES",
    "INFOROM_OEM": "NVML_INFOROM_OEM",
    "INFOROM_ECC": "NVML_INFOROM_ECC",
    "INFOROM_POWER": "NVML_INFOROM_POWER",
    "POLICY_POWER": "NVML_PERF_POLICY_POWER",
    "POLICY_THERMAL": "NVML_PERF_POLICY_THERMAL",
    "POLICY_SYNC_BOOST": "NVML_PERF_POLICY_SYNC_BOOST",
    "POLICY_BOARD_LIMIT": "NVML_PERF_POLICY_BOARD_LIMIT",
    "POLICY_LOW_UTILIZATION": "NVML_PERF_POLICY_LOW_UTILIZATION",
    "POLICY_RELIABILITY": "NVML_PERF_POLICY_RELIABILITY",
    "POLICY_TOTAL_APP_CLOCKS": "NVML_PERF_POLICY_TOTAL_APP_CLOCKS",
    "POLICY_TOTAL_BASE_CLOCKS": "NVML_PERF_POLICY_TOTAL_BASE_CLOCKS",
    "NVLINK_ERROR_REPLAY": "NVML_NVLINK_ERROR_DL_REPLAY",
    "NVLINK_ERROR_RECOVERY": "NVML_NVLINK_ERROR_DL_RECOVERY",
    "NVLINK_ERROR_CRC_FLIT": "NVML_NVLINK_ERROR_DL_CRC_FLIT",
    "NVLINK_ERROR_CRC_DATA": "NVML_NVLINK_ERROR_DL_CRC_DATA",
    "NVLINK_ERROR_ECC_DATA": "NVML_NVLINK_ERROR_DL_ECC_DATA",
    "RETIREMENT_SBE": "NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS",
    "RETIREMENT_DBE": "NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR",
    "EVENT_XID": "nvmlEventTypeXidCriticalError",
    "PSTATE_UNKNOWN": "NVML_PSTATE_UNKNOWN",
    "GPM_METRICS_VERSION": "NVML_GPM_METRICS_GET_VERSION",
    "GPM_SUPPORT_VERSION": "NVML_GPM_SUPPORT_VERSION",
    "VGPU_CAP_FRACTIONAL": "NVML_DEVICE_VGPU_CAP_FRACTIONAL_MULTI_VGPU",
    "VGPU_CAP_TIMESLICE_PROFILES": "NVML_DEVICE_VGPU_CAP_HETEROGENEOUS_TIMESLICE_PROFILES",
    "VGPU_CAP_TIMESLICE_SIZES": "NVML_DEVICE_VGPU_CAP_HETEROGENEOUS_TIMESLICE_SIZES",
    "VGPU_CAP_HOMOGENEOUS_PLACEMENTS": "NVML_DEVICE_VGPU_CAP_HOMOGENEOUS_PLACEMENTS",
    "VGPU_CAP_MIG_TIMESLICING": "NVML_DEVICE_VGPU_CAP_MIG_TIMESLICING_SUPPORTED",
    "VGPU_CAP_MIG_TIMESLICING_ENABLED": "NVML_DEVICE_VGPU_CAP_MIG_TIMESLICING_ENABLED",
    "FABRIC_UUID_LEN": "NVML_GPU_FABRIC_UUID_LEN",
}
# Lengths that differ between the generations: ours is the larger, an upper bound.
BOUNDS = {"NVLINK_MAX_LINKS": "NVML_NVLINK_MAX_LINKS", "GPM_METRIC_MAX": "NVML_GPM_METRIC_MAX"}

FIELDS = {
    "TOTAL_ENERGY": "TOTAL_ENERGY_CONSUMPTION",
    "NVLINK_CRC_FLIT_TOTAL": "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "NVLINK_CRC_DATA_TOTAL": "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "NVLINK_REPLAY_TOTAL": "NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "NVLINK_RECOVERY_TOTAL": "NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    "PCIE_REPLAY": "PCIE_REPLAY_COUNTER",
    "NVLINK_DATA_TX": "NVLINK_THROUGHPUT_DATA_TX",
    "NVLINK_DATA_RX": "NVLINK_THROUGHPUT_DATA_RX",
    "NVLINK_DL_REPLAY": "NVLINK_ERROR_DL_REPLAY",
    "NVLINK_DL_RECOVERY": "NVLINK_ERROR_DL_RECOVERY",
    "NVLINK_DL_CRC": "NVLINK_ERROR_DL_CRC",
    "NVLINK_SPEED": "NVLINK_GET_SPEED",
    "NVLINK_STATE": "NVLINK_GET_STATE",
    "TEMP_SHUTDOWN_TLIMIT": "TEMPERATURE_SHUTDOWN_TLIMIT",
    "TEMP_SLOWDOWN_TLIMIT": "TEMPERATURE_SLOWDOWN_TLIMIT",
    "TEMP_MEM_MAX_TLIMIT": "TEMPERATURE_MEM_MAX_TLIMIT",
    "TEMP_GPU_MAX_TLIMIT": "TEMPERATURE_GPU_MAX_TLIMIT",
    "RECOVERY_ACTION": "GET_GPU_RECOVERY_ACTION",
    "EVENT_SW_THERM_SLOWDOWN": "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN",
    "EVENT_HW_THERM_SLOWDOWN": "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN",
    "EVENT_HW_POWER_BRAKE": "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN",
}
# Newer than CUDA 13.0's header: known from the driver alone.
NEWER_FIELDS = {"EDPP_MULTIPLIER", "DELAYED_POWER_SMOOTHING", "REMAPPED_COR_INACTIVE", "REMAPPED_UNC_INACTIVE"}
# CUDA 12.9's header (driver 575) had other ids for these, which CUDA 13 gives to power smoothing. A driver of that branch
# answers 269 to 271 with something else: alula may read them from driver 580 on only.
RENUMBERED = {"EVENT_SW_THERM_SLOWDOWN": 251, "EVENT_HW_THERM_SLOWDOWN": 252, "EVENT_HW_POWER_BRAKE": 253}
NEWER_FUNCTIONS = {"nvmlDeviceGetRemappedRows_v2", "nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2"}


@pytest.fixture(scope="module")
def ours(root):
    return (root / "src/device/nvml_abi.h").read_text()


@pytest.fixture(scope="module", params=HEADERS)
def theirs(request):
    path = HEADERS[request.param]
    if not path.exists():
        pytest.fail(f"{path} is missing; tests/requirements.txt pins its package")
    return request.param, path


def members(text):
    """{"struct nvml_memory": ["total", …]} of our header."""
    found = {}
    for kind, name, body in re.findall(r"^(struct|union) (nvml_\w+) \{(.*?)^\}", text, re.S | re.M):
        body = re.sub(r"//.*|/\*.*?\*/", "", body)
        body = re.sub(r"struct \{.*?\} (\w+);", r"int \1;", body, flags=re.S)
        names = []
        for line in body.split(";"):
            names += re.findall(r"(\w+)(?:\[\w+\])?\s*(?:,|$)", line.strip())
        found[f"{kind} {name}"] = names
    return found


def x_rows(text, macro):
    body = re.search(rf"#define {macro}\(X\)(.*?)[^\\]\n\n", text, re.S).group(1)
    return re.findall(r"X\((\w+),\s*([^)]*)\)", body)


def compile_asserts(tmp_path, root, header, asserts):
    source = tmp_path / "abi.c"
    source.write_text('#include "device/nvml_abi.h"\n#include <stddef.h>\n'
                      f'#define NVML_NO_UNVERSIONED_FUNC_DEFS 1\n#include "{header}"\n' + "\n".join(asserts) + "\n")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang-19", "clang"))))
    done = subprocess.run([compiler, "-std=gnu11", "-fsyntax-only", f"-I{root}/src", str(source)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def same(left, right):
    return f'_Static_assert((long long)({left}) == (long long)({right}), "{left} is not {right}");'


def test_structs(ours, theirs, root, tmp_path):
    header = theirs[1]
    text = header.read_text(errors="replace")
    found = members(ours)
    described = {name for name in found if not name.endswith("nvml_api")}
    assert described - set(STRUCTS) - UNCHECKED == set(), "a struct that this test does not compare"
    asserts, compared = [], 0
    for name, other in STRUCTS.items():
        if not re.search(rf"\b{other}\b", text):
            continue
        compared += 1
        if name not in GREW:
            asserts.append(same(f"sizeof({name})", f"sizeof({other})"))
        for member in found[name]:
            asserts.append(same(f"offsetof({name}, {member})", f"offsetof({other}, {member})"))
            if name not in GREW or member != "metrics":
                asserts.append(same(f"sizeof((({name} *)0)->{member})", f"sizeof((({other} *)0)->{member})"))
    assert compared >= len(STRUCTS) - 2
    assert len(asserts) > 250
    compile_asserts(tmp_path, root, header, asserts)


def test_a_wrong_offset_is_seen(theirs, root, tmp_path):
    with pytest.raises(AssertionError, match="is not"):
        compile_asserts(tmp_path, root, theirs[1],
                        [same("offsetof(struct nvml_memory, free)", "offsetof(nvmlMemory_t, used)")])


def test_constants(ours, theirs, root, tmp_path):
    header = theirs[1]
    text = header.read_text(errors="replace")
    named = set(re.findall(r"^    AL_NVML_(\w+) = ", ours, re.M))
    assert named - set(CONSTANTS) - set(BOUNDS) == set(), "a constant that this test does not compare"
    asserts = [same(f"AL_NVML_{name}", other) for name, other in CONSTANTS.items() if re.search(rf"\b{other}\b", text)]
    assert len(asserts) > 60
    asserts += [f"_Static_assert(AL_NVML_{name} >= {other}, \"{name}\");" for name, other in BOUNDS.items()]
    results = x_rows(ours, "AL_NVML_RESULTS")
    assert len(results) > 30
    asserts += [same(f"AL_NVML_{name}", f"NVML_{name}") for name, _ in results if re.search(rf"\bNVML_{name}\b", text)]
    compile_asserts(tmp_path, root, header, asserts)


def test_fields(ours, theirs, root, tmp_path):
    generation, header = theirs
    text = header.read_text(errors="replace")
    asserts = []
    for name, _ in x_rows(re.sub(r"/\*.*?\*/", "", ours), "AL_NVML_FIELDS"):
        other = "NVML_FI_DEV_" + FIELDS.get(name, name)
        if name in NEWER_FIELDS and other not in text:
            continue
        if generation == "cuda12" and name in RENUMBERED:
            asserts.append(same(RENUMBERED[name], other))
            continue
        asserts.append(same(f"AL_NVML_FI_{name}", other))
    assert len(asserts) > 40
    for name, _ in x_rows(re.sub(r"/\*.*?\*/", "", ours), "AL_NVML_GPM_METRICS"):
        asserts.append(same(f"AL_NVML_GPM_{name}", f"NVML_GPM_METRIC_{name}"))
    compile_asserts(tmp_path, root, header, asserts)


def kind(parameter):
    parameter = parameter.strip()
    if "*" in parameter or "[" in parameter:
        return "pointer"
    if re.match(r"(nvmlDevice_t|nvmlEventSet_t|nvmlGpmSample_t)\b", parameter):
        return "pointer"
    if "long long" in parameter:
        return "64 bits"
    return "32 bits"


def parameters(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S).strip()
    return [] if text in ("", "void") else [kind(part) for part in text.split(",")]


def test_functions(ours, theirs):
    text = re.sub(r"/\*.*?\*/", "", theirs[1].read_text(errors="replace"), flags=re.S)
    declared = dict(re.findall(r"nvmlReturn_t\s+DECLDIR\s+(nvml\w+)\s*\(([^)]*)\)", text))
    body = ours[ours.index("#define AL_NVML_FUNCTIONS"):]
    rows = re.findall(r"X\((nvml\w+),\s*\\?\s*\(([^)]*)\)\)", body)
    assert len(rows) > 100
    compared = 0
    for name, params in rows:
        if name not in declared:
            continue
        compared += 1
        if name in NEWER_FUNCTIONS:
            continue
        assert parameters(params) == parameters(declared[name]), name
    assert compared > 90
