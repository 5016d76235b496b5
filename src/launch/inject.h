// SPDX-License-Identifier: Apache-2.0
// A line of Python for a running CPython process to run: at its next safe point, in its main thread.
//
// The interpreter's own way is taken where it has one (PEP 768, 3.14 and later: nothing is stopped). Otherwise the main
// thread is stopped once, for some hundred microseconds, and made to call Py_AddPendingCall(PyRun_SimpleString, line).
// It comes back by itself to where it was if alula dies meanwhile, and a system call that it waits in goes on.
#ifndef AL_LAUNCH_INJECT_H
#define AL_LAUNCH_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define AL_INJECT_LINE_MAX 800 // bytes of the line with its NUL
#define AL_INJECT_WHY 320      // bytes for a sentence

struct al_inject {
    pid_t pid;
    uint32_t version;        // PY_VERSION_HEX; 0: 3.8 to 3.10
    uint64_t add, run;       // Py_AddPendingCall, PyRun_SimpleString
    uint64_t runtime;        // _PyRuntime; 0 none
    uint64_t room;           // where the line can lie: unused bytes behind some library's code; 0 none
    bool remote;             // PEP 768 is on
    uint64_t script, script_size, pending, breaker; // its fields' addresses
};

// Whether it may and can be done. `root_fd`: where proc/ is ("/" in life). AL_E_NOENT, AL_E_GONE, AL_E_DENIED,
// AL_E_AGAIN (stopped, traced, in the kernel: not now), AL_E_UNSUPPORTED (no CPython 3.8+, not this machine), with the
// reason as a sentence. Changes nothing.
int al_inject_look(int root_fd, pid_t pid, struct al_inject *ret, char *why, size_t size);
// `line` is Python text that raises nothing, `script` (an absolute path, as seen by the process) a file that does
// the same. 0: it has been given to the interpreter, which may still not come to run it. AL_E_TIMEOUT: the process
// could not be stopped. Nothing has changed in the process when it fails.
int al_inject(const struct al_inject *t, const char *line, const char *script, char *why, size_t size);
// Takes back the room of a line that has been run; best effort.
void al_inject_clean(const struct al_inject *t);

#endif
