# SPDX-License-Identifier: Apache-2.0
"""alula run --soak and --fail-on: repeated runs, their slopes and verdicts, and the exit status."""

import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.plain  # the job loads the probe, and has no sanitizer

FAKE = pathlib.Path(__file__).with_name("fake_job.py")


@pytest.fixture
def run(alula, tmp_path):
    def go(*options, job=(), command=None):
        return alula("run", "--output-dir", tmp_path, *options, "--", *(command or (sys.executable, FAKE, *job)), timeout=90)

    return go


def test_soak_finds_a_leak_in_runs_that_end_by_themselves(run, tmp_path):
    got = run("--soak", "6s", "--fail-on", "leak", job=("--steps", 100, "--forward", 0.002, "--leak", 2 << 20))
    assert got.returncode == 3, got.stderr
    runs = int(re.search(r"soak: (\d+) runs in ", got.stderr)[1])
    assert runs >= 2 and re.search(rf"{runs} runs in [\d.]+ s, \d+ steps: a leak in \d+ of them: rank 0 cuda:0: allocated", got.stderr)
    assert len(re.findall(r"soak: run \d+, rank 0, \d+ steps;.* cuda:0 allocated 2.0 MiB a step \(95 % interval", got.stderr)) >= 2
    assert "first to die" not in got.stderr  # the last run was ended by the soak
    assert [p.name for p in tmp_path.glob("*.alula")] == ["run.alula"]


def test_soak_of_a_healthy_job(run):
    got = run("--soak", "4s", "--fail-on", "leak", job=("--steps", 100, "--forward", 0.002, "--memory", 1))
    assert got.returncode == 0 and "no leak found" in got.stderr, got.stderr
    assert re.search(r"soak: \S+ s of 4 s, run \d+, step \d+ of it", got.stderr)


def test_a_cache_that_grows_is_no_leak(run):
    got = run("--fail-on", "leak", job=("--steps", 100, "--cache", 2 << 20))
    assert got.returncode == 0 and "the allocator's cache grows" in got.stderr


def test_soak_without_a_verdict_says_so(run):
    got = run("--soak", "2s", "--fail-on", "leak", command=("sleep", "0.2"))
    assert got.returncode == 0 and "cannot tell whether memory leaks" in got.stderr


def test_soak_ends_with_a_run_that_fails(run):
    got = run("--soak", "60s", command=("sh", "-c", "exit 7"))
    assert got.returncode == 7 and got.stderr.count("alula: watching") == 1
    got = run("--soak", "60s", job=("--steps", 10, "--at", 5, "--kill", 9))
    assert got.returncode == -signal.SIGKILL and "first to die" in got.stderr
    assert run("--soak", "60s", command=("no-such-command",)).returncode == 127


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_soak(alula_bin, number):
    p = subprocess.Popen([alula_bin, "run", "--quiet", "--no-record", "--soak", "1h", "--", "sh", "-c", "echo on; exec sleep 60"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "on\n"
    time.sleep(0.3)
    p.send_signal(number)
    _, err = p.communicate(timeout=20)
    assert p.returncode == -number, err


def test_fail_on_a_rule(run):
    starved = ("--steps", 80, "--data", 0.02, "--forward", 0.005)
    assert run("--fail-on", "data_wait", job=starved).returncode == 3
    assert run("--fail-on", "leak,data_wait", job=starved).returncode == 3
    assert run("--fail-on", "communication,leak", job=starved).returncode == 0


@pytest.mark.parametrize("options, message", [
    (("--soak", "6"), "--soak 6: expected a time from 1s to 1000d"),
    (("--soak", "1ms"), "expected a time"),
    (("--fail-on", "nonsense"), "--fail-on nonsense: expected info, warning, critical, leak, or names of rules"),
    (("--fail-on", ""), "expected info"),
])
def test_wrong_options(run, options, message):
    got = run(*options, command=("true",))
    assert got.returncode == 125 and message in got.stderr
