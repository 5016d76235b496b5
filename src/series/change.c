// SPDX-License-Identifier: Apache-2.0
#include "series/change.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"

#define COUNT_MAX 65536u

// Sums of the first i samples, with times in shares of the whole and values from the first one on: keeps digits.
struct sums {
    double t, v, tt, tv, vv;
};

struct pelt {
    const struct al_sample *samples;
    uint32_t count, shortest;
    struct sums *sum;     // count + 1
    double *best;         // least cost of the first i samples
    uint32_t *last;       // where the last part of that begins
    uint32_t *candidates; // begins that may still win
    double penalty, seconds;
};

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Median absolute second difference at a lag, as a deviation: for Gaussian noise it is 0.6745 * sqrt(6) of them.
static double noise_at(const struct al_sample *s, uint32_t count, uint32_t lag, double *work) {
    uint32_t steps = 0;
    for (uint32_t i = 2 * lag; i < count; i++)
        work[steps++] = fabs(s[i].value - 2 * s[i - lag].value + s[i - 2 * lag].value);
    if (!steps)
        return 0;
    qsort(work, steps, sizeof *work, by_size);
    double median = steps % 2 ? work[steps / 2] : (work[steps / 2 - 1] + work[steps / 2]) / 2;
    return median / (0.6745 * 2.449489742783178);
}

static double noise_variance(const struct al_sample *s, uint32_t count, double *work) {
    double least = s[0].value, most = s[0].value;
    for (uint32_t i = 0; i < count; i++) {
        least = s[i].value < least ? s[i].value : least;
        most = s[i].value > most ? s[i].value : most;
    }
    // Readings that repeat or drift together hide their noise from neighbours.
    double near = noise_at(s, count, 1, work), far = noise_at(s, count, 5, work), floor = (most - least) * 1e-2;
    double deviation = near > far ? near : far;
    return deviation > floor ? deviation * deviation : floor * floor;
}

static struct sums between(const struct pelt *p, uint32_t from, uint32_t to) {
    const struct sums *a = &p->sum[from], *b = &p->sum[to];
    return (struct sums){b->t - a->t, b->v - a->v, b->tt - a->tt, b->tv - a->tv, b->vv - a->vv};
}

// Squared distances of samples [from, to) from their line.
static double cost(const struct pelt *p, uint32_t from, uint32_t to) {
    double n = to - from;
    struct sums s = between(p, from, to);
    double stt = s.tt - s.t * s.t / n, stv = s.tv - s.t * s.v / n, svv = s.vv - s.v * s.v / n;
    double left = svv - (stt > 0 ? stv * stv / stt : 0);
    return left > 0 ? left : 0;
}

static void search(struct pelt *p) {
    uint32_t candidates = 1;
    p->candidates[0] = 0;
    for (uint32_t i = 0; i <= p->count; i++)
        p->best[i] = INFINITY;
    p->best[0] = -p->penalty;
    for (uint32_t to = p->shortest; to <= p->count; to++) {
        for (uint32_t i = 0; i < candidates; i++) {
            uint32_t from = p->candidates[i];
            double c = p->best[from] + cost(p, from, to) + p->penalty;
            if (c < p->best[to]) {
                p->best[to] = c;
                p->last[to] = from;
            }
        }
        // A begin that is worse than the best by a whole cut can never win again.
        uint32_t kept = 0;
        for (uint32_t i = 0; i < candidates; i++) {
            uint32_t from = p->candidates[i];
            if (p->best[from] + cost(p, from, to) <= p->best[to])
                p->candidates[kept++] = from;
        }
        candidates = kept;
        if (to + 1 >= 2 * p->shortest) // a begin whose part is long enough from the next round on
            p->candidates[candidates++] = to + 1 - p->shortest;
    }
}

static uint32_t parts(const struct pelt *p) {
    uint32_t count = 1;
    for (uint32_t to = p->count; p->last[to] > 0; to = p->last[to])
        count++;
    return count;
}

static struct al_segment segment(const struct pelt *p, uint32_t from, uint32_t to) {
    double n = to - from, origin = p->samples[0].value;
    struct sums s = between(p, from, to);
    double stt = s.tt - s.t * s.t / n, slope = stt > 0 ? (s.tv - s.t * s.v / n) / stt : 0;
    double t0 = p->sum[from + 1].t - p->sum[from].t, t1 = p->sum[to].t - p->sum[to - 1].t;
    double mean = s.v / n + origin, middle = s.t / n;
    return (struct al_segment){from, to, mean + slope * (t0 - middle), mean + slope * (t1 - middle),
                               p->seconds > 0 ? slope / p->seconds : 0};
}

static int trace(const struct pelt *p, struct al_segment *ret) {
    uint32_t count = parts(p), to = p->count;
    for (uint32_t i = count; i-- > 0;) {
        ret[i] = segment(p, p->last[to], to);
        to = p->last[to];
    }
    return (int)count;
}

static void add_up(struct pelt *p) {
    double origin = p->samples[0].value;
    for (uint32_t i = 0; i < p->count; i++) {
        double t = (double)(p->samples[i].at_ns - p->samples[0].at_ns) / 1e9 / (p->seconds > 0 ? p->seconds : 1);
        double v = p->samples[i].value - origin;
        const struct sums *s = &p->sum[i];
        p->sum[i + 1] = (struct sums){s->t + t, s->v + v, s->tt + t * t, s->tv + t * v, s->vv + v * v};
    }
}

int al_segments(const struct al_sample *samples, uint32_t count, uint32_t shortest, struct al_segment *ret,
                uint32_t max) {
    if (shortest < 3 || max < 1 || count > COUNT_MAX)
        return AL_E_INVALID;
    if (count < shortest)
        return 0;
    struct pelt p = {.samples = samples, .count = count, .shortest = shortest};
    p.seconds = (double)(samples[count - 1].at_ns - samples[0].at_ns) / 1e9;
    p.sum = calloc(count + 1, sizeof *p.sum);
    p.best = calloc(count + 1, sizeof *p.best);
    p.last = calloc(count + 1, sizeof *p.last);
    p.candidates = calloc(count + 2, sizeof *p.candidates);
    int result = p.sum && p.best && p.last && p.candidates ? 0 : AL_E_NOMEM;
    if (!result) {
        add_up(&p);
        p.penalty = 10 * log(count) * noise_variance(samples, count, p.best);
        if (p.penalty > 0) // 0: all samples are the same
            do {
                search(&p);
                p.penalty *= 2;
            } while (parts(&p) > max);
        result = trace(&p, ret);
    }
    free(p.sum);
    free(p.best);
    free(p.last);
    free(p.candidates);
    return result;
}
