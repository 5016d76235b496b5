// SPDX-License-Identifier: Apache-2.0
// The target's list of threads. It changes seldom: all that was needed of it for the last sample is read by one call,
// and only what is new one by one.
#include <stdlib.h>

#include "base/err.h"
#include "stack/parts.h"

#define TSTATE_BYTES 512u // read of each
#define GAP_MOST 1024u    // bytes copied in vain rather than beginning another piece
#define NEAR_MOST 2048u   // likewise between thread states: no page lies there that neither is in
#define NEAR_BYTES 32768u // of one piece
#define HEADS_MERGED 16u
#define TRIES 3
#define GIL_ASKED 64u     // samples
#define INTERPS_AHEAD 16u // interpreters that are read ahead

static uint32_t span_of(const struct al_layout *l) {
    const uint32_t ends[] = {l->thread_next + 8,
                             l->thread_interp + 8,
                             l->thread_id + 8,
                             l->thread_native_id == AL_LAYOUT_NONE ? 0 : l->thread_native_id + 8,
                             l->thread_number == AL_LAYOUT_NONE ? 0 : l->thread_number + 8,
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
    t->number = l->thread_number == AL_LAYOUT_NONE ? 0 : al_u64(raw + l->thread_number);
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

static bool ask(struct al_stack *s, uint64_t address, uint32_t size) {
    // A piece costs more than the bytes between two: neighbours become one.
    for (size_t i = 0; i < s->pieces_count && i < HEADS_MERGED; i++) {
        struct al_piece *p = &s->pieces[i];
        uint64_t low = p->address < address ? p->address : address;
        uint64_t high = p->address + p->size > address + size ? p->address + p->size : address + size;
        if (high - low <= (uint64_t)p->size + size + GAP_MOST) {
            p->address = low;
            p->size = (uint32_t)(high - low);
            return true;
        }
    }
    if (!room((void **)&s->pieces, &s->pieces_cap, s->pieces_count + 1, sizeof *s->pieces))
        return false;
    s->pieces[s->pieces_count++] = (struct al_piece){address, size, 0};
    return true;
}

bool al_pieces_room(struct al_stack *s, size_t more) {
    return room((void **)&s->pieces, &s->pieces_cap, s->pieces_count + more, sizeof *s->pieces);
}

// Threads that were begun one after the other have their states near each other: their neighbour's piece is made longer.
static bool ask_thread(struct al_stack *s, struct al_tstate *t, uint32_t span, bool alone) {
    struct al_piece *p = alone ? NULL : &s->pieces[s->pieces_count - 1];
    if (p && p->size < NEAR_BYTES && t->address + span + NEAR_MOST >= p->address &&
        t->address <= p->address + p->size + NEAR_MOST) {
        uint64_t end = p->address + p->size;
        p->address = t->address < p->address ? t->address : p->address;
        p->size = (uint32_t)((t->address + span > end ? t->address + span : end) - p->address);
    } else {
        if (!al_pieces_room(s, 1))
            return false;
        p = &s->pieces[s->pieces_count++];
        *p = (struct al_piece){t->address, span, s->block_used};
    }
    t->piece = (uint32_t)(p - s->pieces);
    s->block_used = p->at + ((p->size + 7) & ~7u);
    return true;
}

static bool ask_threads(struct al_stack *s, uint32_t span) {
    bool ok = true, alone = true;
    size_t k = 0;
    for (size_t i = 0; i < s->tstates_count && ok; i++) {
        struct al_tstate *t = &s->tstates[i];
        bool ahead = k < s->ahead_count && s->ahead[k].tstate == t->address;
        if (ahead)
            ok = al_ahead_ask(s, &s->ahead[k++], al_interp_of(s, t->interp), span, &t->piece);
        else
            ok = ask_thread(s, t, span, alone);
        alone = ahead;
    }
    s->ahead_count = k;
    return ok;
}

// What is read of an interpreter besides its GIL: one piece when it lies together, as it does.
static void span_interp(const struct al_layout *l, uint32_t *ret_low, uint32_t *ret_high) {
    const uint32_t fields[] = {l->interp_next, l->interp_id, l->interp_threads};
    *ret_low = *ret_high = fields[0];
    for (int i = 1; i < 3; i++) {
        *ret_low = fields[i] < *ret_low ? fields[i] : *ret_low;
        *ret_high = fields[i] > *ret_high ? fields[i] : *ret_high;
    }
    *ret_high += 8;
}

// Where an interpreter's GIL lies does not change; it is asked for now and then all the same.
static bool asks_gil(const struct al_stack *s, const struct al_interp *i) {
    return !i->gil || s->number % GIL_ASKED == 0;
}

static bool ask_interp(struct al_stack *s, const struct al_interp *i) {
    const struct al_layout *l = &s->found.layout;
    uint32_t low, high;
    span_interp(l, &low, &high);
    bool ok = ask(s, i->address + low, high - low);
    if (l->interp_code_generation != AL_LAYOUT_NONE)
        ok = ok && ask(s, i->address + l->interp_code_generation, 8);
    if (l->free_threaded || l->runtime_current != AL_LAYOUT_NONE)
        return ok;
    if (asks_gil(s, i))
        ok = ok && ask(s, i->address + l->interp_gil, 8);
    return ok && (!i->gil || ask(s, i->gil + l->gil_holder, l->gil_locked + 4 - l->gil_holder));
}

// All that the last sample's list consisted of, in one go. s->heads: the pieces before those of the threads; s->done:
// how many could be read.
static int read_known(struct al_stack *s, uint32_t span) {
    const struct al_layout *l = &s->found.layout;
    s->pieces_count = s->heads = s->done = 0;
    s->block_used = 0;
    bool ok = ask(s, s->found.runtime + l->runtime_interpreters, 8);
    if (l->runtime_current != AL_LAYOUT_NONE)
        ok = ok && ask(s, s->found.runtime + l->runtime_current, 8);
    for (size_t i = 0; i < s->interps_count && i < INTERPS_AHEAD; i++)
        ok = ok && ask_interp(s, &s->interps[i]);
    s->heads = s->pieces_count;
    for (size_t i = 0; i < s->heads; i++) {
        s->pieces[i].at = s->block_used;
        s->block_used += (s->pieces[i].size + 7) & ~7u;
    }
    ok = ok && ask_threads(s, span);
    if (!ok || !room((void **)&s->block, &s->block_cap, s->block_used / 8 + 1, 8))
        return AL_E_NOMEM;
    s->done = s->memory.gather(s->memory.user, s->pieces, s->pieces_count, s->block);
    al_ahead_take(s);
    return 0;
}

// From the pieces before the threads', else read now.
bool al_threads_fetch(struct al_stack *s, uint64_t address, void *out, uint32_t size) {
    for (size_t i = 0; i < s->heads && i < s->done; i++) {
        const struct al_piece *p = &s->pieces[i];
        if (address >= p->address && address - p->address <= p->size && size <= p->size - (address - p->address)) {
            memcpy(out, (unsigned char *)s->block + p->at + (address - p->address), size);
            return true;
        }
    }
    return al_memory_get(&s->memory, address, out, size);
}

static bool fetch_u64(struct al_stack *s, uint64_t address, uint64_t *ret) {
    return al_threads_fetch(s, address, ret, sizeof *ret);
}

// One thread state: from the block when it is one of those near *hint, else read now.
static bool one(struct al_stack *s, uint64_t address, uint32_t span, size_t *hint, struct al_tstate *ret) {
    unsigned char raw[TSTATE_BYTES];
    for (size_t i = *hint; i < s->tstates_count && i < *hint + 16; i++) {
        if (s->tstates[i].address != address || s->tstates[i].piece >= s->done)
            continue;
        const struct al_piece *p = &s->pieces[s->tstates[i].piece];
        *hint = i + 1;
        parse(&s->found.layout, (unsigned char *)s->block + p->at + (address - p->address), address, ret);
        return true;
    }
    if (!al_address_ok(address, 8) || !al_memory_get(&s->memory, address, raw, span))
        return false;
    parse(&s->found.layout, raw, address, ret);
    return true;
}

static int threads_of(struct al_stack *s, const struct al_interp *interp, uint32_t span, size_t *hint, size_t *count) {
    uint64_t at, mark = 0; // one of those before: where the list comes to it again it is a circle
    size_t first = *count, move = first + 1;
    if (!fetch_u64(s, interp->address + s->found.layout.interp_threads, &at))
        return AL_E_FORMAT;
    while (at && *count < AL_THREADS_MOST) {
        if (!room((void **)&s->next_tstates, &s->next_cap, *count + 1, sizeof *s->next_tstates))
            return AL_E_NOMEM;
        struct al_tstate *t = &s->next_tstates[*count];
        // A thread that ends while its neighbour is read leaves a state that points elsewhere: the list ends there.
        if (!one(s, at, span, hint, t) || t->interp != interp->address) {
            s->list_broken = true;
            return *count > first ? 0 : AL_E_FORMAT;
        }
        (*count)++;
        if (*count == move) {
            mark = at;
            move += *count - first;
        }
        at = t->next;
        if (at == mark) {
            s->list_broken = true;
            break;
        }
    }
    return 0;
}

// Who holds the interpreter's GIL.
static void read_gil(struct al_stack *s, struct al_interp *i) {
    const struct al_layout *l = &s->found.layout;
    unsigned char raw[AL_WATCH_MOST];
    i->holder = 0;
    if (l->free_threaded)
        return;
    if (l->runtime_current != AL_LAYOUT_NONE) {
        i->gil = s->found.runtime + l->runtime_gil;
        (void)fetch_u64(s, s->found.runtime + l->runtime_current, &i->holder);
        return;
    }
    uint32_t size = l->gil_locked + 4 - l->gil_holder;
    if (l->gil_locked < l->gil_holder || size > sizeof raw ||
        (asks_gil(s, i) && !fetch_u64(s, i->address + l->interp_gil, &i->gil)) ||
        !al_address_ok(i->gil, 8) || !al_threads_fetch(s, i->gil + l->gil_holder, raw, size)) {
        i->gil = 0;
        return;
    }
    // last_holder stays after the release: only `locked`, read in the same call, says whether it still is.
    if ((int32_t)al_u32(raw + size - 4) == 1)
        i->holder = al_u64(raw);
}

static void read_generation(struct al_stack *s, const struct al_interp *i) {
    uint64_t value;
    uint32_t at = s->found.layout.interp_code_generation;
    if (at == AL_LAYOUT_NONE || !fetch_u64(s, i->address + at, &value))
        s->generation_known = false;
    else
        s->generation = (s->generation ^ (i->address + value)) * 0x9e3779b97f4a7c15ULL | 1;
}

static int read_interps(struct al_stack *s) {
    const struct al_layout *l = &s->found.layout;
    uint64_t at;
    size_t known = s->interps_count;
    s->interps_count = 0;
    s->generation = 1;
    s->generation_known = true;
    if (!fetch_u64(s, s->found.runtime + l->runtime_interpreters, &at))
        return al_remote_error(&s->remote);
    while (at && s->interps_count < AL_INTERPS_MOST) {
        if (!room((void **)&s->interps, &s->interps_cap, s->interps_count + 1, sizeof *s->interps))
            return AL_E_NOMEM;
        struct al_interp *i = &s->interps[s->interps_count];
        struct al_interp old = s->interps_count < known ? *i : (struct al_interp){0};
        *i = (struct al_interp){.address = at};
        uint64_t id = 0, next = 0;
        if (!al_address_ok(at, 8) || !fetch_u64(s, at + l->interp_id, &id) || !fetch_u64(s, at + l->interp_next, &next))
            return s->interps_count ? 0 : al_remote_error(&s->remote);
        i->id = (int64_t)id;
        i->gil = old.address == at && old.id == i->id ? old.gil : 0;
        read_gil(s, i);
        read_generation(s, i);
        s->interps_count++;
        if (next == at)
            break;
        at = next;
    }
    return s->interps_count ? 0 : AL_E_FORMAT;
}

static int read_list(struct al_stack *s, uint32_t span, size_t *count) {
    size_t hint = 0;
    *count = 0;
    s->list_broken = false;
    int error = read_known(s, span);
    if (!error)
        error = read_interps(s);
    for (size_t i = 0; !error && i < s->interps_count; i++) {
        int failed = threads_of(s, &s->interps[i], span, &hint, count);
        // A sub-interpreter that just ends does not hide the others.
        if (failed == AL_E_NOMEM || (failed && i == s->interps_count - 1 && !*count))
            error = failed;
    }
    return error;
}

int al_threads_list(struct al_stack *s) {
    uint32_t span = span_of(&s->found.layout);
    size_t count = 0;
    int error = AL_E_FORMAT;
    // Threads begin and end meanwhile: a list that broke off is read again, and taken as it is in the end.
    for (int i = 0; i < TRIES && span <= TSTATE_BYTES; i++) {
        error = read_list(s, span, &count);
        if (error == AL_E_NOMEM || s->remote.error || (!error && !s->list_broken))
            break;
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
