# SPDX-License-Identifier: Apache-2.0
"""What users of other samplers reported, each as a small program: the test's number is that of the list of reports that the
project started from; which tool it was is in the first words. Those about finding a process are in test_launched.py."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from conftest import ALL, PROGRAMS, settle, started, version_of
from test_matrix import check_shapes, mixed

# One of each version.
each = pytest.mark.parametrize("name", sorted({version_of(name): name for name in ALL}.values(), key=version_of))
MINE = [name for name in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13") if name in ALL]
TOLD = """
import json, sys, time
def told():
    stack, frame = [], sys._getframe(1)
    while frame:
        stack.append([frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno])
        frame = frame.f_back
    print(json.dumps(stack), flush=True)
    print("ready", flush=True)
    time.sleep(600)
"""


def stack_of(thread):
    return [[f["file"], f["name"], f["line"]] for f in thread["frames"]]


def main_of(sample_):
    return next(t for t in sample_ if t["main"])


# 1, 2: py-spy stops each of a torch process's 159 threads for each sample.
BUSY_TORCH = """
import threading, torch
over = threading.Event()
for i in range(150):
    threading.Thread(target=over.wait, daemon=True).start()
torch.set_num_threads(4)
def step(w, x):
    return (x @ w).relu().sum().backward()
w = torch.randn(256, 256, requires_grad=True)
step(w, torch.randn(64, 256))
print("ready", flush=True)
while True:
    step(w, torch.randn(64, 256))
"""


def states(pid):
    """(state, pid of the tracer) of each thread."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            text = open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8").read()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        yield fields["State"].strip()[0], int(fields["TracerPid"])


def test_1_2_many_threads_of_torch_are_never_stopped(alula, tmp_path):
    pytest.importorskip("torch")
    with started([sys.executable], "-c", BUSY_TORCH) as child:
        assert len(os.listdir(f"/proc/{child.pid}/task")) > 150
        out = tmp_path / "out.folded"
        profile = subprocess.Popen([alula.path, "profile", "--duration", "3s", "-o", out, str(child.pid)])
        seen = set()
        while profile.poll() is None:
            seen |= set(states(child.pid))
            time.sleep(0.01)
        assert profile.returncode == 0
    assert {tracer for _, tracer in seen} == {0}
    assert not {state for state, _ in seen} & {"t", "T"}
    counts = [line.rpartition(" ") for line in out.read_text().splitlines()]
    assert sum(int(n) for stack, _, n in counts if "step (" in stack) > 0.5 * sum(int(n) for *_, n in counts)


def test_4_no_thread_weighs_more_than_the_time_that_passed(alula, tmp_path):
    """py-spy shows 1396 % for one of 111 threads."""
    code = ("import threading\ndef spin():\n    while True: pass\n"
            "for i in range(40): threading.Thread(target=spin, daemon=True).start()\nprint('ready', flush=True)\nspin()")
    out = tmp_path / "out.json"
    with started([sys.executable], "-c", code) as child:
        began = time.monotonic()
        alula("profile", "--duration", "2s", "--idle", "--format", "speedscope", "-o", out, child.pid)
        took = time.monotonic() - began
    profiles = json.loads(out.read_text())["profiles"]
    assert len(profiles) >= 41
    for one in profiles:
        assert sum(one["weights"]) <= took


def test_8_only_the_holder_of_the_gil_is_read(sample):
    """py-spy fetched all 271 threads for --gil: 3 samples in 10 s."""
    code = ("import threading\nover = threading.Event()\n"
            "for i in range(270): threading.Thread(target=over.wait, daemon=True).start()\nprint('ready', flush=True)\n"
            "def spin():\n    while True: pass\nspin()")
    with started([sys.executable], "-c", code) as child:
        settle(child.pid)
        samples, end, failed = sample(child.pid, samples=200, every_us=2000, what="gil")
    assert not failed
    walked = [t for threads in samples for t in threads if t["status"] != "left out"]
    assert len(walked) > 150 and all(t["frames"][0]["name"] == "spin" for t in walked if t["frames"])
    assert end["reads"] < 8 * 200  # system calls: the list of threads is one


@pytest.mark.parametrize("name", MINE)
def test_9_a_name_that_cannot_be_read_is_not_asked_for_each_time(name, sample):
    """py-spy looked the names up anew in each sample: 40 times its own cost."""
    code = ("import threading\nover = threading.Event()\n"
            "for i in range(60):\n    t = threading.Thread(target=over.wait, daemon=True)\n    t.start()\n    t._name = %s\n"
            "print('ready', flush=True)\nover.wait()")
    reads = []
    for names in ("'n'", "42"):
        with started(ALL[name], "-c", code % names) as child:
            settle(child.pid)
            _, end, failed = sample(child.pid, samples=300, every_us=1000)
        assert not failed
        reads.append(end["reads"])
    assert reads[1] < 3 * reads[0] + 60 * 10, reads


@each
def test_23_37_python_and_c_in_turns(name, sample):
    """OpenTelemetry's unwinder ended at None in f_executable, or after so many turns of native and Python."""
    code = TOLD + ("import functools\n"
                   "def down(n):\n    if n == 0:\n        told()\n    sorted([n], key=lambda v: down(v - 1))\n"
                   "def other(n):\n    list(map(down, [n]))\n"
                   "functools.reduce(lambda a, b: other(b), [0, 40])")
    with started(ALL[name], "-c", code) as child:
        settle(child.pid)
        samples, _, failed = sample(child.pid)
    assert not failed
    thread = main_of(samples[0])
    assert thread["status"] == "ok" and stack_of(thread)[1:] == child.said
    assert len(child.said) == 84 and sum(f["entry"] for f in thread["frames"]) >= 43


# 27, 28, 29, 32: CPython's own sampler spliced chains of generators and coroutines.
GENERATORS = """
import sys
def a_inner(n):
    for i in range(n):
        yield i
def a_outer(n):
    yield from a_inner(n)
def b_inner(n):
    for i in range(n):
        yield i
def b_outer(n):
    yield from b_inner(n)
async def a_core(n):
    if n:
        await a_core(n - 1)
async def b_core(n):
    if n:
        await b_core(n - 1)
def drive(c):
    try:
        c.send(None)
    except StopIteration:
        pass
def a_all():
    sum(a_outer(20)); drive(a_core(15))
def b_all():
    sum(b_outer(20)); drive(b_core(15))
print("ready", flush=True)
while True:
    a_all()
    b_all()
"""


@each
def test_27_28_29_32_generators_and_coroutines(name, sample):
    with started(ALL[name], "-c", GENERATORS) as child:
        samples, end, failed = sample(child.pid, samples=3000, every_us=100, what="")
    assert not failed
    good = [threads[0] for threads in samples if threads[0]["status"] == "ok" and threads[0]["frames"]]
    torn = sum(mixed(t["frames"], "a", "b") for t in good)
    print(f"{name}: {torn} torn, {end['unstable']} unstable of {end['threads']}")
    assert len(good) > 300 and torn <= 0.005 * len(good)
    assert {"a", "b"} <= {f["name"][0] for t in good for f in t["frames"]}


LONG = TOLD + """
lines = int(sys.argv[1])
source = "def long():\\n" + "    x = 1\\n" * lines + "    told()\\n" + "    x = 2\\n" * 10 + "long()\\n"
code = compile(source, "made.py", "exec")
inside = next(c for c in code.co_consts if hasattr(c, "co_code"))
table = getattr(inside, "co_linetable", None) or inside.co_lnotab
assert len(table) > int(sys.argv[2]), len(table)
exec(code)
"""


@each
def test_30_line_tables_of_more_than_4096_bytes(name, sample):
    """CPython's sampler left such functions out."""
    with started(ALL[name], "-c", LONG, 6000, 4096) as child:
        samples, _, failed = sample(child.pid)
    assert not failed
    assert stack_of(main_of(samples[0]))[1:] == child.said and child.said[0] == ["made.py", "long", 6002]


@pytest.mark.parametrize("name", [n for n in ("3.11", "3.13", "sid-3.14", "sid-3.15") if n in ALL])
def test_30_line_tables_of_more_than_a_mebibyte(name, sample):
    with started(ALL[name], "-c", LONG, 300000, 1 << 20) as child:
        samples, _, failed = sample(child.pid)
    assert not failed
    assert stack_of(main_of(samples[0]))[1:] == child.said and child.said[0] == ["made.py", "long", 300002]


DAMAGED = """
import ctypes, sys, threading, time
def word(at):
    return ctypes.c_uint64.from_address(at)
def bad():
    time.sleep(600)
def good():
    time.sleep(600)
own = ctypes.pythonapi.PyThreadState_Get
own.restype = ctypes.c_void_p
state = {}
def run(function):
    state[function.__name__] = own()
    function()
threads = [threading.Thread(target=run, args=(f,), daemon=True, name=f.__name__) for f in (bad, good)]
for t in threads:
    t.start()
while [sys._current_frames()[t.ident].f_code.co_name for t in threads] != ["bad", "good"]:
    time.sleep(0.01)
frame = sys._current_frames()[threads[0].ident]
%s
print("ready", flush=True)
time.sleep(600)
"""
# Where 3.8 to 3.13 keep a code object's names (x86-64 and aarch64).
NAME_AT = {name: 112 if version_of(name) < (3, 11) else 120 for name in MINE}


@pytest.mark.parametrize("name", MINE)
@pytest.mark.parametrize("what", ["name", "file"])
def test_31_one_string_that_cannot_be_read_costs_that_frame_alone(name, what, sample):
    """CPython's sampler lost the whole sample."""
    at = NAME_AT[name] - (8 if what == "file" else 0)
    with started(ALL[name], "-c", DAMAGED % f"word(id(frame.f_code) + {at}).value = 0x7fffdead0000") as child:
        samples, end, failed = sample(child.pid, samples=2, what="")
    assert not failed and end["degraded"] > 0
    threads = {tuple(f["name"] for f in t["frames"]): t for t in samples[0]}
    hurt = next(t for t in samples[0] if any(f["degraded"] for f in t["frames"]))
    assert hurt["status"] == "ok" and [f["degraded"] for f in hurt["frames"]].count(True) == 1
    assert [f["name"] for f in hurt["frames"]][1:4] == ["run", "run", "_bootstrap_inner"]
    assert ("good", "run", "run") in {names[:3] for names in threads}


def test_33_a_process_whose_threads_run_no_python(sample, alula, tmp_path):
    """CPython's sampler wrote a damaged file for an empty stack."""
    from test_finding import embedded
    source = ('#include <Python.h>\n#include <unistd.h>\n'
              'int main(void) { Py_Initialize(); PyEval_SaveThread(); puts("ready"); fflush(stdout); return sleep(600); }\n')
    app, env = embedded("3.11", tmp_path, "{home}/lib/libpython{version}.so", "-Wl,-rpath,{home}/lib", source=source)
    out = tmp_path / "out.json"
    with started([app], env=env) as child:
        samples, _, failed = sample(child.pid)
        done = alula("profile", "--duration", "0.3s", "--idle", "--format", "speedscope", "-o", out, child.pid)
    assert not failed and samples[0][0]["status"] == "empty" and samples[0][0]["frames"] == []
    assert done.returncode == 0 and json.loads(out.read_text())["profiles"] == []


# 36, 39: Austin stopped sampling at one thread that could not be read. Here its state leads to memory that is not there.
FRAME_AT = {name: {8: 24, 9: 24, 10: 24, 11: 56, 12: 56, 13: 72}[version_of(name)[1]] for name in MINE}


@pytest.mark.parametrize("name", MINE)
def test_36_39_one_unreadable_thread_does_not_stop_the_rest(name, sample):
    with started(ALL[name], "-c", DAMAGED % f"word(state['bad'] + {FRAME_AT[name]}).value = 0x7fffdead0000") as child:
        samples, end, failed = sample(child.pid, samples=5)
    assert not failed and len(samples) == 5
    for threads in samples:
        by_name = {t["name"]: t for t in threads}
        assert by_name["bad"]["status"] in ("unreadable", "unstable") and not by_name["bad"]["frames"]
        assert by_name["good"]["status"] == "ok" and by_name["good"]["frames"][0]["name"] == "good"
        assert by_name["MainThread"]["status"] == "ok"


@pytest.mark.parametrize("name", [n for n in ("3.8", "3.9", "3.10") if n in ALL])
@pytest.mark.parametrize("to", ["id(frame)", "id(frame.f_back)", "id(frame.f_back) + 1", "id(sys)", "8"])
def test_hostile_chains_end(name, to, sample):
    """A frame's caller is itself, part of a circle, no frame, or nowhere."""
    with started(ALL[name], "-c", DAMAGED % f"word(id(frame.f_back) + 24).value = {to}") as child:
        samples, _, failed = sample(child.pid, samples=3)
    assert not failed
    for threads in samples:
        by_name = {t["name"]: t for t in threads}
        assert by_name["bad"]["status"] in ("unreadable", "unstable") or by_name["bad"]["truncated"]
        assert by_name["good"]["frames"][0]["name"] == "good"


@pytest.mark.parametrize("name", MINE)
def test_a_circle_of_threads_ends(name, sample):
    with started(ALL[name], "-c", DAMAGED % "word(state['bad'] + 8).value = state['good']") as child:
        samples, _, failed = sample(child.pid)
    assert not failed and 2 <= len(samples[0]) <= 8


def test_40_a_killed_sampler_leaves_no_thread_stopped(alula):
    with started([sys.executable], PROGRAMS / "gil.py") as child:
        for words in (["profile", "-o", "/dev/null"], ["dump"]):
            for pause in (0.02, 0.1, 0.3):
                tool = subprocess.Popen([alula.path, *words, str(child.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(pause)
                tool.kill()
                tool.wait()
                assert all(tracer == 0 and state not in "tT" for state, tracer in states(child.pid))


def test_41_two_at_once(alula, tmp_path):
    """Austin's second attach to a process fails."""
    with started([sys.executable], PROGRAMS / "gil.py") as child:
        both = [subprocess.Popen([alula.path, "profile", "--duration", "1s", "-o", tmp_path / f"{i}.folded", str(child.pid)])
                for i in range(2)]
        dump = alula("dump", child.pid)
        assert [p.wait() for p in both] == [0, 0] and dump.returncode == 0
    for i in range(2):
        assert "spin" in (tmp_path / f"{i}.folded").read_text()


def test_44_a_stopped_process_stays_so(alula):
    """Attaching killed a suspended process."""
    with started([sys.executable], PROGRAMS / "gil.py") as child:
        os.kill(child.pid, signal.SIGSTOP)
        settle(child.pid)
        done = alula("dump", child.pid)
        assert done.returncode == 0 and "spin" in done.stdout
        assert {state for state, _ in states(child.pid)} == {"T"}
        os.kill(child.pid, signal.SIGCONT)
        settle(child.pid)
        assert {state for state, _ in states(child.pid)} <= {"R", "S"} and child.poll() is None


@each
def test_debugging_allocators(name, sample):
    check_shapes(name, sample, env={**os.environ, "PYTHONMALLOC": "debug"})


HUGE = TOLD + """
code = (lambda: told()).__code__
name, path = sys.argv[1:3]
def made(text, length):
    return text * length
code = code.replace(co_name=made("n\\u00e9", int(name)), co_filename=made("/\\u65e5", int(path)))
function = type(told)(code, globals())
json_dumps, json.dumps = json.dumps, lambda stack: json_dumps(None)
function()
"""


@pytest.mark.parametrize("name", [n for n in ("3.8", "3.11", "3.13", "sid-3.15", "manylinux-3.14t") if n in ALL])
@pytest.mark.parametrize("length", [0, 1, 400, 1000000])
def test_names_of_any_length(name, length, sample, alula):
    with started(ALL[name], "-c", HUGE, length, length) as child:
        samples, _, failed = sample(child.pid)
        dump = alula("dump", child.pid)
    assert not failed and dump.returncode == 0
    frame = main_of(samples[0])["frames"][1]
    for got, whole in (frame["name"], "n\u00e9" * length), (frame["file"], "/\u65e5" * length):
        assert len(got.encode()) < 4096 and whole.startswith(got) and (got == whole or len(got.encode()) > 1000)
    assert main_of(samples[0])["frames"][2]["name"] == "<module>"


CONTROL = TOLD + """
import threading
name = "a\\x1b[2Jb\\nc\\x07"
also = {"co_qualname": name} if hasattr(told.__code__, "co_qualname") else {}
code = (lambda: told()).__code__.replace(co_name=name, co_filename="/x\\r/\\x1b]0;y\\x07.py", **also)
threading.current_thread().name = "t\\x1b[31m\\nname"
json.dumps = lambda stack: "null"
type(told)(code, globals())()
"""


@pytest.mark.parametrize("name", [n for n in ("3.8", "3.11", "3.13", "sid-3.15") if n in ALL])
def test_names_do_not_steer_the_terminal(name, alula, tmp_path):
    out = tmp_path / "out.folded"
    with started(ALL[name], "-c", CONTROL) as child:
        dump = alula("dump", child.pid)
        alula("profile", "--idle", "--threads", "--duration", "0.3s", "-o", out, child.pid)
    for text in dump.stdout, out.read_text():
        assert "a?[2Jb?c?" in text and "t?[31m?name" in text
        assert not set(text) & {"\x1b", "\x07", "\r"}


def test_threads_are_renamed_while_they_run(sample):
    code = ("import sys, threading\nt = threading.current_thread()\nprint('ready', flush=True)\nfor line in sys.stdin:\n"
            "    t.name = line.strip()\n    print('renamed', flush=True)")
    with started([sys.executable], "-c", code, stdin=subprocess.PIPE) as child:
        names = []
        for i in range(4):
            child.stdin.write(f"phase {i}\n")
            child.stdin.flush()
            assert child.stdout.readline() == "renamed\n"
            samples, _, failed = sample(child.pid)
            assert not failed
            names.append(samples[0][0]["name"])
    assert names == [f"phase {i}" for i in range(4)]


def test_a_process_that_restarts_without_end(alula, tmp_path):
    """Each answer is stacks or one clear line, and what was sampled is kept."""
    path = tmp_path / "again.py"
    path.write_text("import os, sys, time\nprint('ready', flush=True)\nend = time.process_time() + 0.15\n"
                    "while time.process_time() < end: pass\nos.execv(sys.executable, [sys.executable, __file__])\n")
    out = tmp_path / "out.folded"
    with started([sys.executable], path) as child:
        drain = threading.Thread(target=child.stdout.read)
        drain.start()
        for _ in range(25):
            done = alula("dump", child.pid)
            assert done.returncode in (0, 1, 5, 6)
            assert done.returncode == 0 or len(done.stderr.splitlines()) == 1, done.stderr
        for _ in range(10):  # a moment between two programs is refused
            profile = alula("profile", "--duration", "2s", "-o", out, child.pid)
            assert profile.returncode in (0, 1, 5, 6), profile.stderr
            if out.exists():
                break
        child.kill()
        drain.join()
    assert "again.py" in out.read_text()
