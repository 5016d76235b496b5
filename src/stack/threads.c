// SPDX-License-Identifier: Apache-2.0
// The target's list of threads. It changes seldom: all thread states that were there at the last sample are read by one
// call, and only those that are new one by one.
#include <stdlib.h>

#include "base/err.h"
#include "stack/parts.h"

#define TSTATE_BYTES 512u // read of each

static uint32_t span_of(const struct al_layout *l) {
    const uint32_t ends[] = {l->thread_next + 8, l->thread_interp + 8, l->thread_id + 8,
                             l->thread_native_id == AL_LAYOUT_NONE ? 0 : l->thread_native_id + 8,
                             l->thread_status == AL_LAYOUT_NONE ? 0 : l->thread_status + 4,
                             l->thread_holds_gil == AL_LAYOUT_NONE ? 0 : l->thread_holds_gil + 4,
                             l->thread_wants_gil == AL_LAYOUT_NONE ? 0 : l->thread_wants_gil + 4};
    uint32_t most = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        most = ends[i] > most ? ends[i] : most;
    return (most + 7) & ~7u;
}

static uint32_t optional(const unsigned char *raw, uint32_t at) {
    return at == AL_LAYOUT_NONE ? 0 : al_u32(raw + at);
}

static void parse(const struct al_layout *l, const unsigned char *raw, uint64_t address, struct al_tstate *t) {
    t->address = address;
    t->interp = al_u64(raw + l->thread_interp);
    t->next = al_u64(raw + l->thread_next);
    t->id = al_u64(raw + l->thread_id);
    t->native = l->thread_native_id == AL_LAYOUT_NONE ? 0 : (int64_t)al_u64(raw + l->thread_native_id);
    if (t->native < 0 || t->native > INT32_MAX)
        t->native = 0;
    t->status = optional(raw, l->thread_status);
    t->holds = optional(raw, l->thread_holds_gil);
    t->wants = optional(raw, l->thread_wants_gil);
}

static bool room(void **list, size_t *cap, size_t needed, size_t each) {
    if (needed <= *cap)
        return true;
    size_t more = *cap ? 2 * *cap : 16;
    while (more < needed)
        more *= 2;
    void *grown = realloc(*list, more * each);
    if (!grown)
        return false;
    *list = grown;
    *cap = more;
    return true;
}

// All known thread states in one go; *ret_done: how many from the first on could be read.
static int read_known(struct al_stack *s, uint32_t span, size_t *ret_done) {
    size_t n = s->tstates_count;
    *ret_done = 0;
    if (!room((void **)&s->pieces, &s->pieces_cap, n, sizeof *s->pieces) ||
        !room((void **)&s->block, &s->block_cap, n * span / 8 + 1, 8))
        return AL_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        s->pieces[i] = (struct al_piece){s->tstates[i].address, span, (uint32_t)(i * span)};
    if (n)
        *ret_done = s->memory.gather(s->memory.user, s->pieces, n, s->block);
    return 0;
}

// One thread state: from the block when it is one of those near *hint, else read now.
static bool one(struct al_stack *s, uint64_t address, uint32_t span, size_t done, size_t *hint, struct al_tstate *ret) {
    unsigned char raw[TSTATE_BYTES];
    for (size_t i = *hint; i < done && i < *hint + 16; i++) {
        if (s->tstates[i].address != address)
            continue;
        *hint = i + 1;
        parse(&s->found.layout, (unsigned char *)s->block + i * span, address, ret);
        return true;
    }
    if (!al_address_ok(address, 8) || !al_memory_get(&s->memory, address, raw, span))
        return false;
    parse(&s->found.layout, raw, address, ret);
    return true;
}

static int threads_of(struct al_stack *s, const struct al_interp *interp, uint32_t span, size_t done, size_t *hint,
                      size_t *count) {
    uint64_t at;
    size_t first = *count;
    if (!al_memory_u64(&s->memory, interp->address + s->found.layout.interp_threads, &at))
        return AL_E_FORMAT;
    while (at && *count < AL_THREADS_MOST) {
        if (!room((void **)&s->next_tstates, &s->next_cap, *count + 1, sizeof *s->next_tstates))
            return AL_E_NOMEM;
        struct al_tstate *t = &s->next_tstates[*count];
        // A thread that ends while its neighbour is read leaves a state that points elsewhere: the list ends there for now.
        if (!one(s, at, span, done, hint, t) || t->interp != interp->address)
            return *count > first ? 0 : AL_E_FORMAT;
        (*count)++;
        if (t->next == at)
            break;
        at = t->next;
    }
    return 0;
}

// Who holds the interpreter's GIL.
static void read_gil(struct al_stack *s, struct al_interp *i) {
    const struct al_layout *l = &s->found.layout;
    unsigned char raw[264];
    i->gil = i->holder = 0;
    if (l->free_threaded)
        return;
    if (l->runtime_current != AL_LAYOUT_NONE) {
        i->gil = s->found.runtime + l->runtime_gil;
        (void)al_memory_u64(&s->memory, s->found.runtime + l->runtime_current, &i->holder);
        return;
    }
    uint32_t size = (l->gil_holder > l->gil_locked ? l->gil_holder : l->gil_locked) + 8;
    if (size > sizeof raw || !al_memory_u64(&s->memory, i->address + l->interp_gil, &i->gil) || !al_address_ok(i->gil, 8) ||
        !al_memory_get(&s->memory, i->gil, raw, size)) {
        i->gil = 0;
        return;
    }
    // last_holder stays after the release: only `locked`, read in the same call, says whether it still is.
    if ((int32_t)al_u32(raw + l->gil_locked) == 1)
        i->holder = al_u64(raw + l->gil_holder);
}

static int read_interps(struct al_stack *s) {
    const struct al_layout *l = &s->found.layout;
    uint64_t at;
    s->interps_count = 0;
    if (!al_memory_u64(&s->memory, s->found.runtime + l->runtime_interpreters, &at))
        return al_remote_error(&s->remote);
    while (at && s->interps_count < AL_INTERPS_MOST) {
        if (!room((void **)&s->interps, &s->interps_cap, s->interps_count + 1, sizeof *s->interps))
            return AL_E_NOMEM;
        struct al_interp *i = &s->interps[s->interps_count];
        *i = (struct al_interp){.address = at};
        uint64_t id = 0, next = 0;
        if (!al_address_ok(at, 8) || !al_memory_u64(&s->memory, at + l->interp_id, &id) ||
            !al_memory_u64(&s->memory, at + l->interp_next, &next))
            return s->interps_count ? 0 : al_remote_error(&s->remote);
        i->id = (int64_t)id;
        read_gil(s, i);
        s->interps_count++;
        if (next == at)
            break;
        at = next;
    }
    return s->interps_count ? 0 : AL_E_FORMAT;
}

int al_threads_list(struct al_stack *s) {
    uint32_t span = span_of(&s->found.layout);
    size_t done = 0, hint = 0, count = 0;
    int error = span > TSTATE_BYTES ? AL_E_FORMAT : read_interps(s);
    if (!error)
        error = read_known(s, span, &done);
    for (size_t i = 0; !error && i < s->interps_count; i++) {
        int failed = threads_of(s, &s->interps[i], span, done, &hint, &count);
        // A sub-interpreter that just ends does not hide the others.
        error = failed == AL_E_NOMEM || i == s->interps_count - 1 ? (count ? 0 : failed) : 0;
    }
    if (error)
        return error;
    struct al_tstate *old = s->tstates;
    size_t old_cap = s->tstates_cap;
    s->tstates = s->next_tstates;
    s->tstates_cap = s->next_cap;
    s->tstates_count = count;
    s->next_tstates = old;
    s->next_cap = old_cap;
    return count ? 0 : AL_E_FORMAT;
}
