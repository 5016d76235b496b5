// SPDX-License-Identifier: Apache-2.0
#include "tally/floor.h"

#include "base/err.h"

// Steps are pushed as if each took a second, so that a slope per second is one per step.
#define STEP_NS 1000000000LL
#define STEP_MAX (INT64_MAX / STEP_NS / 2)
#define WARM_UP 2

static void halve(struct al_floor *f) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i + 1 < f->count; i += 2) {
        f->block[kept] = f->block[i + 1].value < f->block[i].value ? f->block[i + 1] : f->block[i];
        kept++;
    }
    f->count = kept;
    f->per_block *= 2;
    f->in_block = f->per_block;
}

void al_floor_push(struct al_floor *f, int64_t step, double value) {
    if (++f->readings <= WARM_UP || step < 0 || step > STEP_MAX)
        return;
    if (!f->per_block)
        f->per_block = 1;
    if (f->count && f->in_block < f->per_block) {
        f->in_block++;
        if (value < f->block[f->count - 1].value) {
            f->block[f->count - 1].step = step;
            f->block[f->count - 1].value = value;
        }
        return;
    }
    if (f->count == AL_FLOOR_BLOCKS)
        halve(f);
    f->block[f->count].step = step;
    f->block[f->count].value = value;
    f->count++;
    f->in_block = 1;
}

static double least_of(const struct al_floor *f, uint32_t from, uint32_t to) {
    double least = f->block[from].value;
    for (uint32_t i = from; i < to; i++)
        if (f->block[i].value < least)
            least = f->block[i].value;
    return least;
}

int al_floor_trend(const struct al_floor *f, uint32_t least, struct al_floor_trend *ret) {
    struct al_window w = {0};
    struct al_slope slope;
    if (f->count < least || f->count < 3)
        return AL_E_AGAIN;
    int result = al_window_init(&w, 0, AL_FLOOR_BLOCKS);
    if (result)
        return result;
    for (uint32_t i = 0; i < f->count; i++)
        (void)al_window_push(&w, f->block[i].step * STEP_NS, f->block[i].value);
    result = w.count < 3 ? AL_E_AGAIN : al_window_robust_slope(&w, 0, AL_FLOOR_BLOCKS, &slope);
    al_window_done(&w);
    if (result)
        return result;
    uint32_t third = f->count / 3;
    *ret = (struct al_floor_trend){.per_step = slope.per_second,
                                   .low = slope.low,
                                   .high = slope.high,
                                   .from = least_of(f, 0, third),
                                   .to = least_of(f, f->count - third, f->count),
                                   .first_step = f->block[0].step,
                                   .last_step = f->block[f->count - 1].step,
                                   .blocks = f->count};
    return 0;
}
