# SPDX-License-Identifier: Apache-2.0
"""alula top shows the ranks of running alulas, and of recordings."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import pytest

import scenes
from recordings import needs_store
from screen import Terminal

pytestmark = pytest.mark.plain  # the job loads the probe, and has no sanitizer

JOB = pathlib.Path(__file__).with_name("fake_job.py")
STEPS = ["--rank", "0", "--world", "1", "--data", "0.01", "--forward", "0.02"]
ROW = r"{pid} +\S+ +rank 0 .* +(\d+) +([\d.]+) +(\d+) (data|forward|backward|optimizer|between|other) +"


@pytest.fixture
def driver(standin, tmp_path):
    """A machine with the stand-in driver; its run-time folder has a short path, as sockets need."""
    scene = tmp_path / "scene.txt"
    scene.write_text(scenes.head(1, "600s") + "@0s\ngpu 0 utilization_ratio=90% memory_total_bytes=140GiB memory_used_bytes=70GiB\n")
    with tempfile.TemporaryDirectory(prefix="alula-test-") as folder:
        yield {**scenes.standin_env(standin, scene), "ALULA_HOST": "procfs", "XDG_RUNTIME_DIR": folder}


def job_below(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return next(int(c) for c in children if JOB.name.encode() in pathlib.Path(f"/proc/{c}/cmdline").read_bytes().split(b"\0")[1])


def test_a_running_job(alula_bin, driver, tmp_path):
    with subprocess.Popen([str(alula_bin), "run", "--quiet", "--output-dir", str(tmp_path), "--", sys.executable, str(JOB),
                           "--steps", "3000", *STEPS], env={**os.environ, **driver}) as run:
        try:
            with Terminal([alula_bin, "top"], columns=140, env=driver) as t:
                t.wait("steps/s")
                row = re.compile(ROW.format(pid=job_below(run.pid)))
                found = row.search(t.wait(row.search))
                assert 5 < float(found.group(2)) < 40
                t.press(f"/{job_below(run.pid)}\r\r")
                text = t.wait("share of step time")
                assert re.search(r"^  data +[\d.]+ % +█+", text, re.M) and re.search(r"^training +step \d+", text, re.M)
                t.press("qq")
                assert t.end() == 0
        finally:
            run.send_signal(signal.SIGTERM)


def test_a_job_on_a_machine_without_a_driver(alula, alula_bin, driver, tmp_path):
    env = {**driver, "ALULA_NVML_LIBRARY": "/nonexistent/libnvidia-ml.so.1"}
    with subprocess.Popen([str(alula_bin), "run", "--quiet", "--output-dir", str(tmp_path), "--", sys.executable, str(JOB),
                           "--steps", "3000", *STEPS], env={**os.environ, **env}) as run:
        try:
            end = time.monotonic() + 15
            while time.monotonic() < end:
                got = alula("top", "--once", "--size", "140x40", env=env)
                if got.returncode == 0 and re.search(ROW.format(pid=job_below(run.pid)), got.stdout):
                    break
            assert "no NVIDIA driver" in got.stdout and re.search(ROW.format(pid=job_below(run.pid)), got.stdout), got
        finally:
            run.send_signal(signal.SIGTERM)


@needs_store
def test_a_recording(alula, alula_bin, driver, tmp_path):
    path = tmp_path / "job.alula"
    subprocess.run([str(alula_bin), "run", "--quiet", "--record", str(path), "--output-dir", str(tmp_path), "--", sys.executable,
                    str(JOB), "--steps", "120", *STEPS], env={**os.environ, **driver}, check=True, timeout=60)
    got = alula("top", "--once", "--size", "140x30", "--for", "4s", "--source", f"replay:{path}")
    assert re.search(ROW.format(pid=r"\d+"), got.stdout), got.stdout
    got = alula("top", "--once", "--size", "140x40", "--for", "4s", "--source", f"replay:{path}", "--keys", "/rank:0<enter><end><enter>")
    assert "share of step time" in got.stdout, got.stdout
