// SPDX-License-Identifier: Apache-2.0
// Memory about to run out: above the limit and still rising. A pool that is full but flat is no finding, nor is a level
// that the same job reached before and lived at. A job that settles above its learned peak is told as info.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "detect/rule.h"
#include "detect/say.h"
#include "series/window.h"

#define ROWS_MAX 8         // processes of one GPU whose memory is followed
#define POINTS 32          // of a robust slope
#define NEAR 0.10          // windows are kept from this far below the limit
#define RECENT_NS (10 * AL_NS_PER_S)
#define PEAK_S 2.5         // within which a peak is new

struct row {
    pid_t pid; // 0: free
    struct al_window window;
};

struct state {
    struct al_window used;
    struct row rows[ROWS_MAX];
    int64_t above_since_ns; // 0: not above the limit
    double peak;            // since then
    double lived_at;        // highest level that these processes reached and left again
    uint64_t pids;          // of the processes on the GPU, mixed
    int64_t rose_ns;        // when a new peak was last set
    double rose_from;
    // the learned peak of a job
    uint64_t job;
    int64_t job_since_ns;
    double learned, learning;
    struct al_window sums;
};

static void done(void *state)
{
    struct state *m = state;
    al_window_done(&m->used);
    al_window_done(&m->sums);
    for (int i = 0; i < ROWS_MAX; i++)
        al_window_done(&m->rows[i].window);
}

// ---- following ----

static bool fit(struct al_window *w, int64_t span_ns, int64_t period_ns)
{
    uint32_t cap = al_window_capacity(span_ns, period_ns);
    if (w->ring && w->span_ns == span_ns)
        return true;
    return (w->ring ? al_window_resize(w, span_ns, cap) : al_window_init(w, span_ns, cap)) == 0;
}

static struct row *row_of(struct state *m, pid_t pid)
{
    struct row *spare = NULL;
    for (int i = 0; i < ROWS_MAX; i++) {
        if (m->rows[i].pid == pid)
            return &m->rows[i];
        if (!m->rows[i].pid && !spare)
            spare = &m->rows[i];
    }
    if (spare)
        spare->pid = pid;
    return spare;
}

static void follow_rows(struct state *m, const struct al_run *run, uint32_t g, int64_t span_ns)
{
    const struct al_view *v = run->view;
    for (int i = 0; i < ROWS_MAX; i++) {
        bool there = false;
        for (uint32_t k = v->first_row[g]; k < v->first_row[g + 1]; k++)
            there |= run->s->rows[k].pid == m->rows[i].pid;
        if (m->rows[i].pid && !there) {
            al_window_done(&m->rows[i].window);
            m->rows[i].pid = 0;
        }
    }
    for (uint32_t k = v->first_row[g]; k < v->first_row[g + 1]; k++) {
        const struct al_proc_gpu *p = &run->s->rows[k];
        struct row *row = al_ok(p->memory_bytes) ? row_of(m, p->pid) : NULL;
        if (row && fit(&row->window, span_ns, run->s->interval_ns))
            al_window_push(&row->window, p->memory_bytes.at_ns, p->memory_bytes.num);
    }
}

static void forget_rows(struct state *m)
{
    for (int i = 0; i < ROWS_MAX; i++) {
        al_window_done(&m->rows[i].window);
        m->rows[i].pid = 0;
    }
}

static uint64_t pids_of(const struct al_view *v, uint32_t g)
{
    uint64_t mixed = 0;
    for (uint32_t k = v->first_row[g]; k < v->first_row[g + 1]; k++)
        mixed = (mixed ^ (uint64_t)v->s->rows[k].pid) * 0x9e3779b97f4a7c15ULL + 1;
    return mixed;
}

// Keeps where the level stands against the limit. Other processes start a new life.
static void follow_level(struct state *m, const struct al_run *run, uint32_t g, double ratio, double limit)
{
    int64_t now = run->s->monotonic_ns;
    double used = run->s->gpus[g].m[AL_GPU_MEM_USED].num;
    uint64_t pids = pids_of(run->view, g);
    if (pids != m->pids) {
        m->pids = pids;
        m->lived_at = m->peak = 0;
    }
    if (ratio < limit - run->set->memory_clear_margin) {
        m->lived_at = m->peak > m->lived_at ? m->peak : m->lived_at;
        m->above_since_ns = 0;
        m->peak = 0;
    } else if (ratio > limit && !m->above_since_ns) {
        m->above_since_ns = run->s->gpus[g].m[AL_GPU_MEM_USED].at_ns;
        m->rose_ns = now;
        m->rose_from = used;
    }
    if (m->above_since_ns && used > m->peak) {
        if (used - m->rose_from > run->set->memory_slope_above) {
            m->rose_ns = now;
            m->rose_from = used;
        }
        m->peak = used;
    }
}

// ---- judging the rise ----

struct rise {
    struct al_slope all;     // since the limit was crossed
    double per_second;       // over the last seconds where they rise, else of all
    double seconds_to_full;
    const struct row *row;   // the process that rises most
    struct al_slope row_slope;
};

static bool significant(const struct al_window *w, int64_t since_ns, double least, struct al_slope *ret)
{
    return al_window_robust_slope(w, since_ns, POINTS, ret) == 0 && ret->low > 0 && ret->per_second >= least;
}

static void find_row(const struct state *m, int64_t since_ns, double least, struct rise *rise)
{
    struct al_slope slope;
    for (int i = 0; i < ROWS_MAX; i++) {
        const struct row *row = &m->rows[i];
        if (!row->pid || !significant(&row->window, since_ns, least, &slope))
            continue;
        if (!rise->row || slope.per_second > rise->row_slope.per_second) {
            rise->row = row;
            rise->row_slope = slope;
        }
    }
}

static double free_bytes(const struct al_gpu *gpu)
{
    if (al_ok(gpu->m[AL_GPU_MEM_FREE]))
        return gpu->m[AL_GPU_MEM_FREE].num;
    double reserved = al_ok(gpu->m[AL_GPU_MEM_RESERVED]) ? gpu->m[AL_GPU_MEM_RESERVED].num : 0;
    return fmax(0, gpu->m[AL_GPU_MEM_TOTAL].num - gpu->m[AL_GPU_MEM_USED].num - reserved);
}

// It is told at a new peak only: a level that goes up and down seems to rise for part of each turn. Once told, it lasts
// while new peaks come, be it in steps.
static bool at_peak(const struct al_run *run, const struct state *m, bool open)
{
    double flat = (double)(run->s->monotonic_ns - m->rose_ns) / AL_NS_PER_S;
    return open ? flat < run->set->memory_flat_after : flat <= PEAK_S;
}

// Both ways must agree: least squares with 99.9 %, since it is asked at every new peak and noise has many, and the robust
// slope, to which a single jump is no rise.
static bool rises_since(const struct al_run *run, const struct state *m, struct al_slope *ret)
{
    struct al_slope line;
    bool robust = significant(&m->used, m->above_since_ns, run->set->memory_slope_above, ret);
    return robust && al_window_slope(&m->used, m->above_since_ns, &line) == 0 && line.sure_low > 0 &&
           line.per_second * line.seconds >= run->set->memory_rise_above;
}

static bool rises(const struct al_run *run, const struct state *m, const struct al_gpu *gpu, bool open,
                  struct rise *ret)
{
    struct al_slope recent;
    double least = run->set->memory_slope_above;
    int64_t newest = al_window_last(&m->used)->at_ns;
    memset(ret, 0, sizeof *ret);
    bool now_rising = significant(&m->used, newest - RECENT_NS, least, &recent);
    bool since = rises_since(run, m, &ret->all);
    if (!since && !open)
        return false;
    ret->per_second = now_rising && m->above_since_ns <= newest - RECENT_NS ? recent.per_second : ret->all.per_second;
    if (ret->per_second <= 0) // a pause between two steps
        ret->per_second = al_window_slope(&m->used, m->above_since_ns, &recent) == 0 ? recent.per_second : 0;
    ret->seconds_to_full = ret->per_second > 0 ? free_bytes(gpu) / ret->per_second : INFINITY;
    find_row(m, m->above_since_ns, least / 2, ret);
    return true;
}

// ---- wording ----

static void say_process(struct al_run *run, struct al_draft *d, uint32_t g, const struct rise *rise)
{
    if (rise->row) {
        const struct al_proc *p = al_snapshot_proc(run->s, rise->row->pid);
        al_draft_message(d, " (%s: process memory rises %s)", al_say_who(run->s, p, rise->row->pid).s,
                         al_say_byte_rate(rise->row_slope.per_second).s);
        al_draft_number(d, "process_memory_bytes", al_window_last(&rise->row->window)->value, AL_UNIT_BYTES, "nvml",
                        AL_SIGNAL_PROCESS);
        al_draft_number(d, "process_memory_slope", rise->row_slope.per_second, AL_UNIT_BYTES_PER_SECOND, "nvml",
                        AL_SIGNAL_PROCESS);
        d->f.pid = rise->row->pid;
        d->f.job = p ? p->job : 0;
        return;
    }
    bool listed = run->view->holders[g] == AL_HOLDERS_SEEN;
    al_draft_considered(d, listed ? "No single process on it rises by itself. "
                                  : "Which process rises is not known: the process list does not tell. ");
}

static void say_rise(struct al_run *run, struct al_track *t, uint32_t g, double limit, const struct rise *rise)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    double used = gpu->m[AL_GPU_MEM_USED].num, total = gpu->m[AL_GPU_MEM_TOTAL].num, left = rise->seconds_to_full;
    bool critical = left < run->set->memory_critical_within || used > run->set->memory_critical_above * total;
    struct al_draft *d = al_run_draft(run, "memory", critical ? AL_LEVEL_CRITICAL : AL_LEVEL_WARNING, (int)g);
    al_draft_title(d, "memory about to run out");
    al_draft_message(d, "%s: memory %s used (%s) and rising %s; full in about %s", al_say_gpu(run->s, gpu).s,
                     al_say_percent(used / total).s, al_say_of(used, total).s, al_say_byte_rate(rise->per_second).s,
                     al_say_seconds(left).s);
    al_draft_gpu(d, gpu, AL_GPU_MEM_USED, AL_SIGNAL_MEMORY);
    al_draft_gpu(d, gpu, AL_GPU_MEM_TOTAL, 0);
    al_draft_number(d, "memory_slope", rise->per_second, AL_UNIT_BYTES_PER_SECOND, "nvml", AL_SIGNAL_MEMORY);
    if (rise->all.low > 0)
        al_draft_number(d, "memory_slope_at_least", rise->all.low, AL_UNIT_BYTES_PER_SECOND, "nvml", 0);
    if (isfinite(left))
        al_draft_number(d, "time_to_full", left, AL_UNIT_SECONDS, "nvml", 0);
    al_draft_number(d, "limit", limit, AL_UNIT_RATIO, "config", 0);
    say_process(run, d, g, rise);
    al_draft_considered(d, "A pool that is filled once and kept: excluded, it grew over %s since the limit was crossed%s.",
                        al_say_seconds(rise->all.seconds).s,
                        ((struct state *)t->state)->lived_at > 0 ? ", beyond its earlier peak" : "");
    al_draft_advice(d, "Save a checkpoint while it runs. Then a smaller per-device batch or sequence length, gradient "
                       "checkpointing, or fewer concurrent requests; look for tensors kept across steps (losses and "
                       "outputs stored without .detach() or .item()).");
    al_run_raise(run, t);
}

// Engines take a fixed share of the memory for good: weights, cache, then graphs for minutes. It rises until it is there.
static bool fills_its_pool(const struct al_run *run, uint32_t g, const struct rise *rise)
{
    const struct al_proc_gpu *holder = al_view_holder(run->view, g);
    pid_t pid = rise->row ? rise->row->pid : holder ? holder->pid : 0;
    const struct al_proc *p = pid ? al_snapshot_proc(run->s, pid) : NULL;
    return p && p->role == AL_ROLE_ENGINE && p->started_realtime_ns &&
           run->s->realtime_ns - p->started_realtime_ns < AL_SECONDS(run->set->memory_engine_startup);
}

static void judge(struct al_run *run, struct al_track *t, uint32_t g, double limit)
{
    struct state *m = t->state;
    struct rise rise;
    const struct al_gpu *gpu = &run->s->gpus[g];
    double used = gpu->m[AL_GPU_MEM_USED].num;
    bool been_here = m->lived_at > 0 && used <= m->lived_at * (1 + run->set->memory_been_here);
    if (!m->above_since_ns || (!t->open && been_here) || !at_peak(run, m, t->open != NULL)) {
        al_run_quiet(run, t);
        return;
    }
    if (!rises(run, m, gpu, t->open != NULL, &rise)) {
        if (!t->open && rise.all.count < 5)
            al_run_too_little(run, t, "above the limit, too few readings since then to tell a rise");
        else
            al_run_quiet(run, t);
        return;
    }
    if (t->open && !at_peak(run, m, false))
        return; // the next step may come, or it is over soon: the slope of before says nothing of now
    if (rise.seconds_to_full > run->set->memory_full_within && !t->open)
        al_run_quiet(run, t);
    else if (!t->open && fills_its_pool(run, g, &rise))
        al_run_too_little(run, t, "an inference engine that has just started fills its pool");
    else
        say_rise(run, t, g, limit, &rise);
}

// ---- the learned peak ----

static bool job_memory(const struct al_run *run, uint32_t g, double *ret_sum, int64_t *ret_at_ns)
{
    const struct al_view *v = run->view;
    *ret_sum = 0;
    *ret_at_ns = 0;
    if (v->job_of_gpu[g] < 0)
        return false;
    for (uint32_t k = v->first_row[g]; k < v->first_row[g + 1]; k++) {
        const struct al_proc_gpu *row = &run->s->rows[k];
        if (!al_view_computes(row))
            continue;
        if (!al_ok(row->memory_bytes))
            return false;
        *ret_sum += row->memory_bytes.num;
        *ret_at_ns = row->memory_bytes.at_ns > *ret_at_ns ? row->memory_bytes.at_ns : *ret_at_ns;
    }
    return *ret_at_ns > 0;
}

static void say_plateau(struct al_run *run, struct al_track *t, uint32_t g, double least, double learned)
{
    const struct al_job *job = &run->view->jobs[run->view->job_of_gpu[g]];
    struct al_draft *d = al_run_draft(run, "memory", AL_LEVEL_INFO, (int)g);
    d->f.job = job->pid;
    al_draft_title(d, "memory above the job's usual peak");
    al_draft_message(d, "%s: job %lld holds at least %s for %s, %s over its learned peak of %s",
                     al_say_gpu(run->s, &run->s->gpus[g]).s, (long long)job->pid, al_say_bytes(least).s,
                     al_say_seconds(run->set->memory_window).s, al_say_bytes(least - learned).s,
                     al_say_bytes(learned).s);
    al_draft_number(d, "process_memory_bytes", least, AL_UNIT_BYTES, "nvml", AL_SIGNAL_PROCESS);
    al_draft_number(d, "learned_peak_bytes", learned, AL_UNIT_BYTES, "nvml", 0);
    al_draft_considered(d, "Longer inputs, a larger batch, an evaluation or a second model look the same.");
    al_draft_advice(d, "Compare with the same point of an earlier step, epoch or evaluation before taking it for a leak.");
    al_run_raise(run, t);
}

static void judge_plateau(struct al_run *run, struct state *m, uint32_t g)
{
    struct al_track *t = al_run_gpu(run, g, "baseline");
    const struct al_settings *set = run->set;
    int64_t now = run->s->monotonic_ns, span = AL_SECONDS(set->memory_window), at;
    double sum;
    if (!t)
        return;
    if (!job_memory(run, g, &sum, &at) || !fit(&m->sums, span, span / 16 + 1)) {
        al_run_quiet(run, t);
        return;
    }
    const struct al_job *job = &run->view->jobs[run->view->job_of_gpu[g]];
    uint64_t id = ((uint64_t)job->pid << 40) ^ job->start_ticks;
    if (id != m->job) {
        m->job = id;
        m->job_since_ns = now;
        m->learned = m->learning = 0;
        al_window_clear(&m->sums);
    }
    if (!m->sums.count || at >= al_window_last(&m->sums)->at_ns + span / 16)
        al_window_push(&m->sums, at, sum);
    if (m->learned == 0) {
        m->learning = fmax(m->learning, sum);
        if (now - m->job_since_ns >= AL_SECONDS(set->memory_baseline_after))
            m->learned = m->learning;
        al_run_too_little(run, t, "the job's usual peak is being learned");
        return;
    }
    double least = al_window_min(&m->sums);
    if (least > m->learned * (1 + set->memory_baseline_margin) && al_window_seconds(&m->sums) * 1e9 >= 0.8 * (double)span)
        say_plateau(run, t, g, least, m->learned);
    else
        al_run_quiet(run, t);
}

// ---- step ----

static const char *unreadable(const struct al_gpu *gpu)
{
    if (gpu->info.unified_memory)
        return "unified memory: GPU and host share it, and the driver gives no figures";
    if (al_ok(gpu->m[AL_GPU_MEM_USED]) && al_ok(gpu->m[AL_GPU_MEM_TOTAL]) && gpu->m[AL_GPU_MEM_TOTAL].num > 0)
        return NULL;
    return "memory used or total could not be read";
}

static void step(struct al_run *run)
{
    double limit = al_memory_limit(run->set);
    int64_t span = AL_SECONDS(run->set->memory_window);
    for (uint32_t g = 0; g < run->s->gpu_count; g++) {
        const struct al_gpu *gpu = &run->s->gpus[g];
        struct al_track *t = al_run_gpu(run, g, NULL);
        if (!t)
            continue;
        struct state *m = t->state;
        const char *why = unreadable(gpu);
        if (why || gpu->info.mig_enabled) { // the instances of a MIG parent are judged, each by itself
            if (gpu->info.mig_enabled)
                al_run_quiet(run, t);
            else
                al_run_cannot(run, t, why);
            continue;
        }
        double used = gpu->m[AL_GPU_MEM_USED].num, ratio = used / gpu->m[AL_GPU_MEM_TOTAL].num;
        follow_level(m, run, g, ratio, limit);
        if (ratio < limit - NEAR) {
            al_window_clear(&m->used);
            forget_rows(m);
        } else if (fit(&m->used, span, run->s->interval_ns)) {
            al_window_push(&m->used, gpu->m[AL_GPU_MEM_USED].at_ns, used);
            follow_rows(m, run, g, span);
        }
        if (m->used.count)
            judge(run, t, g, limit);
        else
            al_run_quiet(run, t);
        judge_plateau(run, m, g);
    }
}

const struct al_rule al_rule_memory = {
    .name = "memory",
    .groups = AL_GROUP_FAST | AL_GROUP_PROCESS | AL_GROUP_HOST,
    .enabled = AL_ENABLED(memory),
    .state_size = sizeof(struct state),
    .step = step,
    .done = done,
};
