# SPDX-License-Identifier: Apache-2.0
"""The full-screen views side by side: CPU of `alula top`, nvitop and (where installed) nvtop on one terminal size."""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import sys
import termios
import time

COLUMNS, ROWS = 140, 45
WARM_UP, SECONDS = 3, 12


def cpu_and_rss(pid):
    """CPU seconds of all threads of a process, in the kernel's nanoseconds, and its peak of resident MiB."""
    cpu = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
            cpu += int(f.read().split()[0])
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        peak = next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))
    return cpu / 1e9, peak


def drain(fd, seconds):
    """Reads what the program prints for so long; how many bytes."""
    end, count = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        if select.select([fd], [], [], left)[0]:
            try:
                count += len(os.read(fd, 65536))
            except OSError:
                return count
    return count


def view(command, env):
    """CPU milliseconds and bytes to the terminal a second, peak RSS; None when it does not stay."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, {**env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        drain(fd, WARM_UP)
        if os.waitpid(pid, os.WNOHANG)[0]:
            pid = 0
            return None
        before, _ = cpu_and_rss(pid)
        count = drain(fd, SECONDS)
        after, peak = cpu_and_rss(pid)
        return {"cpu_ms": (after - before) / SECONDS * 1e3, "bytes": count / SECONDS, "rss": peak}
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(fd)


def run(env, alula, _folder):
    """Prints the table. The scenario is in env; every view refreshes once a second, alula also at its default."""
    commands = {"alula top --interval 1s": [str(alula), "top", "--interval", "1s"],
                "alula top (every 500 ms)": [str(alula), "top"],
                "nvitop -m full (every 1 s)": [sys.executable, "-m", "nvitop", "-m", "full", "--interval", "1"]}
    if shutil.which("nvtop"):
        commands["nvtop -d 10 (every 1 s)"] = ["nvtop", "-d", "10"]
    print(f"\n### Full-screen views, {COLUMNS}×{ROWS}, {SECONDS} s\n")
    print("| view | CPU a second, ms | times alula at 1 s | peak RSS, MiB | bytes to the terminal a second |\n|---|---|---|---|---|")
    base = None
    for name, command in commands.items():
        r = view(command, env)
        if r is None:
            print(f"| {name} | did not run | | | |")
            continue
        base = base or max(r["cpu_ms"], 0.1)
        print(f"| {name} | {r['cpu_ms']:.1f} | {r['cpu_ms'] / base:.1f} | {r['rss']:.1f} | {r['bytes']:.0f} |")
    if "nvtop -d 10 (every 1 s)" not in commands:
        print("\nnvtop is not installed here.")
