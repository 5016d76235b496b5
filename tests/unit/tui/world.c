// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "suites.h"

static void set(struct al_gpu *g, enum al_gpu_metric m, double value, int64_t at_ns) {
    g->m[m] = al_value_ok(value, at_ns);
}

static void fill_gpu(struct al_gpu *g, uint32_t i, int64_t at_ns) {
    (void)snprintf(g->info.uuid, sizeof g->info.uuid, "GPU-%02u", i);
    (void)snprintf(g->info.name, sizeof g->info.name, "NVIDIA H200");
    (void)snprintf(g->info.pci_bus_id, sizeof g->info.pci_bus_id, "00000000:%02X:00.0", i + 1);
    g->info.index = g->info.minor = i;
    g->info.status = AL_STATUS_OK;
    set(g, AL_GPU_UTIL_MEAN, 0.5 + 0.1 * (i % 5), at_ns);
    set(g, AL_GPU_MEM_USED, 70 * GIB, at_ns);
    set(g, AL_GPU_MEM_TOTAL, 140 * GIB, at_ns);
    set(g, AL_GPU_POWER, 350, at_ns);
    set(g, AL_GPU_POWER_ENFORCED, 700, at_ns);
    set(g, AL_GPU_TEMP, 50 + i % 8, at_ns);
    set(g, AL_GPU_TEMP_SLOWDOWN, 89, at_ns);
    set(g, AL_GPU_CLOCK_SM, 1980e6, at_ns);
    set(g, AL_GPU_CLOCK_SM_MAX, 1980e6, at_ns);
    set(g, AL_GPU_GPM_SM, 0.4, at_ns);
    set(g, AL_GPU_GPM_TENSOR, 0.2, at_ns);
    set(g, AL_GPU_GPM_DRAM, 0.3, at_ns);
    set(g, AL_GPU_THROTTLE, 0, at_ns);
}

struct al_proc *world_proc(struct world *w, pid_t pid, pid_t ppid, enum al_role role, const char *command) {
    struct al_proc *p = al_snapshot_add_proc(w->s);
    assert_non_null(p);
    p->pid = pid;
    p->ppid = ppid;
    p->role = role;
    p->job = 100;
    p->start_ticks = 1000 + (uint64_t)pid;
    p->alive = true;
    p->started_realtime_ns = w->s->realtime_ns - 90 * S;
    (void)al_str_copy(p->user, sizeof p->user, "alice");
    (void)al_str_copy(p->command, sizeof p->command, command);
    (void)al_str_copy(p->comm, sizeof p->comm, "python");
    p->m[AL_PROC_CPU] = al_value_ok(0.25, w->s->monotonic_ns);
    p->m[AL_PROC_RSS] = al_value_ok(2 * GIB, w->s->monotonic_ns);
    p->m[AL_PROC_RSS_ANON] = al_value_ok(1 * GIB, w->s->monotonic_ns);
    return p;
}

static void add_job(struct world *w, int gpus) {
    (void)world_proc(w, 100, 1, AL_ROLE_LAUNCHER, "torchrun train.py");
    for (int i = 0; i < gpus; i++) {
        struct al_proc *p = world_proc(w, 200 + i, 100, AL_ROLE_RANK, "python train.py");
        p->rank = p->local_rank = i;
        p->world_size = gpus;
        p->holds_context = true;
        struct al_proc_gpu *row = al_snapshot_add_row(w->s);
        assert_non_null(row);
        row->pid = 200 + i;
        row->gpu = (uint32_t)i;
        row->type = AL_PROC_COMPUTE;
        row->memory_bytes = al_value_ok(69 * GIB, w->s->monotonic_ns);
        row->sm_ratio = al_value_ok(0.8, w->s->monotonic_ns);
    }
    for (int i = 0; i < 2 * gpus; i++) {
        struct al_proc *p = world_proc(w, 400 + i, 200 + i / 2, AL_ROLE_WORKER, "python train.py");
        p->owner = 200 + i / 2;
    }
    al_snapshot_sort(w->s);
}

void world_make(struct world *w, int gpus, bool job) {
    memset(w, 0, sizeof *w);
    w->s = al_snapshot_new();
    assert_non_null(w->s);
    assert_int_equal(al_history_new(200, &w->history), 0);
    w->s->monotonic_ns = 1000 * S;
    w->s->realtime_ns = 1700000000 * S; // 22:13:20 UTC
    w->s->interval_ns = S / 2;
    (void)al_str_copy(w->s->node.hostname, sizeof w->s->node.hostname, "node1");
    (void)al_str_copy(w->s->node.driver_version, sizeof w->s->node.driver_version, "580.1");
    for (int i = 0; i < gpus; i++) {
        struct al_gpu *g = al_snapshot_add_gpu(w->s);
        assert_non_null(g);
        fill_gpu(g, (uint32_t)i, w->s->monotonic_ns);
    }
    if (job)
        add_job(w, gpus);
    assert_int_equal(al_history_push(w->history, w->s), 0);
    w->in = (struct al_scene_in){.s = w->s, .history = w->history, .findings = w->findings, .source = ""};
    al_tui_init(&w->tui, S / 2, false, true);
}

void world_free(struct world *w) {
    al_snapshot_free(w->s);
    al_history_free(w->history);
    al_tui_free(&w->tui);
}

void world_tick(struct world *w, int64_t ns) {
    w->s->monotonic_ns += ns;
    w->s->realtime_ns += ns;
    for (uint32_t i = 0; i < w->s->gpu_count; i++)
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            if (al_ok(w->s->gpus[i].m[m]))
                w->s->gpus[i].m[m].at_ns = w->s->monotonic_ns;
    assert_int_equal(al_history_push(w->history, w->s), 0);
}

struct al_finding *world_finding(struct world *w, enum al_level level, int gpu, const char *title, const char *message) {
    struct al_finding *f = &w->findings[w->in.finding_count++];
    *f = (struct al_finding){.rule = "test", .level = level, .gpu = gpu, .gpu_index = gpu, .began_ns = w->s->monotonic_ns};
    (void)snprintf(f->key, sizeof f->key, "test/%u", w->in.finding_count);
    (void)al_str_copy(f->title, sizeof f->title, title);
    (void)al_str_copy(f->message, sizeof f->message, message);
    return f;
}

const char *world_text(struct world *w, int columns, int rows) {
    static struct al_buf text;
    assert_int_equal(al_tui_frame(&w->tui, &w->in, columns, rows), 0);
    al_buf_clear(&text);
    al_grid_print(&w->tui.grid, &text);
    return text.data;
}
