# SPDX-License-Identifier: Apache-2.0
"""alula profile: shares of programs that are known, the formats by their rules, and what is kept when something fails."""

import collections
import gzip
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from test_dump import LAUNCHER, line_of, running

# 70 and 30 percent of its time, in turns that no sampling rate keeps step with; and a thread that sleeps. By the clock of the thread:
# a busy machine that takes the core away for longer than a turn would end each turn alike, and make them halves.
SHARES = """
import sys, threading, time

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def seventy():
    spin(0.0091)

def thirty():
    spin(0.0039)

def sleeps():
    time.sleep(1000)

threading.Thread(target=sleeps, daemon=True, name="sleeper").start()
print(flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    seventy()
    thirty()
"""

# The same, which prints what share of its time it spent in seventy(): on a busy machine its turns are stretched.
TIMED = SHARES.replace("    seventy()\n    thirty()\n", """
    began = time.perf_counter()
    seventy()
    between = time.perf_counter()
    thirty()
    took = [took[0] + between - began, took[1] + time.perf_counter() - between]
print(took[0] / sum(took))
""").replace("print(flush=True)", "took = [0, 0]")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "shares.py"
    path.write_text(SHARES)
    return path


def profiled(alula, *args, status=0):
    got = alula("profile", *args)
    assert got.returncode == status, got.stderr
    return got.stderr


def timed(alula, program, out, *args):
    """Profiles a program to its end. Its pid, the share of its time in seventy() by its own clock, and what is said: of so long a
    time that there are samples enough to tell shares, on a busy machine too."""
    program.write_text(TIMED.replace("took = [0, 0]", "took = [0, 0]\nprint(flush=True)"))
    for seconds in (3, 6, 12):
        with running(sys.executable, program, seconds) as process:
            said = profiled(alula, process.pid, "-o", out, "-d", "60s", "--rate", "200", *args)
            truth = float(process.stdout.readline())
        if int(re.search(r"(\d+) samples at 200 a second", said)[1]) > 400:
            break
    return process.pid, truth, said


def folded(path):
    """[(frames, count)]"""
    lines = [line.rpartition(" ") for line in pathlib.Path(path).read_text().rstrip("\n").split("\n")]
    return [(stack.split(";"), int(count)) for stack, _, count in lines]


def shares(stacks):
    """Of the samples, how many have the function anywhere: total shares."""
    total, found = sum(count for _, count in stacks), collections.Counter()
    for frames, count in stacks:
        for name in {frame.split(" (")[0] for frame in frames}:
            found[name] += count / total
    return found


def near(share, truth, within, by_cpu=0.7):
    """Whether a sampled share of a TIMED program is the program's own, by the clock on the wall (`truth`), by its CPU time, or between:
    where the core is taken away from the sampler too, samples come late, are left out, and are missing where the wall's clock ran on."""
    low, high = sorted((truth, by_cpu))
    return low - within <= share <= high + within


def check_speedscope(document):
    """The rules of https://www.speedscope.app/file-format-schema.json for sampled profiles."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(document) <= {"$schema", "name", "exporter", "activeProfileIndex", "shared", "profiles"}
    frames = document["shared"]["frames"]
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"} and isinstance(frame["name"], str)
        assert isinstance(frame.get("file", ""), str) and isinstance(frame.get("line", 1), int)
    for profile in document["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled" and profile["unit"] == "seconds"
        assert len(profile["samples"]) == len(profile["weights"]) > 0
        assert all(0 <= frame < len(frames) for sample in profile["samples"] for frame in sample)
        assert all(weight > 0 for weight in profile["weights"])
        assert profile["endValue"] - profile["startValue"] == pytest.approx(sum(profile["weights"]))


# github.com/google/pprof's proto/profile.proto: each message's fields as number, name, type ("int", "bool", a message), * repeated.
PROFILE_PROTO = """
ValueType: 1 type int, 2 unit int
Label: 1 key int, 2 str int, 3 num int, 4 num_unit int
Sample: 1 location_id uint *, 2 value int *, 3 label Label *
Mapping: 1 id uint, 2 memory_start uint, 3 memory_limit uint, 4 file_offset uint, 5 filename int, 6 build_id int, 7 has_functions bool, 8 has_filenames bool, 9 has_line_numbers bool, 10 has_inline_frames bool
Line: 1 function_id uint, 2 line int
Location: 1 id uint, 2 mapping_id uint, 3 address uint, 4 line Line *, 5 is_folded bool
Function: 1 id uint, 2 name int, 3 system_name int, 4 filename int, 5 start_line int
Profile: 1 sample_type ValueType *, 2 sample Sample *, 3 mapping Mapping *, 4 location Location *, 5 function Function *, 6 string_table string *, 7 drop_frames int, 8 keep_frames int, 9 time_nanos int, 10 duration_nanos int, 11 period_type ValueType, 12 period int, 13 comment int *, 14 default_sample_type int
"""


def read_pprof(path):
    """Decoded by protobuf itself; a field that the message does not have is an error."""
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    kinds = {"int": 3, "uint": 4, "bool": 8, "string": 9}
    for line in PROFILE_PROTO.strip().splitlines():
        name, _, fields = line.partition(": ")
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            number, name, kind, *repeated = field.split()
            made = message.field.add(name=name, number=int(number), label=3 if repeated else 1, type=kinds.get(kind, 11))
            if kind not in kinds:
                made.type_name = ".p." + kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    profile = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))()
    profile.ParseFromString(gzip.decompress(path.read_bytes()))
    before = profile.ByteSize()
    profile.DiscardUnknownFields()
    assert profile.ByteSize() == before
    return profile


def page_data(path):
    """What a flame graph's page holds for its script."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def page_shares(data):
    """Total shares by function, of a page."""
    nodes = list(zip(data["nodes"][::2], data["nodes"][1::2], strict=True))
    total, found = 0, collections.Counter()
    for track in data["tracks"]:
        runs = track.get("sums", track["runs"])
        for node, count in zip(runs[::4], runs[2::4], strict=True):
            names, at = set(), node + 1
            while at:
                names.add(data["frames"][nodes[at - 1][1]][0])
                at = nodes[at - 1][0]
            total += count
            found.update(dict.fromkeys(names, count))
    return {name: count / total for name, count in found.items()}


def test_known_shares(alula, program, tmp_path):
    out = tmp_path / "out.folded"
    _, truth, said = timed(alula, program, out)
    stacks = folded(out)
    found = shares(stacks)
    assert near(found["seventy"], truth, 0.05) and near(1 - found["thirty"], truth, 0.05), (found, truth)
    assert found["sleeps"] < 0.01  # idle; on a busy machine a thread may be seen on its way to sleep
    assert all(frames[0].startswith(("<module> (", "Thread._bootstrap (", "[moved while")) for frames, _ in stacks)
    assert any(frames[1:2] == [f"seventy ({program}:{line_of(program, 'spin(0.0091)')})"] for frames, _ in stacks)
    assert re.search(r"own cost \d+\.\d\d % of a core, \d+\.\d us a stack; moved while read \d+\.\d+ %", said)


def test_idle_threads_and_functions(alula, program, tmp_path):
    out = tmp_path / "out.folded"
    with running(sys.executable, program, 60, patience=0) as process:
        profiled(alula, "--pid", process.pid, "-o", out, "-d", "1", "--idle", "--function", "--threads")
    stacks = folded(out)
    sleeping = [(frames, count) for frames, count in stacks if "sleeper" in frames[0]]
    assert len(sleeping) == 1 and sleeping[0][0][-1] == f"sleeps ({program}:{line_of(program, 'def sleeps')})"
    assert sleeping[0][1] == pytest.approx(sum(count for frames, count in stacks if "MainThread" in frames[0]), rel=0.2)


def test_gil(alula, program, tmp_path):
    out = tmp_path / "out.folded"
    with running(sys.executable, program, 60, patience=0) as process:
        profiled(alula, process.pid, "-o", out, "-d", "1s", "--gil", "--idle")
    found = shares(folded(out))
    assert found["spin"] > 0.9 and "sleeps" not in found


def test_speedscope_keeps_its_rules(alula, program, tmp_path):
    out = tmp_path / "out.json"
    with running(sys.executable, program, 60, patience=0) as process:
        profiled(alula, process.pid, "-o", out, "-d", "2s", "--idle")
    document = json.loads(out.read_text())
    check_speedscope(document)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    first, second = sorted(document["profiles"], key=lambda profile: "sleeper" in profile["name"])
    assert f"process {process.pid}, thread {process.pid} MainThread" == first["name"] and len(second["samples"]) == 1
    assert [names[frame] for frame in second["samples"][0]][-1] == "sleeps"
    seventy = sum(weight for sample, weight in zip(first["samples"], first["weights"], strict=True)
                  if "seventy" in [names[frame] for frame in sample])
    assert seventy / first["endValue"] == pytest.approx(0.7, abs=0.2)
    assert [names[frame] for frame in first["samples"][0]][0] == "<module>"  # the root comes first


def test_pprof_is_read_by_protobuf(alula, program, tmp_path):
    out = tmp_path / "out.pb.gz"
    before = time.time_ns()
    pid, truth, _ = timed(alula, program, out, "--idle")
    profile = read_pprof(out)
    text = profile.string_table
    assert text[0] == "" and [(text[t.type], text[t.unit]) for t in profile.sample_type] == [("samples", "count"), ("wall", "nanoseconds")]
    assert profile.period == 5_000_000 and text[profile.period_type.type] == "wall" == text[profile.default_sample_type]
    assert before <= profile.time_nanos <= time.time_ns() and 1e9 < profile.duration_nanos < 60e9
    assert [text[comment] for comment in profile.comment][0].startswith("alula ") and str(program) in text[profile.comment[1]]
    locations, functions = {l.id: l for l in profile.location}, {f.id: f for f in profile.function}
    assert len(locations) == len(profile.location) and len(functions) == len(profile.function)
    counts, asleep, each = collections.Counter(), 0, profile.sample[0].value[1] / profile.sample[0].value[0]
    for sample in profile.sample:
        names = [text[functions[locations[i].line[0].function_id].name] for i in sample.location_id]
        labels = {text[label.key]: text[label.str] for label in sample.label}
        assert sample.value[1] == pytest.approx(sample.value[0] * each, rel=1e-6, abs=1) and labels["pid"] == str(pid)
        asleep += sample.value[1] if labels["thread"] == "sleeper" else 0
        if names[0].startswith("["):
            continue  # moved while it was read
        if labels["thread"] == "sleeper":
            assert names[0] == "sleeps" and labels["state"] == "idle" and labels["thread_id"] != labels["pid"]
        else:
            assert names[-1] == "<module>" and labels["thread"] == "MainThread" and labels["thread_id"] == labels["pid"]
            counts.update(dict.fromkeys(names, sample.value[0]))
    assert near(counts["seventy"] / counts["<module>"], truth, 0.08)
    assert each >= 0.99 * profile.period and asleep == pytest.approx(profile.duration_nanos, rel=0.1)  # it slept all the time
    seventy, = [f for f in profile.function if text[f.name] == "seventy"]
    assert text[seventy.filename] == str(program) and seventy.start_line == line_of(program, "def seventy")
    assert line_of(program, "spin(0.0091)") in [l.line[0].line for l in profile.location if l.line[0].function_id == seventy.id]


def test_native_frames_have_their_object(alula, program, tmp_path):
    """Of a thread that sleeps: /proc tells where, whatever the kernel allows."""
    outs = [tmp_path / f"out.{ending}" for ending in ("pb.gz", "html", "trace.json", "folded")]
    with running(sys.executable, program, 60, patience=0) as process:
        for out in outs:
            profiled(alula, process.pid, "-o", out, "-d", "0.5", "--idle", "--native")
    profile = read_pprof(outs[0])
    text = profile.string_table
    functions, mappings = {f.id: f for f in profile.function}, {m.id: text[m.filename] for m in profile.mapping}
    native = {text[functions[place.line[0].function_id].name]: mappings[place.mapping_id] for place in profile.location if place.mapping_id}
    name, libc = next((name, mapping) for name, mapping in native.items() if "nanosleep" in name)
    assert "libc" in libc and "spin" not in native
    data = page_data(outs[1])
    assert [frame[5] for frame in data["frames"] if frame[0] == name] == [libc]
    assert {frame[4] for frame in data["frames"] if frame[0] in ("spin", "seventy")} == {0}
    assert any(e.get("cat") == "native" and e["name"] == name and e["args"]["file"] == libc for e in json.loads(outs[2].read_text())["traceEvents"])
    assert any(f"{name} ({pathlib.Path(libc).name})" in frames for frames, _ in folded(outs[3]))


def test_trace_events_nest_and_last_as_long_as_they_should(alula, program, tmp_path):
    out = tmp_path / "out.trace.json"
    pid, truth, _ = timed(alula, program, out, "--idle")
    events = json.loads(out.read_text())["traceEvents"]
    names = {(e["name"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    tids = {name: tid for (kind, tid), name in names.items() if kind == "thread_name"}
    assert set(tids) == {"MainThread", "sleeper"} and names["process_name", 0] == f"process {pid}"
    lasted, open_spans, last = collections.Counter(), collections.defaultdict(list), collections.Counter()
    for event in events:
        if event["ph"] == "M":
            continue
        assert event["pid"] == pid and event["ts"] >= last[event["tid"]]
        last[event["tid"]] = event["ts"]
        if event["ph"] == "B":
            open_spans[event["tid"]].append(event)
        else:
            begun = open_spans[event["tid"]].pop()
            lasted[event["tid"], begun["name"]] += event["ts"] - begun["ts"]
    assert not any(open_spans.values())
    main = tids["MainThread"]
    assert near(lasted[main, "seventy"] / (lasted[main, "seventy"] + lasted[main, "thirty"]), truth, 0.08)
    assert lasted[tids["sleeper"], "sleeps"] > 1e6
    seventy = next(e for e in events if e["ph"] == "B" and e["name"] == "seventy")
    assert seventy["args"] == {"file": str(program), "line": line_of(program, "spin(0.0091)")} and seventy["cat"] == "python"


@pytest.mark.parametrize("ending", ["html", "svg"])
def test_a_flame_graph_is_one_file(alula, program, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    pid, truth, _ = timed(alula, program, out)
    data, text = page_data(out), out.read_text()
    assert near(page_shares(data)["seventy"], truth, 0.08)
    about = data["about"]
    assert about["pid"] == pid and about["rate"] == 200 and str(program) in about["command"] and about["exporter"].startswith("alula ")
    assert about["stacks"] > 0 and about["every"] == 1 and about["rare"] == 0 and not about["idle"]
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}  # names, not loaded
    assert not re.search(r"\b(src|href)=\"(?!data:)", text)
    # What is seen without a script: the same shares.
    picture = text if ending == "svg" else re.search(r"<svg .*?</svg>", text, re.DOTALL)[0]
    boxes = xml.etree.ElementTree.fromstring(picture).findall("{http://www.w3.org/2000/svg}g")
    width = collections.Counter()
    for box in boxes:
        width[box[0].text.split(" (")[0]] += float(box[1].get("width"))
    assert near(width["seventy"] / width["<module>"], truth, 0.08)


HOSTILE = """
import sys, time
NAMES = ["</script><script>document.title='taken'</script>", "]]></script>", "<!-- <script>", "'\\"><img src=x onerror=alert(1)>", "\\u202eevil", "a\\0b\\x1b[2J\\n",
         "\\ud800", "x<&>" * 25000, "", "${alert(1)}", "\\u2028", "&lt;b&gt;"]

def wait(ready=time.monotonic):
    end = ready() + 0.004
    while ready() < end:
        pass

functions = []
for name in NAMES:
    def function():
        wait()
    function.__code__ = function.__code__.replace(co_name=name, co_filename=name, **({"co_qualname": name} if sys.version_info >= (3, 11) else {}))
    functions.append(function)
print(flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for function in functions:
        function()
"""


@pytest.fixture
def hostile(tmp_path):
    path = tmp_path / "hostile.py"
    path.write_text(HOSTILE)
    return path


def test_hostile_names_stay_names(alula, hostile, tmp_path):
    outs = [tmp_path / f"out.{ending}" for ending in ("html", "svg", "trace.json", "json", "folded", "pb.gz")]
    with running(sys.executable, hostile, 60, patience=0) as process:
        for out in outs:
            profiled(alula, process.pid, "-o", out, "-d", "1s", "--rate", "500")
    page, picture = outs[0].read_text(), outs[1].read_text()
    assert page.count("<script") == page.count("</script") == 2 and "<img" not in page and "<!--" not in page
    root = xml.etree.ElementTree.fromstring(picture)
    assert len([e for e in root.iter() if e.tag.endswith("script")]) == 2
    assert all(max(map(ord, e.text or "")) < 0x202a for e in root.iter() if e.tag.endswith(("text", "title")) and e.text)
    for out in outs[:2]:
        names = [frame[0] for frame in page_data(out)["frames"]]
        assert "'\"><img src=x onerror=alert(1)>" in names and "?evil" in names and max(map(len, names)) < 2000
    assert json.loads(outs[2].read_text())["traceEvents"]
    check_speedscope(json.loads(outs[3].read_text()))
    assert len(folded(outs[4])) >= 10
    assert "'\"><img src=x onerror=alert(1)>" in read_pprof(outs[5]).string_table


@pytest.mark.parametrize("name, begin", [("chrometrace", '{"traceEvents"'), ("raw", "<module> ("), ("flamegraph", "<!DOCTYPE html>"),
                                         ("svg", "<?xml"), ("speedscope", '{"$schema"')])
def test_formats_by_name(alula, program, name, begin):
    with running(sys.executable, program, 60, patience=0) as process:
        got = alula("profile", "--pid", process.pid, "-f", name, "-o", "-", "-d", "0.5", "--nonblocking", "--full-filenames", "--hideprogress",
                    "--no-cmdline")
    assert got.returncode == 0 and got.stdout.startswith(begin)
    assert str(program) in got.stdout and f"{sys.executable} {program}" not in got.stdout


def test_a_flame_graph_named_svg_is_one(alula, program, tmp_path):
    out = tmp_path / "profile.svg"  # as py-spy's users write it
    with running(sys.executable, program, 60, patience=0) as process:
        profiled(alula, "--pid", process.pid, "-f", "flamegraph", "-o", out, "-d", "0.5")
    assert out.read_text().startswith("<?xml")


def test_functions_without_lines(alula, program, tmp_path):
    out = tmp_path / "out.folded"
    with running(sys.executable, program, 60, patience=0) as process:
        profiled(alula, process.pid, "-o", out, "-d", "0.5", "--nolineno")
    assert folded(out)[0][0][0] == f"<module> ({program})"


def test_a_job_by_rank(alula, program, tmp_path):
    launcher, out = tmp_path / "torchrun", tmp_path / "out.folded"
    launcher.write_text(LAUNCHER)
    with running(sys.executable, launcher, program, 60, lines=3) as process:
        profiled(alula, process.pid, "-s", "-o", out, "-d", "1s")
        roots = {frames[0] for frames, _ in folded(out)}
        rank = next(root for root in roots if root.endswith(", rank 1 of 2"))
        profiled(alula, rank.split()[1].strip(","), "-s", "-o", out, "-d", "3s")  # and behind a second look for processes
    assert {"process N, rank 0 of 2", "process N, rank 1 of 2"} <= {re.sub(r"\d+", "N", root, count=1) for root in roots}
    assert {frames[0] for frames, _ in folded(out)} == {rank}


def test_the_process_ends_first(alula, program, tmp_path):
    out = tmp_path / "out.folded"
    with running(sys.executable, program, 1) as process:
        said = profiled(alula, process.pid, "-o", out, "-d", "60s")
    assert "the process has ended" in said and shares(folded(out))["spin"] > 0.5


def test_interrupted(alula_bin, program, tmp_path):
    out = tmp_path / "out.folded"
    with running(sys.executable, program, 60, patience=0) as process, \
            subprocess.Popen([alula_bin, "profile", str(process.pid), "-o", out, "--quiet"], stderr=subprocess.PIPE) as profiler:
        time.sleep(1)
        profiler.send_signal(signal.SIGINT)
        assert profiler.wait(5) == 0 and profiler.stderr.read() == b""
    assert sum(count for _, count in folded(out)) > 20


def test_what_came_late_is_no_time_lost(alula_bin, program, tmp_path):
    """A sampler that is stopped for most of the time: what it has stands for all of it."""
    out = tmp_path / "out.json"
    command = [alula_bin, "profile", "-io", out, "-r", "200"]
    with running(sys.executable, program, 60, patience=0) as process, \
            subprocess.Popen([*command, "-d", "3s", str(process.pid)], stderr=subprocess.PIPE, text=True) as profiler:
        time.sleep(0.7)
        profiler.send_signal(signal.SIGSTOP)
        time.sleep(1.7)
        profiler.send_signal(signal.SIGCONT)
        said = profiler.communicate(timeout=30)[1]
    took, late = float(re.search(r"profile: ([\d.]+) s, ", said)[1]), int(re.search(r"samples left out: (\d+) that came late", said)[1])
    assert late > 200
    for profile in json.loads(out.read_text())["profiles"]:
        assert profile["endValue"] == pytest.approx(took, rel=0.05)  # both threads were there at each sample


def test_one_is_no_plural(alula, program, tmp_path):
    with running(sys.executable, program, 60, patience=0) as process:
        said = profiled(alula, process.pid, "-o", tmp_path / "x.folded", "-d", "0.001")
    assert "1 sample at 100 a second of 1 process: 1 stack of 1 thread\n" in said


def test_a_process_that_has_just_started(alula, program, tmp_path):
    """As a script names it by $!: a shell that is about to become Python. What runs then is what the profile is named by."""
    out = tmp_path / "out.html"
    shell = subprocess.Popen(["bash", "-c", 'sleep 0.5; exec "$@"', "bash", sys.executable, "-IS", str(program), "3"], stdout=subprocess.DEVNULL)
    try:
        profiled(alula, shell.pid, "-o", out, "-d", "1s")
    finally:
        shell.kill()
        shell.wait()
    assert page_data(out)["about"]["command"] == f"{sys.executable} -IS {program} 3"


def test_a_full_disk_loses_nothing(alula, program, tmp_path):
    with running(sys.executable, program, 60, patience=0) as process:
        got = alula("profile", process.pid, "-o", "/dev/full", "-d", "1s", env={"TMPDIR": str(tmp_path)})
    assert got.returncode == 1 and "/dev/full: No space left on device" in got.stderr
    kept = re.search(r"kept in (\S+)", got.stderr)[1]
    assert kept.startswith(str(tmp_path)) and shares(folded(kept))["spin"] > 0.5


def test_standard_output_and_an_old_file(alula, program, tmp_path):
    out = tmp_path / "old"
    out.write_text("x" * 100000)
    with running(sys.executable, program, 60, patience=0) as process:
        got = alula("profile", process.pid, "-o", "-", "-d", "0.5")
        profiled(alula, process.pid, "-o", out, "-d", "0.5")
    assert got.stdout.startswith("<module> (") and "x" * 10 not in out.read_text()


@pytest.mark.parametrize("args", [["1"], ["-o", "x"], ["-o", "x", "1", "2"], ["-o", "x", "--rate", "0", "1"],
                                  ["-o", "x", "--duration", "-1s", "1"], ["-o", "x", "--format", "png", "1"]])
def test_bad_arguments(alula, args, tmp_path):
    got = alula("profile", *args, cwd=tmp_path)
    assert got.returncode == 2 and got.stdout == "" and got.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_profiled(alula, program, tmp_path):
    with running("sh", "-c", "echo; cat") as process:
        got = alula("profile", process.pid, "-o", tmp_path / "x")
        assert got.returncode == 6 and got.stderr.count("\n") == 1
    assert alula("profile", process.pid, "-o", tmp_path / "x").returncode == 5
    assert not (tmp_path / "x").exists()
    with running(sys.executable, program, 60, patience=0) as process:
        got = alula("profile", process.pid, "-o", tmp_path / "none" / "x", "-d", "60s")
    assert got.returncode == 1 and "No such file or directory" in got.stderr and "kept" not in got.stderr
