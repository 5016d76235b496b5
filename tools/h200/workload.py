# SPDX-License-Identifier: Apache-2.0
"""workload.py PHASE SECONDS: one kind of GPU job, for recording sessions and for checking verdicts.

healthy   bf16 training of a transformer block stack, batches made on the GPU
starved   the same model fed by a DataLoader whose workers read uncached bytes from disk
climbing  memory that fills to 87 % of the card and then leaks on to above 92 %, beside steady matrix work
peak      large bf16 matrix products, as fast as they go
"""

import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


ITEM = 32 << 20


class Slow(Dataset):
    """Each item costs an uncached read of 32 MiB, more than the disk gives in the time of a step."""

    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        fd = os.open(self.path, os.O_RDONLY)
        size = os.fstat(fd).st_size
        os.pread(fd, ITEM, (index * ITEM) % max(size - ITEM, 1))
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        return torch.zeros(512, dtype=torch.long)


def make_model(width=2048, layers=8):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 16, 4 * width, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, layers).to("cuda", torch.bfloat16)


def step(model, optimizer, batch):
    out = model(batch)
    loss = out.float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def healthy(until):
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    batch = torch.randn(32, 512, 2048, device="cuda", dtype=torch.bfloat16)
    steps, start = 0, None
    while time.time() < until:
        step(model, optimizer, batch)
        torch.cuda.synchronize()
        steps += 1
        if steps == 5:  # warm
            start = time.perf_counter()
    print(f"{(time.perf_counter() - start) / (steps - 5) * 1e3:.3f} ms a step over {steps - 5} steps", flush=True)


def starved(until):
    path = os.environ.get("WORKLOAD_FILE", "/var/tmp/alula-workload.bin")
    if not os.path.exists(path):
        with open(path, "wb") as out:
            for _ in range(64):
                out.write(os.urandom(ITEM))
            out.flush()
            os.fsync(out.fileno())
    model = make_model(layers=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for tokens in DataLoader(Slow(path), batch_size=8, num_workers=4):
        batch = torch.randn(4, 512, 2048, device="cuda", dtype=torch.bfloat16) + tokens[:1, :1].to("cuda")[..., None]
        step(model, optimizer, batch)
        if time.time() >= until:
            break


def climbing(until):
    start, seconds = time.time(), until - time.time()
    total = torch.cuda.get_device_properties(0).total_memory
    kept, product = [], torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    fill, chunk = seconds * 0.3, 128 << 20
    while time.time() < until:
        at = time.time() - start
        share = 0.87 * min(at / fill, 1) + 0.055 * min(max(at - fill, 0) / (seconds * 0.65), 1)
        while torch.cuda.memory_reserved() + chunk < share * total:
            kept.append(torch.empty(chunk, dtype=torch.uint8, device="cuda").fill_(1))
        for _ in range(4):
            product = (product @ product).clamp_(-1, 1)
        torch.cuda.synchronize()


def peak(until):
    a = torch.randn(16384, 16384, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(16384, 16384, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(a)
    while time.time() < until:
        for _ in range(20):
            torch.mm(a, b, out=out)
        torch.cuda.synchronize()


if __name__ == "__main__":
    phase, seconds = sys.argv[1], float(sys.argv[2])
    wait_for = float(os.environ.get("WORKLOAD_AT", "0"))  # epoch seconds: imports are over before the phase begins
    time.sleep(max(0.0, wait_for - time.time()))
    {"healthy": healthy, "starved": starved, "climbing": climbing, "peak": peak}[phase](time.time() + seconds)
