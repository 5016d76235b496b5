# SPDX-License-Identifier: Apache-2.0
"""A program on a pseudo-terminal, its screen kept by pyte (a terminal emulator)."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import pyte


class _Screen(pyte.Screen):
    """pyte's screen with what terminfo offers and pyte lacks: REP (repeat the last character), SU and SD (scroll)."""

    last = " "

    def draw(self, data):
        super().draw(data)
        self.last = data[-1] if data else self.last

    def repeat(self, count=1):
        super().draw(self.last * (count or 1))

    def _scroll(self, count, at_bottom, step):
        top, bottom = self.margins or (0, self.lines - 1)
        before = self.cursor.y
        self.cursor.y = bottom if at_bottom else top
        for _ in range(count or 1):
            step()
        self.cursor.y = before

    def scroll_up(self, count=1):
        self._scroll(count, True, self.index)

    def scroll_down(self, count=1):
        self._scroll(count, False, self.reverse_index)


class _Stream(pyte.ByteStream):
    more = {"b": "repeat", "S": "scroll_up", "T": "scroll_down"}
    csi = {**pyte.ByteStream.csi, **more}
    events = pyte.ByteStream.events | set(more.values())


class Terminal:
    """Runs `command` in a terminal of columns x rows; use it as a context manager."""

    def __init__(self, command, columns=120, rows=40, env=None, term="xterm-256color", before_exec=None):
        self.raw = b""
        self.screen = _Screen(columns, rows)
        self.stream = _Stream(self.screen)
        self.status = None
        full = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
        full.update({"TERM": term, "LC_ALL": "C.UTF-8", "TZ": "UTC", **(env or {})})
        if "ASAN_OPTIONS" in full:  # ncurses keeps some memory of a terminal type; our own leaks show in the other tests
            full["ASAN_OPTIONS"] += ":detect_leaks=0"
        full = {key: value for key, value in full.items() if value is not None}
        ready, go = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.read(ready, 1)  # the size stands before the program looks
            if before_exec:
                before_exec()
            os.execvpe(str(command[0]), [str(word) for word in command], full)
        self._set_size(columns, rows)
        self.modes = termios.tcgetattr(self.fd)
        os.write(go, b"x")
        os.close(go)
        os.close(ready)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.fd is not None:
            os.close(self.fd)

    def _set_size(self, columns, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        self._set_size(columns, rows)  # the kernel sends SIGWINCH

    def read(self, seconds=0.05):
        """Takes what comes within the time; False at the end of the output."""
        if self.fd is None or not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: the program has closed its side
            return False
        self.raw += data
        self.stream.feed(data)
        return bool(data)

    @property
    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self):
        return "\n".join(self.lines)

    def wait(self, wanted, timeout=15):
        """Reads until `wanted` (a text, or a function of the screen's text) holds; returns the screen's text."""
        holds = wanted if callable(wanted) else lambda text: wanted in text
        end = time.monotonic() + timeout
        while not holds(self.text):
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {wanted!r}; the screen:\n{self.text}")
            if not self.read():
                if holds(self.text):
                    break
                raise AssertionError(f"the program ended before {wanted!r}; the screen:\n{self.text}")
        self.settle()
        return self.text

    def settle(self):
        """The rest of a frame whose beginning was read."""
        for _ in range(10):
            before = len(self.raw)
            if not self.read(0.03) or len(self.raw) == before:
                return

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def click(self, x, y, button=0):
        """Presses a mouse button at a cell (from 0), in the encoding that the program asked for."""
        if b"1006" in self.raw:
            self.press(f"\033[<{button};{x + 1};{y + 1}M")
            if button < 64:  # the wheel is not let go
                self.press(f"\033[<{button};{x + 1};{y + 1}m")
            return
        os.write(self.fd, b"\033[M" + bytes([32 + button, 33 + x, 33 + y]))
        if button < 64:
            os.write(self.fd, b"\033[M" + bytes([32 + 3, 33 + x, 33 + y]))

    def end(self, timeout=10):
        """Reads to the program's end; its exit status, negative for a signal."""
        limit = time.monotonic() + timeout
        while self.status is None:
            if self.fd is not None:
                self.read(0.02)
            else:
                time.sleep(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > limit:
                raise AssertionError(f"did not end; the screen:\n{self.text}")
        while self.fd is not None and select.select([self.fd], [], [], 0)[0] and self.read(0):
            pass
        return self.status

    def close(self):
        """Closes the terminal under the program."""
        os.close(self.fd)
        self.fd = None

    def is_restored(self):
        """The modes are as before, the cursor is shown, the other screen and the mouse are off."""
        leave, enter = self.raw.rfind(b"\033[?1049l"), self.raw.rfind(b"\033[?1049h")
        mouse_on, mouse_off = self.raw.rfind(b"\033[?1000h"), self.raw.rfind(b"\033[?1000l")
        return (termios.tcgetattr(self.fd) == self.modes and leave > enter and mouse_off >= mouse_on
                and not self.screen.cursor.hidden)
