# SPDX-License-Identifier: Apache-2.0
"""alula smi against what nvidia-smi 580.159.04 printed on an H200, byte for byte (tests/golden/)."""

import os
import re
import signal
import subprocess

import pytest
import smi_scenario as recording

UTC = {"TZ": "UTC"}
NO_MEDIA = "encoder_ratio=0 decoder_ratio=0 jpeg_ratio=0 ofa_ratio=0"
LOAD = ((416, 20294, "python3", f"sm_ratio=99% memory_ratio=24% {NO_MEDIA}"), (3740, 1542, '/tmp/we ird, n"x/py3'))


def names(pattern):
    return sorted(p.stem for p in recording.GOLDEN.glob(pattern))


@pytest.fixture
def smi(alula, tmp_path):
    """smi(scenario text, *arguments) runs alula smi on it."""

    def run(text, *args, env=None, **kwargs):
        path = tmp_path / "scenario.txt"
        path.write_text(text)
        return alula("smi", *args, "--source", f"scenario:{path}", "--speed", "0", env=UTC | (env or {}), **kwargs)

    return run


def check(result, name):
    assert result.stdout == recording.output(name)
    assert result.returncode == recording.status(name)
    assert result.stderr == ""


@pytest.mark.parametrize("name", names("idle-query-gpu-*.cmd") + names("load-query-gpu-*.cmd"))
def test_query_gpu(smi, name):
    check(smi(recording.scenario(name), *recording.arguments(name)), name)


@pytest.mark.parametrize("name", names("idle-query-apps-*.cmd") + names("load-query-apps-*.cmd"))
def test_query_compute_apps(smi, name):
    text, rows = recording.output(name), recording.output(name).splitlines()
    stamp = re.search(r"\d{4}/\d\d/\d\d [\d:.]+", text)
    when = recording.datetime.datetime.strptime(stamp[0] if stamp else "2026/11/29 18:00:00.0", "%Y/%m/%d %H:%M:%S.%f")
    lines = recording.head(when) + ["attr 0 serial=1650000000000", "@0s"]
    if name.startswith("load"):
        assert len(rows) >= 2
        lines += [recording.process(*p) for p in LOAD]
    check(smi("\n".join(lines) + "\n", *recording.arguments(name)), name)


def dmon_titles(args):
    """The columns that a recorded command asks for, in order."""
    groups = {"p": "pwr gtemp mtemp", "u": "sm mem enc dec jpg ofa", "c": "mclk pclk", "v": "pviol tviol",
              "m": "fb bar1 ccpm", "e": "sbecc dbecc pci", "t": "rxpci txpci"}
    gpm = {1: "gract", 2: "smutil", 3: "smocc", 4: "intutil", 5: "mmaact", 6: "dfmat", 7: "hmmat", 8: "id=8",
           9: "immat", 10: "dram", 11: "fp64", 12: "fp32", 13: "fp16",
           20: "pcitx", 21: "pcirx", 60: "nvlrx", 61: "nvltx"}

    def value(option, fallback):
        return args[args.index(option) + 1] if option in args else fallback

    stamp = value("-o", "")
    titles = ["Date"] * ("D" in stamp) + ["Time"] * ("T" in stamp) + ["gpu"]
    for letter in dict.fromkeys(value("-s", "puc")):
        titles += groups[letter].split()
    return titles + [gpm[int(n)] for n in value("--gpm-metrics", "").split(",") if n]


@pytest.mark.parametrize("name", [n for n in names("*-dmon*.cmd") if n.startswith(("idle-dmon", "load-dmon"))]
                         + ["err-dmon-o-TD", "err-dmon-s-tp", "err-dmon-s-dup", "err-dmon-format-eq", "err-dmon-i-uuid",
                            "err-dmon-i-pci", "err-dmon-d100"])
def test_dmon(smi, name):
    args = recording.arguments(name)
    result = smi(recording.dmon_scenario(name, dmon_titles(args)), *args)
    expected = recording.output(name)
    if "-o" in args:  # nvidia-smi's seconds drift, a scenario's do not
        first = re.search(r" (\d\d:\d\d:\d\d)[ ,]", expected)
        assert not first or first[1] in result.stdout
        expected, result.stdout = (re.sub(r"\d\d:\d\d:\d\d", "hh:mm:ss", t) for t in (expected, result.stdout))
    if "id=8" in expected:  # alula does not read this one, so it cannot know
        end = expected.index("id=8") + 3
        lines = expected.split("\n")
        expected = "\n".join([*lines[:2], *(line and line[:end] + "-" + line[end + 1:] for line in lines[2:])])
    assert result.stdout == expected
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", [n for n in names("*-pmon*.cmd") if n.startswith(("idle-pmon", "load-pmon"))])
def test_pmon(smi, name):
    expected = recording.output(name)
    stamp = re.search(r"^ (?:(\d{8}) +)?(?:([\d:]{8}) )?", expected, re.M)
    when = recording.datetime.datetime.strptime(f"{stamp[1] or '20261129'} {stamp[2] or '18:00:00'}", "%Y%m%d %H:%M:%S")
    lines = recording.head(when) + ["attr 0 protected_memory_total_bytes=0", "@0s"]
    if name.startswith("load"):
        sm, mem = re.search(r"416 +C +(\d+|-) +(\d+|-)", expected).groups() if "fb" not in name else (99, 24)
        busy = f"sm_ratio={sm}% memory_ratio={mem}% {NO_MEDIA}"
        if not re.search(r"\bsm\b", expected.splitlines()[0]):
            busy = ""
        lines += [recording.process(416, 20294, "python3", busy), recording.process(*LOAD[1])]
    result = smi("\n".join(lines) + "\n", *recording.arguments(name))
    assert result.stdout == expected
    assert (result.returncode, result.stderr) == (0, "")


@pytest.fixture
def through_driver(alula, standin, tmp_path):
    """alula smi by way of NVML: the stand-in driver plays the scenario."""

    def run(text, *args):
        path = tmp_path / "scenario.txt"
        path.write_text(text)
        env = UTC | {"ALULA_SCENARIO": str(path), "LD_LIBRARY_PATH": str(standin.parent), "ALULA_SOURCE": "nvml"}
        return alula("smi", *args, env=env)

    return run


@pytest.mark.parametrize("state", ["idle", "load"])
def test_all_fields_through_the_driver_library(through_driver, state):
    name = f"{state}-query-gpu-all-csv"
    result = through_driver(recording.scenario(name), *recording.arguments(name))
    stamp = re.compile(r"^\d{4}/\d\d/\d\d [\d:.]+,", re.M)
    assert stamp.sub("now,", result.stdout) == stamp.sub("now,", recording.output(name))
    assert (result.returncode, result.stderr) == (0, "")


def test_processes_through_the_driver_library(through_driver):
    path = "/" + "p" * 200 + "/bin/python3"
    text = recording.scenario("load-query-gpu-all-csv", processes=[(416, 20294, path)])
    assert through_driver(text, "--query-compute-apps=name", "--format=csv,noheader").stdout == path + "\n"
    text = recording.scenario("load-query-gpu-all-csv", processes=LOAD)
    name = "load-query-apps-s75-csv"
    assert through_driver(text, *recording.arguments(name)).stdout == recording.output(name)
    assert through_driver(text, "-L").stdout == recording.output("load-L")
    lines = through_driver(text, "pmon", "-c", "1", "-s", "m").stdout.splitlines()
    assert lines == recording.output("load-pmon-s-m").splitlines()


# Parts of nvidia-smi that alula smi does not have: its reports, its settings, its other tools.
OTHER = re.compile(r" (-q|-x|-B|-d|-u|-h|--help|--version|--dtd|--help-query-(accounted|retired|remapped|supported).*"
                   r"|topo|nvlink|mig|pci|gpm|c2c|rusd|stats|replay|daemon|-pm|-i 0 -i 0)( |$)")


def refusals():
    for name in names("err-*.cmd") + names("alias-*.cmd") + names("more-*.cmd"):
        command = (recording.GOLDEN / f"{name}.cmd").read_text()
        first = command.splitlines()[0]
        if OTHER.search(first) or "# " in command or recording.status(name) < 0 or " " not in first:
            continue
        if first in ("nvidia-smi -i 0", "nvidia-smi -i 7") or "-f " in first or "--filename" in first:
            continue
        if re.search("dmon|pmon", first) and "-c 1" in first and recording.status(name) == 0:
            continue  # values: test_dmon
        yield name


@pytest.fixture
def plain(smi):
    """smi on the idle H200 of the recordings."""
    text = recording.scenario("idle-query-gpu-all-csv")
    return lambda *args, **kwargs: smi(text, *args, **kwargs)


@pytest.mark.parametrize("name", list(refusals()))
def test_arguments_are_taken_and_refused_alike(plain, name):
    result, expected = plain(*recording.arguments(name)), recording.output(name)
    if "Usage:" in expected:  # the usage text is our own
        assert result.stdout.split("\n")[:3] == [expected.split("\n")[0], "", result.stdout.split("\n")[2]]
        assert "Usage: alula smi" in result.stdout
    elif name.startswith("alias-") and recording.status(name) == 0:
        # Values are those of another second than the idle row's: the header tells that the name was understood.
        assert result.stdout.split("\n")[0] == expected.split("\n")[0]
    else:
        assert result.stdout == expected
    assert result.returncode == recording.status(name)
    assert result.stderr == ""


@pytest.mark.parametrize("field", ["gom", "memory", "retired_pages", "utilization", "inforom"])
def test_a_sections_name_is_no_field(plain, field):
    """nvidia-smi itself crashes here."""
    result = plain(f"--query-gpu={field}", "--format=csv")
    assert result.stdout == f'Field "{field}" is not a valid field to query.\n\n'
    assert result.returncode == 2


def test_list(plain):
    check(plain("-L"), "idle-L")
    check(plain("--list-gpus"), "err-list-gpus")


def test_no_gpu(smi):
    text = "alula scenario 1\nduration 5s\n"
    for kind in ("L", "query", "query-noheader", "apps", "dmon", "pmon", "loop"):
        name = f"idle-count0-{kind}"
        check(smi(text, *recording.arguments(name)), name)


def test_dmon_stops_at_16_gpus(smi):
    result = smi("alula scenario 1\nduration 5s\ngpu 0-16\n", "dmon", "-c", "2")
    expected = recording.output("idle-count17-dmon").splitlines()
    lines = result.stdout.splitlines()
    assert lines[:7] == expected[:7]
    assert [line.split()[0] for line in lines[7:]] == [str(i) for i in range(16)] * 2
    assert len(smi("alula scenario 1\nduration 5s\ngpu 0-16\n", "dmon", "-c", "1", "-i", "16").stdout.splitlines()) == 3


def test_64_gpus_in_order(smi):
    text = "alula scenario 1\nduration 5s\ngpu 0-63\n@0s\ngpu 0-63 memory_used_bytes=1GiB\n"
    result = smi(text, "--query-gpu=index,count,memory.used", "--format=csv,noheader,nounits", "-i", "63,5,7,99")
    assert result.stdout == "5, 64, 1024\n7, 64, 1024\n63, 64, 1024\n"


def test_a_lost_gpu_says_so(smi):
    text = ("alula scenario 1\nduration 5s\ngpu 0-1\n@0s\ngpu 0-1 memory_used_bytes=1GiB temperature_celsius=40\n"
            "lost 1\n")
    result = smi(text, "--query-gpu=index,memory.used,temperature.gpu", "--format=csv")
    assert "0, 1024 MiB, 40\n" in result.stdout
    assert "1, [GPU is lost], [GPU is lost]\n" in result.stdout
    assert result.returncode == 0


def test_numbers_do_not_follow_the_locale(plain):
    german = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}
    result = plain("--query-gpu=power.draw", "--format=csv,noheader", env=german)
    assert result.stdout == "79.72 W\n"


def test_timestamps_are_local(plain):
    result = plain("--query-gpu=timestamp", "--format=csv,noheader", env={"TZ": "Asia/Tokyo"})
    assert result.stdout == "2026/11/30 03:07:43.108\n"


def test_loop_prints_one_header(plain):
    result = plain("--query-gpu=timestamp,index", "--format=csv", "-l", "1")
    lines = result.stdout.splitlines()
    assert lines[:3] == ["timestamp, index", "2026/11/29 18:07:43.108, 0", "2026/11/29 18:07:44.108, 0"]
    assert len(lines) == 12  # a scenario of 10 s, both ends included
    assert result.returncode == 0
    assert plain("--query-gpu=index", "-lms", "2500", "--format=csv,noheader").stdout == "0\n" * 5


def test_file(plain, tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old and longer than what comes\n" * 9)
    result = plain("--query-gpu=index,name", "--format=csv", "-f", path)
    assert (result.stdout, result.returncode) == ("", 0)
    assert path.read_text() == "index, name\n0, NVIDIA H200\n"
    below = path / "x"  # a file is no folder
    result = plain("--query-gpu=index,name", "--format=csv", "-f", below)
    assert result.stdout == recording.output("err-f-bad").replace("/nonexistent/x", str(below))
    assert result.returncode == recording.status("err-f-bad")
    assert plain("dmon", "-c", "1", "-f", path).stdout == ""
    assert path.read_text().startswith("# gpu ")


def test_help(plain):
    result = plain("--help-query-gpu")
    recorded = re.findall(r'^"([^"\n]+)"(?: or "([^"\n]+)")?$', recording.output("help-query-gpu"), re.M)
    ours = re.findall(r'^"([^"\n]+)"(?: or "([^"\n]+)")?$', result.stdout, re.M)
    assert ours == [(name, alias if alias != name else "") for name, alias in recorded]
    assert result.returncode == 0
    assert plain("--help-query-compute-apps").stdout.count('"process_name" or "name"\n') == 1
    for args in (["-h"], ["--help"]):
        assert "Examples:" in plain(*args).stdout
    assert "--gpm-metrics" in plain("dmon", "-h").stdout
    assert "--gpm-metrics" not in plain("pmon", "-h").stdout


def start(alula_bin, tmp_path, *args):
    path = tmp_path / "scenario.txt"
    path.write_text(recording.scenario("idle-query-gpu-all-csv").replace("duration 10s", "duration 1h"))
    return subprocess.Popen([str(alula_bin), "smi", *args, "--source", f"scenario:{path}"], env=os.environ | UTC,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_loop_quietly(alula_bin, tmp_path, number):
    with start(alula_bin, tmp_path, "--query-gpu=index", "--format=csv,noheader", "-lms", "50") as process:
        assert process.stdout.readline() == "0\n"
        process.send_signal(number)
        rest, errors = process.communicate(timeout=10)
    assert set(rest.split("\n")) <= {"0", ""}
    assert (process.returncode, errors) == (0, "")


def test_a_closed_pipe_ends_the_loop_quietly(alula_bin, tmp_path):
    with start(alula_bin, tmp_path, "dmon", "-d", "1") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        process.wait(timeout=10)
    assert process.returncode == 128 + signal.SIGPIPE  # what a shell shows for nvidia-smi there


def test_a_full_disk_is_an_error(alula_bin, tmp_path):
    path = tmp_path / "scenario.txt"
    path.write_text(recording.scenario("idle-query-gpu-all-csv"))
    with open("/dev/full", "w") as full:
        result = subprocess.run([str(alula_bin), "smi", "-L", "--source", f"scenario:{path}"], stdout=full,
                                stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert result.returncode == 1
    assert "cannot write" in result.stderr
