// SPDX-License-Identifier: Apache-2.0
#include "collect/collect.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "collect/looks.h"
#include "collect/merge.h"
#include "collect/windows.h"
#include "collect/worker.h"
#include "detect/detect.h"
#include "model/finding.h"

#define SINKS_MAX 16
#define WINDOWS_MAX 4096
#define DEFAULT_PROCESS_NS (2 * AL_NS_PER_S)
#define DEFAULT_SLOW_NS (2 * AL_NS_PER_S)

struct al_collect {
    struct al_collect_options o;
    struct al_worker *worker; // NULL when the device is sampled inline
    struct al_looks *looks;    // NULL: stacks are never looked at
    pid_t wanted[AL_COLLECT_LOOKS]; // besides the rules
    uint32_t wanted_count;
    struct al_series_set *windows; // NULL: none
    struct al_sink *sinks[SINKS_MAX];
    size_t sink_count;
    int sink_result;

    // `now` is filled out of sight of readers and becomes `shown` under the lock, with windows and rules.
    struct al_snapshot *now, *shown;
    struct al_snapshot *slow, *kept; // kept: procs and node of the last host reading
    pthread_mutex_t lock;
    bool have_snapshot, driver_late;
    int64_t slow_asked_ns, fast_taken_ns;
    int64_t node_ns, procs_ns; // last host readings, 0 never
    uint64_t ticks, skipped, late;
    int64_t jitter_ns, jitter_sum_ns, jitter_max_ns;
    int64_t start_wall_ns, start_cpu_ns;
};

static int new_looks(struct al_collect *c) {
    const struct al_settings *set = c->o.looks;
    const struct al_looks_options o = {set->stacks_rate, set->stacks_length, set->stacks_every, (uint32_t)set->stacks_processes};
    return al_looks_new(&o, &c->looks);
}

int al_collect_new(const struct al_collect_options *options, struct al_collect **ret) {
    struct al_collect *c = calloc(1, sizeof *c);
    if (!c)
        return AL_E_NOMEM;
    c->o = *options;
    pthread_mutex_init(&c->lock, NULL);
    if (!c->o.process_period_ns)
        c->o.process_period_ns = DEFAULT_PROCESS_NS;
    if (!c->o.slow_period_ns)
        c->o.slow_period_ns = DEFAULT_SLOW_NS;
    c->start_wall_ns = al_monotonic_ns();
    c->start_cpu_ns = al_process_cpu_ns();
    c->now = al_snapshot_new();
    c->shown = al_snapshot_new();
    c->slow = al_snapshot_new();
    c->kept = al_snapshot_new();
    int result = c->now && c->shown && c->slow && c->kept ? 0 : AL_E_NOMEM;
    if (!result && c->o.window_ns)
        result = al_series_set_new(c->o.window_ns, c->o.windows_max ? c->o.windows_max : WINDOWS_MAX, &c->windows);
    if (!result && c->o.looks && c->o.looks->stacks_enabled != 0)
        result = new_looks(c);
    if (!result && c->o.device && !c->o.inline_device)
        result = al_worker_new(c->o.device, &c->worker);
    if (result) {
        al_collect_free(c);
        return result;
    }
    *ret = c;
    return 0;
}

int al_collect_stop(struct al_collect *c) {
    al_looks_free(c->looks);
    c->looks = NULL;
    int result = al_worker_free(c->worker);
    c->worker = NULL;
    return result;
}

struct al_collect *al_collect_free(struct al_collect *c) {
    if (c) {
        (void)al_collect_stop(c);
        al_snapshot_free(c->now);
        al_snapshot_free(c->shown);
        al_snapshot_free(c->slow);
        al_snapshot_free(c->kept);
        al_series_set_free(c->windows);
        pthread_mutex_destroy(&c->lock);
        free(c);
    }
    return NULL;
}

int al_collect_add_sink(struct al_collect *c, struct al_sink *sink) {
    if (c->sink_count == SINKS_MAX)
        return AL_E_TOOBIG;
    c->sinks[c->sink_count++] = sink;
    return 0;
}

static uint32_t wanted_groups(const struct al_collect *c) {
    uint32_t groups = c->o.groups;
    for (size_t i = 0; i < c->sink_count; i++)
        groups |= c->sinks[i]->ops->groups;
    return groups | (c->o.detect ? al_detect_groups(c->o.detect) : 0);
}

// --- the device half ---

static void note_hang(struct al_collect *c) {
    struct al_device *inner = atomic_load(&c->o.device->inner);
    const struct al_call_watch *watch = inner ? &inner->watch : &c->o.device->watch;
    const char *name = atomic_load(&watch->name);
    if (!name)
        return;
    (void)al_str_copy(c->now->hung_call, sizeof c->now->hung_call, name);
    c->now->hung_since_ns = atomic_load(&watch->since_ns);
}

static int sample_inline(struct al_collect *c, uint32_t groups) {
    al_snapshot_clear(c->now);
    if (!c->o.device)
        return 0;
    int result = c->o.device->ops->sample(c->o.device, c->now, groups, al_clock_now(c->o.clock));
    al_snapshot_sort(c->now);
    return result;
}

// Takes what the worker has and says in statuses how old it is.
static int take(struct al_collect *c, uint32_t groups, int64_t now) {
    int64_t fast_ns, slow_ns;
    int result = al_worker_take(c->worker, c->now, c->slow, &fast_ns, &slow_ns);
    if (fast_ns == c->fast_taken_ns) {
        al_merge_mark_stale(c->now, AL_FAST_GROUPS);
        note_hang(c);
    }
    c->fast_taken_ns = fast_ns;
    al_merge_slow(c->now, c->slow);
    if (slow_ns && now - slow_ns > 3 * c->o.slow_period_ns + c->o.interval_ns)
        al_merge_mark_stale(c->now, groups & ~(uint32_t)AL_FAST_GROUPS);
    // The slow round runs between ticks; a hang in it shows at the next tick's request.
    return fast_ns ? 0 : result;
}

static int sample_by_worker(struct al_collect *c, uint32_t groups, bool everything, int64_t wait_ns) {
    int64_t now = al_monotonic_ns();
    bool whole = everything || !c->have_snapshot; // the first tick shows all, so that nothing looks missing
    uint32_t slow = groups & ~(uint32_t)AL_FAST_GROUPS & ~(uint32_t)(AL_GROUP_HOST | AL_GROUP_NODE | AL_GROUP_PSS);
    if (!everything && c->slow_asked_ns && now - c->slow_asked_ns < c->o.slow_period_ns - c->o.interval_ns / 2)
        slow = 0;
    if (al_worker_request(c->worker, (groups & AL_FAST_GROUPS) | AL_GROUP_FAST, slow) == 0 && slow)
        c->slow_asked_ns = now;
    // While a call hangs there is no use in waiting for it at every tick.
    int result = al_worker_wait(c->worker, whole, c->driver_late && !everything ? AL_NS_PER_MS : wait_ns);
    c->driver_late = result != 0;
    c->late += result != 0;
    int taken = take(c, groups, now);
    if (c->driver_late)
        note_hang(c);
    return everything && result ? result : taken;
}

// --- the host half ---

// True when the GPUs or ranks name a process that the kept host reading does not have.
static bool new_process(const struct al_collect *c) {
    for (uint32_t i = 0; i < c->now->rank_count; i++)
        if (!al_snapshot_proc(c->kept, c->now->ranks[i].pid) && !al_snapshot_rank(c->shown, c->now->ranks[i].pid))
            return true; // one that was there before and has no process ended
    for (uint32_t i = 0; i < c->now->row_count; i++)
        if (!al_snapshot_proc(c->kept, c->now->rows[i].pid))
            return true;
    return false;
}

static int copy_procs(struct al_snapshot *to, const struct al_snapshot *from) {
    to->proc_count = 0;
    for (uint32_t i = 0; i < from->proc_count; i++) {
        struct al_proc *p = al_snapshot_add_proc(to);
        if (!p)
            return AL_E_NOMEM;
        *p = from->procs[i];
    }
    return 0;
}

// The device half already wrote the driver's versions into the node; the rest comes from the host reading.
static void copy_node(struct al_node *to, const struct al_node *from) {
    struct al_node device = *to;
    *to = *from;
    memcpy(to->driver_version, device.driver_version, sizeof to->driver_version);
    memcpy(to->nvml_version, device.nvml_version, sizeof to->nvml_version);
    memcpy(to->cuda_version, device.cuda_version, sizeof to->cuda_version);
}

static int sample_host(struct al_collect *c, uint32_t groups, bool everything) {
    int64_t now = al_clock_now(c->o.clock);
    int result = 0;
    if (!c->o.host)
        return 0;
    if (everything || !c->node_ns || now - c->node_ns >= c->o.slow_period_ns - c->o.interval_ns / 2) {
        result = c->o.host->ops->node(c->o.host, c->kept, now);
        c->node_ns = now;
    }
    copy_node(&c->now->node, &c->kept->node);
    if (result || !(groups & (AL_GROUP_HOST | AL_GROUP_PSS)))
        return result;
    if (!everything && c->procs_ns && now - c->procs_ns < c->o.process_period_ns - c->o.interval_ns / 2 &&
        !new_process(c))
        return copy_procs(c->now, c->kept);
    result = c->o.host->ops->processes(c->o.host, c->now, groups, now);
    al_snapshot_sort(c->now);
    c->procs_ns = now;
    return result ? result : copy_procs(c->kept, c->now);
}

// --- ticks ---

// Fills c->now.
static int take_snapshot(struct al_collect *c, bool everything, int64_t wait_ns) {
    uint32_t groups = wanted_groups(c);
    int result = c->worker ? sample_by_worker(c, groups, everything, wait_ns) : sample_inline(c, groups);
    c->now->tick = c->ticks;
    c->now->jitter_ns = c->jitter_ns;
    c->now->monotonic_ns = al_clock_now(c->o.clock);
    c->now->realtime_ns = al_clock_realtime(c->o.clock);
    c->now->interval_ns = c->o.interval_ns;
    c->now->groups = groups;
    if (!result && c->o.ranks) {
        c->now->rank_count = c->now->look_count = 0;
        result = c->o.ranks->ops->fill(c->o.ranks, c->now, c->now->monotonic_ns);
        al_snapshot_sort(c->now);
    }
    if (!result && c->looks) {
        result = al_looks_take(c->looks, c->now);
        al_snapshot_sort(c->now);
    }
    return result ? result : sample_host(c, groups, everything);
}

static void show(struct al_collect *c) {
    struct al_snapshot *s = c->shown;
    c->shown = c->now;
    c->now = s;
    c->have_snapshot = true;
    if (c->windows)
        al_windows_push(c->windows, c->shown, c->o.slow_period_ns, c->o.process_period_ns);
}

int al_collect_once(struct al_collect *c, int64_t settle_ns, int64_t timeout_ns, const struct al_snapshot **ret) {
    c->ticks++;
    int result = take_snapshot(c, true, timeout_ns);
    if (!result && settle_ns > 0) {
        (void)al_clock_sleep_until(c->o.clock, al_clock_now(c->o.clock) + settle_ns);
        c->ticks++;
        result = take_snapshot(c, true, timeout_ns);
    }
    pthread_mutex_lock(&c->lock);
    show(c); // also a failed one: it says which call hangs
    pthread_mutex_unlock(&c->lock);
    *ret = c->shown;
    return result;
}

static void emit(void *user, const struct al_finding *finding) {
    struct al_collect *c = user;
    struct al_finding f = *finding;
    if (!f.began_realtime_ns)
        f.began_realtime_ns = c->shown->realtime_ns - (c->shown->monotonic_ns - f.began_ns);
    for (size_t i = 0; i < c->sink_count && !c->sink_result; i++)
        if (c->sinks[i]->ops->finding)
            c->sink_result = c->sinks[i]->ops->finding(c->sinks[i], c->shown, &f);
}

// What the rules, or those who look at a job's steps, want to see.
static void ask_looks(struct al_collect *c) {
    pid_t pids[AL_DETECT_LOOKS + AL_COLLECT_LOOKS];
    struct al_look_target targets[AL_LOOK_TARGETS];
    size_t count = c->o.detect ? al_detect_looks(c->o.detect, pids, AL_DETECT_LOOKS) : 0;
    for (uint32_t i = 0; i < c->wanted_count; i++) {
        size_t k = 0;
        while (k < count && pids[k] != c->wanted[i])
            k++;
        if (k == count)
            pids[count++] = c->wanted[i];
    }
    al_looks_ask(c->looks, targets, al_looks_targets(c->shown, pids, count, targets, AL_LOOK_TARGETS));
}

static int one_tick(struct al_collect *c) {
    c->ticks++;
    // The first round opens devices and reads what is constant: it may take longer than the rest.
    int64_t wait = c->have_snapshot ? c->o.interval_ns * 4 / 5 : 5 * AL_NS_PER_S;
    int result = take_snapshot(c, false, wait);
    if (result) {
        c->ticks--; // nobody saw it
        return result;
    }
    pthread_mutex_lock(&c->lock);
    show(c);
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < c->sink_count && !c->sink_result; i++)
        if (c->sinks[i]->ops->tick)
            c->sink_result = c->sinks[i]->ops->tick(c->sinks[i], c->shown);
    pthread_mutex_lock(&c->lock);
    if (!c->sink_result && c->o.detect)
        result = al_detect_tick(c->o.detect, c->shown, emit, c);
    if (!result && c->looks)
        ask_looks(c);
    pthread_mutex_unlock(&c->lock);
    return c->sink_result ? c->sink_result : result;
}

static void note_jitter(struct al_collect *c, int64_t due) {
    int64_t jitter = al_clock_now(c->o.clock) - due;
    c->jitter_ns = jitter;
    c->jitter_sum_ns += jitter;
    if (jitter > c->jitter_max_ns)
        c->jitter_max_ns = jitter;
}

// False when it is to stop. In slices, since a signal that comes just before the sleep does not end it.
static bool sleep_until(struct al_collect *c, int64_t due, const _Atomic int *stop) {
    int64_t now = al_clock_now(c->o.clock);
    while (now < due && !atomic_load(stop)) {
        (void)al_clock_sleep_until(c->o.clock, due - now > AL_NS_PER_S ? now + AL_NS_PER_S : due);
        now = al_clock_now(c->o.clock);
    }
    return !atomic_load(stop);
}

int al_collect_run(struct al_collect *c, int64_t duration_ns, const _Atomic int *stop) {
    int64_t start = al_clock_now(c->o.clock), due = start;
    for (;;) {
        note_jitter(c, due);
        int result = one_tick(c);
        if (result || atomic_load(stop))
            return result;
        due += c->o.interval_ns;
        int64_t now = al_clock_now(c->o.clock);
        if (now > due) { // too slow, or the machine slept: go on in step, and say how many were left out
            int64_t missed = (now - due) / c->o.interval_ns;
            c->skipped += (uint64_t)missed;
            due += missed * c->o.interval_ns;
        }
        if (duration_ns && due - start > duration_ns)
            return 0;
        if (!sleep_until(c, due, stop))
            return 0;
    }
}

void al_collect_set_interval(struct al_collect *c, int64_t interval_ns) {
    c->o.interval_ns = interval_ns;
}

int al_collect_attr(struct al_collect *c, uint32_t gpu, enum al_attr attr, int64_t timeout_ns,
                    struct al_attr_value *ret) {
    if (c->worker)
        return al_worker_attr(c->worker, gpu, attr, timeout_ns, ret);
    if (!c->o.device)
        return AL_E_NOENT;
    return c->o.device->ops->attr(c->o.device, gpu, attr, ret);
}

void al_collect_look_at(struct al_collect *c, const pid_t *pids, uint32_t count) {
    c->wanted_count = count < AL_COLLECT_LOOKS ? count : AL_COLLECT_LOOKS;
    if (c->wanted_count)
        memcpy(c->wanted, pids, c->wanted_count * sizeof *pids);
}

bool al_collect_looks(const struct al_collect *c) {
    return c->looks != NULL;
}

void al_collect_lock(struct al_collect *c) {
    pthread_mutex_lock(&c->lock);
}

void al_collect_unlock(struct al_collect *c) {
    pthread_mutex_unlock(&c->lock);
}

const struct al_snapshot *al_collect_snapshot(const struct al_collect *c) {
    return c->have_snapshot ? c->shown : NULL;
}

const struct al_series_set *al_collect_series(const struct al_collect *c) {
    return c->windows;
}

void al_collect_cost(const struct al_collect *c, struct al_collect_cost *ret) {
    *ret = (struct al_collect_cost){.ticks = c->ticks,
                                    .skipped = c->skipped,
                                    .late = c->late,
                                    .jitter_mean_ns = c->ticks ? c->jitter_sum_ns / (int64_t)c->ticks : 0,
                                    .jitter_max_ns = c->jitter_max_ns,
                                    .wall_ns = al_monotonic_ns() - c->start_wall_ns,
                                    .process_cpu_ns = al_process_cpu_ns() - c->start_cpu_ns,
                                    .device_cpu_ns = c->worker ? al_worker_cpu_ns(c->worker) : 0};
}
