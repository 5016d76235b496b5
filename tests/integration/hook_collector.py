# SPDX-License-Identifier: Apache-2.0
"""A small collector for the tests of the probe and the start hook: takes the rings of a command's processes and reads
them independently of src/ring/reader.c."""

import array
import collections
import mmap
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = 4096
RECORD = struct.Struct("=qHHiqq")

Record = collections.namedtuple("Record", "at kind code device a b text tid")


def names(header, macro):
    """The first arguments of an X-macro's rows, in order."""
    text = (ROOT / "src/model/event.h").read_text()
    body = re.search(r"#define %s\(X\)(.*?)\n\n" % macro, text, re.S).group(1)
    return re.findall(r"X\((\w+),", body)


KINDS = names("model/event.h", "AL_EVENTS")
PHASES = names("model/event.h", "AL_PHASES")
FIGURES = names("model/event.h", "AL_ALLOCATOR_FIGURES")
STATES = ["DONE", "MICRO", "SKIPPED", "ABORTED"]
TEXTS = ["FRAMEWORK", "OUTPUT_DIR", "ERROR", "WHERE", "SOURCE", "METRICS", "ALLOCATOR", "ANSWER_TEXT", "MODEL", "OPTIONS",
         "COMMUNICATOR", "TRANSPORT"]


class Ring:
    """What one process handed over."""

    def __init__(self, fd, hello, connection):
        self.connection = connection  # open as long as the process may live
        self.magic, self.pid = hello[:8], struct.unpack_from("=i", hello, 8)[0]
        self.map = mmap.mmap(fd, os.fstat(fd).st_size)
        os.close(fd)
        head = struct.unpack_from("=8sIIIII", self.map, 0)
        assert head[0] == b"ALRING1\0" and head[5] == RECORD.size
        self.lanes, self.size = head[3], head[4]
        self.tails = [0] * self.lanes
        self.records = []

    def lost(self):
        lanes = sum(struct.unpack_from("=Q", self.map, PAGE * (1 + i) + 8)[0] for i in range(self.lanes))
        return lanes + struct.unpack_from("=Q", self.map, 56)[0]

    def drain(self):
        for lane in range(self.lanes):
            at = PAGE * (1 + lane)
            head, tid = struct.unpack_from("=Q", self.map, at)[0], struct.unpack_from("=i", self.map, at + 16)[0]
            tail = self.tails[lane]
            base = PAGE * (1 + self.lanes) + lane * self.size * RECORD.size
            while tail < head:
                fields = RECORD.unpack_from(self.map, base + tail % self.size * RECORD.size)
                tail += 1
                text = None
                if KINDS[fields[1]] == "TEXT":
                    text = b""
                    while len(text) < fields[4]:
                        start = base + tail % self.size * RECORD.size
                        text += self.map[start:start + RECORD.size]
                        tail += 1
                    text = text[:fields[4]].decode()
                self.records.append(Record(fields[0], KINDS[fields[1]], *fields[2:], text, tid))
            self.tails[lane] = tail
            struct.pack_into("=Q", self.map, at + 64, tail)

    # What the tests ask for.

    def of(self, kind):
        return [r for r in self.records if r.kind == kind]

    def steps(self, state="DONE"):
        return [r for r in self.of("STEP") if STATES[r.code] == state]

    def texts(self, name):
        return [r.text for r in self.of("TEXT") if TEXTS[r.code] == name]

    def spans(self):
        """[(phase, begin, end, step)], checked to nest; a phase without an end has end None."""
        stack, spans = [], []
        for r in self.records:
            if r.kind == "PHASE_BEGIN":
                stack.append((PHASES[r.code], r.at, r.a))
            elif r.kind == "PHASE_END":
                assert stack and stack[-1][0] == PHASES[r.code], (r, stack, self.line())
                phase, begin, step = stack.pop()
                spans.append((phase, begin, r.at, step))
        return spans + [(phase, begin, None, step) for phase, begin, step in stack]

    def seconds(self, phase):
        return sum(end - begin for name, begin, end, _ in self.spans() if name == phase and end) / 1e9

    def unexplained(self):
        """Share of the time from the first mark to the last step that no phase and no loop of a trainer's own covers."""
        marks = [r for r in self.records if r.kind in ("PHASE_BEGIN", "PHASE_END", "STEP")]
        last = max(i for i, r in enumerate(marks) if r.kind == "STEP")
        lost, depth, between = 0, 0, False
        for r, after in zip(marks[:last], marks[1:last + 1]):
            if r.kind == "PHASE_BEGIN":
                depth, between = depth + 1, False
            elif r.kind == "PHASE_END":
                depth, between = depth - 1, r.b == 1
            else:
                between = between or STATES[r.code] != "MICRO"
            lost += after.at - r.at if not depth and not between else 0
        return lost / (marks[last].at - marks[0].at)

    def line(self):
        """The loop in short: D F B O for phases in their order, | for a step, - micro, ~ skipped, ! aborted."""
        out = ""
        for r in self.records:
            if r.kind == "PHASE_BEGIN":
                out += PHASES[r.code][0]
            elif r.kind == "STEP":
                out += {"DONE": "|", "MICRO": "-", "SKIPPED": "~", "ABORTED": "!"}[STATES[r.code]]
            elif r.kind == "EPOCH":
                out += "e"
        return out


class Collector:
    """with Collector(probe) as c: c.run([...]) — then c.rings, in the order in which they came."""

    def __init__(self, probe, hook=ROOT / "python" / "hook"):
        self.probe, self.hook = probe, hook
        self.rings = []
        self.stop = False

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="alula-hook-")
        self.path = os.path.join(self.folder.name, "socket")
        self.log = os.path.join(self.folder.name, "log")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.listener.settimeout(0.02)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop = True
        self.thread.join()
        self.listener.close()
        for ring in self.rings:
            ring.connection.close()
            ring.map.close()
        self.folder.cleanup()

    def take(self):
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return False
        connection.settimeout(5)
        fds = array.array("i")
        hello, control, _, _ = connection.recvmsg(64, socket.CMSG_SPACE(4))
        for _, kind, data in control:
            if kind == socket.SCM_RIGHTS:
                fds.frombytes(data[:4])
        if len(hello) == 64 and fds:
            self.rings.append(Ring(fds[0], hello, connection))
        return True

    def serve(self):
        while not self.stop:
            self.take()
            for ring in self.rings:
                ring.drain()

    def env(self, **more):
        path = os.environ.get("PYTHONPATH")
        return {**os.environ, "ALULA_SOCKET": self.path, "ALULA_PROBE": str(self.probe),
                "PYTHONPATH": str(self.hook) + (os.pathsep + path if path else ""), "ALULA_HOOK_LOG": self.log, **more}

    def run(self, command, env=None, timeout=120, **kwargs):
        """Runs it to its end, and reads what is left."""
        done = subprocess.run([str(part) for part in command], env=self.env(**(env or {})), timeout=timeout,
                              capture_output=True, text=True, check=False, **kwargs)
        self.stop = True
        self.thread.join()
        while self.take():
            pass
        for ring in self.rings:
            ring.drain()
        return done

    def complaints(self):
        """What the hook wrote for whoever debugs it."""
        return open(self.log).read() if os.path.exists(self.log) else ""


def python(code, *flags):
    return [sys.executable, *flags, "-c", code]
