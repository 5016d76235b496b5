// SPDX-License-Identifier: Apache-2.0
// What the kernel says about a thread. The scheduler's figures are one cheap read of a file that stays open; only when
// they moved is the state asked for. A thread that slept then, and whose figures have not moved since, has not run.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/str.h"
#include "stack/parts.h"

#define OPEN_MOST 4096  // files that stay open, of all samplers
#define LONG_ASLEEP 100 // samples, after which the one of the two files that is not needed is closed
#if defined __aarch64__
#define FUTEX_NUMBER 98
#else
#define FUTEX_NUMBER 202
#endif

// musl's pthread_cond_wait: {previous, next, state, barrier, ...} on the waiter's stack; it sleeps in the barrier.
#define MUSL_BARRIER 20u
#define QUEUE_MOST 256

static atomic_int open_files;

static ssize_t read_file(const struct al_stack *s, pid_t tid, const char *name, char *out, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%d/task/%d/%s", s->procfs, (int)s->pid, (int)tid, name);
    return al_fs_head(path, out, size);
}

static void close_one(int *fd) {
    if (*fd >= 0) {
        close(*fd);
        atomic_fetch_sub(&open_files, 1);
    }
    *fd = -1;
}

void al_task_free(struct al_task *t) {
    close_one(&t->figures_fd);
    close_one(&t->state_fd);
}

// Through a file that stays open while there are not too many of them. False: the thread is gone, or has no such file.
static bool read_kept(const struct al_stack *s, int *fd, pid_t tid, const char *name, char *out, size_t size) {
    char path[256];
    if (*fd < 0 && atomic_load(&open_files) < OPEN_MOST) {
        snprintf(path, sizeof path, "%s/%d/task/%d/%s", s->procfs, (int)s->pid, (int)tid, name);
        *fd = open(path, O_RDONLY | O_CLOEXEC);
        if (*fd >= 0)
            atomic_fetch_add(&open_files, 1);
    }
    ssize_t n = *fd < 0 ? read_file(s, tid, name, out, size) : pread(*fd, out, size - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

// "run_ns wait_ns slices"; false: the kernel has none.
static bool schedstat(const struct al_stack *s, struct al_task *t, pid_t tid, uint64_t figures[3]) {
    char text[128], *at = text;
    if (!read_kept(s, &t->figures_fd, tid, "schedstat", text, sizeof text))
        return false;
    for (int i = 0; i < 3; i++)
        figures[i] = strtoull(at, &at, 10);
    return true;
}

static char state_of(const struct al_stack *s, struct al_task *t, pid_t tid) {
    char text[512];
    if (!read_kept(s, &t->state_fd, tid, "stat", text, sizeof text))
        return '?';
    char *end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : '?';
}

// Whether the list of waiters of a condition variable in the GIL's struct leads to that futex (musl).
static bool is_queued(const struct al_stack *s, uint64_t gil, uint64_t futex) {
    uint64_t words[64], node = futex - MUSL_BARRIER;
    size_t count = s->found.layout.gil_size / 8, holder = s->found.layout.gil_holder / 8;
    if (count > sizeof words / sizeof *words || !al_address_ok(node, 8) ||
        !al_memory_get(&s->memory, gil, words, (uint32_t)(8 * count)))
        return false;
    for (int n = 0; n < QUEUE_MOST && al_address_ok(node, 8); n++) {
        for (size_t i = 0; i < count; i++)
            if (words[i] == node && i != holder)
                return true;
        if (!al_memory_u64(&s->memory, node, &node)) // the one that came to wait after it
            return false;
    }
    return false;
}

// A thread that waits for the GIL sleeps in a futex that lies in the GIL's struct, or that this leads to.
static uint8_t waits_for(const struct al_stack *s, const char *call, uint64_t gil) {
    char *end;
    long number = strtol(call, &end, 10);
    uint64_t futex;
    if (!gil)
        return AL_STACK_UNKNOWN;
    if (end == call || number != FUTEX_NUMBER || sscanf(end, " 0x%" SCNx64, &futex) != 1)
        return AL_STACK_NO;
    bool waits = (futex >= gil && futex - gil < s->found.layout.gil_size) || is_queued(s, gil, futex);
    return waits ? AL_STACK_YES : AL_STACK_NO;
}

// What it does now: the call that it sleeps in is "running" for one that does not, at a third of what stat costs. Kernels
// without that file have stat.
static void look_at_state(const struct al_stack *s, struct al_task *t, pid_t tid, uint64_t gil) {
    char call[256];
    t->waits_gil = AL_STACK_NO;
    if (t->calls_unknown || !read_kept(s, &t->state_fd, tid, "syscall", call, sizeof call)) {
        if (!t->calls_unknown)
            close_one(&t->state_fd);
        t->calls_unknown = true;
        char state = state_of(s, t, tid);
        t->idle = state == '?' ? AL_STACK_UNKNOWN : state == 'R' ? AL_STACK_NO : AL_STACK_YES;
        if (t->idle == AL_STACK_YES)
            t->waits_gil = AL_STACK_UNKNOWN;
        return;
    }
    t->idle = call[0] == 'r' ? AL_STACK_NO : AL_STACK_YES;
    if (t->idle == AL_STACK_YES)
        t->waits_gil = waits_for(s, call, gil);
}

void al_task_look(struct al_stack *s, struct al_slot *slot, uint64_t gil) {
    struct al_task *t = &slot->task;
    uint64_t now[3];
    if (!slot->tid) {
        t->idle = t->waits_gil = AL_STACK_UNKNOWN;
        t->known = false;
        return;
    }
    // Of one that ran a moment ago the state alone is asked: its figures serve to tell a sleep from the next.
    bool ran = t->idle == AL_STACK_NO;
    bool figures = !ran && schedstat(s, t, slot->tid, now);
    if (figures && t->known && t->off_cpu && now[0] == t->run_ns && now[2] == t->slices) {
        t->quiet = t->quiet < UINT8_MAX ? (uint8_t)(t->quiet + 1) : UINT8_MAX;
        if (t->quiet == LONG_ASLEEP)
            close_one(&t->state_fd);
        return;
    }
    look_at_state(s, t, slot->tid, gil);
    if (ran && t->idle == AL_STACK_YES)
        figures = schedstat(s, t, slot->tid, now);
    t->off_cpu = figures && t->idle == AL_STACK_YES;
    t->known = figures;
    t->quiet = 0;
    if (figures) {
        t->run_ns = now[0];
        t->wait_ns = now[1];
        t->slices = now[2];
    }
}

void al_task_name(struct al_stack *s, struct al_slot *slot) {
    char text[64];
    if (!slot->tid || read_file(s, slot->tid, "comm", text, sizeof text) <= 0)
        return;
    text[strcspn(text, "\n")] = '\0';
    (void)al_str_copy(slot->name, sizeof slot->name, al_str_clean(text));
}
