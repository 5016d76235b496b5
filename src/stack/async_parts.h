// SPDX-License-Identifier: Apache-2.0
// Between async.c and its parts.
#ifndef AL_STACK_ASYNC_PARTS_H
#define AL_STACK_ASYNC_PARTS_H

#include "stack/async.h"
#include "stack/parts.h"
#include "stack/value.h"

#define AL_ASYNC_TAGS 3u        // of references, 3.13 on
#define AL_ASYNC_SET_MOST 65536u // places of a set

struct al_async_reader {
    struct al_stack *stack;
    struct al_values *values;
    struct al_async *out;
    uint32_t cap;
    uint32_t name, coroutine; // where a task keeps them
    uint32_t steps;           // objects that were followed so far, of all tasks
    bool broken;              // a list changed while it was read, or is damaged
    struct al_stack_frame frames[AL_ASYNC_FRAMES_MOST], again[AL_ASYNC_FRAMES_MOST]; // outermost first
};

// async_chain.c: the frames of a task's coroutines, outermost first; what the innermost waits for stands in the task.
uint32_t al_async_follow(struct al_async_reader *r, uint64_t coroutine, struct al_async_task *task, struct al_stack_frame *frames);
// Address of a coroutine's frame; 0: it ended.
uint64_t al_async_frame_of(const struct al_stack *s, uint64_t coroutine);

// async.c: *ret_task NULL: it ended. AL_E_NOMEM.
int al_async_add(struct al_async_reader *r, uint64_t address, uint64_t tstate, bool running, struct al_async_task **ret_task);
// Sorts by address; who was told twice, by a list that changed meanwhile, is told once.
void al_async_sort(struct al_async *a);
void al_async_awaits(struct al_async_task *task, uint64_t by); // notes who awaits it
// Calls each() for the objects of a set.
typedef int al_async_each_fn(void *user, uint64_t object);
int al_async_set(const struct al_stack *s, uint64_t set, al_async_each_fn *each, void *user);

// async_early.c: to 3.13, by asyncio's own lists in Python. AL_E_NOMEM.
int al_async_early(struct al_async_reader *r);

#endif
