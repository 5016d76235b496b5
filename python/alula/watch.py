# SPDX-License-Identifier: Apache-2.0
"""What the callbacks of all trainers share: figures at steps, epochs and logs, and the lines that tell them."""

import time
from typing import Any, Callable, Dict, Optional, Union

from . import host_memory, torch_memory
from .tracker import GPUTracker

GB = torch_memory.GB
GROWTH_GB = 0.5   # of an epoch
FULL_RATIO = 0.9
FRESH_S = 1.0     # a reading of the driver that a log line may use


def _gb(count: Optional[int]) -> Optional[float]:
    return None if count is None else round(count / GB, 2)


class Watch:
    """begin(), then epoch(), step() and logs() as they come. `say` takes a line."""

    def __init__(self, interval_steps: int, say: Callable[[str], None],
                 device_index: Union[int, str, None] = None) -> None:
        self.interval = interval_steps
        self.say = say
        self.device_index = device_index
        self.quiet = False  # this process says warnings alone (another one of the node tells the rest)
        self.who = ""
        self._tracker: Optional[GPUTracker] = None
        self._figures: Dict[str, Optional[float]] = {}
        self._read_at = 0.0
        self._epochs = 0
        self._epoch: Optional[int] = None
        self._at_epoch: Optional[int] = None
        self._looked = False

    def begin(self, keys_go_to: str) -> None:
        why = self._open_tracker()
        gpu = "no GPU figures: " + why
        if self._tracker is not None:
            name = self._tracker.gpus[0]
            gpu = "GPU %d (%s)" % (name.gpu_id, name.name)
        self._tell("watching RAM of this process and %s; a line every %d steps, alula/... keys in %s"
                   % (gpu, self.interval, keys_go_to))

    def end(self) -> None:
        tracker, self._tracker = self._tracker, None
        self._looked = False
        if tracker is not None:
            tracker.close()

    def _tell(self, text: str, warning: bool = False) -> None:
        if warning or not self.quiet:
            self.say("alula: %s%s%s" % ("WARNING: " if warning else "", self.who, text))

    def _open_tracker(self) -> str:
        """The reason where there is none."""
        self._looked = True
        try:
            device = torch_memory.own_gpu() if self.device_index is None else self.device_index
            if device is None:
                return "CUDA_VISIBLE_DEVICES names none"
            self._tracker = GPUTracker(device, 2)
            self._figures = self._tracker.sample()
            self._read_at = time.monotonic()
            return ""
        except Exception as error:
            self._tracker = None
            return str(error)

    def _read(self, fresh_s: float = 0.0) -> Dict[str, Optional[float]]:
        """The latest figures of the GPU; {} without one."""
        if not self._looked:
            self._open_tracker()
        now = time.monotonic()
        if self._tracker is not None and (not self._figures or now - self._read_at > fresh_s):
            try:
                self._figures = self._tracker.sample()
                self._read_at = now
            except Exception as error:  # the driver hangs or is gone: it is not asked again
                self._figures, self._tracker = {}, None
                self._tell("no GPU figures from here on: %s" % error, warning=True)
        return self._figures

    def _torch(self) -> Dict[str, Optional[float]]:
        """Of the tracker's GPU, else of the process's current device."""
        if self._figures.get("pytorch_allocated_gb") is not None:
            return self._figures
        module = torch_memory.cuda()
        allocated, reserved = torch_memory.of_device(module.current_device() if module is not None else None)
        return {"pytorch_allocated_gb": _gb(allocated), "pytorch_reserved_gb": _gb(reserved)}

    def epoch(self, number: int) -> None:
        """An epoch begins. The first one's growth is warm-up: caches, workers, the optimizer's state."""
        host = host_memory.read()
        now = host.anonymous if host.anonymous is not None else host.resident
        if host.resident is None or now is None:
            return
        text = "epoch %d begins: RAM %.2f GB" % (number, host.resident / GB)
        if host.anonymous is not None:
            text += ", of it %.2f GB anonymous" % (host.anonymous / GB)
        growth = None if self._at_epoch is None else (now - self._at_epoch) / GB
        before = self._epoch or 0
        if growth is not None:
            text += "; epoch %d added %.2f GB" % (before, growth)
            text += " (warm-up)" if self._epochs == 1 else ""
        self._tell(text)
        if growth is not None and growth > GROWTH_GB and self._epochs > 1:
            self._tell("RAM grew by %.2f GB in epoch %d (%.2f -> %.2f GB), more than %.2f GB: something may keep what it should "
                       "give back" % (growth, before, (self._at_epoch or 0) / GB, now / GB, GROWTH_GB), warning=True)
        self._epochs += 1
        self._epoch, self._at_epoch = number, now

    def step(self, number: int) -> None:
        if number <= 0 or number % self.interval:
            return
        figures, torch, host = self._read(), self._torch(), host_memory.read()
        parts = []
        if figures:
            parts.append("GPU %d %s" % (figures["gpu_id"] or 0, _percent(figures["gpu_util_percent"])))
            if figures["mem_usage_ratio"] is not None:
                parts.append("memory %.2f / %.2f GB (%.1f %%)" % (figures["mem_used_gb"] or 0, figures["mem_total_gb"] or 0,
                                                                figures["mem_usage_ratio"] * 100))
        if torch["pytorch_reserved_gb"] is not None:
            parts.append("PyTorch %.2f GB allocated, %.2f GB reserved" % (torch["pytorch_allocated_gb"] or 0,
                                                                          torch["pytorch_reserved_gb"]))
        if host.resident is not None:
            parts.append("RAM %.2f GB" % (host.resident / GB))
        self._tell("step %d: %s" % (number, "; ".join(parts)))
        ratio = figures.get("mem_usage_ratio")
        if ratio is not None and ratio > FULL_RATIO:
            self._tell("step %d: GPU %d's memory is %.1f %% full, above %.0f %%" % (number, figures["gpu_id"] or 0, ratio * 100,
                                                                                   FULL_RATIO * 100), warning=True)

    def logs(self, logs: Any) -> None:
        """Into a trainer's dictionary of scalars, what is known alone."""
        if not isinstance(logs, dict) or "train_runtime" in logs or any(str(key).startswith(("eval_", "test_"))
                                                                        for key in logs):
            return
        figures, torch, host = self._read(FRESH_S), self._torch(), host_memory.read()
        for name in ("gpu_util_percent", "mem_used_gb", "mem_usage_ratio"):
            _put(logs, name, figures.get(name))
        for name in ("pytorch_allocated_gb", "pytorch_reserved_gb"):
            _put(logs, name, torch[name])
        _put(logs, "ram_gb", _gb(host.resident))
        _put(logs, "ram_anonymous_gb", _gb(host.anonymous))


def _put(logs: Dict[str, Any], name: str, value: Optional[float]) -> None:
    if value is not None:
        logs["alula/" + name] = value


def _percent(value: Optional[float]) -> str:
    return "utilisation unknown" if value is None else "%.0f %%" % value
