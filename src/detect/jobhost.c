// SPDX-License-Identifier: Apache-2.0
#include "detect/jobhost.h"

#include <math.h>

static void highest(double *most, double value)
{
    if (isnan(*most) || value > *most)
        *most = value;
}

static void newest(int64_t *at_ns, struct al_value v)
{
    if (v.at_ns > *at_ns)
        *at_ns = v.at_ns;
}

static void take(struct al_jobhost *h, const struct al_proc *p, double *worker_sum)
{
    struct al_value wait = p->m[AL_PROC_IO_WAIT], cpu = p->m[AL_PROC_CPU], writes = p->m[AL_PROC_WRITE_RATE];
    if (al_ok(wait)) {
        if (isnan(h->io_wait) || wait.num > h->io_wait)
            h->io_pid = p->pid;
        highest(&h->io_wait, wait.num);
        newest(&h->at_ns, wait);
    }
    if (al_ok(p->m[AL_PROC_BLOCKED])) {
        h->blocked += (uint32_t)p->m[AL_PROC_BLOCKED].num;
        h->blocked_read = true;
        newest(&h->at_ns, p->m[AL_PROC_BLOCKED]);
    }
    if (al_ok(writes))
        h->write_rate = (isnan(h->write_rate) ? 0 : h->write_rate) + writes.num;
    if (p->role == AL_ROLE_WORKER) {
        h->workers++;
        h->worker_reads += al_ok(p->m[AL_PROC_READ_RATE]) ? p->m[AL_PROC_READ_RATE].num : 0;
        *worker_sum += al_ok(cpu) ? cpu.num : NAN;
    } else if (al_ok(cpu)) {
        highest(&h->rank_cpu, cpu.num);
    }
    h->serves |= p->role == AL_ROLE_ENGINE || p->role == AL_ROLE_NOTEBOOK;
    if (p->holds_context && p->started_realtime_ns > h->started_realtime_ns)
        h->started_realtime_ns = p->started_realtime_ns;
}

// A thread in state D may just as well be inside the driver, so blocked threads count only where the node's pressure
// shows that somebody waits for I/O; and a node without pressure shows that nobody does.
static enum al_io judge(const struct al_jobhost *h, const struct al_settings *set)
{
    if (!isnan(h->io_wait) && h->io_wait > set->inefficient_io_wait_above)
        return AL_IO_WAITS;
    if (h->blocked > 0 && h->pressure >= set->inefficient_pressure_above)
        return AL_IO_WAITS;
    if (!isnan(h->io_wait) || (h->blocked_read && !isnan(h->pressure)) || h->pressure < 0.01)
        return AL_IO_NONE;
    return AL_IO_UNKNOWN;
}

void al_jobhost_read(struct al_jobhost *h, const struct al_snapshot *s, const struct al_settings *set,
                     const pid_t *jobs, uint32_t count)
{
    double worker_sum = 0;
    *h = (struct al_jobhost){.io_wait = NAN, .pressure = NAN, .write_rate = NAN, .worker_cpu = NAN, .rank_cpu = NAN};
    if (al_ok(s->node.m[AL_NODE_PSI_IO]))
        h->pressure = s->node.m[AL_NODE_PSI_IO].num;
    for (uint32_t i = 0; i < s->proc_count; i++) {
        const struct al_proc *p = &s->procs[i];
        for (uint32_t k = 0; k < count; k++)
            if ((p->job ? p->job : p->pid) == jobs[k]) {
                take(h, p, &worker_sum);
                break;
            }
    }
    if (h->workers)
        h->worker_cpu = worker_sum / h->workers;
    h->io = judge(h, set);
}
