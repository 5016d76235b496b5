// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job differ: one view a thread that they have in common.
#include "cli/dump_differ.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

#define VIEWS_MOST 256 // threads with names of their own
#define WAIT_CPU_NS (25 * AL_NS_PER_MS) // of half a second: who polls needs some, who works needs more

// Numbers in a name differ from rank to rank: "Thread-12 (run)" is compared with "Thread-3 (run)".
static void name_key(const char *name, char *out, size_t size) {
    size_t n = 0;
    for (const char *p = name; *p && n + 1 < size; p++) {
        bool digit = *p >= '0' && *p <= '9';
        if (!digit)
            out[n++] = *p;
        else if (!n || out[n - 1] != '*')
            out[n++] = '*';
    }
    out[n] = '\0';
}

// The nth thread of that name; for "" the main one.
static const struct al_stack_thread *thread_of(const struct al_stack_thread *list, size_t count, const struct al_differ_view *v) {
    char name[sizeof v->name];
    uint32_t nth = v->nth;
    for (size_t i = 0; i < count; i++) {
        if (list[i].main != (*v->name == '\0'))
            continue;
        name_key(list[i].name, name, sizeof name);
        if (list[i].main || (strcmp(name, v->name) == 0 && nth-- == 0))
            return &list[i];
    }
    return NULL;
}

static enum al_differ_doing doing_of(const struct al_differ_rank *r, const struct al_stack_thread *first,
                                     const struct al_stack_thread *second) {
    char state = r->member->dump.process->state;
    if (al_stacks_stopped(r->member->dump.process))
        return AL_DIFFER_STOPPED;
    if (state == 'D' && second->main)
        return AL_DIFFER_BLOCKED;
    if (r->stack.moves)
        return AL_DIFFER_MOVES;
    if (second->waits_gil == AL_STACK_YES && (!first || first->waits_gil == AL_STACK_YES))
        return AL_DIFFER_WAITS_GIL;
    if (second->idle == AL_STACK_UNKNOWN)
        return AL_DIFFER_UNKNOWN;
    if (first && first->cpu_ns && second->cpu_ns > first->cpu_ns + WAIT_CPU_NS)
        return AL_DIFFER_RUNS; // it only happened to sleep at both
    return second->idle == AL_STACK_YES && (!first || first->idle == AL_STACK_YES) ? AL_DIFFER_WAITS : AL_DIFFER_RUNS;
}

static int fill_rank(struct al_differ_rank *r, const struct al_differ_view *v) {
    const struct al_dump_member *m = r->member;
    const struct al_stack_thread *second = m->stack ? thread_of(m->dump.sample->threads, m->dump.sample->count, v) : NULL;
    const struct al_stack_thread *first = m->stack ? thread_of(m->first, m->first_count, v) : NULL;
    if (!second)
        return 0;
    if (first && first->tstate != second->tstate)
        first = NULL; // another thread of that name
    const struct al_stack_thread *samples[AL_DUMP_BETWEEN + 2] = {first, second};
    for (int i = 0; second->main && i < AL_DUMP_BETWEEN; i++)
        samples[2 + i] = m->between[i].frames ? &m->between[i] : NULL;
    int result = al_differ_stand(m->stack, samples, AL_DUMP_BETWEEN + 2, &r->stack);
    r->has = !result;
    r->stack.moves |= second->status == AL_STACK_UNSTABLE;
    r->doing = doing_of(r, first, second);
    return result;
}

static void free_view(struct al_differ_view *v) {
    for (uint32_t i = 0; i < v->count; i++)
        al_differ_free(&v->ranks[i].stack);
    free(v->ranks);
    al_differ_clear(&v->d);
    *v = (struct al_differ_view){.count = 0};
}

// v->name and v->nth say which thread.
static int fill_view(const struct al_dump_member *const *members, uint32_t count, struct al_differ_view *v) {
    const struct al_differ_stack **stacks = calloc(count + 1, sizeof *stacks);
    v->ranks = calloc(count + 1, sizeof *v->ranks);
    v->count = v->ranks ? count : 0;
    int result = stacks && v->ranks ? 0 : AL_E_NOMEM;
    for (uint32_t i = 0; i < count && !result; i++) {
        v->ranks[i].member = members[i];
        result = fill_rank(&v->ranks[i], v);
        stacks[i] = v->ranks[i].has ? &v->ranks[i].stack : NULL;
    }
    if (!result)
        result = al_differ_group(stacks, count, &v->d);
    free(stacks);
    return result;
}

static bool seen(const struct al_dump_differ *a, const struct al_differ_view *v) {
    for (uint32_t i = 0; i < a->other_count; i++)
        if (strcmp(a->others[i].name, v->name) == 0 && a->others[i].nth == v->nth)
            return true;
    return false;
}

// A thread of this rank that no rank before it had.
static int add_threads(struct al_dump_differ *a, const struct al_dump_member *m) {
    for (size_t i = 0; m->stack && i < m->dump.sample->count; i++) {
        const struct al_stack_thread *t = &m->dump.sample->threads[i];
        struct al_differ_view v = {.nth = 0};
        if (t->main || !*t->name || a->other_count == VIEWS_MOST)
            continue;
        name_key(t->name, v.name, sizeof v.name);
        while (thread_of(m->dump.sample->threads, m->dump.sample->count, &v) != t)
            v.nth++;
        if (seen(a, &v))
            continue;
        int result = fill_view(a->members, a->count, &v);
        if (result) {
            free_view(&v);
            return result;
        }
        a->others[a->other_count++] = v;
    }
    return 0;
}

static bool differs(const struct al_dump_differ *a, const struct al_differ_view *v) {
    return v->d.group_count > 1 || (v->d.counted < a->main.d.counted && v->d.group_count && v->d.groups[0].stack->count);
}

int al_dump_differ_make(struct al_dump_differ *a, const struct al_dump_job *j) {
    *a = (struct al_dump_differ){.job = j, .members = calloc(j->count + 1, sizeof *a->members),
                                 .others = calloc(VIEWS_MOST, sizeof *a->others)};
    if (!a->members || !a->others)
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < j->count; i++)
        if (al_dump_is_rank(&j->members[i]))
            a->members[a->count++] = &j->members[i];
    int result = fill_view(a->members, a->count, &a->main);
    for (uint32_t i = 0; i < a->count && !result; i++)
        result = add_threads(a, a->members[i]);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->other_count && !result; i++) {
        if (differs(a, &a->others[i]))
            a->others[kept++] = a->others[i];
        else
            free_view(&a->others[i]);
    }
    a->same = a->other_count - kept;
    a->other_count = result ? a->other_count : kept;
    return result;
}

void al_dump_differ_free(struct al_dump_differ *a) {
    free_view(&a->main);
    for (uint32_t i = 0; i < a->other_count; i++)
        free_view(&a->others[i]);
    free(a->others);
    free(a->members);
    *a = (struct al_dump_differ){0};
}
