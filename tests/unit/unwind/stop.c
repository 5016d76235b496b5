// SPDX-License-Identifier: Apache-2.0
#include "stop.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "unwind/rule.h"

#if defined __aarch64__
static void take(struct al_unwind_input *in, const struct user_regs_struct *r) {
    for (unsigned i = 0; i < 31; i++)
        in->regs[i] = r->regs[i];
    in->regs[31] = r->sp;
    in->regs[32] = r->pc;
    in->known = (1ULL << 33) - 1;
}
#else
static void take(struct al_unwind_input *in, const struct user_regs_struct *r) {
    const uint64_t all[] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi, r->rbp, r->rsp, r->r8,
                            r->r9,  r->r10, r->r11, r->r12, r->r13, r->r14, r->r15, r->rip};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        in->regs[i] = all[i];
    in->known = (1ULL << 17) - 1;
}
#endif

static bool take_stopped(pid_t tid, size_t size, struct stop *ret) {
    struct user_regs_struct r;
    struct iovec regs = {&r, sizeof r};
    if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &regs) != 0)
        return false;
    take(&ret->in, &r);
    ret->in.stack = ret->stack;
    ret->in.stopped = true;
    struct iovec own = {ret->stack, size < STOP_STACK ? size : STOP_STACK};
    struct iovec other = {(void *)(uintptr_t)ret->in.regs[AL_REG_SP], own.iov_len};
    ssize_t n = size ? process_vm_readv(tid, &own, 1, &other, 1, 0) : 0;
    for (; n <= 0 && other.iov_len > 4096; n = process_vm_readv(tid, &own, 1, &other, 1, 0))
        other.iov_len -= 4096; // the stack may end earlier
    ret->in.size = n > 0 ? (size_t)n : 0;
    return true;
}

bool stop_thread(pid_t tid, size_t size, struct stop *ret) {
    int status;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0)
        return false;
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0 && waitpid(tid, &status, __WALL) == tid && take_stopped(tid, size, ret))
        return true;
    stop_release(tid);
    return false;
}

bool stop_step(pid_t tid, struct stop *ret) {
    int status;
    return ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL) == 0 && waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status) &&
           take_stopped(tid, STOP_STACK, ret);
}

void stop_release(pid_t tid) {
    (void)ptrace(PTRACE_DETACH, tid, NULL, NULL);
}

void stop_forget_registers(struct stop *s) {
    s->in.known = 1ULL << AL_REG_PC | 1ULL << AL_REG_SP;
    for (unsigned i = 0; i < AL_UNWIND_REGS; i++)
        if (!(s->in.known >> i & 1))
            s->in.regs[i] = 0xdead000000000000u + i;
}
