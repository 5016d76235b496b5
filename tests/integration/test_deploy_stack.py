# SPDX-License-Identifier: Apache-2.0
"""The real Prometheus and Alertmanager on deploy/'s files, in front of `alula serve` on several scenarios.

Both listen on loopback only, on free ports, and keep everything in the test's folder. Only addresses, periods and the
token's path of the shipped files are changed.
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest
import yaml
from kubelet import kubelet, pod

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
TOKEN = "a-token-for-the-tests-only"
WAIT = 60  # seconds at most for what takes ten

# Each has something that another lacks. Played at half speed, so that all go on for longer than a slow machine takes.
SPEED = 0.5
SCENARIOS = ("eight-healthy", "climbing", "starved", "xid", "h200-session", "mig", "evaluating")
ON_THE_DRIVER = ("link-degraded", "hang")  # through NVML, for what driver calls cost and for one that does not come back
OPTIONS = {"eight-healthy": ["--max-processes", "4"]}  # the other four are pid="other"


def ask(url, token=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def running(command, log, env=None):
    with open(log, "wb") as out, subprocess.Popen([str(c) for c in command], stdout=out, stderr=out,
                                                  env={**os.environ, **(env or {})}) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def until(what, probe, seconds=WAIT):
    """probe() until it answers something true; errors of connections are "not yet"."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            answer = probe()
            if answer:
                return answer
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.1)


class Webhook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # noqa: N802, the name is http.server's
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.came.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


class Stack:
    """What runs: prometheus (its URL), targets {scenario: address}, came [(path, body)]."""

    def query(self, text):
        answer = json.loads(ask(f"{self.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': text})}"))
        assert answer["status"] == "success", answer
        return answer["data"]["result"]


def start_alulas(stack, scope, folder, alula_bin, standin):
    (folder / "tokens").write_text(TOKEN + "\n")
    (folder / "tokens").chmod(0o600)
    (folder / "alula.yaml").write_text(f"serve:\n  tokens_file: {folder}/tokens\n")
    # All of them ask one kubelet; UUIDs that a scenario leaves out are the same in each.
    listed = subprocess.run([alula_bin, "smi", "--query-gpu=uuid", "--format=csv,noheader", "--source",
                             f"scenario:{ROOT}/tests/scenarios/eight-healthy.txt"], capture_output=True, text=True, check=True)
    pods = [pod("train-0", "team-a", "main", "nvidia.com/gpu", listed.stdout.split())]
    scope.enter_context(kubelet(folder / "kubelet.sock", lambda _: pods))
    stack.targets = {}
    logs = {}
    for scenario in (*SCENARIOS, *ON_THE_DRIVER):
        command = [alula_bin, "serve", "--listen", "127.0.0.1:0", "--config", folder / "alula.yaml",
                   *OPTIONS.get(scenario, [])]
        path, env = ROOT / f"tests/scenarios/{scenario}.txt", {}
        if scenario in ON_THE_DRIVER:
            env = {"ALULA_NVML_LIBRARY": str(standin), "ALULA_SCENARIO": str(path), "ALULA_HOST": "scenario"}
        else:
            command += ["--pod-resources", folder / "kubelet.sock", "--source", f"scenario:{path}", "--speed", SPEED]
        logs[scenario] = folder / f"{scenario}.log"
        scope.enter_context(running(command, logs[scenario], env))
    for scenario, log in logs.items():
        found = until(f"alula serve on {scenario}", lambda log=log: re.search(r"http://(\S+)", log.read_text()))
        stack.targets[scenario] = found[1]


def start_alertmanager(scope, folder, hook_port):
    """Its port. Periods of grouping shortened, receivers at our own webhook."""
    port = free_port()
    text = (DEPLOY / "alertmanager/alertmanager.yml").read_text()
    text = re.sub(r"(group_wait|group_interval): \w+", r"\1: 1s", text).replace("127.0.0.1:9094", f"127.0.0.1:{hook_port}")
    (folder / "alertmanager.yml").write_text(text)
    scope.enter_context(running(
        [shutil.which("prometheus-alertmanager") or shutil.which("alertmanager"),
         f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/alertmanager",
         f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="], folder / "alertmanager.log"))
    return port


def start_prometheus(stack, scope, folder, alertmanager_port):
    for path in (DEPLOY / "prometheus").glob("*.yml"):
        text = re.sub(r"((?:scrape_|evaluation_)?interval): \w+", r"\1: 1s", path.read_text())
        text = text.replace("/etc/prometheus/alula.token", str(folder / "token"))
        (folder / path.name).write_text(text.replace("127.0.0.1:9093", f"127.0.0.1:{alertmanager_port}"))
    (folder / "token").write_text(TOKEN)
    (folder / "alula-nodes.yml").write_text(yaml.dump([{"targets": list(stack.targets.values())}]))
    port = free_port()
    scope.enter_context(running(
        ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
         f"--web.listen-address=127.0.0.1:{port}"], folder / "prometheus.log"))
    stack.prometheus = f"http://127.0.0.1:{port}"
    until("Prometheus", lambda: ask(stack.prometheus + "/-/ready"), 30)


@pytest.fixture(scope="module", name="stack")
def _stack(tmp_path_factory, alula_bin, standin):
    for name in ("prometheus", "prometheus-alertmanager"):
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed")
    if "built without" in subprocess.run([alula_bin, "serve", "--listen", "nowhere"], capture_output=True, text=True,
                                         check=False).stderr:
        pytest.skip("built without libmicrohttpd")
    folder, stack = tmp_path_factory.mktemp("stack"), Stack()
    with contextlib.ExitStack() as scope:
        hook = scope.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Webhook))
        hook.came = stack.came = []
        threading.Thread(target=hook.serve_forever, daemon=True).start()
        scope.callback(hook.shutdown)
        start_alulas(stack, scope, folder, alula_bin, standin)
        start_prometheus(stack, scope, folder, start_alertmanager(scope, folder, hook.server_port))
        yield stack


def test_prometheus_scrapes_all_with_the_token(stack):
    def all_up():
        targets = json.loads(ask(stack.prometheus + "/api/v1/targets"))["data"]["activeTargets"]
        bad = [t for t in targets if t["health"] == "down"]
        assert not bad, bad
        return len([t for t in targets if t["health"] == "up"]) == len(stack.targets)

    until("all targets up", all_up)
    # What came is what the scenario says.
    eight = stack.targets["eight-healthy"]
    used = until("a sample", lambda: stack.query(f'alula_gpu_memory_used_bytes{{instance="{eight}"}}'))
    assert [float(s["value"][1]) for s in used] == [100 * 2**30] * 8


def test_promtool_finds_nothing_in_metrics(stack):
    for scenario, address in stack.targets.items():
        page = ask(f"http://{address}/metrics", TOKEN)
        checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, timeout=30, check=False)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, ""), scenario


def dashboard_queries(stack):
    """(panel, query) with the variables put in as Grafana does."""
    hosts = "|".join(re.escape(t) for t in stack.targets.values()).replace("\\", "\\\\")
    for panel in json.loads((DEPLOY / "grafana/alula.json").read_text())["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$host", hosts).replace("$gpu", "0|1|2|3|4|5|6|7").replace("$__rate_interval", "5s")
            assert "$" not in query, query
            yield panel["title"], query


def test_every_panel_has_data(stack):
    waiting = list(dashboard_queries(stack))
    assert len(waiting) > 80

    def all_answered():
        waiting[:] = [(title, query) for title, query in waiting if not stack.query(query)]
        return not waiting

    try:
        until("every panel", all_answered)
    except AssertionError as error:
        raise AssertionError("no data for " + "; ".join(f"{t}: {q}" for t, q in waiting)) from error


def test_every_recording_rule_has_data(stack):
    groups = yaml.safe_load((DEPLOY / "prometheus/alula.rules.yml").read_text())["groups"]
    for rule in [rule for group in groups for rule in group["rules"]]:
        if rule["record"] != "instance:alula_gpus_held_idle:count":  # takes ten minutes of idling
            until(rule["record"], lambda rule=rule: stack.query(rule["record"]))
    xid = stack.targets["xid"]
    assert [s["value"][1] for s in stack.query(f'instance:alula_gpus:count{{instance="{xid}"}}')] == ["2"]


def test_an_alert_reaches_the_webhook(stack):
    """From the Xid in the scenario by way of alula's finding, Prometheus' rule and Alertmanager's route."""
    def critical():
        return [alert for path, body in stack.came if path == "/on-call" for alert in body["alerts"]
                if alert["labels"]["alertname"] == "AlulaHardware"]

    alert = until("the alert at the webhook", critical)[0]
    assert alert["status"] == "firing"
    labels = alert["labels"]
    assert (labels["severity"], labels["rule"], labels["gpu"]) == ("critical", "hardware", "0")
    assert labels["instance"] == stack.targets["xid"] and labels["uuid"].startswith("GPU-")
    assert alert["annotations"]["summary"] == f"{labels['instance']}: hardware errors on GPU 0"
    assert "reset the GPU" in alert["annotations"]["runbook"]
    assert not [alert for path, body in stack.came if path == "/on-call" for alert in body["alerts"]
                if alert["labels"]["severity"] != "critical"]
    # A warning goes to the team; the healthy node has nothing to tell.
    until("a warning at the webhook", lambda: [1 for path, _ in stack.came if path == "/team"])
    assert not stack.query(f'ALERTS{{instance="{stack.targets["eight-healthy"]}"}}')


# ---- names ----

NAME = re.compile(r"(?<![\w:/.-])alula_\w+(?![\w:]*[:<])")


def test_deploy_and_docs_name_only_series_that_there_are(stack):
    def served():
        pages = [ask(f"http://{address}/metrics", TOKEN) for address in stack.targets.values()]
        return {re.split(r"[{ ]", line)[0] for page in pages for line in page.splitlines() if line and line[0] != "#"}

    # A hang and the sum of driver calls come a little later than the first sample.
    known = set(until("the series of a hang", lambda: (s := served()) and "alula_driver_call_hung_seconds" in s and s))
    unknown = set()
    for path in [*DEPLOY.rglob("*"), ROOT / "docs/deploy.md", ROOT / "docs/serve.md"]:
        if path.is_file() and path.suffix in (".yml", ".yaml", ".json", ".md"):
            unknown |= {f"{path.relative_to(ROOT)}: {name}" for name in NAME.findall(path.read_text()) if name not in known}
    assert not unknown


def test_recorded_names_are_recorded():
    rules = yaml.safe_load((DEPLOY / "prometheus/alula.rules.yml").read_text())["groups"]
    recorded = {rule["record"] for group in rules for rule in group["rules"]}
    for path in [*DEPLOY.rglob("*.yml"), DEPLOY / "grafana/alula.json", ROOT / "docs/deploy.md"]:
        used = set(re.findall(r"\b(?:instance|gpu):alula_\w+(?::\w+)?", path.read_text()))
        assert used <= recorded, path
