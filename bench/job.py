# SPDX-License-Identifier: Apache-2.0
"""alula run beside the tools that watch a training from the inside: what a step costs, and what each says of known faults.

Cost: fixed steps, fresh processes, alternating, medians. `us_per_step` is the job's own clock around its steps behind the
warm-up, so that starting up is apart (`start + end`: wall time of the whole command less that of the job alone, less the
steps' own). Nothing here is a test."""

import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "zoo"))

import tools  # noqa: E402
import truth  # noqa: E402

SHAPES = {
    "tiny MLP": ["--steps", "2000", "--warm", "100", "--width", "128", "--layers", "3", "--batch", "64"],
    "40 ms step": ["--steps", "100", "--warm", "10", "--fault", "slow_getitem", "--weight", "0.038"],
}


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def _row(name, runs, base):
    us, base_us = median([r.job and r.job["us_per_step"] for r in runs]), median([r.job and r.job["us_per_step"] for r in base])
    if us is None:
        return "| %s | failed | | | | | |" % name
    spread = [r.job["us_per_step"] for r in runs if r.job]
    steps = int(runs[0].job.get("steps", 0)) or None
    fixed = median([r.wall for r in runs]) - median([r.wall for r in base])
    same = all(r.job and (r.job["loss"], r.job["peak"]) == (base[0].job["loss"], base[0].job["peak"]) and r.status == 0 for r in runs)
    more = lambda v, unit, digits=1: "" if v is None else ("%.*f%s" % (digits, v, unit))  # noqa: E731
    return "| %s | %.1f | %+.1f (%.1f to %.1f) | %+.2f | %+.1f | %s | %s | %s |" % (
        name, us, us - base_us, min(spread) - base_us, max(spread) - base_us, fixed,
        median([r.tree_mib for r in runs]) - median([r.tree_mib for r in base]),
        more(median([r.data_bytes for r in runs]) / steps if steps and name != "alone" else None, "", 0),
        more(None if runs[0].explained is None else 100 * median([r.explained for r in runs]), " %"), "yes" if same else "NO")


def costs(rounds=7, shapes=SHAPES, names=tuple(tools.TOOLS), extra=()):
    for shape, args in shapes.items():
        runs = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                r = tools.TOOLS[name](list(args) + list(extra), True)
                if r.job:
                    r.job["steps"] = int(args[1])
                runs[name].append(r)
        print("\n#### %s, %d rounds, `train.py %s`\n" % (shape, rounds, " ".join(args)))
        print("| tool | us a step | more than alone (least, most) | start + end, s | memory beside, MiB | bytes a step | wall time explained | "
              "loss, peak, status as alone |\n|---|---|---|---|---|---|---|---|")
        for name in names:
            print(_row(name, runs[name], runs["alone"]))
        sys.stdout.flush()


def score(name, found, right, partly):
    """found: what the tool says above information."""
    hit = lambda words: any(w.lower() in str(f).lower() for f in found for w in words)  # noqa: E731
    return "right" if hit(right) else "class only" if hit(partly) else "wrong" if found else "silent"


def faults(names=("alula", "TraceML", "gpuprof"), gpu=False, steps=400, extra=(), only=()):
    print("\n#### Known faults, and the same programs without them (`bench/zoo/truth.py` was fixed beforehand)\n")
    print("| fault | " + " | ".join("%s | twin" % n for n in names) + " |\n|---|" + "---|---|" * len(names))
    right = {n: [0, 0] for n in names}
    for fault, t in list(truth.TRUTH.items()) + [(f, None) for f in truth.TWINS_ONLY]:
        if only and fault not in only:
            continue
        if fault in ("item_each_step", "small_kernels", "gpu_leak", "allocator_warmup") and not gpu:
            continue
        cells = []
        args = ["--fault", fault, "--steps", str(steps)] + list(extra)
        for n in names:
            field = n.lower()
            twin = tools.TOOLS[n](args + ["--twin"])
            alarm = sorted(set(map(str, twin.found)))
            right[n][1] += bool(alarm)
            if t is None:
                cells += ["", "false alarm: " + ", ".join(alarm)[:60] if alarm else "quiet"]
                continue
            ran = tools.TOOLS[n](args)
            said = score(n, ran.found, getattr(t, field), getattr(t, field + "_class"))
            right[n][0] += said == "right"
            cells += ["%s%s" % (said, " (%s)" % ", ".join(sorted(set(map(str, ran.found))))[:60] if ran.found else ""),
                      "false alarm: " + ", ".join(alarm)[:60] if alarm else "quiet"]
        print("| %s | %s |" % (fault, " | ".join(cells)), flush=True)
    for n in names:
        print("\n%s: %d right, %d false alarms on healthy twins." % (n, *right[n]))


if __name__ == "__main__":
    import argparse
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--gpu", action="store_true")
    p.add_argument("--only", choices=("costs", "faults"))
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--faults", default="", help="only these, separated by commas")
    p.add_argument("--tools", default="alone,alula,TraceML,gpuprof,callback")
    a = p.parse_args()
    chosen = tuple(a.tools.split(","))
    if a.only != "faults":
        costs(a.rounds, names=chosen)
    if a.only != "costs":
        faults(tuple(n for n in chosen if n not in ("alone", "callback")), a.gpu, a.steps, only=tuple(a.faults.split(",")) if a.faults else ())
