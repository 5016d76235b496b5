# SPDX-License-Identifier: Apache-2.0
"""deploy/: each file is held against the program that reads it, where that runs without a cluster or a systemd."""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
# Of systemd's 0 (safe) to 10; an ordinary service has 9.6.
EXPOSURE = 2.0


def tool(name):
    path = shutil.which(name)
    if not path:
        pytest.skip(f"{name} is not installed")
    return path


def output(*command, **kwargs):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60, check=False, **kwargs)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


# ---- systemd ----


@pytest.fixture(name="unit")
def _unit(tmp_path, alula_bin):
    """The unit as it is shipped, with the binary of this build."""
    analyze = tool("systemd-analyze")
    if "--offline" not in output(analyze, "--help"):
        pytest.skip("systemd-analyze security has no --offline here")
    text = (DEPLOY / "systemd/alula.service").read_text()
    assert text.count("ExecStart=alula serve ") == 1
    unit = tmp_path / "alula.service"
    unit.write_text(text.replace("ExecStart=alula ", f"ExecStart={alula_bin} "))
    return unit


@pytest.mark.parametrize("drop_in", [None, "processes.conf", "tokens.conf"])
def test_systemd_takes_the_unit(unit, drop_in):
    if drop_in:
        folder = unit.with_name("alula.service.d")
        folder.mkdir()
        shutil.copy(DEPLOY / "systemd/alula.service.d" / drop_in, folder)
    # verify says what it does not know on standard error, and succeeds all the same.
    assert output("systemd-analyze", "verify", "--man=no", unit) == ""


def test_the_unit_is_hardened(unit):
    text = output("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    exposure = float(re.search(r"Overall exposure level for alula.service: ([\d.]+)", text)[1])
    assert exposure <= EXPOSURE, text


def test_the_unit_leaves_proc_and_yields(unit):
    """What systemd's own check cannot know: alula reads /proc, talks to systemd, and comes behind the training."""
    lines = dict(line.split("=", 1) for line in unit.read_text().splitlines() if re.match(r"[A-Za-z]+=", line))
    assert not {"ProtectProc", "ProcSubset", "PrivateUsers", "PrivateDevices"} & set(lines)
    assert lines["Type"] == "notify" and lines["WatchdogSec"]
    assert int(lines["Nice"]) > 0 and int(lines["CPUWeight"]) < 100 and lines["IOSchedulingClass"] == "idle"
    assert lines["MemoryMax"] and int(lines["OOMScoreAdjust"]) > 0
    assert lines["NoNewPrivileges"] == "yes" and lines["ProtectSystem"] == "strict"


# ---- Slurm ----


def test_shell_scripts_are_clean():
    scripts = sorted((DEPLOY / "slurm").glob("*.sh"))
    assert len(scripts) == 2
    output(tool("shellcheck"), *scripts)


@pytest.fixture(name="slurm")
def _slurm(tmp_path, alula_bin, scenarios):
    """slurm("prolog", "xid") runs the script on a scenario that is played without waiting."""
    wrapper = tmp_path / "alula"
    wrapper.write_text(f'#!/bin/sh\nexec "{alula_bin}" "$@" $MORE --source "scenario:$SCENARIO"\n')
    wrapper.chmod(0o755)

    def run(script, scenario, gpus="0", more="--speed 0", **env):
        full = {**os.environ, "ALULA": str(wrapper), "ALULA_RECORDS": str(tmp_path / "jobs"),
                "ALULA_RUN": str(tmp_path / "run"), "SLURM_JOB_ID": "77", "MORE": more,
                "ALULA_PROLOG_LOOK": "35s", "ALULA_EPILOG_LOOK": "35s", "SCENARIO": str(scenarios / f"{scenario}.txt"), **env}
        if gpus is not None:
            full["SLURM_JOB_GPUS"] = gpus
        return subprocess.run([str(DEPLOY / "slurm" / f"{script}.sh")], env=full, timeout=30, check=False).returncode

    run.tmp = tmp_path
    return run


def test_epilog_drains_for_critical_findings_only(slurm):
    assert slurm("epilog", "xid") == 1
    assert slurm("epilog", "xid", gpus="1") == 0, "the other GPU is fit"
    assert slurm("epilog", "eight-healthy", gpus="0,1,2") == 0
    # Nothing that is wrong with alula may drain a node.
    assert slurm("epilog", "no-such-scenario") == 0
    assert slurm("epilog", "xid", ALULA="/no/such/alula") == 0
    assert slurm("epilog", "xid", gpus=None) == 0


def test_prolog_records_and_epilog_ends_it(slurm, alula_bin):
    assert slurm("prolog", "xid") == 1
    if "built without" in subprocess.run([alula_bin, "record", "-o", "/dev/null/x"], capture_output=True, text=True,
                                         check=False).stderr:
        pytest.skip("built without recordings")
    assert slurm("prolog", "eight-healthy", more="", ALULA_PROLOG_LOOK="1s") == 0
    recording = slurm.tmp / "jobs/77.alula"
    pid = int((slurm.tmp / "run/77.pid").read_text())
    wait_until(recording.exists)
    assert str(recording) in pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    assert slurm("epilog", "eight-healthy") == 0
    assert not (slurm.tmp / "run/77.pid").exists()
    wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists() or "Z" in stat_state(pid))


def test_epilog_ends_nobody_else(slurm):
    """A number in the file that another process has got since."""
    (slurm.tmp / "run").mkdir()
    with subprocess.Popen(["sleep", "60"]) as other:
        (slurm.tmp / "run/77.pid").write_text(f"{other.pid}\n")
        assert slurm("epilog", "eight-healthy") == 0
        assert other.poll() is None
        other.kill()


def stat_state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def wait_until(true, seconds=10):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


# ---- Prometheus, Alertmanager, Grafana: the files ----


def test_prometheus_takes_the_files(tmp_path):
    promtool = tool("promtool")
    shutil.copytree(DEPLOY / "prometheus", tmp_path, dirs_exist_ok=True)
    for name in ("prometheus.yml", "kubernetes.yml"):
        path = tmp_path / name
        # promtool wants the token to be there.
        path.write_text(path.read_text().replace("/etc/prometheus/alula.token", str(tmp_path / "alula.token")))
        (tmp_path / "alula.token").write_text("token")
        if name == "kubernetes.yml":  # Debian's Prometheus is built without this discovery; the rest it checks
            config = yaml.safe_load(path.read_text())
            job = config["scrape_configs"][0]
            assert job.pop("kubernetes_sd_configs")[0]["role"] == "pod"
            path.write_text(yaml.dump(config))
        output(promtool, "check", "config", path)
    output(promtool, "check", "rules", tmp_path / "alula.rules.yml", tmp_path / "alula.alerts.yml")
    output(promtool, "test", "rules", "alula.test.yml", cwd=tmp_path)


def test_rule_tests_can_fail(tmp_path):
    """The limit of a rule moved: its unit test notices."""
    promtool = tool("promtool")
    shutil.copytree(DEPLOY / "prometheus", tmp_path, dirs_exist_ok=True)
    alerts = tmp_path / "alula.alerts.yml"
    alerts.write_text(alerts.read_text().replace("alula_driver_call_hung_seconds > 60", "alula_driver_call_hung_seconds > 600"))
    result = subprocess.run([promtool, "test", "rules", "alula.test.yml"], cwd=tmp_path, capture_output=True, check=False)
    assert result.returncode == 1


def alerts():
    groups = yaml.safe_load((DEPLOY / "prometheus/alula.alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_alerts_say_what_to_do():
    assert len({a["alert"] for a in alerts()}) == len(alerts()) > 20
    for alert in alerts():
        assert set(alert["annotations"]) == {"summary", "description", "runbook"}, alert["alert"]
        assert all(alert["annotations"].values())
        assert alert["labels"]["severity"] in ("{{ $labels.severity }}", "critical", "warning", "info")


def test_every_rule_of_alula_has_its_alert():
    code = "".join(path.read_text() for path in (ROOT / "src/detect").glob("rule_*.c"))
    rules = {name for call in re.findall(r"al_run_draft\(run,([^;]*?),", code) for name in re.findall(r'"(\w+)"', call)}
    assert {"hardware", "starved", "sensor"} <= rules and len(rules) >= 11
    assert rules == set(re.findall(r'rule="(\w+)"', "".join(a["expr"] for a in alerts())))


def test_alertmanager_takes_the_route():
    config = DEPLOY / "alertmanager/alertmanager.yml"
    output(tool("amtool"), "check-config", config)
    for severity, receiver in (("critical", "on-call"), ("warning", "team"), ("info", "nobody")):
        routed = output("amtool", "config", "routes", "test", f"--config.file={config}", f"severity={severity}")
        assert routed.splitlines()[0].strip() == receiver
    # Inhibitions speak of alerts that there are.
    names = {a["alert"] for a in alerts()}
    for matcher in re.findall(r'alertname(?:=~|!=|=)"([^"]+)"', config.read_text()):
        assert any(re.fullmatch(part, name) for part in matcher.split("|") for name in names), matcher


def dashboard():
    return json.loads((DEPLOY / "grafana/alula.json").read_text())


def test_the_dashboard_is_what_its_table_gives():
    made = output(sys.executable, DEPLOY / "grafana/make-dashboard")
    assert made == (DEPLOY / "grafana/alula.json").read_text(), "run deploy/grafana/make-dashboard > deploy/grafana/alula.json"


def test_the_dashboard_is_laid_out():
    panels = dashboard()["panels"]
    assert len({p["id"] for p in panels}) == len(panels) > 60
    places = [p["gridPos"] for p in panels]
    assert all(0 <= g["x"] and g["x"] + g["w"] <= 24 for g in places)
    for a, b in itertools.combinations(places, 2):
        assert a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"] or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
    for panel in panels:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}" and panel["targets"]
    assert [v["name"] for v in dashboard()["templating"]["list"]] == ["datasource", "host", "gpu"]


# ---- container and Kubernetes: what can be told without an engine ----


def test_the_container_builds_from_what_the_build_needs():
    text = (DEPLOY / "container/Containerfile").read_text()
    needs = re.search(r'^need="(.*)"$', (ROOT / "tools/install-deps").read_text(), re.M)[1].split()
    installed = re.search(r"AS build\nRUN .*?install -y --no-install-recommends (.*?)&& rm", text.replace("\\\n", ""), re.S)[1].split()
    assert set(needs) - {"libncurses-dev"} <= set(installed) | {"libc6-dev"}
    stages = re.findall(r"^FROM (\S+)", text, re.M)
    assert stages == ["debian:12-slim"] * 2
    assert "NVIDIA_DRIVER_CAPABILITIES=utility" in text and re.search(r"^USER 65534", text, re.M)
    options = re.findall(r"-D(\w+)=", text)
    known = set(re.findall(r"option\('(\w+)'", (ROOT / "meson_options.txt").read_text()))
    assert options and set(options) <= known
    assert json.loads(re.search(r"^CMD (.*)$", text, re.M)[1]) == ["serve"]


def documents():
    return [d for d in yaml.safe_load_all((DEPLOY / "kubernetes/daemonset.yaml").read_text()) if d]


def test_the_daemonset_hangs_together(tmp_path, alula):
    """Names that must agree, and the options and config that alula itself must take."""
    by_kind = {d["kind"]: d for d in documents()}
    spec = by_kind["DaemonSet"]["spec"]
    pod = spec["template"]["spec"]
    container, = pod["containers"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == spec["selector"]["matchLabels"]
    assert pod["hostPID"] is True
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert not container["securityContext"].get("privileged")
    port, = container["ports"]
    assert port["name"] == "metrics" and port["containerPort"] == 9810
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    config = tmp_path / "alula.yaml"
    config.write_text(by_kind["ConfigMap"]["data"]["alula.yaml"])
    assert alula("check-config", config).returncode == 0
    mounts = {m["mountPath"] for m in container["volumeMounts"]}
    tokens = yaml.safe_load(config.read_text())["serve"]["tokens_file"]
    assert any(tokens.startswith(m + "/") for m in mounts)
    assert container["args"][:3] == ["serve", "--config", "/etc/alula/alula.yaml"] and "/etc/alula" in mounts
    socket = container["args"][container["args"].index("--pod-resources") + 1]
    assert os.path.dirname(socket) in mounts
    assert {"path": "/var/lib/kubelet/pod-resources", "type": "Directory"} in [v.get("hostPath") for v in pod["volumes"]]
    assert "--pod-resources" in alula("serve", "--help").stdout
