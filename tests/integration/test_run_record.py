# SPDX-License-Identifier: Apache-2.0
"""alula run keeps its job in run.alula: where that file goes, and what survives which death."""

import json
import os
import pathlib
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time

import pytest

import scenes

pytestmark = pytest.mark.plain  # the job loads the probe, and has no sanitizer

FAKE = pathlib.Path(__file__).with_name("fake_job.py")


@pytest.fixture
def local(tmp_path):
    folder = tmp_path / "local"
    folder.mkdir()
    return folder


@pytest.fixture
def fake(alula, tmp_path, local):
    """fake("--steps", 30, run=("--output-dir", d)) runs the job watched, local disk below tmp_path."""

    def run(*args, run=(), env=None):
        return alula("run", *run, "--", sys.executable, FAKE, *args, env={"TMPDIR": str(local), **(env or {})}, timeout=60)

    return run


def info_of(alula, path):
    return json.loads(alula("info", path, "--json").stdout)


def steps_of(path):
    """Recorded marks are compressed; the ranks' rows say how far it came."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return db.execute("SELECT max(step) FROM rank_samples").fetchone()[0]


def test_in_the_folder_that_is_given(fake, alula, tmp_path):
    out = tmp_path / "out"
    got = fake("--steps", 30, run=("--output-dir", out))
    assert f"recording: {out}/run.alula\n" in got.stderr
    assert stat.S_IMODE((out / "run.alula").stat().st_mode) == 0o600
    assert sorted(p.name for p in out.iterdir()) == ["metrics_report.json", "run.alula"]
    info = info_of(alula, out / "run.alula")
    assert info["closed"] is True and info["marks"] > 100
    first = (out / "run.alula").read_bytes()
    got = fake("--steps", 5, run=("--output-dir", out))
    assert "; recording: " in got.stderr.splitlines()[0] and "run-2.alula" in got.stderr.splitlines()[0]
    assert (out / "run.alula").read_bytes() == first and (out / "run-2.alula").exists()


def test_in_the_trainer_s_folder_once_it_is_over(fake, tmp_path, local):
    out = tmp_path / "trained"
    got = fake("--steps", 5, "--output", out)
    assert got.stderr.splitlines()[0].endswith("moved beside the report at the end")
    assert f"alula: recording: {out}/run.alula\n" in got.stderr
    assert (out / "run.alula").exists() and not list(local.iterdir())


def test_a_folder_that_the_command_names_stays_empty_until_then(alula, tmp_path, local):
    """Some trainers refuse to begin in a folder that holds something."""
    out = tmp_path / "out"
    code = "import os, sys; sys.exit(len(os.listdir(sys.argv[2])))"
    got = alula("run", "--output-dir", out, "--", sys.executable, "-c", code, "--output_dir", out,
                env={"TMPDIR": str(local)})
    assert got.returncode == 0 and (out / "run.alula").exists() and not list(local.iterdir())


def test_nobody_names_a_folder(fake, tmp_path, local):
    got = fake("--steps", 5)
    assert "alula: recording: " not in got.stderr and not list(local.iterdir())
    named = tmp_path / "mine.alula"
    assert f"alula: recording: {named}" in fake("--steps", 5, run=("--record", named)).stderr
    assert named.exists()


def test_none_is_wanted(fake, alula, tmp_path):
    out = tmp_path / "out"
    got = fake("--steps", 5, run=("--no-record", "--output-dir", out))
    assert got.returncode == 0 and "recording" not in got.stderr and not (out / "run.alula").exists()
    got = alula("run", "--no-record", "--record", "x", "--", "true")
    assert got.returncode == 125 and "contradict" in got.stderr


def test_a_full_disk_costs_the_job_nothing(fake, tmp_path):
    out = tmp_path / "out"
    got = fake("--steps", 5, run=("--output-dir", out, "--record", "/dev/full/x"))
    assert got.returncode == 0 and "the job runs unrecorded" in got.stderr
    assert json.loads((out / "metrics_report.json").read_text())["train_runtime"] > 0


@pytest.mark.parametrize("name", ["KILL", "SEGV", "TERM", "INT", "ABRT", "BUS"])
def test_the_job_dies(fake, alula, tmp_path, name):
    out = tmp_path / "out"
    got = fake("--steps", 60, "--at", 40, "--kill", int(signal.Signals[f"SIG{name}"]), run=("--output-dir", out))
    assert got.returncode == -signal.Signals[f"SIG{name}"], got.stderr
    info = info_of(alula, out / "run.alula")
    assert info["closed"] is True and info["marks"] > 100


def watched(alula_bin, local, *args):
    return subprocess.Popen([alula_bin, "run", *args[0], "--", sys.executable, FAKE, *args[1]],
                            env={**os.environ, "TMPDIR": str(local)}, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                            encoding="utf-8")


def wait_for_steps(path, count, seconds=45):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if (steps_of(path) or 0) >= count:
                return
        except sqlite3.Error:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{path} did not come to step {count}")


def test_alula_is_killed(alula_bin, alula, tmp_path, local):
    """The last committed second is there, from the folder as from the local disk; the job goes on."""
    out = tmp_path / "out"
    for options, place in ((("--output-dir", str(out)), out), ((), None)):
        job = watched(alula_bin, local, options, ("--steps", "6000", "--forward", "0.005"))
        path = None
        while not path:
            path = place / "run.alula" if place and (place / "run.alula").exists() else \
                next(local.glob("alula-record-*/run.alula"), None)
        wait_for_steps(path, 100)
        with open(f"/proc/{job.pid}/task/{job.pid}/children", encoding="utf-8") as f:
            children = [int(pid) for pid in f.read().split()]
        job.kill()
        job.wait()
        trainers = [pid for pid in children if b"fake_job" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert trainers
        for pid in trainers:
            os.kill(pid, signal.SIGKILL)
        info = info_of(alula, path)
        assert info["closed"] is False and len(info["ranks"]) == 1 and steps_of(path) >= 100


def test_what_goes_over_the_size_limit(alula_bin, tmp_path, local):
    """A limit on file sizes costs the recording, with a word, and neither alula nor the job."""
    command = f"ulimit -f 100; exec {alula_bin} run --output-dir {tmp_path / 'out'} -- {sys.executable} {FAKE} --steps 20"
    got = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60,
                         env={**os.environ, "TMPDIR": str(local)})
    assert got.returncode == 0, got.stderr
    assert "file size limit" in got.stderr and not (tmp_path / "out" / "run.alula").exists()


def test_findings_and_verdicts_of_the_steps(fake, tmp_path):
    out = tmp_path / "out"
    fake("--steps", 100, "--data", 0.02, "--forward", 0.005, run=("--output-dir", out))
    with sqlite3.connect(out / "run.alula") as db:
        assert db.execute("SELECT count(*) FROM findings WHERE rule = 'data_wait' AND phase = 'began'").fetchone()[0] == 1
        verdicts = dict(db.execute("SELECT rule, verdict FROM verdicts"))
    assert verdicts["data_wait"] == "finding" and verdicts["healthy"] != "finding"


def test_onto_another_file_system(fake, alula, tmp_path):
    """The local disk is another file system than the folder: copied, then renamed."""
    shm = pathlib.Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("one file system")
    out = tmp_path / "trained"
    got = fake("--steps", 20, "--output", out, env={"TMPDIR": str(shm)})
    assert "recording: /dev/shm/alula-record-" in got.stderr and f"alula: recording: {out}/run.alula\n" in got.stderr
    assert sorted(p.name for p in out.iterdir()) == ["metrics_report.json", "run.alula"]
    assert info_of(alula, out / "run.alula")["closed"] is True
    assert stat.S_IMODE((out / "run.alula").stat().st_mode) == 0o600
    first = (out / "run.alula").read_bytes()
    got = fake("--steps", 5, "--output", out, env={"TMPDIR": str(shm)})
    assert f"alula: recording: {out}/run-2.alula\n" in got.stderr and (out / "run.alula").read_bytes() == first
    assert not list(shm.glob("alula-record-*"))


def test_a_folder_that_cannot_take_it(fake, alula, tmp_path, local):
    """Then it stays where it is, and alula says where."""
    if os.geteuid() == 0:
        place = pathlib.Path("/proc/self/fdinfo")  # nobody writes there
    else:
        place = tmp_path / "closed"
        place.mkdir(mode=0o500)
    got = fake("--steps", 5, "--output", place)
    assert got.returncode == 0 and "it stays at " in got.stderr
    kept = list(local.glob("alula-record-*/run.alula"))
    assert len(kept) == 1 and info_of(alula, kept[0])["closed"] is True


def test_two_at_once_into_one_folder(alula_bin, alula, tmp_path, local):
    out = tmp_path / "out"
    jobs = [watched(alula_bin, local, ("--output-dir", str(out)), ("--steps", "100", "--rank", str(n))) for n in range(3)]
    for job in jobs:
        assert job.wait(timeout=60) == 0, job.stderr.read()
    files = sorted(p.name for p in out.glob("*.alula"))
    assert files == ["run-2.alula", "run-3.alula", "run.alula"]
    reports = [json.loads(alula("report", out / name, "--json").stdout) for name in files]
    assert {report["alula"]["ranks"][0]["rank"] for report in reports} == {0, 1, 2}
    for job in jobs:
        job.stdout.close()
        job.stderr.close()


NFS = r"""
#define _GNU_SOURCE
#define _LARGEFILE64_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#define PRETEND(name)                                                                                                  \
    int name(const char *path, struct name *ret) {                                                                     \
        int (*real)(const char *, struct name *) = (int (*)(const char *, struct name *))dlsym(RTLD_NEXT, #name);      \
        const char *below = getenv("PRETEND_NFS");                                                                     \
        int result = real(path, ret);                                                                                  \
        if (!result && below && strncmp(path, below, strlen(below)) == 0)                                              \
            ret->f_type = 0x6969;                                                                                      \
        return result;                                                                                                 \
    }
PRETEND(statfs)
PRETEND(statfs64)
"""


def test_a_network_file_system(alula, tmp_path, local):
    """SQLite does not write there: the recording is made on the local disk and moved."""
    if not shutil.which("cc"):
        pytest.skip("no compiler here")
    shim, source, out = tmp_path / "shim.so", tmp_path / "shim.c", tmp_path / "net"
    source.write_text(NFS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    out.mkdir()
    env = {"TMPDIR": str(local), "LD_PRELOAD": str(shim), "PRETEND_NFS": str(out)}
    for options, name in ((("--output-dir", out), "run.alula"), (("--record", out / "mine.alula"), "mine.alula")):
        got = alula("run", *options, "--", sys.executable, FAKE, "--steps", "20", env=env, timeout=60)
        assert got.returncode == 0 and f"; recording: {local}/alula-record-" in got.stderr, got.stderr
        assert f"alula: recording: {out}/{name}\n" in got.stderr
        assert info_of(alula, out / name)["closed"] is True and not list(local.iterdir())
    got = alula("run", "--record", out / "mine.alula", "--", "true", env=env)
    assert got.returncode == 0 and "exists already" in got.stderr


@pytest.mark.parametrize("since", ["@0s", "@1s"])
def test_a_driver_that_hangs(fake, alula, standin, tmp_path, since):
    """From the beginning or later: the recording is whole all the same, and nobody waits for the driver."""
    scene, out = tmp_path / "scene.txt", tmp_path / "out"
    scene.write_text(scenes.busy(1) + f"{since}\nhang nvmlDeviceGetUtilizationRates 60s\nhang nvmlDeviceGetMemoryInfo_v2 60s\n")
    began = time.monotonic()
    got = fake("--steps", 150, "--forward", 0.01, run=("--output-dir", out),
               env={"ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(scene)})
    assert got.returncode == 0 and time.monotonic() - began < 12, got.stderr
    assert info_of(alula, out / "run.alula")["closed"] is True
    assert "150 steps in" in alula("report", out / "run.alula").stdout
