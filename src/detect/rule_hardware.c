// SPDX-License-Identifier: Apache-2.0
// Hardware errors. One fault shows in several places (a double-bit error counts in ECC, raises Xid 48, then 45 and 154):
// all events of a GPU that come together are one finding, named by the gravest; faults of programs are apart, since they
// are no fault of the GPU. Counts from before alula are no events. States that wait for a reset or for service are a
// finding of their own, for as long as they last.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "detect/rule.h"
#include "detect/say.h"
#include "detect/xid.h"
#include "series/rate.h"
#include "series/window.h"

enum { ECC_UNC, ROWS_UNC, ROWS_COR, PAGES_DBE, COUNTERS };

static const struct {
    enum al_gpu_metric metric;
    enum al_level level;
    const char *what; // "3 …"
    const char *action;
} counters[COUNTERS] = {
    {AL_GPU_ECC_UNC_VOL_TOTAL, AL_LEVEL_CRITICAL, "uncorrectable ECC errors",
     "Restart the affected job; drain and reset the GPU so that the bad row is remapped."},
    {AL_GPU_REMAP_UNC, AL_LEVEL_WARNING, "memory rows to be remapped after uncorrectable errors",
     "Drain and reset the GPU at the next occasion: the remapping takes effect then."},
    {AL_GPU_REMAP_COR, AL_LEVEL_INFO, "memory rows to be remapped after correctable errors",
     "No hurry: it takes effect at the next reset."},
    {AL_GPU_RETIRED_DBE, AL_LEVEL_WARNING, "memory pages retired after double-bit errors",
     "Reset the GPU at the next occasion: the pages leave use then."},
};

struct seen_xid {
    uint32_t code;
    uint32_t before; // count that is no event, or belongs to an earlier finding
    uint32_t count;
    int64_t last_ns;
};

// What belongs together. An Xid that only follows goes with the hardware's events, or with a program's when only such
// are there.
enum group { HARDWARE, APPLICATION };

struct state {
    bool started;
    struct al_rate rate[COUNTERS];
    double rise[COUNTERS]; // in this episode
    int64_t rise_ns;       // of the last one
    struct seen_xid xid[AL_XID_CODES];
    uint32_t xid_count;
    struct al_window corrected; // in the track that judges it
};

static void done(void *state)
{
    al_window_done(&((struct state *)state)->corrected);
}

// ---- events ----

static struct seen_xid *xid_of(struct state *m, uint32_t code)
{
    for (uint32_t i = 0; i < m->xid_count; i++)
        if (m->xid[i].code == code)
            return &m->xid[i];
    if (m->xid_count == AL_XID_CODES)
        return NULL;
    m->xid[m->xid_count] = (struct seen_xid){.code = code};
    return &m->xid[m->xid_count++];
}

static void take_xids(struct state *m, const struct al_gpu *gpu, const struct al_snapshot *s)
{
    for (uint32_t i = 0; i < gpu->xid_count && i < AL_XID_CODES; i++) {
        const struct al_xid *x = &gpu->xid[i];
        struct seen_xid *seen = xid_of(m, x->code);
        if (!seen)
            continue;
        bool now = x->last_ns > s->monotonic_ns - s->interval_ns;
        if (!m->started)
            seen->before = seen->count = x->count - (now && x->count ? 1 : 0);
        if (x->count < seen->count) // the count started anew
            seen->before = seen->count = 0;
        if (x->count > seen->count) {
            seen->count = x->count;
            seen->last_ns = s->monotonic_ns;
        }
    }
}

static void take_counters(struct state *m, const struct al_gpu *gpu, int64_t now)
{
    for (int c = 0; c < COUNTERS; c++) {
        struct al_value value = gpu->m[counters[c].metric];
        double rise;
        if (al_ok(value) && al_rate_rise(&m->rate[c], value.at_ns, value.num, &rise) == 1 && rise > 0) {
            m->rise[c] += rise;
            m->rise_ns = now;
        }
    }
}

static bool counter_rose(const struct state *m)
{
    for (int c = 0; c < COUNTERS; c++)
        if (m->rise[c] > 0)
            return true;
    return false;
}

static bool any_of(const struct state *m, bool application)
{
    for (uint32_t i = 0; i < m->xid_count; i++) {
        enum al_xid_class class = al_xid_info(m->xid[i].code)->class;
        if (m->xid[i].count > m->xid[i].before && class != AL_XID_FOLLOWS &&
            (class == AL_XID_APPLICATION) == application)
            return true;
    }
    return false;
}

// Whether an Xid has come in this episode and belongs to the group.
static bool belongs(const struct state *m, const struct seen_xid *x, enum group group)
{
    enum al_xid_class class = al_xid_info(x->code)->class;
    bool application = class == AL_XID_APPLICATION ||
                       (class == AL_XID_FOLLOWS && any_of(m, true) && !any_of(m, false) && !counter_rose(m));
    return x->count > x->before && application == (group == APPLICATION);
}

// Time of the group's last event; 0: none in this episode.
static int64_t last_of(const struct state *m, enum group group)
{
    int64_t last_ns = group == HARDWARE && counter_rose(m) ? m->rise_ns : 0;
    for (uint32_t i = 0; i < m->xid_count; i++)
        if (belongs(m, &m->xid[i], group) && m->xid[i].last_ns > last_ns)
            last_ns = m->xid[i].last_ns;
    return last_ns;
}

static void forget(struct state *m, enum group group)
{
    bool theirs[AL_XID_CODES];
    for (uint32_t i = 0; i < m->xid_count; i++)
        theirs[i] = belongs(m, &m->xid[i], group);
    for (uint32_t i = 0; i < m->xid_count; i++)
        if (theirs[i])
            m->xid[i].before = m->xid[i].count;
    if (group == HARDWARE)
        memset(m->rise, 0, sizeof m->rise);
}

// Gravest first; among equals the cause before what follows it.
static int gravity(const struct al_xid_info *info)
{
    return 2 * (int)info->level + (info->class != AL_XID_FOLLOWS);
}

static const struct seen_xid *gravest(const struct state *m, enum group group)
{
    const struct seen_xid *most = NULL;
    for (uint32_t i = 0; i < m->xid_count; i++)
        if (belongs(m, &m->xid[i], group) &&
            (!most || gravity(al_xid_info(m->xid[i].code)) > gravity(al_xid_info(most->code))))
            most = &m->xid[i];
    return most;
}

static int gravest_counter(const struct state *m, enum group group)
{
    int most = -1;
    for (int c = 0; c < COUNTERS; c++)
        if (group == HARDWARE && m->rise[c] > 0 && (most < 0 || counters[c].level > counters[most].level))
            most = c;
    return most;
}

static void say_rest(struct al_draft *d, const struct state *m, enum group group, const struct seen_xid *head,
                     int head_counter)
{
    const char *lead = "; with it";
    for (uint32_t i = 0; i < m->xid_count; i++) {
        const struct seen_xid *x = &m->xid[i];
        if (x == head || !belongs(m, x, group))
            continue;
        al_draft_message(d, "%s Xid %u", lead, x->code);
        lead = ",";
    }
    for (int c = 0; c < COUNTERS && group == HARDWARE; c++) {
        if (m->rise[c] <= 0)
            continue;
        al_draft_number(d, al_gpu_metrics[counters[c].metric].name, m->rise[c], AL_UNIT_COUNT, "nvml",
                        AL_SIGNAL_ERRORS);
        if (c == head_counter)
            continue;
        al_draft_message(d, "%s %.0f %s", lead, m->rise[c], counters[c].what);
        lead = ",";
    }
}

static void raise_events(struct al_run *run, struct al_track *t, uint32_t g, const struct state *m, enum group group)
{
    const struct seen_xid *x = gravest(m, group);
    const struct al_xid_info *info = x ? al_xid_info(x->code) : NULL;
    int c = gravest_counter(m, group);
    bool by_xid = x && (c < 0 || info->level >= counters[c].level);
    enum al_level level = by_xid ? info->level : counters[c].level;
    struct al_draft *d = al_run_draft(run, "hardware", level, (int)g);
    d->reported = true;
    if (by_xid) {
        uint32_t times = x->count - x->before;
        al_draft_title(d, "Xid %u: %s", x->code, al_xid_class_word(info->class));
        al_draft_message(d, "%s: Xid %u", al_say_gpu(run->s, &run->s->gpus[g]).s, x->code);
        if (times > 1)
            al_draft_message(d, " (%u times)", times);
        al_draft_message(d, ", %s: %s", al_xid_class_word(info->class), info->meaning);
        al_draft_number(d, "xid", x->code, AL_UNIT_NONE, "nvml", AL_SIGNAL_ERRORS);
        al_draft_number(d, "xid_events", times, AL_UNIT_COUNT, "nvml", AL_SIGNAL_ERRORS);
        al_draft_advice(d, "%s", info->action);
        if (info->class == AL_XID_APPLICATION)
            al_draft_considered(d, "Faulty hardware: unlikely unless it comes with different programs on this GPU only.");
    } else {
        al_draft_title(d, "%s", counters[c].what);
        al_draft_message(d, "%s: %.0f %s", al_say_gpu(run->s, &run->s->gpus[g]).s, m->rise[c], counters[c].what);
        al_draft_advice(d, "%s", counters[c].action);
    }
    say_rest(d, m, group, by_xid ? x : NULL, by_xid ? -1 : c);
    al_draft_considered(d, "%sCounts from before alula started are left out.", d->f.considered[0] ? " " : "");
    al_run_raise(run, t);
}

static void judge_group(struct al_run *run, struct al_track *t, uint32_t g, struct state *m, enum group group)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    int64_t last_ns = last_of(m, group);
    if (last_ns && run->s->monotonic_ns - last_ns >= AL_SECONDS(run->set->hardware_after)) {
        forget(m, group);
        last_ns = 0;
    }
    if (last_ns)
        raise_events(run, t, g, m, group);
    else if (gpu->info.status != AL_STATUS_OK)
        al_run_cannot(run, t, al_status_text(gpu->info.status));
    else if ((group == HARDWARE && al_ok(gpu->m[AL_GPU_ECC_UNC_VOL_TOTAL])) || al_ok(gpu->m[AL_GPU_XID_ERRORS]))
        al_run_quiet(run, t);
    else
        al_run_cannot(run, t, group == HARDWARE ? "neither ECC counters nor Xid events can be read here"
                                                : "Xid events cannot be read here");
}

static void judge_events(struct al_run *run, uint32_t g)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_track *t = al_run_any_gpu(run, g, NULL); // also of a lost GPU: its last words
    struct al_track *programs = al_run_any_gpu(run, g, "application");
    if (!t || !programs)
        return;
    struct state *m = t->state;
    take_xids(m, gpu, run->s);
    take_counters(m, gpu, run->s->monotonic_ns);
    m->started = true;
    if (gpu->info.status == AL_STATUS_LOST) // 79 is told by `sensor`
        for (uint32_t i = 0; i < m->xid_count; i++)
            if (m->xid[i].code == 79)
                m->xid[i].before = m->xid[i].count;
    judge_group(run, t, g, m, HARDWARE);
    judge_group(run, programs, g, m, APPLICATION);
}

// ---- states ----

static const struct {
    enum al_gpu_metric metric;
    enum al_level level;
    const char *what, *advice;
} states[] = {
    {AL_GPU_REMAP_FAILED, AL_LEVEL_CRITICAL, "remapping a bad memory row failed",
     "Take the GPU out of service and have the board replaced."},
    {AL_GPU_SRAM_THRESHOLD, AL_LEVEL_CRITICAL, "the count of on-chip memory errors asks for service",
     "Run the field diagnostics; the board is due for replacement."},
    {AL_GPU_REMAP_PENDING, AL_LEVEL_WARNING, "a bad memory row waits for a reset to be remapped",
     "Drain the GPU's jobs and reset it (nvidia-smi -r) at the next occasion."},
    {AL_GPU_RETIRED_PENDING, AL_LEVEL_WARNING, "bad memory pages wait for a restart to be retired",
     "Reload the driver or restart the machine at the next occasion."},
};

static void judge_states(struct al_run *run, uint32_t g)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_track *t = al_run_any_gpu(run, g, "service");
    const size_t count = sizeof states / sizeof *states;
    size_t first = count, known = 0;
    if (!t)
        return;
    for (size_t i = count; i > 0; i--) {
        known += al_ok(gpu->m[states[i - 1].metric]);
        if (al_ok(gpu->m[states[i - 1].metric]) && gpu->m[states[i - 1].metric].num > 0)
            first = i - 1;
    }
    bool needs_reset = gpu->info.status == AL_STATUS_RESET;
    if (first == count && !needs_reset) {
        if (known)
            al_run_quiet(run, t);
        else
            al_run_cannot(run, t, "remapped and retired memory could not be read");
        return;
    }
    struct al_draft *d = al_run_draft(run, "hardware", needs_reset ? AL_LEVEL_CRITICAL : states[first].level, (int)g);
    d->reported = true;
    al_draft_title(d, needs_reset ? "GPU requires a reset" : "GPU memory needs service");
    al_draft_message(d, "%s: %s", al_say_gpu(run->s, gpu).s, needs_reset ? "the driver asks for a reset" : states[first].what);
    al_draft_advice(d, "%s", needs_reset ? "Drain the GPU's jobs and reset it (nvidia-smi -r), or restart the machine."
                                         : states[first].advice);
    for (size_t i = first; i < count; i++)
        al_draft_gpu(d, gpu, states[i].metric, AL_SIGNAL_ERRORS);
    al_run_raise(run, t);
}

// ---- corrected errors ----

static void judge_corrected(struct al_run *run, uint32_t g)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_track *t = al_run_gpu(run, g, "corrected");
    struct al_value count = gpu->m[AL_GPU_ECC_COR_VOL_TOTAL];
    if (!t)
        return;
    struct al_window *w = &((struct state *)t->state)->corrected;
    if (!al_ok(count)) {
        al_run_cannot(run, t, "corrected ECC errors could not be read");
        return;
    }
    if (!w->ring && al_window_init(w, 60 * AL_NS_PER_S, 128) < 0)
        return;
    if (w->count && count.num < al_window_last(w)->value)
        al_window_clear(w);
    al_window_push(w, count.at_ns, count.num);
    double seconds = al_window_seconds(w), limit = run->set->hardware_corrected_above;
    if (seconds < 10) {
        al_run_too_little(run, t, "too few readings of the counter");
        return;
    }
    double rate = (al_window_last(w)->value - al_window_first(w)->value) / seconds;
    if (rate <= (t->open ? limit / 2 : limit)) {
        al_run_quiet(run, t);
        return;
    }
    struct al_draft *d = al_run_draft(run, "hardware", AL_LEVEL_INFO, (int)g);
    d->reported = true;
    al_draft_title(d, "corrected ECC errors");
    al_draft_message(d, "%s: corrected ECC errors at %s over the last %s", al_say_gpu(run->s, gpu).s, al_say_rate(rate).s,
                     al_say_seconds(seconds).s);
    al_draft_number(d, "ecc_corrected_rate", rate, AL_UNIT_PER_SECOND, "nvml", AL_SIGNAL_ERRORS);
    al_draft_gpu(d, gpu, AL_GPU_ECC_COR_VOL_TOTAL, AL_SIGNAL_ERRORS);
    al_draft_considered(d, "No data was harmed: every one of them was corrected.");
    al_draft_advice(d, "Watch it. A persistent rate is a reason to have the board checked before it turns uncorrectable.");
    al_run_raise(run, t);
}

static void step(struct al_run *run)
{
    for (uint32_t g = 0; g < run->s->gpu_count; g++) {
        if (run->s->gpus[g].info.is_mig) // the board is the parent's
            continue;
        judge_events(run, g);
        judge_states(run, g);
        judge_corrected(run, g);
    }
}

const struct al_rule al_rule_hardware = {
    .name = "hardware",
    .groups = AL_GROUP_FAST | AL_GROUP_ECC | AL_GROUP_XID,
    .enabled = AL_ENABLED(hardware),
    .state_size = sizeof(struct state),
    .step = step,
    .done = done,
};
