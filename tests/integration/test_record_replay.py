# SPDX-License-Identifier: Apache-2.0
"""Recordings played back: the same samples and findings, parts of them, thinned ones, damaged ones."""

import contextlib
import json
import shutil
import sqlite3

import pytest

from conftest import ROOT
from recordings import needs_store, record, run_scene

pytestmark = needs_store

SCENARIOS = sorted(p.name for p in (ROOT / "tests" / "scenarios").glob("*.txt"))


def lines(got):
    assert got.returncode == 0, got.stderr
    return [json.loads(line) for line in got.stdout.splitlines()]


def findings(all_lines):
    return [(x["time"], x["key"], x["phase"], x["level"], x["title"], x["began"]) for x in all_lines if x["type"] == "finding"]


def near(a, b):
    """Equal but for the digits that a recording does not keep (ratios to a millionth, rates to a byte)."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(near(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and abs(a - b) <= (0.5 if abs(a) > 2 else 1e-6)
    return a == b


@pytest.mark.parametrize("name", SCENARIOS)
def test_replay_is_the_session(alula, scenarios, tmp_path, name):
    live = lines(alula("watch", "--source", f"scenario:{scenarios}/{name}", "--speed", "0", "--json", timeout=120))
    path = record(alula, scenarios / name, tmp_path / "x.alula", "--plain", "1s")
    again = lines(alula("replay", path, "--speed", "0", "--json", timeout=120))
    assert findings(again) == findings(live)
    assert len(again) == len(live)
    for x, y in zip(live, again):
        assert x["type"] in ("finding", "end") or near(x, y)


def noisy(seconds):
    """Enough for chunks of several blocks: power and memory that never stand still."""
    text = ["alula scenario 1", "start 2026-11-29T12:00:00Z", "interval 500ms", f"duration {seconds}s", "gpu 0-1",
            "@0s", "gpu 0-1 memory_total_bytes=140GiB temperature_celsius=60C",
            "proc 4300 ppid=1 comm=python command=\"python train.py\" role=rank", "row 4300 gpu=0 memory_bytes=9GiB"]
    for second in range(0, seconds, 5):
        text.append(f"@{second}s")
        text.append(f"gpu 0-1 power_watts={500 + second * 7919 % 1000 / 10}W memory_used_bytes={70 * 1024 + second * 31 % 500}MiB "
                    f"utilization_ratio={90 + second % 7}%")
    # Memory climbs to full early on; later the sensors stop for a while.
    text.append("@60s\ngpu 0 memory_used_bytes=100GiB..139GiB/80s\n@150s\ngpu 0 memory_used_bytes=70GiB")
    return "\n".join(line for block in sorted(("\n".join(text)).split("\n@")[1:], key=lambda b: float(b.split("s\n")[0]))
                     for line in ("@" + block).split("\n")).join(("\n".join(text).split("\n@")[0] + "\n", "\n"))


def test_chunks_hold_what_rows_held(alula, tmp_path):
    (tmp_path / "scene.txt").write_text(noisy(1500))
    live = lines(alula("watch", "--source", f"scenario:{tmp_path}/scene.txt", "--speed", "0", "--json"))
    path = record(alula, tmp_path / "scene.txt", tmp_path / "x.alula", "--plain", "1s")
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT COUNT(*) FROM chunks WHERE kind=1").fetchone()[0] == 4  # two blocks of two GPUs
        assert db.execute("SELECT MIN(t) FROM samples").fetchone()[0] == 1200 * 10**9
    again = lines(alula("replay", path, "--speed", "0", "--json"))
    assert any(x["type"] == "finding" for x in live)
    assert findings(again) == findings(live)
    assert all(near(x, y) for x, y in zip(live, again) if x["type"] == "sample")


def test_thinned_parts_show_the_stored_findings(alula, tmp_path):
    (tmp_path / "scene.txt").write_text(noisy(3000))
    live = lines(alula("watch", "--source", f"scenario:{tmp_path}/scene.txt", "--speed", "0", "--json", "--quiet"))
    path = record(alula, tmp_path / "scene.txt", tmp_path / "x.alula", "--plain", "1s", "--full", "11min", "--coarse", "25min")
    info = json.loads(alula("info", path, "--json").stdout)
    assert all(part["seconds"] >= 600 for part in info["resolutions"])
    again = lines(alula("replay", path, "--speed", "0", "--json", "--quiet"))
    kept = [f for f in findings(live) if f[2] != "updated"]
    assert kept and [f for f in findings(again) if f[2] != "updated"] == kept
    # Rows are 1 min, 10 s and 500 ms apart.
    csv = alula("export", path, "--format", "csv", "--gpu", "0").stdout.splitlines()
    assert {line.split(",")[2] for line in csv[1:]} == {"60", "10", "0.5"}


def test_keep_bounds_the_file(alula, tmp_path):
    (tmp_path / "scene.txt").write_text(noisy(3000))
    path = record(alula, tmp_path / "scene.txt", tmp_path / "x.alula", "--plain", "1s", "--keep", "15min")
    info = json.loads(alula("info", path, "--json").stdout)
    assert sum(part["seconds"] for part in info["resolutions"]) <= 1800
    csv = alula("export", path, "--format", "csv").stdout.splitlines()
    assert csv[1].startswith("2026-11-29T12:30:00.000Z,1800,0.5,0,")


def test_parts(alula, scenarios, tmp_path):
    path = record(alula, scenarios / "climbing.txt", tmp_path / "x.alula")

    def times(*options):
        return [x["time"][11:19] for x in lines(alula("replay", path, "--speed", "0", "--json", *options)) if x["type"] == "sample"]

    assert times("--start", "60s", "--end", "70s")[::20] == ["12:01:00", "12:01:10"]
    assert times("--start", "-10s")[0] == "12:01:50"
    assert times("--start", "12:01:30")[0] == "12:01:30"
    assert times("--start", "2026-11-29T12:01:55", "--end", "2026-11-29T12:01:56Z") == ["12:01:55"] * 2 + ["12:01:56"]
    assert len(times("--start", "-10h")) == 241
    for options in (["--start", "3min"], ["--start", "11:00"], ["--start", "soon"], ["--start", "10s", "--end", "5s"]):
        got = alula("replay", path, *options)
        assert got.returncode == 2 and got.stderr.count("\n") == 1


def test_every_command_plays_it(alula, scenarios, tmp_path):
    path = record(alula, scenarios / "eight-healthy.txt", tmp_path / "x.alula")
    replay, scenario = f"replay:{path}", f"scenario:{scenarios}/eight-healthy.txt"
    for command in (["stat", "--no-color"], ["smi", "--query-gpu=name,uuid,power.draw,ecc.mode.current,vbios_version", "--format=csv"],
                    ["smi", "-L"], ["memory", "4300"], ["stat", "--json"]):
        live, again = alula(*command, "--source", scenario), alula(*command, "--source", replay)
        assert again.returncode == live.returncode == 0
        assert again.stdout == live.stdout
    assert alula("top", "--once", "--size", "100x30", "--source", replay).returncode == 0


def test_fail_on_and_config(alula, scenarios, tmp_path):
    path = record(alula, scenarios / "climbing.txt", tmp_path / "x.alula")
    assert alula("replay", path, "--speed", "0", "--quiet", "--fail-on", "critical").returncode == 3
    config = tmp_path / "other.yaml"
    config.write_text("memory:\n  enabled: false\n")
    assert alula("replay", path, "--speed", "0", "--quiet", "--fail-on", "critical", "--config", config).returncode == 0


def test_hanging_driver_is_played_too(alula, scenarios, tmp_path):
    path = record(alula, scenarios / "hang.txt", tmp_path / "x.alula")
    with contextlib.closing(sqlite3.connect(path)) as db:
        calls = db.execute("SELECT DISTINCT text FROM ticks JOIN texts ON texts.id = hung_call").fetchall()
    live = lines(alula("watch", "--source", f"scenario:{scenarios}/hang.txt", "--speed", "0", "--json"))
    assert {c for (c,) in calls} == {x["hung_call"] for x in live if x["type"] == "sample" and x["hung_call"]}


# --- bad input ------------------------------------------------------------------------------------------------------

READERS = [["replay"], ["info"], ["export", "--format", "csv"], ["plot"], ["watch", "--source"], ["stat", "--source"]]


def read(alula, command, path):
    if command[-1] == "--source":
        return alula(*command, f"replay:{path}")
    return alula(command[0], path, *command[1:])


@pytest.mark.parametrize("command", READERS, ids=lambda c: c[0])
def test_what_is_no_recording(alula, command, tmp_path):
    path = tmp_path / "x.alula"

    def refused(status, word):
        got = read(alula, command, path)
        assert (got.returncode, got.stdout) == (status, ""), got.stderr
        assert got.stderr.count("\n") == 1 and word in got.stderr, got.stderr

    refused(5, "No such file")
    path.write_bytes(b"")
    refused(6, "the file is empty")
    path.write_bytes(bytes(range(256)) * 40)
    refused(6, "not an alula recording")
    path.write_text("alula scenario 1\n" * 50)
    refused(6, "not an alula recording")
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE bookmarks(url)")
        db.commit()
    refused(6, "not an alula recording")


@pytest.mark.parametrize("command", READERS, ids=lambda c: c[0])
def test_newer_truncated_and_overwritten(alula, command, scenarios, tmp_path):
    good = record(alula, scenarios / "climbing.txt", tmp_path / "good.alula")
    path = tmp_path / "x.alula"
    shutil.copy(good, path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 9")
    got = read(alula, command, path)
    assert got.returncode == 6 and "written by a newer alula (schema 9; this one reads up to 3)" in got.stderr
    whole = good.read_bytes()
    for share in (0.1, 0.5, 0.9):
        path.write_bytes(whole[:int(len(whole) * share)])
        got = read(alula, command, path)
        assert got.returncode in (0, 5, 6) and got.stderr.count("\n") <= 1
        assert got.returncode == 6 or command[0] in ("stat", "plot")  # they may need nothing of the lost part
    path.write_bytes(whole[:20000] + b"\xaa" * 60000 + whole[80000:])
    got = read(alula, command, path)
    assert got.returncode in (0, 5, 6) and got.stderr.count("\n") <= 1


def test_a_damaged_chunk_costs_its_part(alula, tmp_path):
    (tmp_path / "scene.txt").write_text(noisy(1500))
    path = record(alula, tmp_path / "scene.txt", tmp_path / "x.alula", "--plain", "1s")
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE chunks SET bytes = substr(bytes, 1, 30) || x'ffff' || substr(bytes, 33) WHERE kind=1 AND entity=1"
                   " AND block=1")
        db.commit()
    got = alula("export", path, "--format", "csv")
    assert got.returncode == 6
    assert got.stderr.count("\n") == 1 and "damaged in places, which were left out: chunk" in got.stderr
    rows = [line.split(",") for line in got.stdout.splitlines()[1:]]
    assert sum(row[3] == "1" for row in rows) == 3001
    assert sum(row[3] == "0" for row in rows) == 3001 - 1200
    assert alula("replay", path, "--speed", "0", "--quiet").returncode == 6


def test_bit_flips_never_crash(alula, tmp_path):
    path = run_scene(alula, tmp_path, noisy(700), "--plain", "1s")
    whole = bytearray(path.read_bytes())
    for at in range(100, len(whole), max(1, len(whole) // 60)):
        broken = bytearray(whole)
        for k in range(at, min(at + 3, len(whole))):
            broken[k] ^= 0x5A
        path.write_bytes(broken)
        got = alula("replay", path, "--speed", "0", "--quiet")
        assert got.returncode in (0, 5, 6) and got.stderr.count("\n") <= 1, (at, got.returncode, got.stderr)
