# SPDX-License-Identifier: Apache-2.0
"""Findings that name the line: alula watch beside real Python jobs whose GPU (the stand-in's) idles."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

import scenes

torch = pytest.importorskip("torch", exc_type=ImportError)

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


def scenario(folder, pids, utilization="3%"):
    text = scenes.head(len(pids), "300s") + "@0s\n"
    for gpu, pid in enumerate(pids):
        text += (f"gpu {gpu} utilization_ratio={utilization} memory_total_bytes=140GiB memory_used_bytes=70GiB power_watts=130W "
                 f"power_enforced_limit_watts=700W\nrow {pid} gpu={gpu} memory_bytes=69GiB\n")
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
