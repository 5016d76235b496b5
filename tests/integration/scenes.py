# SPDX-License-Identifier: Apache-2.0
"""Scenarios and ways to play them, for tests of whole commands."""

import contextlib
import os
import signal
import subprocess
import time

HEAD = """\
alula scenario 1
start 2026-11-29T12:00:00Z
interval 500ms
duration {duration}
driver 580.159.04
nvml 13.580.159.04
cuda 13.0
host hostname=node1 boot_id=b00t
"""


def head(gpus=1, duration="30s"):
    last = f"0-{gpus - 1}" if gpus > 1 else "0"
    return HEAD.format(duration=duration) + f'gpu {last} name="NVIDIA H200"\n'


# A rank at work on every GPU: nothing to find.
def busy(gpus=1, duration="30s"):
    last = f"0-{gpus - 1}" if gpus > 1 else "0"
    text = head(gpus, duration) + (
        f"@0s\ngpu {last} utilization_ratio=93% memory_total_bytes=140GiB memory_used_bytes=70GiB memory_reserved_bytes=615MiB\n"
        f"gpu {last} power_watts=655.2W power_enforced_limit_watts=700W temperature_celsius=60C sm_clock_hertz=1980MHz\n"
        f"gpu {last} sm_active_ratio=90% tensor_active_ratio=40%\n"
        "proc 4200 ppid=1 alive=yes user=alice comm=torchrun command=\"torchrun train.py\" role=launcher job=4200\n")
    for gpu in range(gpus):
        pid = 4300 + gpu
        text += (f"proc {pid} ppid=4200 alive=yes user=alice comm=python exe=python command=\"python train.py\" "
                 f"role=rank rank={gpu} job=4200 io_wait_ratio=0% cpu_ratio=100%\n"
                 f"row {pid} gpu={gpu} memory_bytes=69GiB\n")
    return text


# The same, and from 5 s on the GPU waits.
def starved(duration="20s"):
    return busy(1, duration) + "@5s\ngpu 0 utilization_ratio=3% power_watts=130W\nproc 4300 io_wait_ratio=60%\n"


def idle(duration="20s"):
    return busy(1, duration) + "@5s\ngpu 0 utilization_ratio=3% power_watts=130W\n"


# Memory climbs from half to full within a minute.
def climbing(duration="60s"):
    return busy(1, duration) + "@2s\ngpu 0 memory_used_bytes=70GiB..139GiB/55s\n"


def standin_env(standin, path, **more):
    """The environment that has alula open the stand-in driver on a scenario; host figures come from it too."""
    return {"ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(path), "ALULA_HOST": "scenario", **more}


@contextlib.contextmanager
def running(alula_bin, *args, env=None, **kwargs):
    """alula as a background process; killed at the end if it still runs."""
    full_env = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
    process = subprocess.Popen([str(alula_bin), *map(str, args)], env=full_env, encoding="utf-8", errors="replace",
                               stdout=kwargs.pop("stdout", subprocess.PIPE), stderr=kwargs.pop("stderr", subprocess.PIPE),
                               **kwargs)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def wait_for(condition, seconds=10):
    """Until condition() is true; returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.02)
