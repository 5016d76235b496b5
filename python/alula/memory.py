# SPDX-License-Identifier: Apache-2.0
"""Memory around calls: what each took and left, whether a service gives back what its requests take, and emptying
torch's cache where that pays. Nothing here synchronises but empty_cache() itself."""

import functools
import inspect
import logging
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar, Union, cast, overload

from . import host_memory, torch_memory

F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger("alula")

GB = torch_memory.GB
MIB = 1 << 20
# As much as alula run's own rules take for noise: on the host and on a device.
HOST_TOLERANCE, DEVICE_TOLERANCE = 64 * MIB, 32 * MIB
FIGURES = ("anonymous", "allocated", "reserved")


class Reading(NamedTuple):
    """Bytes at a moment, or the change over a call; None where it is not known (no CUDA in this process)."""
    anonymous: Optional[int]  # private host memory of the process
    allocated: Optional[int]  # in torch's tensors, all devices
    reserved: Optional[int]   # what torch's allocator holds


def read() -> Reading:
    devices = torch_memory.of_process()
    known = torch_memory.cuda() is not None
    return Reading(host_memory.read().anonymous, sum(a for a, _ in devices.values()) if known else None,
                   sum(r for _, r in devices.values()) if known else None)


def _delta(before: Reading, after: Reading) -> Reading:
    parts = [None if a is None or b is None else b - a for a, b in zip(before, after)]
    return Reading(*parts)


def size(count: float) -> str:
    """-1.50 GB, 12.0 MB: units of 1024."""
    if abs(count) >= GB:
        return "%.2f GB" % (count / GB)
    return "%.1f MB" % (count / MIB)


class _Floors:
    """The least reading of each of the last blocks of calls: what a figure never falls below is kept."""
    BLOCKS = 4

    def __init__(self, block: int) -> None:
        self.block = block
        self.calls = 0
        self.floors: Dict[str, List[int]] = {name: [] for name in FIGURES}
        self.lowest: Dict[str, int] = {}
        self.told: Dict[str, int] = {}

    def add(self, reading: Reading) -> List[Tuple[str, int, int]]:
        """(figure, floor some blocks ago, floor now) of those that rise throughout and by more than is noise."""
        self.calls += 1
        for name, value in zip(FIGURES, reading):
            if value is not None:
                self.lowest[name] = min(value, self.lowest.get(name, value))
        if self.calls % self.block:
            return []
        rises = []
        for name, value in self.lowest.items():
            floors = self.floors[name]
            if self.calls > self.block:  # the first block warms up
                floors.append(value)
            del floors[:-self.BLOCKS]
            if len(floors) == self.BLOCKS and all(a < b for a, b in zip(floors, floors[1:])):
                rises.append((name, floors[0], floors[-1]))
        self.lowest = {}
        return rises

    def worth_telling(self, name: str, floor: int, now: int, tolerance: int) -> bool:
        """Again only when it has grown by as much again."""
        if now - floor <= tolerance or now - self.told.get(name, floor) <= tolerance and name in self.told:
            return False
        self.told[name] = now
        return True


class Memory:
    """Of a watched function, as its attribute `memory`."""

    def __init__(self, name: str, must_give_back: bool, block: int, tolerance_mb: Optional[float]) -> None:
        self.name = name
        self.calls = 0
        self.last: Optional[Reading] = None  # change over the last call that ended
        self.most = Reading(None, None, None)  # the greatest change of each
        self.warnings: List[str] = []
        self._lock = threading.Lock()
        self._floors = _Floors(block) if must_give_back else None
        self._tolerance = None if tolerance_mb is None else int(tolerance_mb * MIB)

    def ended(self, before: Reading) -> None:
        after = read()
        change = _delta(before, after)
        with self._lock:
            self.calls += 1
            self.last = change
            self.most = Reading(*(b if a is None else a if b is None else max(a, b) for a, b in zip(self.most, change)))
            lines = self._judge(after) if self._floors is not None else []
            self.warnings.extend(lines)
        if logger.isEnabledFor(logging.INFO):
            logger.info("alula: %s: %s", self.name, self._text(change))
        for line in lines:
            logger.warning("%s", line)

    def _text(self, change: Reading) -> str:
        return ", ".join("%s %s" % (name, "unknown" if value is None else ("+" if value > 0 else "") + size(value))
                         for name, value in zip(FIGURES, change))

    def _judge(self, after: Reading) -> List[str]:
        assert self._floors is not None
        lines = []
        for name, floor, now in self._floors.add(after):
            tolerance = self._tolerance
            if tolerance is None:
                tolerance = HOST_TOLERANCE if name == "anonymous" else DEVICE_TOLERANCE
            if self._floors.worth_telling(name, floor, now, tolerance):
                calls = self._floors.block * (self._floors.BLOCKS - 1)
                lines.append("alula: WARNING: %s does not give back its memory: %s was at least %s and is at least %s %d "
                             "calls later (%s a call)" % (self.name, _WORDS[name], size(floor), size(now), calls,
                                                          size((now - floor) / calls)))
        return lines


_WORDS = {"anonymous": "private host memory", "allocated": "memory in torch's tensors",
          "reserved": "memory that torch's allocator holds"}


class Watcher:
    """What watch_memory(...) returns: decorates a function, or is itself a block of code: `with watch_memory() as memory:`."""

    def __init__(self, must_give_back: bool, calls: int, tolerance_mb: Optional[float]) -> None:
        self._options = (must_give_back, calls, tolerance_mb)
        self._before: List[Optional[Reading]] = []
        self._memory: Optional[Memory] = None

    def __call__(self, function: F) -> F:
        memory = Memory(getattr(function, "__qualname__", repr(function)), *self._options)
        wrapped: Any
        if inspect.iscoroutinefunction(function):
            @functools.wraps(function)
            async def wrapped_async(*args: Any, **kwargs: Any) -> Any:
                before = _try_read()
                try:
                    return await function(*args, **kwargs)
                finally:
                    _ended(memory, before)
            wrapped = wrapped_async
        else:
            @functools.wraps(function)
            def wrapped_call(*args: Any, **kwargs: Any) -> Any:
                before = _try_read()
                try:
                    return function(*args, **kwargs)
                finally:
                    _ended(memory, before)
            wrapped = wrapped_call
        wrapped.memory = memory
        return cast(F, wrapped)

    def __enter__(self) -> Memory:
        if self._memory is None:
            caller = sys._getframe(1)
            self._memory = Memory("%s:%d" % (os.path.basename(caller.f_code.co_filename), caller.f_lineno), *self._options)
        self._before.append(_try_read())
        return self._memory

    def __exit__(self, *error: object) -> None:
        if self._memory is not None:
            _ended(self._memory, self._before.pop())


@overload
def watch_memory(function: F) -> F: ...


@overload
def watch_memory(function: None = None, *, must_give_back: bool = False, calls: int = 16,
                 tolerance_mb: Optional[float] = None) -> Watcher: ...


def watch_memory(function: Optional[F] = None, *, must_give_back: bool = False, calls: int = 16,
                 tolerance_mb: Optional[float] = None) -> Union[F, Watcher]:
    """@watch_memory: what each call changes, in `function.memory.last` and as an INFO line of the logger "alula"; or
    `with watch_memory() as memory:`, and then memory.last.

    @watch_memory(must_give_back=True), for what handles a request: a warning when the floor of host memory, or of torch's
    allocated or reserved memory, rises over 4 blocks of `calls` calls by more than 64 MB (host) or 32 MB (device), or
    `tolerance_mb`. The first block warms up and is not judged. Functions and coroutine functions."""
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise ValueError("calls must be a number of calls from 1")
    if tolerance_mb is not None and not tolerance_mb >= 0:
        raise ValueError("tolerance_mb must not be negative")
    watcher = Watcher(must_give_back, calls, tolerance_mb)
    return watcher if function is None else watcher(function)


def _try_read() -> Optional[Reading]:
    try:
        return read()
    except Exception:
        return None


def _ended(memory: Memory, before: Optional[Reading]) -> None:
    """Never the job's business."""
    try:
        if before is not None:
            memory.ended(before)
    except Exception:
        logger.debug("alula: memory of %s", memory.name, exc_info=True)


# torch.compile breaks a graph here without a word.
for _around in (_try_read, _ended):
    setattr(_around, "_torchdynamo_disable", True)


class _Emptying:
    """When the cache was emptied last, and how long to wait until the next time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last: Optional[float] = None
        self.factor = 1


_emptying = _Emptying()
_WAIT_MOST = 64  # times min_interval_s


def conditional_empty_cache(threshold_gb: float = 6, min_interval_s: float = 60) -> float:
    """Empties torch's cache when it holds more than threshold_gb (of 2^30 bytes) on a device that no tensor uses, at most
    once in min_interval_s, and twice as seldom after each time that gave back less than a tenth. Returns the GB that
    came back, 0.0 where nothing was done, and says what it did as a WARNING line of the logger "alula". It synchronises,
    and the next steps allocate anew: between requests and tasks it may pay, between training steps hardly ever."""
    if not threshold_gb >= 0 or not min_interval_s >= 0:
        raise ValueError("threshold_gb and min_interval_s must not be negative")
    if not _emptying.lock.acquire(blocking=False):
        return 0.0
    try:
        return _empty(threshold_gb * GB, min_interval_s)
    except Exception:
        logger.debug("alula: cannot empty the cache", exc_info=True)
        return 0.0
    finally:
        _emptying.lock.release()


def _empty(threshold: float, min_interval_s: float) -> float:
    now = time.monotonic()
    if _emptying.last is not None and now - _emptying.last < min_interval_s * _emptying.factor:
        return 0.0
    before = torch_memory.of_process()
    if not any(reserved - allocated > threshold for allocated, reserved in before.values()) or torch_memory.capturing():
        return 0.0
    _emptying.last = now
    unused = sum(reserved - allocated for allocated, reserved in before.values())
    sys.modules["torch.cuda"].empty_cache()
    took = time.monotonic() - now
    after = torch_memory.of_process()
    given = max(0, sum(r for _, r in before.values()) - sum(r for _, r in after.values()))
    _emptying.factor = 1 if given * 10 >= unused else min(_emptying.factor * 2, _WAIT_MOST)
    logger.warning("alula: WARNING: torch's cache held %s that no tensor used, more than %s: emptied, %s came back in %.0f ms",
                   size(unused), size(threshold), size(given), took * 1000)
    return given / GB
