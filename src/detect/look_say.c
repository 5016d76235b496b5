// SPDX-License-Identifier: Apache-2.0
// Looks as words. What too few samples agree on is not said.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "detect/look.h"
#include "detect/say.h"

// ---- adding up ----

static double number(const struct al_look *l, enum al_look_metric metric) {
    return al_ok(l->m[metric]) ? l->m[metric].num : 0;
}

static bool same_line(const struct al_look_line *a, const struct al_look_line *b) {
    return a->line == b->line && strcmp(a->file, b->file) == 0 && strcmp(a->function, b->function) == 0;
}

// The line that most samples of all looks were in, by what each look says of its own most frequent one.
static const struct al_look_line *most_frequent(const struct al_look *const *looks, uint32_t count, bool worker, double *ret_line,
                                                double *ret_function) {
    const struct al_look_line *top = NULL;
    double most = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct al_look_line *a = worker ? &looks[i]->worker : &looks[i]->line;
        double line = 0, function = 0;
        for (uint32_t k = 0; k < count && a->line > 0; k++) {
            const struct al_look_line *b = worker ? &looks[k]->worker : &looks[k]->line;
            double samples = number(looks[k], worker ? AL_LOOK_WORKER_SAMPLES : AL_LOOK_SAMPLES);
            if (strcmp(a->function, b->function) != 0 || strcmp(a->file, b->file) != 0)
                continue;
            function += samples * number(looks[k], worker ? AL_LOOK_WORKER_FUNCTION : AL_LOOK_FUNCTION);
            line += same_line(a, b) ? samples * number(looks[k], worker ? AL_LOOK_WORKER_LINE : AL_LOOK_LINE) : 0;
        }
        if (function > most || (function > 0 && function >= most && line > *ret_line)) {
            top = a;
            most = *ret_function = function;
            *ret_line = line;
        }
    }
    return top;
}

static bool is_fresh(const struct al_snapshot *s, const struct al_settings *set, const struct al_look *l) {
    return s->monotonic_ns - l->m[AL_LOOK_SECONDS].at_ns <= (int64_t)((2 * set->stacks_every + 5) * AL_NS_PER_S);
}

static void divide(struct al_looks_told *t) {
    if (t->samples) {
        t->idle /= t->samples;
        t->line_ratio /= t->samples;
        t->function_ratio /= t->samples;
        for (int k = 0; k < AL_LOOK_KIND_COUNT; k++)
            t->share[k] /= t->samples;
    }
    if (t->worker_samples) {
        t->worker_waits /= t->worker_samples;
        t->worker_line_ratio /= t->worker_samples;
        t->worker_function_ratio /= t->worker_samples;
    }
}

static void add(struct al_looks_told *t, const struct al_look *l) {
    double samples = number(l, AL_LOOK_SAMPLES), theirs = number(l, AL_LOOK_WORKER_SAMPLES);
    t->ranks++;
    t->samples += (uint32_t)samples;
    t->worker_samples += (uint32_t)theirs;
    t->workers += (uint32_t)number(l, AL_LOOK_WORKERS);
    t->idle += samples * number(l, AL_LOOK_IDLE);
    t->worker_waits += theirs * number(l, AL_LOOK_WORKER_WAITS);
    for (int kind = 0; kind < AL_LOOK_KIND_COUNT; kind++)
        t->share[kind] += samples * number(l, (enum al_look_metric)(AL_LOOK_OTHER + kind));
}

// At least half wait in collectives, and few do not: those are what they wait for.
static uint32_t elsewhere(const struct al_look *const *looks, uint32_t count, const struct al_look **ret) {
    uint32_t waiting = 0, others = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (number(looks[i], AL_LOOK_SAMPLES) < AL_LOOKS_LEAST)
            continue;
        double share = number(looks[i], AL_LOOK_COLLECTIVE);
        waiting += share >= 0.5;
        if (share < 0.25 && others < AL_LOOKS_SUMMED)
            ret[others++] = looks[i];
    }
    return others <= waiting ? others : 0;
}

static void add_all(const struct al_look *const *looks, uint32_t count, struct al_looks_told *ret) {
    *ret = (struct al_looks_told){0};
    for (uint32_t i = 0; i < count; i++) {
        ret->problem = *looks[i]->problem ? looks[i]->problem : ret->problem;
        if (number(looks[i], AL_LOOK_SAMPLES) >= 1)
            add(ret, looks[i]);
    }
    ret->line = most_frequent(looks, count, false, &ret->line_ratio, &ret->function_ratio);
    ret->worker = most_frequent(looks, count, true, &ret->worker_line_ratio, &ret->worker_function_ratio);
    divide(ret);
}

void al_looks_add_up(const struct al_look *const *looks, uint32_t count, struct al_looks_told *ret) {
    const struct al_look *apart[AL_LOOKS_SUMMED];
    uint32_t few = elsewhere(looks, count, apart);
    add_all(looks, count, ret);
    if (!few)
        return;
    const struct al_looks_told all = *ret;
    add_all(apart, few, ret);
    ret->collective = (all.share[AL_LOOK_KIND_COLLECTIVE] * all.samples - ret->share[AL_LOOK_KIND_COLLECTIVE] * ret->samples) /
                      (all.samples - ret->samples);
    ret->ranks = all.ranks;
    ret->problem = all.problem;
    ret->elsewhere = apart[0];
    ret->apart = few;
}

void al_looks_sum(const struct al_snapshot *s, const struct al_settings *set, const pid_t *pids, uint32_t count,
                  struct al_looks_told *ret) {
    const struct al_look *looks[AL_LOOKS_SUMMED];
    uint32_t found = 0;
    for (uint32_t i = 0; i < s->look_count && found < AL_LOOKS_SUMMED; i++) {
        bool asked = false;
        for (uint32_t k = 0; k < count; k++)
            asked |= pids[k] == s->looks[i].pid;
        if (asked && is_fresh(s, set, &s->looks[i]))
            looks[found++] = &s->looks[i];
    }
    al_looks_add_up(looks, found, ret);
}

enum al_look_kind al_looks_kind(const struct al_looks_told *t, double *ret) {
    enum al_look_kind most = AL_LOOK_KIND_OTHER;
    for (int k = 0; k < AL_LOOK_KIND_COUNT; k++)
        if (t->share[k] > t->share[most])
            most = (enum al_look_kind)k;
    *ret = t->share[most];
    return most;
}

// ---- words ----

void al_look_place_say(const struct al_look_line *l, bool line, char *out, size_t size) {
    const char *name = strrchr(l->file, '/');
    static const char *const places[] = {"/site-packages/", "/dist-packages/"};
    name = name ? name + 1 : l->file;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *package = strstr(l->file, places[i]);
        if (package)
            name = package + strlen(places[i]);
    }
    if (line && l->line > 0)
        (void)snprintf(out, size, "%s:%d", name, (int)l->line);
    else
        (void)snprintf(out, size, "%s", name);
    (void)al_str_clean(out);
}

bool al_looks_enough(const struct al_looks_told *t, const struct al_settings *set) {
    double share;
    (void)al_looks_kind(t, &share);
    return t->samples >= AL_LOOKS_LEAST && share >= set->stacks_share_above;
}

static void percent(double ratio, char *out, size_t size) {
    (void)snprintf(out, size, "%.0f %%", ratio * 100);
}

// Whether the line is worth its number; else its function is told.
static bool is_exact(double line, double function, double least) {
    return line >= least && line >= function / 2;
}

// "61 % of samples in collate at data.py:88"; false when too few agree.
static bool say_line(const struct al_look_line *l, double line, double function, double least, char *out, size_t size) {
    char share[16], place[160], name[sizeof l->function];
    if (!l || function < least)
        return false;
    bool exact = is_exact(line, function, least);
    percent(exact ? line : function, share, sizeof share);
    al_look_place_say(l, exact, place, sizeof place);
    (void)al_str_copy(name, sizeof name, l->function);
    (void)al_str_clean(name);
    if (exact)
        (void)snprintf(out, size, "%s of samples in %s at %s", share, name, place);
    else
        (void)snprintf(out, size, "%s of samples in %s (%s)", share, name, place);
    return true;
}

static void say_call(const struct al_look_line *l, char *out, size_t size) {
    char name[sizeof l->call];
    size_t len = strlen(out);
    (void)al_str_copy(name, sizeof name, l->call);
    (void)al_str_clean(name);
    if (*name)
        (void)snprintf(out + len, size - len, ", calling %s", name);
}

double al_looks_busy_workers(const struct al_looks_told *t) {
    return t->worker_samples ? t->workers * (1 - t->worker_waits) : 0;
}

// Batches are taken in their order: while one worker makes the next one, the others may have nothing to do.
static void say_workers(const struct al_looks_told *t, const struct al_settings *set, char *out, size_t size) {
    size_t len = strlen(out);
    const char *plural = t->workers == 1 ? "" : "s";
    char text[320], share[16];
    double busy = 1 - t->worker_waits;
    if (t->worker_samples * busy < AL_LOOKS_LEAST || al_looks_busy_workers(t) < AL_LOOKS_BUSY) {
        percent(t->worker_waits, share, sizeof share);
        if (t->worker_samples >= AL_LOOKS_LEAST && t->worker_waits >= 0.5)
            (void)snprintf(out + len, size - len, "; its %u DataLoader worker%s had nothing to do in %s of samples", t->workers,
                           plural, share);
        return;
    }
    bool few = busy < 0.5;
    double scale = few ? busy : 1;
    if (!say_line(t->worker, t->worker_line_ratio / scale, t->worker_function_ratio / scale, set->stacks_share_above, text,
                  sizeof text))
        return;
    say_call(t->worker, text, sizeof text);
    if (few)
        (void)snprintf(out + len, size - len, "; of its %u DataLoader worker%s %.1f work%s at a time: %s", t->workers, plural,
                       al_looks_busy_workers(t), al_looks_busy_workers(t) < 1.05 ? "s" : "", text);
    else
        (void)snprintf(out + len, size - len, "%s%s, in %u DataLoader worker%s", len ? "; " : "", text, t->workers, plural);
}

void al_looks_say_elsewhere(const struct al_looks_told *t, char *out, size_t size) {
    if (t->apart > 1)
        (void)snprintf(out, size, "%u of %u ranks", t->apart, t->ranks);
    else if (t->elsewhere->rank >= 0)
        (void)snprintf(out, size, "rank %d", (int)t->elsewhere->rank);
    else
        (void)snprintf(out, size, "pid %d", (int)t->elsewhere->pid);
}

// Whether at least half of the line's samples must be of that kind, whatever the rest is, or both are so many and so alike
// that they are the same ones.
static bool is_of_kind(double kind, double line) {
    return kind >= 1 - line / 2 - 1e-9 || (kind + line >= 1.1 && kind - line <= 0.05 && line - kind <= 0.05);
}

void al_looks_say(const struct al_looks_told *t, const struct al_settings *set, char *out, size_t size) {
    double share;
    char text[320] = "", part[16], rank[40];
    const char *who = t->apart > 1 ? "their main thread" : t->elsewhere ? "its main thread" : "the main thread";
    enum al_look_kind kind = al_looks_kind(t, &share);
    size_t len = 0;
    *out = '\0';
    if (!al_looks_enough(t, set))
        return;
    percent(share, part, sizeof part);
    if (t->elsewhere) {
        al_looks_say_elsewhere(t, rank, sizeof rank);
        len = (size_t)snprintf(out, size, "the others wait in collectives for %s: ", rank);
    }
    if (kind == AL_LOOK_KIND_LOADER) {
        (void)snprintf(out + len, size - len, "%s waits for its DataLoader in %s of samples", who, part);
        say_workers(t, set, out, size);
        return;
    }
    bool told = say_line(t->line, t->line_ratio, t->function_ratio, set->stacks_share_above, text, sizeof text);
    bool exact = told && is_exact(t->line_ratio, t->function_ratio, set->stacks_share_above);
    if (exact)
        say_call(t->line, text, sizeof text);
    if (kind == AL_LOOK_KIND_OTHER && !told)
        (void)snprintf(out + len, size - len, "no function of %s has %.0f %% of samples", who, 100 * set->stacks_share_above);
    else if (kind == AL_LOOK_KIND_OTHER)
        (void)snprintf(out + len, size - len, "%s", text);
    else if (told && is_of_kind(share, exact ? t->line_ratio : t->function_ratio))
        (void)snprintf(out + len, size - len, "%s %s: %s", who, al_look_kind_does(kind), text);
    else
        (void)snprintf(out + len, size - len, "%s %s in %s of samples%s%s", who, al_look_kind_does(kind), part, told ? "; " : "",
                       text);
}
