// SPDX-License-Identifier: Apache-2.0
// To 3.13 asyncio's lists of tasks are objects of its module in Python, and a task's struct is not told: its layout is known by
// version here, and believed where the type has the size that goes with it.
#include <string.h>

#include "base/err.h"
#include "stack/async_parts.h"
#include "stack/core/dict.h"

#define CHILDREN_MOST 4096u
#define NESTED_MOST 4
#define HEAD 16u // of an object; free-threaded builds have 32 bytes

// Of struct TaskObj and FutureObj in Modules/_asynciomodule.c. dict: of a future; 0: where instances keep it.
static const struct early {
    uint16_t version, size, loop, coroutine, name, dict;
} EARLY[] = {
    {0x0308, 144, 16, 112, 120, 88},  {0x0309, 184, 16, 152, 160, 96},  {0x030a, 192, 16, 160, 168, 104},
    {0x030b, 176, 16, 136, 144, 104}, {0x030c, 176, 16, 136, 144, 104}, {0x030d, 144, 16, 120, 128, 0},
};

struct early_reader {
    struct al_async_reader *reader;
    const struct early *at;
    uint32_t more; // bytes that a head is longer than HEAD
    uint64_t running[64];
    uint32_t running_count;
    bool unknown; // a task of another layout was there
};

static uint64_t module_dict(const struct al_stack *s, uint64_t interp, const char *name) {
    const struct al_layout *l = &s->found.layout;
    uint64_t modules, dict;
    if (!al_memory_u64(&s->memory, interp + l->interp_modules, &modules))
        return 0;
    uint64_t module = al_dict_get(&s->memory, l, modules, name);
    return module && al_memory_u64(&s->memory, module + l->object_type + 8, &dict) ? dict : 0;
}

static bool note_running(void *user, uint64_t loop, uint64_t task) {
    struct early_reader *e = user;
    (void)loop;
    e->running[e->running_count++] = task;
    return e->running_count == sizeof e->running / sizeof *e->running;
}

static bool runs(const struct early_reader *e, uint64_t task) {
    for (uint32_t i = 0; i < e->running_count; i++)
        if (e->running[i] == task)
            return true;
    return false;
}

// The thread whose ident the loop has noted. 0: none, or another kind of loop.
static uint64_t thread_of(const struct early_reader *e, uint64_t task) {
    const struct al_stack *s = e->reader->stack;
    uint64_t loop, ident;
    if (!al_memory_u64(&s->memory, task + e->at->loop + e->more, &loop) || !al_address_ok(loop, 8) ||
        !al_int_read(&s->memory, &s->found.layout, al_attribute(&s->memory, &s->found.layout, loop, "_thread_id"), &ident))
        return 0;
    for (size_t i = 0; i < s->tstates_count; i++)
        if (s->tstates[i].id == ident)
            return s->tstates[i].address;
    return 0;
}

static int add_task(void *user, uint64_t task) {
    struct early_reader *e = user;
    struct al_async_reader *r = e->reader;
    struct al_async_task *added;
    uint64_t size;
    const struct al_value_type *t = al_value_type(r->values, task);
    if (!t)
        return 0;
    if (!al_memory_u64(&r->stack->memory, t->address + r->stack->found.layout.type_basic_size, &size) ||
        strcmp(t->name, "_asyncio.Task") != 0 || size != e->at->size + e->more) {
        e->unknown |= strcmp(t->name, "_asyncio.Task") == 0;
        return 0;
    }
    return al_async_add(r, task, thread_of(e, task), runs(e, task), &added);
}

// Of a WeakSet: its references' objects.
static int add_reference(void *user, uint64_t reference) {
    struct early_reader *e = user;
    const struct al_stack *s = e->reader->stack;
    uint64_t task;
    if (!al_memory_u64(&s->memory, reference + s->found.layout.object_type + 8, &task) || !al_address_ok(task, 8))
        return 0;
    return add_task(e, task);
}

static int read_interp(struct early_reader *e, uint64_t interp) {
    const struct al_stack *s = e->reader->stack;
    const struct al_layout *l = &s->found.layout;
    uint64_t dict = module_dict(s, interp, "asyncio.tasks");
    if (!dict)
        return 0;
    uint64_t current = al_dict_get(&s->memory, l, dict, "_current_tasks");
    uint64_t all = al_dict_get(&s->memory, l, dict, l->version >= 0x030c ? "_scheduled_tasks" : "_all_tasks");
    uint64_t eager = l->version >= 0x030c ? al_dict_get(&s->memory, l, dict, "_eager_tasks") : 0;
    uint64_t data = all ? al_attribute(&s->memory, l, all, "data") : 0;
    if (current)
        (void)al_dict_walk(&s->memory, l, current, note_running, e);
    int result = data ? al_async_set(s, data, add_reference, e) : 0;
    return result || !eager ? result : al_async_set(s, eager, add_task, e);
}

static struct al_async_task *task_at(struct al_async *a, uint64_t address) {
    return (struct al_async_task *)(uintptr_t)al_async_find(a, address);
}

// Who awaits a task is not noted: it is who waits for it, or for a gathering of which it is a child.
static void note_awaiter(struct early_reader *e, uint64_t object, uint64_t by, int nested) {
    const struct al_stack *s = e->reader->stack;
    const struct al_layout *l = &s->found.layout;
    struct al_async_task *task = task_at(e->reader->out, object);
    uint64_t children, dict = 0, size, items, child;
    if (task) {
        al_async_awaits(task, by);
        return;
    }
    const struct al_value_type *t = al_value_type(e->reader->values, object);
    if (nested > NESTED_MOST || !t || strcmp(t->name, "_GatheringFuture") != 0)
        return;
    if (!e->at->dict)
        children = al_attribute(&s->memory, l, object, "_children");
    else
        children = al_memory_u64(&s->memory, object + e->at->dict, &dict) && dict ? al_dict_get(&s->memory, l, dict, "_children") : 0;
    if (!al_address_ok(children, 8) || !al_memory_u64(&s->memory, children + l->list_size, &size) ||
        !al_memory_u64(&s->memory, children + l->list_items, &items) || !al_address_ok(items, 8))
        return;
    for (uint64_t i = 0; i < size && i < CHILDREN_MOST; i++)
        if (al_memory_u64(&s->memory, items + 8 * i, &child) && al_address_ok(child, 8))
            note_awaiter(e, child, by, nested + 1);
}

int al_async_early(struct al_async_reader *r) {
    const struct al_stack *s = r->stack;
    struct early_reader e = {.reader = r, .more = s->found.layout.object_type + 8 - HEAD};
    int result = 0;
    for (size_t i = 0; i < sizeof EARLY / sizeof *EARLY; i++)
        if (EARLY[i].version == s->found.layout.version)
            e.at = &EARLY[i];
    if (!e.at)
        return 0;
    r->name = e.at->name + e.more;
    r->coroutine = e.at->coroutine + e.more;
    for (size_t i = 0; i < s->interps_count && !result; i++)
        result = read_interp(&e, s->interps[i].address);
    al_async_sort(r->out);
    for (uint32_t i = 0; i < r->out->count && !result; i++)
        if (r->out->list[i].waits_on)
            note_awaiter(&e, r->out->list[i].waits_on, r->out->list[i].address, 0);
    if (e.unknown && !r->out->count)
        r->out->missing = "its asyncio.Task is not laid out as in the releases that alula knows";
    return result;
}
