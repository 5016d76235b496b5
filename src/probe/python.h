// SPDX-License-Identifier: Apache-2.0
// The loop's marks as functions of CPython (3.8 and newer, with or without the global lock): they cost a tenth of the
// same in Python, where a training step has driven the code out of the caches. The probe links no libpython, so the
// interpreter's functions and objects are handed over by address. All of this runs in calls that the interpreter makes,
// on a thread that it knows; nothing here takes its lock.
#ifndef AL_PROBE_PYTHON_H
#define AL_PROBE_PYTHON_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/probe.h"

typedef void al_object; // PyObject

// X(result, field, arguments, name): what the interpreter exports under that name.
#define AL_PYTHON_FUNCTIONS(X)                                                                                         \
    X(long long, as_number, (al_object *), "PyLong_AsLongLong")                                                        \
    X(al_object *, from_number, (long long), "PyLong_FromLongLong")                                                    \
    X(void, keep, (al_object *), "Py_IncRef")                                                                          \
    X(void, drop, (al_object *), "Py_DecRef")                                                                          \
    X(al_object *, call, (al_object *, ...), "PyObject_CallFunctionObjArgs")                                           \
    X(al_object *, attribute, (al_object *, al_object *), "PyObject_GetAttr")                                          \
    X(al_object *, item, (al_object *, ssize_t), "PySequence_GetItem")                                                 \
    X(al_object *, value, (al_object *, al_object *), "PyObject_GetItem")                                              \
    X(int, next_pair, (al_object *, ssize_t *, al_object **, al_object **), "PyDict_Next")                             \
    X(al_object *, type, (al_object *), "PyObject_Type")                                                               \
    X(int, error_is, (al_object *), "PyErr_ExceptionMatches")                                                          \
    X(void, clear, (void), "PyErr_Clear")

// X(field): objects that live as long as the interpreter.
#define AL_PYTHON_OBJECTS(X)                                                                                           \
    X(none) X(yes) X(no) X(list) X(tuple) X(dict) X(exception) X(name_shape) X(name_dataset) X(name_initialized) \
    X(name_input_ids)

struct al_python {
    size_t bytes; // of this structure, as the caller has it
#define X(result, field, arguments, name) result(*field) arguments;
    AL_PYTHON_FUNCTIONS(X)
#undef X
#define X(field) al_object *field;
    AL_PYTHON_OBJECTS(X)
#undef X
};

// PyMethodDef, whose layout is part of CPython's stable ABI.
struct al_python_method {
    const char *name;
    al_object *(*call)(al_object *self, al_object *const *args, ssize_t count);
    int flags;
    const char *help;
};

// The methods, up to one without a name; NULL when the structure is not the one known here.
AL_PROBE_EXPORT struct al_python_method *alula_probe_python(const struct al_python *python);

#endif
