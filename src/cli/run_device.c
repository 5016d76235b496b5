// SPDX-License-Identifier: Apache-2.0
// The GPUs beside the job: opened after it was started, on a thread of their own, so that the driver delays nothing.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "alula-version.h"
#include "base/str.h"
#include "cli/run.h"
#include "cli/watch_text.h"
#include "detect/detect.h"
#include "device/device.h"
#include "host/host.h"
#include "launch/end.h"
#include "store/store.h"

#define WAKE SIGPROF // not among the signals that are passed on
#define SAMPLE_STANDS_FOR_NS AL_NS_PER_S // at most: a gap counts for nothing

static struct al_run_gpu *gpu_of(struct al_run_device *d, const struct al_gpu_info *info) {
    for (uint32_t i = 0; i < d->gpu_count; i++)
        if (strcmp(d->gpus[i].uuid, info->uuid) == 0)
            return &d->gpus[i];
    if (d->gpu_count == AL_GPU_MAX)
        return NULL;
    struct al_run_gpu *g = &d->gpus[d->gpu_count];
    if (!g->samples && !(g->samples = calloc(AL_RUN_PENDING, sizeof *g->samples)))
        return NULL;
    d->gpu_count++;
    g->index = info->index;
    (void)al_str_copy(g->uuid, sizeof g->uuid, info->uuid);
    (void)al_str_copy(g->name, sizeof g->name, info->name);
    return g;
}

static void count_sample(struct al_run_gpu *g, struct al_fresh s) {
    int64_t passed = g->last_ns ? s.at_ns - g->last_ns : 0;
    g->last_ns = s.at_ns;
    if (passed <= 0 || passed > SAMPLE_STANDS_FOR_NS)
        passed = passed <= 0 ? AL_NS_PER_S / 5 : SAMPLE_STANDS_FOR_NS;
    g->ratio_ns += s.ratio * (double)passed;
    g->covered_ns += (double)passed;
    if (s.ratio > g->max)
        g->max = s.ratio;
}

// Counts what lies between the first step's begin and the last step's end so far; what is later waits.
static void settle(struct al_run_gpu *g, int64_t begin_ns, int64_t end_ns) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->pending; i++) {
        struct al_fresh s = g->samples[i];
        if (begin_ns && s.at_ns >= begin_ns && s.at_ns <= end_ns)
            count_sample(g, s);
        else if (!begin_ns || s.at_ns > end_ns)
            g->samples[kept++] = s;
    }
    g->pending = kept;
}

static void push_sample(struct al_run_gpu *g, int64_t at_ns, double ratio) {
    if (g->pending == AL_RUN_PENDING) {
        memmove(g->samples, g->samples + 1, (AL_RUN_PENDING - 1) * sizeof *g->samples);
        g->pending--;
    }
    g->samples[g->pending++] = (struct al_fresh){at_ns, ratio};
    g->ratio_now = ratio;
    g->ratio_known = true;
}

static void take_gpu(struct al_run_device *d, const struct al_gpu *g) {
    struct al_run_gpu *own = gpu_of(d, &g->info);
    struct al_value used = g->m[AL_GPU_MEM_USED], total = g->m[AL_GPU_MEM_TOTAL];
    if (!own)
        return;
    for (uint32_t i = 0; i < g->fresh_count && i < AL_FRESH_MAX; i++)
        push_sample(own, g->fresh[i].at_ns, g->fresh[i].ratio);
    if (!g->fresh_count && al_ok(g->m[AL_GPU_UTIL]) && !al_ok(g->m[AL_GPU_UTIL_MEAN]))
        push_sample(own, g->m[AL_GPU_UTIL].at_ns, g->m[AL_GPU_UTIL].num);
    settle(own, atomic_load(&d->begin_ns), atomic_load(&d->end_ns));
    if (al_ok(used) && al_ok(total)) {
        own->memory_known = true;
        own->memory_now = used.num;
        own->memory_total = total.num;
        if (used.num > own->memory_most)
            own->memory_most = used.num;
    }
}

static int on_tick(struct al_sink *sink, const struct al_snapshot *s) {
    struct al_run_device *d = (struct al_run_device *)sink;
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = 0; i < s->gpu_count; i++)
        take_gpu(d, &s->gpus[i]);
    for (uint32_t i = 0; i < s->row_count; i++) {
        struct al_run_gpu *g = s->rows[i].gpu < s->gpu_count ? gpu_of(d, &s->gpus[s->rows[i].gpu].info) : NULL;
        if (g && !g->used_by_job && al_end_descends(s->rows[i].pid, d->job))
            g->used_by_job = true;
    }
    pthread_mutex_unlock(&d->lock);
    return d->store ? d->store->ops->tick(d->store, s) : 0;
}

// On a node that others use too, their troubles are not this job's.
static bool concerns_job(const struct al_run_device *d, const struct al_snapshot *s, const struct al_finding *f) {
    if (f->pid > 0)
        return al_end_descends(f->pid, d->job);
    if (f->job > 0)
        return f->job == d->job || al_end_descends(f->job, d->job) || al_end_descends(d->job, f->job);
    if (f->gpu < 0 || (uint32_t)f->gpu >= s->gpu_count)
        return false;
    for (uint32_t i = 0; i < d->gpu_count; i++)
        if (strcmp(d->gpus[i].uuid, s->gpus[f->gpu].info.uuid) == 0)
            return d->gpus[i].used_by_job;
    return false;
}

static int on_finding(struct al_sink *sink, const struct al_snapshot *s, const struct al_finding *f) {
    struct al_run_device *d = (struct al_run_device *)sink;
    pthread_mutex_lock(&d->lock);
    bool ours = concerns_job(d, s, f);
    if (ours && f->phase != AL_PHASE_ENDED && (int)f->level > d->level)
        d->level = (int)f->level;
    d->findings += ours && f->phase == AL_PHASE_BEGAN;
    pthread_mutex_unlock(&d->lock);
    if (ours && !d->quiet && f->phase != AL_PHASE_UPDATED) {
        struct al_buf b = AL_BUF_INIT;
        al_buf_str(&b, "alula: ");
        al_watch_finding_lines(&b, s, f, f->phase == AL_PHASE_BEGAN, d->color);
        al_run_print(&b);
    }
    return d->store ? d->store->ops->finding(d->store, s, f) : 0;
}

static const struct al_sink_ops device_ops = {
    .name = "run",
    .groups = AL_GROUP_FAST | AL_GROUP_SAMPLES | AL_GROUP_PROCESS,
    .tick = on_tick,
    .finding = on_finding,
};
static const struct al_sink_ops record_ops = {
    .name = "run --record", .groups = AL_GROUP_ALL, .tick = on_tick, .finding = on_finding};

static void fail(struct al_run_device *d, const char *why) {
    pthread_mutex_lock(&d->lock);
    (void)al_str_copy(d->missing, sizeof d->missing, why);
    pthread_mutex_unlock(&d->lock);
}

struct parts {
    struct al_device *device;
    struct al_host *host;
    struct al_detect *detect;
    struct al_collect *collect;
    struct al_clock clock;
};

static int open_parts(struct al_run_device *d, struct parts *p) {
    const struct al_nvml_options nvml = {.gpus = d->options->gpus};
    const char *root = getenv("ALULA_HOST_ROOT");
    const struct al_procfs_options host = {.root = root ? root : "/", .no_cmdline = d->options->no_cmdline};
    struct al_device_error e = {{0}};
    const struct al_settings *set = &d->settings;
    int64_t interval = d->options->interval_ns;
    al_clock_real(&p->clock);
    int result = al_nvml_open(&nvml, &p->device, &e);
    if (result) // the host alone, as on machines without an NVIDIA driver
        fail(d, *e.message ? e.message : al_error_text(result));
    result = al_procfs_open(&host, &p->host);
    if (!result)
        al_procfs_roots(p->host, &d->job, 1);
    if (!result)
        result = al_detect_new(set, &p->detect);
    const struct al_collect_options options = {
        .device = p->device,
        .host = p->host,
        .clock = &p->clock,
        .interval_ns = interval ? interval : (int64_t)(set->sampling_interval * 1e9),
        .process_period_ns = (int64_t)(set->sampling_process_interval * 1e9),
        .slow_period_ns = (int64_t)(set->sampling_slow_interval * 1e9),
        .detect = p->detect,
    };
    if (!result)
        result = al_collect_new(&options, &p->collect);
    if (result)
        fail(d, al_error_text(result));
    return result;
}

static void open_record(struct al_run_device *d) {
    const struct al_store_options o = {.path = d->record, .version = AL_VERSION};
    struct al_store_error e = {{0}};
    if (!d->record)
        return;
    int result = al_store_writer(&o, &d->store, &e);
    if (result)
        al_cli_error("run: --record %s: %s; the job runs unrecorded", d->record, *e.text ? e.text : al_error_text(result));
    else
        d->sink.ops = &record_ops;
}

static void close_record(struct al_run_device *d) {
    struct al_store_error e = {{0}};
    if (d->store && al_store_close(d->store, &e))
        al_cli_error("run: --record %s: %s; what was written before is kept", d->record, e.text);
    d->store = NULL;
}

static void *live(void *user) {
    struct al_run_device *d = user;
    struct parts p = {0};
    int result = open_parts(d, &p);
    if (!result) {
        open_record(d);
        (void)al_collect_add_sink(p.collect, &d->sink);
        pthread_mutex_lock(&d->lock);
        d->open = p.device != NULL;
        pthread_mutex_unlock(&d->lock);
        result = al_collect_run(p.collect, 0, &d->stop);
        if (result)
            fail(d, al_error_text(result));
        close_record(d);
    }
    if (p.collect && al_collect_stop(p.collect) == AL_E_TIMEOUT) {
        d->hangs = true; // its memory stays with the driver's thread
        return NULL;
    }
    al_collect_free(p.collect);
    al_detect_free(p.detect);
    al_device_free(p.device);
    al_host_free(p.host);
    return NULL;
}

static void on_wake(int number) {
    (void)number;
}

void al_run_device_start(struct al_run *r) {
    struct al_run_device *d = &r->device;
    pthread_mutex_init(&d->lock, NULL);
    d->sink.ops = &device_ops;
    d->options = &r->options;
    d->settings = r->settings;
    d->record = r->record;
    d->job = r->job.pid;
    d->quiet = r->quiet;
    d->color = al_cli_use_color(&r->options, stderr);
    d->level = -1;
    (void)al_str_copy(d->missing, sizeof d->missing, "the driver had not answered before the job ended");
    struct sigaction wake = {.sa_handler = on_wake};
    (void)sigaction(WAKE, &wake, NULL);
    d->gpus = calloc(AL_GPU_MAX, sizeof *d->gpus);
    d->started = d->gpus && pthread_create(&d->thread, NULL, live, d) == 0;
}

// The loop sleeps between ticks: a signal to its thread wakes it.
void al_run_device_stop(struct al_run *r) {
    struct al_run_device *d = &r->device;
    if (!d->started || d->joined)
        return;
    atomic_store(&d->stop, SIGTERM);
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    for (int i = 0; i < (d->record ? 120 : 12) && !d->joined; i++) {
        (void)pthread_kill(d->thread, WAKE);
        until.tv_nsec += 25000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        d->joined = pthread_timedjoin_np(d->thread, NULL, &until) == 0;
    }
    // A driver that hangs keeps its thread; alula leaves by _exit and waits for nothing.
    d->hangs |= !d->joined;
    for (uint32_t i = 0; i < d->gpu_count && !d->hangs; i++)
        settle(&d->gpus[i], atomic_load(&d->begin_ns), atomic_load(&d->end_ns));
}

static uint32_t used_gpus(const struct al_run_device *d) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < d->gpu_count; i++)
        used += d->gpus[i].used_by_job;
    return used;
}

// Called with the lock held.
static void utilization(struct al_run_device *d, struct al_run_utilization *u) {
    double ratio_ns = 0, covered_ns = 0;
    uint32_t used = used_gpus(d);
    if (!d->open || !d->gpu_count) {
        (void)al_str_copy(u->why, sizeof u->why, *d->missing ? d->missing : "no GPU");
        return;
    }
    // Where pids cannot be told (containers), the only GPU must be the one that the job's allocator speaks of.
    bool cuda = atomic_load(&d->cuda_seen), only = !used && d->gpu_count == 1 && cuda;
    if (!used && !only) {
        (void)al_str_copy(u->why, sizeof u->why,
                          cuda ? "cannot tell which GPUs are the job's: the driver lists none of its processes here"
                               : "no process of the job was seen on a GPU");
        return;
    }
    for (uint32_t i = 0; i < d->gpu_count; i++) {
        const struct al_run_gpu *g = &d->gpus[i];
        if (!g->used_by_job && !only)
            continue;
        ratio_ns += g->ratio_ns;
        covered_ns += g->covered_ns;
        if (g->max > u->max)
            u->max = g->max;
    }
    u->known = covered_ns > 0;
    u->mean = u->known ? ratio_ns / covered_ns : 0;
    (void)snprintf(u->why, sizeof u->why, "%s",
                   !u->known ? "no utilisation sample falls into the training steps"
                   : only    ? "NVML utilisation samples during training; the only GPU, taken to be the job's"
                             : "NVML utilisation samples during training, GPUs by the driver's process list");
}

void al_run_utilization(struct al_run *r, struct al_run_utilization *ret) {
    *ret = (struct al_run_utilization){0};
    if (!r->device.started) {
        (void)al_str_copy(ret->why, sizeof ret->why, "not watched");
        return;
    }
    pthread_mutex_lock(&r->device.lock);
    utilization(&r->device, ret);
    pthread_mutex_unlock(&r->device.lock);
}
