# SPDX-License-Identifier: Apache-2.0
"""The hook with a stand-in for CUDA in the real start hook and loop: NVTX ranges, captured graphs, peaks."""

import json
import os
import sys

import pytest
from hook_collector import Collector
from test_hook_iterators import STUB

pytestmark = pytest.mark.plain

CUDA = {
    "torch/__init__.py": """
__version__ = '0.stub'
import types
calls, queries = [], []
capturing = False
def is_grad_enabled(): return True
def stats(device): return {"allocated_bytes": {"all": {"current": 5, "peak": 9}}, "num_ooms": 0}
_C = types.SimpleNamespace(_cuda_memoryStats=stats, _cuda_hasPrimaryContext=lambda device: device == 0,
                           _nvtx=types.SimpleNamespace(rangePushA=lambda name: calls.append(name), rangePop=lambda: calls.append("pop")))
class Event:
    def __init__(self, enable_timing): self.at = None
    def record(self):
        assert not capturing, "an event in a graph"
        self.at = True
        queries.append("record")
    def query(self):
        assert not capturing, "a query spoils the capture"
        return True
    def elapsed_time(self, other): return 1.5
def forbidden(*args): raise AssertionError("the hook's business in no case")
cuda = types.SimpleNamespace(_initialized=False, Event=Event, device_count=lambda: 1, current_device=lambda: 0,
                             is_current_stream_capturing=lambda: capturing, synchronize=forbidden, empty_cache=forbidden,
                             reset_peak_memory_stats=forbidden, reset_max_memory_allocated=forbidden,
                             get_device_properties=lambda device: types.SimpleNamespace(uuid="GPU-0"))
from . import autograd, optim
"""}

HEAD = """
import json, sys, time, torch
optimizer = torch.optim.optimizer.Optimizer()
def steps(count, pause=0):
    for x in [0] * count:
        time.sleep(pause)
        torch.autograd.backward(x)
        optimizer.step()
"""


@pytest.fixture
def run(build, tmp_path):
    for name, text in {**STUB, **CUDA}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    collectors = []

    def run(code, **env):
        script = tmp_path / "job.py"
        script.write_text(HEAD + code)
        collector = Collector(build / "src" / "probe" / "libalula-probe.so").__enter__()
        collectors.append(collector)
        collector.hook = os.pathsep.join([str(collector.hook), str(tmp_path)])
        done = collector.run([sys.executable, script], env=env)
        assert (done.returncode, done.stderr) == (0, "")
        assert collector.complaints() == ""
        return collector.rings[0], json.loads(done.stdout)

    yield run
    for collector in collectors:
        collector.__exit__()


RANGES = """
steps(2)
before = list(torch.calls)
torch.cuda._initialized = True
steps(3)
print(json.dumps([before, torch.calls]))
"""


def test_nvtx_ranges(run):
    """None before the job has CUDA, then one a phase, and as many ends as begins."""
    _, (before, calls) = run(RANGES, ALULA_NVTX="1")
    assert before == []
    assert calls == ["alula:backward", "pop", "alula:optimizer", "pop"] * 2, "the step that showed CUDA was not ranged"


def test_no_ranges_unless_asked(run):
    assert run(RANGES)[1] == [[], []]


def test_no_event_is_recorded_and_nothing_queried_while_capturing(run):
    """The stand-in's events and queries fail in a capture, and what resets or waits fails always. Marks go on."""
    ring, recorded = run("""
torch.cuda._initialized = True
steps(4, 0.1)
torch.capturing = True
torch.queries.clear()
steps(4)
in_capture = len(torch.queries)
torch.capturing = False
steps(40, 0.02)
print(json.dumps(in_capture))
""")
    assert recorded == 0
    assert len(ring.steps()) == 48
    assert ring.of("MEMORY") and ring.of("GPU_TIME")
    times = ring.of("GPU_TIME")
    assert all(r.b == 1500000 for r in times) and not any(5 <= r.a <= 8 for r in times)
