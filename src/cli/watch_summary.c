// SPDX-License-Identifier: Apache-2.0
#include "cli/watch_summary.h"

#include "base/str.h"
#include "export/jsonl.h"
#include "model/metric.h"

struct column {
    enum al_gpu_metric metric;
    const char *label;
    double scale; // to the unit of the label
};

static const struct column columns[] = {
    {AL_GPU_UTIL, "utilisation, %", 100},          {AL_GPU_GPM_SM, "SM activity, %", 100},
    {AL_GPU_GPM_TENSOR, "tensor activity, %", 100}, {AL_GPU_GPM_DRAM, "DRAM activity, %", 100},
    {AL_GPU_MEM_USED, "memory used, GiB", 1 / 1073741824.0}, {AL_GPU_POWER, "power, W", 1},
    {AL_GPU_TEMP, "temperature, C", 1},            {AL_GPU_CLOCK_SM, "SM clock, MHz", 1e-6},
};

static void cell(struct al_buf *b, double value) {
    char text[48];
    (void)al_fmt_fixed(text, sizeof text, value, 1);
    al_buf_printf(b, " %9s", text);
}

static void line(struct al_buf *b, const struct al_window *w, const struct column *c) {
    struct al_slope slope;
    al_buf_printf(b, "  %-20s", c->label);
    cell(b, al_window_mean(w) * c->scale);
    cell(b, al_window_peak(w) * c->scale);
    cell(b, al_window_min(w) * c->scale);
    cell(b, al_window_deviation(w) * c->scale);
    cell(b, al_window_quantile(w, 0.5) * c->scale);
    cell(b, al_window_quantile(w, 0.95) * c->scale);
    if (al_window_slope(w, 0, &slope) == 0)
        cell(b, slope.per_second * 60 * c->scale);
    else
        al_buf_printf(b, " %9s", "-");
    al_buf_printf(b, " %9u\n", w->count);
}

void al_watch_summary(struct al_buf *b, const struct al_snapshot *s, const struct al_series_set *windows) {
    al_buf_printf(b, "%-22s %9s %9s %9s %9s %9s %9s %9s %9s\n", "last window", "mean", "peak", "min", "std", "median",
                  "p95", "slope/min", "samples");
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        uint64_t entity = al_series_entity(s->gpus[i].info.uuid);
        al_buf_printf(b, "GPU %u ", s->gpus[i].info.index);
        al_term_string(b, s->gpus[i].info.name);
        al_buf_char(b, '\n');
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
            const struct al_window *w = al_series_set_get(windows, entity, AL_SERIES_GPU + columns[c].metric);
            if (w && w->count)
                line(b, w, &columns[c]);
        }
    }
}

static void number(struct al_buf *b, const char *name, double value) {
    al_buf_printf(b, ",\"%s\":", name);
    al_buf_number(b, value);
}

static void json_window(struct al_buf *b, const char *name, const struct al_window *w) {
    struct al_slope slope;
    if (b->data[b->len - 1] == '}')
        al_buf_char(b, ',');
    al_buf_printf(b, "\"%s\":{\"samples\":%u", name, w->count);
    number(b, "mean", al_window_mean(w));
    number(b, "peak", al_window_peak(w));
    number(b, "min", al_window_min(w));
    number(b, "standard_deviation", al_window_deviation(w));
    number(b, "median", al_window_quantile(w, 0.5));
    number(b, "p95", al_window_quantile(w, 0.95));
    al_buf_str(b, ",\"slope_per_second\":");
    if (al_window_slope(w, 0, &slope) == 0)
        al_buf_number(b, slope.per_second);
    else
        al_buf_str(b, "null");
    al_buf_char(b, '}');
}

void al_watch_summary_json(struct al_buf *b, const struct al_snapshot *s, const struct al_series_set *windows) {
    al_jsonl_head(b, "summary", s->realtime_ns, s->node.hostname);
    al_buf_str(b, ",\"gpus\":[");
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        uint64_t entity = al_series_entity(s->gpus[i].info.uuid);
        al_buf_printf(b, "%s{\"index\":%u,\"uuid\":", i ? "," : "", s->gpus[i].info.index);
        al_json_string(b, s->gpus[i].info.uuid);
        al_buf_str(b, ",\"windows\":{");
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++) {
            const struct al_window *w = al_series_set_get(windows, entity, (uint32_t)(AL_SERIES_GPU + m));
            if (w && w->count)
                json_window(b, al_gpu_metrics[m].name, w);
        }
        al_buf_str(b, "}}");
    }
    al_buf_str(b, "]}\n");
}
