// SPDX-License-Identifier: Apache-2.0
// alula dump: asyncio's tasks.
#include <string.h>

#include "base/str.h"
#include "cli/dump.h"

#define CHAIN_MOST 32 // tasks that await one another

static bool stands_in(const struct al_stack_thread *t, uint64_t root) {
    for (uint32_t i = 0; i < t->count; i++)
        if (t->frames[i].kind == AL_STACK_PYTHON && t->frames[i].address == root)
            return true;
    return false;
}

// The thread of other loops than asyncio's own is not always known.
const struct al_async_task *al_dump_running(const struct al_dump *d, const struct al_stack_thread *t) {
    for (uint32_t i = 0; i < d->tasks.count; i++) {
        const struct al_async_task *task = &d->tasks.list[i];
        if (task->running && (task->tstate ? task->tstate == t->tstate : stands_in(t, task->root)))
            return task;
    }
    return NULL;
}

static void quoted(struct al_buf *b, const struct al_async_task *task) {
    al_buf_char(b, '"');
    al_term_string(b, task && *task->name ? task->name : "?");
    al_buf_char(b, '"');
}

// "a", awaited by "b", awaited by "c"; where several await one, they end the chain.
static void chain(struct al_buf *b, const struct al_dump *d, const struct al_async_task *task) {
    quoted(b, task);
    for (int i = 0; task && task->awaiters && i < CHAIN_MOST; i++) {
        al_buf_str(b, ", awaited by ");
        for (uint32_t k = 0; k < task->awaiters; k++) {
            al_buf_str(b, k ? " and " : "");
            quoted(b, al_async_find(&d->tasks, task->awaited_by[k]));
        }
        if (task->awaiters > 1)
            return;
        task = al_async_find(&d->tasks, task->awaited_by[0]);
    }
}

void al_dump_border(struct al_buf *b, const struct al_dump *d, const struct al_async_task *task) {
    al_buf_str(b, "    -- task ");
    chain(b, d, task);
    al_buf_char(b, '\n');
}

void al_dump_tasks_text(struct al_buf *b, const struct al_dump *d, uint64_t tstate) {
    for (uint32_t i = 0; i < d->tasks.count; i++) {
        const struct al_async_task *task = &d->tasks.list[i];
        if (task->running || task->tstate != tstate)
            continue;
        al_buf_str(b, "    task ");
        chain(b, d, task);
        if (*task->waits_for) {
            al_buf_str(b, ": waits for ");
            al_term_string(b, task->waits_for);
        }
        al_buf_str(b, task->moved ? " (it moved while it was read)\n" : "\n");
        for (uint32_t k = 0; k < task->count; k++) {
            al_buf_str(b, "    ");
            al_dump_frame_text(b, d->stack, &task->frames[k]);
        }
    }
}

static void task_json(struct al_buf *b, const struct al_dump *d, const struct al_async_task *task) {
    al_buf_str(b, "{\"name\": ");
    al_json_string_or_null(b, task->name);
    al_buf_printf(b, ", \"address\": \"0x%llx\", \"thread\": ", (unsigned long long)task->address);
    const struct al_stack_thread *thread = NULL;
    for (size_t i = 0; i < d->sample->count && !thread; i++)
        if (task->tstate && d->sample->threads[i].tstate == task->tstate)
            thread = &d->sample->threads[i];
    al_json_integer_or_null(b, thread && thread->tid > 0, thread ? thread->tid : 0);
    al_buf_printf(b, ", \"running\": %s, \"moved\": %s, \"waits_for\": ", task->running ? "true" : "false",
                  task->moved ? "true" : "false");
    al_json_string_or_null(b, task->waits_for);
    al_buf_str(b, ", \"awaited_by\": [");
    for (uint32_t i = 0; i < task->awaiters; i++) {
        const struct al_async_task *by = al_async_find(&d->tasks, task->awaited_by[i]);
        al_buf_printf(b, "%s{\"name\": ", i ? ", " : "");
        al_json_string_or_null(b, by ? by->name : NULL);
        al_buf_printf(b, ", \"address\": \"0x%llx\"}", (unsigned long long)task->awaited_by[i]);
    }
    al_buf_str(b, "], \"frames\": [");
    for (uint32_t i = 0; i < task->count; i++) {
        al_buf_str(b, i ? ", " : "");
        al_dump_frame_members(b, d->stack, &task->frames[i]);
    }
    al_buf_str(b, "]}");
}

void al_dump_tasks_json(struct al_buf *b, const struct al_dump *d) {
    al_buf_str(b, "\"tasks_missing\": ");
    al_json_string_or_null(b, d->tasks.missing);
    al_buf_printf(b, ", \"tasks_truncated\": %s, \"tasks\": ", d->tasks.truncated ? "true" : "false");
    if (d->tasks.missing) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < d->tasks.count; i++) {
        al_buf_str(b, i ? ", " : "");
        task_json(b, d, &d->tasks.list[i]);
    }
    al_buf_char(b, ']');
}
