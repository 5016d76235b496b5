// SPDX-License-Identifier: Apache-2.0
#include "detect/jobrank.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

// Weights from slow storage, data sets that are tokenised first, kernels that are compiled: all of it is done by then.
#define STARTING_MOST_NS (3600 * AL_NS_PER_S)

static pid_t job_of(const struct al_snapshot *s, pid_t pid)
{
    const struct al_proc *p = al_snapshot_proc(s, pid);
    return p && p->job ? p->job : pid;
}

static bool is_on(const struct al_view *v, const struct al_rank *r, const uint32_t *gpus, uint32_t count)
{
    pid_t job = job_of(v->s, r->pid);
    for (uint32_t g = 0; g < count; g++)
        for (uint32_t i = v->first_row[gpus[g]]; i < v->first_row[gpus[g] + 1]; i++)
            if (al_view_computes(&v->s->rows[i]) &&
                (v->s->rows[i].pid == r->pid || job_of(v->s, v->s->rows[i].pid) == job))
                return true;
    return false;
}

const struct al_rank *al_jobrank_first(const struct al_view *v, const uint32_t *gpus, uint32_t count)
{
    const struct al_rank *found = NULL;
    for (uint32_t i = 0; i < v->s->rank_count; i++) {
        const struct al_rank *r = &v->s->ranks[i];
        if (is_on(v, r, gpus, count) && (!found || (r->rank >= 0 && (found->rank < 0 || r->rank < found->rank))))
            found = r;
    }
    return found;
}

static bool is_old(const struct al_snapshot *s, pid_t pid)
{
    const struct al_proc *p = al_snapshot_proc(s, pid);
    return p && p->started_realtime_ns && s->realtime_ns - p->started_realtime_ns > STARTING_MOST_NS;
}

static const char *reason(const struct al_snapshot *s, const struct al_rank *r)
{
    const char *phase = al_rank_phase(r);
    if (!phase)
        return NULL;
    if (strcmp(phase, "starting") == 0)
        return is_old(s, r->pid) ? NULL : "has not begun to train";
    if (strcmp(phase, al_rank_phase_word(AL_IN_EVALUATION)) == 0)
        return "is in an evaluation";
    return strcmp(phase, al_rank_phase_word(AL_IN_SAVE)) == 0 ? "writes a checkpoint" : NULL;
}

// One that trains while another one evaluates or saves waits for it at the next collective.
bool al_jobrank_idles(const struct al_view *v, const uint32_t *gpus, uint32_t count, char *out, size_t size)
{
    for (uint32_t i = 0; i < v->s->rank_count; i++) {
        const struct al_rank *r = &v->s->ranks[i];
        const char *why = is_on(v, r, gpus, count) ? reason(v->s, r) : NULL;
        if (!why)
            continue;
        if (r->rank >= 0)
            (void)snprintf(out, size, "rank %d %s", (int)r->rank, why);
        else
            (void)snprintf(out, size, "pid %d %s", (int)r->pid, why);
        return true;
    }
    return false;
}
