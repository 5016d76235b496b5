// SPDX-License-Identifier: Apache-2.0
// Stopping a thread for the moment of its sample (--blocking). It is seized, never sent a signal; a signal that comes
// meanwhile is given to it when it goes on, and one that was stopped before stays so (the kernel keeps both). Should alula
// die, the kernel lets go what it traced.
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "unwind/capture_parts.h"

#define LIMIT_NS (20 * AL_NS_PER_MS)       // for a thread to stop: one that hangs in the kernel does not
#define LAST_LIMIT_NS (500 * AL_NS_PER_MS) // for those that are still asked to when alula leaves them
#define SPIN_NS (200 * AL_NS_PER_US)
#define PAUSE_NS 50000

// Whether it stands still now. AL_E_GONE: it has ended.
static int look(struct al_stopping *t) {
    int status;
    pid_t got = waitpid(t->tid, &status, __WALL | WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return 0;
    if (got != t->tid || !WIFSTOPPED(status))
        return AL_E_GONE;
    t->stopped = true;
    // Not our stop, but a signal on its way to it: it stands as well, and gets it when it goes on.
    t->signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
    return 0;
}

static int wait_for(struct al_stopping *t, int64_t limit_ns) {
    int64_t began = al_monotonic_ns(), now = began;
    int result = look(t);
    while (!result && !t->stopped && now - began < limit_ns) {
        if (now - began > SPIN_NS)
            (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        result = look(t);
        now = al_monotonic_ns();
    }
    return result;
}

// False: it is dying, and waitpid has yet to tell.
static bool let_go(struct al_stopping *t) {
    t->stopped = false;
    return ptrace(PTRACE_DETACH, t->tid, NULL, (void *)(intptr_t)t->signal) == 0;
}

static bool release(struct al_capture *c, pid_t but) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->stopping_count; i++) {
        struct al_stopping *t = &c->stopping[i];
        int result = t->stopped ? 0 : look(t);
        if (t->tid == but && !result) {
            c->stopping[kept++] = *t;
            continue;
        }
        if (t->stopped ? !let_go(t) : !result) // else it still is on its way to a stop
            c->stopping[kept++] = *t;
    }
    c->stopping_count = kept;
    return kept > 0;
}

bool al_capture_release(struct al_capture *c) {
    if (c->last == AL_CAPTURE_STOPPED)
        c->last = AL_CAPTURE_NOTHING;
    return release(c, 0);
}

void al_stopping_free(struct al_capture *c) {
    int64_t until = al_monotonic_ns() + LAST_LIMIT_NS;
    while (al_capture_release(c) && al_monotonic_ns() < until)
        (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    free(c->stopping);
    c->stopping = NULL;
}

static struct al_stopping *add(struct al_capture *c, pid_t tid) {
    if (c->stopping_count == c->stopping_cap) {
        struct al_stopping *more = realloc(c->stopping, (c->stopping_cap + 8) * sizeof *more);
        if (!more)
            return NULL;
        c->stopping = more;
        c->stopping_cap += 8;
    }
    c->stopping[c->stopping_count] = (struct al_stopping){.tid = tid};
    return &c->stopping[c->stopping_count++];
}

static bool read_regs(pid_t tid, struct al_unwind_input *in) {
    struct user_regs_struct r;
    struct iovec part = {&r, sizeof r};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &part) != 0 || part.iov_len != sizeof r)
        return false; // 32-bit code has a smaller set
#if defined(__aarch64__)
    for (int i = 0; i < 31; i++)
        in->regs[i] = r.regs[i];
    in->regs[31] = r.sp;
    in->regs[32] = r.pc;
#else
    const uint64_t regs[17] = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                               r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
    memcpy(in->regs, regs, sizeof regs);
#endif
    in->known = AL_REGS_ALL;
    return true;
}

static int stop(struct al_capture *c, pid_t tid, struct al_stopping **ret) {
    *ret = NULL;
    for (uint32_t i = 0; i < c->stopping_count; i++)
        if (c->stopping[i].tid == tid) { // asked before, and has not stopped yet
            *ret = &c->stopping[i];
            return wait_for(*ret, LIMIT_NS);
        }
    struct al_stopping *t = add(c, tid); // first: one that is traced must not be forgotten
    if (!t)
        return AL_E_NOMEM;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) {
        c->stopping_count--;
        return errno == ESRCH ? AL_E_GONE : AL_E_DENIED;
    }
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0)
        return look(t); // it ends
    *ret = t;
    return wait_for(t, LIMIT_NS);
}

static void forget(struct al_capture *c, pid_t tid) {
    for (uint32_t i = 0; i < c->stopping_count; i++)
        if (c->stopping[i].tid == tid)
            c->stopping[i] = c->stopping[--c->stopping_count];
}

int al_stopping_picture(struct al_capture *c, pid_t tid, struct al_unwind_input *ret, bool *ret_found) {
    struct al_stopping *t;
    *ret_found = false;
    (void)release(c, tid); // one at a time
    int result = stop(c, tid, &t);
    if (result == AL_E_GONE)
        forget(c, tid);
    if (result || !t || !t->stopped)
        return result == AL_E_DENIED ? 0 : result;
    if (!read_regs(tid, ret)) {
        (void)al_capture_release(c);
        return 0;
    }
    ret->stopped = true;
    al_capture_copy_stack(c, ret);
    *ret_found = true;
    return 0;
}

int al_stopping_try(struct al_capture *c, struct al_unwind_error *error) {
    struct al_stopping *t;
    char whose[16];
    (void)snprintf(whose, sizeof whose, "%d", (int)c->pid);
    int64_t tracer = al_capture_status_of(c->procfs, whose, "TracerPid");
    int result = stop(c, c->pid, &t);
    if (result == AL_E_GONE)
        forget(c, c->pid);
    (void)al_capture_release(c);
    if (result == AL_E_GONE)
        (void)snprintf(error->text, sizeof error->text, "process %d has ended", (int)c->pid);
    else if (result && tracer > 0)
        (void)snprintf(error->text, sizeof error->text, "process %d cannot be stopped for its samples: process %d traces it already (a "
                       "debugger, strace, py-spy)", (int)c->pid, (int)tracer);
    else if (result)
        (void)snprintf(error->text, sizeof error->text, "process %d cannot be stopped for its samples: ptrace is not permitted (a "
                       "container: --cap-add SYS_PTRACE; a seccomp filter or security module): leave --blocking out", (int)c->pid);
    return result;
}
