// SPDX-License-Identifier: Apache-2.0
// One stop of the main thread by ptrace. The tracing is done by a child of alula: a tracer that dies lets its process
// go, so one that gets nowhere is simply killed, and the kernel's own rules leave the process running.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "launch/inject_parts.h"

#if defined(__x86_64__)
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "launch/inject_frame.h"
#include "launch/inject_maps.h"

#define LIMIT_MS 3000
#define LOOKS 2000       // at the thread while it runs the call
#define PAUSE_NS 20000
#define RESTARTABLE 100  // times to find the thread outside of a restartable sequence
#define CODE_64 0x33     // code segment in 64-bit mode
#define FLAG_TRAP 0x100u
#define FLAG_DIRECTION 0x400u

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f // Linux 5.13
#endif

struct answer {
    int result;
    char why[AL_INJECT_WHY];
};

static int answer(struct answer *a, int result, const char *why) {
    a->result = result;
    (void)snprintf(a->why, sizeof a->why, "%s", why);
    return result;
}

bool al_inject_is_stub(const uint8_t *bytes) {
    return memcmp(bytes, al_stub, sizeof al_stub) == 0;
}

static void pause_shortly(void) {
    (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

enum stop { STOP_OURS, STOP_GROUP, STOP_FAULT, STOP_GONE };

// A fault is the processor's word about the instruction, not somebody's signal.
static bool is_fault(pid_t pid, int number) {
    siginfo_t info;
    return (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE || number == SIGTRAP) &&
           ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) == 0 && info.si_code > 0;
}

// Waits for the stop that was asked for; signals that come meanwhile are given to the process. Faults are told.
static enum stop wait_for_stop(pid_t pid) {
    for (;;) {
        int status;
        if (waitpid(pid, &status, __WALL) != pid) {
            if (errno == EINTR)
                continue;
            return STOP_GONE;
        }
        if (!WIFSTOPPED(status))
            return STOP_GONE;
        int number = WSTOPSIG(status);
        if (status >> 16 == PTRACE_EVENT_STOP)
            return number == SIGTRAP ? STOP_OURS : STOP_GROUP;
        if (is_fault(pid, number))
            return STOP_FAULT;
        if (ptrace(PTRACE_CONT, pid, NULL, (void *)(intptr_t)number) != 0)
            return STOP_GONE;
    }
}

static bool get_regs(pid_t pid, struct user_regs_struct *r) {
    struct iovec part = {r, sizeof *r};
    return ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &part) == 0 && part.iov_len == sizeof *r;
}

static bool set_regs(pid_t pid, const struct user_regs_struct *r) {
    struct iovec part = {(void *)(uintptr_t)r, sizeof *r};
    return ptrace(PTRACE_SETREGSET, pid, (void *)NT_PRSTATUS, &part) == 0;
}

static bool get_thread(pid_t pid, struct al_thread *t) {
    struct iovec part = {t->xstate, sizeof t->xstate};
    if (!get_regs(pid, &t->regs) || ptrace(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &part) != 0 ||
        ptrace(PTRACE_GETSIGMASK, pid, (void *)sizeof t->mask, &t->mask) != 0)
        return false;
    t->xstate_size = part.iov_len;
    return true;
}

static bool put_thread(pid_t pid, const struct al_thread *t) {
    struct iovec part = {(void *)(uintptr_t)t->xstate, t->xstate_size};
    bool extended = ptrace(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &part) == 0;
    return set_regs(pid, &t->regs) && extended;
}

// Inside of such a sequence (rseq) the thread may not be led elsewhere: the kernel would forget that it is in one.
static bool in_restartable(pid_t pid, uint64_t ip) {
    struct {
        uint64_t pointer;
        uint32_t size, signature, flags, pad;
    } rseq;
    struct {
        uint32_t version, flags;
        uint64_t start, length, abort;
    } section;
    uint64_t at;
    if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, pid, (void *)sizeof rseq, &rseq) <= 0 || !rseq.pointer ||
        !al_memory_read(&pid, rseq.pointer + 8, &at, sizeof at) || !at || !al_memory_read(&pid, at, &section, sizeof section))
        return false;
    return ip - section.start < section.length;
}

static bool poke(pid_t pid, uint64_t at, const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i += sizeof(long)) {
        long word;
        memcpy(&word, bytes + i, sizeof word);
        if (ptrace(PTRACE_POKEDATA, pid, (void *)(uintptr_t)(at + i), (void *)word) != 0)
            return false;
    }
    return true;
}

static int stop(pid_t pid, struct answer *a) {
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0)
        return errno == ESRCH ? answer(a, AL_E_GONE, "the process has ended")
                              : answer(a, AL_E_DENIED, "tracing is not permitted (a security module, or a container: docker run "
                                                       "--cap-add SYS_PTRACE)");
    if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0)
        return answer(a, AL_E_GONE, "the process has ended");
    switch (wait_for_stop(pid)) {
    case STOP_OURS: return 0;
    case STOP_GROUP: return answer(a, AL_E_AGAIN, "the process is stopped: let it go on first (kill -CONT)");
    case STOP_FAULT: return answer(a, AL_E_GONE, "the process is failing just now");
    default: return answer(a, AL_E_GONE, "the process has ended");
    }
}

static int find_thread(pid_t pid, struct al_thread *t, struct answer *a) {
    for (int i = 0; i < RESTARTABLE; i++) {
        if (!get_thread(pid, t))
            return answer(a, AL_E_UNSUPPORTED, "its registers cannot be read");
        if (t->regs.cs != CODE_64)
            return answer(a, AL_E_UNSUPPORTED, "its main thread is in 32-bit code");
        if (!in_restartable(pid, t->regs.rip))
            return 0;
        if (ptrace(PTRACE_CONT, pid, NULL, NULL) != 0)
            break;
        pause_shortly();
        if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0 || wait_for_stop(pid) != STOP_OURS)
            break;
    }
    return answer(a, AL_E_AGAIN, "its main thread could not be stopped at a fit place: try again");
}

static bool write_all(const struct al_inject *t, const char *line, const struct al_frame *f) {
    uint8_t room[AL_INJECT_ROOM] = {0};
    memcpy(room, al_stub, sizeof al_stub);
    memcpy(room + AL_INJECT_STUB, line, strlen(line) + 1);
    return poke(t->pid, t->room, room, sizeof room) && al_memory_write(t->pid, f->base, f->bytes, f->size);
}

static struct user_regs_struct call_of(const struct al_inject *t, const struct al_thread *was, uint64_t frame) {
    struct user_regs_struct r = was->regs;
    r.rip = t->room;
    r.rsp = frame;
    r.r12 = t->add;
    r.rdi = t->run;
    r.rsi = t->room + AL_INJECT_STUB;
    r.rax = 0;
    r.orig_rax = (unsigned long long)-1; // nothing for the kernel to restart
    r.eflags &= ~(unsigned long long)(FLAG_TRAP | FLAG_DIRECTION);
    return r;
}

// Looks at the thread until it waits behind the call. True: it stands still, there or at a fault, and is ours to put back.
static bool follow_call(const struct al_inject *t, uint64_t frame, struct user_regs_struct *r, bool *ret_fault) {
    for (int i = 0; i < LOOKS; i++) {
        pause_shortly();
        if (ptrace(PTRACE_INTERRUPT, t->pid, NULL, NULL) != 0)
            return false;
        enum stop s = wait_for_stop(t->pid);
        *ret_fault = s == STOP_FAULT;
        if (s == STOP_GONE || s == STOP_GROUP || !get_regs(t->pid, r)) // it finds its way back when it is let go on
            return false;
        if (*ret_fault)
            return true;
        uint64_t at = r->rip - t->room;
        if (at >= AL_STUB_WAITS_FROM && at < AL_STUB_WAITS_TO)
            return true;
        if (r->rsp > frame || ptrace(PTRACE_CONT, t->pid, NULL, NULL) != 0) // it has gone back by itself
            return false;
    }
    return false;
}

static int call(const struct al_inject *t, const char *line, enum al_inject_death death, struct answer *a) {
    static struct al_thread was;
    static struct al_frame frame;
    bool fault = false;
    int result = find_thread(t->pid, &was, a);
    if (result)
        return result;
    al_frame_build(&frame, &was);
    if (!write_all(t, line, &frame))
        return answer(a, AL_E_AGAIN, "there is no room on its main thread's stack just now: try again");
    struct user_regs_struct r = call_of(t, &was, frame.at);
    if (death == AL_INJECT_DIES_STOPPED)
        (void)raise(SIGKILL);
    if (!set_regs(t->pid, &r))
        return answer(a, AL_E_GONE, "the process has ended");
    if (ptrace(PTRACE_CONT, t->pid, NULL, NULL) != 0)
        return answer(a, AL_E_GONE, "the process has ended");
    if (death == AL_INJECT_DIES_CALLING)
        (void)raise(SIGKILL);
    if (!follow_call(t, frame.at, &r, &fault))
        return 0; // on its way: whether it took the line will be seen
    (void)put_thread(t->pid, &was);
    if (fault)
        return answer(a, AL_E_UNSUPPORTED, "its Py_AddPendingCall failed");
    return (int32_t)r.rbx == 0 ? 0 : answer(a, AL_E_AGAIN, "its list of pending calls is full: try again later");
}

_Noreturn static void trace(const struct al_inject *t, const char *line, enum al_inject_death death, int fd) {
    struct answer a = {0};
    if (stop(t->pid, &a) == 0)
        (void)call(t, line, death, &a);
    (void)ptrace(PTRACE_DETACH, t->pid, NULL, NULL);
    (void)!write(fd, &a, sizeof a);
    _exit(0);
}

int al_inject_by_stop(const struct al_inject *t, const char *line, enum al_inject_death death, char *why, size_t size) {
    struct answer a = {.result = AL_E_TIMEOUT, .why = "its main thread could not be stopped: it hangs inside the kernel"};
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC))
        return AL_E_IO;
    pid_t child = fork();
    if (child == 0)
        trace(t, line, death, pipes[1]);
    (void)close(pipes[1]);
    struct pollfd p = {.fd = pipes[0], .events = POLLIN};
    int64_t until = al_monotonic_ns() + LIMIT_MS * AL_NS_PER_MS, left = LIMIT_MS * AL_NS_PER_MS;
    while (child > 0 && left > 0 && poll(&p, 1, (int)(left / AL_NS_PER_MS) + 1) < 0 && errno == EINTR)
        left = until - al_monotonic_ns();
    struct answer got;
    if (child > 0 && (p.revents & POLLIN) && read(pipes[0], &got, sizeof got) == (ssize_t)sizeof got)
        a = got;
    (void)close(pipes[0]);
    if (child > 0) {
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
    }
    if (a.result)
        (void)snprintf(why, size, "process %d: %s", (int)t->pid, a.why);
    return a.result;
}

#else

bool al_inject_is_stub(const uint8_t *bytes) {
    (void)bytes;
    return false;
}

int al_inject_by_stop(const struct al_inject *t, const char *line, enum al_inject_death death, char *why, size_t size) {
    (void)t, (void)line, (void)death;
    (void)snprintf(why, size, "not supported on this machine");
    return AL_E_UNSUPPORTED;
}

#endif
