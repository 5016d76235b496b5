# SPDX-License-Identifier: Apache-2.0
"""alula report and alula compare: what alula run said once more from its recording, and two of them side by side."""

import json
import pathlib
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from standin_env import HEAD

pytestmark = pytest.mark.plain  # the job loads the probe, and has no sanitizer

FAKE = pathlib.Path(__file__).with_name("fake_job.py")


@pytest.fixture
def recorded(alula, tmp_path):
    """recorded("name", "--steps", 30) -> (CompletedProcess of alula run, folder)"""

    def run(name, *args, run=(), env=None):
        out = tmp_path / name
        got = alula("run", "--output-dir", out, *run, "--", sys.executable, FAKE, *args, env=env, timeout=60)
        return got, out

    return run


def same(a, b, path=""):
    """Equal, but for numbers to a thousandth (times are kept to a microsecond) and when it was written."""
    if isinstance(a, dict) and isinstance(b, dict):
        assert a.keys() == b.keys(), path
        for key in a.keys() - {"written", "command_seconds"}:
            same(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, list) and isinstance(b, list):
        assert len(a) == len(b), path
        for i, pair in enumerate(zip(a, b)):
            same(*pair, f"{path}/{i}")
    elif isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool):
        assert a == pytest.approx(b, rel=1e-2 if "error" in path else 1e-3, abs=1e-4), path
    else:
        assert a == b, path


def again(alula, folder):
    got = alula("report", folder / "run.alula", "--json")
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout)


def summary_of(stderr):
    """What alula run said at the end: behind the findings, without where things were written."""
    lines = stderr.splitlines()
    return [line for line in lines if line.startswith("alula: ") and not line.startswith(
        ("alula: watching", "alula: report: ", "alula: recording: "))]


def closing(stdout):
    return stdout.splitlines()[1:]


def test_the_same_figures_and_words_again(recorded, alula):
    live, out = recorded("a", "--steps", 90, "--data", 0.01, "--forward", 0.01, "--memory", 1, "--leak", 1 << 22)
    same(json.loads((out / "metrics_report.json").read_text()), again(alula, out))
    got = alula("report", out / "run.alula")
    assert got.returncode == 0 and got.stderr == ""
    told = closing(got.stdout)
    assert told and told == summary_of(live.stderr)[-len(told):]
    assert "90 steps in" in got.stdout and "data_wait: finding: " in got.stdout


def test_gpus_again(recorded, alula, standin, tmp_path):
    """With a driver: utilisation and memory of the job's GPUs, at the end and from the samples of a recording without one."""
    scene = tmp_path / "scene.txt"
    scene.write_text(HEAD + "duration 60s\nhost hostname=h\ngpu 0\n@0s\n"
                     "gpu 0 memory_total_bytes=140GiB memory_used_bytes=20GiB utilization_ratio=0.87\n"
                     "@2s\ngpu 0 utilization_ratio=0.4\n")
    live, out = recorded("a", "--steps", 150, "--forward", 0.01, "--memory", 1,
                         env={"ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(scene)})
    report = json.loads((out / "metrics_report.json").read_text())
    assert report["gpu_avg_utilization_percent"] > 40, live.stderr
    same(report, again(alula, out))
    with sqlite3.connect(out / "run.alula") as db:
        assert db.execute("SELECT count(*) FROM gpu_attributes").fetchone()[0] > 3
    with sqlite3.connect(out / "run.alula") as db:  # as of one that was cut off
        db.execute("UPDATE meta SET value = replace(value, 'finished 1', 'finished 0') WHERE key = 'job'")
    anew = again(alula, out)
    for key in ("gpu_avg_utilization_percent", "gpu_max_utilization_percent"):
        assert anew[key] == pytest.approx(report[key], abs=0.5), key


def test_post_mortem_again(recorded, alula):
    live, out = recorded("a", "--steps", 30, "--at", 20, "--kill", int(signal.SIGSEGV))
    got = alula("report", out / "run.alula")
    assert "first to die: rank 0" in got.stdout and "of SIGSEGV" in got.stdout and "in backward of step 20" in got.stdout
    told = [line for line in live.stderr.splitlines() if "first to die" in line or "was in backward" in line]
    assert told == closing(got.stdout)[:len(told)]
    same(json.loads((out / "metrics_report.json").read_text()), again(alula, out))


def test_a_recording_that_was_cut_off(alula_bin, alula, tmp_path):
    out = tmp_path / "out"
    with subprocess.Popen([alula_bin, "run", "--output-dir", out, "--", sys.executable, FAKE, "--steps", "600", "--forward",
                           "0.005"], stderr=subprocess.DEVNULL) as job:
        time.sleep(4)
        job.kill()
    got = alula("report", out / "run.alula")
    assert got.returncode == 0 and "was not closed" in got.stdout
    steps = int(got.stdout.split(" steps in ")[0].rsplit(" ", 1)[1])
    assert steps > 100, got.stdout
    assert "go on" not in got.stdout and "goes on" not in got.stdout
    report = again(alula, out)
    assert report["alula"]["finished"] is False and report["alula"]["ranks"][0]["steps"] == steps
    compared = json.loads(alula("compare", out / "run.alula", out / "run.alula", "--json").stdout)
    assert any("was not over" in caution for caution in compared["cautions"])


def test_a_recording_without_a_job(alula, tmp_path):
    scenario = tmp_path / "scenario.txt"
    path = tmp_path / "x.alula"
    scenario.write_text(pathlib.Path(__file__).parent.parent.joinpath("scenarios", "h200-session.txt").read_text())
    got = alula("record", "-o", path, "--source", f"scenario:{scenario}", "--speed", "0", "--quiet")
    assert got.returncode == 0, got.stderr
    got = alula("report", path)
    assert got.returncode == 0 and "holds no job of alula run" in got.stdout
    assert "utilisation mean" in got.stdout and "most memory" in got.stdout
    got = alula("compare", path, path)
    assert got.returncode == 6 and "holds no job" in got.stderr


def test_settings_of_the_job_or_others(recorded, alula, tmp_path):
    config = tmp_path / "alula.yaml"
    config.write_text("training:\n  data_above: 95%\n")
    _, out = recorded("a", "--steps", 80, "--data", 0.01, "--forward", 0.01, run=("--config", config))
    assert "data_wait: finding" not in alula("report", out / "run.alula").stdout
    config.write_text("training:\n  data_above: 10%\n")
    assert "data_wait: finding" in alula("report", out / "run.alula", "--config", config).stdout


def rows_of(alula, a, b):
    got = alula("compare", a, b, "--json")
    assert got.returncode == 0, got.stderr
    data = json.loads(got.stdout)
    return {row["key"]: row for row in data["figures"]}, data


def test_before_and_after(recorded, alula):
    _, a = recorded("a", "--steps", 100, "--data", 0.012, "--forward", 0.008, "--memory", 1)
    _, b = recorded("b", "--steps", 100, "--data", 0.002, "--forward", 0.008, "--memory", 1)
    rows, data = rows_of(alula, a / "run.alula", b / "metrics_report.json")
    assert rows["train_steps_per_second"]["verdict"] == "better" and rows["train_steps_per_second"]["change_ratio"] > 0.2
    assert rows["data_loading_time_ratio"]["verdict"] == "better" and rows["data"]["verdict"] == "better"
    assert rows["gpu_peak_memory_allocated_gb"]["verdict"] == "same"
    assert data["cautions"] == []
    assert rows_of(alula, b / "run.alula", a / "run.alula")[0]["step_seconds"]["verdict"] == "worse"
    text = alula("diff", a / "run.alula", b / "run.alula").stdout
    assert text.splitlines()[0] == f"a: {a}/run.alula"
    assert "waiting for data" in text and "better" in text and "a: a step is data " in text


def test_another_batch_is_not_compared(recorded, alula):
    _, a = recorded("a", "--steps", 40, "--samples", 4)
    _, b = recorded("b", "--steps", 40, "--samples", 8)
    rows, data = rows_of(alula, a / "run.alula", b / "run.alula")
    assert rows["train_steps_per_second"]["verdict"] == rows["forward"]["verdict"] == "not comparable"
    assert rows["train_samples_per_second"]["verdict"] == "better"
    assert any("samples a step differ (4, 8)" in caution for caution in data["cautions"])


def test_what_is_neither(alula, tmp_path):
    other = tmp_path / "other"
    for content, status in ((b"", 6), (b"{", 6), (b'{"loss": 1}', 6), (b"[1]", 6), (b"\0\1", 6)):
        other.write_bytes(content)
        for args in (("compare", other, other), *([("report", other)] if not content.startswith(b"{") else [])):
            got = alula(*args)
            assert got.returncode == status and got.stdout == "" and got.stderr.count("\n") == 1, (args, got.stderr)
    assert alula("report", tmp_path / "none").returncode == alula("compare", tmp_path / "none", other).returncode == 5
    for args in (("report",), ("report", "a", "b"), ("compare", "a"), ("compare", "a", "b", "c")):
        assert alula(*args).returncode == 2


def test_damaged_words_of_a_job(recorded, alula):
    """What a recording keeps of its job may be anything."""
    _, out = recorded("a", "--steps", 5)
    with sqlite3.connect(out / "run.alula") as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'job'", ("job 1\npid x\nrank 9999999999 1\x1b[2J\ngpu\n" * 50,))
    got = alula("report", out / "run.alula")
    assert got.returncode == 0 and "5 steps in" in got.stdout and "\x1b" not in got.stdout


def test_the_utilisation_of_a_thinned_recording(alula, tmp_path):
    """A mean over 10 s or a minute counts as long as it stands for."""
    scene = tmp_path / "scene.txt"
    scene.write_text(HEAD + "duration 3600s\nhost hostname=h\ngpu 0\n@0s\ngpu 0 memory_total_bytes=140GiB "
                     "memory_used_bytes=20GiB utilization_ratio=0.87\n@2400s\ngpu 0 utilization_ratio=0.27\n")
    for name, options in (("full", ()), ("thin", ("--plain", "1min", "--full", "10min", "--coarse", "30min"))):
        path = tmp_path / f"{name}.alula"
        assert alula("record", "-o", path, "--source", f"scenario:{scene}", "--speed", "0", "--quiet", "--interval", "1s",
                     *options).returncode == 0
        assert json.loads(alula("report", path, "--json").stdout)["gpu_avg_utilization_percent"] == pytest.approx(67, abs=0.5)
