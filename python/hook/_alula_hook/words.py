# SPDX-License-Identifier: Apache-2.0
"""The numbers of src/model/event.h (a test compares them)."""

VERSION = 1  # of the records, in HELLO

HELLO, EPOCH, GPU_TIME, MEMORY, EXIT, COST, ANSWER, TOKENS = 1, 5, 6, 7, 8, 9, 12, 13
DATA, FORWARD, BACKWARD, OPTIMIZER, EVALUATION, SAVE, LOG, ROLLOUT = 1, 2, 3, 4, 5, 6, 7, 8
PHASES = ("other", "data", "forward", "backward", "optimizer", "evaluation", "save", "log", "rollout", "communication")
FRAMEWORK, OUTPUT_DIR, ERROR, WHERE, SOURCE, METRICS, ALLOCATOR, ANSWER_TEXT, MODEL, OPTIONS = range(10)
MEMORY_SUMMARY, EMPTY_CACHE = 1, 2
EXIT_NORMAL, EXIT_EXCEPTION, EXIT_SIGNAL = 0, 1, 2

# Allocator figures in the order of their codes, as paths into torch's nested statistics.
FIGURES = (
    ("allocated_bytes", "all", "current"), ("allocated_bytes", "all", "peak"),
    ("reserved_bytes", "all", "current"), ("reserved_bytes", "all", "peak"),
    ("active_bytes", "all", "current"), ("inactive_split_bytes", "all", "current"),
    ("segment", "all", "current"), ("num_alloc_retries",), ("num_ooms",),
    ("requested_bytes", "all", "current"), ("allocation", "all", "current"), ("allocation", "all", "allocated"),
    ("oversize_allocations", "current"), ("num_device_alloc",), ("num_device_free",),
)
