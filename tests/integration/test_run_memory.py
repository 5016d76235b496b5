# SPDX-License-Identifier: Apache-2.0
"""alula run and alula ask: the memory of a job's processes, and what they do on request (fake_job.py marks and answers)."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from standin_env import HEAD

pytestmark = pytest.mark.plain  # the job loads the probe, and has no sanitizer

FAKE = pathlib.Path(__file__).with_name("fake_job.py")
UUID = "GPU-11111111-2222-3333-4444-555555555555"
GIB = 1 << 30


@pytest.fixture
def places():
    """A run-time folder of its own, so that nobody else's alula is asked; its path is short, as a socket's must be."""
    with tempfile.TemporaryDirectory(prefix="ask") as folder:
        yield {"XDG_RUNTIME_DIR": folder}


@pytest.fixture
def running(alula_bin, tmp_path, places):
    """running("--answer") -> Popen of alula run; stopped at the end."""
    started = []

    def run(*args, options=(), command=None):
        p = subprocess.Popen([alula_bin, "run", "--output-dir", tmp_path, *options, "--", *(command or (sys.executable, FAKE)),
                              *map(str, args)], env={**os.environ, **places}, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(p)
        end = time.monotonic() + 10
        while not list(pathlib.Path(places["XDG_RUNTIME_DIR"]).glob("alula-run-*/ask")):
            assert time.monotonic() < end
            time.sleep(0.01)
        return p

    yield run
    for p in started:
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=20)


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def ask(alula, places, *args):
    got = alula("ask", *args, env=places)
    for _ in range(50):  # until the job's first mark
        if got.returncode in (0, 2) or "takes requests" not in got.stderr:
            break
        time.sleep(0.1)
        got = alula("ask", *args, env=places)
    return got


def job_pid(run):
    children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    for pid in children:
        if "fake_job" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
            return int(pid)
    return None


# --- requests -------------------------------------------------------------------------------------------------------


def test_empty_cache(alula, running, places):
    run = running("--answer", "--steps", 100000, "--memory", 1)
    wait_until(lambda: job_pid(run))
    pid = job_pid(run)
    for who in ([pid], [run.pid]):
        got = ask(alula, places, *who, "empty-cache")
        assert got.returncode == 0, got.stderr
        assert got.stdout == f"rank 0 (pid {pid}) cuda:0: 255.0 MiB given back, in 15 ms\n"
    got = ask(alula, places, pid, "empty-cache", "--json")
    assert json.loads(got.stdout) == {"request": "empty-cache", "answers": [
        {"rank": 0, "pid": pid, "device": 0, "given_back_bytes": 255 << 20, "seconds": 0.015}]}


def test_memory_summary(alula, running, places):
    run = running("--answer", "--steps", 100000)
    got = ask(alula, places, run.pid, "memory-summary")
    assert got.returncode == 0, got.stderr
    lines = got.stdout.splitlines()
    assert re.fullmatch(r"rank 0 \(pid \d+\) cuda:0:", lines[0]) and lines[1] == "|===|"
    assert "| Allocated memory      |   1530 MiB |   1540 MiB |      7 GiB |      6 GiB |" in lines
    assert lines.count("| filler |") == 400 and "\x1b" not in got.stdout  # a job does not steer the screen
    answer = json.loads(ask(alula, places, run.pid, "memory-summary", "--json").stdout)["answers"][0]
    assert answer["summary"]["retries"] == 3 and answer["summary"]["ooms"] == 0
    assert answer["summary"]["allocated_bytes"] == {"current": 1530 << 20, "peak": 1540 << 20, "allocated": 7 << 30, "freed": 6 << 30}
    assert answer["summary"]["segments"] is None and answer["text"].startswith("|===|\n")


def test_who_is_not_there(alula, running, places):
    for _ in range(2):
        got = alula("ask", 1 << 22, "empty-cache", env=places)
        assert got.returncode == 5
        assert re.match(r"alula: ask: (no alula run of yours watches a job here|process 4194304 is in no job)", got.stderr)
        running("--answer", "--steps", 100000)
    wait_until(lambda: len(list(pathlib.Path(places["XDG_RUNTIME_DIR"]).glob("alula-run-*/ask"))) == 2)
    got = alula("ask", "empty-cache", env=places)  # others may run on this machine, too
    assert got.returncode == 2 and re.search(r"\d+ alula runs watch jobs here: name a process", got.stderr)


@pytest.mark.parametrize("args", [(), ("nonsense",), ("12", "34", "empty-cache"), ("empty-cache", "memory-summary"),
                                  ("empty-cache", "--timeout", "x"), ("-5", "empty-cache")])
def test_bad_words(alula, places, args):
    got = alula("ask", *args, env=places)
    assert got.returncode == 2 and got.stdout == ""


def test_a_job_that_does_not_step_is_late(alula, running, places):
    run = running("--answer", "--steps", 100, "--at", 5, "--hang")
    time.sleep(0.5)
    got = ask(alula, places, run.pid, "empty-cache", "--timeout", "300ms")
    assert got.returncode == 1 and "no step ended within 0.3 s; it is done at the next one all the same" in got.stderr


def test_a_job_that_ends_meanwhile(alula, running, places):
    run = running("--answer", "--steps", 40, "--at", 20, "--hang")
    p = subprocess.Popen([os.environ["ALULA_BIN"], "ask", str(run.pid), "empty-cache"], env={**os.environ, **places}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)
    run.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=20)
    assert p.returncode in (0, 1) and (out or err)


def test_rubbish_at_the_socket_does_no_harm(alula, running, places):
    import socket
    run = running("--answer", "--steps", 100000, "--memory", 1)
    path = str(next(pathlib.Path(places["XDG_RUNTIME_DIR"]).glob("alula-run-*/ask")))
    for text in (b"", b"\n", b"GET / HTTP/1.0\r\n\r\n", b"alula ask 1 x empty-cache\n", b"alula ask 1 1 nothing\n", b"x" * 5000,
                 b"alula ask 1 99999999999999999999 empty-cache\n", b"alula ask 1 1\n"):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall(text)
            s.shutdown(socket.SHUT_WR)
            s.settimeout(10)
            try:
                assert s.recv(100) == b""
            except ConnectionResetError:
                pass
    for _ in range(20):  # connections that say nothing
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        s.close()
    assert ask(alula, places, run.pid, "empty-cache").returncode == 0


def test_real_torch_without_cuda(alula, running, places, tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "job.py"
    script.write_text("""
import time, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    time.sleep(0.01)
""")
    run = running(command=(sys.executable, script))
    got = ask(alula, places, run.pid, "memory-summary")
    end = time.monotonic() + 30
    while "takes requests" in got.stderr and time.monotonic() < end:
        got = ask(alula, places, run.pid, "memory-summary")
    assert got.returncode == 1
    assert "no CUDA allocator: torch has not initialised CUDA in it" in got.stdout
    assert run.poll() is None


# --- --empty-cache-above --------------------------------------------------------------------------------------------


def test_empty_cache_above(alula, tmp_path):
    got = alula("run", "--empty-cache-above", "200MiB", "--", sys.executable, FAKE, "--answer", "--steps", 300, "--memory", 1,
                timeout=60)
    told = re.findall(r"alula: rank 0 cuda:0: emptied torch's cache after step \d+: 256\.0 MiB were unused, 255\.0 MiB given back in 15 ms",
                      got.stderr)
    assert len(told) == 1  # once a minute at most
    for args in ((), ("--empty-cache-above", "10GiB")):  # off by default; below the limit
        got = alula("run", *args, "--", sys.executable, FAKE, "--answer", "--steps", 100, "--memory", 1)
        assert "emptied" not in got.stderr
    for bad in ("x", "0", "-1", "150%"):
        assert alula("run", "--empty-cache-above", bad, "--", "true").returncode == 125


# --- the host side --------------------------------------------------------------------------------------------------


def test_host_memory_at_epochs(alula, tmp_path):
    got = alula("run", "--output-dir", tmp_path, "--", sys.executable, FAKE, "--steps", 120, "--epochs", 4, "--grow", 600_000_000,
                "--forward", 0.01, timeout=60)
    lines = re.findall(r"alula: epoch (\d) begins: RAM .* resident, .* anonymous, .* proportional.*", got.stderr)
    assert lines == ["0", "1", "2", "3"]
    assert re.search(r"epoch 1 begins: .*; epoch 0 added .* \(warm-up\)\n", got.stderr)
    assert re.search(r"epoch 2 begins: .*; epoch 1 added [^(\n]*\n", got.stderr)
    assert got.stderr.count("alula: warning: host memory grows from epoch to epoch") == 1
    report = json.loads((tmp_path / "metrics_report.json").read_text())
    memory = report["alula"]["ranks"][0]["host_memory"]
    assert [(e["epoch"], e["warm_up"]) for e in memory["epochs"]] == [(0, True), (1, False), (2, False), (3, False)]
    anon = memory["anonymous_bytes"]
    assert anon["start"] < 100_000_000 < 1_200_000_000 < anon["most"] and anon["last"] <= anon["most"]
    assert memory["shared_bytes"]["most"] < 200_000  # the ring's pages are alula's, not the job's
    assert all(e["growth_bytes"] is not None for e in memory["epochs"])
    config = tmp_path / "alula.yaml"
    config.write_text("training:\n  epoch_growth_above: 8GiB\n  host_growth_above: 8GiB\n")
    got = alula("run", "--config", config, "--", sys.executable, FAKE, "--steps", 60, "--epochs", 2, "--grow", 600_000_000, timeout=60)
    assert "host memory grows" not in got.stderr and "epoch 1 begins" in got.stderr


def test_host_memory_of_workers(alula, tmp_path):
    script = tmp_path / "workers.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(FAKE.parent)!r})\n" + """
import os, time
import fake_job as f
p = f.Probe()
p.mark(f.HELLO, 1, 0, 1)
kids = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        keep = bytearray(os.urandom(1000)) * 50000
        time.sleep(60)
    kids.append(pid)
for step in range(1, 200):
    p.phase(f.FORWARD, step, 0.02)
    if step == 50:
        p.mark(f.EPOCH, 0, 1)
    p.mark(f.STEP, 0, step, 1)
for pid in kids:
    os.kill(pid, 9)
""")
    got = alula("run", "--output-dir", tmp_path, "--", sys.executable, script, timeout=60)
    assert re.search(r"epoch 1 begins: .*; workers \S+ \S+ anonymous, \S+ \S+ proportional; cgroup", got.stderr), got.stderr
    memory = json.loads((tmp_path / "metrics_report.json").read_text())["alula"]["ranks"][0]["host_memory"]
    assert memory["workers_anonymous_bytes"]["most"] > 100_000_000
    # What is shared by fork counts once: the workers' own 100 MB, not the interpreter's pages thrice.
    assert 100_000_000 < memory["workers_proportional_anonymous_bytes"]["most"] <= memory["workers_anonymous_bytes"]["most"]


def test_a_host_leak_is_found_and_told_once(alula, tmp_path):
    script = tmp_path / "leak.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(FAKE.parent)!r})\n" + """
import fake_job as f
p = f.Probe()
p.mark(f.HELLO, 1, 0, 1)
kept = []
for step in range(1, 400):
    p.phase(f.FORWARD, step, 0.04)
    kept.append(b"y" * (1 << 20))
    p.mark(f.STEP, 0, step, 1)
""")
    got = alula("run", "--output-dir", tmp_path, "--fail-on", "warning", "--", sys.executable, script, timeout=60)
    found = [v for v in json.loads((tmp_path / "metrics_report.json").read_text())["alula"]["verdicts"] if v["rule"] == "host"][0]
    assert found["title"] == "host memory grows from step to step", found
    assert re.search(r"rank 0: anonymous host memory grows by (0\.9|1\.0|1\.1|102\d\.\d K|1\.0 M)", found["message"]), found["message"]
    assert got.returncode == 3 and got.stderr.count("alula: warning: host memory grows") == 1


# --- the driver's figure --------------------------------------------------------------------------------------------


def scene(tmp_path, lines):
    path = tmp_path / "scene.txt"
    path.write_text(HEAD + f"duration 120s\nhost hostname=h\ngpu 0 uuid={UUID}\n@0s\n" + lines)
    return path


def test_driver_beside_allocator(alula, standin, tmp_path):
    path = scene(tmp_path, "gpu 0 memory_total_bytes=140GiB memory_used_bytes=20GiB utilization_ratio=0.87\n")
    got = alula("run", "--output-dir", tmp_path, "--", sys.executable, FAKE, "--steps", 100, "--forward", 0.01, "--memory", 1,
                "--uuid", UUID, "--alloc", "backend=native PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                env={"ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(path)}, timeout=60)
    rank = json.loads((tmp_path / "metrics_report.json").read_text())["alula"]["ranks"][0]
    nvml = rank["allocator"][0]["nvml"]
    assert nvml["device_used_bytes"]["last"] == 20 * GIB and nvml["device_total_bytes"]["last"] == 140 * GIB
    assert nvml["process_used_bytes"] is None  # the scene has no processes, as a container's driver
    assert nvml["outside_torch_bytes"]["last"] == 20 * GIB - (GIB + (1 << 28)) and "upper bound" in nvml["outside_torch_from"]
    assert rank["allocator_settings"] == {"expandable_segments": True, "backend": "native",
                                          "settings": "expandable_segments:True", "variable": "PYTORCH_CUDA_ALLOC_CONF"}
    assert ("memory of cuda:0 at the last reading: 1.0 GiB in tensors + 256.0 MiB cached = 1.2 GiB reserved; of NVML's 20.0 GiB on "
            "the device at most 18.8 GiB are outside torch (context, libraries, other)") in got.stderr


def test_without_cuda_figures_are_null(alula, tmp_path):
    alula("run", "--output-dir", tmp_path, "--", sys.executable, FAKE, "--steps", 5)
    report = json.loads((tmp_path / "metrics_report.json").read_text())
    rank = report["alula"]["ranks"][0]
    assert report["gpu_peak_memory_allocated_gb"] is None and rank["allocator"] == [] and rank["allocator_settings"] is None
    assert rank["readings"] == {"allocator": None, "cuda_events": None}


# --- live, cached, released: the example of a tensor of 20000 x 20000 float32 ----------------------------------------


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_live_cached_released(alula, standin, tmp_path, stages):
    """Deleting lowers allocated alone, empty_cache reserved and what the driver shows; each is told as what it is."""
    square, segment, context = 20000 * 20000 * 4, 763 << 21, 500 << 20
    script = tmp_path / "stages.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(FAKE.parent)!r})\n" + f"""
import fake_job as f
p = f.Probe()
p.mark(f.HELLO, 1, 0, 1)
p.text(f.FRAMEWORK, "torch=2.13.0 device0={UUID}")
step = 0
for allocated, reserved in (({square}, {segment}), (0, {segment}), (0, 0))[:{stages}]:
    for _ in range(100):
        step += 1
        p.phase(f.FORWARD, step, 0.01)
        p.mark(f.MEMORY, f.ALLOCATED, allocated, step, device=0)
        p.mark(f.MEMORY, f.RESERVED, reserved, step, device=0)
        p.mark(f.STEP, 0, step, 1)
""")
    used = context + (0 if stages == 3 else segment)
    path = scene(tmp_path, f"gpu 0 memory_total_bytes=140GiB memory_used_bytes={used}B utilization_ratio=0.1\n")
    got = alula("run", "--output-dir", tmp_path, "--", sys.executable, script,
                env={"ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(path)}, timeout=60)
    device = json.loads((tmp_path / "metrics_report.json").read_text())["alula"]["ranks"][0]["allocator"][0]
    assert device["allocated_bytes.all.current"] == {"last": square if stages == 1 else 0, "most": square}
    assert device["reserved_bytes.all.current"] == {"last": 0 if stages == 3 else segment, "most": segment}
    assert device["nvml"]["device_used_bytes"]["last"] == used
    assert device["nvml"]["outside_torch_bytes"]["last"] == context
    line = {1: "1.5 GiB in tensors + 124.0 KiB cached = 1.5 GiB reserved", 2: "0 B in tensors + 1.5 GiB cached = 1.5 GiB reserved",
            3: "0 B in tensors + 0 B cached = 0 B reserved"}[stages]
    assert line in got.stderr, got.stderr


# --- out of memory --------------------------------------------------------------------------------------------------

DEMAND = ("OutOfMemoryError: CUDA out of memory. Tried to allocate 674.00 MiB. GPU 3 has a total capacity of 79.14 GiB of which 416.75 "
          "MiB is free. Including non-PyTorch memory, this process has 78.72 GiB memory in use. Of the allocated memory 78.18 GiB is "
          "allocated by PyTorch, and 69.36 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
          "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.")


def test_post_mortem_judges_torch_s_message(alula, tmp_path):
    got = alula("run", "--output-dir", tmp_path, "--", sys.executable, FAKE, "--steps", 20, "--at", 8, "--fail", DEMAND)
    assert got.returncode == 1
    assert "alula:   out of memory: capacity: 674.0 MiB asked for, 79.1 GiB on the device, 416.8 MiB free, 78.2 GiB in tensors" in got.stderr
    assert "do: a smaller micro-batch" in got.stderr and "allocator settings do not help here" in got.stderr
    oom = json.loads((tmp_path / "metrics_report.json").read_text())["alula"]["ranks"][0]["last"]["out_of_memory"]
    assert (oom["cause"], oom["device"], oom["tried_bytes"], oom["other_processes_bytes"]) == ("capacity", 3, 674 << 20, None)
    fragmented = DEMAND.replace("674.00 MiB", "6.00 GiB").replace("69.36 MiB is reserved", "16.00 GiB is reserved").replace(
        "78.18 GiB is alloc", "62.00 GiB is alloc")
    for settings, advice in (("backend=native", "do: PYTORCH_ALLOC_CONF=expandable_segments:True, or"),
                             ("backend=native PYTORCH_ALLOC_CONF=expandable_segments:True", "do: expandable_segments is on already")):
        got = alula("run", "--", sys.executable, FAKE, "--framework", "torch=2.13.0", "--steps", 20, "--at", 8, "--fail", fragmented,
                    "--alloc", settings)
        assert "out of memory: fragmentation: 6.0 GiB asked for" in got.stderr and advice in got.stderr
