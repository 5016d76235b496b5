# SPDX-License-Identifier: Apache-2.0
"""Programs that are not started as `python program.py`: launchers whose pid is given in place of Python's, bundled and renamed
programs, containers. Numbers are those of the list of reports about other samplers (test_reports.py)."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipapp

import pytest

from conftest import ALL, PYTHONS, below, settle, started
from procs import NOBODY
from test_finding import shared

BUNDLERS = PYTHONS / "bundlers"
PROGRAM = """
import os, sys, time
def marked():
    os.write(1, b"ready\\n")  # at once: unbuffered, as torchrun's ranks are, print() writes twice
    time.sleep(600)
def main():
    marked()
main()
"""


def needs(path):
    if not path.exists():
        pytest.skip(f"no {path.name} is to be had here (tools/pythons)")
    return path


@contextlib.contextmanager
def launched(command, **more):
    """A launcher; what it started ends with it."""
    with started(command, **more) as child:
        settle(child.pid)
        all_below = below(child.pid)
        try:
            yield child
        finally:
            for pid in {*all_below, *below(child.pid)}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def names(process):
    return [[f["function"] for f in t["frames"]] for t in process["threads"]]


def check_launcher(alula, launcher):
    """The launcher's pid alone: one line that names the process to ask. With --subprocesses its Python is shown."""
    alone = alula("dump", launcher)
    assert alone.returncode == 6 and alone.stdout == "" and len(alone.stderr.splitlines()) == 1, alone.stderr
    done = alula("dump", "--json", "--subprocesses", launcher)
    assert done.returncode == 0 and done.stderr == ""
    processes = json.loads(done.stdout)["processes"]
    marked = [p["pid"] for p in processes if ["marked", "main", "<module>"] in names(p)]
    assert marked and all(f"{pid} (" in alone.stderr for pid in marked[:4])
    return marked


def test_24_a_shell_in_front(alula, program):
    """py-spy: python-build-standalone's pid was the launcher's."""
    with launched(["bash", "-c", f"{sys.executable} {program}; true"]) as child:
        assert len(check_launcher(alula, child.pid)) == 1


def test_24_uv_run(alula, program):
    uv = needs(BUNDLERS / "bin/uv")
    with launched([uv, "run", "--offline", "--no-project", "--python", sys.executable, program]) as child:
        assert len(check_launcher(alula, child.pid)) == 1


def test_24_several_below(alula, program, tmp_path):
    script = tmp_path / "several.sh"
    one = "import sys, time; open(sys.argv[1], 'w'); time.sleep(600)"
    script.write_text(f'for i in 1 2 3 4 5; do {sys.executable} -c "{one}" up-$i & done\n'
                      f"until [ $(ls | grep -c up-) = 5 ]; do sleep 0.1; done; {sys.executable} {program} & wait\n")
    with launched(["bash", script], cwd=tmp_path) as child:
        text = alula("dump", child.pid).stderr
        assert text.count("(python") == 4 and " and 2 more: " in text, text
        done = alula("dump", "--subprocesses", child.pid)
    assert done.returncode == 0 and done.stdout.count("<module>") == 6


def test_24_nothing_below_is_python(alula):
    with launched(["bash", "-c", "echo ready; sleep 600; true"]) as child:
        for more in [], ["--subprocesses"]:
            done = alula("dump", *more, child.pid)
            assert done.returncode == 6 and "no process below it does" in done.stderr
        done = alula("profile", "-o", "/dev/null", "--duration", "1s", "--subprocesses", child.pid)
        assert done.returncode == 6 and "no process below it does" in done.stderr


def test_24_torchrun(alula, program):
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", program]
    with launched(command, stderr=subprocess.DEVNULL) as child:
        assert child.stdout.readline() == "ready\n"  # the other one
        settle(child.pid)
        done = alula("dump", "--json", "--subprocesses", child.pid)
    processes = json.loads(done.stdout)["processes"]
    ranks = [p["rank"] for p in processes if ["marked", "main", "<module>"] in names(p)]
    assert sorted(ranks) == [0, 1] and done.returncode == 0


def test_26_a_file_made_by_pyinstaller(alula, program, tmp_path):
    """py-spy: bundled programs. The pid that the user sees is the unpacker's."""
    needs(BUNDLERS / "PyInstaller")
    python, _ = shared("3.11")
    subprocess.run([python, "-m", "PyInstaller", "--onefile", "--log-level", "ERROR", "--distpath", tmp_path / "dist",
                    "--workpath", tmp_path / "work", "--specpath", tmp_path, program],
                   env={**os.environ, "PYTHONPATH": str(BUNDLERS), "PYINSTALLER_CONFIG_DIR": str(tmp_path / "config")},
                   check=True, timeout=300)
    with launched([tmp_path / "dist/program"]) as child:
        marked = check_launcher(alula, child.pid)
        assert len(marked) == 1
        files = json.loads(alula("dump", "--json", marked[0]).stdout)["processes"][0]["threads"][0]["frames"]
        assert {f["file"] for f in files} == {"program.py"}


def test_26_a_program_frozen_into_its_interpreter(alula, tmp_path):
    """As cx_Freeze does: a static interpreter, without a name that says so, with the library beside it."""
    home = needs(PYTHONS / "manylinux-3.14t")
    app = tmp_path / "trainer"
    app.mkdir()
    shutil.copy(home / "bin/python3.14t", app / "trainer")
    (app / "lib").symlink_to(home / "lib/python3.14t")
    library = tmp_path / "library"
    shutil.copytree(home / "lib/python3.14t", library, symlinks=True)
    (app / "lib").unlink()
    (app / "lib").symlink_to(library)
    (library / "__init__trainer.py").write_text("def run(name):\n    exec(compile(%r, 'train.py', 'exec'), {})\n" % PROGRAM)
    with started([app / "trainer"]) as child:
        settle(child.pid)
        done = alula("dump", child.pid)
    assert done.returncode == 0 and "free-threaded" in done.stdout, done.stderr
    assert "train.py:4 marked" in done.stdout.replace(":5 ", ":4 ")


def test_26_a_zipped_application(alula, program, tmp_path):
    (tmp_path / "app").mkdir()
    program.rename(tmp_path / "app/__main__.py")
    zipapp.create_archive(tmp_path / "app", tmp_path / "app.pyz", interpreter=sys.executable)
    (tmp_path / "app.pyz").chmod(0o755)
    with started([tmp_path / "app.pyz"]) as child:
        settle(child.pid)
        done = alula("dump", child.pid)
    assert done.returncode == 0 and "app.pyz/__main__.py:7 main" in done.stdout, done.stdout


@pytest.mark.parametrize("name", sorted({"3.8", "3.10", "3.11", "3.13"} & set(ALL)))
def test_25_a_stripped_library(name, tmp_path, sample):
    """py-spy: since 3.10 a stripped interpreter is found by its section alone."""
    program, library = shared(name)
    subprocess.run(["objcopy", "--strip-all", library, tmp_path / library.name], check=True)
    code = "import time\ndef marked():\n    print('ready', flush=True)\n    time.sleep(600)\nmarked()"
    with started([program], "-S", "-c", code, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}) as child:
        settle(child.pid)
        samples, end, failed = sample(child.pid)
    assert not failed and str(tmp_path) in end["object"]
    assert samples[0][0]["frames"][0]["name"] == "marked"


@pytest.mark.parametrize("version", ["3.13", "3.14", "3.15"])
def test_42_into_a_container_from_the_host(version, alula, tmp_path):
    """memray's attach crashed such a target: own mounts, own root, own processes, own host name."""
    root = needs(PYTHONS / "sid")
    (tmp_path / "root").mkdir()
    script = (f"mount --rbind {root} {tmp_path}/root && mount -t proc proc {tmp_path}/root/proc && "
              f"exec chroot {tmp_path}/root /usr/bin/python{version} -c \"$1\"")
    code = PROGRAM.replace("def main():", "import threading\nthreading.Thread(target=time.sleep, args=(600,), name='w').start()\ndef main():")
    with launched(["unshare", "--pid", "--fork", "--mount", "--uts", "--ipc", "--net", "sh", "-c", script, "sh", code]) as child:
        inner = below(child.pid)[0]
        done = alula("dump", "--json", inner)
        assert os.stat("/").st_ino != os.stat(f"/proc/{inner}/root").st_ino
        tids = set(map(int, os.listdir(f"/proc/{inner}/task")))
    assert done.returncode == 0, done.stderr
    process = json.loads(done.stdout)["processes"][0]
    assert ["marked", "main", "<module>"] in names(process)
    assert {t["tid"] for t in process["threads"]} == tids and "w" in {t["name"] for t in process["threads"]}


def test_no_permission_for_a_process_that_hides_its_memory(alula, open_path):
    """Of the same user, but not dumpable, as programs with secrets make themselves."""
    if os.geteuid():
        pytest.skip("not root: cannot become another user")
    code = ("import ctypes, os, time\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
            "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nprint('ready', flush=True)\ntime.sleep(600)")
    tool = shutil.copy(alula.path, open_path / "alula")
    with started([sys.executable], "-c", code) as child:
        settle(child.pid)
        done = subprocess.run([*NOBODY, tool, "dump", str(child.pid)], capture_output=True, text=True, check=False)
    assert done.returncode == 4 and ("not dumpable" in done.stderr or "ptrace_scope" in done.stderr), done.stderr
