// SPDX-License-Identifier: Apache-2.0
#include "export/gpustat_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

const char *const al_gpustat_keys[AL_GPUSTAT_FIGURES] = {
    "temperature.gpu", "fan.speed",  "utilization.gpu",      "utilization.enc", "utilization.dec",
    "power.draw",      "enforced.power.limit", "memory.used", "memory.total",
};

static const struct {
    enum al_gpu_metric metric;
    double scale;
    bool down; // rounded down; otherwise the driver's own whole number comes back by rounding
} figures[AL_GPUSTAT_FIGURES] = {
    {AL_GPU_TEMP, 1, false},      {AL_GPU_FAN, 100, false},       {AL_GPU_UTIL, 100, false},
    {AL_GPU_ENC_UTIL, 100, false}, {AL_GPU_DEC_UTIL, 100, false},  {AL_GPU_POWER, 1, true},
    {AL_GPU_POWER_ENFORCED, 1, true}, {AL_GPU_MEM_USED, 1 / MIB, true}, {AL_GPU_MEM_TOTAL, 1 / MIB, true},
};

struct al_gpustat_cell al_gpustat_figure(const struct al_gpu *gpu, enum al_gpustat_figure figure) {
    struct al_value v = gpu->m[figures[figure].metric];
    double num = v.num * figures[figure].scale;
    if (!al_ok(v) || !(fabs(num) < 1e15))
        return (struct al_gpustat_cell){false, 0};
    // Milliwatts that became watts may lie a hair below the whole number that they were.
    return (struct al_gpustat_cell){true, figures[figure].down ? (long long)floor(num + 1e-7) : llround(num)};
}

const char *al_gpustat_lost(const struct al_gpu *gpu) {
    switch (gpu->info.status) {
    case AL_STATUS_LOST: return "((GPU is lost))";
    case AL_STATUS_RESET: return "((GPU requires reset))";
    case AL_STATUS_ERROR: return "((Unknown Error))";
    default: return NULL;
    }
}

const struct al_gpu *al_gpustat_next_gpu(const struct al_snapshot *s, const struct al_gpustat_options *o,
                                         uint32_t *cursor) {
    uint32_t count = o->gpus ? o->gpu_count : s->gpu_count;
    while (*cursor < count) {
        uint32_t position = o->gpus ? o->gpus[*cursor] : *cursor;
        ++*cursor;
        if (position < s->gpu_count && (o->mig || !s->gpus[position].info.is_mig))
            return &s->gpus[position];
    }
    return NULL;
}

// MIG devices without rows of their own leave their processes to the GPU that they are a part of.
static bool is_on(const struct al_snapshot *s, const struct al_gpustat_options *o, const struct al_proc_gpu *row,
                  uint32_t gpu) {
    if (row->gpu == gpu)
        return true;
    return !o->mig && row->gpu < s->gpu_count && s->gpus[row->gpu].info.is_mig &&
           s->gpus[row->gpu].info.parent == (int32_t)gpu;
}

static bool seen_before(const struct al_snapshot *s, const struct al_gpustat_options *o, uint32_t row, uint32_t gpu) {
    if (!s->gpus[gpu].info.mig_enabled) // rows are sorted by GPU, then pid
        return row && s->rows[row - 1].gpu == gpu && s->rows[row - 1].pid == s->rows[row].pid;
    for (uint32_t i = 0; i < row; i++)
        if (s->rows[i].pid == s->rows[row].pid && is_on(s, o, &s->rows[i], gpu))
            return true;
    return false;
}

static void split_command(struct al_gpustat_process *p) {
    const char *c = "";
    if (p->proc) // a zombie has no command line, and its bare name would say that it runs
        c = p->proc->command[0] ? p->proc->command : p->proc->state == 'Z' ? "" : p->proc->comm;
    size_t word = strcspn(c, " "), path = word;
    while (path && c[path - 1] != '/')
        path--;
    p->command = c;
    p->path_len = path;
    p->name_len = word - path;
}

static int in_drivers_order(const void *a, const void *b) {
    const struct al_proc_gpu *x = *(const struct al_proc_gpu *const *)a, *y = *(const struct al_proc_gpu *const *)b;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

bool al_gpustat_list(const struct al_snapshot *s, const struct al_gpustat_options *o, const struct al_gpu *gpu,
                     struct al_gpustat_list *ret) {
    uint32_t position = (uint32_t)(gpu - s->gpus);
    *ret = (struct al_gpustat_list){calloc(s->row_count + 1, sizeof *ret->rows), 0};
    if (!ret->rows)
        return false;
    for (uint32_t i = 0; i < s->row_count; i++)
        if (is_on(s, o, &s->rows[i], position) && !seen_before(s, o, i, position))
            ret->rows[ret->count++] = &s->rows[i];
    qsort(ret->rows, ret->count, sizeof *ret->rows, in_drivers_order);
    return true;
}

bool al_gpustat_next_process(const struct al_snapshot *s, const struct al_gpustat_options *o,
                             const struct al_gpustat_list *list, uint32_t *cursor, struct al_gpustat_process *ret) {
    while (*cursor < list->count) {
        const struct al_proc_gpu *row = list->rows[(*cursor)++];
        const struct al_proc *proc = al_snapshot_proc(s, row->pid);
        if (proc && (!proc->alive || proc->foreign))
            proc = NULL;
        if (!proc && !o->roles) // gpustat leaves out what it cannot look up
            continue;
        *ret = (struct al_gpustat_process){.row = row, .proc = proc};
        double mib = floor(row->memory_bytes.num / MIB);
        // gpustat takes 0 bytes for "not known", as old drivers meant it.
        ret->mib = (struct al_gpustat_cell){al_ok(row->memory_bytes) && row->memory_bytes.num > 0, (long long)mib};
        split_command(ret);
        return true;
    }
    return false;
}
