// SPDX-License-Identifier: Apache-2.0
// One GPU's utilisation, tick by tick: whether it is low, since when, and who holds the GPU meanwhile.
#ifndef AL_DETECT_TICKS_H
#define AL_DETECT_TICKS_H

#include "detect/settings.h"
#include "detect/view.h"

#define AL_TICKS_RECENT 120u // most of inefficient.burst_ticks

struct al_ticks {
    double sum, weight; // the tick being pooled
    int64_t pool_start_ns, sample_ns;
    uint32_t low_run, high_run, all_run; // all_run: ticks since the first of low_run
    bool low;              // low_run reached the limit, clear_ticks has not
    int64_t low_since_ns;
    double all_sum;        // of the ticks in all_run
    bool bursts;           // low by the mean of recent ticks: no run of them was long enough
    float recent[AL_TICKS_RECENT];
    int64_t recent_ns[AL_TICKS_RECENT]; // when each began
    uint32_t recent_count, recent_next; // since they were last forgotten; the place of the next, and so of the oldest
    uint32_t worked;       // ticks with kernels since the holder came: a start shows one or two, a step loop goes on
    double used;           // memory at the last tick
    int64_t grew_ns;       // when memory last grew as in loading
    int64_t fresh_ns;      // of the tick that last brought a sample
    pid_t holder;          // who holds the GPU since the count began
    bool empty;            // nobody held it when last looked
    int64_t came_ns;       // when the holder came; 0: it was there before alula looked
    bool was_busy;         // since the holder came
};

// Takes the GPU's part of a snapshot; one without a fresh sample neither counts nor resets.
void al_ticks_take(struct al_ticks *t, const struct al_gpu *gpu, const struct al_settings *set, const struct al_snapshot *s);
// The count is of one holder: when another process has taken GPU g over, it begins anew.
void al_ticks_follow(struct al_ticks *t, const struct al_view *v, uint32_t g);

#endif
