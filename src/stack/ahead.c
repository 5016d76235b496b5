// SPDX-License-Identifier: Apache-2.0
// The stacks of threads that ran at the last sample are read by the call that reads the list of threads: a call costs as
// much as four pieces. Between the two passes over a thread's stack lies its thread state, which holds where the stack
// begins, so that this is read but twice, and what names the holder of the GIL is read before all and after the thread.
#include "stack/core/plan.h"
#include "stack/parts.h"

#define COPY_MOST (128u << 10)
#define PIECES_MOST 960u // below IOV_MAX: one call
#define OWN_MOST 2048u   // bytes from a thread state on

void al_ahead_note(struct al_stack *s, const struct al_slot *slot) {
    if (s->ahead_count < AL_AHEAD_MOST)
        s->ahead[s->ahead_count++] = (struct al_ahead){.tstate = slot->tstate};
}

// How far the plan reads in the thread state itself.
static uint32_t own_size(const struct al_plan *plan, uint64_t tstate, uint32_t span) {
    uint64_t end = tstate + span;
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct al_span *p = &plan->spans[i];
        if (p->address >= tstate && p->address + p->size <= tstate + OWN_MOST && p->address + p->size > end)
            end = p->address + p->size;
    }
    return (uint32_t)(end - tstate);
}

bool al_ahead_ask(struct al_stack *s, struct al_ahead *a, const struct al_interp *interp, uint32_t span, uint32_t *piece) {
    uint16_t sequence[AL_SPANS_MOST];
    const struct al_layout *l = &s->found.layout;
    a->slot = al_slot_find(s, a->tstate);
    struct al_plan *plan = a->slot ? &a->slot->plan : NULL;
    uint32_t total = plan && s->pieces_count + 2 * (plan->count + plan->missed) + 3 <= PIECES_MOST
                         ? al_plan_lay(plan, COPY_MOST, sequence)
                         : 0;
    if (!total)
        a->slot = NULL;
    if (!al_pieces_room(s, plan ? 2 * (size_t)plan->count + 3 : 1))
        return false;
    uint32_t own = total ? own_size(plan, a->tstate, span) : span, n = (uint32_t)s->pieces_count, at = s->block_used;
    a->first = at + ((own + 7) & ~7u);
    a->second = a->first + ((total + AL_PLAN_EXTRA + 7) & ~7u);
    if (total)
        n += al_plan_first(plan, sequence, a->tstate, a->tstate + own, a->first, s->pieces + n);
    *piece = a->own = n;
    s->pieces[n++] = (struct al_piece){a->tstate, own, at};
    s->block_used = a->first;
    if (total) {
        bool one = l->runtime_current != AL_LAYOUT_NONE;
        n += al_plan_second(plan, sequence, a->second, s->pieces + n);
        a->watch = !interp->gil ? 0 : one ? s->found.runtime + l->runtime_current : interp->gil + l->gil_holder;
        if (a->watch)
            s->pieces[n++] = (struct al_piece){a->watch, one ? 8 : l->gil_locked + 4 - l->gil_holder, a->second + total};
        s->block_used = a->second + ((total + AL_PLAN_EXTRA + 7) & ~7u);
    }
    s->pieces_count = a->end = n;
    return true;
}

static void take(struct al_stack *s, struct al_ahead *a) {
    unsigned char *block = (unsigned char *)s->block;
    const struct al_plan *plan = &a->slot->plan;
    const struct al_piece *own = &s->pieces[a->own];
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct al_span *p = &plan->spans[i];
        if (p->address >= a->tstate && p->address + p->size <= a->tstate + own->size)
            memcpy(block + a->first + p->at, block + own->at + (p->address - a->tstate), p->size);
    }
    al_plan_twins(plan, block + a->first, block + a->second);
    if (a->watch && !al_threads_fetch(s, a->watch, block + a->first + plan->total, s->pieces[a->end - 1].size))
        a->watch = 0;
    a->slot->ahead = (struct al_copies){block + a->first, block + a->second, a->watch};
    a->slot->ahead_number = s->number;
}

void al_ahead_take(struct al_stack *s) {
    for (size_t i = 0; i < s->ahead_count; i++)
        if (s->ahead[i].slot && s->ahead[i].end <= s->done)
            take(s, &s->ahead[i]);
}
