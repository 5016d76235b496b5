// SPDX-License-Identifier: Apache-2.0
#include "unwind/native.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "unwind/merge.h"

#define TRIES 20                        // AWAIT: until both readings fit
#define AWAIT_NS (50 * AL_NS_PER_MS)    // for a picture of a running thread
#define STACK_BLOCKING AL_CAPTURE_STACK_MOST // a stopped thread is let go before it is unwound
#define PIN_NEAR 64u    // bytes of bytecode: the next instruction and its caches
#define PIN_FROM 0x030b0000u

struct merged {
    struct al_stack_frame *frames;
    uint32_t count, cap;
    uint8_t native, status, holds_gil;
    bool truncated;
    uint64_t python; // the Python frames that it was made of, in short
    bool kept; // of now: made while it slept, with this CPU time; of the picture: not taken yet
};

struct slot { // of a thread
    pid_t tid;
    uint64_t tstate, cpu_ns;
    struct merged now, picture;
};

struct symbol { // what is known of a number of the unwinder's
    uint32_t code;
    uint8_t kind; // enum al_merge_kind + 1; 0 not known yet
};

struct al_native {
    pid_t pid;
    struct al_stack *stack;
    struct al_stack_info info;
    char *object; // of the interpreter
    bool all;
    unsigned ways;
    struct al_capture *capture;
    struct al_unwind *unwind;
    struct slot *slots;
    uint32_t slot_count, slot_cap;
    struct symbol *symbols;
    uint32_t symbol_cap;
    uint8_t *kinds;
    int32_t *order;
    uint32_t order_cap;
    struct al_native_counts counts;
};

static void drop_slot(struct al_native *n, uint32_t i) {
    free(n->slots[i].now.frames);
    free(n->slots[i].picture.frames);
    n->slots[i] = n->slots[--n->slot_count];
}

void al_native_free(struct al_native *n) {
    if (!n)
        return;
    while (n->slot_count)
        drop_slot(n, n->slot_count - 1);
    al_capture_free(n->capture);
    al_unwind_free(n->unwind);
    free(n->slots);
    free(n->symbols);
    free(n->kinds);
    free(n->order);
    free(n->object);
    free(n);
}

int al_native_open(pid_t pid, struct al_stack *stack, const struct al_native_settings *settings, struct al_native **ret,
                   struct al_unwind_error *error) {
    struct al_capture_settings capture = {
        .ways = settings->blocking ? AL_CAPTURE_BLOCKING : AL_CAPTURE_PERF | AL_CAPTURE_WAITING,
        .rate = settings->rate,
        .stack_size = settings->blocking ? STACK_BLOCKING : 0,
        .procfs = settings->procfs,
    };
    struct al_unwind_error other;
    *ret = NULL;
    struct al_native *n = calloc(1, sizeof *n);
    if (!n)
        return AL_E_NOMEM;
    n->pid = pid;
    n->stack = stack;
    n->all = settings->all;
    al_stack_get_info(stack, &n->info);
    n->object = strdup(n->info.object ? n->info.object : "");
    int result = n->object ? al_capture_open(pid, &capture, &n->capture, &n->ways, error) : AL_E_NOMEM;
    if (!result && !settings->python && (result = al_unwind_open(pid, settings->procfs, &n->unwind, &other)) != 0)
        *error = other;
    if (result) {
        al_native_free(n);
        return result;
    }
    if (n->unwind)
        al_unwind_set_interpreter(n->unwind, n->object);
    *ret = n;
    return 0;
}

static void drop_ended(struct al_native *n, const struct al_stack_sample *sample) {
    for (uint32_t i = n->slot_count; i-- > 0;) {
        size_t k = 0;
        while (k < sample->count && sample->threads[k].tid != n->slots[i].tid)
            k++;
        if (k == sample->count)
            drop_slot(n, i);
    }
}

static struct slot *slot_of(struct al_native *n, const struct al_stack_sample *sample, const struct al_stack_thread *t, size_t hint) {
    if (hint < n->slot_count && n->slots[hint].tid == t->tid && n->slots[hint].tstate == t->tstate)
        return &n->slots[hint];
    for (uint32_t i = 0; i < n->slot_count; i++)
        if (n->slots[i].tid == t->tid) {
            if (n->slots[i].tstate != t->tstate)
                n->slots[i].now.kept = n->slots[i].picture.kept = false;
            n->slots[i].tstate = t->tstate;
            return &n->slots[i];
        }
    if (n->slot_count >= 2 * sample->count + 16)
        drop_ended(n, sample);
    if (n->slot_count == n->slot_cap) {
        struct slot *more = realloc(n->slots, (n->slot_cap * 2 + 16) * sizeof *more);
        if (!more)
            return NULL;
        n->slots = more;
        n->slot_cap = n->slot_cap * 2 + 16;
    }
    n->slots[n->slot_count] = (struct slot){.tid = t->tid, .tstate = t->tstate};
    return &n->slots[n->slot_count++];
}

// What the merge makes of a native function, and its number among the codes.
static struct symbol *symbol_of(struct al_native *n, uint32_t number) {
    if (number >= n->symbol_cap) {
        uint32_t cap = number + number / 2 + 256;
        struct symbol *more = realloc(n->symbols, cap * sizeof *more);
        if (!more)
            return NULL;
        memset(more + n->symbol_cap, 0, (cap - n->symbol_cap) * sizeof *more);
        n->symbols = more;
        n->symbol_cap = cap;
    }
    struct symbol *s = &n->symbols[number];
    if (s->kind)
        return s;
    const struct al_unwind_symbol *u = al_unwind_symbol(n->unwind, number);
    const char *name = u ? u->name : "?", *object = u ? u->object : "";
    bool own = strcmp(object, n->object) == 0 || (!*object && al_str_starts(name, "py::")); // python -X perf: one a Python frame
    bool hidden = al_merge_is_start(name) || (own && al_merge_is_plumbing(name));
    s->code = al_stack_native_code(n->stack, object, name);
    s->kind = (uint8_t)((hidden && !n->all ? AL_MERGE_HIDDEN : AL_MERGE_SHOWN) + 1);
    if (s->code == AL_STACK_NO_CODE)
        s->kind = 0;
    return s->code == AL_STACK_NO_CODE ? NULL : s;
}

static bool is_libc(const char *object) {
    const char *base = strrchr(object, '/');
    base = base ? base + 1 : object;
    return al_str_starts(base, "libc.so") || al_str_starts(base, "libc-") || al_str_starts(base, "libpthread") ||
           al_str_starts(base, "ld-") || al_str_starts(base, "libc.musl");
}

// Further out than all Python, the C library starts the program or the thread; its functions often have no names.
static void hide_start(struct al_native *n, const struct al_unwind_stack *u) {
    for (uint32_t i = u->count; i-- > 0 && n->kinds[i] < AL_MERGE_LOOP && !n->all;) {
        const struct al_unwind_symbol *s = al_unwind_symbol(n->unwind, u->frames[i].symbol);
        if (s && is_libc(s->object))
            n->kinds[i] = AL_MERGE_HIDDEN;
    }
}

static int kinds_of(struct al_native *n, const struct al_unwind_stack *u, uint32_t python) {
    uint32_t cap = u->count + python;
    if (cap > n->order_cap) {
        uint8_t *kinds = realloc(n->kinds, cap);
        if (!kinds)
            return AL_E_NOMEM;
        n->kinds = kinds;
        int32_t *order = realloc(n->order, cap * sizeof *order);
        if (!order)
            return AL_E_NOMEM;
        n->order = order;
        n->order_cap = cap;
    }
    for (uint32_t i = 0; i < u->count; i++) {
        const struct symbol *s = symbol_of(n, u->frames[i].symbol);
        if (!s)
            return AL_E_NOMEM;
        n->kinds[i] = (uint8_t)(s->kind - 1);
        if (u->frames[i].kind != AL_UNWIND_INTERPRETER)
            continue;
        const struct al_unwind_symbol *name = al_unwind_symbol(n->unwind, u->frames[i].symbol);
        n->kinds[i] = name && al_str_starts(name->name, "_TAIL_CALL_") ? AL_MERGE_LOOP_PART : AL_MERGE_LOOP;
    }
    hide_start(n, u);
    return 0;
}

static int fill(struct al_native *n, struct merged *out, const struct al_unwind_stack *u, const struct al_stack_thread *t,
                uint32_t count) {
    if (count > out->cap) {
        struct al_stack_frame *more = realloc(out->frames, (count + 32) * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        out->frames = more;
        out->cap = count + 32;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (n->order[i] >= 0) {
            out->frames[i] = t->frames[n->order[i]];
            continue;
        }
        const struct al_unwind_frame *f = &u->frames[-1 - n->order[i]];
        out->frames[i] = (struct al_stack_frame){.address = f->address,
                                                  .code = n->symbols[f->symbol].code,
                                                  .column = -1,
                                                  .end_column = -1,
                                                  .kind = AL_STACK_NATIVE,
                                                  .guessed = f->guessed};
    }
    out->count = count;
    return 0;
}

// Across its calls the loop keeps the address of the next bytecode (before 3.11, where that is not known here, of its frame),
// so that it lies in a register or on the stack: a picture without it was made elsewhere in the program than Python was read at.
static bool pinned(const struct al_native *n, const struct al_unwind_input *in, const struct al_stack_frame *f) {
    uint64_t from = n->info.version >= PIN_FROM ? f->instr : f->address, near = n->info.version >= PIN_FROM ? PIN_NEAR : 0;
    for (unsigned i = 0; i < AL_UNWIND_REGS; i++)
        if ((in->known >> i & 1) && in->regs[i] - from <= near)
            return true;
    for (size_t i = 0; i + 8 <= in->size; i += 8) {
        uint64_t word;
        memcpy(&word, in->stack + i, 8);
        if (word - from <= near)
            return true;
    }
    return false;
}

static int merge(struct al_native *n, struct merged *out, const struct al_unwind_input *in, struct al_stack_thread *t) {
    struct al_unwind_stack u;
    enum al_stack_native how;
    int result = al_unwind_thread(n->unwind, in, &u);
    result = result ? result : kinds_of(n, &u, t->count);
    if (result)
        return result;
    struct al_merge_input input = {t->frames, t->count, t->truncated, n->kinds, u.count, u.status};
    uint32_t count = al_merge(&input, n->order, &how);
    result = fill(n, out, &u, t, count);
    out->native = (uint8_t)how;
    out->status = t->status;
    out->holds_gil = t->holds_gil;
    out->truncated = t->truncated;
    return result;
}

// Whether the copy of the stack ends before the loop that runs Python: large buffers of C's lie between.
static bool ends_before_python(struct al_native *n, const struct al_unwind_input *in) {
    struct al_unwind_stack u;
    if (al_unwind_thread(n->unwind, in, &u) != 0 || u.status != AL_UNWIND_CUT || u.count == AL_UNWIND_DEPTH_MOST)
        return false;
    for (uint32_t i = 0; i + 1 < u.count; i++)
        if (u.frames[i].kind == AL_UNWIND_INTERPRETER)
            return false;
    return true;
}

static int picture(struct al_native *n, pid_t tid, enum al_native_when when, struct al_unwind_input *in,
                   enum al_capture_status *status) {
    int64_t age, until = al_monotonic_ns() + AWAIT_NS;
    unsigned ways = when == AL_NATIVE_PICTURE ? AL_CAPTURE_PERF : when == AL_NATIVE_NOW ? n->ways & ~(unsigned)AL_CAPTURE_PERF : n->ways;
    int result = al_capture_thread(n->capture, tid, ways, in, status, &age);
    while (!result && *status == AL_CAPTURE_NOTHING && when == AL_NATIVE_AWAIT && (n->ways & AL_CAPTURE_PERF) &&
           al_monotonic_ns() < until) {
        (void)al_capture_wait(n->capture, al_monotonic_ns() + 2 * AL_NS_PER_MS);
        result = al_capture_thread(n->capture, tid, ways, in, status, &age); // it may have fallen asleep
    }
    return result;
}

// One try. out->native tells how it came out.
static int take(struct al_native *n, size_t i, enum al_native_when when, struct merged *out, struct al_stack_thread *t) {
    struct al_unwind_input in;
    enum al_capture_status status;
    out->native = AL_STACK_NATIVE_ABSENT;
    out->kept = false;
    int result = picture(n, t->tid, when, &in, &status);
    if (!result && status != AL_CAPTURE_NOTHING)
        result = al_stack_again(n->stack, i, t);
    if (status == AL_CAPTURE_STOPPED) {
        (void)al_capture_release(n->capture); // unwinding reads files at the first time: the thread need not stand for it
        in.stopped = false;
    }
    if (result || status == AL_CAPTURE_NOTHING)
        return result;
    out->native = n->unwind ? AL_STACK_NATIVE_UNFIT : AL_STACK_NATIVE_NONE;
    if (t->status != AL_STACK_OK || !t->count || !n->unwind)
        return 0;
    bool fits = pinned(n, &in, &t->frames[0]);
    n->counts.pinned += fits;
    n->counts.unpinned += !fits;
    if (!fits && status == AL_CAPTURE_RUNNING) {
        if (al_capture_may_deepen(n->capture, t->tid) && ends_before_python(n, &in))
            al_capture_deepen(n->capture, t->tid);
        return 0;
    }
    result = merge(n, out, &in, t);
    if (result || status != AL_CAPTURE_ASLEEP)
        return result;
    if (!al_capture_stands(n->capture))
        out->native = AL_STACK_NATIVE_UNFIT;
    out->kept = out->native == AL_STACK_NATIVE_MERGED || out->native == AL_STACK_NATIVE_PART;
    return 0;
}

static void count(struct al_native *n, uint8_t native) {
    n->counts.merged += native == AL_STACK_NATIVE_MERGED;
    n->counts.part += native == AL_STACK_NATIVE_PART;
    n->counts.absent += native == AL_STACK_NATIVE_ABSENT;
    n->counts.unfit += native == AL_STACK_NATIVE_UNFIT;
}

static uint64_t in_short(const struct al_stack_thread *t) {
    uint64_t h = t->count;
    for (uint32_t i = 0; i < t->count; i++) {
        h = (h ^ t->frames[i].address) * 0x9e3779b97f4a7c15ULL;
        h = (h ^ t->frames[i].instr ^ (uint64_t)t->frames[i].code << 32) * 0x9e3779b97f4a7c15ULL;
        h ^= h >> 29;
    }
    return h;
}

static bool is_merged(const struct merged *m) {
    return m->native == AL_STACK_NATIVE_MERGED || m->native == AL_STACK_NATIVE_PART;
}

static void give(const struct merged *m, struct al_stack_thread *ret) {
    ret->native = m->native;
    if (!is_merged(m))
        return;
    ret->status = m->status;
    ret->truncated = m->truncated;
    ret->frames = m->frames;
    ret->count = m->count;
}

static bool can_be(const struct al_stack_thread *t, enum al_native_when when) {
    return t->tid && t->status != AL_STACK_EMPTY && (t->status != AL_STACK_LEFT_OUT || when == AL_NATIVE_PICTURE);
}

int al_native_thread(struct al_native *n, const struct al_stack_sample *sample, size_t i, enum al_native_when when,
                     struct al_stack_thread *ret) {
    *ret = sample->threads[i];
    if (!can_be(ret, when)) {
        if (when == AL_NATIVE_PICTURE)
            al_native_pass(n, ret->tid);
        return 0;
    }
    struct slot *slot = slot_of(n, sample, ret, i);
    if (!slot)
        return AL_E_NOMEM;
    struct merged *m = when == AL_NATIVE_PICTURE ? &slot->picture : &slot->now;
    bool sleeps = ret->idle == AL_STACK_YES && ret->cpu_ns && when != AL_NATIVE_PICTURE;
    bool same = sleeps && m->kept && slot->cpu_ns == ret->cpu_ns; // it has not run since
    int result = 0;
    for (int tries = same ? 0 : when == AL_NATIVE_AWAIT ? TRIES : 1; tries > 0 && !result; tries--) {
        result = take(n, i, when, m, ret);
        if (is_merged(m) || m->native == AL_STACK_NATIVE_NONE)
            break;
    }
    if (when == AL_NATIVE_PICTURE) {
        m->kept = !result && is_merged(m);
        m->python = m->kept ? in_short(ret) : 0;
    } else {
        m->kept &= sleeps;
        slot->cpu_ns = ret->cpu_ns;
        n->counts.kept += same;
        count(n, m->native);
    }
    if (!result)
        give(m, ret);
    return result;
}

bool al_native_pending(struct al_native *n, const struct al_stack_sample *sample, size_t i, bool gil, struct al_stack_thread *ret) {
    *ret = sample->threads[i];
    struct slot *slot = can_be(ret, AL_NATIVE_PICTURE) ? slot_of(n, sample, ret, i) : NULL;
    if (!slot)
        return false;
    struct merged *m = &slot->picture;
    // One that was taken before stands while Python is in the very same call: the thread waits for a processor, or for the next
    // picture's time.
    bool good = is_merged(m) && (m->kept || m->python == in_short(ret)) && (!gil || m->holds_gil == AL_STACK_YES);
    ret->native = m->native == AL_STACK_NATIVE_UNFIT ? AL_STACK_NATIVE_UNFIT : AL_STACK_NATIVE_ABSENT;
    if (good)
        give(m, ret);
    n->counts.kept += good && !m->kept;
    count(n, ret->native);
    m->kept = false;
    return good;
}

pid_t al_native_wait(struct al_native *n, int64_t until_ns) {
    return n->ways & AL_CAPTURE_PERF ? al_capture_wait(n->capture, until_ns) : 0;
}

bool al_native_has_clock(const struct al_native *n, pid_t tid) {
    return al_capture_has_clock(n->capture, tid);
}

int al_native_fd(const struct al_native *n) {
    return n->ways & AL_CAPTURE_PERF ? al_capture_fd(n->capture) : -1;
}

void al_native_watch(struct al_native *n, pid_t tid) {
    if (!al_capture_has_clock(n->capture, tid))
        al_native_pass(n, tid);
}

void al_native_pass(struct al_native *n, pid_t tid) {
    struct al_unwind_input in;
    enum al_capture_status status;
    int64_t age;
    (void)al_capture_thread(n->capture, tid, AL_CAPTURE_PERF, &in, &status, &age);
}

bool al_native_release(struct al_native *n) {
    return al_capture_release(n->capture);
}

void al_native_get_counts(const struct al_native *n, struct al_native_counts *ret) {
    *ret = n->counts;
    al_capture_get_counts(n->capture, &ret->capture);
    if (n->unwind)
        al_unwind_get_counts(n->unwind, &ret->unwind);
}
