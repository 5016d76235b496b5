# SPDX-License-Identifier: Apache-2.0
"""alula watch on scenarios: text, JSON Lines, the compatibility record, ends of all kinds."""

import json
import re
import signal
import statistics
import subprocess

import jsonschema
import pytest

import scenes

NUMBER = {"type": ["number", "null"]}
TEXT = {"type": ["string", "null"]}
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
STATES = ["ok", "lost", "reset_required", "denied", "error", "unsupported", "timeout", "stale", "unread"]


def thing(required, **properties):
    """An object with exactly these keys."""
    return {"type": "object", "properties": {**required, **properties}, "required": list(required),
            "additionalProperties": False}


IDENTITY = {"index": {"type": "integer"}, "uuid": TEXT, "name": TEXT, "pci_bus_id": TEXT, "state": {"enum": STATES}}
MIG = {"parent": {"type": "integer"}, "gpu_instance": {"type": "integer"}, "compute_instance": {"type": "integer"},
       "mig_profile": TEXT}
ENVELOPE = {"type": {"type": "string"}, "time": TIME, "host": TEXT}


def numbers(names):
    return {name: NUMBER for name in names}


def schema_of(metrics):
    """{type: schema}; the metric names come from `alula help --metrics`, the rest from docs/jsonl.md."""
    gpu = thing({**IDENTITY, **numbers(metrics["GPU"]), "stale": {"type": "array", "items": {"enum": metrics["GPU"]}},
                 "xids": {"type": "array", "items": thing({**numbers(["code", "count"]), "last": TIME})}}, **MIG)
    # Read on request only.
    for name in ("pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second"):
        gpu["required"].remove(name)
    process = thing({
        "pid": {"type": "integer"}, "ppid": {"type": "integer"}, "job": {"type": "integer"},
        "role": {"enum": ["launcher", "rank", "worker", "engine", "notebook", "other", "unknown"]},
        **{k: {"type": ["integer", "null"]} for k in ("rank", "local_rank", "world_size", "owner")},
        "state": TEXT, "started": {"anyOf": [TIME, {"type": "null"}]}, "cgroup": TEXT,
        "user": TEXT, "name": TEXT, "command": TEXT, "container": TEXT, "pod": TEXT,
        "slurm_job": TEXT, "alive": {"type": ["boolean", "null"]}, **numbers(metrics["process"]),
        "gpus": {"type": "array", "items": thing({"index": {"type": "integer"}, "uuid": TEXT, "type": TEXT,
                                                  "memory_bytes": NUMBER, **numbers(["sm_ratio", "memory_ratio"])})}})
    rank = thing({"pid": {"type": "integer"}, **{k: {"type": ["integer", "null"]} for k in (
        "job", "rank", "local_rank", "world_size", "device")}, "source": TEXT, **numbers(metrics["rank"]), "phase": TEXT})
    evidence = thing({"name": {"type": "string"}, "value": {"type": "number"}, "unit": TEXT, "source": TEXT})
    window = thing({"samples": {"type": "integer"}, **numbers(
        ["mean", "peak", "min", "standard_deviation", "median", "p95", "slope_per_second"])})
    return {
        "session": thing({**ENVELOPE, "alula_version": {"type": "string"}, "driver_version": TEXT, "cuda_version": TEXT,
                          "boot_id": TEXT, "interval_seconds": {"type": "number"},
                          "gpus": {"type": "array", "items": thing(
                              {**IDENTITY, "serial": TEXT, "unavailable": {
                                  "type": "object", "propertyNames": {"enum": metrics["GPU"]},
                                  "additionalProperties": {"enum": ["unsupported", "denied", "lost", "reset_required",
                                                                    "function_not_found", "deprecated", "timeout",
                                                                    "error"]}}}, **MIG)}}),
        "sample": thing({**ENVELOPE, "tick": {"type": "integer", "minimum": 1}, "monotonic_seconds": {"type": "number"},
                         "gpus": {"type": "array", "items": gpu}, "processes": {"type": "array", "items": process},
                         "ranks": {"type": "array", "items": rank}, "node": thing(numbers(metrics["node"])), "hung_call": TEXT}),
        "finding": thing({**ENVELOPE, "rule": {"type": "string"}, "key": {"type": "string"},
                          "phase": {"enum": ["began", "updated", "ended"]},
                          "level": {"enum": ["info", "warning", "critical"]},
                          "confidence": {"enum": ["low", "medium", "high"]}, "gpu": {"type": ["integer", "null"]},
                          "gpu_uuid": TEXT, "pid": {"type": ["integer", "null"]}, "job": {"type": ["integer", "null"]},
                          "began": TIME, "lasted_seconds": {"type": "number", "minimum": 0},
                          "title": {"type": "string", "minLength": 1}, "message": {"type": "string", "minLength": 1},
                          "considered": TEXT, "advice": TEXT,
                          "evidence": {"type": "array", "items": evidence}}),
        "summary": thing({**ENVELOPE, "gpus": {"type": "array", "items": thing(
            {"index": {"type": "integer"}, "uuid": TEXT,
             "windows": {"type": "object", "propertyNames": {"enum": metrics["GPU"]}, "additionalProperties": window}})}}),
        "end": thing({**ENVELOPE, "ticks": {"type": "integer"}, "skipped_ticks": {"type": "integer"},
                      "late_ticks": {"type": "integer"}, "findings": {"type": "integer"},
                      **numbers(["jitter_mean_seconds", "jitter_max_seconds", "cpu_ratio"])}),
    }


@pytest.fixture(scope="module")
def schemas(alula_bin):
    out = subprocess.run([alula_bin, "help", "--metrics"], capture_output=True, text=True, check=True).stdout
    metrics = {}
    for line in out.splitlines():
        if line.startswith("Metrics of a "):
            names = metrics.setdefault(line[13:].rstrip(":"), [])
        else:
            names.append(line.split()[0])
    return {kind: jsonschema.Draft202012Validator(schema) for kind, schema in schema_of(metrics).items()}


def objects(text):
    """The lines as objects, a key never twice in one, NaN and infinity refused."""
    def once(pairs):
        assert len({key for key, _ in pairs}) == len(pairs), pairs
        return dict(pairs)

    def refuse(word):
        raise AssertionError(word)

    return [json.loads(line, object_pairs_hook=once, parse_constant=refuse) for line in text.splitlines()]


@pytest.fixture
def watch(alula, tmp_path):
    """watch(text, args…) plays the scenario as fast as it goes."""
    def run(text, *args, speed=0, **kwargs):
        path = tmp_path / "scene.txt"
        path.write_text(text)
        return alula("watch", "--source", f"scenario:{path}", "--speed", speed, *args, **kwargs)

    return run


def findings(lines):
    return [o for o in lines if o["type"] == "finding"]


# --- what is printed ------------------------------------------------------------------------------------------------


def test_text_lines(watch):
    got = watch(scenes.busy(1, "1s"), env={"TZ": "UTC"})
    assert (got.returncode, got.stderr) == (0, "")
    lines = got.stdout.splitlines()
    tick = "GPU 0   93 %   70.0/140.0 GiB  655 W  60 C  1980 MHz  SM  90 %  tensor  40 %  1 process"
    assert lines[0] == "12:00:00.0  " + tick
    assert lines[1] == "12:00:00.5  " + tick
    assert lines[2] == "12:00:01.0  " + tick
    assert re.fullmatch(r"3 ticks, 0 late, 0 left out; 0 findings; own cost \d+\.\d\d % of one core, "
                        r"ticks began \d+\.\d ms late on average", lines[-1])


def test_columns_stay_where_they_are(watch):
    text = scenes.busy(1, "3s").replace("@5s", "@60s") + (
        "@1s\ngpu 0 memory_used_bytes=9.97GiB power_watts=78\n@2s\ngpu 0 memory_used_bytes=0.5GiB utilization_ratio=1\n")
    lines = [line for line in watch(text).stdout.splitlines() if "GPU 0" in line and " -- " not in line]
    assert len({line.index(" GiB") for line in lines}) == len({line.index(" MHz") for line in lines}) == 1
    assert any("  10.0/140.0 GiB   78 W" in line for line in lines) and any("   0.5/140.0" in line for line in lines)


def test_what_lasts_is_told_ever_less_often(watch):
    """As text; JSON Lines have all updates. What comes again soon comes without its advice."""
    text = scenes.starved("1h")
    lines = [line for line in watch(text, "--quiet").stdout.splitlines() if ": starved by input" in line]
    assert 12 <= len(lines) <= 20
    updates = [o for o in findings(objects(watch(text, "--quiet", "--json").stdout)) if o["phase"] == "updated"]
    assert len(updates) > 300
    again = scenes.starved("60s") + "@15s\ngpu 0 utilization_ratio=95%\n@25s\ngpu 0 utilization_ratio=3%\n"
    out = watch(again, "--quiet").stdout
    assert out.count("info: starved by input") == 2 and out.count("    do: ") == 1


def test_text_of_many_gpus_is_short(watch):
    got = watch(scenes.busy(8, "0.5s"), env={"TZ": "UTC"})
    assert got.stdout.splitlines()[0] == ("12:00:00.0  GPU:util/memory" +
                                          "".join(f"  {g}:93%/50%" for g in range(8)) + "  8 processes")


def test_text_of_a_lost_gpu_and_unknown_values(watch):
    got = watch(scenes.head(2, "0.5s") + "@0s\nlost 0\ngpu 1 memory_total_bytes=!denied\n", env={"TZ": "UTC"})
    assert got.stdout.splitlines()[0] == "12:00:00.0  GPU 0  the GPU is lost  GPU 1    - %  memory -"


def test_finding_text(watch):
    got = watch(scenes.starved(), "--quiet", env={"TZ": "UTC"})
    lines = got.stdout.splitlines()
    assert lines[0].startswith("12:00:07.5  info: starved by input -- GPU 0: 3.0 % utilisation over 2.5 s")
    assert "pid 4300 rank 0 holds 69.0 GiB" in lines[0]
    assert lines[0].endswith("[confidence high]")
    assert lines[1].startswith("    also considered: ") and lines[2].startswith("    do: ")


def test_every_json_line_keeps_the_schema(watch, schemas):
    got = watch(scenes.starved() + "@12s\ngpu 0 utilization_ratio=90%\nxid 0 79 count=2\nproc 4300 io_wait_ratio=0%\n",
                "--json")
    assert (got.returncode, got.stderr) == (0, "")
    lines = objects(got.stdout)
    for line in lines:
        schemas[line["type"]].validate(line)
    assert [o["type"] for o in lines][0] == "session"
    assert [o["type"] for o in lines][-1] == "end"
    samples = [o for o in lines if o["type"] == "sample"]
    assert len(samples) == 41 == lines[-1]["ticks"]
    assert [o["tick"] for o in samples] == list(range(1, 42))
    assert samples[0]["gpus"][0]["memory_used_bytes"] == 70 * 2**30
    assert samples[0]["gpus"][0]["power_watts"] == 655.2
    assert samples[0]["gpus"][0]["fan_speed_ratio"] is None
    assert samples[0]["processes"][1]["gpus"][0]["memory_bytes"] == 69 * 2**30
    (xid,) = samples[-1]["gpus"][0]["xids"]
    assert (xid["code"], xid["count"]) == (79, 2) and samples[0]["time"] < xid["last"] < samples[-1]["time"]
    phases = [(o["rule"], o["phase"]) for o in findings(lines) if o["rule"] == "starved"]
    assert phases[0] == ("starved", "began") and phases[-1] == ("starved", "ended")
    assert lines[-1]["findings"] == sum(o["phase"] == "began" for o in findings(lines))


def test_json_of_faults_keeps_the_schema(watch, schemas):
    text = (scenes.head(3, "4s") + 'mig 1 profile=1g.18gb\nmig 1 profile=2g.35gb\n@0s\nlost 0\n'
            "gpu 2 power_watts=!denied temperature_celsius=!timeout processes=!denied\n"
            'proc 77 alive=no command="a\\"b"\nrow 77 gpu=2\n@2s\nback 0\ngone 2\n')
    got = watch(text, "--json", "--pcie")
    lines = objects(got.stdout)
    for line in lines:
        schemas[line["type"]].validate(line)
    session = lines[0]
    assert [g["state"] for g in session["gpus"]][:1] == ["lost"]
    assert session["gpus"][2]["unavailable"]["power_watts"] == "denied"
    assert session["gpus"][2]["unavailable"]["temperature_celsius"] == "timeout"
    assert [g.get("mig_profile") for g in session["gpus"]][3:] == ["1g.18gb", "2g.35gb"]
    assert "pcie_rx_bytes_per_second" in lines[1]["gpus"][1]


def test_compat_record_has_exactly_the_keys(watch):
    got = watch(scenes.busy(2, "1s"), "--compat")
    lines = objects(got.stdout)
    assert len(lines) == 6
    assert [list(o) for o in lines] == [["timestamp", "gpu_id", "gpu_util_percent", "mem_used_gb", "mem_total_gb",
                                         "mem_usage_ratio", "pytorch_allocated_gb", "pytorch_reserved_gb"]] * 6
    assert lines[1] == {"timestamp": 1795953600.0, "gpu_id": 1, "gpu_util_percent": 93, "mem_used_gb": 70.0,
                        "mem_total_gb": 140.0, "mem_usage_ratio": 0.5, "pytorch_allocated_gb": None,
                        "pytorch_reserved_gb": None}
    assert got.stdout.splitlines()[0] == (
        '{"timestamp": 1795953600.000000, "gpu_id": 0, "gpu_util_percent": 93, "mem_used_gb": 70.00, '
        '"mem_total_gb": 140.00, "mem_usage_ratio": 0.500, "pytorch_allocated_gb": null, "pytorch_reserved_gb": null}')


def test_quiet_leaves_the_samples_out(watch):
    kinds = [o["type"] for o in objects(watch(scenes.idle(), "--json", "--quiet").stdout)]
    assert "sample" not in kinds and kinds.count("finding") >= 1 and kinds[0] == "session"


def test_verbose_tells_what_each_rule_thinks(watch):
    out = watch(scenes.busy(1, "10s"), "--verbose", "--quiet").stdout
    rules = set(re.findall(r"^  (\w+) +", out, re.M))
    assert {"inefficient", "memory", "hardware", "sensor"} <= rules
    assert ": nothing found" in out
    # Link figures are unsupported in this scene: that is no clean bill of health.
    assert re.search(r"^  link +\S+: (cannot tell|too little data)", out, re.M)


def test_summary_is_exact(watch, schemas):
    """Against Python's statistics over the samples that the same run printed."""
    text = scenes.climbing("40s") + "@20s\ngpu 0 power_watts=300W..700W/10s utilization_ratio=50%\n"
    lines = objects(watch(text, "--json", "--summary").stdout)
    summary = lines[-2]
    schemas["summary"].validate(summary)
    samples = [o["gpus"][0] for o in lines if o["type"] == "sample"]
    # Utilisation is kept as the driver's own samples, one each 200 ms: 100 of 93 %, then 101 of 50 %.
    utilization = summary["gpus"][0]["windows"]["utilization_ratio"]
    assert utilization["samples"] == 201
    assert utilization["mean"] == pytest.approx((100 * 0.93 + 101 * 0.5) / 201)
    for metric in ("memory_used_bytes", "power_watts"):
        values, window = [s[metric] for s in samples], summary["gpus"][0]["windows"][metric]
        assert window["samples"] == len(values) == 81
        assert window["mean"] == pytest.approx(statistics.fmean(values), rel=1e-9)
        assert (window["peak"], window["min"]) == (max(values), min(values))
        assert min(abs(window["standard_deviation"] - sd(values)) / sd(values)
                   for sd in (statistics.pstdev, statistics.stdev)) < 1e-9
        assert window["median"] == pytest.approx(statistics.median(values), rel=1e-9)
        times = [i * 0.5 for i in range(81)]
        slope = statistics.linear_regression(times, values).slope
        assert window["slope_per_second"] == pytest.approx(slope, rel=1e-6)


def test_summary_covers_the_last_window_only(watch, tmp_path):
    config = tmp_path / "alula.yaml"
    config.write_text("sampling:\n  window: 5s\n")
    lines = objects(watch(scenes.idle("20s"), "--json", "--summary", "--config", config).stdout)
    window = lines[-2]["gpus"][0]["windows"]["power_watts"]
    assert (window["samples"], window["mean"], window["peak"]) == (10, 130, 130)


def test_color_only_when_wanted(watch):
    assert "\033[" not in watch(scenes.busy(1, "1s")).stdout
    assert "\033[32m" in watch(scenes.busy(1, "1s"), "--color").stdout
    assert "\033[" not in watch(scenes.busy(1, "1s"), "--color", "--no-color").stdout


# --- options --------------------------------------------------------------------------------------------------------


def test_for_stops(watch):
    lines = objects(watch(scenes.busy(1, "30s"), "--json", "--for", "2s").stdout)
    assert [o["tick"] for o in lines if o["type"] == "sample"] == [1, 2, 3, 4, 5]


def test_interval_and_gpu(watch):
    lines = objects(watch(scenes.busy(4, "2s"), "--json", "--interval", "1s", "--gpu", "2,0").stdout)
    samples = [o for o in lines if o["type"] == "sample"]
    assert len(samples) == 3
    assert [g["index"] for g in samples[0]["gpus"]] == [0, 2]
    # A job's processes elsewhere are no concern of this view.
    assert [g["index"] for p in samples[0]["processes"] for g in p["gpus"]] == [0, 2]


@pytest.mark.parametrize("level, status", [("info", 3), ("warning", 3), ("critical", 0)])
def test_fail_on(watch, level, status):
    assert watch(scenes.idle("20s"), "--fail-on", level, "--quiet").returncode == status


def test_fail_on_needs_a_finding(watch):
    assert watch(scenes.busy(1, "20s"), "--fail-on", "info").returncode == 0


def test_memory_about_to_run_out_by_model_size(watch):
    """70 GiB of 140 climbing: 80 % holds for a 7B model, 90 % for a 70B one; each is crossed at its own time."""
    began = {}
    for size in ("7B", "70B"):
        lines = objects(watch(scenes.climbing(), "--json", "--model-size", size).stdout)
        first = [o for o in findings(lines) if o["rule"] == "memory"][0]
        used = [e["value"] for e in first["evidence"] if e["name"] == "memory_used_bytes"][0] / (140 * 2**30)
        began[size] = (first["began"], used)
        assert first["level"] in ("warning", "critical")
    assert 0.80 < began["7B"][1] < 0.84
    assert 0.90 < began["70B"][1] < 0.94


@pytest.mark.parametrize("args, message", [
    (["--for", "5"], None),
    (["--for", "soon"], "--for soon: expected a time such as 60s, 10min or 2h"),
    (["--for", "-1s"], "--for -1s: expected a time such as 60s, 10min or 2h"),
    (["--interval", "50ms"], "--interval 50ms: must lie between 100ms and 1h"),
    (["--interval", "2h"], "--interval 2h: must lie between 100ms and 1h"),
    (["--interval", "fast"], "--interval fast: expected a time such as 500ms or 2s"),
    (["--gpu", "0;1"], "--gpu 0;1: expected indices, UUIDs"),
    (["--gpu", ""], "--gpu : expected indices, UUIDs"),
    (["--speed", "-1"], "--speed -1: expected a number from 0"),
    (["--fail-on", "bad"], "--fail-on bad: expected info, warning or critical"),
    (["--model-size", "big"], "--model-size big: expected billions of parameters, such as 7B"),
    (["extra"], "watch: unexpected argument extra"),
])
def test_bad_options_are_one_line_and_exit_2(watch, args, message):
    got = watch(scenes.busy(1, "1s"), *args)
    if message is None:
        assert got.returncode == 0
        return
    assert got.returncode == 2
    assert got.stdout == ""
    assert got.stderr.startswith("alula: " + message) and got.stderr.count("\n") == 1


def test_gpu_that_is_not_there(watch):
    got = watch(scenes.busy(2, "1s"), "--gpu", "7")
    assert got.returncode == 5 and got.stdout == "" and got.stderr.count("\n") == 1


# --- signals and streams --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_cleanly(alula_bin, tmp_path, number):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(1, "10min"))
    with scenes.running(alula_bin, "watch", "--json", "--source", f"scenario:{path}") as p:
        assert json.loads(p.stdout.readline())["type"] == "session"
        assert json.loads(p.stdout.readline())["type"] == "sample"
        p.send_signal(number)
        rest, err = p.communicate(timeout=10)
        assert (p.returncode, err) == (0, "")
        assert json.loads(rest.splitlines()[-1])["type"] == "end"


def test_lines_come_when_they_happen(alula_bin, tmp_path):
    """Into a pipe too: a line is there before the next tick is due."""
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(1, "10min"))
    with scenes.running(alula_bin, "watch", "--interval", "1h", "--source", f"scenario:{path}") as p:
        assert "GPU 0" in p.stdout.readline()


def test_reload_keeps_the_model_size(alula_bin, tmp_path):
    scene, config, log = tmp_path / "scene.txt", tmp_path / "alula.yaml", tmp_path / "log"
    scene.write_text(scenes.busy(1, "10min") + "@2s\ngpu 0 memory_used_bytes=112.5GiB..122GiB/30s\n")
    config.write_text("inefficient:\n  enabled: false\n")
    with open(log, "w") as err, scenes.running(alula_bin, "watch", "--json", "--quiet", "--interval", "100ms", "--config",
                                               config, "--model-size", "7B", "--source", f"scenario:{scene}",
                                               stderr=err) as p:
        assert json.loads(p.stdout.readline())["type"] == "session"
        p.send_signal(signal.SIGHUP)
        assert scenes.wait_for(lambda: "reloaded" in log.read_text())
        assert json.loads(p.stdout.readline())["rule"] == "memory"  # at 80 %


def test_reload_good_and_bad(alula_bin, tmp_path):
    scene, config, log = tmp_path / "scene.txt", tmp_path / "alula.yaml", tmp_path / "log"
    scene.write_text(scenes.idle("10min").replace("@5s", "@0.5s"))
    config.write_text("inefficient:\n  enabled: false\n")
    with open(log, "w") as err, scenes.running(alula_bin, "watch", "--json", "--quiet", "--interval", "100ms", "--config",
                                               config, "--source", f"scenario:{scene}", stderr=err) as p:
        assert json.loads(p.stdout.readline())["type"] == "session"
        config.write_text("inefficient:\n  utilization_below: 20C\n")
        p.send_signal(signal.SIGHUP)
        assert scenes.wait_for(lambda: "stay in force" in log.read_text())
        config.write_text("inefficient:\n  ticks: 5\n")
        p.send_signal(signal.SIGHUP)
        assert scenes.wait_for(lambda: "reloaded" in log.read_text())
        # The rule was off, and a bad file did not change that; the good one switched it on.
        finding = json.loads(p.stdout.readline())
        assert (finding["type"], finding["rule"], finding["phase"]) == ("finding", "inefficient", "began")
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=10)
        assert p.returncode == 0
    lines = log.read_text().splitlines()
    assert lines[0].startswith(f"alula: {config}:2:")
    assert lines[1] == "alula: SIGHUP: the settings from before stay in force"
    assert lines[2].startswith(f"alula: SIGHUP: {config} reloaded")
    assert len(lines) == 3


def test_reload_without_a_config_says_so(alula_bin, tmp_path):
    scene, log = tmp_path / "scene.txt", tmp_path / "log"
    scene.write_text(scenes.busy(1, "10min"))
    with open(log, "w") as err, scenes.running(alula_bin, "watch", "--interval", "100ms", "--source", f"scenario:{scene}",
                                               stderr=err) as p:
        p.stdout.readline()
        p.send_signal(signal.SIGHUP)
        assert scenes.wait_for(lambda: log.read_text())
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=10)
    assert log.read_text() == "alula: SIGHUP: no --config given, nothing to reload\n"


def test_closed_pipe(alula_bin, tmp_path):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(1, "10min"))
    with scenes.running(alula_bin, "watch", "--interval", "100ms", "--source", f"scenario:{path}") as p:
        assert p.stdout.readline()
        p.stdout.close()
        assert p.wait(timeout=10) == 141  # as a program that SIGPIPE ends
        assert p.stderr.read() == ""
        p.stdout = open("/dev/null")


@pytest.mark.parametrize("args", [["watch", "--json"], ["watch"], ["watch", "--compat"], ["stat"], ["stat", "--json"],
                                  ["doctor"], ["doctor", "--json"]])
def test_full_disk(alula_bin, tmp_path, args):
    path = tmp_path / "scene.txt"
    path.write_text(scenes.busy(1, "10s"))
    with open("/dev/full", "w") as full:
        got = subprocess.run([alula_bin, *args, "--source", f"scenario:{path}", "--speed", "0"], stdout=full,
                             stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert got.returncode == 1
    assert got.stderr == "alula: cannot write the output: No space left on device\n"


# --- recording ------------------------------------------------------------------------------------------------------


def told(lines):
    """What findings say, without times that depend on the run."""
    return [(o["rule"], o["phase"], o["level"], o["gpu"], o["pid"], o["time"], o["message"]) for o in findings(lines)]


@pytest.mark.parametrize("scene", ["starved", "idle", "climbing"])
def test_recording_played_again_finds_the_same(watch, alula, tmp_path, scene):
    text = getattr(scenes, scene)()
    record = tmp_path / "record.txt"
    first = objects(watch(text, "--json", "--record-scenario", record).stdout)
    again = alula("watch", "--json", "--source", f"scenario:{record}", "--speed", 0)
    second = objects(again.stdout)
    assert told(first) == told(second) != []
    pick = lambda lines: [(o["time"], o["gpus"], o["processes"]) for o in lines if o["type"] == "sample"]
    assert pick(second)[:len(pick(first))] == pick(first)


def test_recording_does_not_overwrite(watch, tmp_path):
    record = tmp_path / "record.txt"
    record.write_text("precious")
    got = watch(scenes.busy(1, "1s"), "--record-scenario", record)
    assert got.returncode == 1 and got.stderr == f"alula: {record}: exists already; choose another name\n"
    assert record.read_text() == "precious"


def test_recording_is_private(watch, tmp_path):
    record = tmp_path / "record.txt"
    watch(scenes.busy(1, "1s"), "--record-scenario", record)
    assert record.stat().st_mode & 0o777 == 0o600


def test_recording_onto_a_full_disk(watch):
    got = watch(scenes.busy(1, "1s"), "--record-scenario", "/dev/full")
    assert got.returncode == 1 and got.stdout == ""


# --- hostile content ------------------------------------------------------------------------------------------------

def test_process_names_cannot_steer_the_screen(watch, schemas, tmp_path):
    name = "ev\x1b[2Jil\x07"
    text = scenes.idle().replace("comm=python exe=python", f'comm="{name}" exe="{name}"')
    text = text.replace("rank=0 job", "job").replace("role=rank ", "role=other ")
    got = watch(text)
    if got.returncode == 6:  # the reader may refuse such bytes outright
        assert "\x1b" not in got.stderr
        return
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", got.stdout)
    for line in objects(watch(text, "--json").stdout):
        schemas[line["type"]].validate(line)


def test_ten_thousand_processes(watch, schemas):
    rows = "".join(f"proc {pid} ppid=1 alive=yes user=u{pid % 7} comm=python\nrow {pid} gpu={pid % 8} memory_bytes=1MiB\n"
                   for pid in range(1000, 11000))
    got = watch(scenes.head(8, "1s") + "@0s\n" + rows, "--json", timeout=60)
    assert got.returncode == 0, got.stderr
    lines = objects(got.stdout)
    samples = [o for o in lines if o["type"] == "sample"]
    assert [len(o["processes"]) for o in samples] == [10000] * 3
    schemas["sample"].validate({**samples[0], "processes": samples[0]["processes"][:50]})


# --- the scenarios of tests/scenarios -------------------------------------------------------------------------------

EXPECTED = {
    "climbing": [("memory", "critical", 0)],
    "denied": [],
    "eight-healthy": [],
    "evaluating": [],
    "extra-contexts": [("contexts", "warning", 0)],
    "full-but-flat": [],
    "hang": [("sensor", "warning", None)],  # the call, not each GPU that it leaves without figures
    "host-leak": [("host_memory", "critical", None)],
    "idle": [],
    "inefficient": [("inefficient", "info", 0)],
    "link-degraded": [("link", "warning", 1)],
    "lost-and-back": [("sensor", "critical", 1)],
    "mig": [],
    "old-driver": [],
    "orphan": [("orphan", "warning", 0)],
    "sixty-four": [],
    "slow-loader": [("inefficient", "info", 0), ("starved", "info", 0)],
    "starved": [("starved", "info", 0)],
    "throttled": [("throttled", "warning", 2)],
    "unified-memory": [],
    "uneven": [("uneven", "warning", 3)],
    "xid": [("hardware", "warning", 0)],
}


def test_every_scenario_has_its_expectation(scenarios):
    assert {p.stem for p in scenarios.glob("*.txt")} - {"h200-session"} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_scenario_finds_what_it_holds_and_nothing_else(alula, scenarios, schemas, name):
    got = alula("watch", "--json", "--quiet", "--source", f"scenario:{scenarios / name}.txt", "--speed", 0)
    assert (got.returncode, got.stderr) == (0, "")
    lines = objects(got.stdout)
    for line in lines:
        schemas[line["type"]].validate(line)
    began = sorted({(o["rule"], o["level"], o["gpu"]) for o in findings(lines) if o["phase"] == "began"}, key=str)
    assert began == sorted(EXPECTED[name], key=str)


def test_an_evaluation_is_not_held_against_the_job(watch, scenarios):
    """The same idle GPUs without the ranks' word are a finding, and a rank that only trains excuses nothing."""
    text = (scenarios / "evaluating.txt").read_text()
    assert findings(objects(watch(text, "--json", "--quiet").stdout)) == []
    got = watch(text, "--quiet", "--verbose")
    assert re.search(r"inefficient +GPU-\S+: nothing found", got.stdout)
    for other in ("".join(line for line in text.splitlines(True) if not line.startswith("rank ")),
                  text.replace("phase=evaluation", "phase=forward").replace("phase=save", "phase=forward")):
        told = findings(objects(watch(other, "--json", "--quiet").stdout))
        assert {o["rule"] for o in told} == {"inefficient"}
        assert ("rank 0 is past step 500, in forward" in told[0]["message"]) == ("rank 4300" in other)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_command_takes_every_scenario(alula, scenarios, name):
    source = ["--source", f"scenario:{scenarios / name}.txt", "--speed", "0"]
    for command in (["stat", "-a"], ["stat", "--json"], ["smi", "-L"], ["smi", "--query-gpu=index,name,uuid,memory.used"],
                    ["smi", "--query-compute-apps=pid,used_memory"], ["doctor"], ["memory", "4300"], ["watch", "--compat"]):
        got = alula(*command, *source)
        # memory: 1 cannot tell, 5 no such process; doctor: 1 a problem
        allowed = {"memory": (0, 1, 5), "doctor": (0, 1)}.get(command[0], (0,))
        assert got.returncode in allowed and got.stdout + got.stderr, (command, got)


def test_advice_comes_again_when_a_finding_becomes_another_thing(alula, scenarios):
    lines = alula("watch", "--quiet", "--source", f"scenario:{scenarios}/xid.txt", "--speed", 0,
                  env={"TZ": "UTC"}).stdout.splitlines()
    heads = [i for i, line in enumerate(lines) if ": hardware fault -- " in line]
    assert lines[heads[0]].startswith("12:00:08.0  warning: Xid 94")
    assert lines[heads[0] + 2].startswith("    do: Restart that job")
    assert lines[heads[1]].startswith("12:00:12.0  critical: Xid 48")
    assert lines[heads[1] + 2].startswith("    do: Restart what ran on it and reset the GPU")
    assert len(heads) == 2  # the same again is no news


@pytest.mark.parametrize("name", ["inefficient", "starved", "climbing", "throttled"])
def test_findings_need_the_evidence_that_they_name(alula, scenarios, name):
    """A finding carries numbers with units and sources, and says no more confidence than its kinds of evidence bear."""
    lines = objects(alula("watch", "--json", "--quiet", "--source", f"scenario:{scenarios / name}.txt", "--speed", 0).stdout)
    for o in findings(lines):
        assert o["evidence"] and all(e["source"] for e in o["evidence"]), o
        assert o["advice"] and o["considered"]
