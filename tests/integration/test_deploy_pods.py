# SPDX-License-Identifier: Apache-2.0
"""alula serve --pod-resources against a gRPC server in the kubelet's place."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import grpc
import pytest
from kubelet import V1, kubelet, pod

TOKEN = "a-token-for-the-tests-only"


@contextlib.contextmanager
def serving(alula_bin, scenarios, folder, path, scenario="eight-healthy"):
    """Yields get(token) for /metrics."""
    (folder / "tokens").write_text(TOKEN + "\n")
    (folder / "tokens").chmod(0o600)
    (folder / "alula.yaml").write_text(f"serve:\n  tokens_file: {folder}/tokens\n  anonymous: true\n")
    with open(folder / "serve.log", "w+", encoding="utf-8") as log, subprocess.Popen(
            [alula_bin, "serve", "--listen", "127.0.0.1:0", "--config", folder / "alula.yaml", "--interval", "100ms",
             "--source", f"scenario:{scenarios}/{scenario}.txt", "--pod-resources", path], stderr=log) as process:
        try:
            url = until(lambda: re.search(r"http://\S+", (folder / "serve.log").read_text()))[0]

            def get(token=TOKEN):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                with urllib.request.urlopen(urllib.request.Request(url + "/metrics", headers=headers), timeout=10) as answer:
                    return answer.read().decode()

            yield get
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def _has_serve(alula):
    if "built without" in alula("serve", "--listen", "nowhere").stderr:
        pytest.skip("built without libmicrohttpd")


def until(probe, seconds=15):
    end = time.monotonic() + seconds
    while not (answer := probe()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return answer


def value(text, name):
    found = re.search(rf"^{name} (\S+)$", text, re.M)
    return found and float(found[1])


def pods(text):
    return re.findall(r'^alula_gpu_pod_info\{gpu="(\d)",uuid="[^"]+",namespace="([^"]*)",pod="([^"]*)",container="([^"]*)"\} 1$',
                      text, re.M)


def uuids(alula, scenarios):
    out = alula("smi", "--query-gpu=uuid", "--format=csv,noheader", "--source", f"scenario:{scenarios}/eight-healthy.txt")
    return out.stdout.split()


def test_pods_of_the_gpus(alula, alula_bin, scenarios, tmp_path):
    gpus = uuids(alula, scenarios)
    assert len(gpus) == 8
    answer = [
        pod("train-0", "team-a", "main", "nvidia.com/gpu", gpus[:2]),
        pod("by-index", "team-b", "main", "nvidia.com/gpu", ["3"]),
        pod("shared-0", "team-b", "lab", "nvidia.com/gpu.shared", [f"{gpus[5]}::0", f"{gpus[5]}::1"]),
        pod("shared-1", "team-b", "lab", "nvidia.com/gpu.shared", [f"{gpus[5]}::2"]),
        pod("not-a-gpu", "team-c", "main", "example.com/nic", ["4"]),
        pod("no-such-gpu", "team-c", "main", "nvidia.com/gpu", ["GPU-00000000-0000-0000-0000-000000000000", "77"]),
        V1["PodResources"](name="cpu-only", namespace="team-c"),
    ]
    with kubelet(tmp_path / "k.sock", lambda _: answer), serving(alula_bin, scenarios, tmp_path, tmp_path / "k.sock") as get:
        until(lambda: value(get(), "alula_pod_resources_up") == 1)
        assert pods(get()) == [
            ("0", "team-a", "train-0", "main"), ("1", "team-a", "train-0", "main"), ("3", "team-b", "by-index", "main"),
            ("5", "team-b", "shared-0", "lab"), ("5", "team-b", "shared-1", "lab")]
        assert "alula_pod_resources_up 1" in get(None)
        assert "alula_gpu_pod_info" not in get(None), "names of pods are for those with credentials"


def test_a_large_answer_takes_several_ticks(alula, alula_bin, scenarios, tmp_path):
    gpu = uuids(alula, scenarios)[7]
    many = [pod(f"filler-{i}", "x" * 60, "main", "example.com/nic", ["n" * 1000]) for i in range(2000)]
    answer = [*many, pod("last", "team-a", "main", "nvidia.com/gpu", [gpu])]
    size = V1["ListPodResourcesResponse"](pod_resources=answer).ByteSize()
    assert 3 << 20 < size < 4 << 20
    with kubelet(tmp_path / "k.sock", lambda _: answer), serving(alula_bin, scenarios, tmp_path, tmp_path / "k.sock") as get:
        until(lambda: value(get(), "alula_pod_resources_up") == 1)
        assert pods(get()) == [("7", "team-a", "last", "main")]
        assert value(get(), "alula_ticks_late_total") == 0


@pytest.mark.parametrize("what", ["refuses", "too much", "no gRPC", "hangs up", "no socket"])
def test_a_kubelet_that_does_not_answer(alula_bin, scenarios, tmp_path, what):
    path = tmp_path / "k.sock"
    asked = threading.Event()

    def refuse(context):
        asked.set()
        context.abort(grpc.StatusCode.UNAVAILABLE, "not now")

    def too_much(_):
        asked.set()
        return [pod("p", "n", "c", "nvidia.com/gpu", ["x" * (5 << 20)])]

    def raw(reply):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            listener.settimeout(15)
            connection, _ = listener.accept()
            with connection:
                connection.sendall(reply)
            asked.set()

    with contextlib.ExitStack() as scope:
        if what == "refuses":
            scope.enter_context(kubelet(path, refuse))
        elif what == "too much":
            scope.enter_context(kubelet(path, too_much))
        elif what == "no socket":
            asked.set()
        else:
            thread = threading.Thread(target=raw, args=(b"HTTP/1.1 400 Bad Request\r\n\r\n" if what == "no gRPC" else b"",))
            thread.start()
            scope.callback(thread.join)
            until(path.exists)
        get = scope.enter_context(serving(alula_bin, scenarios, tmp_path, path))
        assert asked.wait(15)
        ticks = value(get(), "alula_ticks_total")
        until(lambda: (value(get(), "alula_ticks_total") or 0) >= (ticks or 0) + 5)
        assert value(get(), "alula_pod_resources_up") == 0
        assert not pods(get())


def test_a_kubelet_that_never_answers_holds_nothing_up(alula_bin, scenarios, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "k.sock"))
        listener.listen()
        with serving(alula_bin, scenarios, tmp_path, tmp_path / "k.sock") as get:
            until(lambda: (value(get(), "alula_ticks_total") or 0) > 10)
            assert value(get(), "alula_pod_resources_up") == 0
            assert value(get(), "alula_ticks_late_total") == 0


def test_a_path_too_long_is_told(alula_bin, scenarios, tmp_path):
    with serving(alula_bin, scenarios, tmp_path, "/" + "x" * 200) as get:
        assert "alula_pod_resources_up" not in get()
    assert "too long" in (tmp_path / "serve.log").read_text()
    assert os.path.exists(tmp_path / "alula.yaml")
