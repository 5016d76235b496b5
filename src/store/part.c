// SPDX-License-Identifier: Apache-2.0
#include "store/part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/look.h"
#include "model/node.h"
#include "model/process.h"
#include "model/rank.h"
#include "store/column.h"

#define NUMBERS_MAX (4u << 20) // of one part: 32 MiB
#define SLOW_TOGETHER_US 400000 // a slow round lasts some 10 to 100 ms, and the next comes a second later

static const struct al_store_extra tick_extras[] = {{"realtime_ns", 0}, {"interval_ns", 0}, {"jitter_ns", 0},
                                                    {"groups", 0},      {"hung_call", 0},   {"hung_since_ns", 0}};
static const struct al_store_extra gpu_extras[] = {
    {"position", 0}, {"parent", 0}, {"state", 0}, {"processes", 0}, {"process_utilization", 0}};
static const struct al_store_extra fresh_extras[] = {{"at_us", 0}, {"utilization_ratio", 1e6}};
static const struct al_store_extra proc_extras[] = {{"gone", 0}, {"state", 0}};
static const struct al_store_extra gone_extras[] = {{"gone", 0}};

static const struct al_metric_info row_metrics[] = {
    {"MEMORY", "memory_bytes", AL_UNIT_BYTES, AL_KIND_GAUGE, AL_GROUP_PROCESS, "", "", ""},
    {"SM", "sm_ratio", AL_UNIT_RATIO, AL_KIND_GAUGE, AL_GROUP_PROCUTIL, "", "", ""},
    {"MEM", "memory_ratio", AL_UNIT_RATIO, AL_KIND_GAUGE, AL_GROUP_PROCUTIL, "", "", ""},
    {"ENC", "encoder_ratio", AL_UNIT_RATIO, AL_KIND_GAUGE, AL_GROUP_PROCUTIL, "", "", ""},
    {"DEC", "decoder_ratio", AL_UNIT_RATIO, AL_KIND_GAUGE, AL_GROUP_PROCUTIL, "", "", ""},
    {"JPG", "jpeg_ratio", AL_UNIT_RATIO, AL_KIND_GAUGE, AL_GROUP_PROCUTIL, "", "", ""},
    {"OFA", "ofa_ratio", AL_UNIT_RATIO, AL_KIND_GAUGE, AL_GROUP_PROCUTIL, "", "", ""},
};
static struct al_metric_info node_metrics[AL_NODE_METRIC_COUNT] = {
#define X(id, name, unit, kind, help) {#id, name, AL_UNIT_##unit, AL_KIND_##kind, AL_GROUP_NODE, "", "", ""},
    AL_NODE_METRICS(X)
#undef X
};
static struct al_metric_info proc_metrics[AL_PROC_METRIC_COUNT] = {
#define X(id, name, unit, kind, help) {#id, name, AL_UNIT_##unit, AL_KIND_##kind, AL_GROUP_HOST, "", "", ""},
    AL_PROC_METRICS(X)
#undef X
};

static struct al_metric_info rank_metrics[AL_RANK_METRIC_COUNT] = {
#define X(id, name, unit, kind, help) {#id, name, AL_UNIT_##unit, AL_KIND_##kind, 0, "", "", ""},
    AL_RANK_METRICS(X)
#undef X
};

static struct al_metric_info look_metrics[AL_LOOK_METRIC_COUNT] = {
#define X(id, name, unit, kind, help) {#id, name, AL_UNIT_##unit, AL_KIND_##kind, 0, "", "", ""},
    AL_LOOK_METRICS(X)
#undef X
};

#define TABLE(array) array, sizeof(array) / sizeof((array)[0])
const struct al_store_kind al_store_kinds[AL_STORE_KINDS] = {
    [AL_STORE_TICK] = {"ticks", NULL, TABLE(tick_extras), NULL, 0, 1},
    [AL_STORE_GPU] = {"samples", "gpu", TABLE(gpu_extras), al_gpu_metrics, AL_GPU_METRIC_COUNT, 1},
    [AL_STORE_FRESH] = {"driver_samples", "gpu", TABLE(fresh_extras), NULL, 0, 1},
    [AL_STORE_NODE] = {"node_samples", "node", TABLE(gone_extras), node_metrics, AL_NODE_METRIC_COUNT, 1},
    [AL_STORE_PROC] = {"process_samples", "process", TABLE(proc_extras), proc_metrics, AL_PROC_METRIC_COUNT, 1},
    [AL_STORE_ROW] = {"process_gpu_samples", "process_gpu", TABLE(gone_extras), TABLE(row_metrics), 1},
    [AL_STORE_RANK] = {"rank_samples", "process_rank", TABLE(gone_extras), rank_metrics, AL_RANK_METRIC_COUNT, 2},
    [AL_STORE_LOOK] = {"look_samples", "look", TABLE(gone_extras), look_metrics, AL_LOOK_METRIC_COUNT, 3},
};

// ---- layouts ----

const struct al_layout *al_layouts_find(const struct al_layouts *l, int64_t id) {
    for (uint32_t i = l->count; i-- > 0;)
        if (l->list[i].id == id)
            return &l->list[i];
    return NULL;
}

const struct al_layout *al_layouts_match(const struct al_layouts *l, uint8_t kind, const uint16_t *code,
                                         uint32_t count) {
    for (uint32_t i = l->count; i-- > 0;)
        if (l->list[i].kind == kind && l->list[i].count == count &&
            memcmp(l->list[i].code, code, count * sizeof *code) == 0)
            return &l->list[i];
    return NULL;
}

int al_layouts_add(struct al_layouts *l, int64_t id, uint8_t kind, const uint16_t *code, uint32_t count) {
    if (l->count == AL_STORE_LAYOUTS_MAX)
        return AL_E_TOOBIG;
    if (l->count == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 16;
        struct al_layout *wider = realloc(l->list, cap * sizeof *wider);
        if (!wider)
            return AL_E_NOMEM;
        l->list = wider;
        l->cap = cap;
    }
    struct al_layout *to = &l->list[l->count];
    *to = (struct al_layout){.id = id, .kind = kind, .count = count};
    to->code = malloc((count ? count : 1) * sizeof *code);
    if (!to->code)
        return AL_E_NOMEM;
    memcpy(to->code, code, count * sizeof *code);
    for (uint32_t m = 0; m < count; m++)
        if (al_code_has_number(code[m]) && (code[m] >> 4) + 1U > to->slots)
            to->slots = (code[m] >> 4) + 1U;
    l->count++;
    return 0;
}

void al_layouts_done(struct al_layouts *l) {
    for (uint32_t i = 0; i < l->count; i++)
        free(l->list[i].code);
    free(l->list);
    *l = (struct al_layouts){0};
}

void al_layout_runs(struct al_buf *b, const uint16_t *code, uint32_t count) {
    for (uint32_t i = 0; i < count;) {
        uint32_t run = 1;
        while (i + run < count && code[i + run] == code[i])
            run++;
        al_put_varint(b, code[i]);
        al_put_varint(b, run);
        i += run;
    }
}

int al_layout_parse(const uint8_t *runs, size_t len, uint16_t *code, uint32_t max) {
    struct al_bytes in = {runs, runs + len};
    uint32_t count = 0;
    while (in.p < in.end) {
        uint64_t c, run;
        if (al_get_varint(&in, &c) < 0 || al_get_varint(&in, &run) < 0)
            return AL_E_FORMAT;
        if ((c & 15) >= AL_STATUS_COUNT || (c >> 4) >= AL_STORE_SLOTS_MAX || !run || run > max - count)
            return AL_E_FORMAT;
        for (; run; run--)
            code[count++] = (uint16_t)c;
    }
    return (int)count;
}

// ---- parts ----

struct al_part *al_part_free(struct al_part *p) {
    if (p) {
        free(p->t);
        free(p->extra);
        free(p->layout);
        free(p->at_from);
        free(p->at);
        free(p->num);
        free(p->low);
        free(p->high);
        free(p);
    }
    return NULL;
}

int al_part_new(uint8_t kind, uint8_t level, int64_t entity, uint32_t metrics, struct al_part **ret) {
    struct al_part *p = calloc(1, sizeof *p);
    if (!p)
        return AL_E_NOMEM;
    p->kind = kind;
    p->level = level;
    p->entity = entity;
    p->metrics = metrics;
    p->extras = al_store_kinds[kind].extra_count;
    *ret = p;
    return 0;
}

static bool grow(void *array, size_t count, size_t size) {
    void **a = array;
    void *wider = realloc(*a, count && size ? count * size : 1);
    if (!wider)
        return false;
    *a = wider;
    return true;
}

static int reserve(struct al_part *p, uint32_t slots) {
    if (p->rows >= AL_STORE_ROWS_MAX || (uint64_t)(p->rows + 1) * (p->metrics ? p->metrics : 1) > NUMBERS_MAX)
        return AL_E_TOOBIG;
    if (p->rows == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 16;
        size_t numbers = (size_t)p->metrics * sizeof(double);
        if (!grow(&p->t, cap, sizeof *p->t) || !grow(&p->extra, cap, p->extras * sizeof *p->extra) ||
            !grow(&p->layout, cap, sizeof *p->layout) || !grow(&p->at_from, cap, sizeof *p->at_from) ||
            !grow(&p->num, cap, numbers) ||
            (p->level && (!grow(&p->low, cap, numbers) || !grow(&p->high, cap, numbers))))
            return AL_E_NOMEM;
        p->cap = cap;
    }
    if (p->at_count + slots > p->at_cap) {
        uint32_t cap = 2 * p->at_cap + slots;
        if (!grow(&p->at, cap, sizeof *p->at))
            return AL_E_NOMEM;
        p->at_cap = cap;
    }
    return 0;
}

int al_part_add(struct al_part *p, const struct al_row *row) {
    int result = reserve(p, row->slots);
    if (result)
        return result;
    uint32_t r = p->rows;
    p->t[r] = row->t;
    p->layout[r] = row->layout;
    p->at_from[r] = p->at_count;
    memcpy(p->extra + (size_t)r * p->extras, row->extra, p->extras * sizeof *p->extra);
    if (row->slots)
        memcpy(p->at + p->at_count, row->at, row->slots * sizeof *p->at);
    p->at_count += row->slots;
    if (p->metrics)
        memcpy(p->num + (size_t)r * p->metrics, row->num, p->metrics * sizeof *p->num);
    if (p->level && p->metrics) {
        memcpy(p->low + (size_t)r * p->metrics, row->num, p->metrics * sizeof *p->num);
        memcpy(p->high + (size_t)r * p->metrics, row->num, p->metrics * sizeof *p->num);
    }
    p->rows++;
    return 0;
}

uint32_t al_part_find(const struct al_part *p, int64_t t) {
    uint32_t low = 0, high = p->rows;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->t[middle] <= t)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : UINT32_MAX;
}

// ---- values ----

// What is kept of a number: finer digits are noise, and cost most of a recording's bytes.
static double rounded(double v, enum al_unit unit) {
    switch (unit) {
    case AL_UNIT_RATIO:
    case AL_UNIT_SECONDS:
    case AL_UNIT_PER_SECOND:
        return fabs(v) < 1e9 ? nearbyint(v * 1e6) / 1e6 + 0.0 : v;
    case AL_UNIT_BYTES_PER_SECOND:
        return fabs(v) < 1e15 ? nearbyint(v) + 0.0 : v;
    default:
        return v;
    }
}

// Readings that may share a time: of one round, fast or slow, or that stopped together. A slow reading must never pass
// for one of the fast round's, whose time moves on at every tick.
enum { CLASS_FAST, CLASS_SLOW, CLASS_STALE };

static uint8_t class_of(uint32_t status, uint32_t group) {
    if (status == AL_STATUS_STALE)
        return CLASS_STALE;
    return group & (AL_GROUP_FAST | AL_GROUP_SAMPLES | AL_GROUP_PROCESS) ? CLASS_FAST : CLASS_SLOW;
}

static uint32_t slot_of(struct al_row *row, int64_t at_us, uint8_t class, int64_t together_us) {
    int64_t near = class == CLASS_FAST ? together_us : SLOW_TOGETHER_US;
    for (uint32_t s = 0; s < row->slots; s++)
        if (row->class[s] == class && at_us - row->at[s] <= near && row->at[s] - at_us <= near)
            return s;
    if (row->slots == AL_STORE_SLOTS_MAX)
        return AL_STORE_SLOTS_MAX - 1;
    row->at[row->slots] = at_us;
    row->class[row->slots] = class;
    return row->slots++;
}

void al_row_pack(struct al_row *row, const struct al_value *values, const struct al_metric_info *metrics,
                 uint32_t count, int64_t start_ns, int64_t together_ns) {
    row->slots = 0;
    for (uint32_t m = 0; m < count; m++) {
        uint32_t status = values[m].status < AL_STATUS_COUNT ? values[m].status : AL_STATUS_ERROR;
        if (al_code_has_number((uint16_t)status) && !isfinite(values[m].num))
            status = AL_STATUS_ERROR;
        bool number = al_code_has_number((uint16_t)status);
        int64_t at_ns = values[m].at_ns - start_ns;
        int64_t at_us = (at_ns - (at_ns < 0 ? 999 : 0)) / 1000;
        uint32_t slot = number ? slot_of(row, at_us, class_of(status, metrics[m].group), together_ns / 1000) : 0;
        row->code[m] = (uint16_t)(slot << 4 | status);
        row->num[m] = number ? rounded(values[m].num, metrics[m].unit) : 0;
    }
}

struct al_value al_part_value(const struct al_part *p, uint32_t row, const struct al_layout *layout, uint32_t metric) {
    uint16_t code = layout && metric < layout->count ? layout->code[metric] : AL_STATUS_UNREAD;
    if (!al_code_has_number(code))
        return al_value_none(code & 15);
    return (struct al_value){p->num[(size_t)row * p->metrics + metric], p->at[p->at_from[row] + (code >> 4)] * 1000,
                             code & 15U};
}
