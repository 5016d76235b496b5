# SPDX-License-Identifier: Apache-2.0
"""ms-swift 3.x and 4.x as they come from PyPI, on a tiny model: from `alula run -- swift sft` to the report."""

import json
import pathlib
import re

import pytest

pytestmark = pytest.mark.framework
PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
VERSIONS = ("swift3", "swift4")
TUNER = {"swift3": "--train_type", "swift4": "--tuner_type"}  # renamed in 4.0
VERSION = {"swift3": "swift=3.12.6", "swift4": "swift=4.6.0"}


def options(version, tiny, folder, data="sft.jsonl", **more):
    given = {"model": tiny / "model", "model_type": "qwen2", "template": "qwen2_5", "dataset": tiny / data,
             TUNER[version][2:]: "lora", "torch_dtype": "float32", "per_device_train_batch_size": 2,
             "gradient_accumulation_steps": 2, "max_steps": 6, "logging_steps": 2, "eval_steps": 3, "save_steps": 3,
             "split_dataset_ratio": 0.1, "dataloader_num_workers": 1, "max_length": 128, "output_dir": folder,
             "report_to": "tensorboard", **more}
    return [word for name, value in given.items() for word in (f"--{name}", value)]


def the_run(folder):
    """The sub-folder that ms-swift makes for a run."""
    runs = [path for path in folder.iterdir() if re.fullmatch(r"v\d+-\d{8}-\d{6}", path.name)]
    assert len(runs) == 1, runs
    return runs[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_sft(watch, program, tiny, tmp_path, version):
    """Steps, phases, evaluation and saving within training, the folder, the trainer's log beside, and who was there."""
    out = tmp_path / "output"
    job = watch(program(version, "swift"), "sft", *options(version, tiny, out), options=("--log-every", 2))
    rank, = job.ranks
    assert (rank["steps"], rank["micro_steps"], rank["samples"]) == (6, 6, 24)
    assert (rank["aborted_steps"], rank["skipped_steps"], rank["lost_records"]) == (0, 0, 0)
    assert VERSION[version] in rank["framework"]
    assert rank["step_source"].startswith("transformers.Trainer; data=exact forward=exact")
    assert job.explained() >= 0.99
    for part in ("data", "forward", "backward", "optimizer", "evaluation", "save", "log", "between_steps"):
        assert job.seconds()[part] > 0, part
    assert job.seconds()["rollout"] == job.seconds()["communication"] == 0

    folder = the_run(out)
    log = job.report["alula"]["trainer_log"]
    assert log["path"] == str(folder / "logging.jsonl") and log["writer"] == "huggingface"
    assert (log["speed_key"], log["step"], log["steps_of_all"]) == ("train_speed(s/it)", 6, 6)
    assert log["damaged_lines"] == 0
    closing = next(line for line in map(json.loads, (folder / "logging.jsonl").read_text().splitlines())
                   if "train_runtime" in line)
    assert job.report["train_runtime"] == pytest.approx(float(closing["train_runtime"]), abs=0.1)
    assert {"checkpoint-3", "checkpoint-6"} <= {path.name for path in folder.iterdir()}

    processes = job.report["alula"]["processes"]
    assert (processes["launcher"], processes["rank"], processes["engine"]) == (1, 1, 0)
    # The tree is looked at every two seconds, which a loader's worker of a tiny model need not live for.
    assert rank["host_memory"]["workers_anonymous_bytes"]["most"] > 0
    assert job.report["alula"]["throughput"]["parameters"] > job.report["alula"]["throughput"]["trainable_parameters"] > 0
    assert any("step 2: forward" in line for line in job.said())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_report_goes_into_the_folder_of_the_run(alula_bin, watch, program, tiny, tmp_path, version):
    """Without --output-dir of alula's own: into the v0-<date> that ms-swift makes below its --output_dir."""
    out = tmp_path / "output"
    watch(alula_bin, "run", "--", program(version, "swift"), "sft",
          *options(version, tiny, out, max_steps=2, split_dataset_ratio=0))
    assert {"metrics_report.json", "run.alula", "logging.jsonl"} <= {path.name for path in the_run(out).iterdir()}


@pytest.mark.parametrize("version", VERSIONS)
def test_two_ranks(watch, program, tiny, tmp_path, port, version):
    """NPROC_PER_NODE starts torchrun below swift (gloo without GPUs): both ranks with their numbers, in one report."""
    out = tmp_path / "output"
    job = watch(program(version, "swift"), "sft", *options(version, tiny, out, max_steps=4),
                env={"NPROC_PER_NODE": "2", "MASTER_PORT": str(port)})
    assert [(row["rank"], row["world_size"], row["steps"]) for row in job.ranks] == [(0, 2, 4), (1, 2, 4)]
    assert [row["samples"] for row in job.ranks] == [16, 16]
    assert job.explained() >= 0.99
    assert job.report["communication_time_ratio"] is None  # DDP's is behind the backward pass
    assert job.report["alula"]["trainer_log"]["path"] == str(the_run(out) / "logging.jsonl")
    assert job.report["alula"]["processes"]["rank"] == 2 and job.report["alula"]["processes"]["launcher"] >= 2


@pytest.mark.parametrize("version", VERSIONS)
def test_dpo_with_the_callback(watch, program, tiny, tmp_path, version):
    """swift rlhf; and beside it the package's own callback, as 3.x and 4.x take one (docs/python.md)."""
    plugin = ["--external_plugins", PYTHON / "alula" / "_swift" / "alula_swift_plugin.py"]
    job = watch(program(version, "swift"), "rlhf", "--rlhf_type", "dpo", *plugin,
                *(["--callbacks", "alula"] if version == "swift4" else []),
                *options(version, tiny, tmp_path / "output", data="dpo.jsonl", max_steps=4),
                env={"PYTHONPATH": str(PYTHON), "ALULA_INTERVAL_STEPS": "2"})
    rank, = job.ranks
    assert (rank["steps"], rank["micro_steps"]) == (4, 4)
    assert job.explained() >= 0.99
    assert job.seconds()["rollout"] == 0 and job.seconds()["evaluation"] > 0
    assert "alula: step 4: " in job.done.stdout + job.done.stderr
    assert "alula/ram_gb" in (the_run(tmp_path / "output") / "logging.jsonl").read_text()


MEGATRON = """
import os, sys, time, types
import swift, torch
for name in ("swift.megatron", "swift.megatron.callbacks"):  # their own __init__ needs megatron-core
    package = types.ModuleType(name)
    package.__path__ = [os.path.join(os.path.dirname(swift.__file__), *name.split(".")[1:])]
    sys.modules[name] = package
from swift.megatron.callbacks.base import MegatronCallback
from alula.callback import megatron_class
class Trainer:
    def __init__(self):
        self.args, self.state = types.SimpleNamespace(train_iters=4), types.SimpleNamespace(iteration=0)
        self.callbacks = [megatron_class(MegatronCallback)(self), MegatronCallback(self)]
    def call_event(self, event, **kwargs):
        for callback in self.callbacks: getattr(callback, event)(**kwargs)
t = Trainer()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
t.call_event("on_train_begin")
while t.state.iteration < t.args.train_iters:
    t.call_event("on_step_begin")
    for _ in range(2):
        model(torch.ones(4, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    t.state.iteration += 1
    t.call_event("on_step_end")
    t.call_event("on_log", logs={"loss": 1.0})
t.call_event("on_save", output_dir="out")
t.call_event("on_train_end")
"""


def test_megatron_s_callback_class_in_a_loop_of_ours(watch, program, script):
    """Without megatron-core: the callback class is ms-swift's own, what calls it does so in its trainer's order."""
    job = watch(program("swift4"), script(MEGATRON), env={"PYTHONPATH": str(PYTHON), "ALULA_INTERVAL_STEPS": "2"})
    assert job.ranks[0]["steps"] == 4
    assert "alula: step 4: " in job.done.stdout + job.done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_infer(watch, program, tiny, tmp_path, version):
    """Nobody trains: no rank of a training job is made up, and every figure of training is unknown, not 0."""
    job = watch(program(version, "swift"), "infer", "--model", tiny / "model", "--model_type", "qwen2", "--template", "qwen2_5",
                "--val_dataset", tiny / "prompts.jsonl", "--val_dataset_sample", "2", "--max_new_tokens", "4",
                "--torch_dtype", "float32", "--result_path", tmp_path / "result.jsonl", "--stream", "false")
    assert (tmp_path / "result.jsonl").read_text().count("\n") >= 1
    assert job.ranks == []
    for name in ("train_runtime", "train_steps_per_second", "data_loading_time_ratio"):
        assert job.report[name] is None
    assert any("no training step" in line for line in job.said()), job.said()


@pytest.mark.parametrize("version, wrong", [("swift3", "--tuner_type"), ("swift4", "--train_type"), ("swift4", "--profile"),
                                            ("swift3", "--track_memory")])
def test_options_that_do_not_exist_there(watch, program, tiny, tmp_path, version, wrong):
    """The job's own error, with its status; and alula says that nobody trained."""
    job = watch(program(version, "swift"), "sft", *options(version, tiny, tmp_path / "output"), wrong, "True", status=1)
    assert re.search(r"ValueError: remaining_argv: \['%s', 'True'\]" % wrong, job.done.stderr), job.done.stderr[-3000:]
    assert not job.ranks or all(row["steps"] == 0 for row in job.ranks)
