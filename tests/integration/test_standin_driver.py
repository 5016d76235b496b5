# SPDX-License-Identifier: Apache-2.0
"""The stand-in driver, call by call through nvidia-ml-py and ctypes: it answers as driver 580.159 did on an H200."""

import json
import re
import subprocess
import sys
import time

import pytest

from standin_env import HEAD, standin_env

pytestmark = pytest.mark.plain  # a shared object in Python: not under sanitizers

PRELUDE = """
import ctypes as C, json, sys, time
import pynvml as n
lib = C.CDLL("libnvidia-ml.so.1")
def call(f, *args):
    try:
        return f(*args)
    except n.NVMLError as e:
        return type(e).__name__.replace("NVMLError_", "")
def init():
    n.nvmlInit()
    return n.nvmlDeviceGetHandleByIndex(0)
def word(size, version):
    return size | version << 24
out = None
"""


@pytest.fixture
def drive(standin, tmp_path):
    """drive(code, scenario) runs Python against the stand-in; what it assigns to `out` comes back."""

    def run(code, scenario, check=True, **env):
        path = tmp_path / "scenario.txt"
        path.write_text(scenario)
        done = subprocess.run([sys.executable, "-c", PRELUDE + code + "\nprint(json.dumps(out))"],
                              env=standin_env(standin, path, **env), timeout=60, capture_output=True, text=True,
                              check=False)
        if not check:
            return done
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


ONE = HEAD + "gpu 0 uuid=GPU-1 pci_bus_id=00000000:83:00.0\n"


def test_before_and_after_init(drive):
    out = drive("""
u = C.c_uint(7)
first = lib.nvmlDeviceGetCount_v2(C.byref(u))
n.nvmlInit(); n.nvmlInit(); n.nvmlShutdown()
h = n.nvmlDeviceGetHandleByIndex(0)
between = n.nvmlDeviceGetCount()
n.nvmlShutdown()
out = [first, u.value, between, lib.nvmlDeviceGetCount_v2(C.byref(u)), lib.nvmlShutdown()]
""", ONE)
    assert out == [1, 7, 1, 1, 1]


def test_no_scenario(drive):
    assert drive("out = call(n.nvmlInit)", "", ALULA_SCENARIO="") == "DriverNotLoaded"


def test_broken_scenario(drive, tmp_path):
    done = drive("out = call(n.nvmlInit)", ONE + "@0s\ngpu 0 colour=red\n", check=False)
    assert done.stdout.strip() == '"Unknown"'
    assert done.stderr == (f"libnvidia-ml (alula's stand-in): {tmp_path}/scenario.txt:7:7: 'colour' is no metric of a GPU; "
                           "docs/metrics.md lists them\n")
    done = drive("out = call(n.nvmlInit)", "", check=False, ALULA_SCENARIO="/nonexistent")
    assert done.stdout.strip() == '"Unknown"'
    assert done.stderr.count("\n") == 1


def test_zero_gpus(drive):
    assert drive("n.nvmlInit(); out = [n.nvmlDeviceGetCount(), call(n.nvmlDeviceGetHandleByIndex, 0)]",
                 HEAD) == [0, "InvalidArgument"]


def test_identity(drive):
    out = drive("""
h = init()
p = n.nvmlDeviceGetPciInfo(h)
b = C.create_string_buffer(8)
out = {
  "versions": [n.nvmlSystemGetDriverVersion(), n.nvmlSystemGetNVMLVersion(), n.nvmlSystemGetCudaDriverVersion()],
  "pci": [p.busId, p.busIdLegacy, p.domain, p.bus, p.device, p.pciDeviceId],
  "by": [found if isinstance(found := call(n.nvmlDeviceGetHandleByPciBusId, x), str) else n.nvmlDeviceGetUUID(found)
         for x in (b"00000000:83:00.0", b"0000:83:00.0", b"83:00.0", b"0000:ff:00.0", b"junk")],
  "uuid": [n.nvmlDeviceGetUUID(h), call(n.nvmlDeviceGetHandleByUUID, b"GPU-2"), call(n.nvmlDeviceGetHandleByUUID, b"")],
  "index": [n.nvmlDeviceGetIndex(h), call(n.nvmlDeviceGetHandleByIndex, 1), call(n.nvmlDeviceGetHandleByIndex, 0xffffffff)],
  "short": lib.nvmlDeviceGetName(h, b, 8),
  "attributes": [n.nvmlDeviceGetVbiosVersion(h), n.nvmlDeviceGetEccMode(h), call(n.nvmlDeviceGetComputeMode, h)],
}
""", ONE + "attr 0 vbios_version=96.00 ecc_mode=1 ecc_mode_pending=0 compute_mode=!denied pci_device_id=0x233510de\n")
    assert out["versions"] == ["580.159.04", "13.580.159.04", 13000]
    assert out["pci"] == ["00000000:83:00.0", "0000:83:00.0", 0, 0x83, 0, 0x233510DE]
    assert out["by"] == ["GPU-1", "GPU-1", "GPU-1", "NotFound", "InvalidArgument"]
    assert out["uuid"] == ["GPU-1", "NotFound", "NotFound"]
    assert out["index"] == [0, "InvalidArgument", "InvalidArgument"]
    assert out["short"] == 7
    assert out["attributes"] == ["96.00", [1, 0], "NoPermission"]


def test_memory_structs(drive):
    out = drive("""
h = init()
v1, v2 = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)
wrong = []
for version in (2, 0, 0x28, 0x1000028, 0x3000028, 0x2000020):
    m = n.c_nvmlMemory_v2_t(); m.version = version; m.total = 5
    wrong.append([lib.nvmlDeviceGetMemoryInfo_v2(h, C.byref(m)), m.total])
out = [[v1.total, v1.free, v1.used], [v2.total, v2.reserved, v2.free, v2.used], wrong,
       lib.nvmlDeviceGetMemoryInfo_v2(h, None)]
""", ONE + "@0s\ngpu 0 memory_total_bytes=1000 memory_reserved_bytes=100 memory_used_bytes=300\n")
    assert out[0] == [1000, 600, 400]  # v1 counts the reserve as used
    assert out[1] == [1000, 100, 600, 300]
    assert out[2] == [[13, 5]] * 6  # "function not found", and nothing written
    assert out[3] == 2


def test_other_version_words(drive):
    out = drive("""
h = init()
def ask(name, size, version):
    b = C.create_string_buffer(4096)
    C.cast(b, C.POINTER(C.c_uint))[0] = version
    return lib[name](h, b)
out = {name: [ask(name, size, word(size, 1)), ask(name, size, 1), ask(name, size, 0)] for name, size in [
    ("nvmlDeviceGetPciInfoExt", 64), ("nvmlDeviceGetTemperatureV", 12), ("nvmlDeviceGetMarginTemperature", 8),
    ("nvmlDeviceGetSramEccErrorStatus", 104), ("nvmlDeviceGetProcessesUtilizationInfo", 24)]}
""", ONE + "@0s\ngpu 0 temperature_celsius=50 temperature_margin_celsius=37 ecc_uncorrected_aggregate_sram_parity_errors=0\n")
    assert out == {"nvmlDeviceGetPciInfoExt": [0, 25, 25], "nvmlDeviceGetTemperatureV": [0, 25, 25],
                   "nvmlDeviceGetMarginTemperature": [0, 25, 25], "nvmlDeviceGetSramEccErrorStatus": [0, 25, 25],
                   "nvmlDeviceGetProcessesUtilizationInfo": [7, 25, 25]}


LISTS = """
h = init()
def ask(name, size, count, buffer=True):
    c = C.c_uint(count)
    b = C.create_string_buffer(b"Z" * 4096)
    r = lib[name](h, C.byref(c), b if buffer else None)
    raw = b.raw[:size * c.value] if r == 0 else b""
    words = [raw[i:i + size] for i in range(0, len(raw), size)]
    return [r, c.value, [[int.from_bytes(w[:4], "little"), int.from_bytes(w[8:16], "little"),
                          int.from_bytes(w[16:20], "little")] for w in words]]
"""


def test_process_lists(drive):
    out = drive(LISTS + """
f = "nvmlDeviceGetComputeRunningProcesses"
out = [ask(f + "_v3", 24, 0, False), ask(f + "_v3", 24, 8, False), ask(f + "_v3", 24, 1), ask(f + "_v3", 24, 8),
       ask(f + "_v2", 24, 2), ask(f, 16, 2), ask("nvmlDeviceGetGraphicsRunningProcesses_v3", 24, 8),
       ask("nvmlDeviceGetMPSComputeRunningProcesses_v3", 24, 0, False), lib.nvmlDeviceGetComputeRunningProcesses_v3(h, None, None)]
""", ONE + "@0s\nrow 20 gpu=0 memory_bytes=5000 gpu_instance=3\nrow 10 gpu=0 memory_bytes=!denied\nrow 30 gpu=0 type=G memory_bytes=1\n")
    none, blank = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
    rows = [[10, blank, none], [20, 5000, 3]]
    assert out == [[7, 2, []], [2, 2, []], [7, 2, []], [0, 2, rows], [0, 2, rows],
                   [0, 2, [[10, blank, 0], [20, 5000, 0]]], [0, 1, [[30, 1, none]]], [0, 0, []], 2]


def test_process_utilization(drive):
    out = drive("""
h = init()
def ask(last, count=128):
    a = (n.c_nvmlProcessUtilizationSample_t * 128)()
    c = C.c_uint(count)
    r = lib.nvmlDeviceGetProcessUtilization(h, a, C.byref(c), C.c_ulonglong(last))
    return [r, c.value, [[s.pid, s.smUtil, s.memUtil, s.timeStamp] for s in a[:c.value]] if r == 0 else []]
now = int(time.time() * 1e6)
first = ask(0)
out = [first, ask(first[2][0][3]), ask(now + 10**7), ask(0, 1), now]
""", ONE + "@0s\nrow 20 gpu=0 sm_ratio=0.96 memory_ratio=0.23\nrow 10 gpu=0 sm_ratio=0\nrow 5 gpu=0\n",
                ALULA_SCENARIO_SPEED=0, ALULA_SCENARIO_START="10.3s")
    first, again, future, short, now = out
    assert first[:2] == [0, 1]  # idle processes have no entry
    assert first[2][0][:3] == [20, 96, 23]
    assert 0 <= now - first[2][0][3] < 2_000_000
    assert again[:2] == [6, 128]  # nothing newer: "not found", the count left as it was
    assert future[:2] == [6, 128]
    assert short[:2] == [7, 72]


def test_samples(drive):
    out = drive("""
h = init()
def ask(type, last=0, count=100, buffer=True):
    vt, c, a = C.c_uint(77), C.c_uint(count), (n.c_nvmlSample_t * 200)()
    r = lib.nvmlDeviceGetSamples(h, type, C.c_ulonglong(last), C.byref(vt), C.byref(c), a if buffer else None)
    return [r, vt.value, c.value, [[s.timeStamp, s.sampleValue.uiVal] for s in a[:c.value]] if r == 0 and buffer else []]
full = ask(1)
out = {"null": ask(1, buffer=False), "full": full, "three": ask(1, count=3), "none": ask(1, full[3][-1][0]),
       "newer": ask(1, full[3][-4][0]), "type 7": ask(7), "clock": ask(5), "power": ask(0, buffer=False),
       "encoder": ask(3), "now": int(time.time() * 1e6)}
""", ONE + "@0s\ngpu 0 utilization_ratio=0..1/20s power_instant_watts=100\n", ALULA_SCENARIO_SPEED=0,
                ALULA_SCENARIO_START="19.9s")
    assert out["null"] == [0, 1, 72, []]
    result, value_type, count, samples = out["full"]
    assert (result, value_type, count) == (0, 1, 71)
    assert [value for _, value in samples][-3:] == [97, 98, 99]  # at 19.4 s, 19.6 s and 19.8 s
    assert samples[0][1] == 29  # 71 samples of 200 ms: 14 s back
    gaps = {b[0] - a[0] for a, b in zip(samples, samples[1:])}
    assert all(199_000 <= gap <= 201_000 for gap in gaps)
    assert 0 <= out["now"] - samples[-1][0] < 2_000_000
    assert [value for _, value in out["three"][3]] == [29, 30, 31]  # the oldest come first
    assert out["none"][0] == 6
    assert out["newer"][3] == samples[-3:]
    assert out["type 7"][0] == 2
    assert out["clock"][0] == 6
    assert out["power"][:3] == [0, 1, 120]
    assert out["encoder"][0] == 3


def test_samples_continue(drive):
    """A reader that goes on from the last stamp it saw gets every sample once."""
    out = drive("""
h = init()
last, seen = 0, []
for _ in range(12):
    try:
        _, samples = n.nvmlDeviceGetSamples(h, n.NVML_GPU_UTILIZATION_SAMPLES, last)
        last = samples[-1].timeStamp
        seen += [s.sampleValue.uiVal for s in samples]
    except n.NVMLError_NotFound:
        pass
    time.sleep(0.03)
out = seen
""", ONE + "@0s\ngpu 0 utilization_ratio=0..1/20s\n", ALULA_SCENARIO_SPEED=20)
    assert len(out) > 20
    assert out == list(range(out[0], out[0] + len(out)))  # 200 ms are one percent of the ramp


def test_field_values(drive):
    out = drive("""
h = init()
def ask(*ids):
    a = (n.c_nvmlFieldValue_t * len(ids))()
    for f, i in zip(a, ids):
        f.fieldId, f.scopeId = i if isinstance(i, tuple) else (i, 0)
        f.valueType, f.value.ullVal = 99, 0x5a5a5a5a5a5a5a5a
    r = lib.nvmlDeviceGetFieldValues(h, len(ids), a)
    return [r] + [[f.nvmlReturn, f.valueType, f.value.uiVal if f.valueType == 1 else f.value.ullVal] for f in a]
out = {"some": ask(82, 83, 185, 186, 142, 138, 94), "scopes": ask((185, 1), (185, 2), (185, 17), (187, 2)),
       "unknown": ask(0, 303, 84), "time": 0,
       "empty": lib.nvmlDeviceGetFieldValues(h, 0, None),
       "links": ask((138, 0), (138, 5), (138, 0xffffffff)), "counters": ask(74, 80, 270)}
""", ONE + "@0s\ngpu 0 memory_temperature_celsius=66 energy_joules=1234.5 power_average_watts=640.25 power_instant_watts=655 "
                "remapped_rows_correctable=3 nvlink_tx_bytes=10MiB pcie_replays=2 power_minimum_limit_watts=200 "
                "violation_power_seconds=1.5 violation_application_clocks_seconds=2 clocks_event_hw_thermal_slowdown_seconds=!denied\n")
    assert out["some"] == [0, [0, 1, 66], [0, 3, 1234500], [0, 1, 640250], [0, 1, 655000], [0, 3, 3], [0, 3, 10240],
                           [0, 1, 2]]
    assert [row[0] for row in out["scopes"][1:]] == [3, 3, 2, 2]
    untouched = 0x5A5A5A5A5A5A5A5A
    assert out["unknown"][1:] == [[2, 99, untouched], [2, 99, untouched], [3, 99, untouched]]
    assert out["empty"] == 2
    assert [row[2] for row in out["links"][1:]] == [10240, 0, 10240]
    assert out["counters"] == [0, [0, 3, 1500000000], [0, 3, 2000000000], [4, 3, 0]]


def test_ecc_and_rows(drive):
    out = drive("""
h = init()
hist = n.nvmlDeviceGetRowRemapperHistogram(h)
out = [n.nvmlDeviceGetTotalEccErrors(h, 1, 1), n.nvmlDeviceGetMemoryErrorCounter(h, 0, 0, 2),
       call(n.nvmlDeviceGetMemoryErrorCounter, h, 0, 0, 0), call(n.nvmlDeviceGetMemoryErrorCounter, h, 0, 0, 8),
       n.nvmlDeviceGetRemappedRows(h), [hist.max, hist.high, hist.none],
       len(n.nvmlDeviceGetRetiredPages(h, 0)), call(n.nvmlDeviceGetRetiredPages, h, 2)]
""", ONE + "@0s\ngpu 0 ecc_uncorrected_aggregate_total_errors=2 ecc_corrected_volatile_dram_errors=50 remapped_rows_correctable=1 "
                "remapped_rows_uncorrectable=2 remapped_rows_pending=1 remapped_rows_failure=0 remapped_rows_banks_max=3070 "
                "remapped_rows_banks_high=2 remapped_rows_banks_partial=0 remapped_rows_banks_low=0 remapped_rows_banks_none=0 "
                "retired_pages_single_bit=4\n")
    assert out == [2, 50, "NotSupported", "InvalidArgument", [1, 2, 1, 0], [3070, 2, 0], 4, "InvalidArgument"]


def test_gpm(drive):
    out = drive("""
h = init()
a, b = n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()
def metrics():
    g = n.c_nvmlGpmMetricsGet_t()
    g.version, g.numMetrics, g.sample1, g.sample2 = 1, 3, a, b
    for i, id in enumerate((2, 10, 20)):
        g.metrics[i].metricId = id
    r = lib.nvmlGpmMetricsGet(C.byref(g))
    return [r] + [[m.nvmlReturn, m.value if m.value == m.value else "nan"] for m in g.metrics[:3]]
empty = metrics()
n.nvmlGpmSampleGet(h, a)
half = metrics()[0]
n.nvmlGpmSampleGet(h, b)
short = metrics()
time.sleep(0.06)
n.nvmlGpmSampleGet(h, b)
g = n.c_nvmlGpmMetricsGet_t()
g.sample1, g.sample2 = a, b
out = [n.nvmlGpmQueryDeviceSupport(h).isSupportedDevice, empty, half, short, metrics(), lib.nvmlGpmMetricsGet(C.byref(g))]
""", ONE + "@0s\ngpu 0 sm_active_ratio=0.9 dram_active_ratio=0.5 gpm_pcie_tx_bytes_per_second=2MiB/s\n")
    supported, empty, half, short, full, wrong = out
    assert supported == 1
    assert empty == [0, [1, 0.0], [1, 0.0], [1, 0.0]]
    assert half == 2
    assert short == [0, [0, 0.0], [0, "nan"], [0, 0.0]]
    assert full == [0, [0, 90.0], [0, 50.0], [0, 2.0]]
    assert wrong == 25


def test_xid_events(drive):
    out = drive("""
h = init()
s = n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, s)
t = time.monotonic()
early = call(n.nvmlEventSetWait_v2, s, 20)
waited = time.monotonic() - t
got = []
for _ in range(3):
    e = n.nvmlEventSetWait_v2(s, 5000)
    got.append([e.eventType, e.eventData, C.cast(e.device, C.c_void_p).value == C.cast(h, C.c_void_p).value])
out = [early, waited >= 0.02, got, call(n.nvmlEventSetWait_v2, s, 0)]
""", HEAD + "gpu 0-1\n@100ms\nxid 0 79\nxid 1 31\n@150ms\nxid 0 48 count=2\n")
    assert out == ["Timeout", True, [[8, 79, True], [8, 48, True], [8, 48, True]], "Timeout"]


def test_faults(drive):
    out = drive("""
h = init()
out = [[call(n.nvmlDeviceGetPowerUsage, h) for _ in range(3)], call(n.nvmlDeviceGetTemperature, h, 0),
       call(n.nvmlDeviceGetName, h)]
""", ONE + "fault nvmlDeviceGetPowerUsage NO_PERMISSION calls=2\nfault nvmlDeviceGetTemperature* TIMEOUT gpu=0\n"
                "@0s\ngpu 0 power_watts=77.5 temperature_celsius=40\n")
    assert out == [["NoPermission", "NoPermission", 77500], "Timeout", "NVIDIA H200"]
    assert drive("out = call(n.nvmlInit)", ONE + "fault nvmlInit_v2 LIB_RM_VERSION_MISMATCH\n") == "LibRmVersionMismatch"


def test_lost_and_back(drive):
    out = drive("""
n.nvmlInit()
h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(3)]
time.sleep(0.15)
lost = [call(n.nvmlDeviceGetPowerUsage, x) for x in h] + [call(n.nvmlDeviceGetHandleByIndex, 1), n.nvmlDeviceGetCount()]
n.nvmlShutdown(); n.nvmlInit()
out = [lost, n.nvmlDeviceGetCount(), [n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(i)) for i in range(2)]]
""", HEAD + "gpu 0 uuid=GPU-a\ngpu 1 uuid=GPU-b\ngpu 2 uuid=GPU-c\n@0s\ngpu 0-2 power_watts=5\n@100ms\ngone 1\n")
    assert out == [[5000, "GpuIsLost", 5000, "GpuIsLost", 3], 2, ["GPU-a", "GPU-c"]]


def test_missing_symbols(drive):
    out = drive("""
h = init()
out = [hasattr(lib, f) for f in ("nvmlDeviceGetMemoryInfo_v2", "nvmlGpmSampleGet", "nvmlGpmMetricsGet", "nvmlDeviceGetMemoryInfo",
                                 "nvmlDeviceGetName")] + [
    call(n.nvmlDeviceGetMemoryInfo, h, n.nvmlMemory_v2), n.nvmlDeviceGetMemoryInfo(h).total, n.nvmlDeviceGetName(h)]
""", ONE + "missing nvmlDeviceGetMemoryInfo_v2 nvmlGpm*\n@0s\ngpu 0 memory_total_bytes=1000 memory_used_bytes=1\n")
    assert out == [False, False, False, True, True, "FunctionNotFound", 1000, "NVIDIA H200"]


def test_hang_blocks_only_its_caller(drive):
    out = drive("""
import threading
h = init()
took = {}
def timed(name, f, *args):
    t = time.monotonic(); f(*args); took[name] = time.monotonic() - t
t = threading.Thread(target=timed, args=("hung", n.nvmlDeviceGetPowerUsage, h))
t.start()
time.sleep(0.05)
timed("other", n.nvmlDeviceGetTemperature, h, 0)
t.join()
out = took
""", ONE + "hang nvmlDeviceGetPowerUsage 400ms\n@0s\ngpu 0 power_watts=1 temperature_celsius=2\n")
    assert 0.3 < out["hung"] < 5
    assert out["other"] < out["hung"] / 2


def test_processes_share_an_epoch(drive):
    text = ONE + "@0s\ngpu 0 power_watts=0..1000/1000s\n"
    epoch = time.monotonic_ns() - 100 * 10**9
    first = drive("out = n.nvmlDeviceGetPowerUsage(init())", text, ALULA_SCENARIO_EPOCH_NS=epoch)
    second = drive("out = n.nvmlDeviceGetPowerUsage(init())", text, ALULA_SCENARIO_EPOCH_NS=epoch)
    assert 100_000 <= first <= second < 160_000
    frozen = drive("h = init(); a = n.nvmlDeviceGetPowerUsage(h); time.sleep(0.02); out = [a, n.nvmlDeviceGetPowerUsage(h)]",
                   text, ALULA_SCENARIO_SPEED=0, ALULA_SCENARIO_START="250s")
    assert frozen == [250_000, 250_000]


def test_fork(drive):
    assert drive("""
import os
h = init()
r, w = os.pipe()
if os.fork() == 0:
    u = C.c_uint()
    os.write(w, bytes([lib.nvmlDeviceGetPowerUsage(h, C.byref(u))]))
    os._exit(0)
out = [os.read(r, 1)[0], n.nvmlDeviceGetPowerUsage(h)]
""", ONE + "@0s\ngpu 0 power_watts=1\n") == [1, 1000]


def test_process_names(drive):
    out = drive("""
init()
def name(pid, size=64):
    b = C.create_string_buffer(size)
    return [lib.nvmlSystemGetProcessName(pid, b, size), b.value.decode()]
import os
out = [name(20), name(21), name(os.getpid())[0], name(999999), name(20, 4)]
""", ONE + '@0s\nrow 20 gpu=0 driver_name="python3"\nproc 21 comm=py command="/usr/bin/python train.py"\nrow 21 gpu=0\n')
    assert out == [[0, "python3"], [0, "/usr/bin/python"], 0, [6, ""], [0, "pyt"]]


def test_every_function_is_there(standin, root):
    """What driver 580.159 exports, counted; each is a name that some client may look up."""
    listing = subprocess.run(["nm", "-D", "--defined-only", str(standin)], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in listing.splitlines()}
    assert {name for name in names if not name.startswith("nvml")} == set()
    assert len(names) == 404
    text = (root / "src/device/nvml_abi.h").read_text()
    body = text[text.index("#define AL_NVML_FUNCTIONS"):]
    assert set(re.findall(r"X\((nvml\w+),", body)) <= names


def test_every_scenario_loads(standin, scenarios):
    """Each hand-written scenario says in its first lines what it shows, and the stand-in takes it."""
    files = sorted(scenarios.glob("*.txt"))
    assert len(files) >= 20
    for path in files:
        assert path.name == "h200-session.txt" or path.read_text().startswith("# "), path
        done = subprocess.run([sys.executable, "-c", "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount())"],
                              env=standin_env(standin, path), timeout=60, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) >= 1


def test_unknown_functions_are_not_supported(drive):
    assert drive("""
h = init()
out = [lib.nvmlDeviceGetP2PStatus(h, h, 0, None), lib.nvmlDeviceSetPowerManagementLimit(h, 1)]
""", ONE) == [3, 3]
