# SPDX-License-Identifier: Apache-2.0
"""alula watch on the stand-in driver: the NVML backend, its thread, and a driver that misbehaves."""

import json
import os
import signal
import subprocess
import time

import pytest

import scenes

SANITIZED = bool(os.environ.get("ALULA_SANITIZED"))


@pytest.fixture
def play(alula_bin, standin, tmp_path):
    """play(text, args…) runs alula on the stand-in and returns the finished process."""
    def run(text, *args, env=None, timeout=30):
        path = tmp_path / "scene.txt"
        path.write_text(text)
        full = {**os.environ, "LC_ALL": "C.UTF-8", **scenes.standin_env(standin, path), **(env or {})}
        return subprocess.run([alula_bin, *args], env=full, timeout=timeout, capture_output=True, encoding="utf-8",
                              errors="replace", check=False)

    return run


def samples(text):
    return [o for o in map(json.loads, text.splitlines()) if o["type"] == "sample"]


def test_numbers_come_through_the_driver(play):
    got = play(scenes.busy(2), "watch", "--json", "--for", "0.4s", "--interval", "200ms")
    assert (got.returncode, got.stderr) == (0, "")
    ticks = samples(got.stdout)
    assert [o["tick"] for o in ticks] == [1, 2, 3]
    gpu = ticks[-1]["gpus"][1]
    assert gpu["memory_used_bytes"] == 70 * 2**30 and gpu["memory_total_bytes"] == 140 * 2**30
    assert (gpu["power_watts"], gpu["temperature_celsius"], gpu["sm_clock_hertz"]) == (655.2, 60, 1980e6)
    assert gpu["utilization_ratio"] == 0.93
    assert gpu["fan_speed_ratio"] is None
    ranks = [p for p in ticks[-1]["processes"] if p["role"] == "rank"]
    assert [(p["pid"], p["rank"], p["gpus"][0]["memory_bytes"]) for p in ranks] == [(4300, 0, 69 * 2**30),
                                                                                   (4301, 1, 69 * 2**30)]


def test_finding_through_the_driver(play):
    got = play(scenes.idle().replace("@5s", "@0.2s"), "watch", "--quiet", "--fail-on", "info", "--for", "4s")
    assert got.returncode == 3
    assert "running inefficiently -- GPU 0: 3.0 % utilisation" in got.stdout


def test_hanging_call_is_named_and_does_not_hold_up_the_exit(play):
    """The driver hangs for a minute from 1 s on; the run of 4 s goes on ticking, names the call and ends on time."""
    text = scenes.busy(2) + "@1s\nhang nvmlDeviceGetTemperatureV 60s\nhang nvmlDeviceGetTemperature 60s\n"
    start = time.monotonic()
    got = play(text, "watch", "--json", "--for", "9s")
    assert time.monotonic() - start < 20
    assert got.returncode == 0
    lines = [json.loads(line) for line in got.stdout.splitlines()]
    ticks = [o for o in lines if o["type"] == "sample"]
    assert len(ticks) == 19
    assert ticks[0]["hung_call"] is None
    assert ticks[-1]["hung_call"].startswith("nvmlDeviceGetTemperature")
    hung = [o for o in lines if o["type"] == "finding" and o["rule"] == "sensor"]
    assert hung and "nvmlDeviceGetTemperature" in hung[0]["message"]
    assert "temperature_celsius" in ticks[-1]["gpus"][0]["stale"]
    assert lines[-1]["type"] == "end"


def test_interrupt_while_the_driver_hangs(alula_bin, standin, tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(1) + "@0.3s\nhang nvmlDeviceGetUtilizationRates 60s\n")
    with scenes.running(alula_bin, "watch", env=scenes.standin_env(standin, path)) as p:
        p.stdout.readline()
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=10)
        assert p.returncode == 0


def test_commands_that_print_once_say_that_the_driver_hangs(play, tmp_path):
    config = tmp_path / "quick.yaml"
    config.write_text("sampling:\n  timeout: 500ms\n")
    text = scenes.busy(1) + "hang nvmlDeviceGetMemoryInfo_v2 60s\nhang nvmlDeviceGetMemoryInfo 60s\n"
    for command in (["stat"], ["smi", "--query-gpu=memory.used", "--format=csv"]):
        start = time.monotonic()
        got = play(text, *command, "--config", str(config))
        assert time.monotonic() - start < 10
        assert got.returncode != 0
        assert "nvmlDeviceGetMemoryInfo" in got.stderr + got.stdout, command


def test_gpu_lost_and_back(play):
    text = scenes.busy(2) + "@0.8s\nlost 1\n@1.8s\nback 1\n"
    got = play(text, "watch", "--json", "--interval", "200ms", "--for", "8s")
    assert got.returncode == 0
    ticks = samples(got.stdout)
    states = [o["gpus"][1]["state"] for o in ticks]
    assert len(states) == 41 and states[0] == "ok" and "lost" in states and states[-1] == "ok"
    assert {o["gpus"][0]["state"] for o in ticks} == {"ok"}
    lost = [o for o in ticks if o["gpus"][1]["state"] == "lost"][1]
    assert lost["gpus"][1]["utilization_ratio"] is None and lost["gpus"][0]["utilization_ratio"] == 0.93
    said = [json.loads(line) for line in got.stdout.splitlines() if '"finding"' in line]
    assert [(o["rule"], o["phase"]) for o in said if o["gpu"] == 1][:1] == [("sensor", "began")]


def test_missing_functions_cost_their_metric_only(play):
    text = scenes.busy(1).replace("gpu 0 name", "missing nvmlDeviceGetTemperatureV nvmlDeviceGetTemperature\ngpu 0 name", 1)
    got = play(text, "watch", "--json", "--for", "0.2s")
    gpu = samples(got.stdout)[-1]["gpus"][0]
    assert gpu["temperature_celsius"] is None and gpu["power_watts"] == 655.2
    assert json.loads(got.stdout.splitlines()[0])["gpus"][0]["unavailable"]["temperature_celsius"] == "function_not_found"


@pytest.mark.parametrize("result, status", [("DRIVER_NOT_LOADED", 9), ("NO_PERMISSION", 4),
                                            ("LIB_RM_VERSION_MISMATCH", 9), ("UNKNOWN", 9), ("GPU_IS_LOST", 9)])
def test_driver_that_does_not_start(play, result, status):
    text = scenes.busy(1).replace("gpu 0 name", f"fault nvmlInit_v2 {result}\nfault nvmlInitWithFlags {result}\ngpu 0 name", 1)
    for command in (["watch", "--for", "1s"], ["stat"], ["memory", "4300"]):
        got = play(text, *command)
        assert (got.returncode, got.stdout) == (status, "")
        assert got.stderr.startswith("alula: ") and got.stderr.count("\n") == 1
        assert "alula doctor" in got.stderr


def test_driver_without_gpus(play):
    got = play("alula scenario 1\nduration 10s\n", "watch", "--for", "1s")
    assert got.returncode == 9 and got.stderr.count("\n") == 1


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's shadow memory counts as resident")
@pytest.mark.parametrize("gpus", [1, 8])
def test_watch_stays_below_ten_mebibytes(alula_bin, standin, tmp_path, gpus):
    """VmHWM of the whole process, the stand-in's own tables included; a real driver's library adds its own memory."""
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(gpus, "10min"))
    with scenes.running(alula_bin, "watch", "--json", "--interval", "100ms",
                        env=scenes.standin_env(standin, path)) as p:
        for _ in range(30):
            assert p.stdout.readline()
        with open(f"/proc/{p.pid}/status") as f:
            peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))
        assert peak < 10 * 1024


def test_no_cuda_context_and_no_network(alula_bin, standin, tmp_path):
    """Watching opens the driver's library and /proc, nothing that a job could feel."""
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(1, "10min"))
    with scenes.running(alula_bin, "watch", env=scenes.standin_env(standin, path)) as p:
        p.stdout.readline()
        with open(f"/proc/{p.pid}/maps") as f:
            maps = f.read()
        assert "libnvidia-ml.so.1" in maps and "libcuda" not in maps
        links = [os.readlink(f"/proc/{p.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{p.pid}/fd")]
        assert not [link for link in links if link.startswith("socket:")]


def test_survives_a_restart_of_the_job(play):
    """Rank 4300 ends, another takes its place under the same pid: its own start time, no mixed figures."""
    text = scenes.busy(1) + ('@1s\nexit 4300\ngpu 0 memory_used_bytes=1GiB\n@2s\nproc 4300 ppid=1 alive=yes user=bob comm=python '
                             'start_ticks=999 command="python other.py" role=rank\nrow 4300 gpu=0 memory_bytes=5GiB\n')
    got = play(text, "watch", "--json", "--for", "5s", "--interval", "250ms")
    assert got.returncode == 0
    ticks = samples(got.stdout)
    assert {p["user"] for p in ticks[0]["processes"]} == {"alice"}
    last = [p for p in ticks[-1]["processes"] if p["pid"] == 4300][0]
    assert (last["user"], last["command"], last["gpus"][0]["memory_bytes"]) == ("bob", "python other.py", 5 * 2**30)
