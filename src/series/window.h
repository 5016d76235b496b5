// SPDX-License-Identifier: Apache-2.0
// A sliding window over (time, value) with fixed memory. Pure: time is what the samples carry.
#ifndef AL_SERIES_WINDOW_H
#define AL_SERIES_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct al_sample {
    int64_t at_ns;
    double value;
};

// An unevaluated sum of two doubles: removing a value takes away exactly what adding it brought.
struct al_sum {
    double hi, lo;
};

// Ring slots in time order whose values only rise (or only fall): its first is the window's least (or greatest).
struct al_extreme {
    uint32_t *slot;
    uint32_t start, count;
};

struct al_window {
    int64_t span_ns; // samples at or before (newest - span_ns) leave; 0: only the capacity bounds it
    uint32_t cap, start, count;
    uint32_t removed; // since the sums were last taken anew
    double origin;    // sums are of (value - origin), so that a small spread on a large level keeps its digits
    struct al_sum sum, squares;
    double largest; // that squares were since then
    struct al_extreme low, high;
    struct al_sample *ring; // owns the memory of low.slot and high.slot too: 24 bytes a sample
};

// How a trend is told: value units per second, with the bounds of a 95 % interval.
struct al_slope {
    double per_second;
    double error;     // standard error (least squares only)
    double low, high; // 95 % interval
    double sure_low;  // lower bound of a 99.9 % interval (least squares only): for whoever asks again and again
    uint32_t count;   // samples used
    double seconds;   // between the first and the last of them
};

// All memory is taken here. AL_E_INVALID for a capacity of 0 or a negative span, AL_E_NOMEM.
int al_window_init(struct al_window *w, int64_t span_ns, uint32_t cap);
// Frees the memory; fine on a zeroed struct.
void al_window_done(struct al_window *w);
void al_window_clear(struct al_window *w);
// Another span or capacity; the newest samples that fit are kept. On AL_E_NOMEM nothing changes.
int al_window_resize(struct al_window *w, int64_t span_ns, uint32_t cap);
// Samples that a span takes at a period, with room for ticks that come a little early.
uint32_t al_window_capacity(int64_t span_ns, int64_t period_ns);

// O(1) amortised. 1: taken; 0: not newer than the newest (the same reading again), left out; AL_E_INVALID: not finite.
int al_window_push(struct al_window *w, int64_t at_ns, double value);
// Drops what is at or before now_ns - span_ns.
void al_window_expire(struct al_window *w, int64_t now_ns);

// The i-th oldest, i < count.
const struct al_sample *al_window_at(const struct al_window *w, uint32_t i);
const struct al_sample *al_window_first(const struct al_window *w); // NULL when empty
const struct al_sample *al_window_last(const struct al_window *w);
double al_window_seconds(const struct al_window *w); // first to last

// O(1); NaN when empty.
double al_window_mean(const struct al_window *w);
double al_window_peak(const struct al_window *w);
double al_window_min(const struct al_window *w);
double al_window_deviation(const struct al_window *w); // population standard deviation

// On request, O(n log n). q in 0..1, linear between neighbours (Hyndman and Fan's type 7). NaN when empty, when q is
// out of range, or when memory is out (windows over 512 samples).
double al_window_quantile(const struct al_window *w, double q);

// Least squares over the samples at or after since_ns, O(n). AL_E_AGAIN with fewer than three samples. The interval is
// Student's, with the normal's 1.96 from 30 samples on.
int al_window_slope(const struct al_window *w, int64_t since_ns, struct al_slope *ret);
// Theil-Sen: median of the slopes between all pairs of at most `points` (3..128) samples spread evenly over the range;
// interval by Sen 1968 from Kendall's statistic, no correction for ties (they only widen it). A single jump between two
// flat parts has an interval that holds 0. O(points^2 log points). AL_E_AGAIN as above, AL_E_NOMEM.
int al_window_robust_slope(const struct al_window *w, int64_t since_ns, uint32_t points, struct al_slope *ret);

// Share of time with a value above (or, below = true, under) the limit. A sample stands for the time since the one
// before it, at most max_gap_ns, so that a gap counts for nothing. NaN when no time is covered; *ret_covered_ns may be NULL.
double al_window_share(const struct al_window *w, double limit, bool below, int64_t max_gap_ns,
                       int64_t *ret_covered_ns);

#endif
