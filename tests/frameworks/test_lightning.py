# SPDX-License-Identifier: Apache-2.0
"""Lightning under both of its names: its optimizer's step runs the forward and the backward pass itself."""

import pytest

pytestmark = pytest.mark.framework

HEAD = """
import sys, time
import torch
torch.set_num_threads(1)
from torch.utils.data import DataLoader, Dataset
import %s as L
from %s.callbacks import EarlyStopping, ModelCheckpoint
from %s.loggers import CSVLogger

class Rows(Dataset):
    def __len__(self): return 24
    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.full((8,), i / 24), torch.ones(1)

class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def loss(self, batch):
        x, y = batch
        time.sleep(0.01)
        return (self.layer(x) - y).square().mean()
    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss
    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)

def trainer(**more):
    return L.Trainer(**{**dict(max_epochs=2, accelerator="cpu", devices=1, logger=CSVLogger("logs"), log_every_n_steps=2,
                               enable_progress_bar=False, enable_model_summary=False), **more})
def loader(): return DataLoader(Rows(), batch_size=4)
"""


def code(rest, package="lightning.pytorch"):
    return HEAD % (package, package, package) + rest


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_fit(watch, program, script, tmp_path, package):
    """Validation, checkpoints, logging, clipping, epochs, and where its logger writes."""
    job = watch(program("lightning"), script(code("""
trainer(gradient_clip_val=1.0, callbacks=[ModelCheckpoint("saved", every_n_train_steps=3)]).fit(Module(), loader(), loader())
""", package)))
    rank, = job.ranks
    assert (rank["steps"], rank["micro_steps"], rank["aborted_steps"], rank["samples"]) == (12, 0, 0, 48)
    assert rank["step_source"].startswith("Lightning; data=exact forward=exact")
    assert rank["epoch"] == 1
    assert job.explained() >= 0.99
    parts = job.seconds()
    for part in ("data", "forward", "backward", "optimizer", "evaluation", "save", "log"):
        assert parts[part] > 0, part
    assert parts["forward"] > 12 * 0.01 and parts["data"] > 12 * 4 * 0.002
    assert parts["optimizer"] < parts["forward"]  # the closure's passes are not the optimizer's
    assert (tmp_path / "logs/lightning_logs/version_0/metrics.csv").exists()
    assert job.report["alula"]["throughput"]["parameters"] == 9


def test_accumulation_of_gradients(watch, program, script):
    job = watch(program("lightning"), script(code("""
trainer(max_epochs=1, accumulate_grad_batches=3, limit_val_batches=0).fit(Module(), loader())
""")))
    rank, = job.ranks
    assert (rank["steps"], rank["micro_steps"], rank["samples"]) == (2, 4, 24)
    assert job.explained() >= 0.99


def test_manual_optimization_with_two_optimizers(watch, program, script):
    job = watch(program("lightning"), script(code("""
class Two(Module):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.other = torch.nn.Linear(8, 1)
    def training_step(self, batch, batch_idx):
        for optimizer in self.optimizers():
            loss = self.loss(batch) + self.other(batch[0]).square().mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
    def configure_optimizers(self):
        return [torch.optim.SGD(self.layer.parameters(), lr=0.1), torch.optim.SGD(self.other.parameters(), lr=0.1)]
trainer(max_epochs=1, limit_val_batches=0).fit(Two(), loader())
""")))
    rank, = job.ranks
    assert rank["steps"] == 6  # of the first optimizer
    assert job.explained() >= 0.99


def test_resuming_early_stop_and_an_exception(watch, program, script):
    job = watch(program("lightning"), script(code("""
first = trainer(max_epochs=1)
first.fit(Module(), loader(), loader())
first.save_checkpoint("first.ckpt")
class Worse(Module):
    def validation_step(self, batch, batch_idx): self.log("val_loss", float(self.current_epoch + 1))
stopped = trainer(max_epochs=9, callbacks=[EarlyStopping("val_loss", patience=1)])
stopped.fit(Worse(), loader(), loader(), ckpt_path="first.ckpt")
assert stopped.current_epoch == 3, stopped.current_epoch
class Broken(Module):
    def training_step(self, batch, batch_idx):
        if self.global_step == 2: raise RuntimeError("the end of it")
        return super().training_step(batch, batch_idx)
trainer(max_epochs=1).fit(Broken(), loader())
""")), status=1)
    rank, = job.ranks
    assert rank["steps"] == 6 + 2 * 6 + 2
    assert job.explained() >= 0.99
    assert any("RuntimeError: the end of it" in line for line in job.said())


def test_two_ranks(watch, program, script):
    """Lightning starts the second rank itself."""
    job = watch(program("lightning"), script(code("""
trainer(max_epochs=1, devices=2, strategy="ddp").fit(Module(), loader(), loader())
""")))
    assert [(row["rank"], row["world_size"], row["steps"]) for row in job.ranks] == [(0, 2, 3), (1, 2, 3)]
    assert job.explained() >= 0.99


def test_every_function_is_put_back(watch, program, script):
    """As alula attach does when it leaves."""
    watch(program("lightning"), script(code("""
from _alula_hook import patches
from lightning.pytorch.loops import evaluation_loop, fetchers, fit_loop
owners = [fit_loop._FitLoop, fetchers._DataFetcher, fetchers._PrefetchDataFetcher, evaluation_loop._EvaluationLoop, L.Trainer]
def wrapped(): return [name for owner in owners for name, value in vars(owner).items() if getattr(value, "_alula", False)]
assert len(wrapped()) == 8, wrapped()
assert patches.undo() == 0 and not wrapped()
trainer(max_epochs=1).fit(Module(), loader(), loader())
""")))
