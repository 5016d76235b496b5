// SPDX-License-Identifier: Apache-2.0
// What is kept of each thread between samples.
#include <stdlib.h>

#include "stack/parts.h"

#define SPANS_FIRST 16u

static size_t place_of(uint64_t address, size_t cap) {
    return (size_t)((address >> 4) * 0x9e3779b97f4a7c15ULL >> 24) & (cap - 1);
}

static void free_slot(struct al_slot *slot) {
    if (!slot)
        return;
    al_task_free(&slot->task);
    free(slot->plan.spans);
    free(slot->frames);
    free(slot->raw);
    free(slot);
}

static bool grow(struct al_stack *s) {
    if (2 * (s->slots_count + 1) <= s->slots_cap)
        return true;
    size_t cap = s->slots_cap ? 2 * s->slots_cap : 64;
    struct al_slot **slots = calloc(cap, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < s->slots_cap; i++) {
        if (!s->slots[i])
            continue;
        size_t at = place_of(s->slots[i]->tstate, cap);
        while (slots[at])
            at = (at + 1) & (cap - 1);
        slots[at] = s->slots[i];
    }
    free(s->slots);
    s->slots = slots;
    s->slots_cap = cap;
    return true;
}

static struct al_slot *new_slot(const struct al_tstate *t) {
    struct al_slot *slot = calloc(1, sizeof *slot);
    struct al_span *spans = calloc(SPANS_FIRST, sizeof *spans);
    if (!slot || !spans) {
        free(slot);
        free(spans);
        return NULL;
    }
    slot->tstate = t->address;
    slot->id = t->id;
    slot->native = t->native;
    slot->number = t->number;
    slot->task.figures_fd = slot->task.state_fd = -1;
    slot->plan = (struct al_plan){.spans = spans, .cap = SPANS_FIRST};
    return slot;
}

struct al_slot *al_slot_find(const struct al_stack *s, uint64_t tstate) {
    if (!s->slots_cap)
        return NULL;
    size_t at = place_of(tstate, s->slots_cap);
    while (s->slots[at] && s->slots[at]->tstate != tstate)
        at = (at + 1) & (s->slots_cap - 1);
    return s->slots[at];
}

struct al_slot *al_slot_get(struct al_stack *s, const struct al_tstate *t) {
    if (!grow(s))
        return NULL;
    size_t at = place_of(t->address, s->slots_cap);
    while (s->slots[at] && s->slots[at]->tstate != t->address)
        at = (at + 1) & (s->slots_cap - 1);
    struct al_slot *slot = s->slots[at];
    // The memory of a thread state that ended is used again by the next thread; a thread also starts without its ids.
    // One that this sample has had stays: its frames are given to the caller.
    bool same = slot && slot->id == t->id && slot->native == t->native && slot->number == t->number;
    if (same || (slot && slot->seen == s->number))
        return slot;
    struct al_slot *fresh = new_slot(t);
    if (!fresh)
        return NULL;
    free_slot(slot);
    s->slots_count += slot == NULL;
    s->slots[at] = fresh;
    return fresh;
}

// Threads that ended: when they are a quarter of all, the table is made anew without them.
void al_slots_drop_old(struct al_stack *s) {
    if (s->slots_count < s->tstates_count + s->tstates_count / 4 + 16)
        return;
    struct al_slot **old = s->slots;
    size_t cap = s->slots_cap;
    s->slots = NULL;
    s->slots_count = s->slots_cap = 0;
    for (size_t i = 0; i < cap; i++) {
        struct al_slot *slot = old[i];
        if (!slot)
            continue;
        if (slot->seen != s->number || !grow(s)) {
            free_slot(slot);
            continue;
        }
        size_t at = place_of(slot->tstate, s->slots_cap);
        while (s->slots[at])
            at = (at + 1) & (s->slots_cap - 1);
        s->slots[at] = slot;
        s->slots_count++;
    }
    free(old);
}

void al_slots_free(struct al_stack *s) {
    for (size_t i = 0; i < s->slots_cap; i++)
        free_slot(s->slots[i]);
    free(s->slots);
}
