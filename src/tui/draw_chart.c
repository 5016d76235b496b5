// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "tui/draw.h"

static const uint8_t inks[AL_CHART_COUNT] = {
    [AL_CHART_UTIL] = AL_INK_GOOD,    [AL_CHART_MEM] = AL_INK_COOL,     [AL_CHART_SM] = AL_INK_GOOD,
    [AL_CHART_TENSOR] = AL_INK_ODD,   [AL_CHART_DRAM] = AL_INK_BLUE,    [AL_CHART_POWER] = AL_INK_WARN,
    [AL_CHART_TEMP] = AL_INK_BAD,     [AL_CHART_CLOCK] = AL_INK_PLAIN,  [AL_CHART_PCIE_RX] = AL_INK_BLUE,
    [AL_CHART_PCIE_TX] = AL_INK_BLUE, [AL_CHART_NVLINK_RX] = AL_INK_ODD, [AL_CHART_NVLINK_TX] = AL_INK_ODD,
};

static bool has(const struct al_scene_in *in, const char *uuid, enum al_chart chart) {
    return in->history && al_history_has(in->history, uuid, chart);
}

int al_draw_chart_count(const struct al_scene_in *in, const struct al_ui *ui, const char *uuid, bool all_gpus) {
    int n = 0;
    if (!in->s)
        return 0;
    if (all_gpus)
        return (int)in->s->gpu_count;
    const struct al_gpu *first = in->s->gpu_count ? &in->s->gpus[0] : NULL;
    if (!*uuid && first)
        uuid = first->info.uuid; // nothing chosen yet
    (void)ui;
    for (int c = 0; c < AL_CHART_COUNT; c++)
        n += has(in, uuid, (enum al_chart)c);
    return n;
}

static void say_span(char out[AL_TXT], int64_t ns) {
    long long s = ns / 1000000000;
    if (s < 120)
        (void)snprintf(out, AL_TXT, "%lld s", s);
    else
        (void)snprintf(out, AL_TXT, "%lld min", s / 60);
}

// Rates have no end of scale: the highest in sight is the top, the figure in the title included.
static double scale(float *values, int count, double full, struct al_value now) {
    double top = full > 0 ? full : al_txt_has(now) ? now.num : 0;
    if (full <= 0)
        for (int i = 0; i < count; i++)
            top = isfinite(values[i]) && (double)values[i] > top ? (double)values[i] : top;
    for (int i = 0; i < count && top > 0; i++)
        values[i] = (float)((double)values[i] / top);
    return top;
}

static void title(struct al_draw *d, struct al_rect r, const struct al_gpu *g, enum al_chart chart, double top, bool gpu) {
    char name[AL_TXT], now[AL_TXT], most[AL_TXT], span[AL_TXT], right[AL_TXT * 3];
    struct al_value v = al_chart_value(d->in->history, g, chart);
    enum al_unit unit = al_chart_unit(chart);
    al_draw_gpu_label(d->in->s, g, name);
    al_txt_short(now, unit, v);
    say_span(span, al_ui_column_ns(d->ui) * r.w);
    bool fixed = al_chart_full(g, chart) > 0;
    int used = 0;
    if (gpu)
        used = al_grid_text(d->g, r.x, r.y, r.w, AL_STYLE_BOLD, name) + 1;
    used += al_grid_text(d->g, r.x + used, r.y, r.w - used, gpu ? AL_INK_PLAIN : AL_STYLE_BOLD, al_chart_title(chart)) + 1;
    used += al_grid_text(d->g, r.x + used, r.y, r.w - used,
                         (uint8_t)(v.status == AL_STATUS_STALE ? AL_STYLE_DIM : inks[chart] | AL_STYLE_BOLD), now);
    al_txt_short(most, unit, al_value_ok(top, 0));
    if (unit == AL_UNIT_RATIO || top <= 0)
        (void)snprintf(right, sizeof right, "%s", span);
    else
        (void)snprintf(right, sizeof right, "%s %s  %s", fixed ? "of" : "top", most, span);
    int width = al_text_width(right);
    if (used + 2 + width <= r.w)
        (void)al_grid_text(d->g, r.x + r.w - width, r.y, width, AL_STYLE_DIM, right);
}

static void one(struct al_draw *d, struct al_rect r, const struct al_gpu *g, enum al_chart chart, bool gpu) {
    float values[AL_GRID_MAX];
    if (r.w > AL_GRID_MAX || r.w < 1 || r.h < 2)
        return;
    al_history_columns(d->in->history, g->info.uuid, chart, d->in->s->monotonic_ns, al_ui_column_ns(d->ui), values, r.w);
    double top = scale(values, r.w, al_chart_full(g, chart), al_chart_value(d->in->history, g, chart));
    title(d, r, g, chart, top, gpu);
    al_grid_chart(d->g, (struct al_rect){r.x, r.y + 1, r.w, r.h - 1}, values, inks[chart]);
}

// The last column of the screen stays free, the others keep one blank between them.
static struct al_rect framed(struct al_rect r, int screen_w) {
    if (r.x + r.w < screen_w)
        r.w -= 2;
    return r;
}

void al_draw_charts(struct al_draw *d, const char *uuid, bool all_gpus) {
    const struct al_snapshot *s = d->in->s;
    if (!s || d->l->pane[AL_PANE_CHARTS].h < 1 || !d->in->history)
        return;
    if (all_gpus) {
        int in_sight = d->l->charts;
        int first = d->ui->gpu >= in_sight ? d->ui->gpu - in_sight + 1 : 0;
        for (int i = 0; first + i < (int)s->gpu_count && i < in_sight; i++)
            one(d, framed(al_layout_chart(d->l, i), d->g->w), &s->gpus[first + i], d->ui->chart, true);
        return;
    }
    const struct al_gpu *g = al_snapshot_gpu(s, uuid);
    int i = 0;
    for (int c = 0; g && c < AL_CHART_COUNT; c++)
        if (has(d->in, uuid, (enum al_chart)c)) {
            struct al_rect r = framed(al_layout_chart(d->l, i), d->g->w);
            one(d, r, g, (enum al_chart)c, i == 0 && s->gpu_count > 1);
            i++;
        }
}
