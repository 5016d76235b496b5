# SPDX-License-Identifier: Apache-2.0
"""alula memory PID: several GPUs, trees, pid namespaces, and what cannot be told."""

import json
import os

import pytest

from procs import copy_proc, sleepers

HEAD = """\
alula scenario 1
host hostname=node7
gpu 0 name="NVIDIA H200" uuid=GPU-0
gpu 1 name="NVIDIA H200" uuid=GPU-1
duration 60s
@0s
gpu 0-1 memory_total_bytes=143771MiB memory_used_bytes=3000MiB
"""
JOB = HEAD + """\
proc 4000 ppid=1 alive=yes user=alice comm=torchrun command="torchrun train.py" role=launcher
proc 4242 ppid=4000 alive=yes user=alice comm=python command="python train.py" role=rank rank=0
proc 4243 ppid=4000 alive=yes user=alice comm=python command="python train.py" role=rank rank=1
row 4242 gpu=0 memory_bytes=1234.5MiB
row 4242 gpu=1 memory_bytes=100MiB
row 4243 gpu=1 memory_bytes=2000MiB
"""


@pytest.fixture
def memory(alula, tmp_path):
    def run(scene, *args, **kwargs):
        path = tmp_path / "scene.txt"
        path.write_text(scene)
        return alula("memory", "--source", f"scenario:{path}", *args, **kwargs)

    return run


def test_one_process_on_two_gpus(memory):
    result = memory(JOB, "4242")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "4242 alice python train.py\n"
        "GPU  NAME                          USED MiB  TOTAL MiB    SHARE  TYPE\n"
        "  0  NVIDIA H200                       1234     143771    0.9 %  C\n"
        "  1  NVIDIA H200                        100     143771    0.1 %  C\n"
        "sum                                    1334     287542    0.5 %\n")


def test_tree_is_the_whole_job(memory):
    result = memory(JOB, "--tree", "4000")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "4000 alice torchrun train.py\n"
        "GPU  NAME                          USED MiB  TOTAL MiB    SHARE  TYPE   PID\n"
        "  0  NVIDIA H200                       1234     143771    0.9 %  C      4242\n"
        "  1  NVIDIA H200                        100     143771    0.1 %  C      4242\n"
        "  1  NVIDIA H200                       2000     143771    1.4 %  C      4243\n"
        "sum                                    3334     287542    1.2 %\n")


def test_json(memory):
    result = memory(JOB, "--json", "4242")
    assert result.returncode == 0
    total = 143771 << 20
    used = 1234 * (1 << 20) + (1 << 19)
    assert json.loads(result.stdout) == {
        "pid": 4242, "tree": False, "status": "ok", "reason": None, "user": "alice", "command": "python train.py",
        "gpus": [{"index": 0, "mig_index": None, "uuid": "GPU-0", "name": "NVIDIA H200", "pid": 4242, "type": "C",
                  "used_bytes": used, "total_bytes": total, "used_ratio": pytest.approx(used / total, rel=1e-12)},
                 {"index": 1, "mig_index": None, "uuid": "GPU-1", "name": "NVIDIA H200", "pid": 4242, "type": "C",
                  "used_bytes": 100 << 20, "total_bytes": total,
                  "used_ratio": pytest.approx((100 << 20) / total, rel=1e-12)}],
        "used_bytes": used + (100 << 20), "total_bytes": 2 * total}


@pytest.mark.parametrize("scene, args, status, code, reason", [
    (JOB, ["999"], "no_process", 5, "no process 999"),
    (JOB, ["4000"], "no_gpu_memory", 5, "process 4000 holds no GPU memory itself, its children do: try --tree"),
    (HEAD + "proc 7 ppid=1 alive=yes\nproc 8 ppid=7 alive=yes\nrow 8 gpu=0 memory_bytes=1MiB\n", ["--tree", "9"],
     "no_process", 5, "no process 9"),
    (JOB + "gpu 1 processes=!denied\n", ["4000"], "cannot_tell", 1,
     "the processes of GPU 1 are not known: permission denied"),
    (HEAD + "proc 5 ppid=1 alive=yes\ngpu 1 processes=!denied\n", ["5"], "cannot_tell", 1,
     "the processes of GPU 1 are not known: permission denied"),
    (JOB + "lost 1\n", ["4242"], "cannot_tell", 1, "the processes of GPU 1 are not known: the GPU is lost"),
    (JOB + "row 4242 gpu=1 memory_bytes=!unsupported\n", ["4242"], "cannot_tell", 1,
     "the driver does not tell the memory of process 4242 on GPU 1: not supported by this GPU or driver"),
    (HEAD + "proc 31337 foreign=yes alive=no\nrow 31337 gpu=0 memory_bytes=5GiB\n", ["31337"], "cannot_tell", 1,
     "the driver names a process that is not to be seen here, or one whose number belongs to another process here: it "
     "counts in another pid namespace; run alula in the host's"),
    (HEAD.replace("hostname=node7", "hostname=node7 host_pid_ns=no") + "proc 5 ppid=1 alive=yes\n"
     "proc 31337 foreign=yes alive=no\nrow 31337 gpu=0 memory_bytes=5GiB\n", ["5"], "cannot_tell", 1,
     "the driver does not name processes as this pid namespace does, so that its list says nothing of them; run alula "
     "on the host or in a container with the host's pid namespace"),
])
def test_what_cannot_be_told(memory, scene, args, status, code, reason):
    result = memory(scene, "--json", *args)
    data = json.loads(result.stdout)
    assert (data["status"], result.returncode, data["reason"], data["used_bytes"]) == (status, code, reason, None)
    result = memory(scene, *args)
    assert result.returncode == code
    assert result.stderr.startswith("alula: ") and result.stderr.endswith(reason + "\n")
    assert len(result.stderr.splitlines()) == 1


def test_known_part_is_shown(memory):
    result = memory(JOB + "row 4242 gpu=1 memory_bytes=!unsupported\n", "4242")
    assert result.returncode == 1
    assert result.stdout.splitlines()[2:] == [
        "  0  NVIDIA H200                       1234     143771    0.9 %  C",
        "  1  NVIDIA H200                          ?     143771      ? %  C",
        "sum of what is known                   1234     287542      ? %"]


def test_memory_of_a_dead_process(memory):
    result = memory(HEAD + "proc 66 alive=no\nrow 66 gpu=0 memory_bytes=5GiB\n", "66")
    assert result.returncode == 0
    assert result.stdout.splitlines()[0] == "66 (gone; the driver still counts its memory)"
    assert result.stdout.splitlines()[2] == "  0  NVIDIA H200                       5120     143771    3.6 %  C"


def test_mig_device_and_not_its_gpu_too(memory):
    scene = HEAD.replace("duration", "mig 1 profile=1g.18gb\nduration") + (
        "gpu 1/0 memory_total_bytes=18GiB memory_used_bytes=2GiB\nproc 5 ppid=1 alive=yes\n"
        "row 5 gpu=1 memory_bytes=1GiB\nrow 5 gpu=1/0 memory_bytes=1GiB\n")
    result = memory(scene, "--json", "5")
    gpus = json.loads(result.stdout)["gpus"]
    assert result.returncode == 0
    assert [(g["index"], g["mig_index"], g["name"], g["used_bytes"], g["total_bytes"]) for g in gpus] == [
        (1, 0, "NVIDIA H200 MIG 1g.18gb", 1 << 30, 18 << 30)]
    assert memory(scene, "5").stdout.splitlines()[2] == (
        "1:0  NVIDIA H200 MIG 1g.18gb           1024      18432    5.6 %  C")


def test_text_of_others_is_cleaned(memory):
    scene = HEAD + ('proc 5 ppid=1 alive=yes user=eve command="evil\\u001b[2J"\nrow 5 gpu=0 memory_bytes=1GiB\n'
                    .replace("\\u001b", "\\x1b"))
    result = memory(scene, "5")
    assert result.returncode == 0
    assert "\033" not in result.stdout


@pytest.mark.parametrize("args, message", [
    ([], "expected one PID"), (["1", "2"], "expected one PID"), (["x"], "x: expected a process id"),
    (["0"], "0: expected a process id"), (["99999999999"], "expected a process id"), (["--bad"], "unrecognized option"),
])
def test_wrong_options(memory, args, message):
    result = memory(JOB, *args)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_help(alula):
    result = alula("memory", "--help")
    assert result.returncode == 0
    for word in ("--tree", "--json", "Exit status", "--source", "Examples:"):
        assert word in result.stdout


# --- on the stand-in driver, with real processes ---

TWO = """\
alula scenario 1
gpu 0 name="NVIDIA H200"
gpu 1 name="NVIDIA H200"
duration 600s
@0s
gpu 0-1 memory_total_bytes=143771MiB memory_used_bytes=3000MiB memory_free_bytes=140771MiB memory_reserved_bytes=0B
"""


@pytest.fixture
def on_driver(alula, standin, tmp_path):
    def run(scene, root, *args):
        path = tmp_path / "scene.txt"
        path.write_text(scene)
        return alula("memory", "--source", "nvml", *args, env={
            "ALULA_SCENARIO": str(path), "LD_LIBRARY_PATH": str(standin.parent), "ALULA_HOST_ROOT": str(root)})

    return run


def test_real_process_on_the_driver(on_driver, tmp_path):
    with sleepers(["--rank", "0"], ["other"]) as (pid, idle):
        root = copy_proc(tmp_path / "root", [pid, idle, os.getpid()])
        scene = TWO + f"row {pid} gpu=0 memory_bytes=1234MiB\nrow {pid} gpu=1 memory_bytes=77MiB\n"
        result = on_driver(scene, root, "--json", str(pid))
        data = json.loads(result.stdout)
        assert (result.returncode, data["used_bytes"]) == (0, 1311 << 20)
        assert data["command"].endswith("--rank 0")
        tree = on_driver(scene, root, "--tree", "--json", str(os.getpid()))
        assert (tree.returncode, json.loads(tree.stdout)["used_bytes"]) == (0, 1311 << 20)
        result = on_driver(scene, root, str(idle))
        assert (result.returncode, result.stderr) == (5, f"alula: process {idle} holds no GPU memory\n")
        result = on_driver(scene, root, "4194304")
        assert (result.returncode, result.stderr) == (5, "alula: no process 4194304\n")


def test_a_containers_pid_is_translated(on_driver, tmp_path):
    with sleepers([]) as (pid,):
        root = copy_proc(tmp_path / "root", [pid])
        status = root / "proc" / str(pid) / "status"
        status.write_text("\n".join(f"NSpid:\t{pid}\t23" if line.startswith("NSpid:") else line
                                    for line in status.read_text().splitlines()) + "\n")
        result = on_driver(TWO + f"row {pid} gpu=0 memory_bytes=1GiB\n", root, "23")
        assert result.returncode == 5
        assert result.stderr == (f"alula: no process 23; a container calls process {pid} by that number: "
                                 f"try alula memory {pid}\n")


def test_a_thread_is_told_its_process(on_driver, tmp_path):
    with sleepers([]) as (pid,):
        root = copy_proc(tmp_path / "root", [pid])
        thread = pid + 1_000_000
        (root / "proc" / str(thread)).mkdir()
        for name in ("stat", "status"):
            (root / "proc" / str(thread) / name).write_bytes((root / "proc" / str(pid) / name).read_bytes())
        result = on_driver(TWO + f"row {pid} gpu=0 memory_bytes=1GiB\n", root, str(thread))
        assert (result.returncode, result.stderr) == (
            5, f"alula: {thread} is a thread of process {pid}: try alula memory {pid}\n")


def test_inside_a_container_nothing_is_guessed(on_driver, tmp_path):
    with sleepers([]) as (pid,):
        root = copy_proc(tmp_path / "root", [pid], namespace="pid:[4026532999]")
        # The driver names a host's pid; a process of that number lives here, without the driver's device open.
        result = on_driver(TWO + f"row {pid} gpu=0 memory_bytes=1GiB\n", root, str(pid))
        assert result.returncode == 1
        assert result.stderr.startswith("alula: cannot tell: the driver names a process that is not to be seen here")
        # Its list is empty, though the process has the device open.
        (root / "proc" / str(pid) / "fd").mkdir()
        os.symlink("/dev/nvidiactl", root / "proc" / str(pid) / "fd" / "3")
        result = on_driver(TWO, root, str(pid))
        assert result.returncode == 1
        assert result.stderr.startswith("alula: cannot tell: the driver does not name processes as this pid namespace")
        # With the device open it is the driver's process.
        result = on_driver(TWO + f"row {pid} gpu=0 memory_bytes=1GiB\n", root, "--json", str(pid))
        assert (result.returncode, json.loads(result.stdout)["used_bytes"]) == (0, 1 << 30)
