# SPDX-License-Identifier: Apache-2.0
"""Several alula runs of a user at once ask the driver once; when the one that asks ends, another takes over."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pytest

import scenes
from recordings import needs_store

pytestmark = pytest.mark.plain  # the jobs load the probe, and have no sanitizer

JOB = pathlib.Path(__file__).with_name("fake_job.py")


class Runs:
    """alula runs on one made-up GPU, each with its own count of driver calls."""

    def __init__(self, alula_bin, standin, folder, runtime):
        self.alula, self.folder, self.started = str(alula_bin), folder, []
        scene = folder / "scene.txt"
        scene.write_text(scenes.head(1, "600s") + "@0s\ngpu 0 memory_total_bytes=140GiB memory_used_bytes=20GiB utilization_ratio=0.87 energy_joules=5000J\n")
        self.env = {**os.environ, "ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(scene), "XDG_RUNTIME_DIR": runtime}

    def start(self, seconds, *options):
        n = len(self.started)
        command = [self.alula, "run", "--quiet", "--output-dir", str(self.folder / str(n)), *options, "--", sys.executable, str(JOB),
                   "--steps", str(int(seconds * 25)), "--forward", "0.02", "--memory", "1"]
        self.started.append(subprocess.Popen(command, env={**self.env, "ALULA_STANDIN_STATS": str(self.folder / f"calls{n}")}))
        return self.started[-1]

    def calls(self, n):
        path = self.folder / f"calls{n}"
        return json.loads(path.read_text())["calls"] if path.exists() else 0

    def report(self, n):
        assert self.started[n].wait(60) == 0
        return json.loads((self.folder / str(n) / "metrics_report.json").read_text())


@pytest.fixture
def runs(alula_bin, standin, tmp_path):
    with tempfile.TemporaryDirectory(prefix="alula-test-") as folder:
        runs = Runs(alula_bin, standin, tmp_path, folder)
        yield runs
        for process in runs.started:
            process.kill()
            process.wait()


def test_three_cost_as_much_as_one(runs):
    for _ in range(3):
        runs.start(4)
    for n in range(3):
        report = runs.report(n)
        assert report["alula"]["device"]["missing"] is None
        assert report["gpu_avg_utilization_percent"] == pytest.approx(87, abs=0.5)
    together = [runs.calls(n) for n in range(3)]
    runs.start(4)
    runs.report(3)
    # Who takes over for the last moments opens the driver once more.
    assert sum(together) < 2 * runs.calls(3) and sorted(together)[-1] > 0, (together, runs.calls(3))
    assert not list(pathlib.Path(runs.env["XDG_RUNTIME_DIR"]).iterdir())


def test_another_takes_over(runs):
    first = runs.start(20)
    view = pathlib.Path(runs.env["XDG_RUNTIME_DIR"])
    end = time.monotonic() + 10
    while not list(view.glob("alula-devices-*/*.view")) and time.monotonic() < end:
        time.sleep(0.05)
    runs.start(8)
    time.sleep(2)
    job = int(pathlib.Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text(encoding="ascii").split()[0])
    first.kill()
    first.wait()
    os.kill(job, signal.SIGKILL)
    report = runs.report(1)
    assert runs.calls(0) == 0 and runs.calls(1) > 0  # the killed one left no count, the other has asked from then on
    assert report["gpu_avg_utilization_percent"] == pytest.approx(87, abs=0.5)
    used = next(iter(report["alula"]["device"]["gpus"]))
    assert used["name"] == "NVIDIA H200"


def test_a_stuck_one_holds_nobody_up(runs):
    """Stopped, it keeps the lock and leaves its view to age: after ten seconds the other asks for itself."""
    first = runs.start(40)
    time.sleep(2)
    first.send_signal(signal.SIGSTOP)
    runs.start(15)
    report = runs.report(1)
    assert report["gpu_avg_utilization_percent"] == pytest.approx(87, abs=0.5)
    assert runs.calls(1) > 0
    job = int(pathlib.Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text(encoding="ascii").split()[0])
    os.kill(job, signal.SIGKILL)
    first.kill()


def test_another_selection_shares_nothing(runs):
    runs.start(3)
    runs.start(3, "--gpu", "0")
    for n in range(2):
        assert runs.report(n)["gpu_avg_utilization_percent"] == pytest.approx(87, abs=0.5)
        assert runs.calls(n) > 0


@needs_store
def test_a_recording_gets_what_it_needs(runs, alula):
    """One that keeps nothing began, and asks for few groups: the one that records has it ask for all."""
    runs.start(9, "--no-record")
    time.sleep(2)
    path = runs.folder / "late.alula"
    runs.start(5, "--record", str(path))
    for n in range(2):
        assert runs.report(n)["gpu_avg_utilization_percent"] == pytest.approx(87, abs=0.5)
    assert runs.calls(0) > 0 and runs.calls(1) == 0
    rows = alula("export", "--format", "csv", path).stdout.splitlines()
    column = rows[0].split(",").index("energy_joules")
    assert [row.split(",")[column] for row in rows[1:]][-1] == "5000", rows[:3]
