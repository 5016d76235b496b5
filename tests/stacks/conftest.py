# SPDX-License-Identifier: Apache-2.0
"""The stack sampler against real interpreters: this machine's and those of tools/pythons (build/pythons), each running
programs that say themselves what their stacks are. One that could not be had is skipped by name; those of REQUIRED fail."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
sys.path.insert(0, str(HERE.parent / "integration"))
import interpreters  # noqa: E402
import procs  # noqa: E402
from procs import below, settle  # noqa: E402, F401

PYTHONS = pathlib.Path(os.environ.get("ALULA_PYTHONS") or HERE.parents[1] / "build/pythons")
REQUIRED = ["3.9", "3.11", "3.13", "3.13t", "3.14", "3.14t", "3.15"]
WHAT = {"state": 1, "gil": 2, "busy": 4, "names": 8}


def _listed(which):
    """{name: command} of what tools/pythons has got."""
    listed = PYTHONS / which
    lines = listed.read_text().splitlines() if listed.exists() else []
    return {name: command for name, *command in map(str.split, lines)}


# "3.11" of this machine, "sid-3.14" of tools/pythons; others: what alula refuses.
ALL = {**{"%d.%d" % version: [path] for version, path in interpreters.ALL}, **_listed("list")}
OTHERS = _listed("others")


def version_of(name):
    """(3, 13, True) for "sid-3.13t"."""
    text = name.rpartition("-")[2]
    return 3, int(text.rstrip("t").split(".")[1]), text.endswith("t")


@pytest.fixture(scope="session")
def tools():
    build = os.environ.get("ALULA_BUILD")
    if not build:
        pytest.exit("ALULA_BUILD is not set; run these tests with `make stacks`", returncode=2)
    return pathlib.Path(build) / "tests/unit/stack"


@pytest.fixture(scope="session")
def alula(tools):
    """alula("dump", pid) runs the command; .path is where it is."""

    def run(*words):
        return subprocess.run([run.path, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)

    run.path = tools.parents[2] / "src/cli/alula"
    return run


@contextlib.contextmanager
def started(command, *arguments, env=None, **more):
    """The process once it has printed "ready"; what it printed before, a line of JSON or nothing, is its .said."""
    child = subprocess.Popen([*command, *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=env, **more)
    try:
        child.said = None
        for line in child.stdout:
            if line.strip() == "ready":
                break
            child.said = json.loads(line)
        else:
            pytest.fail(f"{command} ended before it was ready")
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.fixture(scope="session")
def sample(tools):
    """sample(pid, samples=…) gives (list of samples, the closing line); a failure's (code, text) is in .failed."""

    def run(pid, samples=1, every_us=1000, what="state names", depth=0, quiet=False, command=(), **more):
        bits = sum(WHAT[word] for word in what.split())
        env = {**os.environ, **({"STACK_TOOL_QUIET": "1"} if quiet else {})}
        done = subprocess.run([*command, tools / "stack-tool", *map(str, (pid, samples, every_us, bits, depth))],
                              env=env, capture_output=True, text=True, timeout=300, check=False, **more)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        error = done.stderr.strip()
        failed = (int(error.split()[0]), error.partition(" ")[2]) if done.returncode else None
        return [line["threads"] for line in lines[:-1]], lines[-1] if lines else None, failed

    return run


@pytest.fixture
def open_path():
    with procs.open_folder() as folder:
        yield folder
