# SPDX-License-Identifier: Apache-2.0
"""alula.ResourceMonitorCallback in transformers' own Trainer on the CPU, with the stand-in driver for GPUs, and the classes
that ms-swift builds from its plugin, in folders that look like ms-swift's (tests/frameworks has the real ones)."""

import glob
import json
import re
import subprocess
import sys

import pytest
from test_hook_trainer import MODEL
from test_package import PACKAGE, TORCH, env, python  # noqa: F401

pytestmark = pytest.mark.plain

HEAD = """
import sys, time, torch
from torch.utils.data import Dataset
torch.set_num_threads(1)
""" + MODEL


@pytest.fixture
def train(env, tmp_path):  # noqa: F811
    """train(code) runs a script with the Trainer's parts; returns what it printed, line by line."""

    def run(code, status=0, python=(sys.executable,), **more):
        script = tmp_path / "job.py"
        script.write_text(HEAD + code)
        done = subprocess.run([*map(str, python), str(script)], env={**env, **more}, capture_output=True, encoding="utf-8",
                              timeout=240, check=False, cwd=tmp_path)
        assert done.returncode == status, done.stderr[-4000:]
        return done

    return run


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def said(done):
    return [line for line in done.stdout.splitlines() if line.startswith("alula: ")]


def test_verbatim(train):
    """S41, S43, S45: the documents' own line; the lines it prints, and what it does to nobody."""
    done = train("""
from alula import ResourceMonitorCallback
trainer = Trainer(model=made(), args=arguments(num_train_epochs=20, logging_strategy="steps", logging_steps=60, seed=1),
                  train_dataset=Ids())
trainer.add_callback(ResourceMonitorCallback(interval_steps=100))
trainer.train()
print("state", trainer.state.global_step, "alula" in str(trainer.state.log_history))
""")
    lines = said(done)
    assert lines[0] == ("alula: watching RAM of this process and GPU 0 (NVIDIA H200); a line every 100 steps, alula/... keys in "
                        "the trainer's logs")
    assert re.fullmatch(r"alula: epoch 0 begins: RAM \d\.\d\d GB, of it \d\.\d\d GB anonymous", lines[1])
    assert re.fullmatch(r"alula: epoch 1 begins: RAM \d\.\d\d GB, of it \d\.\d\d GB anonymous; epoch 0 added -?\d\.\d\d GB "
                        r"\(warm-up\)", lines[2])
    steps = [line for line in lines if ": step " in line]
    assert len(steps) == 1
    assert re.fullmatch(r"alula: step 100: GPU 0 97 %; memory 108\.20 / 140\.40 GB \(77\.1 %\); RAM \d\.\d\d GB", steps[0])
    assert not any("WARNING" in line for line in lines) and len([line for line in lines if "epoch" in line]) == 20
    log = next(line for line in done.stdout.splitlines() if "'loss'" in line)
    for key in ("gpu_util_percent", "mem_used_gb", "mem_usage_ratio", "ram_gb", "ram_anonymous_gb"):
        assert f"'alula/{key}': " in log, log
    assert "'alula/" not in next(line for line in done.stdout.splitlines() if "train_runtime" in line)
    assert done.stdout.splitlines()[-1] == "state 120 False"


STUBS = """
# Stands for wandb and swanlab: takes any call and writes down what is logged.
import json, sys
class Any:
    def __getattr__(self, name): return Any()
    def __call__(self, *args, **kwargs): return Any()
    def __setitem__(self, *args): pass
    def __bool__(self): return True
run, config, __version__ = None, Any(), "99.0"
def get_run(): return run
def init(*args, **kwargs):
    global run
    run = Any()
    return run
def log(data, *args, **kwargs):
    with open(sys.modules[__name__].__name__ + ".jsonl", "a") as f:
        f.write(json.dumps({key: value for key, value in data.items() if isinstance(value, (int, float))}) + "\\n")
def __getattr__(name):
    if name.startswith("__"): raise AttributeError(name)
    return Any()
"""


@pytest.mark.parametrize("added", ["argument", "later"])
def test_reporters_get_the_keys(train, tmp_path, added):
    """S194: TensorBoard, W&B and SwanLab through Hugging Face's own reporters, which stand in front of a user's
    callbacks; each event comes to each callback once."""
    for name in ("wandb", "swanlab"):
        write(tmp_path, {f"{name}/__init__.py": STUBS})
        info = tmp_path / f"{name}-99.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 99.0\n")
    write(tmp_path, {"wandb/sdk/__init__.py": "", "wandb/sdk/lib/__init__.py": "",
                     "wandb/sdk/lib/config_util.py": "class ConfigError(Exception): pass\n"})
    done = train(f"""
import alula
class Count(TrainerCallback):
    began = 0
    def on_train_begin(self, *args, **kwargs): self.began += 1
counts = [Count(), Count()]
callback = alula.ResourceMonitorCallback(interval_steps=2)
trainer = Trainer(model=made(), args=arguments(max_steps=4, logging_strategy="steps", logging_steps=2,
                  report_to=["tensorboard", "wandb", "swanlab"]),
                  train_dataset=Ids(), callbacks=[counts[0], {"callback, " if added == "argument" else ""}counts[1]])
{"trainer.add_callback(callback)" if added == "later" else ""}
trainer.train()
print([c.began for c in counts], [type(c).__name__ for c in trainer.callback_handler.callbacks][0])
""", WANDB_MODE="offline")
    assert done.stdout.splitlines()[-1] == "[1, 1] ResourceMonitorCallback"
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    files = glob.glob(str(tmp_path / "**/events.out.*"), recursive=True)
    tags = {value.tag for path in files for event in EventFileLoader(path).Load() for value in event.summary.value}
    assert {"train/loss", "train/alula/gpu_util_percent", "train/alula/mem_used_gb", "train/alula/ram_gb"} <= tags
    for name in ("wandb", "swanlab"):
        logged = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        assert any(record.get("train/alula/gpu_util_percent") == 97 for record in logged), logged


def test_growth_of_an_epoch(train):
    """S35, S36: the warning with the growth, for the second epoch; the first is warm-up. Without a driver the reason is told
    once."""
    done = train("""
import alula
kept = []
class Leak(TrainerCallback):
    def on_epoch_end(self, *args, **kwargs): kept.append(bytes(bytearray(600 << 20)))
Trainer(model=made(), args=arguments(num_train_epochs=3), train_dataset=Ids(),
        callbacks=[Leak(), alula.ResourceMonitorCallback(1)]).train()
""", LD_LIBRARY_PATH="/nowhere")
    lines = said(done)
    assert lines[0].startswith("alula: watching RAM of this process and no GPU figures: ") and "libnvidia-ml.so.1" in lines[0]
    assert any(re.search(r"epoch 1 begins: .*; epoch 0 added 0\.\d\d GB \(warm-up\)$", line) for line in lines)
    warnings = [line for line in lines if "WARNING" in line]
    assert len(warnings) == 1
    assert re.fullmatch(r"alula: WARNING: RAM grew by 0\.\d\d GB in epoch 1 \(\d\.\d\d -> \d\.\d\d GB\), more than 0\.50 GB: .*",
                        warnings[0])
    assert any(re.fullmatch(r"alula: step 1: RAM \d\.\d\d GB", line) for line in lines)


def test_a_full_gpu(train, env, tmp_path):  # noqa: F811
    """S43: above 90 %, at every interval."""
    scene = tmp_path / "scene.txt"
    scene.write_text(scene.read_text().replace("memory_used_bytes=110796MiB", "memory_used_bytes=133771MiB"))
    done = train("""
import alula
Trainer(model=made(), args=arguments(max_steps=4), train_dataset=Ids(), callbacks=[alula.ResourceMonitorCallback(2)]).train()
""")
    assert [line for line in said(done) if "WARNING" in line] == [
        f"alula: WARNING: step {step}: GPU 0's memory is 93.0 % full, above 90 %" for step in (2, 4)]


def test_a_driver_that_hangs(train, tmp_path):
    """It is waited for once, 5 s, and left alone then."""
    scene = tmp_path / "scene.txt"
    scene.write_text(scene.read_text() + "hang nvmlDeviceGetTemperature 60s gpu=0\n")
    done = train("""
import alula
Trainer(model=made(), args=arguments(max_steps=2), train_dataset=Ids(), callbacks=[alula.ResourceMonitorCallback(1)]).train()
""")
    lines = said(done)
    assert lines[0].startswith("alula: watching RAM of this process and no GPU figures: the driver did not answer in time")
    assert len([line for line in lines if re.fullmatch(r"alula: step \d: RAM \d\.\d\d GB", line)]) == 2


def test_it_never_fails_the_training(train):
    """Whatever breaks in it is told once; the result is that of a run without it."""
    code = """
import alula, alula.host_memory
broken = {broken}
if broken:
    def read(): raise ZeroDivisionError("planted")
    alula.host_memory.read = read
trainer = Trainer(model=made(), args=arguments(max_steps=4, logging_strategy="steps", logging_steps=1, seed=3),
                  train_dataset=Ids(), callbacks=[alula.ResourceMonitorCallback(1)] if {used} else [])
trainer.train()
print("result", [entry.get("loss") for entry in trainer.state.log_history],
      sum(p.double().sum().item() for p in trainer.model.parameters()))
"""
    runs = [train(code.format(broken=broken, used=used)) for broken, used in ((False, False), (False, True), (True, True))]
    results = [done.stdout.splitlines()[-1] for done in runs]
    assert results[0] == results[1] == results[2] and results[0].startswith("result [")
    assert [line for line in said(runs[2]) if "switched off" in line] == [
        "alula: WARNING: the callback is switched off: ZeroDivisionError: planted"]


def test_copies_options_and_other_events(python):  # noqa: F811
    done = python("""
        import copy, pickle, alula
        from alula import ResourceMonitorCallback as C
        first = C(7)
        import transformers.trainer_callback as t
        second = C(interval_steps=9)
        print(isinstance(first, t.TrainerCallback), isinstance(second, t.TrainerCallback), isinstance(second, C), type(second).__name__)
        for one in (first, second):
            print(pickle.loads(pickle.dumps(one)).interval_steps, copy.deepcopy(one).interval_steps, one.on_of_tomorrow(1, x=2))
        for wrong in (0, "5", True):
            try: C(wrong)
            except ValueError as error: print(error)
        print(hasattr(first, "nothing"))
        """)
    assert done.stdout.splitlines() == [
        "False True True ResourceMonitorCallback", "7 7 None", "9 9 None",
        *["interval_steps must be a number of steps from 1"] * 3, "False"]


def test_with_alula_run(train, alula_bin, tmp_path):
    """Both at once: the report's steps are whole, and the callback's lines are there."""
    done = train("""
import alula
Trainer(model=made(), args=arguments(num_train_epochs=2), train_dataset=Ids(),
        callbacks=[alula.ResourceMonitorCallback(5)]).train()
""", python=(alula_bin, "run", "--quiet", "--output-dir", tmp_path / "report", "--", sys.executable))
    assert any("step 10" in line for line in said(done))
    rank, = json.loads((tmp_path / "report/metrics_report.json").read_text())["alula"]["ranks"]
    assert rank["steps"] == 12 and rank["host_timeline"]["explained_ratio"] > 0.9


def test_torch_on_a_gpu(python):  # noqa: F811
    """The GPU of the process's current device, by its UUID, and its allocator's figures."""
    done = python(TORCH + """
import types, alula
cuda.current_device = lambda: 1
cuda.allocated[1], cuda.reserved[1] = 3 * GB, 4 * GB
c = alula.ResourceMonitorCallback(2, say=print)
state = types.SimpleNamespace(epoch=0.0, global_step=2, is_local_process_zero=False)
args = types.SimpleNamespace(world_size=4, process_index=3)
c.on_train_begin(args, state, None)
c.on_step_end(args, state, None)
c._watch.quiet = False
c.on_step_end(args, state, None)
logs = {"loss": 1.0}
c.on_log(args, state, None, logs=logs)
print({key: value for key, value in logs.items() if "pytorch" in key})
c.on_train_end(args, state, None)
""")
    line, logs = done.stdout.splitlines()  # another process of the node speaks for this one
    assert re.fullmatch(r"alula: rank 3: step 2: GPU 0 97 %; memory 108.20 / 140.40 GB \(77.1 %\); PyTorch 3.00 GB allocated, "
                        r"4.00 GB reserved; RAM \d\.\d\d GB", line)
    assert logs == "{'alula/pytorch_allocated_gb': 3.0, 'alula/pytorch_reserved_gb': 4.0}"


# ---- ms-swift's plugin ----

PLUGIN = """
import importlib, sys
def load():  # as 3.x and 4.x do: the file's folder in front of sys.path
    sys.path.insert(0, %r)
    return importlib.import_module("alula_swift_plugin")
""" % str(PACKAGE / "_swift")


def test_plugin_of_3(python, tmp_path):  # noqa: F811
    write(tmp_path, {"swift/__init__.py": "", "swift/plugin/__init__.py": "", "swift/plugin/callback.py": "extra_callbacks = []\n"})
    done = python(PLUGIN + """
load(); del sys.modules["alula_swift_plugin"]; load()
from swift.plugin.callback import extra_callbacks
print([type(c).__name__ for c in extra_callbacks], extra_callbacks[0].interval_steps, "torch" in sys.modules)
""", PYTHONPATH=f"{PACKAGE.parent}:{tmp_path}", ALULA_INTERVAL_STEPS="20")
    assert done.stdout == "['ResourceMonitorCallback'] 20 False\n"


def test_wrong_interval_of_the_environment(python, tmp_path):  # noqa: F811
    done = python(PLUGIN + "load()", PYTHONPATH=f"{PACKAGE.parent}:{tmp_path}", ALULA_INTERVAL_STEPS="often", status=1)
    assert done.stderr.splitlines()[-1] == "ValueError: ALULA_INTERVAL_STEPS must be a number of steps from 1, not 'often'"


MEGATRON = {
    "swift/__init__.py": "", "swift/callbacks/__init__.py": "", "swift/megatron/__init__.py": "",
    "swift/megatron/callbacks/__init__.py": "", "swift/callbacks/mapping.py": "callbacks_map = {}\n",
    "swift/callbacks/base.py": "class TrainerCallback:\n    def __init__(self, args, trainer): raise RuntimeError\n"
                               "    def on_init_end(self, *args, **kwargs): return 'base'\n",
    "swift/megatron/callbacks/mapping.py": "megatron_callbacks_map = {}\n",
    "swift/megatron/callbacks/base.py": "class MegatronCallback:\n    def __init__(self, trainer): raise RuntimeError\n"
                                        "    def on_save(self, output_dir): return output_dir\n",
    "swift/utils.py": "import types\ndef get_logger(): return types.SimpleNamespace(info=lambda line: print('logger:', line))\n",
}


def test_plugin_of_4(python, tmp_path):  # noqa: F811
    """Both of its dictionaries; Megatron's interface driven as its training loop does it."""
    write(tmp_path, MEGATRON)
    done = python(PLUGIN + """
import types
load()
from swift.callbacks.mapping import callbacks_map
from swift.callbacks.base import TrainerCallback
c = callbacks_map["alula"]("args", "trainer")
print(isinstance(c, TrainerCallback), c.args, c.trainer, c.interval_steps, c.on_init_end(), "swift.megatron" in sys.modules)
import swift.megatron, swift.utils
del sys.modules["alula_swift_plugin"]; load()
from swift.megatron.callbacks.mapping import megatron_callbacks_map
class Trainer:
    def __init__(self):
        self.args, self.state = types.SimpleNamespace(train_iters=4), types.SimpleNamespace(iteration=0)
        self.callbacks = [megatron_callbacks_map["alula"](self), Print()]
        self.callbacks.reverse()
    def call(self, event, **more):
        for callback in self.callbacks: getattr(callback, event)(**more)
class Print:
    def on_log(self, logs): print(sorted(logs))
    def __getattr__(self, name): return lambda **more: None
t = Trainer()
t.call("on_train_begin")
for t.state.iteration in range(1, 5):
    t.call("on_step_begin"); t.call("on_step_end")
    t.call("on_log", logs={"loss": 1.0})
t.call("on_eval_begin"); t.call("on_eval_step"); t.call("on_eval_end"); t.call("on_save", output_dir="out"); t.call("on_train_end")
""", PYTHONPATH=f"{PACKAGE.parent}:{tmp_path}", ALULA_INTERVAL_STEPS="4", RANK="1", WORLD_SIZE="2", LOCAL_RANK="0")
    lines = done.stdout.splitlines()
    assert lines[0] == "True args trainer 4 base False"
    assert lines[1].startswith("logger: alula: rank 1: watching RAM of this process and GPU 0 (NVIDIA H200)")
    keys = ("['alula/gpu_util_percent', 'alula/mem_usage_ratio', 'alula/mem_used_gb', 'alula/ram_anonymous_gb', "
            "'alula/ram_gb', 'loss']")
    assert [line for line in lines[2:] if not line.startswith("logger")] == [keys] * 4
    assert [line[:31] for line in lines[2:] if line.startswith("logger")] == ["logger: alula: rank 1: step 4: "]


def test_the_examples_of_the_page(train, root):
    """docs/python.md: each Python example runs as it stands there."""
    blocks = re.findall(r"^```python\n(.*?)^```", (root / "docs/python.md").read_text(), re.S | re.M)
    assert len(blocks) == 5
    done = train("model, args, dataset = made(), arguments(max_steps=100), Ids()\n" + "\n".join(blocks))
    lines = done.stdout.splitlines()
    assert any(line.startswith("alula: step 100: GPU 0 97 %") for line in lines)
    assert "97 108.2 0.771" in lines and lines[-2] == "[]" and lines[-1].isdigit()
    assert any(re.fullmatch(r"\d+ None None", line) for line in lines)
