# SPDX-License-Identifier: Apache-2.0
"""Recordings of training jobs: what `alula run --record` keeps of ranks and their processes."""

import json
import os
import subprocess
import sys

import pytest

from recordings import needs_store

pytestmark = pytest.mark.plain  # the job loads the probe, and has no sanitizer

JOB = os.path.join(os.path.dirname(__file__), "fake_job.py")


def run_job(alula_bin, folder, *options, driver=None):
    path = folder / "job.alula"
    env = {k: v for k, v in os.environ.items() if not k.startswith("ALULA_")}
    env["ALULA_NVML_LIBRARY"] = str(driver or "/nonexistent/libnvidia-ml.so.1")
    got = subprocess.run([str(alula_bin), "run", "--record", str(path), "--output-dir", str(folder), "--", sys.executable,
                          JOB, *options], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert got.returncode == 0, got.stderr
    return path, got


@needs_store
def test_a_job_is_recorded_without_a_driver(alula, alula_bin, tmp_path):
    path, _ = run_job(alula_bin, tmp_path, "--steps", "150", "--forward", "0.005")
    info = json.loads(alula("info", path, "--json").stdout)
    assert info["ticks"] >= 2 and info["gpu_samples"] == 0
    assert [p["role"] for p in info["processes"] if "fake_job" in p["name"]], info["processes"]
    assert alula("replay", path, "--speed", "0").returncode == 0
