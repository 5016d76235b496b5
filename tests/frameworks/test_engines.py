# SPDX-License-Identifier: Apache-2.0
"""accelerate, FSDP and DeepSpeed in loops without a trainer."""

import json

import pytest

pytestmark = pytest.mark.framework

HEAD = """
import os, sys, time
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
from torch.utils.data import DataLoader, Dataset, DistributedSampler
class Rows(Dataset):
    def __len__(self): return 32
    def __getitem__(self, i):
        time.sleep(0.04)  # what costs CPU time is little beside it, also on a busy machine
        return torch.full((8,), i / 32), torch.ones(1)
def layers(): return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def test_accelerate(watch, program, script):
    """accumulate(), an evaluation within, a saved state, and going on from it; accelerate fetches a batch ahead."""
    job = watch(program("trl"), script(HEAD + """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = layers()
model, optimizer, loader, held_out = accelerator.prepare(model, torch.optim.AdamW(model.parameters()),
                                                         DataLoader(Rows(), batch_size=4), DataLoader(Rows(), batch_size=8))
def epoch(batches):
    for x, y in batches:
        with accelerator.accumulate(model):
            loss = (model(x) - y).square().mean()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
epoch(loader)
model.eval()
with torch.no_grad():
    for x, y in held_out: model(x)
model.train()
accelerator.save_state("state")
accelerator.load_state("state")
epoch(accelerator.skip_first_batches(loader, 4))
"""))
    rank, = job.ranks
    assert (rank["steps"], rank["micro_steps"], rank["skipped_steps"], rank["aborted_steps"]) == (6, 6, 0, 0)
    assert job.explained() >= 0.99
    parts = job.seconds()
    for part in ("data", "forward", "backward", "optimizer", "evaluation", "save"):
        assert parts[part] > 0, part


FSDP = HEAD + """
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard, FullyShardedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)
model = layers()
if sys.argv[1] == "2":
    for layer in model:
        fully_shard(layer) if list(layer.parameters()) else None
    fully_shard(model)
else:
    model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
optimizer = torch.optim.AdamW(model.parameters())
rows = Rows()
for x, y in DataLoader(rows, batch_size=4, sampler=DistributedSampler(rows)):
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("version", [1, 2])
def test_fsdp(watch, program, script, version):
    job = watch(program("trl"), *TORCHRUN, script(FSDP), version)
    assert [(row["rank"], row["world_size"], row["steps"], row["samples"]) for row in job.ranks] == [(0, 2, 4, 16), (1, 2, 4, 16)]
    assert job.explained() >= 0.99
    assert job.report["communication_time_ratio"] is None


ENGINE = HEAD + """
import json, deepspeed
engine, _, loader, _ = deepspeed.initialize(model=layers(), model_parameters=None, training_data=Rows(), config=json.loads(sys.argv[1]))
for x, y in loader:
    loss = (engine(x) - y).square().mean()
    engine.backward(loss)
    engine.step()
engine.save_checkpoint("saved")
"""


def config(stage, **more):
    return {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": stage},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}, "gradient_clipping": 1.0,
            "zero_allow_untested_optimizer": True, **more}


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_deepspeed(watch, program, script, stage):
    """Two ranks of an engine: a step is the engine's, however many its optimizer takes for the parts of the parameters."""
    code = ENGINE.replace("model=layers(), model_parameters=None", "model=model, model_parameters=model.parameters()").replace(
        "engine, _,", "model = layers()\nengine, _,")
    job = watch(program("deepspeed"), *TORCHRUN, script(code), json.dumps(config(stage)), env={"DS_ACCELERATOR": "cpu"})
    assert [(row["rank"], row["steps"], row["micro_steps"]) for row in job.ranks] == [(0, 2, 2), (1, 2, 2)]
    assert job.ranks[0]["step_source"].startswith("deepspeed.DeepSpeedEngine; ")
    assert all(row["aborted_steps"] == row["skipped_steps"] == 0 for row in job.ranks)
    assert job.explained() >= 0.99
    assert job.ranks[0]["host_timeline"]["after_last_step_seconds"]["save"] > 0
