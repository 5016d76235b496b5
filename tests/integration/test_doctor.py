# SPDX-License-Identifier: Apache-2.0
"""alula doctor on made machines: a tree for /proc, /sys and /dev, the stand-in driver, and scenarios."""

import json
import os
import subprocess
import tempfile
import pathlib

import pytest

import scenes

NO_LIBRARY = {"ALULA_NVML_LIBRARY": ""}
VERSION = ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@host)  Mon Jan 1\n"
           "GCC version:  gcc version 12\n")
PLACES = ["usr/lib/wsl/lib", "usr/local/nvidia/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib64",
          "run/nvidia/driver/usr/lib/x86_64-linux-gnu"]


class Machine:
    """A made tree that alula takes for / (ALULA_HOST_ROOT)."""

    def __init__(self, root):
        self.root = root
        self.write("proc/self/mounts", "proc /proc proc rw,nosuid,relatime 0 0\n")
        self.write("proc/self/cgroup", "0::/user.slice\n")
        self.link("proc/self/ns/pid", "pid:[4026531836]")
        self.write("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
        self.write("proc/sys/kernel/task_delayacct", "1\n")
        self.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
        (root / "sys/bus/pci/devices").mkdir(parents=True)

    def write(self, path, text=""):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return self

    def link(self, path, target):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.symlink_to(target)
        return self

    def board(self, address, vendor, klass, driver=None, **files):
        base = f"sys/bus/pci/devices/{address}"
        self.write(f"{base}/vendor", f"0x{vendor:04x}\n").write(f"{base}/class", f"0x{klass:06x}\n")
        if driver:
            self.link(f"{base}/driver", f"../../../../bus/pci/drivers/{driver}")
        for name, text in files.items():
            self.write(f"{base}/{name.replace('__', '/')}", text)
        return self

    def driver(self, version="580.159.04", library="580.159.04", gpus=1):
        self.write("proc/driver/nvidia/version", VERSION.format(version))
        self.write("proc/driver/nvidia/params", "RmLogonRC: 1\nRmProfilingAdminOnly: 0\n")
        for name in ["nvidiactl", "nvidia-uvm"] + [f"nvidia{i}" for i in range(gpus)]:
            self.write(f"dev/{name}")
        for i in range(gpus):
            self.board(f"0000:{0x80 + i:02x}:00.0", 0x10DE, 0x030200, "nvidia")
        if library:
            self.write(f"{PLACES[2]}/libnvidia-ml.so.{library}")
            self.link(f"{PLACES[2]}/libnvidia-ml.so.1", f"libnvidia-ml.so.{library}")
        return self


@pytest.fixture
def machine(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return Machine(root)


@pytest.fixture
def doctor(alula, machine):
    """doctor(env=…, args…): (exit status, {name: check}) on the made machine."""
    def run(*args, env=None):
        got = alula("doctor", "--json", *args, env={"ALULA_HOST_ROOT": str(machine.root), **NO_LIBRARY, **(env or {})})
        assert got.stderr == "" and got.stdout.count("\n") == 1
        report = json.loads(got.stdout)
        assert list(report) == ["type", "alula_version", "checks", "problems"] and report["type"] == "doctor"
        checks = {c["name"]: c for c in report["checks"]}
        assert len(checks) == len(report["checks"])
        for check in report["checks"]:
            assert list(check) == ["name", "result", "found", "do"]
            assert check["result"] in ("ok", "note", "problem", "unknown") and check["found"]
            if check["result"] == "problem" and check["name"] not in ("gpus", "sample"):
                assert check["do"], check
        problems = sum(c["result"] == "problem" for c in report["checks"])
        assert report["problems"] == problems
        assert got.returncode == (1 if problems else 0)
        return got.returncode, checks

    return run


@pytest.fixture
def on_standin(doctor, standin, tmp_path):
    def run(text, *args, env=None):
        path = tmp_path / "scene.txt"
        path.write_text(text)
        return doctor(*args, env={**scenes.standin_env(standin, path), **(env or {})})

    return run


def result(checks, name):
    return checks[name]["result"] if name in checks else None


# The loader's own folders are this machine's, whatever the tree says; a machine with a real driver is no place for these.
without_driver = pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="a real driver answers here")


# --- the driver -----------------------------------------------------------------------------------------------------


@without_driver
def test_nothing_installed(doctor):
    status, checks = doctor()
    assert status == 1
    assert result(checks, "driver_library") == result(checks, "kernel_driver") == "problem"
    assert "/usr/lib/wsl/lib" in checks["driver_library"]["found"] and "--gpus all" in checks["driver_library"]["do"]
    assert "device_nodes" not in checks  # one cause, one problem
    assert result(checks, "pci_boards") == "note"
    assert result(checks, "sample") == "unknown"


@without_driver
@pytest.mark.parametrize("place", PLACES)
def test_library_that_is_there_but_does_not_load(doctor, machine, place):
    machine.driver(library=None).write(f"{place}/libnvidia-ml.so.1")
    _, checks = doctor()
    assert result(checks, "driver_library") == "problem"
    assert f"found at /{place}/libnvidia-ml.so.1" in checks["driver_library"]["found"]
    assert checks["kernel_driver"] == {"name": "kernel_driver", "result": "ok", "found": "580.159.04 (open kernel module)",
                                       "do": None}
    assert checks["device_nodes"]["found"] == "/dev/nvidiactl, /dev/nvidia-uvm and 1 GPU"


@without_driver
def test_versions_that_differ(doctor, machine):
    machine.driver(version="580.159.04", library="575.57.08")
    _, checks = doctor()
    assert result(checks, "versions") == "problem"
    assert checks["versions"]["found"] == "kernel driver 580.159.04, library 575.57.08"
    assert "reload the modules" in checks["versions"]["do"]


@without_driver
def test_proprietary_module_and_same_versions(doctor, machine):
    machine.driver().write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Mon\n")
    _, checks = doctor()
    assert checks["kernel_driver"]["found"] == "580.159.04"
    assert checks["versions"]["found"] == "kernel driver and library are both 580.159.04"


@without_driver
def test_version_that_cannot_be_read(doctor, machine):
    machine.driver().write("proc/driver/nvidia/version", "NVRM version: something\x1b[2J else\n")
    _, checks = doctor()
    assert result(checks, "kernel_driver") == "unknown" and "\x1b" not in checks["kernel_driver"]["found"]


@without_driver
def test_device_nodes(doctor, machine):
    machine.driver(gpus=2)
    (machine.root / "dev/nvidia-uvm").unlink()
    assert result(doctor()[1], "device_nodes") == "note"
    for i in range(2):
        (machine.root / f"dev/nvidia{i}").unlink()
    assert result(doctor()[1], "device_nodes") == "problem"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
@without_driver
def test_device_nodes_without_the_right(alula_bin):
    with tempfile.TemporaryDirectory() as folder:  # nobody cannot enter pytest's own folders
        root = pathlib.Path(folder)
        machine = Machine(root).driver(gpus=2)
        machine.write("proc/self/mounts", "proc /proc proc rw,hidepid=invisible 0 0\n")
        machine.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n")
        for path in [root, *root.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() else 0o644)
        (root / "dev/nvidia1").chmod(0o600)
        copy = root / "alula"
        copy.write_bytes(alula_bin.read_bytes())
        copy.chmod(0o755)
        got = subprocess.run([copy, "doctor", "--json"], user=65534, group=65534, extra_groups=[], capture_output=True,
                             text=True, check=False, env={"ALULA_HOST_ROOT": folder, "PATH": "/usr/bin"}, cwd="/", timeout=30)
    checks = {c["name"]: c for c in json.loads(got.stdout)["checks"]}
    assert checks["device_nodes"]["found"].startswith("no right to read and write: ")
    assert "nvidia1" in checks["device_nodes"]["found"] and result(checks, "device_nodes") == "problem"
    assert result(checks, "proc_visibility") == "note" and "hidepid=invisible" in checks["proc_visibility"]["found"]
    assert result(checks, "profiling_rights") == "note" and "NVreg_RestrictProfilingToAdminUsers=0" in checks["profiling_rights"]["do"]


@without_driver
def test_wsl(doctor, machine):
    machine.write("dev/dxg").write("usr/lib/wsl/lib/libnvidia-ml.so.1")
    _, checks = doctor()
    assert result(checks, "wsl") == "note" and result(checks, "kernel_driver") == "ok"
    assert "found at /usr/lib/wsl/lib/libnvidia-ml.so.1" in checks["driver_library"]["found"]


@pytest.mark.parametrize("code, words", [
    ("DRIVER_NOT_LOADED", "not loaded"), ("NO_PERMISSION", "no permission"), ("LIB_RM_VERSION_MISMATCH", "different versions"),
    ("GPU_IS_LOST", "fallen off the bus"), ("TIMEOUT", "did not answer in time"), ("UNKNOWN", "cannot be initialised"),
    ("CORRUPTED_INFOROM", "CORRUPTED_INFOROM (14)")])
def test_init_results_have_their_meaning(on_standin, code, words):
    text = scenes.busy(1).replace("gpu 0 name", f"fault nvmlInit_v2 {code}\nfault nvmlInitWithFlags {code}\ngpu 0 name", 1)
    status, checks = on_standin(text)
    assert status == 1 and result(checks, "driver_answer") == "problem"
    assert words in checks["driver_answer"]["found"]
    assert result(checks, "sample") == "unknown"


def test_driver_without_gpus(on_standin):
    status, checks = on_standin("alula scenario 1\nduration 10s\n")
    assert status == 1 and "names no GPU" in checks["driver_answer"]["found"]


def test_missing_functions(on_standin):
    text = scenes.busy(1).replace("gpu 0 name", "missing nvmlDeviceGetFanSpeed nvmlGpmSampleGet\ngpu 0 name", 1)
    _, checks = on_standin(text)
    # A stand-in cannot take symbols away from dlsym in every way a driver can; what it answers says the same.
    told = checks["missing_functions"]["found"] + checks["metrics_gpm"]["found"]
    assert "nvmlGpmSampleGet" in told or "lacks the function" in told


# --- a sample -------------------------------------------------------------------------------------------------------


def test_healthy_machine(on_standin):
    text = scenes.busy(2).replace("@0s", "attr 0-1 persistence_mode=1\n@0s", 1)
    status, checks = on_standin(text)
    assert status == 0
    assert "the stand-in driver plays" in checks["driver_library"]["found"]
    assert checks["gpus"]["found"] == "2: 0 NVIDIA H200, 1 NVIDIA H200"
    assert checks["metrics_fast"]["found"].startswith("utilisation, memory, clocks, power, temperature: ")
    assert " read; " in checks["metrics_fast"]["found"]
    assert checks["metrics_xid"]["found"] == "Xid events: 1 of 1 read"
    assert checks["process_list"]["found"] == "processes on the GPU: 2 of 2 read"
    assert checks["persistence_mode"]["found"] == "on"
    assert "nvml" in checks["call_cost"]["found"] and " us" in checks["call_cost"]["found"]
    assert {result(checks, n) for n in ("pid_namespace", "proc_visibility", "pressure", "delay_accounting", "cgroups",
                                        "profilers")} == {"ok"}


def test_denied_and_failing_groups(on_standin):
    text = scenes.busy(2) + ("gpu 1 power_watts=!denied\ngpu 0 processes=!denied process_utilization=!denied\n"
                             "gpu 0-1 pcie_replays=!error ecc_corrected_volatile_total_errors=!denied\n")
    status, checks = on_standin(text)
    assert status == 1
    for name, words in (("metrics_fast", "1 permission denied: power_watts"),
                        ("metrics_ecc", "1 permission denied: ecc_corrected_volatile_total_errors"),
                        ("process_list", "1 permission denied: GPU 0"),
                        ("process_utilization", "1 permission denied: GPU 0")):
        assert result(checks, name) == "problem" and words in checks[name]["found"], (name, checks[name])
        assert "as root" in checks[name]["do"]
    assert result(checks, "metrics_link") == "problem" and "pcie_replays" in checks["metrics_link"]["found"]


def test_older_board_has_no_activity_counters(on_standin):
    text = scenes.head(1) + "@0s\ngpu 0 utilization_ratio=10% temperature_celsius=40C\n"
    status, checks = on_standin(text)
    assert status == 0
    assert result(checks, "metrics_gpm") == "note" and "Hopper" in checks["metrics_gpm"]["do"]


def test_lost_gpu_mig_unified_memory_and_persistence(on_standin):
    text = (scenes.head(4).replace("interval", "interval", 1) + "gpu 3 unified_memory=yes name=\"NVIDIA GB10\"\n"
            "mig 1 profile=1g.18gb\nmig 1 profile=2g.35gb\nattr 0-3 persistence_mode=0\n"
            "@0s\ngpu 0-3 utilization_ratio=1%\nlost 2\n")
    status, checks = on_standin(text)
    assert status == 1
    assert result(checks, "gpus_lost") == "problem" and "the GPU is lost" in checks["gpus_lost"]["found"]
    assert checks["mig"]["found"].startswith("2 MIG devices: 1:1g.18gb, 1:2g.35gb")
    assert "3 NVIDIA GB10" in checks["unified_memory"]["found"] and result(checks, "unified_memory") == "note"
    assert "GPU 0, GPU 1" in checks["persistence_mode"]["found"] and result(checks, "persistence_mode") == "note"
    # What the lost board does not answer is told once, not by every group.
    assert result(checks, "metrics_fast") != "problem"


def test_mig_without_instances(on_standin):
    _, checks = on_standin(scenes.head(2).rstrip("\n") + " mig_enabled=yes\n@0s\n")
    assert checks["mig_empty"]["found"] == "MIG is on without any instance: GPU 0, GPU 1"


def test_hanging_call_is_named(on_standin, tmp_path):
    config = tmp_path / "quick.yaml"
    config.write_text("sampling:\n  timeout: 500ms\n")
    text = scenes.busy(1) + "@0s\nhang nvmlDeviceGetMemoryInfo_v2 60s\n"
    status, checks = on_standin(text, "--config", config)
    assert status == 1
    assert checks["sample"]["found"] == "nvmlDeviceGetMemoryInfo_v2 has not answered for 0.5 s: the driver hangs"


def test_scenario_needs_no_driver(doctor, tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(2))
    status, checks = doctor("--source", f"scenario:{path}")
    assert status == 0 and checks["gpus"]["found"] == "2: 0 NVIDIA H200, 1 NVIDIA H200"
    assert "driver_library" not in checks and "no driver and no GPU is read" in checks["source"]["found"]


def test_one_gpu_only(on_standin):
    _, checks = on_standin(scenes.busy(4), "--gpu", "2")
    assert checks["gpus"]["found"] == "1: 2 NVIDIA H200"


# --- boards on the bus ----------------------------------------------------------------------------------------------


@without_driver
def test_other_makers_are_named(doctor, machine):
    (machine.board("0000:c1:00.0", 0x1002, 0x030200, "amdgpu").board("0000:d1:00.0", 0x19E5, 0x120000, "davinci")
     .board("0000:00:02.0", 0x8086, 0x030000, "i915").board("0000:e1:00.0", 0x8086, 0x038000, "xe")
     .board("0000:03:00.0", 0x19E5, 0x030000, "hibmc-drm").board("0000:f1:00.0", 0x1DA3, 0x120000)
     .board("0000:c1:00.1", 0x1002, 0x040300, "snd_hda_intel"))
    _, checks = doctor()
    assert checks["other_boards"]["found"] == ("not supported: AMD at 0000:c1:00.0, Huawei Ascend at 0000:d1:00.0, "
                                               "Intel at 0000:e1:00.0, Habana Gaudi at 0000:f1:00.0")
    assert "NVIDIA GPUs only" in checks["other_boards"]["do"] and result(checks, "other_boards") == "note"


@without_driver
def test_nvidia_boards_and_who_has_them(doctor, machine):
    machine.driver(gpus=2)
    (machine.board("0000:90:00.0", 0x10DE, 0x030200).board("0000:91:00.0", 0x10DE, 0x030000, "nouveau")
     .board("0000:92:00.0", 0x10DE, 0x030200, "vfio-pci").board("0000:93:00.0", 0x10DE, 0x040300, "snd_hda_intel")
     .board("0000:94:00.0", 0x10DE, 0x068000, "nvidia").write("sys/bus/pci/devices/0000:81:00.0/power/runtime_status", "suspended\n"))
    status, checks = doctor()
    assert status == 1
    assert checks["pci_boards"]["found"] == "2 NVIDIA GPUs with the driver bound: 0000:80:00.0, 0000:81:00.0"
    assert checks["pci_no_driver"]["found"] == "NVIDIA GPUs without a driver: 0000:90:00.0"
    assert checks["pci_nouveau"]["found"] == "NVIDIA GPUs held by nouveau: 0000:91:00.0"
    assert result(checks, "pci_vfio") == "note" and "0000:92:00.0" in checks["pci_vfio"]["found"]
    assert checks["pci_suspended"]["found"] == "GPUs in runtime suspend: 0000:81:00.0"


@without_driver
def test_many_boards_are_counted_not_listed_for_ever(doctor, machine):
    for i in range(60):
        machine.board(f"0000:{i:02x}:01.0", 0x10DE, 0x030200)
    found = doctor()[1]["pci_no_driver"]["found"]
    listed = found.count("0000:")
    assert 10 < listed < 60 and found.endswith(f" and {60 - listed} more")


# --- the host -------------------------------------------------------------------------------------------------------


def test_container_and_its_pids(on_standin, machine):
    machine.write("proc/self/cgroup", "0::/kubepods.slice/kubepods-pod1234.slice/cri-containerd-abc.scope\n")
    machine.link("proc/self/ns/pid", "pid:[4026532999]")
    _, checks = on_standin(scenes.busy(1))
    assert checks["container"]["found"] == "inside a container (Kubernetes)"
    assert result(checks, "pid_namespace") == "note" and "--pid=host" in checks["pid_namespace"]["do"]


@pytest.mark.parametrize("file, kind", [(".dockerenv", "Docker"), ("run/.containerenv", "Podman")])
def test_container_marks(on_standin, machine, file, kind):
    machine.write(file)
    assert on_standin(scenes.busy(1))[1]["container"]["found"] == f"inside a container ({kind})"


def test_kernel_that_tells_little(on_standin, machine):
    machine.write("proc/sys/kernel/task_delayacct", "0\n")
    (machine.root / "proc/pressure/io").unlink()
    (machine.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    (machine.root / "sys/fs/cgroup/memory").mkdir()
    (machine.root / "proc/self/ns/pid").unlink()
    machine.write("proc/self/mounts", "")
    _, checks = on_standin(scenes.busy(1))
    assert result(checks, "delay_accounting") == "note" and "sysctl kernel.task_delayacct=1" in checks["delay_accounting"]["do"]
    assert result(checks, "pressure") == "note" and "psi=1" in checks["pressure"]["do"]
    assert checks["cgroups"]["found"] == "version 1"
    assert result(checks, "pid_namespace") == result(checks, "proc_visibility") == "unknown"
    (machine.root / "proc/sys/kernel/task_delayacct").unlink()
    assert result(on_standin(scenes.busy(1))[1], "delay_accounting") == "note"


def test_who_holds_the_counters(on_standin, machine):
    machine.write("proc/100/comm", "nsys\n").write("proc/200/comm", "nv-hostengine\n").write("proc/300/comm", "python\n")
    machine.write("proc/400/comm", "ns\x1b[2Jys\n")
    _, checks = on_standin(scenes.busy(1))
    assert checks["profilers"]["found"] == "running: nsys (pid 100)" and result(checks, "profilers") == "note"
    assert checks["monitors"]["found"] == "also reading the driver: nv-hostengine (pid 200)"
    assert "dcgmi profile --pause" in checks["monitors"]["do"]


def test_root_that_is_missing(alula, tmp_path):
    got = alula("doctor", env={"ALULA_HOST_ROOT": str(tmp_path / "none")})
    assert got.returncode == 5 and got.stdout == "" and got.stderr.count("\n") == 1


# --- text -----------------------------------------------------------------------------------------------------------


def test_text(alula, machine, standin, tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(1) + "gpu 0 power_watts=!denied\n")
    env = {"ALULA_HOST_ROOT": str(machine.root), **scenes.standin_env(standin, path)}
    got = alula("doctor", env=env)
    assert got.returncode == 1 and got.stderr == ""
    lines = got.stdout.splitlines()
    assert "ok       gpus                 1: 0 NVIDIA H200" in lines
    at = next(i for i, line in enumerate(lines) if line.startswith("problem  metrics_fast"))
    assert lines[at + 1] == " " * 30 + "do: run alula as root, or ask an administrator for the right"
    counts = [sum(line.startswith(word + " ") for line in lines[:-1]) for word in ("ok", "note", "problem", "unknown")]
    assert lines[-1] == "{} ok, {} notes, {} problem, {} unknown".format(*counts) and counts[2] == 1
    assert "\033[" not in got.stdout and "\033[31;1mproblem" in alula("doctor", "--color", env=env).stdout
