# SPDX-License-Identifier: Apache-2.0
"""alula top on a real pseudo-terminal."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

import procs
import scenes
from screen import Terminal

SANITIZED = bool(os.environ.get("ALULA_SANITIZED"))
UP, DOWN, RIGHT = "\033OA", "\033OB", "\033OC"  # a terminal in application mode
F1, BACK_TAB = "\033OP", "\033[Z"


@pytest.fixture
def top(alula_bin, tmp_path):
    """top(text, *args, **terminal) runs alula top on a scenario."""

    def start(text, *args, **terminal):
        path = tmp_path / "scene.txt"
        path.write_text(text)
        return Terminal([alula_bin, "top", "--source", f"scenario:{path}", *args], **terminal)

    return start


def ended(terminal, status=0):
    assert terminal.end() == status
    assert terminal.is_restored()


def test_start_look_leave(top):
    with top(scenes.busy(2)) as t:
        text = t.wait("python train.py")
        assert re.match(r" alula  node1  2 × NVIDIA H200  driver 580.159.04  CUDA 13.0 +scenario scene.txt  every 0.5 s  12:00:", text)
        assert "✓ nothing found" in text
        assert re.search(r"^  0 H200 .* 93% .* 70.0/140G  655/700W   60°C   90%   40%$", text, re.M)
        assert re.search(r"^   4301 alice     1     rank 1     69.0G .*└─python train.py$", text, re.M)
        assert t.lines[-1].startswith("F1 help")
        assert t.screen.cursor.hidden
        t.press("q")
        ended(t)
        assert "\033" not in t.lines[0]


def test_plain_alula_on_a_terminal_is_top(alula_bin, tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy())
    with Terminal([alula_bin], env={"ALULA_SOURCE": f"scenario:{path}"}) as t:
        t.wait("rank 0")
        t.press("q")
        ended(t)


def test_keys(top):
    with top(scenes.busy(3)) as t:
        t.wait("rank 2")
        t.press(DOWN)
        t.press("\r")
        t.wait("GPU 1  NVIDIA H200")
        t.wait("sm_active_ratio")
        t.press("/memory_used")
        text = t.wait(lambda s: "memory_used_bytes" in s and "temperature_celsius" not in s)
        assert re.search(r"memory_used_bytes +70.0 GiB +\ds  Memory that contexts have taken", text)
        t.press("\r\033")  # keep it, then clear it
        t.wait("temperature_celsius")
        t.press("q")
        t.wait("rank 2")
        t.press("\t" + DOWN + "\r")
        t.wait("process 4300")
        assert "rank, rank 0 of" in t.text
        t.press("\033")
        t.wait("rank 2")
        t.press(F1)
        t.wait("next pane: findings, GPUs, processes")
        t.press("?")
        t.wait("rank 2")
        t.press("q")
        ended(t)


def test_filter_and_sort(top):
    with top(scenes.busy(3)) as t:
        t.wait("rank 2")
        t.press("/rank:1")
        t.wait(lambda s: "rank 1" in s and "rank 2" not in s and "filter: rank:1" in s)
        t.press("\r")
        t.wait("F1 help")
        assert "torchrun" in t.text  # what stands above a match stays
        t.press("\033")
        t.wait("rank 2")
        t.press("s" + UP * 12 + DOWN + "\r")  # by PID
        t.wait("PID▼")
        t.press("I")
        t.wait("PID▲")
        order = re.findall(r"rank (\d)", t.text)
        assert order == ["2", "1", "0"]
        t.press("t")
        t.wait(lambda s: "├" not in s and "└" not in s)
        t.press("q")
        ended(t)


def test_a_finding_opens_with_its_evidence(top):
    with top(scenes.idle(), "--speed", "20") as t:
        t.wait("running inefficiently")
        t.press(BACK_TAB)  # from the GPUs to the findings
        t.press("\r")
        text = t.wait("confidence")
        assert "evidence" in text and re.search(r"^do {10,}\S", text, re.M)
        t.press("q")
        t.wait("F1 help")
        t.press("q")
        ended(t)


def test_mouse(top):
    with top(scenes.busy(3)) as t:
        t.wait("rank 2")
        row = next(i for i, line in enumerate(t.lines) if "rank 2" in line)
        t.click(10, row)
        t.wait(lambda _: t.screen.buffer[row][10].reverse)
        t.click(10, row)  # twice in a row opens
        t.wait("process 4302")
        t.press("\033")
        t.wait("F1 help  Tab")
        head = next(i for i, line in enumerate(t.lines) if "PID" in line)
        t.click(5, head)
        t.wait("PID▼")
        t.click(10, row, button=64)  # wheel up: three rows
        t.wait(lambda _: t.screen.buffer[row - 3][10].reverse)
        t.press("q")
        ended(t)


def test_resize_down_to_one_cell_and_up(top):
    with top(scenes.busy(8)) as t:
        t.wait("rank 7")
        for columns, rows in ((80, 24), (40, 10), (20, 3), (7, 2), (1, 1), (2, 50), (250, 2)):
            t.resize(columns, rows)
            for _ in range(4):
                t.read(0.05)
            assert all(len(line) <= columns for line in t.lines) and len(t.lines) == rows
        t.resize(160, 50)
        text = t.wait(lambda s: "rank 7" in s and "every 0.5 s" in s)
        assert re.search(r"^  7 H200", text, re.M)
        t.press("q")
        ended(t)


@pytest.mark.parametrize("size", [(1, 1), (5, 2), (80, 24), (300, 100)])
def test_starts_at_any_size(top, size):
    with top(scenes.busy(1), columns=size[0], rows=size[1]) as t:
        t.wait(lambda s: s.strip())
        t.press("h\033\t\r\033k\033s\033/x\033q")
        ended(t)


def test_resizing_while_it_draws(top):
    with top(scenes.busy(8), "--speed", "50") as t:
        t.wait("rank 0")
        for i in range(60):
            t.resize(1 + i * 37 % 150, 1 + i * 23 % 60)
            t.read(0.01)
        t.resize(100, 30)
        t.wait("F1 help")
        t.press("q")
        ended(t)


@pytest.mark.parametrize("term", ["vt100", "linux", "screen", "xterm", "xterm-256color", "tmux-256color"])
def test_terminals(top, term):
    if subprocess.run(["infocmp", term], capture_output=True, check=False).returncode:
        pytest.skip(f"no terminfo entry for {term} here")
    with top(scenes.busy(2), columns=80, rows=24, term=term) as t:
        t.wait("rank 1")
        t.press("\tj\r")
        t.wait("process 4300")
        t.press("qq")
        assert t.end() == 0


def test_a_terminal_that_cannot_move_its_cursor(top):
    with top(scenes.busy(), term="dumb") as t:
        assert t.end() == 1
        assert 'of type "dumb" cannot move its cursor: use alula watch or alula top --once' in t.text.replace("\n", "")


def test_a_terminal_that_is_not_known(top):
    with top(scenes.busy(), term="no-such-terminal") as t:
        assert t.end() == 1
        assert 'terminal type "no-such-terminal" is not known here' in t.text.replace("\n", "")


@pytest.mark.parametrize("env", [{"LC_ALL": "C"}, {"LC_ALL": None, "LANG": None, "LC_CTYPE": None}])
def test_without_utf8_everything_is_ascii(top, env):
    with top(scenes.busy(2), env=env) as t:
        text = t.wait("rank 1")
        assert re.search(r"  0 H200 +=+-?\.* ", text)
        assert "`-python train.py" in text
        t.press("q")
        ended(t)
        assert all(byte < 0x80 for byte in t.raw)


def test_a_locale_that_is_not_installed_still_means_utf8(top):
    with top(scenes.busy(2), env={"LC_ALL": "xx_YY.UTF-8"}) as t:
        t.wait("└─python")
        t.press("q")
        ended(t)


def test_no_color(top):
    with top(scenes.idle(), "--speed", "20", env={"NO_COLOR": "1"}) as t:
        t.wait("running inefficiently")
        t.press("q")
        ended(t)
        codes = [int(code) for run in re.findall(rb"\033\[([\d;]*)m", t.raw) for code in run.split(b";") if code]
        assert codes and not [code for code in codes if 30 <= code <= 38 or 40 <= code <= 48 or 90 <= code <= 107]


def test_pause_and_interval(top):
    with top(scenes.busy(1, "600s")) as t:
        t.wait("rank 0")
        t.press("p")
        t.wait("PAUSED")
        before = re.search(r"12:\d\d:\d\d", t.text)[0]
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            t.read()
        assert re.search(r"12:\d\d:\d\d", t.text)[0] == before
        t.press("p")
        t.wait(lambda s: "PAUSED" not in s and before not in s)
        t.press("+++")
        t.wait("every 5.0 s")
        t.press("-----")
        t.wait("every 0.1 s")
        clock = re.search(r"12:\d\d:\d\d", t.text)[0]
        t.wait(lambda s: clock not in s)  # the longer interval's sleep was left at once
        t.press("q")
        ended(t)


def test_the_end_of_a_recording(top):
    with top(scenes.busy(1, "2s"), "--speed", "0") as t:
        t.wait("end of the recording")
        t.press("h")
        t.wait("next pane")
        t.press("\033q")
        ended(t)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals_give_the_terminal_back(top, number):
    with top(scenes.busy()) as t:
        t.wait("rank 0")
        os.kill(t.pid, number)
        ended(t, 128 + number)


def test_a_terminal_that_takes_no_output(top):
    """Nobody reads: the screen's thread stands in a write. The second signal ends it all the same."""
    with top(scenes.busy(8), "--speed", "100", columns=300, rows=100) as t:
        t.wait("rank 0")
        time.sleep(1.5)
        os.kill(t.pid, signal.SIGTERM)
        time.sleep(0.7)
        end = time.monotonic() + 5
        while os.waitpid(t.pid, os.WNOHANG) == (0, 0):
            os.kill(t.pid, signal.SIGTERM)
            assert time.monotonic() < end
            time.sleep(0.05)
        t.status = 143


def test_ctrl_c(top):
    with top(scenes.busy()) as t:
        t.wait("rank 0")
        t.press("\003")
        ended(t, 130)


@pytest.mark.skipif(SANITIZED, reason="the sanitizers have their own handlers")
def test_a_crash_gives_the_terminal_back(top):
    with top(scenes.busy()) as t:
        t.wait("rank 0")
        os.kill(t.pid, signal.SIGSEGV)
        ended(t, -signal.SIGSEGV)


@pytest.mark.parametrize("how", ["signal", "key"])
def test_suspend_and_go_on(alula_bin, tmp_path, how):
    """Under a shell with job control, as a user has it: Ctrl-Z, then fg."""
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy())
    pid_file = tmp_path / "pid"
    script = f'set -m; sh -c \'echo $$ > {pid_file}; exec "$0" "$@"\' "$0" "$@"; echo "stopped: $?"; read line; fg; echo "ended: $?"'
    command = ["bash", "-c", script, alula_bin, "top", "--source", f"scenario:{path}"]
    with Terminal(command) as t:
        t.wait("rank 0")
        if how == "key":
            t.press("\032")
        else:
            os.kill(int(pid_file.read_text()), signal.SIGTSTP)
        t.wait("stopped: ")
        assert b"\033[?1049l" in t.raw and not t.screen.cursor.hidden
        before = len(t.raw)
        t.press("\n")
        t.wait(lambda text: b"\033[?1049h" in t.raw[before:] and "F1 help" in text)
        t.press("q")
        t.wait("ended: 0")
        assert t.end() == 0


def test_a_closed_terminal_ends_it(top):
    with top(scenes.busy()) as t:
        t.wait("rank 0")
        t.close()
        assert t.end() == 129


def test_a_hanging_driver_keeps_no_key_waiting(alula_bin, standin, tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(2) + "@1s\nhang nvmlDeviceGetTemperatureV 300s\nhang nvmlDeviceGetTemperature 300s\n")
    with Terminal([alula_bin, "top"], env=scenes.standin_env(standin, path)) as t:
        text = t.wait(re.compile(r"the driver hangs: nvmlDeviceGetTemperature\w* has not answered for [2-9]s").search)
        assert re.search(r"^  0 H200 .* 60°C~ .* +\ds$", text, re.M)
        for _ in range(3):
            began = time.monotonic()
            t.press("h")
            t.wait("next pane")
            t.press("h")
            t.wait("rank 1")
            assert time.monotonic() - began < 10  # the call hangs for 300 s
        t.press("\r")
        t.wait(re.compile(r"temperature_celsius +60 °C +\d+s  the last reading is old").search)
        began = time.monotonic()
        t.press("\003")
        ended(t, 130)
        assert time.monotonic() - began < 10


# --- signals to processes -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def on_a_gpu(alula_bin, standin, tmp_path, *more, **terminal):
    """A real process that holds memory on a stand-in GPU, and top on it; yields (terminal, process)."""
    child = subprocess.Popen(["sleep", "600"])
    try:
        root = procs.copy_proc(tmp_path / "root", [child.pid])
        path = tmp_path / "scene.txt"
        path.write_text(scenes.head() + f"@0s\ngpu 0 utilization_ratio=93% memory_total_bytes=140GiB memory_used_bytes=70GiB\n"
                        f"row {child.pid} gpu=0 memory_bytes=69GiB\n")
        env = {**scenes.standin_env(standin, path), "ALULA_HOST": None, "ALULA_HOST_ROOT": str(root)}
        with Terminal([alula_bin, "top", *more], env=env, **terminal) as t:
            t.wait("sleep 600")
            yield t, child
    finally:
        with contextlib.suppress(OSError):
            child.kill()
        child.wait()


def test_a_signal_after_asking(alula_bin, standin, tmp_path):
    with on_a_gpu(alula_bin, standin, tmp_path) as (t, child):
        t.press("\tk")
        t.wait(f"signal to {child.pid} sleep 600")
        t.press("\r")
        t.wait(f"Send SIGTERM to {child.pid} sleep 600?")
        t.press("n")
        t.wait("nothing was sent")
        assert child.poll() is None
        t.press("k\r")
        t.wait("are you sure?")
        t.press("y")
        t.wait(f"SIGTERM was sent to {child.pid}")
        assert child.wait(timeout=10) == -signal.SIGTERM
        t.press("k\ry")  # it is still on the made-up GPU, but gone from the machine
        t.wait(f"{child.pid} is gone already")
        t.press("q")
        ended(t)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_signal_that_is_not_permitted(alula_bin, standin, tmp_path):
    def nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    with tempfile.TemporaryDirectory() as folder:  # where another user gets at it
        os.chmod(folder, 0o755)
        shared = pathlib.Path(folder)
        binary = shutil.copy(alula_bin, shared / "alula")
        library = pathlib.Path(shutil.copy(standin, shared / standin.name))
        with on_a_gpu(binary, library, shared, before_exec=nobody) as (t, child):
            t.press("\tk\r")
            t.wait("are you sure?")
            t.press("y")
            t.wait(f"not permitted: {child.pid} belongs to root")
            assert child.poll() is None
            t.press("q")
            ended(t)


def test_processes_of_a_recording_get_no_signal(top):
    with top(scenes.busy().replace("proc 4300", "proc 4300 start_ticks=7")) as t:
        t.wait("rank 0")
        t.press("\t" + DOWN + "k\ry")
        t.wait("not sent: these processes are of a recording, not of this machine")
        t.press("q")
        ended(t)


def test_a_number_that_was_given_to_another_process_is_not_hit(alula_bin, standin, tmp_path):
    with on_a_gpu(alula_bin, standin, tmp_path) as (t, child):
        stat = tmp_path / "root" / "proc" / str(child.pid) / "stat"
        words = stat.read_text().split(" ")
        words[21] = str(int(words[21]) - 5)  # what top shows began before the process that has the number now
        (stat.parent / "cmdline").write_bytes(b"sleep\000601\000")
        stat.write_text(" ".join(words))
        t.wait("sleep 601")
        t.press("\tk\ry")
        t.wait(f"{child.pid} is gone already")
        assert child.poll() is None
        t.press("q")
        ended(t)
