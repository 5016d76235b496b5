# SPDX-License-Identifier: Apache-2.0
"""alula profile: shares of programs that are known, the formats by their rules, and what is kept when something fails."""

import collections
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from test_dump import LAUNCHER, line_of, running

# 70 and 30 percent of the time by the clock, in turns that no sampling rate keeps step with; and a thread that sleeps.
SHARES = """
import sys, threading, time

def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def seventy():
    spin(0.0091)

def thirty():
    spin(0.0039)

def sleeps():
    time.sleep(1000)

threading.Thread(target=sleeps, daemon=True, name="sleeper").start()
print(flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    seventy()
    thirty()
"""

# The same, which prints what share of its time it spent in seventy(): on a busy machine its turns are stretched.
TIMED = SHARES.replace("    seventy()\n    thirty()\n", """
    began = time.perf_counter()
    seventy()
    between = time.perf_counter()
    thirty()
    took = [took[0] + between - began, took[1] + time.perf_counter() - between]
print(took[0] / sum(took))
""").replace("print(flush=True)", "took = [0, 0]")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "shares.py"
    path.write_text(SHARES)
    return path


def profiled(alula, *args, status=0):
    got = alula("profile", *args)
    assert got.returncode == status, got.stderr
    return got.stderr


def folded(path):
    """[(frames, count)]"""
    lines = [line.rpartition(" ") for line in pathlib.Path(path).read_text().splitlines()]
    return [(stack.split(";"), int(count)) for stack, _, count in lines]


def shares(stacks):
    """Of the samples, how many have the function anywhere: total shares."""
    total, found = sum(count for _, count in stacks), collections.Counter()
    for frames, count in stacks:
        for name in {frame.split(" (")[0] for frame in frames}:
            found[name] += count / total
    return found


def check_speedscope(document):
    """The rules of https://www.speedscope.app/file-format-schema.json for sampled profiles."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(document) <= {"$schema", "name", "exporter", "activeProfileIndex", "shared", "profiles"}
    frames = document["shared"]["frames"]
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"} and isinstance(frame["name"], str)
        assert isinstance(frame.get("file", ""), str) and isinstance(frame.get("line", 1), int)
    for profile in document["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled" and profile["unit"] == "seconds"
        assert len(profile["samples"]) == len(profile["weights"]) > 0
        assert all(0 <= frame < len(frames) for sample in profile["samples"] for frame in sample)
        assert all(weight > 0 for weight in profile["weights"])
        assert profile["endValue"] - profile["startValue"] == pytest.approx(sum(profile["weights"]))


def test_known_shares(alula, program, tmp_path):
    out = tmp_path / "out.folded"
    program.write_text(TIMED.replace("took = [0, 0]", "took = [0, 0]\nprint(flush=True)"))
    with running(sys.executable, program, 6) as process:
        said = profiled(alula, process.pid, "-o", out, "--duration", "4s", "--rate", "200")
        truth = float(process.stdout.readline())
    stacks = folded(out)
    found = shares(stacks)
    assert found["seventy"] == pytest.approx(truth, abs=0.05) and found["thirty"] == pytest.approx(1 - truth, abs=0.05) and truth > 0.5
    assert found["sleeps"] < 0.01  # idle; on a busy machine a thread may be seen on its way to sleep
    assert all(frames[0].startswith(("<module> (", "Thread._bootstrap (")) for frames, _ in stacks)
    assert any(frames[1:2] == [f"seventy ({program}:{line_of(program, 'spin(0.0091)')})"] for frames, _ in stacks)
    assert re.search(r"own cost \d+\.\d\d % of a core, \d+\.\d us a stack; moved while read \d+\.\d+ %", said)


def test_idle_threads_and_functions(alula, program, tmp_path):
    out = tmp_path / "out.folded"
    with running(sys.executable, program, 60, patience=0) as process:
        profiled(alula, "--pid", process.pid, "-o", out, "-d", "1", "--idle", "--function", "--threads")
    stacks = folded(out)
    sleeping = [(frames, count) for frames, count in stacks if "sleeper" in frames[0]]
    assert len(sleeping) == 1 and sleeping[0][0][-1] == f"sleeps ({program}:{line_of(program, 'def sleeps')})"
    assert sleeping[0][1] == pytest.approx(sum(count for frames, count in stacks if "MainThread" in frames[0]), rel=0.2)


def test_gil(alula, program, tmp_path):
    out = tmp_path / "out.folded"
    with running(sys.executable, program, 60, patience=0) as process:
        profiled(alula, process.pid, "-o", out, "-d", "1s", "--gil", "--idle")
    found = shares(folded(out))
    assert found["spin"] > 0.9 and "sleeps" not in found


def test_speedscope_keeps_its_rules(alula, program, tmp_path):
    out = tmp_path / "out.json"
    with running(sys.executable, program, 60, patience=0) as process:
        profiled(alula, process.pid, "-o", out, "-d", "2s", "--idle")
    document = json.loads(out.read_text())
    check_speedscope(document)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    first, second = sorted(document["profiles"], key=lambda profile: "sleeper" in profile["name"])
    assert f"process {process.pid}, thread {process.pid} MainThread" == first["name"] and len(second["samples"]) == 1
    assert [names[frame] for frame in second["samples"][0]][-1] == "sleeps"
    seventy = sum(weight for sample, weight in zip(first["samples"], first["weights"], strict=True)
                  if "seventy" in [names[frame] for frame in sample])
    assert seventy / first["endValue"] == pytest.approx(0.7, abs=0.1)
    assert [names[frame] for frame in first["samples"][0]][0] == "<module>"  # the root comes first


def test_a_job_by_rank(alula, program, tmp_path):
    launcher, out = tmp_path / "torchrun", tmp_path / "out.folded"
    launcher.write_text(LAUNCHER)
    with running(sys.executable, launcher, program, 60, lines=3) as process:
        profiled(alula, process.pid, "-s", "-o", out, "-d", "1s")
    roots = {re.sub(r"\d+", "N", frames[0], count=1) for frames, _ in folded(out)}
    assert {"process N, rank 0 of 2", "process N, rank 1 of 2"} <= roots


def test_the_process_ends_first(alula, program, tmp_path):
    out = tmp_path / "out.folded"
    with running(sys.executable, program, 1) as process:
        said = profiled(alula, process.pid, "-o", out, "-d", "60s")
    assert "the process has ended" in said and shares(folded(out))["spin"] > 0.5


def test_interrupted(alula_bin, program, tmp_path):
    out = tmp_path / "out.folded"
    with running(sys.executable, program, 60, patience=0) as process, \
            subprocess.Popen([alula_bin, "profile", str(process.pid), "-o", out, "--quiet"], stderr=subprocess.PIPE) as profiler:
        time.sleep(1)
        profiler.send_signal(signal.SIGINT)
        assert profiler.wait(5) == 0 and profiler.stderr.read() == b""
    assert sum(count for _, count in folded(out)) > 20


def test_a_full_disk_loses_nothing(alula, program, tmp_path):
    with running(sys.executable, program, 60, patience=0) as process:
        got = alula("profile", process.pid, "-o", "/dev/full", "-d", "1s", env={"TMPDIR": str(tmp_path)})
    assert got.returncode == 1 and "/dev/full: No space left on device" in got.stderr
    kept = re.search(r"kept in (\S+)", got.stderr)[1]
    assert kept.startswith(str(tmp_path)) and shares(folded(kept))["spin"] > 0.5


def test_standard_output_and_an_old_file(alula, program, tmp_path):
    out = tmp_path / "old"
    out.write_text("x" * 100000)
    with running(sys.executable, program, 60, patience=0) as process:
        got = alula("profile", process.pid, "-o", "-", "-d", "0.5")
        profiled(alula, process.pid, "-o", out, "-d", "0.5")
    assert got.stdout.startswith("<module> (") and "x" * 10 not in out.read_text()


@pytest.mark.parametrize("args", [["1"], ["-o", "x"], ["-o", "x", "1", "2"], ["-o", "x", "--rate", "0", "1"],
                                  ["-o", "x", "--duration", "-1s", "1"], ["-o", "x", "--format", "svg", "1"]])
def test_bad_arguments(alula, args, tmp_path):
    got = alula("profile", *args, cwd=tmp_path)
    assert got.returncode == 2 and got.stdout == "" and got.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_profiled(alula, program, tmp_path):
    with running("sh", "-c", "echo; cat") as process:
        got = alula("profile", process.pid, "-o", tmp_path / "x")
        assert got.returncode == 6 and got.stderr.count("\n") == 1
    assert alula("profile", process.pid, "-o", tmp_path / "x").returncode == 5
    assert not (tmp_path / "x").exists()
    with running(sys.executable, program, 60, patience=0) as process:
        got = alula("profile", process.pid, "-o", tmp_path / "none" / "x", "-d", "60s")
    assert got.returncode == 1 and "No such file or directory" in got.stderr and "kept" not in got.stderr
