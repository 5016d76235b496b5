# SPDX-License-Identifier: Apache-2.0
"""alula attach with the real torch and transformers (tests/requirements-torch.txt): what it sees of a loop that runs already,
and that nothing is left of it."""

import json
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.plain

HEAD = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset
torch.manual_seed(0)
torch.set_num_threads(1)
GO, WAIT, WORK = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])

class Slow(Dataset):
    def __len__(self): return 4 * 40
    def __getitem__(self, i):
        WAIT and time.sleep(WAIT / 4)
        return torch.ones(8), torch.ones(1)

import torch.optim.optimizer as optimizer_module
import torch.utils.data.dataloader as loader_module

def functions():
    scaler = torch.amp.GradScaler
    return (torch.autograd.backward, torch.save, torch.serialization.save, loader_module._BaseDataLoaderIter.__next__, DataLoader.__iter__, scaler.step,
            dict(optimizer_module._global_optimizer_pre_hooks), dict(optimizer_module._global_optimizer_post_hooks), list(sys.meta_path))

def check():
    same = functions() == BEFORE
    print("same" if same else (functions(), BEFORE), [m for m in sys.modules if "alula" in m], flush=True)

BEFORE = functions()
"""
LOOP = HEAD + """
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters())
steps = 0
print("here", flush=True)
while not os.path.exists(GO):
    for x, y in DataLoader(Slow(), batch_size=4):  # its iterator is alive when alula comes
        time.sleep(WORK)
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
        if os.path.exists(GO):
            break
time.sleep(0.3)
check()
"""
TRAINER = HEAD + """
from transformers import Trainer, TrainingArguments, TrainerCallback
old = functions
def functions():
    return old() + tuple(Trainer.__dict__[n] for n in ("train", "training_step", "log", "evaluate", "get_batch_samples"))

class Rows(Slow):
    def __getitem__(self, i):
        WAIT and time.sleep(WAIT / 4)
        return {"x": torch.ones(8), "labels": torch.ones(1)}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def forward(self, x, labels):
        time.sleep(WORK)
        return {"loss": (self.layer(x) - labels).square().mean()}

class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        global BEFORE
        if state.global_step == 1:
            BEFORE = functions()
            print("here", flush=True)
        control.should_training_stop = os.path.exists(GO)

Trainer(model=Model(), train_dataset=Rows(), callbacks=[Stop()], args=TrainingArguments(
    output_dir=sys.argv[4], per_device_train_batch_size=4, max_steps=100000, report_to=[], save_strategy="no", disable_tqdm=True,
    logging_steps=1000000, use_cpu=True)).train()
time.sleep(0.3)
check()
"""


class Job:
    def __init__(self, folder, code, *args, launcher=(), env=None):
        self.go = folder / "go"
        script = folder / "job.py"
        script.write_text(code)
        self.process = subprocess.Popen([sys.executable, *launcher, str(script), str(self.go), *map(str, args)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout.readline() == "here\n", self.process.stderr.read()
        self.pid = self.process.pid

    def ends(self):
        self.go.touch()
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return out


@pytest.fixture
def job(tmp_path):
    made = []

    def make(*args, **kwargs):
        made.append(Job(tmp_path, *args, **kwargs))
        return made[-1]

    yield make
    for j in made:
        j.go.touch()  # a launcher's ranks do not end with it
        try:
            j.process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            j.process.kill()
            j.process.stdout.close()
            j.process.stderr.close()
            j.process.wait()


def report_of(folder):
    return json.loads((folder / "metrics_report.json").read_text())


def verdict(report, rule):
    return next(v for v in report["alula"]["verdicts"] if v["rule"] == rule)


def test_a_starved_loop_and_nothing_left(job, alula, tmp_path):
    """30 of 50 ms wait for data: told with that share; afterwards every function is the job's own again."""
    j = job(LOOP, 0.03, 0.02)
    got = alula("attach", "--for", "5s", "--output-dir", tmp_path / "out", "--fail-on", "warning", "--log-every", "10", j.pid)
    assert got.returncode == 3 and "training waits for data" in got.stderr, got.stderr
    assert "step 10: forward" in got.stderr
    report = report_of(tmp_path / "out")
    rank = report["alula"]["ranks"][0]
    assert rank["steps"] > 40 and rank["lost_records"] == 0
    assert rank["host_timeline"]["explained_ratio"] > 0.98
    assert report["data_loading_time_ratio"] == pytest.approx(0.6, abs=0.05)
    assert verdict(report, "data_wait")["verdict"] == "finding"
    assert j.ends() == "same []\n"


def test_a_healthy_loop_twice(job, alula, tmp_path):
    j = job(LOOP, 0, 0.05)
    for i in range(2):
        out = tmp_path / str(i)
        got = alula("attach", "--for", "3s", "--output-dir", out, "--fail-on", "warning", j.pid)
        assert got.returncode == 0, got.stderr
        report = report_of(out)
        assert report["alula"]["ranks"][0]["steps"] > 20
        assert report["data_loading_time_ratio"] < 0.1
    assert j.ends() == "same []\n"


def test_a_trainer_in_the_middle_of_train(job, alula, tmp_path):
    out = tmp_path / "trained"
    j = job(TRAINER, 0, 0.05, out)
    got = alula("attach", "--for", "3s", j.pid)
    assert got.returncode == 0, got.stderr
    report = report_of(out)  # the folder is the trainer's
    rank = report["alula"]["ranks"][0]
    assert rank["steps"] > 20 and rank["samples"] >= 80
    assert report["data_loading_time_ratio"] < 0.15
    assert j.ends().endswith("same []\n")


def test_two_ranks_by_their_launcher(job, alula, tmp_path):
    code = HEAD + """
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
if dist.get_rank() == 0:
    print("here", flush=True)
end = torch.zeros(1)
while True:
    for x, y in DataLoader(Slow(), batch_size=4, num_workers=1):
        time.sleep(WORK)
        (model(x) - y).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        end[0] = float(os.path.exists(GO))
        dist.all_reduce(end)
        if end[0]:
            break
    if end[0]:
        break
time.sleep(0.3)
check()
dist.destroy_process_group()
"""
    j = job(code, 0, 0.05, launcher=("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"))
    got = alula("attach", "--for", "4s", "--wait", "20s", "--output-dir", tmp_path / "out", j.pid)
    assert got.returncode == 0, got.stderr
    assert "alula: taken out of 2 processes, the job goes on" in got.stderr
    ranks = report_of(tmp_path / "out")["alula"]["ranks"]
    assert sorted(r["rank"] for r in ranks) == [0, 1]
    assert all(r["steps"] > 10 for r in ranks)
    one = max(r["pid"] for r in ranks)
    got = alula("attach", "--for", "1s", "--tree", "--wait", "20s", one)
    assert got.returncode == 0 and "taken out of 2 processes" in got.stderr, got.stderr
    assert j.ends().splitlines() == ["same []"] * 2


def test_after_an_alula_run_that_died(alula, alula_bin, tmp_path):
    """Its probe comes back to the same socket: no injection."""
    go, script = tmp_path / "go", tmp_path / "job.py"
    script.write_text(LOOP.replace('print("here"', 'open(GO + ".pid", "w").write(str(os.getpid())); print("here"'))
    with subprocess.Popen([str(alula_bin), "run", "--quiet", "--no-record", "--", sys.executable, str(script), str(go), "0", "0.02"],
                          stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "here\n"
        pid = int((tmp_path / "go.pid").read_text())
        time.sleep(1)
        got = alula("attach", "--for", "1s", pid)
        assert got.returncode == 1 and f"process {pid} is watched by an alula run already" in got.stderr
        run.send_signal(signal.SIGKILL)
        run.wait()
        time.sleep(0.2)
        got = alula("attach", "--for", "3s", "--output-dir", tmp_path / "out", pid, timeout=60)
        assert got.returncode == 0, got.stderr
        assert "its probe is that of an alula run that has gone" in got.stderr
        assert report_of(tmp_path / "out")["alula"]["ranks"][0]["steps"] > 20
        go.touch()
        run.stdout.read()
