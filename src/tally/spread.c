// SPDX-License-Identifier: Apache-2.0
#include "tally/spread.h"

#include <math.h>

static void fold(struct al_spread *s) {
    for (uint32_t i = 0; i < AL_SPREAD_BLOCKS / 2; i++)
        s->sum[i] = s->sum[2 * i] + s->sum[2 * i + 1];
    s->blocks = AL_SPREAD_BLOCKS / 2;
    s->per_block *= 2;
}

void al_spread_push(struct al_spread *s, double value) {
    if (!s->per_block)
        s->per_block = 1;
    if (s->blocks == AL_SPREAD_BLOCKS)
        fold(s);
    if (!s->in_block)
        s->sum[s->blocks] = 0;
    s->sum[s->blocks] += value;
    if (++s->in_block == s->per_block) {
        s->in_block = 0;
        s->blocks++;
    }
}

bool al_spread_error(const struct al_spread *s, double *ret) {
    double mean = 0, squares = 0, length = (double)s->per_block;
    if (s->blocks < AL_SPREAD_LEAST)
        return false;
    for (uint32_t i = 0; i < s->blocks; i++)
        mean += s->sum[i] / length / s->blocks;
    for (uint32_t i = 0; i < s->blocks; i++)
        squares += (s->sum[i] / length - mean) * (s->sum[i] / length - mean);
    *ret = sqrt(squares / (s->blocks - 1) / s->blocks);
    return true;
}
