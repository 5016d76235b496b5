// SPDX-License-Identifier: Apache-2.0
#include "tui/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

struct reading {
    int64_t at_ns;
    float value[AL_CHART_COUNT];
};

// A counter's rate between its last two readings.
struct rate {
    struct al_value counter, per_second;
};

struct track {
    char uuid[AL_UUID_MAX];
    uint32_t start, count;
    uint32_t seen; // bit a chart: had a value
    struct rate nvlink_rx, nvlink_tx;
    struct reading *ring;
};

struct al_history {
    uint32_t cap, track_count;
    int64_t last_ns;
    struct track *tracks[AL_GPU_MAX];
};

static const char *const titles[] = {
#define X(id, title) title,
    AL_CHARTS(X)
#undef X
};

static const enum al_unit units[AL_CHART_COUNT] = {
    [AL_CHART_UTIL] = AL_UNIT_RATIO,      [AL_CHART_MEM] = AL_UNIT_BYTES,
    [AL_CHART_SM] = AL_UNIT_RATIO,        [AL_CHART_TENSOR] = AL_UNIT_RATIO,
    [AL_CHART_DRAM] = AL_UNIT_RATIO,      [AL_CHART_POWER] = AL_UNIT_WATTS,
    [AL_CHART_TEMP] = AL_UNIT_CELSIUS,    [AL_CHART_CLOCK] = AL_UNIT_HERTZ,
    [AL_CHART_PCIE_RX] = AL_UNIT_BYTES_PER_SECOND,   [AL_CHART_PCIE_TX] = AL_UNIT_BYTES_PER_SECOND,
    [AL_CHART_NVLINK_RX] = AL_UNIT_BYTES_PER_SECOND, [AL_CHART_NVLINK_TX] = AL_UNIT_BYTES_PER_SECOND,
};

const char *al_chart_title(enum al_chart chart) {
    return titles[chart];
}
enum al_unit al_chart_unit(enum al_chart chart) {
    return units[chart];
}

static struct track *find(const struct al_history *h, const char *uuid) {
    for (uint32_t i = 0; h && i < h->track_count; i++)
        if (strcmp(h->tracks[i]->uuid, uuid) == 0)
            return h->tracks[i];
    return NULL;
}

// The first that has something to say; with none, the first one's status.
static struct al_value either(struct al_value a, struct al_value b) {
    bool has_a = a.status == AL_STATUS_OK || a.status == AL_STATUS_STALE;
    bool has_b = b.status == AL_STATUS_OK || b.status == AL_STATUS_STALE;
    return has_a || !has_b ? a : b;
}

static struct al_value nvlink(const struct al_history *h, const struct al_gpu *g, struct al_value gpm, bool rx) {
    const struct track *t = find(h, g->info.uuid);
    return t ? either(gpm, rx ? t->nvlink_rx.per_second : t->nvlink_tx.per_second) : gpm;
}

struct al_value al_chart_value(const struct al_history *h, const struct al_gpu *g, enum al_chart chart) {
    switch (chart) {
    case AL_CHART_UTIL: return either(g->m[AL_GPU_UTIL_MEAN], g->m[AL_GPU_UTIL]);
    case AL_CHART_MEM: return g->m[AL_GPU_MEM_USED];
    case AL_CHART_SM: return g->m[AL_GPU_GPM_SM];
    case AL_CHART_TENSOR: return g->m[AL_GPU_GPM_TENSOR];
    case AL_CHART_DRAM: return g->m[AL_GPU_GPM_DRAM];
    case AL_CHART_POWER: return g->m[AL_GPU_POWER];
    case AL_CHART_TEMP: return g->m[AL_GPU_TEMP];
    case AL_CHART_CLOCK: return g->m[AL_GPU_CLOCK_SM];
    case AL_CHART_PCIE_RX: return either(g->m[AL_GPU_GPM_PCIE_RX], g->m[AL_GPU_PCIE_RX]);
    case AL_CHART_PCIE_TX: return either(g->m[AL_GPU_GPM_PCIE_TX], g->m[AL_GPU_PCIE_TX]);
    case AL_CHART_NVLINK_RX: return nvlink(h, g, g->m[AL_GPU_GPM_NVLINK_RX], true);
    case AL_CHART_NVLINK_TX: return nvlink(h, g, g->m[AL_GPU_GPM_NVLINK_TX], false);
    case AL_CHART_COUNT: break;
    }
    return al_value_none(AL_STATUS_UNREAD);
}

static double known(struct al_value v) {
    return v.status == AL_STATUS_OK || v.status == AL_STATUS_STALE ? v.num : 0;
}

double al_chart_full(const struct al_gpu *g, enum al_chart chart) {
    switch (chart) {
    case AL_CHART_UTIL:
    case AL_CHART_SM:
    case AL_CHART_TENSOR:
    case AL_CHART_DRAM: return 1;
    case AL_CHART_MEM: return known(g->m[AL_GPU_MEM_TOTAL]);
    case AL_CHART_POWER: return known(either(g->m[AL_GPU_POWER_ENFORCED], g->m[AL_GPU_POWER_LIMIT]));
    case AL_CHART_TEMP: return known(g->m[AL_GPU_TEMP_SLOWDOWN]) > 0 ? g->m[AL_GPU_TEMP_SLOWDOWN].num : 100;
    case AL_CHART_CLOCK: return known(g->m[AL_GPU_CLOCK_SM_MAX]);
    default: return 0;
    }
}

int al_history_new(uint32_t samples, struct al_history **ret) {
    struct al_history *h = calloc(1, sizeof *h);
    if (!h)
        return AL_E_NOMEM;
    h->cap = samples ? samples : 1;
    *ret = h;
    return 0;
}

static void free_track(struct track *t) {
    free(t->ring);
    free(t);
}

struct al_history *al_history_free(struct al_history *h) {
    if (h) {
        for (uint32_t i = 0; i < h->track_count; i++)
            free_track(h->tracks[i]);
        free(h);
    }
    return NULL;
}

static struct track *add_track(struct al_history *h, const struct al_gpu *g) {
    if (h->track_count == AL_GPU_MAX) { // devices came and went (MIG): the oldest makes room
        free_track(h->tracks[0]);
        memmove(&h->tracks[0], &h->tracks[1], --h->track_count * sizeof h->tracks[0]);
    }
    struct track *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->ring = calloc(h->cap, sizeof *t->ring);
    if (!t->ring) {
        free(t);
        return NULL;
    }
    memcpy(t->uuid, g->info.uuid, sizeof t->uuid);
    h->tracks[h->track_count++] = t;
    return t;
}

static void follow(struct rate *r, struct al_value counter) {
    if (!al_ok(counter)) {
        r->per_second = al_value_none((enum al_status)counter.status);
        r->counter = counter;
        return;
    }
    if (al_ok(r->counter) && counter.at_ns == r->counter.at_ns)
        return;
    bool rises = al_ok(r->counter) && counter.at_ns > r->counter.at_ns && counter.num >= r->counter.num;
    if (rises)
        r->per_second = al_value_ok((counter.num - r->counter.num) /
                                        ((double)(counter.at_ns - r->counter.at_ns) / (double)AL_NS_PER_S),
                                    counter.at_ns);
    else
        r->per_second = al_value_none(AL_STATUS_UNREAD); // first reading, or a reset
    r->counter = counter;
}

static void add_reading(struct al_history *h, struct track *t, const struct al_gpu *g, int64_t now_ns) {
    follow(&t->nvlink_rx, g->m[AL_GPU_NVLINK_RX]);
    follow(&t->nvlink_tx, g->m[AL_GPU_NVLINK_TX]);
    uint32_t slot = (t->start + t->count) % h->cap;
    if (t->count == h->cap)
        t->start = (t->start + 1) % h->cap;
    else
        t->count++;
    t->ring[slot].at_ns = now_ns;
    for (int c = 0; c < AL_CHART_COUNT; c++) {
        struct al_value v = al_chart_value(h, g, (enum al_chart)c);
        t->ring[slot].value[c] = al_ok(v) ? (float)v.num : NAN;
        // A board without NVLink reports rates of 0.
        bool telling = c < AL_CHART_NVLINK_RX || v.num > 0;
        t->seen |= al_ok(v) && telling ? 1u << c : 0;
    }
}

int al_history_push(struct al_history *h, const struct al_snapshot *s) {
    if (h->track_count && s->monotonic_ns <= h->last_ns)
        return 0;
    h->last_ns = s->monotonic_ns;
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        struct track *t = find(h, s->gpus[i].info.uuid);
        if (!t)
            t = add_track(h, &s->gpus[i]);
        if (!t)
            return AL_E_NOMEM;
        add_reading(h, t, &s->gpus[i], s->monotonic_ns);
    }
    return 0;
}

bool al_history_has(const struct al_history *h, const char *uuid, enum al_chart chart) {
    const struct track *t = find(h, uuid);
    return t && t->seen >> chart & 1;
}

void al_history_columns(const struct al_history *h, const char *uuid, enum al_chart chart, int64_t now_ns,
                        int64_t column_ns, float *values, int columns) {
    const struct track *t = find(h, uuid);
    int64_t last = now_ns / column_ns;
    int previous = -1;
    double sum = 0;
    int count = 0;
    for (int i = 0; i < columns; i++)
        values[i] = NAN;
    for (uint32_t i = 0; t && i < t->count; i++) {
        const struct reading *r = &t->ring[(t->start + i) % h->cap];
        int64_t column = columns - 1 - (last - r->at_ns / column_ns);
        if (column < 0 || column >= columns || !isfinite(r->value[chart]))
            continue;
        if (column != previous)
            sum = count = 0;
        previous = (int)column;
        sum += (double)r->value[chart];
        values[column] = (float)(sum / ++count);
    }
}
