# SPDX-License-Identifier: Apache-2.0
"""Recordings of training jobs: what `alula run --record` keeps of ranks and their processes."""

import contextlib
import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
import time

import pytest

from recordings import needs_store, run_scene

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
    assert [(r["rank"], r["world_size"], r["source"]) for r in info["ranks"]] == [(0, 1, "fake")]
    assert info["marks"] > 150 * 8 and info["mark_bytes"] < 150 * 60
    assert alula("replay", path, "--speed", "0").returncode == 0


@needs_store
def test_a_kill_leaves_the_marks_of_all_but_the_last_second(alula, alula_bin, tmp_path):
    path = tmp_path / "job.alula"
    env = {k: v for k, v in os.environ.items() if not k.startswith("ALULA_")}
    env["ALULA_NVML_LIBRARY"] = "/nonexistent/libnvidia-ml.so.1"
    job = subprocess.Popen([str(alula_bin), "run", "--record", str(path), "--output-dir", str(tmp_path), "--", sys.executable,
                            JOB, "--steps", "400", "--forward", "0.005"], env=env, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30
    before = 0
    while time.monotonic() < end and before < 300:
        time.sleep(0.2)
        got = alula("info", path, "--json")
        before = json.loads(got.stdout)["marks"] if got.returncode == 0 else 0
    job.kill()
    job.wait()
    info = json.loads(alula("info", path, "--json").stdout)
    assert before >= 300 and info["marks"] >= before and not info["closed"]
    out = tmp_path / "out.db"
    assert alula("export", path, "--format", "sqlite", "-o", out).returncode == 0
    steps = [a for (a,) in query(out, "SELECT a FROM mark_rows WHERE kind = 4 ORDER BY t")]
    assert steps == list(range(1, len(steps) + 1)) and len(steps) > 20


@needs_store
def test_marks_are_rows_of_an_export(alula, alula_bin, tmp_path):
    """Every mark is there once; texts that name folders and errors are left out of what is for others."""
    path, _ = run_job(alula_bin, tmp_path, "--steps", "40", "--output", "/home/alice/secret-project")
    for name, options in (("all.db", []), ("redacted.db", ["--redact"])):
        assert alula("export", path, "--format", "sqlite", "-o", tmp_path / name, *options).returncode == 0
    sql = ("SELECT a FROM mark_rows JOIN mark_kinds k ON k.id = kind JOIN mark_processes p ON p.id = process"
           " WHERE k.name = 'STEP' AND rank = 0 ORDER BY t")
    for name in ("all.db", "redacted.db"):
        assert query(tmp_path / name, sql) == [(step,) for step in range(1, 41)]
    texts = [t for (t,) in query(tmp_path / "all.db", "SELECT text FROM mark_rows WHERE text IS NOT NULL")]
    assert "/home/alice/secret-project" in texts and "torch=0.0 fake=1" in texts
    assert b"secret-project" not in (tmp_path / "redacted.db").read_bytes()
    assert json.loads(alula("info", tmp_path / "all.db", "--json").stdout)["marks"] == json.loads(
        alula("info", path, "--json").stdout)["marks"]


SCENE = """alula scenario 1
start 2026-11-29T12:00:00Z
duration 60s
gpu 0
@0s
proc 4300 role=rank rank=0 job=4200 user=alice command="python train.py"
rank 4300 job=4200 rank=0 local_rank=0 world_size=2 device=0 source="torch.optim hook" training=0
@10s
rank 4300 training=1 phase=forward step=1..41/40s data_ratio=20% reserved_bytes=10GiB step_seconds=1s
@30s
rank 4300 phase=save
@40s
rank 4300 phase=between_steps
@50s
unrank 4300
"""


@pytest.fixture
def recorded(alula, tmp_path):
    return run_scene(alula, tmp_path, SCENE)


def lines_of(got):
    assert got.returncode == 0, got.stderr
    return [json.loads(line) for line in got.stdout.splitlines()]


def ranks_of(lines):
    return [(o["time"], o["ranks"]) for o in lines if o["type"] == "sample"]


@needs_store
def test_a_replay_has_the_ranks_of_the_session(alula, recorded, tmp_path):
    scene = ranks_of(lines_of(alula("watch", "--source", f"scenario:{tmp_path / 'scene.txt'}", "--speed", "0", "--json")))
    replay = ranks_of(lines_of(alula("replay", recorded, "--speed", "0", "--json")))
    assert replay == scene and len(scene) > 100
    at = {time[14:19]: ranks for time, ranks in replay}
    assert at["00:05"][0]["phase"] == "starting" and at["00:05"][0]["step"] is None
    (rank,) = at["00:30"]
    assert (rank["pid"], rank["rank"], rank["world_size"], rank["phase"], rank["step"]) == (4300, 0, 2, "save", 21)
    assert rank["data_ratio"] == 0.2 and rank["reserved_bytes"] == 10 * 2**30 and rank["allocated_bytes"] is None
    assert at["00:55"] == []


@needs_store
def test_a_recording_becomes_a_scenario_again(alula, recorded, tmp_path):
    text = tmp_path / "again.txt"
    first = ranks_of(lines_of(alula("replay", recorded, "--speed", "0", "--json", "--record-scenario", text)))
    again = ranks_of(lines_of(alula("watch", "--source", f"scenario:{text}", "--speed", "0", "--json")))
    assert again == first


@needs_store
def test_ranks_as_csv(alula, recorded):
    got = alula("export", recorded, "--format", "csv", "--ranks")
    rows = list(csv.DictReader(io.StringIO(got.stdout)))
    assert len(rows) == 100 and {r["pid"] for r in rows} == {"4300"} and rows[0]["phase"] == "starting" and rows[0]["step"] == ""
    assert [r["phase"] for r in rows if r["seconds"] == "35"] == ["save"]
    assert "utilization_ratio" not in got.stdout.splitlines()[0]
    got = alula("export", recorded, "--format", "jsonl", "--ranks")
    assert got.returncode == 2 and "goes with --format csv" in got.stderr


def query(path, sql):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


@needs_store
def test_sqlite_has_ranks(alula, recorded, tmp_path):
    out = tmp_path / "out.db"
    assert alula("export", recorded, "--format", "sqlite", "-o", out).returncode == 0
    assert query(out, "SELECT DISTINCT rank, world, source FROM ranks") == [(0, 2, "torch.optim hook")]
    assert query(out, "SELECT MAX(step) FROM rank_samples") == [(40,)]
    assert query(out, "SELECT name FROM mark_kinds WHERE id = 4") == [("STEP",)]
    assert query(out, "SELECT word FROM mark_phases WHERE id = 1") == [("data",)]


@needs_store
def test_info_names_ranks(alula, recorded):
    info = json.loads(alula("info", recorded, "--json").stdout)
    assert [(r["pid"], r["rank"], r["local_rank"], r["world_size"], r["source"]) for r in info["ranks"]] == [
        (4300, 0, 0, 2, "torch.optim hook")]
    assert "rank 0 of 2  pid 4300  torch.optim hook" in alula("info", recorded).stdout


@needs_store
def test_a_rank_s_figure_is_plotted(alula, recorded):
    got = alula("plot", recorded, "--metric", "step", "--pid", 4300, "--csv", "-")
    values = [float(row["value"]) for row in csv.DictReader(line for line in got.stdout.splitlines() if not line.startswith("#"))]
    assert got.returncode == 0 and values[0] == 1 and values[-1] == 40 and values == sorted(values)
    got = alula("plot", recorded, "--metric", "step", "--pid", 4301)
    assert got.returncode == 5 and "nothing recorded of step of pid 4301" in got.stderr
