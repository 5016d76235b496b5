# SPDX-License-Identifier: Apache-2.0
"""Where interpreters hide: without symbols, without sections, deleted, in another root, in another pid namespace, embedded;
and what is said of processes that cannot be read."""

import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import ALL, OTHERS, PROGRAMS, PYTHONS, settle, started, version_of
from procs import NOBODY

DENIED, FORMAT, UNSUPPORTED, AGAIN, GONE, NOENT = -4, -6, -15, -16, -18, -5
MAIN = """
import sys, time
def marked():
    print("ready", flush=True)
    time.sleep(600)
marked()
"""


def shared(version):
    """(program, libpython) of a build of pyenv's with a shared library."""
    for home in sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*"))):
        found = glob.glob(f"{home}/lib/libpython3.*.so.1.0")
        if found:
            return f"{home}/bin/python3", pathlib.Path(found[0])
    return pytest.skip(f"no CPython {version} with a shared library here")


EMBED = """
#include <Python.h>
int main(void) {
    Py_Initialize();
    return PyRun_SimpleString("import time\\ndef marked():\\n    print('ready', flush=True)\\n    time.sleep(600)\\nmarked()\\n");
}
"""


def embedded(version, where, *link, source=EMBED):
    """A C program that holds Python; returns it and the environment to run it in."""
    _, library = shared(version)
    home = library.parents[1]
    (where / "app.c").write_text(source)
    subprocess.run(["gcc", f"-I{home}/include/python{version}", where / "app.c", "-o", where / "app",
                    *(str(l).format(home=home, version=version) for l in link)], check=True)
    return where / "app", {**os.environ, "PYTHONHOME": str(home)}


STATIC = glob.glob(os.path.expanduser("~/.pyenv/versions/*/lib/python3.*/config-*/libpython3.*.a"))


@pytest.mark.parametrize("version, symbols, sections, how", [
    ("3.8", True, True, "symtab"), ("3.8", False, True, "scan"), ("3.9", False, True, "scan"),
    ("3.10", False, True, "section"), ("3.10", False, False, "scan"), ("3.11", True, True, "symtab"),
    ("3.11", False, True, "section"), ("3.11", False, False, "scan"), ("3.12", False, False, "scan"),
    ("3.13", True, True, "symtab"), ("3.13", False, True, "section"), ("3.13", False, False, "cookie")])
def test_embedded_statically(version, symbols, sections, how, tmp_path, sample):
    archive = [path for path in STATIC if path.endswith(f"libpython{version}.a")]
    if not archive:
        pytest.skip(f"no static library of CPython {version} here")
    app, env = embedded(version, tmp_path, archive[0], "-lm", "-ldl", "-lpthread", "-lutil")
    if not symbols:
        subprocess.run(["strip", app], check=True)
    data = bytearray(app.read_bytes())
    if not sections:
        data[40:48] = bytes(8)  # e_shoff
        data[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
        app.write_bytes(data)
    with started([app], env=env) as child:
        settle(child.pid)
        samples, end, failed = sample(child.pid, what="state")
    assert not failed, failed
    assert end["found"] == how, end
    frames = samples[0][0]["frames"]
    assert [f["name"] for f in frames] == ["marked", "<module>"] and [f["line"] for f in frames] == [4, 5]


@pytest.mark.parametrize("name", ["3.8", "3.11", "3.13"])
def test_deleted_files(name, tmp_path, sample):
    program, library = shared(name)
    shutil.copy(library, tmp_path)
    with started([program], "-S", "-c", MAIN, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}) as child:
        shutil.rmtree(tmp_path)
        settle(child.pid)
        samples, _, failed = sample(child.pid)
    assert not failed
    assert samples[0][0]["frames"][0]["name"] == "marked"


@pytest.mark.parametrize("version", ["3.13", "3.14", "3.15"])
def test_another_root(version, tmp_path, sample):
    root = PYTHONS / "sid"
    with started(["chroot", root, f"/usr/bin/python{version}"], "-c", MAIN) as child:
        settle(child.pid)
        samples, end, failed = sample(child.pid)
    assert not failed
    assert end["object"] == f"{root}/usr/bin/python{version}" or end["object"] == f"/usr/bin/python{version}"
    assert samples[0][0]["frames"][0]["name"] == "marked"


@pytest.mark.parametrize("name", sorted({"3.8", "3.10", "3.11", "3.13", "sid-3.14"} & set(ALL), key=version_of))
def test_another_pid_namespace(name, sample):
    with started(["unshare", "--pid", "--fork", "--mount-proc", *ALL[name]], PROGRAMS / "gil.py") as child:
        settle(child.pid)
        inner = subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True, check=True).stdout.strip()
        samples, _, failed = sample(inner, samples=2)
        tids = set(map(int, os.listdir(f"/proc/{inner}/task")))
        os.kill(int(inner), signal.SIGKILL)
    assert not failed
    assert {t["tid"] for t in samples[0]} == tids and len(tids) == 4


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"])
def test_embedded(version, tmp_path, sample):
    app, env = embedded(version, tmp_path, "{home}/lib/libpython{version}.so", "-Wl,-rpath,{home}/lib")
    with started([app], env=env) as child:
        settle(child.pid)
        samples, _, failed = sample(child.pid)
    assert not failed
    assert samples[0][0]["frames"][0]["name"] == "marked"


def test_a_renamed_program(tmp_path, sample):
    shutil.copy("/usr/bin/python3", tmp_path / "trainer")
    with started([tmp_path / "trainer"], "-c", MAIN) as child:
        settle(child.pid)
        samples, _, failed = sample(child.pid)
    assert not failed and samples[0][0]["frames"][0]["name"] == "marked"


def test_not_python(sample):
    child = subprocess.Popen(["sleep", "600"])
    try:
        settle(child.pid)
        _, _, failed = sample(child.pid)
    finally:
        child.kill()
        child.wait()
    assert failed[0] == FORMAT and "no CPython" in failed[1] and "\n" not in failed[1]


def test_no_such_process(sample):
    _, _, failed = sample(2 ** 22 - 1)
    assert failed[0] in (NOENT, GONE)
    assert str(2 ** 22 - 1) in failed[1]


def test_denied(sample):
    with started([sys.executable], "-c", MAIN) as child:
        _, _, failed = sample(child.pid, command=NOBODY)
    assert failed[0] == DENIED
    assert "CAP_SYS_PTRACE" in failed[1] or "ptrace_scope" in failed[1]


@pytest.mark.parametrize("how", ["alpha", "newer"])
def test_unknown_interpreters_are_refused(how, tmp_path, sample):
    program, library = shared("3.13")
    made = tmp_path / library.name
    data = bytearray(library.read_bytes())
    at = data.rindex(b"xdebugpy") + 8
    data[at:at + 8] = {"alpha": 0x030F00A1, "newer": 0x031100F0}[how].to_bytes(8, "little")
    made.write_bytes(data)
    with started([program], "-S", "-c", MAIN, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}) as child:
        settle(child.pid)
        _, _, failed = sample(child.pid)
    assert failed[0] == UNSUPPORTED
    assert {"alpha": "3.15", "newer": "3.17"}[how] in failed[1]


def test_a_process_that_ends_under_the_sampler(sample):
    with started([sys.executable], "-c", "import threading, os, time\n"
                 "threading.Timer(1, lambda: os.kill(os.getpid(), 9)).start()\nprint('ready', flush=True)\nwhile 1: pass") as child:
        samples, end, failed = sample(child.pid, samples=100000, every_us=100, what="state names")
    assert failed[0] == GONE
    assert end["samples"] == len(samples) > 100  # what was seen until then is kept


def test_a_process_that_executes_another_program(sample):
    code = "import os, time, sys\nprint('ready', flush=True)\ntime.sleep(1)\nos.execv('/bin/sleep', ['sleep', '60'])"
    with started([sys.executable], "-c", code) as child:
        _, end, failed = sample(child.pid, samples=100000, every_us=500)
    assert failed[0] == AGAIN and end["samples"] > 10


def test_a_process_that_restarts_itself(sample):
    code = "import os, time, sys\nprint('ready', flush=True)\ntime.sleep(1)\nos.execv(sys.executable, [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(60)'])"
    with started([sys.executable], "-c", code) as child:
        _, end, failed = sample(child.pid, samples=100000, every_us=500)
        assert failed[0] in (AGAIN, FORMAT) and end["samples"] > 10
        assert child.stdout.readline() == "1\n"
        settle(child.pid)
        samples, _, failed = sample(child.pid)
        assert not failed and samples[0][0]["frames"]


def test_code_that_is_made_and_freed_all_the_time(sample):
    """Addresses of code objects come back for others: names are followed within a moment."""
    code = ("import time\nprint('ready', flush=True)\ni = 0\nwhile True:\n    i += 1\n    space = {}\n"
            "    exec('def made_%d():\\n    import time; time.sleep(0.3)' % i, space)\n    space['made_%d' % i]()")
    with started([sys.executable], "-c", code) as child:
        samples, _, failed = sample(child.pid, samples=60, every_us=50000)
    assert not failed
    seen = [f["name"] for threads in samples for f in threads[0]["frames"] if f["name"].startswith("made_")]
    order = [int(name[5:]) for name in seen]
    assert len(set(order)) >= 6 and order == sorted(order)


def test_threads_that_come_and_go(sample):
    code = ("import threading, time\nprint('ready', flush=True)\ndef work(): time.sleep(0.005)\ni = 0\nwhile True:\n"
            "    i += 1\n    t = threading.Thread(target=work, name='w%d' % i)\n    t.start()\n    t.join()")
    for command in {v: c for n, c in ALL.items() for v in [version_of(n)]}.values():
        with started(command, "-c", code) as child:
            for count in (1500, 6000, 24000):  # on a busy machine threads are made seldom
                samples, end, failed = sample(child.pid, samples=count, every_us=500)
                assert not failed, command
                working = [t for threads in samples for t in threads if t["frames"] and t["frames"][0]["name"] == "work"]
                if len(working) > 200:
                    break
        named = sum(t["name"].startswith("w") and t["name"][1:].isdigit() for t in working)
        assert len(working) > 200 and named > 0.8 * len(working), command
        numbers = [int(t["name"][1:]) for t in working if t["name"][1:].isdigit()]
        assert numbers == sorted(numbers), command  # never the name of an earlier thread


def test_two_hundred_processes(tools):
    children = [subprocess.Popen([sys.executable, "-S", "-c", MAIN], stdout=subprocess.PIPE) for _ in range(200)]
    try:
        for child in children:
            assert child.stdout.readline() == b"ready\n"
        began = time.monotonic()
        done = subprocess.run([tools / "many-tool", "10", *(str(c.pid) for c in children)], capture_output=True, text=True,
                              timeout=120, check=True)
        took = time.monotonic() - began
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()
            child.stdout.close()
    processes, frames, us, kib = map(float, done.stdout.split())
    print(f"200 processes: {us:.0f} us a round, {kib / 1024:.0f} MiB, {took:.1f} s in all")
    assert processes == 200 and frames == 400
    assert kib < 60 * 1024


@pytest.mark.parametrize("name", ["pypy"])
def test_another_implementation_is_refused(name, sample):
    if name not in OTHERS:
        pytest.skip(f"no {name} is to be had here")
    with started(OTHERS[name], "-c", MAIN) as child:
        settle(child.pid)
        _, _, failed = sample(child.pid)
    assert failed and failed[0] == FORMAT and "no CPython" in failed[1], failed
