// SPDX-License-Identifier: Apache-2.0
#include "stack/async.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "stack/core/dict.h"
#include "stack/core/frame.h"
#include "stack/parts.h"
#include "stack/value.h"

#define FIRST_VERSION 0x030e
#define DAMAGED "its table of asyncio's offsets contradicts itself"
#define TASK_SIZE_MOST 4096u
#define STATE_SIZE_MOST (4u << 20)
#define TAGS 3u
#define HEAD_MOST 512u
#define STEPS_MOST 1024u // objects of one chain of awaits, wrappers among them
#define NESTED_MOST 4    // futures between a task and who awaits it
#define SET_MOST 65536u  // places of a set
#define IS_INT (1u << 24)

// _asyncio's own table of offsets.
struct places {
    uint32_t name, awaited_by, is_task, is_set, coroutine, node;
    uint32_t interp_tasks, thread_task, thread_tasks;
};

struct reader {
    struct al_stack *stack;
    struct al_values *values;
    struct places at;
    struct al_async *out;
    uint32_t cap;
    struct al_stack_frame frames[AL_ASYNC_FRAMES_MOST], again[AL_ASYNC_FRAMES_MOST]; // outermost first
};

static bool fits(uint64_t offset, uint64_t width, uint64_t size) {
    return offset < size && width <= size - offset && offset % width == 0;
}

// task: size, name, awaited by, is a task, awaited by a set, coroutine, node; interpreter: size, list; thread: size, loop, task, list
static bool take_places(const uint64_t w[AL_ASYNC_WORDS], struct places *p) {
    if (w[0] > TASK_SIZE_MOST || w[7] > STATE_SIZE_MOST || w[9] > STATE_SIZE_MOST || !fits(w[1], 8, w[0]) ||
        !fits(w[2], 8, w[0]) || !fits(w[3], 1, w[0]) || !fits(w[4], 1, w[0]) || !fits(w[5], 8, w[0]) || w[6] > w[0] - 8 ||
        w[6] % 8 || !fits(w[8], 8, w[7]) || !fits(w[11], 8, w[9]) || !fits(w[12], 8, w[9]))
        return false;
    *p = (struct places){(uint32_t)w[1], (uint32_t)w[2], (uint32_t)w[3], (uint32_t)w[4],  (uint32_t)w[5],
                         (uint32_t)w[6], (uint32_t)w[8], (uint32_t)w[11], (uint32_t)w[12]};
    return true;
}

// Its table, by words. False: asyncio is not loaded, or a->missing says why its tasks cannot be told.
static bool find_table(struct al_stack *s, uint64_t words[AL_ASYNC_WORDS], struct al_async *a) {
    struct al_areas areas;
    uint64_t size = 0;
    bool loaded = false;
    if (al_areas_read(&areas, s->procfs, s->pid))
        return false;
    for (size_t i = 0; i < areas.count && !loaded; i++)
        loaded = strstr(al_area_path(&areas, &areas.list[i]), "/_asyncio.") != NULL;
    uint64_t at = 0;
    if (s->found.layout.version >= FIRST_VERSION) {
        at = al_find_section(&s->memory, &areas, s->procfs, s->pid, "_asyncio.", ".AsyncioDebug", &size);
        if (!at && !loaded) // built in
            at = al_find_section(&s->memory, &areas, s->procfs, s->pid, s->found.object, ".AsyncioDebug", &size);
        if (!at && loaded)
            a->missing = "the file of its _asyncio module cannot be read";
    } else if (loaded) {
        a->missing = "asyncio tells of its tasks from Python 3.14 on";
    }
    al_areas_free(&areas);
    if (!at)
        return false;
    if (size >= AL_ASYNC_WORDS * 8 && al_memory_get(&s->memory, at, words, AL_ASYNC_WORDS * 8))
        return true;
    a->missing = DAMAGED;
    return false;
}

// --- one chain of awaits ---

static bool suspended(const struct al_layout *l, int8_t state) {
    return l->version >= 0x030f ? state >= 1 && state <= 3 : l->version >= 0x030d ? state == -1 || state == -2 : state == -1;
}

static bool created(const struct al_layout *l, int8_t state) {
    return l->version >= 0x030f ? state == 0 : l->version >= 0x030d ? state == -3 : state == -2;
}

// Whether it is what `await` goes on to: a frame of its own, or a wrapper around such.
static bool has_frame(const struct al_value_type *t) {
    return strcmp(t->name, "coroutine") == 0 || strcmp(t->name, "generator") == 0 || strcmp(t->name, "async_generator") == 0;
}

static bool wraps(const struct al_value_type *t) {
    return strcmp(t->name, "coroutine_wrapper") == 0 || strcmp(t->name, "_asyncio.FutureIter") == 0 ||
           strcmp(t->name, "async_generator_asend") == 0 || strcmp(t->name, "async_generator_athrow") == 0 ||
           strcmp(t->name, "anext_awaitable") == 0;
}

// What a suspended frame awaits, off the top of its stack. 0: nothing.
static uint64_t awaited(const struct al_stack *s, uint64_t frame) {
    const struct al_layout *l = &s->found.layout;
    uint64_t top, object;
    unsigned below = l->version >= 0x030f ? 2 : 1; // 3.15 keeps a word of its own above it
    if (!al_memory_u64(&s->memory, frame + l->frame_stack_top, &top) || !al_address_ok(top, 8) ||
        !al_memory_u64(&s->memory, top - 8ULL * below, &object))
        return 0;
    return object & ~(uint64_t)TAGS;
}

static bool add_frame(struct al_stack *s, uint64_t address, struct al_stack_frame *f) {
    unsigned char raw[HEAD_MOST];
    const struct al_layout *l = &s->found.layout;
    struct al_raw_frame parsed;
    uint64_t next;
    bool shim;
    if (l->frame_size > sizeof raw || !al_memory_get(&s->memory, address, raw, l->frame_size))
        return false;
    // A suspended frame is nobody's callee: who called it last does not matter.
    (void)al_frame_parse(al_frame_shape(l), raw, address, &parsed, &next, &shim);
    struct al_code *code = al_codes_get(&s->codes, parsed.code, s->sample.at_ns);
    if (shim || !code || code->not_code)
        return false;
    al_frame_fill(s, &parsed, code, f);
    return true;
}

// Frames outermost first; what the innermost waits for is named in task->waits_for.
static uint32_t follow(struct reader *r, uint64_t object, struct al_async_task *task, struct al_stack_frame *frames) {
    struct al_stack *s = r->stack;
    const struct al_layout *l = &s->found.layout;
    uint32_t count = 0;
    task->waits_for[0] = '\0';
    for (unsigned steps = 0; object && steps < STEPS_MOST && count < AL_ASYNC_FRAMES_MOST; steps++) {
        const struct al_value_type *t = al_value_type(r->values, object);
        int8_t state;
        if (!t)
            break;
        if (wraps(t)) {
            if (!al_memory_u64(&s->memory, object + l->object_type + 8, &object))
                break;
            continue;
        }
        if (!has_frame(t)) {
            (void)snprintf(task->waits_for, sizeof task->waits_for, "%s", t->name);
            break;
        }
        uint64_t frame = object + l->generator_frame;
        if (!al_memory_get(&s->memory, object + l->generator_state, &state, 1) ||
            (!suspended(l, state) && !created(l, state)) || !add_frame(s, frame, &frames[count]))
            break;
        count++;
        object = created(l, state) ? 0 : awaited(s, frame);
    }
    return count;
}

static bool same_frames(const struct al_stack_frame *a, const struct al_stack_frame *b, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (a[i].address != b[i].address || a[i].code != b[i].code || a[i].line != b[i].line)
            return false;
    return true;
}

// --- one task ---

static void name_task(struct reader *r, uint64_t task, struct al_async_task *to) {
    struct al_stack *s = r->stack;
    uint64_t name, number;
    if (!al_memory_u64(&s->memory, task + r->at.name, &name))
        return;
    const struct al_value_type *t = al_value_type(r->values, name);
    if (t && t->flags & IS_INT) { // not asked for yet: made of this number then
        if (al_int_read(&s->memory, &s->found.layout, name, &number))
            (void)snprintf(to->name, sizeof to->name, "Task-%llu", (unsigned long long)number);
    } else {
        (void)al_text_read(&s->memory, &s->found.layout, name, to->name, sizeof to->name);
    }
}

static void add_awaiters(struct reader *r, uint64_t future, struct al_async_task *to, int nested);

// A task, or a future (as gather makes one) that somebody awaits in turn.
static void add_awaiter(struct reader *r, uint64_t object, struct al_async_task *to, int nested) {
    char is_task;
    if (!al_address_ok(object, 8) || to->awaiters == AL_ASYNC_AWAITERS_MOST ||
        !al_memory_get(&r->stack->memory, object + r->at.is_task, &is_task, 1))
        return;
    if (is_task)
        to->awaited_by[to->awaiters++] = object;
    else
        add_awaiters(r, object, to, nested + 1);
}

// PySetObject: places in use and left behind, in use, mask, places of object and hash.
static void add_set(struct reader *r, uint64_t set, struct al_async_task *to, int nested) {
    const struct al_memory *m = &r->stack->memory;
    uint64_t head[4];
    if (!al_memory_get(m, set + r->stack->found.layout.object_type + 8, head, sizeof head) || head[2] >= SET_MOST)
        return;
    for (uint64_t i = 0; i <= head[2] && to->awaiters < AL_ASYNC_AWAITERS_MOST; i++) {
        uint64_t place[2];
        if (!al_address_ok(head[3], 8) || !al_memory_get(m, head[3] + 16 * i, place, sizeof place))
            return;
        if (place[0] && place[1] != UINT64_MAX) // a dummy's hash
            add_awaiter(r, place[0], to, nested);
    }
}

static void add_awaiters(struct reader *r, uint64_t future, struct al_async_task *to, int nested) {
    const struct al_memory *m = &r->stack->memory;
    uint64_t by;
    char is_set;
    if (nested > NESTED_MOST || !al_memory_u64(m, future + r->at.awaited_by, &by) || !by ||
        !al_memory_get(m, future + r->at.is_set, &is_set, 1))
        return;
    if (is_set)
        add_set(r, by, to, nested);
    else
        add_awaiter(r, by, to, nested);
}

static int add_task(struct reader *r, uint64_t address, uint64_t tstate, uint64_t running) {
    struct al_async *a = r->out;
    uint64_t coroutine;
    if (a->count == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 64;
        struct al_async_task *more = realloc(a->list, cap * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        a->list = more;
        r->cap = cap;
    }
    struct al_async_task *to = &a->list[a->count];
    *to = (struct al_async_task){.address = address, .tstate = tstate, .running = address == running};
    if (!al_memory_u64(&r->stack->memory, address + r->at.coroutine, &coroutine) || !al_address_ok(coroutine, 8))
        return 0; // it ended
    name_task(r, address, to);
    add_awaiters(r, address, to, 0);
    to->root = coroutine + r->stack->found.layout.generator_frame;
    uint32_t count = to->running ? 0 : follow(r, coroutine, to, r->frames);
    if (count) {
        to->moved = follow(r, coroutine, to, r->again) != count || !same_frames(r->frames, r->again, count);
        to->frames = calloc(count, sizeof *to->frames);
        if (!to->frames)
            return AL_E_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++)
        to->frames[count - 1 - i] = r->frames[i];
    to->count = count;
    a->count++;
    return 0;
}

// A ring of nodes {next, previous} that lie in the tasks; tstate 0: tasks of threads that ended.
static int read_list(struct reader *r, uint64_t head, uint64_t tstate, uint64_t running) {
    uint64_t node;
    int result = 0;
    if (!al_memory_u64(&r->stack->memory, head, &node))
        return 0;
    while (!result && node != head && al_address_ok(node, 8)) {
        if (r->out->count == AL_ASYNC_TASKS_MOST) {
            r->out->truncated = true;
            break;
        }
        result = add_task(r, node - r->at.node, tstate, running);
        if (!al_memory_u64(&r->stack->memory, node, &node))
            break;
    }
    return result;
}

// A list that changed while it was followed may have told a task twice.
static int by_address(const void *a, const void *b) {
    const struct al_async_task *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static void drop_twins(struct al_async *a) {
    uint32_t kept = 0;
    if (a->count)
        qsort(a->list, a->count, sizeof *a->list, by_address);
    for (uint32_t i = 0; i < a->count; i++) {
        if (kept && a->list[kept - 1].address == a->list[i].address)
            free(a->list[i].frames);
        else
            a->list[kept++] = a->list[i];
    }
    a->count = kept;
}

static int read_all(struct reader *r) {
    const struct al_stack *s = r->stack;
    int result = 0;
    for (size_t i = 0; i < s->tstates_count && !result; i++) {
        uint64_t running = 0, tstate = s->tstates[i].address;
        (void)al_memory_u64(&s->memory, tstate + r->at.thread_task, &running);
        result = read_list(r, tstate + r->at.thread_tasks, tstate, running);
    }
    for (size_t i = 0; i < s->interps_count && !result; i++)
        result = read_list(r, s->interps[i].address + r->at.interp_tasks, 0, 0);
    drop_twins(r->out);
    return result;
}

int al_async_by_table(struct al_stack *s, const uint64_t words[AL_ASYNC_WORDS], struct al_async *ret) {
    struct reader *r = calloc(1, sizeof *r);
    struct al_values *values = calloc(1, sizeof *values);
    int result = r && values ? 0 : AL_E_NOMEM;
    if (!result) {
        *values = (struct al_values){.memory = &s->memory, .layout = &s->found.layout};
        r->stack = s;
        r->out = ret;
        r->values = values;
        if (take_places(words, &r->at))
            result = read_all(r);
        else
            ret->missing = DAMAGED;
    }
    free(values);
    free(r);
    if (result)
        al_async_free(ret);
    return result;
}

int al_async_read(struct al_stack *s, struct al_async *ret) {
    uint64_t words[AL_ASYNC_WORDS];
    *ret = (struct al_async){0};
    return find_table(s, words, ret) ? al_async_by_table(s, words, ret) : 0;
}

void al_async_free(struct al_async *a) {
    for (uint32_t i = 0; i < a->count; i++)
        free(a->list[i].frames);
    free(a->list);
    *a = (struct al_async){0};
}

const struct al_async_task *al_async_find(const struct al_async *a, uint64_t address) {
    struct al_async_task key = {.address = address};
    return a->count ? bsearch(&key, a->list, a->count, sizeof key, by_address) : NULL;
}
