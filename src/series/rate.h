// SPDX-License-Identifier: Apache-2.0
// Rate of a counter that may start anew (driver reload, GPU reset, process restart).
#ifndef AL_SERIES_RATE_H
#define AL_SERIES_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct al_rate {
    bool known;
    int64_t at_ns;
    double value;
    uint32_t resets; // falls seen
};

// 1: *ret_per_second is the rise since the last reading over its time. 0: none (first reading, not newer, or a fall:
// a fall is a reset, its rate is left out once and never negative). AL_E_INVALID: not finite.
int al_rate_push(struct al_rate *r, int64_t at_ns, double value, double *ret_per_second);
// The same, giving the rise itself: *ret_rise.
int al_rate_rise(struct al_rate *r, int64_t at_ns, double value, double *ret_rise);

#endif
