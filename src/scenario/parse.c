// SPDX-License-Identifier: Apache-2.0
// From text to events. The head (what the node and its GPUs are) is read here; timed lines in parse_*.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "scenario/reader.h"

static int parse_first_line(struct al_reader *r) {
    static const char *const words[] = {"alula", "scenario", "1"};
    if (!al_reader_line(r))
        return al_reader_fail(r, 1, "the first line must be 'alula scenario 1'");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int got = al_reader_word(r);
        if (got < 0)
            return got;
        if (got == 0 || r->word.has_value || strcmp(r->word.key, words[i]) != 0)
            return al_reader_fail(r, got ? r->word.key_column : 1, "the first line must be 'alula scenario 1'");
    }
    return al_reader_done(r);
}

static int parse_time_line(struct al_reader *r) {
    int64_t at;
    int error = r->timed ? 0 : al_parse_head_end(r);
    if (!error)
        error = al_read_time(r, r->word.key + 1, r->word.key_column + 1, &at);
    if (error)
        return error;
    if (at < r->time_ns)
        return al_reader_fail(r, r->word.key_column, "time runs backwards here; sort the blocks by time");
    r->timed = true;
    r->time_ns = at;
    return al_reader_done(r);
}

static int parse_line(struct al_reader *r) {
    char verb[AL_WORD_MAX];
    int got = al_reader_word(r);
    if (got <= 0)
        return got;
    if (r->word.key[0] == '@')
        return parse_time_line(r);
    int column = r->word.key_column;
    if (r->word.has_value)
        return al_reader_fail(r, column, "a line begins with a word such as gpu, proc or @12.5s");
    memcpy(verb, r->word.key, strlen(r->word.key) + 1);
    int done = al_parse_common_line(r, verb);
    if (done == 0)
        done = r->timed ? al_parse_device_line(r, verb) : al_parse_head_line(r, verb);
    if (done == 0 && r->timed)
        done = al_parse_process_line(r, verb);
    if (done == 0 && r->timed)
        done = al_parse_rank_line(r, verb);
    if (done == 0 && r->timed)
        done = al_parse_look_line(r, verb);
    if (done == 0)
        return al_reader_fail(r, column, r->timed ? "'%.40s' begins no line behind an @ line (see docs/scenario.md)"
                                                  : "'%.40s' begins no line of the head; timed lines need an @ line",
                              verb);
    return done < 0 ? done : 0;
}

static int compare_procs(const void *a, const void *b, void *scenario) {
    const struct al_scenario *s = scenario;
    pid_t x = s->procs[*(const uint32_t *)a].p.pid, y = s->procs[*(const uint32_t *)b].p.pid;
    return x < y ? -1 : x > y;
}

static int compare_rows(const void *a, const void *b, void *scenario) {
    const struct al_scenario *s = scenario;
    const struct al_row_state *x = &s->rows[*(const uint32_t *)a], *y = &s->rows[*(const uint32_t *)b];
    if (x->gpu != y->gpu)
        return x->gpu < y->gpu ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int order(uint32_t **ret, size_t count, int (*compare)(const void *, const void *, void *),
                 struct al_scenario *s) {
    *ret = calloc(count ? count : 1, sizeof **ret);
    if (!*ret)
        return AL_E_NOMEM;
    for (size_t i = 0; i < count; i++)
        (*ret)[i] = (uint32_t)i;
    qsort_r(*ret, count, sizeof **ret, compare, s);
    return 0;
}

static int finish(struct al_reader *r) {
    struct al_scenario *s = r->s;
    int error = r->timed ? 0 : al_parse_head_end(r);
    if (!error)
        error = order(&s->proc_order, s->proc_count, compare_procs, s);
    if (!error)
        error = order(&s->row_order, s->row_count, compare_rows, s);
    if (error)
        return error;
    bool recorded = s->gpu_count && s->recorded_samples[0]; // its last line is its last tick
    if (s->duration_ns < 0)
        s->duration_ns = r->time_ns + (recorded && r->time_ns ? 0 : s->interval_ns);
    s->gpus = calloc(s->gpu_count ? s->gpu_count : 1, sizeof *s->gpus);
    s->frozen = calloc(s->gpu_count ? s->gpu_count : 1, sizeof *s->frozen);
    if (!s->gpus || !s->frozen)
        return AL_E_NOMEM;
    al_scenario_rewind(s);
    return 0;
}

static int parse_all(struct al_reader *r) {
    int error = parse_first_line(r);
    while (!error && al_reader_line(r))
        error = parse_line(r);
    return error ? error : finish(r);
}

int al_scenario_parse(const char *text, size_t len, struct al_scenario **ret, struct al_scenario_error *reterr_error) {
    *ret = NULL;
    if (reterr_error)
        memset(reterr_error, 0, sizeof *reterr_error);
    if (len > AL_SCENARIO_BYTES_MAX)
        return AL_E_TOOBIG;
    struct al_reader *r = calloc(1, sizeof *r);
    struct al_scenario *s = calloc(1, sizeof *s);
    int error = r && s ? 0 : AL_E_NOMEM;
    if (!error) {
        s->duration_ns = -1;
        s->interval_ns = 500000000;
        s->node.host_pid_ns = true;
        *r = (struct al_reader){.at = text, .line_start = text, .line_end = text, .end = text + len, .s = s,
                                .error = reterr_error};
        error = parse_all(r);
    }
    if (error == AL_E_TOOBIG)
        al_reader_fail(r, 1, "more than alula accepts; split the scenario");
    if (r) {
        free(r->procs.slot);
        free(r->rows.slot);
        free(r->ranks.slot);
        free(r->looks.slot);
    }
    free(r);
    if (error)
        s = al_scenario_free(s);
    *ret = s;
    return error;
}

struct al_scenario *al_scenario_free(struct al_scenario *s) {
    if (!s)
        return NULL;
    for (uint32_t g = 0; s->samples && g < AL_GPU_MAX; g++)
        free(s->samples[g].item);
    void *const parts[] = {s->info,  s->recorded_samples, s->samples, s->events,  s->masks, s->texts,
                           s->procs, s->rows,             s->faults,  s->missing, s->xids,  s->proc_order,
                           s->gpus,  s->frozen,           s->row_order, s->ranks, s->looks};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        free(parts[i]);
    free(s);
    return NULL;
}
