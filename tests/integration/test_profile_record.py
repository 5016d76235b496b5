# SPDX-License-Identifier: Apache-2.0
"""Profiles in recordings: one of their own, an alula run's that is being written, and out again in every format."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import pytest

import scenes
from recordings import needs_store
from test_dump import running
from test_profile import SHARES, folded, shares

pytestmark = needs_store


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "shares.py"
    path.write_text(SHARES)
    return path


def said(alula, *args, status=0, **kwargs):
    got = alula(*args, **kwargs)
    assert got.returncode == status, got.stderr
    return got.stdout


@pytest.fixture
def kept(alula, program, tmp_path):
    """A recording with two profiles of one process, the second one with idle threads."""
    path = tmp_path / "kept.alula"
    with running(sys.executable, program, 60, patience=0) as process:
        said(alula, "profile", process.pid, "-o", path, "-d", "1s")
        said(alula, "profile", process.pid, "-o", path, "-d", "1s", "--idle", "--format", "alula")
    return path


def test_the_same_comes_out(alula, kept, tmp_path, program):
    listed = said(alula, "profile", "--from", kept, "--list").splitlines()
    assert [line.split()[0] for line in listed] == ["1", "2"]
    assert re.fullmatch(rf"1  \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d  1\.0 s at 100/s of process \d+ \(\S+ {program} 60\): \d+ stacks; "
                        rf"most, \d+ %, in spin \({program}:\d+\)", listed[0]), listed[0]
    out = tmp_path / "out.folded"
    said(alula, "profile", "--from", kept, "-o", out)  # the latest
    assert shares(folded(out))["sleeps"] == pytest.approx(0.5, abs=0.1)
    said(alula, "profile", "--from", kept, "--id", "1", "-o", out)
    first = shares(folded(out))
    assert first["spin"] > 0.9 and not first["sleeps"]
    with sqlite3.connect(kept) as db:  # what others read there
        assert db.execute("SELECT sum(samples) FROM profile_stacks WHERE profile = 1").fetchone() == (sum(c for _, c in folded(out)),)
        assert db.execute("SELECT sum(samples) FROM profile_tracks WHERE profile = 1").fetchone() == (sum(c for _, c in folded(out)),)
        assert db.execute("SELECT complete, idle FROM profiles").fetchall() == [(1, 0), (1, 1)]
    for name in ("speedscope", "pprof", "chrome"):
        said(alula, "profile", "--from", kept, "-f", name, "-o", tmp_path / name)
        assert (tmp_path / name).stat().st_size > 500
    document = json.loads((tmp_path / "speedscope").read_text())
    assert {len(profile["samples"]) > 0 for profile in document["profiles"]} == {True}
    assert any(profile["name"].endswith("MainThread") for profile in document["profiles"])


def test_order_and_times_are_kept(alula, program, tmp_path):
    """The same profile, once written at once and once by way of a recording."""
    own, direct, again = tmp_path / "own.alula", tmp_path / "direct.json", tmp_path / "again.json"
    with running(sys.executable, program, 60, patience=0) as process:
        said(alula, "profile", process.pid, "-o", own, "-d", "1s", "--idle")
    said(alula, "profile", "--from", own, "-f", "chrome", "-o", direct)
    copy = tmp_path / "copy.alula"
    said(alula, "export", own, "--format", "sqlite", "-o", copy)
    said(alula, "profile", "--from", copy, "-f", "chrome", "-o", again)
    assert json.loads(direct.read_text()) == json.loads(again.read_text())
    info = json.loads(said(alula, "info", own, "--json"))["profiles"]
    assert len(info) == 1 and info[0]["seconds"] == pytest.approx(1, abs=0.2) and info[0]["pid"] == process.pid


def test_report_and_info_tell_of_them(alula, kept):
    assert re.search(r"^alula: profiles .*\nalula:   1  .* in spin .*\nalula:   2  ", said(alula, "report", kept), re.M)
    assert re.search(r"^Profiles:\n  1  .*\n  2  ", said(alula, "info", kept), re.M)


def test_redacted(alula, kept, tmp_path, program):
    copy, out = tmp_path / "copy.alula", tmp_path / "out.folded"
    said(alula, "export", kept, "--format", "sqlite", "--redact", "-o", copy)
    assert str(tmp_path).encode() in kept.read_bytes() and b"pytest" not in copy.read_bytes()
    said(alula, "profile", "--from", copy, "-o", out)
    assert any(frame.startswith("spin (shares.py:") for frames, _ in folded(out) for frame in frames)
    said(alula, "profile", "--from", kept, "-o", tmp_path / "whole.folded")
    assert shares(folded(out)) == pytest.approx(shares(folded(tmp_path / "whole.folded")))


def test_what_is_no_recording_is_left_alone(alula, program, tmp_path, kept):
    other = tmp_path / "other.alula"
    other.write_text("my notes, which are longer than the hundred bytes that a recording has at least, so that they are looked at\n")
    with running(sys.executable, program, 60, patience=0) as process:
        got = alula("profile", process.pid, "-o", other, "-d", "1s")
        assert got.returncode == 6 and "not an alula recording" in got.stderr
        assert other.read_text().startswith("my notes")
        got = alula("profile", process.pid, "-o", "-", "-f", "alula", "-d", "1s")
        assert got.returncode == 2 and "a recording is a file" in got.stderr
    for args, words, status in [(["--from", other, "--list"], "not an alula recording", 6),
                                (["--from", tmp_path / "none", "--list"], "No such file", 5),
                                (["--from", kept, "--id", "9", "-o", "-"], "no profile of that number", 5),
                                (["--from", kept, "--id", "x", "-o", "-"], "--id takes", 2),
                                (["--list"], "--list and --id go with --from", 2),
                                (["--from", kept], "say with -o", 2),
                                (["--from", kept, "--list", "77"], "--from takes no process", 2)]:
        got = alula("profile", *args)
        assert got.returncode == status and words in got.stderr, got.stderr


def test_a_damaged_profile(alula, kept, tmp_path):
    """One that is damaged says so, the other is read; and nothing that was not finished is shown."""
    with sqlite3.connect(kept) as db:
        db.execute("UPDATE profile_stacks SET parent = 999 WHERE profile = 2 AND id = 1")
    got = alula("profile", "--from", kept, "-o", tmp_path / "out.folded")
    assert got.returncode == 6 and "the profile is damaged: stack 1" in got.stderr
    said(alula, "profile", "--from", kept, "--id", "1", "-o", tmp_path / "out.folded")
    with sqlite3.connect(kept) as db:
        db.execute("UPDATE profile_tracks SET runs = x'0102' WHERE profile = 1")
        db.execute("UPDATE profiles SET complete = 0 WHERE id = 2")
    got = alula("profile", "--from", kept, "-o", tmp_path / "out.folded")
    assert got.returncode == 6 and "samples of thread 0" in got.stderr
    assert len(said(alula, "profile", "--from", kept, "--list").splitlines()) == 1


def test_a_recording_of_an_older_alula(alula, program, tmp_path, kept):
    """Without tables for profiles: they are made."""
    old = tmp_path / "old.alula"
    said(alula, "export", kept, "--format", "sqlite", "-o", old)
    with sqlite3.connect(old) as db:
        db.executescript("DROP TABLE profiles; DROP TABLE profile_frames; DROP TABLE profile_stacks; DROP TABLE profile_tracks;"
                         "PRAGMA user_version = 2")
    assert said(alula, "profile", "--from", old, "--list") == ""
    with running(sys.executable, program, 60, patience=0) as process:
        said(alula, "profile", process.pid, "-o", old, "-d", "0.5s")
    assert len(said(alula, "profile", "--from", old, "--list").splitlines()) == 1


def test_a_file_that_may_not_grow(alula, alula_bin, program, tmp_path, kept):
    """What was sampled is kept elsewhere, and what was in the recording before stays."""
    limit = kept.stat().st_size // 1024 + 1
    program.write_text("print(flush=True)\ndef wide():\n" + "    sum(range(500))\n" * 5000 + "while True: wide()\n")  # each line is a row
    with running(sys.executable, program, patience=0) as process:
        got = subprocess.run(["bash", "-c", f"ulimit -f {limit}; exec {alula_bin} profile -o {kept} -r 1000 -d 1 {process.pid}"], capture_output=True,
                             text=True, env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=60, check=False)
        fresh = subprocess.run(["bash", "-c", f"ulimit -f 4; exec {alula_bin} profile -o {tmp_path}/fresh.alula {process.pid}"],
                               capture_output=True, text=True, timeout=60, check=False)
        process.kill()
    assert got.returncode == 1 and "the file may not grow any larger" in got.stderr, got.stderr
    assert fresh.returncode == 1 and fresh.stderr.startswith(f"alula: profile: {tmp_path}/fresh.alula: the file may not grow"), fresh.stderr
    elsewhere = re.search(r"it is kept in (\S+\.json)", got.stderr).group(1)
    names = {frame["name"] for frame in json.loads(open(elsewhere, encoding="utf-8").read())["shared"]["frames"]}
    assert "wide" in names
    assert len(said(alula, "profile", "--from", kept, "--list").splitlines()) == 2


# --- beside an alula run ---


@pytest.fixture
def job(alula_bin, standin, tmp_path, program):
    """job(path, *options) runs the program under alula run with a recording; gives (the alula run, the program's pid)."""
    scene = tmp_path / "scene.txt"
    scene.write_text(scenes.head(1, "600s") + "@0s\ngpu 0 utilization_ratio=90% memory_total_bytes=140GiB memory_used_bytes=70GiB\n")
    with tempfile.TemporaryDirectory(prefix="alula-test-") as folder:
        env = {**os.environ, **scenes.standin_env(standin, scene), "ALULA_HOST": "procfs", "XDG_RUNTIME_DIR": folder}
        runs = []

        def start(path, seconds, *options):
            run = subprocess.Popen([str(alula_bin), "run", "--record", str(path), "--output-dir", str(tmp_path / "out"), *options, "--",
                                    sys.executable, str(program), str(seconds)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
            runs.append(run)
            run.stdout.readline()
            for _ in range(100):  # until its board is there
                with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as children:
                    pids = [int(pid) for pid in children.read().split()]
                mine = [pid for pid in pids if str(program) in open(f"/proc/{pid}/cmdline", encoding="utf-8").read()]
                if mine and path.exists() and any(name.startswith("alula-") for name in os.listdir(folder)):
                    break
                time.sleep(0.05)
            time.sleep(1.2)  # boards are written once a second
            return run, mine[0]

        yield start, {"XDG_RUNTIME_DIR": folder}
        for run in runs:
            if run.poll() is None:
                run.send_signal(signal.SIGTERM)
                run.communicate(timeout=20)


def test_it_lands_in_the_recording_of_its_run(alula, job, tmp_path):
    start, env = job
    path, out = tmp_path / "run.alula", tmp_path / "out.folded"
    run, pid = start(path, 9)
    got = alula("profile", pid, "-o", out, "-d", "1s", env=env)
    assert got.returncode == 0 and f"alula: profile: also added to {path}\n" in got.stderr, got.stderr
    assert shares(folded(out))["spin"] > 0.9
    assert len(said(alula, "profile", "--from", path, "--list").splitlines()) == 1  # while it goes on
    got = alula("profile", pid, "-o", out, "-d", "0.5s", "--no-record", env=env)
    assert got.returncode == 0 and "also added" not in got.stderr
    got = alula("profile", pid, "-o", path, "-d", "0.5s", env=env)  # once, not twice
    assert got.returncode == 0 and "also added" not in got.stderr, got.stderr
    stderr = run.communicate(timeout=30)[1]
    assert run.returncode == 0 and "recording" in stderr
    info = json.loads(said(alula, "info", path, "--json"))
    assert info["closed"] is True and info["ticks"] > 10 and len(info["profiles"]) == 2
    assert not info["gaps"] or all(gap["seconds"] < 3 for gap in info["gaps"])
    assert re.search(r"^alula: profiles ", said(alula, "report", path), re.M)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("run.alula")) == ["run.alula"]


def test_many_profiles_beside_a_run_that_writes_often(alula_bin, alula, job, tmp_path):
    """Four at once, each of several; the run loses nothing, and neither do they."""
    start, env = job
    path = tmp_path / "run.alula"
    run, pid = start(path, 14, "--interval", "100ms")
    profiles = [subprocess.Popen([str(alula_bin), "profile", str(pid), "-o", str(tmp_path / f"out{i}.folded"), "-d", "0.5s", "-r", "50",
                                  "--idle"], env={**os.environ, **env}, stderr=subprocess.PIPE, text=True) for i in range(4)]
    for process in profiles:
        stderr = process.communicate(timeout=40)[1]
        assert process.returncode == 0 and "also added to" in stderr, stderr
    run.communicate(timeout=40)
    assert run.returncode == 0
    info = json.loads(said(alula, "info", path, "--json"))
    assert len(info["profiles"]) == 4 and info["closed"] is True and info["ticks"] > 60


def test_one_that_is_killed_leaves_nothing_half(alula_bin, alula, kept, program):
    """Wherever it is killed: what is listed can be read."""
    with running(sys.executable, program, 60, patience=0) as process:
        for wait in (0.30, 0.305, 0.31, 0.32, 0.34):
            one = subprocess.Popen([str(alula_bin), "profile", str(process.pid), "-o", str(kept), "-d", "0.3s"], stderr=subprocess.DEVNULL)
            time.sleep(wait)
            one.kill()
            one.wait()
    listed = said(alula, "profile", "--from", kept, "--list").splitlines()
    assert len(listed) >= 2
    for line in listed:
        said(alula, "profile", "--from", kept, "--id", line.split()[0], "-o", "-")
