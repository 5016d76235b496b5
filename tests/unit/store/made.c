// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "suites.h"

int made_folder(void **state) {
    char *folder = strdup("/tmp/alula-store-XXXXXX");
    if (!folder || !mkdtemp(folder))
        return -1;
    *state = folder;
    return 0;
}

int made_folder_gone(void **state) {
    char *folder = *state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    (void)rmdir(folder);
    free(folder);
    return 0;
}

const char *made_path(void **state, const char *name) {
    static char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", (const char *)*state, name);
    return path;
}

double made_power(int gpu, int i) {
    return 400 + 100 * gpu + (i * 7919 % 1000) / 1000.0;
}

double made_used(int i) {
    return 1073741824.0 + 65536.0 * (i % 50);
}

static void make_gpu(struct al_snapshot *s, int gpu, int i) {
    struct al_gpu *g = al_snapshot_add_gpu(s);
    int64_t now = s->monotonic_ns, slow = now - (i % 2) * TICK; // slow values are read at every other tick
    assert_non_null(g);
    (void)snprintf(g->info.uuid, sizeof g->info.uuid, "GPU-%d", gpu);
    (void)al_str_copy(g->info.name, sizeof g->info.name, "NVIDIA H200");
    (void)snprintf(g->info.serial, sizeof g->info.serial, "165%d", gpu);
    g->info.index = (uint32_t)gpu;
    g->info.status = AL_STATUS_OK;
    g->process_status = g->procutil_status = AL_STATUS_OK;
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        g->m[m] = al_value_none(AL_STATUS_UNSUPPORTED);
    g->m[AL_GPU_UTIL] = al_value_ok((90 + i % 10) / 100.0, now);
    g->m[AL_GPU_POWER] = al_value_ok(made_power(gpu, i), now);
    g->m[AL_GPU_MEM_USED] = al_value_ok(made_used(i), now);
    g->m[AL_GPU_ENERGY] = al_value_ok(500.0 * (double)(i / 2), slow);
    g->m[AL_GPU_GPM_SM] = al_value_ok(0.1234567 + (i / 2) % 3, slow); // finer than what is kept
    g->m[AL_GPU_FAN] = al_value_none(AL_STATUS_DENIED);
    if (i % 40 >= 30) // a sensor that stops for five seconds
        g->m[AL_GPU_TEMP] = (struct al_value){61, now - (i % 40 - 29) * TICK, AL_STATUS_STALE};
    else
        g->m[AL_GPU_TEMP] = al_value_ok(61, now);
    g->fresh_count = 2;
    g->fresh[0] = (struct al_fresh){now - 300000000, 0.5};
    g->fresh[1] = (struct al_fresh){now - 100000000, (90 + i % 10) / 100.0};
    if (i >= 5) {
        g->xid_count = 1;
        g->xid[0] = (struct al_xid){31, i >= 20 ? 2 : 1, now - (i >= 20 ? i - 20 : i - 5) * TICK};
    }
}

static void make_process(struct al_snapshot *s, int i) {
    struct al_proc *p = al_snapshot_add_proc(s);
    assert_non_null(p);
    p->pid = 4300;
    p->ppid = 1;
    p->start_ticks = 77;
    p->alive = true;
    p->state = i % 3 ? 'R' : 'S';
    p->rank = 0;
    p->role = AL_ROLE_RANK;
    (void)al_str_copy(p->user, sizeof p->user, "alice");
    (void)al_str_copy(p->command, sizeof p->command, "python \"train.py\" --lr '0.1'");
    p->m[AL_PROC_CPU] = al_value_ok(1.25, s->monotonic_ns - (i % 4) * TICK);
    p->m[AL_PROC_RSS] = al_value_ok(9e9 + 4096 * (i / 4), s->monotonic_ns - (i % 4) * TICK);
    struct al_proc_gpu *r = al_snapshot_add_row(s);
    assert_non_null(r);
    r->pid = 4300;
    r->gpu = 1;
    r->type = AL_PROC_COMPUTE;
    r->memory_bytes = al_value_ok(5e8 + 4096 * i, s->monotonic_ns);
    r->sm_ratio = al_value_none(AL_STATUS_UNSUPPORTED);
}

// Rank 0 is there from the third tick on and says later how its steps are known.
static void make_rank(struct al_snapshot *s, int i) {
    struct al_rank *r = al_snapshot_add_rank(s);
    assert_non_null(r);
    r->pid = 4300;
    r->start_ticks = 77;
    r->job = 4200;
    r->rank = r->local_rank = r->device = 0;
    r->world = 2;
    (void)al_str_copy(r->source, sizeof r->source, i < 6 ? "" : "torch.optim hook");
    int64_t step = s->monotonic_ns - (i % 4) * TICK; // a step takes four ticks
    r->m[AL_RANK_STEP] = al_value_ok(i / 4, step);
    r->m[AL_RANK_PHASE] = al_value_ok(i % 4 ? AL_IN_FORWARD : AL_RANK_BETWEEN, step);
    r->m[AL_RANK_TRAINING] = al_value_ok(1, step);
    r->m[AL_RANK_STEP_RATE] = al_value_ok(0.5, step);
    r->m[AL_RANK_SHARE_DATA] = al_value_ok((i / 4 % 10) / 16.0, step);
    r->m[AL_RANK_ALLOCATED] = al_value_ok(1e9 + 512 * (i / 4), step);
    r->m[AL_RANK_EPOCH] = al_value_none(AL_STATUS_UNREAD);
}

// A look each ten ticks, for as long as a finding asks.
static void make_look(struct al_snapshot *s, int i) {
    if (i % 40 < 20)
        return;
    struct al_look *l = al_snapshot_add_look(s);
    assert_non_null(l);
    l->pid = 4300;
    l->start_ticks = 77;
    l->rank = 0;
    l->line.line = 58;
    l->worker.line = 80 + i / 10;
    (void)al_str_copy(l->line.function, sizeof l->line.function, "main");
    (void)al_str_copy(l->line.file, sizeof l->line.file, "/home/u/train.py");
    (void)al_str_copy(l->worker.call, sizeof l->worker.call, i % 80 < 40 ? "decode" : "");
    for (int m = 0; m < AL_LOOK_METRIC_COUNT; m++)
        l->m[m] = al_value_ok((i / 10 + m) / 64.0, s->monotonic_ns - (i % 10) * TICK);
}

void made_tick(struct al_snapshot *s, int i) {
    al_snapshot_clear(s);
    s->tick = (uint64_t)i + 1;
    s->monotonic_ns = 7000 * S + i * TICK;
    s->realtime_ns = 1795953600 * S + i * TICK;
    s->interval_ns = TICK;
    s->groups = AL_GROUP_ALL;
    (void)al_str_copy(s->node.hostname, sizeof s->node.hostname, "node1");
    (void)al_str_copy(s->node.boot_id, sizeof s->node.boot_id, "6c7a5a2e-0d5b-4a8e-9c1f-0a1b2c3d4e5f");
    (void)al_str_copy(s->node.driver_version, sizeof s->node.driver_version, "580.159.04");
    s->node.m[AL_NODE_CPU] = al_value_ok(0.25, s->monotonic_ns - (i % 2) * TICK);
    make_gpu(s, 0, i);
    make_gpu(s, 1, i);
    if (i < 100 || i >= 120) // the process ends and another one takes its pid
        make_process(s, i);
    if (i >= 120)
        s->procs[0].start_ticks = 99;
    if (i >= 3)
        make_rank(s, i);
    make_look(s, i);
    if (i == 50) {
        (void)al_str_copy(s->hung_call, sizeof s->hung_call, "nvmlDeviceGetPowerUsage");
        s->hung_since_ns = s->monotonic_ns - 3 * S;
    }
    al_snapshot_sort(s);
}

void made_recording(const struct al_store_options *o, int ticks) {
    struct al_sink *sink = NULL;
    struct al_store_error e = {{0}};
    struct al_snapshot *s = al_snapshot_new();
    assert_int_equal(al_store_writer(o, &sink, &e), 0);
    for (int i = 0; i < ticks; i++) {
        made_tick(s, i);
        assert_int_equal(sink->ops->tick(sink, s), 0);
    }
    assert_int_equal(al_store_close(sink, &e), 0);
    assert_string_equal(e.text, "");
    al_snapshot_free(s);
}
