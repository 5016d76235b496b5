// SPDX-License-Identifier: Apache-2.0
// A thread stopped by ptrace, with its registers and stack, for tests.
#ifndef AL_TESTS_UNWIND_STOP_H
#define AL_TESTS_UNWIND_STOP_H

#include "unwind/unwind.h"

#define STOP_STACK 65528u

struct stop {
    struct al_unwind_input in;
    unsigned char stack[STOP_STACK];
};

// Stops the thread and reads it; at most `size` bytes of its stack. False: it cannot be had.
bool stop_thread(pid_t tid, size_t size, struct stop *ret);
// Lets a stopped thread take one instruction.
bool stop_step(pid_t tid, struct stop *ret);
void stop_release(pid_t tid);
// Leaves only what /proc tells of a thread that waits: instruction and stack pointer.
void stop_forget_registers(struct stop *s);

#endif
