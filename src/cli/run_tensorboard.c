// SPDX-License-Identifier: Apache-2.0
// TensorBoard's scalars: a point every --log-every steps, else about one a second; the longer a run, the wider apart, so
// that a week's file stays a few megabytes. Tags: docs/run.md.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/run.h"

#define SPACING_NS AL_NS_PER_S
#define POINTS_A_SPACING 4000 // then it doubles
#define RANKS_MOST 64         // with a scalar of their own

static bool open_file(struct al_run *r) {
    struct al_run_tensorboard *t = &r->tensorboard;
    char folder[4096], host[65] = "";
    const char *source, *dir = t->folder ? t->folder : al_run_output_dir(r, &source);
    if (!dir)
        return false; // the trainer may still tell
    (void)snprintf(folder, sizeof folder, "%s%s", dir, t->folder ? "" : "/runs/alula");
    (void)gethostname(host, sizeof host - 1);
    int result = al_tensorboard_open(folder, host, al_realtime_ns(), &t->file);
    if (result) {
        t->failed = true;
        al_cli_error("%s: --tensorboard %s: %s; the job runs without", r->name, folder, errno ? strerror(errno) : al_error_text(result));
    }
    return !result;
}

static void put_times(struct al_tensorboard *f, const struct al_run_tensorboard *t, const struct al_tally *k) {
    double steps = (double)(al_tally_steps(k) - t->written_steps);
    double wall = (double)(k->total.wall_ns - t->written.wall_ns) / 1e9;
    al_tensorboard_scalar(f, wall / steps, "alula/step_seconds");
    if (wall > 0)
        al_tensorboard_scalar(f, steps / wall, "alula/steps_per_second");
    for (int i = 0; i < AL_PART_COUNT; i++)
        if (k->total.part_ns[i] || i == AL_IN_DATA)
            al_tensorboard_scalar(f, (double)(k->total.part_ns[i] - t->written.part_ns[i]) / 1e9 / steps, "alula/phase/%s_seconds",
                                  al_part_word(i));
    if (wall > 0)
        al_tensorboard_scalar(f, (double)(k->total.part_ns[AL_IN_DATA] - t->written.part_ns[AL_IN_DATA]) / 1e9 / wall,
                              "alula/data_loading_time_ratio");
}

static void put_memory(struct al_tensorboard *f, const struct al_tally *k) {
    static const struct {
        enum al_allocator_figure figure;
        const char *word;
    } rows[] = {{AL_ALLOCATOR_ALLOCATED, "allocated_bytes"},
                {AL_ALLOCATOR_ALLOCATED_PEAK, "allocated_peak_bytes"},
                {AL_ALLOCATOR_RESERVED, "reserved_bytes"},
                {AL_ALLOCATOR_INACTIVE_SPLIT, "inactive_split_bytes"}};
    for (uint32_t d = 0; d < k->device_count; d++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const struct al_tally_memory *m = &k->memory[d];
            if (!m->known[rows[i].figure])
                continue;
            if (k->device_count == 1)
                al_tensorboard_scalar(f, (double)m->last[rows[i].figure], "alula/memory/%s", rows[i].word);
            else
                al_tensorboard_scalar(f, (double)m->last[rows[i].figure], "alula/memory/cuda%d/%s", (int)m->device, rows[i].word);
        }
}

static void put_gpus(struct al_tensorboard *f, const struct al_book *book) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < book->gpu_count; i++)
        used += book->gpus[i].used_by_job;
    for (uint32_t i = 0; i < book->gpu_count; i++) {
        const struct al_book_gpu *g = &book->gpus[i];
        if (used ? !g->used_by_job : book->gpu_count > 1)
            continue;
        if (g->ratio_known)
            al_tensorboard_scalar(f, g->ratio_now, "alula/gpu/%u/utilization", g->index);
        if (g->memory_known)
            al_tensorboard_scalar(f, g->memory_now, "alula/gpu/%u/memory_used_bytes", g->index);
    }
}

// How far each of several ranks is, and how long its last step took.
static void put_ranks(struct al_tensorboard *f, const struct al_book *book) {
    for (uint32_t i = 0, shown = 0; i < book->rank_count && shown < RANKS_MOST; i++) {
        const struct al_tally *k = &book->ranks[i]->tally;
        if (k->world < 2 || k->rank < 0 || !al_tally_steps(k))
            continue;
        shown++;
        al_tensorboard_scalar(f, (double)k->last_step.wall_ns / 1e9, "alula/rank/%lld/step_seconds", (long long)k->rank);
    }
}

static bool due(const struct al_run *r, const struct al_tally *k, int64_t now_ns, bool last) {
    const struct al_run_tensorboard *t = &r->tensorboard;
    uint64_t steps = al_tally_steps(k) - t->written_steps;
    if (!steps || !k->total.wall_ns)
        return false;
    if (last)
        return true;
    if (r->log_every && steps < r->log_every)
        return false;
    return (r->log_every && t->spacing_ns == SPACING_NS) || now_ns >= t->next_ns;
}

static void put_point(struct al_run *r, const struct al_tally *k, int64_t now_ns) {
    struct al_run_tensorboard *t = &r->tensorboard;
    put_times(t->file, t, k);
    put_memory(t->file, k);
    put_gpus(t->file, &r->book);
    put_ranks(t->file, &r->book);
    t->written = k->total;
    t->written_steps = al_tally_steps(k);
    if (al_tensorboard_points(t->file) % POINTS_A_SPACING == POINTS_A_SPACING - 1)
        t->spacing_ns *= 2;
    t->next_ns = now_ns + t->spacing_ns;
}

void al_run_tensorboard(struct al_run *r, bool last) {
    struct al_run_tensorboard *t = &r->tensorboard;
    int64_t now = al_monotonic_ns();
    // Only this thread changes ranks; the GPUs are the other's.
    const struct al_book_rank *leader = t->asked && !t->failed ? al_book_leader(&r->book) : NULL;
    if (!t->spacing_ns)
        t->spacing_ns = SPACING_NS;
    if (!leader || !due(r, &leader->tally, now, last) || (!t->file && !open_file(r)))
        return;
    pthread_mutex_lock(&r->lock);
    put_point(r, &leader->tally, now);
    pthread_mutex_unlock(&r->lock);
    int result = al_tensorboard_point(t->file, leader->tally.step, al_realtime_ns());
    if (result) {
        t->failed = true;
        al_cli_error("%s: --tensorboard: %s: %s; no more points", r->name, al_tensorboard_path(t->file), al_error_text(result));
    }
}

void al_run_tensorboard_close(struct al_run *r) {
    r->tensorboard.file = al_tensorboard_free(r->tensorboard.file);
}
