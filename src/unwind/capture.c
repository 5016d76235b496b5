// SPDX-License-Identifier: Apache-2.0
#include "unwind/capture_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"

#define RATE_DEFAULT 100.0
#define RATE_MOST 10000.0
#define STATUS_MOST 65536u

int64_t al_capture_status_of(const char *procfs, const char *whose, const char *name) {
    char path[256], wanted[64], *text;
    size_t len;
    int64_t value = -1;
    (void)snprintf(path, sizeof path, "%s/%s/status", procfs, whose);
    (void)snprintf(wanted, sizeof wanted, "\n%s:", name);
    if (al_fs_slurp(path, STATUS_MOST, &text, &len) < 0)
        return -1;
    const char *at = strstr(text, wanted);
    if (at && sscanf(at + strlen(wanted), "%ld", &value) != 1)
        value = -1;
    free(text);
    return value;
}

void al_capture_copy_stack(struct al_capture *c, struct al_unwind_input *in) {
    struct iovec own = {c->record, c->stack_size}, other = {(void *)(uintptr_t)in->regs[AL_REG_SP], c->stack_size};
    ssize_t n = process_vm_readv(c->pid, &own, 1, &other, 1, 0); // stops where the mapping ends
    in->stack = c->record;
    in->size = n > 0 ? (size_t)n & ~(size_t)7 : 0;
}

static struct al_capture *new_capture(pid_t pid, const struct al_capture_settings *settings) {
    struct al_capture *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    double rate = settings->rate > 0 ? settings->rate : RATE_DEFAULT;
    c->pid = pid;
    c->period_ns = (uint64_t)(1e9 / (rate < RATE_MOST ? rate : RATE_MOST));
    c->stack_size = settings->stack_size ? settings->stack_size : AL_CAPTURE_STACK_DEFAULT;
    if (c->stack_size > AL_CAPTURE_STACK_MOST)
        c->stack_size = AL_CAPTURE_STACK_MOST;
    c->stack_size &= ~7u;
    (void)al_str_copy(c->procfs, sizeof c->procfs, settings->procfs ? settings->procfs : "/proc");
    c->last = AL_CAPTURE_NOTHING;
    c->record = malloc(AL_CAPTURE_RECORD);
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (c->record && c->epoll_fd >= 0)
        return c;
    al_capture_free(c);
    return NULL;
}

int al_capture_open(pid_t pid, const struct al_capture_settings *settings, struct al_capture **ret, unsigned *ret_ways,
                    struct al_unwind_error *error) {
    static int (*const tries[])(struct al_capture *, struct al_unwind_error *) = {al_perf_try, al_waiting_try, al_stopping_try};
    struct al_unwind_error why;
    *error = (struct al_unwind_error){""};
    *ret = NULL;
    *ret_ways = 0;
    struct al_capture *c = new_capture(pid, settings);
    int first = 0;
    if (!c)
        return AL_E_NOMEM;
    for (int i = 0; i < 3 && first != AL_E_GONE; i++) {
        if (!(settings->ways & 1u << i))
            continue;
        int result = tries[i](c, &why);
        if (!result)
            c->ways |= 1u << i;
        if (!result || first)
            continue;
        first = result;
        *error = why;
    }
    if (first == AL_E_GONE || !c->ways) {
        al_capture_free(c);
        return first ? first : AL_E_INVALID;
    }
    *ret = c;
    *ret_ways = c->ways;
    return 0;
}

void al_capture_free(struct al_capture *c) {
    if (!c)
        return;
    al_stopping_free(c);
    al_perf_free(c);
    if (c->epoll_fd >= 0)
        close(c->epoll_fd);
    free(c->record);
    free(c);
}

int al_capture_thread(struct al_capture *c, pid_t tid, unsigned ways, struct al_unwind_input *ret,
                      enum al_capture_status *ret_status, int64_t *ret_age_ns) {
    bool found = false;
    int result = 0;
    ways &= c->ways;
    *ret = (struct al_unwind_input){0};
    *ret_age_ns = 0;
    c->last = AL_CAPTURE_NOTHING;
    c->last_tid = tid;
    if (ways & AL_CAPTURE_BLOCKING) {
        result = al_stopping_picture(c, tid, ret, &found);
        c->last = found ? AL_CAPTURE_STOPPED : AL_CAPTURE_NOTHING;
    } else {
        if (ways & AL_CAPTURE_WAITING)
            result = al_waiting_picture(c, tid, ret, &found);
        c->last = found ? AL_CAPTURE_ASLEEP : AL_CAPTURE_NOTHING;
        if (!result && !found && (ways & AL_CAPTURE_PERF)) {
            result = al_perf_picture(c, tid, ret, &found, ret_age_ns);
            c->last = found ? AL_CAPTURE_RUNNING : AL_CAPTURE_NOTHING;
        }
    }
    c->counts.asleep += c->last == AL_CAPTURE_ASLEEP;
    c->counts.stopped += c->last == AL_CAPTURE_STOPPED;
    *ret_status = c->last;
    return result;
}

bool al_capture_stands(struct al_capture *c) {
    return c->last == AL_CAPTURE_STOPPED || (c->last == AL_CAPTURE_ASLEEP && al_waiting_stands(c));
}

int al_capture_fd(const struct al_capture *c) {
    return c->epoll_fd;
}

void al_capture_get_counts(const struct al_capture *c, struct al_capture_counts *ret) {
    *ret = c->counts;
    ret->clocks = c->ring_count;
}
