# SPDX-License-Identifier: Apache-2.0
"""stacks_job.py KIND SECONDS: a training loop with one fault whose line a look at the stacks has to name.

starved   8 DataLoader workers whose collate_fn takes seconds for a batch
item      a tensor read by .item() after each small kernel
save      a checkpoint at each step
healthy   batches made on the GPU
Prints READY when it trains, and at the end LINE FUNCTION NUMBER: what is to be found. Without a GPU it trains on the CPU.
"""

import os
import sys
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH, ROWS, LENGTH, WORDS = (2048, 32, 512, 50257) if DEVICE == "cuda" else (16, 4, 8, 50)
WORKERS = int(os.environ.get("JOB_WORKERS", "8"))


class Rows(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return [index * 7919 % WORDS + i for i in range(LENGTH)]


def collate_fn(rows):
    until = time.perf_counter() + (3 if DEVICE == "cuda" else 0.5)
    ids = []
    while time.perf_counter() < until:
        ids = [sorted(hash((token, len(row))) % WORDS for token in row) for row in rows]  # HERE starved
    return torch.tensor(ids)


def make():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True, activation="gelu")
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.TransformerEncoder(layer, 4 if DEVICE == "cuda" else 1)).to(DEVICE)
    return model.to(torch.bfloat16) if DEVICE == "cuda" else model


def step(model, optimizer, batch):
    loss = model(batch).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def starved(model, optimizer):
    for batch in DataLoader(Rows(), batch_size=ROWS, num_workers=WORKERS, collate_fn=collate_fn, pin_memory=DEVICE == "cuda"):
        step(model, optimizer, batch.to(DEVICE))
        yield


def item(model, optimizer):
    weights = [torch.randn(64, 64, device=DEVICE, requires_grad=True) for _ in range(8)]
    total = 0.0
    while True:
        for weight in weights:
            total += weight.sum().item()  # HERE item
        yield


def save(model, optimizer):
    batch = torch.randint(0, WORDS, (ROWS, LENGTH), device=DEVICE)
    path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
    while True:
        step(model, optimizer, batch)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)  # HERE save
        yield


def healthy(model, optimizer):
    batch = torch.randint(0, WORDS, (ROWS, LENGTH), device=DEVICE)
    while True:
        step(model, optimizer, batch)
        yield


def main():
    kind, seconds = sys.argv[1], float(sys.argv[2])
    if DEVICE == "cpu":
        torch.set_num_threads(1)
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    loop = {"starved": starved, "item": item, "save": save, "healthy": healthy}[kind](model, optimizer)
    for _ in range(2):
        next(loop)
    print("READY", os.getpid(), flush=True)
    until, steps, start = time.time() + seconds, 0, time.perf_counter()
    while time.time() < until:
        next(loop)
        steps += 1
    with open(__file__) as source:
        line = next((n for n, text in enumerate(source, 1) if text.rstrip().endswith(f"# HERE {kind}")), 0)
    print(f"STEPS {steps} in {time.perf_counter() - start:.1f} s; LINE {line}", flush=True)
    os._exit(0)  # workers in the middle of a batch are not waited for


if __name__ == "__main__":
    main()
