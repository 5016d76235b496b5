# SPDX-License-Identifier: Apache-2.0
"""What a collector asked for (the ring's request word), done between two steps on the loop's own thread. Nothing is
done without CUDA but to say so."""

import sys
from time import perf_counter_ns

from . import log, words

PART = 1900  # bytes of one text
UNKNOWN = -1
END = -2  # as a device: the request is done on all of them


def _devices(torch):
    has_context = torch._C._cuda_hasPrimaryContext
    return [i for i in range(torch.cuda.device_count()) if has_context(i)]


def _tell_parts(probe, text):
    for at in range(0, len(text), PART):
        probe.text(words.ANSWER_TEXT, text[at:at + PART])


def _memory_summary(probe, torch):
    for device in _devices(torch):
        start = perf_counter_ns()
        _tell_parts(probe, torch.cuda.memory_summary(device))
        probe.mark(words.ANSWER, words.MEMORY_SUMMARY, device, 0, perf_counter_ns() - start)


def _empty_cache(probe, torch):
    """torch waits for the GPU in it: the time it takes is part of what it costs."""
    devices = _devices(torch)
    before = [torch.cuda.memory_reserved(device) for device in devices]
    start = perf_counter_ns()
    torch.cuda.empty_cache()
    took = perf_counter_ns() - start
    for device, reserved in zip(devices, before):
        after = torch.cuda.memory_reserved(device)
        probe.mark(words.ANSWER, words.EMPTY_CACHE, device, max(0, reserved - after), took)


WORK = ((words.MEMORY_SUMMARY, _memory_summary), (words.EMPTY_CACHE, _empty_cache))


def answer(probe):
    """Each bit gets its ANSWER, whatever happens: somebody waits for it. While the stream is being captured nothing may
    be done: the bits stay where they are until a later step."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not getattr(cuda, "_initialized", False):
        torch = None
    elif cuda.is_current_stream_capturing():
        return
    bits = probe.request()
    for bit, work in WORK:
        if not bits & bit:
            continue
        try:
            if torch is None:
                probe.mark(words.ANSWER, bit, -1, UNKNOWN, 0)
            else:
                work(probe, torch)
                probe.mark(words.ANSWER, bit, END, 0, 0)
        except Exception:
            log("cannot carry out request %d" % bit)
            probe.mark(words.ANSWER, bit, -1, UNKNOWN, 1)
