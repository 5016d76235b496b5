// SPDX-License-Identifier: Apache-2.0
// What a CUDA OutOfMemoryError of torch says, and what that comes to. Both wordings: torch 1.x's and that of 2.0 and newer.
#ifndef AL_DETECT_OOM_H
#define AL_DETECT_OOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detect/allocator.h"

struct al_oom {
    int64_t device; // -1 not told
    double tried;   // bytes
    bool total_known, free_known, in_use_known, allocated_known, unallocated_known, others_known;
    double total, free;
    double in_use;      // of this process; some containers' drivers say 0
    double allocated;   // by tensors
    double unallocated; // held by torch, used by no tensor
    double others;      // sum of the other processes that it names
};

enum al_oom_cause {
    AL_OOM_UNCLEAR,
    AL_OOM_TOO_LARGE,     // one request beyond the whole device
    AL_OOM_FRAGMENTATION, // there was room, but not in one piece
    AL_OOM_OTHERS,        // what lies outside this process's torch would have been enough
    AL_OOM_CAPACITY       // the job itself needs more than there is
};

// False for a text that is no such message.
bool al_oom_parse(const char *text, struct al_oom *ret);
enum al_oom_cause al_oom_cause(const struct al_oom *o);
const char *al_oom_word(enum al_oom_cause c); // "capacity", "fragmentation", "another process", ...
// One sentence with the numbers, and what to do; NULL for what is not wanted.
void al_oom_say(const struct al_oom *o, const struct al_allocator *a, char *message, size_t size, char *advice, size_t advice_size);

#endif
