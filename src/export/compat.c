// SPDX-License-Identifier: Apache-2.0
#include "export/compat.h"

#include <math.h>

#include "base/clock.h"

#define GB (1024.0 * 1024.0 * 1024.0)

static double number(struct al_value v, double scale) {
    return al_ok(v) ? v.num * scale : (double)NAN;
}

static bool is_elsewhere(const struct al_snapshot *s, pid_t pid, uint32_t gpu) {
    for (uint32_t i = 0; i < s->row_count; i++)
        if (s->rows[i].pid == pid && s->rows[i].gpu != gpu)
            return true;
    return false;
}

// Of the ranks that have no other GPU: a rank tells of its main device by the framework's number, not by the driver's.
static double of_ranks(const struct al_snapshot *s, uint32_t gpu, int metric) {
    double sum = (double)NAN;
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_rank *r = s->rows[i].gpu == gpu ? al_snapshot_rank(s, s->rows[i].pid) : NULL;
        bool again = i && s->rows[i - 1].gpu == gpu && s->rows[i - 1].pid == s->rows[i].pid; // compute and graphics
        if (!r || again)
            continue;
        if (!al_ok(r->m[metric]) || is_elsewhere(s, r->pid, gpu))
            return (double)NAN;
        sum = (isfinite(sum) ? sum : 0) + r->m[metric].num / GB;
    }
    return sum;
}

void al_compat_fill(struct al_compat *ret, const struct al_snapshot *s, uint32_t gpu) {
    const struct al_gpu *g = &s->gpus[gpu];
    struct al_value util = al_ok(g->m[AL_GPU_UTIL]) ? g->m[AL_GPU_UTIL] : g->m[AL_GPU_UTIL_MEAN];
    *ret = (struct al_compat){
        .timestamp = (double)s->realtime_ns / AL_NS_PER_S,
        .gpu_id = g->info.index,
        .gpu_util_percent = number(util, 100),
        .mem_used_gb = number(g->m[AL_GPU_MEM_USED], 1 / GB),
        .mem_total_gb = number(g->m[AL_GPU_MEM_TOTAL], 1 / GB),
        .pytorch_allocated_gb = of_ranks(s, gpu, AL_RANK_ALLOCATED),
        .pytorch_reserved_gb = of_ranks(s, gpu, AL_RANK_RESERVED),
    };
    ret->mem_usage_ratio = ret->mem_total_gb > 0 ? ret->mem_used_gb / ret->mem_total_gb : (double)NAN;
}

static void field(struct al_buf *b, const char *key, double value, int decimals) {
    al_buf_printf(b, ", \"%s\": ", key);
    if (isfinite(value))
        al_buf_fixed(b, value, decimals);
    else
        al_buf_str(b, "null");
}

void al_compat_print(struct al_buf *b, const struct al_compat *c) {
    al_buf_str(b, "{\"timestamp\": ");
    al_buf_fixed(b, c->timestamp, 6);
    al_buf_printf(b, ", \"gpu_id\": %u, \"gpu_util_percent\": ", c->gpu_id);
    al_buf_number(b, round(c->gpu_util_percent * 100) / 100); // a whole number but for means
    field(b, "mem_used_gb", c->mem_used_gb, 2);
    field(b, "mem_total_gb", c->mem_total_gb, 2);
    field(b, "mem_usage_ratio", c->mem_usage_ratio, 3);
    field(b, "pytorch_allocated_gb", c->pytorch_allocated_gb, 2);
    field(b, "pytorch_reserved_gb", c->pytorch_reserved_gb, 2);
    al_buf_str(b, "}\n");
}

void al_compat_sample(struct al_buf *b, const struct al_snapshot *s, uint32_t gpu) {
    struct al_compat c;
    al_compat_fill(&c, s, gpu);
    al_compat_print(b, &c);
}
