# SPDX-License-Identifier: Apache-2.0
"""alula top --once: screens as text, to the letter; and how top refuses what it cannot do.

ALULA_UPDATE_GOLDEN=1 writes tests/golden/top anew; look at the difference before committing it.
"""

import os
import re
import subprocess

import pytest

import scenes

# name: scenario, size, time into it, further arguments
SCREENS = {
    "eight-80x24": ("eight-healthy", "80x24", "40s", []),
    "eight-140x45": ("eight-healthy", "140x45", "60s", []),
    "eight-ascii-100x30": ("eight-healthy", "100x30", "60s", ["--ascii"]),
    "eight-details-100x40": ("eight-healthy", "100x40", "20s", ["--keys", "<down><enter>"]),
    "sixteen-80x24": ("sixty-four", "80x24", "20s", ["--gpu", ",".join(map(str, range(16)))]),
    "sixty-four-160x50": ("sixty-four", "160x50", "20s", []),
    "sixty-four-60x12": ("sixty-four", "60x12", "20s", ["--keys", "<end>"]),
    "all-gpus-120x40": ("uneven", "120x40", "40s", ["--keys", "a"]),
    "throttled-120x30": ("throttled", "120x30", "40s", []),
    "finding-100x30": ("throttled", "100x30", "40s", ["--keys", "<tab><tab><enter>"]),
    "starved-workers-120x30": ("starved", "120x30", "30s", ["--keys", "w<tab>"]),
    "mig-120x30": ("mig", "120x30", "30s", []),
    "denied-100x24": ("denied", "100x24", "20s", []),
    "unified-memory-100x24": ("unified-memory", "100x24", "20s", []),
    "lost-100x24": ("lost-and-back", "100x24", "5s", []),
    "orphan-process-100x30": ("orphan", "100x30", "30s", ["--keys", "<tab><enter>"]),
    "help-80x40": ("idle", "80x40", "2s", ["--keys", "h"]),
    "signal-80x24": ("eight-healthy", "80x24", "2s", ["--keys", "<tab><down>k"]),
    "sure-80x24": ("eight-healthy", "80x24", "2s", ["--keys", "<tab><down>k<down><enter>"]),
    "tiny-20x6": ("eight-healthy", "20x6", "2s", []),
    "cell-1x1": ("eight-healthy", "1x1", "2s", []),
}


@pytest.mark.parametrize("name", SCREENS)
def test_screens(alula, scenarios, root, name):
    scenario, size, seconds, more = SCREENS[name]
    got = alula("top", "--once", "--size", size, "--for", seconds, "--source", f"scenario:{scenarios / scenario}.txt", *more,
                env={"TZ": "UTC"})
    assert (got.returncode, got.stderr) == (0, "")
    golden = root / "tests" / "golden" / "top" / f"{name}.txt"
    if os.environ.get("ALULA_UPDATE_GOLDEN"):
        golden.write_text(got.stdout)
    assert got.stdout == golden.read_text()
    columns, rows = map(int, size.split("x"))
    lines = got.stdout.splitlines()
    assert len(lines) == rows
    assert all(len(line) <= columns for line in lines)


def test_a_picture_is_plain_in_a_pipe_and_coloured_on_request(alula, scenarios):
    args = ("top", "--once", "--size", "80x24", "--source", f"scenario:{scenarios / 'throttled.txt'}")
    assert "\033" not in alula(*args).stdout
    assert re.search(r"\033\[0;1;33mwarning\033\[0m \033\[0;1mGPU 2 ", alula(*args, "--for", "40s", "--color").stdout)


def test_the_default_size_and_the_default_time(alula, scenarios):
    got = alula("top", "--once", "--source", f"scenario:{scenarios / 'idle.txt'}", env={"TZ": "UTC"})
    assert len(got.stdout.splitlines()) == 40
    assert got.stdout.splitlines()[0].endswith("12:00:02")


def test_through_the_driver(alula, standin, scenarios):
    got = alula("top", "--once", "--size", "140x40", "--for", "4s", env=scenes.standin_env(standin, scenarios / "eight-healthy.txt"))
    assert got.returncode == 0
    assert re.search(r"^  7 H200 .* 97% .* 100/140G  640/700W   58°C .* 90%   46%   40%", got.stdout, re.M)
    assert re.search(r"^   4307 alice     7     rank 7     99.5G   96", got.stdout, re.M)


def test_filter_sort_and_flat(alula, scenarios):
    args = ("top", "--once", "--size", "100x40", "--source", f"scenario:{scenarios / 'eight-healthy.txt'}")
    got = alula(*args, "--filter", "gpu:3").stdout
    assert re.findall(r"rank (\d)", got) == ["3"] and "torchrun" in got
    got = alula(*args, "--flat", "--sort", "pid").stdout
    assert re.findall(r"^ +(4\d\d\d) alice", got, re.M) == ["4200", *map(str, range(4300, 4308))]
    assert "├" not in got


def test_utf8_and_ascii_against_the_locale(alula, scenarios):
    args = ("top", "--once", "--size", "80x20", "--source", f"scenario:{scenarios / 'idle.txt'}")
    assert alula(*args, env={"LC_ALL": "C"}).stdout.isascii()
    assert not alula(*args, "--utf8", env={"LC_ALL": "C"}).stdout.isascii()
    assert alula(*args, "--ascii").stdout.isascii()


@pytest.mark.parametrize("args, words", [
    (["--size", "80"], "--size 80: expected columns and rows such as 120x40"),
    (["--size", "0x5"], "--size 0x5: expected columns and rows"),
    (["--size", "80x24x3"], "--size 80x24x3: expected columns and rows"),
    (["--size", "1001x24"], "--size 1001x24: expected columns and rows"),
    (["--for", "soon"], "--for soon: expected a time such as 10s"),
    (["--sort", "colour"], "--sort colour: expected gpu, pid"),
    (["here"], "top: unexpected argument here"),
])
def test_wrong_options(alula, args, words):
    got = alula("top", "--once", *args)
    assert (got.returncode, got.stdout) == (2, "")
    assert got.stderr.startswith(f"alula: {words}")


def test_options_of_a_picture_need_one(alula):
    got = alula("top", "--size", "80x24")
    assert (got.returncode, got.stderr) == (2, "alula: --size, --for and --keys go with --once\n")


def test_without_a_terminal_it_says_what_else_there_is(alula):
    got = alula("top", stdin=subprocess.DEVNULL)
    assert (got.returncode, got.stdout) == (2, "")
    assert got.stderr == "alula: top needs a terminal; alula top --once prints one screen, alula watch a line a tick\n"


def test_a_full_disk_is_told(alula_bin, scenarios):
    with open("/dev/full", "w") as full:
        got = subprocess.run([alula_bin, "top", "--once", "--source", f"scenario:{scenarios / 'idle.txt'}"], stdout=full,
                             stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert got.returncode == 1 and "cannot write the output" in got.stderr
