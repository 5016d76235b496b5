// SPDX-License-Identifier: Apache-2.0
// The GPUs beside the job: opened after it was started, on a thread of their own, so that the driver delays nothing.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "cli/run.h"
#include "cli/watch_text.h"
#include "detect/detect.h"
#include "device/shared.h"
#include "host/host.h"
#include "job/device_memory.h"
#include "launch/end.h"

#define WAKE SIGPROF // not among the signals that are passed on

static bool is_job(const void *user, pid_t pid) {
    const struct al_run *r = user;
    return al_end_descends(pid, r->job.pid);
}

static void take_driver(void *user, uint32_t rank, uint16_t code, int32_t device, int64_t bytes) {
    struct al_run *r = user;
    al_run_own_mark(r, rank, AL_EVENT_DRIVER, code, device, bytes, r->ranks[rank].book->tally.step);
}

static int on_tick(struct al_sink *sink, const struct al_snapshot *s) {
    struct al_run_device *d = (struct al_run_device *)sink;
    pthread_mutex_lock(&d->run->lock);
    al_book_snapshot(&d->run->book, s, is_job, d->run);
    al_book_driver(&d->run->book, s, take_driver, d->run);
    d->run->looks.possible = al_collect_looks(d->collect);
    al_collect_look_at(d->collect, d->run->looks.pids, d->run->looks.count);
    pthread_mutex_unlock(&d->run->lock);
    al_run_record_tick(d->run, s);
    return 0;
}

// On a node that others use too, their troubles are not this job's.
static bool concerns_job(const struct al_run *r, const struct al_snapshot *s, const struct al_finding *f) {
    pid_t job = r->job.pid;
    // Of a rank's host memory the rule on its steps tells, which knows them.
    if (strcmp(f->rule, "host_memory") == 0 && al_book_leader(&r->book))
        return false;
    if (f->pid > 0)
        return al_end_descends(f->pid, job);
    if (f->job > 0)
        return f->job == job || al_end_descends(f->job, job) || al_end_descends(job, f->job);
    if (f->gpu < 0 || (uint32_t)f->gpu >= s->gpu_count)
        return false;
    const struct al_book_gpu *g = al_book_gpu(&r->book, s->gpus[f->gpu].info.uuid);
    return g && g->used_by_job;
}

// An update that is the first to say what the processes execute. A finding that begins with it says so by itself.
static bool first_line(struct al_run_device *d, const struct al_finding *f) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    if (!al_watch_is_looked(f))
        return false;
    for (const char *p = f->key; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3ULL;
    for (uint32_t i = 0; i < d->looked_count; i++)
        if (d->looked[i] == hash)
            return false;
    if (d->looked_count == sizeof d->looked / sizeof *d->looked)
        return false;
    d->looked[d->looked_count++] = hash;
    return true;
}

static int on_finding(struct al_sink *sink, const struct al_snapshot *s, const struct al_finding *f) {
    struct al_run_device *d = (struct al_run_device *)sink;
    struct al_run *r = d->run;
    pthread_mutex_lock(&r->lock);
    bool ours = concerns_job(r, s, f);
    pthread_mutex_unlock(&r->lock);
    if (ours && f->phase != AL_PHASE_ENDED && al_run_fails_on(r, f))
        r->failed = true;
    if (ours && f->phase != AL_PHASE_ENDED && al_run_is_leak(f))
        r->leak = true;
    bool line = f->phase == AL_PHASE_UPDATED && first_line(d, f);
    if (ours && !r->quiet && (line || f->phase != AL_PHASE_UPDATED)) {
        struct al_buf b = AL_BUF_INIT;
        al_buf_str(&b, "alula: ");
        al_watch_finding_lines(&b, s, f, line || f->phase == AL_PHASE_BEGAN, d->color);
        al_run_print(&b);
    }
    al_run_record_finding(r, s, f);
    return 0;
}

static const struct al_sink_ops device_ops = {
    .name = "run",
    .groups = AL_GROUP_FAST | AL_GROUP_SAMPLES | AL_GROUP_PROCESS,
    .tick = on_tick,
    .finding = on_finding,
};
static const struct al_sink_ops record_ops = {
    .name = "run, recorded", .groups = AL_GROUP_ALL, .tick = on_tick, .finding = on_finding};

static void fail(struct al_run_device *d, const char *why) {
    pthread_mutex_lock(&d->run->lock);
    al_book_device_missing(&d->run->book, why);
    pthread_mutex_unlock(&d->run->lock);
}

// The job's ranks as rows of the snapshot.
struct ranks {
    struct al_ranks base; // first
    struct al_run *run;
};

static int fill_ranks(struct al_ranks *ranks, struct al_snapshot *s, int64_t now_ns) {
    struct al_run *r = ((struct ranks *)ranks)->run;
    (void)now_ns;
    pthread_mutex_lock(&r->lock);
    al_book_fill(&r->book, s);
    pthread_mutex_unlock(&r->lock);
    return 0;
}

static const struct al_ranks_ops ranks_ops = {.name = "job", .fill = fill_ranks};

struct parts {
    struct ranks ranks;
    struct al_device *device;
    struct al_host *host;
    struct al_detect *detect;
    struct al_collect *collect;
    struct al_clock clock;
};

static int open_parts(struct al_run_device *d, struct parts *p) {
    const struct al_nvml_options nvml = {.gpus = d->run->options.gpus};
    const char *root = getenv("ALULA_HOST_ROOT");
    const struct al_procfs_options host = {.root = root ? root : "/", .no_cmdline = d->run->options.no_cmdline};
    struct al_device_error e = {{0}};
    const struct al_settings *set = &d->run->book.settings;
    int64_t interval = d->run->options.interval_ns;
    al_clock_real(&p->clock);
    int result = al_shared_open(&nvml, &p->device, &e);
    if (result) // the host alone, as on machines without an NVIDIA driver
        fail(d, *e.message ? e.message : al_error_text(result));
    result = al_procfs_open(&host, &p->host);
    if (!result)
        al_procfs_roots(p->host, &d->run->job.pid, 1);
    if (!result)
        result = al_detect_new(set, &p->detect);
    const struct al_collect_options options = {
        .device = p->device,
        .host = p->host,
        .ranks = &p->ranks.base,
        .clock = &p->clock,
        .interval_ns = interval ? interval : (int64_t)(set->sampling_interval * 1e9),
        .process_period_ns = (int64_t)(set->sampling_process_interval * 1e9),
        .slow_period_ns = (int64_t)(set->sampling_slow_interval * 1e9),
        .detect = p->detect,
        .looks = root ? NULL : set,
    };
    if (!result)
        result = al_collect_new(&options, &p->collect);
    if (result)
        fail(d, al_error_text(result));
    return result;
}

static void *live(void *user) {
    struct al_run_device *d = user;
    struct parts p = {.ranks = {{&ranks_ops}, d->run}};
    int result = open_parts(d, &p);
    if (!result) {
        struct al_sink *shared = al_shared_sink(p.device);
        if (shared)
            (void)al_collect_add_sink(p.collect, shared);
        (void)al_collect_add_sink(p.collect, &d->sink);
        pthread_mutex_lock(&d->run->lock);
        d->run->book.device_open = p.device != NULL;
        pthread_mutex_unlock(&d->run->lock);
        d->collect = p.collect;
        result = al_collect_run(p.collect, 0, &d->stop);
        d->collect = NULL;
        if (result)
            fail(d, al_error_text(result));
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
    d->sink.ops = r->record.store ? &record_ops : &device_ops;
    d->run = r;
    d->color = al_cli_use_color(&r->options, stderr);
    al_book_device_missing(&r->book, "the driver had not answered before the job ended");
    struct sigaction wake = {.sa_handler = on_wake};
    (void)sigaction(WAKE, &wake, NULL);
    d->started = pthread_create(&d->thread, NULL, live, d) == 0;
}

// The loop sleeps between ticks: a signal to its thread wakes it.
void al_run_device_stop(struct al_run *r) {
    struct al_run_device *d = &r->device;
    if (!d->started || d->joined)
        return;
    atomic_store(&d->stop, SIGTERM);
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    for (int i = 0; i < (r->record.store ? 60 : 12) && !d->joined; i++) {
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
    pthread_mutex_lock(&r->lock);
    al_book_settle(&r->book);
    pthread_mutex_unlock(&r->lock);
}
