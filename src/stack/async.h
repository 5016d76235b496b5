// SPDX-License-Identifier: Apache-2.0
// asyncio's tasks of another process: which runs, what the others wait in, and who awaits whom. CPython 3.14 and later
// tell where they are; earlier ones have them in lists of asyncio's module, and who awaits whom is told by what each waits for.
#ifndef AL_STACK_ASYNC_H
#define AL_STACK_ASYNC_H

#include "stack/stack.h"

#define AL_ASYNC_WORDS 13u // of _asyncio's table of offsets
#define AL_ASYNC_TASKS_MOST 10000u
#define AL_ASYNC_AWAITERS_MOST 8u // that are told of one task
#define AL_ASYNC_FRAMES_MOST 256u // of one task

struct al_async_task {
    uint64_t address;
    uint64_t tstate; // of the thread whose loop it belongs to; 0 not known (its thread ended)
    char name[64];
    char waits_for[64]; // type of what its innermost coroutine awaits; "" not known, or it does not wait
    bool running;       // its frames are the thread's, from `root` inwards
    bool moved;         // it went on while it was read: frames may be of two moments
    uint64_t waits_on;  // address of what its innermost coroutine awaits; 0 as for waits_for
    uint64_t root;      // address of its outermost coroutine's frame
    uint64_t awaited_by[AL_ASYNC_AWAITERS_MOST]; // addresses of tasks
    uint32_t awaiters, count;
    struct al_stack_frame *frames; // of its coroutines, innermost first
};

struct al_async {
    struct al_async_task *list;
    uint32_t count;
    bool truncated;      // there are more than AL_ASYNC_TASKS_MOST, or their list changed all the time
    const char *missing; // why tasks cannot be told; NULL: they are, or there is no asyncio
};

// The tasks as they are now, after al_stack_sample, whose sample stays as it is. AL_E_NOMEM. Free it with al_async_free.
int al_async_read(struct al_stack *s, struct al_async *ret);
// The same with _asyncio's table as it was read, or NULL: by the lists in its module. For tests. *ret is zeroed by the caller.
int al_async_by_table(struct al_stack *s, const uint64_t words[AL_ASYNC_WORDS], struct al_async *ret);
void al_async_free(struct al_async *a);
// NULL: none has this address.
const struct al_async_task *al_async_find(const struct al_async *a, uint64_t address);

#endif
