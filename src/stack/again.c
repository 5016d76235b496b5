// SPDX-License-Identifier: Apache-2.0
// What merging native frames into a sample needs: one thread read anew, and numbers for native functions.
#include "base/clock.h"
#include "base/err.h"
#include "stack/parts.h"

int al_stack_again(struct al_stack *s, size_t i, struct al_stack_thread *ret) {
    if (i >= s->sample.count)
        return AL_E_INVALID;
    const struct al_tstate *t = &s->tstates[i];
    uint64_t id;
    s->remote.spent = 0;
    // Its memory may be another's by now: the list of threads is that of the sample.
    if (!al_memory_u64(&s->memory, t->address + s->found.layout.thread_id, &id) || id != t->id)
        return AL_E_GONE;
    struct al_slot *slot = al_slot_get(s, t);
    if (!slot)
        return AL_E_NOMEM;
    const struct al_interp *interp = al_interp_of(s, t->interp);
    al_gil_watch(s, interp, true);
    slot->ahead_number = 0;
    slot->walked = false; // with figures of the scheduler's that were read before
    int error = al_slot_walk(s, slot, al_monotonic_ns());
    if (error)
        return error;
    s->counts.threads++;
    *ret = s->threads[i];
    if (!s->found.layout.free_threaded && interp->gil)
        ret->holds_gil = al_gil_held(s, t->address) ? AL_STACK_YES : AL_STACK_NO;
    ret->status = slot->status;
    ret->truncated = slot->truncated;
    ret->frames = slot->frames;
    ret->count = slot->count;
    s->threads[i] = *ret; // the frames of the sample were in the same place
    return 0;
}

uint32_t al_stack_native_code(struct al_stack *s, const char *object, const char *symbol) {
    return al_intern_add(&s->codes.names, object, symbol, symbol, 0);
}
