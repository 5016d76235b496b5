// SPDX-License-Identifier: Apache-2.0
// What the sampler keeps of each thread from sample to sample.
#ifndef AL_STACK_SLOT_H
#define AL_STACK_SLOT_H

#include "stack/core/walk.h"
#include "stack/stack.h"

// What /proc says about a thread; kept from sample to sample.
struct al_task {
    int figures_fd, state_fd; // of schedstat and (of a thread that runs) syscall or stat; -1
    bool calls_unknown;       // no file syscall here, or no right to it
    uint64_t run_ns, wait_ns, slices;
    bool known, off_cpu;     // off_cpu: it slept, and its figures are those that it fell asleep with
    uint8_t quiet;           // samples in a row with the same figures
    uint8_t idle, waits_gil; // enum al_stack_tristate
};

struct al_slot {
    uint64_t tstate, id, number;
    int64_t native;
    pid_t tid;
    uint64_t first_seen, seen; // numbers of the first and last sample that had it
    struct al_plan plan;
    struct al_copies ahead; // read with the list of threads at the sample ahead_number
    uint64_t ahead_number;
    struct al_task task;
    struct al_stack_frame *frames; // the last walk's
    uint32_t count, cap;
    struct al_raw_frame *raw; // what they were made from; raw_count 0: not to be used again
    uint32_t raw_count;
    int64_t raw_due_ns; // until when, or
    uint64_t raw_generation;
    uint8_t status;
    bool truncated, walked; // walked: frames are of a walk during which it slept, and since
    char name[64];
    bool named;
    int64_t name_retry_ns, name_wait_ns;
};

// A thread whose stack is likely wanted at the next sample: it is read by the same call as the list of threads.
struct al_ahead {
    uint64_t tstate, watch;
    struct al_slot *slot; // NULL: not this time
    uint32_t own, end;    // its thread state's piece; the first piece that is no longer its own
    uint32_t first, second;
};
#define AL_AHEAD_MOST 16u

#endif
