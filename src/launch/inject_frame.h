// SPDX-License-Identifier: Apache-2.0
// What a stopped thread of x86-64 is made to run, and the kernel's signal frame by which it gets back by itself.
#ifndef AL_LAUNCH_INJECT_FRAME_H
#define AL_LAUNCH_INJECT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#define AL_FRAME_XSTATE 16384 // room for what XSAVE writes; 11 KiB with AMX

// The thread as it was found.
struct al_thread {
    struct user_regs_struct regs;
    uint64_t mask;    // blocked signals
    size_t xstate_size;
    uint8_t xstate[AL_FRAME_XSTATE] __attribute__((aligned(64)));
};

struct al_frame {
    uint64_t at;      // where its context begins: the stack pointer at the call
    uint64_t base;    // where bytes go
    size_t size;
    uint8_t bytes[AL_FRAME_XSTATE + 2048];
};

// call *%r12; rbx = rax; wait a while for the tracer; rt_sigreturn.
#define AL_STUB_SIZE 40
extern const uint8_t al_stub[AL_STUB_SIZE];
#define AL_STUB_WAITS_FROM 10u // offsets of the waiting part
#define AL_STUB_WAITS_TO 23u

// The frame below the thread's stack pointer and its red zone. A system call that waited is called again; one that
// only the kernel can continue (a sleep with a time) would return EINTR: that is why the tracer, if alive, puts the
// registers back by itself.
void al_frame_build(struct al_frame *f, const struct al_thread *t);

#endif
