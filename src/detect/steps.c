// SPDX-License-Identifier: Apache-2.0
#include "detect/steps.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "detect/advice.h"
#include "detect/say.h"
#include "detect/steps_part.h"
#include "model/told.h"

// ---- shared ----

void al_steps_begin(struct al_steps_verdict *v, const char *rule, const char *entity) {
    memset(v, 0, sizeof *v);
    v->rule = v->finding.rule = rule;
    v->finding.gpu = v->finding.gpu_index = -1;
    (void)snprintf(v->finding.key, sizeof v->finding.key, "%s/%s", rule, entity);
}

void al_steps_say(struct al_steps_verdict *v, enum al_verdict verdict, const char *format, ...) {
    va_list args;
    va_start(args, format);
    v->verdict = verdict;
    (void)vsnprintf(v->finding.message, sizeof v->finding.message, format, args);
    va_end(args);
}

void al_steps_number(struct al_steps_verdict *v, const char *name, double value, enum al_unit unit, const char *source) {
    struct al_finding *f = &v->finding;
    if (f->evidence_count == AL_EVIDENCE_MAX)
        return;
    struct al_evidence *e = &f->evidence[f->evidence_count++];
    (void)al_str_copy(e->name, sizeof e->name, name);
    (void)al_str_copy(e->source, sizeof e->source, source);
    e->value = value;
    e->unit = unit;
}

// What is judged of a rank: the recent steps, or all but the first.
static uint64_t span_of(const struct al_tally *t, bool live, bool whole, struct al_tally_span *ret) {
    if (live)
        return al_tally_recent(t, ret);
    uint64_t steps = al_tally_steps(t);
    *ret = t->total;
    if (whole || steps < 2)
        return steps;
    ret->wall_ns -= t->first.wall_ns;
    for (int i = 0; i < AL_PART_COUNT; i++)
        ret->part_ns[i] -= t->first.part_ns[i];
    return steps - 1;
}

double al_steps_wall(const struct al_steps_view *v, uint64_t *ret_steps) {
    double wall = 0;
    *ret_steps = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        struct al_tally_span span;
        uint64_t steps = span_of(v->ranks[i].tally, v->live, false, &span);
        if (steps > *ret_steps)
            *ret_steps = steps;
        wall += (double)span.wall_ns / 1e9;
    }
    return wall;
}

bool al_steps_share(const struct al_steps_view *v, int part, bool whole, double *ret) {
    double wall = 0, time = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        struct al_tally_span span;
        if (!span_of(v->ranks[i].tally, v->live, whole, &span))
            continue;
        wall += (double)span.wall_ns;
        time += (double)span.part_ns[part];
    }
    *ret = wall > 0 ? time / wall : 0;
    return wall > 0;
}

const char *al_steps_data_unknown(const struct al_steps_view *v) {
    for (uint32_t i = 0; i < v->count; i++) {
        const char *source = v->ranks[i].tally->text[AL_TEXT_SOURCE], *told = al_told_confidence(source, "data");
        if (told && strcmp(told, "none") == 0)
            return *al_told_reason(source) ? al_told_reason(source) : "a process does not see where its batches come from";
    }
    return NULL;
}

// What is said while the job runs must not be taken back at its end: the recent steps well above the limit, and all so
// far above it.
#define LIVE_MARGIN 1.2
bool al_steps_lasts(const struct al_steps_view *v, int part, double share, double limit) {
    struct al_steps_view all = *v;
    double whole;
    if (!v->live)
        return true;
    all.live = false;
    for (uint32_t i = 0; i < v->count; i++)
        if (v->ranks[i].tally->recent_count < AL_TALLY_RECENT)
            return false;
    return share > LIVE_MARGIN * limit && al_steps_share(&all, part, false, &whole) && whole > limit;
}

bool al_steps_enough(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret) {
    uint64_t steps;
    double wall = al_steps_wall(v, &steps) / (v->count ? v->count : 1);
    if (!v->count)
        al_steps_say(ret, AL_VERDICT_CANNOT_TELL, "no process told of training steps");
    else if (steps < (uint64_t)set->training_steps || wall < set->training_after)
        al_steps_say(ret, AL_VERDICT_TOO_LITTLE_DATA, "%llu steps in %s after the first",
                     (unsigned long long)steps, al_say_seconds(wall).s);
    else
        return true;
    return false;
}

void al_steps_communication(const struct al_steps_view *v, struct al_steps_communication *ret) {
    int64_t world = 0, seen = 0;
    *ret = (struct al_steps_communication){.source = "no training process was seen"};
    for (uint32_t i = 0; i < v->count; i++) {
        const struct al_tally *t = v->ranks[i].tally;
        world = t->world > world ? t->world : world;
        seen += t->total.part_ns[AL_IN_COMMUNICATION];
    }
    if (!v->count)
        return;
    if (world <= 1 && v->count == 1) {
        ret->known = true;
        ret->source = "one process: nothing to communicate";
        return;
    }
    ret->source = "collectives overlap with computation, and no source of their exposed time is watched";
    if (seen > 0) {
        ret->known = al_steps_share(v, AL_IN_COMMUNICATION, !v->live, &ret->ratio);
        ret->source = "blocking collectives on the host timeline (a lower bound)";
    }
}

int al_steps_workers(double cpus, uint32_t local_ranks) {
    int each = (int)(cpus / (local_ranks ? local_ranks : 1)) - 1;
    return each < 1 ? 1 : each > 16 ? 16 : each;
}

// ---- waiting for data ----

static int64_t worst_rank(const struct al_steps_view *v, int part, double *ret) {
    int64_t worst = -1;
    *ret = -1;
    for (uint32_t i = 0; i < v->count; i++) {
        struct al_tally_span span;
        if (!span_of(v->ranks[i].tally, v->live, false, &span) || span.wall_ns <= 0)
            continue;
        double share = (double)span.part_ns[part] / (double)span.wall_ns;
        if (share > *ret) {
            *ret = share;
            worst = v->ranks[i].rank;
        }
    }
    return worst;
}

static void judge_data(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret) {
    double share, worst;
    uint64_t steps;
    al_steps_begin(ret, "data_wait", "job");
    if (!al_steps_enough(set, v, ret) || !al_steps_share(v, AL_IN_DATA, false, &share))
        return;
    if (al_steps_data_unknown(v)) {
        al_steps_say(ret, AL_VERDICT_CANNOT_TELL, "%s", al_steps_data_unknown(v));
        return;
    }
    (void)al_steps_wall(v, &steps);
    if (share <= set->training_data_above || !al_steps_lasts(v, AL_IN_DATA, share, set->training_data_above)) {
        al_steps_say(ret, AL_VERDICT_QUIET, "%s of wall time waiting for data", al_say_percent(share).s);
        al_steps_say_preprocessing(v, share, ret->finding.message, sizeof ret->finding.message);
        return;
    }
    struct al_finding *f = &ret->finding;
    int64_t rank = worst_rank(v, AL_IN_DATA, &worst);
    f->level = AL_LEVEL_WARNING;
    f->confidence = AL_CONFIDENCE_HIGH;
    (void)snprintf(f->title, sizeof f->title, "training waits for data");
    al_steps_say(ret, AL_VERDICT_FINDING, "%s of wall time goes into waiting for the next batch (limit %s) over %llu steps",
                 al_say_percent(share).s, al_say_percent(set->training_data_above).s, (unsigned long long)steps);
    if (v->count > 1) {
        size_t len = strlen(f->message);
        (void)snprintf(f->message + len, sizeof f->message - len, "; most in rank %lld: %s", (long long)rank,
                       al_say_percent(worst).s);
    }
    al_steps_look(set, v, ret);
    al_steps_number(ret, "data_loading_time_ratio", share, AL_UNIT_RATIO, "probe");
    al_steps_number(ret, "steps", (double)steps, AL_UNIT_COUNT, "probe");
    al_steps_number(ret, "cpus", v->cpus, AL_UNIT_COUNT, "cgroup");
    if (v->utilization_known)
        al_steps_number(ret, "gpu_utilization", v->utilization, AL_UNIT_RATIO, "nvml");
    (void)snprintf(f->considered, sizeof f->considered,
                   "the time is measured in the training process around its data iterator; evaluation, checkpoints and "
                   "logging are counted apart, and the first step is left out");
    (void)al_advice_rule(v, ret->rule, f->advice, sizeof f->advice);
}

// ---- communication ----

static void judge_communication(const struct al_settings *set, const struct al_steps_view *v,
                                struct al_steps_verdict *ret) {
    struct al_steps_communication c;
    al_steps_begin(ret, "communication", "job");
    if (!al_steps_enough(set, v, ret))
        return;
    al_steps_communication(v, &c);
    if (!c.known) {
        al_steps_say(ret, AL_VERDICT_CANNOT_TELL, "%s", c.source);
        return;
    }
    double limit = set->training_communication_above;
    if (c.ratio <= limit || !al_steps_lasts(v, AL_IN_COMMUNICATION, c.ratio, limit)) {
        al_steps_say(ret, AL_VERDICT_QUIET, "%s of wall time in exposed communication (%s)", al_say_percent(c.ratio).s,
                     c.source);
        return;
    }
    struct al_finding *f = &ret->finding;
    f->level = AL_LEVEL_WARNING;
    f->confidence = AL_CONFIDENCE_MEDIUM;
    (void)snprintf(f->title, sizeof f->title, "training waits in collectives");
    al_steps_say(ret, AL_VERDICT_FINDING, "%s of wall time is exposed communication (limit %s; %s)",
                 al_say_percent(c.ratio).s, al_say_percent(set->training_communication_above).s, c.source);
    al_steps_look(set, v, ret);
    al_steps_number(ret, "communication_time_ratio", c.ratio, AL_UNIT_RATIO, "probe");
    (void)snprintf(f->considered, sizeof f->considered,
                   "a rank that is slow for another reason makes the others wait in their collectives: compare the ranks' "
                   "shares in the report");
    al_steps_transport_advice(v, f->advice, sizeof f->advice);
}

// ---- healthy ----

static void judge_health(const struct al_settings *set, const struct al_steps_view *v, bool found,
                         struct al_steps_verdict *ret) {
    struct al_steps_communication c;
    double data;
    al_steps_begin(ret, "healthy", "job");
    if (!al_steps_enough(set, v, ret) || !al_steps_share(v, AL_IN_DATA, false, &data))
        return;
    al_steps_communication(v, &c);
    double floor = set->training_healthy_utilization - set->training_healthy_margin;
    if (!v->utilization_known)
        al_steps_say(ret, AL_VERDICT_CANNOT_TELL, "GPU utilisation is missing: %s",
                     v->utilization_missing ? v->utilization_missing : "not read");
    else if (found)
        al_steps_say(ret, AL_VERDICT_QUIET, "not healthy: see the finding");
    else if (al_steps_data_unknown(v))
        al_steps_say(ret, AL_VERDICT_CANNOT_TELL, "waiting for data is missing: %s", al_steps_data_unknown(v));
    else if (!c.known)
        al_steps_say(ret, AL_VERDICT_CANNOT_TELL, "communication time is missing: %s",
                     c.source);
    else if (v->utilization >= floor && data < set->training_healthy_data_below &&
             c.ratio < set->training_healthy_communication_below)
        al_steps_say(ret, AL_VERDICT_QUIET, "healthy: GPU utilisation %s, data %s, communication %s",
                     al_say_percent(v->utilization).s, al_say_percent(data).s, al_say_percent(c.ratio).s);
    else {
        al_steps_say(ret, AL_VERDICT_QUIET,
                     "no bottleneck found, but not at the healthy point either (utilisation from %s, data below %s, "
                     "communication below %s): GPU utilisation %s, data %s, communication %s",
                     al_say_percent(floor).s, al_say_percent(set->training_healthy_data_below).s,
                     al_say_percent(set->training_healthy_communication_below).s, al_say_percent(v->utilization).s,
                     al_say_percent(data).s, al_say_percent(c.ratio).s);
        al_steps_say_preprocessing(v, data, ret->finding.message, sizeof ret->finding.message);
    }
}

uint32_t al_steps_judge(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret,
                        uint32_t max) {
    uint32_t count = 2;
    if (!set->training_enabled || max < 4)
        return 0;
    judge_data(set, v, &ret[0]);
    judge_communication(set, v, &ret[1]);
    al_steps_settings(v, &ret[count++]);
    bool found = ret[0].verdict == AL_VERDICT_FINDING || ret[1].verdict == AL_VERDICT_FINDING;
    count += al_steps_parts(set, v, found, ret + count, max - count - 1);
    count += al_steps_memory(set, v, ret + count, max - count - 1);
    count += al_steps_host(set, v, ret + count, max - count - 1);
    found = false;
    for (uint32_t i = 0; i < count; i++)
        found |= ret[i].verdict == AL_VERDICT_FINDING && ret[i].finding.level != AL_LEVEL_INFO;
    judge_health(set, v, found, &ret[count]);
    ret[count++].look |= v->live && al_steps_wants_look(set, v);
    return count;
}
