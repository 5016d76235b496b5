# SPDX-License-Identifier: Apache-2.0
"""Commands and records that the source documents spell out, as they spell them (docs/requirements.md has the rows)."""

import json
import os
import re
import signal
import subprocess

import pytest

import scenes

SCENE = scenes.HEAD.format(duration="60s") + """\
gpu 0-1 name="NVIDIA A100-SXM4-40GB" architecture=7
@0s
gpu 0-1 utilization_ratio=62% memory_utilization_ratio=41% memory_total_bytes=40960MiB memory_used_bytes=30000MiB
gpu 0-1 memory_reserved_bytes=500MiB temperature_celsius=55C power_watts=250.25W
gpu 0-1 pcie_link_generation=4 pcie_link_width=16
gpu 0 gpm_pcie_tx_bytes_per_second=1MiB/s gpm_pcie_rx_bytes_per_second=512KiB/s
gpu 0-1 pcie_tx_bytes_per_second=3000KiB/s pcie_rx_bytes_per_second=2000KiB/s
proc 4100 ppid=1 alive=yes user=alice comm=swift command="swift sft --model Qwen2.5-7B" role=launcher job=4100
proc 4200 ppid=4100 alive=yes user=alice comm=python exe=python command="python -m swift.cli.sft" role=rank rank=0 job=4100
proc 4300 ppid=1 alive=yes user=bob comm=VLLM::EngineCor exe=VLLM::EngineCore command="VLLM::EngineCore" role=engine job=4300
proc 4400 ppid=1 alive=yes user=eve comm=a.out exe=a.out command="./a.out"
row 4200 gpu=0 memory_bytes=20000MiB driver_name=/usr/bin/python
row 4300 gpu=1 memory_bytes=25000MiB driver_name=VLLM::EngineCore
row 4400 gpu=1 memory_bytes=300MiB driver_name=./a.out
"""


@pytest.fixture
def play(alula_bin, standin, tmp_path):
    """Runs alula on the stand-in driver that plays SCENE, through the NVML backend."""
    path = tmp_path / "scene.txt"
    path.write_text(SCENE)
    env = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC", **scenes.standin_env(standin, path)}

    def run(*args, **kwargs):
        return subprocess.run([alula_bin, *args], env=env, capture_output=True, encoding="utf-8", timeout=30, check=False,
                              **kwargs)

    run.env = env
    return run


def test_the_two_second_query(play):
    """S74: these fields in this order, without header and units."""
    got = play("smi", "--query-gpu=index,utilization.gpu,utilization.memory,memory.total,memory.free,temperature.gpu,power.draw,"
               "pcie.link.gen.current,pcie.link.width.current", "--format=csv,noheader,nounits")
    assert got.stdout == "0, 62, 41, 40960, 10460, 55, 250.25, 4, 16\n1, 62, 41, 40960, 10460, 55, 250.25, 4, 16\n"


def test_the_timestamp_query(play):
    """S143: with header, units, and a timestamp to the millisecond."""
    got = play("smi", "--query-gpu=timestamp,name,temperature.gpu,utilization.gpu,memory.used,memory.total", "--format=csv")
    lines = got.stdout.splitlines()
    assert lines[0] == "timestamp, name, temperature.gpu, utilization.gpu [%], memory.used [MiB], memory.total [MiB]"
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, NVIDIA A100-SXM4-40GB, 55, 62 %, 30000 MiB, 40960 MiB", lines[1])


def test_the_process_query(play):
    """S75, S142: every process of the driver's list, vLLM's renamed engine and a raw CUDA program among them."""
    got = play("smi", "--query-compute-apps=pid,process_name,used_memory,gpu_uuid", "--format=csv,noheader")
    uuids = play("smi", "--query-gpu=uuid", "--format=csv,noheader").stdout.split()
    assert got.stdout == (f"4200, /usr/bin/python, 20000 MiB, {uuids[0]}\n4300, VLLM::EngineCore, 25000 MiB, {uuids[1]}\n"
                          f"4400, ./a.out, 300 MiB, {uuids[1]}\n")


def test_the_process_table_has_role_and_rank(play):
    """S75, S82: PID, name, role, rank, GPU UUID, used memory; the rank is known by its launcher, not by its name."""
    got = play("watch", "--json", "--for", "0.2s", "--interval", "200ms")
    sample = [o for o in map(json.loads, got.stdout.splitlines()) if o["type"] == "sample"][-1]
    table = {p["pid"]: (p["name"], p["role"], p["rank"], [(g["index"], g["memory_bytes"] / 2**20) for g in p["gpus"]])
             for p in sample["processes"]}
    assert table[4200] == ("python", "rank", 0, [(0, 20000)])
    assert table[4100][1:] == ("launcher", None, [])
    assert table[4300] == ("VLLM::EngineCore", "engine", None, [(1, 25000)])
    assert table[4400][0] == "a.out" and table[4400][1] != "rank"


def last_gpu(got):
    return [o for o in map(json.loads, got.stdout.splitlines()) if o["type"] == "sample"][-1]["gpus"][0]


def test_pcie_is_traffic_not_width(play, tmp_path):
    """S73: the bus id, and rates both ways: by the blocking call, and where they exist by the activity counters."""
    gpu = last_gpu(play("watch", "--json", "--pcie", "--for", "1s"))
    assert gpu["pci_bus_id"] == "00000000:01:00.0"
    assert gpu["pcie_tx_bytes_per_second"] == 3000 * 1024 and gpu["pcie_rx_bytes_per_second"] == 2000 * 1024
    (tmp_path / "scene.txt").write_text(SCENE.replace("A100-SXM4-40GB", "H100").replace("architecture=7", "architecture=9")
                                         .replace("gpu 0 gpm_pcie", "gpu 0 graphics_active_ratio=62% sm_active_ratio=50% gpm_pcie"))
    gpu = last_gpu(play("watch", "--json", "--for", "4s"))
    assert "pcie_tx_bytes_per_second" not in gpu
    assert gpu["gpm_pcie_tx_bytes_per_second"] == pytest.approx(2**20, rel=1e-6)
    assert gpu["gpm_pcie_rx_bytes_per_second"] == pytest.approx(2**19, rel=1e-6)


def test_gpustat_with_interval_color_and_user(alula_bin, play):
    """S80, S81: `gpustat -i 1 --color --show-user`: index, name, temperature, utilisation, memory, user."""
    with subprocess.Popen([alula_bin, "stat", "-i", "1", "--color", "--show-user"], env=play.env, stdout=subprocess.PIPE,
                          text=True) as p:
        lines = [p.stdout.readline() for _ in range(6)]  # twice: a head and two GPUs
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=10)
    plain = [re.sub(r"\x1b[\[(][0-9;]*[A-Za-z]|\x1b\(B", "", line).strip() for line in lines if line.strip()]
    assert "\x1b[" in "".join(lines)
    gpus = [line for line in plain if line.startswith("[")]
    assert len(gpus) >= 3
    assert re.match(r"\[0\] NVIDIA A100-SXM4-40GB \| 55°C,\s+62 % \| 30000 / 40960 MB \| python/alice\(20000M\)|"
                    r"\[0\] NVIDIA A100-SXM4-40GB \| 55°C,\s+62 % \| 30000 / 40960 MB \| alice\(20000M\)", gpus[0]), gpus[0]


def test_memory_of_a_pid(play):
    """S168: used and total of one pid, and a clear message when there is none."""
    got = json.loads(play("memory", "--json", "4200").stdout)
    assert (got["used_bytes"], got["gpus"][0]["total_bytes"]) == (20000 * 2**20, 40960 * 2**20)
    none = play("memory", "99999")
    assert none.returncode == 5 and none.stderr.startswith("alula: ")


def test_utilisation_and_used_memory_are_defined_rightly(alula):
    """S76, S144: time with any kernel, not SM share; memory taken, not live data."""
    utilization = alula("help", "utilization_ratio").stdout
    assert "at least one kernel ran" in utilization and "sm_active_ratio" in utilization
    used = alula("help", "memory_used_bytes").stdout
    assert "reserved or allocated blocks, not live data" in used
    assert "not live tensors" in alula("memory", "--help").stdout


def test_sampling_is_500_ms_and_the_window_a_minute(alula):
    """S18, S19, S21, S22: the documents' numbers are the defaults."""
    out = alula("check-config", "--print").stdout
    for line in ("interval: 500ms", "window: 1min", "utilization_below: 20%", "ticks: 5", "used_above: 90%"):
        assert f"  {line}  #" in out


def test_jitter_and_own_cost_are_reported(play):
    """S18: what the sampling itself costs, and how punctual it was."""
    got = play("watch", "--json", "--quiet", "--for", "1s")
    end = json.loads(got.stdout.splitlines()[-1])
    assert end["ticks"] == 3 and 0 < end["cpu_ratio"] < 1
    assert 0 <= end["jitter_mean_seconds"] <= end["jitter_max_seconds"] < 1


def test_requirements_name_tests_that_exist(root):
    """docs/requirements.md: every row has a state, a done row has its test, and the test is there."""
    text = (root / "docs" / "requirements.md").read_text()
    rows = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| S")]
    assert [row[0] for row in rows] == [f"S{i}" for i in range(1, 198)]
    for row in rows:
        tests = re.findall(r"`(tests/[\w/.]+)::(\w+)`", row[-1])
        assert row[3].startswith("done") == bool(tests), row
        assert row[3].startswith(("done", "follows in *")), row
        for file, name in tests:
            assert re.search(rf"\b{name}\b", (root / file).read_text()), (row[0], file, name)


def checks_of_doctor(root):
    text = "".join(p.read_text() for p in sorted((root / "src" / "cli").glob("doctor*.c")))
    added = re.findall(r'al_doctor_add\(\s*d,[^;"]*?"(\w+)"', text)
    assert len(added) == len(re.findall(r"al_doctor_add\(d", text)) - text.count("al_doctor_add(d, result, name")
    return set(added) | set(re.findall(r'\{AL_GROUP_\w+, "(\w+)"', text)) | set(re.findall(r'tell\(d, &\w+, "(\w+)"', text))


def test_troubleshooting_has_every_check_of_doctor(root):
    """docs/troubleshooting.md has a row for each check of alula doctor, and for no other."""
    part = (root / "docs" / "troubleshooting.md").read_text().split("## Checks of alula doctor")[1].split("\n## ")[0]
    rows = [line.split(" | ")[0] for line in part.splitlines() if line.startswith("| `")]
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(told) == len(set(told))
    assert set(told) == checks_of_doctor(root)


def test_troubleshooting_quotes_what_is_said(root):
    """docs/troubleshooting.md: each message in its tables is in the source."""
    source = "".join(re.sub(r'"\s*(?:PRI\w+\s*)?"', "", p.read_text()) for p in sorted((root / "src").rglob("*.[ch]")))
    quoted = []
    for part in (root / "docs" / "troubleshooting.md").read_text().split("\n## alula ")[1:]:
        rows = [line.split(" | ")[0] for line in part.splitlines() if line.startswith("| `")]
        quoted += [q for row in rows for q in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) > 25
    assert [q for q in quoted if q not in source] == []


def commands_in(text):
    """(subcommand, options) of each alula command in code, as far as the job's own `--`."""
    code = re.findall(r"`([^`\n]+)`", text)
    code += [line for block in re.findall(r"```\w*\n(.*?)```", text, re.S) for line in block.splitlines()]
    code += re.findall(r"^ {4}(\$ .+)", text, re.M)
    for piece in code:
        command = re.search(r"(?:^|\$ |\| |sudo |srun |\()alula ([a-z-]+)(.*)", piece.strip())
        if command and not command[1].startswith("-"):
            rest = re.split(r" -- |\s#|\|", command[2])[0]
            yield piece, command[1], re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest)


def test_commands_in_the_documents_exist(alula, root):
    """README.md and docs/: each command of alula that is written there, and its options, are in --help."""
    helps, wrong, seen = {}, [], 0
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        if path.name in ("requirements.md", "scenario.md"):  # other tools' words; a scenario's first line is "alula scenario 1"
            continue
        for piece, command, options in commands_in(path.read_text()):
            if command not in helps:
                got = alula(command, "--help")
                helps[command] = got.stdout if got.returncode == 0 else ""
            seen += 1
            known = re.findall(r"--[a-z][a-z-]*", helps[command])
            if not helps[command] or set(options) - set(known) - {"--help"}:
                wrong.append((path.name, piece))
    assert seen > 100 and wrong == []
