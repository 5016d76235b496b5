# SPDX-License-Identifier: Apache-2.0
"""A line brought into a running interpreter: it runs, and whatever the process was doing goes on as if nothing had been."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import interpreters

# What the main thread does while it is stopped again and again. Each prints "fine" when nothing came between.
SPIN = """
def work():
    x, n = 0.5, 0
    for i in range(200000):
        x = x * 1.0000001 + 1.5 - x / 3.0
        n = (n * 31 + i) % 1000003
    return x, n
first = work()
while not os.path.exists(GO):
    assert work() == first
print("fine")
"""
# Calls of C that must not come back early or with EINTR; the interpreter's own functions would hide it.
CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
class Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("n", ctypes.c_long)]
def once():
    t = Time(0, 30000 if KIND == "select" else 30000000)
    word = ctypes.c_int(7)
    fds = os.pipe()
    began = time.monotonic()
    if KIND == "nanosleep":
        got, want = libc.nanosleep(ctypes.byref(t), None), 0
    elif KIND == "poll":
        got, want = libc.poll(None, 0, 30), 0
    elif KIND == "select":
        got, want = libc.select(0, None, None, None, ctypes.byref(t)), 0
    elif KIND == "futex":
        got, want = libc.syscall(202, ctypes.byref(word), 0, 7, ctypes.byref(t), None, 0), -1
        assert ctypes.get_errno() == 110, ctypes.get_errno()  # ETIMEDOUT
    elif KIND == "read":
        if not os.fork():
            time.sleep(0.03)
            os.write(fds[1], b"x")
            os._exit(0)
        byte = ctypes.create_string_buffer(1)
        got, want = libc.read(fds[0], byte, 1), 1
        os.wait()
    elif KIND == "held":  # the interpreter's lock held, and a call that the kernel starts again
        child = os.fork()
        if not child:
            time.sleep(0.03)
            os._exit(0)
        got, want = ctypes.PyDLL(None).waitpid(child, None, 0), child
    elif KIND == "hold":
        got, want = ctypes.PyDLL(None).usleep(30000), 0  # with the interpreter's lock held
    assert got == want, (got, ctypes.get_errno())
    assert 0.029 < time.monotonic() - began, time.monotonic() - began
    os.close(fds[0])
    os.close(fds[1])
while not os.path.exists(GO):
    once()
print("fine")
"""
HEAD = "import os, sys, time\nGO, KIND = sys.argv[1], sys.argv[2]\nprint('here', flush=True)\n"


class Program:
    def __init__(self, python, tmp_path, body, kind=""):
        self.go = tmp_path / "go"
        script = tmp_path / "program.py"
        script.write_text(HEAD + textwrap.dedent(body))
        self.process = subprocess.Popen([python, str(script), str(self.go), kind], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "here\n"

    @property
    def pid(self):
        return self.process.pid

    def ends(self):
        self.go.touch()
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@pytest.fixture
def inject(build):
    def run(pid, line, *rest):
        return subprocess.run([str(build / "tests" / "unit" / "launch" / "inject-tool"), str(pid), line, *rest], timeout=30,
                              capture_output=True, text=True, check=False)
    return run


def appends(path):
    """A line that adds a byte to a file, and leaves nothing behind."""
    return f"exec(\"open({str(path)!r}, 'a').write('x')\", {{}})"


def wait_for_size(path, size, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.stat().st_size >= size:
            return True
        time.sleep(0.002)
    return False


@pytest.mark.parametrize("python", interpreters.PATHS, ids=interpreters.IDS)
def test_fifty_times_in_a_row(python, inject, tmp_path):
    count = tmp_path / "count"
    program = Program(python, tmp_path, SPIN)
    for i in range(50):
        got = inject(program.pid, appends(count))
        assert got.returncode == 0, got.stdout
        assert wait_for_size(count, i + 1)
    assert program.ends() == (0, "fine\n", "")
    assert count.stat().st_size == 50


@pytest.mark.parametrize("kind", ["nanosleep", "poll", "select", "futex", "read", "hold"])
@pytest.mark.parametrize("python", interpreters.PATHS[-1:], ids=interpreters.IDS[-1:])
def test_system_calls_go_on(python, kind, inject, tmp_path):
    count = tmp_path / "count"
    program = Program(python, tmp_path, CALL, kind)
    done = 0
    for _ in range(50):
        got = inject(program.pid, appends(count))
        assert got.returncode == 0 or "-16 " in got.stdout, got.stdout  # it may just have forked: no room on the stack
        done += got.returncode == 0
        time.sleep(0.003)
    assert done >= 45
    assert wait_for_size(count, done)
    assert program.ends() == (0, "fine\n", "")


@pytest.mark.parametrize("death", ["--stopped", "--calling"])
@pytest.mark.parametrize("body, kind", [(SPIN, ""), (CALL, "read"), (CALL, "held")], ids=["spin", "read", "held"])
def test_a_tracer_that_dies_leaves_the_process_running(body, kind, death, inject, tmp_path):
    count = tmp_path / "count"
    program = Program(sys.executable, tmp_path, body, kind)
    for _ in range(20):
        inject(program.pid, appends(count), death)
        with open(f"/proc/{program.pid}/status", encoding="utf-8") as f:
            status = f.read()
        assert "TracerPid:\t0\n" in status and "State:\tt" not in status
        time.sleep(0.01)
    assert program.ends() == (0, "fine\n", "")
    assert count.exists() == (death == "--calling")


def test_a_signal_at_the_same_time_is_not_lost(inject, tmp_path):
    count = tmp_path / "count"
    program = Program(sys.executable, tmp_path, """
    import signal
    got = 0
    def handler(*_):
        global got
        got += 1
        os.write(1, b".")
    signal.signal(signal.SIGUSR1, handler)
    print("set", flush=True)
    while not os.path.exists(GO):
        sum(range(1000))
    print(got)
    """)
    assert program.process.stdout.readline() == "set\n"
    for i in range(30):
        os.kill(program.pid, signal.SIGUSR1)
        assert inject(program.pid, appends(count)).returncode == 0
        assert program.process.stdout.read(1) == "."
        assert wait_for_size(count, i + 1)
    assert program.ends() == (0, "30\n", "")


def test_threads_and_an_alternate_stack(inject, tmp_path):
    count = tmp_path / "count"
    program = Program(sys.executable, tmp_path, """
    import faulthandler, threading
    faulthandler.enable()
    def busy():
        while not os.path.exists(GO):
            sum(range(100))
    threads = [threading.Thread(target=busy) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print("fine")
    """)
    # The main thread waits in join: the line is run when it comes back to the interpreter, which is at the end.
    for _ in range(5):
        assert inject(program.pid, appends(count)).returncode == 0
    assert program.ends() == (0, "fine\n", "")


def test_a_stopped_process_stays_stopped(inject, tmp_path):
    program = Program(sys.executable, tmp_path, SPIN)
    os.kill(program.pid, signal.SIGSTOP)
    time.sleep(0.1)
    got = inject(program.pid, "pass")
    assert got.returncode == 1 and "is stopped" in got.stdout
    with open(f"/proc/{program.pid}/status", encoding="utf-8") as f:
        assert "State:\tT" in f.read()
    os.kill(program.pid, signal.SIGCONT)
    assert program.ends() == (0, "fine\n", "")


def test_a_traced_process_is_left_alone(inject, tmp_path):
    program = Program(sys.executable, tmp_path, SPIN)
    tracer = subprocess.Popen([sys.executable, "-c", f"""if 1:
        import ctypes, time
        libc = ctypes.CDLL(None)
        assert libc.ptrace(0x4206, {program.pid}, None, None) == 0  # PTRACE_SEIZE
        print("on", flush=True)
        time.sleep(60)"""], stdout=subprocess.PIPE, text=True)
    assert tracer.stdout.readline() == "on\n"
    got = inject(program.pid, "pass")
    tracer.kill()
    tracer.communicate()
    assert got.returncode == 1 and f"is being traced by process {tracer.pid}" in got.stdout
    assert program.ends() == (0, "fine\n", "")


def test_what_cannot_be_attached_to(inject, tmp_path):
    for pid, reason in ((2 ** 22 + 5, "no process"), (os.getppid(), None)):
        got = inject(pid, "pass")
        if reason:
            assert got.returncode == 1 and reason in got.stdout
    shell = subprocess.Popen(["sleep", "30"])
    got = inject(shell.pid, "pass")
    shell.kill()
    shell.wait()
    assert got.returncode == 1 and "is not CPython" in got.stdout
    ended = subprocess.Popen(["true"])
    time.sleep(0.2)
    got = inject(ended.pid, "pass")
    assert got.returncode == 1 and "has ended" in got.stdout
    ended.wait()


@pytest.mark.parametrize("enabled, says", [("1", "script /tmp/it.py 1 288"), ("0", "line pass")])
def test_the_interpreter_s_own_way(enabled, says, inject, build):
    """PEP 768's fields where they are and are on, else the other way."""
    process = subprocess.Popen([str(build / "tests" / "unit" / "launch" / "python314"), enabled], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "here\n"
    got = inject(process.pid, "pass", "/tmp/it.py")
    assert got.returncode == 0 and ("remote" in got.stdout) == (enabled == "1"), got.stdout
    out, _ = process.communicate(timeout=10)
    assert out == says + "\n" and process.returncode == 0
