# SPDX-License-Identifier: Apache-2.0
"""The Python package's callback in real ms-swift, by its plugin file; GPU figures by the stand-in driver."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from test_swift import VERSIONS, options, the_run

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python"
SCENE = """\
alula scenario 1
driver 580.159.04
gpu 0 name="NVIDIA H200"
duration 600s
@0s
gpu 0 utilization_ratio=97% memory_used_bytes=110796MiB memory_total_bytes=143771MiB memory_free_bytes=32361MiB
"""


@pytest.fixture
def swift(offline, program, tmp_path):
    """swift(version, words...) runs it without alula run, with the package on its path."""
    build = pathlib.Path(os.environ["ALULA_BUILD"])
    scene = tmp_path / "scene.txt"
    scene.write_text(SCENE)

    def run(version, *words, status=0, **more):
        env = {**os.environ, **offline, "PYTHONPATH": str(PACKAGE), "ALULA_LIBRARY": str(build / "src/lib/libalula.so.0"),
               "ALULA_NVML_LIBRARY": str(build / "tests/standin/libnvidia-ml.so.1"), "ALULA_SCENARIO": str(scene),
               "ALULA_INTERVAL_STEPS": "2", **more}
        done = subprocess.run([str(word) for word in (program(version, "swift"), *words)], env=env, capture_output=True,
                              encoding="utf-8", errors="replace", cwd=tmp_path, timeout=300, check=False)
        assert done.returncode == status, done.stdout[-3000:] + done.stderr[-6000:]
        return done

    return run


@pytest.fixture(scope="module")
def plugin():
    return subprocess.run([sys.executable, "-m", "alula.plugin"], env={**os.environ, "PYTHONPATH": str(PACKAGE)}, check=True,
                          capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_plugin(swift, plugin, tiny, tmp_path, version):
    """S41, S195: 3.x takes the file alone, 4.x the name with it. The lines are in its log, the keys in logging.jsonl (beside
    its own, which it adds later) and in TensorBoard."""
    out = tmp_path / "output"
    more = ["--callbacks", "alula"] if version == "swift4" else []
    done = swift(version, "sft", *options(version, tiny, out), "--external_plugins", plugin, *more)
    said = [line for line in (done.stdout + done.stderr).splitlines() if "alula: " in line]
    assert sum("watching RAM of this process and GPU 0 (NVIDIA H200); a line every 2 steps" in line for line in said) == 1
    assert sum(bool(re.search(r"alula: step [246]: GPU 0 97 %; memory 108\.20 / 140\.40 GB", line)) for line in said) == 3
    assert any("epoch 0 begins: RAM" in line for line in said)
    assert not any("WARNING" in line or "switched off" in line for line in said), said

    folder = the_run(out)
    rows = [json.loads(line) for line in (folder / "logging.jsonl").read_text().splitlines()]
    steps = [row for row in rows if "loss" in row]
    assert steps and all(row["alula/gpu_util_percent"] == 97 and row["alula/ram_gb"] > 0.1 for row in steps)
    assert all("train_speed(s/it)" in row for row in steps)
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    tags = {value.tag for path in (folder / "runs").rglob("events.out.*") for event in EventFileLoader(str(path)).Load()
            for value in event.summary.value}
    assert {"train/loss", "train/alula/gpu_util_percent", "train/alula/ram_gb"} <= tags


def test_two_ranks(swift, plugin, tiny, tmp_path):
    """One of them speaks."""
    done = swift("swift4", "sft", *options("swift4", tiny, tmp_path / "output", max_steps=2), "--external_plugins", plugin,
                 "--callbacks", "alula", NPROC_PER_NODE="2")
    said = [line for line in (done.stdout + done.stderr).splitlines() if "alula: " in line]
    assert sum("rank 0: step 2: " in line for line in said) == 1 and not any("rank 1" in line for line in said), said


def test_megatrons_own_interface(program, tmp_path):
    """Megatron itself cannot be had here: ms-swift's real class of its callbacks, without the modules around it that import
    Megatron, driven as its training loop drives it."""
    code = """
import importlib.util, sys, types
import swift.callbacks.mapping
folder = importlib.util.find_spec("swift").submodule_search_locations[0] + "/megatron/callbacks/"
for name in ("swift.megatron", "swift.megatron.callbacks"):
    sys.modules[name] = types.ModuleType(name)
spec = importlib.util.spec_from_file_location("swift.megatron.callbacks.base", folder + "base.py")
base = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
sys.modules[spec.name].__package__ = "swift.megatron.callbacks"
spec.loader.exec_module(base)
mapping = sys.modules["swift.megatron.callbacks.mapping"] = types.ModuleType("swift.megatron.callbacks.mapping")
mapping.megatron_callbacks_map = {}
from swift.utils.utils import import_external_file
import_external_file(sys.argv[1])
made = mapping.megatron_callbacks_map["alula"]
trainer = types.SimpleNamespace(args=types.SimpleNamespace(), state=types.SimpleNamespace(iteration=0))
callback = made(trainer)
trainer.callbacks = [base.MegatronCallback(trainer), callback]
def call(event, **more):
    for one in trainer.callbacks: getattr(one, event)(**more)
call("on_train_begin")
for trainer.state.iteration in (1, 2):
    call("on_step_begin"); call("on_step_end")
logs = {"loss": 1.0}
call("on_log", logs=logs); call("on_eval_begin"); call("on_eval_step"); call("on_eval_end")
call("on_save", output_dir="x"); call("on_train_end")
print(isinstance(callback, base.MegatronCallback), trainer.callbacks[0] is callback, sorted(logs))
"""
    plugin_file = PACKAGE / "alula/_swift/alula_swift_plugin.py"
    done = subprocess.run([program("swift4"), "-c", code, plugin_file], capture_output=True, text=True, timeout=240, check=False,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE), "ALULA_INTERVAL_STEPS": "2", "LD_LIBRARY_PATH": str(tmp_path),
                               "ALULA_LIBRARY": str(pathlib.Path(os.environ["ALULA_BUILD"]) / "src/lib/libalula.so.0"),
                               "ALULA_NVML_LIBRARY": "/nonexistent/libnvidia-ml.so.1"})
    assert done.returncode == 0, done.stderr
    assert "True True ['alula/ram_anonymous_gb', 'alula/ram_gb', 'loss']" in done.stdout
    assert "alula: step 2: RAM" in done.stdout + done.stderr
