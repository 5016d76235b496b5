// SPDX-License-Identifier: Apache-2.0
// A tally as a row of the snapshot.
#include <string.h>

#include "base/str.h"
#include "model/told.h"
#include "tally/tally.h"

static const uint8_t figure_metrics[AL_ALLOCATOR_COUNT] = {
    [AL_ALLOCATOR_ALLOCATED] = AL_RANK_ALLOCATED, [AL_ALLOCATOR_ALLOCATED_PEAK] = AL_RANK_ALLOCATED_PEAK,
    [AL_ALLOCATOR_RESERVED] = AL_RANK_RESERVED,   [AL_ALLOCATOR_RESERVED_PEAK] = AL_RANK_RESERVED_PEAK,
    [AL_ALLOCATOR_ACTIVE] = AL_RANK_ACTIVE,       [AL_ALLOCATOR_INACTIVE_SPLIT] = AL_RANK_INACTIVE_SPLIT,
    [AL_ALLOCATOR_RETRIES] = AL_RANK_RETRIES,     [AL_ALLOCATOR_OOMS] = AL_RANK_OOMS,
};

static void put(struct al_rank *r, int metric, double num, int64_t at_ns) {
    r->m[metric] = al_value_ok(num, at_ns);
}

static void put_times(struct al_rank *r, const struct al_tally *t) {
    struct al_tally_span recent;
    uint32_t steps = al_tally_recent(t, &recent);
    double ratio;
    if (steps && recent.wall_ns > 0) {
        put(r, AL_RANK_STEP_RATE, steps * 1e9 / (double)recent.wall_ns, t->step_end_ns);
        put(r, AL_RANK_STEP_SECONDS, (double)recent.wall_ns / 1e9 / steps, t->step_end_ns);
        for (int i = 0; i < AL_PART_COUNT; i++)
            put(r, AL_RANK_SHARE_OTHER + i, (double)recent.part_ns[i] / (double)recent.wall_ns, t->step_end_ns);
    }
    if (t->samples && !t->samples_unknown && t->total.wall_ns > 0)
        put(r, AL_RANK_SAMPLE_RATE, (double)t->samples * 1e9 / (double)t->total.wall_ns, t->step_end_ns);
    if (al_tally_gpu_ratio(t, &ratio))
        put(r, AL_RANK_GPU_RATIO, ratio, t->step_end_ns);
}

static void put_memory(struct al_rank *r, const struct al_tally *t) {
    const struct al_tally_memory *main = NULL;
    for (uint32_t i = 0; i < t->device_count; i++)
        if (!main || t->memory[i].last[AL_ALLOCATOR_RESERVED] > main->last[AL_ALLOCATOR_RESERVED])
            main = &t->memory[i];
    if (!main)
        return;
    r->device = main->device;
    for (int f = 0; f < AL_ALLOCATOR_COUNT; f++)
        if (figure_metrics[f] && main->known[f])
            put(r, figure_metrics[f], (double)main->last[f], t->last_ns);
}

void al_tally_rank(const struct al_tally *t, struct al_rank *r) {
    memset(r->m, 0, sizeof r->m);
    r->rank = t->rank >= 0 && t->rank <= INT32_MAX ? (int32_t)t->rank : -1;
    r->world = t->world > 0 && t->world <= INT32_MAX ? (int32_t)t->world : -1;
    r->device = -1;
    (void)al_str_copy_n(r->source, sizeof r->source, t->text[AL_TEXT_SOURCE], al_told_name(t->text[AL_TEXT_SOURCE]));
    if (!t->first_ns)
        return;
    int64_t now = t->last_ns, step = al_tally_steps(t) ? t->step_end_ns : now;
    put(r, AL_RANK_TRAINING, al_tally_trains(t), now);
    put(r, AL_RANK_PHASE, al_tally_part(t), now);
    put(r, AL_RANK_STEP, (double)(al_tally_steps(t) ? t->step : 0), step);
    put(r, AL_RANK_SKIPPED, (double)t->skipped, step);
    put(r, AL_RANK_ABORTED, (double)t->aborted, step);
    put(r, AL_RANK_LOST, (double)t->lost, now);
    if (t->epoch >= 0)
        put(r, AL_RANK_EPOCH, (double)t->epoch, now);
    put_times(r, t);
    put_memory(r, t);
}
