// SPDX-License-Identifier: Apache-2.0
// Uneven GPUs of one job: one works while all others idle, or one idles while all others look busy. In the second case
// the idle one is the one to look at: the others may only wait for it in a collective, which reads as 100 % busy.
#include "base/clock.h"
#include "detect/jobhost.h"
#include "detect/rule.h"
#include "detect/say.h"

struct state {
    uint32_t run;
    int64_t at_ns; // of the newest sample counted
    int odd;       // position of the GPU that differs
    int64_t since_ns;
};

struct split {
    uint32_t busy, idle, count;
    int a_busy, an_idle; // a position of each
    int64_t at_ns;
    bool known;
    double busy_low, idle_high; // lowest of the busy, highest of the idle
};

static void look(const struct al_run *run, const struct al_job *job, struct split *s)
{
    *s = (struct split){.a_busy = -1, .an_idle = -1, .known = true, .busy_low = 1};
    for (uint32_t g = 0; g < run->s->gpu_count; g++) {
        struct al_value util = run->s->gpus[g].m[AL_GPU_UTIL_MEAN];
        if (!al_job_has(job, g))
            continue;
        s->count++;
        s->known &= al_ok(util) && run->view->job_of_gpu[g] >= 0;
        if (util.at_ns > s->at_ns)
            s->at_ns = util.at_ns;
        if (util.num > run->set->uneven_busy_above) {
            s->busy++;
            s->a_busy = (int)g;
            s->busy_low = util.num < s->busy_low ? util.num : s->busy_low;
        } else if (util.num < run->set->uneven_idle_below) {
            s->idle++;
            s->an_idle = (int)g;
            s->idle_high = util.num > s->idle_high ? util.num : s->idle_high;
        }
    }
}

// The odd one's position, -1 when the job is even. With two GPUs the idle one is taken.
static int odd_of(const struct split *s)
{
    if (s->busy + s->idle != s->count || !s->busy || !s->idle)
        return -1;
    return s->idle == 1 ? s->an_idle : s->busy == 1 ? s->a_busy : -1;
}

static double power_share(const struct al_gpu *gpu)
{
    struct al_value power = gpu->m[AL_GPU_POWER], limit = gpu->m[AL_GPU_POWER_ENFORCED];
    return al_ok(power) && al_ok(limit) && limit.num > 0 ? power.num / limit.num : -1;
}

// Whether the busy ones work or wait: a kernel that spins in a collective draws little power.
static void say_power(struct al_run *run, struct al_draft *d, const struct split *s)
{
    double busy = power_share(&run->s->gpus[s->a_busy]), idle = power_share(&run->s->gpus[s->an_idle]);
    if (busy < 0) {
        al_draft_considered(d, "Whether the busy ones compute or only wait is not known: power could not be read. ");
        return;
    }
    bool spins = busy < run->set->uneven_spinning_below;
    al_draft_number(d, "power_share_of_busy_gpu", busy, AL_UNIT_RATIO, "nvml", AL_SIGNAL_POWER);
    if (idle >= 0)
        al_draft_number(d, "power_share_of_idle_gpu", idle, AL_UNIT_RATIO, "nvml", AL_SIGNAL_POWER);
    al_draft_considered(d, spins ? "The busy draw %s of their power limit: they may only wait in a collective. "
                                 : "The busy draw %s of their power limit: they compute. ", al_say_percent(busy).s);
}

static void say_holder(struct al_run *run, struct al_draft *d, uint32_t g)
{
    const struct al_proc_gpu *row = al_view_holder(run->view, g);
    const struct al_proc *p = row ? al_snapshot_proc(run->s, row->pid) : NULL;
    if (!p)
        return;
    d->f.pid = p->pid;
    d->f.job = p->job;
    al_draft_message(d, " (%s)", al_say_who(run->s, p, p->pid).s);
    d->signals |= AL_SIGNAL_PROCESS;
    if (p->role == AL_ROLE_WORKER)
        al_draft_considered(d, "Its process is a DataLoader worker that holds a CUDA context, not a rank. ");
}

static void raise(struct al_run *run, struct al_track *t, const struct al_job *job, const struct split *s, int odd)
{
    const struct state *state = t->state;
    bool idle_odd = odd == s->an_idle;
    struct al_draft *d = al_run_draft(run, "uneven", AL_LEVEL_WARNING, odd);
    double seconds = (double)(run->s->monotonic_ns - state->since_ns) / 1e9;
    al_draft_title(d, "uneven GPUs of one job");
    al_draft_message(d, "%s", al_say_gpu(run->s, &run->s->gpus[odd]).s);
    say_holder(run, d, (uint32_t)odd);
    d->f.job = job->pid;
    if (idle_odd)
        al_draft_message(d, " is at %s while the other %u of job %lld are at %s%s, for %s",
                         al_say_percent(s->idle_high).s, s->busy, (long long)job->pid, al_say_percent(s->busy_low).s,
                         s->busy_low < 1 ? " or more" : "", al_say_seconds(seconds).s);
    else
        al_draft_message(d, " is at %s while the other %u of job %lld are at %s%s, for %s",
                         al_say_percent(s->busy_low).s, s->idle, (long long)job->pid, al_say_percent(s->idle_high).s,
                         s->idle_high > 0 ? " or less" : "", al_say_seconds(seconds).s);
    al_draft_number(d, "utilization_of_busy", s->busy_low, AL_UNIT_RATIO, "nvml", AL_SIGNAL_UTIL);
    al_draft_number(d, "utilization_of_idle", s->idle_high, AL_UNIT_RATIO, "nvml", AL_SIGNAL_UTIL);
    say_power(run, d, s);
    if (idle_odd)
        al_draft_advice(d, "Look at this rank: its input, its Python stack, a checkpoint or evaluation that only it does. "
                           "The others wait for it.");
    else
        al_draft_advice(d, "Look at what only this rank does (data preparation, evaluation, generation, saving), and "
                           "whether the model is really spread over all GPUs.");
    al_run_raise(run, t);
}

// One rank saves, and the others wait for it in a collective: no fault, and over soon.
static bool writes_checkpoint(const struct al_run *run, const struct al_job *job)
{
    struct al_jobhost host;
    al_jobhost_read(&host, run->s, run->set, &job->pid, 1);
    return host.write_rate >= run->set->inefficient_writing_above;
}

static void judge(struct al_run *run, struct al_track *t, const struct al_job *job)
{
    struct state *state = t->state;
    struct split s;
    look(run, job, &s);
    if (!s.known) {
        al_run_cannot(run, t, "utilisation of some GPU of the job is not known, or it is shared with another job");
        return;
    }
    int odd = odd_of(&s);
    if (s.at_ns > state->at_ns) { // each set of samples counts once
        state->at_ns = s.at_ns;
        if (odd < 0 || odd != state->odd || !state->run) {
            state->run = 0;
            state->since_ns = run->s->monotonic_ns - run->s->interval_ns;
        }
        state->odd = odd;
        state->run += odd >= 0;
    }
    double seconds = (double)(run->s->monotonic_ns - state->since_ns) / AL_NS_PER_S;
    bool long_enough = seconds >= 0.95 * run->set->uneven_ticks * run->set->inefficient_tick; // of short ticks, more
    if (odd >= 0 && odd == s.an_idle && writes_checkpoint(run, job)) {
        state->run = 0;
        al_run_too_little(run, t, "the job writes to storage: checkpoint");
    } else if (odd >= 0 && state->run >= run->set->uneven_ticks && long_enough) {
        raise(run, t, job, &s, odd);
    } else {
        al_run_quiet(run, t);
    }
}

static void step(struct al_run *run)
{
    for (uint32_t j = 0; j < run->view->job_count; j++) {
        char entity[64];
        al_job_entity(&run->view->jobs[j], entity, sizeof entity);
        if (run->view->jobs[j].gpu_count < 2)
            continue;
        struct al_track *t = al_run_track(run, entity, NULL);
        if (t)
            judge(run, t, &run->view->jobs[j]);
    }
}

const struct al_rule al_rule_uneven = {
    .name = "uneven",
    .groups = AL_GROUP_FAST | AL_GROUP_SAMPLES | AL_GROUP_SLOW | AL_GROUP_PROCESS | AL_GROUP_HOST,
    .enabled = AL_ENABLED(uneven),
    .state_size = sizeof(struct state),
    .step = step,
};
