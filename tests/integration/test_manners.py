# SPDX-License-Identifier: Apache-2.0
"""What alula run leaves as it was: programs that cannot load the probe, refuse it, or would notice it."""

import ctypes
import os
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest
from hook_collector import ROOT, Collector, python

pytestmark = pytest.mark.plain  # loads the probe into programs that have no sanitizer

NOBODY = 65534


@pytest.fixture(scope="session")
def probe(build):
    return build / "src" / "probe" / "libalula-probe.so"


@pytest.fixture(scope="session")
def foreign(build):
    return build / "tests" / "foreign"


@pytest.fixture
def collector(probe):
    with Collector(probe) as c:
        yield c


def compile_with(compiler, tmp_path, *flags, text=None):
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(text or """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    printf("%d %s %s\\n", argc, argv[argc - 1], getenv("THEIRS"));
    fputs("to stderr\\n", stderr);
    return 0;
}
""")
    subprocess.run([compiler, *flags, "-o", str(program), str(source)], check=True, capture_output=True)
    return program


@pytest.mark.parametrize("compiler, flags", [("musl-gcc", []), ("musl-gcc", ["-static"]), ("cc", ["-static"]), ("cc", [])],
                         ids=["musl", "musl, static", "glibc, static", "glibc"])
def test_programs_of_any_libc(alula, tmp_path, compiler, flags):
    """Nothing is preloaded: what has another libc, or no loader, runs as ever."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    try:
        program = compile_with(compiler, tmp_path, *flags)
    except subprocess.CalledProcessError:
        pytest.skip(f"{compiler} {' '.join(flags)} does not work here")
    alone = subprocess.run([program, "a", "b c"], env={**os.environ, "THEIRS": "x=y"}, capture_output=True, text=True,
                           check=False)
    got = alula("run", "--quiet", "--", program, "a", "b c", env={"THEIRS": "x=y"})
    assert (got.returncode, got.stdout, got.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert alone.returncode == 0 and "LD_PRELOAD" not in alula("run", "--quiet", "--", "env").stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a set-user-id program")
def test_a_set_user_id_program_refuses_it(collector, foreign, probe):
    """Started by another user it is AT_SECURE: no ring, and what the environment names to be chained is not loaded."""
    folder = pathlib.Path(collector.folder.name)
    # Where nobody may come, and set-user-id counts.
    program = folder / "cuda-job"
    shutil.copy(foreign / "cuda-job", program)
    cuda = foreign / "libcuda.so.1"
    folder.chmod(0o755)
    env = {"CUDA_INJECTION64_PATH": str(probe), "ALULA_CHAINED_CUDA_INJECTION": str(foreign / "libother-tool.so")}
    reachable = subprocess.run(["test", "-r", str(cuda)], user=NOBODY, check=False).returncode == 0
    mounted = os.statvfs(folder).f_flag & os.ST_NOSUID
    if not reachable or mounted:
        pytest.skip("another user cannot come here, or set-user-id does not count here")
    program.chmod(0o755 | stat.S_ISUID)
    as_nobody = subprocess.run([program, cuda], env=collector.env(**env), user=NOBODY, capture_output=True, text=True,
                               timeout=20, check=False)
    assert (as_nobody.returncode, as_nobody.stdout, as_nobody.stderr) == (0, "cuInit 0, 1 device\n", "")
    done = collector.run([program, cuda], env=env)  # by root itself it is no change of user
    assert (done.returncode, done.stderr) == (0, "other tool: CUDA\n")
    assert len(collector.rings) == 1


def test_a_library_that_is_closed_stays(collector, probe):
    """A host, or NCCL, that closes the probe while something still points into it."""
    code = """
import _ctypes, ctypes
lib = ctypes.CDLL(%r)
lib.alula_probe_mark(1, 1, -1, 0, 1)
mark = lib.alula_probe_mark
for _ in range(3):
    _ctypes.dlclose(lib._handle)
assert "libalula-probe" in open("/proc/self/maps").read()
assert mark(5, 0, -1, 7, 0) == 1
""" % str(probe)
    done = collector.run(python(code))
    assert (done.returncode, done.stderr) == (0, "")
    assert [r.a for r in collector.rings[0].of("EPOCH")] == [7]


def test_grandchildren_have_the_same_environment(alula, tmp_path):
    show = "env -0 | sort -z | grep -z -E '^(ALULA_(SOCKET|PROBE)|CUDA_INJ|NCCL|PYTHONPATH)' | tr '\\0' '\\n'"
    one = alula("run", "--quiet", "--", "sh", "-c", show, env={"PYTHONPATH": "/theirs"}).stdout.splitlines()
    two = alula("run", "--quiet", "--", "sh", "-c", "sh -c \"$SHOW\"", env={"PYTHONPATH": "/theirs", "SHOW": show})
    python_child = f"import subprocess; subprocess.run(['sh', '-c', {show!r}], check=True)"
    three = alula("run", "--quiet", "--", sys.executable, "-c", python_child, env={"PYTHONPATH": "/theirs"})

    def names(lines):
        # each run has a socket of its own
        return [line for line in lines if not line.startswith("ALULA_SOCKET=")]

    assert names(two.stdout.splitlines()) == names(one) == names(three.stdout.splitlines())
    assert len(one) == len({line.split("=")[0] for line in one}) == 5
    [path] = [line for line in one if line.startswith("PYTHONPATH=")]
    assert path.count(":") == 1 and path.endswith(":/theirs")


@pytest.mark.parametrize("length", [60_000, 131_071 - len("PYTHONPATH=")])
def test_a_very_long_python_path(alula, length):
    """Linux takes 128 KiB a variable; one that would not fit any more is left as it is."""
    long = ("/no/such/folder:" * length)[:length]
    code = "import os, sys; print(len(os.environ['PYTHONPATH']), os.environ['PYTHONPATH'].endswith(':' + 'x') or 'ok')"
    got = alula("run", "--quiet", "--", sys.executable, "-c", code, env={"PYTHONPATH": long})
    assert got.returncode == 0, got.stderr[-300:]
    got_length = int(got.stdout.split()[0])
    assert got_length >= length and got_length <= 131_071 - len("PYTHONPATH=")
    assert (got_length > length) == (length == 60_000)


def test_an_environment_that_is_full(alula_bin):
    """The command fits, with alula's part it does not: it is executed without. The limit is the stack's quarter."""
    script = """
import os, subprocess, sys
alula, base = sys.argv[1], {"PATH": os.environ["PATH"], "PYTHONPATH": "/theirs"}
def run(command, size):
    env = {**base, **{"FILL%d" % i: "x" * 1000 for i in range(size // 1000)}, "REST": "x" * (size % 1000)}
    try:
        return subprocess.run(command, env=env, capture_output=True, text=True)
    except OSError:
        return None
show = ["/usr/bin/env"]
low, high = 10_000, 400_000
while high - low > 1:
    middle = (low + high) // 2
    low, high = (middle, high) if run(show, middle) else (low, middle)
while not (got := run([alula, "run", "--quiet", "--", *show], low)):
    low -= 16  # its own arguments are longer
assert got.returncode == 0, (got.returncode, got.stderr[-300:])
lines = got.stdout.splitlines()
assert "PYTHONPATH=/theirs" in lines and not any(line.startswith(("ALULA_", "CUDA_INJ", "NCCL_PR")) for line in lines)
"""
    got = subprocess.run(["sh", "-c", 'ulimit -s 1024; exec "$@"', "sh", sys.executable, "-c", script, alula_bin],
                         capture_output=True, text=True, timeout=60, check=False)
    assert (got.returncode, got.stderr) == (0, "")


def test_many_at_once(alula_bin, foreign):
    """As srun starts them, one a task: each has a socket and a job of its own, none is in another's way."""
    job = [str(foreign / "cuda-job"), str(foreign / "libcuda.so.1")]
    script = '"$0" "$1"; echo $ALULA_SOCKET; exit $2'
    runs = [subprocess.Popen([str(alula_bin), "run", "--", "sh", "-c", script, *job, str(status)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env={**os.environ, "RANK": str(status), "WORLD_SIZE": "6"})
            for status in range(6)]
    sockets = set()
    for status, run in enumerate(runs):
        out, err = run.communicate(timeout=60)
        assert run.returncode == status
        assert "(1 process told of themselves, 1 by CUDA alone" in err
        cuda, socket = out.splitlines()
        assert cuda == "cuInit 0, 1 device"
        sockets.add(socket)
    assert len(sockets) == 6 and not any(os.path.exists(os.path.dirname(socket)) for socket in sockets)


WORKERS = """
import os, sys, torch
from torch.utils.data import DataLoader, TensorDataset

def collate(rows):
    if torch.utils.data.get_worker_info() is not None:
        # whatever a worker does with torch and CUDA: it marks nothing
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
    return torch.stack([row[0] for row in rows])

if __name__ == "__main__":
    layer = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    loader = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8, num_workers=2, collate_fn=collate,
                        multiprocessing_context=sys.argv[1])
    for x in loader:
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()
    print("done")
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_loader_workers_tell_nothing(collector, tmp_path, method):
    pytest.importorskip("torch")
    script = tmp_path / "job.py"
    script.write_text(WORKERS)
    done = collector.run([sys.executable, script, method])
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert len(collector.rings) == 1  # not the workers, the fork server, the resource tracker
    assert len(collector.rings[0].steps()) == 4


def test_two_hooks_are_one(collector, tmp_path):
    """An outer alula of another place: its sitecustomize finds the hook at work."""
    other = tmp_path / "hook"
    shutil.copytree(ROOT / "python" / "hook", other)
    stub = tmp_path / "stub" / "torch"
    (stub / "autograd").mkdir(parents=True)
    (stub / "__init__.py").write_text("def is_grad_enabled(): return True\nfrom . import autograd\n")
    (stub / "autograd" / "__init__.py").write_text("def backward(x): return x * 2\n")
    collector.hook = os.pathsep.join([str(collector.hook), str(other), str(tmp_path / "stub")])
    done = collector.run(python("import sys, torch; print(torch.autograd.backward(3), len([f for f in sys.meta_path "
                                "if type(f).__module__ == '_alula_hook']))"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "6 1\n", "")
    assert collector.rings[0].line() == "B"


def test_the_probe_needs_no_debugger_s_rights(probe):
    """It loads, and does nothing, in a process without anything of alula's."""
    code = "import ctypes; lib = ctypes.CDLL(%r); print(lib.InitializeInjection(), lib.alula_probe_state())" % str(probe)
    env = {key: value for key, value in os.environ.items() if not key.startswith("ALULA_")}
    done = subprocess.run(python(code), env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1 4\n"  # inert
    assert ctypes.CDLL(str(probe)).alula_probe_state() in (0, 4)
