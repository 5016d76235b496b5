# SPDX-License-Identifier: Apache-2.0
"""alula stat on scenarios, and beside gpustat itself on the same stand-in driver."""

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from procs import copy_proc, sleepers

SCENE = """\
alula scenario 1
start 2025-03-07T14:05:09Z
driver 580.159.04
host hostname=node7
gpu 0 name="NVIDIA H200" uuid=GPU-00000000-aaaa-bbbb-cccc-dddddddddddd
gpu 1 name="NVIDIA GeForce GTX TITAN X"
gpu 2 name="NVIDIA Tesla P4"
gpu 3
duration 2s
@0s
gpu 0 temperature_celsius=34C utilization_ratio=97% memory_used_bytes=110796MiB memory_total_bytes=143771MiB
gpu 0 power_watts=655.999W power_enforced_limit_watts=700W
gpu 0 encoder_utilization_ratio=0% decoder_utilization_ratio=67%
gpu 1 temperature_celsius=80C fan_speed_ratio=29% utilization_ratio=29% memory_used_bytes=0B
gpu 1 memory_total_bytes=12189MiB power_watts=125W power_enforced_limit_watts=312.5W
gpu 2 processes=!unsupported
lost 3
proc 4242 ppid=4000 alive=yes user=alice comm=python3 command="/usr/bin/python3 train.py" role=rank rank=0
proc 4242 cpu_ratio=101.5% resident_bytes=1GiB
proc 4243 ppid=4000 alive=yes user=bob comm=vllm command="vllm serve" role=engine
row 4242 gpu=0 memory_bytes=1234MiB
row 4242 gpu=1 memory_bytes=100MiB
row 4243 gpu=0 memory_bytes=!unsupported
"""

HEADER = "node7                          Fri Mar  7 14:05:09 2025  580.159.04\n"
DEFAULT = HEADER + """\
[0] NVIDIA H200                | 34°C,  97 % | 110796 / 143771 MB | alice(1234M) bob(?M)
[1] NVIDIA GeForce GTX TITAN X | 80°C,  29 % |     0 / 12189 MB | alice(100M)
[2] NVIDIA Tesla P4            | ??°C,  ?? % |    ?? /    ?? MB | (Not Supported)
[3] ((GPU is lost))            |  ?°C,   ? % |     ? /     ? MB | (Not Supported)
"""


@pytest.fixture
def stat(alula, tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(SCENE)

    def run(*args, env=None, **kwargs):
        return alula("stat", "--source", f"scenario:{path}", *args, env={"TZ": "UTC", **(env or {})}, **kwargs)

    return run


def test_default_line(stat):
    result = stat()
    assert (result.returncode, result.stdout, result.stderr) == (0, DEFAULT, "")


@pytest.mark.parametrize("options, line", [
    (["-c"], "[0] NVIDIA H200 | 34°C,  97 % | 110796 / 143771 MB | python3(1234M) vllm(?M)"),
    (["-cup"], "[0] NVIDIA H200 | 34°C,  97 % | 110796 / 143771 MB | alice:python3/4242(1234M) bob:vllm/4243(?M)"),
    (["-F", "-P"], "[0] NVIDIA H200 | 34°C,  ?? %,  97 %,  655 / 700 W | 110796 / 143771 MB | alice(1234M) bob(?M)"),
    (["-P", "draw"], "[0] NVIDIA H200 | 34°C,  97 %,  655 W | 110796 / 143771 MB | alice(1234M) bob(?M)"),
    (["-Pdraw", "-e"], "[0] NVIDIA H200 | 34°C,  97 % (E:   0 %  D:  67 %),  655 W | 110796 / 143771 MB |"
                       " alice(1234M) bob(?M)"),
    (["--show-codec=dec", "--no-processes"], "[0] NVIDIA H200 | 34°C,  97 % (D:  67 %) | 110796 / 143771 MB"),
    (["--roles", "-p"], "[0] NVIDIA H200 | 34°C,  97 % | 110796 / 143771 MB | alice/4242(1234M rank0)"
                        " bob/4243(?M engine)"),
    (["--gpuname-width", "5"], "[0] …H200 | 34°C,  97 % | 110796 / 143771 MB | alice(1234M) bob(?M)"),
])
def test_options(stat, options, line):
    result = stat("--id", "0", "--no-header", *options)
    assert (result.returncode, result.stdout) == (0, line + "\n")


def test_ids_keep_the_users_order(stat):
    lines = stat("--id", "1,0", "--no-header").stdout.splitlines()
    assert [line[:3] for line in lines] == ["[1]", "[0]"]
    result = stat("--id", "7")
    assert (result.returncode, result.stdout) == (5, "")
    assert result.stderr == "alula: no GPU matches \"7\"\n"


def test_full_commands(stat):
    result = stat("-f", "--id", "0", "--no-header")
    assert result.stdout.splitlines()[1:] == [
        " ├─   4242 ( 102%, 1024MB): /usr/bin/python3 train.py",
        " └─   4243 (   ?%,      ?): vllm serve",
    ]
    assert "train.py" not in stat("-cf", "--no-cmdline").stdout


def test_locale_without_utf8(stat):
    result = stat("-f", "--gpuname-width", "6", "--no-header", env={"LC_ALL": "C"})
    assert result.stdout.splitlines()[:2] == [
        "[0] ...200 | 34'C,  97 % | 110796 / 143771 MB | alice(1234M) bob(?M)",
        " |-   4242 ( 102%, 1024MB): /usr/bin/python3 train.py",
    ]
    assert result.stdout.isascii()


def test_comma_locale_changes_nothing(stat):
    assert stat(env={"LC_ALL": "de_DE.UTF-8"}).stdout == DEFAULT


def test_json(stat):
    result = stat("--json")
    data = json.loads(result.stdout)
    assert list(data) == ["hostname", "driver_version", "query_time", "gpus"]
    assert (data["hostname"], data["driver_version"]) == ("node7", "580.159.04")
    assert data["query_time"].startswith("2025-03-07T14:05:09.1")
    first = data["gpus"][0]
    processes = first.pop("processes")
    assert first == {
        "index": 0, "uuid": "GPU-00000000-aaaa-bbbb-cccc-dddddddddddd", "name": "NVIDIA H200", "temperature.gpu": 34,
        "fan.speed": None, "utilization.gpu": 97, "utilization.enc": 0, "utilization.dec": 67, "power.draw": 655,
        "enforced.power.limit": 700, "memory.used": 110796, "memory.total": 143771}
    assert processes == [
        {"username": "alice", "command": "python3", "full_command": ["/usr/bin/python3", "train.py"],
         "gpu_memory_usage": 1234, "cpu_percent": 101.5, "cpu_memory_usage": 1 << 30, "pid": 4242},
        {"username": "bob", "command": "vllm", "full_command": ["vllm", "serve"], "gpu_memory_usage": None,
         "cpu_percent": None, "cpu_memory_usage": None, "pid": 4243}]
    assert data["gpus"][2]["processes"] is None
    assert data["gpus"][3] == {"index": 3, "name": "((GPU is lost))", "processes": None}
    roles = json.loads(stat("--json", "--roles").stdout)["gpus"][0]["processes"]
    assert [(p["role"], p["rank"]) for p in roles] == [("rank", 0), ("engine", None)]


def test_colors_only_where_wanted(stat):
    assert "\033" not in stat().stdout
    assert stat("--color", env={"NO_COLOR": "1"}).stdout.startswith("\033[1m\033[37mnode7")
    assert "\033[1m\033[31m 80°C\033[0;10m" in stat("--color").stdout


@pytest.mark.parametrize("args, message", [
    (["--json", "-i"], "--json and --interval cannot be used together"),
    (["--color", "--no-color"], "--color and --no-color cannot be used together"),
    (["-e", "both"], "--show-codec both: expected enc, dec or enc,dec"),
    (["-P", "some"], "--show-power some: expected draw, limit or draw,limit"),
    (["-i", "soon"], "--interval soon: expected seconds"),
    (["--gpuname-width", "-1"], "--gpuname-width -1: expected a number"),
    (["--id", "0,x"], "--id 0,x: expected indices"),
    (["what"], "takes options only"),
    (["--unheard-of"], "unrecognized option '--unheard-of'"),
])
def test_wrong_options(stat, args, message):
    result = stat(*args)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


def test_help(alula):
    result = alula("stat", "--help")
    assert result.returncode == 0
    for word in ("--show-power", "--gpuname-width", "--roles", "--source", "Examples:"):
        assert word in result.stdout
    assert result.stdout.count("--interval ") == 1  # the common --interval means something else


def test_watch_repeats_without_a_terminal(stat):
    result = stat("-i", "1", "--no-header", "--speed", "0")
    lines = result.stdout.splitlines()
    assert result.returncode == 0
    assert len(lines) == 4 * 3  # at 0 s, 1 s and 2 s of a scenario of 2 s
    assert lines[0:4] == lines[4:8]


def test_watch_draws_on_a_screen_of_its_own(alula_bin, tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(SCENE.replace("duration 2s", "duration 600s"))
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({"LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "TZ": "UTC"})
        os.execv(alula_bin, [str(alula_bin), "stat", "-i", "0.1", "--source", f"scenario:{path}"])
    output = b""
    while output.count(b"\033[H") < 3:
        output += os.read(terminal, 65536)
    os.kill(pid, signal.SIGINT)
    try:
        while chunk := os.read(terminal, 65536):
            output += chunk
    except OSError:  # Linux's way of saying that the other end is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert output.startswith(b"\033[?1049h\033[H")
    assert output.endswith(b"\033[?1049l")
    assert "\033[34mNVIDIA H200               \033(B\033[m |" in output.decode()
    assert b"\033[K\r\n" in output and b"\033[J" in output


def test_no_gpus(alula, tmp_path):
    path = tmp_path / "none.txt"
    path.write_text("alula scenario 1\nstart 2025-03-07T14:05:09Z\nhost hostname=n\ndriver 580\n@0s\n")
    result = alula("stat", "--source", f"scenario:{path}", "--no-header")
    assert (result.returncode, result.stdout) == (0, "(No GPUs are available)\n")
    assert json.loads(alula("stat", "--source", f"scenario:{path}", "--json").stdout)["gpus"] == []


def test_debug_says_what_is_missing(stat):
    result = stat("--debug", "--id", "2")
    assert "alula: GPU 2: processes: not supported by this GPU or driver\n" in result.stderr


# --- beside gpustat ---

TWIN = """\
alula scenario 1
driver 580.159.04
gpu 0 name="NVIDIA H200"
gpu 1 name="NVIDIA H200"
gpu 2 name="NVIDIA Tesla P4"
gpu 3 name="NVIDIA GeForce GTX TITAN X"
duration 600s
@0s
gpu 0-1 temperature_celsius=34C utilization_ratio=97% memory_used_bytes=110796.7MiB memory_total_bytes=143771.5MiB
gpu 0-1 power_watts=655.999W power_enforced_limit_watts=700W memory_free_bytes=32974MiB memory_reserved_bytes=614MiB
gpu 0-1 encoder_utilization_ratio=0% decoder_utilization_ratio=67% fan_speed_ratio=!unsupported
gpu 2 temperature_celsius=!unsupported utilization_ratio=!unsupported memory_used_bytes=!unsupported
gpu 2 memory_total_bytes=!unsupported power_watts=!unsupported processes=!unsupported
gpu 3 temperature_celsius=50C fan_speed_ratio=30% utilization_ratio=30% memory_used_bytes=1MiB
gpu 3 memory_total_bytes=12189MiB memory_free_bytes=12188MiB memory_reserved_bytes=0B power_watts=50.001W
gpu 3 power_enforced_limit_watts=250W encoder_utilization_ratio=50% decoder_utilization_ratio=49%
row {a} gpu=0 memory_bytes=1234.9MiB
row {b} gpu=0 memory_bytes=!unsupported
row {a} gpu=1 memory_bytes=77MiB
"""


def without_time(text):
    return re.sub(r"  [A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d:\d\d \d{4}  ", "  TIME  ", text, count=1)


@pytest.fixture
def twins(alula, standin, tmp_path):
    """run(args) gives what gpustat and alula stat print for the same driver and processes."""
    path = tmp_path / "twin.txt"
    with sleepers(["--name", "one"], ["--lr=1e-4"]) as (a, b):
        path.write_text(TWIN.format(a=min(a, b), b=max(a, b)))
        env = {**os.environ, "LC_ALL": "C.UTF-8", "ALULA_SCENARIO": str(path), "TERM": "xterm-256color",
               "LD_LIBRARY_PATH": str(standin.parent), "ALULA_HOST_ROOT": str(copy_proc(tmp_path / "root", [a, b]))}
        env.pop("LD_PRELOAD", None)

        def run(*args):
            theirs = subprocess.run([sys.executable, "-m", "gpustat", *args], env=env, capture_output=True,
                                    encoding="utf-8", timeout=60, check=False)
            assert theirs.returncode == 0, theirs.stderr
            ours = alula("stat", "--source", "nvml", *args, env=env)
            assert (ours.returncode, ours.stderr) == (0, "")
            return theirs.stdout, ours.stdout

        yield run


@pytest.mark.plain
@pytest.mark.parametrize("args", [[], ["-a"], ["-cupF", "-P", "-e"], ["-cf", "-P", "draw", "--gpuname-width", "12"],
                                  ["--id", "3,0", "--no-header"], ["-a", "--color"], ["--no-processes", "-e", "enc"]])
def test_text_is_gpustats(twins, args):
    theirs, ours = twins(*args)
    assert without_time(ours) == without_time(theirs)


@pytest.mark.plain
def test_json_is_gpustats(twins):
    theirs, ours = (json.loads(text) for text in twins("--json"))
    for data in (theirs, ours):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?", data.pop("query_time"))
        for gpu in data["gpus"]:
            for process in gpu["processes"] or []:
                assert process.pop("cpu_memory_usage") > 1 << 20
                process.pop("cpu_percent")
                # The code behind -c holds blanks, at which alula's words are cut.
                process["full_command"] = " ".join(process["full_command"])
    assert ours == theirs
    assert json.dumps(ours) == json.dumps(theirs)  # the keys' order too
