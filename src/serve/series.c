// SPDX-License-Identifier: Apache-2.0
// /api/v1/series: what the sliding windows hold of a metric, as it came or in steps.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "model/select.h"
#include "serve/parts.h"
#include "series/set.h"

#define POINTS_MAX 20000 // steps that one answer may have a series

struct span {
    double from, to, step; // seconds since the epoch; step 0: as it came
    double offset;         // what to add to monotonic seconds
};

static int wrong(char *error, size_t size, int code, const char *format, const char *what) {
    (void)snprintf(error, size, format, what);
    return code;
}

static int take_span(const struct al_query *q, double now, struct span *p, char *error, size_t size) {
    const char *from = al_query_get(q, "from"), *to = al_query_get(q, "to"), *step = al_query_get(q, "step");
    p->from = 0;
    p->to = now;
    p->step = 0;
    if (from && !al_query_time(from, now, &p->from))
        return wrong(error, size, AL_E_INVALID, "from: \"%.40s\" is no time; expected seconds since the epoch, or -60",
                     from);
    if (to && !al_query_time(to, now, &p->to))
        return wrong(error, size, AL_E_INVALID, "to: \"%.40s\" is no time; expected seconds since the epoch, or -10",
                     to);
    if (step && (!al_str_double(step, &p->step) || !(p->step >= 0.1) || !(p->step <= 86400)))
        return wrong(error, size, AL_E_INVALID, "step: \"%.40s\" is no number of seconds from 0.1 to 86400", step);
    if (p->from > p->to)
        return wrong(error, size, AL_E_INVALID, "from lies behind to%s", "");
    return 0;
}

static void point(struct al_buf *b, bool *first, double t, const double *values, int count) {
    al_buf_str(b, *first ? "[" : ",[");
    *first = false;
    al_buf_fixed(b, t, 3);
    for (int i = 0; i < count; i++) {
        al_buf_char(b, ',');
        al_buf_number(b, values[i]);
    }
    al_buf_char(b, ']');
}

struct bucket {
    double at, sum, low, high;
    uint32_t count;
};

static void flush(struct al_buf *b, bool *first, struct bucket *k) {
    if (k->count) {
        const double values[] = {k->sum / k->count, k->low, k->high};
        point(b, first, k->at, values, 3);
    }
    k->count = 0;
}

static void points(struct al_buf *b, const struct al_window *w, const struct span *p) {
    struct bucket k = {0};
    bool first = true;
    uint32_t given = 0;
    al_buf_str(b, "\"points\":[");
    for (uint32_t i = 0; w && i < w->count && given < POINTS_MAX; i++) {
        const struct al_sample *sample = al_window_at(w, i);
        double t = (double)sample->at_ns / 1e9 + p->offset;
        if (t < p->from || t > p->to)
            continue;
        if (p->step == 0) {
            point(b, &first, t, &sample->value, 1);
            given++;
            continue;
        }
        double at = floor(t / p->step) * p->step;
        if (k.count && at != k.at) {
            flush(b, &first, &k);
            given++;
        }
        if (!k.count)
            k = (struct bucket){.at = at, .low = sample->value, .high = sample->value};
        k.sum += sample->value;
        k.low = fmin(k.low, sample->value);
        k.high = fmax(k.high, sample->value);
        k.count++;
    }
    flush(b, &first, &k);
    al_buf_char(b, ']');
}

// NULL without windows or without values.
static const struct al_window *window(struct al_serve *s, const char *entity, uint32_t metric) {
    const struct al_series_set *windows = al_collect_series(s->o.collect);
    return windows ? al_series_set_get(windows, al_series_entity(entity), metric) : NULL;
}

static int gpu_series(struct al_serve *s, struct al_buf *b, int metric, const char *gpus, const struct span *p) {
    const struct al_snapshot *now = al_collect_snapshot(s->o.collect);
    bool any = false;
    for (uint32_t i = 0; i < now->gpu_count; i++) {
        const struct al_gpu_info *g = &now->gpus[i].info;
        if (!al_gpu_selected(gpus, g))
            continue;
        al_buf_printf(b, "%s{\"gpu\":%u,\"uuid\":", any ? "," : "", g->index);
        any = true;
        al_json_string(b, g->uuid);
        al_buf_char(b, ',');
        points(b, window(s, g->uuid, (uint32_t)(AL_SERIES_GPU + metric)), p);
        al_buf_char(b, '}');
    }
    return any || !gpus ? 0 : AL_E_NOENT;
}

static void node_series(struct al_serve *s, struct al_buf *b, int metric, const struct span *p) {
    al_buf_str(b, "{\"gpu\":null,\"uuid\":null,");
    points(b, window(s, "node", (uint32_t)(AL_SERIES_NODE + metric)), p);
    al_buf_char(b, '}');
}

static const struct al_metric_info *find_metric(const char *name, int *ret_gpu, int *ret_node) {
    *ret_node = *ret_gpu = -1;
    if (!al_str_starts(name, "node.")) {
        *ret_gpu = al_gpu_metric_find(name);
        return *ret_gpu < 0 ? NULL : &al_gpu_metrics[*ret_gpu];
    }
    for (int m = 0; m < AL_NODE_METRIC_COUNT && *ret_node < 0; m++)
        if (strcmp(al_node_metric_table[m].name, name + 5) == 0)
            *ret_node = m;
    return *ret_node < 0 ? NULL : &al_node_metric_table[*ret_node];
}

static void head(struct al_buf *b, const char *name, const struct al_metric_info *info, const struct span *p) {
    al_buf_str(b, "{\"metric\":");
    al_json_string(b, name);
    al_buf_printf(b, ",\"unit\":\"%s\",\"step_seconds\":", al_unit_word(info->unit));
    if (p->step > 0)
        al_buf_number(b, p->step);
    else
        al_buf_str(b, "null");
    al_buf_printf(b, ",\"columns\":[\"time\",%s],\"series\":[", p->step > 0 ? "\"mean\",\"min\",\"max\"" : "\"value\"");
}

int al_serve_series_json(struct al_serve *s, struct al_buf *b, const struct al_query *q, char *error, size_t size) {
    const char *name = al_query_get(q, "metric"), *gpus = al_query_get(q, "gpu");
    char item[AL_UUID_MAX];
    struct span p;
    int gpu, node, result;
    const struct al_metric_info *info = name ? find_metric(name, &gpu, &node) : NULL;
    if (!name)
        return wrong(error, size, AL_E_INVALID, "metric: name one, such as utilization_ratio or node.cpu_ratio%s", "");
    if (!info)
        return wrong(error, size, AL_E_NOENT, "metric: there is no \"%.60s\" (alula help --metrics lists them)", name);
    if (info->kind != AL_KIND_GAUGE)
        return wrong(error, size, AL_E_INVALID, "metric: windows are kept of gauges, and \"%.60s\" is none", name);
    if (gpus && (!*gpus || al_gpu_select_check(gpus, item, sizeof item)))
        return wrong(error, size, AL_E_INVALID, "gpu: \"%.40s\" is no index, UUID or PCI id", gpus);
    al_collect_lock(s->o.collect);
    const struct al_snapshot *now = al_collect_snapshot(s->o.collect);
    if (!now) {
        result = wrong(error, size, AL_E_AGAIN, "no sample yet%s", "");
    } else {
        p.offset = (double)(now->realtime_ns - now->monotonic_ns) / 1e9;
        result = take_span(q, (double)now->realtime_ns / 1e9, &p, error, size);
    }
    if (!result) {
        head(b, name, info, &p);
        if (node >= 0)
            node_series(s, b, node, &p);
        else if (gpu_series(s, b, gpu, gpus, &p))
            result = wrong(error, size, AL_E_NOENT, "gpu: \"%.40s\" matches none", gpus);
    }
    al_collect_unlock(s->o.collect);
    al_buf_str(b, "]}\n");
    return result;
}
