# SPDX-License-Identifier: Apache-2.0
"""torch's allocator and the GPU's own time of the phases. Only once the job itself has initialised CUDA. Nothing here
waits for the GPU, resets a counter or touches a stream that is being captured; both reads pace themselves so that they
cost at most SHARE of the time."""

import sys
from time import perf_counter_ns

from . import allocator, log, process, words

SHARE = 0.001      # each, so 0.2 % together
PENDING_MOST = 96  # pairs of events that the GPU has not reached
TOLD_AGAIN = 64    # readings after which figures that stand still are told again: a collector may have come later


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
        self.readings = 0
        self.told = {}      # device: [value of each figure]
        self.active = []    # devices with a context
        self.figures = allocator.figures(torch)
        self.tell_devices(probe)
        process.tell(probe, words.ALLOCATOR, allocator.describe(torch))

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
        from . import loop
        self.on = False
        self.open = None
        self.pending = []
        loop.set_gpu(None, None)
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
        """The figures of each device: the two that trends are made of always, the others when they have changed."""
        if self.readings % TOLD_AGAIN == 0:
            self.told = {}
            self.active = self.devices()
        self.readings += 1
        for device in self.active:
            values = allocator.read(self.stats(device), self.figures)
            told = self.told.get(device)
            for code, value in values:
                if told is None or code in allocator.ALWAYS or told.get(code) != value:
                    self.mark_probe(words.MEMORY, code, device, value, step)
            self.told[device] = dict(values)

    def step_ends(self):
        """Returns when the next call is worth its cost: until then neither this nor mark is called. 0: always."""
        if not self.on:
            return 0
        try:
            now = perf_counter_ns()
            if now < self.next_read and now < self.next_timed and not self.pending:
                self.timing = False
                return min(self.next_read, self.next_timed)
            if self.capturing():  # a query would spoil the capture
                return 0
            if self.pending:
                self.resolve()
            after = perf_counter_ns()
            if self.timing:
                self.spent += after - now
                self.next_timed = after + int(self.spent / SHARE)
                if self.spent:
                    self.mark_probe(words.COST, 1, -1, self.spent, self.steps())
                self.spent = 0
            self.timing = after >= self.next_timed
            if after >= self.next_read:
                self.read(self.steps())
                spent = perf_counter_ns() - after
                self.mark_probe(words.COST, 0, -1, spent, self.steps())
                self.next_read = after + spent + int(spent / SHARE)
        except Exception:
            self.off()
        return 0
