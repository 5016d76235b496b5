# SPDX-License-Identifier: Apache-2.0
"""alula dump and alula profile with native frames (--native), and with threads stopped for their samples (--blocking)."""

import ctypes.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

from interpreters import ALL, IDS, PATHS
from procs import NOBODY, settle
from test_dump import dumped, line_of, running
from test_profile import folded, near, profiled, shares

needs_libdw = pytest.mark.skipif(not ctypes.util.find_library("dw"), reason="libdw (elfutils) is not installed")

# Threads that wait and that run in C, and C functions that call Python back.
PROGRAM = """
import functools, hashlib, re, sys, threading, time, zlib

LOCK = threading.Lock()
LOCK.acquire()

def sleeps():
    time.sleep(1000)

def locked():
    LOCK.acquire()

def hashes():
    data = b"x" * (1 << 24)
    while True:
        hashlib.sha256(data).hexdigest()

def zips():
    data = bytes(range(256)) * 8000
    while True:
        zlib.compress(data, 6)

def key(x):
    time.sleep(0.5)
    return x

def sorts():
    while True:
        sorted([3, 1, 2], key=key)

def reduces():
    while True:
        functools.reduce(lambda a, b: key(a), [1, 2, 3])

def substitutes():
    while True:
        re.sub("a", lambda m: key("b"), "aaaa")

def generate():
    for i in range(1000):
        yield key(i)

def generates():
    while True:
        list(map(str, generate()))

for work in (sleeps, locked, hashes, zips, sorts, reduces, substitutes, generates):
    threading.Thread(target=work, name=work.__name__, daemon=True).start()
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "native.py"
    path.write_text(PROGRAM)
    return path


def native(thread):
    return [frame["symbol"] for frame in thread["frames"] if frame["kind"] == "native"]


def inner_native(thread):
    """Innermost frames up to the first of Python."""
    found = []
    for frame in thread["frames"]:
        if frame["kind"] != "native":
            break
        found.append(frame)
    return found


def python(thread):
    return [frame["function"] for frame in thread["frames"] if frame["kind"] == "python"]


def in_zlib(threads):
    return any("libz" in frame["object"] or "deflate" in frame["symbol"] for frame in inner_native(threads["zips"]))


def in_hash(threads):
    return any("crypto" in frame["object"] or "sha" in frame["symbol"].lower() for frame in inner_native(threads["hashes"]))


def settled(alula, pid, *options):
    """Threads by name, in a dump in which all are merged and those that run are in C: they also take the GIL and memory."""
    for _ in range(20):
        (found,) = dumped(alula, "--native", *options, pid)
        threads = {thread["name"]: thread for thread in found["threads"]}
        if all(thread["native"] == "merged" for thread in threads.values()) and in_zlib(threads) and in_hash(threads):
            return threads
        time.sleep(0.1)
    return threads


@needs_libdw
@pytest.mark.parametrize("options", [[], ["--blocking"]], ids=["nonblocking", "blocking"])
@pytest.mark.parametrize("interpreter", PATHS, ids=IDS)
def test_native_frames_of_all_kinds_of_threads(alula, program, interpreter, options):
    with running(interpreter, program) as process:
        settle(process.pid)
        threads = settled(alula, process.pid, *options)
    how = {name: thread["native"] for name, thread in threads.items()}
    assert set(how.values()) == {"merged"}, how
    for name in ("sleeps", "sorts", "reduces", "substitutes", "generates"):
        assert any("nanosleep" in frame["symbol"] or "select" in frame["symbol"] for frame in inner_native(threads[name])), threads[name]
    assert any("read" in frame["symbol"] for frame in inner_native(threads["MainThread"]))
    assert in_zlib(threads) and in_hash(threads)
    assert inner_native(threads["locked"])
    # Python's frames are all there, in their order.
    assert python(threads["sorts"])[:2] == ["key", "sorts"] and python(threads["substitutes"])[:2] == ["key", "<lambda>"]
    assert python(threads["reduces"])[:3] == ["key", "<lambda>", "reduces"]
    assert python(threads["generates"])[:3] == ["key", "generate", "generates"]
    for thread in threads.values():
        assert thread["status"] == "ok"
        assert not [name for name in native(thread) if name.startswith(("_Py", "Py_", "PyObject_", "PyEval_"))]
        assert native(thread).count("start_thread") == 0


@needs_libdw
def test_text_and_the_interpreters_own(alula, program, tmp_path):
    with running("/usr/bin/python3", program) as process:
        settle(process.pid)
        text = alula("dump", "--native", process.pid).stdout
        every = settled(alula, process.pid, "--native-all")
        plain = alula("dump", "--json", process.pid).stdout
        at = line_of(program, "time.sleep(1000)")
    assert "nanosleep (libc" in text and f"{program}:{at} sleeps\n" in text
    block = text.split('"sleeps"')[1].split("thread")[0].splitlines()
    assert block[1].startswith("    native ") and "sleeps" in block[2]
    assert any("_PyEval" in name or "Py" in name for name in native(every["sleeps"]))
    assert '"native": null' in plain and '"kind": "native"' not in plain


@pytest.mark.parametrize("interpreter", PATHS, ids=IDS)
def test_blocking_alone_has_python_frames_and_lets_all_go_on(alula, program, interpreter):
    with running(interpreter, program) as process:
        settle(process.pid)
        (found,) = dumped(alula, "--blocking", process.pid)
        threads = {thread["name"]: thread for thread in found["threads"]}
        states = [stat.read_text().rpartition(")")[2].split()[0] for stat in pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat")]
    assert all(thread["status"] == "ok" and not native(thread) for thread in threads.values())
    assert python(threads["hashes"])[0] == "hashes" and python(threads["sorts"])[:2] == ["key", "sorts"]
    assert set(states) <= {"R", "S"}


# Three parts whose times the program takes itself; two of them are spent in C libraries.
SHARES = """
import hashlib, sys, time, zlib

DATA = bytes(range(256)) * 4000

def zipping():
    zlib.compress(DATA, 6)

def hashing():
    for _ in range(12):
        hashlib.sha256(DATA).digest()

def python():
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        pass

times, cpu = [0, 0, 0], [0, 0, 0]
print(flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for i, part in enumerate((zipping, hashing, python)):
        began, worked = time.perf_counter(), time.thread_time()
        part()
        times[i] += time.perf_counter() - began
        cpu[i] += time.thread_time() - worked
print(*(t / sum(all) for all in (times, cpu) for t in all), flush=True)
"""


def is_zlib(frame):
    return "(libz" in frame or "zlib." in frame or "deflate" in frame


def is_crypto(frame):
    return "libcrypto" in frame or "_hashlib." in frame or "(_sha" in frame


def profiled_shares(alula, tmp_path, interpreter, *options):
    """Stacks, the figures at the end, and the truth, by the wall's clock and by CPU time: of so long a time that there are enough
    stacks to tell shares, on a busy machine too."""
    program, out = tmp_path / "shares.py", tmp_path / "out.folded"
    program.write_text(SHARES)
    for seconds in (4, 8, 16):
        with running(interpreter, program, seconds, patience=20) as process:
            said = profiled(alula, process.pid, "-o", out, "--duration", "60s", *options)
            truth = [float(word) for word in process.stdout.readline().split()]
        if sum(count for _, count in folded(out)) > 200:
            break
    return folded(out), said, dict(zip(("zipping", "hashing", "python"), zip(truth[:3], truth[3:], strict=True), strict=True))


@needs_libdw
@pytest.mark.parametrize("interpreter,options", [*((path, []) for path in PATHS), (PATHS[0], ["--blocking"]), (PATHS[-1], ["--blocking"])],
                         ids=[*IDS, IDS[0] + "-blocking", IDS[-1] + "-blocking"])
def test_shares_of_native_functions(alula, tmp_path, interpreter, options):
    stacks, said, truth = profiled_shares(alula, tmp_path, interpreter, "--native", *options)
    found, total = shares(stacks), sum(count for _, count in stacks)
    for name, (wall, cpu) in truth.items():
        assert near(found[name], wall, 0.1, cpu), (found, truth)
    # No stack has a library under the wrong function: that would be two moments in one.
    torn = sum(count for frames, count in stacks
               if any(is_zlib(f) for f in frames) and any(f.startswith(("hashing", "python")) for f in frames)
               or any(is_crypto(f) for f in frames) and any(f.startswith(("zipping", "python")) for f in frames))
    assert torn / total < 0.005
    in_libraries = sum(count for frames, count in stacks if any(is_zlib(f) or is_crypto(f) for f in frames)) / total
    merged, part, absent, moved = map(float, re.search(
        r"stacks ([\d.]+) % with native frames, ([\d.]+) % from the innermost .* ([\d.]+) % without a picture, ([\d.]+) % that did not fit",
        said).groups())
    assert merged + part + absent + moved == pytest.approx(100, abs=0.3)
    assert merged > (70 if options else 15), said  # a machine that is busy with others has no picture for each sample
    # Of those that are merged, nearly all of both parts are in the libraries.
    assert in_libraries > sum(min(truth[name]) for name in ("zipping", "hashing")) * merged / 100 - 0.2


@needs_libdw
def test_idle_threads_have_native_frames_too(alula, program, tmp_path):
    out = tmp_path / "out.folded"
    with running("/usr/bin/python3", program) as process:
        settle(process.pid)
        profiled(alula, process.pid, "-o", out, "-d", "2s", "--native", "--idle")
    sleeping = [(frames, count) for frames, count in folded(out) if any(f.startswith("sleeps (") for f in frames)]
    good = sum(count for frames, count in sleeping if "nanosleep (libc" in frames[-1])
    assert good / sum(count for _, count in sleeping) > 0.95


RELOADS = """
import _ctypes, ctypes, sys
print(flush=True)
def first(call): call(1 << 23)
def second(call): call(1 << 23)
while True:
    for name, use in ("first", first), ("second", second):
        library = ctypes.CDLL(f"{sys.argv[1]}/{name}.so")
        use(getattr(library, f"in_{name}"))
        _ctypes.dlclose(library._handle)
"""


@needs_libdw
@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")
def test_libraries_in_turns_at_one_address(alula, tmp_path):
    """One that is loaded where another was has its own names from its first sample on."""
    program, out = tmp_path / "reloads.py", tmp_path / "out.folded"
    program.write_text(RELOADS)
    for name in ("first", "second"):
        (tmp_path / f"{name}.c").write_text(f"void in_{name}(int n) {{ for (volatile int i = 0; i < n; i++) ; }}\n")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", tmp_path / f"{name}.so", tmp_path / f"{name}.c"], check=True)
    seen = {"right": 0, "wrong": 0}
    with running("/usr/bin/python3", program, tmp_path) as process:
        for _ in range(6):  # a busy machine has few pictures
            profiled(alula, process.pid, "-o", out, "--native", "-d", "3s")
            for frames, count in folded(out):
                text = ";".join(frames)
                within, name = re.search(r"(first|second) \(/", text), re.search(r"in_(first|second) \(", text)
                if within and name:
                    seen["right" if within[1] == name[1] else "wrong"] += count
            if sum(seen.values()) >= 50:
                break
    # One that was unloaded between its picture and the look at it is an accident; without that look it is every other one.
    assert seen["right"] >= 10 and seen["wrong"] <= seen["right"] / 10, seen


# Native code that runs with much of its stack used by a buffer, as LAPACK's does; what was never written to is not there to be copied.
BUFFERS = """
#define SPIN(name, size) void name(void) { volatile char room[size]; for (int i = 0; i < size; i++) room[i] = 1; \\
    for (long i = 0; room[0]; i++) room[i % 64] = 1; }
SPIN(spins_above_45000, 45000)
SPIN(spins_above_200000, 200000)
"""


@needs_libdw
@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")
def test_large_buffers_on_the_stack(alula, tmp_path):
    """Pictures of a running thread grow when they end before Python; what is beyond the largest is said, and not that it moved."""
    (tmp_path / "buffers.c").write_text(BUFFERS)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", tmp_path / "buffers.so", tmp_path / "buffers.c"], check=True)
    program, out = tmp_path / "buffers.py", tmp_path / "out.folded"
    program.write_text(f"import ctypes, sys, threading\nlibrary = ctypes.CDLL({str(tmp_path / 'buffers.so')!r})\n"
                       "for size in (45000, 200000):\n    name = f'spins_above_{size}'\n"
                       "    threading.Thread(target=getattr(library, name), name=name, daemon=True).start()\n"
                       "print(flush=True)\nsys.stdin.read()\n")
    with running("/usr/bin/python3", program) as process:
        for _ in range(20):
            (found,) = dumped(alula, "--native", process.pid)
            threads = {thread["name"]: thread for thread in found["threads"]}
            if threads["spins_above_45000"]["native"] == "merged":
                break
        profiled(alula, process.pid, "-o", out, "--native", "-d", "3s")
        text = alula("dump", "--native", process.pid).stdout
        for _ in range(20):  # one that gets no processor does not stop
            (found,) = dumped(alula, "--native", "--blocking", process.pid)
            stopped = {thread["name"]: thread for thread in found["threads"]}["spins_above_200000"]
            if stopped["native"] != "absent":
                break
    small, large = threads["spins_above_45000"], threads["spins_above_200000"]
    assert small["native"] == "merged" and native(small)[0] == "spins_above_45000" and python(small)[0] == "run"
    assert large["native"] in ("unfit", "absent") and not native(large) and python(large)[0] == "run"
    assert "moved between the two readings" not in text
    assert any("spins_above_45000 (buffers.so)" in frame for frames, _ in folded(out) for frame in frames)
    assert stopped["native"] == "part" and native(stopped)[0] == "spins_above_200000" and python(stopped)[0] == "run"


@needs_libdw
def test_perf_trampolines_are_the_interpreters_own(alula, program):
    """python -X perf puts a piece of code below each Python frame: a second name for it, shown with the interpreter's own alone."""
    paths = [path for (version, path) in ALL if version >= (3, 12)]
    if not paths:
        pytest.skip("no Python 3.12 or newer here")
    with running(paths[-1], "-X", "perf", program) as process:
        try:
            time.sleep(0.3)
            plain, every = settled(alula, process.pid)["sorts"], settled(alula, process.pid, "--native-all")["sorts"]
        finally:
            pathlib.Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)
    assert plain["native"] == every["native"] == "merged"
    assert not [name for name in native(plain) if name.startswith("py::")] and python(plain)[:2] == ["key", "sorts"]
    kinds = [frame.get("function") or frame["symbol"].split(":")[2] for frame in every["frames"]
             if frame["kind"] == "python" or frame["symbol"].startswith("py::")]
    assert kinds[:4] == ["key", "key", "sorts", "sorts"], every


# Runs a command in which perf_event_open answers EPERM, as in a container: a seccomp filter of four instructions.
FORBID = """
import ctypes, os, struct, sys
number = {"x86_64": 298, "aarch64": 241}[os.uname().machine]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(program)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, head, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""


@needs_libdw
def test_where_perf_is_forbidden(program, tmp_path):
    """What forbids it is said, waiting threads have their native frames still, and --blocking has all."""
    def forbidden(*args):
        return subprocess.run([sys.executable, "-c", FORBID, os.environ["ALULA_BIN"], *map(str, args)], capture_output=True, text=True,
                              timeout=60, check=False)
    with running("/usr/bin/python3", program) as process:
        settle(process.pid)
        got = forbidden("dump", "--native", "--json", process.pid)
        stopped = forbidden("dump", "--native", "--blocking", "--json", process.pid)
        profile = forbidden("profile", "--native", "-d", "1s", "-o", tmp_path / "out.folded", process.pid)
    assert got.returncode == 0
    assert got.stderr.count("\n") == 1 and "a seccomp filter forbids perf_event_open" in got.stderr and "--blocking" in got.stderr
    threads = {thread["name"]: thread for thread in json.loads(got.stdout)["processes"][0]["threads"]}
    assert threads["sleeps"]["native"] == "merged" and inner_native(threads["sleeps"])
    assert threads["hashes"]["native"] in ("absent", "merged", "unfit") and python(threads["hashes"])[0] == "hashes"
    assert stopped.returncode == 0 and stopped.stderr == ""
    threads = {thread["name"]: thread for thread in json.loads(stopped.stdout)["processes"][0]["threads"]}
    assert threads["hashes"]["native"] == threads["zips"]["native"] == "merged"
    assert profile.returncode == 0 and profile.stderr.count("a seccomp filter") == 1 and "without a picture" in profile.stderr
    assert shares(folded(tmp_path / "out.folded"))["hashes"] > 0.1  # Python frames are all there


@needs_libdw
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_without_privileges(open_path):
    """The same user without capabilities: perf's clock counts in user mode only (kernel.perf_event_paranoid 2)."""
    level = int(pathlib.Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    if level > 2 or pathlib.Path("/proc/sys/kernel/yama/ptrace_scope").exists() and int(
            pathlib.Path("/proc/sys/kernel/yama/ptrace_scope").read_text()) > 0:
        pytest.skip("this kernel allows an unprivileged user neither")
    program = "import hashlib\nprint(flush=True)\nd = b'x' * (1 << 24)\nwhile True: hashlib.sha256(d).hexdigest()\n"
    drop = [*NOBODY, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    binary = shutil.copy(os.environ["ALULA_BIN"], open_path / "alula")
    with running(*drop, "/usr/bin/python3", "-c", program) as process:
        settle(process.pid)
        seen = []
        for _ in range(20):
            got = subprocess.run([*drop, str(binary), "dump", "--native", "--json", str(process.pid)], capture_output=True, text=True,
                                 timeout=60, check=False)
            assert got.returncode == 0 and got.stderr == "", got.stderr
            (thread,) = json.loads(got.stdout)["processes"][0]["threads"]
            seen.append(inner_native(thread))
            if any("crypto" in frame["object"] or "sha" in frame["symbol"].lower() for frame in seen[-1]):
                break
        else:
            pytest.fail(str(seen))


@needs_libdw
@pytest.mark.parametrize("options", [[], ["--blocking"]], ids=["nonblocking", "blocking"])
def test_the_process_ends_first(alula, tmp_path, options):
    """Pictures that came before its end, of threads that are in no list any more, keep nobody from ending."""
    program, out = tmp_path / "short.py", tmp_path / "out.folded"
    program.write_text("import sys, threading, time\nprint(flush=True)\nend = time.monotonic() + float(sys.argv[1])\ndef spin():\n    while time.monotonic() < end:\n"
                       "        sum(range(100))\nfor _ in range(3): threading.Thread(target=spin).start()\n"
                       "while time.monotonic() < end:\n    t = threading.Thread(target=sum, args=(range(1000),))\n    t.start()\n    t.join()\n")
    for seconds in (1.5, 3, 6, 12):  # until there are samples enough
        with running("/usr/bin/python3", program, seconds) as process:
            said = profiled(alula, process.pid, "-o", out, "--native", "--rate", "1000", *options)
        assert "the process has ended" in said
        if sum(count for _, count in folded(out)) > 300:
            break
    assert shares(folded(out))["spin"] > 0.3


TORCH = """
import sys, threading, time
import torch

for i in range(120):
    threading.Thread(target=threading.Event().wait, daemon=True, name=f"waits-{i}").start()
a = torch.randn(600, 600)
print(flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    a @ a
"""


@needs_libdw
def test_torch_with_many_threads(alula, tmp_path):
    pytest.importorskip("torch")
    program, out = tmp_path / "torch_threads.py", tmp_path / "out.folded"
    program.write_text(TORCH)
    with running(sys.executable, program, 60, patience=0) as process:
        (found,) = dumped(alula, "--native", process.pid)
        for seconds in (4, 8, 16):  # until there are enough for shares, on a busy machine too
            profiled(alula, process.pid, "-o", out, "--native", "-d", f"{seconds}s")
            if sum(count for _, count in folded(out)) > 100:
                break
    waiting = [thread for thread in found["threads"] if thread["name"].startswith("waits-")]
    assert len(waiting) == 120 and all(thread["native"] == "merged" for thread in waiting)
    assert all(inner_native(thread) for thread in waiting)
    stacks = folded(out)
    in_torch = sum(count for frames, count in stacks if any("(libtorch" in frame for frame in frames))
    assert in_torch / sum(count for _, count in stacks) > 0.3  # on a busy machine not every sample has a picture
    # How PyTorch came to its kernel is whole: from Python's call on.
    assert any("THPVariable_matmul" in frame for frames, _ in stacks for frame in frames)
