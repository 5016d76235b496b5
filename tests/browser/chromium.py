# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven by its DevTools protocol over two pipes: no driver and no package between."""

import base64
import collections
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--force-device-scale-factor=1", "--remote-debugging-pipe")
KEYS = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "Home": 36}


def find():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page. What it logged, threw and asked for is kept: `errors`, `requests`."""

    def __init__(self, profile, width=1280, height=800):
        read_end, self.to = os.pipe()
        self.of, write_end = os.pipe()
        # The browser reads at 3 and writes at 4, which may be taken: neither end lies there.
        low, (read_end, write_end) = (read_end, write_end), [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read_end, write_end)]
        for end in low:
            os.close(end)
        command = f'exec "$0" "$@" 3<&{read_end} 4>&{write_end}'
        self.process = subprocess.Popen(["bash", "-c", command, find(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
                                        pass_fds=(read_end, write_end), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_end)
        os.close(write_end)
        self.number, self.buffer, self.events, self.session = 0, b"", collections.deque(), None
        self.errors, self.requests, self.scripted = [], [], True
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.size(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.to)
        self.process.kill()
        self.process.wait()
        os.close(self.of)

    def message(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            if not select.select([self.of], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.of, 1 << 20)
            if not data:
                raise EOFError("the browser has ended")
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def note(self, message):
        name, given = message["method"], message["params"]
        if name == "Runtime.exceptionThrown":
            self.errors.append(given["exceptionDetails"].get("exception", {}).get("description") or given["exceptionDetails"]["text"])
        elif name == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.errors.append(given["entry"]["text"])
        elif name == "Runtime.consoleAPICalled" and given["type"] == "error":
            self.errors.append(str(given["args"]))
        elif name == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif name == "Page.javascriptDialogOpening":
            self.errors.append("a dialog: " + given["message"])
        self.events.append(name)

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.message(60)
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            if "method" in answer:
                self.note(answer)

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def dark(self, on=True):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def scripts(self, on):
        """Of pages that are opened from now on."""
        self.call("Emulation.setScriptExecutionDisabled", value=not on)
        self.scripted = on

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url=str(url) if "://" in str(url) else "file://" + str(url))
        self.wait(lambda: "Page.loadEventFired" in self.events)
        self.settle()

    def wait(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < end, "it did not come to be"
            self.evaluate("0")
            time.sleep(0.02)
        return value

    def settle(self):
        """Two frames later: what was asked for is drawn."""
        if self.scripted:
            self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def evaluate(self, expression):
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")

    def box(self, selector):
        return self.evaluate(f"(r => [r.x, r.y, r.width, r.height])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def hover(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.settle()

    def click(self, x, y):
        self.hover(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.settle()

    def key(self, name):
        more = {"windowsVirtualKeyCode": KEYS[name]} if name in KEYS else {"text": name}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, **(more if kind == "keyDown" else {}))
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def choose(self, selector, value):
        self.evaluate(f"(s => {{ s.value = {json.dumps(value)}; s.dispatchEvent(new Event('change')); }})(document.querySelector({json.dumps(selector)}))")
        self.settle()

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
