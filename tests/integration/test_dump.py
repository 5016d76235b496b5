# SPDX-License-Identifier: Apache-2.0
"""alula dump: the stacks of live Python processes."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from procs import NOBODY, settle

PROGRAM = """
import sys, threading, time

def inner(seconds):
    time.sleep(seconds)

def sleeper():
    inner(1000)

class Loader:
    def work(self):
        while True:
            sum(range(100))

threading.Thread(target=sleeper, name="prefetch", daemon=True).start()
threading.Thread(target=Loader().work, name="loader", daemon=True).start()
print(flush=True)
sys.stdin.read()
"""

# A launcher that gives its ranks the variables that torchrun gives them; each rank has a child of its own.
LAUNCHER = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, *sys.argv[1:]], stdin=0,
                          env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2"}) for r in range(2)]
other = subprocess.Popen(["sleep", "1000"])
print(flush=True)
try:
    sys.stdin.read()
finally:
    for p in (*ranks, other):
        p.kill()
        p.wait()
"""


@contextlib.contextmanager
def running(*command, lines=1, patience=5, **kwargs):
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kwargs)
    try:
        for _ in range(lines):
            process.stdout.readline()
        yield process
    finally:
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def line_of(path, text):
    return 1 + next(i for i, line in enumerate(pathlib.Path(path).read_text().splitlines()) if text in line)


def dumped(alula, *args, status=0):
    got = alula("dump", "--json", *args)
    assert got.returncode == status, got.stderr
    return json.loads(got.stdout)["processes"]


def test_threads_with_name_state_and_lines(alula, program):
    with running(sys.executable, program) as process:
        settle(process.pid)
        (found,) = dumped(alula, process.pid)
        text = alula("dump", "--pid", process.pid).stdout
    assert found["pid"] == process.pid and found["error"] is None
    assert found["python"].startswith(".".join(map(str, sys.version_info[:3 if sys.version_info >= (3, 11) else 2])))
    threads = {thread["name"]: thread for thread in found["threads"]}
    assert list(threads) == ["MainThread", "prefetch", "loader"]  # by age
    assert threads["MainThread"]["main"] and threads["MainThread"]["tid"] == process.pid
    assert threads["MainThread"]["state"] == threads["prefetch"]["state"] == "idle"
    assert threads["loader"]["state"] == "running" and threads["prefetch"]["holds_gil"] is False
    frames = [(frame["function"], frame["file"], frame["line"]) for frame in threads["prefetch"]["frames"]]
    assert frames[:2] == [("inner", str(program), line_of(program, "time.sleep(seconds)")),
                          ("sleeper", str(program), line_of(program, "inner(1000)"))]
    assert threads["loader"]["frames"][0]["function"] == "work"
    assert f'thread {process.pid} "MainThread": idle\n' in text
    assert f"    {program}:{line_of(program, 'time.sleep(seconds)')} inner\n" in text


def test_a_stopped_process_says_so(alula, program):
    with running(sys.executable, program) as process:
        os.kill(process.pid, signal.SIGSTOP)
        try:
            end = time.monotonic() + 30
            tasks = list(pathlib.Path(f"/proc/{process.pid}/task").iterdir())
            while any("State:\tT" not in (t / "status").read_text() for t in tasks) and time.monotonic() < end:
                time.sleep(0.01)
            threads = json.loads(alula("dump", "--json", process.pid).stdout)["processes"][0]["threads"]
            text = alula("dump", process.pid).stdout
        finally:
            os.kill(process.pid, signal.SIGCONT)
    assert [t["state"] for t in threads] == ["stopped"] * 3
    assert f'thread {process.pid} "MainThread": stopped\n' in text or f'thread {process.pid} "MainThread": stopped, holds' in text


def test_a_job_with_roles_and_ranks(alula, program, tmp_path):
    launcher = tmp_path / "torchrun"
    launcher.write_text(LAUNCHER)
    with running(sys.executable, launcher, program, lines=3) as process:
        settle(process.pid)
        below = dumped(alula, "--subprocesses", process.pid)
        rank = next(p["pid"] for p in below if p["rank"] == 1)
        whole = dumped(alula, "--tree", rank)
        assert [p["pid"] for p in dumped(alula, rank)] == [rank]
        assert "sleep" not in alula("dump", "-s", process.pid).stderr
        text = alula("dump", "-s", process.pid, "--no-cmdline").stdout
    assert [p["pid"] for p in below] == [p["pid"] for p in whole] and len(below) == 3  # without sleep
    assert {(p["role"], p["rank"], p["world_size"]) for p in below} == {("launcher", None, None), ("rank", 0, 2), ("rank", 1, 2)}
    assert f"process {rank}, rank 1 of 2, Python 3." in text and "program.py\n" not in text.split("thread")[0]


WITH_WORKER = """
import multiprocessing, sys, time

def work():
    print(flush=True)
    time.sleep(1000)

worker = multiprocessing.get_context("fork").Process(target=work, daemon=True)
worker.start()
sys.stdin.read()
"""

# Each rank behind a shell that has the same variables, as of `mpirun bash -c ...`.
WRAPPED = LAUNCHER.replace("[sys.executable, *sys.argv[1:]]", "['sh', '-c', f'{sys.executable} {sys.argv[1]}; true']")


@pytest.mark.parametrize("launches", [LAUNCHER, WRAPPED], ids=["plain", "wrapped"])
def test_a_rank_that_is_named_has_its_role(alula, tmp_path, launches):
    """By its own PID or a worker's: the launcher above is what tells them apart."""
    launcher, program = tmp_path / "torchrun", tmp_path / "train.py"
    launcher.write_text(launches)
    program.write_text(WITH_WORKER)

    def told(*args):
        return [(p["pid"], p["role"], p["rank"], p["world_size"], p["owner"]) for p in dumped(alula, *args)]

    with running(sys.executable, launcher, program, lines=3) as process:
        job = told("--tree", process.pid)
        rank = next(pid for pid, role, number, *_ in job if (role, number) == ("rank", 1))
        worker = next(pid for pid, *_, owner in job if owner == rank)
        below = told("-s", rank)
        assert told(rank) == below[:1] and told(worker) == below[1:] and told("--tree", worker) == job
        text = alula("dump", worker).stdout
        differences = json.loads(alula("dump", "--all-ranks", "--json", rank).stdout)["differences"]
    assert len(job) == 5 and {row[1:] for row in job} == {("launcher", None, None, None), ("rank", 0, 2, None), ("rank", 1, 2, None),
                                                          *(("worker", row[2], 2, row[0]) for row in job if row[1] == "rank")}
    assert below == [(rank, "rank", 1, 2, None), (worker, "worker", 1, 2, rank)]
    assert text.startswith(f"process {worker}, worker of rank 1 ({rank}), Python 3.")
    assert [r["rank"] for r in differences["ranks"]] == [0, 1] and not any(r["error"] for r in differences["ranks"])


ENGINES = """
import ctypes, multiprocessing, sys, time

def engine(title):
    ctypes.CDLL(None).prctl(15, title, 0, 0, 0)  # as vLLM's processes name themselves
    print(flush=True)
    time.sleep(1000)

for title in b"VLLM::EngineCore", b"VLLM::Worker_TP0":
    multiprocessing.get_context("fork").Process(target=engine, args=(title,), daemon=True).start()
sys.stdin.read()
"""


def test_the_engines_of_a_server(alula, tmp_path):
    program = tmp_path / "server.py"
    program.write_text(ENGINES)
    with running(sys.executable, program, lines=2) as process:
        found = dumped(alula, "-s", process.pid)
        engine = found[1]["pid"]
        text = alula("dump", engine).stdout
    assert [p["role"] for p in found] == [None, "engine", "engine"]
    assert text.startswith(f"process {engine}, engine, Python 3.")


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a pid namespace")
def test_a_launcher_that_is_a_containers_first_process(alula_bin, tmp_path):
    launcher = tmp_path / "torchrun"
    launcher.write_text(LAUNCHER)
    (tmp_path / "train.py").write_text(WITH_WORKER)
    if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], check=False, capture_output=True).returncode:
        pytest.skip("unshare makes no pid namespace here")
    with running("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, launcher, tmp_path / "train.py",
                 lines=3) as process:
        (first,) = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        inside = ["nsenter", "--target", first, "--pid", "--mount", alula_bin, "dump", "--json"]
        whole = json.loads(subprocess.run([*inside, "--tree", "2"], check=True, capture_output=True).stdout)["processes"]
        alone = json.loads(subprocess.run([*inside, "2"], check=True, capture_output=True).stdout)["processes"]
    assert [(p["pid"], p["role"]) for p in whole][0] == (1, "launcher") and [p["role"] for p in whole].count("rank") == 2
    assert [(p["pid"], p["role"], p["rank"]) for p in alone] == [(2, "rank", 0)]


def test_depth_keeps_the_innermost(alula, program):
    with running(sys.executable, program) as process:
        settle(process.pid)
        (found,) = dumped(alula, "--depth", "1", process.pid)
    thread = next(t for t in found["threads"] if t["name"] == "prefetch")
    assert thread["truncated"] and [frame["function"] for frame in thread["frames"]] == ["inner"]


def test_what_cannot_be_dumped(alula):
    with running("sh", "-c", "echo; cat") as process:
        got = alula("dump", process.pid)
    assert got.returncode == 6 and "ython" in got.stderr and got.stderr.count("\n") == 1 and not got.stdout
    got = alula("dump", process.pid)
    assert got.returncode == 5 and f"no process {process.pid}" in got.stderr
    found = json.loads(alula("dump", "--json", process.pid).stdout)["processes"]
    assert found[0]["threads"] is None and "no process" in found[0]["error"]


@pytest.mark.parametrize("args", [[], ["x"], ["0"], ["-1"], ["1", "2"], ["--depth", "0", "1"], ["--pid", "99999999999"]])
def test_bad_arguments(alula, args):
    got = alula("dump", *args)
    assert got.returncode == 2 and got.stdout == "" and got.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_no_permission_says_which_setting(alula_bin, program, tmp_path):
    with running(sys.executable, program) as process:
        got = subprocess.run([alula_bin, "dump", str(process.pid)], capture_output=True, text=True, user=65534, group=65534,
                             extra_groups=[], check=False)
    assert got.returncode == 4 and got.stdout == ""
    assert "CAP_SYS_PTRACE" in got.stderr or "ptrace_scope" in got.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("scope, words", [(1, "allows only a parent to read its children"), (2, "only root (CAP_SYS_PTRACE)"),
                                          (3, "nobody may read other processes until the next boot")])
def test_no_permission_by_yama(alula_bin, program, tmp_path, scope, words):
    """The texts for Yama's settings, which a kernel without it lets be shown only over its folder of /proc. The refusal is
    another user's."""
    (tmp_path / "yama").mkdir()
    (tmp_path / "yama/ptrace_scope").write_text(f"{scope}\n")
    tmp_path.chmod(0o755)
    in_namespace = f'mount --bind "$0" /proc/sys/kernel && exec {" ".join(NOBODY)} "$@"'
    if subprocess.run(["unshare", "--mount", "sh", "-c", in_namespace, tmp_path, "true"], check=False, capture_output=True).returncode:
        pytest.skip("unshare and setpriv do not do that here")
    with running(sys.executable, program) as process:
        got = subprocess.run(["unshare", "--mount", "sh", "-c", in_namespace, tmp_path, alula_bin, "dump", str(process.pid)],
                             capture_output=True, text=True, check=False)
    assert got.returncode == 4 and got.stdout == "" and got.stderr.count("\n") == 1
    assert f"kernel.yama.ptrace_scope is {scope}" in got.stderr and words in got.stderr, got.stderr


VARIABLES = """
import sys, time
def answer(count, names, api_key, connection):
    ratio = count / 2
    print(flush=True)
    sys.stdin.read()
answer(3, ["a", "b"], "abcdefgh", {"url": "https://you:hidden@host/", "DB_PASSWORD": "hidden"})
"""


def test_variables_only_when_asked_for_and_no_secrets(alula, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(VARIABLES)
    with running(sys.executable, path) as process:
        settle(process.pid)
        text, without = alula("dump", "-l", process.pid).stdout, alula("dump", process.pid).stdout
        (found,) = dumped(alula, "--locals", process.pid)
    frame = next(f for f in found["threads"][0]["frames"] if f["function"] == "answer")
    assert {v["name"]: (v["type"], v["value"]) for v in frame["locals"]} == {
        "count": ("int", "3"), "names": ("list", "['a', 'b']"), "api_key": ("str", "***"), "ratio": ("float", "1.5"),
        "connection": ("dict", "{'url': 'https://you:***@host/', 'DB_PASSWORD': ***}")}
    assert "        ratio: float = 1.5\n" in text and "ratio" not in without
    assert "hidden" not in text and "abcdefgh" not in text


TENSORS = """
import sys
import time
import torch
def step(batch):
    scalar, many = torch.ones(()), torch.ones(1, 2, 3, 4, 5, 6, 7, dtype=torch.int8)
    weight, view = torch.nn.Parameter(torch.ones(11, 13)), torch.ones(4, 6).expand(3, 4, 6)
    print(flush=True)
    sys.stdin.read()
step({"input_ids": torch.ones(2, 5, dtype=torch.int64), "mask": torch.ones(2, 5, dtype=torch.bfloat16).t()})
"""


def test_shapes_of_tensors(alula, tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "program.py"
    path.write_text(TENSORS)
    with running(sys.executable, path) as process:
        settle(process.pid)
        (found,) = dumped(alula, "--locals", process.pid)
    frame = next(f for t in found["threads"] for f in t["frames"] if f["function"] == "step")
    assert {v["name"]: (v["type"], v["value"]) for v in frame["locals"]} == {
        "batch": ("dict", "{'input_ids': <Tensor shape (2, 5), int64, cpu>, 'mask': <Tensor shape (5, 2), bfloat16, cpu>}"),
        "scalar": ("Tensor", "shape (), float32, cpu"), "many": ("Tensor", "shape (1, 2, 3, 4, 5, 6, 7), int8, cpu"),
        "weight": ("Parameter", "shape (11, 13), float32, cpu"), "view": ("Tensor", "shape (3, 4, 6), float32, cpu")}


LOOP = """
import asyncio, sys
async def waits():
    await asyncio.sleep(1000)
async def blocks():
    await asyncio.sleep(0)
    print(flush=True)
    sys.stdin.read()
async def main():
    await asyncio.gather(asyncio.create_task(waits(), name="waits"), asyncio.create_task(blocks(), name="blocks"))
asyncio.run(main())
"""


def test_tasks_of_a_loop(alula, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(LOOP)
    with running(sys.executable, path, lines=1) as process:
        settle(process.pid)
        text = alula("dump", process.pid).stdout
        (found,) = dumped(alula, process.pid)
        process.kill()
    tasks = {task["name"]: task for task in found["tasks"]}
    assert tasks["blocks"]["running"] and found["threads"][0]["task"] == "blocks"
    assert [f["function"] for f in tasks["waits"]["frames"]] == ["sleep", "waits"]
    (root,) = set(tasks) - {"blocks", "waits"}
    assert [by["name"] for by in tasks["waits"]["awaited_by"]] == [root]
    assert f'    -- task "blocks", awaited by "{root}"\n' in text
    assert f'    task "waits", awaited by "{root}": waits for _asyncio.Future\n' in text
