// SPDX-License-Identifier: Apache-2.0
// What is worked out on request: quantiles and slopes.
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "series/window.h"

#define ON_STACK 512
#define POINTS_MAX 128

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile_of(double *values, uint32_t count, double q)
{
    qsort(values, count, sizeof *values, compare);
    double at = q * (count - 1);
    uint32_t i = (uint32_t)at;
    if (i + 1 >= count)
        return values[count - 1];
    return values[i] + (at - i) * (values[i + 1] - values[i]);
}

double al_window_quantile(const struct al_window *w, double q)
{
    double small[ON_STACK];
    if (w->count == 0 || !(q >= 0 && q <= 1))
        return NAN;
    double *values = w->count <= ON_STACK ? small : malloc(w->count * sizeof *values);
    if (!values)
        return NAN;
    for (uint32_t i = 0; i < w->count; i++)
        values[i] = al_window_at(w, i)->value;
    double result = quantile_of(values, w->count, q);
    if (values != small)
        free(values);
    return result;
}

// Index of the oldest sample at or after since_ns (count when there is none).
static uint32_t begin_of(const struct al_window *w, int64_t since_ns)
{
    uint32_t low = 0, high = w->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (al_window_at(w, middle)->at_ns < since_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static double seconds_at(const struct al_window *w, uint32_t begin, uint32_t i)
{
    return (double)(al_window_at(w, i)->at_ns - al_window_at(w, begin)->at_ns) / AL_NS_PER_S;
}

// Student's t for a two-sided 95 % and 99.9 % interval (standard tables), by degrees of freedom from 1; then the normal's.
static double student(uint32_t freedom, bool sure)
{
    static const double table[][2] = {
        {12.706, 636.619}, {4.303, 31.599}, {3.182, 12.924}, {2.776, 8.610}, {2.571, 6.869}, {2.447, 5.959},
        {2.365, 5.408},    {2.306, 5.041},  {2.262, 4.781},  {2.228, 4.587}, {2.201, 4.437}, {2.179, 4.318},
        {2.160, 4.221},    {2.145, 4.140},  {2.131, 4.073},  {2.120, 4.015}, {2.110, 3.965}, {2.101, 3.922},
        {2.093, 3.883},    {2.086, 3.850},  {2.080, 3.819},  {2.074, 3.792}, {2.069, 3.768}, {2.064, 3.745},
        {2.060, 3.725},    {2.056, 3.707},  {2.052, 3.690},  {2.048, 3.674}, {2.045, 3.659}, {2.042, 3.646}};
    const uint32_t rows = sizeof table / sizeof *table;
    return freedom == 0 ? INFINITY : freedom <= rows ? table[freedom - 1][sure] : sure ? 3.291 : 1.960;
}

int al_window_slope(const struct al_window *w, int64_t since_ns, struct al_slope *ret)
{
    uint32_t begin = begin_of(w, since_ns), n = w->count - begin;
    if (n < 3)
        return AL_E_AGAIN;
    double mean_t = 0, mean_v = 0;
    for (uint32_t i = begin; i < w->count; i++) {
        mean_t += (seconds_at(w, begin, i) - mean_t) / (i - begin + 1);
        mean_v += (al_window_at(w, i)->value - mean_v) / (i - begin + 1);
    }
    double tt = 0, tv = 0, vv = 0;
    for (uint32_t i = begin; i < w->count; i++) {
        double t = seconds_at(w, begin, i) - mean_t, v = al_window_at(w, i)->value - mean_v;
        tt += t * t;
        tv += t * v;
        vv += v * v;
    }
    if (!(tt > 0))
        return AL_E_AGAIN;
    double slope = tv / tt, rest = vv - slope * tv;
    double error = rest > 0 ? sqrt(rest / (n - 2) / tt) : 0;
    double reach = error > 0 ? error * student(n - 2, false) : 0;
    *ret = (struct al_slope){slope, error, slope - reach, slope + reach, error > 0 ? slope - error * student(n - 2, true)
                             : slope, n, seconds_at(w, begin, w->count - 1)};
    return 0;
}

int al_window_robust_slope(const struct al_window *w, int64_t since_ns, uint32_t points, struct al_slope *ret)
{
    uint32_t begin = begin_of(w, since_ns), n = w->count - begin, used[POINTS_MAX];
    if (n < 3)
        return AL_E_AGAIN;
    points = points < 3 ? 3 : points > POINTS_MAX ? POINTS_MAX : points;
    uint32_t m = n < points ? n : points;
    for (uint32_t i = 0; i < m; i++)
        used[i] = begin + (uint32_t)((uint64_t)i * (n - 1) / (m - 1));
    uint32_t pairs = m * (m - 1) / 2, at = 0;
    double *slopes = malloc(pairs * sizeof *slopes);
    if (!slopes)
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t j = i + 1; j < m; j++)
            slopes[at++] = (al_window_at(w, used[j])->value - al_window_at(w, used[i])->value) /
                           (seconds_at(w, begin, used[j]) - seconds_at(w, begin, used[i]));
    double median = quantile_of(slopes, pairs, 0.5); // sorts
    double reach = 1.959964 * sqrt((double)m * (m - 1) * (2.0 * m + 5) / 18);
    // Sen's ranks (pairs - C) / 2 and (pairs + C) / 2 + 1, rounded, counted from 0; beyond the ends nothing is known.
    long low = lround((pairs - reach) / 2) - 1, high = lround((pairs + reach) / 2);
    ret->per_second = median;
    ret->error = ret->sure_low = NAN;
    ret->low = low < 0 ? -INFINITY : slopes[low];
    ret->high = high >= (long)pairs ? INFINITY : slopes[high];
    ret->count = m;
    ret->seconds = seconds_at(w, begin, w->count - 1);
    free(slopes);
    return 0;
}
