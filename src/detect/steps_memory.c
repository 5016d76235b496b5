// SPDX-License-Identifier: Apache-2.0
// Memory of a rank on a device, by its floors over the steps: what torch's tensors keep, what its cache keeps, and what
// others keep outside of it. What is low at its lowest is not kept. One cause, one finding: reserved follows allocated.
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "detect/allocator.h"
#include "detect/say.h"
#include "detect/steps_part.h"

#define FRAGMENTS 0.1    // share of reserved memory in unusable remains that counts
#define RETRIES_LEAST 3  // one may come from the first long batch
#define IDLE_POOL 0.3    // share of the device that torch holds and no tensor uses

struct al_growth al_steps_growth(const struct al_settings *set, bool live, const struct al_floor *f, double above) {
    struct al_growth g = {0};
    uint32_t readings = (uint32_t)set->training_memory_readings;
    // A job's beginning grows for many reasons: more is asked for while it runs.
    if (live && f->readings < 2 * (uint64_t)readings)
        return g;
    int result = al_floor_rises(f, readings, above, &g.trend);
    if (result < 0)
        return g;
    g.enough = true;
    g.rises = result == 1;
    g.bytes = g.trend.per_step * (double)(g.trend.last_step - g.trend.first_step);
    return g;
}

double al_steps_seconds_to(const struct al_tally *t, double room, const struct al_growth *g) {
    uint64_t steps = al_tally_steps(t);
    if (g->trend.per_step <= 0 || !steps || t->total.wall_ns <= 0)
        return -1;
    return (room > 0 ? room : 0) / g->trend.per_step * ((double)t->total.wall_ns / 1e9 / (double)steps);
}

void al_steps_full_in(const struct al_settings *set, struct al_steps_verdict *v, double seconds, const char *what) {
    struct al_finding *f = &v->finding;
    size_t len = strlen(f->message);
    if (seconds < 0)
        return;
    (void)snprintf(f->message + len, sizeof f->message - len, "; %s full in about %s at this rate", what,
                   al_say_seconds(seconds).s);
    al_steps_number(v, "full_in_seconds", seconds, AL_UNIT_SECONDS, "inferred");
    if (seconds < set->memory_critical_within)
        f->level = AL_LEVEL_CRITICAL;
}

void al_steps_growth_numbers(struct al_steps_verdict *v, const char *name, const struct al_growth *g, const char *source) {
    al_steps_number(v, name, g->trend.per_step, AL_UNIT_BYTES, source);
    al_steps_number(v, "low", g->trend.low, AL_UNIT_BYTES, "Theil-Sen, 95 %");
    al_steps_number(v, "high", g->trend.high, AL_UNIT_BYTES, "Theil-Sen, 95 %");
    al_steps_number(v, "growth_bytes", g->bytes, AL_UNIT_BYTES, source);
}

void al_steps_say_growth(struct al_steps_verdict *v, const char *who, const char *what, const struct al_growth *g) {
    al_steps_say(v, AL_VERDICT_FINDING, "%s: %s grows by %s a step (95 %% interval %s to %s), %s over steps %lld to %lld", who,
                 what, al_say_bytes(g->trend.per_step).s, al_say_bytes(g->trend.low).s, al_say_bytes(g->trend.high).s,
                 al_say_bytes(g->bytes).s, (long long)g->trend.first_step, (long long)g->trend.last_step);
}

struct device {
    const struct al_settings *set;
    const struct al_steps_view *view;
    const struct al_tally *tally;
    const struct al_tally_memory *m;
    struct al_allocator allocator;
    const char *who;
    double inactive;
    int64_t retries; // since the first reading
};

static double last_of(const struct al_tally_memory *m, int figure) {
    return m->known[figure] ? (double)m->last[figure] : 0;
}

static double room_of(const struct al_tally_memory *m) {
    if (!m->driver_known[AL_DRIVER_DEVICE_TOTAL])
        return -1;
    double used = m->driver_known[AL_DRIVER_DEVICE_USED] ? (double)m->driver_last[AL_DRIVER_DEVICE_USED]
                                                         : last_of(m, AL_ALLOCATOR_RESERVED);
    double room = (double)m->driver_last[AL_DRIVER_DEVICE_TOTAL] - used;
    return room > 0 ? room : 0;
}

static void tell_kept(const struct device *d, struct al_steps_verdict *v, const struct al_growth *g) {
    struct al_finding *f = &v->finding;
    f->level = AL_LEVEL_WARNING;
    f->confidence = AL_CONFIDENCE_HIGH;
    (void)snprintf(f->title, sizeof f->title, "tensors are kept from step to step");
    al_steps_say_growth(v, d->who, "allocated memory at its lowest", g);
    al_steps_growth_numbers(v, "allocated_bytes_per_step", g, "torch allocator");
    // What the pool has free is used up first.
    double room = room_of(d->m);
    if (room >= 0)
        room += last_of(d->m, AL_ALLOCATOR_RESERVED) - last_of(d->m, AL_ALLOCATOR_ALLOCATED);
    al_steps_full_in(d->set, v, room < 0 ? -1 : al_steps_seconds_to(d->tally, room, g), "the device is");
    (void)snprintf(f->considered, sizeof f->considered,
                   "not the allocator's cache: that is in reserved, not in allocated, and if it grows too it only follows; not "
                   "the first steps, a jump or a level that comes and goes: it rises throughout");
    (void)snprintf(f->advice, sizeof f->advice,
                   "look for what outlives the step: losses or outputs kept with their graph (append loss.item() or "
                   "loss.detach(), not loss), lists and dicts that grow, hooks that store tensors");
}

static void number_fragments(const struct device *d, struct al_steps_verdict *v) {
    if (d->m->known[AL_ALLOCATOR_INACTIVE_SPLIT])
        al_steps_number(v, "inactive_split_bytes", d->inactive, AL_UNIT_BYTES, "torch allocator");
    al_steps_number(v, "alloc_retries", (double)d->retries, AL_UNIT_COUNT, "torch allocator");
}

// Where the job goes from one task to another emptying the cache pays; between steps it only costs.
static const char *when_to_empty(const struct al_tally *t) {
    if (t->total.part_ns[AL_IN_ROLLOUT] > 0)
        return "behind each rollout, before the engine or the trainer takes its turn";
    if (t->total.part_ns[AL_IN_EVALUATION] > 0)
        return "behind each evaluation";
    return "behind inference and between tasks, or by a limit in long services (alula run --empty-cache-above)";
}

static void tell_cache(const struct device *d, struct al_steps_verdict *v, const struct al_growth *g) {
    struct al_finding *f = &v->finding;
    bool fragmented = d->inactive > 0.5 * g->bytes && d->retries > 0;
    f->level = fragmented ? AL_LEVEL_WARNING : AL_LEVEL_INFO;
    f->confidence = AL_CONFIDENCE_MEDIUM;
    (void)snprintf(f->title, sizeof f->title, fragmented ? "the allocator's memory is fragmented" : "the allocator's cache grows");
    al_steps_say(v, AL_VERDICT_FINDING,
                 "%s: reserved memory grows by %s over steps %lld to %lld while allocated does not; inactive split %s, "
                 "%lld retries after a full device",
                 d->who, al_say_bytes(g->bytes).s, (long long)g->trend.first_step, (long long)g->trend.last_step,
                 al_say_bytes(d->inactive).s, (long long)d->retries);
    al_steps_growth_numbers(v, "reserved_bytes_per_step", g, "torch allocator");
    number_fragments(d, v);
    (void)snprintf(f->considered, sizeof f->considered, "no tensors are kept: allocated memory at its lowest is level%s",
                   fragmented ? "" : "; not fragmented: that needs unusable remains and retries");
    if (fragmented)
        al_allocator_advise(&d->allocator, f->advice, sizeof f->advice);
    else
        (void)snprintf(f->advice, sizeof f->advice,
                       "not a leak: torch keeps what it once needed, most often for a longer batch. Where it must shrink, call "
                       "empty_cache() %s; not between steps: it waits for the GPU, and the next step allocates again",
                       when_to_empty(d->tally));
}

// Retries: the device was full, the cache was given back and asked for again, which stops the GPU each time.
static void tell_retries(const struct device *d, struct al_steps_verdict *v) {
    struct al_finding *f = &v->finding;
    double reserved = last_of(d->m, AL_ALLOCATOR_RESERVED);
    bool fragmented = reserved > 0 && d->inactive > FRAGMENTS * reserved;
    f->level = AL_LEVEL_WARNING;
    f->confidence = fragmented ? AL_CONFIDENCE_HIGH : AL_CONFIDENCE_MEDIUM;
    (void)snprintf(f->title, sizeof f->title,
                   fragmented ? "the allocator's memory is fragmented" : "the allocator runs against the device's limit");
    al_steps_say(v, AL_VERDICT_FINDING, "%s: %lld times an allocation found no room and the cache was emptied for it; inactive "
                                        "split %s of %s reserved",
                 d->who, (long long)d->retries, al_say_bytes(d->inactive).s, al_say_bytes(reserved).s);
    number_fragments(d, v);
    al_steps_number(v, "reserved_bytes", reserved, AL_UNIT_BYTES, "torch allocator");
    (void)snprintf(f->considered, sizeof f->considered, "%s",
                   fragmented ? "not only too little memory: a good part of what torch holds is remains too small to be used"
                              : "not fragmentation: hardly anything of what torch holds is unusable remains; the peak is too "
                                "large for the device");
    if (fragmented)
        al_allocator_advise(&d->allocator, f->advice, sizeof f->advice);
    else
        (void)snprintf(f->advice, sizeof f->advice,
                       "a smaller micro-batch with more gradient accumulation, gradient checkpointing, or shorter sequences; "
                       "each retry stops the GPU for a round of cudaFree and cudaMalloc");
}

// A full device whose GPU idles: fragmentation only with evidence, which tell_retries has looked for.
static bool idle_pool(const struct device *d) {
    const struct al_tally_memory *m = d->m;
    double total = m->driver_known[AL_DRIVER_DEVICE_TOTAL] ? (double)m->driver_last[AL_DRIVER_DEVICE_TOTAL] : 0;
    double used = m->driver_known[AL_DRIVER_DEVICE_USED] ? (double)m->driver_last[AL_DRIVER_DEVICE_USED] : 0;
    return d->view->utilization_known && d->view->utilization < d->set->inefficient_utilization_below && total > 0 &&
           used > d->set->memory_used_above * total &&
           last_of(m, AL_ALLOCATOR_RESERVED) - last_of(m, AL_ALLOCATOR_ALLOCATED) > IDLE_POOL * total;
}

static void tell_idle_pool(const struct device *d, struct al_steps_verdict *v) {
    struct al_finding *f = &v->finding;
    double reserved = last_of(d->m, AL_ALLOCATOR_RESERVED), allocated = last_of(d->m, AL_ALLOCATOR_ALLOCATED);
    f->level = AL_LEVEL_INFO;
    f->confidence = AL_CONFIDENCE_MEDIUM;
    (void)snprintf(f->title, sizeof f->title, "pool reserved, idle");
    al_steps_say(v, AL_VERDICT_FINDING, "%s: GPU utilisation %s on a device that is nearly full: torch holds %s, of which "
                                        "tensors use %s",
                 d->who, al_say_percent(d->view->utilization).s, al_say_bytes(reserved).s, al_say_bytes(allocated).s);
    al_steps_number(v, "reserved_bytes", reserved, AL_UNIT_BYTES, "torch allocator");
    al_steps_number(v, "allocated_bytes", allocated, AL_UNIT_BYTES, "torch allocator");
    (void)snprintf(f->considered, sizeof f->considered,
                   "not fragmentation: no retries, and %s in unusable remains; a full pool slows nothing by itself",
                   al_say_bytes(d->inactive).s);
    (void)snprintf(f->advice, sizeof f->advice, "look for what holds the GPU up elsewhere (data, evaluation, waiting); if another "
                                                "process needs the memory, empty_cache() between tasks gives it back");
}

static void judge_allocated(const struct device *d, struct al_steps_verdict *v) {
    const struct al_tally_memory *m = d->m;
    double above = d->set->training_memory_growth_above;
    struct al_growth a = al_steps_growth(d->set, d->view->live, &m->allocated, above);
    struct al_growth r = al_steps_growth(d->set, d->view->live, &m->reserved, above);
    if (!a.enough)
        al_steps_say(v, AL_VERDICT_TOO_LITTLE_DATA, "%s: %u readings of the allocator's figures", d->who, m->allocated.count);
    else if (a.rises)
        tell_kept(d, v, &a);
    else if (r.enough && r.rises)
        tell_cache(d, v, &r);
    else if (d->retries >= RETRIES_LEAST)
        tell_retries(d, v);
    else if (idle_pool(d))
        tell_idle_pool(d, v);
    else
        al_steps_say(v, AL_VERDICT_QUIET, "%s: allocated memory at its lowest does not keep rising: %s over steps %lld to %lld",
                     d->who, al_say_bytes(a.bytes).s, (long long)a.trend.first_step, (long long)a.trend.last_step);
}

static void judge_outside(const struct device *d, struct al_steps_verdict *v) {
    const struct al_tally_memory *m = d->m;
    struct al_finding *f = &v->finding;
    struct al_growth g = al_steps_growth(d->set, d->view->live, &m->outside, d->set->training_memory_growth_above);
    if (!m->outside_known) {
        al_steps_say(v, AL_VERDICT_CANNOT_TELL, "%s: the driver gave no figure for the process or its device", d->who);
        return;
    }
    if (!g.enough) {
        al_steps_say(v, AL_VERDICT_TOO_LITTLE_DATA, "%s: %u readings of the driver beside torch's", d->who, m->outside.count);
        return;
    }
    if (!g.rises) {
        al_steps_say(v, AL_VERDICT_QUIET, "%s: memory outside torch does not keep rising (%s now)", d->who,
                     al_say_bytes((double)m->outside_last).s);
        return;
    }
    bool process = m->driver_known[AL_DRIVER_PROCESS_USED];
    f->level = AL_LEVEL_WARNING;
    f->confidence = process ? AL_CONFIDENCE_HIGH : AL_CONFIDENCE_LOW;
    (void)snprintf(f->title, sizeof f->title, "GPU memory grows outside torch");
    al_steps_say_growth(v, d->who, process ? "the driver's figure for the process less what torch holds"
                                           : "the device's used memory less what torch holds", &g);
    al_steps_growth_numbers(v, "outside_bytes_per_step", &g, "nvml - torch");
    double room = room_of(m);
    al_steps_full_in(d->set, v, room < 0 ? -1 : al_steps_seconds_to(d->tally, room, &g), "the device is");
    (void)snprintf(f->considered, sizeof f->considered, "%s",
                   process ? "not torch: neither its tensors nor its cache are in this figure; not the CUDA context, which does "
                             "not grow"
                           : "the driver lists no process here (a container), so other processes on the device count too");
    (void)snprintf(f->advice, sizeof f->advice,
                   "look at what allocates on its own: NCCL communicators made again and again, CUDA graphs, an engine beside "
                   "the trainer (vLLM), extensions such as bitsandbytes, CuPy or JAX, child processes with a context");
}

static void fill_device(struct device *d, const struct al_steps_rank *k, const struct al_tally_memory *m) {
    d->tally = k->tally;
    d->m = m;
    al_allocator_of(k->tally, &d->allocator);
    d->inactive = last_of(m, AL_ALLOCATOR_INACTIVE_SPLIT);
    d->retries = m->known[AL_ALLOCATOR_RETRIES] ? m->last[AL_ALLOCATOR_RETRIES] - m->first[AL_ALLOCATOR_RETRIES] : 0;
}

static void begin(struct al_steps_verdict *v, const char *rule, const struct device *d, pid_t pid) {
    al_steps_begin(v, rule, d->who);
    v->finding.pid = pid;
}

uint32_t al_steps_memory(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret,
                         uint32_t max) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->count; i++)
        for (uint32_t n = 0; n < v->ranks[i].tally->device_count && count + 1 < max; n++) {
            const struct al_tally_memory *m = &v->ranks[i].tally->memory[n];
            char who[64];
            struct device d = {.set = set, .view = v, .who = who};
            (void)snprintf(who, sizeof who, "rank %lld cuda:%d",
                           (long long)(v->ranks[i].rank < 0 ? 0 : v->ranks[i].rank), (int)m->device);
            fill_device(&d, &v->ranks[i], m);
            begin(&ret[count], "allocated", &d, v->ranks[i].pid);
            judge_allocated(&d, &ret[count++]);
            begin(&ret[count], "outside_torch", &d, v->ranks[i].pid);
            judge_outside(&d, &ret[count++]);
        }
    if (!count && max) {
        al_steps_begin(&ret[0], "allocated", "job");
        al_steps_say(&ret[0], AL_VERDICT_CANNOT_TELL, "no process told of its allocator (no torch with CUDA was seen)");
        count = 1;
    }
    return count;
}
