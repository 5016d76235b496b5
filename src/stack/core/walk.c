// SPDX-License-Identifier: Apache-2.0
#include "stack/core/walk.h"

#include "stack/core/frame.h"
#include "stack/core/plan.h"

#define OWNER_GENERATOR 1 // of 3.11
#define EXECUTING 0       // states of a frame of 3.10; one that has ended is between the two or above
#define UNWINDING 2
#define THREAD_BYTES 4096 // a thread state is no longer
#define EMPTY_CHUNK 32u   // bytes of a thread's first chunk that are in use when no frame is

// The chunk of frames that is in use, where the next frame goes, and the chunk's end; 0 not known.
struct stack {
    uint64_t chunk, top, limit;
};

// A chain as one copy tells it.
struct chain {
    struct al_raw_frame *frames;
    uint32_t count;
    uint64_t last; // the outermost frame, a shim included
    bool truncated, damaged, missed, full;
    bool stop; // the rest is better read with all else, by the next reading
    bool twin; // so far the other copy says the same
    bool entered; // the last frame is one that native code enters
    bool stale;     // what was to tell the innermost frame was not set yet
    bool generator; // the last frame is a generator's (3.11)
    struct stack stack;
};

// Bytes of the target: from the first copy when the plan has them; else read now and learned for the next reading.
static const unsigned char *get(struct al_walk *w, struct al_plan *plan, const struct al_copies *from, uint64_t address,
                                uint32_t size, unsigned char *spare, struct chain *c) {
    struct al_span *s = from->first ? al_plan_find(plan, address, size) : NULL;
    if (s)
        return from->first + s->at + (address - s->address);
    c->missed = true;
    c->twin = false;
    w->reads++;
    if (!al_memory_get(w->memory, address, spare, size))
        return NULL;
    enum al_plan_learned learned = al_plan_learn(plan, w->layout, w->memory, address, size);
    c->full |= learned == AL_PLAN_FULL;
    c->stop |= learned == AL_PLAN_CHUNKS;
    return spare;
}

// The same bytes in the second copy.
static const unsigned char *twin_of(const struct al_copies *from, const unsigned char *p) {
    return from->second + (p - from->first);
}

static bool get_u64(struct al_walk *w, struct al_plan *plan, const struct al_copies *from, uint64_t address, uint64_t *ret,
                    struct chain *c) {
    unsigned char spare[8];
    const unsigned char *p = get(w, plan, from, address, 8, spare, c);
    if (!p)
        return false;
    *ret = al_u64(p);
    c->twin = c->twin && al_u64(twin_of(from, p)) == *ret;
    return true;
}

// In 3.11 and 3.12 the interpreter's loop says first where the innermost frame will be told and then which it is: in between
// that place tells of a frame that was there before.
static bool read_stack(struct al_walk *w, struct al_plan *plan, const struct al_copies *from, uint64_t thread,
                       struct chain *c) {
    unsigned char spare[24];
    const unsigned char *p = get(w, plan, from, thread + w->layout->thread_chunk, sizeof spare, spare, c);
    if (p)
        c->stack = (struct stack){al_u64(p), al_u64(p + 8), al_u64(p + 16)};
    return p != NULL;
}

// The innermost frame's address; false: unreadable.
static bool top_frame(struct al_walk *w, struct al_plan *plan, const struct al_copies *from, uint64_t thread,
                      uint64_t *ret, struct chain *c) {
    const struct al_layout *l = w->layout;
    if (!get_u64(w, plan, from, thread + l->thread_frame, ret, c))
        return false;
    if (l->cframe_frame == AL_LAYOUT_NONE)
        return true;
    uint64_t place = *ret;
    if (!read_stack(w, plan, from, thread, c) || !al_address_ok(place, 8) ||
        !get_u64(w, plan, from, place + l->cframe_frame, ret, c))
        return false;
    bool own = place - thread < THREAD_BYTES; // none runs: the thread state's own place tells so
    c->stale = *ret ? *ret >= c->stack.top && *ret < c->stack.limit : !own;
    return true;
}

static bool same(const struct al_raw_frame *a, const struct al_raw_frame *b, bool top) {
    return a->address == b->address && a->code == b->code && a->entry == b->entry && a->tlbc == b->tlbc &&
           (top || a->instr == b->instr);
}

// Whether the other copy has the same frame there, called by the same one. The innermost one's instruction may move.
static bool has_twin(struct al_frame_shape shape, const unsigned char *p, const struct al_raw_frame *f, uint64_t next,
                     bool shim, bool top) {
    struct al_raw_frame other;
    uint64_t other_next;
    bool other_shim;
    return al_frame_parse(shape, p, f->address, &other, &other_next, &other_shim) && other_next == next &&
           other_shim == shim && same(f, &other, top);
}

// Whether a frame can be the outermost one. To 3.10 it must run: a generator's that waits, or has ended and may come back as
// the next one's, also says that nobody called it.
static bool is_entered(const struct al_layout *l, const unsigned char *p, bool entry, bool shim) {
    if (l->shim_owner)
        return shim;
    if (!l->instr_unit)
        return entry;
    signed char state = (signed char)p[l->frame_instr + AL_LAYOUT_FRAME_STATE];
    return l->version == 0x030a ? state == EXECUTING || state == UNWINDING : state == 1;
}

static void follow(struct al_walk *w, struct al_plan *plan, const struct al_copies *from, uint64_t at, bool last,
                   struct chain *c) {
    unsigned char spare[512];
    const struct al_layout *l = w->layout;
    const struct al_frame_shape shape = al_frame_shape(l);
    const unsigned char *p = NULL;
    struct al_raw_frame f;
    bool shim = false;
    // Shims stand between Python frames; a chain of nothing but shims is damage.
    for (uint32_t steps = 0; at && (last || !c->stop); steps++) {
        uint64_t next;
        if (c->count == w->depth || steps > 2 * w->depth + 8) {
            c->truncated = true;
            return;
        }
        if (!al_address_ok(at, 8) || l->frame_size > sizeof spare) {
            c->damaged = true;
            return;
        }
        p = get(w, plan, from, at, l->frame_size, spare, c);
        if (!p || !al_frame_parse(shape, p, at, &f, &next, &shim)) {
            c->damaged = true;
            return;
        }
        c->twin = c->twin && has_twin(shape, twin_of(from, p), &f, next, shim, c->count == 0);
        if (shim && c->count)
            c->frames[c->count - 1].entry = true;
        else if (!shim && f.code)
            c->frames[c->count++] = f;
        c->last = at;
        at = next;
    }
    c->entered = p && is_entered(l, p, f.entry, shim);
    c->generator = p && shape.entry != AL_LAYOUT_NONE && p[shape.owner] == OWNER_GENERATOR;
    // The root's frame is entered from outside whatever stands there.
    if (c->count)
        c->frames[c->count - 1].entry = true;
}

// last: of the readings; what is missing then is read piece by piece.
static bool walk_copy(struct al_walk *w, struct al_plan *plan, const struct al_copies *from, bool last, struct chain *c) {
    uint64_t top;
    c->count = 0;
    c->last = 0;
    c->truncated = c->damaged = c->missed = c->full = c->stop = c->entered = false;
    c->stale = c->generator = false;
    c->stack = (struct stack){0, 0, 0};
    c->twin = from->first && from->second;
    if (!top_frame(w, plan, from, plan->thread, &top, c))
        return false;
    follow(w, plan, from, top, last, c);
    c->damaged |= c->stale;
    return true;
}

uint32_t al_walk_common(const struct al_raw_frame *a, uint32_t a_count, const struct al_raw_frame *b, uint32_t b_count) {
    uint32_t n = 0, least = a_count < b_count ? a_count : b_count;
    while (n < least) {
        uint32_t i = a_count - 1 - n, j = b_count - 1 - n;
        if (!same(&a[i], &b[j], i == 0 && j == 0))
            break;
        n++;
    }
    return n;
}

// *ret_same: all frames are.
static uint32_t common(const struct chain *a, const struct chain *b, bool *ret_same) {
    uint32_t n = al_walk_common(a->frames, a->count, b->frames, b->count);
    *ret_same = a->count == b->count && n == a->count;
    return n;
}

// A frame that was just left, or is not yet linked, may say that nobody called it. What is a root was one at the last
// walk, or is the one that the interpreter names (3.15); a new one is believed when it is seen twice.
static bool same_root(const struct al_plan *plan, const struct chain *c) {
    return !c->count || c->truncated || (plan->root == c->last && plan->root_code == c->frames[c->count - 1].code);
}

// A frame that native code did not enter, and that nobody called, is not yet linked. A generator's of 3.11 says that it was
// entered since it last was, and ends a chain only where nothing else of the thread runs.
static bool is_rooted(const struct chain *c) {
    if (!c->last || c->truncated)
        return true;
    return c->entered && (!c->generator || c->stack.top - c->stack.chunk <= EMPTY_CHUNK);
}

// Whether another root was seen just before; it is noted otherwise.
static bool confirmed(struct al_plan *plan, const struct chain *c) {
    uint64_t code = c->frames[c->count - 1].code;
    bool twice = plan->maybe == c->last && plan->maybe_code == code;
    plan->maybe = twice ? 0 : c->last;
    plan->maybe_code = code;
    if (twice) {
        plan->root = c->last;
        plan->root_code = code;
    }
    return twice;
}

static bool at_base(struct al_walk *w, const struct al_plan *plan, const struct chain *c) {
    uint64_t base;
    uint32_t at = w->layout->thread_base_frame;
    return at == AL_LAYOUT_NONE || c->truncated || !c->count || c->last == plan->root ||
           (al_memory_u64(w->memory, plan->thread + at, &base) && base == c->last);
}

static enum al_walk_status unstable(struct al_walk *w, const struct al_plan *plan, const struct chain *a,
                                    const struct chain *b) {
    bool all;
    // Cut at the depth, the two do not end at the same frame: nothing can be matched from the root on.
    bool whole = !a->truncated && !b->truncated && !a->damaged && !b->damaged && same_root(plan, a);
    uint32_t n = whole ? common(a, b, &all) : 0;
    if (n)
        memmove(w->frames, a->frames + (a->count - n), n * sizeof *w->frames);
    w->count = n;
    w->truncated = false;
    w->damaged = n == 0;
    return AL_WALK_UNSTABLE;
}

static enum al_walk_status compare(struct al_walk *w, const struct al_plan *plan, const struct chain *a,
                                   const struct chain *b) {
    bool all = a->twin;
    if (!all)
        (void)common(a, b, &all);
    if (!all || a->truncated != b->truncated || a->last != b->last || a->damaged || b->damaged || !is_rooted(a) ||
        !at_base(w, plan, a))
        return unstable(w, plan, a, b);
    w->count = a->count;
    w->truncated = a->truncated;
    w->damaged = false;
    return a->count ? AL_WALK_OK : AL_WALK_EMPTY;
}

// Whether the chain that both copies tell is one that can be believed.
static enum al_walk_status believe(struct al_walk *w, struct al_plan *plan, const struct chain *a, const struct chain *b,
                                   enum al_walk_status status, bool last, bool *again) {
    if (same_root(plan, a)) // after a doubt: what was to be seen then is not known
        return plan->maybe ? AL_WALK_UNSTABLE : status;
    if (confirmed(plan, a))
        return status;
    // Once more: the thread began, or entered Python anew, or this was no root.
    *again = !last;
    return last ? unstable(w, plan, a, b) : status;
}

// The plan's two copies, and what is watched; those that were read ahead are used once.
static struct al_copies copies_of(struct al_walk *w, struct al_plan *plan) {
    struct al_copies c = w->ahead;
    w->ahead.first = NULL;
    w->watched = NULL;
    if (!c.first) {
        if (!al_plan_read(plan, w))
            return c;
        c = (struct al_copies){w->buffer, w->buffer + plan->total + AL_PLAN_EXTRA, w->watch};
    }
    if (w->watch && w->watch == c.watch) {
        w->watched = c.first + plan->total;
        w->watched_same = memcmp(w->watched, c.second + plan->total, w->watch_size) == 0;
    }
    return c;
}

// One reading and what its first copy says; *again: something was missing and is known now.
static enum al_walk_status read_once(struct al_walk *w, struct al_plan *plan, bool last, bool *again) {
    struct chain a = {.frames = w->frames}, b = {.frames = w->second};
    const struct al_copies copies = copies_of(w, plan), other = {copies.first ? copies.second : NULL, NULL, 0};
    al_plan_begin(plan);
    *again = false;
    if (!walk_copy(w, plan, &copies, last, &a))
        return AL_WALK_UNREADABLE;
    if (a.full && plan->cap < AL_SPANS_MOST)
        return AL_WALK_MORE;
    if (a.missed && !last) {
        *again = true;
        return AL_WALK_OK;
    }
    if (a.twin && !a.damaged) // walked together: each frame of the second copy was looked at
        b = a;
    else if (!walk_copy(w, plan, &other, true, &b))
        return AL_WALK_UNREADABLE;
    al_plan_end(plan);
    // What had to be read piece by piece in the end is no copy of one moment.
    if (a.missed || b.missed)
        return unstable(w, plan, &a, &b);
    enum al_walk_status status = compare(w, plan, &a, &b);
    return status == AL_WALK_OK ? believe(w, plan, &a, &b, status, last, again) : status;
}

enum al_walk_status al_walk_thread(struct al_walk *w, struct al_plan *plan, uint64_t thread) {
    enum al_walk_status status;
    bool again = true;
    w->reads = 0;
    w->count = 0;
    w->truncated = w->damaged = false;
    w->watched = NULL;
    w->watched_same = false;
    plan->thread = thread;
    plan->maybe = 0;
    for (unsigned round = 0; again; round++)
        status = read_once(w, plan, round + 1 == AL_WALK_ROUNDS, &again);
    return status;
}
