# SPDX-License-Identifier: Apache-2.0
"""alula demo: the stand-in driver found beside the binary, the recorded session through every command."""

import datetime
import json
import os
import re
import shutil
import subprocess

import pytest

import scenes


@pytest.fixture
def recorded(build):
    path = build / "tests" / "h200-session.txt"
    if not path.exists():
        pytest.skip("no recorded session in this tree")
    return path


@pytest.fixture
def scene(tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(2, "60s"))
    return path


def test_says_that_no_gpu_is_read(alula, scene):
    got = alula("demo", "--scenario", scene, "watch", "--for", "0.3s", "--interval", "100ms")
    assert got.returncode == 0
    assert got.stderr == f"alula demo: no GPU is read; {scene} plays through the stand-in driver\n"
    assert got.stdout.count("GPU 0") == 4


def test_every_command_plays(alula, scene):
    run = lambda *args: alula("demo", "--scenario", scene, *args)
    assert "NVIDIA H200 | 60°C,  93 % | 71680 / 143360 MB | alice(70656M)" in run("stat").stdout
    assert run("smi", "--query-gpu=index,power.draw", "--format=csv,noheader").stdout == "0, 655.20 W\n1, 655.20 W\n"
    memory = json.loads(run("memory", "--json", "4301").stdout)
    assert memory["used_bytes"] == 69 * 2**30 and memory["gpus"][0]["index"] == 1
    doctor = run("doctor")
    assert "the stand-in driver plays" in doctor.stdout and doctor.returncode in (0, 1)


def test_speed_and_start(alula, tmp_path):
    path = tmp_path / "ramp.txt"
    path.write_text(scenes.head(1, "100s") + "@0s\ngpu 0 memory_total_bytes=140GiB memory_used_bytes=0GiB..100GiB/100s\n")
    used = lambda *args: float(alula("demo", "--scenario", path, *args, "smi", "--query-gpu=memory.used",
                                     "--format=csv,noheader,nounits").stdout) / 1024
    assert 0 <= used() < 5
    assert 40 <= used("--start", "40s") < 45
    lines = alula("demo", "--scenario", path, "--speed", "50", "watch", "--json", "--for", "1s", "--interval", "500ms").stdout
    samples = [o["gpus"][0]["memory_used_bytes"] / 2**30 for o in map(json.loads, lines.splitlines()) if o["type"] == "sample"]
    assert len(samples) == 3 and 15 < samples[1] - samples[0] < 35


def test_processes_are_as_old_as_in_the_session(alula, tmp_path):
    """Their start lies before now, whenever the session was: rules know a young job by it."""
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(1, "100s").replace("proc 4300 ", "proc 4300 started=2026-11-29T11:58:20Z "))
    for args, age in (([], 100), (["--start", "30s"], 130)):
        out = alula("demo", "--scenario", path, *args, "watch", "--json", "--for", "0.2s", "--interval", "100ms").stdout
        sample = json.loads(out.splitlines()[1])
        started = [datetime.datetime.fromisoformat(p["started"]) for p in sample["processes"] if p["pid"] == 4300]
        assert abs((datetime.datetime.fromisoformat(sample["time"]) - started[0]).total_seconds() - age) < 1


def test_activity_counters_play(alula, recorded):
    """As the README shows them, although the recording's first figures came two seconds after its start."""
    out = alula("demo", "--speed", "3", "--start", "20s", "watch", "--for", "5s").stdout
    assert re.search(r" 99 % .* SM  9\d %  tensor  5\d %  DRAM  3\d %  1 process", out)
    doctor = alula("demo", "doctor").stdout
    assert re.search(r"^(ok|note) +metrics_gpm .*", doctor, re.M)[1] == "ok"


@pytest.mark.parametrize("args, words", [
    (["nonsense"], "no command nonsense"),
    (["demo"], "no command demo"),
    (["--bogus"], "--bogus"),
    (["--speed"], "speed"),
])
def test_wrong_use(alula, scene, args, words):
    got = alula("demo", "--scenario", scene, *args)
    assert got.returncode == 2 and got.stdout == "" and words in got.stderr


def test_broken_scenario(alula, tmp_path):
    path = tmp_path / "broken.txt"
    path.write_text("alula scenario 1\ngpu x\n")
    got = alula("demo", "--scenario", path, "stat")
    assert got.returncode != 0 and got.stdout == "" and "broken.txt" in got.stderr
    got = alula("demo", "--scenario", tmp_path / "missing.txt", "stat")
    assert got.returncode != 0 and got.stdout == ""


def test_binary_without_its_parts(alula_bin, tmp_path):
    copy = tmp_path / "alula"
    shutil.copy(alula_bin, copy)
    got = subprocess.run([copy, "demo"], capture_output=True, text=True, timeout=30, check=False)
    assert got.returncode == 5 and got.stdout == ""
    assert got.stderr == "alula: demo: the stand-in driver is not beside this alula; run make (or make install) first\n"


def test_installed_demo_finds_its_parts(build, tmp_path, recorded):
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", tmp_path], check=True, capture_output=True)
    binary = next(p for p in tmp_path.rglob("bin/alula"))
    got = subprocess.run([binary, "demo", "stat"], capture_output=True, text=True, timeout=30, check=False,
                         env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert got.returncode == 0 and "NVIDIA H200" in got.stdout


def test_recorded_session_finds_what_it_holds(alula, recorded):
    """Idle, healthy training, a starved loader, memory to above 90 %: played as fast as it goes."""
    got = alula("watch", "--json", "--source", f"scenario:{recorded}", "--speed", "0", timeout=60)
    assert got.returncode == 0
    lines = [json.loads(line) for line in got.stdout.splitlines()]
    rules = {o["rule"] for o in lines if o["type"] == "finding"}
    assert "memory" in rules and rules & {"inefficient", "starved"}
    assert max(o["gpus"][0]["memory_used_bytes"] / o["gpus"][0]["memory_total_bytes"]
               for o in lines if o["type"] == "sample") > 0.9


def test_recorded_session_holds_nothing_private(recorded):
    text = recorded.read_text()
    told = lambda key: set(re.findall(rf"(?<![\w])" + key + r"=(\S+)", text))
    assert told("hostname") == {"gpu-node"}
    assert told("user") == {"user"}
    assert all(int(boot.replace("-", ""), 16) < 2**80 for boot in told("boot_id"))
    assert told("serial") == {"1650000000000"}
    assert told("uuid") == {"GPU-a1b2c3d4-0000-1111-2222-333344445555"}
    for word in ("root@", "/home/", "/root/"):
        assert word not in text
