# SPDX-License-Identifier: Apache-2.0
"""Runs train.py alone or under a tool, in fresh processes, and reads back what the tool said and cost."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
ALULA = os.environ["ALULA_BIN"]
TRAIN = [sys.executable, str(HERE / "train.py")]
TIMEOUT = 240


class Ran:
    """One run: the job's own line, what the tool found, and what it cost beside the job."""

    def __init__(self):
        self.job, self.found, self.explained, self.status, self.steps, self.lost = None, [], None, None, None, None
        self.wall = self.tree_mib = self.data_bytes = 0.0
        self.out, self.report = "", None


def _mib(pid):
    try:
        for line in pathlib.Path("/proc/%d/smaps_rollup" % pid).read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def _tree(root):
    """The pids below root, and root."""
    parents, found = {}, []
    for p in pathlib.Path("/proc").iterdir():
        if p.name.isdigit():
            try:
                parents[int(p.name)] = int((p / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
    for pid in parents:
        at = pid
        while at in parents and at != root:
            at = parents[at]
        if at == root:
            found.append(pid)
    return found


def _watch(process, ran, stop):
    """Memory of the whole tree: what it takes more than the job alone is the tool's."""
    while not stop.wait(0.25):
        ran.tree_mib = max(ran.tree_mib, sum(_mib(pid) for pid in _tree(process.pid)))


def _run(command, env, memory):
    ran, stop = Ran(), threading.Event()
    began = time.monotonic()
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watcher = threading.Thread(target=_watch, args=(process, ran, stop)) if memory else None
    if watcher:
        watcher.start()
    try:
        out = process.communicate(timeout=TIMEOUT)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        out = process.communicate()[0]
    stop.set()
    if watcher:
        watcher.join()
    ran.wall, ran.status = time.monotonic() - began, process.returncode
    for line in out.splitlines():
        if "ZOO {" in line:
            try:
                ran.job = json.loads(line[line.index("{"):line.rindex("}") + 1])
            except ValueError:
                pass
    ran.out = out
    return ran


def _size(folder, *names):
    return sum(p.stat().st_size for p in pathlib.Path(folder).rglob("*") if p.is_file() and (not names or p.suffix in names))


def alone(args, memory=False):
    return _run(TRAIN + args, dict(os.environ), memory)


def alula(args, memory=False):
    with tempfile.TemporaryDirectory() as folder:
        ran = _run([ALULA, "run", "--output-dir", folder, "--"] + TRAIN + args, dict(os.environ), memory)
        try:
            report = json.loads((pathlib.Path(folder) / "metrics_report.json").read_text())
        except (OSError, ValueError):
            return ran
        for v in report["alula"]["verdicts"]:
            if v["verdict"] == "finding" and v.get("finding", v).get("level") != "info":
                ran.found.append(v["rule"])
        for rank in report["alula"]["ranks"][:1]:
            ran.explained = rank["host_timeline"]["explained_ratio"]
            ran.steps, ran.lost = rank["steps"], rank["lost_records"]
        ran.data_bytes = _size(folder, ".alula")
        ran.report = report
    return ran


def traceml(args, memory=False):
    with tempfile.TemporaryDirectory() as folder:
        start = [sys.executable, "-c", "import sys; from traceml_ai.launcher.cli import main; sys.exit(main())"]
        ran = _run(start + ["run", TRAIN[1], "--run-name", "zoo", "--mode", "summary", "--logs-dir", folder,
                            "--finalize-timeout-sec", "20", "--args", "--tool", "traceml"] + args, dict(os.environ), memory)
        for path in pathlib.Path(folder).rglob("final_summary.json"):
            summary = json.loads(path.read_text())
            _kinds(summary, ran.found)
            ran.found = sorted(set(ran.found))
            evidence = (summary.get("primary_diagnosis") or {}).get("evidence") or {}
            ran.steps, step_ms = evidence.get("steps_analyzed"), evidence.get("step_time_ms")
            if ran.job and step_ms:  # what it calls a step's time, of what a step really took
                ran.explained = min(1.0, step_ms * 1e3 / ran.job["us_per_step"])
            ran.report = summary
        ran.data_bytes = _size(folder, ".db", ".sqlite", ".sqlite3", ".db-wal", "")
    return ran


def _kinds(node, found):
    """Every diagnosis and issue in it that is more than information."""
    if isinstance(node, dict):
        kind, severity = node.get("kind") or node.get("status"), str(node.get("severity", "")).lower()
        if kind and severity in ("warn", "warning", "crit", "critical", "high", "error"):
            found.append(str(kind).upper().replace(" ", "_"))
        for value in node.values():
            _kinds(value, found)
    elif isinstance(node, list):
        for value in node:
            _kinds(value, found)


def gpuprof(args, memory=False):
    with tempfile.TemporaryDirectory() as folder:
        ran = _run(TRAIN + ["--tool", "gpuprof", "--scratch", folder] + args, dict(os.environ), memory)
        ran.found = re.findall(r"\[(?:HIGH|MED|MEDIUM)\]\s*(.*)", ran.out)
        ran.data_bytes = _size(folder, ".db", ".db-wal")
    return ran


def callback(args, memory=False):
    return _run(TRAIN + ["--tool", "callback"] + args, dict(os.environ), memory)


TOOLS = {"alone": alone, "alula": alula, "TraceML": traceml, "gpuprof": gpuprof, "callback": callback}
