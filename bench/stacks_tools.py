# SPDX-License-Identifier: Apache-2.0
"""The samplers that bench/stacks.py compares: where they come from, how each is called, how its output is read."""

import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WHEELS = ("py-spy", "austin-dist")


class Tool:
    """name, command(pid, rate, seconds or None, out, {"tree", "busy"}), stacks(path) -> [(names, count)], and of which
    interpreter it takes processes: "own" (the bench's), "3.15"."""

    def __init__(self, name, command, stacks, counted, target="own"):
        self.name, self.command, self.stacks, self.counted, self.target = name, command, stacks, counted, target


class Run:
    """One finished run: cpu and wall seconds, samples and errors as the tool says, (names, count) of its output."""

    def __init__(self, tool, status, usage, wall, text, out):
        self.status, self.wall, self.text = status, wall, text
        self.cpu = usage.ru_utime + usage.ru_stime  # with the processes that it started itself and waited for
        self.samples, self.errors = tool.counted(text)
        try:
            self.stacks = [row for path in sorted(out.parent.iterdir()) for row in tool.stacks(path)]
        except (OSError, ValueError, IndexError) as e:
            self.stacks, self.text = [], f"{text}\n{e}"

    def total(self):
        return sum(n for _, n in self.stacks)

    def failed(self):
        return None if self.samples else (self.text.strip().splitlines() or ["no output"])[-1][:160]


class Started:
    def __init__(self, tool, pid, rate, seconds=None, options=frozenset()):
        self.tool = tool
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name) / "out"
        self.log = tempfile.TemporaryFile()
        self.began = time.monotonic()
        self.process = subprocess.Popen(tool.command(pid, rate, seconds, str(self.out), options), stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT, cwd=self.folder.name)

    def interrupt(self):
        os.kill(self.process.pid, signal.SIGINT)  # send_signal() would reap one that has ended, and take its usage away

    def end(self, patience=30):
        until = time.monotonic() + patience
        ended, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        while not ended and time.monotonic() < until:
            time.sleep(0.005)
            ended, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if not ended:
            self.process.kill()
            _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = status
        self.log.seek(0)
        text = re.sub(r"\x1b\[[0-9;]*m", "", self.log.read().decode(errors="replace"))
        try:
            return Run(self.tool, status, usage, time.monotonic() - self.began, text, self.out)
        finally:
            self.log.close()
            self.folder.cleanup()


def run(tool, pid, rate, seconds, options=frozenset()):
    return Started(tool, pid, rate, seconds, options).end(seconds + 30)


def named(frame):
    """The function in "name (file:line)"."""
    return frame.rsplit(" (", 1)[0].rsplit(".", 1)[-1]


def folded(path, name=named):
    rows = []
    for line in path.read_text(errors="replace").splitlines():
        stack, _, count = line.rpartition(" ")
        rows.append(([name(frame) for frame in stack.split(";")], int(count)))
    return rows


def collapsed_315(path):
    return folded(path, lambda frame: frame.rsplit(":", 2)[1] if frame.count(":") > 1 else frame)


def mojo(path):
    """austin's binary format, version 3: events of one byte and their numbers and texts."""
    data = path.read_bytes()
    if data[:3] != b"MOJ":
        raise ValueError("austin wrote no MOJO file")
    at, texts, frames, rows, stack = 4, {}, {}, [], None

    def number():
        nonlocal at
        byte, shift = data[at], 6
        value = byte & 0x3F
        while byte & 0x80:
            at += 1
            byte = data[at]
            value |= (byte & 0x7F) << shift
            shift += 7
        at += 1
        return value

    def text():
        nonlocal at
        end = data.index(b"\0", at)
        value, at = data[at:end].decode(errors="replace"), end + 1
        return value

    while at < len(data):
        event = data[at]
        at += 1
        if event == 1:
            text(), text()
        elif event == 2:
            if stack:
                rows.append((stack, 1))
            stack = []
            number(), number(), text()
        elif event == 3:
            key, _, scope = number(), number(), number()
            number(), number(), number(), number()
            frames[key] = texts.get(scope, "?").rsplit(".", 1)[-1]
            stack.append(frames[key])  # a frame that is met first stands where it is told
        elif event == 5:
            stack.append(frames.get(number(), "?"))
        elif event == 4:
            stack.append("?")
        elif event == 6:
            text()
        elif event in (9, 10):
            number()
        elif event == 11:
            key = number()
            texts[key] = text()
        elif event == 12:
            number()
        elif event not in (7, 8, 0):
            raise ValueError(f"MOJO event {event} at {at}")
    if stack:
        rows.append((stack, 1))
    return rows


def alula(path):
    def command(pid, rate, seconds, out, options):
        return [path, "profile", "-o", out, "-f", "folded", "-r", str(rate), *(["-d", f"{seconds}s"] if seconds else []),
                *(["-s"] if "tree" in options else []), str(pid)]

    def counted(text):
        taken = re.search(r"(\d+) samples at", text)
        rows = re.search(r": (\d+) stacks of", text)
        moved = re.search(r"moved while read ([0-9.]+) %", text)
        if not taken:
            return 0, 0
        return int(taken[1]), float(moved[1]) / 100 * int(rows[1]) if moved and rows else 0

    return command, counted


def py_spy(path, more):
    def command(pid, rate, seconds, out, options):
        return [path, "record", "-p", str(pid), "-r", str(rate), "-f", "raw", "-o", out,
                *(["-d", str(seconds)] if seconds else []), *(["-s"] if "tree" in options else []), *more]

    def counted(text):
        found = re.search(r"Samples: (\d+) Errors: (\d+)", text)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    return command, counted


def austin(path):
    def command(pid, rate, seconds, out, options):
        return [path, "-i", str(round(1e6 / rate)), "-o", out, *(["-x", str(seconds)] if seconds else []),
                *(["-C"] if "tree" in options else []), *(["-c"] if "busy" in options else []), "-p", str(pid)]

    def counted(text):
        found = re.search(r"Error rate[ .]*(\d+)/(\d+)", text)
        return (int(found[2]), int(found[1])) if found else (0, 0)

    return command, counted


SAMPLING = ("import runpy, sys; sys.executable = sys.argv.pop(1); sys.argv[0] = 'profiling.sampling'; "
            "runpy.run_module('profiling.sampling', run_name='__main__', alter_sys=True)")


def sampling_315(python, into):
    # It starts one of itself for each subprocess by sys.executable, which is no command when a loader of its own runs it.
    script = into / "python3.15"
    script.write_text(f"#!/bin/sh\nexec {shlex.join(python)} \"$@\"\n")
    script.chmod(0o755)

    def command(pid, rate, seconds, out, options):
        return [*python, "-c", SAMPLING, str(script), "attach", "-r", str(rate), *(["-d", str(seconds)] if seconds else []),
                "--collapsed", "-o", out, *(["--subprocesses"] if "tree" in options else []),
                *(["-a", "--mode", "cpu"] if "busy" in options else []), str(pid)]

    def counted(text):
        taken = sum(int(n.replace(",", "")) for n in re.findall(r"Captured ([\d,]+) samples", text))
        rate = re.search(r"Error rate: ([0-9.]+)", text)
        return taken, float(rate[1]) / 100 * taken if rate else 0

    return command, counted


def download(folder):
    """The peers' wheels from the package index: austin for both C libraries, since its newest asks for a new glibc."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(folder)]
    folder.mkdir(parents=True, exist_ok=True)
    for name in WHEELS:
        if not any(folder.glob(name.replace("-", "_") + "-*.whl")):
            subprocess.run([*pip, name], check=False)
    machine = platform.machine()
    if not any(folder.glob("austin_dist-*musllinux*")):
        subprocess.run([*pip, "--only-binary", ":all:", "--platform", f"musllinux_1_1_{machine}", "austin-dist"], check=False)


def runs(path):
    """Why it does not, or None."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError as e:
        return str(e)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def executable(wheels, name, program, into):
    """(path, None) of the first wheel's program that starts here, or (None, why)."""
    why = f"no wheel of {name} in {wheels}"
    for wheel in sorted(wheels.glob(name.replace("-", "_") + "-*.whl"), key=lambda p: "musllinux" in p.name):
        folder = into / wheel.stem
        if not folder.exists():
            zipfile.ZipFile(wheel).extractall(folder)
        for path in folder.rglob(program):
            if path.is_file() and path.parent.name in ("scripts", "bin"):
                path.chmod(0o755)
                failed = runs(str(path))
                if not failed:
                    return str(path), None
                why = failed
    return None, why


def find_315(given):
    """([command], None) of a Python 3.15, or (None, why). given: an executable, or a folder with usr/bin/python3.15 that
    was unpacked from a distribution's packages."""
    command = None
    if given and pathlib.Path(given).is_dir():
        folder = pathlib.Path(given).resolve()
        libraries = folder / f"usr/lib/{platform.machine()}-linux-gnu"
        loader = sorted(libraries.glob("ld-linux-*.so.*")) or sorted(folder.glob("usr/lib*/ld-linux-*.so.*"))
        if loader:
            command = [str(loader[0]), "--library-path", str(libraries), str(folder / "usr/bin/python3.15")]
    elif given:
        command = [given]
    else:
        listed = pathlib.Path(os.environ.get("ALULA_PYTHONS") or ROOT / "build/pythons") / "list"
        for line in listed.read_text().splitlines() if listed.exists() else []:
            if line.split()[0].endswith("-3.15"):
                command = line.split()[1:]
        if not command and shutil.which("python3.15"):
            command = ["python3.15"]
    if not command:
        return None, "no Python 3.15 here (tools/pythons gets one, --python315 names one)"
    done = subprocess.run([*command, "-c", "import profiling.sampling"], capture_output=True, text=True, check=False)
    return (command, None) if done.returncode == 0 else (None, (done.stderr.strip().splitlines() or ["does not start"])[-1])


def find(alula_path, wheels, python315, into):
    """([Tool], [(name, why it is missing)], command of Python 3.15 or None)."""
    tools, missing = [], []

    def add(name, made, stacks, target="own"):
        tools.append(Tool(name, made[0], stacks, made[1], target))

    add("alula", alula(alula_path), folded)
    path, why = executable(wheels, "py-spy", "py-spy", into)
    if path:
        add("py-spy", py_spy(path, []), folded)
        add("py-spy --nonblocking", py_spy(path, ["--nonblocking"]), folded)
    else:
        missing.append(("py-spy", why))
    path, why = executable(wheels, "austin-dist", "austin", into)
    if path:
        add("austin", austin(path), mojo)
    else:
        missing.append(("austin", why))
    command, why = find_315(python315)
    if command:
        add("alula, of 3.15", alula(alula_path), folded, "3.15")
        add("profiling.sampling", sampling_315(command, into), collapsed_315, "3.15")
    else:
        missing.append(("profiling.sampling", why))
    return tools, missing, command
