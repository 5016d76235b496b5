# SPDX-License-Identifier: Apache-2.0
"""alula run: what it reports of jobs that mark their steps through the probe (fake_job.py), without a framework."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from standin_env import HEAD

pytestmark = pytest.mark.plain  # the job loads the probe, and has no sanitizer

FAKE = pathlib.Path(__file__).with_name("fake_job.py")
KEYS = ["train_runtime", "train_samples_per_second", "train_steps_per_second", "gpu_peak_memory_allocated_gb",
        "gpu_avg_utilization_percent", "gpu_max_utilization_percent", "data_loading_time_ratio", "communication_time_ratio"]


@pytest.fixture
def fake(alula, tmp_path):
    """fake("--steps", 30, run=("--verbose",)) -> (CompletedProcess, report or None)"""

    def run(*args, run=(), env=None, command=None):
        got = alula("run", "--output-dir", tmp_path, *run, "--", *(command or (sys.executable, FAKE)), *args, env=env, timeout=60)
        path = tmp_path / "metrics_report.json"
        return got, json.loads(path.read_text()) if path.exists() else None

    return run


def verdict(report, rule):
    return [v for v in report["alula"]["verdicts"] if v["rule"] == rule]


def test_keys_and_figures(fake):
    got, report = fake("--steps", 30, "--data", 0.01, "--forward", 0.02, "--samples", 4, "--memory", 1)
    assert got.returncode == 0
    assert list(report) == [*KEYS, "alula"]
    rank = report["alula"]["ranks"][0]
    assert (rank["rank"], rank["world_size"], rank["steps"], rank["samples"], rank["lost_records"]) == (0, 1, 30, 120, 0)
    wall = rank["host_timeline"]["wall_seconds"]
    parts = rank["host_timeline"]["seconds"]
    assert sum(parts.values()) == pytest.approx(wall, abs=1e-6)
    assert rank["host_timeline"]["explained_ratio"] > 0.99
    assert report["train_runtime"] == pytest.approx(wall, abs=1e-4)
    assert report["train_steps_per_second"] == pytest.approx(30 / wall, abs=1e-3)
    assert report["train_samples_per_second"] == pytest.approx(120 / wall, abs=1e-3)
    assert report["data_loading_time_ratio"] == pytest.approx(parts["data"] / wall, abs=1e-6)
    assert report["communication_time_ratio"] == 0
    assert report["gpu_peak_memory_allocated_gb"] == pytest.approx(1 + 1 / 1024, abs=1e-4)
    assert report["gpu_avg_utilization_percent"] is None and report["gpu_max_utilization_percent"] is None
    assert "libnvidia-ml" in report["alula"]["figures"]["gpu_avg_utilization_percent"]["reason"]
    assert report["alula"]["finished"] is True and report["alula"]["job_end"] == "exit status 0"


def test_evaluation_behind_the_last_step_is_no_step(fake):
    _, report = fake("--steps", 12, "--evaluate", 0.3)
    timeline = report["alula"]["ranks"][0]["host_timeline"]
    assert timeline["seconds"]["evaluation"] == 0
    assert timeline["after_last_step_seconds"]["evaluation"] == pytest.approx(0.3, abs=0.1)


def test_the_trainer_s_own_closing_figures_win(fake):
    metrics = {"train_runtime": 12.3456, "train_samples_per_second": 7.5, "train_steps_per_second": 0.392}
    _, report = fake("--steps", 5, "--metrics", json.dumps(metrics))
    assert {key: report[key] for key in metrics} == metrics
    assert report["alula"]["figures"]["train_runtime"]["source"] == "the trainer's own closing metrics"


def test_unknown_is_null_with_the_reason(fake):
    got, report = fake(command=("true",))
    assert got.returncode == 0
    assert [report[key] for key in KEYS] == [None] * 8
    assert all(figure["reason"] for figure in report["alula"]["figures"].values())
    assert {v["verdict"] for v in report["alula"]["verdicts"]} == {"cannot tell"}
    got, report = fake("--steps", 5, "--samples", 0)
    assert report["train_samples_per_second"] is None and report["train_steps_per_second"] > 0


# --- verdicts -------------------------------------------------------------------------------------------------------


def test_starved_by_its_loader(fake):
    got, report = fake("--steps", 80, "--data", 0.02, "--forward", 0.01, run=("--fail-on", "warning"))
    found = verdict(report, "data_wait")[0]
    assert found["verdict"] == "finding"
    assert re.search(r"^\d\d\.\d % of wall time goes into waiting for the next batch \(limit 15\.0 %\)", found["message"])
    assert "DataLoader(num_workers=" in found["advice"]
    assert got.stderr.count("training waits for data") == 1  # told once, live
    assert got.returncode == 3


def test_advice_in_the_words_of_the_trainer(fake):
    _, report = fake("--steps", 80, "--data", 0.02, "--forward", 0.01, "--source", "transformers.Trainer")
    cores = len(os.sched_getaffinity(0))
    assert re.search(r"dataloader_num_workers[= ](\d+)", verdict(report, "data_wait")[0]["advice"])
    assert int(re.search(r"dataloader_num_workers[= ](\d+)", verdict(report, "data_wait")[0]["advice"])[1]) <= max(1, cores - 1)


def test_healthy_twin_raises_nothing(fake):
    got, report = fake("--steps", 80, "--data", 0.0005, "--forward", 0.014, "--memory", 1, run=("--fail-on", "info"))
    assert got.returncode == 0
    assert not [v for v in report["alula"]["verdicts"] if v["verdict"] == "finding"]
    assert verdict(report, "allocated")[0]["verdict"] == "nothing found"
    assert verdict(report, "healthy")[0]["verdict"] == "cannot tell"  # no GPU here


def test_kept_tensors_and_cache(fake):
    _, report = fake("--steps", 60, "--leak", 2 << 20)
    found = verdict(report, "allocated")[0]
    assert found["title"] == "tensors are kept from step to step" and "2.0 MiB a step" in found["message"]
    _, report = fake("--steps", 60, "--cache", 2 << 20)
    assert verdict(report, "allocated")[0]["title"] == "the allocator's cache grows"
    _, report = fake("--steps", 15, "--leak", 2 << 20)
    assert verdict(report, "allocated")[0]["verdict"] == "too little data"


def test_thresholds_are_settings(fake, tmp_path):
    config = tmp_path / "alula.yaml"
    config.write_text("training:\n  data_above: 95%\n")
    got, report = fake("--steps", 80, "--data", 0.02, "--forward", 0.01, run=("--config", config, "--fail-on", "info"))
    assert got.returncode == 0 and verdict(report, "data_wait")[0]["verdict"] == "nothing found"


# --- several ranks --------------------------------------------------------------------------------------------------


def ranks(tmp_path, count, *args, last=()):
    script = tmp_path / "ranks.sh"
    lines = [f"{sys.executable} {FAKE} --world {count} --rank {r} {' '.join(args)} {' '.join(last) if r == count - 1 else ''} &"
             for r in range(count)]
    end = "wait -n; status=$?; kill $(jobs -p); wait; exit $status" if last else "wait"  # as a launcher ends the others
    script.write_text("\n".join([*lines, end]))
    return ("bash", script)


def test_many_ranks(fake, tmp_path):
    _, report = fake(command=ranks(tmp_path, 4, "--steps", "15", "--communicate", "0.002"))
    rows = report["alula"]["ranks"]
    assert sorted(row["rank"] for row in rows) == [0, 1, 2, 3]
    assert all(row["world_size"] == 4 and row["steps"] == 15 for row in rows)
    assert 0.05 < report["communication_time_ratio"] < 0.9
    assert report["alula"]["figures"]["communication_time_ratio"]["confidence"] == "inferred"
    assert "lower bound" in report["alula"]["figures"]["communication_time_ratio"]["source"]


def test_communication_of_many_is_null_without_a_source(fake, tmp_path):
    _, report = fake(command=ranks(tmp_path, 2, "--steps", "5"))
    assert report["communication_time_ratio"] is None
    assert "overlap" in report["alula"]["figures"]["communication_time_ratio"]["reason"]


# --- the end --------------------------------------------------------------------------------------------------------


def test_post_mortem_of_an_exception(fake):
    got, report = fake("--steps", 20, "--at", 8, "--fail", "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
    assert got.returncode == 1
    assert "first to die: rank 0" in got.stderr
    assert "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB (train.py:12 main), exit status 1" in got.stderr
    assert report["alula"]["ranks"][0]["last"]["error"].startswith("OutOfMemoryError")
    assert report["alula"]["ranks"][0]["last"]["step"] == 7


def test_post_mortem_names_the_first_rank(fake, tmp_path):
    got, report = fake(command=ranks(tmp_path, 3, "--steps", "4000", "--forward", "0.01", last=("--at", "10", "--kill", "9")))
    assert got.returncode == 128 + signal.SIGKILL
    first = re.search(r"first to die: rank (\d+) \(pid \d+\), of (SIG\w+)", got.stderr)
    assert first and first.groups() == ("2", "SIGKILL"), got.stderr
    assert re.search(r"rank 2 \(pid \d+\) was in backward of step 10\n", got.stderr)
    assert len(re.findall(r"rank [01] \(pid \d+\) was in .*; SIGTERM\n", got.stderr)) == 2, got.stderr
    assert sorted(row["last"]["ended"] for row in report["alula"]["ranks"]) == ["SIGKILL", "SIGTERM", "SIGTERM"]


def test_report_at_sigterm(alula_bin, tmp_path):
    p = subprocess.Popen([alula_bin, "run", "--quiet", "--output-dir", tmp_path, "--", sys.executable, FAKE, "--steps", "20",
                          "--at", "15", "--hang"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "hanging\n"
    p.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=20)
    assert p.returncode == -signal.SIGTERM
    report = json.loads((tmp_path / "metrics_report.json").read_text())
    assert report["train_steps_per_second"] > 0 and report["alula"]["ranks"][0]["steps"] == 14
    assert "SIGTERM" in err and "in communication of step 15" in err
    assert not list(tmp_path.glob("*.tmp"))


def test_killed_job_is_explained_within_two_seconds(alula_bin, tmp_path):
    p = subprocess.Popen([alula_bin, "run", "--output-dir", tmp_path, "--", sys.executable, FAKE, "--steps", "20", "--at", "5",
                          "--kill", "9"], stderr=subprocess.PIPE, text=True)
    _, err = p.communicate(timeout=20)
    assert p.returncode == -signal.SIGKILL
    assert "first to die: rank 0" in err and "of SIGKILL" in err


# --- where and what -------------------------------------------------------------------------------------------------


def test_output_dir_of_the_command_and_of_the_trainer(alula, tmp_path):
    out, told = tmp_path / "out", tmp_path / "told"
    out.mkdir()
    told.mkdir()
    got = alula("run", "--", "sh", "-c", "exit 0", "--output_dir", out)
    assert json.loads((out / "metrics_report.json").read_text())["alula"]["output_dir_from"] == "the command's arguments"
    assert f"report: {out}/metrics_report.json" in got.stderr
    alula("run", "--", sys.executable, FAKE, "--steps", 3, "--output", told)
    assert json.loads((told / "metrics_report.json").read_text())["alula"]["output_dir_from"] == "the trainer"
    got = alula("run", "--", "true", cwd=tmp_path)
    assert not (tmp_path / "metrics_report.json").exists() and got.returncode == 0
    for args in (("--output-dir", tmp_path / "new" / "deep", "--", "true"),
                 ("--", "sh", "-c", "exit 0", "--output_dir", tmp_path / "later")):
        assert alula("run", *args).returncode == 0
    assert (tmp_path / "new" / "deep" / "metrics_report.json").exists()  # made before the job
    assert (tmp_path / "later" / "metrics_report.json").exists()         # made behind it, as the job did not
    (tmp_path / "file").write_text("")
    got = alula("run", "--output-dir", tmp_path / "file" / "x", "--", "sh", "-c", f"touch {tmp_path}/ran")
    assert got.returncode == 125 and not (tmp_path / "ran").exists()
    got = alula("run", "--", "sh", "-c", "exit 0", "--output_dir", tmp_path / "file" / "x")
    assert got.returncode == 0 and "metrics_report.json: " in got.stderr  # a lost report costs the job nothing


def test_log_lines(fake):
    got, _ = fake("--steps", 12, "--memory", 1, "--gpu", 0.001, run=("--log-every", 5))
    lines = [line for line in got.stderr.splitlines() if line.startswith("alula: step ")]
    assert [line.split(":")[1] for line in lines] == [" step 5"] * 3 + [" step 10"] * 3
    assert re.fullmatch(r"alula: step 5: memory 1\.00 GiB, peak 1\.00 GiB", lines[0])
    assert re.match(r"alula: step 5: forward \d+\.\d ms, backward \d+\.\d ms, optimizer_step \d+\.\d ms, total_step \d+\.\d ms; data ",
                    lines[1])
    assert "(estimate: time between CUDA events / step time)" in lines[2]


def test_preset_debug(fake):
    got, _ = fake("--steps", 3, run=("--preset", "debug"))
    assert [got.stderr.count(f"alula: step {step}: forward") for step in (1, 2, 3)] == [1, 1, 1]
    assert "alula: data_wait: too little data: 2 steps" in got.stderr


def test_gpus_by_the_driver(fake, standin, tmp_path):
    scene = tmp_path / "scene.txt"
    scene.write_text(HEAD + "duration 60s\nhost hostname=h\ngpu 0\n@0s\n"
                     "gpu 0 memory_total_bytes=140GiB memory_used_bytes=20GiB utilization_ratio=0.87\n")
    _, report = fake("--steps", 100, "--forward", 0.01, "--memory", 1, env={"ALULA_NVML_LIBRARY": str(standin),
                                                                          "ALULA_SCENARIO": str(scene)})
    assert report["alula"]["device"]["missing"] is None
    assert report["gpu_avg_utilization_percent"] == pytest.approx(87, abs=0.5)
    assert report["gpu_max_utilization_percent"] == pytest.approx(87, abs=0.5)
    assert verdict(report, "healthy")[0]["message"].startswith("healthy: GPU utilisation 87")


def test_marks_of_several_threads_are_put_in_order(fake, tmp_path):
    """Each thread has a lane of its own; the lanes are read one after the other."""
    script = tmp_path / "threads.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(FAKE.parent)!r})\n" + """
import threading, time
import fake_job as f
p = f.Probe()
p.mark(f.HELLO, 1, 0, 1)
def other(device):
    for i in range(2000):
        p.mark(f.MEMORY, f.ALLOCATED, 1 << 20, i, device=device)
threads = [threading.Thread(target=other, args=(n,)) for n in range(3)]
for t in threads: t.start()
for step in range(1, 101):
    p.phase(f.DATA, step, 0.0005)
    threading.Thread(target=p.phase, args=(f.FORWARD, step, 0.0005)).run()
    p.mark(f.STEP, 0, step, 1)
for t in threads: t.join()
""")
    got, report = fake(command=(sys.executable, script))
    rank = report["alula"]["ranks"][0]
    assert got.returncode == 0 and rank["steps"] == 100 and rank["lost_records"] == 0
    assert rank["host_timeline"]["explained_ratio"] > 0.9
    assert sorted(m["device"] for m in rank["allocator"]) == [0, 1, 2]


def test_what_goes_on_behind_the_command_is_told(fake):
    got, report = fake(command=("sh", "-c", f"{sys.executable} {FAKE} --steps 200 --forward 0.01 >/dev/null 2>&1 & sleep 1"))
    assert got.returncode == 0
    assert "alula: 1 training process goes on, from now on unwatched" in got.stderr
    assert report["alula"]["ranks"][0]["steps"] > 5
