# SPDX-License-Identifier: Apache-2.0
"""What alula pushes: OTLP metrics as OpenTelemetry's own messages decode them, and webhooks for findings."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
import urllib.request

import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

import scenes
from receiver import Receiver, attributes

UUID = re.compile(r"GPU-[0-9a-f-]{36}")
GIB = 2**30
START_NS = 1795953600 * 10**9  # 2026-11-29T12:00:00Z, the scenarios' start
OK = (200, {}, b"")


@pytest.fixture(scope="module", autouse=True)
def needs_curl(alula_bin, tmp_path_factory, scenarios):
    folder = tmp_path_factory.mktemp("built")
    path = config(folder, {"endpoint": "http://127.0.0.1:1", "spool": "none", "flush": "0s"})
    ended = subprocess.run([alula_bin, "watch", "--source", f"scenario:{scenarios / 'idle.txt'}", "--speed", "0", "--config",
                            path], capture_output=True, text=True, check=False)
    if "without libcurl" in ended.stderr:
        pytest.skip("this build has no libcurl")


def config(tmp_path, push=None, webhook=None):
    sections = {"push": {"period": "500ms", "replay": "true", "spool": tmp_path / "spool", "retry_min": "50ms",
                         "retry_max": "200ms", "flush": "3s", **(push or {})}, "webhook": webhook or {}}
    lines = []
    for name, values in sections.items():
        lines += [f"{name}:"] + [f"  {key}: {value}" for key, value in values.items()]
    path = tmp_path / "alula.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def scenario(tmp_path, text, name="scene.txt"):
    path = tmp_path / name
    path.write_text(text)
    return path


def watch(alula, tmp_path, text, config_path, *args, speed=10):
    return alula("watch", "--quiet", "--source", f"scenario:{scenario(tmp_path, text)}", "--speed", speed, "--config",
                 config_path, *args)


def spooled(tmp_path):
    return sorted((tmp_path / "spool").glob("*/*.msg"))


# --- what is sent ---

def test_values_are_the_scenarios_and_every_byte_is_read(alula, tmp_path):
    text = scenes.busy(2, "10s") + (
        "gpu 0 encoder_utilization_ratio=25% decoder_utilization_ratio=5% energy_joules=5000 nvlink_rx_bytes=7GiB "
        "nvlink_tx_bytes=3GiB ecc_corrected_volatile_total_errors=4 ecc_uncorrected_volatile_total_errors=1 pcie_replays=9\n"
        "node cpu_ratio=25% memory_available_bytes=1TiB\n@2s\nxid 1 31\n")
    with Receiver() as r:
        ended = watch(alula, tmp_path, text, config(tmp_path, {"endpoint": r.url}))
    assert ended.returncode == 0 and ended.stderr == ""
    assert len(r.got) >= 2
    last = r.got[-1]
    assert last.path == "/v1/metrics" and last.headers["Content-Type"] == "application/x-protobuf" and last.zipped
    assert last.headers["User-Agent"].startswith("alula/")
    # Nothing unknown, and the encoding is the canonical one.
    assert last.request.SerializeToString(deterministic=True) == last.body
    resource = {a.key: a.value.string_value for a in last.request.resource_metrics[0].resource.attributes}
    assert resource["service.name"] == "alula" and resource["host.name"] == "node1" and resource["service.version"]

    labels = [attributes(p) for p in last.points("hw.gpu.memory.usage")]
    gpus = {labels_["hw.name"]: labels_ for labels_ in labels}
    assert set(gpus) == {"gpu0", "gpu1"}
    assert all(UUID.fullmatch(g["hw.id"]) and g["hw.model"] == "NVIDIA H200" and g["hw.vendor"] == "NVIDIA" and
               g["hw.driver_version"] == "580.159.04" and g["hw.serial_number"] for g in gpus.values())
    assert last.values("hw.gpu.utilization", "hw.name", "hw.gpu.task") == {
        ("gpu0", "general"): 0.93, ("gpu0", "encoder"): 0.25, ("gpu0", "decoder"): 0.05, ("gpu1", "general"): 0.93}
    assert last.values("hw.gpu.memory.utilization", "hw.name") == {"gpu0": 0.5, "gpu1": 0.5}
    assert last.values("hw.gpu.memory.usage", "hw.name") == {"gpu0": 70 * GIB, "gpu1": 70 * GIB}
    assert last.values("hw.gpu.memory.limit", "hw.name") == {"gpu0": 140 * GIB, "gpu1": 140 * GIB}
    assert last.values("hw.gpu.io", "network.io.direction") == {"receive": 7 * GIB, "transmit": 3 * GIB}
    assert last.values("hw.power", "hw.name", "hw.type") == {("gpu0", "gpu"): 655.2, ("gpu1", "gpu"): 655.2}
    assert last.values("hw.temperature", "hw.name") == {"gpu0": 60, "gpu1": 60}
    assert last.values("hw.energy", "hw.name") == {"gpu0": 5000}
    assert last.values("hw.errors", "hw.name", "error.type") == {
        ("gpu0", "corrected"): 4, ("gpu0", "uncorrected"): 1, ("gpu0", "pcie_replay"): 9, ("gpu1", "xid_31"): 1}
    assert last.values("hw.status", "hw.name", "hw.state") == {
        (g, s): float(s == "ok") for g in gpus for s in ("ok", "degraded", "failed", "predicted_failure")}
    assert last.values("alula.gpu.sm_active", "hw.name") == {"gpu0": 0.9, "gpu1": 0.9}
    assert last.values("alula.gpu.processes", "hw.name") == {"gpu0": 1, "gpu1": 1}
    assert last.values("alula.node.cpu") == {(): 0.25}
    assert last.values("alula.node.memory_available") == {(): 2**40}


# Instruments and units of the semantic conventions for hardware metrics.
CONVENTION = {
    "hw.gpu.utilization": ("gauge", "1"), "hw.gpu.memory.utilization": ("gauge", "1"),
    "hw.gpu.memory.usage": ("updown", "By"), "hw.gpu.memory.limit": ("updown", "By"), "hw.gpu.io": ("counter", "By"),
    "hw.errors": ("counter", "{error}"), "hw.status": ("updown", "1"), "hw.energy": ("counter", "J"),
    "hw.power": ("gauge", "W"), "hw.temperature": ("gauge", "Cel"),
}


def test_instruments_and_units_are_the_conventions(alula, tmp_path, scenarios):
    with Receiver() as r:
        alula("watch", "--quiet", "--source", f"scenario:{scenarios / 'eight-healthy.txt'}", "--speed", 100, "--config",
              config(tmp_path, {"endpoint": r.url, "gzip": "false"}))
    last = r.got[-1]
    assert not last.zipped
    metrics = last.request.resource_metrics[0].scope_metrics[0].metrics
    names = [m.name for m in metrics]
    assert len(names) == len(set(names)) and len(names) > 50
    for m in metrics:
        assert m.description, m.name
        if m.name.startswith("hw."):
            kind = m.WhichOneof("data")
            if kind == "sum":
                assert m.sum.aggregation_temporality == 2  # cumulative
                kind = "counter" if m.sum.is_monotonic else "updown"
            assert (kind, m.unit) == CONVENTION[m.name], m.name
        else:
            assert m.name.startswith("alula.") and m.unit in {"1", "By", "Cel", "W", "J", "Hz", "s", "By/s", ""}, m.name
        seen = set()
        for p in getattr(m, m.WhichOneof("data")).data_points:
            labels = tuple(sorted(attributes(p).items()))
            assert labels not in seen, m.name
            seen.add(labels)
            assert START_NS <= p.time_unix_nano <= START_NS + 120 * 10**9
            if m.WhichOneof("data") == "sum":
                assert 0 < p.start_time_unix_nano <= p.time_unix_nano


def test_a_counter_that_begins_anew_gets_a_new_start(alula, tmp_path):
    text = scenes.busy(1, "24s") + "gpu 0 energy_joules=1000..1120/12s\n@12s\ngpu 0 energy_joules=10..130/12s\n"
    with Receiver() as r:
        assert watch(alula, tmp_path, text, config(tmp_path, {"endpoint": r.url}), speed=6).returncode == 0
    points = [m.points("hw.energy")[0] for m in r.got if "hw.energy" in m.metrics]
    fall = next(i for i in range(1, len(points)) if points[i].as_double < points[i - 1].as_double)
    before, after = points[:fall], points[fall:]
    assert {p.start_time_unix_nano for p in before} == {before[0].time_unix_nano}
    assert {p.start_time_unix_nano for p in after} == {before[-1].time_unix_nano}
    assert all(p.as_double >= 1000 for p in before) and all(p.as_double <= 130 for p in after)


def test_a_lost_gpu_has_failed_and_no_values(alula, tmp_path):
    text = scenes.busy(2, "20s") + "@4s\nlost 1\n"
    with Receiver() as r:
        watch(alula, tmp_path, text, config(tmp_path, {"endpoint": r.url}))
    last = r.got[-1]
    states = last.values("hw.status", "hw.name", "hw.state")
    assert states[("gpu0", "ok")] == 1 and states[("gpu1", "failed")] == 1 and states[("gpu1", "ok")] == 0
    assert last.values("hw.power", "hw.name").keys() == {"gpu0"}
    assert last.values("hw.gpu.utilization", "hw.name", "hw.gpu.task").keys() == {("gpu0", "general")}
    lost = next(attributes(p)["hw.id"] for p in last.points("hw.status") if attributes(p)["hw.name"] == "gpu1")
    active = [(attributes(p), p.as_double) for p in last.points("alula.finding.active")]
    assert any(a["hw.id"] == lost and a["level"] == "critical" and value == 1 for a, value in active)
    assert last.points("alula.findings.open")[0].as_double == len(active)


def test_mig_devices_name_their_parent(alula, tmp_path, scenarios):
    with Receiver() as r:
        alula("watch", "--quiet", "--source", f"scenario:{scenarios / 'mig.txt'}", "--speed", 100, "--config",
              config(tmp_path, {"endpoint": r.url}))
    labels = [attributes(p) for p in r.got[-1].points("hw.gpu.memory.usage")]
    parts = [a for a in labels if a["hw.id"].startswith("MIG-")]
    assert parts and all(UUID.fullmatch(a["hw.parent"]) and re.fullmatch(r"gpu\d+\.gi\d+\.ci\d+", a["hw.name"]) for a in parts)


def prometheus_name(metric):
    """As the Prometheus OTLP translation makes it (name, unit, _total)."""
    units = {"1": "ratio", "By": "bytes", "Cel": "celsius", "W": "watts", "J": "joules", "Hz": "hertz", "s": "seconds",
             "By/s": "bytes_per_second", "": ""}
    name = metric.name.replace(".", "_")
    if metric.unit == "1" and metric.WhichOneof("data") != "gauge":
        unit = ""
    else:
        unit = units[metric.unit]
    name += f"_{unit}" if unit else ""
    return name + ("_total" if metric.WhichOneof("data") == "sum" and metric.sum.is_monotonic else "")


@pytest.fixture
def serving(alula_bin, tmp_path):
    def start(source, config_path, *args, env=None):
        return scenes.running(alula_bin, "serve", "--listen", "127.0.0.1:0", "--source", f"scenario:{source}",
                              "--config", config_path, *args, env=env)
    return start


def served(process, path="/metrics"):
    url = re.search(r"serving on (\S+)", served_line(process))[1]
    with urllib.request.urlopen(url + path, timeout=10) as answer:
        return answer.read().decode()


def served_line(process):
    if not hasattr(process, "line"):
        process.line = process.stderr.readline()
        while "serving on" not in process.line:
            line = process.stderr.readline()
            assert line, process.line
            process.line += line
    return process.line


def series(text, name):
    return {labels: float(value) for labels, value in re.findall(rf"^{name}{{(.*?)}} (\S+)$", text, re.M)}


def test_prometheus_makes_the_names_of_metrics_of_them(serving, tmp_path, scenarios):
    with Receiver() as r, serving(scenarios / "eight-healthy.txt", config(tmp_path, {"endpoint": r.url})) as p:
        served_line(p)
        r.wait(3)
        text = served(p)
    names = set(re.findall(r"^(\w+)", text, re.M))
    own = [m for m in r.got[-1].metrics.values() if m.name.startswith(("alula.gpu.", "alula.node."))]
    assert len(own) > 40
    # The bit mask is a series a reason there.
    missing = {prometheus_name(m) for m in own} - names - {"alula_gpu_clocks_event_reasons"}
    assert not missing


def test_what_is_pushed_is_counted_in_metrics(serving, tmp_path, scenarios):
    answers = [(503, {}, b""), (400, {}, b"")]
    with Receiver(lambda n, m: answers[n - 1] if n <= 2 else OK) as r, \
            serving(scenarios / "eight-healthy.txt", config(tmp_path, {"endpoint": r.url})) as p:
        served_line(p)
        r.wait(5)
        assert scenes.wait_for(lambda: series(served(p), "alula_push_sent_total").get('receiver="otlp"', 0) >= 2)
        text = served(p)
    assert series(text, "alula_push_retried_total") == {'receiver="otlp"': 1}
    assert series(text, "alula_push_dropped_total") == {'receiver="otlp"': 1}
    assert series(text, "alula_push_queued") == {'receiver="otlp"': 0}
    assert series(text, "alula_push_refused_points_total") == {'receiver="otlp"': 0}


def test_nothing_is_pushed_of_what_is_not_live(alula, tmp_path):
    with Receiver() as r:
        ended = watch(alula, tmp_path, scenes.starved("20s"),
                      config(tmp_path, {"endpoint": r.url, "replay": "false"}, {"urls": r.url + "/hook"}))
    assert ended.returncode == 0 and "no live session" in ended.stderr
    assert r.got == []


def test_a_session_on_the_driver_is_pushed(alula_bin, alula, standin, tmp_path, scenarios):
    with Receiver() as r:
        ended = alula("watch", "--quiet", "--for", "2s", "--config", config(tmp_path, {"endpoint": r.url, "replay": "false"}),
                      env=scenes.standin_env(standin, scenarios / "eight-healthy.txt"))
    assert ended.returncode == 0 and ended.stderr == ""
    assert len(r.got[-1].values("hw.power", "hw.name")) == 8
    assert abs(r.got[-1].points("hw.power")[0].time_unix_nano - time.time_ns()) < 60 * 10**9


# --- receivers in trouble ---

def test_retryable_answers_lose_nothing_and_keep_the_order(alula, tmp_path):
    answers = {1: (503, {}, b""), 2: (429, {}, b""), 3: (502, {}, b""), 4: (504, {}, b"")}
    with Receiver(lambda n, m: answers.get(n, OK)) as r:
        ended = watch(alula, tmp_path, scenes.busy(1, "20s"), config(tmp_path, {"endpoint": r.url}))
    assert ended.stderr.count("HTTP 503; it is tried again") == 1 and ended.stderr.count("works again") == 1
    taken = [m.points("hw.power")[0].time_unix_nano for m in r.got[4:]]
    assert taken == sorted(set(taken)) and len(taken) >= 3
    assert len({m.raw for m in r.got[:5]}) == 1  # the same message until it was taken
    assert spooled(tmp_path) == []


def test_retry_after_is_honoured(alula, tmp_path):
    with Receiver(lambda n, m: (429, {"Retry-After": "1"}, b"") if n == 1 else OK) as r:
        watch(alula, tmp_path, scenes.busy(1, "30s"), config(tmp_path, {"endpoint": r.url}))
    assert r.got[1].time - r.got[0].time >= 0.99


@pytest.mark.parametrize("status", [400, 401, 404, 500, 301])
def test_what_otlp_forbids_to_retry_is_dropped_with_one_message(alula, tmp_path, status):
    with Receiver(lambda n, m: (status, {"Location": "http://127.0.0.1:1/"}, b"no")) as r:
        ended = watch(alula, tmp_path, scenes.busy(1, "20s"), config(tmp_path, {"endpoint": r.url}))
    assert len(r.got) >= 3 and len({m.raw for m in r.got}) == len(r.got)
    assert ended.stderr.count(f"HTTP {status}") == 1 and ended.stderr.count("\n") == 1
    assert ended.returncode == 0 and spooled(tmp_path) == []


def test_refused_points_are_told(alula, tmp_path):
    answer = metrics_service_pb2.ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = 7
    answer.partial_success.error_message = "too \x1b[31mold"
    with Receiver(lambda n, m: (200, {"Content-Type": "application/x-protobuf"}, answer.SerializeToString())) as r:
        ended = watch(alula, tmp_path, scenes.busy(1, "20s"), config(tmp_path, {"endpoint": r.url}))
    assert len({m.raw for m in r.got}) == len(r.got) >= 2
    assert ended.stderr.count("refused 7 points: too ?[31mold") == 1


def test_a_hanging_receiver_delays_neither_ticks_nor_the_end(alula_bin, standin, tmp_path, scenarios):
    with Receiver(lambda n, m: None) as r:
        path = config(tmp_path, {"endpoint": r.url, "timeout": "60s", "flush": "500ms"}, {"urls": r.url + "/hook"})
        with scenes.running(alula_bin, "watch", "--json", "--quiet", "--interval", "100ms", "--config", path,
                            env=scenes.standin_env(standin, scenarios / "eight-healthy.txt")) as p:
            r.wait(1)
            time.sleep(2)
            began = time.monotonic()
            p.send_signal(signal.SIGTERM)
            out, err = p.communicate(timeout=10)
            took = time.monotonic() - began
    assert took < 3, err
    end = json.loads(out.splitlines()[-1])
    assert end["type"] == "end" and end["ticks"] >= 15
    assert end["skipped_ticks"] == 0 and end["late_ticks"] == 0
    assert p.returncode == 0
    assert "not sent; the next run sends what was kept" in err
    assert spooled(tmp_path)


def test_what_could_not_be_sent_waits_on_disk_for_the_next_run(alula, tmp_path):
    with Receiver() as r:
        port = r.port
    path = config(tmp_path, {"endpoint": f"http://127.0.0.1:{port}"})
    ended = watch(alula, tmp_path, scenes.busy(1, "20s"), path)
    assert ended.returncode == 0 and "tried again" in ended.stderr and "the next run sends" in ended.stderr
    files = spooled(tmp_path)
    assert len(files) >= 3
    assert {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}
    assert {stat.S_IMODE(d.stat().st_mode) for d in (tmp_path / "spool", files[0].parent)} == {0o700}
    waiting = [f.read_bytes() for f in files]
    with Receiver(port=port) as r:
        ended = watch(alula, tmp_path, scenes.busy(1, "10s"), path)
    assert ended.stderr == ""
    assert [m.raw for m in r.got[:len(waiting)]] == waiting and len(r.got) > len(waiting)
    assert spooled(tmp_path) == []


def test_the_spool_is_bounded_and_the_oldest_give_way(serving, tmp_path, scenarios):
    with Receiver() as r:
        port = r.port
    path = config(tmp_path, {"endpoint": f"http://127.0.0.1:{port}", "spool_max": "65536B", "gzip": "false"})
    with serving(scenarios / "climbing.txt", path) as p:  # about 11 KiB a message
        served_line(p)
        assert scenes.wait_for(lambda: series(served(p), "alula_push_dropped_total").get('receiver="otlp"', 0) >= 3, 20)
        text = served(p)
        bytes_ = series(text, "alula_push_queued_bytes")['receiver="otlp"']
        assert 0 < bytes_ <= 65536 and series(text, "alula_push_queued")['receiver="otlp"'] >= 1
        assert sum(f.stat().st_size for f in spooled(tmp_path)) <= 65536
        numbers = [int(f.stem, 16) for f in spooled(tmp_path)]
        assert numbers and min(numbers) > 1


def test_two_on_one_machine_send_once_and_a_spool_that_cannot_be_written(alula_bin, alula, tmp_path):
    with Receiver() as r:
        path = config(tmp_path, {"endpoint": r.url})
        scene = scenario(tmp_path, scenes.busy(1, "30s"))
        with scenes.running(alula_bin, "watch", "--source", f"scenario:{scene}", "--config", path) as first:
            r.wait(1)
            other = tmp_path / "other"
            other.mkdir()
            second = watch(alula, other, scenes.busy(1, "10s").replace("node1", "node2"), path)
            first.send_signal(signal.SIGTERM)
            first.communicate(timeout=10)
        assert "another alula on this machine sends there already" in second.stderr and second.returncode == 0
        assert all(a.value.string_value != "node2" for m in r.got for a in m.request.resource_metrics[0].resource.attributes)
        (tmp_path / "file").write_text("")
        ended = watch(alula, tmp_path, scenes.busy(1, "10s"), config(tmp_path, {"endpoint": r.url, "spool": tmp_path / "file"}))
        assert ended.returncode == 0 and "kept in memory" in ended.stderr
        ended = watch(alula, tmp_path, scenes.busy(1, "10s"), config(tmp_path, {"endpoint": r.url, "spool": "none"}))
        assert ended.returncode == 0 and ended.stderr == ""


# --- who is called, and how ---

@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority of our own, and a certificate by it for 127.0.0.1."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl here")
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key",
            "-out", "ca.pem")
    for name, address in ("good", "IP:127.0.0.1"), ("other", "DNS:elsewhere.example"):
        (folder / "ext").write_text(f"subjectAltName={address}\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", "ext", "-out", f"{name}.pem")
    return folder


def test_tls_is_verified(alula, tmp_path, certificates):
    def run(name, ca):
        with Receiver(tls=(certificates / f"{name}.pem", certificates / f"{name}.key")) as r:
            push = {"endpoint": r.url, "spool": "none", "flush": "0s", **({"ca_file": certificates / "ca.pem"} if ca else {})}
            ended = watch(alula, tmp_path, scenes.busy(1, "15s"), config(tmp_path, push))
        assert ended.returncode == 0
        return r.got, ended.stderr

    got, err = run("good", True)
    assert len(got) >= 2 and err == ""
    got, err = run("good", False)
    assert not got and "certificate" in err
    got, err = run("other", True)
    assert not got and "tried again" in err


def test_headers_come_from_a_file_that_is_read_again(alula_bin, alula, tmp_path):
    headers = tmp_path / "headers"
    headers.write_text("# who we are\nAuthorization: Bearer first\nX-Scope-OrgID: gpu\n")
    headers.chmod(0o600)
    with Receiver() as r:
        path = config(tmp_path, {"endpoint": r.url + "/custom/path", "headers_file": headers})
        scene = scenario(tmp_path, scenes.busy(1, "60s"))
        with scenes.running(alula_bin, "watch", "--source", f"scenario:{scene}", "--config", path) as p:
            r.wait(1)
            headers.write_text("Authorization: Bearer second\n")
            assert scenes.wait_for(lambda: r.got[-1].headers["Authorization"] == "Bearer second")
            p.send_signal(signal.SIGTERM)
            p.communicate(timeout=10)
    assert r.got[0].path == "/custom/path"
    assert r.got[0].headers["Authorization"] == "Bearer first" and r.got[0].headers["X-Scope-OrgID"] == "gpu"
    headers.chmod(0o644)
    ended = watch(alula, tmp_path, scenes.busy(1, "10s"), path)
    assert ended.returncode == 2 and "other users can read it" in ended.stderr
    headers.chmod(0o600)
    headers.write_text("Authorization\n")
    ended = watch(alula, tmp_path, scenes.busy(1, "10s"), path)
    assert ended.returncode == 2 and "headers:1: expected Name: value" in ended.stderr


def test_secrets_in_urls_are_never_printed(alula, tmp_path):
    with Receiver(lambda n, m: (403, {}, b"")) as r:
        secret = r.url.replace("http://", "http://user:hunter2@") + "/services/T0KEN?key=S3CRET"
        path = config(tmp_path, {"endpoint": secret}, {"urls": f"[{secret}]", "level": "info"})
        ended = watch(alula, tmp_path, scenes.starved("20s"), path)
        printed = alula("check-config", "--print", path)
    assert r.got[0].path == "/services/T0KEN?key=S3CRET"
    assert r.got[0].headers["Authorization"] == "Basic dXNlcjpodW50ZXIy"
    assert "HTTP 403" in ended.stderr and printed.returncode == 0
    for text in ended.stderr, ended.stdout, printed.stdout, printed.stderr:
        assert "hunter2" not in text and "T0KEN" not in text and "S3CRET" not in text
    assert f"http://127.0.0.1:{r.port}" in ended.stderr
    for name in os.listdir(tmp_path / "spool"):
        assert "T0KEN" not in name
    broken = alula("watch", "--source", f"scenario:{tmp_path / 'scene.txt'}", "--speed", 0, "--config",
                   config(tmp_path, {"endpoint": "ftp://user:hunter2@host/T0KEN"}))
    assert broken.returncode == 2 and "push.endpoint" in broken.stderr and "hunter2" not in broken.stderr


def test_proxies_are_taken_from_the_environment(alula, tmp_path):
    with Receiver() as proxy:
        ended = alula("watch", "--quiet", "--source", f"scenario:{scenario(tmp_path, scenes.busy(1, '10s'))}", "--speed", 10,
                      "--config", config(tmp_path, {"endpoint": "http://collector.example:4318"}),
                      env={"http_proxy": proxy.url, "no_proxy": "", "NO_PROXY": ""})
    assert ended.stderr == "" and proxy.got[0].path == "http://collector.example:4318/v1/metrics"


# --- webhooks ---

def test_a_finding_is_told_when_it_begins_changes_its_level_and_ends(alula, tmp_path):
    text = scenes.busy(1, "60s") + ("@5s\ngpu 0 utilization_ratio=3% power_watts=130W\nproc 4300 io_wait_ratio=60%\n"
                                    "@35s\ngpu 0 utilization_ratio=93% power_watts=655W\nproc 4300 io_wait_ratio=0%\n")
    with Receiver() as r:
        path = config(tmp_path, {}, {"urls": r.url + "/hook", "level": "info"})
        ended = alula("watch", "--json", "--quiet", "--source", f"scenario:{scenario(tmp_path, text)}", "--speed", 20,
                      "--config", path)
    assert ended.stderr == ""
    lines = [json.loads(line) for line in ended.stdout.splitlines() if '"finding"' in line]
    told = [m.json for m in r.got]
    assert all(m.path == "/hook" and m.headers["Content-Type"] == "application/json" for m in r.got)
    assert all(t in lines for t in told)  # the objects of watch --json
    one = [t for t in told if t["rule"] == "starved"]
    assert [t["phase"] for t in one] == ["began", "updated", "ended"]
    assert [t["level"] for t in one][:2] == ["info", "warning"]
    # Updates without news are not told.
    assert sum(line["rule"] == "starved" for line in lines) > len(one)


def test_below_the_level_nothing_is_told_and_a_rise_begins(alula, tmp_path):
    text = scenes.starved("40s")
    with Receiver() as r:
        watch(alula, tmp_path, text, config(tmp_path, {}, {"urls": r.url + "/hook", "level": "warning"}), speed=20)
    one = [m.json for m in r.got if m.json["rule"] == "starved"]
    assert [(t["phase"], t["level"]) for t in one] == [("began", "warning")]
    with Receiver() as r:
        watch(alula, tmp_path, text, config(tmp_path, {}, {"urls": r.url + "/hook", "level": "critical"}), speed=20)
    assert r.got == []


def test_several_webhooks_each_get_it(alula, tmp_path):
    urls = tmp_path / "urls"
    with Receiver() as a, Receiver(lambda n, m: (500, {}, b"") if n == 1 else OK) as b:
        urls.write_text(f"# the team's\n{b.url}/b\n")
        urls.chmod(0o600)
        watch(alula, tmp_path, scenes.starved("40s"), config(tmp_path, {}, {"urls": f"[{a.url}/a]", "urls_file": urls}), speed=20)
    assert [m.json["phase"] for m in a.got] == ["began"]
    # A server's own trouble passes: a webhook is asked again.
    assert [m.json["phase"] for m in b.got] == ["began", "began"] and b.got[0].raw == b.got[1].raw


def test_webhooks_survive_a_kill(alula_bin, alula, tmp_path):
    with Receiver() as r:
        port = r.port
    path = config(tmp_path, {}, {"urls": f"http://127.0.0.1:{port}/hook"})
    scene = scenario(tmp_path, scenes.starved("60s"))
    with scenes.running(alula_bin, "watch", "--quiet", "--source", f"scenario:{scene}", "--speed", "20", "--config", path) as p:
        assert scenes.wait_for(lambda: spooled(tmp_path))
        p.send_signal(signal.SIGKILL)
        p.communicate()
    waiting = [json.loads(f.read_bytes()) for f in spooled(tmp_path)]
    assert [w["phase"] for w in waiting] == ["began"]
    with Receiver(port=port) as r:
        ended = watch(alula, tmp_path, scenes.busy(1, "10s"), path)
    assert ended.stderr == "" and [m.json for m in r.got] == waiting
    assert spooled(tmp_path) == []


def test_a_restart_tells_nothing_twice(alula, tmp_path):
    text = scenes.busy(1, "60s") + ("@5s\ngpu 0 utilization_ratio=3% power_watts=130W\nproc 4300 io_wait_ratio=60%\n"
                                    "@45s\ngpu 0 utilization_ratio=93% power_watts=655W\nproc 4300 io_wait_ratio=0%\n")
    with Receiver() as r:
        path = config(tmp_path, {}, {"urls": r.url + "/hook"})
        watch(alula, tmp_path, text, path, "--for", "30s", speed=30)
        assert [m.json["phase"] for m in r.got] == ["began"]
        watch(alula, tmp_path, text, path, "--for", "30s", speed=30)
        assert [m.json["phase"] for m in r.got] == ["began"]
        # The end is told by the run that sees it; another occurrence behind it is told.
        watch(alula, tmp_path, text, path, speed=30)
        assert [m.json["phase"] for m in r.got] == ["began", "ended"]
        watch(alula, tmp_path, text, path, "--for", "30s", speed=30)
        assert [m.json["phase"] for m in r.got] == ["began", "ended", "began"]
        told = next((tmp_path / "spool").glob("webhook-1-*/told"))
        assert stat.S_IMODE(told.stat().st_mode) == 0o600
        # A run long ago says nothing of today.
        told.write_text("1000000000\n" + told.read_text().partition("\n")[2])
        watch(alula, tmp_path, text, path, "--for", "30s", speed=30)
        assert [m.json["phase"] for m in r.got] == ["began", "ended", "began", "began"]


def test_alertmanager_gets_its_format(alula, tmp_path):
    text = scenes.busy(1, "60s") + ("@5s\ngpu 0 utilization_ratio=3% power_watts=130W\nproc 4300 io_wait_ratio=60%\n"
                                    "@45s\ngpu 0 utilization_ratio=93% power_watts=655W\nproc 4300 io_wait_ratio=0%\n")
    with Receiver() as r:
        path = config(tmp_path, {}, {"urls": r.url, "format": "alertmanager", "level": "info", "repeat": "500ms"})
        watch(alula, tmp_path, text, path, speed=20)
    assert {m.path for m in r.got} == {"/api/v2/alerts"}
    alerts = [a for m in r.got for a in m.json if a["labels"]["rule"] == "starved"]
    assert all(set(a) == {"labels", "annotations", "startsAt", "endsAt"} for a in alerts)
    labels = alerts[0]["labels"]
    assert labels["alertname"] == "AlulaFinding" and labels["instance"] == "node1" and labels["gpu"] == "0"
    assert alerts[0]["annotations"]["summary"] and alerts[0]["annotations"]["description"]
    # One identity while the level holds; a new level ends the alert of the one before.
    by_level = {level: [a for a in alerts if a["labels"]["severity"] == level] for level in ("info", "warning")}
    assert all(len({json.dumps(a["labels"], sort_keys=True) for a in some}) == 1 for some in by_level.values())
    assert by_level["info"][-1]["endsAt"] <= by_level["warning"][0]["endsAt"]
    assert len({a["endsAt"] for a in by_level["warning"]}) >= 3  # it is repeated while it lasts
    ends = [a["endsAt"] for a in by_level["warning"]]
    # And it ends when the finding does, not when the last repetition would have run out.
    assert ends[-1] == "2026-11-29T12:00:46.000Z"
    assert len({a["startsAt"] for a in alerts}) == 1


@pytest.fixture
def alertmanager(tmp_path):
    """The real one, with nobody to notify; gives its URL."""
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if not program:
        pytest.skip("no Alertmanager here")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{s.getsockname()[1]}"
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    process = subprocess.Popen([program, f"--config.file={tmp_path}/am.yml", f"--storage.path={tmp_path}/am",
                                f"--web.listen-address={url[7:]}", "--cluster.listen-address="],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert scenes.wait_for(lambda: alerts_of(url) is not None, 20)
        yield url
    finally:
        process.kill()
        process.wait()


def alerts_of(url):
    try:
        with urllib.request.urlopen(url + "/api/v2/alerts?active=true", timeout=5) as answer:
            return json.load(answer)
    except OSError:
        return None


def test_the_real_alertmanager_takes_alerts_and_lets_them_go(alula_bin, standin, tmp_path, alertmanager):
    scene = scenario(tmp_path, scenes.busy(1, "60s") + "@1s\nxid 0 48\n")
    path = config(tmp_path, {"replay": "false"}, {"urls": alertmanager, "format": "alertmanager", "repeat": "500ms"})
    with scenes.running(alula_bin, "watch", "--quiet", "--config", path, env=scenes.standin_env(standin, scene)) as p:
        alerts = scenes.wait_for(lambda: alerts_of(alertmanager), 15)
        assert alerts and alerts[0]["status"]["state"] == "active"
        assert alerts[0]["labels"]["alertname"] == "AlulaFinding" and alerts[0]["labels"]["rule"] == "hardware"
        assert "Xid 48" in alerts[0]["annotations"]["summary"]
        time.sleep(3)  # longer than the end that a single message carries
        assert len(alerts_of(alertmanager)) == len(alerts)
        p.send_signal(signal.SIGKILL)
        _, err = p.communicate()
    assert err == ""
    assert scenes.wait_for(lambda: alerts_of(alertmanager) == [], 10)


def test_wrong_settings_are_refused(alula, tmp_path):
    for webhook, word in ({"format": "xml"}, "json or alertmanager"), ({"level": "fatal"}, "info, warning or critical"):
        checked = alula("check-config", config(tmp_path, {}, webhook))
        assert checked.returncode == 2 and word in checked.stderr
    ended = watch(alula, tmp_path, scenes.busy(1, "10s"), config(tmp_path, {}, {"urls": "[http://a/, mailto:x]"}))
    assert ended.returncode == 2 and "number 2 is no http:// or https:// URL" in ended.stderr
