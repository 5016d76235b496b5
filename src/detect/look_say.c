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

// Most wait in collectives, and one does not: it is what they wait for.
static const struct al_look *elsewhere(const struct al_look *const *looks, uint32_t count) {
    const struct al_look *found = NULL;
    uint32_t waiting = 0, others = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (number(looks[i], AL_LOOK_SAMPLES) < AL_LOOKS_LEAST)
            continue;
        double share = number(looks[i], AL_LOOK_COLLECTIVE);
        waiting += share >= 0.5;
        others += share < 0.25;
        if (share < 0.25)
            found = looks[i];
    }
    return waiting && others == 1 ? found : NULL;
}

void al_looks_add_up(const struct al_look *const *looks, uint32_t count, struct al_looks_told *ret) {
    *ret = (struct al_looks_told){0};
    for (uint32_t i = 0; i < count; i++) {
        ret->problem = *looks[i]->problem ? looks[i]->problem : ret->problem;
        if (number(looks[i], AL_LOOK_SAMPLES) >= 1)
            add(ret, looks[i]);
    }
    ret->line = most_frequent(looks, count, false, &ret->line_ratio, &ret->function_ratio);
    ret->worker = most_frequent(looks, count, true, &ret->worker_line_ratio, &ret->worker_function_ratio);
    ret->elsewhere = elsewhere(looks, count);
    divide(ret);
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

// "61 % of samples in collate at data.py:88"; false when too few agree.
static bool say_line(const struct al_look_line *l, double line, double function, double least, char *out, size_t size) {
    char share[16], place[160], name[sizeof l->function];
    if (!l || function < least)
        return false;
    bool exact = line >= least && line >= function / 2;
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

static bool say_elsewhere(const struct al_looks_told *t, const struct al_settings *set, char *out, size_t size) {
    const struct al_look *l = t->elsewhere;
    char text[320] = "", who[40];
    if (!l || !say_line(&l->line, number(l, AL_LOOK_LINE), number(l, AL_LOOK_FUNCTION), set->stacks_share_above, text, sizeof text))
        return false;
    say_call(&l->line, text, sizeof text);
    if (l->rank >= 0)
        (void)snprintf(who, sizeof who, "rank %d", (int)l->rank);
    else
        (void)snprintf(who, sizeof who, "pid %d", (int)l->pid);
    (void)snprintf(out, size, "the others wait in collectives for %s: %s", who, text);
    return true;
}

void al_looks_say(const struct al_looks_told *t, const struct al_settings *set, char *out, size_t size) {
    double share;
    char text[320] = "", part[16];
    enum al_look_kind kind = al_looks_kind(t, &share);
    *out = '\0';
    if (!al_looks_enough(t, set))
        return;
    percent(share, part, sizeof part);
    if (say_elsewhere(t, set, out, size))
        return;
    if (kind == AL_LOOK_KIND_LOADER) {
        (void)snprintf(out, size, "the main thread waits for its DataLoader in %s of samples", part);
        say_workers(t, set, out, size);
        return;
    }
    if (!say_line(t->line, t->line_ratio, t->function_ratio, set->stacks_share_above, text, sizeof text))
        (void)snprintf(text, sizeof text, "%s of samples", part);
    else
        say_call(t->line, text, sizeof text);
    if (kind == AL_LOOK_KIND_OTHER)
        (void)snprintf(out, size, "%s", text);
    else
        (void)snprintf(out, size, "the main thread %s: %s", al_look_kind_does(kind), text);
}
