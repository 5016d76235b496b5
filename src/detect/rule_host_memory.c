// SPDX-License-Identifier: Apache-2.0
// Host memory growing: the anonymous memory of a job's processes rises steadily over a window. Processes younger than a
// window are left out (imports, first epoch, caches), and the sum starts anew when the set of processes changes, so that
// workers that come and go are no growth. A single jump is none either: the robust slope's interval holds 0 then.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "detect/rule.h"
#include "detect/say.h"
#include "series/window.h"

#define PROCS_MAX 64
#define POINTS 64
#define CALM 5 // readings without a rise that end it

struct member {
    pid_t pid; // 0: free
    uint64_t start_ticks;
    int64_t first_ns;
    struct al_window window; // of RssAnon
};

struct state {
    struct member members[PROCS_MAX];
    uint64_t set; // of the members in the sum, mixed
    struct al_window sum;
    struct al_window cgroup;
    double lived_at; // highest sum that has left the window: the job was there before
    uint32_t calm;
};

static void done(void *state)
{
    struct state *m = state;
    al_window_done(&m->sum);
    al_window_done(&m->cgroup);
    for (int i = 0; i < PROCS_MAX; i++)
        al_window_done(&m->members[i].window);
}

// ---- following ----

// Keeps about POINTS readings of a span, however often they come.
static bool follow(struct al_window *w, int64_t span_ns, int64_t at_ns, double value)
{
    int64_t period = span_ns / POINTS;
    uint32_t cap = al_window_capacity(span_ns, period);
    if ((!w->ring || w->span_ns != span_ns) &&
        (w->ring ? al_window_resize(w, span_ns, cap) : al_window_init(w, span_ns, cap)) < 0)
        return false;
    if (w->count && at_ns < al_window_last(w)->at_ns + period)
        return false;
    return al_window_push(w, at_ns, value) == 1;
}

static struct member *member_of(struct state *m, const struct al_proc *p, int64_t now)
{
    struct member *spare = NULL;
    for (int i = 0; i < PROCS_MAX; i++) {
        if (m->members[i].pid == p->pid && m->members[i].start_ticks == p->start_ticks)
            return &m->members[i];
        if (!m->members[i].pid && !spare)
            spare = &m->members[i];
    }
    if (spare) {
        spare->pid = p->pid;
        spare->start_ticks = p->start_ticks;
        spare->first_ns = now;
    }
    return spare;
}

static void drop_gone(struct state *m, const struct al_snapshot *s)
{
    for (int i = 0; i < PROCS_MAX; i++) {
        struct member *k = &m->members[i];
        const struct al_proc *p = k->pid ? al_snapshot_proc(s, k->pid) : NULL;
        if (!k->pid || (p && p->start_ticks == k->start_ticks && p->alive))
            continue;
        al_window_done(&k->window);
        memset(k, 0, sizeof *k);
    }
}

static bool grown_up(const struct al_run *run, const struct al_proc *p, const struct member *k, int64_t span_ns)
{
    if (p->started_realtime_ns > 0)
        return run->s->realtime_ns - p->started_realtime_ns >= span_ns;
    return run->s->monotonic_ns - k->first_ns >= span_ns;
}

struct total {
    double sum;
    int64_t at_ns;
    uint64_t set;
    uint32_t count;
    bool unread;
    double limit, used; // of the cgroup; NaN
    double cgroup_anon;
};

static void add(struct al_run *run, struct state *m, const struct al_proc *p, int64_t span_ns, struct total *total)
{
    struct al_value anon = p->m[AL_PROC_RSS_ANON], limit = p->m[AL_PROC_CGROUP_LIMIT];
    struct member *k = member_of(m, p, run->s->monotonic_ns);
    if (al_ok(limit) && !(limit.num >= total->limit)) {
        total->limit = limit.num;
        total->used = al_ok(p->m[AL_PROC_CGROUP_USED]) ? p->m[AL_PROC_CGROUP_USED].num : NAN;
    }
    if (al_ok(p->m[AL_PROC_CGROUP_ANON]))
        total->cgroup_anon = fmax(total->cgroup_anon, p->m[AL_PROC_CGROUP_ANON].num); // NaN gives way
    if (!k || !grown_up(run, p, k, span_ns))
        return;
    if (!al_ok(anon)) {
        total->unread = true;
        return;
    }
    follow(&k->window, span_ns, anon.at_ns, anon.num);
    total->sum += anon.num;
    total->at_ns = anon.at_ns > total->at_ns ? anon.at_ns : total->at_ns;
    total->set = (total->set ^ (uint64_t)p->pid ^ p->start_ticks << 24) * 0x9e3779b97f4a7c15ULL + 1;
    total->count++;
}

static void gather(struct al_run *run, struct state *m, const struct al_job *job, int64_t span_ns, struct total *total)
{
    *total = (struct total){.limit = NAN, .used = NAN, .cgroup_anon = NAN};
    drop_gone(m, run->s);
    for (uint32_t i = 0; i < run->s->proc_count; i++) {
        const struct al_proc *p = &run->s->procs[i];
        if ((p->job ? p->job : p->pid) == job->pid && p->alive && !p->foreign)
            add(run, m, p, span_ns, total);
    }
    if (total->set != m->set) {
        m->set = total->set;
        m->calm = 0;
        m->lived_at = 0;
        al_window_clear(&m->sum);
        al_window_clear(&m->cgroup);
    }
}

// ---- wording ----

static double growth_of(const struct al_window *w)
{
    return w->count ? al_window_last(w)->value - al_window_first(w)->value : 0;
}

// Least value among the readings first .. last - 1.
static double floor_of(const struct al_window *w, uint32_t first, uint32_t last)
{
    double least = INFINITY;
    for (uint32_t i = first; i < last; i++)
        least = fmin(least, al_window_at(w, i)->value);
    return least;
}

// What goes up and down again (buffers, batches, garbage collection) may seem to rise over one window, but not the level
// that it falls back to, and it stays below what it was before.
static bool floor_rises(const struct state *m)
{
    const struct al_window *w = &m->sum;
    uint32_t third = w->count / 3;
    double last = floor_of(w, w->count - third, w->count);
    return last - floor_of(w, 0, third) >= growth_of(w) / 2 && last > m->lived_at;
}

// As in the rule `memory`: the robust slope, to which a jump is no rise, and least squares with 99.9 %, against noise.
static bool significant(const struct al_window *w, struct al_slope *ret)
{
    struct al_slope line;
    return al_window_robust_slope(w, INT64_MIN, POINTS, ret) == 0 && ret->low > 0 &&
           al_window_slope(w, INT64_MIN, &line) == 0 && line.sure_low > 0;
}

static const struct member *grows_most(const struct state *m)
{
    const struct member *most = NULL;
    for (int i = 0; i < PROCS_MAX; i++)
        if (m->members[i].pid && (!most || growth_of(&m->members[i].window) > growth_of(&most->window)))
            most = &m->members[i];
    return most;
}

static void say_process(struct al_run *run, struct al_draft *d, const struct state *m)
{
    const struct member *k = grows_most(m);
    if (!k)
        return;
    const struct al_proc *p = al_snapshot_proc(run->s, k->pid);
    d->f.pid = k->pid;
    al_draft_message(d, "; most of it %s, %s, by %s", al_say_who(run->s, p, k->pid).s,
                     p ? al_role_word(p->role) : "unknown role", al_say_bytes(growth_of(&k->window)).s);
    al_draft_number(d, "process_anonymous_growth_bytes", growth_of(&k->window), AL_UNIT_BYTES, "procfs",
                    AL_SIGNAL_HOST);
}

static void raise(struct al_run *run, struct al_track *t, const struct al_job *job, const struct al_slope *slope,
                  const struct total *total)
{
    struct state *m = t->state;
    struct al_value available = run->s->node.m[AL_NODE_MEM_AVAILABLE];
    bool limited = !isnan(total->limit) && !isnan(total->used);
    double left = limited ? fmax(0, total->limit - total->used) : al_ok(available) ? available.num : NAN;
    double seconds = left / slope->per_second;
    enum al_level level = seconds < run->set->host_memory_critical_within ? AL_LEVEL_CRITICAL : AL_LEVEL_WARNING;
    struct al_slope cgroup;
    struct al_draft *d = al_run_draft(run, "host_memory", level, -1);
    d->f.job = job->pid;
    al_draft_title(d, "host memory growing");
    al_draft_message(d, "job %lld: anonymous memory of its %u processes rose %s in %s to %s, %s", (long long)job->pid,
                     total->count, al_say_bytes(growth_of(&m->sum)).s, al_say_seconds(slope->seconds).s,
                     al_say_bytes(total->sum).s, al_say_byte_rate(slope->per_second).s);
    al_draft_number(d, "anonymous_memory_bytes", total->sum, AL_UNIT_BYTES, "procfs", AL_SIGNAL_HOST);
    al_draft_number(d, "anonymous_slope", slope->per_second, AL_UNIT_BYTES_PER_SECOND, "procfs", AL_SIGNAL_HOST);
    al_draft_number(d, "anonymous_slope_at_least", slope->low, AL_UNIT_BYTES_PER_SECOND, "procfs", 0);
    say_process(run, d, m);
    if (!isnan(seconds)) {
        al_draft_message(d, "; %s reached in about %s",
                         limited ? "cgroup limit" : "end of the machine's available memory", al_say_seconds(seconds).s);
        al_draft_number(d, limited ? "cgroup_memory_left_bytes" : "memory_available_bytes", left, AL_UNIT_BYTES,
                        limited ? "cgroup" : "procfs", 0);
        al_draft_number(d, "time_to_limit", seconds, AL_UNIT_SECONDS, "procfs", 0);
    }
    if (m->cgroup.ring && al_window_robust_slope(&m->cgroup, INT64_MIN, POINTS, &cgroup) == 0 && cgroup.low > 0)
        al_draft_number(d, "cgroup_anonymous_slope", cgroup.per_second, AL_UNIT_BYTES_PER_SECOND, "cgroup",
                        AL_SIGNAL_NODE);
    al_draft_considered(d, "Page cache and shared memory: not counted. Start-up: processes younger than %s are left out. A "
                           "cache that fills up and then stays looks the same until it stays.",
                        al_say_seconds(run->set->host_memory_window).s);
    al_draft_advice(d, "Compare at the same point of each step or epoch. Usual causes: lists of losses or outputs kept "
                       "across steps, a dataset that caches samples in each worker, growing Python objects in workers "
                       "(use arrays or persistent_workers=False).");
    al_run_raise(run, t);
}

// ---- step ----

static void judge(struct al_run *run, struct al_track *t, const struct al_job *job)
{
    const struct al_settings *set = run->set;
    struct state *m = t->state;
    struct al_slope slope = {0};
    struct total total;
    int64_t span = AL_SECONDS(set->host_memory_window);
    gather(run, m, job, span, &total);
    if (total.unread) {
        al_run_cannot(run, t, "anonymous memory of some process of the job could not be read");
        return;
    }
    if (total.count == 0) {
        al_run_too_little(run, t, "the job's processes are younger than the window");
        return;
    }
    double oldest = m->sum.count ? al_window_first(&m->sum)->value : 0;
    bool fresh = follow(&m->sum, span, total.at_ns, total.sum);
    if (fresh && al_window_first(&m->sum)->value != oldest)
        m->lived_at = fmax(m->lived_at, oldest);
    if (!isnan(total.cgroup_anon))
        follow(&m->cgroup, span, total.at_ns, total.cgroup_anon);
    if (al_window_seconds(&m->sum) < 0.9 * set->host_memory_window) {
        al_run_too_little(run, t, "the window is not full yet, or the job's processes changed");
        return;
    }
    double part = t->open ? 0.5 : 1; // hysteresis
    bool rises = significant(&m->sum, &slope) && slope.per_second >= part * set->host_memory_slope_above &&
                 growth_of(&m->sum) >= part * set->host_memory_growth_above && floor_rises(m);
    m->calm = rises ? 0 : m->calm + fresh;
    if (rises || (t->open && m->calm < CALM && slope.per_second > 0))
        raise(run, t, job, &slope, &total);
    else
        al_run_quiet(run, t);
}

static void step(struct al_run *run)
{
    for (uint32_t j = 0; j < run->view->job_count; j++) {
        char entity[64];
        al_job_entity(&run->view->jobs[j], entity, sizeof entity);
        struct al_track *t = al_run_track(run, entity, NULL);
        if (t)
            judge(run, t, &run->view->jobs[j]);
    }
}

const struct al_rule al_rule_host_memory = {
    .name = "host_memory",
    .groups = AL_GROUP_PROCESS | AL_GROUP_HOST | AL_GROUP_NODE,
    .enabled = AL_ENABLED(host_memory),
    .state_size = sizeof(struct state),
    .step = step,
    .done = done,
};
