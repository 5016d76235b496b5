// SPDX-License-Identifier: Apache-2.0
// The GPUs of a job while it trained.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "job/book.h"

#define TREE_DEPTH 64 // of a process tree that is believed
#define SAMPLE_STANDS_FOR_NS AL_NS_PER_S // at most: a gap counts for nothing

static struct al_book_gpu *gpu_of(struct al_book *book, const struct al_gpu_info *info) {
    for (uint32_t i = 0; i < book->gpu_count; i++)
        if (strcmp(book->gpus[i].uuid, info->uuid) == 0)
            return &book->gpus[i];
    if (book->gpu_count == AL_GPU_MAX)
        return NULL;
    struct al_book_gpu *g = &book->gpus[book->gpu_count];
    if (!g->samples && !(g->samples = calloc(AL_BOOK_PENDING, sizeof *g->samples)))
        return NULL;
    book->gpu_count++;
    g->index = info->index;
    (void)al_str_copy(g->uuid, sizeof g->uuid, info->uuid);
    (void)al_str_copy(g->name, sizeof g->name, info->name);
    return g;
}

static void count_sample(struct al_book_gpu *g, struct al_fresh s) {
    int64_t passed = g->last_ns ? s.at_ns - g->last_ns : 0;
    g->last_ns = s.at_ns;
    if (passed <= 0 || passed > SAMPLE_STANDS_FOR_NS)
        passed = passed <= 0 ? AL_NS_PER_S / 5 : SAMPLE_STANDS_FOR_NS;
    g->ratio_ns += s.ratio * (double)passed;
    g->covered_ns += (double)passed;
    if (s.ratio > g->max)
        g->max = s.ratio;
    al_spread_push(&g->spread, s.ratio);
}

// Counts what lies between the first step's begin and the last step's end so far; what is later waits.
static void settle(struct al_book_gpu *g, int64_t begin_ns, int64_t end_ns) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->pending; i++) {
        struct al_fresh s = g->samples[i];
        if (begin_ns && s.at_ns >= begin_ns && s.at_ns <= end_ns)
            count_sample(g, s);
        else if (!begin_ns || s.at_ns > end_ns)
            g->samples[kept++] = s;
    }
    g->pending = kept;
}

static void push_sample(struct al_book_gpu *g, int64_t at_ns, double ratio) {
    if (g->pending == AL_BOOK_PENDING) {
        memmove(g->samples, g->samples + 1, (AL_BOOK_PENDING - 1) * sizeof *g->samples);
        g->pending--;
    }
    g->samples[g->pending++] = (struct al_fresh){at_ns, ratio};
    g->ratio_now = ratio;
    g->ratio_known = true;
}

static void take_gpu(struct al_book *book, const struct al_gpu *g) {
    struct al_book_gpu *own = gpu_of(book, &g->info);
    struct al_value used = g->m[AL_GPU_MEM_USED], total = g->m[AL_GPU_MEM_TOTAL];
    if (!own)
        return;
    for (uint32_t i = 0; i < g->fresh_count && i < AL_FRESH_MAX; i++)
        push_sample(own, g->fresh[i].at_ns, g->fresh[i].ratio);
    if (!g->fresh_count && al_ok(g->m[AL_GPU_UTIL]) && !al_ok(g->m[AL_GPU_UTIL_MEAN]))
        push_sample(own, g->m[AL_GPU_UTIL].at_ns, g->m[AL_GPU_UTIL].num);
    settle(own, book->begin_ns, book->end_ns);
    struct al_value links = g->m[AL_GPU_NVLINK_ACTIVE];
    if (al_ok(links) || links.status == AL_STATUS_UNSUPPORTED) {
        own->nvlinks_known = true;
        own->nvlinks = al_ok(links) && links.num > 0 ? (uint32_t)links.num : 0;
    }
    if (al_ok(used) && al_ok(total)) {
        own->memory_known = true;
        own->memory_now = used.num;
        own->memory_total = total.num;
        if (used.num > own->memory_most)
            own->memory_most = used.num;
    }
}

bool al_book_below(const struct al_snapshot *s, pid_t pid, pid_t job) {
    for (int depth = 0; depth < TREE_DEPTH && pid > 1; depth++) {
        const struct al_proc *p = pid == job ? NULL : al_snapshot_proc(s, pid);
        if (!p)
            return pid == job;
        pid = p->ppid;
    }
    return false;
}

static bool is_member(const struct al_book *book, const struct al_snapshot *s, pid_t pid) {
    for (uint32_t i = 0; i < book->rank_count; i++)
        if (book->ranks[i]->pid == pid)
            return true;
    return book->job.pid > 0 && al_book_below(s, pid, book->job.pid);
}

static void take_look(struct al_book *book, const struct al_look *l) {
    for (uint32_t i = 0; i < book->rank_count; i++) {
        struct al_book_rank *k = book->ranks[i];
        if (k->pid != l->pid || (k->start_ticks && l->start_ticks && k->start_ticks != l->start_ticks))
            continue;
        if (!al_ok(l->m[AL_LOOK_SAMPLES]) || l->m[AL_LOOK_SAMPLES].num < 1)
            continue;
        k->looked = true;
        k->look = *l;
    }
}

void al_book_snapshot(struct al_book *book, const struct al_snapshot *s, al_book_member_fn *member, const void *user) {
    al_book_tree(book, s);
    for (uint32_t i = 0; i < s->look_count; i++)
        take_look(book, &s->looks[i]);
    for (uint32_t i = 0; i < s->gpu_count; i++)
        take_gpu(book, &s->gpus[i]);
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_proc_gpu *row = &s->rows[i];
        struct al_book_gpu *g = row->gpu < s->gpu_count ? gpu_of(book, &s->gpus[row->gpu].info) : NULL;
        if (g && !g->used_by_job)
            g->used_by_job = member ? member(user, row->pid) : is_member(book, s, row->pid);
    }
}

void al_book_settle(struct al_book *book) {
    for (uint32_t i = 0; i < book->gpu_count; i++)
        settle(&book->gpus[i], book->begin_ns, book->end_ns);
}

void al_book_device_missing(struct al_book *book, const char *why) {
    (void)al_str_copy(book->device_missing, sizeof book->device_missing, why);
}

const struct al_book_gpu *al_book_gpu(const struct al_book *book, const char *uuid) {
    for (uint32_t i = 0; i < book->gpu_count; i++)
        if (strcmp(book->gpus[i].uuid, uuid) == 0)
            return &book->gpus[i];
    return NULL;
}

static uint32_t used_gpus(const struct al_book *book) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < book->gpu_count; i++)
        used += book->gpus[i].used_by_job;
    return used;
}

double al_book_gpu_error(const struct al_book_gpu *g) {
    double error;
    return al_spread_error(&g->spread, &error) ? error : g->kept_error;
}

void al_book_utilization(const struct al_book *book, struct al_book_utilization *u) {
    *u = (struct al_book_utilization){0};
    double ratio_ns = 0, covered_ns = 0, squares = 0;
    uint32_t counted = 0;
    uint32_t used = used_gpus(book);
    if (!book->device_open || !book->gpu_count) {
        (void)al_str_copy(u->why, sizeof u->why, *book->device_missing ? book->device_missing : "no GPU");
        return;
    }
    // Where pids cannot be told (containers), the only GPU must be the one that the job's allocator speaks of.
    bool cuda = book->cuda_seen, only = book->no_job || (!used && book->gpu_count == 1 && cuda);
    if (!used && !only) {
        (void)al_str_copy(u->why, sizeof u->why,
                          cuda ? "cannot tell which GPUs are the job's: the driver lists none of its processes here"
                               : "no process of the job was seen on a GPU");
        return;
    }
    for (uint32_t i = 0; i < book->gpu_count; i++) {
        const struct al_book_gpu *g = &book->gpus[i];
        if (!g->used_by_job && !only)
            continue;
        ratio_ns += g->ratio_ns;
        covered_ns += g->covered_ns;
        squares += al_book_gpu_error(g) * al_book_gpu_error(g);
        counted++;
        if (g->max > u->max)
            u->max = g->max;
    }
    u->known = covered_ns > 0;
    u->mean = u->known ? ratio_ns / covered_ns : 0;
    u->error = u->known && counted ? sqrt(squares) / counted : 0;
    (void)snprintf(u->why, sizeof u->why, "%s",
                   book->no_job ? "NVML utilisation samples of the whole recording, which tells of no job"
                   : !u->known ? "no utilisation sample falls into the training steps"
                   : only    ? "NVML utilisation samples during training; the only GPU, taken to be the job's"
                             : "NVML utilisation samples during training, GPUs by the driver's process list");
}
