// SPDX-License-Identifier: Apache-2.0
// Where a series changes its level or its slope. Pure.
#ifndef AL_SERIES_CHANGE_H
#define AL_SERIES_CHANGE_H

#include <stdint.h>

#include "series/window.h"

// A part of a series that one straight line describes.
struct al_segment {
    uint32_t from, to;  // samples [from, to)
    double first, last; // the line at its first and last sample
    double per_second;
};

// Cuts a series (times rising) into parts, each with its own least-squares line, by PELT (Killick, Fearnhead and Eckley
// 2012: the exact optimum): least is the sum of squared distances from the lines plus a penalty a cut. A steady climb is
// thus one part, not a stair. The penalty is 10 ln(n) times the variance of the noise; that comes from the median of the
// absolute second differences at lags 1 and 5 (the greater), so that neither jumps count as noise nor repeated readings
// hide it, and is at least (1 % of the range)^2. Should more
// than `max` parts come out, the penalty is doubled until they are no more: the clearest cuts stay.
// No part is shorter than `shortest` (3 and more) samples. Returns how many parts there are (1 and more; 0 for fewer than
// `shortest` samples), AL_E_NOMEM or AL_E_INVALID. O(n^2) when nothing changes: up to 65536 samples.
int al_segments(const struct al_sample *samples, uint32_t count, uint32_t shortest, struct al_segment *ret,
                uint32_t max);

#endif
