// SPDX-License-Identifier: Apache-2.0
#include "series/rate.h"

#include <math.h>

#include "base/clock.h"
#include "base/err.h"

static int step(struct al_rate *r, int64_t at_ns, double value, double *ret_rise, int64_t *ret_ns)
{
    if (!isfinite(value))
        return AL_E_INVALID;
    if (r->known && at_ns <= r->at_ns)
        return 0;
    bool usable = r->known && value >= r->value;
    if (r->known && value < r->value)
        r->resets++;
    *ret_rise = value - r->value;
    *ret_ns = at_ns - r->at_ns;
    r->known = true;
    r->at_ns = at_ns;
    r->value = value;
    return usable ? 1 : 0;
}

int al_rate_rise(struct al_rate *r, int64_t at_ns, double value, double *ret_rise)
{
    double rise;
    int64_t ns;
    int result = step(r, at_ns, value, &rise, &ns);
    if (result == 1)
        *ret_rise = rise;
    return result;
}

int al_rate_push(struct al_rate *r, int64_t at_ns, double value, double *ret_per_second)
{
    double rise;
    int64_t ns;
    int result = step(r, at_ns, value, &rise, &ns);
    if (result == 1)
        *ret_per_second = rise / ((double)ns / AL_NS_PER_S);
    return result;
}
