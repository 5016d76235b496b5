# SPDX-License-Identifier: Apache-2.0
"""What each tool would have to say of each fault, written down before any run: first the right cause, then what is only the
right class (something is lost there, but not what or why). Anything else is wrong; nothing at all is silent. A finding above
information on a healthy twin is a false alarm."""

from collections import namedtuple

Truth = namedtuple("Truth", "alula alula_class traceml traceml_class gpuprof gpuprof_class")

INPUT = ("data_wait",), (), ("INPUT_BOUND", "INPUT-BOUND"), (), ("loader", "data"), ()
RESIDUAL = ("RESIDUAL_HEAVY", "RESIDUAL-HEAVY")

TRUTH = {
    "slow_getitem": Truth(*INPUT),
    "slow_worker": Truth(*INPUT),
    "slow_disk": Truth(*INPUT),
    "tokenise_in_collate": Truth(*INPUT),
    "item_each_step": Truth(("synchronisation",), ("host_bound", "own_code"), ("SYNC",), RESIDUAL + ("COMPUTE_BOUND",), ("sync",), ("launch", "idle")),
    "small_kernels": Truth(("launch_bound",), ("host_bound",), ("LAUNCH",), RESIDUAL, ("launch", "small kernel"), ("idle",)),
    "checkpoint_inside": Truth(("save",), ("own_code", "between_steps"), ("CHECKPOINT",), RESIDUAL, ("checkpoint",), ("gap", "stall")),
    "checkpoint_between": Truth(("save",), ("between_steps",), ("CHECKPOINT",), RESIDUAL, ("checkpoint",), ("gap", "stall")),
    "logging_between": Truth(("log", "between_steps"), ("own_code",), ("LOGGING",), RESIDUAL, ("logging",), ("gap", "stall")),
    "host_leak": Truth(("host",), (), ("RSS", "HOST_MEMORY"), (), ("host memory", "rss"), ()),
    "gpu_leak": Truth(("allocated",), (), ("MEMORY_CREEP", "CREEP_CONFIRMED"), ("MEMORY_RISING", "CREEP_EARLY"), ("leak",), ("memory grow",)),
}
# Grows for a while and then is level: whoever speaks of a leak is wrong.
TWINS_ONLY = ("allocator_warmup",)
