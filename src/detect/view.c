// SPDX-License-Identifier: Apache-2.0
#include "detect/view.h"

#include <stdio.h>
#include <string.h>

bool al_view_computes(const struct al_proc_gpu *row)
{
    return row->type == 0 || (row->type & (AL_PROC_COMPUTE | AL_PROC_MPS));
}

bool al_job_has(const struct al_job *job, uint32_t gpu)
{
    return job->gpus[gpu / 64] >> (gpu % 64) & 1;
}

void al_job_entity(const struct al_job *job, char *out, size_t size)
{
    (void)snprintf(out, size, "job-%lld-%llu", (long long)job->pid, (unsigned long long)job->start_ticks);
}

static int job_find(struct al_view *v, const struct al_proc *p)
{
    pid_t pid = p->job ? p->job : p->pid;
    for (uint32_t i = 0; i < v->job_count; i++)
        if (v->jobs[i].pid == pid)
            return (int)i;
    if (v->job_count == AL_JOBS_MAX)
        return -1;
    const struct al_proc *top = al_snapshot_proc(v->s, pid);
    v->jobs[v->job_count] = (struct al_job){.pid = pid, .start_ticks = top ? top->start_ticks : 0};
    return (int)v->job_count++;
}

static void add_row(struct al_view *v, uint32_t gpu, const struct al_proc_gpu *row, bool *ret_several)
{
    enum al_holders *holders = &v->holders[gpu];
    const struct al_proc *p = al_snapshot_proc(v->s, row->pid);
    if (!p || p->foreign) {
        enum al_holders as = p ? AL_HOLDERS_FOREIGN : AL_HOLDERS_UNSEEN;
        if (*holders != AL_HOLDERS_FOREIGN)
            *holders = as;
        return;
    }
    if (!p->alive) // holds memory, but computes nothing any more: see the rule `orphan`
        return;
    if (*holders == AL_HOLDERS_NONE)
        *holders = AL_HOLDERS_SEEN;
    int job = job_find(v, p);
    if (job < 0)
        return;
    if (!al_job_has(&v->jobs[job], gpu)) {
        v->jobs[job].gpus[gpu / 64] |= 1ULL << (gpu % 64);
        v->jobs[job].gpu_count++;
    }
    *ret_several |= v->job_of_gpu[gpu] >= 0 && v->job_of_gpu[gpu] != job;
    v->job_of_gpu[gpu] = job;
}

void al_view_build(struct al_view *v, const struct al_snapshot *s)
{
    uint32_t gpus = s->gpu_count < AL_GPU_MAX ? s->gpu_count : AL_GPU_MAX, row = 0;
    v->s = s;
    v->job_count = 0;
    for (uint32_t gpu = 0; gpu < gpus; gpu++) {
        bool several = false;
        v->job_of_gpu[gpu] = -1;
        v->holders[gpu] = s->gpus[gpu].process_status == AL_STATUS_OK ? AL_HOLDERS_NONE : AL_HOLDERS_UNKNOWN;
        while (row < s->row_count && s->rows[row].gpu < gpu)
            row++;
        v->first_row[gpu] = row;
        for (; row < s->row_count && s->rows[row].gpu == gpu; row++)
            if (v->holders[gpu] != AL_HOLDERS_UNKNOWN && al_view_computes(&s->rows[row]))
                add_row(v, gpu, &s->rows[row], &several);
        v->first_row[gpu + 1] = row;
        if (several)
            v->job_of_gpu[gpu] = -1;
    }
}

const struct al_proc_gpu *al_view_holder(const struct al_view *v, uint32_t gpu)
{
    const struct al_proc_gpu *most = NULL;
    for (uint32_t i = v->first_row[gpu]; i < v->first_row[gpu + 1]; i++) {
        const struct al_proc_gpu *row = &v->s->rows[i];
        if (!al_view_computes(row))
            continue;
        double has = al_ok(row->memory_bytes) ? row->memory_bytes.num : -1;
        if (!most || has > (al_ok(most->memory_bytes) ? most->memory_bytes.num : -1))
            most = row;
    }
    return most;
}
