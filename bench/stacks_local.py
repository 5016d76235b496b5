#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The own stack, taken from within by src/stack/core/local.h as the probe takes it, beside what Python itself offers there: CPU
time of one stack of 50 frames, the quickest of ten rounds."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = """
import ctypes, faulthandler, os, sys, time, traceback
lib = ctypes.PyDLL(sys.argv[1])
lib.local_nanoseconds.restype = ctypes.c_double
assert lib.local_open() == 0
null = open(os.devnull, "w")
count = ctypes.c_uint32()
def frames():
    f, n = sys._getframe(), 0
    while f:
        f.f_code, f.f_lasti
        f, n = f.f_back, n + 1
def least(call, times):
    best = None
    for _ in range(10):
        began = time.thread_time_ns()
        for _ in range(times):
            call()
        took = (time.thread_time_ns() - began) / times
        best = took if best is None else min(best, took)
    return best
def down(n):
    if n:
        return down(n - 1)
    figures = [lib.local_nanoseconds(how, times, ctypes.byref(count)) for how, times in ((0, 20000), (1, 500))]
    figures += [least(frames, 300), least(lambda: traceback.extract_stack(), 5),
                least(lambda: faulthandler.dump_traceback(null, all_threads=False), 10)]
    print(count.value, *figures)
down(48)
"""


def run(library, pythons):
    print(f"\n### The own stack from within: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| Python | frames | loads, ns | a frame, ns | through the kernel, ns | `f_back` in Python, ns | `extract_stack`, ns "
          "| `faulthandler`, ns |\n|---|---|---|---|---|---|---|---|")
    for name, command in pythons:
        done = subprocess.run([*command, "-c", PROGRAM, library], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: {(done.stderr.splitlines() or ['?'])[-1]}", file=sys.stderr)
            continue
        frames, *ns = map(float, done.stdout.split())
        cells = [f"{ns[0]:.0f}", f"{ns[0] / frames:.1f}"] + [f"{n:.0f} ({n / ns[0]:.0f}x)" for n in ns[1:]]
        print(f"| {name} | {frames:.0f} | {' | '.join(cells)} |")


def main():
    build = pathlib.Path(os.environ["ALULA_BUILD"])
    listed = pathlib.Path(os.environ.get("ALULA_PYTHONS") or build / "pythons") / "list"
    lines = listed.read_text().splitlines() if listed.exists() else []
    pythons = [(f"{sys.version_info[0]}.{sys.version_info[1]}", [sys.executable])]
    pythons += [(name, command) for name, *command in map(str.split, lines) if not name.startswith("musl")]
    run(build / "tests/unit/stack/liblocal-tool.so", pythons)


if __name__ == "__main__":
    main()
