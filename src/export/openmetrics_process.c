// SPDX-License-Identifier: Apache-2.0
// Per-process series. Their number is bounded: the processes with the most GPU memory have their own, the rest are one
// sum a GPU. Command lines are never among them.
#include <stdlib.h>

#include "export/openmetrics.h"
#include "export/openmetrics_write.h"

struct ranked {
    double bytes;
    pid_t pid;
};

struct chosen {
    struct ranked *all;
    uint32_t count, own; // own: how many of them, from the first on, have series of their own
};

static int by_memory(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static int by_pid(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool has_own(const struct chosen *c, pid_t pid) {
    const struct ranked key = {.pid = pid};
    return bsearch(&key, c->all, c->own, sizeof *c->all, by_pid) != NULL;
}

// A process may be in a GPU's lists twice (compute and graphics): that is one series. Rows are sorted by GPU and pid.
static bool listed_before(const struct al_snapshot *s, uint32_t r) {
    return r && s->rows[r - 1].pid == s->rows[r].pid && s->rows[r - 1].gpu == s->rows[r].gpu;
}

// Processes of the rows, each once, those to be shown first and in order of pid.
static int choose(const struct al_om_page *p, struct chosen *c) {
    const struct al_snapshot *s = p->s;
    c->all = calloc(s->row_count ? s->row_count : 1, sizeof *c->all);
    if (!c->all)
        return -1;
    for (uint32_t r = 0; r < s->row_count; r++) {
        struct al_value bytes = s->rows[r].memory_bytes;
        c->all[r] = (struct ranked){al_ok(bytes) && !listed_before(s, r) ? bytes.num : 0, s->rows[r].pid};
    }
    qsort(c->all, s->row_count, sizeof *c->all, by_pid);
    for (uint32_t r = 0; r < s->row_count; r++) {
        if (c->count && c->all[c->count - 1].pid == c->all[r].pid)
            c->all[c->count - 1].bytes += c->all[r].bytes;
        else
            c->all[c->count++] = c->all[r];
    }
    qsort(c->all, c->count, sizeof *c->all, by_memory);
    c->own = c->count < p->max_processes ? c->count : p->max_processes;
    qsort(c->all, c->own, sizeof *c->all, by_pid);
    return 0;
}

static void info(struct al_om *o, const struct al_snapshot *s, const struct chosen *c) {
    al_om_family(o, "alula_process", AL_OM_INFO, "", "Who the process is; join on pid");
    for (uint32_t i = 0; i < c->own; i++) {
        const struct al_proc *proc = al_snapshot_proc(s, c->all[i].pid);
        if (!proc)
            continue;
        al_om_begin(o);
        al_om_label_number(o, "pid", proc->pid);
        al_om_label(o, "name", proc->exe[0] ? proc->exe : proc->comm);
        al_om_label(o, "user", proc->user);
        al_om_label(o, "role", al_role_word(proc->role));
        if (proc->rank >= 0)
            al_om_label_number(o, "rank", proc->rank);
        al_om_label_number(o, "job", proc->job);
        al_om_label(o, "container", proc->container);
        al_om_label(o, "pod", proc->pod);
        al_om_label(o, "slurm_job", proc->slurm_job);
        al_om_end(o, 1);
    }
}

struct row_family {
    const char *name, *unit, *help;
    size_t offset;
};

static struct al_value row_value(const struct al_proc_gpu *row, const struct row_family *f) {
    return *(const struct al_value *)((const char *)row + f->offset);
}

static void others(struct al_om *o, const struct al_snapshot *s, const struct chosen *c, const struct row_family *f) {
    for (uint32_t g = 0; g < s->gpu_count; g++) {
        double sum = 0;
        bool any = false;
        for (uint32_t r = 0; r < s->row_count; r++) {
            struct al_value v = row_value(&s->rows[r], f);
            if (s->rows[r].gpu != g || !al_ok(v) || listed_before(s, r) || has_own(c, s->rows[r].pid))
                continue;
            sum += v.num;
            any = true;
        }
        if (!any)
            continue;
        al_om_begin(o);
        al_om_gpu_labels(o, g);
        al_om_label(o, "pid", "other");
        al_om_end(o, sum);
    }
}

static void rows(struct al_om *o, const struct al_snapshot *s, const struct chosen *c) {
    static const struct row_family families[] = {
        {"alula_process_gpu_memory_bytes", "bytes", "Memory of the process on the GPU",
         offsetof(struct al_proc_gpu, memory_bytes)},
        {"alula_process_gpu_sm_ratio", "ratio", "Share of time in which the process ran kernels there",
         offsetof(struct al_proc_gpu, sm_ratio)},
    };
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        al_om_family(o, families[f].name, AL_OM_GAUGE, families[f].unit, families[f].help);
        for (uint32_t r = 0; r < s->row_count; r++) {
            const struct al_proc_gpu *row = &s->rows[r];
            struct al_value v = row_value(row, &families[f]);
            if (row->gpu >= s->gpu_count || !al_ok(v) || listed_before(s, r) || !has_own(c, row->pid))
                continue;
            al_om_begin(o);
            al_om_gpu_labels(o, row->gpu);
            al_om_label_number(o, "pid", row->pid);
            al_om_end(o, v.num);
        }
        others(o, s, c, &families[f]);
    }
}

static void host(struct al_om *o, const struct al_snapshot *s, const struct chosen *c) {
    static const struct {
        const char *name, *unit;
        enum al_proc_metric metric;
    } families[] = {{"alula_process_cpu_ratio", "ratio", AL_PROC_CPU},
                    {"alula_process_resident_bytes", "bytes", AL_PROC_RSS},
                    {"alula_process_resident_anonymous_bytes", "bytes", AL_PROC_RSS_ANON},
                    {"alula_process_io_wait_ratio", "ratio", AL_PROC_IO_WAIT}};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        al_om_family(o, families[f].name, AL_OM_GAUGE, families[f].unit, al_proc_metric_table[families[f].metric].help);
        for (uint32_t i = 0; i < c->own; i++) {
            const struct al_proc *proc = al_snapshot_proc(s, c->all[i].pid);
            if (!proc || !al_ok(proc->m[families[f].metric]))
                continue;
            al_om_begin(o);
            al_om_label_number(o, "pid", proc->pid);
            al_om_end(o, proc->m[families[f].metric].num);
        }
    }
}

void al_om_processes(struct al_om *o, const struct al_om_page *p) {
    struct chosen c = {0};
    if (choose(p, &c)) {
        o->b->failed = true;
        return;
    }
    info(o, p->s, &c);
    rows(o, p->s, &c);
    host(o, p->s, &c);
    al_om_family(o, "alula_processes_summed", AL_OM_GAUGE, "", "Processes without series of their own, in pid=\"other\"");
    al_om_value(o, c.count - c.own);
    free(c.all);
}
