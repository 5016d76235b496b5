# SPDX-License-Identifier: Apache-2.0
"""alula watches LLM training on NVIDIA GPUs (`alula --help` is the program); this is what a job's own
code can use: GPU figures, a trainer's callback, marks of phases, and memory of calls (docs/python.md).

Importing it imports no framework and starts nothing. Without an NVIDIA driver, without torch, or outside of `alula run`
the parts that need them do nothing or answer None."""

from .callback import ResourceMonitorCallback
from .errors import AlulaError
from .marks import mark, phase
from .memory import conditional_empty_cache, watch_memory
from .tracker import GPUTracker

__version__ = "0.1.0"
__all__ = ["AlulaError", "GPUTracker", "ResourceMonitorCallback", "conditional_empty_cache", "mark", "phase",
           "watch_memory"]
