# SPDX-License-Identifier: Apache-2.0
"""alula serve: what the pages say, as their readers read them."""

import json
import os
import re
import signal
import socket
import time

import jsonschema
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import scenes
from serving import secret_file, serving

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
# What Prometheus 2.50 and 3.x send.
PROMETHEUS = ("application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
              "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
TOKEN = "Bearer 0123456789abcdef"


def scene(tmp_path, text, name="scene.txt"):
    path = tmp_path / name
    path.write_text(text)
    return f"scenario:{path}"


@pytest.fixture(scope="module")
def busy(alula_bin, tmp_path_factory):
    """Two busy GPUs, one of them with an ended and an open finding to come; shared by the tests that only look."""
    path = tmp_path_factory.mktemp("serve")
    text = scenes.busy(2, "600s") + ("gpu 0-1 energy_joules=5000J clocks_event_reasons=0x4 pcie_replays=3\n"
                                     "node memory_total_bytes=1TiB memory_available_bytes=900GiB cpu_ratio=25%\n"
                                     'rank 4300 job=4200 rank=0 world_size=2 source=hook training=1 phase=forward step=12 data_ratio=2%\n'
                                     'proc 4301 uid=64001 rank=1\nrank 4301 job=4200 rank=1 world_size=2 phase=data\n')
    tokens = secret_file(path / "tokens", TOKEN.split()[1] + "\n")
    config = path / "alula.yaml"
    config.write_text(f"serve:\n  tokens_file: {tokens}\n  anonymous: true\n")
    with serving(alula_bin, "--source", scene(path, text), "--config", config, "--dcgm-names") as server:
        yield server


def families(server, **headers):
    answer = server.get("/metrics", **headers)
    assert answer.status == 200
    parse = parse_openmetrics if answer.headers["content-type"] == OPENMETRICS else parse_text
    return {family.name: family for family in parse(answer.text)}


def samples(found):
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in found.values() for s in f.samples}


# --- /metrics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept, expected", [
    (None, TEXT), ("*/*", TEXT), ("text/plain", TEXT), (PROMETHEUS, OPENMETRICS),
    ("application/openmetrics-text; version=1.0.0", OPENMETRICS), ("application/json", TEXT)])
def test_format_is_negotiated(busy, accept, expected):
    answer = busy.get("/metrics", **({"Accept": accept} if accept else {}))
    assert answer.status == 200 and answer.headers["content-type"] == expected
    assert answer.headers["vary"] == "Accept" and answer.headers["cache-control"] == "no-store"
    assert answer.text.endswith("\n") and (answer.text.endswith("\n# EOF\n")) == (expected == OPENMETRICS)


def test_values_are_the_samples_in_base_units(busy):
    found = samples(families(busy))
    uuids = {dict(labels)["gpu"]: dict(labels)["uuid"] for (name, labels) in found if name == "alula_gpu_up"}
    assert sorted(uuids) == ["0", "1"]

    def gpu(name, index="0", **more):
        return found[name, tuple(sorted({"gpu": index, "uuid": uuids[index], **more}.items()))]

    assert gpu("alula_gpu_utilization_ratio") == 0.93
    assert gpu("alula_gpu_memory_used_bytes", "1") == 70 * 2**30
    assert gpu("alula_gpu_power_watts") == 655.2
    assert gpu("alula_gpu_temperature_celsius") == 60
    assert gpu("alula_gpu_sm_clock_hertz") == 1.98e9
    assert gpu("alula_gpu_energy_joules_total") == 5000
    assert gpu("alula_gpu_pcie_replays_total") == 3
    assert gpu("alula_gpu_clocks_event_reason", reason="sw_power_cap") == 1
    assert gpu("alula_gpu_clocks_event_reason", reason="hw_slowdown") == 0
    assert gpu("alula_gpu_processes") == 1
    assert found["alula_node_cpu_ratio", ()] == 0.25
    assert found["alula_up", ()] == 1
    assert found["alula_sampling_interval_seconds", ()] == 0.5
    assert 0 <= found["alula_sample_age_seconds", ()] < 2
    assert 1 <= found["alula_ticks_total", ()] < 10000
    assert 1e6 < found["alula_self_resident_bytes", ()] < 1e9
    assert not [name for (name, _) in found if "memory_temperature" in name]  # not read, no series


def test_both_formats_and_types_agree(busy):
    moving = re.compile("alula_(self|tick|sample|http|finding)|DCGM")  # the text parser adds _total to DCGM's counters
    text, openmetrics = families(busy), families(busy, Accept=PROMETHEUS)
    steady = [{key: value for key, value in samples(found).items() if not moving.match(key[0])}
              for found in (text, openmetrics)]
    assert steady[0] == steady[1] and len(steady[0]) > 50
    assert openmetrics["alula_gpu_energy_joules"].type == "counter" and openmetrics["alula_gpu_energy_joules"].unit == "joules"
    assert openmetrics["alula_gpu"].type == "info"
    assert openmetrics["alula_gpu_utilization_ratio"].unit == "ratio"
    assert text["alula_gpu_energy_joules"].type == "counter"
    assert all(family.documentation for family in openmetrics.values())


def test_label_sets_stay_small(busy):
    """What a GPU is stands in the info series; others are told by gpu and uuid alone."""
    kept = {"alula_gpu_info", "alula_gpu_clocks_event_reason", "alula_gpu_xid_code_errors_total"}
    for name, labels in samples(families(busy)):
        if name.startswith("alula_gpu_") and name not in kept:
            assert set(dict(labels)) == {"gpu", "uuid"}, name
        if name == "alula_gpu_info":
            assert set(dict(labels)) == {"gpu", "uuid", "name", "pci_bus_id", "driver_version", "minor_number"}


def test_names_in_the_documentation_exist(busy, root):
    """The names that docs/serve.md promises, apart from those that need a fault, a kubelet or a receiver."""
    text = (root / "docs" / "serve.md").read_text()
    promised = set(re.findall(r"`(alula_(?!pod_|gpu_pod_|push_)[a-z_0-9]+)", text)) - {"alula_gpu_", "alula_node_", "alula_rank_"}
    need_faults = {"alula_driver_call_hung_seconds", "alula_gpu_xid_code_errors_total", "alula_gpu_xid_errors_total",
                   "alula_finding_active", "alula_driver_calls_total", "alula_driver_call_errors_total",
                   "alula_driver_call_seconds_total", "alula_driver_call_max_seconds",
                   "alula_process_resident_bytes", "alula_process_resident_anonymous_bytes", "alula_process_gpu_sm_ratio"}
    there = {name for name, _ in samples(families(busy, Authorization=TOKEN))}
    assert promised - need_faults - there == set()


def test_ranks_are_for_those_with_credentials(busy):
    found = samples(families(busy, Authorization=TOKEN))
    labels = (("pid", "4300"), ("rank", "0"))
    assert found["alula_rank_step_total", labels] == 12 and found["alula_rank_data_ratio", labels] == 0.02
    assert found["alula_rank_phase", (("phase", "forward"), *labels)] == 1
    assert found["alula_rank_phase", (("phase", "save"), *labels)] == 0
    assert not [name for name, _ in samples(families(busy)) if name.startswith("alula_rank")]
    assert [r["phase"] for r in busy.get("/api/v1/snapshot", Authorization=TOKEN).json()["ranks"]] == ["forward", "data"]
    assert 4301 not in [r["pid"] for r in busy.get("/api/v1/snapshot").json()["ranks"]]  # a process of another user


def test_dcgm_names_and_labels(busy):
    text = busy.get("/metrics").text
    uuid = re.search(r'alula_gpu_up\{gpu="1",uuid="(.+?)"', text)[1]
    bus = re.search(rf'alula_gpu_info\{{gpu="1",.*?pci_bus_id="(.+?)"', text)[1]
    labels = (f'{{gpu="1",UUID="{uuid}",pci_bus_id="{bus}",device="nvidia1",modelName="NVIDIA H200",Hostname="node1",'
              'DCGM_FI_DRIVER_VERSION="580.159.04"}')
    for line in (f"DCGM_FI_DEV_SM_CLOCK{labels} 1980", f"DCGM_FI_DEV_GPU_UTIL{labels} 93", f"DCGM_FI_DEV_FB_USED{labels} 71680",
                 f"DCGM_FI_DEV_POWER_USAGE{labels} 655.200000", f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{labels} 5000000",
                 f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{labels} 0.400000"):
        assert f"\n{line}\n" in text
    assert "DCGM_FI" not in busy.get("/").text


def test_no_dcgm_names_unless_asked_for(alula_bin, tmp_path):
    with serving(alula_bin, "--source", scene(tmp_path, scenes.busy(1))) as server:
        assert "DCGM" not in server.get("/metrics").text


# --- JSON -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def openapi(root):
    return json.loads((root / "docs" / "openapi.json").read_text())


def validate(openapi, answer, path, status=None):
    """The answer's code is described for the path, and its body fits."""
    described = openapi["paths"][path]["get"]["responses"].get(str(status or answer.status))
    assert described, (path, answer.status)
    content = described.get("content", {})
    kind = answer.headers["content-type"].split(";")[0]
    assert kind in content, (path, kind)
    if kind == "application/json":
        schema = {**content[kind]["schema"], "components": openapi["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())


def test_openapi_is_served_and_sound(busy, openapi, root):
    answer = busy.get("/api/openapi.json")
    assert answer.text == (root / "docs" / "openapi.json").read_text()
    for name, schema in openapi["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema), name
    for item in openapi["paths"].values():
        assert set(item) == {"get"} and item["get"]["summary"] and item["get"]["responses"]["200"]
    listed = set(re.findall(r"href='?(/[\w/.]*)", busy.get("/").text))
    assert listed == set(openapi["paths"])


@pytest.mark.parametrize("path", ["/metrics", "/metrics.json", "/api/v1/snapshot", "/api/v1/findings", "/healthz", "/readyz",
                                  "/api/v1/series?metric=power_watts", "/api/openapi.json", "/api/v1/findings?state=ended",
                                  "/api/v1/series?metric=node.cpu_ratio&step=1", "/metrics.json?gpu=1"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": TOKEN}], ids=["anonymous", "token"])
def test_answers_fit_openapi(busy, openapi, path, headers):
    answer = busy.get(path, **headers)
    assert answer.status == 200
    validate(openapi, answer, path.split("?")[0])


@pytest.mark.parametrize("path, status, message", [
    ("/metrics.json?gpu=7", 404, "no such GPU"), ("/metrics.json?gpu=x", 400, "gpu"),
    ("/api/v1/findings?state=all", 400, "open or ended"),
    ("/api/v1/series", 400, "metric: name one"), ("/api/v1/series?metric=nonsense", 404, 'no "nonsense"'),
    ("/api/v1/series?metric=node.nonsense", 404, "node.nonsense"),
    ("/api/v1/series?metric=energy_joules", 400, "windows are kept of gauges"),
    ("/api/v1/series?metric=power_watts&gpu=9", 404, "matches none"),
    ("/api/v1/series?metric=power_watts&gpu=%25", 400, "is no index"),
    ("/api/v1/series?metric=power_watts&from=yesterday", 400, "from:"),
    ("/api/v1/series?metric=power_watts&step=0", 400, "step:"), ("/api/v1/series?metric=power_watts&step=nan", 400, "step:"),
    ("/api/v1/series?metric=power_watts&from=-1&to=-5", 400, "from lies behind to"),
    ("/api/v1/events?types=nothing", 400, "types"),
    ("/api/v1/series?metric=power_watts&metric=x", 400, "cannot be read"), ("/api/v1/series?metric=%zz", 400, "cannot be read"),
])
def test_wrong_queries_are_told(busy, openapi, path, status, message):
    answer = busy.get(path)
    assert answer.status == status and message in answer.json()["error"]
    validate(openapi, answer, path.split("?")[0])


def test_the_documents_three_keys(busy):
    answer = busy.get("/metrics.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.text == '{"gpu_util": 93, "gpu_mem_used": 70, "system_ram_gb": 124}\n'
    assert busy.get("/metrics.json?gpu=1").json() == answer.json()


def test_the_documents_keys_are_null_when_not_known(alula_bin, tmp_path):
    with serving(alula_bin, "--source", scene(tmp_path, scenes.head() + "@0s\ngpu 0 temperature_celsius=60\n")) as server:
        assert server.get("/metrics.json").json() == {"gpu_util": None, "gpu_mem_used": None, "system_ram_gb": None}


def test_snapshot_is_what_watch_prints(busy, alula, tmp_path):
    watch = alula("watch", "--json", "--speed", "0", "--for", "2s", "--source", scene(tmp_path, scenes.busy(2)))
    line = next(line for line in map(json.loads, watch.stdout.splitlines()) if line["type"] == "sample")
    got = busy.get("/api/v1/snapshot", Authorization=TOKEN).json()
    assert list(got) == list(line)
    assert [list(gpu) for gpu in got["gpus"]] == [list(gpu) for gpu in line["gpus"]]
    assert [p["command"] for p in got["processes"]] == [p["command"] for p in line["processes"]]


def test_series_are_the_windows(alula_bin, tmp_path):
    """A ramp of 10 W a second: each point where it belongs, means by step."""
    text = scenes.busy(1, "60s") + "@0s\ngpu 0 power_watts=0W..600W/60s\n"
    with serving(alula_bin, "--source", scene(tmp_path, text), "--speed", "8") as server:
        assert scenes.wait_for(lambda: server.metric("alula_ticks_total") >= 60)
        start = 1795953600  # of the scenario
        got = server.get(f"/api/v1/series?metric=power_watts&gpu=0&to={start + 20}").json()
        assert got["unit"] == "watts" and got["step_seconds"] is None and got["columns"] == ["time", "value"]
        points = got["series"][0]["points"]
        assert points[0] == [start, 0] and points[-1] == [start + 20, 200] and len(points) == 41
        assert all(value == pytest.approx((t - start) * 10) for t, value in points)
        got = server.get(f"/api/v1/series?metric=power_watts&from={start + 5}&to={start + 14.5}&step=5").json()
        assert got["columns"] == ["time", "mean", "min", "max"]
        assert got["series"][0]["points"] == [[start + 5, 72.5, 50, 95], [start + 10, 122.5, 100, 145]]
        last = server.get("/api/v1/series?metric=power_watts&from=-2").json()["series"][0]["points"]
        assert 4 <= len(last) <= 5
        assert server.get("/api/v1/series?metric=node.cpu_ratio").json()["series"][0] == {"gpu": None, "uuid": None, "points": []}
    # The clock of a replay is the recording's.


# --- findings and events --------------------------------------------------------------------------------------------


def events(connection, path, count, **headers):
    """The first events of a stream as (event, id, data)."""
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    assert response.status == 200 and response.headers["content-type"] == "text/event-stream"
    found, event = [], {}
    while len(found) < count:
        line = response.readline().decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event.get("event"):
            found.append((event["event"], event.get("id"), json.loads(event["data"])))
            event = {}
    return found


def test_events_come_as_they_happen(busy, openapi):
    connection = busy.connection()
    got = events(connection, "/api/v1/events?types=sample", 3, Authorization=TOKEN)
    connection.close()
    assert [event for event, _, _ in got] == ["sample"] * 3
    ticks = [data["tick"] for _, _, data in got]
    assert ticks == list(range(ticks[0], ticks[0] + 3))
    schema = {"$ref": "#/components/schemas/Snapshot", "components": openapi["components"]}
    for _, _, data in got:
        jsonschema.Draft202012Validator(schema).validate(data)
    assert got[0][2]["processes"]


def test_a_finding_is_told_everywhere(alula_bin, tmp_path, openapi):
    text = scenes.starved("300s") + "@60s\ngpu 0 utilization_ratio=95%\nproc 4300 io_wait_ratio=0%\n"
    text = text.replace("user=alice", f"user=alice uid={os.getuid()}")  # alula's own user sees its processes
    with serving(alula_bin, "--source", scene(tmp_path, text), "--speed", "10") as server:
        connection = server.connection(30)
        (event, first_id, began), *more = events(connection, "/api/v1/events?types=finding", 1)
        connection.close()
        assert (event, first_id, began["rule"], began["phase"]) == ("finding", "1", "starved", "began")
        assert began["message"] and began["job"] == 4200
        schema = {"$ref": "#/components/schemas/Finding", "components": openapi["components"]}
        jsonschema.Draft202012Validator(schema).validate(began)
        active = scenes.wait_for(lambda: re.search(r'^alula_finding_active\{rule="starved",severity="(\w+)",(.*)\} 1$',
                                                   server.get("/metrics").text, re.M))
        assert active and f'uuid="{began["gpu_uuid"]}"' in active[2] and f'key="{began["key"]}"' in active[2]
        answer = server.get("/api/v1/findings")
        validate(openapi, answer, "/api/v1/findings")
        assert [f["key"] for f in answer.json()["findings"]] == [began["key"]]
        ended = scenes.wait_for(lambda: server.get("/api/v1/findings?state=ended").json()["findings"])
        assert ended and ended[0]["key"] == began["key"] and ended[0]["phase"] == "ended"
        assert server.get("/api/v1/findings").json()["findings"] == []
        assert "alula_finding_active" not in server.get("/metrics").text
        # A client that was away goes on behind what it has seen.
        connection = server.connection(30)
        again = events(connection, "/api/v1/events?types=finding", 2, **{"Last-Event-ID": "1"})
        connection.close()
        assert [identity for _, identity, _ in again] == ["2", "3"]


# --- faults of the driver and of the session ------------------------------------------------------------------------


def standin(tmp_path, standin, text, **more):
    path = tmp_path / "driver.txt"
    path.write_text(text)
    return scenes.standin_env(standin, path, **more)


def test_values_of_a_hanging_driver_are_not_told(alula_bin, tmp_path, standin):
    env = globals()["standin"](tmp_path, standin, scenes.busy(1, "60s") + "@1s\nhang nvmlDeviceGetTemperatureV 60s\n"
                               "hang nvmlDeviceGetTemperature 60s\n")
    with serving(alula_bin, env=env) as server:
        assert server.metric("alula_gpu_temperature_celsius") == 60
        assert server.metric("alula_driver_call_hung") == 0
        assert scenes.wait_for(lambda: server.metric("alula_driver_call_hung") == 1)
        text = server.get("/metrics").text
        assert "\nalula_up 0\n" in text
        assert re.search(r'^alula_driver_call_hung_seconds\{call="nvmlDeviceGetTemperature\w*"\} ', text, re.M)
        assert "alula_gpu_temperature_celsius" not in text and "alula_gpu_utilization_ratio" not in text
        answer = server.get("/readyz")
        assert answer.status == 503 and answer.text == "a driver call hangs\n"
        assert server.get("/healthz").status == 200
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0 and time.monotonic() - began < 5


def test_a_lost_gpu_has_no_values(alula_bin, tmp_path, standin):
    env = globals()["standin"](tmp_path, standin, scenes.busy(2, "60s") + "@1s\nlost 1\n")
    with serving(alula_bin, env=env) as server:
        assert scenes.wait_for(lambda: re.search(r'^alula_gpu_up\{gpu="1",uuid=".*"\} 0$', server.get("/metrics").text, re.M))
        text = server.get("/metrics").text
        assert re.search(r'^alula_gpu_up\{gpu="0",uuid=".*"\} 1$', text, re.M)
        assert re.search(r'^alula_gpu_power_watts\{gpu="0"', text, re.M)
        assert not re.search(r'^alula_gpu_power_watts\{gpu="1"', text, re.M)


def test_scrapes_never_touch_the_driver(alula_bin, tmp_path, standin):
    """One tick and no scrape, one tick and 1000: the same calls of the driver, function by function."""
    counts = []
    for scrapes in (0, 1000):
        stats = tmp_path / f"stats-{scrapes}"
        env = globals()["standin"](tmp_path, standin, scenes.busy(2, "60s"), ALULA_STANDIN_STATS=str(stats))
        with serving(alula_bin, "--interval", "1h", env=env) as server:
            time.sleep(0.5)  # the slow half of the only tick
            connection = server.connection()
            for i in range(scrapes):
                connection.request("GET", ["/metrics", "/api/v1/snapshot", "/metrics.json", "/readyz"][i % 4])
                assert connection.getresponse().read()
            connection.close()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(10) == 0
        found = json.loads(stats.read_text())
        found.pop("seconds")
        counts.append(json.dumps(found, sort_keys=True))
        assert found["calls"] > 20
    assert counts[0] == counts[1]


def test_driver_calls_have_their_costs(alula_bin, tmp_path, standin):
    env = globals()["standin"](tmp_path, standin, scenes.busy(1, "60s"))
    with serving(alula_bin, env=env) as server:
        text = server.get("/metrics").text
        calls = re.search(r'^alula_driver_calls_total\{call="nvmlDeviceGetMemoryInfo_v2"\} (\d+)$', text, re.M)
        assert calls and int(calls[1]) >= 1
        assert float(re.search(r'^alula_driver_call_seconds_total\{call="nvmlDeviceGetMemoryInfo_v2"\} (\S+)$', text, re.M)[1]) > 0


def test_xids_are_counted_by_code(alula_bin, tmp_path, standin):
    env = globals()["standin"](tmp_path, standin, scenes.busy(1, "60s") + "@1s\nxid 0 31\n@1.5s\nxid 0 31\n")
    with serving(alula_bin, env=env) as server:
        assert scenes.wait_for(lambda: re.search(r'^alula_gpu_xid_code_errors_total\{gpu="0",uuid=".*",code="31"\} 2$',
                                                 server.get("/metrics").text, re.M))


def test_a_sample_that_is_too_old_is_not_told(alula_bin, tmp_path):
    """Nothing ticks any more (here: each tick is a long way off): after stale_after health alone is left."""
    config = tmp_path / "c.yaml"
    config.write_text("sensor:\n  stale_after: 0.2s\n")
    path = tmp_path / "slow.txt"
    path.write_text(scenes.busy(1, "600s").replace("interval 500ms", "interval 100ms"))
    with serving(alula_bin, "--source", f"scenario:{path}", "--config", config) as server:
        assert server.metric("alula_gpu_power_watts") == 655.2
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        server.process.send_signal(signal.SIGCONT)
        server.wait_ready()  # and back


# --- the process ----------------------------------------------------------------------------------------------------


def test_ends_cleanly_on_a_signal_and_at_the_end_of_the_recording(alula_bin, tmp_path):
    with serving(alula_bin, "--source", scene(tmp_path, scenes.busy(1))) as server:
        stream = server.connection()
        stream.request("GET", "/api/v1/events")
        response = stream.getresponse()
        assert response.readline().startswith(b"event: sample")
        server.process.send_signal(signal.SIGTERM)
        response.read()  # the stream ends, too
        assert server.process.wait(10) == 0
        assert server.process.stderr.read() == ""
    with serving(alula_bin, "--source", scene(tmp_path, scenes.busy(1, "2s")), "--speed", "2", wait=False) as server:
        assert server.process.wait(10) == 0


def test_port_taken(alula, busy, tmp_path):
    got = alula("serve", "--listen", f"127.0.0.1:{busy.port}", "--source", scene(tmp_path, scenes.busy(1)))
    assert got.returncode == 1
    assert got.stderr == (f"alula: cannot listen on 127.0.0.1:{busy.port}: the port is taken (another alula serve? --listen "
                          "chooses another)\n")


@pytest.mark.parametrize("args, status, message", [
    (["--listen", "gpu1:9810"], 2, "is no address to listen on"), (["--listen", "127.0.0.1"], 2, "is no address"),
    (["--listen", "192.0.2.77:9810", "--insecure-listen"], 1, "cannot listen on 192.0.2.77:9810"),
    (["--max-processes", "many"], 2, "--max-processes many"), (["--max-processes", "-1"], 2, "--max-processes"),
    (["extra"], 2, "unexpected argument extra")])
def test_wrong_options(alula, tmp_path, args, status, message):
    got = alula("serve", *args, "--source", scene(tmp_path, scenes.busy(1)))
    assert got.returncode == status and message in got.stderr and got.stderr.count("\n") == 1 and got.stdout == ""


def test_ipv6_and_all_addresses(alula_bin, tmp_path):
    if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 here")
    source = scene(tmp_path, scenes.busy(1))
    with serving(alula_bin, "--listen", "[::1]:0", "--source", source) as server:
        assert server.url.startswith("http://[::1]:") and server.get("/healthz").text == "ok\n"
    with serving(alula_bin, "--listen", ":0", "--insecure-listen", "--source", source, wait=False) as server:
        server.host = "127.0.0.1"
        assert server.get("/healthz").text == "ok\n"


def test_the_service_manager_hears_of_it(alula_bin, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(10)
        env = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"}
        with serving(alula_bin, "--source", scene(tmp_path, scenes.busy(1)), "--interval", "100ms", env=env) as server:
            heard = [manager.recv(64).decode() for _ in range(3)]
            assert "READY=1" in heard and heard.count("WATCHDOG=1") >= 1
            server.process.send_signal(signal.SIGTERM)
            while (last := manager.recv(64).decode()) != "STOPPING=1":
                assert last == "WATCHDOG=1"


def test_reload_takes_new_tokens_and_thresholds(alula_bin, tmp_path):
    tokens = secret_file(tmp_path / "tokens", "old-token-0123456\n")
    config = tmp_path / "c.yaml"
    config.write_text(f"serve:\n  tokens_file: {tokens}\n")
    with serving(alula_bin, "--config", config, "--source", scene(tmp_path, scenes.busy(1))) as server:
        def status(token):
            return server.get("/metrics", Authorization=f"Bearer {token}").status

        assert (status("old-token-0123456"), status("new-token-0123456")) == (200, 401)
        secret_file(tokens, "new-token-0123456\n")
        server.process.send_signal(signal.SIGHUP)
        assert scenes.wait_for(lambda: status("new-token-0123456") == 200)
        assert status("old-token-0123456") == 401
        secret_file(tokens, "short\n")  # wrong: the old ones stay in force
        server.process.send_signal(signal.SIGHUP)
        time.sleep(1.2)
        assert status("new-token-0123456") == 200


def test_memory_stays_flat_and_small(alula_bin, tmp_path):
    """Two simulated hours of eight GPUs, scraped all the time. The bench does a whole day."""
    if os.environ.get("ALULA_SANITIZED"):
        pytest.skip("a sanitizer's memory is not alula's")
    with serving(alula_bin, "--source", scene(tmp_path, scenes.busy(8, "7200s")), "--speed", "1000") as server:
        scenes.wait_for(lambda: server.metric("alula_ticks_total") > 3000)
        early = server.resident()
        for _ in range(30):
            server.get("/metrics")
            server.get("/metrics", Accept=PROMETHEUS)
            server.get("/api/v1/snapshot")
            time.sleep(0.05)
        assert server.metric("alula_ticks_total") > 5000
        late = server.resident()
    assert late <= 12 * 2**20 and late - early < 2**20
