// SPDX-License-Identifier: Apache-2.0
// Throttled: the share of the window's readings in which the driver names a slowdown. The power cap set by software is
// normal at full load and told as info under a key of its own; idle and application clocks are no throttling.
#include <math.h>

#include "base/clock.h"
#include "detect/rule.h"
#include "detect/say.h"
#include "series/rate.h"
#include "series/window.h"

// Bits of nvmlClocksEventReasons. hw_slowdown comes along with the two more telling hardware bits, so it stands last.
enum { HW_THERMAL, SW_THERMAL, HW_BRAKE, HW_SLOWDOWN, SW_POWER, REASONS };

static const struct {
    uint32_t bit;
    const char *name;
    const char *title;
    enum al_gpu_metric counter; // time for which it was active; AL_GPU_METRIC_COUNT: the driver counts none
    uint32_t signal;            // what else would show it
    const char *advice;
} reasons[REASONS] = {
    {0x40, "hw_thermal_slowdown", "throttled by heat", AL_GPU_EVENT_HW_THERMAL, AL_SIGNAL_TEMPERATURE,
     "Check fans, air flow and inlet temperature, and GPUs beside it; a liquid-cooled board may have lost flow."},
    {0x20, "sw_thermal_slowdown", "throttled by heat", AL_GPU_EVENT_SW_THERMAL, AL_SIGNAL_TEMPERATURE,
     "The driver lowers clocks to stay below the maximum operating temperature: check cooling and inlet temperature."},
    {0x80, "hw_power_brake_slowdown", "throttled by the power brake", AL_GPU_EVENT_HW_BRAKE, AL_SIGNAL_POWER,
     "The server's power supply asserts the brake: check power supplies, their redundancy and the chassis power limit."},
    {0x08, "hw_slowdown", "throttled by hardware", AL_GPU_METRIC_COUNT, 0,
     "Hardware lowers the clocks without saying more: check temperature, power supply and cables."},
    {0x04, "sw_power_cap", "at the power limit", AL_GPU_EVENT_SW_POWER, AL_SIGNAL_POWER,
     "Normal at full load. If the limit was lowered on purpose or by mistake, compare it with the default limit."},
};

struct state {
    struct al_window seen[REASONS]; // 1 when the bit was set, 0 when not
    struct al_rate active[REASONS]; // of the driver's counters
    double active_share[REASONS];   // NaN: not known
};

static void done(void *state)
{
    for (int r = 0; r < REASONS; r++)
        al_window_done(&((struct state *)state)->seen[r]);
}

// Readings in the window: of short ticks so many more that it is as long.
static uint32_t window_of(const struct al_run *run)
{
    double interval = (double)run->s->interval_ns / AL_NS_PER_S, tick = run->set->inefficient_tick;
    return (uint32_t)(run->set->throttled_ticks * (interval > 0 && interval < tick ? tick / interval : 1) + 0.5);
}

static bool follow(struct state *m, const struct al_gpu *gpu, uint32_t ticks)
{
    struct al_value mask = gpu->m[AL_GPU_THROTTLE];
    for (int r = 0; r < REASONS; r++) {
        struct al_window *w = &m->seen[r];
        if (w->cap != ticks && (w->ring ? al_window_resize(w, 0, ticks) : al_window_init(w, 0, ticks)) < 0)
            return false;
        al_window_push(w, mask.at_ns, (uint64_t)mask.num & reasons[r].bit ? 1 : 0);
        if (!m->active[r].known)
            m->active_share[r] = NAN;
        if (reasons[r].counter == AL_GPU_METRIC_COUNT || !al_ok(gpu->m[reasons[r].counter]))
            continue;
        struct al_value counter = gpu->m[reasons[r].counter];
        al_rate_push(&m->active[r], counter.at_ns, counter.num, &m->active_share[r]);
    }
    return true;
}

static void say_evidence(struct al_draft *d, const struct al_gpu *gpu, const struct state *m, int r)
{
    al_draft_number(d, reasons[r].name, al_window_mean(&m->seen[r]), AL_UNIT_RATIO, "nvml", AL_SIGNAL_REASON);
    if (!isnan(m->active_share[r]))
        al_draft_number(d, al_gpu_metrics[reasons[r].counter].name, m->active_share[r], AL_UNIT_RATIO, "nvml",
                        m->active_share[r] > 0 ? AL_SIGNAL_REASON : 0);
    struct al_value temp = gpu->m[AL_GPU_TEMP], slow = gpu->m[AL_GPU_TEMP_SLOWDOWN], margin = gpu->m[AL_GPU_TEMP_MARGIN];
    bool hot = (al_ok(margin) && margin.num <= 5) || (al_ok(temp) && al_ok(slow) && temp.num >= slow.num - 5);
    al_draft_gpu(d, gpu, AL_GPU_TEMP, hot ? reasons[r].signal & AL_SIGNAL_TEMPERATURE : 0);
    al_draft_gpu(d, gpu, AL_GPU_TEMP_SLOWDOWN, 0);
    struct al_value power = gpu->m[AL_GPU_POWER], limit = gpu->m[AL_GPU_POWER_ENFORCED];
    bool full = r == SW_POWER && al_ok(power) && al_ok(limit) && power.num >= 0.95 * limit.num;
    al_draft_gpu(d, gpu, AL_GPU_POWER, full ? AL_SIGNAL_POWER : 0);
    al_draft_gpu(d, gpu, AL_GPU_POWER_ENFORCED, 0);
    struct al_value clock = gpu->m[AL_GPU_CLOCK_SM], most = gpu->m[AL_GPU_CLOCK_SM_MAX];
    bool lowered = al_ok(clock) && al_ok(most) && clock.num < 0.95 * most.num;
    al_draft_gpu(d, gpu, AL_GPU_CLOCK_SM, lowered ? AL_SIGNAL_CLOCK : 0);
    al_draft_gpu(d, gpu, AL_GPU_CLOCK_SM_MAX, 0);
}

static void raise(struct al_run *run, struct al_track *t, uint32_t g, const struct state *m, int r)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_value util = gpu->m[AL_GPU_UTIL], clock = gpu->m[AL_GPU_CLOCK_SM], most = gpu->m[AL_GPU_CLOCK_SM_MAX];
    bool busy = al_ok(util) && util.num >= run->set->throttled_busy_above;
    struct al_draft *d = al_run_draft(run, "throttled", r == SW_POWER || !busy ? AL_LEVEL_INFO : AL_LEVEL_WARNING,
                                      (int)g);
    al_draft_title(d, "%s", reasons[r].title);
    al_draft_message(d, "%s: %s in %s of the last %u readings", al_say_gpu(run->s, gpu).s, reasons[r].name,
                     al_say_percent(al_window_mean(&m->seen[r])).s, m->seen[r].count);
    if (al_ok(clock) && al_ok(most))
        al_draft_message(d, "; SM clock %s of at most %s", al_say_megahertz(clock.num).s,
                         al_say_megahertz(most.num).s);
    if (al_ok(gpu->m[AL_GPU_TEMP]))
        al_draft_message(d, ", %.0f \302\260C", gpu->m[AL_GPU_TEMP].num);
    if (al_ok(gpu->m[AL_GPU_POWER]))
        al_draft_message(d, ", %s", al_say_watts(gpu->m[AL_GPU_POWER].num).s);
    say_evidence(d, gpu, m, r);
    if (!(d->signals & ~(uint32_t)AL_SIGNAL_REASON)) // neither hot nor slower: a moment's reason that costs nothing
        d->f.level = AL_LEVEL_INFO;
    al_draft_considered(d, "Lower clocks because the GPU idles or because clocks were set: those reasons are told apart "
                           "by the driver and not counted.");
    al_draft_advice(d, "%s", reasons[r].advice);
    al_run_raise(run, t);
}

static bool over(const struct al_track *t, double share, double limit)
{
    return share > 0 && share >= (t->open ? limit / 2 : limit);
}

static void judge(struct al_run *run, struct al_track *t, struct al_track *power, uint32_t g)
{
    struct state *m = t->state;
    int worst = -1;
    if (m->seen[0].count < window_of(run)) {
        al_run_too_little(run, t, "the window is not full yet");
        al_run_too_little(run, power, "the window is not full yet");
        return;
    }
    for (int r = 0; r < SW_POWER; r++)
        if (worst < 0 || al_window_mean(&m->seen[r]) > al_window_mean(&m->seen[worst]))
            worst = r;
    if (over(t, al_window_mean(&m->seen[worst]), run->set->throttled_share_above))
        raise(run, t, g, m, worst);
    else
        al_run_quiet(run, t);
    if (over(power, al_window_mean(&m->seen[SW_POWER]), run->set->throttled_power_share_above))
        raise(run, power, g, m, SW_POWER);
    else
        al_run_quiet(run, power);
}

static void step(struct al_run *run)
{
    for (uint32_t g = 0; g < run->s->gpu_count; g++) {
        const struct al_gpu *gpu = &run->s->gpus[g];
        if (gpu->info.is_mig) // clocks are the parent's
            continue;
        struct al_track *t = al_run_gpu(run, g, NULL), *power = al_run_gpu(run, g, "power");
        if (!t || !power)
            continue;
        if (!al_ok(gpu->m[AL_GPU_THROTTLE])) {
            al_run_cannot(run, t, "the driver does not say why clocks are where they are");
            al_run_cannot(run, power, "the driver does not say why clocks are where they are");
        } else if (follow(t->state, gpu, window_of(run))) {
            judge(run, t, power, g);
        }
    }
}

const struct al_rule al_rule_throttled = {
    .name = "throttled",
    .groups = AL_GROUP_FAST | AL_GROUP_SLOW,
    .enabled = AL_ENABLED(throttled),
    .state_size = sizeof(struct state),
    .step = step,
    .done = done,
};
