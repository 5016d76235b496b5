# SPDX-License-Identifier: Apache-2.0
"""The hook's reading of torch's CUDA allocator, and what it does on request, with a stand-in for torch.cuda."""

import importlib
import sys
import types

import pytest
from hook_collector import FIGURES, KINDS, ROOT, TEXTS

MIB = 1 << 20
DEFAULT = {"allocated_bytes": 100 * MIB, "reserved_bytes": 300 * MIB, "active_bytes": 110 * MIB, "inactive_split_bytes": 5 * MIB,
           "segment": 7, "requested_bytes": 90 * MIB, "allocation": 42}


class Stats:
    """torch._C._cuda_memoryStats: nested dictionaries of counts."""

    def __init__(self):
        self.current, self.retries, self.ooms = dict(DEFAULT), 0, 0

    def __call__(self, device):
        out = {name: {pool: {"current": value, "peak": value + MIB, "allocated": 2 * value, "freed": value}
                      for pool in ("all", "small_pool", "large_pool")} for name, value in self.current.items()}
        out.update(num_alloc_retries=self.retries, num_ooms=self.ooms, num_device_alloc=9, num_device_free=2,
                   oversize_allocations={"current": 1, "peak": 1, "allocated": 1, "freed": 0})
        return out


class Probe:
    """Takes down what the hook tells."""

    def __init__(self):
        self.marks, self.texts, self.bits, self.step = [], [], 0, 0

    def mark(self, kind, code, device, a, b):
        self.marks.append((KINDS[kind], code, device, a, b))

    def text(self, code, string):
        self.texts.append((TEXTS[code], string))

    def steps(self):
        return self.step

    def request(self):
        bits, self.bits = self.bits, 0
        return bits

    def memory(self):
        found = {FIGURES[code]: value for kind, code, device, value, _ in self.marks if kind == "MEMORY"}
        self.marks = []
        return found


class Torch(types.ModuleType):
    def __init__(self, backend="native"):
        super().__init__("torch")
        self.stats, self.capturing, self.reads = Stats(), False, 0
        self._C = types.SimpleNamespace(_cuda_memoryStats=self.read, _cuda_hasPrimaryContext=lambda i: i == 0)
        self.cuda = types.SimpleNamespace(
            _initialized=True, device_count=lambda: 8, current_device=lambda: 0, get_allocator_backend=lambda: backend,
            is_current_stream_capturing=lambda: self.capturing, get_device_properties=lambda i: types.SimpleNamespace(uuid="ab-cd"),
            memory_reserved=lambda i: self.stats.current["reserved_bytes"], empty_cache=self.empty_cache,
            memory_summary=lambda i: "|====\n| summary of device %d |\n" % i + "x" * 4000)
        self.version = types.SimpleNamespace(cuda="12.8")

    def read(self, device):
        self.reads += 1
        return self.stats(device)

    def empty_cache(self):
        assert not self.capturing
        self.stats.current["reserved_bytes"] = 120 * MIB


@pytest.fixture
def hook(monkeypatch):
    """hook(torch) -> the hook's package as a job with this torch has it."""
    monkeypatch.syspath_prepend(str(ROOT / "python" / "hook"))
    names = [name for name in sys.modules if name.startswith("_alula_hook")]
    for name in names:
        monkeypatch.delitem(sys.modules, name)

    def make(torch):
        monkeypatch.setitem(sys.modules, "torch", torch)
        return types.SimpleNamespace(**{name: importlib.import_module("_alula_hook." + name)
                                        for name in ("allocator", "gpu", "requests", "words")})

    yield make
    for name in [name for name in sys.modules if name.startswith("_alula_hook")]:
        del sys.modules[name]


def gpu_of(hook, torch, probe, clock=None):
    parts = hook(torch)
    if clock:
        parts.gpu.perf_counter_ns = clock
    gpu = parts.gpu.Gpu(probe)
    gpu.timing, gpu.next_timed = False, 1 << 62  # no CUDA events here
    return gpu, parts


def test_figures_of_the_native_allocator(hook):
    torch, probe = Torch(), Probe()
    gpu, _ = gpu_of(hook, torch, probe)
    gpu.step_ends()
    told = probe.memory()
    assert told["ALLOCATED"] == 100 * MIB and told["RESERVED"] == 300 * MIB and told["RESERVED_PEAK"] == 301 * MIB
    assert told["INACTIVE_SPLIT"] == 5 * MIB and told["SEGMENTS"] == 7 and told["RETRIES"] == 0
    assert told["ALLOCATIONS"] == 42 and told["ALLOCATIONS_MADE"] == 84 and told["OVERSIZE"] == 1
    assert told["REQUESTED"] == 90 * MIB and told["DEVICE_ALLOCATIONS"] == 9 and told["DEVICE_FREES"] == 2
    assert set(told) == set(FIGURES)


def test_only_what_changes_is_told_again(hook):
    torch, probe = Torch(), Probe()
    gpu, _ = gpu_of(hook, torch, probe)
    gpu.read(1)
    probe.memory()
    gpu.read(2)
    assert set(probe.memory()) == {"ALLOCATED", "RESERVED"}
    torch.stats.retries = 1
    gpu.read(3)
    assert set(probe.memory()) == {"ALLOCATED", "RESERVED", "RETRIES"}
    for step in range(4, 80):
        gpu.read(step)
    assert set(probe.memory()) == set(FIGURES)  # for a collector that came later


def test_the_other_backend_tells_what_it_knows(hook):
    torch, probe = Torch("cudaMallocAsync"), Probe()
    gpu, _ = gpu_of(hook, torch, probe)
    gpu.step_ends()
    assert set(probe.memory()) == {"ALLOCATED", "ALLOCATED_PEAK", "RESERVED", "RESERVED_PEAK", "ACTIVE"}
    assert ("ALLOCATOR", "backend=cudaMallocAsync") in probe.texts


def test_settings_by_both_names(hook, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True, max_split_size_mb:128")
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:False")
    torch, probe = Torch(), Probe()
    gpu_of(hook, torch, probe)
    assert ("ALLOCATOR", "backend=native PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128 "
                         "PYTORCH_ALLOC_CONF=expandable_segments:False") in probe.texts


def test_reading_costs_at_most_a_thousandth(hook):
    """Steps of 2 ms, a reading of 100 us: every 50th step or so, and what it cost is told."""
    torch, probe = Torch(), Probe()
    now = [0]

    def clock():
        return now[0]

    gpu, _ = gpu_of(hook, torch, probe, clock)
    slow = torch._C._cuda_memoryStats

    def read(device):
        now[0] += 100_000
        return slow(device)

    gpu.stats = read
    for step in range(1, 2001):
        probe.step = step
        now[0] += 2_000_000
        gpu.step_ends()
    costs = [mark for mark in probe.marks if mark[0] == "COST"]
    assert len(costs) == torch.reads and 35 <= torch.reads <= 40
    assert all(mark[1] == 0 and mark[3] == 100_000 for mark in costs)
    assert sum(mark[3] for mark in costs) / now[0] <= 0.0011


def test_nothing_is_read_while_a_stream_is_captured(hook):
    torch, probe = Torch(), Probe()
    gpu, _ = gpu_of(hook, torch, probe)
    torch.capturing = True
    gpu.step_ends()
    assert torch.reads == 0 and probe.marks == []


def answers(probe):
    return [mark[1:] for mark in probe.marks if mark[0] == "ANSWER"]


def test_requests(hook):
    torch, probe = Torch(), Probe()
    parts = hook(torch)
    probe.bits = 3
    parts.requests.answer(probe)
    (summary, device, _, _), (_, end, _, _), (empty, _, freed, took), _ = answers(probe)
    assert end == -2  # behind the last device
    assert (summary, empty, device, freed) == (1, 2, 0, 180 * MIB) and took > 0
    text = "".join(part for name, part in probe.texts if name == "ANSWER_TEXT")
    assert text.startswith("|====\n| summary of device 0 |\n") and text.endswith("x" * 4000)
    assert all(len(part) <= 1900 for _, part in probe.texts)
    parts.requests.answer(probe)
    assert len(answers(probe)) == 4  # each is done once


def test_a_request_waits_for_the_end_of_a_capture(hook):
    torch, probe = Torch(), Probe()
    parts = hook(torch)
    probe.bits, torch.capturing = 2, True
    parts.requests.answer(probe)
    assert probe.bits == 2 and not answers(probe)
    torch.capturing = False
    parts.requests.answer(probe)
    assert len(answers(probe)) == 2


def test_requests_without_cuda_and_with_a_fault(hook):
    torch, probe = Torch(), Probe()
    parts = hook(torch)
    torch.cuda._initialized = False
    probe.bits = 3
    parts.requests.answer(probe)
    assert answers(probe) == [(1, -1, -1, 0), (2, -1, -1, 0)]
    torch.cuda._initialized, probe.marks, probe.bits = True, [], 2
    torch.cuda.empty_cache = lambda: 1 / 0
    parts.requests.answer(probe)
    assert answers(probe) == [(2, -1, -1, 1)]


# --- the example: a tensor of 20000 x 20000 float32 is live, cached, released ---------------------------------------

SQUARE = 20000 * 20000 * 4  # 1.49 GiB
SEGMENT = (SQUARE + 2 * MIB - 1) // (2 * MIB) * 2 * MIB  # what the native allocator asks the driver for
GOLDEN = [("live", SQUARE, SEGMENT), ("cached", 0, SEGMENT), ("released", 0, 0)]


def test_live_cached_released(hook):
    torch, probe = Torch(), Probe()
    gpu, parts = gpu_of(hook, torch, probe)
    torch.stats.current.update(allocated_bytes=SQUARE, reserved_bytes=SEGMENT)
    seen = []
    for step, (stage, _, _) in enumerate(GOLDEN, 1):
        if stage == "cached":
            torch.stats.current["allocated_bytes"] = 0
        elif stage == "released":
            torch.cuda.empty_cache = lambda: torch.stats.current.update(reserved_bytes=0)
            probe.bits = parts.words.EMPTY_CACHE
            parts.requests.answer(probe)
            assert answers(probe)[0][2] == SEGMENT  # what came back
        probe.marks = []
        gpu.read(step)
        told = probe.memory()
        seen.append((stage, told["ALLOCATED"], told["RESERVED"]))
    assert seen == GOLDEN
    assert round(SQUARE / (1 << 30), 2) == 1.49
