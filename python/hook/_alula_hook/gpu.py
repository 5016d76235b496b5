# SPDX-License-Identifier: Apache-2.0
"""torch's allocator and the GPU's own time of the phases. Only once the job itself has initialised CUDA. Nothing here
waits for the GPU, resets a counter or touches a stream that is being captured; both reads pace themselves so that they
cost at most SHARE of the time."""

import sys
from time import perf_counter_ns

from . import log, process, words

SHARE = 0.001      # each, so 0.2 % together
PENDING_MOST = 96  # pairs of events that the GPU has not reached


class Gpu:
    def __init__(self, probe):
        self.torch = torch = sys.modules["torch"]
        self.mark_probe = probe.mark
        self.steps = probe.steps
        self.stats = torch._C._cuda_memoryStats
        self.has_context = torch._C._cuda_hasPrimaryContext
        self.capturing = torch.cuda.is_current_stream_capturing
        self.next_read = 0
        self.free = []      # events to use again
        self.open = None    # (phase, event, device)
        self.pending = []   # (phase, step, first event, last event, device)
        self.timing = True  # this step's marks are timed
        self.next_timed = 0
        self.spent = 0      # ns that this step's marks cost
        self.on = True
        self.tell_devices(probe)

    def tell_devices(self, probe):
        parts = []
        for device in self.devices():
            uuid = getattr(self.torch.cuda.get_device_properties(device), "uuid", None)
            if uuid is not None:
                parts.append("device%d=GPU-%s" % (device, str(uuid).replace("GPU-", "")))
        process.devices = " ".join(parts)
        process.tell(probe, words.FRAMEWORK, process.framework())

    def devices(self):
        return [i for i in range(self.torch.cuda.device_count()) if self.has_context(i)]

    def off(self):
        self.on = False
        self.open = None
        self.pending = []
        log("no more figures of CUDA")

    def mark(self, ended, begun):
        """The loop went from one phase (0 none) to another."""
        if not self.timing or not self.on:
            return
        start = perf_counter_ns()
        try:
            if self.capturing():
                self.open = None
                self.timing = False
                return
            event = self.free.pop() if self.free else self.torch.cuda.Event(enable_timing=True)
            event.record()
            if self.open is not None and ended == self.open[0]:
                self.pending.append((ended, self.steps() + 1, self.open[1], event, self.open[2]))
            self.open = (begun, event, self.torch.cuda.current_device()) if begun else None
        except Exception:
            self.off()
        self.spent += perf_counter_ns() - start

    def resolve(self):
        """Hands over what the GPU has passed. The end of one phase may be the begin of the next: its event is used again
        only when both are through."""
        while self.pending:
            phase, step, first, last, device = self.pending[0]
            if not last.query():
                break
            self.mark_probe(words.GPU_TIME, phase, device, step, int(first.elapsed_time(last) * 1e6))
            del self.pending[0]
            self.free.append(first)
            follows = self.pending[0][2] if self.pending else self.open and self.open[1]
            if follows is not last:
                self.free.append(last)
        if len(self.pending) > PENDING_MOST:
            self.pending.clear()

    def read(self, step):
        for device in self.devices():
            stats = self.stats(device)
            for code, path in enumerate(words.FIGURES):
                value = stats
                for key in path:
                    value = value.get(key) if isinstance(value, dict) else None
                if isinstance(value, int):
                    self.mark_probe(words.MEMORY, code, device, value, step)

    def step_ends(self):
        if not self.on:
            return
        try:
            now = perf_counter_ns()
            if now < self.next_read and now < self.next_timed and not self.pending:
                self.timing = False
                return
            if self.capturing():  # a query would spoil the capture
                return
            if self.pending:
                self.resolve()
            after = perf_counter_ns()
            if self.timing:
                self.next_timed = after + int((self.spent + after - now) / SHARE)
                self.spent = 0
            self.timing = after >= self.next_timed
            if after >= self.next_read:
                self.read(self.steps())
                end = perf_counter_ns()
                self.next_read = end + int((end - after) / SHARE)
        except Exception:
            self.off()
