# SPDX-License-Identifier: Apache-2.0
"""GPUs over a sliding window, by libalula.so."""

import ctypes
import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import native, torch_memory
from .errors import AlulaError

# enum alula_metric
METRICS = ("gpu_util_percent", "mem_used_gb", "mem_usage_ratio", "power_watts", "temperature_celsius")


class Window(NamedTuple):
    """A metric over the last window_size readings; a reading that the driver gave twice counts once."""
    readings: int
    seconds: float
    last: float
    mean: float
    peak: float
    min: float
    deviation: float  # of the population
    slope_per_second: Optional[float]  # None with fewer than three readings; so are its 95 % limits
    slope_low: Optional[float]
    slope_high: Optional[float]


class Gpu(NamedTuple):
    gpu_id: int
    uuid: str
    name: str


def _known(number: float) -> Optional[float]:
    return number if number == number else None


class GPUTracker:
    """GPUTracker(device_index=0, window_size=120).sample(): the driver's figures of one GPU, or of several
    (device_index="0,2", a UUID, [0, 1], or None for all). AlulaError without a driver or without such a GPU."""

    def __init__(self, device_index: Union[int, str, Sequence[Union[int, str]], None] = 0, window_size: int = 120) -> None:
        self._tracker: Any = None
        self._lib = native.library()
        if device_index is not None and not isinstance(device_index, (int, str)):
            device_index = ",".join(str(part) for part in device_index)
        if isinstance(device_index, bool) or isinstance(device_index, int) and device_index < 0:
            raise ValueError("device_index must be a GPU's index (0, 1, ...), its UUID or a list of them")
        if isinstance(window_size, bool) or not isinstance(window_size, int) or not 2 <= window_size <= 1000000:
            raise ValueError("window_size must be a number of readings between 2 and 1000000")
        tracker = ctypes.c_void_p()
        names = None if device_index is None else str(device_index).encode()
        error = self._lib.alula_tracker_new_list(names, window_size, ctypes.byref(tracker))
        if error:
            raise AlulaError(native.message(self._lib, error))
        self._tracker = tracker
        self._count = int(self._lib.alula_tracker_device_count(tracker))
        self._devices: Dict[int, Optional[int]] = {}
        self.window_size = window_size
        self.gpus: List[Gpu] = []

    def close(self) -> None:
        """Gives the driver back; later calls fail."""
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            self._lib.alula_tracker_free(tracker)

    def __enter__(self) -> "GPUTracker":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass  # the interpreter ends

    def _open(self) -> Any:
        if self._tracker is None:
            raise AlulaError("this GPUTracker is closed")
        return self._tracker

    def _text(self, function: Any, position: int) -> str:
        return str((function(self._open(), position) or b"").decode("utf-8", "replace"))

    def sample_all(self) -> List[Dict[str, Optional[float]]]:
        """One record a GPU, with the keys that sample() has."""
        tracker, samples = self._open(), (native.Sample * self._count)()
        for sample in samples:
            sample.size = ctypes.sizeof(native.Sample)
        count = self._lib.alula_tracker_sample_all(tracker, samples, self._count)
        if count < 0:
            raise AlulaError(native.message(self._lib, count))
        if not self.gpus:
            self.gpus = [Gpu(samples[i].gpu_id, self._text(self._lib.alula_tracker_device_uuid, i),
                             self._text(self._lib.alula_tracker_device_name, i)) for i in range(count)]
        return [self._record(samples[i], i) for i in range(count)]

    def sample(self) -> Dict[str, Optional[float]]:
        """Reads now. timestamp, gpu_id, gpu_util_percent, mem_used_gb, mem_total_gb, mem_usage_ratio and, of this process's
        own torch, pytorch_allocated_gb and pytorch_reserved_gb; a figure that is not known is None. GB are 2^30 bytes."""
        return self.sample_all()[0]

    def _record(self, sample: native.Sample, position: int) -> Dict[str, Optional[float]]:
        text = ctypes.create_string_buffer(512)
        self._lib.alula_sample_json(ctypes.byref(sample), text, len(text))
        record: Dict[str, Optional[float]] = json.loads(text.value)
        allocated, reserved = torch_memory.of_device(self._torch_device(position))
        if allocated is not None and reserved is not None:
            record["pytorch_allocated_gb"] = round(allocated / torch_memory.GB, 2)
            record["pytorch_reserved_gb"] = round(reserved / torch_memory.GB, 2)
        return record

    def _torch_device(self, position: int) -> Optional[int]:
        if position not in self._devices:
            if torch_memory.cuda() is None:
                return None
            gpu = self.gpus[position]
            self._devices[position] = torch_memory.device_of(gpu.uuid, gpu.gpu_id)
        return self._devices[position]

    def _metric(self, name: str, device: int) -> int:
        if name not in METRICS:
            raise ValueError("no metric %r: one of %s" % (name, ", ".join(METRICS)))
        if not 0 <= device < self._count:
            raise ValueError("device must lie between 0 and %d" % (self._count - 1))
        return METRICS.index(name)

    def window(self, metric: str = "gpu_util_percent", device: int = 0) -> Optional[Window]:
        """Statistics over the window; None while it holds no reading. device counts this tracker's GPUs from 0."""
        w = native.Window(size=ctypes.sizeof(native.Window))
        error = self._lib.alula_tracker_window(self._open(), device, self._metric(metric, device), ctypes.byref(w))
        if error == native.AGAIN:
            return None
        if error:
            raise AlulaError(native.message(self._lib, error))
        return Window(w.count, w.seconds, w.last, w.mean, w.peak, w.min, w.deviation, _known(w.slope_per_second),
                      _known(w.slope_low), _known(w.slope_high))

    def quantile(self, q: float, metric: str = "gpu_util_percent", device: int = 0) -> Optional[float]:
        """q in 0..1, linear between neighbours; None while there is no reading."""
        if not 0 <= q <= 1:
            raise ValueError("q must lie between 0 and 1")
        value = ctypes.c_double()
        error = self._lib.alula_tracker_quantile(self._open(), device, self._metric(metric, device), q, ctypes.byref(value))
        if error == native.AGAIN:
            return None
        if error:
            raise AlulaError(native.message(self._lib, error))
        return value.value

    def history(self, metric: str = "gpu_util_percent", device: int = 0) -> List[Tuple[float, float]]:
        """(seconds since the epoch, value) of the window's readings, oldest first."""
        times, values = (ctypes.c_double * self.window_size)(), (ctypes.c_double * self.window_size)()
        count = self._lib.alula_tracker_history(self._open(), device, self._metric(metric, device), times, values,
                                                self.window_size)
        if count < 0 and count != native.AGAIN:
            raise AlulaError(native.message(self._lib, count))
        return [(times[i], values[i]) for i in range(max(count, 0))]
