// SPDX-License-Identifier: Apache-2.0
#include "series/window.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

#define CAP_MAX (1U << 24)

// ---- sums that lose nothing: Knuth's two-sum and the exact product by fma ----

static void sum_add(struct al_sum *s, double x)
{
    double hi = s->hi + x;
    double part = hi - s->hi;
    s->lo += (s->hi - (hi - part)) + (x - part);
    s->hi = hi;
}

static void sum_add_product(struct al_sum *s, double a, double b)
{
    double product = a * b;
    sum_add(s, product);
    sum_add(s, fma(a, b, -product));
}

static double sum_value(struct al_sum s)
{
    return s.hi + s.lo;
}

// ---- ring ----

static uint32_t slot_of(const struct al_window *w, uint32_t i)
{
    uint32_t slot = w->start + i;
    return slot >= w->cap ? slot - w->cap : slot;
}

const struct al_sample *al_window_at(const struct al_window *w, uint32_t i)
{
    return &w->ring[slot_of(w, i)];
}

const struct al_sample *al_window_first(const struct al_window *w)
{
    return w->count ? al_window_at(w, 0) : NULL;
}

const struct al_sample *al_window_last(const struct al_window *w)
{
    return w->count ? al_window_at(w, w->count - 1) : NULL;
}

double al_window_seconds(const struct al_window *w)
{
    return w->count ? (double)(al_window_last(w)->at_ns - al_window_first(w)->at_ns) / AL_NS_PER_S : 0;
}

int al_window_init(struct al_window *w, int64_t span_ns, uint32_t cap)
{
    memset(w, 0, sizeof *w);
    if (cap == 0 || cap > CAP_MAX || span_ns < 0)
        return AL_E_INVALID;
    w->ring = malloc((size_t)cap * (sizeof *w->ring + 2 * sizeof(uint32_t)));
    if (!w->ring)
        return AL_E_NOMEM;
    w->low.slot = (uint32_t *)&w->ring[cap];
    w->high.slot = w->low.slot + cap;
    w->span_ns = span_ns;
    w->cap = cap;
    return 0;
}

void al_window_done(struct al_window *w)
{
    free(w->ring);
    memset(w, 0, sizeof *w);
}

void al_window_clear(struct al_window *w)
{
    w->start = w->count = w->removed = 0;
    w->low.start = w->low.count = w->high.start = w->high.count = 0;
    w->sum = w->squares = (struct al_sum){0, 0};
    w->largest = 0;
}

int al_window_resize(struct al_window *w, int64_t span_ns, uint32_t cap)
{
    struct al_window fresh;
    int result = al_window_init(&fresh, span_ns, cap);
    if (result < 0)
        return result;
    for (uint32_t i = w->count > cap ? w->count - cap : 0; i < w->count; i++)
        al_window_push(&fresh, al_window_at(w, i)->at_ns, al_window_at(w, i)->value);
    al_window_done(w);
    *w = fresh;
    return 0;
}

uint32_t al_window_capacity(int64_t span_ns, int64_t period_ns)
{
    if (period_ns <= 0 || span_ns <= 0)
        return 1;
    int64_t samples = (span_ns + period_ns - 1) / period_ns;
    samples += samples / 16 + 2;
    return samples > CAP_MAX ? CAP_MAX : (uint32_t)samples;
}

// ---- extremes ----

static uint32_t *extreme_at(const struct al_window *w, const struct al_extreme *e, uint32_t i)
{
    uint32_t at = e->start + i;
    return &e->slot[at >= w->cap ? at - w->cap : at];
}

static void extreme_push(const struct al_window *w, struct al_extreme *e, uint32_t slot, double sign)
{
    double value = sign * w->ring[slot].value;
    while (e->count && sign * w->ring[*extreme_at(w, e, e->count - 1)].value >= value)
        e->count--;
    *extreme_at(w, e, e->count) = slot;
    e->count++;
}

static void extreme_pop(const struct al_window *w, struct al_extreme *e, uint32_t slot)
{
    if (!e->count || *extreme_at(w, e, 0) != slot)
        return;
    e->start = e->start + 1 == w->cap ? 0 : e->start + 1;
    e->count--;
}

// ---- push ----

static void account(struct al_window *w, double value, double sign)
{
    double d = value - w->origin, part = d - value;
    double rest = (value - (d - part)) + (-w->origin - part); // d + rest is the difference, exactly
    sum_add(&w->sum, sign * d);
    sum_add(&w->sum, sign * rest);
    sum_add_product(&w->squares, sign * d, d);
    sum_add_product(&w->squares, sign * 2 * d, rest);
    sum_add_product(&w->squares, sign * rest, rest);
    if (w->squares.hi > w->largest)
        w->largest = w->squares.hi;
}

static double mean_anew(const struct al_window *w)
{
    struct al_sum total = {0, 0};
    for (uint32_t i = 0; i < w->count; i++)
        sum_add(&total, al_window_at(w, i)->value);
    return sum_value(total) / w->count;
}

// Takes the sums anew around the present mean: once a turn, so O(1) a push, and no error outlives a turn.
static void refresh(struct al_window *w)
{
    w->origin = w->count ? mean_anew(w) : 0;
    w->sum = w->squares = (struct al_sum){0, 0};
    w->largest = 0;
    for (uint32_t i = 0; i < w->count; i++)
        account(w, al_window_at(w, i)->value, 1);
    w->removed = 0;
}

static void drop_first(struct al_window *w)
{
    account(w, w->ring[w->start].value, -1);
    extreme_pop(w, &w->low, w->start);
    extreme_pop(w, &w->high, w->start);
    w->start = slot_of(w, 1);
    w->count--;
    w->removed++;
}

void al_window_expire(struct al_window *w, int64_t now_ns)
{
    if (w->span_ns == 0)
        return;
    while (w->count && w->ring[w->start].at_ns <= now_ns - w->span_ns)
        drop_first(w);
    if (w->removed && w->removed >= w->count)
        refresh(w);
}

int al_window_push(struct al_window *w, int64_t at_ns, double value)
{
    if (!isfinite(value))
        return AL_E_INVALID;
    if (w->count && at_ns <= al_window_last(w)->at_ns)
        return 0;
    if (w->count == w->cap)
        drop_first(w);
    al_window_expire(w, at_ns);
    if (w->count == 0) {
        al_window_clear(w);
        w->origin = value;
    }
    uint32_t slot = slot_of(w, w->count);
    w->ring[slot] = (struct al_sample){at_ns, value};
    w->count++;
    account(w, value, 1);
    extreme_push(w, &w->low, slot, 1);
    extreme_push(w, &w->high, slot, -1);
    if (w->removed >= w->count)
        refresh(w);
    return 1;
}

// ---- statistics ----

// The running sums carry about 104 bits of the largest value they ever held. Where the answer lies so far below that
// little of it would be left (a level that jumped by many decades, for one turn at most), the samples are asked anew.

static double spread_anew(const struct al_window *w)
{
    struct al_sum spread = {0, 0};
    double mean = mean_anew(w);
    for (uint32_t i = 0; i < w->count; i++)
        sum_add_product(&spread, al_window_at(w, i)->value - mean, al_window_at(w, i)->value - mean);
    return sum_value(spread);
}

double al_window_mean(const struct al_window *w)
{
    if (w->count == 0)
        return NAN;
    struct al_sum total = w->sum;
    sum_add_product(&total, w->count, w->origin);
    double mean = sum_value(total) / w->count;
    return mean * mean < w->largest * 0x1p-80 ? mean_anew(w) : mean;
}

double al_window_peak(const struct al_window *w)
{
    return w->count ? w->ring[*extreme_at(w, &w->high, 0)].value : NAN;
}

double al_window_min(const struct al_window *w)
{
    return w->count ? w->ring[*extreme_at(w, &w->low, 0)].value : NAN;
}

double al_window_deviation(const struct al_window *w)
{
    if (w->count == 0)
        return NAN;
    // sum((d - m)^2) = sum(d^2) - 2 m sum(d) + n m^2 holds for whatever m the division rounds to.
    double m = sum_value(w->sum) / w->count;
    struct al_sum spread = w->squares;
    sum_add_product(&spread, -2 * m, w->sum.hi);
    sum_add_product(&spread, -2 * m, w->sum.lo);
    sum_add_product(&spread, w->count, m * m);
    sum_add_product(&spread, w->count, fma(m, m, -(m * m)));
    double total = sum_value(spread) < w->largest * 0x1p-50 ? spread_anew(w) : sum_value(spread);
    return total > 0 ? sqrt(total / w->count) : 0;
}

double al_window_share(const struct al_window *w, double limit, bool below, int64_t max_gap_ns, int64_t *ret_covered_ns)
{
    int64_t covered = 0, hit = 0;
    for (uint32_t i = 1; i < w->count; i++) {
        int64_t gap = al_window_at(w, i)->at_ns - al_window_at(w, i - 1)->at_ns;
        if (gap > max_gap_ns)
            gap = max_gap_ns;
        double value = al_window_at(w, i)->value;
        covered += gap;
        if (below ? value < limit : value > limit)
            hit += gap;
    }
    if (ret_covered_ns)
        *ret_covered_ns = covered;
    return covered > 0 ? (double)hit / (double)covered : NAN;
}
