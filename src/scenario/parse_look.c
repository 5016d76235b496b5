// SPDX-License-Identifier: Apache-2.0
// Lines about looks: what a process was seen to execute.
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "scenario/reader.h"

#define FIELD(name, type, member) {name, type, offsetof(struct al_look, member), sizeof((struct al_look *)0)->member}
const struct al_proc_field al_scenario_look_fields[AL_SCENARIO_LOOK_FIELDS] = {
    FIELD("start_ticks", 'u', start_ticks),     FIELD("rank", 'i', rank),
    FIELD("function", 't', line.function),      FIELD("file", 't', line.file),
    FIELD("line", 'i', line.line),              FIELD("call", 't', line.call),
    FIELD("worker_function", 't', worker.function), FIELD("worker_file", 't', worker.file),
    FIELD("worker_line", 'i', worker.line),     FIELD("worker_call", 't', worker.call),
    FIELD("problem", 't', problem),
};

static int look_of(struct al_reader *r, uint64_t pid, uint32_t *ret) {
    struct al_scenario *s = r->s;
    struct al_index_slot *slot = al_index_slot(&r->looks, pid);
    if (!slot)
        return AL_E_NOMEM;
    if (slot->value == UINT32_MAX) {
        int error = s->look_count < AL_SCENARIO_PROCS_MAX ? 0 : AL_E_TOOBIG;
        if (!error)
            error = al_grow(&s->looks, &s->look_cap, s->look_count, sizeof *s->looks);
        if (error)
            return error;
        slot->value = (uint32_t)s->look_count;
        s->looks[s->look_count++] = (struct al_look_state){.l.pid = (pid_t)pid};
    }
    *ret = slot->value;
    return 0;
}

static int look_word(struct al_reader *r, uint32_t target) {
    struct al_word *w = &r->word;
    struct al_change e = {.kind = AL_CHANGE_LOOK_FIELD, .target = target, .status = AL_STATUS_OK};
    for (size_t i = 0; i < AL_SCENARIO_LOOK_FIELDS; i++)
        if (strcmp(al_scenario_look_fields[i].name, w->key) == 0) {
            e.field = (uint16_t)i;
            int error = al_read_field(r, &al_scenario_look_fields[i], &e);
            return error ? error : al_add_event(r, e);
        }
    int metric = al_find_metric(al_look_metric_table, AL_LOOK_METRIC_COUNT, w->key);
    if (metric < 0)
        return al_reader_fail(r, w->key_column, "'%.60s' is no key or metric of a look (see docs/scenario.md)", w->key);
    e.kind = AL_CHANGE_LOOK_METRIC;
    e.field = (uint16_t)metric;
    int error = al_read_track(r, w->value, w->value_column, al_look_metric_table[metric].unit, &e);
    return error ? error : al_add_event(r, e);
}

static int parse_look(struct al_reader *r, bool gone) {
    uint64_t pid = 0;
    uint32_t target = 0;
    int got = al_read_pid(r, &pid);
    if (!got)
        got = look_of(r, pid, &target);
    if (!got)
        got = al_add_event(r, (struct al_change){.kind = gone ? AL_CHANGE_UNLOOK : AL_CHANGE_LOOK, .target = target});
    if (got || gone)
        return got ? got : al_reader_done(r);
    while ((got = al_reader_word(r)) > 0) {
        int error = al_need_pair(r);
        if (!error)
            error = look_word(r, target);
        if (error)
            return error;
    }
    return got;
}

int al_parse_look_line(struct al_reader *r, const char *verb) {
    if (strcmp(verb, "look") != 0 && strcmp(verb, "unlook") != 0)
        return 0;
    int error = parse_look(r, verb[0] == 'u');
    return error ? error : 1;
}
