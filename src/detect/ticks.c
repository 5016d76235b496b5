// SPDX-License-Identifier: Apache-2.0
#include "detect/ticks.h"

#include "base/clock.h"

static void count_from(struct al_ticks *t, int64_t start_ns)
{
    t->low_since_ns = start_ns;
    t->low_run = t->all_run = 0;
    t->all_sum = 0;
}

static double recent_mean(const struct al_ticks *t, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += t->recent[i];
    return sum / count;
}

// A GPU that gets its batches in bursts has no long run of low ticks: the mean of the recent ones decides.
static void judge_bursts(struct al_ticks *t, const struct al_settings *set)
{
    uint32_t count = set->inefficient_burst_ticks;
    if (t->low || t->recent_count < count || recent_mean(t, count) >= set->inefficient_utilization_below)
        return;
    count_from(t, t->recent_ns[t->recent_next]);
    for (uint32_t i = 0; i < count; i++)
        t->low_run += t->recent[i] < set->inefficient_utilization_below;
    t->all_run = count;
    t->all_sum = recent_mean(t, count) * count;
    t->low = t->bursts = t->low_run >= set->inefficient_ticks;
}

static void count_tick(struct al_ticks *t, const struct al_settings *set, double mean, int64_t start_ns)
{
    uint32_t window = set->inefficient_burst_ticks, at = t->recent_next;
    bool under = mean < set->inefficient_utilization_below;
    t->recent[at] = (float)mean;
    t->recent_ns[at] = start_ns;
    t->recent_next = at + 1 < window ? at + 1 : 0;
    t->recent_count++;
    if (under && t->low_run == 0)
        count_from(t, start_ns);
    t->low_run += under;
    t->low |= t->low_run >= set->inefficient_ticks;
    t->high_run = mean > set->inefficient_utilization_clear ? t->high_run + 1 : 0;
    if (t->low_run) {
        t->all_sum += mean;
        t->all_run++;
    }
    bool over = t->bursts ? recent_mean(t, window) > set->inefficient_utilization_clear
                          : !t->low || t->high_run >= set->inefficient_clear_ticks;
    if (!under && over) {
        t->recent_count = t->low ? 0 : t->recent_count; // what is over says nothing of what follows
        t->low = t->bursts = false;
        t->low_run = 0;
    }
    judge_bursts(t, set);
}

static void watch_memory(struct al_ticks *t, const struct al_gpu *gpu, const struct al_settings *set, int64_t now,
                         double seconds)
{
    if (!al_ok(gpu->m[AL_GPU_MEM_USED]))
        return;
    double used = gpu->m[AL_GPU_MEM_USED].num;
    if (t->used > 0 && used - t->used > set->inefficient_loading_above * seconds)
        t->grew_ns = now;
    t->used = used;
}

void al_ticks_take(struct al_ticks *t, const struct al_gpu *gpu, const struct al_settings *set, const struct al_snapshot *s)
{
    struct al_value mean = gpu->m[AL_GPU_UTIL_MEAN];
    int64_t now = s->monotonic_ns;
    if (!al_ok(mean) || mean.at_ns <= t->sample_ns)
        return;
    t->sample_ns = mean.at_ns;
    t->fresh_ns = now;
    if (t->weight == 0)
        t->pool_start_ns = now - s->interval_ns;
    double weight = gpu->fresh_count ? gpu->fresh_count : 1;
    t->sum += weight * mean.num;
    t->weight += weight;
    double seconds = (double)(now - t->pool_start_ns) / AL_NS_PER_S;
    if (seconds < 0.9 * set->inefficient_tick) // ticks may come a little early
        return;
    count_tick(t, set, t->sum / t->weight, t->pool_start_ns);
    t->worked += t->sum / t->weight > 0.01;
    t->was_busy |= t->sum / t->weight > set->inefficient_utilization_clear;
    watch_memory(t, gpu, set, now, seconds);
    t->sum = t->weight = 0;
}

void al_ticks_follow(struct al_ticks *t, const struct al_view *v, uint32_t g)
{
    for (uint32_t i = v->first_row[g]; i < v->first_row[g + 1]; i++)
        if (t->holder && v->s->rows[i].pid == t->holder)
            return;
    const struct al_proc_gpu *row = al_view_holder(v, g);
    pid_t before = t->holder, now = row ? row->pid : 0;
    bool empty = v->holders[g] == AL_HOLDERS_NONE;
    if (now && (before || t->empty))
        t->came_ns = v->s->monotonic_ns;
    if (before || empty)
        *t = (struct al_ticks){.sample_ns = t->sample_ns, .fresh_ns = t->fresh_ns, .came_ns = t->came_ns};
    t->holder = now;
    t->empty = empty;
}
