// SPDX-License-Identifier: Apache-2.0
// What a coroutine awaits, from one to the next.
#include <stdio.h>
#include <string.h>

#include "stack/async_parts.h"
#include "stack/core/frame.h"

#define HEAD_MOST 512u
#define STEPS_MOST 1024u // objects of one chain, wrappers among them
#define ALL_STEPS_MOST 400000u // of all chains
#define ENTRIES_MOST 65536 // of a frame's stack

enum state { GONE, FRESH, WAITS }; // it ended or runs; it has not begun; it waits

// Whether it is what `await` goes on to: a frame of its own, or a wrapper around such.
static bool has_frame(const struct al_value_type *t) {
    return strcmp(t->name, "coroutine") == 0 || strcmp(t->name, "generator") == 0 || strcmp(t->name, "async_generator") == 0;
}

static bool wraps(const struct al_value_type *t) {
    return strcmp(t->name, "coroutine_wrapper") == 0 || strcmp(t->name, "_asyncio.FutureIter") == 0 ||
           strcmp(t->name, "async_generator_asend") == 0 || strcmp(t->name, "async_generator_athrow") == 0 ||
           strcmp(t->name, "anext_awaitable") == 0;
}

uint64_t al_async_frame_of(const struct al_stack *s, uint64_t coroutine) {
    uint64_t at = coroutine + s->found.layout.generator_frame, frame;
    if (s->found.layout.version >= 0x030b)
        return at;
    return al_memory_u64(&s->memory, at, &frame) ? frame : 0;
}

// To 3.10: the entries of its stack say it. *ret: how many; below 0 while it runs.
static bool entries(const struct al_stack *s, uint64_t frame, int64_t *ret) {
    const struct al_layout *l = &s->found.layout;
    uint64_t base, top;
    int32_t depth;
    if (l->version == 0x030a) {
        *ret = al_memory_get(&s->memory, frame + l->frame_stack_top, &depth, sizeof depth) ? depth : -1;
    } else {
        if (!al_memory_u64(&s->memory, frame + l->frame_stack, &base) || !al_memory_u64(&s->memory, frame + l->frame_stack_top, &top))
            return false;
        *ret = top ? (int64_t)(top - base) / 8 : -1;
    }
    return *ret >= 0 && *ret <= ENTRIES_MOST;
}

// Numbers of gi_frame_state: 3.11 and 3.12, 3.13 and 3.14, 3.15.
static enum state state_of(const struct al_stack *s, uint64_t coroutine, uint64_t frame) {
    const struct al_layout *l = &s->found.layout;
    int64_t count;
    int8_t state;
    if (l->version < 0x030b)
        return !entries(s, frame, &count) ? GONE : count ? WAITS : FRESH;
    if (!al_memory_get(&s->memory, coroutine + l->generator_state, &state, 1))
        return GONE;
    if (l->version >= 0x030f)
        return state == 0 ? FRESH : state >= 1 && state <= 3 ? WAITS : GONE;
    if (l->version >= 0x030d)
        return state == -3 ? FRESH : state == -1 || state == -2 ? WAITS : GONE;
    return state == -2 ? FRESH : state == -1 ? WAITS : GONE;
}

// Where the top of a waiting frame's stack lies, which is what it awaits.
static uint64_t top_of(const struct al_stack *s, uint64_t frame) {
    const struct al_layout *l = &s->found.layout;
    uint64_t top;
    int64_t count = 0;
    int32_t depth = 0;
    if (l->version >= 0x030e) // 3.15 keeps a word of its own above it
        return al_memory_u64(&s->memory, frame + l->frame_stack_top, &top) ? top - (l->version >= 0x030f ? 16 : 8) : 0;
    if (l->version >= 0x030b) {
        if (!al_memory_get(&s->memory, frame + l->frame_stack_top, &depth, sizeof depth) || depth < 1 || depth > ENTRIES_MOST)
            return 0;
        return frame + l->frame_locals + 8ULL * (unsigned)(depth - 1);
    }
    if (!entries(s, frame, &count) || count < 1 || !al_memory_u64(&s->memory, frame + l->frame_stack, &top))
        return 0;
    return top + 8ULL * (uint64_t)(count - 1);
}

static uint64_t awaited(const struct al_stack *s, uint64_t frame) {
    uint64_t top = top_of(s, frame), object;
    if (!al_address_ok(top, 8) || !al_memory_u64(&s->memory, top, &object))
        return 0;
    return object & ~(uint64_t)(s->found.layout.version >= 0x030d ? AL_ASYNC_TAGS : 0);
}

static bool add_frame(struct al_stack *s, uint64_t address, struct al_stack_frame *f) {
    unsigned char raw[HEAD_MOST];
    const struct al_layout *l = &s->found.layout;
    struct al_raw_frame parsed;
    uint64_t next;
    bool shim;
    if (l->frame_size > sizeof raw || !al_memory_get(&s->memory, address, raw, l->frame_size))
        return false;
    // A waiting frame is nobody's callee: who called it last does not matter.
    (void)al_frame_parse(al_frame_shape(l), raw, address, &parsed, &next, &shim);
    struct al_code *code = al_codes_get(&s->codes, parsed.code, s->sample.at_ns);
    if (shim || !code || code->not_code)
        return false;
    al_frame_fill(s, &parsed, code, f);
    return true;
}

uint32_t al_async_follow(struct al_async_reader *r, uint64_t object, struct al_async_task *task, struct al_stack_frame *frames) {
    struct al_stack *s = r->stack;
    uint32_t count = 0;
    task->waits_for[0] = '\0';
    task->waits_on = 0;
    for (unsigned n = 0; object && n < STEPS_MOST && count < AL_ASYNC_FRAMES_MOST && r->steps < ALL_STEPS_MOST; n++, r->steps++) {
        const struct al_value_type *t = al_value_type(r->values, object);
        if (!t)
            break;
        if (wraps(t)) {
            if (!al_memory_u64(&s->memory, object + s->found.layout.object_type + 8, &object))
                break;
            continue;
        }
        if (!has_frame(t)) {
            (void)snprintf(task->waits_for, sizeof task->waits_for, "%s", t->name);
            task->waits_on = object;
            break;
        }
        uint64_t frame = al_async_frame_of(s, object);
        enum state state = al_address_ok(frame, 8) ? state_of(s, object, frame) : GONE;
        if (state == GONE || !add_frame(s, frame, &frames[count]))
            break;
        count++;
        object = state == FRESH ? 0 : awaited(s, frame);
    }
    return count;
}
