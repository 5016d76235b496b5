# SPDX-License-Identifier: Apache-2.0
"""alula stacks: the table, its JSON, and the live screen, with programs whose shares are known."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from screen import Terminal
from test_dump import LAUNCHER, line_of, running
from test_profile import SHARES, TIMED, near

DOWN = "\033OB"  # of a terminal in application mode

# For TIMED: ends at SIGTERM, so that what it has measured is what was sampled.
STOPS = """
import signal
def stop(*_):
    global end
    end = 0
signal.signal(signal.SIGTERM, stop)
print(flush=True)
"""

# The second rank spends most of its time elsewhere.
RANKS = """
import os, sys, time
sys.path.insert(0, os.path.dirname(__file__))

def loads(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def steps(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

share = 0.9 if os.environ["RANK"] == "1" else 0.1
print(flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    loads(0.013 * share)
    steps(0.013 * (1 - share))
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "shares.py"
    path.write_text(SHARES)
    return path


def table(alula, *args):
    got = alula("stacks", "--json", *args)
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout)


def by_name(document):
    return {row["function"]: row for row in document["rows"]}


def test_known_shares(alula, program):
    """Against what the program itself measured: on a busy machine its turns are stretched."""
    program.write_text(TIMED.replace("took = [0, 0]", "took = [0, 0]\n" + STOPS))
    for seconds in (4, 8, 16):  # until there are samples enough
        with running(sys.executable, program, 60, patience=0) as process:
            seen = table(alula, process.pid, "-d", f"{seconds}s", "--rate", "200")
            process.terminate()
            truth = float(process.stdout.readline())
        if seen["samples"] > 400:
            break
    rows = by_name(seen)
    assert near(rows["seventy"]["total_ratio"], truth, 0.05) and rows["seventy"]["self_ratio"] < 0.02
    assert near(1 - rows["thirty"]["total_ratio"], truth, 0.05)
    assert rows["spin"]["self_ratio"] > 0.95 and rows["spin"]["gil_ratio"] > 0.9 and rows["spin"]["idle_ratio"] < 0.1
    assert rows["spin"]["self_seconds"] == pytest.approx(seen["seconds"], rel=0.1)
    assert rows["spin"]["line"] == line_of(program, "def spin") and rows["spin"]["file"] == str(program)
    assert "sleeps" not in rows  # idle
    assert seen["threads"] == pytest.approx(2, abs=0.01) and seen["idle_threads"] == pytest.approx(1, abs=0.1)
    assert seen["gil_held_ratio"] > 0.9 and seen["samples"] + seen["late"] == pytest.approx(200 * seen["seconds"], abs=20)
    assert [row["self_ratio"] for row in seen["rows"]] == sorted((row["self_ratio"] for row in seen["rows"]), reverse=True)


def test_lines_idle_threads_and_one_thread(alula, program):
    with running(sys.executable, program, 60, patience=0) as process:
        lines = table(alula, process.pid, "-d", "1s", "--lines", "--idle")
        threads = table(alula, process.pid, "-d", "1s", "--threads")
        alone = table(alula, process.pid, "-d", "1s", "--idle", "--thread", "sleeper")
        nobody = alula("stacks", process.pid, "-d", "0.3s", "--thread", "nobody")
    places = {(row["function"], row["line"]): row for row in lines["rows"]}
    assert places["sleeps", line_of(program, "time.sleep")]["self_ratio"] == pytest.approx(0.5, abs=0.1)
    assert places["sleeps", line_of(program, "time.sleep")]["idle_ratio"] > 0.95
    assert places["seventy", line_of(program, "spin(0.0091)")]["total_ratio"] == pytest.approx(0.35, abs=0.15)
    by_thread = {row["thread"].split()[-1]: row for row in threads["rows"]}
    assert by_thread["MainThread"]["running_ratio"] > 0.9 and by_thread["MainThread"]["function"] == "spin"
    assert by_thread["sleeper"]["idle_ratio"] > 0.95 and by_thread["sleeper"]["function"] == "sleeps"
    assert by_name(alone)["sleeps"]["self_ratio"] > 0.95 and "spin" not in by_name(alone)
    assert nobody.returncode == 5 and "no thread nobody was seen" in nobody.stderr


def test_only_the_holder_of_the_gil(alula, program):
    with running(sys.executable, program, 60, patience=0) as process:
        rows = by_name(table(alula, process.pid, "-d", "1s", "--gil", "--idle"))
    assert rows["spin"]["self_ratio"] > 0.9 and rows["spin"]["gil_ratio"] > 0.8 and "sleeps" not in rows


def test_native_frames(alula, tmp_path):
    """On a busy machine most samples may come without a picture of the thread: one table of several has enough."""
    program = tmp_path / "sorts.py"
    program.write_text("data = [str(i * 7919 % 100003) for i in range(200000)]\nprint(flush=True)\nwhile True: sorted(data)\n")
    shares = []
    with running(sys.executable, program, patience=0) as process:
        while len(shares) < 20 and max(shares, default=0) <= 0.5:
            got = alula("stacks", "--native", "--json", "-d", "2s", process.pid)
            assert got.returncode == 0
            if got.stderr:
                pytest.skip(f"no native frames here: {got.stderr}")
            rows = by_name(json.loads(got.stdout))
            python = [row for row in rows.values() if row["file"] == str(program)]
            native = [row for row in rows.values() if "/" in row["file"] and not row["file"].endswith(".py")]
            assert python and python[0]["total_ratio"] > 0.95
            shares.append(sum(row["self_ratio"] for row in native))
        process.kill()
    assert max(shares) > 0.5, shares


def test_which_rank_differs(alula, tmp_path):
    launcher, program = tmp_path / "torchrun", tmp_path / "ranks.py"
    launcher.write_text(LAUNCHER)
    program.write_text(RANKS)
    with running(sys.executable, launcher, program, 60, lines=3) as process:
        seen = table(alula, process.pid, "--tree", "-d", "3s", "--sort", "difference")
    rows = by_name(seen)
    assert {process["rank"] for process in seen["processes"]} >= {0, 1}
    assert [row["function"] for row in seen["rows"][:2]] in (["loads", "steps"], ["steps", "loads"])
    assert rows["loads"]["median_ratio"] == pytest.approx(0.5, abs=0.1)
    assert abs(rows["loads"]["rank_ratio"] - 0.5) == pytest.approx(0.4, abs=0.1)


def test_a_table_without_a_terminal(alula, program):
    with running(sys.executable, program, 60, patience=0) as process:
        began = time.monotonic()
        got = alula("stacks", process.pid, "-d", "1s", "--rows", "2", stdin=subprocess.DEVNULL)
        took = time.monotonic() - began
    assert got.returncode == 0, got.stderr
    lines = got.stdout.splitlines()
    assert lines[0].startswith(f"process {process.pid}, Python 3.") and str(program) in lines[0]
    samples, seconds, late = re.fullmatch(r"(\d+) samples in (\d+\.\d) s at 100 a second; own cost \d+\.\d % of a core; "
                                          r"moved \d+\.\d\d %(?:; late (\d+))?", lines[1]).groups()
    assert seconds == "1.0" or late and 0 < float(seconds) < took + 0.1, lines[1]
    assert 95 <= int(samples) + int(late or 0) <= 100 * took + 5, lines[1]
    assert re.search(r"^GIL held \d+ %; threads 2\.0: running \d\.\d, waiting for the GIL 0\.0, idle [01]\.\d$", lines[2])
    assert lines[3].split() == ["self%", "total%", "self", "total", "GIL%", "idle%", "function"]
    assert re.search(rf"spin \({program}:{line_of(program, 'def spin')}\)$", lines[4])
    assert re.fullmatch(r"  \(\d more rows: --rows\)", lines[6]) and len(lines) == 7


def test_wrong_options_and_processes(alula):
    for args, words in [([], "name one process"), (["x"], "name one process"), (["1", "--rate", "0"], "--rate takes"),
                        (["1", "--sort", "size"], "--sort takes"), (["1", "--window", "2h"], "--window takes"),
                        (["1", "-d", "-1"], "--duration takes"), (["1", "--rows", "-1"], "--rows takes")]:
        got = alula("stacks", *args)
        assert (got.returncode, got.stdout) == (2, "") and got.stderr.startswith(f"alula: stacks: {words}"), got.stderr
    with subprocess.Popen(["sleep", "60"]) as process:
        got = alula("stacks", process.pid, "--once")
        process.kill()
    assert got.returncode == 6 and "alula: stacks: " in got.stderr and not got.stdout
    got = alula("stacks", process.pid, "--once")
    assert got.returncode == 5 and "alula: stacks: " in got.stderr


# --- the screen ---


@pytest.fixture
def live(alula_bin, program):
    with running(sys.executable, program, 120, patience=0) as process:
        yield lambda *args, **terminal: Terminal([alula_bin, "stacks", *args, str(process.pid)], **terminal)


def ended(terminal, status=0):
    assert terminal.end() == status
    assert terminal.is_restored()


def shown(text, name):
    """self%, total%, and so on, of a row as it is on the screen."""
    row = re.search(rf"^ *([\d.]+) +([\d.]+) +([\d.]+)s +([\d.]+)s +([\d.]+) +([\d.]+)  {name} ", text, re.M)
    return [float(figure) for figure in row.groups()] if row else None


def test_start_look_leave(live, program):
    with live(columns=200) as t:
        text = t.wait(lambda s: (shown(s, "seventy") or [0] * 4)[3] > 1.5)
        assert re.match(r" process \d+, Python 3\.\S+  \S+ \S+shares.py 120 +\d\d:\d\d:\d\d$", t.lines[0])
        assert re.match(r" 100/s, \d+ samples in \d s, shares of the last 5 s; own cost \d+\.\d % of a core; moved \d+\.\d\d %", t.lines[1])
        assert shown(text, "seventy")[1] == pytest.approx(70, abs=15) and shown(text, "spin")[0] > 90
        assert re.search(rf"  spin \S+shares.py:{line_of(program, 'def spin')}$", text, re.M) and "sleeps" not in text
        assert t.lines[-1].startswith("? help") and t.screen.cursor.hidden
        t.press("q")
        ended(t)


def test_keys(live, program):
    with live() as t:
        t.wait("seventy")
        t.press("l")
        t.wait(f"seventy {program}:{line_of(program, 'spin(0.0091)')}" if len(str(program)) < 40 else "idle%  line")
        t.press("i")
        t.wait("idle threads count too")
        t.wait(" sleeps ")
        t.press("t")
        t.wait("count%")  # not run%: those that sleep count too
        t.press(DOWN + "\r")
        text = t.wait(" only thread ")
        assert shown(t.wait(lambda s: " sleeps " in s and "spin" not in s), "sleeps")[0] > 95, text
        t.press("\033")
        t.wait("spin")
        t.press("/thirt")
        text = t.wait(lambda s: "thirty" in s and "spin " not in s)
        assert t.lines[-1].startswith("filter: thirt")
        t.press("\r")
        t.wait("filter: thirt  ?")
        t.press("\033g")
        t.wait("only what held the GIL")
        t.press("gw")
        t.wait("shares since the start")
        t.press("?")
        t.wait("forget what was sampled")
        t.press("q")  # the help first
        t.wait("self%")
        t.press("q")
        ended(t)


def test_keys_that_the_terminal_does_not_describe(live):
    """Arrows of the other mode move; what is unknown is no escape with letters and digits behind it."""
    with live() as t:
        t.wait("seventy")
        t.press("t")
        t.wait("run%")
        t.press("\033[B\033[A\033[6~")  # an escape would leave the threads
        t.wait("run%")
        t.press("\033[1;5B\033[27;5;108~\033[5;2~")  # Ctrl and Down, and others, among which are the keys 1 5 l
        t.press("?")
        t.wait("forget what was sampled")
        t.press("?")
        t.wait("run%")
        t.press("\033")  # and one alone is one
        t.wait("self%")
        t.press("q")
        ended(t)


def test_threads_that_wait_for_the_gil(alula, alula_bin, tmp_path):
    """They sleep in the kernel, and yet are not idle: running, waiting and idle are all there are."""
    path = tmp_path / "contend.py"
    path.write_text("import threading, time\n"
                    "def spin():\n"
                    "    until = time.monotonic() + 60\n"
                    "    while time.monotonic() < until: pass\n"
                    "for _ in range(4): threading.Thread(target=spin, daemon=True).start()\n"
                    "print(flush=True)\n"
                    "time.sleep(60)\n")
    with running(sys.executable, path, patience=0) as process:
        seen = table(alula, process.pid, "-d", "2s")
        if seen["gil_held_ratio"] is None:
            pytest.skip("no GIL")
        assert seen["threads"] == pytest.approx(5, abs=0.1) and seen["idle_threads"] == pytest.approx(1, abs=0.5)
        assert 0.5 < seen["threads_waiting_for_gil"] < 4  # who woke up and has no processor yet runs
        spin = by_name(seen)["spin"]
        assert spin["self_ratio"] > 0.9 and spin["self_seconds"] == pytest.approx(4 * seen["seconds"], rel=0.2)
        with Terminal([alula_bin, "stacks", str(process.pid)], columns=120) as t:
            text = t.wait(lambda s: re.search(r"running \d\.\d, waiting for the GIL \d\.\d, idle [01]\.\d", s)
                          and re.search(r"100/s, \d\d\d", s))
            all_of, *parts = map(float, re.search(r"threads ([\d.]+): running ([\d.]+), waiting for the GIL ([\d.]+), idle ([\d.]+)",
                                                  text).groups())
            assert sum(parts) == pytest.approx(all_of, abs=0.16) and parts[0] > 0
            t.press("q")
            ended(t)


def test_one_function(live, program):
    with live("-d", "100s") as t:
        t.wait(lambda s: (shown(s, "spin") or [0] * 3)[2] > 1)
        t.press("\r")
        text = t.wait("called by")
        lines, callers, called = re.split("called by|calls\n", text)
        assert " function spin" in lines and re.search(rf":{line_of(program, 'while time.thread_time')}$", lines, re.M)
        assert shown(callers, "seventy")[1] == pytest.approx(70, abs=20) and shown(callers, "thirty")[1] == pytest.approx(30, abs=20)
        assert "none" in called
        t.press("\033")
        t.wait(lambda s: "called by" not in s and shown(s, "<module>"))
        t.press("/seventy\r")
        t.wait("filter: seventy")
        t.press("\r")
        text = t.wait(lambda s: " function seventy" in s and "called by" in s)
        lines, callers, called = re.split("called by|calls\n", text)
        assert shown(callers, "<module>")[1] == shown(lines, "seventy")[1] == pytest.approx(shown(called, "spin")[1], abs=5)
        t.press("q")
        t.wait(lambda s: "called by" not in s)
        t.press("q")
        ended(t)


def test_the_job_on_a_screen(alula_bin, tmp_path):
    launcher, program = tmp_path / "torchrun", tmp_path / "ranks.py"
    launcher.write_text(LAUNCHER)
    program.write_text(RANKS)
    with running(sys.executable, launcher, program, 60, lines=3) as process, \
            Terminal([alula_bin, "stacks", "--tree", str(process.pid)], columns=150) as t:
        text = t.wait(lambda s: re.search(r" loads .* 1: [89]\d %, others [45]\d %", s))
        assert "rank that differs" in text and re.search(r"^ process \d+.*, 3 processes", text)
        t.press("t")
        t.wait(lambda s: re.search(r" process \d+, rank 1 of 2 (loads|steps) ", s))
        t.press("q")
        ended(t)


def test_sorting_pausing_forgetting(live):
    def order(text):
        return re.findall(r"^ .*%? (spin|seventy|thirty|<module>) ", text, re.M)

    with live("--whole") as t:
        t.wait(lambda s: (shown(s, "thirty") or [0] * 4)[3] > 0.5)
        t.press("5")
        t.wait(lambda s: order(s) == ["<module>", "seventy", "spin", "thirty"])
        t.press("5")
        t.wait(lambda s: order(s) == ["thirty", "spin", "seventy", "<module>"])
        t.press("2")
        t.wait(lambda s: order(s)[2:] == ["seventy", "thirty"])
        t.press("p")
        t.wait("PAUSED")
        before = shown(t.text, "spin")
        for _ in range(30):  # more than a frame
            t.read(0.05)
        assert shown(t.text, "spin") == before
        t.press("p")
        t.wait(lambda s: shown(s, "spin")[2] > before[2] + 1)
        t.press("r")
        t.wait(lambda s: not shown(s, "spin") or shown(s, "spin")[2] < before[2])
        t.press("q")
        ended(t)


def test_small_terminals_colours_and_the_end(alula_bin, program):
    with running(sys.executable, program, 4, patience=0) as process, \
            Terminal([alula_bin, "stacks", str(process.pid)], columns=80, rows=24) as t:
        t.wait("seventy")
        assert re.search(rb"\x1b\[[0-9;]*3[0-9]m", t.raw)
        for columns, rows in [(40, 10), (10, 3), (1, 1), (200, 50)]:
            t.resize(columns, rows)
            t.settle()
        t.wait("the process has ended")
        t.wait("seventy")  # what was seen stays
        t.press("q")
        ended(t)


def test_without_colour_and_for_a_while(live):
    with live("-d", "1s", env={"NO_COLOR": "1"}) as t:
        t.wait("seventy")
        ended(t)
        assert not re.search(rb"\x1b\[[0-9;]*3[0-9]m", t.raw)


def test_a_terminal_that_shows_no_screen(live):
    with live(term="dumb") as t:
        assert t.end() == 1
        assert 'alula: stacks: a terminal of type "dumb" cannot move its cursor: use alula stacks --once' in t.text.replace("\n", "")


def test_signals(live):
    with live() as t:
        t.wait("seventy")
        os.kill(t.pid, signal.SIGTERM)
        ended(t, 128 + signal.SIGTERM)
    with live() as t:
        t.wait("seventy")
        t.press("\x03")
        ended(t, 128 + signal.SIGINT)
