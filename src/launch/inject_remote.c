// SPDX-License-Identifier: Apache-2.0
// PEP 768: CPython 3.14 and later look at fields of their own main thread for a script to run. Where the fields are, a
// table at the begin of _PyRuntime tells (struct _Py_DebugOffsets of CPython's pycore_debug_offsets.h; its groups up to
// the last one differ from version to version, so the last group's place is known by version).
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "launch/inject_maps.h"
#include "launch/inject_parts.h"

#define PLEASE_STOP (1u << 5) // _PY_EVAL_PLEASE_STOP_BIT of pycore_ceval.h, 3.14 and 3.15
#define BYTES_MOST (1u << 20) // more than any of these structs has

static const struct {
    uint32_t minor, support, size; // of the table: debugger_support, whole
} tables[] = {{14, 712, 760}, {15, 840, 888}};

// From the table; the order within the groups is the same in both.
enum { AT_VERSION = 8, AT_INTERPRETERS = 40, AT_THREADS_MAIN = 80, SUPPORT_FIELDS = 6 };

static bool get64(const struct al_inject *t, uint64_t address, uint64_t *ret) {
    pid_t pid = t->pid;
    return al_memory_read(&pid, address, ret, sizeof *ret);
}

void al_inject_look_remote(struct al_inject *t) {
    pid_t pid = t->pid;
    uint64_t version, head, interpreter, main_at, thread;
    uint64_t s[SUPPORT_FIELDS]; // eval_breaker, remote_debugger_support, …_enabled, …_pending_call, …_path, …_path_size
    char cookie[8];
    uint32_t enabled, support = 0;
    t->remote = false;
    if (!t->runtime || t->version >> 24 != 3)
        return;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (tables[i].minor == (t->version >> 16 & 0xff))
            support = tables[i].support;
    bool final = (t->version >> 4 & 0xf) >= 0xc; // the table still grows in alphas and betas
    if (!support || !final || !al_memory_read(&pid, t->runtime, cookie, sizeof cookie) ||
        memcmp(cookie, "xdebugpy", sizeof cookie) != 0 || !get64(t, t->runtime + AT_VERSION, &version) ||
        version != t->version || !al_memory_read(&pid, t->runtime + support, s, sizeof s) ||
        !get64(t, t->runtime + AT_INTERPRETERS, &head) || !get64(t, t->runtime + AT_THREADS_MAIN, &main_at))
        return;
    for (int i = 0; i < SUPPORT_FIELDS; i++)
        if (s[i] > BYTES_MOST)
            return;
    if (head > BYTES_MOST || main_at > BYTES_MOST || s[5] < 16 || !get64(t, t->runtime + head, &interpreter) || !interpreter ||
        !get64(t, interpreter + main_at, &thread) || !thread ||
        !al_memory_read(&pid, interpreter + s[2], &enabled, sizeof enabled) || enabled != 1)
        return;
    t->pending = thread + s[1] + s[3];
    t->script = thread + s[1] + s[4];
    t->script_size = s[5];
    t->breaker = thread + s[0];
    t->remote = true;
}

int al_inject_by_remote(const struct al_inject *t, const char *script, char *why, size_t size) {
    const int32_t one = 1;
    size_t length = strlen(script) + 1;
    uint64_t breaker;
    if (length > t->script_size || !al_memory_write(t->pid, t->script, script, length) ||
        !al_memory_write(t->pid, t->pending, &one, sizeof one) || !get64(t, t->breaker, &breaker)) {
        (void)snprintf(why, size, "the memory of process %d cannot be written", (int)t->pid);
        return AL_E_DENIED;
    }
    breaker |= PLEASE_STOP;
    if (al_memory_write(t->pid, t->breaker, &breaker, sizeof breaker))
        return 0;
    (void)snprintf(why, size, "the memory of process %d cannot be written", (int)t->pid);
    return AL_E_DENIED;
}
