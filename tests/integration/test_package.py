# SPDX-License-Identifier: Apache-2.0
"""The Python package alula: the tracker, marks, memory of calls; on the stand-in driver and under every interpreter here.
The callback is in test_package_callback.py."""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import time

import pytest
from hook_collector import PHASES, Collector
from interpreters import IDS, PATHS
from test_lib import KEYS, SCENE

pytestmark = pytest.mark.plain

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python" / "alula"


@pytest.fixture
def env(standin, build, tmp_path):
    """The package, libalula of this build, and the stand-in driver."""
    scene = tmp_path / "scene.txt"
    scene.write_text(SCENE)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ALULA_", "CUDA_"))}
    return {**clean, "ALULA_SCENARIO": str(scene), "LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": str(standin.parent),
            "PYTHONPATH": str(PACKAGE.parent), "ALULA_LIBRARY": str(build / "src/lib/libalula.so.0")}


@pytest.fixture
def python(env):
    def run(code, *args, interpreter=sys.executable, status=0, **more):
        done = subprocess.run([interpreter, "-c", textwrap.dedent(code), *map(str, args)], env={**env, **more},
                              capture_output=True, encoding="utf-8", timeout=120, check=False)
        assert done.returncode == status, done.stderr
        return done
    return run


# A torch whose CUDA is a table, for what needs no more of it.
TORCH = """
import sys, types
class Table:
    def __init__(self): self.allocated, self.reserved, self.emptied, self.gives = {0: 0, 1: 0}, {0: 0, 1: 0}, 0, 1.0
    def is_initialized(self): return True
    def device_count(self): return 2
    def current_device(self): return 0
    def memory_allocated(self, i): return self.allocated[i]
    def memory_reserved(self, i): return self.reserved[i]
    def get_device_properties(self, i):
        return types.SimpleNamespace(uuid=["11111111-0000-0000-0000-000000000000", "00000000-aaaa-bbbb-cccc-dddddddddddd"][i])
    def is_current_stream_capturing(self): return False
    def empty_cache(self):
        self.emptied += 1
        for i in self.reserved: self.reserved[i] -= int((self.reserved[i] - self.allocated[i]) * self.gives)
cuda = Table()
sys.modules["torch"], sys.modules["torch.cuda"] = types.SimpleNamespace(cuda=cuda), cuda
GB = 1 << 30
"""


def test_python_3_8_reads_every_file():
    for path in sorted(PACKAGE.rglob("*.py")):
        ast.parse(path.read_text(), str(path), feature_version=(3, 8))
    assert (PACKAGE / "py.typed").exists()


def test_every_function_is_typed():
    """What py.typed promises."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                arguments = node.args
                named = [*arguments.args, *arguments.kwonlyargs, *filter(None, (arguments.vararg, arguments.kwarg))]
                untyped = [a.arg for a in named if a.annotation is None and a.arg not in ("self", "cls")]
                assert node.returns is not None and not untyped, (path.name, node.name, untyped)


@pytest.mark.parametrize("interpreter", PATHS, ids=IDS)
def test_import_alone(python, interpreter):
    """By every interpreter here: no framework, no thread, no library of alula's; and the pieces work."""
    done = python("""
        import sys, threading
        import alula
        print([name for name in ("torch", "transformers", "numpy", "swift", "tqdm") if name in sys.modules],
              threading.active_count(), "libalula" in open("/proc/self/maps").read())
        with alula.phase("rollout"):
            alula.mark("epoch")
        print(list(alula.GPUTracker().sample()), alula.conditional_empty_cache())
        @alula.watch_memory(must_give_back=True)
        def f(x): return x + 1
        print(f(1), f.memory.calls, f.memory.last.allocated)
        """, interpreter=interpreter)
    assert done.stdout == f"[] 1 False\n{KEYS} 0.0\n2 1 None\n" and done.stderr == ""


def test_the_version_and_the_probes_numbers(root):
    """The package's copies are those of the C side."""
    sys.path.insert(0, str(PACKAGE.parent))
    try:
        import alula
        from alula import marks, native
    finally:
        sys.path.remove(str(PACKAGE.parent))
    assert f"version: '{alula.__version__}'" in (root / "meson.build").read_text()
    assert [name.upper() for name in marks.PHASES] == PHASES
    header = (root / "include/alula/alula.h").read_text()
    assert f"ALULA_E_AGAIN = {native.AGAIN}," in header and f"ALULA_E_TIMEOUT = {native.TIMEOUT}," in header
    metrics = re.findall(r"ALULA_([A-Z_]+) = \d", re.search(r"enum alula_metric \{(.*?)\}", header, re.S).group(1))
    from alula.tracker import METRICS
    assert [name.upper() for name in METRICS] == metrics


# ---- GPUTracker ----

def test_sample(python):
    """S23, S26: the documents' call and keys, with their decimals; null for what is not known."""
    before = time.time()
    done = python("""
        import json, alula
        tracker = alula.GPUTracker(device_index=0, window_size=120)
        print(json.dumps(tracker.sample()))
        with alula.GPUTracker("0,2") as both:
            for record in both.sample_all(): print(json.dumps(record))
            print([gpu.gpu_id for gpu in both.gpus], both.gpus[0].uuid, both.gpus[0].name)
        """)
    one, first, second, gpus = done.stdout.splitlines()
    record = json.loads(one)
    assert list(record) == KEYS
    assert before - 1 <= record.pop("timestamp") <= time.time() + 1
    assert record == {"gpu_id": 0, "gpu_util_percent": 97, "mem_used_gb": 108.2, "mem_total_gb": 140.4,
                      "mem_usage_ratio": 0.771, "pytorch_allocated_gb": None, "pytorch_reserved_gb": None}
    assert json.loads(first)["mem_used_gb"] == 108.2
    assert json.loads(second)["gpu_id"] == 2 and json.loads(second)["mem_used_gb"] is None
    assert gpus == "[0, 2] GPU-00000000-aaaa-bbbb-cccc-dddddddddddd NVIDIA H200"


def test_own_torch(python):
    """The process's own allocator, of the device that has the GPU's UUID, whatever torch numbers it."""
    done = python(TORCH + """
import json, alula
cuda.allocated[1], cuda.reserved[1] = int(1.254 * GB), int(2.5 * GB)
print(json.dumps(alula.GPUTracker().sample()))
print(json.dumps(alula.GPUTracker(1).sample()))
""")
    first, other = map(json.loads, done.stdout.splitlines())
    assert (first["pytorch_allocated_gb"], first["pytorch_reserved_gb"]) == (1.25, 2.5)
    assert other["pytorch_allocated_gb"] is None  # this process does not use it


def test_windows(python):
    done = python("""
        import json, alula
        t = alula.GPUTracker()
        print(t.window("mem_used_gb"), t.quantile(0.5), t.history())
        for _ in range(3): t.sample()
        w = t.window("mem_used_gb")
        print(json.dumps([w.readings, w.last, w.mean, w.peak, w.min, t.quantile(0.95, "power_watts"), len(t.history("mem_used_gb"))]))
        for wrong in (lambda: t.window("nothing"), lambda: t.window("power_watts", 1), lambda: t.quantile(2)):
            try: wrong()
            except ValueError as error: print(error)
        t.close()
        try: t.sample()
        except alula.AlulaError as error: print(error)
        """)
    empty, figures, *errors = done.stdout.splitlines()
    assert empty == "None None []"
    count, last, mean, peak, least, power, history = json.loads(figures)
    assert 1 <= count <= 3 and history == count
    assert last == mean == peak == least == 110796 / 1024 and power == pytest.approx(655.999)
    assert errors == ["no metric 'nothing': one of gpu_util_percent, mem_used_gb, mem_usage_ratio, power_watts, temperature_celsius",
                      "device must lie between 0 and 0", "q must lie between 0 and 1", "this GPUTracker is closed"]


@pytest.mark.parametrize("call, error", [
    ("GPUTracker(7)", r"AlulaError: no (such GPU: 7|GPU matches \"7\")"), ("GPUTracker('?,')", "AlulaError: expected indices.*"),
    ("GPUTracker(-1)", "ValueError: device_index must be .*"), ("GPUTracker(True)", "ValueError: device_index must be .*"),
    ("GPUTracker(0, 1)", "ValueError: window_size must be .*"), ("GPUTracker(0, '9')", "ValueError: window_size must be .*")])
def test_wrong_trackers(python, call, error):
    done = python(f"""
        import alula
        try: alula.{call}
        except Exception as error: print(type(error).__name__ + ": " + str(error))
        """)
    assert re.fullmatch(error, done.stdout.strip()), done.stdout


def test_in_a_fork_child_and_in_threads(python):
    done = python("""
        import os, threading, alula
        t = alula.GPUTracker()
        if os.fork() == 0:
            try: t.sample()
            except alula.AlulaError as error: print(error, flush=True)
            t.close()
            os._exit(0)
        os.wait()
        got = []
        threads = [threading.Thread(target=lambda: got.extend(t.sample()["mem_used_gb"] for _ in range(20))) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(got), set(got))
        """)
    assert done.stdout == "the tracker was made before fork(): make one in the child\n80 {108.2}\n"


def test_without_driver_and_without_library(python, tmp_path):
    code = """
        import alula
        try: alula.GPUTracker()
        except alula.AlulaError as error: print(error)
        """
    assert "libnvidia-ml.so.1" in python(code, LD_LIBRARY_PATH=str(tmp_path)).stdout
    assert re.match(r"libalula.so was not found: install alula, or name the file in ALULA_LIBRARY; tried: /nowhere \(",
                    python(code, ALULA_LIBRARY="/nowhere").stdout)


def test_the_library_beside_the_program(python, env, build, tmp_path):
    """Installed with a prefix that the loader does not know; the console script on PATH is passed over."""
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/alula").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "venv/alula").chmod(0o755)
    for name, target in (("bin/alula", build / "src/cli/alula"), ("lib/libalula.so.0", build / "src/lib/libalula.so.0")):
        path = tmp_path / "prefix" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(target.read_bytes())
        path.chmod(0o755)
    del env["ALULA_LIBRARY"]
    done = python("import alula; print(alula.GPUTracker().sample()['gpu_id']); from alula import _place; print(_place.program())",
                  PATH=f"{tmp_path}/venv:{tmp_path}/prefix/bin")
    assert done.stdout == f"0\n{tmp_path}/prefix/bin/alula\n"


def test_python_m_alula(env, alula_bin, tmp_path):
    """Runs the program: arguments and exit status are its own."""
    path = {**env, "PATH": f"{alula_bin.parent}:{os.environ['PATH']}"}
    run = lambda *args, **more: subprocess.run([sys.executable, "-m", *args], env={**path, **more}, capture_output=True, text=True,  # noqa: E731
                                               timeout=30, check=False)
    assert run("alula", "--version").stdout == subprocess.run([alula_bin, "--version"], capture_output=True, text=True,
                                                              check=True).stdout
    assert run("alula", "nothing-of-the-kind").returncode == 2
    none = run("alula", "--version", PATH=str(tmp_path))
    assert none.returncode == 127 and none.stderr.startswith("alula: the program is not here") and none.stderr.count("\n") == 1
    plugin = run("alula.plugin").stdout.strip()
    assert plugin.endswith("alula_swift_plugin.py") and len(os.listdir(os.path.dirname(plugin))) <= 2  # __pycache__


# ---- marks ----

def test_unknown_names(python):
    done = python("""
        import alula
        for wrong in (lambda: alula.phase("generate"), lambda: alula.mark("rollout")):
            try: wrong()
            except ValueError as error: print(error)
        """)
    assert done.stdout.splitlines() == [
        "no phase 'generate': one of other, data, forward, backward, optimizer, evaluation, save, log, rollout, communication",
        "no mark 'rollout': one of epoch, step; parts of the loop are alula.phase(...)"]


def test_marks_cost_nothing_outside(python):
    """Below 1 µs each, by the least of many rounds."""
    done = python("""
        import timeit, alula
        def p():
            with alula.phase("rollout"): pass
        for f in (p, lambda: alula.mark("epoch")):
            print(min(timeit.repeat(f, number=10000, repeat=20)) / 10000)
        """)
    assert all(float(line) < 1e-6 for line in done.stdout.split()), done.stdout


@pytest.fixture
def watched(build, tmp_path, env):
    """watched(code) runs it with the hook; returns (its ring or None, stdout)."""
    def run(code, rings=1):
        script = tmp_path / "job.py"
        script.write_text(textwrap.dedent(code))
        with Collector(build / "src" / "probe" / "libalula-probe.so") as collector:
            path = os.pathsep.join([str(collector.hook), str(PACKAGE.parent)])
            done = collector.run([sys.executable, script], env={"PYTHONPATH": path})
            assert done.returncode == 0, done.stderr
            assert collector.complaints() == "" and len(collector.rings) == rings
            ring = collector.rings[0] if rings else None
            return ring, done.stdout
    return run


LOOP = """
import torch, alula
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(16, 8), torch.randn(16, 1)), batch_size=8)
def step(x, y):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
"""


def test_marks_in_a_loop_of_torch(watched):
    """Epochs by the job's word alone; a phase of the job's between what the hook sees by itself, whose steps stay."""
    ring, _ = watched(LOOP + """
@alula.phase("evaluation")
def evaluate():
    with torch.no_grad(): return [model(x) for x, y in loader]
for epoch in range(2):
    alula.mark("epoch", 5 + epoch)
    with alula.phase("rollout"):
        model(torch.zeros(1, 8))
    for x, y in loader:
        step(x, y)
        alula.mark("step")  # which is counted already
    evaluate()
""")
    assert ring.line() == "eRDDFBO|DFBO|DE" * 2
    assert [r.a for r in ring.of("EPOCH")] == [5, 6]
    assert len(ring.steps()) == 4


def test_exact_parts(watched):
    """data, forward, backward and optimizer as the job says them; the optimizer's step inside of its phase is a step."""
    ring, _ = watched(LOOP + """
for i in range(2):
    with alula.phase("data"): x, y = torch.randn(8, 8), torch.randn(8, 1)
    with alula.phase("forward"): loss = ((model(x) - y) ** 2).mean()
    with alula.phase("backward"): loss.backward()
    with alula.phase("optimizer"):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
try:
    with alula.phase("forward"): raise KeyError()
except KeyError: pass
with alula.phase("save"): pass
with alula.phase("communication"): pass
with alula.phase("other"): pass
""")
    assert ring.line() == "DFBO|DFBO|FSCO"
    assert all(end for _, _, end, _ in ring.spans())


COMPILED = """
import warnings, torch, alula
warnings.simplefilter("error")
def f(x):
    with alula.phase("rollout"): y = x * 2
    alula.mark("epoch")
    return y + 1
print(torch.compile(f, backend="eager", fullgraph=%r)(torch.ones(2)).tolist())
@alula.watch_memory
def g(x): return x * 3
print(torch.compile(g, backend="eager")(torch.ones(2)).tolist(), g.memory.calls)
"""


def test_in_compiled_functions(watched, python):
    """Outside of alula they are part of the graph; inside they break it, without a warning."""
    assert python(COMPILED % True).stdout == "[3.0, 3.0]\n[3.0, 3.0] 1\n"
    ring, out = watched("import torch.optim\n" + COMPILED % False)
    assert out == "[3.0, 3.0]\n[3.0, 3.0] 1\n"
    assert ring.line() == "Re"


def test_without_torch(watched):
    """Another framework's loop: phases, epochs and steps are told by the library alone."""
    ring, out = watched("""
import os, sys, threading, alula
with alula.phase("data"): pass
for i in range(2):
    alula.mark("epoch")
    with alula.phase("forward"):
        with alula.phase("communication"): pass
    alula.mark("step", samples=32)
def other():
    with alula.phase("save"): pass
thread = threading.Thread(target=other); thread.start(); thread.join()
if os.fork() == 0:
    with alula.phase("save"): pass
    os._exit(0)
os.wait()
print("torch" in sys.modules)
""")
    assert out == "False\n"
    assert ring.line() == "DeFC|eFC|"
    assert [(r.a, r.b) for r in ring.steps()] == [(1, 32), (2, 32)]
    assert [r.a for r in ring.of("EPOCH")] == [0, 1]
    assert len(ring.of("HELLO")) == 1
    assert all(end for _, _, end, _ in ring.spans())


def test_marks_in_a_report(alula_bin, tmp_path, env):
    """From `alula run` to the report."""
    script = tmp_path / "job.py"
    script.write_text("import time, alula\nfor i in range(5):\n    with alula.phase('rollout'): time.sleep(0.02)\n"
                      "    with alula.phase('forward'): time.sleep(0.01)\n    alula.mark('step', samples=4)\n")
    subprocess.run([alula_bin, "run", "--quiet", "--output-dir", tmp_path / "out", "--", sys.executable, script], env=env,
                   check=True, timeout=60)
    report = json.loads((tmp_path / "out/metrics_report.json").read_text())
    rank, = report["alula"]["ranks"]
    assert (rank["steps"], rank["samples"]) == (5, 20)
    assert rank["host_timeline"]["seconds"]["rollout"] > rank["host_timeline"]["seconds"]["forward"] > 0.03


def test_marks_under_attach(alula_bin, tmp_path, env):
    """Before alula comes and after it has gone they do nothing; in between they are told."""
    from test_attach_torch import LOOP as LONG, Job, report_of
    code = LONG.replace("import torch\n", "import torch, alula\n", 1).replace(
        "        time.sleep(WORK)\n", "        with alula.phase('rollout'): time.sleep(WORK)\n")
    job = Job(tmp_path, code, 0, 0.02, env=env)
    try:
        subprocess.run([alula_bin, "attach", "--for", "2s", "--output-dir", tmp_path / "out", str(job.pid)], check=True, timeout=60,
                       capture_output=True)
    finally:
        out = job.ends()
    assert "same" in out
    rank, = report_of(tmp_path / "out")["alula"]["ranks"]
    assert rank["steps"] > 20 and rank["host_timeline"]["seconds"]["rollout"] > 0.5


# ---- memory of calls ----

def test_deltas_of_a_call(python):
    done = python(TORCH + """
import asyncio, logging, alula
logging.basicConfig(level=logging.INFO, format="%(message)s")
kept = []
@alula.watch_memory
def load(n):
    "Loads."
    kept.append(bytearray(n)); cuda.allocated[0] += 3 << 20; cuda.reserved[0] += 20 << 20
    return n
@alula.watch_memory
async def answer(): return 7
@alula.watch_memory
def broken(): raise KeyError("mine")
with alula.watch_memory() as block: kept.append(bytearray(64 << 20))
print(block.last.anonymous >= 60 << 20, block.name)
print(load(64 << 20), load.__name__, load.__doc__, load.memory.last.anonymous >= 60 << 20,
      load.memory.last.allocated, load.memory.last.reserved, load.memory.calls, load.memory.warnings)
print(asyncio.run(answer()), answer.memory.calls)
try: broken()
except KeyError as error: print(error, broken.memory.calls)
""")
    assert done.stdout == f"True <string>:32\n{64 << 20} load Loads. True {3 << 20} {20 << 20} 1 []\n7 1\n'mine' 1\n"
    assert re.search(r"^alula: load: anonymous \+6\d\.\d MB, allocated \+3\.0 MB, reserved \+20\.0 MB$", done.stderr, re.M)


def test_requests_that_give_nothing_back(python):
    """A warning with numbers where the floor rises, once for each further tolerance; none where memory comes and goes, or
    only the first requests take some."""
    done = python(TORCH + """
import alula
state = {"calls": 0, "kept": 0}
@alula.watch_memory(must_give_back=True, calls=8)
def request(leak, warm=0):
    state["calls"] += 1
    state["kept"] += leak
    swing = state["calls"] % 7 * GB  # what others have in flight
    cuda.allocated[0] = state["kept"] + swing
    cuda.reserved[0] = 8 * GB
for _ in range(200): request(0)
print(request.memory.warnings)
for _ in range(8): request(64 << 20)
for _ in range(100): request(0)
print(request.memory.warnings)
for _ in range(80): request(4 << 20)
print(len(request.memory.warnings))
print(request.memory.warnings[0])
""")
    quiet, jump, count, line = done.stdout.splitlines()
    assert quiet == jump == "[]"
    assert 1 <= int(count) <= 8
    assert re.fullmatch(r"alula: WARNING: request does not give back its memory: memory in torch's tensors was at least "
                        r"\S+ \wB and is at least \S+ \wB 24 calls later \(\d\.\d MB a call\)", line), line
    assert done.stderr.splitlines()[0] == line


def test_requests_that_keep_host_memory(python):
    done = python("""
        import alula
        kept = []
        @alula.watch_memory(must_give_back=True, calls=4, tolerance_mb=8)
        def request(): kept.append(bytearray(1 << 20))
        for _ in range(40): request()
        print(request.memory.warnings[0])
        """)
    assert "private host memory was at least" in done.stdout and "12 calls later (1.0 MB a call)" in done.stdout


def test_wrong_options_of_watch_memory(python):
    done = python("""
        import alula
        for more in ({"calls": 0}, {"tolerance_mb": -1}):
            try: alula.watch_memory(**more)
            except ValueError as error: print(error)
        try: alula.conditional_empty_cache(-1)
        except ValueError as error: print(error)
        """)
    assert done.stdout.splitlines() == ["calls must be a number of calls from 1", "tolerance_mb must not be negative",
                                        "threshold_gb and min_interval_s must not be negative"]


def test_conditional_empty_cache(python):
    """S154, S155: above the threshold, once in the interval, twice as seldom where it gave nothing; the line says it."""
    done = python(TORCH + """
import time, alula
now = [1000.0]
time.monotonic = lambda: now[0]
cuda.allocated[0], cuda.reserved[0] = 2 * GB, 7 * GB
print(alula.conditional_empty_cache(threshold_gb=6), cuda.emptied)      # 5 GB unused
cuda.reserved[0] = 10 * GB
print(alula.conditional_empty_cache(threshold_gb=6), cuda.emptied)      # 8 GB
cuda.reserved[0] = 10 * GB
print(alula.conditional_empty_cache(threshold_gb=6), cuda.emptied)      # too soon
now[0] += 61; cuda.gives = 0.01
print(round(alula.conditional_empty_cache(), 2), cuda.emptied)
now[0] += 61; print(alula.conditional_empty_cache(), cuda.emptied)      # twice as seldom now
now[0] += 61; print(alula.conditional_empty_cache() > 0, cuda.emptied)
cuda.is_current_stream_capturing = lambda: True
now[0] += 1000; print(alula.conditional_empty_cache(), cuda.emptied)
cuda.is_initialized = lambda: False
print(alula.conditional_empty_cache(), cuda.emptied)
""")
    assert done.stdout.splitlines() == ["0.0 0", "8.0 1", "0.0 1", "0.08 2", "0.0 2", "True 3", "0.0 3", "0.0 3"]
    assert done.stderr.splitlines()[0] == ("alula: WARNING: torch's cache held 8.00 GB that no tensor used, more than 6.00 GB: "
                                           "emptied, 8.00 GB came back in 0 ms")
    assert done.stderr.count("\n") == 3
