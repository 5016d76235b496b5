# SPDX-License-Identifier: Apache-2.0
"""Findings that name the line: alula watch beside real Python jobs whose GPU (the stand-in's) idles."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

import scenes
from procs import NOBODY
from screen import Terminal

torch = pytest.importorskip("torch", exc_type=ImportError)
pytestmark = pytest.mark.slow

CONFIG = "stacks:\n  length: 1500ms\n  every: 5s\n"

# Its loader takes long for each batch: in collate, or in the data set itself.
LOADER = """\
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset

def work(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(i * i for i in range(100))

class Rows(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        if sys.argv[2] == "getitem":
            work(0.1)  # the data set is slow
        return i

def collate(rows):
    if sys.argv[2] == "collate":
        work(0.4)  # the collator is slow
    return torch.tensor(rows)

loader = DataLoader(Rows(), batch_size=4, num_workers=int(sys.argv[1]), collate_fn=collate)
weight = torch.ones(4)
for number, batch in enumerate(loader):  # the loop waits
    weight += batch.float() * 1e-9
    if number == 0:
        print(flush=True)
"""


def line_of(program, comment):
    return 1 + next(i for i, line in enumerate(program.splitlines()) if comment in line)


@contextlib.contextmanager
def running(folder, program, *arguments, env=None):
    """A job, once it has printed a line."""
    path = folder / "job.py"
    path.write_text(program)
    process = subprocess.Popen([sys.executable, str(path), *map(str, arguments)], stdout=subprocess.PIPE,
                               env={**os.environ, **(env or {})})
    try:
        assert process.stdout.readline(), "the job did not start"
        yield process
    finally:
        process.kill()
        process.wait()


def scenario(folder, pids, utilization="3%", bursts=()):
    text = scenes.head(len(pids), "300s") + "@0s\n"
    for gpu, pid in enumerate(pids):
        text += (f"gpu {gpu} utilization_ratio={utilization} memory_total_bytes=140GiB memory_used_bytes=70GiB power_watts=130W "
                 f"power_enforced_limit_watts=700W\nrow {pid} gpu={gpu} memory_bytes=69GiB\n")
    for at in bursts:
        text += f"@{at}s\ngpu 0 utilization_ratio=70%\n@{at}.5s\ngpu 0 utilization_ratio={utilization}\n"
    path = folder / "gpus.txt"
    path.write_text(text)
    return path


@contextlib.contextmanager
def watching(alula_bin, standin, folder, pids, *arguments, config=CONFIG, **more):
    """Findings of alula watch, as they come."""
    (folder / "alula.yaml").write_text(config)
    env = {**os.environ, "ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(scenario(folder, pids, **more))}
    watch = subprocess.Popen([str(alula_bin), "watch", "--json", "--config", str(folder / "alula.yaml"), "--for", "60s", *arguments],
                             env=env, stdout=subprocess.PIPE, encoding="utf-8")
    try:
        yield (json.loads(line) for line in watch.stdout)
    finally:
        watch.kill()
        watch.wait()


def finding_that(lines, *words, rule=("inefficient", "starved")):
    """The first finding whose message holds all the words."""
    seen = []
    for line in lines:
        if line["type"] == "finding" and line["rule"] in rule:
            seen.append(line["message"])
            if all(word in line["message"] for word in words):
                return line
    raise AssertionError(f"no finding with {words}: {seen}")


def evidence(finding):
    return {e["name"]: e["value"] for e in finding["evidence"] if e["source"] == "stacks"}


def test_batches_that_come_in_bursts(alula_bin, standin, tmp_path):
    """On an H200, eight workers' batches came at once, each three seconds: a busy tick must not cut a look short."""
    with running(tmp_path, LOADER, 2, "collate") as job, \
            watching(alula_bin, standin, tmp_path, [job.pid], config="", bursts=range(5, 100, 3)) as lines:
        found = finding_that(lines, "samples in", "in 2 DataLoader workers")
    assert "samples in collate at job.py" in found["message"]


@pytest.mark.parametrize("slow, comment", [("collate", "the collator is slow"), ("getitem", "the data set is slow")])
def test_workers_that_are_slow(alula_bin, standin, tmp_path, slow, comment):
    with running(tmp_path, LOADER, 2, slow) as job, watching(alula_bin, standin, tmp_path, [job.pid]) as lines:
        found = finding_that(lines, "samples in", "in 2 DataLoader workers")
    assert found["rule"] == "starved" and found["title"] == "starved by input"
    assert "the main thread waits for its DataLoader" in found["message"]
    function = {"collate": "collate", "getitem": "__getitem__"}[slow]
    assert f"samples in {function} at job.py:{line_of(LOADER, comment)}, calling work, in 2 DataLoader workers" in found["message"]
    told = evidence(found)
    assert told["stack_loader_ratio"] >= 0.5 and told["stack_worker_line_ratio"] >= 0.25 and told["stack_samples"] >= 10
    assert "cheaper" in found["advice"]


def test_without_workers(alula_bin, standin, tmp_path):
    with running(tmp_path, LOADER, 0, "collate") as job, watching(alula_bin, standin, tmp_path, [job.pid]) as lines:
        found = finding_that(lines, "samples in")
    assert found["rule"] == "starved"
    assert (f"the main thread makes batches itself: " in found["message"]
            and f"in collate at job.py:{line_of(LOADER, 'the collator is slow')}, calling work" in found["message"])
    assert evidence(found)["stack_fetch_ratio"] >= 0.5 and "num_workers" in found["advice"]


LOOP = """\
import io, sys, time
import torch
x, large, heads = torch.randn(1000), torch.zeros(1 << 20), torch.randn(1, 4, 256, 64)
class Attention(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)  # a module's own
model = torch.nn.Sequential(Attention())
print(flush=True)
total = 0.0
while True:
    if sys.argv[1] == "item":
        total += x.sort().values.sum().item()  # reads it
    elif sys.argv[1] == "save":
        torch.save(large, io.BytesIO())  # keeps it
    elif sys.argv[1] == "attention":
        torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)  # attends
    elif sys.argv[1] == "module":
        model(heads)
    elif sys.argv[1] == "comment":
        sorted(range(10000), key=str)  # not the .item() of a tensor
    else:
        total = sum(i for i in range(1000))  # own work
"""


@pytest.mark.parametrize("what, comment, call, kind, advice", [
    ("item", "reads it", "in <module>, calling .item()", "synchronise", "every n-th step"),
    ("save", "keeps it", "in <module>, calling save", "save", "Save less often"),
    ("attention", "attends", "in <module>, calling scaled_dot_product_attention()", "attention",
     "FlashAttention may be off or the shapes unsuitable"),
    ("module", "a module's own", "in forward, calling scaled_dot_product_attention()", "attention", "FlashAttention may be off"),
    ("comment", "not the .item()", "in <module>", "other", "out of the loop"),
    ("own", "own work", "in <module>", "other", "out of the loop"),
])
def test_loops(alula_bin, standin, tmp_path, what, comment, call, kind, advice):
    with running(tmp_path, LOOP, what) as job, watching(alula_bin, standin, tmp_path, [job.pid]) as lines:
        found = finding_that(lines, "samples in")
    function, _, native = call.partition(",")
    assert f"{function} at job.py:{line_of(LOOP, comment)}{native and ','}{native}" in found["message"]
    assert native or "calling" not in found["message"]
    assert evidence(found)[f"stack_{kind}_ratio"] >= 0.5 and advice in found["advice"]


def test_the_line_in_top_and_in_a_recording(alula_bin, alula, standin, tmp_path):
    (tmp_path / "alula.yaml").write_text(CONFIG)
    recording = tmp_path / "run.alula"
    with running(tmp_path, LOOP, "own") as job:
        env = {"ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(scenario(tmp_path, [job.pid]))}
        record = subprocess.Popen([str(alula_bin), "record", "-o", str(recording), "--config", str(tmp_path / "alula.yaml")],
                                  env={**os.environ, **env}, stderr=subprocess.DEVNULL)
        try:
            with Terminal([str(alula_bin), "top", "--config", str(tmp_path / "alula.yaml")], columns=300, env=env) as top:
                text = top.wait("samples in", 60)
                top.press("q")
            end = time.monotonic() + 60
            while "stack_samples" not in alula("replay", "--json", "--speed", "0", recording).stdout and time.monotonic() < end:
                time.sleep(1)
        finally:
            record.terminate()
            assert record.wait() == 0
    words = f"in <module> at job.py:{line_of(LOOP, 'own work')}"
    assert words in text
    replayed = [json.loads(line) for line in alula("replay", "--json", "--speed", "0", recording).stdout.splitlines()]
    assert words in finding_that(replayed, "samples in")["message"]


RANKS = """\
import os, sys, time
import torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
x = torch.ones(4)
dist.all_reduce(x)
print(flush=True)
while True:
    if rank == 1:
        time.sleep(2)  # the slow one
    dist.all_reduce(x)  # the other waits
"""


def test_a_rank_that_waits_for_another(alula_bin, standin, tmp_path):
    folders = [tmp_path / "0", tmp_path / "1"]
    with contextlib.ExitStack() as stack:
        jobs = []
        for rank, folder in enumerate(folders):
            folder.mkdir()
            path = folder / "job.py"
            path.write_text(RANKS)
            jobs.append(subprocess.Popen([sys.executable, str(path), str(tmp_path / "meet")], stdout=subprocess.PIPE,
                                         env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}))
            stack.callback(jobs[-1].wait)
            stack.callback(jobs[-1].kill)
        assert jobs[0].stdout.readline() and jobs[1].stdout.readline()
        with watching(alula_bin, standin, tmp_path, [jobs[0].pid]) as lines:
            found = finding_that(lines, "samples in")
    assert "the main thread is in collectives" in found["message"]
    assert f"in <module> at job.py:{line_of(RANKS, 'the other waits')}, calling all_reduce" in found["message"]
    assert evidence(found)["stack_collective_ratio"] >= 0.5 and "slow for another reason" in found["considered"]


LAUNCHER = """\
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, *sys.argv[1:]], env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2"})
         for r in range(2)]
print(*[r.pid for r in ranks], flush=True)
for r in ranks:
    r.wait()
"""


def test_the_rank_that_a_job_waits_for(alula_bin, standin, tmp_path):
    """Both GPUs of one job idle: the rank that is elsewhere is named with its line."""
    (tmp_path / "ranks.py").write_text(RANKS)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    launcher = subprocess.Popen([sys.executable, str(tmp_path / "launcher.py"), str(tmp_path / "ranks.py"), str(tmp_path / "meet")],
                                stdout=subprocess.PIPE, encoding="utf-8")
    pids = [int(pid) for pid in launcher.stdout.readline().split()]
    try:
        assert launcher.stdout.readline() and launcher.stdout.readline() is not None  # both have met
        with watching(alula_bin, standin, tmp_path, pids) as lines:
            found = finding_that(lines, "GPUs 0,1 of one job", "the others wait in collectives for rank 1")
    finally:
        for pid in pids:
            os.kill(pid, 9)
        launcher.wait()
    assert f"in <module> at ranks.py:{line_of(RANKS, 'the slow one')}, calling sleep()" in found["message"]
    assert found["title"] == "running inefficiently: the others wait for rank 1"
    assert f"sleeps at ranks.py:{line_of(RANKS, 'the slow one')}" in found["advice"]


def test_the_data_that_one_rank_waits_for(alula_bin, standin, tmp_path):
    """One rank's loader starves the whole job: the line of its workers, not of those that wait in collectives."""
    program = LOADER.replace("import sys, time", "import os, sys, time\nimport torch.distributed as dist").replace(
        "work(0.1)  # the data set is slow", 'work(0.1 if os.environ["RANK"] == "1" else 0)  # the data set is slow').replace(
        "    weight +=", "    dist.all_reduce(weight)\n    weight +=").replace(
        "weight = torch", 'dist.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=int(os.environ["RANK"]), '
        "world_size=2)\nweight = torch")
    (tmp_path / "ranks.py").write_text(program)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    launcher = subprocess.Popen([sys.executable, str(tmp_path / "launcher.py"), str(tmp_path / "ranks.py"), "2", "getitem",
                                 str(tmp_path / "meet")], stdout=subprocess.PIPE, encoding="utf-8")
    pids = [int(pid) for pid in launcher.stdout.readline().split()]
    try:
        assert launcher.stdout.readline() and launcher.stdout.readline()  # both have met
        with watching(alula_bin, standin, tmp_path, pids) as lines:
            found = finding_that(lines, "GPUs 0,1 of one job", "the others wait in collectives for rank 1: its main thread waits for its "
                                 "DataLoader", "in 2 DataLoader workers")
    finally:
        for pid in pids:
            os.kill(pid, 9)
        launcher.wait()
    assert found["title"] == "starved by input" and "Make __getitem__ (ranks.py" in found["advice"]
    assert f"samples in __getitem__ at ranks.py:{line_of(program, 'the data set is slow')}, calling work" in found["message"]
    assert evidence(found)["stack_collective_ratio"] >= 0.5 and evidence(found)["stack_loader_ratio"] >= 0.5


def threads_of(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


@pytest.mark.parametrize("how, arguments, more", [("busy", [], {"utilization": "95%"}), ("option", ["--no-stacks"], {}),
                                                  ("config", [], {"config": "stacks:\n  enabled: false\n"})])
def test_nothing_is_looked_at(alula_bin, standin, tmp_path, how, arguments, more):
    """While GPUs are busy no thread is there for it; nor where it is switched off."""
    config = more.pop("config", CONFIG)
    with running(tmp_path, LOOP, "own") as job:
        (tmp_path / "alula.yaml").write_text(config)
        env = {**os.environ, "ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(scenario(tmp_path, [job.pid], **more))}
        watch = subprocess.Popen([str(alula_bin), "watch", "--json", "--config", str(tmp_path / "alula.yaml"), "--for", "9s",
                                  *arguments], env=env, stdout=subprocess.PIPE, encoding="utf-8")
        most, messages = 0, []
        for line in watch.stdout:
            line = json.loads(line)
            if line["type"] == "sample":
                most = max(most, threads_of(watch.pid))
            elif line["type"] == "finding":
                messages.append(line["message"])
        assert watch.wait() == 0
    assert most == 2  # the loop and the driver's
    assert bool(messages) == (how != "busy") and not any("samples" in m for m in messages)


def test_no_permission_is_said(alula_bin, standin, open_path):
    if os.getuid() != 0:
        pytest.skip("needs root: alula runs as another user")
    with running(open_path, LOOP, "own") as job:
        path = scenario(open_path, [job.pid])
        (open_path / "alula.yaml").write_text(CONFIG)
        watch = subprocess.Popen([*NOBODY, str(alula_bin), "watch", "--json", "--quiet",
                                  "--config", str(open_path / "alula.yaml"), "--for", "30s"], stdout=subprocess.PIPE,
                                 env={**os.environ, "ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(path)}, encoding="utf-8")
        try:
            found = next(f for f in map(json.loads, watch.stdout)
                         if f["type"] == "finding" and "could not be seen" in (f["considered"] or ""))
        finally:
            watch.kill()
            watch.wait()
    assert "may not read the memory of process" in found["considered"] and "samples" not in found["message"]


def test_a_process_that_ends_while_it_is_looked_at(alula_bin, standin, tmp_path):
    with running(tmp_path, LOADER, 2, "collate") as job, watching(alula_bin, standin, tmp_path, [job.pid]) as lines:
        finding_that(lines, "samples in")
        job.kill()
        job.wait()
        ended = next(line for line in lines if line["type"] == "finding" and line["phase"] == "ended")
    assert ended["rule"] in ("inefficient", "starved")


def test_a_recording_shows_the_same_words(alula, scenarios, tmp_path):
    """The looks are evidence that is kept: a scenario, its recording, and the scenario printed of that say the same."""
    def messages(source):
        got = alula("watch", "--json", "--quiet", "--source", source, "--speed", "0")
        assert got.returncode == 0, got.stderr
        found = [json.loads(line) for line in got.stdout.splitlines() if '"finding"' in line]
        return [(f["phase"], f["rule"], f["message"], f["considered"], f["advice"], f["evidence"]) for f in found]

    played = messages(f"scenario:{scenarios / 'slow-loader.txt'}")
    assert any("61 % of samples in collate_fn at data.py:88, calling decode, in 2 DataLoader workers" in m[2] for m in played)
    path, text = tmp_path / "run.alula", tmp_path / "again.txt"
    assert alula("record", "--source", f"scenario:{scenarios / 'slow-loader.txt'}", "--speed", "0", "-o", path).returncode == 0
    assert messages(f"replay:{path}") == played
    assert alula("watch", "--source", f"replay:{path}", "--speed", "0", "--quiet", "--record-scenario", text).returncode == 0
    assert messages(f"scenario:{text}") == played
