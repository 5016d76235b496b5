// SPDX-License-Identifier: Apache-2.0
#include "stack/core/plan.h"

// A gap that is cheaper to copy than to begin another piece. Below a page: no page lies in it that neither end is in.
#define GAP_MOST 2048u
#define SLACK 512u     // read beyond what a chunk has in use: it grows by the next call
#define SHRINK 4096u   // unused bytes of a chunk's part until it is cut
#define TOP 1024u      // of a chunk, what is read first the second time
#define IDLE_MOST 8    // walks after which what was not needed is dropped
#define CUT_LEAST 8192 // of a chunk's used part, below which its end is not read apart: a piece costs as much as 4 KiB
#define CHUNKS_MOST 64 // of 16 KiB and more each: deeper than AL_WALK_BYTES
#define CHUNK_MOST (64u << 20)
#define CHUNK_HEAD 24u // {previous, size, top}; what follows is slots of 8 bytes, and top counts those in use
#define FORGET_MOST 8  // pieces that may be gone at one reading

static bool holds(const struct al_span *s, uint64_t address, uint32_t size) {
    return address >= s->address && address - s->address <= s->size && size <= s->size - (address - s->address);
}

static uint32_t find_index(const struct al_plan *plan, uint64_t address, uint32_t size) {
    uint32_t low = 0, high = plan->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (plan->spans[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && holds(&plan->spans[low - 1], address, size) ? low - 1 : UINT32_MAX;
}

struct al_span *al_plan_find(struct al_plan *plan, uint64_t address, uint32_t size) {
    if (plan->last >= plan->count || !holds(&plan->spans[plan->last], address, size)) {
        plan->last = find_index(plan, address, size);
        if (plan->last == UINT32_MAX)
            return NULL;
    }
    struct al_span *s = &plan->spans[plan->last];
    s->idle = 0;
    if (s->rank == UINT16_MAX)
        s->rank = plan->touched++;
    if (address + size > s->high)
        s->high = address + size;
    return s;
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

static struct al_span *add(struct al_plan *plan, struct al_span s) {
    if (plan->count + plan->missed >= plan->cap)
        return NULL;
    s.rank = plan->touched++;
    plan->spans[plan->count + plan->missed] = s;
    return &plan->spans[plan->count + plan->missed++];
}

static bool knows_chunk(const struct al_plan *plan, uint64_t chunk) {
    for (uint32_t i = 0; i < plan->count + plan->missed; i++)
        if (plan->spans[i].limit && chunk >= plan->spans[i].address && chunk < plan->spans[i].limit)
            return true;
    return false;
}

// All chunks of the thread's data stack that are not known yet, of which one holds the address: from the innermost on.
// What those behind it have in use they say themselves.
static enum al_plan_learned learn_chunks(struct al_plan *plan, const struct al_layout *l, const struct al_memory *m,
                                         uint64_t address, uint32_t size) {
    uint64_t chunk, head[CHUNK_HEAD / 8];
    bool found = false;
    if (l->thread_chunk == AL_LAYOUT_NONE || !al_memory_u64(m, plan->thread + l->thread_chunk, &chunk))
        return AL_PLAN_NOTED;
    for (unsigned i = 0; i < CHUNKS_MOST && al_address_ok(chunk, 8); i++, chunk = head[0]) {
        if (!al_memory_get(m, chunk, head, sizeof head) || head[1] < 64 || head[1] > CHUNK_MOST)
            break;
        bool here = address >= chunk && address - chunk < head[1] && size <= head[1] - (address - chunk);
        if ((!here && !found && i == 0) || knows_chunk(plan, chunk)) // what the innermost uses is not known: it is met
            continue;
        uint64_t used = here || head[2] > head[1] / 8 ? 0 : CHUNK_HEAD + 8 * head[2];
        struct al_span *s = add(plan, (struct al_span){.address = chunk, .high = chunk, .limit = chunk + head[1]});
        if (!s)
            return AL_PLAN_FULL;
        if (here)
            found = grow_chunk(plan, s, address, size);
        else if (used <= head[1] && used < UINT32_MAX)
            s->size = (uint32_t)used;
    }
    return found ? AL_PLAN_CHUNKS : AL_PLAN_NOTED;
}

enum al_plan_learned al_plan_learn(struct al_plan *plan, const struct al_layout *l, const struct al_memory *m,
                                   uint64_t address, uint32_t size) {
    for (uint32_t i = 0; i < plan->count + plan->missed; i++)
        if (grow_chunk(plan, &plan->spans[i], address, size))
            return AL_PLAN_CHUNKS;
    if (size >= l->frame_size) {
        enum al_plan_learned learned = learn_chunks(plan, l, m, address, size);
        if (learned != AL_PLAN_NOTED)
            return learned;
    }
    struct al_span s = {.address = address, .size = size, .high = address + size, .pointer = size < l->frame_size};
    return add(plan, s) ? AL_PLAN_NOTED : AL_PLAN_FULL;
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
            last->pointer = last->pointer && s.pointer;
        } else {
            plan->spans[kept++] = s;
        }
    }
    plan->count = kept;
    plan->missed = 0;
    plan->grown = false;
}

static uint32_t distance(const struct al_span *s) {
    return s->rank + (s->pointer ? 0 : UINT16_MAX + 1u);
}

// The spans from the last needed to the first; behind all frames, whenever they were needed, what points to the innermost.
static void order(const struct al_plan *plan, uint16_t *ret) {
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t j = i;
        for (; j && distance(&plan->spans[ret[j - 1]]) < distance(&plan->spans[i]); j--)
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

uint32_t al_plan_lay(struct al_plan *plan, uint32_t most, uint16_t sequence[AL_SPANS_MOST]) {
    uint64_t total = 0;
    if (plan->missed || plan->grown)
        arrange(plan);
    for (uint32_t i = 0; i < plan->count; i++)
        total += plan->spans[i].size;
    if (!total || total > most)
        return 0;
    order(plan, sequence);
    place(plan, sequence, most);
    return plan->total;
}

uint32_t al_plan_first(const struct al_plan *plan, const uint16_t *sequence, uint64_t low, uint64_t high, uint32_t at,
                       struct al_piece *pieces) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct al_span *s = &plan->spans[sequence[i]];
        if (s->size && (s->address < low || s->address + s->size > high))
            pieces[n++] = (struct al_piece){s->address, s->size, at + s->at};
    }
    return n;
}

void al_plan_twins(const struct al_plan *plan, const unsigned char *first, unsigned char *second) {
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->spans[i].pointer)
            memcpy(second + plan->spans[i].at, first + plan->spans[i].at, plan->spans[i].size);
}

// The other way round; of the chunk with the innermost frames, when it is long, the end that is in use now first.
uint32_t al_plan_second(const struct al_plan *plan, const uint16_t *sequence, uint32_t at, struct al_piece *pieces) {
    uint32_t n = 0, chunks = 0;
    for (uint32_t i = plan->count; i-- > 0;) {
        const struct al_span *s = &plan->spans[sequence[i]];
        uint64_t used = s->high > s->address ? s->high - s->address : 0;
        uint32_t cut = s->limit && !chunks++ && used > CUT_LEAST && used <= s->size ? (uint32_t)used - TOP : 0;
        if (s->size > cut && !s->pointer)
            pieces[n++] = (struct al_piece){s->address + cut, s->size - cut, at + s->at + cut};
        if (cut)
            pieces[n++] = (struct al_piece){s->address, cut, at + s->at};
    }
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

// False: what could not be read is left out from now on.
static bool read_twice(struct al_plan *plan, struct al_walk *w) {
    struct al_piece pieces[2 * AL_SPANS_MOST + 4];
    uint16_t sequence[AL_SPANS_MOST];
    order(plan, sequence);
    place(plan, sequence, w->buffer_size / 2 - AL_PLAN_EXTRA);
    uint32_t half = plan->total + AL_PLAN_EXTRA;
    uint32_t n = al_plan_first(plan, sequence, 0, 0, 0, pieces);
    if (w->watch) {
        pieces[n++] = (struct al_piece){w->watch, w->watch_size, plan->total};
        pieces[n++] = (struct al_piece){w->watch, w->watch_size, half + plan->total};
    }
    n += al_plan_second(plan, sequence, half, pieces + n);
    w->reads++;
    size_t done = w->memory->gather(w->memory->user, pieces, n, w->buffer);
    if (done >= n) {
        al_plan_twins(plan, w->buffer, w->buffer + half);
        return true;
    }
    // The piece at which it ended is gone (or, of those in the second pass, its twin).
    forget(plan, pieces[done].address);
    return false;
}

bool al_plan_read(struct al_plan *plan, struct al_walk *w) {
    if (plan->missed || plan->grown)
        arrange(plan);
    if (w->buffer_size / 2 < AL_PLAN_EXTRA)
        return false;
    for (unsigned i = 0; i < FORGET_MOST && plan->count; i++)
        if (read_twice(plan, w))
            return true;
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
