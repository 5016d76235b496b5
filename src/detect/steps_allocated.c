// SPDX-License-Identifier: Apache-2.0
// Whether what torch's allocator holds grows from step to step, by its floors. What is low at its lowest is not kept.
#include <stdio.h>

#include "base/err.h"
#include "detect/say.h"
#include "detect/steps_part.h"

struct growth {
    bool enough, rises;
    double bytes; // over the judged steps
    struct al_floor_trend trend;
};

static struct growth growth_of(const struct al_settings *set, bool live, const struct al_floor *f) {
    struct growth g = {0};
    uint32_t readings = (uint32_t)set->training_memory_readings;
    // A job's beginning grows for many reasons: more is asked for while it runs.
    if (live && f->readings < 2 * (uint64_t)readings)
        return g;
    if (al_floor_trend(f, readings, &g.trend))
        return g;
    g.enough = true;
    g.bytes = g.trend.per_step * (double)(g.trend.last_step - g.trend.first_step);
    // A lone jump between two levels has an interval that holds 0; a rise must also show between the two ends.
    g.rises = g.trend.low > 0 && g.bytes > set->training_memory_growth_above &&
              g.trend.to - g.trend.from > 0.5 * set->training_memory_growth_above;
    return g;
}

static void tell_kept(struct al_steps_verdict *v, const char *who, const struct growth *g) {
    struct al_finding *f = &v->finding;
    f->level = AL_LEVEL_WARNING;
    f->confidence = AL_CONFIDENCE_HIGH;
    (void)snprintf(f->title, sizeof f->title, "tensors are kept from step to step");
    al_steps_say(v, AL_VERDICT_FINDING,
                 "%s: allocated memory at its lowest grows by %s a step (95 %% interval %s to %s), %s over steps %lld to %lld",
                 who, al_say_bytes(g->trend.per_step).s, al_say_bytes(g->trend.low).s, al_say_bytes(g->trend.high).s,
                 al_say_bytes(g->bytes).s, (long long)g->trend.first_step, (long long)g->trend.last_step);
    (void)snprintf(f->considered, sizeof f->considered,
                   "not the allocator's cache: that is in reserved, not in allocated; not the first steps, which make the "
                   "optimizer's state: they are left out");
    (void)snprintf(f->advice, sizeof f->advice,
                   "look for what outlives the step: losses or outputs kept with their graph (append loss.item() or "
                   "loss.detach(), not loss), lists and dicts that grow, hooks that store tensors");
}

static void tell_cache(struct al_steps_verdict *v, const char *who, const struct growth *g,
                       const struct al_tally_memory *m) {
    struct al_finding *f = &v->finding;
    double inactive = m->known[AL_ALLOCATOR_INACTIVE_SPLIT] ? (double)m->last[AL_ALLOCATOR_INACTIVE_SPLIT] : 0;
    int64_t retries = m->known[AL_ALLOCATOR_RETRIES] ? m->last[AL_ALLOCATOR_RETRIES] - m->first[AL_ALLOCATOR_RETRIES] : 0;
    bool fragmented = inactive > 0.5 * g->bytes && retries > 0;
    f->level = fragmented ? AL_LEVEL_WARNING : AL_LEVEL_INFO;
    f->confidence = AL_CONFIDENCE_MEDIUM;
    (void)snprintf(f->title, sizeof f->title, fragmented ? "the allocator's memory is fragmented" : "the allocator's cache grows");
    al_steps_say(v, AL_VERDICT_FINDING,
                 "%s: reserved memory grows by %s over steps %lld to %lld while allocated does not; inactive split %s, "
                 "%lld retries after a full device",
                 who, al_say_bytes(g->bytes).s, (long long)g->trend.first_step, (long long)g->trend.last_step,
                 al_say_bytes(inactive).s, (long long)retries);
    (void)snprintf(f->considered, sizeof f->considered, "no tensors are kept: allocated memory at its lowest is level");
    (void)snprintf(f->advice, sizeof f->advice, "%s",
                   fragmented ? "PYTORCH_ALLOC_CONF=expandable_segments:True (PYTORCH_CUDA_ALLOC_CONF before torch 2.9), or "
                                "batches of equal lengths (padding to a multiple, bucketing)"
                              : "not a leak: torch keeps what it once needed. Where it must shrink, empty_cache() between "
                                "tasks gives it back and costs new allocations afterwards");
}

static void judge(const struct al_settings *set, bool live, const struct al_tally_memory *m, const char *who,
                  struct al_steps_verdict *v) {
    struct growth a = growth_of(set, live, &m->allocated), r = growth_of(set, live, &m->reserved);
    if (!a.enough)
        al_steps_say(v, AL_VERDICT_TOO_LITTLE_DATA, "%s: %u readings of the allocator's figures", who, m->allocated.count);
    else if (a.rises)
        tell_kept(v, who, &a);
    else if (r.enough && r.rises)
        tell_cache(v, who, &r, m);
    else
        al_steps_say(v, AL_VERDICT_QUIET,
                     "%s: allocated memory at its lowest is level: %s over steps %lld to %lld", who,
                     al_say_bytes(a.bytes).s, (long long)a.trend.first_step, (long long)a.trend.last_step);
    if (v->verdict != AL_VERDICT_FINDING)
        return;
    const struct growth *g = a.rises ? &a : &r;
    al_steps_number(v, a.rises ? "allocated_bytes_per_step" : "reserved_bytes_per_step", g->trend.per_step, AL_UNIT_BYTES,
                    "torch allocator");
    al_steps_number(v, "low", g->trend.low, AL_UNIT_BYTES, "Theil-Sen, 95 %");
    al_steps_number(v, "high", g->trend.high, AL_UNIT_BYTES, "Theil-Sen, 95 %");
    al_steps_number(v, "growth_bytes", g->bytes, AL_UNIT_BYTES, "torch allocator");
}

uint32_t al_steps_allocated(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret,
                            uint32_t max) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->count; i++)
        for (uint32_t d = 0; d < v->ranks[i].tally->device_count && count < max; d++) {
            const struct al_tally_memory *m = &v->ranks[i].tally->memory[d];
            char who[64];
            (void)snprintf(who, sizeof who, "rank %lld cuda:%d",
                           (long long)(v->ranks[i].rank < 0 ? 0 : v->ranks[i].rank), (int)m->device);
            al_steps_begin(&ret[count], "allocated", who);
            ret[count].finding.pid = v->ranks[i].pid;
            judge(set, v->live, m, who, &ret[count++]);
        }
    if (!count && max) {
        al_steps_begin(&ret[0], "allocated", "job");
        al_steps_say(&ret[0], AL_VERDICT_CANNOT_TELL, "no process told of its allocator (no torch with CUDA was seen)");
        count = 1;
    }
    return count;
}
