# SPDX-License-Identifier: Apache-2.0
"""Loops whose batches come from no DataLoader: with sys.monitoring (3.12 and newer) their fetches are seen, below that
the report says why not. A stub stands for torch, so that each interpreter that is there can be tried."""

import json
import os
import subprocess
import sys

import pytest
from hook_collector import Collector
from test_hook import INTERPRETERS

pytestmark = pytest.mark.plain

NEWER = [name for name in INTERPRETERS if int(name.split(".")[-1] if "." in name else 0) >= 12]
OLDER = [name for name in INTERPRETERS if name not in NEWER]

STUB = {
    "torch/__init__.py": "__version__ = '0.stub'\ndef is_grad_enabled(): return True\nfrom . import autograd, optim\n",
    "torch/autograd/__init__.py": "def backward(x):\n    pass\n",
    "torch/optim/__init__.py": "from . import optimizer\n",
    "torch/optim/optimizer.py": """
before, after = {}, {}
class Handle:
    def remove(self): before.clear(), after.clear()
def register_optimizer_step_pre_hook(hook): before[1] = hook; return Handle()
def register_optimizer_step_post_hook(hook): after[1] = hook; return Handle()
class Optimizer:
    param_groups = []
    def step(self):
        for hook in before.values(): hook(self, (), {})
        for hook in after.values(): hook(self, (), {})
"""}

HEAD = """
import sys, time, torch
optimizer = torch.optim.optimizer.Optimizer()
def step(x):
    time.sleep(0.002)
    torch.autograd.backward(x)
    optimizer.step()
def batches(n, wait=0.004):
    for i in range(n):
        time.sleep(wait)
        yield i
"""


@pytest.fixture
def run(build, tmp_path):
    for name, text in STUB.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    collectors = []

    def run(name, code):
        script = tmp_path / "job.py"
        script.write_text(HEAD + code)
        collector = Collector(build / "src" / "probe" / "libalula-probe.so").__enter__()
        collectors.append(collector)
        collector.hook = os.pathsep.join([str(collector.hook), str(tmp_path)])
        done = collector.run([INTERPRETERS[name], script])
        assert (done.returncode, done.stderr) == (0, "")
        assert collector.complaints() == ""
        return collector.rings[0], done.stdout

    yield run
    for collector in collectors:
        collector.__exit__()


FOR = """
def train():
    for x in batches(8):
        y = x
        step(y)
    time.sleep(0.05)
train()
"""
NEXT = """
def train():
    it = batches(8)
    for _ in range(8):
        x = next(it)
        len([x])
        step(x)
train()
"""
UNTIL = """
it = batches(8)
while True:
    try:
        x = next(it)
    except StopIteration:
        break
    step(x)
time.sleep(0.05)
"""
ACCUMULATED = """
def train():
    for epoch in range(4):
        for i, x in enumerate(batches(4)):
            torch.autograd.backward(x)
            if i % 2:
                optimizer.step()
train()
"""
KNOWN = ["BO|BO|" + "DFBO|" * 6 + "D", "BO|BO|" + "DFBO|" * 6, "BO|BO|" + "DFBO|" * 6 + "D",
         "BBO|BBO|D" + "DFB-DFBO|DFB-DFBO|D" * 3]


@pytest.mark.skipif(not NEWER, reason="no Python with sys.monitoring")
@pytest.mark.parametrize("name", NEWER)
@pytest.mark.parametrize("code, line", list(zip([FOR, NEXT, UNTIL, ACCUMULATED], KNOWN)), ids=["for", "next", "until", "accumulated"])
def test_fetches_are_seen(run, name, code, line):
    """From the third step on: the first two show that there is no loader."""
    ring, _ = run(name, code)
    assert ring.line() == line
    waits = [end - begin for phase, begin, end, _ in ring.spans() if phase == "DATA" and end]
    assert sum(waits) >= 6 * 0.004e9 and len(waits) >= 6
    assert max(waits) < 0.05e9, "what follows the loop is no fetch"
    if code is not ACCUMULATED:
        assert ring.seconds("FORWARD") >= 6 * 0.002
    assert "data=exact forward=inferred" in ring.texts("SOURCE")[-1]


@pytest.mark.skipif(not NEWER, reason="no Python with sys.monitoring")
@pytest.mark.parametrize("name", NEWER)
def test_one_loop_behind_the_other(run, name):
    """In one code object, and then in another; of each the first steps are not seen."""
    ring, _ = run(name, """
for x in batches(4):
    y = x
    step(y)
z = 1
for x in batches(5):
    y = x
    step(y)
z = 2
""" + FOR)
    # The fetch that ended the loop before is one of the first step's.
    assert ring.line() == "BO|BO|DFBO|DFBO|D" + "BO|BO|BO|DFBO|DFBO|D" + "BO|BO|BO|" + "DFBO|" * 5 + "D"


@pytest.mark.skipif(not NEWER, reason="no Python with sys.monitoring")
@pytest.mark.parametrize("name", NEWER)
def test_other_tools_are_unaffected(run, name):
    """A coverage tool with lines of the same code, globally, sees each of them each time; the number that is used is
    given back, and functions that nobody watches keep their instructions."""
    ring, out = run(name, """
seen = []
monitoring = sys.monitoring
monitoring.use_tool_id(monitoring.COVERAGE_ID, "cover")
monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, lambda code, line: seen.append((code.co_name, line)))
monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)
""" + FOR + """
monitoring.set_events(monitoring.COVERAGE_ID, 0)
from _alula_hook import monitor
used = monitor.tool
first = train.__code__.co_firstlineno
print([sum(1 for name, line in seen if name == "train" and line == first + i) for i in (1, 2, 3, 4)])
print(used, monitoring.get_tool(used), monitoring.get_local_events(used, step.__code__), bool(monitoring.get_local_events(used, train.__code__)))
monitor.end()
print(monitoring.get_tool(used), monitoring.get_tool(monitoring.COVERAGE_ID))
""")
    assert out.splitlines() == ["[9, 8, 8, 1]", "4 alula 0 True", "None cover"]
    assert ring.line() == KNOWN[0]


@pytest.mark.parametrize("name", OLDER + NEWER)
def test_what_cannot_be_known_is_said(run, name):
    """Batches that are computed in the loop; below 3.12 all that come from no loader."""
    ring, _ = run(name, "for i in range(6):\n    step(i)\n")
    assert ring.line() == "BO|" * 6
    source = ring.texts("SOURCE")[-1]
    assert "data=none forward=none backward=exact" in source and "; batches come from no DataLoader" in source
    if name in OLDER:
        ring, _ = run(name, FOR)
        assert "3.12" in ring.texts("SOURCE")[-1] and ring.line() == "BO|" * 8


def test_the_report_says_so(run, alula_bin, tmp_path):
    """Confidence of each part; where the loop's iterator is not seen, null with the reason, and no verdict on waiting. And
    --nvtx reaches the job."""
    script = tmp_path / "job.py"
    script.write_text(HEAD + "import os\nfor i in range(60):\n    time.sleep(0.06)\n    step(i)\nprint(os.environ.get('ALULA_NVTX'))\n")
    done = subprocess.run([alula_bin, "run", "--nvtx", "--quiet", "--no-record", "--output-dir", tmp_path / "out", "--",
                           sys.executable, script], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.stdout == "1\n"
    report = json.loads((tmp_path / "out" / "metrics_report.json").read_text())
    assert report["data_loading_time_ratio"] is None
    assert "no DataLoader" in report["alula"]["figures"]["data_loading_time_ratio"]["reason"]
    timeline = report["alula"]["ranks"][0]["host_timeline"]
    assert timeline["part_confidence"] == {"data": "none", "forward": "none", "backward": "exact", "optimizer": "exact",
                                           "evaluation": "inferred"}
    assert "no DataLoader" in timeline["part_unknown_because"]
    [verdict] = [v for v in report["alula"]["verdicts"] if v["rule"] == "data_wait"]
    assert verdict["verdict"] == "cannot tell" and "no DataLoader" in verdict["message"]
