// SPDX-License-Identifier: Apache-2.0
#include "collect/windows.h"

#include "collect/worker.h"

// Distance of the driver's own utilisation samples on Hopper; other boards give 1/6 to 1 s.
#define DRIVER_SAMPLE_NS 200000000

static void push_gpu(struct al_series_set *set, const struct al_gpu *g, int64_t tick_ns, int64_t slow_ns) {
    uint64_t entity = al_series_entity(g->info.uuid);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++) {
        const struct al_metric_info *info = &al_gpu_metrics[m];
        if (info->kind != AL_KIND_GAUGE || !al_ok(g->m[m]) || m == AL_GPU_UTIL)
            continue;
        int64_t period = info->group & AL_FAST_GROUPS ? tick_ns : slow_ns;
        (void)al_series_set_push(set, entity, (uint32_t)(AL_SERIES_GPU + m), period, g->m[m].at_ns, g->m[m].num);
    }
    for (uint32_t i = 0; i < g->fresh_count && i < AL_FRESH_MAX; i++)
        (void)al_series_set_push(set, entity, AL_SERIES_GPU + AL_GPU_UTIL, DRIVER_SAMPLE_NS, g->fresh[i].at_ns,
                                 g->fresh[i].ratio);
    // A driver without sample buffers: the reading itself is all there is.
    if (!g->fresh_count && al_ok(g->m[AL_GPU_UTIL]) && !al_ok(g->m[AL_GPU_UTIL_MEAN]))
        (void)al_series_set_push(set, entity, AL_SERIES_GPU + AL_GPU_UTIL, tick_ns, g->m[AL_GPU_UTIL].at_ns,
                                 g->m[AL_GPU_UTIL].num);
}

static void push_values(struct al_series_set *set, uint64_t entity, uint32_t base, const struct al_value *values,
                        const struct al_metric_info *table, int count, int64_t period_ns) {
    for (int m = 0; m < count; m++)
        if (table[m].kind == AL_KIND_GAUGE && al_ok(values[m]))
            (void)al_series_set_push(set, entity, base + (uint32_t)m, period_ns, values[m].at_ns, values[m].num);
}

void al_windows_push(struct al_series_set *set, const struct al_snapshot *s, int64_t slow_ns, int64_t process_ns) {
    for (uint32_t i = 0; i < s->gpu_count; i++)
        push_gpu(set, &s->gpus[i], s->interval_ns, slow_ns);
    push_values(set, al_series_entity("node"), AL_SERIES_NODE, s->node.m, al_node_metric_table, AL_NODE_METRIC_COUNT,
                slow_ns);
    for (uint32_t i = 0; i < s->proc_count; i++) {
        const struct al_proc *p = &s->procs[i];
        uint64_t entity = al_series_entity_process(p->pid_ns, p->pid, p->start_ticks);
        push_values(set, entity, AL_SERIES_PROC, p->m, al_proc_metric_table, AL_PROC_METRIC_COUNT, process_ns);
        struct al_value memory = al_snapshot_proc_memory(s, p->pid);
        if (al_ok(memory))
            (void)al_series_set_push(set, entity, AL_SERIES_ROW, s->interval_ns, memory.at_ns, memory.num);
    }
    al_series_set_expire(set, s->monotonic_ns);
}
