# SPDX-License-Identifier: Apache-2.0
"""libalula-probe.so from Python: its own calls through ctypes, and the loop's marks as functions of the interpreter
itself (src/probe/python.c), which cost some 50 ns a call. Loading it connects to nothing: the first mark does."""

import ctypes
import os
import sys

from . import library

# AL_PYTHON_FUNCTIONS and AL_PYTHON_OBJECTS of src/probe/python.h, in their order (a test compares them).
FUNCTIONS = ("PyLong_AsLongLong", "PyLong_FromLongLong", "Py_IncRef", "Py_DecRef", "PyObject_CallFunctionObjArgs",
             "PyObject_GetAttr", "PySequence_GetItem", "PyObject_GetItem", "PyDict_Next", "PyObject_Type", "PyErr_ExceptionMatches",
             "PyErr_Clear")
OBJECTS = (None, True, False, list, tuple, dict, Exception, sys.intern("shape"), sys.intern("_dataset"),
           sys.intern("_initialized"), sys.intern("input_ids"))


# Structs are read and written as words: the first ctypes.Structure of a process has Python 3.14 import modules.
METHOD_DEF = 4  # words of CPython's PyMethodDef: name, function, flags, doc


def _methods(lib):
    """{name: function}"""
    if sys.implementation.name != "cpython":
        raise OSError("no CPython")
    api = ctypes.pythonapi
    words = [ctypes.cast(getattr(api, name), ctypes.c_void_p).value for name in FUNCTIONS] + [id(value) for value in OBJECTS]
    python = (ctypes.c_size_t * (1 + len(words)))(0, *words)  # struct al_python of src/probe/python.h
    python[0] = ctypes.sizeof(python)
    lib.alula_probe_python.restype = ctypes.POINTER(ctypes.c_size_t)
    table = lib.alula_probe_python(python)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        ("PyCFunction_NewEx", api))
    methods, i = {}, 0
    start = ctypes.cast(table, ctypes.c_void_p).value
    while table and table[i]:
        methods[ctypes.string_at(table[i]).decode()] = make(start + i * ctypes.sizeof(ctypes.c_size_t), None, None)
        i += METHOD_DEF
    if not methods:
        raise OSError("another version of the probe")
    return methods


class Probe:
    """mark(kind, code, device, a, b), text(code, string), steps(), forked(), methods. OSError when there is no probe."""

    def __init__(self):
        lib = ctypes.CDLL(library or os.environ["ALULA_PROBE"])
        self.mark = lib.alula_probe_mark
        self.mark.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64]
        self._text = lib.alula_probe_text
        self._text.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
        self.steps = lib.alula_probe_steps
        self.steps.restype = ctypes.c_int64
        self.request = lib.alula_probe_request
        self.request.restype = ctypes.c_uint32
        self.forked = lib.alula_probe_forked
        self.forked.restype = None
        self.attach = lib.alula_probe_attach
        self.attach.argtypes = [ctypes.c_char_p]
        self.detach = lib.alula_probe_detach
        self.detach.restype = None
        self.methods = _methods(lib)

    def text(self, code, string):
        data = string.encode("utf-8", "replace")
        self._text(code, data, len(data))
