// SPDX-License-Identifier: Apache-2.0
// Lines about the host: the node, processes, and their rows on the GPUs.
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "scenario/reader.h"

#define FIELD(name, type, member) {name, type, offsetof(struct al_proc, member), sizeof((struct al_proc *)0)->member}
const struct al_proc_field al_scenario_proc_fields[] = {
    FIELD("pid_ns", 'u', pid_ns),
    FIELD("start_ticks", 'u', start_ticks),
    FIELD("ppid", 'p', ppid),
    FIELD("uid", 'p', uid),
    FIELD("alive", 'b', alive),
    FIELD("foreign", 'b', foreign),
    FIELD("state", 'c', state),
    FIELD("user", 't', user),
    FIELD("comm", 't', comm),
    FIELD("exe", 't', exe),
    FIELD("command", 't', command),
    FIELD("cgroup", 't', cgroup),
    FIELD("container", 't', container),
    FIELD("pod", 't', pod),
    FIELD("slurm_job", 't', slurm_job),
    FIELD("visible_devices", 't', visible_devices),
    FIELD("rank", 'i', rank),
    FIELD("local_rank", 'i', local_rank),
    FIELD("world_size", 'i', world_size),
    FIELD("node_rank", 'i', node_rank),
    FIELD("role", 'r', role),
    FIELD("job", 'p', job),
    FIELD("owner", 'p', owner),
    FIELD("started", 'd', started_realtime_ns),
};

size_t al_scenario_proc_field_count(void) {
    return sizeof al_scenario_proc_fields / sizeof *al_scenario_proc_fields;
}

const char *const al_scenario_row_figures[AL_ROW_FIGURES] = {
    "memory_bytes", "sm_ratio", "memory_ratio", "encoder_ratio", "decoder_ratio", "jpeg_ratio", "ofa_ratio"};

int al_need_pair(struct al_reader *r) {
    if (r->word.has_value)
        return 0;
    return al_reader_fail(r, r->word.key_column, "'%.40s' needs a value: %.40s=…", r->word.key, r->word.key);
}

int al_find_metric(const struct al_metric_info *table, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return i;
    return -1;
}

static int parse_node(struct al_reader *r) {
    int got;
    while ((got = al_reader_word(r)) > 0) {
        struct al_word *w = &r->word;
        int error = al_need_pair(r);
        if (error)
            return error;
        int metric = al_find_metric(al_node_metric_table, AL_NODE_METRIC_COUNT, w->key);
        if (metric < 0)
            return al_reader_fail(r, w->key_column, "'%.60s' is no metric of the node; docs/metrics.md lists them",
                                  w->key);
        struct al_change e = {.kind = AL_CHANGE_NODE, .field = (uint16_t)metric};
        error = al_read_track(r, w->value, w->value_column, al_node_metric_table[metric].unit, &e);
        if (!error)
            error = al_add_event(r, e);
        if (error)
            return error;
    }
    return got;
}

int al_read_pid(struct al_reader *r, uint64_t *ret) {
    int error = al_reader_need(r, "a process id");
    if (!error)
        error = al_read_whole(r, r->word.key, r->word.key_column, INT32_MAX, ret);
    if (!error && *ret == 0)
        error = al_reader_fail(r, r->word.key_column, "a process id begins at 1");
    return error;
}

static int proc_of(struct al_reader *r, uint64_t pid, uint32_t *ret) {
    struct al_scenario *s = r->s;
    struct al_index_slot *slot = al_index_slot(&r->procs, pid);
    if (!slot)
        return AL_E_NOMEM;
    if (slot->value == UINT32_MAX) {
        int error = s->proc_count < AL_SCENARIO_PROCS_MAX ? 0 : AL_E_TOOBIG;
        if (!error)
            error = al_grow(&s->procs, &s->proc_cap, s->proc_count, sizeof *s->procs);
        if (error)
            return error;
        slot->value = (uint32_t)s->proc_count;
        s->procs[s->proc_count++].p.pid = (pid_t)pid;
    }
    *ret = slot->value;
    return 0;
}

static int row_of(struct al_reader *r, uint64_t pid, uint32_t gpu, uint32_t *ret) {
    struct al_scenario *s = r->s;
    struct al_index_slot *slot = al_index_slot(&r->rows, pid * AL_GPU_MAX + gpu);
    uint32_t proc = 0;
    int error = slot ? proc_of(r, pid, &proc) : AL_E_NOMEM;
    if (error)
        return error;
    if (slot->value == UINT32_MAX) {
        error = s->row_count < AL_SCENARIO_PROCS_MAX ? 0 : AL_E_TOOBIG;
        if (!error)
            error = al_grow(&s->rows, &s->row_cap, s->row_count, sizeof *s->rows);
        if (error)
            return error;
        slot->value = (uint32_t)s->row_count++;
        s->rows[slot->value] = (struct al_row_state){.pid = (pid_t)pid, .gpu = gpu, .next = s->procs[proc].first_row};
        s->procs[proc].first_row = slot->value + 1;
    }
    *ret = slot->value;
    return 0;
}

// Numbers of a process or rank (ids, flags, dates) travel as doubles in an event: exact up to 2^53.
int al_read_field(struct al_reader *r, const struct al_proc_field *f, struct al_change *e) {
    struct al_word *w = &r->word;
    uint64_t number = 0;
    int64_t date = 0;
    int error = 0, role;
    switch (f->type) {
    case 't':
        if (strlen(w->value) >= f->size)
            return al_reader_fail(r, w->value_column, "longer than %zu bytes; shorten it", f->size - 1);
        return al_add_text(r->s, w->value, &e->text);
    case 'c':
        e->a = w->value[0];
        return ((w->value[0] | 32) >= 'a' && (w->value[0] | 32) <= 'z' && !w->value[1])
                   ? 0
                   : al_reader_fail(r, w->value_column, "one letter such as R, S, D or Z");
    case 'b':
        e->a = strcmp(w->value, "yes") == 0;
        return e->a > 0 || strcmp(w->value, "no") == 0 ? 0 : al_reader_fail(r, w->value_column, "must be yes or no");
    case 'r':
        e->a = role = al_role_from_word(w->value);
        return role >= 0 ? 0
                         : al_reader_fail(r, w->value_column,
                                          "'%.40s' is no role; launcher, rank, worker, engine, notebook are", w->value);
    case 'd':
        if (!al_scenario_date(w->value, &date))
            return al_reader_fail(r, w->value_column, "'%.40s' is no time; write 2026-11-29T12:00:00Z", w->value);
        e->ramp_ns = date;
        return 0;
    default:
        error = al_read_whole(r, w->value, w->value_column, f->type == 'u' ? (UINT64_C(1) << 53) : INT32_MAX, &number);
        e->a = (double)number;
        return error;
    }
}

static int proc_word(struct al_reader *r, uint32_t target) {
    struct al_word *w = &r->word;
    struct al_change e = {.kind = AL_CHANGE_PROC_FIELD, .target = target, .status = AL_STATUS_OK};
    for (size_t i = 0; i < al_scenario_proc_field_count(); i++)
        if (strcmp(al_scenario_proc_fields[i].name, w->key) == 0) {
            e.field = (uint16_t)i;
            int error = al_read_field(r, &al_scenario_proc_fields[i], &e);
            return error ? error : al_add_event(r, e);
        }
    int metric = al_find_metric(al_proc_metric_table, AL_PROC_METRIC_COUNT, w->key);
    if (metric < 0)
        return al_reader_fail(r, w->key_column, "'%.60s' is no key or metric of a process (see docs/scenario.md)",
                              w->key);
    e.kind = AL_CHANGE_PROC_METRIC;
    e.field = (uint16_t)metric;
    int error = al_read_track(r, w->value, w->value_column, al_proc_metric_table[metric].unit, &e);
    return error ? error : al_add_event(r, e);
}

static int parse_proc(struct al_reader *r) {
    uint64_t pid = 0;
    uint32_t target = 0;
    int got = al_read_pid(r, &pid);
    if (!got)
        got = proc_of(r, pid, &target);
    if (!got)
        got = al_add_event(r, (struct al_change){.kind = AL_CHANGE_PROC, .target = target});
    if (got)
        return got;
    while ((got = al_reader_word(r)) > 0) {
        int error = al_need_pair(r);
        if (!error)
            error = proc_word(r, target);
        if (error)
            return error;
    }
    return got;
}

static int parse_exit(struct al_reader *r) {
    uint64_t pid = 0;
    uint32_t target = 0;
    int error = al_read_pid(r, &pid);
    if (!error)
        error = proc_of(r, pid, &target);
    if (!error)
        error = al_add_event(r, (struct al_change){.kind = AL_CHANGE_EXIT, .target = target});
    return error ? error : al_reader_done(r);
}

// "C", "G", "C+G", "M+C": compute, graphics, MPS client.
static int read_type(struct al_reader *r, double *ret) {
    uint32_t bits = 0;
    const char *p = r->word.value;
    for (; *p; p++) {
        uint32_t bit = *p == 'C' ? AL_PROC_COMPUTE : *p == 'G' ? AL_PROC_GRAPHICS : *p == 'M' ? AL_PROC_MPS : 0;
        if (!bit && *p != '+')
            break;
        bits |= bit;
    }
    *ret = bits;
    return bits && !*p
               ? 0
               : al_reader_fail(r, r->word.value_column, "'%.40s' is no type; C, G, C+G and M+C are", r->word.value);
}

static int row_word(struct al_reader *r, uint32_t target) {
    static const struct { const char *name; uint16_t field; } ids[] = {{"gpu_instance", AL_ROW_GI},
                                                                       {"compute_instance", AL_ROW_CI}};
    struct al_word *w = &r->word;
    struct al_change e = {.kind = AL_CHANGE_ROW_FIELD, .target = target, .status = AL_STATUS_OK};
    uint64_t number = 0;
    int error = AL_E_INVALID;
    for (uint16_t i = 0; i < AL_ROW_FIGURES && error == AL_E_INVALID; i++)
        if (strcmp(al_scenario_row_figures[i], w->key) == 0) {
            e.field = i;
            error = al_read_track(r, w->value, w->value_column, i ? AL_UNIT_RATIO : AL_UNIT_BYTES, &e);
        }
    for (size_t i = 0; i < 2 && error == AL_E_INVALID; i++)
        if (strcmp(ids[i].name, w->key) == 0) {
            e.field = ids[i].field;
            error = al_read_whole(r, w->value, w->value_column, UINT32_MAX, &number);
            e.a = (double)number;
        }
    if (error == AL_E_INVALID && strcmp(w->key, "type") == 0) {
        e.field = AL_ROW_TYPE;
        error = read_type(r, &e.a);
    } else if (error == AL_E_INVALID && strcmp(w->key, "driver_name") == 0) {
        e.field = AL_ROW_NAME;
        size_t size = sizeof((struct al_proc_gpu *)NULL)->driver_name;
        error = strlen(w->value) < size
                    ? al_add_text(r->s, w->value, &e.text)
                    : al_reader_fail(r, w->value_column, "longer than %zu bytes; shorten it", size - 1);
    } else if (error == AL_E_INVALID) {
        error = al_reader_fail(r, w->key_column, "'%.60s' is no key of a row line (see docs/scenario.md)", w->key);
    }
    return error ? error : al_add_event(r, e);
}

// The pid and gpu=N that name one row.
static int read_row(struct al_reader *r, uint32_t *ret) {
    uint64_t pid = 0;
    struct al_gpu_mask mask;
    int error = al_read_pid(r, &pid);
    if (error)
        return error;
    int got = al_reader_word(r);
    struct al_word *w = &r->word;
    if (got < 0)
        return got;
    if (got == 0 || !w->has_value || strcmp(w->key, "gpu") != 0)
        return al_reader_fail(r, got ? w->key_column : 1, "gpu=N must follow the process id");
    error = al_read_gpus(r, w->value, w->value_column, &mask);
    if (error)
        return error;
    uint32_t found = 0, gpu = 0;
    for (uint32_t g = 0; g < r->s->gpu_count; g++)
        if (al_gpu_mask_has(&mask, g)) {
            gpu = g;
            found++;
        }
    if (found != 1)
        return al_reader_fail(r, w->value_column, "a row stands on one GPU; write a line for each");
    return row_of(r, pid, gpu, ret);
}

static int parse_row(struct al_reader *r, bool gone) {
    uint32_t target = 0;
    int got = read_row(r, &target);
    if (!got)
        got = al_add_event(r, (struct al_change){.kind = gone ? AL_CHANGE_UNROW : AL_CHANGE_ROW, .target = target});
    if (got || gone)
        return got ? got : al_reader_done(r);
    while ((got = al_reader_word(r)) > 0) {
        int error = al_need_pair(r);
        if (!error)
            error = row_word(r, target);
        if (error)
            return error;
    }
    return got;
}

int al_parse_process_line(struct al_reader *r, const char *verb) {
    int error = 0;
    if (strcmp(verb, "node") == 0)
        error = parse_node(r);
    else if (strcmp(verb, "proc") == 0)
        error = parse_proc(r);
    else if (strcmp(verb, "exit") == 0)
        error = parse_exit(r);
    else if (strcmp(verb, "row") == 0 || strcmp(verb, "unrow") == 0)
        error = parse_row(r, verb[0] == 'u');
    else
        return 0;
    return error ? error : 1;
}
