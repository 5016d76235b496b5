// SPDX-License-Identifier: Apache-2.0
#include "stack/core/plan.h"

// A gap that is cheaper to copy than to begin another piece. Below a page: no page lies in it that neither end is in.
#define GAP_MOST 2048u
#define SLACK 512u     // read beyond what a chunk has in use: it grows by the next call
#define SHRINK 4096u   // unused bytes of a chunk's part until it is cut
#define TOP 1024u      // of a chunk, what is read first the second time
#define IDLE_MOST 8    // walks after which what was not needed is dropped
#define CHUNKS_MOST 64 // of 16 KiB and more each: deeper than AL_WALK_BYTES
#define CHUNK_MOST (64u << 20)

struct al_span *al_plan_find(struct al_plan *plan, uint64_t address, uint32_t size) {
    uint32_t low = 0, high = plan->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (plan->spans[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    struct al_span *s = &plan->spans[low - 1];
    if (address - s->address > s->size || size > s->size - (address - s->address))
        return NULL;
    s->idle = 0;
    if (s->rank == UINT16_MAX)
        s->rank = plan->touched++;
    if (address + size > s->high)
        s->high = address + size;
    return s;
}

// The chunk of the thread's data stack that holds the address: {previous, size, top, ...}.
static bool find_chunk(const struct al_plan *plan, const struct al_layout *l, const struct al_memory *m,
                       uint64_t address, uint64_t *ret_start, uint64_t *ret_limit) {
    uint64_t chunk, head[2];
    if (l->thread_chunk == AL_LAYOUT_NONE || !al_memory_u64(m, plan->thread + l->thread_chunk, &chunk))
        return false;
    for (unsigned i = 0; i < CHUNKS_MOST && al_address_ok(chunk, 8); i++) {
        if (!al_memory_get(m, chunk, head, sizeof head) || head[1] < 64 || head[1] > CHUNK_MOST)
            return false;
        if (address >= chunk && address - chunk < head[1]) {
            *ret_start = chunk;
            *ret_limit = chunk + head[1];
            return true;
        }
        chunk = head[0];
    }
    return false;
}

static bool grow_chunk(struct al_plan *plan, struct al_span *s, uint64_t address, uint32_t size) {
    if (!s->limit || address < s->address || address >= s->limit || size > s->limit - address)
        return false;
    uint64_t end = address + size + SLACK;
    if (end > s->limit)
        end = s->limit;
    if (end - s->address > s->size && end > s->high) {
        s->high = end; // applied when the plan is next read: until then the copy has the old size
        plan->grown = true;
    }
    return true;
}

bool al_plan_learn(struct al_plan *plan, const struct al_layout *l, const struct al_memory *m, uint64_t address,
                   uint32_t size) {
    uint64_t start, limit;
    for (uint32_t i = 0; i < plan->count + plan->missed; i++)
        if (grow_chunk(plan, &plan->spans[i], address, size))
            return true;
    if (plan->count + plan->missed >= plan->cap)
        return false;
    struct al_span *s = &plan->spans[plan->count + plan->missed++];
    uint16_t rank = plan->touched++;
    *s = (struct al_span){.address = address, .size = size, .high = address + size, .rank = rank};
    if (size >= l->frame_size && find_chunk(plan, l, m, address, &start, &limit) && size <= limit - address) {
        *s = (struct al_span){.address = start, .size = 0, .high = start, .limit = limit, .rank = rank};
        return grow_chunk(plan, s, address, size);
    }
    return true;
}

static void sort(struct al_span *spans, uint32_t count) {
    // Nearly sorted, and few: insertion.
    for (uint32_t i = 1; i < count; i++) {
        struct al_span s = spans[i];
        uint32_t j = i;
        for (; j && spans[j - 1].address > s.address; j--)
            spans[j] = spans[j - 1];
        spans[j] = s;
    }
}

// Puts what was learned in its place; neighbours become one.
static void arrange(struct al_plan *plan) {
    uint32_t all = plan->count + plan->missed, kept = 0;
    for (uint32_t i = 0; i < all; i++) {
        struct al_span *s = &plan->spans[i];
        if (s->high > s->address + s->size)
            s->size = (uint32_t)(s->high - s->address);
    }
    sort(plan->spans, all);
    for (uint32_t i = 0; i < all; i++) {
        struct al_span s = plan->spans[i];
        struct al_span *last = kept ? &plan->spans[kept - 1] : NULL;
        uint64_t end = last ? last->address + last->size : 0;
        if (last && (s.address < end || (!last->limit && !s.limit && s.address - end <= GAP_MOST))) {
            if (s.address + s.size > end)
                last->size = (uint32_t)(s.address + s.size - last->address);
            if (s.high > last->high)
                last->high = s.high;
            if (s.limit > last->limit)
                last->limit = s.limit;
            last->idle = last->idle < s.idle ? last->idle : s.idle;
            last->rank = last->rank < s.rank ? last->rank : s.rank;
        } else {
            plan->spans[kept++] = s;
        }
    }
    plan->count = kept;
    plan->missed = 0;
    plan->grown = false;
}

// The spans from the last needed to the first.
static void order(const struct al_plan *plan, uint16_t *ret) {
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t j = i;
        for (; j && plan->spans[ret[j - 1]].rank < plan->spans[i].rank; j--)
            ret[j] = ret[j - 1];
        ret[j] = (uint16_t)i;
    }
}

// Gives each span its place in a copy; what does not fit is left out.
static void place(struct al_plan *plan, const uint16_t *sequence, size_t room) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        struct al_span *s = &plan->spans[sequence[i]];
        if (s->size > room - at)
            s->size = 0;
        s->at = at;
        at += s->size;
    }
    plan->total = at;
}

static uint32_t first_pass(const struct al_plan *plan, const uint16_t *sequence, struct al_piece *pieces) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct al_span *s = &plan->spans[sequence[i]];
        if (s->size)
            pieces[n++] = (struct al_piece){s->address, s->size, s->at};
    }
    return n;
}

// The other way round; of a chunk the end that is in use now first.
static uint32_t second_pass(const struct al_plan *plan, const uint16_t *sequence, uint32_t half,
                            struct al_piece *pieces) {
    uint32_t n = 0;
    for (uint32_t i = plan->count; i-- > 0;) {
        const struct al_span *s = &plan->spans[sequence[i]];
        uint64_t used = s->high > s->address ? s->high - s->address : 0;
        uint32_t cut = s->limit && used > 4 * TOP && used <= s->size && n + plan->count < 2 * AL_SPANS_MOST
                           ? (uint32_t)used - TOP
                           : 0;
        if (s->size > cut)
            pieces[n++] = (struct al_piece){s->address + cut, s->size - cut, half + s->at + cut};
        if (cut)
            pieces[n++] = (struct al_piece){s->address, cut, half + s->at};
    }
    return n;
}

static uint32_t watched(const struct al_walk *w, uint32_t at, struct al_piece *pieces) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < 2; i++)
        if (w->watch[i])
            pieces[n++] = (struct al_piece){w->watch[i], 8, at + 8 * i};
    return n;
}

static void forget(struct al_plan *plan, uint64_t address) {
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct al_span *s = &plan->spans[i];
        if (address >= s->address && address - s->address < s->size) {
            memmove(&plan->spans[i], &plan->spans[i + 1], (plan->count - i - 1) * sizeof *plan->spans);
            plan->count--;
            return;
        }
    }
}

bool al_plan_read(struct al_plan *plan, struct al_walk *w) {
    struct al_piece pieces[3 * AL_SPANS_MOST + 4];
    uint16_t sequence[AL_SPANS_MOST];
    if (plan->missed || plan->grown)
        arrange(plan);
    if (!plan->count || w->buffer_size / 2 < AL_PLAN_EXTRA)
        return false;
    order(plan, sequence);
    place(plan, sequence, w->buffer_size / 2 - AL_PLAN_EXTRA);
    uint32_t half = plan->total + AL_PLAN_EXTRA;
    uint32_t n = first_pass(plan, sequence, pieces);
    n += watched(w, plan->total, pieces + n);
    n += watched(w, half + plan->total, pieces + n);
    n += second_pass(plan, sequence, half, pieces + n);
    size_t done = w->memory->gather(w->memory->user, pieces, n, w->buffer);
    if (done >= n)
        return true;
    // The piece at which it ended is gone (or, of those in the second pass, its twin).
    forget(plan, pieces[done].address);
    return false;
}

void al_plan_begin(struct al_plan *plan) {
    plan->touched = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        struct al_span *s = &plan->spans[i];
        s->high = s->address;
        s->rank = UINT16_MAX;
        s->idle = s->idle < UINT8_MAX ? (uint8_t)(s->idle + 1) : UINT8_MAX;
    }
}

void al_plan_end(struct al_plan *plan) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        struct al_span *s = &plan->spans[i];
        if (s->idle > IDLE_MOST)
            continue;
        uint64_t used = s->high > s->address ? s->high - s->address : 0;
        if (s->limit && used && s->size > used + SHRINK)
            s->size = (uint32_t)used + SLACK;
        plan->spans[kept++] = *s;
    }
    // What was learned stays behind those that were kept.
    memmove(&plan->spans[kept], &plan->spans[plan->count], plan->missed * sizeof *plan->spans);
    plan->count = kept;
}
