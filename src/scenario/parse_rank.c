// SPDX-License-Identifier: Apache-2.0
// Lines about ranks: training processes that tell of themselves.
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "scenario/reader.h"

#define FIELD(name, type, member) {name, type, offsetof(struct al_rank, member), sizeof((struct al_rank *)0)->member}
const struct al_proc_field al_scenario_rank_fields[AL_SCENARIO_RANK_FIELDS] = {
    FIELD("start_ticks", 'u', start_ticks), FIELD("job", 'p', job),
    FIELD("rank", 'i', rank),               FIELD("local_rank", 'i', local_rank),
    FIELD("world_size", 'i', world),        FIELD("device", 'i', device),
    FIELD("source", 't', source),
};

static int rank_of(struct al_reader *r, uint64_t pid, uint32_t *ret) {
    struct al_scenario *s = r->s;
    struct al_index_slot *slot = al_index_slot(&r->ranks, pid);
    if (!slot)
        return AL_E_NOMEM;
    if (slot->value == UINT32_MAX) {
        int error = s->rank_count < AL_SCENARIO_PROCS_MAX ? 0 : AL_E_TOOBIG;
        if (!error)
            error = al_grow(&s->ranks, &s->rank_cap, s->rank_count, sizeof *s->ranks);
        if (error)
            return error;
        slot->value = (uint32_t)s->rank_count;
        s->ranks[s->rank_count++] = (struct al_rank_state){.r.pid = (pid_t)pid};
    }
    *ret = slot->value;
    return 0;
}

// A phase is written by its word; its numbers may change.
static int read_figure(struct al_reader *r, int metric, struct al_change *e) {
    const struct al_word *w = &r->word;
    int phase = metric == AL_RANK_PHASE ? al_rank_phase_from_word(w->value) : -1;
    if (phase >= 0) {
        e->a = phase;
        e->status = AL_STATUS_OK;
        return 0;
    }
    if (metric == AL_RANK_PHASE && w->value[0] != '!')
        return al_reader_fail(r, w->value_column, "'%.40s' is no phase; data, forward, evaluation, save, between_steps are",
                              w->value);
    return al_read_track(r, w->value, w->value_column, al_rank_metric_table[metric].unit, e);
}

static int rank_word(struct al_reader *r, uint32_t target) {
    struct al_word *w = &r->word;
    struct al_change e = {.kind = AL_CHANGE_RANK_FIELD, .target = target, .status = AL_STATUS_OK};
    for (size_t i = 0; i < AL_SCENARIO_RANK_FIELDS; i++)
        if (strcmp(al_scenario_rank_fields[i].name, w->key) == 0) {
            e.field = (uint16_t)i;
            int error = al_read_field(r, &al_scenario_rank_fields[i], &e);
            return error ? error : al_add_event(r, e);
        }
    int metric = al_find_metric(al_rank_metric_table, AL_RANK_METRIC_COUNT, w->key);
    if (metric < 0)
        return al_reader_fail(r, w->key_column, "'%.60s' is no key or metric of a rank (see docs/scenario.md)", w->key);
    e.kind = AL_CHANGE_RANK_METRIC;
    e.field = (uint16_t)metric;
    int error = read_figure(r, metric, &e);
    return error ? error : al_add_event(r, e);
}

static int parse_rank(struct al_reader *r, bool gone) {
    uint64_t pid = 0;
    uint32_t target = 0;
    int got = al_read_pid(r, &pid);
    if (!got)
        got = rank_of(r, pid, &target);
    if (!got)
        got = al_add_event(r, (struct al_change){.kind = gone ? AL_CHANGE_UNRANK : AL_CHANGE_RANK, .target = target});
    if (got || gone)
        return got ? got : al_reader_done(r);
    while ((got = al_reader_word(r)) > 0) {
        int error = al_need_pair(r);
        if (!error)
            error = rank_word(r, target);
        if (error)
            return error;
    }
    return got;
}

int al_parse_rank_line(struct al_reader *r, const char *verb) {
    if (strcmp(verb, "rank") != 0 && strcmp(verb, "unrank") != 0)
        return 0;
    int error = parse_rank(r, verb[0] == 'u');
    return error ? error : 1;
}
