// SPDX-License-Identifier: Apache-2.0
// Extra contexts: ranks of a job that sit on another rank's GPU too (mostly device 0, because the device was not set
// before the first CUDA call), and DataLoader workers that hold a CUDA context.
#include <stdio.h>

#include "detect/rule.h"
#include "detect/say.h"

struct state {
    int64_t since_ns;
};

struct extra {
    uint32_t count;
    double bytes;
    bool bytes_known;
    pid_t pids[6]; // the first ones
    int32_t first_rank, last_rank;
};

static const struct al_proc_gpu *main_row(const struct al_snapshot *s, pid_t pid)
{
    const struct al_proc_gpu *most = NULL;
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_proc_gpu *row = &s->rows[i];
        if (row->pid == pid && al_ok(row->memory_bytes) && al_view_computes(row) &&
            (!most || row->memory_bytes.num > most->memory_bytes.num))
            most = row;
    }
    return most;
}

// Whether a rank of the same job has its main memory on this GPU.
static bool owned_by_sibling(const struct al_run *run, uint32_t g, const struct al_proc *p)
{
    for (uint32_t i = run->view->first_row[g]; i < run->view->first_row[g + 1]; i++) {
        const struct al_proc *other = al_snapshot_proc(run->s, run->s->rows[i].pid);
        if (!other || other == p || other->job != p->job || other->role != AL_ROLE_RANK)
            continue;
        const struct al_proc_gpu *row = main_row(run->s, other->pid);
        if (row && row->gpu == g)
            return true;
    }
    return false;
}

static bool is_extra(const struct al_run *run, const struct al_proc_gpu *row, const struct al_proc *p, bool worker)
{
    if (!p || p->foreign || !al_view_computes(row))
        return false;
    if (worker)
        return p->role == AL_ROLE_WORKER;
    const struct al_proc_gpu *home = p->role == AL_ROLE_RANK ? main_row(run->s, p->pid) : NULL;
    return home && home->gpu != row->gpu && al_ok(row->memory_bytes) &&
           row->memory_bytes.num < run->set->contexts_bytes_below &&
           row->memory_bytes.num < 0.5 * home->memory_bytes.num && owned_by_sibling(run, row->gpu, p);
}

static void look(const struct al_run *run, uint32_t g, bool workers, struct extra *e)
{
    *e = (struct extra){.bytes_known = true, .first_rank = -1, .last_rank = -1};
    for (uint32_t i = run->view->first_row[g]; i < run->view->first_row[g + 1]; i++) {
        const struct al_proc_gpu *row = &run->s->rows[i];
        const struct al_proc *p = al_snapshot_proc(run->s, row->pid);
        if (!is_extra(run, row, p, workers))
            continue;
        if (e->count < 6)
            e->pids[e->count] = row->pid;
        e->count++;
        e->bytes += row->memory_bytes.num;
        e->bytes_known &= al_ok(row->memory_bytes);
        if (p->rank >= 0) {
            e->first_rank = e->first_rank < 0 || p->rank < e->first_rank ? p->rank : e->first_rank;
            e->last_rank = p->rank > e->last_rank ? p->rank : e->last_rank;
        }
    }
}

static void say_pids(struct al_draft *d, const struct extra *e)
{
    al_draft_message(d, " (pid");
    for (uint32_t i = 0; i < e->count && i < 6; i++)
        al_draft_message(d, "%s %lld", i ? "," : "", (long long)e->pids[i]);
    al_draft_message(d, "%s)", e->count > 6 ? ", ..." : "");
}

static void raise(struct al_run *run, struct al_track *t, uint32_t g, bool workers, const struct extra *e)
{
    const struct al_proc *p = al_snapshot_proc(run->s, e->pids[0]);
    struct al_draft *d = al_run_draft(run, "contexts", AL_LEVEL_WARNING, (int)g);
    d->f.pid = e->pids[0];
    d->f.job = p ? p->job : 0;
    al_draft_title(d, workers ? "workers hold CUDA contexts" : "extra contexts on one GPU");
    al_draft_message(d, "%s: %u ", al_say_gpu(run->s, &run->s->gpus[g]).s, e->count);
    if (workers)
        al_draft_message(d, "DataLoader worker%s a CUDA context", e->count > 1 ? "s hold" : " holds");
    else if (e->first_rank >= 0 && e->last_rank > e->first_rank)
        al_draft_message(d, "ranks (%d to %d) whose own GPU is another one sit here too", e->first_rank, e->last_rank);
    else
        al_draft_message(d, "rank%s whose own GPU is another one sit%s here too", e->count > 1 ? "s" : "",
                         e->count > 1 ? "" : "s");
    say_pids(d, e);
    if (e->bytes_known)
        al_draft_message(d, ", which costs %s", al_say_bytes(e->bytes).s);
    al_draft_number(d, "extra_contexts", e->count, AL_UNIT_COUNT, "nvml", AL_SIGNAL_PROCESS);
    if (e->bytes_known)
        al_draft_number(d, "extra_context_memory_bytes", e->bytes, AL_UNIT_BYTES, "nvml", AL_SIGNAL_PROCESS);
    d->signals |= AL_SIGNAL_HOST; // roles and parents come from /proc
    if (workers) {
        al_draft_considered(d, "Use of the GPU in the dataset on purpose is not excluded.");
        al_draft_advice(d, "Keep CUDA out of Dataset and collate functions (tensors on the CPU, pin_memory in the "
                           "main process), or use the spawn start method if decoding on the GPU is meant.");
    } else {
        al_draft_considered(d, "A model spread over several GPUs on purpose: excluded, each holds less than %s here and "
                               "less than half of what it holds on its own GPU.",
                            al_say_bytes(run->set->contexts_bytes_below).s);
        al_draft_advice(d, "Call torch.cuda.set_device(local_rank) before the first CUDA call, pass map_location to "
                           "torch.load, and check code that names cuda:0.");
    }
    al_run_raise(run, t);
}

static void judge(struct al_run *run, uint32_t g, bool workers)
{
    struct al_track *t = al_run_gpu(run, g, workers ? "workers" : NULL);
    struct extra e;
    if (!t)
        return;
    struct state *m = t->state;
    if (run->view->holders[g] >= AL_HOLDERS_FOREIGN) {
        al_run_cannot(run, t, "who the processes on the GPU are cannot be seen");
        return;
    }
    look(run, g, workers, &e);
    if (e.count == 0) {
        m->since_ns = 0;
        al_run_quiet(run, t);
        return;
    }
    if (!m->since_ns)
        m->since_ns = run->s->monotonic_ns;
    if (run->s->monotonic_ns - m->since_ns < AL_SECONDS(run->set->contexts_after))
        al_run_too_little(run, t, "it may be passing");
    else
        raise(run, t, g, workers, &e);
}

static void step(struct al_run *run)
{
    for (uint32_t g = 0; g < run->s->gpu_count; g++) {
        judge(run, g, false);
        judge(run, g, true);
    }
}

const struct al_rule al_rule_contexts = {
    .name = "contexts",
    .groups = AL_GROUP_FAST | AL_GROUP_PROCESS | AL_GROUP_HOST,
    .enabled = AL_ENABLED(contexts),
    .state_size = sizeof(struct state),
    .step = step,
};
