# SPDX-License-Identifier: Apache-2.0
"""alula run: TensorBoard's scalars, the trainer's own log beside the measured figures, throughput and MFU."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from standin_env import HEAD
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

pytestmark = pytest.mark.plain  # the job loads the probe, and has no sanitizer

FAKE = pathlib.Path(__file__).with_name("fake_job.py")


def scalars(folder):
    """{tag: [(step, value)]}, as TensorBoard's own reader gives them."""
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    reader.Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


@pytest.fixture
def fake(alula, tmp_path):
    """fake("--steps", 30, run=("--tensorboard",)) -> (CompletedProcess, report)"""

    def run(*args, run=(), env=None):
        got = alula("run", "--output-dir", tmp_path, *run, "--", sys.executable, FAKE, *args, env=env, timeout=60)
        assert got.returncode == 0, got.stderr
        return got, json.loads((tmp_path / "metrics_report.json").read_text())

    return run


def test_tensorboard_reads_the_scalars(fake, tmp_path):
    _, report = fake("--steps", 60, "--data", 0.005, "--forward", 0.01, "--memory", 1, run=("--tensorboard", "--log-every", 10))
    found = scalars(tmp_path / "runs" / "alula")
    steps = [step for step, _ in found["alula/step_seconds"]]
    assert steps == sorted(set(steps)) and steps[-1] == 60 and 2 <= len(steps) <= 6
    assert {"alula/phase/data_seconds", "alula/phase/forward_seconds", "alula/phase/backward_seconds",
            "alula/phase/optimizer_seconds", "alula/steps_per_second", "alula/data_loading_time_ratio",
            "alula/memory/allocated_bytes", "alula/memory/reserved_bytes"} <= set(found)
    assert all(value == 1 << 30 for _, value in found["alula/memory/allocated_bytes"])
    # The means between points, weighed by their steps, are the report's sums.
    parts = report["alula"]["ranks"][0]["host_timeline"]["seconds"]
    for tag, want in (("alula/phase/data_seconds", parts["data"]), ("alula/phase/forward_seconds", parts["forward"])):
        before, total = 0, 0
        for step, value in found[tag]:
            total += value * (step - before)
            before = step
        assert total == pytest.approx(want, rel=1e-4)


def test_tensorboard_folder_gpus_and_ranks(fake, standin, tmp_path):
    scene = tmp_path / "scene"
    scene.write_text(HEAD + "duration 60s\nhost hostname=h\ngpu 0\n@0s\n"
                     "gpu 0 memory_total_bytes=40GiB memory_used_bytes=10GiB utilization_ratio=0.75\n")
    fake("--steps", 60, "--forward", 0.01, "--memory", 1, "--world", 2, "--rank", 1, run=(f"--tensorboard={tmp_path}/elsewhere",),
         env={"ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(scene)})
    found = scalars(tmp_path / "elsewhere")
    assert not (tmp_path / "runs").exists()
    assert {round(value, 2) for _, value in found["alula/gpu/0/utilization"]} == {0.75}
    assert found["alula/rank/1/step_seconds"][-1][1] > 0.02


def test_tensorboard_file_of_a_killed_run_is_whole(alula_bin, tmp_path):
    p = subprocess.Popen([alula_bin, "run", "--output-dir", tmp_path, "--tensorboard", "--", sys.executable, FAKE, "--steps", "4000",
                          "--forward", "0.005"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob("runs/alula/events*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.5)
    children = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()
    p.send_signal(signal.SIGKILL)
    p.wait()
    for child in children:  # the job goes on without alula
        subprocess.run(["kill", "-9", child], check=False, stderr=subprocess.DEVNULL)
    assert len(scalars(tmp_path / "runs" / "alula")["alula/step_seconds"]) >= 2


def test_a_folder_that_cannot_be_made_costs_the_scalars_alone(alula, tmp_path):
    got = alula("run", "--output-dir", tmp_path, "--tensorboard=/proc/nowhere", "--", sys.executable, FAKE, "--steps", 20, timeout=60)
    assert got.returncode == 0 and got.stderr.count("--tensorboard /proc/nowhere: ") == 1
    assert (tmp_path / "metrics_report.json").exists()


# --- the trainer's own log ------------------------------------------------------------------------------------------


def line(**keys):
    return json.dumps({"loss": 1.5, "memory(GiB)": 30.5, "elapsed_time": "1m 0s", "global_step/max_steps": "40/40", **keys})


@pytest.mark.parametrize("key, end", [("train_speed(iter/s)", "\n"), ("train_speed(s/it)", "")])
def test_the_trainer_s_log_beside_the_measured_speed(fake, tmp_path, key, end):
    """In the versioned folder below the output folder; the last line may lack its newline."""
    log = tmp_path / "v0-20260101-000000" / "logging.jsonl"
    got, report = fake("--steps", 40, "--forward", 0.01, "--memory", 1, "--log", log, "--log-line", line(**{key: 0.02}) + end)
    told = report["alula"]["trainer_log"]
    want = 0.02 if "iter/s" in key else 50
    assert (told["path"], told["writer"], told["speed_key"], told["step"]) == (str(log), "huggingface", key, 40)
    assert told["steps_per_second"] == pytest.approx(want)
    assert told["measured_steps_per_second"] == pytest.approx(report["train_steps_per_second"], abs=1e-3)
    assert told["difference_ratio"] == pytest.approx(want / told["measured_steps_per_second"] - 1)
    assert f"the trainer's log says {want:.3f} steps/s ({key}, step 40), alula measured " in got.stderr
    assert told["explanation"] in got.stderr
    assert told["memory_gib"] == 30.5 and "never falls" in told["memory_is"]
    assert "memory(GiB) 30.50 in that log is the greatest torch.cuda.max_memory_reserved() so far" in got.stderr


def test_an_older_run_s_log_is_not_this_one_s(fake, tmp_path):
    old = tmp_path / "logging.jsonl"
    old.write_text(line(**{"train_speed(s/it)": 1}))
    subprocess.run(["touch", "-d", "2020-01-01", old], check=True)
    _, report = fake("--steps", 20)
    assert report["alula"]["trainer_log"] is None


# --- throughput -----------------------------------------------------------------------------------------------------

A100 = HEAD + "duration 60s\nhost hostname=h\ngpu 0 name=\"NVIDIA A100-SXM4-40GB\"\n@0s\ngpu 0 memory_total_bytes=40GiB memory_used_bytes=30GiB utilization_ratio=0.62\n"


def test_mfu_beside_utilisation(fake, standin, tmp_path):
    scene = tmp_path / "scene"
    scene.write_text(A100)
    got, report = fake("--steps", 60, "--forward", 0.02, "--memory", 1, "--tokens", 4096, "--model",
                       "parameters=76156165 trainable=2018508 dtype=bfloat16",
                       env={"ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(scene)})
    told = report["alula"]["throughput"]
    seconds = report["alula"]["ranks"][0]["host_timeline"]["wall_seconds"]
    assert told["tokens"] == 60 * 4096 and told["tokens_per_second"] == pytest.approx(60 * 4096 / seconds)
    flops = told["tokens_per_second"] * (4 * 76156165 + 2 * 2018508)
    assert told["model_flops_per_second"] == pytest.approx(flops)
    assert told["peak_flops_per_second"] == 312e12 and told["mfu_ratio"] == pytest.approx(flops / 312e12)
    assert told["confidence"] == "inferred" and told["missing"] is None and "4 x parameters" in told["mfu_formula"]
    assert re.search(r"tokens/s \(padding counted\), .*FLOP/s of the model's own: MFU about [\d.]+ % of 312.0 TFLOP/s", got.stderr)


def test_mfu_is_null_with_the_reason(fake):
    got, report = fake("--steps", 20)
    told = report["alula"]["throughput"]
    assert told["mfu_ratio"] is None and told["tokens"] is None and "input_ids" in told["missing"]
    assert "MFU" not in got.stderr
    got, report = fake("--steps", 20, "--tokens", 10, "--model", "parameters=100 trainable=100")
    told = report["alula"]["throughput"]
    assert told["tokens"] == 200 and told["model_flops_per_second"] and told["mfu_ratio"] is None
    assert "MFU not known: which GPUs are the job's is not known" in got.stderr


def test_advice_in_the_options_of_ms_swift(fake):
    _, report = fake("--steps", 100, "--data", 0.02, "--forward", 0.005, "--memory", 1, "--source", "transformers.Trainer",
                     "--framework", "torch=2.6.0 transformers=4.51.3 swift=3.12.6",
                     "--model", "parameters=10 trainable=1 attn=eager dtype=float32",
                     "--options", "dataloader_num_workers=1 dataloader_prefetch_factor=2 bf16=0 fp16=0")
    rules = {v["rule"]: v for v in report["alula"]["verdicts"]}
    assert "--attn_impl flash_attn" in rules["settings"]["advice"] and "--torch_dtype bfloat16" in rules["settings"]["advice"]
    advice = rules["data_wait"]["advice"]
    assert "--dataloader_num_workers" in advice or "more workers will not help" in advice
    assert "--dataloader_prefetch_factor 4" in advice


# --- the documents' case --------------------------------------------------------------------------------------------

S130 = pathlib.Path(__file__).parents[1] / "golden" / "s130"  # made by hand: an A100 with a LoRA of 7 B, at 62 % and repaired


def test_the_case_of_the_documents(alula):
    """Its baseline holds together, and compared with the repaired run it gives the documents' table."""
    before, after = (json.loads((S130 / f"{name}.json").read_text()) for name in ("before", "after"))
    for report in (before, after):
        timeline = report["alula"]["ranks"][0]["host_timeline"]
        assert sum(timeline["seconds"].values()) == pytest.approx(timeline["wall_seconds"])
        assert report["alula"]["device"]["gpus"][0]["name"] == "NVIDIA A100-SXM4-40GB"
        assert 0.2 < report["alula"]["throughput"]["mfu_ratio"] < 0.5
    findings = [v["rule"] for v in before["alula"]["verdicts"] if v["verdict"] == "finding"]
    assert findings == ["settings", "host_bound"]
    assert not [v for v in after["alula"]["verdicts"] if v["verdict"] == "finding"]
    got = alula("compare", S130 / "before.json", S130 / "after.json")
    assert got.returncode == 0
    for row in (r"GPU utilisation +61.8 % +86.5 % +\+40.0 % +better", r"steps a second +0.2750 +0.3920 +\+42.5 % +better",
                r"waiting for data +8.0 % +3.0 % +-62.5 % +better", r"MFU +30.2 % +43.0 % +\+42.5 % +better"):
        assert re.search(row, got.stdout), got.stdout
    assert re.search(r"a: the GPUs were busy 61.8 % of the time; the other 38.2 %: .*within the step's own work", got.stdout)
