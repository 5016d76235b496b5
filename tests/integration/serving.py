# SPDX-License-Identifier: Apache-2.0
"""alula serve as a background process on a port of its own, and requests to it."""

import contextlib
import http.client
import json
import os
import re
import socket
import ssl

import scenes


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.all_headers = response.getheaders()
        self.body = response.read()

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)


class Server:
    def __init__(self, process, url):
        self.process, self.url = process, url
        self.host, self.port = re.fullmatch(r"https?://\[?(.*?)\]?:(\d+)", url).groups()
        self.port = int(self.port)
        self.tls = url.startswith("https")

    def connection(self, timeout=10):
        if not self.tls:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=context)

    def get(self, path, method="GET", body=None, **headers):
        connection = self.connection()
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def raw(self, data, timeout=10):
        """Sends bytes as they are; returns all that comes back until the end of the stream."""
        with self.socket(timeout) as s, contextlib.suppress(ConnectionError):
            s.sendall(data)
            return received(s)
        return b""

    def socket(self, timeout=10):
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def metric(self, name, **headers):
        """Value of the first series whose name and labels begin so, None without one."""
        found = re.search(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", self.get("/metrics", **headers).text, re.M)
        return float(found[1]) if found else None

    def wait_ready(self):
        assert scenes.wait_for(lambda: self.get("/readyz").status == 200)

    def resident(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            return int(re.search(r"^VmRSS:\s+(\d+) kB", f.read(), re.M)[1]) * 1024


def received(s):
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := s.recv(65536):
            parts.append(part)
    return b"".join(parts)


@contextlib.contextmanager
def serving(alula_bin, *args, env=None, wait=True, **kwargs):
    """Serves on a free port of loopback unless --listen is among the arguments."""
    if "--listen" not in args:
        args = ("--listen", "127.0.0.1:0", *args)
    with scenes.running(alula_bin, "serve", *args, env=env, **kwargs) as process:
        line = process.stderr.readline()
        found = re.fullmatch(r"alula: serving on (\S+)\n", line)
        assert found, line + (process.stderr.read() if process.poll() is not None else "")
        server = Server(process, found[1])
        if wait:
            server.wait_ready()
        yield server


def secret_file(path, text):
    path.write_text(text)
    os.chmod(path, 0o600)
    return path
