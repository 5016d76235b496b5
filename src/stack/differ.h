// SPDX-License-Identifier: Apache-2.0
// How several processes that run the same program differ in what one thread of each does, from a few samples of each.
#ifndef AL_STACK_DIFFER_H
#define AL_STACK_DIFFER_H

#include "stack/stack.h"

struct al_differ_frame {
    const char *file, *function; // of the sampler's functions, which must live as long
    int32_t line;                // 0: not known, or it changed from sample to sample
};

// What of a thread's stack is the same in all samples, outermost first.
struct al_differ_stack {
    struct al_differ_frame *frames;
    uint32_t count;
    bool moves; // the samples differ
};

// The part that stands. Where all samples go on in the same function at several lines, that function ends it, with line 0.
// Samples that are NULL are left out. AL_E_NOMEM. Free it with al_differ_free.
int al_differ_stand(const struct al_stack *s, const struct al_stack_thread *const *samples, uint32_t count,
                    struct al_differ_stack *ret);
void al_differ_free(struct al_differ_stack *stack);

struct al_differ_group {
    uint32_t first, count; // its members: order[first .. first + count)
    const struct al_differ_stack *stack;
};

struct al_differ {
    struct al_differ_group *groups; // the largest first
    uint32_t group_count;
    uint32_t *order;  // numbers of the stacks that were given, group by group, rising in each
    uint32_t counted; // stacks that are not NULL
    uint32_t common;  // so many of the outermost frames are the same in all
};

// Stacks with the same frames are one group; NULL takes no part. AL_E_NOMEM.
int al_differ_group(const struct al_differ_stack *const *stacks, uint32_t count, struct al_differ *ret);
void al_differ_clear(struct al_differ *d);
// Whether more than half of them do one thing and some do another: then those are the odd ones.
bool al_differ_odd(const struct al_differ *d);

// How a frame is told to people.
enum al_differ_origin { AL_DIFFER_OWN, AL_DIFFER_LIBRARY, AL_DIFFER_STANDARD }; // program, installed package, standard library
// *ret_name: the file from its package on ("torch/distributed/distributed_c10d.py"), of an own file its last part.
enum al_differ_origin al_differ_file(const char *file, const char **ret_name);

// The frame that tells best what a stack does: a collective or what else of a library the program called, else the innermost.
// *ret_caller: the program's own line that called it; UINT32_MAX none. UINT32_MAX: the stack is empty.
uint32_t al_differ_telling(const struct al_differ_stack *stack, uint32_t *ret_caller);
// Whether that frame is a call of torch.distributed.
bool al_differ_collective(const struct al_differ_frame *f);

#endif
