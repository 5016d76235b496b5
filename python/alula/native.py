# SPDX-License-Identifier: Apache-2.0
"""libalula.so (include/alula/alula.h) through ctypes."""

import ctypes
from typing import Any, List

from . import _place
from .errors import AlulaError

# enum alula_error
AGAIN, TIMEOUT = -16, -14


class Sample(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("gpu_id", ctypes.c_uint32)]
                + [(name, ctypes.c_double) for name in
                   ("timestamp", "gpu_util_percent", "mem_used_gb", "mem_total_gb", "mem_usage_ratio",
                    "pytorch_allocated_gb", "pytorch_reserved_gb", "power_watts", "temperature_celsius")]
                + [(name, ctypes.c_uint32) for name in
                   ("util_status", "memory_status", "pytorch_status", "power_status", "temperature_status", "reserved")])


class Window(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("count", ctypes.c_uint32)]
                + [(name, ctypes.c_double) for name in
                   ("seconds", "last", "mean", "peak", "min", "deviation", "slope_per_second", "slope_low",
                    "slope_high")])


def _declare(lib: Any) -> None:
    tracker, unsigned = ctypes.c_void_p, ctypes.c_uint
    for name, result, arguments in (
            ("alula_version", ctypes.c_char_p, ()),
            ("alula_error_message", ctypes.c_char_p, ()),
            ("alula_error_text", ctypes.c_char_p, (ctypes.c_int,)),
            ("alula_tracker_new_list", ctypes.c_int, (ctypes.c_char_p, unsigned, ctypes.POINTER(tracker))),
            ("alula_tracker_free", tracker, (tracker,)),
            ("alula_tracker_device_count", unsigned, (tracker,)),
            ("alula_tracker_device_uuid", ctypes.c_char_p, (tracker, unsigned)),
            ("alula_tracker_device_name", ctypes.c_char_p, (tracker, unsigned)),
            ("alula_tracker_sample_all", ctypes.c_int, (tracker, ctypes.POINTER(Sample), unsigned)),
            ("alula_tracker_window", ctypes.c_int, (tracker, unsigned, ctypes.c_int, ctypes.POINTER(Window))),
            ("alula_tracker_quantile", ctypes.c_int,
             (tracker, unsigned, ctypes.c_int, ctypes.c_double, ctypes.POINTER(ctypes.c_double))),
            ("alula_tracker_history", ctypes.c_int,
             (tracker, unsigned, ctypes.c_int, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double), unsigned)),
            ("alula_sample_json", ctypes.c_int, (ctypes.POINTER(Sample), ctypes.c_char_p, ctypes.c_size_t))):
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = list(arguments)


_library: Any = None


def library() -> Any:
    """libalula.so, loaded once. AlulaError says where it was looked for."""
    global _library
    if _library is not None:
        return _library
    tried: List[str] = []
    for place in _place.libraries():
        try:
            lib = ctypes.CDLL(place)
            _declare(lib)
        except (OSError, AttributeError) as error:
            tried.append("%s (%s)" % (place, error))
            continue
        _library = lib
        return lib
    raise AlulaError("libalula.so was not found: install alula, or name the file in ALULA_LIBRARY; tried: "
                     + "; ".join(tried))


def message(lib: Any, error: int) -> str:
    """Of this thread's last failure."""
    text = lib.alula_error_message() or lib.alula_error_text(error)
    return str(text.decode("utf-8", "replace"))
