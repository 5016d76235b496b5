# SPDX-License-Identifier: Apache-2.0
"""Marks of the job's own in what `alula run` or `alula attach` watch; elsewhere they cost some 0.3 µs and do nothing.

Where the start hook is at work its loop takes them (python/hook/_alula_hook/loop.py), so that they fit what it sees by
itself. In a process without torch the probe's library is called directly."""

import functools
import os
import sys
import threading
from typing import Any, Callable, List, Optional, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

# src/model/event.h (a test compares them)
PHASES = ("other", "data", "forward", "backward", "optimizer", "evaluation", "save", "log", "rollout", "communication")
MARKS = ("epoch", "step")
_CODES = {name: code for code, name in enumerate(PHASES)}
_HELLO, _EPOCH, _RECORD_VERSION = 1, 5, 1
_STEP_DONE = 1 << 16  # AL_PROBE_TURN_STATE: AL_STEP_DONE + 1
_SAMPLES, _SAMPLES_MOST = 24, (1 << 32) - 1


class _Direct:
    """A process without the hook's loop. The first thread that marks is the loop's."""

    def __init__(self, path: str) -> None:
        import ctypes
        lib = ctypes.CDLL(path)
        self._turn, self._mark, self._steps = lib.alula_probe_turn, lib.alula_probe_mark, lib.alula_probe_steps
        self._turn.argtypes = [ctypes.c_uint64]
        self._mark.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64]
        self._steps.restype = ctypes.c_int64
        self._thread = threading.get_ident()
        self._number = -1
        self._own_steps = 0
        if _hook() is None:  # which says it better
            self._mark(_HELLO, _RECORD_VERSION, -1, _environ("RANK", -1), _environ("WORLD_SIZE", 0))

    def mine(self) -> bool:
        return self._thread == threading.get_ident()

    def begin(self, code: int) -> bool:
        return self.mine() and bool(self._turn(code + 1 << 8))

    def end(self, code: int) -> None:
        self._turn(code + 1)

    def epoch(self, number: int) -> None:
        self._number = number if number >= 0 else self._number + 1
        self._mark(_EPOCH, 0, -1, self._number, 0)

    def step(self, samples: int) -> None:
        """Unless something else counts steps here: the hook, from an optimizer's step."""
        if int(self._steps()) == self._own_steps:
            self._turn(_STEP_DONE | min(max(samples, 0), _SAMPLES_MOST) << _SAMPLES)
            self._own_steps += 1


def _environ(name: str, unknown: int) -> int:
    try:
        return int(os.environ.get(name, ""))
    except ValueError:
        return unknown


_direct: Optional[_Direct] = None
_decided = False


def _direct_or_none() -> Optional[_Direct]:
    """Decided at the first mark, by what alula put into the environment."""
    global _direct, _decided
    if not _decided:
        _decided = True
        try:
            if os.environ.get("ALULA_SOCKET") and os.environ.get("ALULA_PROBE"):
                _direct = _Direct(os.environ["ALULA_PROBE"])
        except Exception:
            _direct = None
    return _direct


def _hook() -> Any:
    """The hook's loop, if torch is there and alula watches."""
    loop = sys.modules.get("_alula_hook.loop")
    return loop if loop is not None and hasattr(loop, "enter") else None


# What begins and ends a phase in the hook's loop: it knows what may be open inside of which.
def _begin(loop: Any, code: int) -> bool:
    name = PHASES[code]
    if name == "data":
        return bool(loop.data_begin())
    if name == "forward":
        loop.forward_begin(None)
        return bool(loop.active())
    if name == "backward":
        return bool(loop.backward_begin())
    if name == "optimizer":
        return bool(loop.clip_begin())
    return bool(loop.enter(code))


def _end(loop: Any, code: int) -> None:
    name = PHASES[code]
    if name == "data":
        loop.data_done()
    elif name == "forward":
        loop.forward_end()
    elif name == "backward":
        loop.backward_end()
    elif name == "optimizer":
        loop.clip_end()
    else:
        loop.leave(code)


def _epoch(loop: Any, number: int) -> None:
    loop.epoch(number)


# Where alula watches, torch.compile breaks a graph here without a word.
for _active in (_begin, _end, _epoch):
    setattr(_active, "_torchdynamo_disable", True)


_OPEN_AFTER_ERROR = (_CODES["forward"], _CODES["backward"], _CODES["optimizer"])


class phase:
    """`with alula.phase("rollout"):` or `@alula.phase("rollout")`: this part of the loop, by the names of PHASES."""

    __slots__ = ("_code", "_open")

    def __init__(self, name: str) -> None:
        code = _CODES.get(name)
        if code is None:
            raise ValueError("no phase %r: one of %s" % (name, ", ".join(PHASES)))
        self._code = code
        self._open: Optional[List[Any]] = None

    def __enter__(self) -> "phase":
        # One list for what was begun: an object may be entered again inside of itself.
        loop = sys.modules.get("_alula_hook.loop")
        if loop is None and _decided and _direct is None:
            return self
        begun: Any = None
        try:
            loop = _hook()
            if loop is not None:
                begun = loop if _begin(loop, self._code) else None
            else:
                direct = _direct_or_none()
                begun = direct if direct is not None and direct.begin(self._code) else None
        except Exception:
            begun = None
        if self._open is None:
            self._open = []
        self._open.append(begun)
        return self

    def __exit__(self, kind: Any, *rest: object) -> None:
        if not self._open:
            return
        begun = self._open.pop()
        try:
            if isinstance(begun, _Direct):
                begun.end(self._code)
            elif begun is not None:
                if kind is not None and self._code in _OPEN_AFTER_ERROR:
                    return  # it stays open, so that a job's end shows where it was
                _end(begun, self._code)
        except Exception:
            pass

    def __call__(self, function: F) -> F:
        name = PHASES[self._code]

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with phase(name):
                return function(*args, **kwargs)
        return cast(F, wrapped)


def mark(name: str, number: int = -1, samples: int = 0) -> None:
    """mark("epoch"), mark("epoch", 3): an epoch begins. mark("step", samples=32): a step ended, for loops whose optimizer
    is none of torch's; where alula counts steps by itself it is ignored."""
    if name not in MARKS:
        raise ValueError("no mark %r: one of %s; parts of the loop are alula.phase(...)" % (name, ", ".join(MARKS)))
    if sys.modules.get("_alula_hook.loop") is None and _decided and _direct is None:
        return
    try:
        loop = _hook()
        if loop is not None and name == "epoch":
            _epoch(loop, int(number))
            return
        direct = _direct_or_none()
        if direct is None or not direct.mine():
            return
        if name == "epoch":
            direct.epoch(int(number))
        else:
            direct.step(int(samples))
    except Exception:
        pass  # never the job's business
