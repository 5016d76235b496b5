// SPDX-License-Identifier: Apache-2.0
// Memory held with no living process: the driver lists a process that has ended, or lists none at all while much memory
// is taken. Without the host's pid namespace the list is empty or foreign by nature, and nothing can be told.
#include "detect/rule.h"
#include "detect/say.h"

struct state {
    int64_t since_ns; // 0: not now
};

struct held {
    double dead_bytes;
    pid_t dead;        // one of them
    uint32_t dead_count;
    uint32_t rows;
    bool unseen;       // a row whose process the host side has not looked at
    bool foreign;
};

static void look(const struct al_run *run, uint32_t g, struct held *h)
{
    *h = (struct held){0};
    for (uint32_t i = run->view->first_row[g]; i < run->view->first_row[g + 1]; i++) {
        const struct al_proc_gpu *row = &run->s->rows[i];
        const struct al_proc *p = al_snapshot_proc(run->s, row->pid);
        h->rows++;
        h->unseen |= !p;
        h->foreign |= p && p->foreign;
        if (p && !p->alive && !p->foreign && al_ok(row->memory_bytes)) {
            h->dead_bytes += row->memory_bytes.num;
            h->dead = row->pid;
            h->dead_count++;
        }
    }
}

static void raise(struct al_run *run, struct al_track *t, uint32_t g, const struct held *h, double bytes, double seconds)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_draft *d = al_run_draft(run, "orphan", AL_LEVEL_WARNING, (int)g);
    al_draft_title(d, "memory held with no living process");
    if (h->dead_count) {
        d->f.pid = h->dead;
        al_draft_message(d, "%s: %s held for %s by %s%lld, which %s no longer alive", al_say_gpu(run->s, gpu).s,
                         al_say_bytes(bytes).s, al_say_seconds(seconds).s, h->dead_count > 1 ? "processes such as pid "
                         : "pid ", (long long)h->dead, h->dead_count > 1 ? "are" : "is");
        al_draft_number(d, "dead_process_memory_bytes", bytes, AL_UNIT_BYTES, "nvml", AL_SIGNAL_PROCESS);
        d->signals |= AL_SIGNAL_HOST;
    } else {
        al_draft_message(d, "%s: %s used for %s, and the driver lists no process", al_say_gpu(run->s, gpu).s,
                         al_say_bytes(bytes).s, al_say_seconds(seconds).s);
        d->signals |= AL_SIGNAL_PROCESS;
    }
    al_draft_gpu(d, gpu, AL_GPU_MEM_USED, AL_SIGNAL_MEMORY);
    al_draft_gpu(d, gpu, AL_GPU_MEM_RESERVED, 0);
    al_draft_considered(d, "The driver's own reserve is left out. Virtual machines that hold a vGPU, and a process that is "
                           "just ending, look the same.");
    al_draft_advice(d, "Find who still has the device open (fuser -v /dev/nvidia*): children of a killed launcher, workers "
                       "or a shell in a container. Ending them frees the memory; if nobody has it open, reset the GPU.");
    al_run_raise(run, t);
}

static const char *unclear(const struct al_run *run, uint32_t g, const struct held *h)
{
    if (run->view->holders[g] == AL_HOLDERS_UNKNOWN)
        return "the driver's process list could not be read";
    if (h->foreign || !run->s->node.host_pid_ns)
        return "without the host's pid namespace the processes on the GPU cannot be seen";
    if (h->unseen)
        return "the processes on the GPU were not looked up on the host side";
    return NULL;
}

static void judge(struct al_run *run, struct al_track *t, uint32_t g)
{
    struct state *m = t->state;
    struct al_value used = run->s->gpus[g].m[AL_GPU_MEM_USED];
    int64_t now = run->s->monotonic_ns;
    struct held h;
    look(run, g, &h);
    double bytes = h.dead_count ? h.dead_bytes : h.rows == 0 && al_ok(used) ? used.num : 0;
    if (bytes < run->set->orphan_bytes_above) {
        m->since_ns = 0;
        if (h.rows == 0 && !al_ok(used))
            al_run_cannot(run, t, "memory used could not be read");
        else
            al_run_quiet(run, t);
        return;
    }
    const char *why = unclear(run, g, &h);
    if (why) {
        m->since_ns = 0;
        al_run_cannot(run, t, why);
        return;
    }
    if (!m->since_ns)
        m->since_ns = now;
    if (now - m->since_ns < AL_SECONDS(run->set->orphan_after))
        al_run_too_little(run, t, "it may be a process that is just ending");
    else
        raise(run, t, g, &h, bytes, (double)(now - m->since_ns) / 1e9);
}

static void step(struct al_run *run)
{
    for (uint32_t g = 0; g < run->s->gpu_count; g++) {
        const struct al_gpu_info *info = &run->s->gpus[g].info;
        if (info->mig_enabled || info->unified_memory) // the instances are judged; unified memory is the host's
            continue;
        struct al_track *t = al_run_gpu(run, g, NULL);
        if (t)
            judge(run, t, g);
    }
}

const struct al_rule al_rule_orphan = {
    .name = "orphan",
    .groups = AL_GROUP_FAST | AL_GROUP_PROCESS | AL_GROUP_HOST,
    .enabled = AL_ENABLED(orphan),
    .state_size = sizeof(struct state),
    .step = step,
};
