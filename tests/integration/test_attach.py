# SPDX-License-Identifier: Apache-2.0
"""alula attach into running interpreters of every version, with a package that has what the hook touches of torch: it gets
in, it gets out again, whatever ends it, and whoever must be left alone is."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import interpreters
import scenes
from procs import NOBODY

pytestmark = pytest.mark.plain

TORCH = {
    "torch/__init__.py": "__version__ = '0.stub'\ndef is_grad_enabled(): return True\nfrom . import autograd\n",
    "torch/autograd/__init__.py": "def backward(x):\n    'doc'\n    return x * 2\n",
}
# Steps until GO is there; then whether everything is as it was.
JOB = """
import os, sys, threading, time
import torch
GO = sys.argv[1]
before = (torch.autograd.backward, list(sys.meta_path), list(sys.path), sorted(vars()), threading.active_count())
{setup}
print("here", flush=True)
n = 0
while not os.path.exists(GO):
    assert torch.autograd.backward(2) == 4
    n += 1
    {work}
del n
{teardown}
after = (torch.autograd.backward, list(sys.meta_path), list(sys.path), [v for v in sorted(vars()) if v != "before"],
         threading.active_count())
print("same" if before == after else (before, after), [m for m in sys.modules if "alula" in m])
"""


class Job:
    def __init__(self, folder, python=sys.executable, setup="", work="time.sleep(0.002)", teardown="", command=(), **kwargs):
        for name, text in TORCH.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        self.go = folder / "go"
        script = folder / "job.py"
        script.write_text(JOB.format(setup=setup, work=work, teardown=teardown))
        self.process = subprocess.Popen([*command, python, str(script), str(self.go)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **kwargs)
        assert self.process.stdout.readline() == "here\n"
        self.pid = self.process.pid

    def ends(self):
        time.sleep(0.2)  # its thread forgets the hook after alula's last word
        self.go.touch()
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@pytest.fixture
def job(tmp_path):
    made = []

    def make(folder=tmp_path, **kwargs):
        made.append(Job(folder, **kwargs))
        return made[-1]

    yield make
    for j in made:
        j.process.kill()
        j.process.communicate()


WELL = (0, "same []\n", "")


@pytest.mark.parametrize("python", interpreters.PATHS, ids=interpreters.IDS)
def test_in_and_out_of_every_interpreter(python, job, alula):
    j = job(python=python)
    for _ in range(2):  # and again
        got = alula("attach", "--for", "300ms", j.pid)
        assert got.returncode == 0 and got.stdout == "", got.stderr
        assert f"alula: attached to pid {j.pid} (torch 0.stub): " in got.stderr
        assert "alula: taken out of 1 process, the job goes on" in got.stderr
        assert "Traceback" not in got.stderr
    assert j.ends() == WELL


def test_ctrl_c_and_the_death_of_alula(job, alula_bin):
    j = job()
    for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -9)):
        with subprocess.Popen([str(alula_bin), "attach", str(j.pid)], stderr=subprocess.PIPE, text=True) as attach:
            assert attach.stderr.readline().startswith("alula: attached to pid ")
            attach.send_signal(number)
            _, err = attach.communicate(timeout=20)
        assert attach.returncode == status
        assert ("taken out of 1 process" in err) == (status == 0)
    time.sleep(0.3)  # it sees by itself that alula was killed
    assert j.ends() == WELL


def test_the_job_s_end_is_told(job, alula_bin):
    j = job()
    with subprocess.Popen([str(alula_bin), "attach", str(j.pid)], stderr=subprocess.PIPE, text=True) as attach:
        assert attach.stderr.readline().startswith("alula: attached to pid ")
        j.process.kill()
        _, err = attach.communicate(timeout=20)
    assert attach.returncode == 0 and "alula: the job has ended" in err


def test_signals_meanwhile_are_the_job_s(job, alula_bin):
    """A handler that raises while alula gets in and out: each exception arrives."""
    j = job(setup="import signal\ncount = seen = 0\narmed = False\nclass Mine(BaseException): pass\ndef handler(*_):\n"
                  "    global armed, seen\n    if armed:\n        armed = False\n        seen += 1\n        raise Mine\n"
                  "signal.signal(signal.SIGUSR1, handler)",
            work="\n    try:\n        armed = True\n        sum(range(20000))\n        time.sleep(0.001)\n        armed = False\n    except Mine:\n        count += 1",
            teardown="print('lost', seen - count, seen > 0)\ndel armed, count, seen, handler, signal, Mine")
    got_in, pause = 0, 0.02
    for _ in range(12):
        with subprocess.Popen([str(alula_bin), "attach", "--for", "200ms", str(j.pid)], stderr=subprocess.PIPE, text=True) as attach:
            while attach.poll() is None:
                os.kill(j.pid, signal.SIGUSR1)
                time.sleep(pause)
            said = attach.communicate()[1]
        got_in += attach.returncode == 0
        if got_in == 3:
            break
        assert j.process.poll() is None, j.ends()
        if attach.returncode:  # on a busy machine no time between two signals is long enough
            assert attach.returncode == 1 and ("it is left alone" in said or "Nothing was changed in it" in said), said
            pause *= 2
    assert got_in == 3, said
    status, out, err = j.ends()
    assert (status, out, err) == (0, "lost 0 True\nsame []\n", "")


@pytest.mark.parametrize("python", interpreters.PATHS, ids=interpreters.IDS)
def test_what_is_raised_within_alula_s_line_is_the_job_s(python, job, alula):
    """As by a handler of a signal that comes just then: the job gets it, once, when the line is over, and goes on."""
    j = job(python=python, setup="import _thread\nclass Mine(BaseException): pass\nstart, count = _thread.start_new_thread, 0\n"
                                 "def once(*_):\n    _thread.start_new_thread = start\n    raise Mine\n_thread.start_new_thread = once",
            work="\n    try:\n        time.sleep(0.05)\n        time.sleep(0.05)\n    except Mine:\n        count += 1",
            teardown="print(count, _thread.start_new_thread is start)\ndel _thread, Mine, start, count, once")
    got = alula("attach", "--for", "300ms", "--wait", "2s", j.pid)
    assert got.returncode == 1 and "Nothing was changed in it" in got.stderr, got.stderr
    got = alula("attach", "--for", "300ms", j.pid)
    assert got.returncode == 0, got.stderr
    assert j.ends() == (0, "1 True\nsame []\n", "")


def test_two_at_once(job, alula, alula_bin):
    j = job()
    with subprocess.Popen([str(alula_bin), "attach", str(j.pid)], stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr.readline().startswith("alula: attached to pid ")
        got = alula("attach", "--for", "1s", j.pid)
        assert got.returncode != 0 and "another alula watches this process already" in got.stderr
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=20)
    assert first.returncode == 0
    assert j.ends() == WELL


# What threads other than the main one read, and how often they let go of the interpreter's lock or take it. The main thread
# never asks for it: each of these is a call into the system, and none hangs on how busy the machine is.
COUNTED = """
import ctypes, functools, _thread
read, interval = [], sys.getswitchinterval()
def watch(event, arguments, read=read, main=_thread.get_ident(), ident=_thread.get_ident):
    if ident() != main and event in ("open", "os.listdir", "os.scandir"):
        read.append(str(arguments[0]))
sys.addaudithook(watch)
count = ctypes.CDLL(None).gil_count
sys.setswitchinterval(1000)
"""


@pytest.mark.parametrize("python", interpreters.PATHS, ids=interpreters.IDS)
def test_the_hook_is_read_at_once(python, job, alula, build):
    """A main thread that never sleeps gives the lock back only after a switch interval: from a package of files it took more
    than 200 times in and out, which could be many seconds."""
    j = job(python=python, setup=COUNTED, env={**os.environ, "LD_PRELOAD": str(build / "tests/foreign/libgil-count.so")},
            teardown="print(read, count())\nsys.setswitchinterval(interval)\n"
                     "del ctypes, functools, _thread, read, interval, watch, count")
    got = alula("attach", "--for", "300ms", j.pid)
    assert got.returncode == 0, got.stderr
    status, out, err = j.ends()
    told, same = out.splitlines()
    assert (status, same, err) == (0, "same []", "")
    files, count = told.rsplit(" ", 1)
    assert re.fullmatch(r"\['/\S+/alula-run-\w+/start\.py'\]", files)
    assert 0 < int(count) <= 2 * 30  # let go and taken again


def test_a_hook_that_is_still_loading_is_no_long_call(job, alula, tmp_path):
    """Its thread stands in the middle of it, while the main thread runs on."""
    release = tmp_path / "release"
    j = job(setup="import ctypes, _thread\n"
                  f"def wait(event, arguments, main=_thread.get_ident(), ident=_thread.get_ident, there=os.path.exists, sleep=time.sleep):\n"
                  f"    while event == 'ctypes.dlopen' and ident() != main and not there({str(release)!r}):\n        sleep(0.01)\n"
                  "sys.addaudithook(wait)",
            teardown="while any('alula' in m for m in sys.modules):\n    time.sleep(0.01)\ndel ctypes, wait, _thread")
    got = alula("attach", "--wait", "2s", j.pid)
    assert got.returncode == 1 and f"process {j.pid} has let alula in, but the hook is still loading" in got.stderr, got.stderr
    assert "long call" not in got.stderr and got.stderr.count("\n") == 1
    release.touch()
    assert j.ends() == WELL


def test_a_thread_that_cannot_start_is_no_long_call(job, alula):
    j = job(setup="import _thread\ndef no(*_): raise RuntimeError\nstart = _thread.start_new_thread\n_thread.start_new_thread = no",
            work="pass", teardown="_thread.start_new_thread = start\ndel _thread, no, start")
    got = alula("attach", "--wait", "1s", j.pid)
    assert got.returncode == 1 and "in time, though its main thread runs Python code: no thread could be started" in got.stderr
    assert "long call" not in got.stderr
    assert j.ends() == WELL


def test_who_waits_for_another_thread_s_lock_is_told_so(job, alula):
    j = job(setup="import ctypes, threading\nback = threading.Event()\n"
                  "def hold():\n    ctypes.PyDLL(None).usleep(60000000)\n    back.set()",
            work="\n    if n == 1:\n        other = threading.Thread(target=hold)\n        other.start()\n        other.join()",
            teardown="del other, back, hold, ctypes")
    got = alula("attach", "--wait", "1s", j.pid)
    assert got.returncode == 1 and "waiting for the interpreter's lock (GIL), which another thread keeps" in got.stderr, got.stderr
    assert j.process.poll() is None


def test_a_hung_process_is_left_as_it_was(job, alula, runtime):
    """The main thread is in C with the interpreter's lock held: the line is not run in time, and does nothing when it is."""
    j = job(setup="import ctypes", work="(ctypes.PyDLL(None).usleep(3000000) if n == 1 else time.sleep(0.01))", teardown="del ctypes")
    before, began = set(os.listdir(runtime)), time.monotonic()
    got = alula("attach", "--for", "1s", "--wait", "500ms", j.pid)
    assert got.returncode == 1 and re.search(rf"process {j.pid} did not come to run alula's line in time: its main thread is at "
                                             r"<module> \(job\.py:\d+\), inside a long call", got.stderr), got.stderr
    assert time.monotonic() - began < 2.5
    time.sleep(3)
    assert j.ends() == WELL
    assert set(os.listdir(runtime)) == before


def test_who_is_refused(alula, job, tmp_path):
    def refused(pid, status, reason):
        got = alula("attach", pid)
        assert got.returncode == status and reason in got.stderr and got.stderr.count("\n") == 1, got.stderr

    refused(2 ** 22 + 7, 5, "no process")
    sleeper = subprocess.Popen(["sleep", "60"])
    refused(sleeper.pid, 1, "is not CPython")
    sleeper.kill()
    sleeper.wait()
    j = job()
    os.kill(j.pid, signal.SIGSTOP)
    time.sleep(0.05)
    got = alula("attach", j.pid)
    assert got.returncode == 1 and f"kill -CONT {j.pid}" in got.stderr
    os.kill(j.pid, signal.SIGCONT)
    assert alula("attach", "0").returncode == 2
    assert alula("attach").returncode == 2
    assert alula("attach", "--for", "5", j.pid).returncode == 2  # a time has a unit
    assert alula("attach", "--record", "x", "--no-record", j.pid).returncode == 2
    assert j.ends() == WELL


needs_root = pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")


@needs_root
def test_another_user_s_process(job, alula, open_path):
    """Refused without rights; root gets in, with copies that are that user's, and removes them."""
    python = next((p for p in interpreters.PATHS if not p.startswith("/root") and not os.path.realpath(p).startswith("/root")), None)
    if not python:
        pytest.skip("no interpreter that another user may run")
    theirs = job(folder=open_path, python=python, command=NOBODY)
    before = set(os.listdir("/tmp"))

    def left():
        new = [f"/tmp/{name}" for name in set(os.listdir("/tmp")) - before if name.startswith("alula-run-")]
        return [path for path in new if os.path.exists(path) and os.stat(path).st_uid == 65534]

    got = alula("attach", "--for", "500ms", theirs.pid)
    assert got.returncode == 0 and "taken out of 1 process" in got.stderr, got.stderr
    assert scenes.wait_for(lambda: not left())  # what another test has of that user's goes, too
    assert theirs.ends() == WELL


@needs_root
def test_without_the_right_to(job, alula_bin, open_path):
    program = open_path / "alula"
    shutil.copy(alula_bin, program)
    j = job()
    got = subprocess.run([*NOBODY, str(program), "attach", str(j.pid)], capture_output=True, text=True, check=False, timeout=30)
    assert got.returncode == 4 and f"process {j.pid} belongs to user 0: attach as that user or as root" in got.stderr
    assert j.ends() == WELL


@needs_root
@pytest.mark.skipif(subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0,
                    reason="no mount namespaces here")
def test_another_mount_namespace(job, alula, tmp_path):
    """As a container: its /tmp is another one, the pid known inside as well; files are copied there and removed."""
    inside = tmp_path / "inside"
    inside.mkdir()
    j = job(command=("unshare", "--mount", "sh", "-c", f"mount -t tmpfs none {inside} && mount --bind {inside} /var/tmp && "
                     "mount -t tmpfs none /dev/shm && exec \"$@\"", "sh"))
    root = f"/proc/{j.pid}/root"
    got = alula("attach", "--for", "500ms", j.pid)
    assert got.returncode == 0 and "taken out of 1 process" in got.stderr, got.stderr
    assert not [n for place in ("/var/tmp", "/dev/shm") for n in os.listdir(root + place) if n.startswith("alula")]
    assert j.ends() == WELL


def test_report_and_recording_go_where_they_are_told(job, alula, tmp_path):
    j = job()
    out = tmp_path / "out"
    got = alula("attach", "--for", "500ms", "--output-dir", out, j.pid)
    assert got.returncode == 0, got.stderr
    report = json.loads((out / "metrics_report.json").read_text())
    assert report["alula"]["finished"] is False  # the job goes on
    assert (out / "run.alula").exists()
    assert j.ends() == WELL


@needs_root
@pytest.mark.skipif(subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"], check=False,
                                   capture_output=True).returncode != 0, reason="no pid namespaces here")
def test_another_pid_namespace_by_its_starter(job, alula):
    """The pid inside is another one; the PID named is the starter's, which is no Python."""
    j = job(command=("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"))
    got = alula("attach", "--for", "500ms", j.pid)
    assert got.returncode == 0 and "taken out of 1 process" in got.stderr, got.stderr
    assert f"attached to pid {j.pid} " not in got.stderr
    assert j.ends() == WELL
