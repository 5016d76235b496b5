# SPDX-License-Identifier: Apache-2.0
"""libalula.so as its users have it: the example program, ctypes, pkg-config; all on the stand-in driver."""

import ctypes
import json
import math
import os
import re
import subprocess
import sys
import time

import pytest

SCENE = """\
alula scenario 1
driver 580.159.04
gpu 0 name="NVIDIA H200" uuid=GPU-00000000-aaaa-bbbb-cccc-dddddddddddd
gpu 1 name="NVIDIA H200"
gpu 2 name="NVIDIA GB10" unified_memory=yes
duration 600s
@0s
gpu 0-2 temperature_celsius=34C utilization_ratio=97% power_watts=655.999W
gpu 0-1 memory_used_bytes=110796MiB memory_total_bytes=143771MiB memory_free_bytes=32361MiB memory_reserved_bytes=614MiB
"""
KEYS = ["timestamp", "gpu_id", "gpu_util_percent", "mem_used_gb", "mem_total_gb", "mem_usage_ratio",
        "pytorch_allocated_gb", "pytorch_reserved_gb"]


class Sample(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("gpu_id", ctypes.c_uint32),
                *[(name, ctypes.c_double) for name in
                  ("timestamp", "gpu_util_percent", "mem_used_gb", "mem_total_gb", "mem_usage_ratio",
                   "pytorch_allocated_gb", "pytorch_reserved_gb", "power_watts", "temperature_celsius")],
                *[(name, ctypes.c_uint32) for name in
                  ("util_status", "memory_status", "pytorch_status", "power_status", "temperature_status", "reserved")]]


class Window(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("count", ctypes.c_uint32),
                *[(name, ctypes.c_double) for name in
                  ("seconds", "last", "mean", "peak", "min", "deviation", "slope_per_second", "slope_low",
                   "slope_high")]]


@pytest.fixture
def driver_env(standin, build, tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(SCENE)
    return {**os.environ, "ALULA_SCENARIO": str(path), "LC_ALL": "C.UTF-8",
            "LD_LIBRARY_PATH": f"{standin.parent}:{build / 'src/lib'}"}


def run_example(build, env, *args):
    return subprocess.run([build / "tests/examples/example-tracker", *args], env=env, capture_output=True,
                          encoding="utf-8", timeout=60, check=False)


def test_example_program(build, driver_env):
    before = time.time()
    result = run_example(build, driver_env, "3", "20", "0,2")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    records = [json.loads(line) for line in lines[:6]]
    assert [r["gpu_id"] for r in records] == [0, 2] * 3
    for r in records:
        assert list(r) == KEYS
        assert before <= r["timestamp"] <= time.time()
        assert r["gpu_util_percent"] == 97
        assert (r["pytorch_allocated_gb"], r["pytorch_reserved_gb"]) == (None, None)
    for r, line in zip(records[0::2], lines[0::2]):
        assert '"mem_used_gb": 108.20, "mem_total_gb": 140.40, "mem_usage_ratio": 0.771' in line, r
    for r in records[1::2]:  # its memory is the host's
        assert (r["mem_used_gb"], r["mem_total_gb"], r["mem_usage_ratio"]) == (None, None, None)
    assert re.fullmatch(r"GPU-00000000-aaaa-bbbb-cccc-dddddddddddd memory GB: 3 readings, mean 108\.20, peak 108\.20, "
                        r"min 108\.20, deviation 0\.00, p95 108\.20, slope -?0\.0000/s", lines[7])
    assert lines[9].endswith(" memory GB: no reading yet")


def test_example_without_what_it_asks_for(build, driver_env, tmp_path):
    result = run_example(build, driver_env, "1", "0", "7")
    assert result.returncode == 1
    assert result.stdout == "" and result.stderr.startswith("tracker: ")
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "libnvidia-ml.so.1").write_text("not a library")
    result = run_example(build, {**driver_env, "LD_LIBRARY_PATH": f"{empty}:{build / 'src/lib'}"}, "1")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1 and "libnvidia-ml.so.1" in result.stderr


def test_a_driver_that_hangs_is_left_alone(build, driver_env, tmp_path):
    path = tmp_path / "hang.txt"
    path.write_text(SCENE + "hang nvmlDeviceGetTemperature 60s gpu=1\n")
    began = time.monotonic()
    result = run_example(build, {**driver_env, "ALULA_SCENARIO": str(path)}, "1")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("tracker: the driver did not answer in time: nvmlDeviceGetTemperature (")
    assert time.monotonic() - began < 30  # the library waits for 5 s, the call for 60 s


CTYPES = r"""
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
from test_lib import Sample, Window
lib = ctypes.CDLL(sys.argv[2])
for name in ("alula_version", "alula_error_message", "alula_error_text", "alula_status_text"):
    getattr(lib, name).restype = ctypes.c_char_p
t = ctypes.c_void_p()
assert lib.alula_tracker_new(1, 120, ctypes.byref(t)) == 0, lib.alula_error_message()
s, w, q = Sample(size=ctypes.sizeof(Sample)), Window(size=ctypes.sizeof(Window)), ctypes.c_double()
times, values = (ctypes.c_double * 8)(), (ctypes.c_double * 8)()
for _ in range(3):
    assert lib.alula_tracker_sample(t, ctypes.byref(s)) == 0
out = ctypes.create_string_buffer(512)
assert lib.alula_sample_json(ctypes.byref(s), out, 512) == len(out.value)
assert lib.alula_tracker_window(t, 0, 3, ctypes.byref(w)) == 0
assert lib.alula_tracker_quantile(t, 0, 3, ctypes.c_double(0.5), ctypes.byref(q)) == 0
count = lib.alula_tracker_history(t, 0, 1, times, values, 8)
sample = {name: getattr(s, name) for name, _ in Sample._fields_}
lib.alula_tracker_free(t)
bad = lib.alula_tracker_new(9, 120, ctypes.byref(t))
print(json.dumps({"sample": sample, "json": json.loads(out.value), "mean": w.mean, "count": w.count, "median": q.value,
                  "history": [count, values[0], times[0]], "version": lib.alula_version().decode(), "bad": bad,
                  "message": lib.alula_error_message().decode(), "lost": lib.alula_status_text(5).decode()}))
"""


@pytest.mark.plain
def test_from_python(build, driver_env):
    here = os.path.dirname(__file__)
    before = time.time()
    result = subprocess.run([sys.executable, "-c", CTYPES, here, build / "src/lib/libalula.so.0"], env=driver_env,
                            capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    data = json.loads(result.stdout)
    sample = data["sample"]
    assert sample["gpu_id"] == 1 and sample["gpu_util_percent"] == 97
    assert sample["power_watts"] == pytest.approx(655.999) and sample["temperature_celsius"] == 34
    assert sample["mem_used_gb"] == 110796 / 1024 and sample["mem_total_gb"] == 143771 / 1024
    assert math.isnan(sample["pytorch_allocated_gb"])
    assert [sample[k] for k in ("util_status", "memory_status", "pytorch_status", "power_status")] == [1, 1, 2, 1]
    assert list(data["json"]) == KEYS and data["json"]["mem_used_gb"] == 108.2
    assert data["mean"] == pytest.approx(655.999) and data["median"] == pytest.approx(655.999)
    assert 1 <= data["count"] <= 3
    assert data["history"][:2] == [data["history"][0], 110796 / 1024] and 1 <= data["history"][0] <= 3
    assert before - 1 <= data["history"][2] <= time.time() + 1
    assert (data["bad"], data["message"]) == (-5, 'no GPU matches "9"')
    assert data["lost"] == "the GPU is lost"


def test_soname_and_pkg_config(build):
    text = subprocess.run(["readelf", "-d", build / "src/lib/libalula.so"], check=True, capture_output=True,
                          text=True).stdout
    assert "[libalula.so.0]" in text
    package = (build / "meson-private" / "alula.pc").read_text()
    assert re.search(r"^Libs: -L\$\{(libdir|prefix)\}\S* -lalula$", package, re.M) and "Cflags: -I${includedir}" in package


def test_header_stands_alone_in_c_and_cpp(root, tmp_path):
    for compiler, suffix, flags in (("cc", "c", ["-std=c99", "-pedantic"]), ("c++", "cpp", ["-std=c++11"])):
        path = tmp_path / f"header.{suffix}"
        path.write_text("#include <alula/alula.h>\nint main(void) { return (int)sizeof(struct alula_sample) - 104; }\n")
        try:
            subprocess.run([compiler, "--version"], capture_output=True, check=True)
        except OSError:
            continue  # a machine without a C++ compiler builds alula all the same
        result = subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Werror", f"-I{root / 'include'}", path, "-o",
                                 tmp_path / "header"], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        assert subprocess.run([tmp_path / "header"], check=False).returncode == 0
