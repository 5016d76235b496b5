# SPDX-License-Identifier: Apache-2.0
"""alula ps: who trains here, told by a driver, by running alulas, and by command lines."""

import contextlib
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import time

import pytest

import scenes

JOB = pathlib.Path(__file__).with_name("fake_job.py")
NO_DRIVER = {"ALULA_NVML_LIBRARY": "/nonexistent/libnvidia-ml.so.1"}

# A launcher that gives its ranks the variables that torchrun gives them, and ends them when it is ended.
LAUNCHER = """
import os, signal, subprocess, sys
ranks = [subprocess.Popen([sys.executable, *sys.argv[1:], "--rank", str(r), "--world", "2"],
                          env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2"}) for r in range(2)]
signal.signal(signal.SIGTERM, lambda *_: [r.kill() for r in ranks])
sys.exit(max(r.wait() for r in ranks))
"""


@pytest.fixture
def env():
    """The run-time folder has a short path: that of a socket is limited. Other alulas of this machine may run meanwhile."""
    with tempfile.TemporaryDirectory(prefix="alula-test-") as folder:
        yield {**NO_DRIVER, "XDG_RUNTIME_DIR": folder, "LC_ALL": "C.UTF-8"}


@contextlib.contextmanager
def running(alula_bin, env, tmp_path, *command):
    """alula run -- COMMAND in the background; ended by SIGTERM."""
    with subprocess.Popen([str(alula_bin), "run", "--quiet", "--output-dir", str(tmp_path), "--", *map(str, command)],
                          env={**os.environ, **env}) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def wait_for(look, seconds=15):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come")


def listed(alula, env, *args):
    return json.loads(alula("ps", "--json", *args, env=env).stdout)


def runs(alula, env):
    return [run["pid"] for run in listed(alula, env)["runs"]]


def test_nothing_is_told_and_is_no_failure(alula, env):
    got = alula("ps", "--user", "65534", env=env)
    assert (got.returncode, got.stdout) == (0, "")
    assert "no training process of user 65534" in got.stderr and "libnvidia-ml.so.1" in got.stderr
    assert listed(alula, env, "--user", "65534")["processes"] == []
    assert alula("ps", "4242").returncode == 2


@pytest.mark.plain  # the jobs load the probe, and have no sanitizer
def test_ranks_of_a_running_alula(alula, alula_bin, env, tmp_path):
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    with running(alula_bin, env, tmp_path, sys.executable, tmp_path / "launcher.py", JOB, "--steps", "2000", "--data", "0.01",
                 "--forward", "0.03") as process:
        def both():
            told = listed(alula, env)
            own = [run for run in told["runs"] if run["pid"] == process.pid]
            ranks = [p for p in told["processes"] if own and p["job"] == own[0]["command_pid"] and p["role"] == "rank" and
                     p["training"] and p["training"]["steps_per_second"]]
            return (told, own[0], ranks) if len(ranks) == 2 else None

        told, own, ranks = wait_for(both)
        assert own["output_dir"] == str(tmp_path)
        assert told["driver_missing"] and told["driver_version"] is None
        launcher = next(p for p in told["processes"] if p["pid"] == own["command_pid"])
        assert launcher["role"] == "launcher"
        for rank in ranks:
            assert rank["ppid"] == launcher["pid"] and rank["world_size"] == 2
            assert rank["gpu_memory_bytes"] is None and rank["gpus"] == []
            assert rank["resident_anonymous_bytes"] > 1e6 and 0 <= rank["age_seconds"] < 60
            assert rank["training"]["step"] >= 1 and 5 < rank["training"]["steps_per_second"] < 30
            assert 0.1 < rank["training"]["data_ratio"] < 0.5
        assert sorted(rank["rank"] for rank in ranks) == [0, 1]

        table = alula("ps", env={**env, "COLUMNS": "100"}).stdout.splitlines()
        assert table[0].split()[:2] == ["PID", "USER"] and all(len(line) <= 100 for line in table)
        assert {"STEP", "STEP/S", "PHASE"} <= set(table[0].split()) and "GPU MEM" not in table[0]
        assert sum(str(rank["pid"]) in line and f"{rank['rank']}/2" in line for line in table for rank in ranks) == 2

        # The board is for its user alone, and goes with its alula.
        folder = next(pathlib.Path(env["XDG_RUNTIME_DIR"]).glob("alula-run-*"))
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "status").stat().st_mode) == 0o600
        folder.chmod(0o755)
        assert own["pid"] not in runs(alula, env)
        folder.chmod(0o700)
        assert own["pid"] in runs(alula, env)
    assert not list(pathlib.Path(env["XDG_RUNTIME_DIR"]).iterdir())
    assert own["pid"] not in runs(alula, env)


@pytest.mark.plain
def test_the_board_of_a_killed_alula_is_none(alula, alula_bin, env):
    with subprocess.Popen([str(alula_bin), "run", "--quiet", "--", sys.executable, str(JOB), "--steps", "2000", "--forward", "0.02"],
                          env={**os.environ, **env}) as process:
        def its_job():
            told = listed(alula, env)
            own = [run["command_pid"] for run in told["runs"] if run["pid"] == process.pid]
            return next((p["pid"] for p in told["processes"] if p["training"] and p["pid"] in own), None)

        job = wait_for(its_job)
        process.kill()
        process.wait()
    assert list(pathlib.Path(env["XDG_RUNTIME_DIR"]).glob("alula-run-*/status"))
    told = listed(alula, env)
    assert job not in [p["pid"] for p in told["processes"]] and process.pid not in [run["pid"] for run in told["runs"]]
    os.kill(job, signal.SIGKILL)


def test_training_without_a_gpu_is_found_by_its_command_line(alula, env, tmp_path):
    """--all: what torchrun started, each with its rank, and swift's single trainer."""
    (tmp_path / "torchrun").write_text(LAUNCHER)
    (tmp_path / "rank.py").write_text("import time; time.sleep(60)")
    cli = tmp_path / "swift" / "cli"
    cli.mkdir(parents=True)
    (cli / "sft.py").write_text("import time; time.sleep(60)")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "swift").write_text(f"import subprocess, sys; subprocess.run([sys.executable, {str(cli / 'sft.py')!r}])")
    many = subprocess.Popen([sys.executable, tmp_path / "torchrun", tmp_path / "rank.py"], start_new_session=True)
    one = subprocess.Popen([sys.executable, tmp_path / "bin" / "swift", "sft"], start_new_session=True)
    try:
        def mine():
            found = [p for p in listed(alula, env, "--all")["processes"] if str(tmp_path) in (p["command"] or "")]
            return found if len(found) == 5 else None

        roles = {(p["pid"] in (many.pid, one.pid), p["role"], p["rank"]) for p in wait_for(mine)}
        assert roles == {(True, "launcher", None), (False, "rank", 0), (False, "rank", 1), (False, "rank", None)}
        assert all(p["pid"] not in (many.pid, one.pid) for p in listed(alula, env)["processes"])
        user = str(os.getuid())
        assert {many.pid, one.pid} <= {p["pid"] for p in listed(alula, env, "-a", "-u", user)["processes"]}
    finally:
        for process in (many, one):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_processes_on_gpus(alula, tmp_path):
    scene = tmp_path / "scene.txt"
    scene.write_text(scenes.busy(2, "2s"))
    told = json.loads(alula("ps", "--json", "--source", f"scenario:{scene}").stdout)
    ranks = [p for p in told["processes"] if p["role"] == "rank"]
    assert [(p["rank"], p["gpus"][0]["index"], p["gpu_memory_bytes"]) for p in ranks] == [(0, 0, 69 << 30), (1, 1, 69 << 30)]
    assert all(p["training"] is None and p["ppid"] == 4200 for p in ranks)
    lines = alula("ps", "--source", f"scenario:{scene}").stdout.splitlines()
    assert "GPU MEM" in lines[0] and len(lines) == 4 and "69.0 GiB" in lines[2]
    assert "\x1b" not in "".join(lines)
    assert "\x1b[" in alula("ps", "--color", "--source", f"scenario:{scene}").stdout


BOARD_OF_ANOTHER = """
import fcntl, os, sys, time
os.setgid(65534)
os.setuid(65534)
folder = f"/tmp/alula-run-{sys.argv[1]}"
os.mkdir(folder, 0o700)
lock = os.open(folder, os.O_RDONLY)
fcntl.flock(lock, fcntl.LOCK_EX)
rank = "rank pid={} job={} step=7@1 training=1@1 source=claims\\n"
with open(folder + "/status", "w") as f:
    f.write(f"alula board 1\\npid {os.getpid()}\\njob 0\\nwritten_ns {time.monotonic_ns()}\\n")
    f.write(rank.format(sys.argv[2], 0) + rank.format(os.getpid(), 0))
print("ready", flush=True)
sys.stdin.read()
os.unlink(folder + "/status")
os.rmdir(folder)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who reads everybody's boards")
def test_nobody_speaks_for_the_processes_of_another(alula, env):
    """Root reads the boards of all, but believes of a user only what that user's processes do."""
    mine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    word = f"{os.getpid() % 1000000:06d}"
    with subprocess.Popen([sys.executable, "-c", BOARD_OF_ANOTHER, word, str(mine.pid)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout.readline() == b"ready\n"
            told = listed(alula, env)
            assert other.pid in [run["pid"] for run in told["runs"]]
            claimed = {p["pid"]: p["training"] for p in told["processes"]}
            assert claimed[other.pid]["step"] == 7 and mine.pid not in claimed
        finally:
            other.stdin.close()
            mine.kill()
            mine.wait()
    assert other.pid not in runs(alula, env)
