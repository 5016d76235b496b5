// SPDX-License-Identifier: Apache-2.0
// Lowest values of a figure over blocks of steps, in fixed memory: blocks double in length when their table is full.
#ifndef AL_TALLY_FLOOR_H
#define AL_TALLY_FLOOR_H

#include <stdint.h>

#include "series/window.h"

#define AL_FLOOR_BLOCKS 96

struct al_floor {
    uint32_t count, per_block, in_block; // in_block: readings in the last block
    uint64_t readings;
    int64_t last_step;
    struct {
        int64_t step;
        double value;
    } block[AL_FLOOR_BLOCKS];
};

void al_floor_push(struct al_floor *f, int64_t step, double value);

// A slope per step by Theil and Sen with its 95 % interval, the first two readings (warm-up) left out.
struct al_floor_trend {
    double per_step, low, high; // value units a step
    double from, to;            // floors of the first and last third
    int64_t first_step, last_step;
    uint32_t blocks;
};
// Whether the floor rises by more than `above`: with an interval above 0, between the two ends, and in each quarter and the last
// two eighths of what is looked at, which is all of it, then its second half. A jump, a level that comes and goes and a growth that flattens do
// not. 1 yes, 0 no; *ret is the trend that was judged. AL_E_AGAIN, AL_E_NOMEM as below.
int al_floor_rises(const struct al_floor *f, uint32_t least, double above, struct al_floor_trend *ret);
// AL_E_AGAIN with fewer than `least` blocks or steps that do not move on, AL_E_NOMEM.
int al_floor_trend(const struct al_floor *f, uint32_t least, struct al_floor_trend *ret);

#endif
