# SPDX-License-Identifier: Apache-2.0
"""alula profile -- COMMAND: from its first moment to its end, whose status is alula's."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from screen import Terminal
from test_dump import LAUNCHER
from test_profile import SHARES, TIMED, folded, near, shares

EARLY = """
import time

def first():
    while time.process_time() < began + 0.05: pass

def later():
    while time.process_time() < began + 0.15: pass

began = time.process_time()
first()
later()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "shares.py"
    path.write_text(SHARES)
    return path


def started(alula, *args, status=0):
    got = alula("profile", *args)
    assert got.returncode == status, got.stderr
    return got


def test_output_and_status_are_the_commands(alula, tmp_path):
    out = tmp_path / "out.folded"
    code = "import sys, time\nprint('to stdout')\nprint('to stderr', file=sys.stderr)\nfor _ in range(30): time.sleep(0.01)\nsys.exit(7)"
    got = started(alula, "-i", "-o", out, "--", sys.executable, "-c", code, status=7)
    assert got.stdout == "to stdout\n"
    first, *ours = got.stderr.splitlines()
    assert first == "to stderr" and len(ours) == 2 and all(line.startswith("alula: profile: ") for line in ours)
    assert "the command has ended" in ours[0] and shares(folded(out))["<module>"] > 0.5


def test_from_the_first_moment(alula, program, tmp_path):
    """What Python does before the program begins is seen too; and the program has its shares."""
    out = tmp_path / "out.folded"
    (tmp_path / "sitecustomize.py").write_text(EARLY)
    got = started(alula, "-o", out, "--rate", "200", "--", sys.executable, program, "3", status=0)
    assert not shares(folded(out))["first"], got.stderr
    command = ["env", f"PYTHONPATH={tmp_path}", sys.executable, "-c", "pass"]
    started(alula, "-o", out, "--rate", "200", "--", *command)
    found = shares(folded(out))
    assert found["first"] and found["later"]  # no more than 50 ms were missed


def test_shares(alula, program, tmp_path):
    """Against what the program itself measured: on a busy machine its turns are stretched."""
    out = tmp_path / "out.folded"
    program.write_text(TIMED)
    truth = float(started(alula, "-o", out, "--rate", "200", "--", sys.executable, program, "4").stdout)
    found = shares(folded(out))
    assert near(found["seventy"] / (found["seventy"] + found["thirty"]), truth, 0.05)


def test_options_of_the_command_are_its_own(alula, tmp_path):
    out = tmp_path / "out.folded"
    code = "import sys, time; time.sleep(0.2); print(sys.argv[1:])"
    got = started(alula, "-io", out, "--", sys.executable, "-c", code, "--rate", "x", "-o", "y", "--", "z")
    assert got.stdout == "['--rate', 'x', '-o', 'y', '--', 'z']\n"


@pytest.mark.parametrize("wrapper", [["bash", "-c", 'sleep 0.1; "$@"; exit 3', "bash"], ["env"], ["bash", "-c", 'exec "$@"', "bash"]],
                         ids=["child", "exec", "shell-exec"])
def test_wrappers(alula, program, tmp_path, wrapper):
    out = tmp_path / "out.folded"
    got = started(alula, "-o", out, "--", *wrapper, sys.executable, program, "1", status=3 if "exit 3" in " ".join(wrapper) else 0)
    found = shares(folded(out))
    assert found["spin"] / (found["seventy"] + found["thirty"]) > 0.9 and found["spin"] > 0.3  # the rest is Python's own start
    assert ("bash is no Python: the processes below it were sampled" in got.stderr) == ("exit 3" in " ".join(wrapper))


def test_subprocesses(alula, program, tmp_path):
    launcher, out, again = tmp_path / "torchrun", tmp_path / "out.folded", tmp_path / "again.folded"
    launcher.write_text(LAUNCHER.replace("sys.stdin.read()", "[rank.wait() for rank in ranks]"))
    started(alula, "-so", out, "--", sys.executable, launcher, program, "2")
    roots = {re.sub(r"\d+", "N", frames[0], count=1) for frames, _ in folded(out)}
    assert {"process N, rank 0 of 2", "process N, rank 1 of 2"} <= roots
    assert sum(count for frames, count in folded(out) if "rank 1" in frames[0]) > 40
    got = started(alula, "-d", "1", "-o", again, "--", sys.executable, launcher, program, "2")
    assert "processes below it were not sampled: --subprocesses" in got.stderr


def test_no_python_at_all(alula, tmp_path):
    out = tmp_path / "out.folded"
    got = started(alula, "-o", out, "--", "sh", "-c", "sleep 0.2; exit 9", status=9)
    assert re.search(r"profile: the command ended after \d+\.\d\d s, and no Python process was seen in it", got.stderr)
    assert not out.exists()
    started(alula, "-o", out, "--", "sleep", "0.1", status=6)  # its own status is 0: alula's says what is wrong
    out.write_text("kept\n")
    started(alula, "-o", out, "--", "sleep", "0.1", status=6)
    assert out.read_text() == "kept\n"


def test_what_cannot_be_started(alula, tmp_path):
    out, plain = tmp_path / "out.folded", tmp_path / "plain"
    plain.write_text("no program\n")
    got = started(alula, "-o", out, "--", tmp_path / "nothing", status=127)
    assert got.stderr.endswith("nothing: command not found\n") and not out.exists()
    got = started(alula, "-o", out, "--", plain, status=126)
    assert "Permission denied" in got.stderr and not out.exists()
    got = started(alula, "-o", tmp_path / "no" / "out", "--", sys.executable, "-c", "print('started')", status=1)
    assert "No such file or directory" in got.stderr and not got.stdout  # nothing was started in vain
    plain.write_text("#!/no/such/interpreter\n")
    plain.chmod(0o755)
    got = started(alula, "-o", out, "--", plain, status=127)
    assert got.stderr.endswith("plain: the interpreter that it names is not there\n") and not out.exists()
    assert started(alula, "-o", out, "--pid", "1", "--", "true", status=2).stderr == "alula: profile: either a --pid or a command\n"
    assert "name one process" in started(alula, "-o", out, "--", status=2).stderr


def test_a_duration_ends_the_sampling_alone(alula, program, tmp_path):
    out = tmp_path / "out.json"
    began = time.monotonic()
    started(alula, "-d", "1s", "-o", out, "--", sys.executable, program, "3")
    assert time.monotonic() - began > 2.9
    assert sum(sum(profile["weights"]) for profile in json.loads(out.read_text())["profiles"]) == pytest.approx(1, abs=0.3)


def test_a_signal_is_the_commands(alula, alula_bin, program, tmp_path):
    out = tmp_path / "out.folded"
    started(alula, "-o", out, "--", sys.executable, "-c",
            "import os, time; time.sleep(0.3); os.kill(os.getpid(), 9)", status=-signal.SIGKILL)
    with subprocess.Popen([alula_bin, "profile", "-o", out, "--", sys.executable, program, "60"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
    assert shares(folded(out))["spin"] > 0.3


def test_ctrl_c(alula_bin, tmp_path):
    """It reaches the command, which may take its time; what was sampled is written."""
    program, out = tmp_path / "slow.py", tmp_path / "out.folded"
    program.write_text("import sys, time\nprint('ready', flush=True)\ntry:\n    while True: sum(range(100))\nexcept KeyboardInterrupt:\n"
                       "    time.sleep(0.3); print('cleaned up'); sys.exit(5)\n")
    with Terminal([alula_bin, "profile", "-o", out, "--", sys.executable, program], columns=300) as t:
        t.wait("ready")
        time.sleep(0.5)
        t.press("\x03")
        assert t.end() == 5
        assert "cleaned up" in t.text and "alula: profile: " in t.text
    assert folded(out)


def test_it_needs_no_right_but_to_be_the_parent(alula_bin, program, tmp_path):
    """As yama 1 has it for a child; here it is shown that the process is a child, whose rights are alula's."""
    out = tmp_path / "out.folded"
    code = "import os, time; time.sleep(0.3); print(os.getppid())"
    with subprocess.Popen([alula_bin, "profile", "-io", out, "--", sys.executable, "-c", code], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as process:
        parent = int(process.stdout.readline())
        assert parent == process.pid and process.wait(10) == 0
    assert os.path.getsize(out)
