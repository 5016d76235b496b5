# SPDX-License-Identifier: Apache-2.0
"""Real frameworks on the CPU, each in its own environment (tools/venv-frameworks NAME makes build/venv-NAME): jobs run
under alula run, and what the report says of them. A missing environment is a failure, never a skip."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
NO_DRIVER = {"ALULA_NVML_LIBRARY": "/nonexistent/libnvidia-ml.so.1"}


def _from_env(name):
    value = os.environ.get(name)
    if not value:
        pytest.exit(f"{name} is not set; run these tests with `make frameworks`", returncode=2)
    return pathlib.Path(value)


@pytest.fixture(scope="session")
def alula_bin():
    return _from_env("ALULA_BIN")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with model/, sft.jsonl, dpo.jsonl and prompts.jsonl."""
    folder = tmp_path_factory.mktemp("tiny") / "files"
    subprocess.run([sys.executable, HERE / "tiny.py", folder], check=True, timeout=300)
    return folder


@pytest.fixture(scope="session")
def program():
    """program("swift4", "swift") is a program of that environment."""
    folder = _from_env("ALULA_BUILD")

    def find(environment, name="python"):
        path = folder / f"venv-{environment}" / "bin" / name
        assert path.exists(), f"{path} is missing: run tools/venv-frameworks {environment}"
        return path

    return find


@pytest.fixture
def offline(tmp_path):
    """What a job's environment needs so that nothing is looked for in the network, and no home folder is used."""
    cache = tmp_path / "cache"
    return {**NO_DRIVER, "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "USE_HF": "1",
            "HF_HUB_OFFLINE": "1", "MODELSCOPE_REPO_TREE_PAGE_MAX_ATTEMPTS": "1", "HF_HOME": str(cache / "hf"), "MODELSCOPE_CACHE": str(cache / "ms"),
            "MPLCONFIGDIR": str(cache / "matplotlib"), "ALULA_HOOK_LOG": str(tmp_path / "hook.log"),
            "DS_BUILD_OPS": "0", "ACCELERATE_USE_CPU": "true"}


class Watched:
    """A job that ran under alula: what it said, and the report."""

    def __init__(self, done, report, hook_log):
        self.done, self.report, self.hook_log = done, report, hook_log
        self.ranks = sorted(report["alula"]["ranks"], key=lambda row: row["rank"] or 0) if report else []

    def said(self):
        """alula's own lines."""
        return [line for line in self.done.stderr.replace("\r", "\n").split("\n") if "alula: " in line]

    def seconds(self, rank=0):
        return self.ranks[rank]["host_timeline"]["seconds"]

    def explained(self):
        return min(row["host_timeline"]["explained_ratio"] for row in self.ranks)

    def verdict(self, rule):
        return next(v for v in self.report["alula"]["verdicts"] if v["rule"] == rule)


@pytest.fixture
def watch(alula_bin, offline, tmp_path):
    """watch(command, status=0) runs it under alula run with a report in a folder of its own."""

    def run(*command, status=0, options=(), env=None, timeout=240):
        report = tmp_path / "report"
        done = subprocess.run([str(word) for word in (alula_bin, "run", "--output-dir", report, *options, "--", *command)],
                              env={**os.environ, **offline, **(env or {})}, capture_output=True, encoding="utf-8",
                              errors="replace", cwd=tmp_path, timeout=timeout, check=False)
        assert done.returncode == status, done.stdout[-3000:] + done.stderr[-6000:]
        written = report / "metrics_report.json"
        log = tmp_path / "hook.log"
        watched = Watched(done, json.loads(written.read_text()) if written.exists() else None,
                          log.read_text() if log.exists() else "")
        assert not watched.hook_log, watched.hook_log
        return watched

    return run


@pytest.fixture
def port():
    """A free one for torchrun: with 0 it would have its ranks wait for ever."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def script(tmp_path):
    """script(code) writes a job's file and returns its path."""

    def write(code, name="job.py"):
        path = tmp_path / name
        path.write_text(code)
        return path

    return write
