// SPDX-License-Identifier: Apache-2.0
// How sure a mean over steps is, in fixed memory: by the spread of block means, so that steps which follow each other's
// lead (a slow shard, a warm cache) do not count as independent. Blocks double in length when their table is full.
#ifndef AL_TALLY_SPREAD_H
#define AL_TALLY_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#define AL_SPREAD_BLOCKS 32
#define AL_SPREAD_LEAST 8 // whole blocks before anything is said

struct al_spread {
    uint32_t blocks, in_block; // blocks: whole ones
    uint64_t per_block;
    double sum[AL_SPREAD_BLOCKS];
};

void al_spread_push(struct al_spread *s, double value);
// Standard error of the mean; false with too few values.
bool al_spread_error(const struct al_spread *s, double *ret);

#endif
