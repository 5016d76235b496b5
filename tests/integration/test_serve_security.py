# SPDX-License-Identifier: Apache-2.0
"""alula serve: who gets in and who sees what; garbage, path tricks, limits of size, number and time."""

import base64
import contextlib
import os
import re
import resource
import shutil
import socket
import subprocess
import threading
import time

import pytest

import scenes
from serving import received, secret_file, serving

TOKEN = "a-token-of-25-characters-"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
OTHER_UID = 4242


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def scene(tmp_path):
    """One GPU with a process of alula's own user and one of somebody else."""
    path = tmp_path / "scene.txt"
    text = scenes.busy(1, "3600s") + (
        f"proc 4300 uid={os.getuid()}\nproc 4200 uid={os.getuid()}\n"
        f"proc 5000 ppid=1 alive=yes user=bob uid={OTHER_UID} comm=python command=\"python secret.py --lr 1\" job=5000 cpu_ratio=1\n"
        "row 5000 gpu=0 memory_bytes=1GiB\n")
    path.write_text(text)
    return ("--source", f"scenario:{path}")


def config(tmp_path, **values):
    path = tmp_path / "c.yaml"
    path.write_text("serve:\n" + "".join(f"  {key}: {value}\n" for key, value in values.items()))
    return ("--config", str(path))


@pytest.fixture(scope="module")
def plain(alula_bin, tmp_path_factory):
    """No credentials at all: what loopback shows everybody."""
    path = tmp_path_factory.mktemp("plain")
    with serving(alula_bin, *scene(path)) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(alula_bin, tmp_path_factory):
    path = tmp_path_factory.mktemp("guarded")
    tokens = secret_file(path / "tokens", f"# Prometheus\n{TOKEN}\n")
    users = secret_file(path / "users", "ann:correct horse\n")
    with serving(alula_bin, *scene(path), *config(path, tokens_file=tokens, users_file=users)) as server:
        yield server


PAGES = ["/", "/metrics", "/metrics.json", "/api/v1/snapshot", "/api/v1/findings", "/api/v1/series?metric=power_watts",
         "/api/v1/events", "/api/openapi.json", "/nothing"]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_needs_credentials_once_there_are_some(guarded, path):
    answer = guarded.get(path)
    assert answer.status == 401
    schemes = [value.split()[0] for name, value in answer.all_headers if name == "WWW-Authenticate"]
    assert sorted(schemes) == ["Basic", "Bearer"]
    assert answer.json() == {"error": "credentials are needed"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_none(guarded, path):
    assert guarded.get(path).status == 200


@pytest.mark.parametrize("headers", [
    {"Authorization": ""}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": f"Bearer {TOKEN[:-1]}"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": f"Token {TOKEN}"},
    {"Authorization": "Bearer " + "x" * 4000}, basic("ann", "correct hors"), basic("ann", ""), basic("", "correct horse"),
    basic("bob", "correct horse"), basic("", TOKEN), {"Authorization": "Bearer correct horse"},
    {"Authorization": "Basic !!!!"}, {"Authorization": "Bearer # Prometheus"}])
def test_wrong_credentials(guarded, headers):
    assert guarded.get("/metrics", **headers).status == 401


@pytest.mark.parametrize("headers", [BEARER, {"Authorization": f"bearer {TOKEN}"}, basic("ann", "correct horse")])
def test_right_credentials(guarded, headers):
    assert guarded.get("/metrics", **headers).status == 200
    assert guarded.get("/nothing", **headers).status == 404


def test_wrong_credentials_are_wrong_for_anonymous_readers_too(alula_bin, tmp_path):
    tokens = secret_file(tmp_path / "tokens", TOKEN + "\n")
    with serving(alula_bin, *scene(tmp_path), *config(tmp_path, tokens_file=tokens, anonymous="true")) as server:
        assert server.get("/metrics").status == 200 and "alula_process_" not in server.get("/metrics").text
        assert server.get("/metrics", Authorization="Bearer wrong").status == 401
        assert "alula_process_gpu_memory_bytes" in server.get("/metrics", **BEARER).text


def test_hashed_secrets(alula_bin, tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("no openssl here")
    hashed = subprocess.run(["openssl", "passwd", "-6", "correct horse"], capture_output=True, text=True, check=True).stdout
    digest = subprocess.run(["sha256sum"], input=TOKEN, capture_output=True, text=True, check=True).stdout.split()[0]
    options = config(tmp_path, tokens_file=secret_file(tmp_path / "tokens", f"sha256:{digest}\n"),
                     users_file=secret_file(tmp_path / "users", f"ann:{hashed}"))
    with serving(alula_bin, *scene(tmp_path), *options) as server:
        assert server.get("/metrics", **BEARER).status == 200
        assert server.get("/metrics", **basic("ann", "correct horse")).status == 200
        answers = [server.get("/metrics", **basic("ann", f"wrong {i}")) for i in range(8)]
        assert {a.status for a in answers} == {401, 429}
        assert [a.headers["retry-after"] for a in answers if a.status == 429][0] == "1"
        assert server.get("/metrics", **basic("ann", "correct horse")).status == 200  # known: not held up


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602])
def test_secrets_that_others_can_read_are_refused(alula, tmp_path, mode):
    tokens = secret_file(tmp_path / "tokens", TOKEN + "\n")
    os.chmod(tokens, mode)
    got = alula("serve", *scene(tmp_path), *config(tmp_path, tokens_file=tokens))
    assert got.returncode == 2
    assert got.stderr == f"alula: {tokens}: other users can read it; chmod 640 or 600\n"


# --- who sees what --------------------------------------------------------------------------------------------------


def test_without_credentials_own_processes_alone_and_no_command_lines(plain):
    got = plain.get("/api/v1/snapshot").json()
    assert [p["pid"] for p in got["processes"]] == [4200, 4300]
    assert {p["command"] for p in got["processes"]} == {None}
    assert "secret.py" not in plain.get("/api/v1/snapshot").text and "bob" not in plain.get("/api/v1/snapshot").text
    metrics = plain.get("/metrics").text
    assert "alula_process_" not in metrics and "train.py" not in metrics and "5000" not in re.sub(r"\} .*", "", metrics)
    assert re.search(r"^alula_gpu_processes\{.*\} 2$", metrics, re.M)


def test_with_credentials_all_processes_but_no_command_lines_in_metrics(guarded):
    got = guarded.get("/api/v1/snapshot", **BEARER).json()
    assert [p["pid"] for p in got["processes"]] == [4200, 4300, 5000]
    assert "python secret.py --lr 1" in [p["command"] for p in got["processes"]]
    metrics = guarded.get("/metrics", **BEARER).text
    assert re.search(r'^alula_process_gpu_memory_bytes\{gpu="0",uuid=".*",pid="5000"\} 1073741824$', metrics, re.M)
    assert re.search(r'^alula_process_info\{pid="5000",name="python",user="bob",', metrics, re.M)
    assert "secret.py" not in metrics and "train.py" not in metrics


def test_findings_about_others_are_told_without_their_processes(alula_bin, tmp_path):
    path = tmp_path / "starved.txt"
    path.write_text(scenes.starved("600s").replace("user=alice", f"user=alice uid={OTHER_UID}"))
    tokens = secret_file(tmp_path / "tokens", TOKEN + "\n")
    with serving(alula_bin, "--source", f"scenario:{path}", "--speed", "10",
                 *config(tmp_path, tokens_file=tokens, anonymous="true")) as server:
        full = scenes.wait_for(lambda: server.get("/api/v1/findings", **BEARER).json()["findings"])[0]
        less = server.get("/api/v1/findings").json()["findings"][0]
        assert full["job"] == 4200 and full["message"]
        assert (less["job"], less["pid"], less["message"], less["advice"], less["considered"]) == (None,) * 5
        assert (less["rule"], less["title"], less["gpu_uuid"]) == (full["rule"], full["title"], full["gpu_uuid"])


def test_capped_processes(alula_bin, tmp_path):
    tokens = secret_file(tmp_path / "tokens", TOKEN + "\n")
    with serving(alula_bin, *scene(tmp_path), *config(tmp_path, tokens_file=tokens), "--max-processes", "1") as server:
        metrics = server.get("/metrics", **BEARER).text
        assert re.search(r'^alula_process_gpu_memory_bytes\{.*pid="4300"\} 74088185856$', metrics, re.M)
        assert re.search(r'^alula_process_gpu_memory_bytes\{.*pid="other"\} 1073741824$', metrics, re.M)
        assert 'pid="5000"' not in metrics and "\nalula_processes_summed 1\n" in metrics


# --- the Host header ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "10.0.0.1", "LOCALHOST",
                                  socket.gethostname()])
def test_hosts_that_may(plain, host):
    assert plain.get("/metrics", Host=host.format(port=plain.port)).status == 200


@pytest.mark.parametrize("host", ["evil.example.org", "evil.example.org:9810", "localhost.evil.org", "127.0.0.1.nip.io", ""])
@pytest.mark.parametrize("path", ["/metrics", "/api/v1/snapshot", "/healthz", "/"])
def test_names_bound_to_this_address_by_others_get_nothing(plain, host, path):
    answer = plain.get(path, Host=host)
    assert answer.status == 421 and b"alula_" not in answer.body
    assert "access-control-allow-origin" not in answer.headers


def test_names_of_the_config_may(alula_bin, tmp_path):
    with serving(alula_bin, *scene(tmp_path), *config(tmp_path, hosts="[gpu1, gpu1.example.org]")) as server:
        assert server.get("/metrics", Host="gpu1.example.org:9810").status == 200
        assert server.get("/metrics", Host="gpu2.example.org:9810").status == 421


# --- beyond loopback ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", ["0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:9810"])
def test_nothing_listens_beyond_loopback_unprotected(alula, tmp_path, listen):
    got = alula("serve", "--listen", listen, *scene(tmp_path))
    assert got.returncode == 4 and got.stdout == ""
    assert "can be reached by others, and there are no credentials" in got.stderr and "--insecure-listen" in got.stderr


def test_listens_beyond_loopback_with_tokens_or_when_told_so(alula_bin, tmp_path):
    tokens = secret_file(tmp_path / "tokens", TOKEN + "\n")
    for options in (config(tmp_path, tokens_file=tokens), ("--insecure-listen",)):
        with serving(alula_bin, "--listen", "0.0.0.0:0", *scene(tmp_path), *options, wait=False) as server:
            assert server.url.startswith("http://0.0.0.0:")
            server.host = "127.0.0.1"
            assert server.get("/metrics", **BEARER).status == 200


# --- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("no openssl here")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    os.chmod(folder / "key.pem", 0o600)
    return folder


def test_tls(alula_bin, tmp_path, certificate):
    options = config(tmp_path, tls_certificate=certificate / "cert.pem", tls_key=certificate / "key.pem")
    with serving(alula_bin, *scene(tmp_path), *options) as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert "\nalula_up 1\n" in server.get("/metrics").text
        for version in ("-tls1", "-tls1_1"):
            got = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", version, "-cipher",
                                  "ALL:@SECLEVEL=0"], input="", capture_output=True, text=True, check=False)
            assert "Cipher is (NONE)" in got.stdout + got.stderr or got.returncode
        assert b"alula_" not in server.raw(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 3)  # no TLS: nothing
        assert server.get("/healthz").status == 200


@pytest.mark.parametrize("broken", ["no key", "no file", "readable key", "not PEM", "not a pair"])
def test_broken_tls_settings(alula, tmp_path, certificate, broken):
    cert, key = certificate / "cert.pem", tmp_path / "key.pem"
    shutil.copy(certificate / "key.pem", key)
    os.chmod(key, 0o644 if broken == "readable key" else 0o600)
    if broken == "no file":
        key = tmp_path / "none.pem"
    if broken == "not PEM":
        key.write_text("nothing of the kind\n")
    if broken == "not a pair":
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    values = {"tls_certificate": cert} if broken == "no key" else {"tls_certificate": cert, "tls_key": key}
    got = alula("serve", "--listen", "127.0.0.1:0", *scene(tmp_path), *config(tmp_path, **values))
    assert got.returncode == 2 and got.stderr.count("\n") == 1, got.stderr
    assert {"no key": "belong together", "no file": "none.pem", "readable key": "other users can read it"}.get(
        broken, "a PEM pair?") in got.stderr


# --- garbage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "NONSENSE"])
def test_only_reading(plain, method):
    answer = plain.get("/metrics", method=method)
    assert answer.status == 405 and answer.headers["allow"] == "GET, HEAD"
    assert plain.get("/metrics", method=method, body=b"a=b").status == 405


def test_head_has_the_headers_alone(plain):
    answer = plain.get("/metrics", method="HEAD")
    assert answer.status == 200 and answer.body == b"" and int(answer.headers["content-length"]) > 1000


def test_a_body_is_not_read(plain):
    assert plain.get("/metrics", body=b"x" * 10).status == 413
    head = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
    assert plain.raw(head + b"Content-Length: 99999999999\r\n\r\nxx").startswith(b"HTTP/1.1 413 ")
    assert plain.raw(head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n").startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("path", ["/../../../../etc/passwd", "/metrics/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
                                  "//metrics", "/metrics/", "/metrics%00.json", "/METRICS", "/api/v1/../../metrics", "/.",
                                  "/metrics;x", "/%6detrics", "/" + "a/" * 60, "/" + "x" * 1000])
def test_path_tricks(plain, path):
    answer = plain.get(path)
    assert answer.status in (400, 404) and b"root:" not in answer.body and b"alula_" not in answer.body


def test_oversized_requests(plain):
    assert plain.get("/metrics?" + "x" * 3000).status == 414
    assert plain.get("/metrics", X="x" * 20000).status == 431
    many = b"".join(b"X-%d: y\r\n" % i for i in range(3000))
    assert plain.raw(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n").startswith(b"HTTP/1.1 431 ")
    assert plain.raw(b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\n\r\n")[:12] in (b"", b"HTTP/1.1 414", b"HTTP/1.1 431")
    assert plain.get("/healthz").status == 200


@pytest.mark.parametrize("data", [
    b"\r\n\r\n", b"\x00" * 500, b"GET\r\n\r\n", b"GET /\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nContent-Length: -1\r\n\r\n",
    b"GET /metrics?\xff\xfe=\x80 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: local\x00host\r\n\r\n", b"G" * 40000, bytes(range(256)) * 40])
def test_garbage(plain, data):
    with plain.socket(5) as s:
        s.sendall(data)
        with contextlib.suppress(OSError):  # it may have hung up already
            s.shutdown(socket.SHUT_WR)
        answer = received(s)
    assert answer == b"" or re.match(rb"HTTP/1\.[01] (200|400|404|405|413|414|421|431|505) ", answer), answer[:80]
    assert plain.get("/healthz").status == 200


def test_http_1_0_without_a_host_is_answered(plain):
    assert plain.raw(b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.")
    assert b" 200 " in plain.raw(b"GET /healthz HTTP/1.0\r\n\r\n").split(b"\n")[0]


def test_requests_in_a_row(plain):
    """Pipelined and kept alive."""
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert plain.raw(one * 20 + last).count(b"HTTP/1.1 200 ") == 21


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tight(alula_bin, tmp_path_factory):
    path = tmp_path_factory.mktemp("tight")
    options = config(path, header_timeout="700ms", answer_timeout="1s", idle_timeout="2s", max_connections=64)
    big = path / "big.txt"
    big.write_text(scenes.busy(64, "3600s"))
    with serving(alula_bin, "--source", f"scenario:{big}", *options) as server:
        yield server


def seconds_until_closed(s, action=lambda: None, every=0.05, most=8):
    began = time.monotonic()
    s.settimeout(every)
    while time.monotonic() - began < most:
        try:
            if s.recv(4096) == b"":
                break
        except TimeoutError:
            pass
        except ConnectionError:
            break
        try:
            action()
        except OSError:
            break
    return time.monotonic() - began


def test_slow_loris(tight):
    """A byte now and then does not buy time: the headers have an end, whatever comes in the meantime."""
    with tight.socket() as s:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ")
        assert seconds_until_closed(s, lambda: s.sendall(b"y")) < 2.5
    with tight.socket() as s:
        assert seconds_until_closed(s, lambda: s.sendall(b"G")) < 2.5  # not even the request line
    with tight.socket() as s:
        assert seconds_until_closed(s) < 2.5  # nothing at all
    assert tight.metric("alula_http_connections_cut_total") >= 3


def test_a_client_that_stalls_mid_answer_is_cut(tight):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((tight.host, tight.port))
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)
        before = tight.metric("alula_http_connections_cut_total")
        ticks, skipped = tight.metric("alula_ticks_total"), tight.metric("alula_ticks_skipped_total")
        assert scenes.wait_for(lambda: tight.metric("alula_http_connections_cut_total") > before, 5)
        assert tight.metric("alula_ticks_total") > ticks  # sampling went on meanwhile
        assert tight.metric("alula_ticks_skipped_total") == skipped
    assert tight.get("/metrics").status == 200


def test_a_stream_that_takes_nothing_is_cut(tight):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((tight.host, tight.port))
        s.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert scenes.wait_for(lambda: tight.metric("alula_http_connections") == 1, 30)
    with tight.socket() as s:  # one that reads is not
        s.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert seconds_until_closed(s, most=3) >= 3


def test_idle_connections_are_closed(tight):
    connection = tight.connection()
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok\n"
    assert 1 < seconds_until_closed(connection.sock, most=8) < 5


def test_many_connections_do_not_keep_a_scraper_out(tight):
    """Many times the cap, all silent: who asks something is answered, memory stays bounded."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    opened = []
    try:
        before = tight.resident()
        for i in range(700):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex((tight.host, tight.port))
            opened.append(s)
            if i % 100 == 0:
                assert tight.get("/healthz").text == "ok\n"
        assert tight.get("/healthz").text == "ok\n"
        assert tight.metric("alula_http_connections") <= 64 + 32
        if not os.environ.get("ALULA_SANITIZED"):
            assert tight.resident() - before < 4 * 2**20
    finally:
        for s in opened:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    tight.wait_ready()


def test_streams_are_capped(alula_bin, tmp_path):
    with serving(alula_bin, *scene(tmp_path)) as server:
        opened = []
        for _ in range(16):
            connection = server.connection()
            connection.request("GET", "/api/v1/events")
            opened.append((connection, connection.getresponse()))
        assert all(response.status == 200 for _, response in opened)
        answer = server.get("/api/v1/events")
        assert answer.status == 503 and answer.json()["error"] == "too many event streams"
        for connection, _ in opened:
            connection.sock.close() if connection.sock else None
            connection.close()
        for _, response in opened:
            response.close()
        assert scenes.wait_for(lambda: server.metric("alula_http_connections") == 1, 10)


def test_many_scrapers_at_once(plain):
    failures = []

    def scrape():
        try:
            connection = plain.connection()
            for _ in range(20):
                connection.request("GET", "/metrics")
                response = connection.getresponse()
                body = response.read()
                if response.status != 200 or not body.endswith(b"\n"):
                    failures.append(response.status)
            connection.close()
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=scrape) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
