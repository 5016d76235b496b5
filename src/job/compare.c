// SPDX-License-Identifier: Apache-2.0
#include "job/compare.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

// Two runs of the same on the same machine differ by about that much for reasons that no run sees in itself: clocks,
// temperature, placement of memory.
#define SAME_BELOW 0.01
// Where no run tells how much its steps differ.
#define SAME_BELOW_BLIND 0.05
#define ERRORS 2 // standard errors that chance may make
#define BATCH_DIFFERS 0.005
#define FEW_STEPS 20

static const struct {
    const char *key, *words, *unit;
    double scale;
    int decimals;
    bool more, step;
} table[] = {
#define X(id, key, words, unit, scale, decimals, more, step) {key, words, unit, scale, decimals, more, step},
    AL_SIDE_FIGURES(X)
#undef X
};

// ---- reading ----

struct source {
    const struct al_json_document *d;
    const struct al_json *root, *alula, *ranks;
};

static const struct al_json *get(const struct source *s, const struct al_json *n, const char *key) {
    return al_json_get(s->d, n, key);
}

static double number(const struct source *s, const struct al_json *n, const char *key, double none) {
    double value;
    return al_json_number(get(s, n, key), &value) ? value : none;
}

static void read_figures(const struct source *s, struct al_side *ret) {
    const struct al_json *places[] = {s->root, get(s, s->alula, "throughput")};
    const struct al_json *sources = get(s, s->alula, "figures");
    for (int i = 0; i < AL_SIDE_STEP; i++) {
        struct al_side_figure *f = &ret->f[i];
        for (size_t p = 0; p < sizeof places / sizeof *places && !f->known; p++)
            f->known = al_json_number(get(s, places[p], table[i].key), &f->value);
        f->error = f->known ? fmax(number(s, get(s, sources, table[i].key), "error", 0), 0) : 0;
    }
}

static int part_of(struct al_side *ret, const char *word) {
    for (uint32_t i = 0; i < ret->part_count; i++)
        if (strcmp(ret->part[i].word, word) == 0)
            return (int)i;
    if (ret->part_count == AL_SIDE_PARTS || !*word || !al_str_copy(ret->part[ret->part_count].word, sizeof ret->part[0].word, word))
        return -1;
    return (int)ret->part_count++;
}

// Sums over ranks: errors as squares.
static void add(struct al_side_figure *f, double value, double error) {
    f->known = true;
    f->value += value;
    f->error += error * error;
}

static void read_rank(const struct source *s, const struct al_json *rank, struct al_side *ret, uint32_t *ranks) {
    const struct al_json *line = get(s, rank, "host_timeline"), *parts = get(s, line, "seconds");
    const struct al_json *errors = get(s, line, "errors_seconds");
    double steps = number(s, rank, "steps", 0), wall = number(s, line, "wall_seconds", 0);
    double all = steps + number(s, rank, "skipped_steps", 0) + number(s, rank, "aborted_steps", 0);
    if (!(all > 0) || !(wall > 0))
        return;
    ++*ranks;
    ret->steps = fmax(ret->steps, steps);
    ret->samples_per_step += number(s, rank, "samples", NAN) / all;
    ret->world = fmax(ret->world, number(s, rank, "world_size", 0));
    add(&ret->f[AL_SIDE_STEP], wall / all, number(s, line, "step_error_seconds", 0));
    for (const struct al_json *p = al_json_first(s->d, parts); p; p = al_json_next(s->d, p)) {
        double seconds;
        int at = p->key && al_json_number(p, &seconds) ? part_of(ret, p->key) : -1;
        if (at >= 0)
            add(&ret->part[at].f, seconds / all, number(s, errors, p->key, 0));
    }
    if (!*ret->framework)
        (void)al_str_copy(ret->framework, sizeof ret->framework, al_json_text(get(s, rank, "framework")));
}

static void mean(struct al_side_figure *f, uint32_t ranks) {
    f->value /= ranks;
    f->error = sqrt(f->error) / ranks;
}

// What the report gives no error for follows from the steps.
static void derive_errors(struct al_side *ret) {
    double step = ret->f[AL_SIDE_STEP].value, relative = step > 0 ? ret->f[AL_SIDE_STEP].error / step : 0;
    static const struct {
        int key;
        const char *word;
    } shares[] = {{AL_SIDE_DATA, "data"}, {AL_SIDE_COMMUNICATION, "communication"}};
    ret->f[AL_SIDE_TOKENS].error = relative * ret->f[AL_SIDE_TOKENS].value;
    ret->f[AL_SIDE_MFU].error = relative * ret->f[AL_SIDE_MFU].value;
    for (size_t n = 0; n < sizeof shares / sizeof *shares; n++)
        for (uint32_t i = 0; i < ret->part_count && step > 0; i++)
            if (strcmp(ret->part[i].word, shares[n].word) == 0)
                ret->f[shares[n].key].error = ret->part[i].f.error / step;
}

static void read_gpus(const struct source *s, struct al_side *ret) {
    const struct al_json *gpus = get(s, get(s, s->alula, "device"), "gpus");
    bool only_used = false;
    for (const struct al_json *g = al_json_first(s->d, gpus); g; g = al_json_next(s->d, g))
        only_used |= get(s, g, "used_by_job") && get(s, g, "used_by_job")->kind == AL_JSON_TRUE;
    for (const struct al_json *g = al_json_first(s->d, gpus); g; g = al_json_next(s->d, g)) {
        const struct al_json *used = get(s, g, "used_by_job");
        const char *name = al_json_text(get(s, g, "name"));
        if (only_used && !(used && used->kind == AL_JSON_TRUE))
            continue;
        if (ret->gpu_count++ == 0)
            (void)al_str_copy(ret->gpu, sizeof ret->gpu, name);
        else if (strcmp(ret->gpu, name) != 0)
            (void)al_str_copy(ret->gpu, sizeof ret->gpu, "several models");
    }
}

bool al_side_read(const struct al_json_document *d, const char *name, struct al_side *ret) {
    struct source s = {d, al_json_root(d), NULL, NULL};
    uint32_t ranks = 0;
    memset(ret, 0, sizeof *ret);
    ret->name = name;
    bool any = false;
    for (int i = 0; i < AL_SIDE_STEP; i++)
        any |= get(&s, s.root, table[i].key) != NULL;
    if (!any)
        return false;
    s.alula = get(&s, s.root, "alula");
    ret->detailed = s.alula != NULL;
    const struct al_json *finished = get(&s, s.alula, "finished");
    ret->finished = !finished || finished->kind == AL_JSON_TRUE;
    const char *end = al_json_text(get(&s, s.alula, "job_end"));
    ret->ended_well = !*end || strcmp(end, "exit status 0") == 0;
    read_figures(&s, ret);
    const struct al_json *list = get(&s, s.alula, "ranks");
    for (const struct al_json *k = al_json_first(d, list); k; k = al_json_next(d, k))
        read_rank(&s, k, ret, &ranks);
    if (!isfinite(ret->samples_per_step))
        ret->samples_per_step = 0;
    if (ranks) {
        mean(&ret->f[AL_SIDE_STEP], ranks);
        for (uint32_t i = 0; i < ret->part_count; i++)
            mean(&ret->part[i].f, ranks);
        derive_errors(ret);
    }
    read_gpus(&s, ret);
    return true;
}

// ---- comparing ----

const char *al_change_word(enum al_change c) {
    static const char *const words[] = {"unknown", "better", "worse", "same", "not comparable"};
    return words[c];
}

static bool differs(double a, double b, double share) {
    return a > 0 && b > 0 && fabs(a - b) > share * fmax(a, b);
}

// Whether a step of one is a step of the other.
static bool same_steps(const struct al_side *a, const struct al_side *b) {
    return !differs(a->world, b->world, 0) && !differs(a->samples_per_step, b->samples_per_step, BATCH_DIFFERS);
}

static void judge(struct al_compare_row *r, bool more, bool comparable, bool exact) {
    r->ratio = r->noise = NAN;
    if (!r->a.known || !r->b.known)
        return;
    // Not hypot(): Debian 12 links GLIBC_2.35's, and what the wheel takes ends with 2.34.
    double error = sqrt(r->a.error * r->a.error + r->b.error * r->b.error);
    double change = r->b.value - r->a.value, floor = SAME_BELOW_BLIND * fabs(r->a.value);
    bool told = exact || (r->a.error > 0 && r->b.error > 0);
    if (told)
        floor = fmax(SAME_BELOW * fabs(r->a.value), ERRORS * error);
    if (fabs(r->a.value) > 0) {
        r->ratio = change / fabs(r->a.value);
        r->noise = floor / fabs(r->a.value);
    }
    if (!comparable)
        r->change = AL_CHANGE_INCOMPARABLE;
    else if (fabs(change) <= floor)
        r->change = AL_CHANGE_SAME;
    else
        r->change = (change > 0) == more ? AL_CHANGE_BETTER : AL_CHANGE_WORSE;
}

static struct al_side_figure scaled(struct al_side_figure f, double scale) {
    return (struct al_side_figure){f.known, f.value * scale, f.error * scale};
}

static const struct al_side_figure *find_part(const struct al_side *s, const char *word) {
    for (uint32_t i = 0; i < s->part_count; i++)
        if (strcmp(s->part[i].word, word) == 0)
            return &s->part[i].f;
    return NULL;
}

static void part_row(struct al_compare_row *r, const char *word, const struct al_side *a, const struct al_side *b) {
    const struct al_side_figure *in_a = find_part(a, word), *in_b = find_part(b, word);
    *r = (struct al_compare_row){.key = word, .words = word, .unit = "ms", .part = true, .decimals = 2};
    if (in_a)
        r->a = scaled(*in_a, 1000);
    if (in_b)
        r->b = scaled(*in_b, 1000);
    judge(r, false, same_steps(a, b), false);
    // What is nothing beside the step is no news, whatever it changed by.
    double step = 1000 * fmax(a->f[AL_SIDE_STEP].value, b->f[AL_SIDE_STEP].value);
    if (r->change != AL_CHANGE_INCOMPARABLE && r->a.known && r->b.known &&
        fabs(r->b.value - r->a.value) < SAME_BELOW / 2 * step)
        r->change = AL_CHANGE_SAME;
}

uint32_t al_compare(const struct al_side *a, const struct al_side *b, struct al_compare_row *ret) {
    uint32_t count = 0;
    for (int i = 0; i < AL_SIDE_FIGURE_COUNT; i++) {
        struct al_compare_row *r = &ret[count];
        *r = (struct al_compare_row){.key = table[i].key, .words = table[i].words, .unit = table[i].unit,
                                     .decimals = table[i].decimals, .a = scaled(a->f[i], table[i].scale),
                                     .b = scaled(b->f[i], table[i].scale)};
        if (!r->a.known && !r->b.known)
            continue;
        judge(r, table[i].more, !table[i].step || same_steps(a, b), i == AL_SIDE_MEMORY);
        count++;
    }
    for (uint32_t i = 0; i < a->part_count; i++)
        part_row(&ret[count++], a->part[i].word, a, b);
    for (uint32_t i = 0; i < b->part_count; i++)
        if (!find_part(a, b->part[i].word))
            part_row(&ret[count++], b->part[i].word, a, b);
    return count;
}

__attribute__((format(printf, 3, 4))) static void say(char (*list)[400], uint32_t *count, const char *format, ...) {
    va_list args;
    if (*count == AL_COMPARE_CAUTIONS)
        return;
    va_start(args, format);
    (void)vsnprintf(list[*count], sizeof list[0], format, args);
    va_end(args);
    ++*count;
}

static void say_of_one(char (*list)[400], uint32_t *count, const struct al_side *s, char letter) {
    if (!s->finished)
        say(list, count, "%c was not over when it was written", letter);
    else if (!s->ended_well)
        say(list, count, "%c did not end with status 0", letter);
    if (s->steps > 0 && s->steps < FEW_STEPS)
        say(list, count, "%c has %.0f steps: too few to trust", letter, s->steps);
}

uint32_t al_compare_cautions(const struct al_side *a, const struct al_side *b, char (*ret)[400]) {
    uint32_t count = 0;
    if (differs(a->world, b->world, 0))
        say(ret, &count, "world sizes differ (%.0f, %.0f): a step of one is not a step of the other", a->world, b->world);
    if (differs(a->samples_per_step, b->samples_per_step, BATCH_DIFFERS))
        say(ret, &count, "samples a step differ (%g, %g): compare samples a second", a->samples_per_step,
            b->samples_per_step);
    if (*a->gpu && *b->gpu && strcmp(a->gpu, b->gpu) != 0)
        say(ret, &count, "GPU models differ (%s, %s)", a->gpu, b->gpu);
    else if (a->gpu_count && b->gpu_count && a->gpu_count != b->gpu_count)
        say(ret, &count, "numbers of GPUs differ (%u, %u)", a->gpu_count, b->gpu_count);
    if (*a->framework && *b->framework && strcmp(a->framework, b->framework) != 0)
        say(ret, &count, "versions differ (%.160s; %.160s)", a->framework, b->framework);
    say_of_one(ret, &count, a, 'a');
    say_of_one(ret, &count, b, 'b');
    if (!(a->f[AL_SIDE_STEPS].error > 0) || !(b->f[AL_SIDE_STEPS].error > 0))
        say(ret, &count, "how much steps differ within a run is not known: less than %.0f %% counts as the same",
            100 * SAME_BELOW_BLIND);
    return count;
}
