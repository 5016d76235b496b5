// SPDX-License-Identifier: Apache-2.0
// Running inefficiently: a process holds memory on a GPU that stays nearly idle. When the host shows that the job waits
// for I/O, the finding is "starved by input" instead. GPUs of one job that are low share one finding.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "detect/jobhost.h"
#include "detect/jobrank.h"
#include "detect/look_draft.h"
#include "detect/rule.h"
#include "detect/say.h"
#include "detect/ticks.h"

// Reading that is worth a word, in bytes a second.
#define READS_ABOVE 1048576.0

struct state {
    struct al_ticks ticks;
    bool starved; // with its own hysteresis, so that one reading does not change the cause
    uint32_t calm;
    int64_t io_at_ns;
    bool looked; // what it executes was told
};

struct about {
    uint32_t gpus[AL_GPU_MAX];
    uint32_t gpu_count;
    struct al_ticks *ticks[AL_GPU_MAX];
    struct al_jobhost host;
    struct al_looks_told look;
    char rank[96]; // what a rank says of its phase
};

// ---- who and why ----

static const char *cannot_tell_holders(enum al_holders holders)
{
    switch (holders) {
    case AL_HOLDERS_UNKNOWN:
        return "the driver's process list could not be read, so whether a process holds the GPU is not known";
    case AL_HOLDERS_FOREIGN:
        return "the driver names pids of another pid namespace: who holds the GPU, and its I/O wait, cannot be seen";
    case AL_HOLDERS_UNSEEN:
        return "the processes on the GPU were not found in /proc: their I/O wait is not known";
    case AL_HOLDERS_NONE:
    case AL_HOLDERS_SEEN:
        break;
    }
    return NULL;
}

static void collect_jobs(const struct al_view *v, uint32_t gpu, pid_t *jobs, uint32_t *count, uint32_t max)
{
    for (uint32_t i = v->first_row[gpu]; i < v->first_row[gpu + 1]; i++) {
        const struct al_proc *p = al_snapshot_proc(v->s, v->s->rows[i].pid);
        if (p && al_view_computes(&v->s->rows[i]) && *count < max)
            jobs[(*count)++] = p->job ? p->job : p->pid;
    }
}

static void host_of(struct al_run *run, struct about *about)
{
    pid_t jobs[64];
    uint32_t count = 0;
    for (uint32_t i = 0; i < about->gpu_count; i++)
        collect_jobs(run->view, about->gpus[i], jobs, &count, 64);
    al_jobhost_read(&about->host, run->s, run->set, jobs, count);
}

// Young by its processes' start or by when it came to the GPU: a container's clock or /proc may tell the first wrongly.
static bool is_young(const struct al_run *run, const struct about *about)
{
    int64_t startup = AL_SECONDS(run->set->inefficient_startup), started = about->host.started_realtime_ns;
    for (uint32_t i = 0; i < about->gpu_count; i++)
        if (about->ticks[i]->came_ns && run->s->monotonic_ns - about->ticks[i]->came_ns < startup)
            return true;
    return started && run->s->realtime_ns - started < startup;
}

// Phases in which an idle GPU is what has to be: as the ranks tell, or as the outside shows.
static const char *phase_of(const struct al_run *run, struct about *about)
{
    if (al_jobrank_idles(run->view, about->gpus, about->gpu_count, about->rank, sizeof about->rank))
        return about->rank;
    const struct al_settings *set = run->set;
    const struct al_jobhost *h = &about->host;
    bool worked = false, loading = false;
    int64_t now = run->s->monotonic_ns, recent = AL_SECONDS(set->inefficient_tick * set->inefficient_ticks);
    for (uint32_t i = 0; i < about->gpu_count; i++) {
        worked |= about->ticks[i]->worked >= 3;
        loading |= about->ticks[i]->grew_ns && now - about->ticks[i]->grew_ns <= recent;
    }
    if (loading)
        return "GPU memory is still being filled: loading";
    if (h->write_rate >= set->inefficient_writing_above)
        return "the job writes to storage: checkpoint";
    if (!worked && is_young(run, about))
        return "the job has just started and has not run a kernel yet";
    return NULL;
}

static void settle_cause(struct state *state, const struct about *about, const struct al_settings *set, bool open)
{
    const struct al_jobhost *h = &about->host;
    if (h->io == AL_IO_WAITS || al_looks_starve(&about->look, set)) {
        state->starved = true;
        state->calm = 0;
    } else if (!open) {
        state->starved = false;
    } else if (h->at_ns > state->io_at_ns && !(h->io_wait > set->inefficient_io_wait_above / 2)) {
        state->calm++;
        state->starved &= state->calm < 3;
    }
    state->io_at_ns = h->at_ns;
}

// ---- wording ----

static void say_subject(struct al_run *run, struct al_draft *d, const struct about *about)
{
    if (about->gpu_count == 1) {
        al_draft_message(d, "%s: ", al_say_gpu(run->s, &run->s->gpus[about->gpus[0]]).s);
        return;
    }
    al_draft_message(d, "GPUs ");
    for (uint32_t i = 0; i < about->gpu_count; i++) {
        if (i == 8) {
            al_draft_message(d, " and %u more", about->gpu_count - 8);
            break;
        }
        al_draft_message(d, "%s%s", i ? "," : "", al_say_gpu(run->s, &run->s->gpus[about->gpus[i]]).s + strlen("GPU "));
    }
    al_draft_message(d, " of one job: ");
}

static uint32_t holders_of(const struct al_view *v, uint32_t g)
{
    uint32_t count = 0;
    for (uint32_t i = v->first_row[g]; i < v->first_row[g + 1]; i++)
        count += al_view_computes(&v->s->rows[i]);
    return count;
}

static void say_holder(struct al_run *run, struct al_draft *d, const struct about *about)
{
    const struct al_proc_gpu *row = al_view_holder(run->view, about->gpus[0]);
    if (!row)
        return;
    const struct al_proc *p = al_snapshot_proc(run->s, row->pid);
    d->f.pid = row->pid;
    d->f.job = p ? p->job : 0;
    if (about->gpu_count > 1)
        al_draft_message(d, " while job %lld holds memory on each", (long long)d->f.job);
    else if (al_ok(row->memory_bytes))
        al_draft_message(d, " while %s holds %s", al_say_who(run->s, p, row->pid).s,
                         al_say_bytes(row->memory_bytes.num).s);
    else
        al_draft_message(d, " while %s holds it", al_say_who(run->s, p, row->pid).s);
    uint32_t others = about->gpu_count == 1 ? holders_of(run->view, about->gpus[0]) - 1 : 0;
    if (others)
        al_draft_message(d, " (%u more process%s on it)", others, others == 1 ? "" : "es");
    if (al_ok(row->memory_bytes))
        al_draft_number(d, "process_memory_bytes", row->memory_bytes.num, AL_UNIT_BYTES, "nvml", AL_SIGNAL_PROCESS);
}

static void say_io(struct al_run *run, struct al_draft *d, const struct al_jobhost *h, bool starved)
{
    if (!isnan(h->io_wait))
        al_draft_number(d, "io_wait_ratio", h->io_wait, AL_UNIT_RATIO, "procfs", AL_SIGNAL_HOST);
    else if (h->blocked_read)
        al_draft_number(d, "blocked_threads", h->blocked, AL_UNIT_COUNT, "procfs", AL_SIGNAL_HOST);
    if (!isnan(h->pressure))
        al_draft_number(d, "pressure_io_some_ratio", h->pressure, AL_UNIT_RATIO, "psi",
                        h->io == AL_IO_WAITS && h->pressure >= run->set->inefficient_pressure_above ? AL_SIGNAL_NODE : 0);
    switch (h->io) {
    case AL_IO_WAITS:
        if (h->io_wait > run->set->inefficient_io_wait_above)
            al_draft_message(d, "; %s waits for I/O %s of the time",
                             al_say_who(run->s, al_snapshot_proc(run->s, h->io_pid), h->io_pid).s,
                             al_say_percent(h->io_wait).s);
        else
            al_draft_message(d, "; %u of its threads %s blocked and the node's I/O pressure is %s", h->blocked,
                             h->blocked == 1 ? "is" : "are", al_say_percent(h->pressure).s);
        break;
    case AL_IO_NONE:
        if (starved)
            al_draft_message(d, "; its I/O wait has just passed");
        else if (!isnan(h->io_wait))
            al_draft_message(d, "; no I/O wait (%s)", al_say_percent(h->io_wait).s);
        else
            al_draft_message(d, "; no I/O wait seen");
        break;
    case AL_IO_UNKNOWN:
        al_draft_considered(d, "Starved by input: I/O wait of its processes could not be read, so it is not excluded. ");
        d->at_most = AL_CONFIDENCE_MEDIUM;
        break;
    }
}

// Where the job is, when its ranks tell: which one, its step, and what most of a step goes to.
static void say_rank(struct al_run *run, struct al_draft *d, const struct about *about)
{
    const struct al_rank *r = al_jobrank_first(run->view, about->gpus, about->gpu_count);
    if (!r)
        return;
    const char *phase = al_rank_phase(r);
    struct al_value step = r->m[AL_RANK_STEP], data = r->m[AL_RANK_SHARE_DATA];
    if (r->rank >= 0)
        al_draft_message(d, "; rank %d", (int)r->rank);
    else
        al_draft_message(d, "; the rank");
    if (phase && strcmp(phase, "starting") == 0) {
        al_draft_message(d, " has not begun to train");
        return;
    }
    if (al_ok(step)) {
        al_draft_message(d, " is past step %.0f", step.num);
        al_draft_number(d, "step", step.num, AL_UNIT_COUNT, "rank", 0);
    }
    if (phase && r->m[AL_RANK_PHASE].num == AL_RANK_BETWEEN)
        al_draft_message(d, "%s between steps", al_ok(step) ? "," : " is");
    else if (phase)
        al_draft_message(d, "%s in %s", al_ok(step) ? "," : " is", phase);
    if (!al_ok(data))
        return;
    al_draft_number(d, "data_ratio", data.num, AL_UNIT_RATIO, "rank", 0);
    if (data.num > run->set->training_data_above)
        al_draft_considered(d, "Its steps wait for data %s of their time: the input may be what holds the GPU up. ",
                            al_say_percent(data.num).s);
}

static void say_device(struct al_draft *d, const struct al_gpu *gpu, double mean)
{
    al_draft_number(d, "utilization_mean_ratio", mean, AL_UNIT_RATIO, "nvml", AL_SIGNAL_UTIL);
    if (al_ok(gpu->m[AL_GPU_GPM_SM]))
        al_draft_gpu(d, gpu, AL_GPU_GPM_SM, gpu->m[AL_GPU_GPM_SM].num < 0.3 ? AL_SIGNAL_ACTIVITY : 0);
    struct al_value power = gpu->m[AL_GPU_POWER], limit = gpu->m[AL_GPU_POWER_ENFORCED];
    if (al_ok(power) && al_ok(limit) && limit.num > 0)
        al_draft_number(d, "power_share_of_limit", power.num / limit.num, AL_UNIT_RATIO, "nvml",
                        power.num < 0.5 * limit.num ? AL_SIGNAL_POWER : 0);
}

// What the CPU side looks like. It names no cause for certain: it happens at the same time.
static void say_cpu(struct al_draft *d, const struct al_jobhost *h)
{
    if (h->worker_reads >= READS_ABOVE)
        al_draft_number(d, "worker_read_bytes_per_second", h->worker_reads, AL_UNIT_BYTES_PER_SECOND, "procfs", 0);
    if (!isnan(h->worker_cpu))
        al_draft_number(d, "worker_cpu_ratio", h->worker_cpu, AL_UNIT_RATIO, "procfs", 0);
    if (!isnan(h->rank_cpu))
        al_draft_number(d, "rank_cpu_ratio", h->rank_cpu, AL_UNIT_RATIO, "procfs", 0);
    if (h->serves) {
        al_draft_considered(d, "An inference engine or notebook without requests looks the same.");
        al_draft_advice(d, "If requests are waiting, raise the concurrency; otherwise free the GPU.");
    } else if (h->worker_cpu >= 0.8) {
        al_draft_considered(d, h->workers == 1 ? "Its DataLoader worker uses %s of a core: preprocessing may be the limit."
                                               : "Its DataLoader workers use %s of a core each: preprocessing may be the "
                                                 "limit.",
                            al_say_percent(h->worker_cpu).s);
        al_draft_advice(d, "More DataLoader workers (num_workers, dataloader_num_workers), or tokenise and decode ahead "
                           "of the run.");
    } else if (h->rank_cpu >= 0.9) {
        al_draft_considered(d, "The rank uses %s of a core: the GPU may wait for its Python code or kernel launches.",
                            al_say_percent(h->rank_cpu).s);
        al_draft_advice(d, "Look at the rank's Python stack: input or logging in the main process, .item() each step, "
                           "many small kernels (larger batch, torch.compile, CUDA graphs).");
    } else if (h->worker_reads >= READS_ABOVE) {
        al_draft_considered(d, "Its DataLoader workers (%u) read %s and hardly use the CPU: the rank may wait for storage "
                               "or the network behind it.",
                            h->workers, al_say_byte_rate(h->worker_reads).s);
        al_draft_advice(d, "Time one item of the data set. More workers or prefetch (num_workers, prefetch_factor), local "
                           "storage or fewer, larger files help if reading is what takes long.");
    } else {
        if (!isnan(h->rank_cpu))
            al_draft_considered(d, "Neither rank nor workers use the CPU much: evaluation, a lock, the network or a "
                                   "rollout may be waited for.");
        al_draft_advice(d, "Look at the rank's Python stack to see what it waits for; free the GPU if the job is done.");
    }
}

static void say_title(struct al_run *run, struct al_draft *d, const struct about *about, bool starved)
{
    double share;
    char who[40];
    enum al_look_kind kind = al_looks_kind(&about->look, &share);
    al_draft_title(d, starved ? "starved by input" : "running inefficiently");
    if (starved || !al_looks_enough(&about->look, run->set))
        return;
    if (about->look.elsewhere) {
        al_looks_say_elsewhere(&about->look, who, sizeof who);
        al_draft_title(d, ": the others wait for %s", who);
    } else if (kind != AL_LOOK_KIND_OTHER && share >= 0.5)
        al_draft_title(d, ": the main thread %s", al_look_kind_does(kind));
}

static void raise(struct al_run *run, struct al_track *t, const struct about *about, bool starved)
{
    int64_t since = INT64_MAX;
    double mean = 0;
    uint32_t count = 0, all = 0;
    bool was_busy = false;
    for (uint32_t i = 0; i < about->gpu_count; i++) {
        const struct al_ticks *k = about->ticks[i];
        since = k->low_since_ns < since ? k->low_since_ns : since;
        mean += k->all_sum / k->all_run / about->gpu_count;
        all = k->low_run > count ? k->all_run : all;
        count = k->low_run > count ? k->low_run : count;
        was_busy |= k->was_busy;
    }
    double seconds = (double)(run->s->monotonic_ns - since) / AL_NS_PER_S;
    // Compiling, autotuning and building communicators run kernels too, but hardly any.
    bool warming_up = !starved && !was_busy && is_young(run, about);
    bool warn = seconds >= run->set->inefficient_warning_after && !about->host.serves && !warming_up &&
                !al_looks_excuse(&about->look, run->set);
    struct state *state = t->state;
    struct al_draft *d = al_run_draft(run, starved ? "starved" : "inefficient",
                                      warn ? AL_LEVEL_WARNING : AL_LEVEL_INFO, (int)about->gpus[0]);
    say_title(run, d, about, starved);
    say_subject(run, d, about);
    al_draft_message(d, "%s utilisation over %s (%u ", al_say_percent(mean).s, al_say_seconds(seconds).s, count);
    if (all > count)
        al_draft_message(d, "of %u ", all);
    al_draft_message(d, "ticks under %s)", al_say_percent(run->set->inefficient_utilization_below).s);
    say_device(d, &run->s->gpus[about->gpus[0]], mean);
    say_holder(run, d, about);
    say_io(run, d, &about->host, starved && !al_looks_starve(&about->look, run->set));
    say_rank(run, d, about);
    bool looked = al_draft_look(run, d, &about->look);
    d->news = looked && !state->looked && t->open;
    state->looked = looked;
    double share;
    // An engine or notebook that runs code of no known kind may just have nothing to do.
    bool known = !about->host.serves || al_looks_kind(&about->look, &share) != AL_LOOK_KIND_OTHER;
    if (looked && known && al_draft_look_advice(d, &about->look)) {
        // it tells the cause itself
    } else if (starved) {
        al_draft_considered(d, "Running inefficiently without input in the way: excluded by the I/O wait.");
        al_draft_advice(d, "Put the data on faster or local storage, use fewer and larger files, read ahead "
                           "(num_workers, prefetch_factor), or keep it in the page cache.");
    } else {
        say_cpu(d, &about->host);
    }
    al_run_raise(run, t);
}

// ---- step ----

// Idle time of a phase that explains it does not count afterwards.
static void restart(const struct about *about)
{
    for (uint32_t i = 0; i < about->gpu_count; i++) {
        about->ticks[i]->low_run = about->ticks[i]->recent_count = 0;
        about->ticks[i]->bursts = false;
    }
}

// False also while the GPU is busy again, though not yet for long enough to end a finding.
static bool low_long_enough(const struct al_run *run, const struct about *about)
{
    for (uint32_t i = 0; i < about->gpu_count; i++)
        if ((about->ticks[i]->high_run > 0 && !about->ticks[i]->bursts) || about->ticks[i]->low_run < run->set->inefficient_ticks)
            return false;
    return true;
}

static void judge(struct al_run *run, struct al_track *t, struct about *about)
{
    struct state *state = t->state;
    host_of(run, about);
    const char *phase = phase_of(run, about);
    if (phase) {
        restart(about);
        al_run_too_little(run, t, phase);
        return;
    }
    if (!low_long_enough(run, about)) {
        if (t->open) // batches that come in bursts must not cut a look short
            al_run_look(run, about->gpus, about->gpu_count, &about->look);
        else
            al_run_too_little(run, t, "a phase in which the GPU may idle has only just ended");
        return; // what is open stays as it is until it is over
    }
    al_run_look(run, about->gpus, about->gpu_count, &about->look);
    settle_cause(state, about, run->set, t->open != NULL);
    raise(run, t, about, state->starved);
}

// The low GPUs that the job has for itself. *ret_pending: others of it may be becoming low too.
static void collect_low(const struct al_run *run, const struct al_job *job, struct al_track **tracks,
                        struct about *about, bool *ret_pending)
{
    about->gpu_count = 0;
    *ret_pending = false;
    for (uint32_t g = 0; g < run->s->gpu_count; g++) {
        struct al_ticks *t = tracks[g] ? &((struct state *)tracks[g]->state)->ticks : NULL;
        if (!t || !al_job_has(job, g) || run->view->job_of_gpu[g] < 0)
            continue;
        *ret_pending |= !t->low && t->low_run > 0;
        if (!t->low)
            continue;
        about->gpus[about->gpu_count] = g;
        about->ticks[about->gpu_count++] = t;
    }
}

static void judge_gpu(struct al_run *run, struct al_track *t, uint32_t g, bool taken, bool pending)
{
    struct al_ticks *ticks = &((struct state *)t->state)->ticks;
    const struct al_gpu *gpu = &run->s->gpus[g];
    enum al_holders holders = run->view->holders[g];
    struct about about = {.gpus = {g}, .gpu_count = 1, .ticks = {ticks}};
    if (gpu->info.mig_enabled || (gpu->info.is_mig && !al_ok(gpu->m[AL_GPU_UTIL_MEAN])))
        al_run_cannot(run, t, "MIG: the driver gives no utilisation");
    else if (!ticks->sample_ns)
        al_run_cannot(run, t, "no utilisation sample from the driver");
    else if (run->s->monotonic_ns - ticks->fresh_ns > AL_SECONDS(run->set->sensor_stale_after))
        al_run_cannot(run, t, "the driver's last utilisation sample is old");
    else if (holders == AL_HOLDERS_NONE || !ticks->low || taken)
        al_run_quiet(run, t);
    else if (cannot_tell_holders(holders))
        al_run_cannot(run, t, cannot_tell_holders(holders));
    else if (pending && !t->open)
        al_run_too_little(run, t, "other GPUs of the job are becoming idle too");
    else
        judge(run, t, &about);
}

static void step(struct al_run *run)
{
    struct al_track *tracks[AL_GPU_MAX] = {0};
    bool taken[AL_GPU_MAX] = {false}, pending[AL_GPU_MAX] = {false};
    for (uint32_t g = 0; g < run->s->gpu_count; g++) {
        tracks[g] = al_run_gpu(run, g, NULL);
        if (!tracks[g])
            continue;
        struct al_ticks *t = &((struct state *)tracks[g]->state)->ticks;
        al_ticks_take(t, &run->s->gpus[g], run->set, run->s);
        al_ticks_follow(t, run->view, g);
    }
    for (uint32_t j = 0; j < run->view->job_count; j++) {
        const struct al_job *job = &run->view->jobs[j];
        struct about about;
        bool waits;
        char entity[64];
        if (job->gpu_count < 2)
            continue;
        collect_low(run, job, tracks, &about, &waits);
        al_job_entity(job, entity, sizeof entity);
        struct al_track *t = al_run_track(run, entity, NULL);
        bool several = t && about.gpu_count > 1;
        for (uint32_t g = 0; g < run->s->gpu_count; g++)
            pending[g] |= waits && al_job_has(job, g);
        for (uint32_t i = 0; i < about.gpu_count; i++)
            taken[about.gpus[i]] |= several;
        if (several && waits && !t->open)
            al_run_too_little(run, t, "other GPUs of the job are becoming idle too");
        else if (several)
            judge(run, t, &about);
        else if (t)
            al_run_quiet(run, t);
    }
    for (uint32_t g = 0; g < run->s->gpu_count; g++)
        if (tracks[g])
            judge_gpu(run, tracks[g], g, taken[g], pending[g]);
}

const struct al_rule al_rule_inefficient = {
    .name = "inefficient",
    .groups = AL_GROUP_FAST | AL_GROUP_SAMPLES | AL_GROUP_SLOW | AL_GROUP_GPM | AL_GROUP_PROCESS | AL_GROUP_HOST |
              AL_GROUP_NODE,
    .enabled = AL_ENABLED(inefficient),
    .state_size = sizeof(struct state),
    .step = step,
};
