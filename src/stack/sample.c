// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "stack/parts.h"

#define NAME_RETRY_NS (2 * AL_NS_PER_S) // at most; at first after
#define NAME_FIRST_NS (5 * AL_NS_PER_MS)
#define NAME_SETTLED_NS (40 * AL_NS_PER_MS)
// Samples in a row without a change of the scheduler's figures until a sleeping thread is not read again.
#define QUIET_LEAST 1u

static bool more_frames(struct al_slot *slot, uint32_t count) {
    if (count <= slot->cap)
        return true;
    struct al_stack_frame *more = realloc(slot->frames, (count + 16) * sizeof *more);
    if (more)
        slot->frames = more;
    struct al_raw_frame *raw = more ? realloc(slot->raw, (count + 16) * sizeof *raw) : NULL;
    if (!raw)
        return false;
    slot->raw = raw;
    slot->cap = count + 16;
    return true;
}

void al_frame_fill(struct al_stack *s, const struct al_raw_frame *raw, struct al_code *code, struct al_stack_frame *f) {
    struct al_position p = {0, 0, -1, -1};
    bool placed = code->lines && al_codes_position(&s->codes, code, raw->instr, raw->tlbc, &p);
    *f = (struct al_stack_frame){
        .address = raw->address,
        .instr = raw->instr,
        .code = code->id,
        .line = p.line,
        .end_line = p.end_line,
        .column = p.column,
        .end_column = p.end_column,
        .kind = AL_STACK_PYTHON,
        .entry = raw->entry,
        .degraded = code->incomplete || code->id == AL_STACK_NO_CODE || (!placed && !code->lines),
    };
}

// From the root on, how many frames stand as they stood at the last walk, and need no new look at their code.
static uint32_t unmoved(const struct al_stack *s, const struct al_slot *slot, int64_t now) {
    const struct al_walk *w = &s->walk;
    uint32_t n = 0, least = slot->raw_count < w->count ? slot->raw_count : w->count;
    uint64_t generation = s->codes.generation;
    if (al_codes_strict(&s->codes, now) || (generation ? generation != slot->raw_generation : now > slot->raw_due_ns))
        return 0;
    for (; n < least; n++) {
        const struct al_raw_frame *a = &w->frames[w->count - 1 - n], *b = &slot->raw[slot->raw_count - 1 - n];
        if (a->address != b->address || a->instr != b->instr || a->code != b->code || a->tlbc != b->tlbc ||
            a->entry != b->entry)
            break;
    }
    return n;
}

// The walk's addresses become functions and lines.
static int resolve(struct al_stack *s, struct al_slot *slot, int64_t now, bool check) {
    const struct al_walk *w = &s->walk;
    uint32_t kept = unmoved(s, slot, now), fresh = w->count - kept, bad = 0;
    int64_t due = kept ? slot->raw_due_ns : INT64_MAX;
    uint32_t from = slot->raw_count - kept;
    slot->count = slot->raw_count = 0;
    if (!more_frames(slot, w->count))
        return AL_E_NOMEM;
    if (kept)
        memmove(&slot->frames[fresh], &slot->frames[from], kept * sizeof *slot->frames);
    if (check)
        al_codes_check(&s->codes, w->frames, fresh, now, false);
    for (uint32_t i = 0; i < fresh; i++) {
        struct al_code *code = al_codes_get(&s->codes, w->frames[i].code, now);
        if (!code)
            return AL_E_NOMEM;
        if (code->not_code) { // not a Python frame
            if (slot->count)
                slot->frames[slot->count - 1].entry = true;
            continue;
        }
        if (code->helper) {
            if (slot->count && w->frames[i].entry)
                slot->frames[slot->count - 1].entry = true;
            continue;
        }
        due = code->checked_ns + AL_CODES_CHECK_NS < due ? code->checked_ns + AL_CODES_CHECK_NS : due;
        al_frame_fill(s, &w->frames[i], code, &slot->frames[slot->count]);
        bad += slot->frames[slot->count++].degraded;
    }
    s->counts.degraded_frames += bad;
    if (slot->count < fresh) // some were left out
        memmove(&slot->frames[slot->count], &slot->frames[fresh], kept * sizeof *slot->frames);
    if (w->count)
        memcpy(slot->raw, w->frames, w->count * sizeof *slot->raw);
    // What could not be read is tried again; what is no code does not stand where its frame stood.
    if (!bad && slot->count == fresh) {
        slot->raw_count = w->count;
        slot->raw_due_ns = due;
        slot->raw_generation = s->codes.generation;
    }
    slot->count += kept;
    return 0;
}

static enum al_walk_status walk(struct al_stack *s, struct al_slot *slot) {
    enum al_walk_status status = al_walk_thread(&s->walk, &slot->plan, slot->tstate);
    while (status == AL_WALK_MORE) {
        uint32_t cap = slot->plan.cap * 2 < AL_SPANS_MOST ? slot->plan.cap * 2 : AL_SPANS_MOST;
        struct al_span *spans = realloc(slot->plan.spans, cap * sizeof *spans);
        if (!spans)
            return AL_WALK_MORE;
        slot->plan.spans = spans;
        slot->plan.cap = cap;
        status = al_walk_thread(&s->walk, &slot->plan, slot->tstate);
    }
    return status;
}

// From the root on, how many of these frames still stand with the code that they were resolved with.
static uint32_t standing(struct al_stack *s, const struct al_slot *slot, uint32_t count, int64_t now) {
    const struct al_walk *w = &s->walk;
    uint32_t serial = s->codes.serial, n = 0, most = al_walk_common(slot->raw, count, w->frames, w->count);
    al_codes_check(&s->codes, w->frames, w->count, now, true);
    while (n < most && al_codes_serial(&s->codes, slot->raw[count - 1 - n].code) <= serial)
        n++;
    return n;
}

// Where code is made anew, the address in a frame may have been another's by the time that its names were read: they hold
// for the frames that still stand then, with the same code.
static int confirm(struct al_stack *s, struct al_slot *slot, uint32_t count, int64_t now) {
    struct al_walk *w = &s->walk;
    enum al_walk_status status = walk(s, slot);
    if (status == AL_WALK_MORE)
        return AL_E_NOMEM;
    uint32_t n = status == AL_WALK_OK || status == AL_WALK_UNSTABLE ? standing(s, slot, count, now) : 0;
    if (n == count)
        return 0;
    memcpy(w->frames, slot->raw + (count - n), n * sizeof *w->frames);
    w->count = n;
    s->counts.ok -= slot->status == AL_STACK_OK;
    s->counts.unstable += slot->status == AL_STACK_OK;
    slot->status = AL_STACK_UNSTABLE;
    slot->raw_count = 0;
    return resolve(s, slot, now, false);
}

static int resolve_frames(struct al_stack *s, struct al_slot *slot, int64_t now) {
    uint32_t count = s->walk.count;
    bool strict = al_codes_strict(&s->codes, now);
    s->codes.fresh = false;
    int error = resolve(s, slot, now, true);
    if (error || !s->codes.fresh)
        return error;
    // Where something is new, nothing else of the stack is believed without a look.
    if (!strict)
        al_codes_check(&s->codes, s->walk.frames, count, now, true);
    if (!al_codes_strict(&s->codes, now))
        return 0;
    if (!strict)
        error = resolve(s, slot, now, false);
    return error ? error : confirm(s, slot, count, now);
}

// Nothing was common to both readings, not even the root: a generator hangs on nothing for a moment when it is entered or
// left. Another reading tells where the thread is about; its innermost frame, the likeliest to be a new one, is left out.
static void walk_once_more(struct al_stack *s, struct al_slot *slot) {
    struct al_walk *w = &s->walk;
    w->ahead = (struct al_copies){NULL, NULL, 0};
    enum al_walk_status status = al_walk_thread(w, &slot->plan, slot->tstate);
    if (status == AL_WALK_OK && w->count)
        memmove(w->frames, w->frames + 1, --w->count * sizeof *w->frames);
    else if (status != AL_WALK_UNSTABLE)
        w->count = 0;
}

int al_slot_walk(struct al_stack *s, struct al_slot *slot, int64_t now) {
    s->walk.ahead = slot->ahead_number == s->number ? slot->ahead : (struct al_copies){NULL, NULL, 0};
    slot->ahead_number = 0;
    enum al_walk_status status = walk(s, slot);
    if (status == AL_WALK_MORE)
        return AL_E_NOMEM;
    if (status == AL_WALK_UNSTABLE && !s->walk.count)
        walk_once_more(s, slot);
    slot->truncated = s->walk.truncated;
    slot->count = 0;
    int error = 0;
    switch (status) {
    case AL_WALK_OK:
        slot->status = AL_STACK_OK;
        s->counts.ok++;
        error = resolve_frames(s, slot, now);
        if (!slot->count && slot->status == AL_STACK_OK)
            slot->status = AL_STACK_EMPTY;
        break;
    case AL_WALK_EMPTY:
        slot->status = AL_STACK_EMPTY;
        s->counts.ok++;
        break;
    case AL_WALK_UNSTABLE:
        slot->status = AL_STACK_UNSTABLE;
        s->counts.unstable++;
        error = resolve_frames(s, slot, now);
        break;
    default: slot->status = AL_STACK_UNREADABLE; s->counts.unreadable++;
    }
    s->counts.truncated += slot->truncated;
    return error;
}

const struct al_interp *al_interp_of(const struct al_stack *s, uint64_t address) {
    for (size_t i = 0; i < s->interps_count; i++)
        if (s->interps[i].address == address)
            return &s->interps[i];
    return &s->interps[0];
}

// Who holds the GIL is known from before the walk; that it did all along, from words read along with the stack.
void al_gil_watch(struct al_stack *s, const struct al_interp *interp, bool holds) {
    const struct al_layout *l = &s->found.layout;
    s->walk.watch = 0;
    s->walk.watch_size = 0;
    if (!holds || !interp->gil)
        return;
    bool one = l->runtime_current != AL_LAYOUT_NONE;
    s->walk.watch = one ? s->found.runtime + l->runtime_current : interp->gil + l->gil_holder;
    s->walk.watch_size = one ? 8 : l->gil_locked + 4 - l->gil_holder;
}

bool al_gil_held(const struct al_stack *s, uint64_t tstate) {
    const struct al_walk *w = &s->walk;
    if (!w->watch || !w->watched || !w->watched_same || al_u64(w->watched) != tstate)
        return false;
    return s->found.layout.runtime_current != AL_LAYOUT_NONE || (int32_t)al_u32(w->watched + w->watch_size - 4) == 1;
}

static void name_thread(struct al_stack *s, struct al_slot *slot, int64_t now) {
    if (slot->named || now < slot->name_retry_ns)
        return;
    if (al_name_of(s, slot)) {
        slot->named = true;
        return;
    }
    s->counts.names_failed++;
    // A failed look-up is not repeated at each sample. A thread that just began is given its name soon, and may still have
    // the system's name of the one that made it.
    int64_t wait = slot->first_seen == 1 ? NAME_RETRY_NS : slot->name_wait_ns ? 2 * slot->name_wait_ns : NAME_FIRST_NS;
    slot->name_wait_ns = wait < NAME_RETRY_NS ? wait : NAME_RETRY_NS;
    slot->name_retry_ns = now + slot->name_wait_ns;
    if (slot->name_wait_ns >= NAME_SETTLED_NS)
        al_task_name(s, slot);
}

static uint8_t tristate(bool yes) {
    return yes ? AL_STACK_YES : AL_STACK_NO;
}

static void fill_state(struct al_stack *s, struct al_slot *slot, const struct al_tstate *t,
                       const struct al_interp *interp, struct al_stack_thread *out) {
    bool direct = s->found.layout.thread_wants_gil != AL_LAYOUT_NONE && !s->found.layout.free_threaded;
    al_task_look(s, slot, direct ? 0 : interp->gil);
    out->idle = slot->task.idle;
    out->waits_gil = direct ? tristate(t->wants != 0) : slot->task.waits_gil;
    out->cpu_ns = slot->task.known ? slot->task.run_ns : 0;
    if (out->holds_gil == AL_STACK_YES)
        out->waits_gil = AL_STACK_NO;
}

// *twice: a list that changes while it is read may lead to the same thread again, which is left out.
static int sample_thread(struct al_stack *s, const struct al_tstate *t, unsigned what, int64_t now,
                         struct al_stack_thread *out, bool *twice) {
    const struct al_interp *interp = al_interp_of(s, t->interp);
    struct al_slot *slot = al_slot_get(s, t);
    if (!slot)
        return AL_E_NOMEM;
    *twice = slot->seen == s->number;
    if (*twice)
        return 0;
    slot->seen = s->number;
    if (!slot->first_seen)
        slot->first_seen = s->number;
    if (!slot->tid)
        slot->tid = al_tid_of(s, t);
    bool holds = !s->found.layout.free_threaded && interp->holder == t->address;
    *out = (struct al_stack_thread){.id = t->id, .tstate = t->address, .tid = slot->tid, .interp = interp->id};
    out->holds_gil = s->found.layout.free_threaded ? AL_STACK_UNKNOWN : tristate(holds);
    out->main = slot->tid == s->pid;
    out->status = AL_STACK_LEFT_OUT;
    if ((what & AL_STACK_MAIN_ONLY) && !out->main)
        return 0;
    if (what & AL_STACK_STATE)
        fill_state(s, slot, t, interp, out);
    if (what & AL_STACK_NAMES) {
        name_thread(s, slot, now);
        memcpy(out->name, slot->name, sizeof out->name);
    }
    bool wanted = !(what & AL_STACK_GIL_ONLY) || holds;
    if ((what & AL_STACK_BUSY_ONLY) && out->idle == AL_STACK_YES && out->waits_gil != AL_STACK_YES && !holds)
        wanted = false;
    if (!wanted)
        return 0;
    s->counts.threads++;
    if ((what & AL_STACK_STATE) && slot->walked && slot->task.quiet >= QUIET_LEAST) {
        s->counts.unchanged++;
    } else {
        al_gil_watch(s, interp, holds);
        if ((what & AL_STACK_STATE) && out->idle != AL_STACK_NO)
            slot->ahead_number = 0; // of one that sleeps: as it stands since it was seen to
        else
            al_ahead_note(s, slot);
        int error = al_slot_walk(s, slot, now);
        if (error)
            return error;
        if (holds && !al_gil_held(s, t->address))
            out->holds_gil = AL_STACK_UNKNOWN;
        // Seen asleep before the walk, with figures that the next look will compare.
        slot->walked = (what & AL_STACK_STATE) && slot->task.off_cpu &&
                       (slot->status == AL_STACK_OK || slot->status == AL_STACK_EMPTY);
    }
    out->status = slot->status;
    out->truncated = slot->truncated;
    out->frames = slot->frames;
    out->count = slot->count;
    return 0;
}

// Why the list of threads could not be read.
static int diagnose(struct al_stack *s, int error) {
    uint64_t start = al_start_time(s->procfs, s->pid);
    if (s->remote.error == ESRCH || !start || start != s->start_time)
        return AL_E_GONE;
    if (error == AL_E_NOMEM || error == AL_E_DENIED)
        return error;
    // exec leaves the pid and the time of its start, but not the mappings.
    struct al_areas areas;
    int failed = al_areas_read(&areas, s->procfs, s->pid);
    if (failed)
        return failed;
    const char *path = "";
    for (size_t i = 0; i < areas.count; i++) {
        const struct al_area *a = &areas.list[i];
        if (a->path)
            path = al_area_path(&areas, a);
        if (s->found.runtime >= a->start && s->found.runtime < a->end)
            break;
        if (i + 1 == areas.count)
            path = "";
    }
    bool same = strcmp(path, s->found.object) == 0;
    al_areas_free(&areas);
    return same ? AL_E_FORMAT : AL_E_AGAIN;
}

static int room_for(struct al_stack *s, size_t count) {
    if (count <= s->threads_cap)
        return 0;
    struct al_stack_thread *more = realloc(s->threads, 2 * count * sizeof *more);
    if (!more)
        return AL_E_NOMEM;
    s->threads = more;
    s->threads_cap = 2 * count;
    return 0;
}

static int sample_threads(struct al_stack *s, unsigned what) {
    size_t kept = 0;
    for (size_t i = 0; i < s->tstates_count; i++) {
        bool twice;
        int error = sample_thread(s, &s->tstates[i], what, s->sample.at_ns, &s->threads[kept], &twice);
        if (error)
            return error;
        if (!twice)
            s->tstates[kept++] = s->tstates[i];
    }
    s->tstates_count = kept;
    return 0;
}

int al_stack_sample(struct al_stack *s, unsigned what, const struct al_stack_sample **ret) {
    if (what & AL_STACK_BUSY_ONLY)
        what |= AL_STACK_STATE;
    s->remote.error = 0;
    s->remote.spent = 0;
    s->number++;
    s->sample = (struct al_stack_sample){.at_ns = al_monotonic_ns()};
    *ret = &s->sample;
    int error = al_threads_list(s);
    if (error)
        return diagnose(s, error);
    error = room_for(s, s->tstates_count);
    if (error)
        return error;
    // While the interpreters' counts of freed code objects stand still, no address has got another meaning.
    s->codes.generation = s->generation_known ? s->generation : 0;
    s->ahead_count = 0;
    error = sample_threads(s, what);
    if (error)
        return error;
    if (s->remote.error == ESRCH || s->remote.error == EPERM)
        return diagnose(s, al_remote_error(&s->remote));
    s->sample.threads = s->threads;
    s->sample.count = s->tstates_count;
    s->counts.samples++;
    al_slots_drop_old(s);
    return 0;
}

const struct al_stack_code *al_stack_code(const struct al_stack *s, uint32_t code) {
    return code < s->codes.names.count ? &s->codes.names.codes[code] : NULL;
}

void al_stack_get_counts(const struct al_stack *s, struct al_stack_counts *ret) {
    *ret = s->counts;
    ret->codes = s->codes.names.count;
    ret->reads = s->remote.reads;
}
