// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void world_gpu(struct world *w, uint32_t gpu, enum al_gpu_metric metric, double value)
{
    w->s->gpus[gpu].m[metric] = al_value_ok(value, w->s->monotonic_ns);
}

void world_gpu_status(struct world *w, uint32_t gpu, enum al_gpu_metric metric, enum al_status status)
{
    w->s->gpus[gpu].m[metric].status = status;
}

static void add_gpu(struct world *w, uint32_t index)
{
    static const struct {
        enum al_gpu_metric metric;
        double value;
    } healthy[] = {
        {AL_GPU_UTIL, 0},          {AL_GPU_UTIL_MEAN, 0},       {AL_GPU_MEM_TOTAL, 141 * GIB},
        {AL_GPU_MEM_USED, 0},      {AL_GPU_MEM_FREE, 140 * GIB}, {AL_GPU_MEM_RESERVED, 1 * GIB},
        {AL_GPU_TEMP, 40},         {AL_GPU_POWER, 75},          {AL_GPU_POWER_ENFORCED, 700},
        {AL_GPU_CLOCK_SM, 1980e6}, {AL_GPU_CLOCK_SM_MAX, 1980e6}, {AL_GPU_PSTATE, 0},
        {AL_GPU_THROTTLE, 1},      {AL_GPU_PCIE_GEN, 5},        {AL_GPU_PCIE_GEN_MAX, 5},
        {AL_GPU_PCIE_WIDTH, 16},   {AL_GPU_PCIE_WIDTH_MAX, 16}, {AL_GPU_PCIE_REPLAY, 0},
        {AL_GPU_NVLINK_LINKS, 18}, {AL_GPU_NVLINK_ACTIVE, 18},  {AL_GPU_NVLINK_REPLAY, 0},
        {AL_GPU_NVLINK_CRC, 0},    {AL_GPU_NVLINK_RECOVERY, 0}, {AL_GPU_ECC_UNC_VOL_TOTAL, 0},
        {AL_GPU_ECC_COR_VOL_TOTAL, 0}, {AL_GPU_REMAP_PENDING, 0}, {AL_GPU_REMAP_FAILED, 0},
        {AL_GPU_REMAP_COR, 0},     {AL_GPU_REMAP_UNC, 0},       {AL_GPU_SRAM_THRESHOLD, 0},
        {AL_GPU_XID_ERRORS, 0},    {AL_GPU_TEMP_SLOWDOWN, 89},     {AL_GPU_RETIRED_PENDING, 0},
    };
    struct al_gpu *gpu = al_snapshot_add_gpu(w->s);
    assert_non_null(gpu);
    (void)snprintf(gpu->info.uuid, sizeof gpu->info.uuid, "GPU-%u", index);
    (void)snprintf(gpu->info.name, sizeof gpu->info.name, "NVIDIA H200");
    gpu->info.index = index;
    gpu->info.parent = -1;
    gpu->info.status = AL_STATUS_OK;
    gpu->process_status = AL_STATUS_OK;
    for (size_t i = 0; i < sizeof healthy / sizeof *healthy; i++)
        world_gpu(w, index, healthy[i].metric, healthy[i].value);
}

void world_make(struct world *w, uint32_t gpus)
{
    memset(w, 0, sizeof *w);
    w->s = al_snapshot_new();
    assert_non_null(w->s);
    w->s->monotonic_ns = 1000 * SEC;
    w->s->realtime_ns = 1790000000 * SEC;
    w->s->interval_ns = SEC / 2;
    w->s->groups = AL_GROUP_ALL;
    w->s->node.host_pid_ns = true;
    w->host_every = 4;
    for (int m = 0; m < AL_NODE_METRIC_COUNT; m++)
        w->s->node.m[m] = al_value_ok(0, w->s->monotonic_ns);
    w->s->node.m[AL_NODE_MEM_TOTAL].num = w->s->node.m[AL_NODE_MEM_AVAILABLE].num = 2000 * GIB;
    for (uint32_t i = 0; i < gpus; i++)
        add_gpu(w, i);
    al_settings_default(&w->set);
    assert_int_equal(al_detect_new(&w->set, &w->d), 0);
}

void world_free(struct world *w)
{
    w->d = al_detect_free(w->d);
    w->s = al_snapshot_free(w->s);
}

void world_settings(struct world *w)
{
    al_detect_settings(w->d, &w->set);
}

static void note(void *user, const struct al_finding *f)
{
    struct world *w = user;
    assert_true(w->count < LOG_MAX);
    w->log[w->count++] = *f;
}

void world_tick(struct world *w)
{
    struct al_snapshot *s = w->s;
    s->tick++;
    s->monotonic_ns += s->interval_ns;
    s->realtime_ns += s->interval_ns;
    for (uint32_t g = 0; g < s->gpu_count; g++)
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            if (s->gpus[g].m[m].status == AL_STATUS_OK)
                s->gpus[g].m[m].at_ns = s->monotonic_ns - 1000;
    for (uint32_t i = 0; i < s->row_count; i++)
        if (s->rows[i].memory_bytes.status == AL_STATUS_OK)
            s->rows[i].memory_bytes.at_ns = s->monotonic_ns - 1000;
    for (uint32_t i = 0; i < s->proc_count && s->tick % w->host_every == 0; i++)
        for (int m = 0; m < AL_PROC_METRIC_COUNT; m++)
            s->procs[i].m[m].at_ns = s->monotonic_ns;
    assert_int_equal(al_detect_tick(w->d, s, note, w), 0);
}

void world_ticks(struct world *w, int n)
{
    for (int i = 0; i < n; i++)
        world_tick(w);
}

struct al_proc *world_find(struct world *w, pid_t pid)
{
    return al_snapshot_proc(w->s, pid);
}

struct al_proc *world_proc(struct world *w, pid_t pid, enum al_role role, int rank, pid_t job)
{
    struct al_proc *p = al_snapshot_add_proc(w->s);
    assert_non_null(p);
    *p = (struct al_proc){.pid = pid, .start_ticks = 5000 + (uint64_t)pid, .alive = true, .state = 'S', .rank = rank,
                          .local_rank = rank, .world_size = -1, .node_rank = -1, .role = role, .job = job,
                          .started_realtime_ns = w->s->realtime_ns - 3600 * SEC};
    (void)snprintf(p->comm, sizeof p->comm, "python");
    for (int m = 0; m < AL_PROC_METRIC_COUNT; m++)
        p->m[m] = al_value_ok(0, w->s->monotonic_ns);
    p->m[AL_PROC_CGROUP_LIMIT] = al_value_none(AL_STATUS_UNSUPPORTED);
    al_snapshot_sort(w->s);
    return world_find(w, pid);
}

struct al_proc_gpu *world_row(struct world *w, uint32_t gpu, pid_t pid, double bytes)
{
    struct al_proc_gpu *row = al_snapshot_add_row(w->s);
    assert_non_null(row);
    *row = (struct al_proc_gpu){.pid = pid, .gpu = gpu, .type = AL_PROC_COMPUTE, .gpu_instance = UINT32_MAX,
                                .compute_instance = UINT32_MAX, .memory_bytes = al_value_ok(bytes, w->s->monotonic_ns)};
    al_snapshot_sort(w->s);
    struct al_proc *p = world_find(w, pid);
    if (p)
        p->holds_context = true;
    w->s->gpus[gpu].m[AL_GPU_MEM_USED].num += bytes;
    w->s->gpus[gpu].m[AL_GPU_MEM_FREE].num -= bytes;
    for (uint32_t i = 0; i < w->s->row_count; i++)
        if (w->s->rows[i].gpu == gpu && w->s->rows[i].pid == pid)
            return &w->s->rows[i];
    return NULL;
}

void world_drop_proc(struct world *w, pid_t pid)
{
    struct al_snapshot *s = w->s;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->row_count; i++) {
        if (s->rows[i].pid != pid) {
            s->rows[kept++] = s->rows[i];
            continue;
        }
        s->gpus[s->rows[i].gpu].m[AL_GPU_MEM_USED].num -= s->rows[i].memory_bytes.num;
        s->gpus[s->rows[i].gpu].m[AL_GPU_MEM_FREE].num += s->rows[i].memory_bytes.num;
    }
    s->row_count = kept;
    kept = 0;
    for (uint32_t i = 0; i < s->proc_count; i++)
        if (s->procs[i].pid != pid)
            s->procs[kept++] = s->procs[i];
    s->proc_count = kept;
}

void world_host(struct world *w, pid_t pid, enum al_proc_metric metric, double value)
{
    world_find(w, pid)->m[metric] = al_value_ok(value, w->s->monotonic_ns);
}

void world_job(struct world *w, uint32_t gpus)
{
    for (uint32_t g = 0; g < gpus; g++) {
        world_proc(w, (pid_t)(1000 + g), AL_ROLE_RANK, (int)g, 1000);
        world_row(w, g, (pid_t)(1000 + g), 30 * GIB);
    }
}

uint32_t world_log_count(const struct world *w, const char *rule, enum al_phase phase)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->count; i++)
        count += strcmp(w->log[i].rule, rule) == 0 && w->log[i].phase == phase;
    return count;
}

const struct al_finding *world_last(const struct world *w, const char *rule)
{
    for (uint32_t i = w->count; i > 0; i--)
        if (strcmp(w->log[i - 1].rule, rule) == 0)
            return &w->log[i - 1];
    return NULL;
}

uint32_t world_open_count(const struct world *w)
{
    const struct al_finding *open[64];
    return (uint32_t)al_detect_open(w->d, open, 64);
}

const struct al_finding *world_open(const struct world *w, const char *rule)
{
    const struct al_finding *open[64];
    size_t count = al_detect_open(w->d, open, 64);
    for (size_t i = 0; i < count; i++)
        if (strcmp(open[i]->rule, rule) == 0)
            return open[i];
    return NULL;
}

const struct al_finding *world_key(const struct world *w, const char *key)
{
    const struct al_finding *open[64];
    size_t count = al_detect_open(w->d, open, 64);
    for (size_t i = 0; i < count; i++)
        if (strcmp(open[i]->key, key) == 0)
            return open[i];
    return NULL;
}

struct asked {
    const char *rule, *entity;
    char *why;
    size_t size;
    int verdict;
};

static void answer(void *user, const char *rule, const char *key, enum al_verdict verdict, const char *why)
{
    struct asked *a = user;
    if (strcmp(rule, a->rule) != 0 || strcmp(key, a->entity) != 0)
        return;
    a->verdict = (int)verdict;
    (void)snprintf(a->why, a->size, "%s", why);
}

int world_verdict(const struct world *w, const char *rule, const char *entity, char *why, size_t size)
{
    struct asked a = {rule, entity, why, size, -1};
    why[0] = 0;
    al_detect_verdicts(w->d, answer, &a);
    return a.verdict;
}

double evidence(const struct al_finding *f, const char *name)
{
    for (uint32_t i = 0; i < f->evidence_count; i++)
        if (strcmp(f->evidence[i].name, name) == 0)
            return f->evidence[i].value;
    return NAN;
}

void assert_has_at(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part))
        return;
    print_error("\"%s\" is not in \"%s\"\n", part, text);
    _fail(file, line);
}
