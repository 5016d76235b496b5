# SPDX-License-Identifier: Apache-2.0
"""check_package.py: the Python package beside a real GPU and torch. PYTHONPATH names python/, ALULA_LIBRARY libalula.so.
Prints one JSON line; its exit status says whether all of it held."""

import json
import logging
import sys

GIB = 1 << 30


def main():
    import torch

    import alula
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    device = torch.cuda.current_device()
    uuid = "GPU-" + str(torch.cuda.get_device_properties(device).uuid).replace("GPU-", "")
    tracker = alula.GPUTracker(uuid)
    before = tracker.sample()["mem_used_gb"]

    @alula.watch_memory
    def take(n):
        return torch.empty(n, dtype=torch.uint8, device="cuda")

    kept, freed = take(2 * GIB), take(8 * GIB)
    record = tracker.sample()
    checks = {
        "the tracker's GPU": tracker.gpus[0].uuid == uuid,
        "allocated": record["pytorch_allocated_gb"] == round(torch.cuda.memory_allocated() / GIB, 2) == 10.0,
        "reserved": record["pytorch_reserved_gb"] == round(torch.cuda.memory_reserved() / GIB, 2) >= 10.0,
        "the driver saw it": record["mem_used_gb"] - before >= 9.9,
        "a call's change": take.memory.last.allocated == 8 * GIB and take.memory.calls == 2,
    }
    del freed
    checks["nothing to empty"] = alula.conditional_empty_cache(threshold_gb=9) == 0.0
    given = alula.conditional_empty_cache(threshold_gb=6)
    after = tracker.sample()
    checks["emptied"] = given >= 7.9 and record["mem_used_gb"] - after["mem_used_gb"] >= 7.9 and kept.numel() == 2 * GIB
    checks["not again at once"] = alula.conditional_empty_cache(threshold_gb=0) == 0.0
    callback = alula.ResourceMonitorCallback(1, say=print)
    callback._watch.begin("nowhere")
    callback._watch.step(1)
    logs = {"loss": 0.0}
    callback._watch.logs(logs)
    checks["logs"] = logs["alula/pytorch_allocated_gb"] == 2.0 and "alula/gpu_util_percent" in logs
    print(json.dumps({"checks": checks, "record": record, "after": after, "given_back_gb": given, "logs": logs}))
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
