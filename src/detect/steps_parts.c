// SPDX-License-Identifier: Apache-2.0
// Which other part of the host timeline holds the GPU up: checkpoints, logging, evaluation, what lies between steps or in
// them unmarked, and at last the host itself, where it cannot launch as fast as the GPU computes.
//
// CUDA runs behind the host: a part may be long because the host waits in it for a busy GPU (reading the loss at a
// step's end). What was lost in it is at most the time for which the GPU idled and nothing else accounts for.
#include <stddef.h>
#include <stdio.h>

#include "detect/advice.h"
#include "detect/say.h"
#include "detect/steps_part.h"

struct part_rule {
    const char *rule;
    int part;
    size_t limit; // offset of the setting in struct al_settings
    bool may_wait; // the host may be waiting for the GPU there
    enum al_level level;
    const char *title, *what, *considered, *advice;
};

static const struct part_rule rules[] = {
    {"save", AL_IN_SAVE, offsetof(struct al_settings, training_save_above), false, AL_LEVEL_WARNING,
     "checkpoints hold training up", "goes into writing checkpoints",
     "marked where the trainer or torch.save writes; not evaluation, not logging, which are counted apart",
     "save less often, leave the optimizer's state out where no resuming is planned, or write to a local disk first and copy in "
     "another thread"},
    {"log", AL_IN_LOG, offsetof(struct al_settings, training_log_above), true, AL_LEVEL_WARNING,
     "logging holds training up", "goes into logging and reporting",
     "marked around the trainer's own logging; time in which the host waits there for a busy GPU is not counted as lost",
     "log less often, keep metrics on the GPU and read them together, and let slow reporters (network, "
     "images) work every n-th time"},
    {"evaluation", AL_IN_EVALUATION, offsetof(struct al_settings, training_evaluation_above), false, AL_LEVEL_INFO,
     "much of the time is evaluation", "is evaluation inside training",
     "it may be wanted: this says what it costs",
     "evaluate less often, on fewer rows, or with a larger batch"},
    {"between_steps", AL_PART_BETWEEN, offsetof(struct al_settings, training_between_above), true, AL_LEVEL_WARNING,
     "time passes between the steps", "lies between a step's end and the next one's begin",
     "it is neither data, forward, backward nor optimizer, and no evaluation, checkpoint or logging that is marked; time in "
     "which the host waits there for a busy GPU is not counted as lost",
     "look at what the loop does behind optimizer.step(): own logging, checkpoints or metrics, callbacks, time.sleep, "
     "locks, prints over the network; do it every n-th step or in another thread"},
    {"own_code", AL_IN_OTHER, offsetof(struct al_settings, training_other_above), true, AL_LEVEL_WARNING,
     "the loop's own code inside the step takes time", "passes inside the steps where no phase is known",
     "it lies between fetching the batch and the optimizer's step and is neither forward, backward nor a checkpoint that is "
     "marked; time in which the host waits there for a busy GPU is not counted as lost",
     "look at what the loop does between backward() and optimizer.step(), and before forward: own metrics, copies to the "
     "host, files, locks; do it every n-th step or in another thread"},
};
#define RULES (sizeof rules / sizeof *rules)

static bool uses_cuda(const struct al_steps_view *v) {
    for (uint32_t i = 0; i < v->count; i++)
        if (v->ranks[i].tally->device_count)
            return true;
    return false;
}

static double share_of(const struct al_steps_view *v, int part) {
    double share = 0;
    (void)al_steps_share(v, part, false, &share);
    return share;
}

// Idle GPU time that waiting for data, collectives, checkpoints and evaluation do not account for.
static double idle_left(const struct al_steps_view *v) {
    double left = 1 - v->utilization - share_of(v, AL_IN_DATA) - share_of(v, AL_IN_COMMUNICATION) -
                  share_of(v, AL_IN_SAVE) - share_of(v, AL_IN_EVALUATION);
    return left > 0 ? left : 0;
}

static double limit_of(const struct al_settings *set, const struct part_rule *r) {
    return *(const double *)(const void *)((const char *)set + r->limit);
}

static void tell_part(const struct al_settings *set, const struct part_rule *r, const struct al_steps_view *v, double share,
                      double limit, struct al_steps_verdict *ret) {
    struct al_finding *f = &ret->finding;
    uint64_t steps;
    (void)al_steps_wall(v, &steps);
    f->level = r->level;
    f->confidence = r->may_wait && uses_cuda(v) ? AL_CONFIDENCE_MEDIUM : AL_CONFIDENCE_HIGH;
    (void)snprintf(f->title, sizeof f->title, "%s", r->title);
    al_steps_say(ret, AL_VERDICT_FINDING, "%s of wall time %s (limit %s) over %llu steps", al_say_percent(share).s,
                 r->what, al_say_percent(limit).s, (unsigned long long)steps);
    al_steps_number(ret, "time_ratio", share, AL_UNIT_RATIO, "probe");
    if (r->level > AL_LEVEL_INFO)
        al_steps_look(set, v, ret);
    al_steps_number(ret, "steps", (double)steps, AL_UNIT_COUNT, "probe");
    if (v->utilization_known)
        al_steps_number(ret, "gpu_utilization", v->utilization, AL_UNIT_RATIO, "nvml");
    (void)snprintf(f->considered, sizeof f->considered, "%s", r->considered);
    if (!al_advice_rule(v, r->rule, f->advice, sizeof f->advice))
        (void)snprintf(f->advice, sizeof f->advice, "%s", r->advice);
}

static void judge_part(const struct al_settings *set, const struct al_steps_view *v, const struct part_rule *r,
                       struct al_steps_verdict *ret) {
    double share, limit = limit_of(set, r);
    al_steps_begin(ret, r->rule, "job");
    if (!al_steps_enough(set, v, ret) || !al_steps_share(v, r->part, false, &share))
        return;
    bool above = share > limit && al_steps_lasts(v, r->part, share, limit);
    if (above && r->may_wait && uses_cuda(v)) {
        if (!v->utilization_known) {
            al_steps_say(ret, AL_VERDICT_CANNOT_TELL,
                         "%s of wall time %s, but the host may wait there for the GPU, and its utilisation is "
                         "missing: %s",
                         al_say_percent(share).s, r->what, v->utilization_missing ? v->utilization_missing : "not read");
            return;
        }
        if (idle_left(v) <= limit) {
            al_steps_say(ret, AL_VERDICT_QUIET, "%s of wall time, in which the host waits for a GPU that is busy",
                         al_say_percent(share).s);
            return;
        }
    }
    if (above)
        tell_part(set, r, v, share, limit, ret);
    else
        al_steps_say(ret, AL_VERDICT_QUIET, "%s of wall time %s", al_say_percent(share).s, r->what);
}

static void tell_host_bound(const struct al_settings *set, const struct al_steps_view *v, double lost,
                            struct al_steps_verdict *ret) {
    struct al_finding *f = &ret->finding;
    f->level = AL_LEVEL_WARNING;
    f->confidence = AL_CONFIDENCE_MEDIUM;
    (void)snprintf(f->title, sizeof f->title, "the GPU waits for the host");
    al_steps_say(ret, AL_VERDICT_FINDING,
                 "the GPU idles for %s of wall time although nothing waits for data, collectives, checkpoints or logging: the "
                 "training process does not launch work as fast as the GPU does it",
                 al_say_percent(lost).s);
    al_steps_look(set, v, ret);
    al_steps_number(ret, "gpu_idle_ratio", lost, AL_UNIT_RATIO, "nvml and probe");
    al_steps_number(ret, "gpu_utilization", v->utilization, AL_UNIT_RATIO, "nvml");
    al_steps_number(ret, "forward_ratio", share_of(v, AL_IN_FORWARD), AL_UNIT_RATIO, "probe");
    al_steps_number(ret, "backward_ratio", share_of(v, AL_IN_BACKWARD), AL_UNIT_RATIO, "probe");
    al_steps_number(ret, "optimizer_ratio", share_of(v, AL_IN_OPTIMIZER), AL_UNIT_RATIO, "probe");
    (void)snprintf(f->considered, sizeof f->considered,
                   "waiting for data, collectives, checkpoints, logging and evaluation account for less; which of small kernels "
                   "and synchronisation it is needs the kernel timeline");
    (void)al_advice_rule(v, ret->rule, f->advice, sizeof f->advice);
}

// Last of the rules on time: what nothing else accounts for.
static void judge_host(const struct al_settings *set, const struct al_steps_view *v, bool found,
                       struct al_steps_verdict *ret) {
    al_steps_begin(ret, "host_bound", "job");
    if (!al_steps_enough(set, v, ret))
        return;
    double lost = idle_left(v) - share_of(v, AL_IN_LOG), limit = set->training_host_above;
    if (!uses_cuda(v))
        al_steps_say(ret, AL_VERDICT_QUIET, "no process of the job uses CUDA");
    else if (!v->utilization_known)
        al_steps_say(ret, AL_VERDICT_CANNOT_TELL, "GPU utilisation is missing: %s",
                     v->utilization_missing ? v->utilization_missing : "not read");
    else if (v->live) { // utilisation is that of the whole run so far: judged at its end
        al_steps_say(ret, AL_VERDICT_QUIET, "judged at the end");
        ret->look = !found && lost > limit;
    } else if (found || lost <= limit)
        al_steps_say(ret, AL_VERDICT_QUIET, "%s of wall time in which the GPU idles is not accounted for by other parts",
                     al_say_percent(lost > 0 ? lost : 0).s);
    else
        tell_host_bound(set, v, lost, ret);
}

uint32_t al_steps_parts(const struct al_settings *set, const struct al_steps_view *v, bool found,
                        struct al_steps_verdict *ret, uint32_t max) {
    if (max < RULES + 1)
        return 0;
    for (uint32_t i = 0; i < RULES; i++) {
        judge_part(set, v, &rules[i], &ret[i]);
        found |= ret[i].verdict == AL_VERDICT_FINDING && rules[i].level != AL_LEVEL_INFO;
    }
    judge_host(set, v, found, &ret[RULES]);
    return RULES + 1;
}
