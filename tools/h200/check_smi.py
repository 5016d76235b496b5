# SPDX-License-Identifier: Apache-2.0
"""check_smi.py ALULA: `alula smi` against this machine's nvidia-smi, live.

Each query runs as nvidia-smi, alula, nvidia-smi. What both nvidia-smi runs agree on must be alula's bytes too; what moves
between them must lie between the two readings (numbers, with the slack of one step of the source) and have their form.
"""

import pathlib
import re
import subprocess
import sys

ALULA = sys.argv[1]
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/nvidia-smi-580.159.04"
# Moves on its own between two readings; slack in the cell's unit.
VOLATILE = {"power.draw.instant": 300, "power": 40, "utilization": 12, "clocks.current": 120, "temperature": 2, "memory.used": 64, "memory.free": 64,
            "clocks_event_reasons_counters": 2e6, "module.power": 40, "pcie.link": 0, "clocks_event_reasons": 0, "timestamp": 0}
failures = 0
checks = 0


def run(*command):
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def check(name, good, detail=""):
    global failures, checks
    checks += 1
    if not good:
        failures += 1
        print(f"DIFFERS {name}: {detail}")


def number(text):
    match = re.search(r"-?\d+(\.\d+)?", text)
    return float(match.group()) if match else None


def form(text):
    return re.sub(r"\d+", "9", text)


def check_cell(field, before, mine, after):
    if before == after == mine:
        check(field, True)
        return
    slack = next((s for prefix, s in VOLATILE.items() if field.startswith(prefix)), None)
    if slack is None:
        check(field, before == mine or after == mine, f"nvidia-smi {before!r} .. {after!r}, alula {mine!r}")
        return
    check(field + " (form)", form(mine) in (form(before), form(after)), f"{before!r} .. {after!r}, alula {mine!r}")
    low, high, value = number(before), number(after), number(mine)
    if field.startswith(("timestamp", "clocks_event_reasons.")) or None in (low, high, value):
        return
    check(field + " (value)", min(low, high) - slack <= value <= max(low, high) + slack, f"{before} .. {after}, alula {mine}")


def query(fields, mode):
    arguments = [f"--query-gpu={','.join(fields)}", f"--format={mode}"]
    before, mine, after = run("nvidia-smi", *arguments), run(ALULA, "smi", *arguments), run("nvidia-smi", *arguments)
    check(f"exit {mode}", before[0] == mine[0], f"{before[0]} {mine[0]} {mine[2]}")
    rows = [out[1].splitlines() for out in (before, mine, after)]
    check(f"rows {mode}", len(rows[0]) == len(rows[1]), f"{len(rows[0])} {len(rows[1])}")
    if "noheader" not in mode:
        check(f"header {mode}", rows[0][:1] == rows[1][:1], f"\n{rows[0][:1]}\n{rows[1][:1]}")
        rows = [r[1:] for r in rows]
    for lines in zip(*rows):
        cells = [line.split(", ") for line in lines]
        check(f"columns {mode}", len(cells[0]) == len(cells[1]))
        for field, *values in zip(fields, *cells):
            check_cell(field, *values)


def same(*arguments, wash=lambda t: t):
    theirs, mine = run("nvidia-smi", *arguments), run(ALULA, "smi", *arguments)
    check(" ".join(arguments) + " (exit)", theirs[0] == mine[0], f"{theirs[0]} {mine[0]}")
    check(" ".join(arguments), wash(theirs[1]) == wash(mine[1]), f"\n{theirs[1]!r}\n{mine[1]!r}")


def main():
    help_text = run("nvidia-smi", "--help-query-gpu")[1]
    fields = re.findall(r'^"([a-zA-Z0-9_.]+)"', help_text, re.M)
    fields = [f for f in dict.fromkeys(fields) if not f[0].isdigit()]
    print(f"{len(fields)} documented fields")
    for mode in ("csv", "csv,noheader", "csv,nounits", "csv,noheader,nounits"):
        query(fields, mode)
    core = ["index", "utilization.gpu", "utilization.memory", "memory.total", "memory.free", "temperature.gpu", "power.draw",
            "pcie.link.gen.current", "pcie.link.width.current"]
    query(core, "csv,noheader,nounits")
    query(["timestamp", "name", "temperature.gpu", "utilization.gpu", "memory.used", "memory.total"], "csv")
    same("-L")
    no_time = lambda t: re.sub(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}", "TIME", t)
    apps = "timestamp,gpu_name,gpu_bus_id,gpu_serial,gpu_uuid,pid,process_name,used_gpu_memory"
    for mode in ("csv", "csv,noheader,nounits"):
        same(f"--query-compute-apps={apps}", f"--format={mode}", wash=no_time)
    for bad in (["--query-gpu=foo", "--format=csv"], ["--query-gpu=name,foo", "--format=csv"], ["--query-gpu=name", "--format=json"],
                ["--query-gpu=name", "--format=csv", "-i", "7"], ["--bogus"], ["--query-gpu=", "--format=csv"]):
        same(*bad)
    numbers = lambda t: re.sub(r" +\d+", lambda m: " " * (len(m.group()) - 1) + "9", t)
    same("dmon", "-c", "2", wash=numbers)
    same("dmon", "-s", "pucvmet", "-c", "2", wash=numbers)
    same("pmon", "-c", "1", wash=lambda t: re.sub(r"(  )( *)(\d+|-)(?= )", lambda m: " " * (len(m.group()) - 1) + "9", t))
    print(f"{checks - failures} of {checks} checks equal nvidia-smi's")
    sys.exit(1 if failures else 0)


main()
