# SPDX-License-Identifier: Apache-2.0
"""gpustat, nvitop and nvidia-ml-py, unmodified from PyPI, run on the stand-in driver and print the scenario's numbers."""

import json
import pathlib
import subprocess
import sys

import pytest

from standin_env import HEAD, standin_env

pytestmark = pytest.mark.plain  # a shared object in Python: not under sanitizers

MIB = 1 << 20
BIN = pathlib.Path(sys.executable).parent


@pytest.fixture
def client(standin, tmp_path):
    """client("gpustat", "--json", scenario=text) runs a program of the test's environment on a scenario."""

    def run(program, *args, scenario, timeout=60, **env):
        path = tmp_path / "scenario.txt"
        path.write_text(scenario)
        return subprocess.run([str(BIN / program), *args], env=standin_env(standin, path, **env), timeout=timeout,
                              capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def nvml(standin, tmp_path):
    """nvml(code, scenario=text): runs Python code after `import pynvml as n`; what it assigns to `out` comes back."""

    def run(code, scenario, timeout=60, **env):
        path = tmp_path / "scenario.txt"
        path.write_text(scenario)
        script = ("import json, sys, time\nimport pynvml as n\nout = None\n" + code +
                  "\nprint(json.dumps(out, default=str))\n")
        done = subprocess.run([sys.executable, "-c", script], env=standin_env(standin, path, **env), timeout=timeout,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture
def sleepers():
    """Two real processes, so that psutil finds what the scenario puts on the GPUs."""
    running = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", f"job{i}"]) for i in range(2)]
    yield [p.pid for p in running]
    for p in running:
        p.kill()
        p.wait()


def gpus(count, extra=""):
    """A scenario of `count` GPUs whose numbers differ from one to the next."""
    lines = [HEAD, f"gpu 0-{count - 1}", f"attr 0-{count - 1} persistence_mode=1 compute_mode=0 display_active=0",
             f"attr 0-{count - 1} compute_capability_major=9 compute_capability_minor=0", "@0s"]
    for g in range(count):
        lines.append(f"gpu {g} utilization_ratio={g / 100} memory_utilization_ratio=0.05 memory_total_bytes=143771MiB "
                     f"memory_reserved_bytes=616MiB memory_used_bytes={1000 + g}MiB temperature_celsius={30 + g} "
                     f"power_watts={100 + g}.4 power_enforced_limit_watts=700 power_limit_watts=700 "
                     "encoder_utilization_ratio=0.03 decoder_utilization_ratio=0.04 performance_state=0 "
                     "ecc_uncorrected_volatile_total_errors=0 sm_clock_hertz=1980MHz graphics_clock_hertz=1980MHz "
                     "memory_clock_hertz=3201MHz video_clock_hertz=1545MHz")
    return "\n".join(lines) + "\n" + extra


@pytest.mark.parametrize("count", [1, 8, 64])
def test_gpustat_json(client, count):
    done = client("gpustat", "--json", scenario=gpus(count))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["driver_version"] == "580.159.04"
    assert len(answer["gpus"]) == count
    for g, gpu in enumerate(answer["gpus"]):
        assert gpu["index"] == g
        assert gpu["name"] == "NVIDIA H200"
        assert gpu["uuid"].startswith("GPU-")
        assert gpu["temperature.gpu"] == 30 + g
        assert gpu["utilization.gpu"] == g
        assert gpu["utilization.enc"] == 3
        assert gpu["utilization.dec"] == 4
        assert gpu["power.draw"] == 100 + g
        assert gpu["enforced.power.limit"] == 700
        assert gpu["memory.used"] == 1000 + g
        assert gpu["memory.total"] == 143771
        assert gpu["fan.speed"] is None
        assert gpu["processes"] == []


def test_gpustat_plain(client, sleepers):
    row = f"row {sleepers[0]} gpu=1 memory_bytes=777MiB sm_ratio=0.5\n"
    done = client("gpustat", "-cup", "-P", "--no-color", scenario=gpus(2, row))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith("580.159.04")
    assert lines[1].startswith("[0] NVIDIA H200 | 30°C,   0 %,  100 / 700 W |  1000 / 143771 MB |")
    assert lines[2].startswith("[1] NVIDIA H200 | 31°C,   1 %,  101 / 700 W |  1001 / 143771 MB |")
    assert f":{pathlib.Path(sys.executable).name}/{sleepers[0]}(777M)" in lines[2]


def test_gpustat_lost_gpu(client):
    done = client("gpustat", "--no-color", scenario=gpus(2, "lost 1\n"))
    assert done.returncode == 0, done.stderr
    assert "[0] NVIDIA H200" in done.stdout
    assert "((GPU is lost))" in done.stdout


def test_gpustat_process_list_denied(client):
    done = client("gpustat", "--json", scenario=gpus(1, "gpu 0 processes=!unsupported\n"))
    assert json.loads(done.stdout)["gpus"][0]["processes"] is None


def test_nvitop_once(client, sleepers):
    row = f"row {sleepers[0]} gpu=0 memory_bytes=10GiB sm_ratio=0.42 memory_ratio=0.21\n"
    done = client("nvitop", "-1", "--ascii", "--colorful", scenario=gpus(8, row))
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert "Driver Version: 580.159.04" in text
    assert "CUDA Driver Version: 13.0" in text
    for g in range(8):
        assert f"{30 + g}C" in text
        assert f"{100 + g}W / 700W" in text
    line = next(line for line in text.splitlines() if str(sleepers[0]) in line)
    assert "10240MiB" in line
    assert " 42 " in line and " 21 " in line


NVITOP = """
import nvitop
out = []
for d in nvitop.Device.all():
    out.append([d.name(), d.uuid(), d.memory_used(), d.memory_total(), d.gpu_utilization(), d.temperature(),
                d.power_usage(), d.sm_clock(), d.memory_clock(), d.performance_state(), d.persistence_mode(),
                [[p.pid, p.type, p.gpu_memory(), p.gpu_sm_utilization()] for p in d.processes().values()]])
"""


def test_nvitop_api(nvml, sleepers):
    rows = "".join(f"row {pid} gpu={g} type=C memory_bytes={g + 1}GiB sm_ratio=0.{g + 1}\n"
                   for g, pid in enumerate(sleepers))
    out = nvml(NVITOP, gpus(2, rows))
    assert len(out) == 2
    for g, device in enumerate(out):
        name, uuid, used, total, utilization, celsius, milliwatts, sm, memory, pstate, persistence, processes = device
        assert (name, used, total) == ("NVIDIA H200", (1000 + g) * MIB, 143771 * MIB)
        assert uuid.startswith("GPU-")
        assert (utilization, celsius, milliwatts) == (g, 30 + g, 100400 + 1000 * g)
        assert (sm, memory, pstate, persistence) == (1980, 3201, "P0", "Enabled")
        assert processes == [[sleepers[g], "C", (g + 1) << 30, 10 * (g + 1)]]


MIG = """
import nvitop
parent = nvitop.Device(0)
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
mig = n.nvmlDeviceGetMigDeviceHandleByIndex(h, 1)
def error(f, *args):
    try:
        return f(*args)
    except n.NVMLError as e:
        return [type(e).__name__]
out = {
    "devices": [[m.uuid(), m.gpu_instance_id(), m.compute_instance_id(), m.memory_used(), m.memory_total(),
                 m.gpu_utilization(), [[p.pid, p.gpu_memory()] for p in m.processes().values()]]
                for m in parent.mig_devices()],
    "mode": parent.mig_mode(),
    "count": n.nvmlDeviceGetCount(),
    "is": [n.nvmlDeviceIsMigDeviceHandle(x).value for x in (h, mig)],
    "uuid": n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByUUID("MIG-b")),
    "parent": n.nvmlDeviceGetUUID(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)) == n.nvmlDeviceGetUUID(h),
    "third": error(n.nvmlDeviceGetMigDeviceHandleByIndex, h, 2),
    "parent instance": error(n.nvmlDeviceGetGpuInstanceId, h),
    "utilization": error(n.nvmlDeviceGetUtilizationRates, mig),
    "rows": [[p.pid, p.gpuInstanceId] for p in n.nvmlDeviceGetComputeRunningProcesses_v3(h)],
    "name": n.nvmlDeviceGetName(mig),
    "attributes": [(a := n.nvmlDeviceGetAttributes_v2(mig)).gpuInstanceSliceCount, a.memorySizeMB],
}
"""


def test_mig(nvml, sleepers):
    text = (HEAD + "gpu 0\nmig 0 gpu_instance=9 profile=1g.18gb uuid=MIG-a\n"
            "mig 0 gpu_instance=5 compute_instance=1 profile=2g.35gb uuid=MIG-b\n@0s\n"
            "gpu 0 memory_total_bytes=143771MiB memory_used_bytes=4GiB\n"
            "gpu 0/0 memory_total_bytes=16GiB memory_used_bytes=1GiB\n"
            "gpu 0/1 memory_total_bytes=33280MiB memory_used_bytes=2GiB\n"
            f"row {sleepers[0]} gpu=0/1 memory_bytes=1900MiB\n")
    out = nvml(MIG, text)
    assert out["mode"] == "Enabled"
    assert out["count"] == 1
    assert out["is"] == [0, 1]
    assert out["uuid"] == "MIG-b"
    assert out["parent"] is True
    assert out["third"] == ["NVMLError_NotFound"]
    assert out["parent instance"] == ["NVMLError_InvalidArgument"]
    assert out["utilization"] == ["NVMLError_NotSupported"]
    assert out["rows"] == [[sleepers[0], 5]]
    assert out["name"] == "NVIDIA H200 MIG 2g.35gb"
    assert out["attributes"] == [2, 33280]
    devices = out["devices"]
    assert devices[0][:5] == ["MIG-a", 9, 0, 1 << 30, 16 << 30]
    assert devices[1][:5] == ["MIG-b", 5, 1, 2 << 30, 33280 * MIB]
    assert devices[1][6] == [[sleepers[0], 1900 * MIB]]
