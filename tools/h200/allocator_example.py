# SPDX-License-Identifier: Apache-2.0
"""allocator_example.py [REPORT]: a tensor of 20000 x 20000 float32 (1.49 GiB) is live, then cached, then released.

Run it as `alula run --output-dir DIR -- python allocator_example.py`, then once more as `python allocator_example.py
DIR/metrics_report.json`, which holds the report to what the job itself printed into DIR/stages.json (working folder: DIR).
At each stage one line of JSON: what torch's allocator says, what nvidia-smi says of the device and of the process. A few
optimizer steps hold each stage for some seconds, so that alula reads it."""

import json
import os
import subprocess
import sys
import time

SIDE = 20000
BYTES = SIDE * SIDE * 4
MIB = 1 << 20
HOLD_S = 3.0


def smi(*query):
    done = subprocess.run(["nvidia-smi", *query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=False)
    return [line.split(", ") for line in done.stdout.splitlines()]


def nvml():
    device = smi("--query-gpu=memory.used", "--id=0")
    process = [row for row in smi("--query-compute-apps=pid,used_gpu_memory", "--id=0") if row[0] == str(os.getpid())]
    return {"device_used_bytes": int(device[0][0]) * MIB if device else None,
            "process_used_bytes": int(process[0][1]) * MIB if process and process[0][1].isdigit() else None}


def main():
    import torch
    model = torch.nn.Linear(8, 8, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    stages = {}

    def stage(name):
        end = time.monotonic() + HOLD_S
        while time.monotonic() < end:
            model(torch.ones(1, 8, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            time.sleep(0.01)
        torch.cuda.synchronize()
        stages[name] = {"stage": name, "memory_allocated": torch.cuda.memory_allocated(),
                        "memory_reserved": torch.cuda.memory_reserved(), "nvml": nvml()}
        print(json.dumps(stages[name]), flush=True)

    stage("start")
    x = torch.zeros(SIDE, SIDE, device="cuda")
    stage("live")
    del x
    stage("cached")
    torch.cuda.empty_cache()
    stage("released")
    with open("stages.json", "w", encoding="utf-8") as f:
        json.dump(stages, f)
    return check_stages(stages)


def fell(stages, a, b, key):
    return stages[a]["nvml"][key] - stages[b]["nvml"][key]


def check_stages(stages):
    """Only deleting lowers allocated, only empty_cache lowers reserved and with it what nvidia-smi shows."""
    faults = []

    def expect(good, what):
        if not good:
            faults.append(what)

    torch_says = {name: (s["memory_allocated"], s["memory_reserved"]) for name, s in stages.items()}
    # A block takes its whole segment, in units of 2 MiB, where less than 1 MiB would be left.
    expect(0 <= torch_says["live"][0] - torch_says["start"][0] - BYTES <= 2 * MIB, "allocated grows by 1.49 GiB")
    expect(0 <= torch_says["live"][1] - torch_says["start"][1] - BYTES <= 64 * MIB, "reserved grows with it")
    expect(torch_says["cached"][0] == torch_says["start"][0], "deleting lowers allocated")
    expect(torch_says["cached"][1] == torch_says["live"][1], "deleting leaves reserved")
    expect(torch_says["released"][1] <= torch_says["cached"][1] - BYTES, "empty_cache lowers reserved")
    for key in ("device_used_bytes", "process_used_bytes"):
        if stages["live"]["nvml"][key] is None:
            continue  # a container: the driver names other pids
        expect(abs(fell(stages, "live", "cached", key)) <= 64 * MIB, f"{key}: deleting changes nothing")
        expect(abs(fell(stages, "cached", "released", key) - BYTES) <= 64 * MIB, f"{key}: empty_cache gives it back")
    print(json.dumps({"faults": faults}))
    return 1 if faults else 0


def check_report(path):
    with open(path, encoding="utf-8") as f:
        rank = json.load(f)["alula"]["ranks"][0]
    with open(os.path.join(os.path.dirname(path), "stages.json"), encoding="utf-8") as f:
        stages = json.load(f)
    device = rank["allocator"][0]
    faults = []
    for figure, stage, value in (("allocated_bytes.all.current", "live", "most"), ("reserved_bytes.all.current", "live", "most"),
                                 ("reserved_bytes.all.current", "released", "last")):
        own = stages[stage]["memory_allocated" if figure.startswith("allocated") else "memory_reserved"]
        if abs(device[figure][value] - own) > 2 * MIB:
            faults.append(f"{figure} {value}: {device[figure][value]}, the job says {own}")
    nvml_says = device["nvml"]["device_used_bytes"]
    if nvml_says is None or nvml_says["most"] - nvml_says["last"] < BYTES - 64 * MIB:
        faults.append(f"the device's used memory does not fall: {nvml_says}")
    if device["nvml"]["outside_torch_bytes"] is None:
        faults.append("nothing is known of memory outside torch")
    if rank["readings"]["allocator"] is None or rank["readings"]["allocator"]["cost_ratio"] > 0.002:
        faults.append(f"the reading: {rank['readings']}")
    print(json.dumps({"outside_torch": device["nvml"]["outside_torch_bytes"], "readings": rank["readings"], "faults": faults}))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(check_report(sys.argv[1]) if len(sys.argv) > 1 else main())
