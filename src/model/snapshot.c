// SPDX-License-Identifier: Apache-2.0
#include "model/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct al_snapshot *al_snapshot_new(void) {
    return calloc(1, sizeof(struct al_snapshot));
}

struct al_snapshot *al_snapshot_free(struct al_snapshot *s) {
    if (s) {
        free(s->gpus);
        free(s->procs);
        free(s->rows);
        free(s->ranks);
        free(s->looks);
        free(s);
    }
    return NULL;
}

void al_snapshot_clear(struct al_snapshot *s) {
    struct al_snapshot kept = *s;
    memset(s, 0, sizeof *s);
    s->gpus = kept.gpus;
    s->procs = kept.procs;
    s->rows = kept.rows;
    s->ranks = kept.ranks;
    s->looks = kept.looks;
    s->gpu_cap = kept.gpu_cap;
    s->proc_cap = kept.proc_cap;
    s->row_cap = kept.row_cap;
    s->rank_cap = kept.rank_cap;
    s->look_cap = kept.look_cap;
}

// Makes room for `count` entries; false when memory is out.
static bool reserve(void **array, uint32_t *cap, uint32_t count, size_t size) {
    if (count <= *cap)
        return true;
    uint32_t more = *cap ? *cap : 4;
    while (more < count)
        more *= 2;
    void *p = realloc(*array, (size_t)more * size);
    if (!p)
        return false;
    *array = p;
    *cap = more;
    return true;
}

static void *add(void **array, uint32_t *cap, uint32_t *count, size_t size) {
    if (!reserve(array, cap, *count + 1, size))
        return NULL;
    void *entry = (char *)*array + (size_t)*count * size;
    memset(entry, 0, size);
    ++*count;
    return entry;
}

struct al_gpu *al_snapshot_add_gpu(struct al_snapshot *s) {
    if (s->gpu_count >= AL_GPU_MAX)
        return NULL;
    struct al_gpu *gpu = add((void **)&s->gpus, &s->gpu_cap, &s->gpu_count, sizeof *s->gpus);
    if (gpu)
        gpu->info.parent = -1;
    return gpu;
}

struct al_proc *al_snapshot_add_proc(struct al_snapshot *s) {
    struct al_proc *proc = add((void **)&s->procs, &s->proc_cap, &s->proc_count, sizeof *s->procs);
    if (proc)
        proc->rank = proc->local_rank = proc->world_size = proc->node_rank = -1;
    return proc;
}

struct al_proc_gpu *al_snapshot_add_row(struct al_snapshot *s) {
    struct al_proc_gpu *row = add((void **)&s->rows, &s->row_cap, &s->row_count, sizeof *s->rows);
    if (row)
        row->gpu_instance = row->compute_instance = UINT32_MAX;
    return row;
}

struct al_rank *al_snapshot_add_rank(struct al_snapshot *s) {
    struct al_rank *rank = add((void **)&s->ranks, &s->rank_cap, &s->rank_count, sizeof *s->ranks);
    if (rank)
        rank->rank = rank->local_rank = rank->world = rank->device = -1;
    return rank;
}

struct al_look *al_snapshot_add_look(struct al_snapshot *s) {
    struct al_look *look = add((void **)&s->looks, &s->look_cap, &s->look_count, sizeof *s->looks);
    if (look)
        look->rank = -1;
    return look;
}

int al_snapshot_copy(struct al_snapshot *to, const struct al_snapshot *from) {
    if (!reserve((void **)&to->gpus, &to->gpu_cap, from->gpu_count, sizeof *to->gpus) ||
        !reserve((void **)&to->procs, &to->proc_cap, from->proc_count, sizeof *to->procs) ||
        !reserve((void **)&to->rows, &to->row_cap, from->row_count, sizeof *to->rows) ||
        !reserve((void **)&to->ranks, &to->rank_cap, from->rank_count, sizeof *to->ranks) ||
        !reserve((void **)&to->looks, &to->look_cap, from->look_count, sizeof *to->looks))
        return AL_E_NOMEM;
    struct al_snapshot kept = *to;
    *to = *from;
    to->gpus = kept.gpus;
    to->procs = kept.procs;
    to->rows = kept.rows;
    to->ranks = kept.ranks;
    to->looks = kept.looks;
    to->gpu_cap = kept.gpu_cap;
    to->proc_cap = kept.proc_cap;
    to->row_cap = kept.row_cap;
    to->rank_cap = kept.rank_cap;
    to->look_cap = kept.look_cap;
    if (from->gpu_count)
        memcpy(to->gpus, from->gpus, from->gpu_count * sizeof *to->gpus);
    if (from->proc_count)
        memcpy(to->procs, from->procs, from->proc_count * sizeof *to->procs);
    if (from->row_count)
        memcpy(to->rows, from->rows, from->row_count * sizeof *to->rows);
    if (from->rank_count)
        memcpy(to->ranks, from->ranks, from->rank_count * sizeof *to->ranks);
    if (from->look_count)
        memcpy(to->looks, from->looks, from->look_count * sizeof *to->looks);
    return 0;
}

static int by_pid(const void *a, const void *b) {
    pid_t x = ((const struct al_proc *)a)->pid, y = ((const struct al_proc *)b)->pid;
    return (x > y) - (x < y);
}

static int by_gpu_and_pid(const void *a, const void *b) {
    const struct al_proc_gpu *x = a, *y = b;
    if (x->gpu != y->gpu)
        return x->gpu > y->gpu ? 1 : -1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

// The lowest rank of a job first, as everything is told by rank; unknown ones (-1) lead.
static int by_job_and_rank(const void *a, const void *b) {
    const struct al_rank *x = a, *y = b;
    if (x->job != y->job)
        return x->job > y->job ? 1 : -1;
    if (x->rank != y->rank)
        return x->rank > y->rank ? 1 : -1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static int by_rank_and_pid(const void *a, const void *b) {
    const struct al_look *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank > y->rank ? 1 : -1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

// Backends hand their rows out in order as a rule; qsort would take memory and move kilobytes to find that out.
static void sort(void *rows, uint32_t count, size_t size, int (*order)(const void *, const void *)) {
    const char *row = rows;
    for (uint32_t i = 1; i < count; i++, row += size)
        if (order(row, row + size) > 0) {
            qsort(rows, count, size, order);
            return;
        }
}

void al_snapshot_sort(struct al_snapshot *s) {
    sort(s->procs, s->proc_count, sizeof *s->procs, by_pid);
    sort(s->rows, s->row_count, sizeof *s->rows, by_gpu_and_pid);
    sort(s->ranks, s->rank_count, sizeof *s->ranks, by_job_and_rank);
    sort(s->looks, s->look_count, sizeof *s->looks, by_rank_and_pid);
}

struct al_gpu *al_snapshot_gpu(const struct al_snapshot *s, const char *uuid) {
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (strcmp(s->gpus[i].info.uuid, uuid) == 0)
            return &s->gpus[i];
    return NULL;
}

struct al_proc *al_snapshot_proc(const struct al_snapshot *s, pid_t pid) {
    struct al_proc key = {.pid = pid};
    return s->proc_count ? bsearch(&key, s->procs, s->proc_count, sizeof key, by_pid) : NULL;
}

struct al_rank *al_snapshot_rank(const struct al_snapshot *s, pid_t pid) {
    for (uint32_t i = 0; i < s->rank_count; i++)
        if (s->ranks[i].pid == pid)
            return &s->ranks[i];
    return NULL;
}

struct al_look *al_snapshot_look(const struct al_snapshot *s, pid_t pid) {
    for (uint32_t i = 0; i < s->look_count; i++)
        if (s->looks[i].pid == pid)
            return &s->looks[i];
    return NULL;
}

struct al_value al_snapshot_proc_memory(const struct al_snapshot *s, pid_t pid) {
    struct al_value sum = al_value_none(AL_STATUS_UNREAD);
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_proc_gpu *row = &s->rows[i];
        if (row->pid != pid)
            continue;
        if (!al_ok(row->memory_bytes))
            return row->memory_bytes; // a part is missing: the sum is not known
        sum.num += row->memory_bytes.num;
        sum.at_ns = row->memory_bytes.at_ns;
        sum.status = AL_STATUS_OK;
    }
    return sum;
}
