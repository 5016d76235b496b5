// SPDX-License-Identifier: Apache-2.0
// What a look at the ranks' stacks adds to a verdict on their steps: the marks say which part is long, the stacks which line.
#include <stdio.h>
#include <string.h>

#include "detect/look.h"
#include "detect/say.h"
#include "detect/steps_part.h"

#define KIND(id) (1u << AL_LOOK_KIND_##id)

// Shares from which both numbers are told: of samples at the loader, and of those over what the marks say.
#define LOADER_LEAST 0.1
#define LOADER_MORE 1.5

static const struct {
    const char *rule;
    uint32_t kinds; // that the part can be; another kind was seen at another time
} fits[] = {
    {"data_wait", KIND(LOADER) | KIND(FETCH) | KIND(PREPROCESS)},
    {"communication", KIND(COLLECTIVE)},
    {"save", KIND(SAVE)},
    {"log", KIND(LOG) | KIND(SYNCHRONISE)},
    {"between_steps", ~(KIND(LOADER) | KIND(FETCH))},
    {"own_code", ~(KIND(LOADER) | KIND(FETCH))},
    {"host_bound", ~(KIND(LOADER) | KIND(FETCH))},
};

static bool sum(const struct al_steps_view *v, struct al_looks_told *ret) {
    const struct al_look *looks[AL_LOOKS_SUMMED];
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->count && count < AL_LOOKS_SUMMED; i++)
        if (v->ranks[i].look)
            looks[count++] = v->ranks[i].look;
    al_looks_add_up(looks, count, ret);
    return ret->samples > 0;
}

static uint32_t kinds_of(const char *rule) {
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++)
        if (strcmp(fits[i].rule, rule) == 0)
            return fits[i].kinds;
    return 0;
}

void al_steps_look(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret) {
    struct al_looks_told told;
    struct al_finding *f = &ret->finding;
    char words[sizeof f->message];
    double share;
    ret->look = true;
    if (!sum(v, &told))
        return;
    enum al_look_kind kind = al_looks_kind(&told, &share);
    al_looks_say(&told, set, words, sizeof words);
    uint32_t seen = 1u << kind | (told.elsewhere ? KIND(COLLECTIVE) : 0);
    if (!*words || !(kinds_of(ret->rule) & seen))
        return;
    size_t len = strlen(f->message);
    (void)snprintf(f->message + len, sizeof f->message - len, "; %s", words);
    if (told.elsewhere)
        al_steps_number(ret, al_look_metric_table[AL_LOOK_COLLECTIVE].name, told.collective, AL_UNIT_RATIO, "stacks");
    al_steps_number(ret, al_look_metric_table[AL_LOOK_OTHER + (int)kind].name, share, AL_UNIT_RATIO, "stacks");
    if (kind == AL_LOOK_KIND_LOADER && told.worker_samples)
        al_steps_number(ret, al_look_metric_table[AL_LOOK_WORKER_LINE].name, told.worker_line_ratio, AL_UNIT_RATIO, "stacks");
    else
        al_steps_number(ret, al_look_metric_table[AL_LOOK_LINE].name, told.line_ratio, AL_UNIT_RATIO, "stacks");
    al_steps_number(ret, al_look_metric_table[AL_LOOK_SAMPLES].name, told.samples, AL_UNIT_COUNT, "stacks");
}

bool al_steps_wants_look(const struct al_settings *set, const struct al_steps_view *v) {
    struct al_steps_view all = *v;
    uint64_t steps;
    all.live = false;
    double wall = al_steps_wall(&all, &steps), floor = set->training_healthy_utilization - set->training_healthy_margin;
    if (!v->count || steps < (uint64_t)set->training_steps || wall / v->count < set->training_after)
        return false;
    if (v->utilization_known && v->utilization < floor)
        return true;
    const struct {
        int part;
        double limit;
    } parts[] = {{AL_IN_DATA, set->training_data_above}, {AL_IN_COMMUNICATION, set->training_communication_above},
                 {AL_IN_SAVE, set->training_save_above}, {AL_IN_LOG, set->training_log_above},
                 {AL_PART_BETWEEN, set->training_between_above}, {AL_IN_OTHER, set->training_other_above}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        double share;
        if (al_steps_share(&all, parts[i].part, false, &share) && share > parts[i].limit)
            return true;
    }
    return false;
}

void al_steps_say_preprocessing(const struct al_steps_view *v, double marked, char *out, size_t size) {
    struct al_looks_told told;
    size_t len = strlen(out);
    if (!sum(v, &told) || told.samples < AL_LOOKS_LEAST || told.elsewhere) // the marks are of all ranks, not of one
        return;
    double own = told.share[AL_LOOK_KIND_PREPROCESS], loader = told.share[AL_LOOK_KIND_LOADER] + told.share[AL_LOOK_KIND_FETCH] + own;
    const char *where = loader <= own ? "tokenising or collating"
                        : own > 0     ? "at its loader (_next_data), tokenising or collating" : "at its loader (_next_data)";
    if (loader >= LOADER_LEAST && loader > LOADER_MORE * marked)
        (void)snprintf(out + len, size - len, "; yet %s of samples have the main thread %s, while by the marks %s of step time waits "
                       "for data: making batches takes the time (preprocessing: collating, tokenising, copying), not loading them",
                       al_say_percent(loader).s, where, al_say_percent(marked).s);
}
