// SPDX-License-Identifier: Apache-2.0
#include "stack/differ.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

static struct al_differ_frame frame_of(const struct al_stack *s, const struct al_stack_frame *f) {
    const struct al_stack_code *c = al_stack_code(s, f->code);
    return (struct al_differ_frame){c ? c->filename : "", c ? *c->qualname ? c->qualname : c->name : "", f->line};
}

static bool same_function(const struct al_differ_frame *a, const struct al_differ_frame *b) {
    return strcmp(a->file, b->file) == 0 && strcmp(a->function, b->function) == 0;
}

static bool same_frame(const struct al_differ_frame *a, const struct al_differ_frame *b) {
    return a->line == b->line && same_function(a, b);
}

// What stands so far, less what this sample has not.
static void narrow(const struct al_stack *s, const struct al_stack_thread *t, struct al_differ_stack *ret) {
    uint32_t i = 0;
    for (; i < ret->count; i++) {
        struct al_differ_frame *a = &ret->frames[i];
        struct al_differ_frame b = i < t->count ? frame_of(s, &t->frames[t->count - 1 - i]) : (struct al_differ_frame){"", "", -1};
        if (same_frame(a, &b))
            continue;
        ret->moves = true;
        if (same_function(a, &b)) {
            a->line = 0;
            i++;
        }
        break;
    }
    ret->moves |= t->count > i;
    ret->count = i;
}

int al_differ_stand(const struct al_stack *s, const struct al_stack_thread *const *samples, uint32_t count,
                    struct al_differ_stack *ret) {
    uint32_t first = 0;
    *ret = (struct al_differ_stack){NULL, 0, false};
    while (first < count && !samples[first])
        first++;
    if (first == count || !samples[first]->count)
        return 0;
    const struct al_stack_thread *t = samples[first];
    ret->frames = calloc(t->count, sizeof *ret->frames);
    if (!ret->frames)
        return AL_E_NOMEM;
    for (ret->count = 0; ret->count < t->count; ret->count++)
        ret->frames[ret->count] = frame_of(s, &t->frames[t->count - 1 - ret->count]);
    for (uint32_t i = first + 1; i < count; i++)
        if (samples[i])
            narrow(s, samples[i], ret);
    return 0;
}

void al_differ_free(struct al_differ_stack *stack) {
    free(stack->frames);
    *stack = (struct al_differ_stack){NULL, 0, false};
}

static uint32_t shared(const struct al_differ_stack *a, const struct al_differ_stack *b) {
    uint32_t n = 0;
    while (n < a->count && n < b->count && same_frame(&a->frames[n], &b->frames[n]))
        n++;
    return n;
}

static int by_size(const void *a, const void *b) {
    const struct al_differ_group *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

int al_differ_group(const struct al_differ_stack *const *stacks, uint32_t count, struct al_differ *ret) {
    bool *taken = calloc(count + 1, sizeof *taken);
    *ret = (struct al_differ){.groups = calloc(count + 1, sizeof *ret->groups), .order = calloc(count + 1, sizeof *ret->order)};
    if (!taken || !ret->groups || !ret->order) {
        free(taken);
        al_differ_clear(ret);
        return AL_E_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!stacks[i] || taken[i])
            continue;
        struct al_differ_group *g = &ret->groups[ret->group_count++];
        *g = (struct al_differ_group){.first = ret->counted, .stack = stacks[i]};
        uint32_t common = shared(stacks[i], ret->groups[0].stack);
        ret->common = ret->group_count == 1 || common < ret->common ? common : ret->common;
        for (uint32_t k = i; k < count; k++)
            if (stacks[k] && !taken[k] && stacks[k]->count == stacks[i]->count && shared(stacks[k], stacks[i]) == stacks[i]->count) {
                taken[k] = true;
                ret->order[ret->counted++] = k;
                g->count++;
            }
    }
    free(taken);
    qsort(ret->groups, ret->group_count, sizeof *ret->groups, by_size);
    return 0;
}

void al_differ_clear(struct al_differ *d) {
    free(d->groups);
    free(d->order);
    *d = (struct al_differ){0};
}

bool al_differ_odd(const struct al_differ *d) {
    return d->group_count > 1 && 2 * d->groups[0].count > d->counted;
}

// "/usr/lib/python3.11/" or "/lib64/python3.12/", what follows it; NULL: not there.
static const char *below_python(const char *file) {
    const char *at = strstr(file, "/python3.");
    if (!at || at - file < 4 || (strncmp(at - 4, "/lib", 4) != 0 && strncmp(at - 4, "ib64", 4) != 0))
        return NULL;
    return strchr(at + 1, '/') ? strchr(at + 1, '/') + 1 : NULL;
}

enum al_differ_origin al_differ_file(const char *file, const char **ret_name) {
    static const char *const packages[] = {"/site-packages/", "/dist-packages/"};
    for (size_t i = 0; i < 2; i++) {
        const char *at = strstr(file, packages[i]);
        if (at) {
            *ret_name = at + strlen(packages[i]);
            return AL_DIFFER_LIBRARY;
        }
    }
    const char *below = below_python(file), *slash = strrchr(file, '/');
    *ret_name = below ? below : slash ? slash + 1 : file;
    return below || al_str_starts(file, "<frozen ") ? AL_DIFFER_STANDARD : AL_DIFFER_OWN;
}

static enum al_differ_origin origin(const struct al_differ_frame *f) {
    const char *name;
    return al_differ_file(f->file, &name);
}

bool al_differ_collective(const struct al_differ_frame *f) {
    const char *name;
    return al_differ_file(f->file, &name) == AL_DIFFER_LIBRARY && al_str_starts(name, "torch/distributed/") &&
           !strstr(name, "/fsdp/") && !strstr(name, "/elastic/");
}

// The loader's __next__ reads on through queues and sockets, which say less.
static bool next_batch(const struct al_differ_frame *f) {
    const char *name;
    return al_differ_file(f->file, &name) == AL_DIFFER_LIBRARY && strcmp(name, "torch/utils/data/dataloader.py") == 0 &&
           al_str_ends(f->function, "_next_data");
}

static uint32_t telling(const struct al_differ_stack *stack) {
    uint32_t own = stack->count, at = stack->count - 1; // own: behind the program's innermost frame
    while (own && origin(&stack->frames[own - 1]) != AL_DIFFER_OWN)
        own--;
    for (uint32_t i = stack->count; i-- > own;)
        if (al_differ_collective(&stack->frames[i]) || next_batch(&stack->frames[i]))
            return i;
    // Inner calls of the standard library (a lock, a selector) say less than what called them.
    while (at > own && origin(&stack->frames[at]) == AL_DIFFER_STANDARD)
        at--;
    if (!own && origin(&stack->frames[at]) == AL_DIFFER_STANDARD)
        return stack->count - 1; // a thread of the standard library alone: its root says nothing
    return at;
}

uint32_t al_differ_telling(const struct al_differ_stack *stack, uint32_t *ret_caller) {
    *ret_caller = UINT32_MAX;
    if (!stack->count)
        return UINT32_MAX;
    uint32_t at = telling(stack);
    for (uint32_t i = at; i-- > 0 && *ret_caller == UINT32_MAX;)
        if (origin(&stack->frames[i]) == AL_DIFFER_OWN)
            *ret_caller = i;
    return at;
}
