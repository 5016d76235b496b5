# SPDX-License-Identifier: Apache-2.0
"""The probe as a file, and the start hook in interpreters without torch (a stub stands for it)."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from hook_collector import FIGURES, KINDS, PHASES, ROOT, TEXTS, Collector, python

pytestmark = pytest.mark.plain  # loads the probe into an interpreter that has no sanitizer

EXPORTS = ["alula_probe_attach", "alula_probe_detach", "alula_probe_forked", "alula_probe_mark", "alula_probe_python", "alula_probe_request",
           "alula_probe_state",
           "alula_probe_steps", "alula_probe_text", "alula_probe_turn"]
LOOKED_UP = ["InitializeInjection"] + ["ncclProfiler_v%d" % i for i in range(1, 7)]  # by the CUDA driver, by NCCL


@pytest.fixture(scope="session")
def probe(build):
    return build / "src" / "probe" / "libalula-probe.so"


@pytest.fixture
def collector(probe):
    with Collector(probe) as c:
        yield c


def interpreters():
    found = {}
    for minor in range(8, 15):
        name = "python3.%d" % minor
        for path in [shutil.which(name), *pathlib.Path.home().glob(".pyenv/versions/3.%d.*/bin/python" % minor)]:
            if path and subprocess.run([str(path), "-c", ""], capture_output=True, check=False).returncode == 0:
                found[name] = str(path)
    return found or {"python3": sys.executable}


INTERPRETERS = interpreters()


@pytest.fixture
def stub(tmp_path):
    """A folder with a package `torch` that has just what the hook touches."""
    folder = tmp_path / "stub"
    for name, text in {
        "torch/__init__.py": "__version__ = '0.stub'\ndef is_grad_enabled(): return True\nfrom . import autograd\n",
        "torch/autograd/__init__.py": "def backward(x):\n    'doc'\n    if x is None: raise ValueError('no graph')\n"
                                      "    return x * 2\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_file(probe):
    def tool(*command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    symbols = tool("nm", "-D", str(probe))
    assert sorted(re.findall(r" [TDBR] (\w+)", symbols)) == sorted(EXPORTS + LOOKED_UP)
    needed = re.findall(r"NEEDED.*\[(.*)\]", tool("readelf", "-d", str(probe)))
    assert set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", symbols)}
    assert max(versions) <= (2, 17)
    assert "NODELETE" in tool("readelf", "-d", str(probe))


def test_numbers():
    """words.py says what event.h says."""
    sys.path.insert(0, str(ROOT / "python" / "hook"))
    try:
        from _alula_hook import words
    finally:
        sys.path.pop(0)
    for name in ("HELLO", "EPOCH", "GPU_TIME", "MEMORY", "EXIT", "COST", "ANSWER", "TOKENS"):
        assert KINDS[getattr(words, name)] == name
    for name in ("DATA", "FORWARD", "BACKWARD", "OPTIMIZER", "EVALUATION", "SAVE", "LOG"):
        assert PHASES[getattr(words, name)] == name
    assert list(words.PHASES) == [name.lower() for name in PHASES]
    for name in TEXTS:
        assert name in ("COMMUNICATOR", "TRANSPORT") or TEXTS[getattr(words, name)] == name  # that one the NCCL plugin tells
    header = (ROOT / "src/model/event.h").read_text()
    keys = re.findall(r'X\(\w+, "([^"]+)"\)', header[header.index("AL_ALLOCATOR_FIGURES"):])[:len(FIGURES)]
    assert [".".join(path) for path in words.FIGURES] == keys


def test_interpreter_table():
    """probe.py hands over what python.h expects, in its order."""
    header = (ROOT / "src/probe/python.h").read_text()
    hook = (ROOT / "python/hook/_alula_hook/probe.py").read_text()
    functions = re.findall(r'X\(.*, "(\w+)"\)', header)
    table = hook[hook.index("FUNCTIONS = ("):hook.index("OBJECTS = (")]
    assert functions == re.findall(r'"(\w+)"', table) and len(functions) > 8
    objects = re.findall(r"X\((\w+)\)", header[header.index("define AL_PYTHON_OBJECTS"):header.index("struct al_python {")])
    python = re.sub(r"\s+", " ", hook[hook.index("OBJECTS = ("):hook.index("# Structs")])
    names = {"None": "none", "True": "yes", "False": "no", "Exception": "exception"}
    given = re.search(r"\((.*)\)", python).group(1).split(", ")
    given = [names.get(g, re.sub(r'sys.intern\("_?(\w+)"\)', r"name_\1", g)) for g in given]
    assert objects == given


CALLS = """
import torch, sys
assert torch.autograd.backward(21) == 42
assert torch.autograd.backward.__name__ == "backward" and torch.autograd.backward.__doc__ == "doc"
assert type(torch.autograd.__spec__.loader).__name__ == "SourceFileLoader"
assert "exec_module" not in vars(torch.autograd.__spec__.loader)
print(sys.path)
"""


@pytest.mark.parametrize("name", INTERPRETERS)
def test_interpreters(collector, stub, name):
    command = [INTERPRETERS[name], "-c", CALLS]
    plain = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(stub)}, capture_output=True, text=True,
                           check=True)
    collector.hook = os.pathsep.join([str(collector.hook), str(stub)])
    done = collector.run(command)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == plain.stdout, "sys.path is as it would be without the hook"
    [ring] = collector.rings
    assert [r.kind for r in ring.records] == ["HELLO", "TEXT", "TEXT", "PHASE_BEGIN", "PHASE_END", "EXIT"]
    assert ring.texts("FRAMEWORK") == ["torch=0.stub"]
    assert ring.line() == "B"
    assert (ring.of("EXIT")[0].code, ring.lost()) == (0, 0)
    assert collector.complaints() == ""


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_isolated(collector, stub, flag):
    """Interpreters that take no PYTHONPATH or no site are left alone."""
    code = "import sys; sys.path.insert(0, %r); import torch; torch.autograd.backward(1)" % str(stub)
    done = collector.run(python(code, flag))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not collector.rings


@pytest.mark.parametrize("name", INTERPRETERS)
@pytest.mark.parametrize("theirs, stdout, stderr", [
    ("print('theirs', __name__, __spec__.name, __file__.endswith('first/sitecustomize.py'))",
     "theirs sitecustomize sitecustomize True\nTrue\n", ""),
    ("import nowhere", "", "nowhere"),
    ("raise RuntimeError('broken')", "", "broken"),
])
def test_other_sitecustomize(collector, tmp_path, theirs, stdout, stderr, name):
    """It runs once, under its own name, and its errors are reported as always."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(theirs + "\n")
    code = "import sys; print('first' in sys.modules['sitecustomize'].__file__)" if stdout else ""
    command = [INTERPRETERS[name], "-c", code]
    alone = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tmp_path / "first")}, capture_output=True,
                           text=True, check=False)
    collector.hook = os.pathsep.join([str(collector.hook), str(tmp_path / "first")])
    done = collector.run(command)
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert done.stdout == stdout and stderr in done.stderr


def test_nothing_imported(collector):
    """An interpreter without torch gets a finder and no more: no new module but the hook itself, no connection."""
    code = "import sys; print(sorted(sys.modules))"
    alone = subprocess.run(python(code), capture_output=True, text=True, check=True)
    done = collector.run(python(code))
    new = set(re.findall(r"'([^']+)'", done.stdout)) - set(re.findall(r"'([^']+)'", alone.stdout))
    assert new <= {"_alula_hook", "sitecustomize"}
    assert not collector.rings


@pytest.mark.parametrize("env", [{"ALULA_SOCKET": "/nowhere/socket"}, {"ALULA_PROBE": "/nowhere/libalula-probe.so"},
                                 {"ALULA_SOCKET": ""}, {"ALULA_PROBE": ""}, {"ALULA_PROBE": "/etc/passwd"},
                                 {"ALULA_HOOK_LOG": "/nowhere/log"}])
def test_paths_that_lead_nowhere(collector, stub, env):
    """A job that enters a container, an alula that is gone: the job does not notice."""
    collector.hook = os.pathsep.join([str(collector.hook), str(stub)])
    done = collector.run(python("import torch; print(torch.autograd.backward(4))"), env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "8\n", "")


def test_exception(collector, stub):
    collector.hook = os.pathsep.join([str(collector.hook), str(stub)])
    code = "import torch\ndef train():\n    torch.autograd.backward(1)\n    torch.autograd.backward(None)\ntrain()\n"
    script = stub / "job.py"
    script.write_text(code)
    done = collector.run([sys.executable, script])
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: no graph\n")
    [ring] = collector.rings
    assert ring.texts("ERROR") == ["ValueError: no graph"]
    assert ring.texts("WHERE")[0].endswith("torch/autograd/__init__.py:3 backward")
    assert (ring.of("EXIT")[0].code, ring.of("EXIT")[0].a) == (1, 1)
    assert ring.spans()[-1][0] == "BACKWARD" and ring.spans()[-1][2] is None  # it shows where it was


def test_own_excepthook(collector, stub):
    collector.hook = os.pathsep.join([str(collector.hook), str(stub)])
    code = ("import torch, sys\nassert sys.excepthook is sys.__excepthook__\n"
            "sys.excepthook = lambda *a: print('mine', a[1])\ntorch.autograd.backward(1)\nraise KeyError('lost')")
    done = collector.run(python(code))
    assert (done.returncode, done.stdout, done.stderr) == (1, "mine 'lost'\n", "")
    assert collector.rings[0].texts("ERROR") == ["KeyError: 'lost'"]


def test_fork_exec_threads(collector, stub):
    collector.hook = os.pathsep.join([str(collector.hook), str(stub)])
    code = """
import os, subprocess, sys, threading, torch
torch.autograd.backward(1)
if os.fork() == 0:
    torch.autograd.backward(1)
    left = [os.readlink("/proc/self/fd/" + n) for n in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + n)]
    os._exit(any("alula-ring" in name for name in left))
assert os.wait()[1] == 0
thread = threading.Thread(target=torch.autograd.backward, args=(1,))
thread.start(), thread.join()
if len(sys.argv) == 1:
    subprocess.run([sys.executable, sys.argv[0], "child"], check=True)
torch.autograd.backward(1)
"""
    script = stub / "job.py"
    script.write_text(code)
    done = collector.run([sys.executable, script])
    assert (done.returncode, done.stderr) == (0, "")
    assert len(collector.rings) == 2  # itself and what it executed, not its fork children
    for ring in collector.rings:
        assert ring.line() == "BB"  # one thread drives the loop
        assert len(ring.of("EXIT")) == 1


def test_loop_in_threads(collector, stub):
    """A loop outside of the main thread, and a next one after its end."""
    collector.hook = os.pathsep.join([str(collector.hook), str(stub)])
    code = """
import threading, torch
for _ in range(3):
    thread = threading.Thread(target=torch.autograd.backward, args=(1,))
    thread.start()
    thread.join()
"""
    done = collector.run(python(code))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(collector.rings[0].of("PHASE_END")) == 3
