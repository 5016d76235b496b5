# SPDX-License-Identifier: Apache-2.0
"""What torch's CUDA allocator is, and its figures out of torch's nested statistics."""

import os

from . import words

ALWAYS = (0, 2)  # allocated and reserved: their lowest values over the steps are what trends are made of

# The names of the variable of its settings, in the order in which torch looks at them.
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")

# cudaMallocAsync leaves every other figure at 0, which is not what they are.
ASYNC = ("allocated_bytes", "reserved_bytes", "active_bytes")


def backend(torch):
    try:
        return str(torch.cuda.get_allocator_backend())
    except Exception:  # before torch 2.0
        return "native"


def figures(torch):
    """[(code, path)] of what this backend tells."""
    native = backend(torch) != "cudaMallocAsync"
    return [(code, path) for code, path in enumerate(words.FIGURES) if native or path[0] in ASYNC]


def describe(torch):
    """"backend=native PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True": nothing else of the environment is told."""
    parts = ["backend=%s" % backend(torch)]
    for name in VARIABLES:
        value = os.environ.get(name)
        if value:
            parts.append("%s=%s" % (name, "".join(value.split())[:120]))
    return " ".join(parts)


def read(stats, wanted):
    """[(code, value)]; what this torch does not know is left out."""
    out = []
    for code, path in wanted:
        value = stats
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int):
            out.append((code, value))
    return out
