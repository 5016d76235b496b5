# SPDX-License-Identifier: Apache-2.0
"""alula export, info and plot."""

import contextlib
import csv
import io
import json
import re
import sqlite3
import stat
import xml.dom.minidom

import pytest

from recordings import needs_store, record, run_scene

pytestmark = needs_store


@pytest.fixture
def climbing(alula, scenarios, tmp_path):
    return record(alula, scenarios / "climbing.txt", tmp_path / "x.alula")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


# --- export ---------------------------------------------------------------------------------------------------------


def test_csv(alula, climbing):
    rows = rows_of(alula("export", climbing, "--format", "csv").stdout)
    assert len(rows) == 241
    assert list(rows[0])[:6] == ["time", "seconds", "resolution_seconds", "gpu", "uuid", "state"]
    assert rows[0]["time"] == "2026-11-29T12:00:00.000Z" and rows[240]["time"] == "2026-11-29T12:02:00.000Z"
    assert {row["resolution_seconds"] for row in rows} == {"0.5"}
    assert rows[0]["power_watts"] == "640" and rows[0]["sm_clock_hertz"] == "1980000000"
    assert float(rows[240]["memory_used_bytes"]) == 143100 * 2**20
    assert "fan_speed_ratio" not in rows[0]  # never known


def test_csv_of_what_is_not_always_known(alula, tmp_path):
    path = run_scene(alula, tmp_path, "alula scenario 1\nduration 1s\ninterval 500ms\ngpu 0\n@0s\ngpu 0 power_watts=3W\n"
                                      "@500ms\ngpu 0 power_watts=!denied\n@1s\ngpu 0 power_watts=4W\n")
    assert [row["power_watts"] for row in rows_of(alula("export", path, "--format", "csv").stdout)] == ["3", "", "4"]


def test_json_lines_are_those_of_watch(alula, climbing, scenarios):
    live = [json.loads(line) for line in alula("watch", "--source", f"scenario:{scenarios}/climbing.txt", "--speed", "0",
                                               "--json").stdout.splitlines()]
    got = [json.loads(line) for line in alula("export", climbing, "--format", "jsonl").stdout.splitlines()]
    assert [x["type"] for x in got] == [x["type"] for x in live if x["type"] != "end"]
    for x, y in zip(live, got):
        assert x.keys() == y.keys()
        if x["type"] == "finding":
            assert x == y
        if x["type"] == "sample":
            assert x["gpus"][0]["memory_used_bytes"] == y["gpus"][0]["memory_used_bytes"]
            assert x["processes"] == y["processes"] and x["tick"] == y["tick"]


def test_json_document(alula, climbing):
    document = json.loads(alula("export", climbing, "--format", "json", "--from", "100s", "--to", "110s").stdout)
    assert len(document["samples"]) == 21 and document["samples"][0]["time"] == "2026-11-29T12:01:40.000Z"
    assert [f["phase"] for f in document["findings"]] == ["updated"]
    empty = json.loads(alula("export", climbing, "--format", "json", "--to", "1s").stdout)
    assert len(empty["samples"]) == 3 and empty["findings"] == []


def test_sqlite_has_everything_in_plain_tables(alula, scenarios, tmp_path):
    path = record(alula, scenarios / "eight-healthy.txt", tmp_path / "x.alula", "--plain", "1s")
    out = tmp_path / "y.db"
    assert alula("export", path, "--format", "sqlite", "-o", out, "--gpu", "2,5").returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with contextlib.closing(sqlite3.connect(out)) as db:
        assert db.execute("SELECT COUNT(*) FROM chunks").fetchone() == (0,)
        assert db.execute("SELECT uuid IS NOT NULL, \"index\", COUNT(*), AVG(power_watts) FROM sample_times GROUP BY 2").fetchall() == [
            (1, 2, 241, 640), (1, 5, 241, 640)]
        assert db.execute("SELECT value FROM meta WHERE key='config'").fetchone()[0].startswith("sampling:")
        assert db.execute("SELECT number FROM gpu_attributes WHERE name='pci_base_class' LIMIT 1").fetchone() == (3,)
    # It is a recording too.
    assert alula("replay", out, "--speed", "0", "--quiet").returncode == 0
    got = alula("export", path, "--format", "sqlite", "-o", out)
    assert got.returncode == 4 and "exists already" in got.stderr
    assert alula("export", path, "--format", "sqlite", "-o", out, "--force").returncode == 0


SECRETS = """alula scenario 1
start 2026-11-29T12:00:00Z
interval 500ms
duration 120s
driver 580.159.04
host hostname=secrethost boot_id=5ec2e7b0-0000-4000-8000-000000000001 host_pid_ns=yes pid_ns=4026531836
gpu 0 uuid=GPU-5ec2e700-0000-0000-0000-000000000001 serial=5ec2e7serial
attr 0 serial=5ec2e7serial
@0s
gpu 0 memory_total_bytes=140GiB memory_reserved_bytes=600MiB utilization_ratio=97% memory_used_bytes=100GiB..139GiB/110s
proc 4300 ppid=1 user=secretuser uid=54321 comm=python exe=python command="python /home/secretuser/secretmodel/train.py" \
cgroup=/user.slice/secretcgroup container=5ec2e7c0ffee pod=secretpod slurm_job=987654321 role=rank rank=0 job=4300 state=R
row 4300 gpu=0 memory_bytes=99GiB..138GiB/110s driver_name="/home/secretuser/env/bin/python"
"""


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "sqlite"])
def test_redacted_exports_name_nobody(alula, tmp_path, form):
    path = run_scene(alula, tmp_path, SECRETS)
    out = tmp_path / f"out.{form}"
    assert alula("export", path, "--format", form, "--redact", "-o", out).returncode == 0
    text = out.read_bytes()
    for secret in (b"secret", b"5ec2e7", b"54321", b"987654321", b"/home", b"train.py"):
        assert secret not in text, secret
    assert b"GPU-1" in text
    if form != "csv":
        assert b"user-1" in text and b"memory about to run out" in text and b"memory/GPU-1" in text
    plain = tmp_path / f"plain.{form}"
    assert alula("export", path, "--format", form, "-o", plain).returncode == 0
    assert b"5ec2e7" in plain.read_bytes()


def test_export_usage(alula, climbing, tmp_path):
    for options, word in ((["--format", "xml"], "expected csv"), ([], "--format is missing"),
                          (["--format", "sqlite"], "name it with -o FILE"), (["--format", "csv", "--from", "9min"], "outside"),
                          (["--format", "csv", "x"], "unexpected argument x")):
        got = alula("export", climbing, *options)
        assert (got.returncode, got.stdout) == (2, "") and word in got.stderr and got.stderr.count("\n") == 1
    got = alula("export", climbing, "--format", "csv", "-o", tmp_path / "no" / "x")
    assert got.returncode == 1 and "No such file" in got.stderr
    got = alula("export", climbing, "--format", "csv", "-o", "/dev/full")
    assert got.returncode == 1 and got.stderr.count("\n") == 1


# --- info -----------------------------------------------------------------------------------------------------------


def test_info(alula, climbing):
    info = json.loads(alula("info", climbing, "--json").stdout)
    assert (info["ticks"], info["gpu_samples"], info["duration_seconds"], info["interval_seconds"]) == (241, 241, 120, 0.5)
    assert (info["host"], info["driver_version"], info["schema"], info["closed"]) == ("node1", "580.159.04", 3, True)
    assert info["start"] == "2026-11-29T12:00:00.000Z" and info["gaps"] == []
    assert [g["index"] for g in info["gpus"]] == [0]
    assert [(p["pid"], p["role"]) for p in info["processes"]] == [(4200, "launcher"), (4300, "rank")]
    assert info["findings"][0]["phase"] == "began" and info["findings"][0]["title"] == "memory about to run out"
    assert info["file_bytes"] == climbing.stat().st_size
    text = alula("info", climbing).stdout
    assert "2026-11-29 12:00:00 UTC, 2 min, a reading each 500 ms, closed in order" in text
    assert "241 ticks, 241 GPU samples, 2 processes, 1 findings, 0 gaps" in text
    assert re.search(r"4300 .* rank .*alice  python -u train.py", text)


# --- plot -----------------------------------------------------------------------------------------------------------


def test_slope_of_a_process(alula, climbing):
    rows = rows_of(alula("plot", climbing, "--pid", "4300", "--csv", "-").stdout)
    assert len(rows) == 241
    rate = (142460 - 100000) * 2**20 / 120
    assert float(rows[0]["slope_per_second"]) == pytest.approx(rate, rel=1e-3)
    assert float(rows[0]["slope_low"]) <= float(rows[0]["slope_per_second"]) <= float(rows[0]["slope_high"])
    assert {row["change"] for row in rows} == {"0"}  # a steady climb is no change
    assert float(rows[120]["fit"]) == pytest.approx(float(rows[120]["value"]), rel=1e-3)


def test_changes(alula, tmp_path):
    text = ["alula scenario 1", "start 2026-11-29T12:00:00Z", "interval 500ms", "duration 120s", "gpu 0-1", "@0s"]
    for tick in range(240):
        level = 400 if tick < 100 else 650
        text.append(f"@{tick * 500}ms\ngpu 1 power_watts={level + tick * 7919 % 11}W")
    path = run_scene(alula, tmp_path, "\n".join(text) + "\n")
    rows = rows_of(alula("plot", path, "--metric", "power_watts", "--gpu", "1", "--csv", "-").stdout)
    assert [row["time"] for row in rows if row["change"] == "1"] == ["2026-11-29T12:00:50.000Z"]
    got = alula("plot", path, "--metric", "power_watts", "--gpu", "1", "--ascii")
    lines = got.stdout.splitlines()
    assert lines[0] == "power_watts of GPU 1" and len(lines[1]) == 80 and got.stdout.isascii()
    assert "changes at 2026-11-29T12:00:50.000Z from 405 W" in got.stdout
    svg = tmp_path / "x.svg"
    assert alula("plot", path, "--metric", "power_watts", "--gpu", "1", "--svg", svg).stdout == ""
    document = xml.dom.minidom.parse(str(svg))
    assert len(document.getElementsByTagName("polyline")) == 1
    assert sum(line.getAttribute("class") == "change" for line in document.getElementsByTagName("line")) == 1
    got = alula("plot", path, "--metric", "power_watts", "--gpu", "0")
    assert got.returncode == 5 and "nothing recorded of power_watts of GPU 0" in got.stderr


def test_plot_of_other_things(alula, climbing):
    assert "cpu_ratio of the node" in alula("plot", climbing, "--metric", "cpu_ratio").stdout
    assert "sm_ratio of pid 4300" in alula("plot", climbing, "--metric", "sm_ratio", "--pid", "4300").stdout
    assert "resident_anonymous_bytes of pid 4300" in alula("plot", climbing, "--metric", "resident_anonymous_bytes", "--pid", "4300").stdout
    utf8 = alula("plot", climbing, env={"LC_ALL": "C.UTF-8"}).stdout
    assert "memory_used_bytes of the first GPU" in utf8 and any(0x2800 < ord(c) <= 0x28FF for c in utf8)
    for options in (["--metric", "nonsense"], ["--pid", "1"], ["--metric", "power_watts", "--pid", "4300"], ["--gpu", "7"]):
        got = alula("plot", climbing, *options)
        assert (got.returncode, got.stdout) == (5, "") and got.stderr.count("\n") == 1
    assert alula("plot", climbing, "--pid", "many").returncode == 2
