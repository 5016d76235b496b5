# SPDX-License-Identifier: Apache-2.0
"""The process's own stacks, taken from within it without the GIL: in calls, allocator hooks, signal handlers, foreign threads."""

import json
import pathlib
import shutil
import subprocess

import pytest

from conftest import ALL, PROGRAMS, version_of

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CASES = ["module", "recursion", "generator", "called by a sort", "thread", "coroutine"]
WAYS = ["plain, GIL held", "plain, GIL released", "guarded, GIL held", "guarded, GIL released", "in a signal handler"]


@pytest.fixture(scope="session")
def library(tools, tmp_path_factory):
    """library(name): the tool as that interpreter can load it."""
    made = tmp_path_factory.mktemp("local") / "liblocal-tool.so"

    def get(name):
        if not name.startswith("musl"):
            return tools / "liblocal-tool.so"
        if not shutil.which("musl-gcc"):
            pytest.skip("no musl-gcc here")
        if not made.exists():
            core = sorted((SOURCE / "src/stack/core").glob("*.c"))
            subprocess.run(["musl-gcc", "-O2", "-std=gnu11", "-shared", "-fPIC", f"-I{SOURCE}/src", "-o", made,
                            SOURCE / "tests/unit/stack/local_tool.c", *core], check=True)
        return made

    return get


@pytest.fixture(scope="module")
def told(library):
    """told(name, *arguments): what the program says, once for each."""
    kept = {}

    def run(name, *arguments):
        key = (name, *arguments)
        if key not in kept:
            done = subprocess.run([*ALL[name], PROGRAMS / "local.py", library(name), *arguments], capture_output=True,
                                  text=True, timeout=300, check=False)
            assert done.returncode == 0, (done.returncode, done.stderr)
            kept[key] = json.loads(done.stdout)
        return kept[key]

    return run


each = pytest.mark.parametrize("name", sorted(ALL, key=version_of))


@each
def test_stacks_from_within(name, told):
    cases = told(name)["cases"]
    assert set(cases) == {f"{case}, {way}" for case in CASES for way in WAYS} | {"another thread"}
    for case, (expected, got) in cases.items():
        assert got == expected, case
        assert len(got) > (1000 if "recursion" in case else 2)


@each
def test_a_thread_without_python_and_a_short_array(name, told):
    facts = told(name)["facts"]
    assert facts["opened"] == 0
    assert facts["no python"] == [0, 0]
    assert facts["cut"] == [[7, 1], [7, 1]]


@each
def test_allocator_hooks(name, told):
    """Each of many thousand stacks ends at the module, and is read alike by loads and through the kernel."""
    hooks = told(name)["facts"]["hooks"]
    print(f"{name}: {hooks}")
    assert hooks["taken"] > 2000
    assert not any(hooks[what] for what in ("none", "damaged", "wrong", "differ")), hooks


@each
def test_signal_handlers_at_any_moment(name, told):
    """A handler may come between two stores of the interpreter: hardly ever, and nothing worse than a short stack follows."""
    signals = told(name)["facts"]["signals"]
    print(f"{name}: {signals}, {told(name)['facts']['ns']} ns and frames")
    assert signals["taken"] >= 1500
    assert signals["none"] + signals["damaged"] + signals["wrong"] <= 0.02 * signals["taken"], signals


@pytest.mark.parametrize("name", sorted({"3.8", "3.11", "3.12", "3.13", "sid-3.14", "3.13t"} & set(ALL), key=version_of))
def test_without_exported_functions(name, told):
    """The own thread is found in the interpreter's lists."""
    for case, (expected, got) in told(name, "search")["cases"].items():
        assert got == expected, case
    assert told(name, "search")["facts"]["no python"] == [0, 0]


@pytest.mark.parametrize("name", sorted({version_of(n): n for n in ALL}.values(), key=version_of))
def test_a_second_interpreter(name, library):
    done = subprocess.run([*ALL[name], "-W", "ignore", PROGRAMS / "local_interps.py", library(name)], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    opened, *ways = json.loads(done.stdout)
    assert opened == 0 and len(ways) == 4
    for held, how, expected, got in ways:
        # To 3.11, the thread without the GIL is known by its first interpreter's state alone.
        outer = ["around", "<module>"] if version_of(name) < (3, 12) and not held else None
        assert got == (outer or expected) and expected == ["inner", "outer", "<module>"], (held, how)


# Not debug builds: 3.9's ends by itself with a segmentation fault when such threads are there.
@pytest.mark.parametrize("name", sorted({version_of(n): n for n in ALL if "debug" not in n}.values(), key=version_of))
def test_threads_that_end_a_fork_and_the_end(name, library):
    done = subprocess.run([*ALL[name], "-W", "ignore", PROGRAMS / "local_end.py", library(name)], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    (taken, none, damaged, wrong, differ), status = json.loads(done.stdout)
    assert status == 0 and taken > 2000
    assert (none, damaged, wrong, differ) == (0, 0, 0, 0)
