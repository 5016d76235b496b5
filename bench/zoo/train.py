# SPDX-License-Identifier: Apache-2.0
"""A training loop with one known fault, or its healthy twin (--twin). alula runs it as it is; --tool adds what the other
tools ask for: TraceML's init() and step block, gpuprof's block around the loop.

At the end it prints one JSON line: time a step, the loss (to the bit) and torch's own peak of allocated memory.
"""

import argparse
import contextlib
import json
import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

FAULTS = ("none", "slow_getitem", "slow_worker", "slow_disk", "tokenise_in_collate", "item_each_step", "small_kernels",
          "checkpoint_inside", "checkpoint_between", "logging_between", "host_leak", "gpu_leak", "allocator_warmup")
NEEDS_GPU = ("item_each_step", "small_kernels", "gpu_leak", "allocator_warmup")


class SlowFile:
    """A checkpoint's file on a slow disk."""

    def __init__(self, path, seconds):
        self.file, self.seconds = open(path, "wb"), seconds

    def write(self, data):
        if self.seconds:
            time.sleep(self.seconds)
            self.seconds = 0
        return self.file.write(data)

    def flush(self):
        self.file.flush()


def save(model, path, seconds):
    out = SlowFile(path, seconds)
    torch.save(model.state_dict(), out)
    out.file.close()


def spin(seconds):
    """Python work, not a sleep."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(200))


class Items(Dataset):
    def __init__(self, a, length):
        self.a, self.length = a, length
        self.x = torch.randn(64, a.width)
        self.path = os.path.join(a.scratch, "alula-zoo-%d.bin" % os.getpid())
        if a.fault == "slow_disk":
            with open(self.path, "wb") as out:
                for _ in range(32):
                    out.write(os.urandom(1 << 20))
                out.flush()
                os.fsync(out.fileno())

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        a = self.a
        if not a.twin:
            if a.fault == "slow_getitem":
                time.sleep(a.weight / a.batch)
            elif a.fault == "slow_disk" and index % 16 == 0:  # uncached, as a data set larger than memory is
                fd = os.open(self.path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.pread(fd, 8 << 20, (index % 4) * (8 << 20))
                os.close(fd)
        return self.x[index % 64]

    def __del__(self):
        if self.a.fault == "slow_disk" and os.path.exists(self.path) and get_worker_info() is None:
            os.unlink(self.path)


class OneSlow(IterableDataset):
    """Ready batches from several workers, the last of which is slow: the loader keeps their order, so all wait for it."""

    def __init__(self, a, length):
        self.a, self.length = a, length

    def __iter__(self):
        worker = get_worker_info()
        last = worker is not None and worker.id == worker.num_workers - 1
        for _ in range(self.length):
            if last and not self.a.twin:
                time.sleep(3 * self.a.weight)
            yield torch.randn(self.a.batch, self.a.width)


def collate(a):
    def joined(rows):
        if a.fault == "tokenise_in_collate" and not a.twin:
            spin(a.weight)
        return torch.stack(rows)
    return joined


def loader(a):
    steps = a.steps + a.warm
    if a.fault == "slow_worker":
        return DataLoader(OneSlow(a, steps), batch_size=None, num_workers=3)
    workers = 2 if a.fault in ("slow_disk",) else 0
    return DataLoader(Items(a, steps * a.batch), batch_size=a.batch, collate_fn=collate(a), num_workers=workers)


def model_of(a, device):
    torch.manual_seed(1)
    layers = []
    for _ in range(a.layers):
        layers += [nn.Linear(a.width, a.width), nn.GELU()]
    if a.fault == "small_kernels" and not a.twin:  # the work of a few large ones in very many
        layers = [nn.Sequential(*[nn.LayerNorm(a.width), nn.GELU(), nn.Hardtanh()]) for _ in range(40 * a.layers)] + layers
    return nn.Sequential(*layers, nn.Linear(a.width, 8)).to(device)


def tools(a):
    """init, the block around the loop, the block around a step."""
    if a.tool == "traceml":
        import traceml_ai
        traceml_ai.init(mode="auto")
        return contextlib.nullcontext(), traceml_ai.trace_step
    if a.tool == "gpuprof":
        import gpuprof
        return gpuprof.profile("zoo", db_path=os.path.join(a.scratch, "gpuprof.db")), lambda model: contextlib.nullcontext()
    if a.tool == "callback":  # what the documents' own Python callback does: psutil and NVML every 50th step
        import psutil
        me, count = psutil.Process(), [0]

        @contextlib.contextmanager
        def step(model):
            yield
            count[0] += 1
            if count[0] % 50 == 0:
                me.memory_info().rss
                if torch.cuda.is_available():
                    torch.cuda.memory_allocated(), torch.cuda.max_memory_reserved(), torch.cuda.utilization()
        return contextlib.nullcontext(), step
    return contextlib.nullcontext(), lambda model: contextlib.nullcontext()


def train(a):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = model_of(a, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    kept, host_kept, warm_up = [], [], []
    checkpoint = os.path.join(a.scratch, "alula-zoo-%d.pt" % os.getpid())
    around, each = tools(a)
    fault = "none" if a.twin else a.fault
    batches, done, began, loss = iter(loader(a)), 0, None, None
    with around:
        while done < a.steps + a.warm:
            if done == a.warm:
                began = time.perf_counter()
            batch = next(batches)
            with each(model):
                x = batch.to(device, non_blocking=True)
                out = x
                for layer in model:
                    out = layer(out)
                    if fault == "item_each_step":
                        out.abs().max().item()
                loss = out.float().pow(2).mean()
                loss.backward()
                if fault == "checkpoint_inside" and done % 5 == 4:
                    save(model, checkpoint, 5 * a.weight)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            if fault == "checkpoint_between" and done % 10 == 9:
                save(model, checkpoint, 10 * a.weight)
            if fault == "logging_between":
                time.sleep(a.weight)
            if fault == "host_leak":
                host_kept.append(bytearray(os.urandom(4096)) * 1024)  # 4 MiB a step
            if fault == "gpu_leak":
                kept.append(torch.empty(1 << 20, dtype=torch.uint8, device=device))  # 1 MiB a step
            if a.fault == "allocator_warmup" and done < 0.6 * (a.steps + a.warm):  # grows, then level: no leak either way
                warm_up = [torch.empty((2 << 30) * done // (a.steps + a.warm) + 1, dtype=torch.uint8, device=device)]
            if device == "cuda" and a.sync:
                loss.item()
            done += 1
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    if os.path.exists(checkpoint):
        os.unlink(checkpoint)
    del kept, host_kept, warm_up
    return {"us_per_step": seconds / a.steps * 1e6, "loss": loss.item().hex(),
            "peak": torch.cuda.max_memory_allocated() if device == "cuda" else None, "device": device}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fault", choices=FAULTS, default="none")
    p.add_argument("--twin", action="store_true", help="the same program without the fault")
    p.add_argument("--tool", choices=("none", "traceml", "gpuprof", "callback"), default="none")
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--warm", type=int, default=20)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--weight", type=float, default=0.04, help="seconds a step that the fault takes")
    p.add_argument("--scratch", default=os.environ.get("TMPDIR", "/var/tmp"))
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--sync", action="store_true", help="read the loss at each step's end")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    if a.fault in NEEDS_GPU and not torch.cuda.is_available():
        sys.exit("train.py: %s needs a GPU" % a.fault)
    print("ZOO " + json.dumps(train(a)), flush=True)


if __name__ == "__main__":
    main()
