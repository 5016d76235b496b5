# SPDX-License-Identifier: Apache-2.0
"""Real process trees under a made-up GPU: launcher, ranks and workers found by parentage, in the real /proc."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from procs import HOST_PID_NS
from scenes import head, standin_env

RANK = """
import multiprocessing, os, sys, time

if __name__ == "__main__":
    fork, spawn = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
    workers = [context.Process(target=time.sleep, args=(60,), daemon=True) for context in (fork, fork, spawn)]
    for w in workers:
        w.start()
    print(os.getpid(), *(w.pid for w in workers), flush=True)
    sys.stdin.read()
"""
LAUNCHER = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, sys.argv[1], "--api_token", "sekret"], stdin=subprocess.PIPE,
                          env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2"}) for r in range(2)]
sys.stdin.read()
for r in ranks:
    r.terminate()
    r.wait()
"""


@contextlib.contextmanager
def job(folder):
    """A launcher with two ranks of three workers each; yields its pid and [[rank, worker, worker, worker], …]."""
    (folder / "rank.py").write_text(RANK)
    (folder / "launcher.py").write_text(LAUNCHER)
    launcher = subprocess.Popen([sys.executable, str(folder / "launcher.py"), str(folder / "rank.py")],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield launcher.pid, [[int(word) for word in launcher.stdout.readline().split()] for _ in range(2)]
    finally:
        launcher.stdin.close()
        launcher.wait()
        launcher.stdout.close()


@pytest.fixture
def sampled(alula, standin, tmp_path):
    """The processes of the last sample, by pid, while these (pid, gpu) are on the GPUs."""

    def run(rows, *args):
        scene = tmp_path / "scene.txt"
        scene.write_text(head(2) + "@0s\ngpu 0-1 utilization_ratio=90% memory_total_bytes=100GiB memory_used_bytes=1GiB\n" +
                         "".join(f"row {pid} gpu={gpu} memory_bytes=1GiB\n" for pid, gpu in rows))
        env = {**standin_env(standin, scene), "ALULA_HOST": "procfs"}
        result = alula("watch", "--json", "--for", "2.6s", *args, env=env)
        assert result.returncode == 0, result.stderr
        samples = [line for line in map(json.loads, result.stdout.splitlines()) if line["type"] == "sample"]
        return {p["pid"]: p for p in samples[-1]["processes"]}

    return run


in_host_ns = os.readlink("/proc/self/ns/pid") == HOST_PID_NS


@pytest.mark.skipif(not in_host_ns, reason="pids of the host cannot be seen from this pid namespace")
def test_tree_by_parentage(sampled, tmp_path):
    with job(tmp_path) as (launcher, ranks):
        ranks.sort(key=lambda pids: pids[0])
        rows = [(ranks[0][0], 0), (ranks[1][0], 1), (ranks[0][1], 0)]  # a forked worker holds a context as well
        seen = sampled(rows)
        roles = {pid: p["role"] for pid, p in seen.items()}
        expected = {launcher: "launcher"}
        for rank, *workers in ranks:
            expected[rank] = "rank"
            expected.update({worker: "worker" for worker in workers})
        assert {pid: roles.get(pid) for pid in expected} == expected
        # Beside them only what multiprocessing starts for its own use, and what started this test (and other jobs here).
        others = [pid for pid in roles if pid not in expected and seen[pid]["job"] == seen[launcher]["job"]]
        assert {roles[pid] for pid in others} <= {"other", "launcher"}
        assert len({seen[pid]["job"] for pid in expected}) == 1
        assert sorted(seen[pids[0]]["rank"] for pids in ranks) == [0, 1]
        rank = seen[ranks[0][0]]
        assert rank["alive"] is True and rank["ppid"] == launcher
        assert rank["command"].endswith("rank.py --api_token ***") and "sekret" not in json.dumps(seen)
        assert rank["cpu_ratio"] >= 0 and rank["resident_anonymous_bytes"] > 1 << 20
        hidden = sampled(rows, "--no-cmdline")
        assert not any(p["command"] for p in hidden.values()) and hidden[ranks[0][1]]["role"] == "worker"


def test_pid_that_nobody_has(sampled):
    pid = 4194303  # the largest there can be; nobody has it on a machine that starts few processes
    seen = sampled([(pid, 0)])
    assert seen[pid]["alive"] is (False if in_host_ns else None)
    assert not seen[pid]["command"] and seen[pid]["rank"] is None
