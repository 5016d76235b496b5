# SPDX-License-Identifier: Apache-2.0
"""The ways into a job: the CUDA driver's (any program, with or without Python), NCCL's, and whoever was there before."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from hook_collector import Collector, python

pytestmark = pytest.mark.plain  # loads the probe into programs that have no sanitizer

COLLECTIVES = ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"]
INTERFACES = {22304: 1, 22403: 2, 22603: 3, 22707: 4, 22809: 5, 22902: 6, 23102: 6}


@pytest.fixture(scope="session")
def probe(build):
    return build / "src" / "probe" / "libalula-probe.so"


@pytest.fixture(scope="session")
def foreign(build):
    """Stand-ins: libcuda.so.1, libnccl.so.2, libother-tool.so and cuda-job, a program that uses them."""
    return build / "tests" / "foreign"


@pytest.fixture
def job(foreign):
    return [foreign / "cuda-job", foreign / "libcuda.so.1"]


@pytest.fixture
def nccl_job(job, foreign):
    return [*job, foreign / "libnccl.so.2", 3]


@pytest.fixture
def collector(probe):
    with Collector(probe) as c:
        yield c


def ways(probe):
    return {"CUDA_INJECTION64_PATH": str(probe), "NCCL_PROFILER_PLUGIN": str(probe)}


def environment(alula, *before, **env):
    got = alula("run", "--quiet", "--", *before, "env", "-0", env=env)
    assert got.returncode == 0, got.stderr
    return dict(line.split("=", 1) for line in got.stdout.split("\0") if "=" in line)


# --- CUDA -----------------------------------------------------------------------------------------------------------


def test_a_program_without_python(collector, job, probe):
    done = collector.run(job, env={**ways(probe), "RANK": "3", "WORLD_SIZE": "8"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "cuInit 0, 1 device\n", "")
    [ring] = collector.rings
    [hello] = ring.of("HELLO")
    assert (hello.code, hello.a, hello.b) == (1, 3, 8)
    assert ring.texts("SOURCE") == ["CUDA alone"]


@pytest.mark.parametrize("env, rank, world", [({}, -1, 0), ({"RANK": "x", "WORLD_SIZE": "-2"}, -1, 0),
                                              ({"RANK": "99999999999999999999", "WORLD_SIZE": ""}, -1, 0)])
def test_a_rank_that_is_not_told(collector, job, probe, env, rank, world):
    collector.run(job, env={**ways(probe), "RANK": "", "WORLD_SIZE": "", **env})
    [hello] = collector.rings[0].of("HELLO")
    assert (hello.a, hello.b) == (rank, world)


LOOP = "import ctypes, torch\n%s\n"
CUDA = "ctypes.CDLL(%r).cuInit(0)"
STEP = "torch.autograd.backward(1)"


@pytest.fixture
def stub(tmp_path):
    folder = tmp_path / "stub"
    for name, text in {"torch/__init__.py": "def is_grad_enabled(): return True\nfrom . import autograd\n",
                       "torch/autograd/__init__.py": "def backward(x): return x * 2\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_python_says_more_than_cuda(collector, foreign, probe, stub):
    """CUDA comes up before the first step: the hook then tells what it knows."""
    collector.hook = os.pathsep.join([str(collector.hook), str(stub)])
    done = collector.run(python(LOOP % "\n".join([CUDA % str(foreign / "libcuda.so.1"), STEP])), env=ways(probe))
    assert (done.returncode, done.stderr) == (0, "")
    [ring] = collector.rings
    assert len(ring.of("HELLO")) == 2
    assert ring.texts("SOURCE")[0] == "CUDA alone" and ring.texts("SOURCE")[-1].startswith("torch.optim hook")
    assert ring.line() == "B"


def test_cuda_says_less_than_python(collector, foreign, probe, stub):
    collector.hook = os.pathsep.join([str(collector.hook), str(stub)])
    done = collector.run(python(LOOP % "\n".join([STEP, CUDA % str(foreign / "libcuda.so.1")])), env=ways(probe))
    assert (done.returncode, done.stderr) == (0, "")
    [ring] = collector.rings
    assert len(ring.of("HELLO")) == 1
    assert "CUDA alone" not in ring.texts("SOURCE")


def test_the_summary_of_a_program_without_steps(alula, job):
    got = alula("run", "--", *job)
    assert (got.returncode, got.stdout) == (0, "cuInit 0, 1 device\n")
    assert "no Python training loop seen; the device view still works" in got.stderr


@pytest.mark.parametrize("path", ["/nowhere/libalula-probe.so", "/etc/passwd", "/tmp", "libalula-probe.so"])
def test_a_path_that_leads_nowhere(job, path):
    done = subprocess.run([str(part) for part in job], env={**os.environ, "CUDA_INJECTION64_PATH": path},
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "cuInit 0, 1 device\n", "")


def mounts():
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not mounts(), reason="no mount namespace may be made here")
def test_a_job_that_enters_a_container(alula, nccl_job, build):
    """Its file system has neither probe, hook nor socket: CUDA, NCCL and Python work as ever."""
    hide = "mount -t tmpfs none %s && mount -t tmpfs none %s && ! ls $ALULA_PROBE 2>/dev/null && " % (
        build / "src" / "probe", "$(dirname $ALULA_SOCKET)")
    job = " ".join(str(part) for part in nccl_job)
    got = alula("run", "--quiet", "--", "unshare", "--mount", "sh", "-c",
                hide + job + " && exec %s -c 'print(6 * 7)'" % sys.executable)
    assert (got.returncode, got.stdout, got.stderr) == (0, "cuInit 0, 1 device\nmask -1\n42\n", "")


# --- whoever was there before ---------------------------------------------------------------------------------------


def test_another_tool_keeps_its_place(alula, nccl_job, foreign):
    """CUDA's is called right behind the probe; NCCL's is left alone."""
    other = str(foreign / "libother-tool.so")
    got = alula("run", "--", *nccl_job, env={"CUDA_INJECTION64_PATH": other, "NCCL_PROFILER_PLUGIN": other})
    assert (got.returncode, got.stdout) == (0, "cuInit 0, 1 device\nmask 0\n")
    assert [line for line in got.stderr.splitlines() if "other tool" in line] == ["other tool: CUDA", "other tool: NCCL"]
    assert "1 process told of" in got.stderr


@pytest.mark.parametrize("path", ["/nowhere/tool.so", "/etc/passwd", "/tmp", ""])
def test_another_tool_that_is_not_there(alula, job, path):
    got = alula("run", "--quiet", "--", *job, env={"CUDA_INJECTION64_PATH": path})
    assert (got.returncode, got.stdout, got.stderr) == (0, "cuInit 0, 1 device\n", "")


def test_no_circle(collector, job, probe, tmp_path):
    """The chained library is the probe, itself or a copy of it (an outer alula's)."""
    copy = tmp_path / "libalula-probe.so"
    shutil.copy(probe, copy)
    for other in (probe, copy):
        done = subprocess.run([str(part) for part in job], capture_output=True, text=True, check=False, timeout=20,
                              env={**os.environ, **ways(probe), "ALULA_CHAINED_CUDA_INJECTION": str(other)})
        assert (done.returncode, done.stdout, done.stderr) == (0, "cuInit 0, 1 device\n", "")
    assert collector.rings == []


def test_what_the_environment_gets(alula, probe, foreign, tmp_path):
    other = str(foreign / "libother-tool.so")
    env = environment(alula)
    assert env["CUDA_INJECTION64_PATH"] == env["NCCL_PROFILER_PLUGIN"] == env["ALULA_PROBE"]
    assert os.path.realpath(env["ALULA_PROBE"]) == os.path.realpath(probe) and os.path.isabs(env["ALULA_PROBE"])
    assert "ALULA_CHAINED_CUDA_INJECTION" not in env
    env = environment(alula, CUDA_INJECTION64_PATH=other, NCCL_PROFILER_PLUGIN="none")
    assert env["ALULA_CHAINED_CUDA_INJECTION"] == other and env["CUDA_INJECTION64_PATH"] == env["ALULA_PROBE"]
    assert env["NCCL_PROFILER_PLUGIN"] == "none"
    # a stale one is nobody's
    assert "ALULA_CHAINED_CUDA_INJECTION" not in environment(alula, ALULA_CHAINED_CUDA_INJECTION="/old.so")
    # the profiler that NCCL would find by itself
    (tmp_path / "libnccl-profiler.so").write_bytes(b"")
    assert "NCCL_PROFILER_PLUGIN" not in environment(alula, LD_LIBRARY_PATH=f"/none:{tmp_path}")


def test_alula_in_alula(alula, alula_bin, nccl_job, foreign):
    """The inner one's socket; the tool that was there before both is still called, once; one hook on the path."""
    other = str(foreign / "libother-tool.so")
    outer = environment(alula, CUDA_INJECTION64_PATH=other, PYTHONPATH="/theirs")
    inner = environment(alula, alula_bin, "run", "--quiet", "--", CUDA_INJECTION64_PATH=other, PYTHONPATH="/theirs")
    assert inner["ALULA_CHAINED_CUDA_INJECTION"] == other
    assert inner["CUDA_INJECTION64_PATH"] == inner["ALULA_PROBE"] == inner["NCCL_PROFILER_PLUGIN"]
    assert inner["PYTHONPATH"] == outer["PYTHONPATH"] and inner["PYTHONPATH"].endswith("hook:/theirs")
    got = alula("run", "--quiet", "--", alula_bin, "run", "--", *nccl_job, env={"CUDA_INJECTION64_PATH": other})
    assert (got.returncode, got.stdout) == (0, "cuInit 0, 1 device\nmask 6\n")
    assert got.stderr.count("other tool: CUDA") == 1 and "1 process told of" in got.stderr


# --- NCCL -----------------------------------------------------------------------------------------------------------


def totals(ring):
    return {COLLECTIVES[r.code]: (r.a, r.b) for r in ring.of("COLLECTIVE")}


@pytest.mark.parametrize("version", INTERFACES)
@pytest.mark.parametrize("leaves", [False, True], ids=["closes", "leaves"])
def test_what_nccl_is_called_for(collector, nccl_job, probe, version, leaves):
    env = {**ways(probe), "ALULA_STANDIN_NCCL": str(version), **({"CUDA_JOB_LEAVES_NCCL": "1"} if leaves else {})}
    done = collector.run(nccl_job, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "cuInit 0, 1 device\nmask 6\n", "")
    [ring] = collector.rings
    assert totals(ring) == {"AllReduce": (3, 12000), "AllGather": (3, 60), "Send": (3, 72)}
    [communicator] = ring.of("COMMUNICATOR")
    assert (communicator.device, communicator.a) == (version, 0x1234)
    told = 0 if version < 22700 else 2 | 1 << 24 | 1 << 40  # older ones tell of neither ranks nor nodes
    assert communicator.b == told
    assert ring.texts("COMMUNICATOR") == ["%016x %s" % (0x1234, "standin" if version < 22700 else "default_pg")]


def test_nccl_without_profilers(collector, nccl_job, probe):
    done = collector.run(nccl_job, env={**ways(probe), "ALULA_STANDIN_NCCL": "22105"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "cuInit 0, 1 device\nmask -1\n", "")
    assert not collector.rings[0].of("COMMUNICATOR")


def test_nccl_that_crashes_with_profilers(collector, nccl_job, probe):
    """2.30: its communicators are told, its calls not asked for."""
    done = collector.run(nccl_job, env={**ways(probe), "ALULA_STANDIN_NCCL": "23003"})
    assert (done.returncode, done.stdout) == (0, "cuInit 0, 1 device\nmask 0\n")
    assert len(collector.rings[0].of("COMMUNICATOR")) == 1 and not totals(collector.rings[0])


def test_nccl_without_a_collector(nccl_job, probe):
    for socket in ({"ALULA_SOCKET": "/nowhere/socket"}, {}):
        done = subprocess.run([str(part) for part in nccl_job], env={**os.environ, **ways(probe), **socket},
                              capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "cuInit 0, 1 device\nmask 0\n", "")


def test_nccl_where_cuda_s_way_is_shut(collector, nccl_job, probe):
    done = collector.run(nccl_job, env={"NCCL_PROFILER_PLUGIN": str(probe)})
    assert done.stdout == "cuInit 0, 1 device\nmask 6\n"
    [ring] = collector.rings
    assert ring.texts("SOURCE") == ["CUDA alone"] and totals(ring)


def test_many_calls_are_few_records(collector, nccl_job, probe):
    done = collector.run([*nccl_job[:-1], 20000], env=ways(probe))
    assert done.returncode == 0
    [ring] = collector.rings
    assert totals(ring)["AllReduce"] == (20000, 80000000)
    assert len(ring.of("COLLECTIVE")) < 40 and ring.lost() == 0


def test_the_report_tells_how_ranks_communicate(alula, nccl_job, tmp_path):
    env = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    got = alula("run", "--output-dir", tmp_path, "--", *nccl_job, env=env)
    [line] = [line for line in got.stderr.splitlines() if line.startswith("alula: communication: ")]
    assert "NCCL 2.28.9, transport one node: " in line and "confidence medium" in line
    assert "rank 1 called AllReduce 3 times (11.7 KiB), Send 3 times (72 B), AllGather 3 times (60 B)" in line
    told = json.loads((tmp_path / "metrics_report.json").read_text())["alula"]["communication"]
    assert (told["transport"], told["nccl"], told["rank"]) == ("one_node", "2.28.9", 1)
    assert told["communicators"] == [{"id": "0000000000001234", "name": "default_pg", "ranks": 2, "nodes": 1, "rank": 1}]
    assert told["calls"] == {"AllReduce": {"count": 3, "bytes": 12000}, "Send": {"count": 3, "bytes": 72},
                             "AllGather": {"count": 3, "bytes": 60}}


@pytest.mark.parametrize("version, name, calls", [("22105", None, None), ("23003", "2.30.3", None)])
def test_the_report_tells_what_it_does_not_know(alula, nccl_job, tmp_path, version, name, calls):
    got = alula("run", "--output-dir", tmp_path, "--", *nccl_job,
                env={"RANK": "0", "WORLD_SIZE": "2", "ALULA_STANDIN_NCCL": version})
    assert got.returncode == 0
    told = json.loads((tmp_path / "metrics_report.json").read_text())["alula"]["communication"]
    assert (told["nccl"], told["calls"]) == (name, calls)
    assert bool(told["communicators"]) == (name is not None)


def test_one_process_has_nothing_to_communicate(alula, job, tmp_path):
    got = alula("run", "--output-dir", tmp_path, "--", *job)
    assert "communication:" not in got.stderr
    assert json.loads((tmp_path / "metrics_report.json").read_text())["alula"]["communication"] is None


@pytest.mark.parametrize("version, told", [("(2, 28, 9)", "nccl=2.28.9"), ("(2, 21, 5, 'x')", "nccl=2.21.5"),
                                           ("2708", "nccl=2.7.8"), ("None", None)])
def test_nccl_by_torch_s_own_word(collector, stub, version, told):
    collector.hook = os.pathsep.join([str(collector.hook), str(stub)])
    code = ("import sys, types, torch\ntorch.version = types.SimpleNamespace(cuda='13.0')\n"
            "sys.modules['torch.cuda.nccl'] = types.SimpleNamespace(version=lambda: %s)\n%s" % (version, STEP))
    done = collector.run(python(code))
    assert (done.returncode, done.stderr) == (0, "")
    words = collector.rings[0].texts("FRAMEWORK")[-1].split()
    assert [word for word in words if word.startswith("nccl=")] == ([told] if told else [])
