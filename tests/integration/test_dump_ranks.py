# SPDX-License-Identifier: Apache-2.0
"""alula dump --all-ranks: what the ranks of a job do differently."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

from test_dump import line_of, running

pytestmark = pytest.mark.slow

# Gives its ranks what torchrun gives them, and takes no notice of their ends.
LAUNCHER = """
import os, subprocess, sys
count, port = int(sys.argv[1]), sys.argv[2]
env = {**os.environ, "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
ranks = [subprocess.Popen([sys.executable, *sys.argv[3:]], stdin=0, env={**env, "RANK": str(r), "LOCAL_RANK": str(r)})
         for r in range(count)]
print(flush=True)
try:
    sys.stdin.read()
finally:
    for p in ranks:
        p.kill()
        p.wait()
"""

TORCH = """
import os, sys, threading, time
import torch
import torch.distributed as dist

def collate():
    time.sleep(1000)

def main(rank, odd):
    gradients = torch.ones(1)
    dist.all_reduce(gradients)
    print(flush=True)
    if rank in odd:
        collate()
    dist.all_reduce(gradients)

dist.init_process_group("gloo")
main(dist.get_rank(), [int(word) for word in sys.argv[1:]])
"""

# No torch: what the ranks do is in argv: RANK=name.
PLAIN = """
import atexit, os, sys, threading, time

rank = os.environ["RANK"]
does = dict(word.split("=") for word in sys.argv[1:]).get(rank, "wait")

def wait_for_others():
    threading.Event().wait(1000)

def load():
    time.sleep(1000)

def busy():
    while True:
        step(sum(range(100)))

def step(x):
    for i in range(1000):
        x += i

def other():
    time.sleep(1000)

# No function stands below those that are called at the end.
def leave():
    for i in range(2000):
        exec(f"def f{i}(): time.sleep(0.05)", globals())
        atexit.register(globals()[f"f{i}"])

def main():
    if does == "die":
        os._exit(1)
    if does == "load":
        load()
    if does == "leave":
        return leave()
    if does == "busy":
        busy()
    wait_for_others()

threading.Thread(target=other if does != "other" else load, name=f"helper-{rank}", daemon=True).start()
print(flush=True)
main()
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def job(tmp_path, code, count, *args, lines=None):
    launcher, program = tmp_path / "torchrun", tmp_path / "train.py"
    launcher.write_text(LAUNCHER)
    program.write_text(code)
    with running(sys.executable, launcher, count, free_port(), program, *args, lines=1 + (count if lines is None else lines)) as process:
        yield process, program


def settled(alula, check, *args, seconds=60):
    """The dump that check accepts, or the last one."""
    end = time.monotonic() + seconds
    while True:
        got = alula("dump", "--all-ranks", "--json", *args)
        assert got.returncode == 0, got.stderr
        found = json.loads(got.stdout)
        if check(found["differences"]) or time.monotonic() > end:
            return found


def groups(found):
    return [(g["ranks"], g["in"]["function"].rsplit(".")[-1], g["odd"]) for g in found["differences"]["groups"]]


def test_the_odd_one_out_of_a_real_collective(alula, tmp_path):
    pytest.importorskip("torch")
    with job(tmp_path, TORCH, 5, 3) as (process, program):
        found = settled(alula, lambda d: len(d["groups"]) == 2 and d["groups"][0]["doing"] == "waits", process.pid)
        got = alula("dump", "--all-ranks", "--brief", process.pid)
    first, odd = found["differences"]["groups"]
    assert groups(found) == [([0, 1, 2, 4], "all_reduce", False), ([3], "collate", True)]
    assert first["collective"] and not odd["collective"] and first["doing"] == odd["doing"] == "waits"
    last_call = max(n for n, line in enumerate(program.read_text().splitlines(), 1) if "dist.all_reduce" in line)
    assert (first["called_from"]["function"], first["called_from"]["line"]) == ("main", last_call)
    assert odd["in"]["line"] == line_of(program, "time.sleep(1000)")
    assert [f["function"] for f in odd["frames"]] == ["collate", "main"]
    assert [f["function"] for f in found["differences"]["common"]] == ["<module>"]
    ranks = [p for p in found["processes"] if p["role"] == "rank"]
    assert [p["rank"] for p in ranks] == [0, 1, 2, 3, 4] and all(p["threads"] for p in ranks)
    assert "4 of 5 ranks (0-2, 4) wait in all_reduce (torch/distributed/distributed_c10d.py:" in got.stdout
    assert f"called from train.py:{last_call} main" in got.stdout and "rank 3 (" in got.stdout
    assert "rank 3 has not come to that collective: the others wait for it\n" in got.stdout
    assert got.stdout.count("<module>") == 1 and "process " not in got.stdout


def test_all_the_same(alula, tmp_path):
    with job(tmp_path, PLAIN, 4) as (process, program):
        found = settled(alula, lambda d: len(d["groups"]) == 1, process.pid)
        text = alula("dump", "--all-ranks", process.pid).stdout
    assert groups(found) == [([0, 1, 2, 3], "wait", False)]
    assert found["differences"]["groups"][0]["frames"] == [] and found["differences"]["threads"] == []
    assert found["differences"]["missing"] == []
    assert text.startswith("4 ranks, all the same") and f"{program}" in text
    head, *processes = text.split("\n\nprocess ")
    assert head.count("wait_for_others") == 2 and len(processes) == 5  # once in the sentence, once in the stack; launcher too


def test_a_thread_that_is_not_the_main_one(alula, tmp_path):
    with job(tmp_path, PLAIN, 3, "1=other") as (process, _):
        found = settled(alula, lambda d: len(d["groups"]) == 1 and d["threads"], process.pid)
    (thread,) = found["differences"]["threads"]
    assert thread["name"] == "helper-*"
    assert [(g["ranks"], g["in"]["function"]) for g in thread["groups"]] == [([0, 2], "other"), ([1], "load")]


def test_which_move_and_which_stand(alula, tmp_path):
    with job(tmp_path, PLAIN, 3, "2=busy", "0=load") as (process, _):
        found = settled(alula, lambda d: [r["doing"] for r in d["ranks"]] == ["waits", "waits", "moves"] and
                        all(g["in"]["function"] != "main" for g in d["groups"]), process.pid)
    assert [r["doing"] for r in found["differences"]["ranks"]] == ["waits", "waits", "moves"]
    moving = next(g for g in found["differences"]["groups"] if g["ranks"] == [2])
    assert moving["in"]["function"] in ("busy", "step") and moving["doing"] == "moves"


def test_a_stack_of_which_nothing_stands(alula, tmp_path):
    with job(tmp_path, PLAIN, 3, "1=leave") as (process, _):
        found = settled(alula, lambda d: any(not g["in"] and g["doing"] == "moves" for g in d["groups"]), process.pid)
        text = alula("dump", "--all-ranks", "--brief", process.pid).stdout
    pid = next(r["pid"] for r in found["differences"]["ranks"] if r["rank"] == 1)
    assert f"rank 1 ({pid}) moves: nothing of its stack stood still" in found["differences"]["summary"]
    assert f"  rank 1 ({pid}):\n    (no Python frame)\n" in text


def test_a_rank_that_died(alula, tmp_path):
    with job(tmp_path, PLAIN, 4, "2=die") as (process, _):
        found = settled(alula, lambda d: d["missing"] and len(d["groups"]) == 1, process.pid)
        text = alula("dump", "--all-ranks", "--brief", process.pid).stdout
    (missing,) = found["differences"]["missing"]
    assert missing["rank"] == 2 and "has ended" in missing["reason"] and "zombie" in missing["reason"]
    assert groups(found) == [([0, 1, 3], "wait", False)]
    assert "rank 2 is missing: it has ended" in text and text.startswith("3 ranks")


def test_a_stopped_rank(alula, tmp_path):
    with job(tmp_path, PLAIN, 3) as (process, _):
        found = settled(alula, lambda d: len(d["groups"]) == 1, process.pid)
        pid = next(r["pid"] for r in found["differences"]["ranks"] if r["rank"] == 1)
        os.kill(pid, signal.SIGSTOP)
        stopped = settled(alula, lambda d: "stopped" in [r["doing"] for r in d["ranks"]], process.pid)
    assert [r["doing"] for r in stopped["differences"]["ranks"]] == ["waits", "stopped", "waits"]


def test_a_program_without_ranks(alula, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys\nprint(flush=True)\nsys.stdin.read()\n")
    with running(sys.executable, program) as process:
        got = alula("dump", "--all-ranks", process.pid)
    assert got.returncode == 0 and "no rank is known" in got.stdout and f"process {process.pid}" in got.stdout


def test_a_program_beside_another_job(alula, tmp_path):
    """Both were started by this process, as by one shell: the job's ranks are not the program's."""
    alone = tmp_path / "alone.py"
    alone.write_text("import sys\nprint(flush=True)\nsys.stdin.read()\n")
    with job(tmp_path, PLAIN, 2), running(sys.executable, alone) as process:
        got = alula("dump", "--all-ranks", process.pid)
        tree = alula("dump", "--tree", process.pid)
    assert got.returncode == 0 and "no rank is known" in got.stdout and f"process {process.pid}" in got.stdout
    assert tree.returncode == 0 and "rank 0" not in tree.stdout and "train.py" not in tree.stdout


@contextlib.contextmanager
def side_by_side(tmp_path, *jobs):
    """Ranks that one shell starts in loops, as `for i in 0 1; do RANK=$i python x.py & done`; yields their pids, a list a job."""
    program, script, lines = tmp_path / "x.py", tmp_path / "all.sh", []
    program.write_text("import os, sys, time\nsys.stdout.write(f\"{sys.argv[1]} {os.environ['RANK']} {os.getpid()}\\n\")\n"
                       "sys.stdout.flush()\ndef wait():\n    time.sleep(1000)\nwait()\n")
    for number, (world, meet) in enumerate(jobs):
        for rank in range(world):
            lines.append(f"RANK={rank} WORLD_SIZE={world} {meet} {sys.executable} {program} {number} &\n")
    script.write_text("".join(lines) + "read line\nkill $(jobs -p)\nwait\n")
    with running("bash", script, lines=0) as shell:
        told = [shell.stdout.readline().decode().split() for _ in lines]
        pids = [{int(rank): int(pid) for job, rank, pid in told if job == str(number)} for number in range(len(jobs))]
        try:
            yield shell.pid, [[p[rank] for rank in sorted(p)] for p in pids]
        finally:
            shell.stdin.close()
            shell.wait(timeout=30)


def test_two_jobs_of_one_shell(alula, tmp_path):
    """Told apart by where their ranks meet: by port, by address, by their number."""
    with side_by_side(tmp_path, (2, "MASTER_ADDR=127.0.0.1 MASTER_PORT=29601"), (2, "MASTER_ADDR=127.0.0.1 MASTER_PORT=29602"),
                      (2, "MASTER_ADDR=127.0.0.2 MASTER_PORT=29602"), (3, "MASTER_ADDR=127.0.0.2 MASTER_PORT=29602")) as (shell, jobs):
        for pids in jobs:
            for pid in pids:
                found = json.loads(alula("dump", "--all-ranks", "--json", pid).stdout)
                assert [(r["rank"], r["pid"]) for r in found["differences"]["ranks"]] == list(enumerate(pids))
                assert found["differences"]["world_size"] == len(pids) and found["differences"]["missing"] == []
            assert [p["pid"] for p in json.loads(alula("dump", "--tree", "--json", pids[0]).stdout)["processes"]] == pids
            refused = alula("attach", "--tree", "--wait", "500ms", "--no-record", "--output-dir", tmp_path, pids[1]).stderr
            assert refused and all((f"process {pid} " in refused) == (pid in pids) for other in jobs for pid in other)
        both = alula("dump", "--tree", "--json", shell)
        assert [p["pid"] for p in json.loads(both.stdout)["processes"]] == sorted(pid for pids in jobs for pid in pids)
        for got in (alula("dump", "--all-ranks", shell), alula("attach", shell)):
            assert got.returncode == 2 and f"several jobs run below process {shell}: name a process of one: " in got.stderr
            assert all((f" {pid} (" in got.stderr) == (pid == pids[0]) for pids in jobs for pid in pids)
            assert f"{pathlib.Path(sys.executable).name} {tmp_path}"[:30] in got.stderr
        assert str(tmp_path)[:20] not in alula("dump", "--all-ranks", "--no-cmdline", shell).stderr


def test_two_jobs_that_nothing_tells_apart(alula, tmp_path):
    with side_by_side(tmp_path, (2, ""), (2, "")) as (_, jobs):
        got = alula("dump", "--all-ranks", "--json", jobs[0][0])
    found = json.loads(got.stdout)["differences"]
    assert sorted(r["pid"] for r in found["ranks"]) == sorted(jobs[0] + jobs[1])
    assert found["summary"][0].startswith("ranks 0, 1 more than once: these are several jobs that are not told apart")


@pytest.mark.parametrize("how", ["spawn", "fork", "forkserver"])
def test_ranks_that_a_program_makes_itself(alula, tmp_path, how):
    """As torch.multiprocessing.spawn: RANK is set from within, which is not to be seen."""
    program = tmp_path / "program.py"
    program.write_text("""
import multiprocessing, sys, time
def wait():
    time.sleep(1000)
def work(i, ready):
    ready.put(i)
    if i == 2:
        time.sleep(1000)
    wait()
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    ready = context.Queue()
    all = [context.Process(target=work, args=(i, ready), daemon=True) for i in range(4)]
    for p in all:
        p.start()
    for p in all:
        ready.get()
    print(flush=True)
    input()
""")
    with running(sys.executable, program, how) as process:
        found = settled(alula, lambda d: sorted(len(g["pids"]) for g in d["groups"]) == [1, 3], process.pid)
        text = alula("dump", "--all-ranks", "--brief", process.pid).stdout
        pids = sorted(r["pid"] for r in found["differences"]["ranks"])
        of_one = json.loads(alula("dump", "--all-ranks", "--json", pids[1]).stdout)
        tree = json.loads(alula("dump", "--tree", "--json", pids[1]).stdout)["processes"]
        bare = json.loads(alula("dump", "--all-ranks", "--json", "--no-cmdline", process.pid).stdout)
    assert sorted(r["pid"] for r in of_one["differences"]["ranks"]) == pids and len(pids) == 4
    assert sorted(r["pid"] for r in bare["differences"]["ranks"]) == pids
    assert sorted(p["pid"] for p in tree) == sorted(p["pid"] for p in found["processes"]) and process.pid in [p["pid"] for p in tree]
    told = [(len(g["pids"]), g["in"]["function"], g["odd"]) for g in found["differences"]["groups"]]
    assert told == [(3, "wait", False), (1, "work", True)]
    assert "no rank is known here" in text and "3 of 4 processes (" in text


ITERATIONS = """
import os, time
rank, world_size = int(os.environ["RANK"]), 4
def wait():
    time.sleep(1000)
def train(name, token):
    for step in range(1000):
        if rank == 2 and step == 7:
            print(flush=True)
            wait()
        if step == 8:
            print(flush=True)
            time.sleep(1000)
train("same", "secret%d" % (rank // 2))
"""


def test_ranks_in_different_iterations_by_their_variables(alula, tmp_path):
    with job(tmp_path, ITERATIONS, 4) as (process, program):
        found = settled(alula, lambda d: len(d["groups"]) == 2 and d["variables"], "--locals", process.pid)
        without = json.loads(alula("dump", "--all-ranks", "--json", process.pid).stdout)["differences"]["variables"]
    (variable,) = found["differences"]["variables"]
    assert (variable["name"], variable["in"]["function"]) == ("step", "train") and without == []
    assert variable["values"] == [{"value": "8", "ranks": [0, 1, 3]}, {"value": "7", "ranks": [2]}]
    assert "variable step of train (train.py): 8 in 0, 1, 3; 7 in 2" in found["differences"]["summary"]


STEPS = """
import os, time
import torch
rank = int(os.environ["RANK"])
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def iteration(x):
    model(x).sum().backward()
    optimizer.step()

for step in range(3 + 2 * rank):
    iteration(torch.ones(1, 2))
time.sleep(1000)
"""


def test_ranks_in_different_iterations_of_the_only_run(alula, alula_bin, tmp_path):
    """Without a PID: the job of the only alula run, whose board tells how far each rank is."""
    pytest.importorskip("torch")
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    program, launcher = tmp_path / "train.py", tmp_path / "torchrun"
    program.write_text(STEPS)
    launcher.write_text(LAUNCHER)
    with running(alula_bin, "run", "--output-dir", tmp_path / "out", "--", sys.executable, launcher, 2, free_port(), program,
                 lines=1, env=env, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 120
        while True:
            got = alula("dump", "--all-ranks", "--json", env={"XDG_RUNTIME_DIR": str(runtime)})
            if "jobs run here: name one" in got.stderr:  # somebody else's, below /tmp
                got = alula("dump", "--all-ranks", "--json", process.pid, env={"XDG_RUNTIME_DIR": str(runtime)})
            found = json.loads(got.stdout) if got.returncode == 0 else {"differences": {"ranks": []}}
            steps = [r["step"] for r in found["differences"]["ranks"]]
            if steps == [3, 5] or time.monotonic() > end:
                break
            time.sleep(0.3)
        process.send_signal(signal.SIGINT)
    assert steps == [3, 5], got.stderr
    assert any(line.startswith("steps done: 3 to 5; the fewest: rank 0") for line in found["differences"]["summary"])


def test_a_job_without_any_python(alula):
    """Nobody's child: that of the tests would belong to their job, which is Python."""
    started = subprocess.run(["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True, check=True)
    pid = int(started.stdout)
    got = alula("dump", "--all-ranks", pid)
    os.kill(pid, signal.SIGKILL)
    assert got.returncode == 6 and got.stderr.count("\n") == 1 and f"process {pid} " in got.stderr
    assert got.stdout == ""


def test_bad_arguments(alula):
    assert alula("dump", "--brief", "1").returncode == 2
    assert alula("dump", "--all-ranks", "1", "2").returncode == 2


def test_no_run(alula_bin):
    """Where those of others are not to be seen: below /tmp and /run of its own."""
    command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /tmp && mount -t tmpfs none /run && exec "$@"', "sh", alula_bin]
    if subprocess.run([*command, "--version"], check=False, capture_output=True).returncode:
        pytest.skip("unshare makes no mount namespace here in which alula starts")
    got = subprocess.run([*command, "dump", "--all-ranks"], capture_output=True, text=True, check=False)
    assert got.returncode == 2 and "no alula run" in got.stderr and got.stderr.count("\n") == 1


LOADER = """
import os, sys, time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        return self.decode(i)
    def decode(self, i):
        time.sleep(1000 if i > 3 else 0)
        return torch.ones(1)

def main(rank):
    gradients = torch.ones(1)
    dist.all_reduce(gradients)
    print(flush=True)
    if rank == 1:
        for batch in DataLoader(Slow(), batch_size=2, num_workers=2):
            pass
    dist.all_reduce(gradients)

dist.init_process_group("gloo")
main(dist.get_rank())
"""


def test_a_rank_that_waits_for_its_loader(alula, tmp_path):
    """The rank is named, and what its workers do."""
    pytest.importorskip("torch")
    with job(tmp_path, LOADER, 3) as (process, program):
        found = settled(alula, lambda d: any("of its 2 workers" in line for line in d["summary"]) and
                        any(g["in"]["function"].endswith("_next_data") for g in d["groups"]), process.pid)
        text = alula("dump", "--all-ranks", process.pid).stdout
    first, odd = found["differences"]["groups"]
    assert first["ranks"] == [0, 2] and first["collective"] and odd["ranks"] == [1]
    assert odd["in"]["function"] == "_next_data" or odd["in"]["function"].endswith("._next_data")
    assert odd["called_from"]["line"] == line_of(program, "for batch in DataLoader")
    sleeps = line_of(program, "time.sleep(1000 if")
    assert any(line.startswith("  2 of its 2 workers: ") and f"decode (train.py:{sleeps})" in line
               for line in found["differences"]["summary"])
    order = [(p["role"], p["rank"]) for p in found["processes"] if p["role"] in ("rank", "worker")]
    assert order == [("rank", 0), ("rank", 1), ("worker", 1), ("worker", 1), ("rank", 2)]
    assert "worker of rank 1" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a pid namespace")
def test_ranks_in_a_pid_namespace(alula, tmp_path):
    """From outside of a container: pids are those seen here."""
    launcher, program = tmp_path / "torchrun", tmp_path / "train.py"
    launcher.write_text(LAUNCHER)
    program.write_text(PLAIN)
    try:
        subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("unshare makes no pid namespace here")
    with running("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, launcher, 3, free_port(), program,
                 "1=load", lines=4) as process:
        apart = [([0, 2], "wait", False), ([1], "load", True)]
        found = settled(alula, lambda d: groups({"differences": d}) == apart, process.pid)  # they may still be on their way there
    assert groups(found) == apart
    assert all(r["pid"] > 10 for r in found["differences"]["ranks"]) and found["differences"]["missing"] == []
