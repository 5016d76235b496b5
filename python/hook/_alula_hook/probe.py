# SPDX-License-Identifier: Apache-2.0
"""libalula-probe.so from Python. `turn` is made into a function of the interpreter itself, about 50 ns a call."""

import ctypes
import os

METH_O = 0x0008


class _MethodDef(ctypes.Structure):  # CPython's PyMethodDef
    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


_kept = []  # the interpreter refers to the method's definition for as long as it runs


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p)


def _fast_turn(lib):
    api = ctypes.pythonapi
    lib.alula_probe_python.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    lib.alula_probe_python.restype = None
    lib.alula_probe_python(_address(api.PyLong_AsLongLong), _address(api.Py_IncRef))
    definition = _MethodDef(b"turn", _address(lib.alula_probe_call).value, METH_O, None)
    _kept.append(definition)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ("PyCFunction_NewEx", api))
    return make(ctypes.addressof(definition), None, None)


class Probe:
    """turn(n), mark(kind, code, device, a, b), text(code, string), state(), forked(). OSError when there is no probe."""

    def __init__(self):
        lib = ctypes.CDLL(os.environ["ALULA_PROBE"])
        self.mark = lib.alula_probe_mark
        self.mark.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64]
        self._text = lib.alula_probe_text
        self._text.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
        self.steps = lib.alula_probe_steps
        self.steps.restype = ctypes.c_int64
        self.request = lib.alula_probe_request
        self.request.restype = ctypes.c_uint32
        self.state = lib.alula_probe_state
        self.forked = lib.alula_probe_forked
        self.forked.restype = None
        self.turn = lib.alula_probe_turn
        self.turn.argtypes = [ctypes.c_uint64]
        try:
            self.turn = _fast_turn(lib)
        except Exception:  # an interpreter that is no CPython
            pass

    def text(self, code, string):
        data = string.encode("utf-8", "replace")
        self._text(code, data, len(data))
