# SPDX-License-Identifier: Apache-2.0
"""alula record: the file, its tables, and what kills, full disks and second writers do to it."""

import contextlib
import json
import os
import random
import resource
import signal
import sqlite3
import stat
import subprocess
import time

import pytest

from recordings import live_env, needs_store, record, run_scene, spawn

pytestmark = needs_store


def query(path, sql):
    # Read-only as a user's script would: the file must need nothing else.
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


def one_line(got, status):
    assert (got.returncode, got.stdout) == (status, "")
    assert got.stderr.startswith("alula: ") and got.stderr.count("\n") == 1
    return got.stderr


# --- the file -------------------------------------------------------------------------------------------------------


def test_one_private_file_remains(alula, scenarios, tmp_path):
    path = record(alula, scenarios / "eight-healthy.txt", tmp_path / "x.alula")
    assert [p.name for p in tmp_path.iterdir()] == ["x.alula"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    assert query(path, "PRAGMA user_version") == [(3,)]
    assert query(path, "PRAGMA application_id") == [(0x414C554C,)]


def test_tables_of_the_last_hour(alula, scenarios, tmp_path):
    path = record(alula, scenarios / "eight-healthy.txt", tmp_path / "x.alula")
    assert query(path, "SELECT COUNT(*), MIN(t), MAX(t) FROM ticks") == [(241, 0, 120_000_000_000)]
    assert query(path, "SELECT COUNT(*) FROM samples") == [(241 * 8,)]
    assert query(path, "SELECT DISTINCT power_watts, memory_used_bytes, sm_active_ratio FROM samples") == [
        (640, 100 << 30, 0.9)]
    # energy rises by 640 W over the whole time
    first, last = query(path, "SELECT MIN(energy_joules), MAX(energy_joules) FROM samples WHERE gpu=3")[0]
    assert (first, last) == (5_000_000, 5_076_800)
    columns = [row[1] for row in query(path, "PRAGMA table_info(samples)")]
    assert "fan_speed_ratio" not in columns and "sm_active_ratio" in columns
    known = {row[0] for row in query(path, "SELECT name FROM metrics WHERE kind=1")}
    assert set(columns) - known == {"t", "gpu", "position", "parent", "state", "processes", "process_utilization",
                                    "layout", "at"}
    assert query(path, "SELECT time, uuid FROM sample_times WHERE \"index\"=2 ORDER BY t LIMIT 1")[0][0] == 1795953600
    assert query(path, "SELECT role, COUNT(*) FROM processes GROUP BY role") == [("launcher", 1), ("rank", 8)]
    assert query(path, "SELECT hostname, driver_version FROM nodes") == [("node1", "580.159.04")]
    assert query(path, "SELECT reason, t, realtime_ns FROM clocks") == [
        ("start", 0, 1795953600 * 10**9), ("minute", 60 * 10**9, 1795953660 * 10**9),
        ("minute", 120 * 10**9, 1795953720 * 10**9)]
    assert query(path, "SELECT text FROM gpu_attributes WHERE name='vbios_version' AND gpu=1") == [("96.00.CF.00.01",)]
    config = query(path, "SELECT value FROM meta WHERE key='config'")[0][0]
    assert "memory:\n" in config and "  used_above: 90%\n" in config


def test_unknown_is_null_and_stale_is_not_current(alula, tmp_path):
    path = run_scene(alula, tmp_path, """alula scenario 1
interval 500ms
duration 4s
gpu 0
@0s
gpu 0 power_watts=300 temperature_celsius=50 fan_speed_ratio=!denied
@2s
gpu 0 temperature_celsius=!stale
""")
    assert query(path, "SELECT temperature_celsius FROM samples ORDER BY t") == [(50,)] * 4 + [(None,)] * 5
    assert query(path, "SELECT DISTINCT power_watts FROM samples") == [(300,)]
    lines = [json.loads(line) for line in alula("replay", path, "--speed", "0", "--json").stdout.splitlines()]
    samples = [line for line in lines if line["type"] == "sample"]
    assert [s["gpus"][0]["stale"] for s in samples] == [[]] * 4 + [["temperature_celsius"]] * 5
    assert lines[0]["gpus"][0]["unavailable"]["fan_speed_ratio"] == "denied"


def test_findings_with_evidence(alula, scenarios, tmp_path):
    path = record(alula, scenarios / "climbing.txt", tmp_path / "x.alula")
    rows = query(path, "SELECT id, phase, rule, level, title, pid FROM findings ORDER BY id")
    assert rows[0][1:5] == ("began", "memory", "critical", "memory about to run out")
    evidence = query(path, f"SELECT name, value, unit, source FROM evidence WHERE finding={rows[0][0]}")
    assert len(evidence) >= 2 and all(value is not None for _, value, _, _ in evidence)
    verdicts = query(path, "SELECT DISTINCT verdict FROM verdicts WHERE rule='memory'")
    assert ("finding",) in verdicts


# --- writers --------------------------------------------------------------------------------------------------------


def test_existing_files_are_left_alone(alula, scenarios, tmp_path):
    path = tmp_path / "x.alula"
    source = ("--source", f"scenario:{scenarios}/idle.txt", "--speed", "0")
    assert alula("record", "-o", path, *source).returncode == 0
    before = path.read_bytes()
    assert "exists already (--force replaces a recording)" in one_line(alula("record", "-o", path, *source), 4)
    assert path.read_bytes() == before
    assert alula("record", "--force", "-o", path, *source).returncode == 0
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    assert "is not a recording" in one_line(alula("record", "--force", "-o", other, *source), 4)
    assert other.read_text() == "mine"
    link = tmp_path / "link.alula"
    link.symlink_to(other)
    assert alula("record", "--force", "-o", link, *source).returncode != 0
    assert other.read_text() == "mine"
    assert alula("record", "-o", tmp_path / "no" / "x", *source).returncode == 1


def test_second_writer_of_one_file(alula, standin, scenarios, tmp_path):
    path = tmp_path / "x.alula"
    first = spawn(alula, path, live_env(standin, scenarios / "eight-healthy.txt"))
    try:
        for options in ([], ["--force"]):
            got = alula("record", "-o", path, *options, "--source", f"scenario:{scenarios}/idle.txt", "--speed", "0")
            assert "another alula is recording to this file" in one_line(got, 4)
        before = query(path, "SELECT COUNT(*) FROM ticks")[0][0]
        time.sleep(1.5)
        assert query(path, "SELECT COUNT(*) FROM ticks")[0][0] > before  # readable, and it goes on
    finally:
        first.send_signal(signal.SIGTERM)
        _, err = first.communicate(timeout=20)
    assert (first.returncode, err) == (0, "")


def test_closing_under_a_reader_is_no_error(alula, standin, scenarios, tmp_path):
    path = tmp_path / "x.alula"
    process = spawn(alula, path, live_env(standin, scenarios / "eight-healthy.txt"))
    with contextlib.closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT COUNT(*) > 0 FROM ticks").fetchall() == [(1,)]
        process.send_signal(signal.SIGTERM)
        assert (process.wait(timeout=20), process.stderr.read()) == (0, "")
        assert reader.execute("SELECT value FROM meta WHERE key='closed'").fetchall() == [(1,)]
    assert [p.name for p in tmp_path.iterdir()] == ["x.alula"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_close_the_file(alula, standin, scenarios, tmp_path, number):
    path = tmp_path / "x.alula"
    process = spawn(alula, path, live_env(standin, scenarios / "eight-healthy.txt"))
    process.send_signal(number)
    assert process.wait(timeout=20) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["x.alula"]
    assert json.loads(alula("info", path, "--json").stdout)["closed"] is True


def test_kill_costs_the_last_second_at_most(alula, standin, scenarios, tmp_path):
    for attempt in range(3):
        path = tmp_path / f"{attempt}.alula"
        process = spawn(alula, path, live_env(standin, scenarios / "eight-healthy.txt"), "--interval", "100ms")
        seen = query(path, "SELECT realtime_ns FROM ticks ORDER BY t LIMIT 1")[0][0]
        time.sleep(1 + random.random())
        killed = time.time_ns()
        process.kill()
        process.wait()
        info = json.loads(alula("info", path, "--json").stdout)
        assert info["closed"] is False
        held = seen + info["duration_seconds"] * 1e9
        assert killed - held < 1.5e9  # a second, a tick, and a busy machine
        assert alula("replay", path, "--speed", "0", "--quiet").returncode == 0
        assert query(path, "PRAGMA integrity_check") == [("ok",)]


def test_kill_at_any_moment_leaves_a_file_that_opens(alula, alula_bin, scenarios, tmp_path):
    long = tmp_path / "long.txt"
    long.write_text((scenarios / "eight-healthy.txt").read_text().replace("duration 120s", "duration 30000s"))
    chances = random.Random(7)
    for attempt in range(8):
        path = tmp_path / f"{attempt}.alula"
        process = subprocess.Popen([alula_bin, "record", "-o", path, "--source", f"scenario:{long}", "--speed", "0",
                                    "--plain", "1s", "--full", "10min"], stderr=subprocess.DEVNULL)
        time.sleep(0.3 + chances.random())
        assert process.poll() is None
        process.kill()
        process.wait()
        got = alula("info", path, "--json")
        assert got.returncode == 0, got.stderr
        assert query(path, "PRAGMA integrity_check") == [("ok",)]


# --- no space -------------------------------------------------------------------------------------------------------


def test_file_size_limit_stops_with_a_word(alula, alula_bin, scenarios, tmp_path):
    path = tmp_path / "x.alula"
    limit = 900_000

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    got = subprocess.run([alula_bin, "record", "-o", path, "--source", f"scenario:{scenarios}/eight-healthy.txt", "--speed", "20"],
                         preexec_fn=limited, capture_output=True, text=True, timeout=60, check=False)
    assert got.returncode == 1
    assert got.stderr.count("\n") == 1 and "what was written before is kept" in got.stderr
    assert "file size limit" in got.stderr
    info = json.loads(alula("info", path, "--json").stdout)
    assert info["ticks"] > 5 and info["closed"] is False
    assert alula("replay", path, "--speed", "0", "--quiet").returncode == 0


def test_full_disk_stops_with_a_word(alula, scenarios, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=False,
                                           capture_output=True).returncode != 0:
        pytest.skip("may not mount here")
    try:
        path = disk / "x.alula"
        got = alula("record", "-o", path, "--source", f"scenario:{scenarios}/sixty-four.txt", "--speed", "20", timeout=60)
        assert got.returncode == 1
        assert "no space left on the disk; recording stopped, what was written before is kept" in got.stderr
        info = json.loads(alula("info", path, "--json").stdout)
        assert info["ticks"] > 5
        assert alula("replay", path, "--speed", "0", "--quiet").returncode == 0
    finally:
        subprocess.run(["umount", disk], check=True)


def test_without_wal(alula, scenarios, tmp_path):
    path = record(alula, scenarios / "climbing.txt", tmp_path / "x.alula", "--no-wal")
    assert [p.name for p in tmp_path.iterdir()] == ["x.alula"]
    assert query(path, "SELECT COUNT(*) FROM ticks") == [(241,)]


# --- options --------------------------------------------------------------------------------------------------------


def test_options_that_make_no_sense(alula, tmp_path):
    assert "name the file" in one_line(alula("record"), 2)
    assert "expected a time" in one_line(alula("record", "-o", "x", "--keep", "many"), 2)
    assert "expected a time" in one_line(alula("record", "-o", "x", "--keep", "-1d"), 2)
    assert "unexpected argument" in one_line(alula("record", "-o", tmp_path / "x", "y"), 2)
    assert list(tmp_path.iterdir()) == []


def test_no_driver_leaves_no_file(alula, tmp_path):
    got = alula("record", "-o", tmp_path / "x.alula", env={"ALULA_NVML_LIBRARY": "/nonexistent.so"})
    assert got.returncode == 12 and list(tmp_path.iterdir()) == []
