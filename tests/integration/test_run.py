# SPDX-License-Identifier: Apache-2.0
"""alula run starts a command as it would be started without alula: status, signals, streams, terminal, PID 1."""

import errno
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

ENV = {**os.environ, "LC_ALL": "C.UTF-8"}


def start(alula_bin, *args, **kwargs):
    kwargs.setdefault("stdout", subprocess.PIPE)
    kwargs.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([str(alula_bin), "run", *map(str, args)], env=ENV, encoding="utf-8", **kwargs)


def wait_for(path, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.read_text().strip():
            return path.read_text().strip()
        time.sleep(0.01)
    raise AssertionError(f"{path} did not come")


def alive(pid):
    try:
        os.kill(pid, 0)
    except OSError as e:
        return e.errno == errno.EPERM
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
        return f.read().rpartition(")")[2].split()[0] != "Z"


# --- status ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 3, 42, 125, 255])
def test_status_is_the_command_s(alula, status):
    assert alula("run", "--", "sh", "-c", f"exit {status}").returncode == status


@pytest.mark.parametrize("name", ["KILL", "TERM", "INT", "SEGV", "ABRT", "HUP", "USR1", "PIPE"])
def test_the_command_s_signal_is_raised_again(alula, name):
    got = alula("run", "--", "sh", "-c", f"kill -{name} $$")
    assert got.returncode == -signal.Signals[f"SIG{name}"]
    assert f"the job ended with SIG{name}" in got.stderr


def test_own_failures(alula, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("echo no\n")
    for command, status in (("nosuch-command", 127), (tmp_path / "none", 127), (plain, 126), (tmp_path, 126)):
        got = alula("run", "--", command)
        assert got.returncode == status, command
        assert got.stdout == "" and got.stderr.startswith("alula: run: ") and got.stderr.count("\n") == 1
    for args in ((), ("--log-every", "0", "--", "true"), ("--fail-on", "x", "--", "true"), ("--nonsense", "--", "true"),
                 ("--preset", "x", "--", "true"), ("--config", "/nonexistent", "--", "true")):
        assert alula("run", *args).returncode == 125, args


def test_options_of_the_command_are_its_own(alula):
    got = alula("run", "--quiet", "echo", "--quiet", "--help", "-x")
    assert (got.returncode, got.stdout, got.stderr) == (0, "--quiet --help -x\n", "")


# --- streams --------------------------------------------------------------------------------------------------------


def test_streams_are_untouched(alula):
    got = alula("run", "--", "sh", "-c", "cat; echo to-err >&2", input="from stdin\n")
    assert got.stdout == "from stdin\n"
    assert "to-err\n" in got.stderr
    ours = [line for line in got.stderr.splitlines() if line != "to-err"]
    assert ours and all(line.startswith("alula: ") for line in ours)
    quiet = alula("run", "--quiet", "--", "sh", "-c", "echo out; echo err >&2")
    assert (quiet.stdout, quiet.stderr) == ("out\n", "err\n")


def test_in_a_pipeline(alula_bin):
    got = subprocess.run(["bash", "-c", f"set -o pipefail; seq 100000 | {alula_bin} run --quiet -- cat | head -n 2"],
                         capture_output=True, encoding="utf-8", timeout=30, check=False)
    assert got.stdout == "1\n2\n"
    assert got.returncode == 128 + signal.SIGPIPE  # as cat alone


def test_no_descriptor_is_left_to_the_command(alula):
    plain = subprocess.run(["sh", "-c", "ls /proc/self/fd"], capture_output=True, text=True, check=True).stdout
    assert alula("run", "--quiet", "--", "sh", "-c", "ls /proc/self/fd").stdout == plain


def test_mask_dispositions_and_group_are_as_without(alula):
    look = "grep -E 'SigBlk|SigIgn|SigCgt' /proc/self/status"
    for prefix in ("", "trap '' HUP INT; "):
        plain = subprocess.run(["sh", "-c", prefix + "exec " + look], capture_output=True, text=True, check=True).stdout
        got = alula("run", "--quiet", "--", "sh", "-c", prefix + "exec " + look)
        assert got.stdout == plain
    got = alula("run", "--quiet", "--", sys.executable, "-c", "import os; print(os.getpgrp() == os.getpgid(os.getppid()))")
    assert got.stdout == "True\n"


def test_environment_has_what_the_probe_needs_and_nothing_else(alula):
    got = alula("run", "--quiet", "--", "env", env={"PYTHONPATH": "/old"})
    env = dict(line.split("=", 1) for line in got.stdout.splitlines() if "=" in line)
    added = {key for key in env if key not in os.environ and key not in ("PYTHONPATH", "LC_ALL", "_")}
    assert added <= {"ALULA_SOCKET", "ALULA_PROBE", "CUDA_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"}
    assert "ALULA_SOCKET" in added
    assert env["PYTHONPATH"] == "/old" or re.fullmatch(r".+:/old", env["PYTHONPATH"])
    assert not os.path.exists(os.path.dirname(env["ALULA_SOCKET"]))  # cleared away


# --- signals --------------------------------------------------------------------------------------------------------

COUNTER = """
import os, signal, sys, time
counts = {}
def on(number, frame):
    counts[number] = counts.get(number, 0) + 1
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
    signal.signal(number, on)
open(sys.argv[1], "w").write(str(os.getpid()))
deadline = time.monotonic() + 10
while not counts and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.4)
print(" ".join(f"{signal.Signals(n).name}={c}" for n, c in sorted(counts.items())))
sys.exit(7)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT"])
@pytest.mark.parametrize("group", [False, True], ids=["to alula", "to the group"])
def test_a_signal_arrives_once(alula_bin, tmp_path, name, group):
    p = start(alula_bin, "--quiet", "--", sys.executable, "-c", COUNTER, tmp_path / "pid", start_new_session=True)
    wait_for(tmp_path / "pid")
    number = signal.Signals[name]
    (os.killpg if group else os.kill)(p.pid, number)
    out, err = p.communicate(timeout=20)
    assert out == f"{name}=1\n", err
    assert p.returncode == 7


def test_a_script_that_ends_its_group(alula_bin, tmp_path):
    script = ("trap 'echo got >> %s/got; exit 9' TERM; (trap - TERM; sleep 30) & echo $$ > %s/pid; kill 0; "
              "sleep 0.5; wait" % (tmp_path, tmp_path))
    p = start(alula_bin, "--quiet", "--", "bash", "-c", script, start_new_session=True)
    p.communicate(timeout=20)
    assert p.returncode == 9
    assert (tmp_path / "got").read_text() == "got\n"


def test_the_job_goes_on_when_alula_is_killed(alula_bin, tmp_path):
    p = start(alula_bin, "--", "sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 1; echo done > {tmp_path}/done")
    wait_for(tmp_path / "pid")
    p.kill()
    p.wait(timeout=10)
    assert wait_for(tmp_path / "done") == "done"


def test_nothing_of_alula_outlives_it(alula_bin, tmp_path):
    p = start(alula_bin, "--quiet", "--", "sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 30")
    job = int(wait_for(tmp_path / "pid"))
    children = set(map(int, open(f"/proc/{p.pid}/task/{p.pid}/children").read().split())) - {job}
    p.kill()
    p.wait(timeout=10)
    deadline = time.monotonic() + 5
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(alive, children))
    assert alive(job)
    os.kill(job, signal.SIGKILL)


# --- the terminal ---------------------------------------------------------------------------------------------------


class Terminal:
    """An interactive shell on a pseudo-terminal."""

    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, {**ENV, "PS1": "READY> ", "TERM": "dumb", "HISTFILE": ""})
        self.text = ""

    def send(self, text):
        os.write(self.fd, text.encode())

    def until(self, pattern, seconds=10):
        """Reads until the pattern comes; what is before it and the match are taken away."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.text)
            if found:
                before, self.text = self.text[:found.end()], self.text[found.end():]
                return before
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    break
        raise AssertionError(f"no {pattern!r} in {self.text!r}")

    def close(self):
        os.close(self.fd)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)


@pytest.fixture
def shell():
    t = Terminal("bash", "--norc", "--noprofile", "-i")
    t.until("READY> ")
    yield t
    t.close()


def test_ctrl_c(shell, alula_bin):
    shell.send(f"{alula_bin} run --quiet -- sh -c 'trap \"echo caught; exit 5\" INT; echo up; while :; do sleep 0.05; done'\n")
    shell.until("\nup")
    shell.send("\x03")
    shell.until("caught\r\n")
    shell.until("READY> ")
    shell.send("echo status=$?\n")
    assert shell.until(r"status=\d+\r").count("caught") == 0  # once
    assert shell.text is not None


def test_ctrl_c_of_a_plain_command_ends_the_shell_s_loop(shell, alula_bin):
    # A shell ends its own loop only if the command really died of SIGINT.
    shell.send(f"for i in 1 2 3; do echo turn=$i; {alula_bin} run --quiet -- sleep 5; done\n")
    shell.until("turn=1\r\n")
    time.sleep(0.3)
    shell.send("\x03")
    shell.until("READY> ")
    shell.send("echo end=$?\n")
    assert "turn=" not in shell.until("end=130\r")


def test_ctrl_z_and_fg(shell, alula_bin, tmp_path):
    shell.send(f"{alula_bin} run --quiet -- sh -c 'echo $$ > {tmp_path}/pid; echo up; read line; echo line=$line'\n")
    shell.until("\nup\r\n")
    shell.send("\x1a")
    shell.until("Stopped")
    shell.until("READY> ")
    job = int((tmp_path / "pid").read_text())
    for _ in range(200):  # the shell speaks of alula; the job stops by itself at the same signal
        with open(f"/proc/{job}/stat", encoding="utf-8") as f:
            state = f.read().rpartition(")")[2].split()[0]
        if state == "T":
            break
        time.sleep(0.01)
    assert state == "T"
    shell.send("fg\n")
    time.sleep(0.2)
    shell.send("hello\n")
    shell.until("line=hello\r\n")
    shell.until("READY> ")


def test_the_command_has_the_terminal(shell, alula_bin):
    shell.send(f"{alula_bin} run --quiet -- {sys.executable} -c 'import os, sys; "
               "print(\"tty=%s%s%s fg=%s\" % (os.isatty(0), os.isatty(1), os.isatty(2), os.tcgetpgrp(0) == os.getpgrp()))'\n")
    shell.until("tty=TrueTrueTrue fg=True\r\n")


def test_hang_up(alula_bin, tmp_path):
    t = Terminal(str(alula_bin), "run", "--quiet", "--", "sh", "-c",
                 f"trap 'echo hup > {tmp_path}/hup; exit 0' HUP; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done")
    wait_for(tmp_path / "pid")
    os.close(t.fd)
    assert wait_for(tmp_path / "hup") == "hup"
    os.waitpid(t.pid, 0)


# --- PID 1 ----------------------------------------------------------------------------------------------------------


def unshare_works():
    try:
        return subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, timeout=10,
                              check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@pytest.mark.skipif(not unshare_works(), reason="no new pid namespace may be made here")
def test_as_pid_1(alula_bin, tmp_path):
    script = (f"echo parent=$PPID; for i in 1 2 3 4 5; do (sleep 0.1 & ) ; done; sleep 0.8; "
              "grep -l '^State:.Z' /proc/[0-9]*/status; echo end; exit 4")
    got = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", alula_bin, "run", "--quiet", "--", "sh", "-c", script],
                         capture_output=True, encoding="utf-8", timeout=30, check=False)
    assert got.stdout == "parent=1\nend\n", got.stderr
    assert got.returncode == 4
    got = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", alula_bin, "run", "--quiet", "--", "sh", "-c",
                          "kill -TERM $$"], capture_output=True, encoding="utf-8", timeout=30, check=False)
    assert got.returncode == 128 + signal.SIGTERM


@pytest.mark.skipif(not unshare_works(), reason="no new pid namespace may be made here")
def test_pid_1_passes_sigterm(alula_bin, tmp_path):
    p = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", alula_bin, "run", "--quiet", "--", "sh", "-c",
                          f"trap 'echo term > {tmp_path}/term; exit 6' TERM; echo 1 > {tmp_path}/up; while :; do sleep 0.05; done"])
    wait_for(tmp_path / "up")
    init = int(open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()[0])
    os.kill(init, signal.SIGTERM)
    assert wait_for(tmp_path / "term") == "term"
    assert p.wait(timeout=10) == 6
