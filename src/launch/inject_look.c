// SPDX-License-Identifier: Apache-2.0
// Whether a line can be brought into a process: rights, state, machine, interpreter, room.
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "launch/inject.h"
#include "launch/inject_elf.h"
#include "launch/inject_maps.h"
#include "launch/inject_parts.h"

#define MAPS_MOST (64u << 20)
#define CAP_SYS_PTRACE_BIT 19
#define PAGE 4096ULL

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

__attribute__((format(printf, 4, 5))) static int because(int error, char *why, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, size, format, args);
    va_end(args);
    return error;
}

struct status {
    uint64_t tgid, tracer, uid, euid, suid, capabilities, shadow;
    char state;
};

static uint64_t field(const char *text, const char *name, int base, int column) {
    const char *p = strstr(text, name);
    p = p ? p + strlen(name) : "";
    for (; column > 0 && *p; column--) {
        p += strspn(p, " \t");
        p += strcspn(p, " \t\n");
    }
    return strtoull(p, NULL, base);
}

static int read_status(int root_fd, const char *name, struct status *ret) {
    char text[4096];
    ssize_t got = al_fs_readf(root_fd, text, sizeof text, "proc/%s/status", name);
    if (got < 0)
        return (int)got;
    const char *state = strstr(text, "\nState:"), *features = strstr(text, "\nx86_Thread_features:");
    *ret = (struct status){
        .tgid = field(text, "\nTgid:", 10, 0),
        .tracer = field(text, "\nTracerPid:", 10, 0),
        .uid = field(text, "\nUid:", 10, 0),
        .euid = field(text, "\nUid:", 10, 1),
        .suid = field(text, "\nUid:", 10, 2),
        .capabilities = field(text, "\nCapEff:", 16, 0),
        .state = state ? state[7 + strspn(state + 7, " \t")] : '?',
        .shadow = features && strstr(features, "shstk") != NULL,
    };
    return 0;
}

static int look_at_state(pid_t pid, const struct status *s, char *why, size_t size) {
    if (s->tgid && s->tgid != (uint64_t)pid)
        return because(AL_E_INVALID, why, size, "%d is a thread of process %" PRIu64 ": name that", (int)pid, s->tgid);
    if (s->tracer)
        return because(AL_E_AGAIN, why, size,
                       "process %d is being traced by process %" PRIu64 " (a debugger, strace or a profiler): end that first",
                       (int)pid, s->tracer);
    switch (s->state) {
    case 'Z':
    case 'X': return because(AL_E_GONE, why, size, "process %d has ended", (int)pid);
    case 'T':
    case 't':
        return because(AL_E_AGAIN, why, size, "process %d is stopped: let it go on first (kill -CONT %d)", (int)pid, (int)pid);
    case 'D':
        return because(AL_E_AGAIN, why, size,
                       "process %d waits inside the kernel for a disk, a network file system or a driver: try again later", (int)pid);
    default: return 0;
    }
}

static bool descends(int root_fd, pid_t pid, pid_t from) {
    for (int depth = 0; depth < 64 && pid > 1; depth++) {
        char text[4096];
        if (pid == from)
            return true;
        if (al_fs_readf(root_fd, text, sizeof text, "proc/%d/status", (int)pid) < 0)
            return false;
        pid = (pid_t)field(text, "\nPPid:", 10, 0);
    }
    return false;
}

static int look_at_rights(int root_fd, pid_t pid, const struct status *s, char *why, size_t size) {
    struct status own;
    if (read_status(root_fd, "self", &own))
        return 0; // the kernel will tell
    bool capable = own.capabilities >> CAP_SYS_PTRACE_BIT & 1;
    if (s->uid != s->euid || s->uid != s->suid)
        return because(AL_E_DENIED, why, size, "process %d runs with another user's rights (set-user-id): it is left alone", (int)pid);
    if (!capable && (s->uid != own.euid || own.uid != own.euid))
        return because(AL_E_DENIED, why, size,
                       "process %d belongs to user %" PRIu64 ": attach as that user or as root (sudo alula attach %d)", (int)pid,
                       s->uid, (int)pid);
    int scope = al_fs_ptrace_scope(root_fd);
    if (scope >= 3)
        return because(AL_E_DENIED, why, size,
                       "kernel.yama.ptrace_scope is 3: this machine lets nobody attach until it is started again; start the "
                       "job with alula run instead");
    if (scope == 2 && !capable)
        return because(AL_E_DENIED, why, size,
                       "kernel.yama.ptrace_scope is 2: only root may attach (sudo alula attach %d, or start the job with alula run)",
                       (int)pid);
    if (scope == 1 && !capable && !descends(root_fd, pid, getpid()))
        return because(AL_E_DENIED, why, size,
                       "kernel.yama.ptrace_scope is 1: use sudo alula attach %d, or sudo sysctl kernel.yama.ptrace_scope=0, or "
                       "start the job with alula run", (int)pid);
    return 0;
}

static int read_maps(int root_fd, pid_t pid, struct al_maps *ret, char *why, size_t size) {
    size_t cap = 1 << 20;
    for (;; cap *= 4) {
        char *text = cap <= MAPS_MOST ? malloc(cap) : NULL;
        if (!text)
            return because(AL_E_NOMEM, why, size, "process %d has too many mappings", (int)pid);
        ssize_t got = al_fs_readf(root_fd, text, cap, "proc/%d/maps", (int)pid);
        int result = got < 0 ? (int)got : (size_t)got + 1 < cap ? al_maps_parse(ret, text) : 1;
        free(text);
        if (result == 1)
            continue;
        if (result == AL_E_DENIED || result == AL_E_FORMAT)
            return because(AL_E_DENIED, why, size,
                           "the memory of process %d may not be read: it is a kernel thread, or another user's, or has "
                           "forbidden it (prctl), or the container does (docker run --cap-add SYS_PTRACE)", (int)pid);
        return result ? because(AL_E_GONE, why, size, "process %d has ended", (int)pid) : 0;
    }
}

// Unused bytes behind the code of a library: zero, and mapped with it because mappings end with a page.
static uint64_t find_room(pid_t pid, const struct al_maps *maps, const struct al_elf *e) {
    uint8_t bytes[AL_INJECT_ROOM];
    uint64_t from = (e->text_end + 63) & ~63ULL, end = (e->text_end + PAGE - 1) & ~(PAGE - 1);
    const struct al_map *map = from && end > from && end - from >= sizeof bytes ? al_maps_find(maps, from, sizeof bytes) : NULL;
    if (!map || !map->executable || !map->private || !al_memory_read(&pid, from, bytes, sizeof bytes))
        return 0;
    if (al_inject_is_stub(bytes)) // an earlier attach left it
        return from;
    for (size_t i = 0; i < sizeof bytes; i++)
        if (bytes[i])
            return 0;
    return from;
}

// Looks at every object in memory: names first, then the rest (an embedded interpreter, a renamed one).
static int look_at_objects(struct al_inject *t, const struct al_maps *maps, char *why, size_t size) {
    struct al_elf e;
    bool denied = true;
    for (int named = 1; named >= 0; named--) {
        for (size_t i = 0; i < maps->count; i++) {
            const struct al_map *m = &maps->maps[i];
            if (!m->header || !m->readable || m->python != named)
                continue;
            int result = al_elf_open(&e, al_memory_read, &t->pid, m->start);
            if (e.class) // something could be read
                denied = false;
            if (result == AL_E_UNSUPPORTED || (result == 0 && e.machine != OWN_MACHINE))
                return because(AL_E_UNSUPPORTED, why, size, "process %d is a program for another machine (32 bit, or emulated)", (int)t->pid);
            if (result)
                continue;
            if (!t->room)
                t->room = find_room(t->pid, maps, &e);
            uint64_t add = t->run ? 0 : al_elf_symbol(&e, "Py_AddPendingCall");
            uint64_t run = add ? al_elf_symbol(&e, "PyRun_SimpleString") : 0, version = 0;
            if (!run)
                continue;
            t->add = add;
            t->run = run;
            t->runtime = al_elf_symbol(&e, "_PyRuntime");
            if ((version = al_elf_symbol(&e, "Py_Version")) != 0)
                (void)al_memory_read(&t->pid, version, &t->version, sizeof t->version);
            if (!al_elf_symbol(&e, "Py_BytesMain"))
                return because(AL_E_UNSUPPORTED, why, size, "process %d is Python before 3.8", (int)t->pid);
        }
    }
    if (denied)
        return because(AL_E_DENIED, why, size,
                       "the memory of process %d may not be read (in a container: docker run --cap-add SYS_PTRACE)", (int)t->pid);
    return t->run ? 0 : because(AL_E_UNSUPPORTED, why, size, "process %d is not CPython", (int)t->pid);
}

int al_inject_look(int root_fd, pid_t pid, struct al_inject *ret, char *why, size_t size) {
    struct status s;
    struct al_maps maps = {0};
    char name[24];
    *ret = (struct al_inject){.pid = pid};
    *why = '\0';
    (void)snprintf(name, sizeof name, "%d", (int)pid);
    int result = pid > 0 ? read_status(root_fd, name, &s) : AL_E_NOENT;
    if (result)
        return because(result == AL_E_DENIED ? result : AL_E_NOENT, why, size, "no process %d", (int)pid);
    if ((result = look_at_state(pid, &s, why, size)) || (result = look_at_rights(root_fd, pid, &s, why, size)) ||
        (result = read_maps(root_fd, pid, &maps, why, size)))
        return result;
    result = look_at_objects(ret, &maps, why, size);
    al_maps_free(&maps);
    if (result)
        return result;
    al_inject_look_remote(ret);
    if (ret->remote)
        return 0;
#if !defined(__x86_64__)
    return because(AL_E_UNSUPPORTED, why, size,
                   "on this machine only Python 3.14 and later can be attached to; start the job with alula run");
#endif
    if (s.shadow)
        return because(AL_E_UNSUPPORTED, why, size, "process %d runs with a shadow stack, which its main thread cannot be called on", (int)pid);
    if (!ret->room)
        return because(AL_E_UNSUPPORTED, why, size, "no library of process %d has unused bytes behind its code", (int)pid);
    return 0;
}
