// SPDX-License-Identifier: Apache-2.0
#include "detect/detect.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "detect/rule.h"
#include "detect/say.h"

// The order in which findings of one tick are told.
static const struct al_rule *const rules[] = {
    &al_rule_sensor,   &al_rule_hardware, &al_rule_memory, &al_rule_throttled, &al_rule_link,
    &al_rule_inefficient, &al_rule_uneven, &al_rule_orphan, &al_rule_contexts,  &al_rule_host_memory,
};
#define RULES (sizeof rules / sizeof *rules)

struct book {
    struct al_track **tracks;
    uint32_t count, cap;
    void *shared;
};

struct al_detect {
    struct al_settings set;
    struct book books[RULES];
    struct al_view view;
    struct al_run run;
    size_t rule; // whose step is under way
    uint64_t ticks;
    pid_t looks[AL_DETECT_LOOKS]; // asked for in this tick
    uint32_t look_count;
    uint64_t refused; // entities that found no place
    al_finding_fn *emit;
    void *user;
};

// ---- life ----

static void track_free(const struct al_rule *rule, struct al_track *t)
{
    if (t && t->state && rule->done)
        rule->done(t->state);
    if (t) {
        free(t->state);
        free(t->open);
    }
    free(t);
}

struct al_detect *al_detect_free(struct al_detect *d)
{
    for (size_t i = 0; d && i < RULES; i++) {
        struct book *b = &d->books[i];
        for (uint32_t k = 0; k < b->count; k++)
            track_free(rules[i], b->tracks[k]);
        free(b->tracks);
        if (b->shared && rules[i]->shared_done)
            rules[i]->shared_done(b->shared);
        free(b->shared);
    }
    free(d);
    return NULL;
}

int al_detect_new(const struct al_settings *settings, struct al_detect **ret)
{
    struct al_detect *d = calloc(1, sizeof *d);
    if (!d)
        return AL_E_NOMEM;
    for (size_t i = 0; i < RULES; i++) {
        d->books[i].shared = rules[i]->shared_size ? calloc(1, rules[i]->shared_size) : NULL;
        if (rules[i]->shared_size && !d->books[i].shared) {
            al_detect_free(d);
            return AL_E_NOMEM;
        }
    }
    d->set = *settings;
    *ret = d;
    return 0;
}

void al_detect_settings(struct al_detect *d, const struct al_settings *settings)
{
    d->set = *settings;
}

static bool enabled(const struct al_detect *d, size_t rule)
{
    double on;
    memcpy(&on, (const char *)&d->set + rules[rule]->enabled, sizeof on);
    return on != 0;
}

uint32_t al_detect_groups(const struct al_detect *d)
{
    uint32_t groups = 0;
    for (size_t i = 0; i < RULES; i++)
        groups |= enabled(d, i) ? rules[i]->groups : 0;
    return groups;
}

// ---- tracks ----

static uint64_t hash_more(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ULL;
    return hash;
}

static struct al_track *track_add(struct al_run *run, uint64_t hash, const char *entity, const char *part)
{
    struct al_detect *d = run->detect;
    struct book *b = &d->books[d->rule];
    if (b->count == AL_TRACKS_MAX) {
        d->refused++;
        return NULL;
    }
    if (b->count == b->cap) {
        uint32_t cap = b->cap ? 2 * b->cap : 16;
        struct al_track **wider = realloc(b->tracks, cap * sizeof(struct al_track *));
        if (!wider)
            return NULL;
        b->tracks = wider;
        b->cap = cap;
    }
    const struct al_rule *rule = rules[d->rule];
    struct al_track *t = calloc(1, sizeof *t);
    if (t && rule->state_size && !(t->state = calloc(1, rule->state_size))) {
        free(t);
        t = NULL;
    }
    if (!t)
        return NULL;
    (void)snprintf(t->entity, sizeof t->entity, "%s%s%s", entity, part ? "/" : "", part ? part : "");
    t->hash = hash;
    b->tracks[b->count++] = t;
    return t;
}

struct al_track *al_run_track(struct al_run *run, const char *entity, const char *part)
{
    struct al_detect *d = run->detect;
    struct book *b = &d->books[d->rule];
    uint64_t hash = hash_more(0xcbf29ce484222325ULL, entity);
    if (part)
        hash = hash_more(hash_more(hash, "/"), part);
    struct al_track *t = NULL;
    for (uint32_t i = 0; i < b->count && !t; i++)
        if (b->tracks[i]->hash == hash)
            t = b->tracks[i];
    if (!t)
        t = track_add(run, hash, entity, part);
    if (t)
        t->seen_tick = d->ticks;
    return t;
}

struct al_track *al_run_any_gpu(struct al_run *run, uint32_t gpu, const char *part)
{
    const struct al_gpu_info *info = &run->s->gpus[gpu].info;
    char index[24];
    (void)snprintf(index, sizeof index, "gpu-%u", info->index);
    return al_run_track(run, info->uuid[0] ? info->uuid : index, part);
}

struct al_track *al_run_gpu(struct al_run *run, uint32_t gpu, const char *part)
{
    const struct al_gpu_info *info = &run->s->gpus[gpu].info;
    struct al_track *t = al_run_any_gpu(run, gpu, part);
    if (t && info->status != AL_STATUS_OK) {
        al_run_cannot(run, t, al_status_text(info->status));
        return NULL;
    }
    return t;
}

// ---- findings ----

static void tell(struct al_detect *d, struct al_track *t, enum al_phase phase)
{
    int64_t now = d->run.s->monotonic_ns;
    t->open->phase = phase;
    t->open->updated_ns = now;
    if (phase == AL_PHASE_ENDED)
        t->open->ended_ns = now;
    t->emitted_ns = now;
    (void)al_str_copy(t->told, sizeof t->told, t->open->message);
    if (d->emit)
        d->emit(d->user, t->open);
}

static void finish(struct al_detect *d, struct al_track *t)
{
    t->unsure_since_ns = 0;
    if (!t->open)
        return;
    tell(d, t, AL_PHASE_ENDED);
    free(t->open);
    t->open = NULL;
}

void al_run_quiet(struct al_run *run, struct al_track *t)
{
    t->verdict = AL_VERDICT_QUIET;
    t->why[0] = 0;
    finish(run->detect, t);
}

// A missing signal does not end a finding at once: it lasts until the signal was missing for `hold`.
static void unsure(struct al_run *run, struct al_track *t, enum al_verdict verdict, const char *why)
{
    t->verdict = verdict;
    (void)al_str_copy(t->why, sizeof t->why, why);
    if (!t->open)
        return;
    int64_t now = run->s->monotonic_ns;
    if (!t->unsure_since_ns)
        t->unsure_since_ns = now;
    if (now - t->unsure_since_ns >= AL_SECONDS(run->set->findings_hold))
        finish(run->detect, t);
}

void al_run_too_little(struct al_run *run, struct al_track *t, const char *why)
{
    unsure(run, t, AL_VERDICT_TOO_LITTLE_DATA, why);
}

void al_run_cannot(struct al_run *run, struct al_track *t, const char *why)
{
    unsure(run, t, AL_VERDICT_CANNOT_TELL, why);
}

static enum al_confidence confidence_of(const struct al_draft *draft)
{
    int kinds = __builtin_popcount(draft->signals);
    enum al_confidence c = draft->reported || kinds >= 3 ? AL_CONFIDENCE_HIGH
        : kinds == 2 ? AL_CONFIDENCE_MEDIUM : AL_CONFIDENCE_LOW;
    return c < draft->at_most ? c : draft->at_most;
}

void al_run_raise(struct al_run *run, struct al_track *t)
{
    struct al_detect *d = run->detect;
    struct al_finding *f = &run->draft.f;
    int64_t now = run->s->monotonic_ns;
    f->confidence = confidence_of(&run->draft);
    for (size_t len = strlen(f->considered); len > 0 && f->considered[len - 1] == ' '; len--)
        f->considered[len - 1] = 0; // sentences are appended with a blank behind
    t->unsure_since_ns = 0;
    if (t->open && t->open->rule != f->rule)
        finish(d, t);
    t->verdict = AL_VERDICT_FINDING;
    (void)al_str_copy(t->why, sizeof t->why, f->title);
    (void)snprintf(f->key, sizeof f->key, "%s/%s", f->rule, t->entity);
    if (!t->open) {
        t->open = malloc(sizeof *t->open);
        if (!t->open)
            return;
        *t->open = *f;
        t->open->began_ns = now;
        t->open->began_realtime_ns = run->s->realtime_ns;
        tell(d, t, AL_PHASE_BEGAN);
        return;
    }
    bool changed = t->open->level != f->level || t->open->confidence != f->confidence || run->draft.news;
    bool news = strcmp(t->told, f->message) != 0;
    f->began_ns = t->open->began_ns;
    f->began_realtime_ns = t->open->began_realtime_ns;
    f->phase = t->open->phase;
    f->updated_ns = t->open->updated_ns;
    *t->open = *f;
    if (changed || (news && now - t->emitted_ns >= AL_SECONDS(run->set->findings_update_every)))
        tell(d, t, AL_PHASE_UPDATED);
}

// ---- drafts ----

struct al_draft *al_run_draft(struct al_run *run, const char *rule, enum al_level level, int gpu)
{
    struct al_draft *draft = &run->draft;
    memset(draft, 0, sizeof *draft);
    draft->at_most = AL_CONFIDENCE_HIGH;
    draft->f.rule = rule;
    draft->f.level = level;
    draft->f.gpu = gpu;
    draft->f.gpu_index = -1;
    if (gpu >= 0) {
        const struct al_gpu *g = &run->s->gpus[gpu];
        draft->f.gpu_index = (int32_t)al_say_gpu_index(run->s, g);
        (void)al_str_copy(draft->f.gpu_uuid, sizeof draft->f.gpu_uuid, g->info.uuid);
    }
    return draft;
}

void al_draft_number(struct al_draft *d, const char *name, double value, enum al_unit unit, const char *source,
                     uint32_t signal)
{
    d->signals |= signal;
    if (d->f.evidence_count == AL_EVIDENCE_MAX)
        return;
    struct al_evidence *e = &d->f.evidence[d->f.evidence_count++];
    (void)al_str_copy(e->name, sizeof e->name, name);
    (void)al_str_copy(e->source, sizeof e->source, source);
    e->value = value;
    e->unit = unit;
}

void al_draft_gpu(struct al_draft *d, const struct al_gpu *gpu, enum al_gpu_metric metric, uint32_t signal)
{
    if (al_ok(gpu->m[metric]))
        al_draft_number(d, al_gpu_metrics[metric].name, gpu->m[metric].num, al_gpu_metrics[metric].unit, "nvml", signal);
}

static void append(char *out, size_t size, const char *format, va_list args)
{
    char text[512];
    size_t len = strlen(out);
    (void)vsnprintf(text, sizeof text, format, args);
    (void)al_str_copy(out + len, size - len, text);
}

#define APPENDER(field)                                                                                                \
    void al_draft_##field(struct al_draft *d, const char *format, ...)                                                 \
    {                                                                                                                  \
        va_list args;                                                                                                  \
        va_start(args, format);                                                                                        \
        append(d->f.field, sizeof d->f.field, format, args);                                                           \
        va_end(args);                                                                                                  \
    }
APPENDER(title)
APPENDER(message)
APPENDER(considered)
APPENDER(advice)

// ---- ticks ----

// Ends and forgets the tracks that this tick's step did not ask for (all of them when the rule is switched off).
static void sweep(struct al_detect *d, size_t rule, bool all)
{
    struct book *b = &d->books[rule];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        struct al_track *t = b->tracks[i];
        if (!all && t->seen_tick == d->ticks) {
            b->tracks[kept++] = t;
            continue;
        }
        finish(d, t);
        track_free(rules[rule], t);
    }
    b->count = kept;
}

int al_detect_tick(struct al_detect *d, const struct al_snapshot *s, al_finding_fn *emit, void *user)
{
    d->ticks++;
    d->look_count = 0;
    d->emit = emit;
    d->user = user;
    al_view_build(&d->view, s);
    d->run.detect = d;
    d->run.s = s;
    d->run.set = &d->set;
    d->run.view = &d->view;
    for (d->rule = 0; d->rule < RULES; d->rule++) {
        bool on = enabled(d, d->rule);
        d->run.shared = d->books[d->rule].shared;
        if (on)
            rules[d->rule]->step(&d->run);
        sweep(d, d->rule, !on);
    }
    d->emit = NULL;
    return 0;
}

void al_run_ask_look(struct al_run *run, pid_t pid)
{
    struct al_detect *d = run->detect;
    for (uint32_t i = 0; i < d->look_count; i++)
        if (d->looks[i] == pid)
            return;
    if (d->look_count < AL_DETECT_LOOKS && d->set.stacks_enabled != 0)
        d->looks[d->look_count++] = pid;
}

size_t al_detect_looks(const struct al_detect *d, pid_t *ret, size_t max)
{
    size_t count = d->look_count < max ? d->look_count : max;
    memcpy(ret, d->looks, count * sizeof *ret);
    return count;
}

size_t al_detect_open(const struct al_detect *d, const struct al_finding **ret, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < RULES; i++)
        for (uint32_t k = 0; k < d->books[i].count; k++)
            if (d->books[i].tracks[k]->open && count < max)
                ret[count++] = d->books[i].tracks[k]->open;
    return count;
}

void al_detect_verdicts(const struct al_detect *d, al_verdict_fn *fn, void *user)
{
    for (size_t i = 0; i < RULES; i++)
        for (uint32_t k = 0; k < d->books[i].count; k++) {
            const struct al_track *t = d->books[i].tracks[k];
            fn(user, rules[i]->name, t->entity, t->verdict, t->why);
        }
}
