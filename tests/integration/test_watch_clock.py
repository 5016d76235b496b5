# SPDX-License-Identifier: Apache-2.0
"""alula watch while the machine's clock is set: the wall clock jumps, monotonic time does not."""

import json
import os
import subprocess

import pytest

import scenes

pytestmark = [pytest.mark.plain,
              pytest.mark.skipif(bool(os.environ.get("ALULA_SANITIZED")), reason="a preloaded library beside a sanitizer")]

# Wall clock time steps by STEP_S once STEP_AFTER_MS have passed since the first reading.
SHIM = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    static long long first;
    struct timespec mono;
    int result = (int)syscall(SYS_clock_gettime, id, t);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &mono);
    long long now = mono.tv_sec * 1000LL + mono.tv_nsec / 1000000;
    if (!first)
        first = now;
    if (id == CLOCK_REALTIME && now - first > atoll(getenv("STEP_AFTER_MS")))
        t->tv_sec += atoll(getenv("STEP_S"));
    return result;
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shim")
    (folder / "step.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", folder / "step.so", folder / "step.c"], check=True)
    return folder / "step.so"


@pytest.mark.parametrize("step", [3600, -3600, -3, 86400 * 400])
def test_clock_step(alula_bin, standin, shim, tmp_path, step):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(1, "10min"))
    env = {**os.environ, **scenes.standin_env(standin, path), "LD_PRELOAD": str(shim), "STEP_AFTER_MS": "1500",
           "STEP_S": str(step)}
    got = subprocess.run([alula_bin, "watch", "--json", "--for", "6s", "--interval", "250ms"], env=env, capture_output=True,
                         text=True, timeout=30, check=False)
    assert (got.returncode, got.stderr) == (0, "")
    lines = [json.loads(line) for line in got.stdout.splitlines()]
    ticks = [o for o in lines if o["type"] == "sample"]
    assert len(ticks) == 25
    assert lines[0]["time"][:13] != ticks[-1]["time"][:13] or abs(step) < 3600  # the step was seen
    spans = [b["monotonic_seconds"] - a["monotonic_seconds"] for a, b in zip(ticks, ticks[1:])]
    assert all(0.1 < span < 0.6 for span in spans)
    # No finding, no figure out of place, and the driver's own samples are found again after the step.
    assert [o for o in lines if o["type"] == "finding"] == []
    for o in ticks:
        gpu = o["gpus"][0]
        assert gpu["utilization_ratio"] == 0.93 and gpu["memory_used_bytes"] == 70 * 2**30
        assert gpu["utilization_mean_ratio"] in (None, 0.93) and gpu["stale"] in ([], ["utilization_mean_ratio"])
    fresh = [o["gpus"][0]["utilization_mean_ratio"] == 0.93 for o in ticks]
    if step == -3600:
        # The stand-in stamps its samples by the clock from before the step, an hour ahead now: they are not believed, and
        # that is said.
        assert not any(fresh[-8:]) and ticks[-1]["gpus"][0]["stale"] == ["utilization_mean_ratio"]
    else:
        # Samples whose stamps lie on the other side of the step cannot be placed: a second of them at most.
        assert fresh.count(False) <= 4 and all(fresh[-8:]), fresh
