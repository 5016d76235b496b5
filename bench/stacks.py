#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""alula profile beside py-spy, austin and Python 3.15's profiling.sampling, in one run, in turns: `make bench
BENCH_ARGS="--only stacks"`, or by itself, without a network: ALULA_BIN=alula bench/stacks.py --wheels DIR --python315 PATH.

Every figure is the median of --rounds with its quartiles. Each round goes through all tools in another order. Tools that
take processes of 3.15 alone are compared with alula on 3.15. On a quiet machine cost takes 6 minutes, slowdown 15, pauses 16, the
rest 3."""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import stacks_tools
from stacks_target import CYCLE_MS, numbers

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "tests/stacks/programs"
SECTIONS = ("cost", "slowdown", "pauses", "shares", "torn", "start")
BUSY, TREE, PLAIN = frozenset(("busy",)), frozenset(("busy", "tree")), frozenset()
TARGETS = {"deep 50": (["deep", "50"], PLAIN), "deep 500": (["deep", "500"], PLAIN),
           "160 idle threads": (["idle", "160"], BUSY), "8 processes": (["ranks", "8"], TREE)}


class Target:
    """A program that runs, and its table of numbers."""

    def __init__(self, python, arguments, script=HERE / "stacks_target.py"):
        with tempfile.NamedTemporaryFile(delete=False) as f:
            f.truncate(512)
        self.path = f.name
        self.table = numbers(self.path)
        table = [self.path] if script.name == "stacks_target.py" else []
        self.process = subprocess.Popen([*python, str(script), *table, *arguments], stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "BENCH_PYTHON": json.dumps(python)}, start_new_session=True)
        self.pid = self.process.pid
        self.clock = ~self.pid << 3 | 2  # clock_getcpuclockid(3)
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(f"{arguments}: the program did not start")
        time.sleep(0.3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.pid, 9)  # of the session that it began
        self.process.wait()
        self.process.stdout.close()
        os.unlink(self.path)

    def steps(self):
        return sum(self.table)

    def speed(self, seconds):
        """Steps a second."""
        return self.speeds(seconds)[0]

    def speeds(self, seconds):
        """Steps a second, and steps a second of the process's own CPU time."""
        began, spent, steps = time.monotonic(), time.clock_gettime(self.clock), self.steps()
        time.sleep(seconds)
        steps = self.steps() - steps
        return steps / (time.monotonic() - began), steps / max(time.clock_gettime(self.clock) - spent, 1e-9)


class Bench:
    def __init__(self, options, tools, missing, python315):
        self.options, self.tools, self.missing = options, tools, missing
        self.python = {"own": [sys.executable], "3.15": python315}
        self.rows, self.failures = [], {}
        self.random = random.Random(1)

    def turns(self, kind):
        tools = [tool for tool in self.tools if tool.target == kind]
        self.random.shuffle(tools)
        return tools

    def kinds(self):
        return [kind for kind in ("own", "3.15") if any(tool.target == kind for tool in self.tools)]

    def fail(self, tool, where, why):
        self.failures.setdefault((tool.name, where), why)

    def run(self, tool, where, *arguments):
        done = stacks_tools.run(tool, *arguments)
        if done.failed():
            self.fail(tool, where, done.failed())
            return None
        return done

    def keep(self, section, what, rows):
        """rows: {tool: {column: [values]}}"""
        for tool in self.tools:
            for column, values in rows.get(tool.name, {}).items():
                if values:
                    self.rows.append({"section": section, "what": what, "tool": tool.name, "column": column,
                                      "median": (statistics.mean if is_mean(column) else statistics.median)(values),
                                      "values": values})
        table(self, section, what)
        if self.options.json:  # after each: who has no time for all of them has what was done
            write_json(self)


def is_mean(column):
    """Of many differences that each are mostly noise; else it is the median that is told."""
    return column.endswith("mean %")


def put(rows, tool, column, value):
    rows.setdefault(tool.name, {}).setdefault(column, []).append(value)


def cost(bench):
    """CPU time: the difference of a long and a short run divided by the difference in samples, so that starting is left out."""
    rates = [("deep 50", 1000), ("deep 50", 10000), ("deep 500", 1000), ("160 idle threads", 100), ("8 processes", 100)]
    for what, rate in rates:
        arguments, options = TARGETS[what]
        rows = {}
        for kind in bench.kinds():
            with Target(bench.python[kind], arguments) as target:
                for _ in range(bench.options.rounds):
                    for tool in bench.turns(kind):
                        cost_of(bench, tool, target, what, rate, options, rows)
        bench.keep("cost", f"{what}, asked for {rate} Hz", rows)


def taken(run, options):
    """Samples. Of many processes or threads each tool counts in another way: then the stacks are counted that it wrote, of
    the one thread that runs where all others sleep."""
    if "tree" in options:
        return run.total()
    return sum(n for names, n in run.stacks if "idle" in names) if "busy" in options else run.samples


def cost_of(bench, tool, target, what, rate, options, rows):
    a = bench.run(tool, what, target.pid, rate, 1, options)
    more = 1 if rate > 1000 else bench.options.seconds  # py-spy ends when it has its samples, not when the time is over
    b = a and bench.run(tool, what, target.pid, rate, 1 + more, options)
    samples = taken(b, options) - taken(a, options) if b else 0
    if samples <= 0 or b.cpu <= a.cpu or b.wall <= a.wall:
        if b:
            bench.fail(tool, f"{what} at {rate} Hz, a round", "the longer run took no more than the short one")
        return
    spent, unit = b.cpu - a.cpu, "stack" if "tree" in options else "sample"
    put(rows, tool, f"CPU a {unit}, us", spent / samples * 1e6)
    put(rows, tool, f"{unit}s a second", samples / (b.wall - a.wall))
    put(rows, tool, "% of a core", spent / (b.wall - a.wall) * 100)


def slowdown(bench):
    for what in bench.options.targets:
        arguments, options = TARGETS[what]
        for rate in bench.options.rates:
            rows = {}
            for kind in bench.kinds():
                with Target(bench.python[kind], arguments) as target:
                    for _ in range(bench.options.rounds):
                        slow_round(bench, target, kind, what, rate, options, rows)
            bench.keep("slowdown", f"{what}, asked for {rate} Hz", rows)


def slow_round(bench, target, kind, what, rate, options, rows):
    seconds = bench.options.window
    before = target.speed(seconds)
    for tool in bench.turns(kind):
        started = stacks_tools.Started(tool, target.pid, rate, None, options)
        time.sleep(2.5 if tool.target == "3.15" and tool.name != "alula, of 3.15" else 1)
        during = target.speed(seconds)
        started.interrupt()
        done = started.end()
        after = target.speed(seconds)
        if done.failed():
            bench.fail(tool, f"{what} at {rate} Hz", done.failed())
        else:
            put(rows, tool, "slower by, %", (1 - during / ((before + after) / 2)) * 100)
            put(rows, tool, "samples a second", done.samples / done.wall)
        before = after


def pauses(bench):
    """What is too small for two runs to tell: the tool is stopped and let go on again and again, and the target's speed with it
    compared with its mean speed just before and after. Only of tools that do not stop the target themselves."""
    for what in [t for t in bench.options.targets if "tree" not in TARGETS[t][1]]:
        arguments, options = TARGETS[what]
        rows, rate = {}, min(bench.options.rates)
        for kind in bench.kinds():
            with Target(bench.python[kind], arguments) as target:
                for tool in bench.turns(kind):
                    if not tool.name.startswith("py-spy"):
                        pauses_of(bench, tool, target, what, rate, options, rows)
        bench.keep("pauses", f"{what}, {rate} Hz, stopped {bench.options.pauses} times", rows)


def pauses_of(bench, tool, target, what, rate, options, rows):
    started = stacks_tools.Started(tool, target.pid, rate, None, options)
    time.sleep(2.5)
    process = started.process.pid

    def speeds(running):
        os.kill(process, signal.SIGCONT if running else signal.SIGSTOP)
        time.sleep(0.02)
        return target.speeds(bench.options.window / 4)

    off = speeds(False)
    for _ in range(bench.options.pauses):
        on, after = speeds(True), speeds(False)
        for column, with_it, before, behind in zip(("slower by, mean %", "CPU time a step more by, mean %"), on, off, after):
            put(rows, tool, column, (1 - with_it / ((before + behind) / 2)) * 100)
        off = after
    os.kill(process, signal.SIGCONT)
    started.interrupt()
    done = started.end()
    if done.failed():
        bench.fail(tool, f"{what} at {rate} Hz, with pauses", done.failed())
        rows.pop(tool.name, None)


def shares(bench):
    """Against the program's own clock over the same time: half the sum of the differences of the four shares."""
    kinds_of_work, rows = ("loop_work", "nested_work", "parse_work", "digest_work"), {}
    for kind in bench.kinds():
        with Target(bench.python[kind], ["shares"]) as target:
            for _ in range(bench.options.rounds):
                for tool in bench.turns(kind):
                    before = list(target.table)[:4]
                    done = bench.run(tool, "shares", target.pid, 1000, bench.options.seconds + 1)
                    if not done:
                        continue
                    spent = [b - a for a, b in zip(before, list(target.table)[:4])]
                    counts = [sum(n for names, n in done.stacks if kind_of in names) for kind_of in kinds_of_work]
                    if not sum(counts):
                        bench.fail(tool, "shares", "none of the program's functions in its output")
                        continue
                    off = [c / sum(counts) - s / sum(spent) for c, s in zip(counts, spent)]
                    put(rows, tool, "share error, %", 50 * sum(map(abs, off)))
                    put(rows, tool, "largest, %", 100 * max(map(abs, off)))
                    put(rows, tool, "stacks", sum(counts))
    bench.keep("shares", "four functions, 1000 Hz", rows)


def torn(bench):
    programs = {"realistic": ([], "one", "two"), "flip": (["50"], "a", "b")}
    for name, (arguments, one, two) in programs.items():
        rows = {}
        for kind in bench.kinds():
            with Target(bench.python[kind], arguments, PROGRAMS / f"{name}.py") as target:
                for _ in range(bench.options.rounds):
                    for tool in bench.turns(kind):
                        done = bench.run(tool, name, target.pid, 5000, bench.options.seconds)
                        if not done:
                            continue
                        mixed = whole = 0
                        for names, n in done.stacks:
                            prefixes = {f.partition("_")[0] for f in names}
                            mixed += n * (one in prefixes and two in prefixes)
                            whole += n
                        put(rows, tool, "stacks", whole)
                        put(rows, tool, "torn, %", 100 * mixed / max(whole, 1))
                        put(rows, tool, "said to be bad or incomplete, %", 100 * done.errors / max(done.samples, 1))
        bench.keep("torn", f"{name}.py, asked for 5000 Hz", rows)


def start(bench):
    """The first sample says by its function's name when it was taken."""
    rows = {}
    for kind in bench.kinds():
        with Target(bench.python[kind], ["clock"]) as target:
            for _ in range(bench.options.rounds):
                for tool in bench.turns(kind):
                    began = time.monotonic() * 1000
                    done = bench.run(tool, "start", target.pid, 1000, 1)
                    times = [(int(f[2:]) - began) % CYCLE_MS for names, _ in done.stacks for f in names
                             if f.startswith("t_")] if done else []
                    if times:
                        # Up to one ms before: the name says when the function was entered.
                        put(rows, tool, "first sample after, ms", min(t for t in times if t < CYCLE_MS - 2) + 0.5)
    bench.keep("start", "first sample after the start, 1000 Hz", rows)


def standard_error(values):
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0


def cell(values, base, mean=False):
    """Median, quartiles, and how many times alula's; or the mean and its standard error."""
    if mean:
        return f"{statistics.mean(values):.3f} ± {standard_error(values):.3f}"
    low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    median = statistics.median(values)
    times = f", x{median / base:.1f}" if base else ""
    return f"{median:.4g} ({low:.4g} to {high:.4g}{times})"


def own_name(tool):
    """The row of alula that a tool is compared with: on the same interpreter."""
    return "alula, of 3.15" if tool in ("profiling.sampling", "alula, of 3.15") else "alula"


def table(bench, section, what):
    """Medians, in brackets the quartiles and the ratio to alula's."""
    of = {(r["column"], r["tool"]): r for r in bench.rows if r["section"] == section and r["what"] == what}
    columns = list(dict.fromkeys(column for column, _ in of))
    print(f"\n| {what} | {' | '.join(columns)} |\n|{'---|' * (1 + len(columns))}")
    for tool in bench.tools:
        cells = []
        for column in columns:
            r, own = of.get((column, tool.name)), of.get((column, own_name(tool.name)))
            ratio = own["median"] if own and own["tool"] != tool.name and column.startswith(("CPU", "first")) else 0
            cells.append(cell(r["values"], ratio, is_mean(column)) if r else "-")
        if any(c != "-" for c in cells):
            print(f"| {tool.name} | {' | '.join(cells)} |", flush=True)


def goals(bench):
    """The targets of docs/requirements.md, and where a peer is ahead."""
    of = {(r["what"], r["column"], r["tool"]): r["median"] for r in bench.rows}
    # Twice the standard error of a mean, else 0.
    doubt = {(r["what"], r["column"], r["tool"]): 2 * standard_error(r["values"]) * is_mean(r["column"]) for r in bench.rows}
    aims = [("deep 50, asked for 10000 Hz", "CPU a sample, us", 5), ("8 processes, asked for 100 Hz", "% of a core", 5),
            ("160 idle threads, asked for 100 Hz", "slower by, %", 0.5),
            (f"160 idle threads, 100 Hz, stopped {bench.options.pauses} times", "slower by, mean %", 0.5),
            ("realistic.py, asked for 5000 Hz", "torn, %", 0.01),
            ("first sample after the start, 1000 Hz", "first sample after, ms", 50)]
    print("\nTo reach:")
    for what, column, aim in aims:
        for tool in ("alula", "alula, of 3.15"):
            value, about = of.get((what, column, tool)), doubt.get((what, column, tool))
            if value is not None:
                print(f"- {tool}: {what}: {column} {value:.3g}{f' ± {about:.2g}' if about else ''}, aim {aim}: "
                      f"{'reached' if value + about <= aim else 'NOT reached' if value - about > aim else 'not to be told'}")
    behind = []
    for (what, column, tool), value in of.items():
        less = column.startswith(("CPU", "% of", "slower", "share", "torn", "first"))
        key = (what, column, own_name(tool))
        own = of.get(key)
        # Cheaper a second because it takes fewer samples is not ahead.
        ahead = own is not None and value + doubt[what, column, tool] < own - doubt[key]
        if less and ahead and "alula" not in tool and not column.startswith("% of"):
            behind.append(f"- behind {tool}: {what}: {column} {own:.4g}, there {value:.4g}")
    print("\n".join(behind) or "- behind no peer in any figure above")
    for (tool, where), why in bench.failures.items():
        print(f"- {tool} gave nothing for {where}: {why}")


def arguments(parser):
    parser.add_argument("--rounds", type=int, default=3, help="turns of all tools for each figure (3)")
    parser.add_argument("--seconds", type=int, default=3, help="of each run of a tool (3)")
    parser.add_argument("--window", type=float, default=1.5, help="seconds in which the target's speed is taken (1.5)")
    parser.add_argument("--pauses", type=int, default=100, help="how often a tool is stopped for its slowdown to be seen (100)")
    parser.add_argument("--rates", type=lambda t: [int(r) for r in t.split(",")], default=[100, 1000, 10000],
                        help="samples a second of the slowdown (100,1000,10000)")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="SECTION",
                        help="of " + ", ".join(SECTIONS))
    parser.add_argument("--tools", nargs="+", metavar="NAME", help='only these, as "alula" "py-spy --nonblocking"')
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), metavar="TARGET", default=list(TARGETS),
                        help="of the slowdown: " + ", ".join(TARGETS))
    parser.add_argument("--wheels", type=pathlib.Path, help="folder with wheels of py-spy and austin-dist; else downloaded")
    parser.add_argument("--python315", help="a Python 3.15, or a folder with usr/bin/python3.15 of a distribution's packages")
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures there")


def run(options, alula):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(124))  # a time limit: the programs end, too
    with tempfile.TemporaryDirectory() as folder:
        wheels = options.wheels or HERE.parent / "build/bench-wheels"
        if not options.wheels:
            stacks_tools.download(wheels)
        tools, missing, python315 = stacks_tools.find(alula, wheels, options.python315, pathlib.Path(folder))
        tools = [tool for tool in tools if not options.tools or tool.name in options.tools]
        bench = Bench(options, tools, missing, python315)
        print(f"\n### Stack samplers: Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
              f"{options.rounds} rounds\n")
        for name, why in missing:
            print(f"{name} is missing here and left out: {why}")
        for section in options.sections:
            {"cost": cost, "slowdown": slowdown, "pauses": pauses, "shares": shares, "torn": torn, "start": start}[section](bench)
        goals(bench)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


def write_json(bench):
    failures = [[*where, why] for where, why in bench.failures.items()]
    bench.options.json.write_text(json.dumps({"python": sys.version, "cores": os.cpu_count(), "missing": bench.missing, "rows": bench.rows,
                                              "failures": failures}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser)
    run(parser.parse_args(), os.environ["ALULA_BIN"])


if __name__ == "__main__":
    main()
