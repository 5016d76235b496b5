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
    // Readings while a step lasts are one: what stands still for a long step does not rise, and is not level either.
    bool same = f->count && f->last_step == step;
    f->last_step = step;
    if (f->count && (same || f->in_block < f->per_block)) {
        f->in_block += !same;
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

// The trend of the blocks from `from` on, `group` of them taken as one.
static int trend_of(const struct al_floor *f, uint32_t from, uint32_t group, struct al_floor_trend *ret) {
    struct al_window w = {0};
    struct al_slope slope;
    int result = al_window_init(&w, 0, AL_FLOOR_BLOCKS);
    if (result)
        return result;
    for (uint32_t i = from; i < f->count; i += group) {
        uint32_t end = i + group < f->count ? i + group : f->count;
        (void)al_window_push(&w, f->block[i].step * STEP_NS, least_of(f, i, end));
    }
    result = w.count < 3 ? AL_E_AGAIN : al_window_robust_slope(&w, 0, AL_FLOOR_BLOCKS, &slope);
    al_window_done(&w);
    if (result)
        return result;
    uint32_t third = (f->count - from) / 3;
    *ret = (struct al_floor_trend){.per_step = slope.per_second,
                                   .low = slope.low,
                                   .high = slope.high,
                                   .from = least_of(f, from, from + third),
                                   .to = least_of(f, f->count - third, f->count),
                                   .first_step = f->block[from].step,
                                   .last_step = f->block[f->count - 1].step,
                                   .blocks = f->count - from};
    return 0;
}

int al_floor_trend(const struct al_floor *f, uint32_t least, struct al_floor_trend *ret) {
    return f->count < least || f->count < 3 ? AL_E_AGAIN : trend_of(f, 0, 1, ret);
}

// Of a steady growth each quarter brings a third of what lies between the first and the last one's floor, and each
// of the last two eighths a seventh of what lies between the eighths.
#define QUARTER_LEAST 0.15
#define EIGHTH_LEAST 0.07

static double floor_of_part(const struct al_floor *f, uint32_t from, uint32_t part, uint32_t parts) {
    uint32_t count = f->count - from;
    return least_of(f, from + count * part / parts, from + count * (part + 1) / parts);
}

static bool rises_throughout(const struct al_floor *f, uint32_t from) {
    double first = floor_of_part(f, from, 0, 4), whole = floor_of_part(f, from, 3, 4) - first;
    for (uint32_t i = 0; i < 3; i++)
        if (whole <= 0 || floor_of_part(f, from, i + 1, 4) - floor_of_part(f, from, i, 4) < QUARTER_LEAST * whole)
            return false;
    double last = floor_of_part(f, from, 7, 8), middle = floor_of_part(f, from, 6, 8);
    double least = EIGHTH_LEAST * (last - first);
    return last - middle >= least && middle - floor_of_part(f, from, 5, 8) >= least;
}

static bool clear(const struct al_floor_trend *t, double above) {
    return t->low > 0 && t->per_step * (double)(t->last_step - t->first_step) > above && t->to - t->from > above / 2;
}

#define GROUP_MOST 4
#define GROUPS_LEAST 12 // fewer points have no interval worth the name

int al_floor_rises(const struct al_floor *f, uint32_t least, double above, struct al_floor_trend *ret) {
    int result = al_floor_trend(f, least, ret);
    if (result)
        return result;
    struct al_floor_trend t = *ret; // of all blocks, one by one
    for (uint32_t from = 0; f->count - from >= least; from = f->count / 2) {
        bool throughout = rises_throughout(f, from); // does not depend on the groups, and costs little
        // Levels that alternate make the interval wide: their lower envelope is what is kept.
        for (uint32_t group = 1;
             throughout && group <= GROUP_MOST && (group == 1 || (f->count - from) / group >= GROUPS_LEAST); group *= 2) {
            if (from || group > 1)
                result = trend_of(f, from, group, &t);
            if (result == AL_E_NOMEM)
                return result;
            if (result || !clear(&t, above))
                continue;
            *ret = t;
            return 1;
        }
        if (from)
            break;
    }
    return 0;
}
