# SPDX-License-Identifier: Apache-2.0
"""An OTLP receiver and webhook for tests of what alula pushes: keeps what comes, answers as it is told to."""

import gzip
import http.server
import json
import ssl
import threading
import time

from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

import scenes


class Message:
    def __init__(self, path, headers, body):
        self.path, self.headers, self.raw, self.time = path, headers, body, time.monotonic()
        self.zipped = headers.get("Content-Encoding") == "gzip"
        self.body = gzip.decompress(body) if self.zipped else body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def request(self):
        request = metrics_service_pb2.ExportMetricsServiceRequest()
        request.ParseFromString(self.body)
        return request

    @property
    def metrics(self):
        return {m.name: m for m in self.request.resource_metrics[0].scope_metrics[0].metrics}

    def points(self, name):
        metric = self.metrics[name]
        return list(getattr(metric, metric.WhichOneof("data")).data_points)

    def values(self, name, *keys):
        """Value by the given attributes."""
        found = {}
        for point in self.points(name):
            labels = attributes(point)
            key = tuple(labels.get(k) for k in keys)
            assert key not in found
            found[key if len(keys) != 1 else key[0]] = point.as_double
        return found


def attributes(point):
    return {a.key: a.value.string_value for a in point.attributes}


class Receiver:
    """answer(number, message) gives (status, headers, body), or None to say nothing until the end."""

    def __init__(self, answer=lambda number, message: (200, {}, b""), tls=None, port=0):
        self.got, self.answer, self.lock, self.over = [], answer, threading.Lock(), threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                message = Message(self.path, self.headers, body)
                with outer.lock:
                    outer.got.append(message)
                    answer = outer.answer(len(outer.got), message)
                if answer is None:
                    outer.over.wait(30)
                    self.close_connection = True
                    return
                status, headers, body = answer
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, address):
                pass

        self.server = Quiet(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()

    def wait(self, count, timeout=15):
        assert scenes.wait_for(lambda: len(self.got) >= count, timeout), f"{len(self.got)} messages came"
        return self.got

    def of(self, path):
        return [m for m in self.got if m.path == path]
