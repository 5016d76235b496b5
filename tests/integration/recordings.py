# SPDX-License-Identifier: Apache-2.0
"""Making recordings for the tests."""

import os
import subprocess
import sys
import time

import pytest


def _built():
    alula = os.environ.get("ALULA_BIN")
    if not alula:
        return True  # conftest says what is missing
    got = subprocess.run([alula, "info", "/nonexistent"], capture_output=True, text=True, check=False)
    return "built without SQLite" not in got.stderr


needs_store = pytest.mark.skipif(not _built(), reason="built without SQLite and zstd")


def record(alula, scenario, path, *options):
    got = alula("record", "-o", path, "--source", f"scenario:{scenario}", "--speed", "0", *options, timeout=120)
    assert (got.returncode, got.stdout, got.stderr) == (0, "", "")
    return path


def run_scene(alula, folder, text, *options):
    scene = folder / "scene.txt"
    scene.write_text(text)
    return record(alula, scene, folder / "scene.alula", *options)


def live_env(standin, scenario):
    """A live session: the stand-in driver, with the scenario's processes."""
    return {**os.environ, "ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(scenario), "ALULA_HOST": "scenario"}


def spawn(alula, path, env, *options):
    """Starts recording live, and returns once some of it is committed."""
    del alula
    process = subprocess.Popen([os.environ["ALULA_BIN"], "record", "-o", str(path), *options], env=env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(200):
        time.sleep(0.05)
        if process.poll() is not None:
            sys.exit(process.communicate()[1])
        got = subprocess.run([os.environ["ALULA_BIN"], "info", str(path)], capture_output=True, text=True, check=False)
        if got.returncode == 0 and ", 0 GPU samples" not in got.stdout:
            return process
    process.kill()
    raise AssertionError(f"nothing was recorded: {got.stderr}")


