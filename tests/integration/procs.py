# SPDX-License-Identifier: Apache-2.0
"""Real processes to put on made-up GPUs, and a copy of their /proc in which alula sees the host's pid namespace."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")  # what follows runs as another user
HOST_PID_NS = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel


@contextlib.contextmanager
def open_folder():
    """A folder that other users may look into, too. pytest's own are closed to them, and again with each session that the
    same user begins elsewhere."""
    with tempfile.TemporaryDirectory(prefix="alula-test-") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


@contextlib.contextmanager
def sleepers(*argument_lists):
    """Starts `python -c … ARGS` for each list of arguments; yields the pids once their command lines stand."""
    code = "import sys; print(flush=True); sys.stdin.read()"
    started = []
    try:
        for arguments in argument_lists:
            started.append(subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE))
        for process in started:
            process.stdout.read(1)
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.stdin.close()
            process.wait()
            process.stdout.close()


def copy_proc(root, pids, namespace=HOST_PID_NS):
    """A root folder whose proc/ holds these processes as they are now; for ALULA_HOST_ROOT."""
    root = pathlib.Path(root)
    for name in ("stat", "meminfo", "loadavg", "sys/kernel/hostname", "sys/kernel/random/boot_id"):
        copy_file(pathlib.Path("/proc") / name, root / "proc" / name)
    for pid in (1, *pids):
        for name in ("stat", "status", "cmdline", "cgroup", "comm", "statm", "io"):
            copy_file(pathlib.Path("/proc") / str(pid) / name, root / "proc" / str(pid) / name)
    (root / "proc/self/ns").mkdir(parents=True)
    os.symlink(namespace, root / "proc/self/ns/pid")
    if os.path.exists("/etc/passwd"):
        (root / "etc").mkdir()
        shutil.copy("/etc/passwd", root / "etc/passwd")
    return root


def copy_file(source, target):
    with contextlib.suppress(OSError):
        data = source.read_bytes()  # /proc files have no size that a copy could go by
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def below(pid):
    """All processes below it."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for tid in os.listdir(f"/proc/{pid}/task"):
            for child in pathlib.Path(f"/proc/{pid}/task/{tid}/children").read_text(encoding="ascii").split():
                found += [int(child), *below(int(child))]
    return found


def _threads(pid):
    """(runs, CPU time in ns, turns on a core) of each thread of the process and of all below it."""
    found = {}
    for place in [place for p in (pid, *below(pid)) for place in pathlib.Path(f"/proc/{p}/task").glob("*")]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state = (place / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
            took, _, turns = map(int, (place / "schedstat").read_text(encoding="ascii").split())
            found[place.name] = (state == "R", took, turns)
    return found


def settle(pid, seconds=20):
    """Until each thread of a process that has just said something, and of all below it, is where it stays: it has slept through
    50 ms, or has run for 20 ms of its own. However busy the machine is; a process that never comes to that is waited for in vain."""
    first, last, end = {}, {}, time.monotonic() + seconds
    while time.monotonic() < end:
        now = _threads(pid)
        first = {tid: first.get(tid, figures) for tid, figures in now.items()}
        if now and all(not runs and (runs, took, turns) == last.get(tid) or took - first[tid][1] > 20e6
                       for tid, (runs, took, turns) in now.items()):
            return
        last = now
        time.sleep(0.05)
