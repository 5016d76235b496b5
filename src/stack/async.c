// SPDX-License-Identifier: Apache-2.0
#include "stack/async_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "stack/core/dict.h"

#define FIRST_TABLE 0x030e // the first version whose _asyncio carries a table
#define DAMAGED "its table of asyncio's offsets contradicts itself"
#define TASK_SIZE_MOST 4096u
#define STATE_SIZE_MOST (4u << 20)
#define TRIES 5       // readings of lists that change meanwhile
#define NESTED_MOST 4 // futures between a task and who awaits it
#define IS_INT (1u << 24)

// --- what all versions share ---

static bool same_frames(const struct al_stack_frame *a, const struct al_stack_frame *b, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (a[i].address != b[i].address || a[i].code != b[i].code || a[i].line != b[i].line)
            return false;
    return true;
}

static void name_task(struct al_async_reader *r, uint64_t task, struct al_async_task *to) {
    struct al_stack *s = r->stack;
    uint64_t name, number;
    if (!al_memory_u64(&s->memory, task + r->name, &name))
        return;
    const struct al_value_type *t = al_value_type(r->values, name);
    if (t && t->flags & IS_INT) { // not asked for yet: made of this number then
        if (al_int_read(&s->memory, &s->found.layout, name, &number))
            (void)snprintf(to->name, sizeof to->name, "Task-%llu", (unsigned long long)number);
    } else {
        (void)al_text_read(&s->memory, &s->found.layout, name, to->name, sizeof to->name);
    }
}

void al_async_awaits(struct al_async_task *task, uint64_t by) {
    for (uint32_t i = 0; i < task->awaiters; i++)
        if (task->awaited_by[i] == by)
            return;
    if (task->awaiters < AL_ASYNC_AWAITERS_MOST)
        task->awaited_by[task->awaiters++] = by;
}

static struct al_async_task *grow(struct al_async_reader *r) {
    struct al_async *a = r->out;
    if (a->count == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 64;
        struct al_async_task *more = realloc(a->list, cap * sizeof *more);
        if (!more)
            return NULL;
        a->list = more;
        r->cap = cap;
    }
    return &a->list[a->count];
}

// A task that ends lets go of its coroutine before that is freed, and its memory goes to the next coroutine at once: whatever was
// followed from there is the task's only while it still holds it.
static bool holds(const struct al_async_reader *r, uint64_t task, uint64_t coroutine) {
    uint64_t now;
    return al_memory_u64(&r->stack->memory, task + r->coroutine, &now) && now == coroutine;
}

int al_async_add(struct al_async_reader *r, uint64_t address, uint64_t tstate, bool running, struct al_async_task **ret_task) {
    struct al_async_task *to = NULL;
    uint64_t coroutine;
    *ret_task = NULL;
    r->out->truncated |= r->out->count == AL_ASYNC_TASKS_MOST;
    if (r->out->truncated || !al_memory_u64(&r->stack->memory, address + r->coroutine, &coroutine) || !al_address_ok(coroutine, 8))
        return 0;
    to = grow(r);
    if (!to)
        return AL_E_NOMEM;
    *to = (struct al_async_task){.address = address, .tstate = tstate, .running = running};
    name_task(r, address, to);
    to->root = al_async_frame_of(r->stack, coroutine);
    uint32_t count = running ? 0 : al_async_follow(r, coroutine, to, r->frames);
    if (count)
        to->moved = al_async_follow(r, coroutine, to, r->again) != count || !same_frames(r->frames, r->again, count);
    if (!holds(r, address, coroutine))
        return 0;
    if (count) {
        to->frames = calloc(count, sizeof *to->frames);
        if (!to->frames)
            return AL_E_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++)
        to->frames[count - 1 - i] = r->frames[i];
    to->count = count;
    r->out->count++;
    *ret_task = to;
    return 0;
}

static int by_address(const void *a, const void *b) {
    const struct al_async_task *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

void al_async_sort(struct al_async *a) {
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

// PySetObject: places in use and left behind, in use, mask, places of object and hash.
int al_async_set(const struct al_stack *s, uint64_t set, al_async_each_fn *each, void *user) {
    uint64_t head[4];
    int result = 0;
    if (!al_address_ok(set, 8) || !al_memory_get(&s->memory, set + s->found.layout.object_type + 8, head, sizeof head) ||
        head[2] >= AL_ASYNC_SET_MOST || !al_address_ok(head[3], 8))
        return 0;
    for (uint64_t i = 0; i <= head[2] && !result; i++) {
        uint64_t place[2];
        if (!al_memory_get(&s->memory, head[3] + 16 * i, place, sizeof place))
            break;
        if (place[0] && place[1] != UINT64_MAX) // a dummy's hash
            result = each(user, place[0]);
    }
    return result;
}

// --- 3.14 on: lists of threads, by _asyncio's own table of offsets ---

struct places {
    uint32_t name, awaited_by, is_task, is_set, coroutine, node;
    uint32_t interp_tasks, thread_task, thread_tasks;
};

struct awaiters {
    struct al_async_reader *reader;
    const struct places *at;
    uint64_t of[AL_ASYNC_AWAITERS_MOST];
    uint32_t count;
    int nested;
};

static bool fits(uint64_t offset, uint64_t width, uint64_t size) {
    return offset < size && width <= size - offset && offset % width == 0;
}

// task: size, name, awaited by, is a task, awaited by a set, coroutine, node; interpreter: size, list; thread: size, loop, task, list
static bool take_places(const uint64_t w[AL_ASYNC_WORDS], struct places *p) {
    if (w[0] > TASK_SIZE_MOST || w[7] > STATE_SIZE_MOST || w[9] > STATE_SIZE_MOST || !fits(w[1], 8, w[0]) ||
        !fits(w[2], 8, w[0]) || !fits(w[3], 1, w[0]) || !fits(w[4], 1, w[0]) || !fits(w[5], 8, w[0]) || !fits(w[6], 8, w[0]) ||
        !fits(w[8], 8, w[7]) || !fits(w[11], 8, w[9]) || !fits(w[12], 8, w[9]))
        return false;
    *p = (struct places){(uint32_t)w[1], (uint32_t)w[2], (uint32_t)w[3], (uint32_t)w[4],  (uint32_t)w[5],
                         (uint32_t)w[6], (uint32_t)w[8], (uint32_t)w[11], (uint32_t)w[12]};
    return true;
}

static int add_awaiters(struct awaiters *a, uint64_t future);

// A task, or a future (as gather makes one) that somebody awaits in turn.
static int add_awaiter(void *user, uint64_t object) {
    struct awaiters *a = user;
    char is_task;
    if (!al_address_ok(object, 8) || a->count == AL_ASYNC_AWAITERS_MOST ||
        !al_memory_get(&a->reader->stack->memory, object + a->at->is_task, &is_task, 1))
        return 0;
    if (!is_task)
        return add_awaiters(a, object);
    a->of[a->count++] = object;
    return 0;
}

static int add_awaiters(struct awaiters *a, uint64_t future) {
    const struct al_stack *s = a->reader->stack;
    uint64_t by;
    char is_set;
    if (a->nested > NESTED_MOST || !al_memory_u64(&s->memory, future + a->at->awaited_by, &by) || !by ||
        !al_memory_get(&s->memory, future + a->at->is_set, &is_set, 1))
        return 0;
    a->nested++;
    int result = is_set ? al_async_set(s, by, add_awaiter, a) : add_awaiter(a, by);
    a->nested--;
    return result;
}

static int add_task(struct al_async_reader *r, const struct places *at, uint64_t address, uint64_t tstate, bool running) {
    struct awaiters a = {.reader = r, .at = at};
    struct al_async_task *task;
    int result = al_async_add(r, address, tstate, running, &task);
    if (task && !result) {
        (void)add_awaiters(&a, address);
        for (uint32_t i = 0; i < a.count; i++)
            al_async_awaits(task, a.of[i]);
    }
    return result;
}

// A ring of nodes {next, previous} that lie in the tasks; tstate 0: tasks of threads that ended. A node that does not point back
// is not there any more, or yet.
static int read_list(struct al_async_reader *r, const struct places *at, uint64_t head, uint64_t tstate, uint64_t running) {
    uint64_t before = head, node[2];
    int result = 0;
    if (!al_memory_u64(&r->stack->memory, head, node) || !node[0]) // not set up
        return 0;
    for (uint32_t n = 0; !result && node[0] != head && n <= AL_ASYNC_TASKS_MOST; n++) {
        uint64_t here = node[0];
        if (!al_address_ok(here, 8) || !al_memory_get(&r->stack->memory, here, node, sizeof node) || node[1] != before) {
            r->broken = true;
            break;
        }
        result = add_task(r, at, here - at->node, tstate, here - at->node == running);
        before = here;
    }
    return result;
}

static int read_lists(struct al_async_reader *r, const struct places *at) {
    const struct al_stack *s = r->stack;
    int result = 0;
    for (size_t i = 0; i < s->tstates_count && !result; i++) {
        uint64_t running = 0, tstate = s->tstates[i].address;
        (void)al_memory_u64(&s->memory, tstate + at->thread_task, &running);
        result = read_list(r, at, tstate + at->thread_tasks, tstate, running);
    }
    for (size_t i = 0; i < s->interps_count && !result; i++)
        result = read_list(r, at, s->interps[i].address + at->interp_tasks, 0, 0);
    return result;
}

// False: asyncio is not loaded, or a->missing says why its table cannot be had.
static bool find_table(struct al_stack *s, uint64_t words[AL_ASYNC_WORDS], struct al_async *a) {
    struct al_areas areas;
    uint64_t size = 0;
    bool loaded = false;
    if (al_areas_read(&areas, s->procfs, s->pid))
        return false;
    for (size_t i = 0; i < areas.count && !loaded; i++)
        loaded = strstr(al_area_path(&areas, &areas.list[i]), "/_asyncio.") != NULL;
    uint64_t at = al_find_section(&s->memory, &areas, s->procfs, s->pid, "_asyncio.", ".AsyncioDebug", &size);
    if (!at && !loaded) // built in
        at = al_find_section(&s->memory, &areas, s->procfs, s->pid, s->found.object, ".AsyncioDebug", &size);
    al_areas_free(&areas);
    if (!at && loaded)
        a->missing = "the file of its _asyncio module cannot be read";
    if (!at)
        return false;
    if (size >= AL_ASYNC_WORDS * 8 && al_memory_get(&s->memory, at, words, AL_ASYNC_WORDS * 8))
        return true;
    a->missing = DAMAGED;
    return false;
}

// --- the whole ---

static int read_once(struct al_async_reader *r, const struct places *at) {
    int result = at ? read_lists(r, at) : al_async_early(r);
    if (at)
        al_async_sort(r->out);
    return result;
}

// words: the table; NULL: there is none.
static int read_tasks(struct al_stack *s, const uint64_t *words, struct al_async *ret) {
    struct al_async_reader *r = calloc(1, sizeof *r);
    struct al_values *values = calloc(1, sizeof *values);
    int result = r && values ? 0 : AL_E_NOMEM;
    struct places at = {0};
    bool known = !words || take_places(words, &at);
    ret->missing = known ? NULL : DAMAGED;
    for (int i = 0; i < TRIES && known && !result && (!i || r->broken); i++) {
        al_async_free(ret);
        *values = (struct al_values){.memory = &s->memory, .layout = &s->found.layout};
        *r = (struct al_async_reader){.stack = s, .values = values, .out = ret, .name = at.name, .coroutine = at.coroutine};
        result = read_once(r, words ? &at : NULL);
    }
    if (!result && known)
        ret->truncated |= r->broken;
    free(values);
    free(r);
    if (result)
        al_async_free(ret);
    return result;
}

int al_async_by_table(struct al_stack *s, const uint64_t words[AL_ASYNC_WORDS], struct al_async *ret) {
    return read_tasks(s, words, ret);
}

int al_async_read(struct al_stack *s, struct al_async *ret) {
    uint64_t words[AL_ASYNC_WORDS];
    *ret = (struct al_async){0};
    s->remote.spent = 0;
    if (s->found.layout.version < FIRST_TABLE)
        return read_tasks(s, NULL, ret);
    return find_table(s, words, ret) ? read_tasks(s, words, ret) : 0;
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
