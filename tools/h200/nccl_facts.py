#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nccl_facts.py: what NCCL is called for, counted by the caller, to be held against what alula saw.

  alula run --output-dir DIR -- torchrun --nproc_per_node 2 nccl_facts.py DIR/expected.json
  nccl_facts.py --compare DIR/metrics_report.json DIR/expected.json
"""

import json
import os
import sys
import time

ROUNDS, COUNT, STEPS, GRAPHS = 50, 1 << 20, 20, 10


def compare(report, expected):
    with open(report, encoding="utf-8") as f:
        told = json.load(f)["alula"]["communication"]
    with open(expected, encoding="utf-8") as f:
        want = json.load(f)
    print(json.dumps(told, indent=1))
    problems = []
    if told["nccl"] != want["nccl"]:
        problems.append(f"NCCL {told['nccl']}, torch says {want['nccl']}")
    calls = told["calls"] or {}
    for name, (count, size) in want["calls"].items():
        got = calls.get(name, {"count": 0, "bytes": 0})
        # DDP and torch's own barriers add some of their own: at least what was asked for, and not twice as much.
        if not (count <= got["count"] <= 2 * count + 100 and got["bytes"] >= size):
            problems.append(f"{name}: {got} of at least {count} calls and {size} bytes")
    if not told["communicators"]:
        problems.append("no communicator")
    print("NCCL-FACTS", "; ".join(problems) if problems else "as expected")
    return 1 if problems else 0


def loop(torch, dist, rank, world):
    """Each kind of call, a group of its own, a captured call."""
    x = torch.ones(COUNT, device="cuda")
    parts, out = torch.empty(world * COUNT, device="cuda"), torch.empty(COUNT, device="cuda")
    for _ in range(ROUNDS):
        dist.all_reduce(x)
        dist.all_gather_into_tensor(parts, x)
        dist.reduce_scatter_tensor(out, parts)
        dist.broadcast(x, 0)
        if rank < 2:
            (dist.send if rank == 0 else dist.recv)(x, 1 - rank)
    size = 4 * COUNT * ROUNDS
    dist.all_reduce(x, group=dist.new_group(list(range(world))))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    for _ in range(GRAPHS):
        graph.replay()
    torch.cuda.synchronize()
    return {"AllReduce": (ROUNDS, size), "AllGather": (ROUNDS, size), "ReduceScatter": (ROUNDS, size),
            "Broadcast": (ROUNDS, size), "Send": (ROUNDS, size)}


def train(torch, local):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512).cuda(), device_ids=[local])
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.ones(64, 512, device="cuda")).mean().backward()
        optimizer.step()
        time.sleep(0.05)
    torch.cuda.synchronize()


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--compare":
        return compare(sys.argv[2], sys.argv[3])
    import torch
    import torch.distributed as dist
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    rank, world = dist.get_rank(), dist.get_world_size()
    calls = loop(torch, dist, rank, world)
    train(torch, local)
    if rank == 0:
        with open("/proc/self/maps", encoding="utf-8") as f:
            mapped = "libalula-probe" in f.read()
        version = ".".join(str(part) for part in torch.cuda.nccl.version()[:3])
        print("NCCL-FACTS torch", torch.__version__, "NCCL", version, "probe mapped", mapped, flush=True)
        if len(sys.argv) > 1:
            with open(sys.argv[1], "w", encoding="utf-8") as f:
                json.dump({"nccl": version, "calls": calls}, f)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
