// SPDX-License-Identifier: Apache-2.0
// GPUs as rows: the columns that the width allows, the most telling ones first.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "tui/draw.h"

enum column {
    COL_ID,
    COL_NAME,
    COL_UTIL_BAR,
    COL_UTIL,
    COL_SPARK,
    COL_MEM_BAR,
    COL_MEM,
    COL_POWER,
    COL_TEMP,
    COL_CLOCK,
    COL_SM,
    COL_TENSOR,
    COL_DRAM,
    COL_PCIE,
    COL_NVLINK,
    COL_HELD,
    COL_AGE,
    COL_COUNT
};

// In the order in which they stand; room goes by rank. flex: takes a share of what is left.
static const struct {
    const char *title;
    int width, rank;
    bool flex, right;
} columns[COL_COUNT] = {
    [COL_ID] = {"GPU", 3, 0, false, true},        [COL_NAME] = {"name", 11, 14, false, false},
    [COL_UTIL_BAR] = {"utilisation", 6, 6, true, false}, [COL_UTIL] = {"util", 5, 2, false, true},
    [COL_SPARK] = {"", 16, 15, true, false},      [COL_MEM_BAR] = {"memory", 6, 7, true, false},
    [COL_MEM] = {"memory", 10, 3, false, true},   [COL_POWER] = {"power", 9, 5, false, true},
    [COL_TEMP] = {"temp", 6, 4, false, true},     [COL_CLOCK] = {"clock", 8, 12, false, true},
    [COL_SM] = {"SM", 5, 8, false, true},         [COL_TENSOR] = {"tens", 5, 9, false, true},
    [COL_DRAM] = {"DRAM", 5, 10, false, true},    [COL_PCIE] = {"PCIe in/out", 17, 16, false, true},
    [COL_NVLINK] = {"NVLink in/out", 17, 17, false, true}, [COL_HELD] = {"held by", 13, 11, false, false},
    [COL_AGE] = {"age", 4, 1, false, true},
};

struct plan {
    int width[COL_COUNT]; // 0: not there
};

static bool wanted(const struct al_draw *d, int column, bool second_line) {
    const struct al_snapshot *s = d->in->s;
    char held[64];
    bool bad;
    switch (column) {
    case COL_PCIE:
    case COL_NVLINK:
    case COL_CLOCK:
        if (second_line)
            return false;
        break;
    case COL_HELD:
        for (uint32_t i = 0; !second_line && i < s->gpu_count; i++) {
            al_txt_throttle(held, sizeof held, s->gpus[i].m[AL_GPU_THROTTLE], &bad);
            if (bad)
                return true;
        }
        return false;
    case COL_AGE:
        for (uint32_t i = 0; i < s->gpu_count; i++)
            if (al_scene_stale_ns(s, &s->gpus[i]))
                return true;
        return false;
    default: break;
    }
    static const enum al_chart charts[COL_COUNT] = {
        [COL_SM] = AL_CHART_SM,           [COL_TENSOR] = AL_CHART_TENSOR,    [COL_DRAM] = AL_CHART_DRAM,
        [COL_PCIE] = AL_CHART_PCIE_RX,    [COL_NVLINK] = AL_CHART_NVLINK_RX,
    };
    if (!charts[column])
        return true;
    // A column that no GPU here ever fills is left out.
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (al_txt_has(al_chart_value(d->in->history, &s->gpus[i], charts[column])))
            return true;
    return false;
}

// MIG devices have longer names ("0:13") and odd sizes ("20.0M/16.2G").
static int width_of(const struct al_snapshot *s, int column) {
    bool mig = false;
    for (uint32_t i = 0; i < s->gpu_count; i++)
        mig |= s->gpus[i].info.is_mig;
    return columns[column].width + (!mig ? 0 : column == COL_ID ? 3 : column == COL_MEM ? 1 : 0);
}

static void make_plan(const struct al_draw *d, int w, struct plan *ret) {
    int left = w, flexible = 0;
    memset(ret, 0, sizeof *ret);
    for (int rank = 0; rank < 20; rank++)
        for (int c = 0; c < COL_COUNT; c++) {
            int width = width_of(d->in->s, c);
            if (columns[c].rank != rank || width + (left < w) > left || !wanted(d, c, d->l->gpu_lines > 1))
                continue;
            left -= width + (left < w);
            ret->width[c] = width;
            flexible += columns[c].flex;
        }
    if (left == w)
        ret->width[COL_ID] = w; // even one column shows something
    for (int c = 0; c < COL_COUNT && flexible; c++)
        if (ret->width[c] && columns[c].flex) {
            int share = left / flexible--;
            ret->width[c] += share;
            left -= share;
        }
}

uint8_t al_draw_memory_style(double share) {
    return share >= 0.97 ? AL_INK_BAD : share >= 0.90 ? AL_INK_WARN : AL_INK_COOL;
}

uint8_t al_draw_temp_style(const struct al_gpu *g) {
    struct al_value margin = g->m[AL_GPU_TEMP_MARGIN], t = g->m[AL_GPU_TEMP], slow = g->m[AL_GPU_TEMP_SLOWDOWN];
    double left = al_txt_has(margin) ? margin.num : al_txt_has(t) && al_txt_has(slow) ? slow.num - t.num : 100;
    return left <= 3 ? AL_INK_BAD : left <= 8 ? AL_INK_WARN : AL_INK_PLAIN;
}

static uint8_t util_style(struct al_value v) {
    return v.num < 0.2 ? AL_INK_WARN : AL_INK_GOOD;
}

static uint8_t aged(uint8_t style, struct al_value v) {
    return v.status == AL_STATUS_STALE ? AL_STYLE_DIM : style;
}

static double share(struct al_value v, struct al_value of) {
    return al_txt_has(v) && al_txt_has(of) && of.num > 0 ? v.num / of.num : (double)NAN;
}

static void cell_text(struct al_draw *d, int x, int y, int w, int column, uint8_t style, const char *text) {
    if (columns[column].right)
        (void)al_grid_text_right(d->g, x, y, w, style, text);
    else
        (void)al_grid_text(d->g, x, y, w, style, text);
}

void al_draw_gpu_label(const struct al_snapshot *s, const struct al_gpu *g, char out[AL_TXT]) {
    if (g->info.is_mig && g->info.parent >= 0 && (uint32_t)g->info.parent < s->gpu_count)
        (void)snprintf(out, AL_TXT, "GPU %u:%u", s->gpus[g->info.parent].info.index, g->info.gpu_instance);
    else
        (void)snprintf(out, AL_TXT, "GPU %u", g->info.index);
}

static void two_rates(struct al_draw *d, const struct al_gpu *g, enum al_chart in, enum al_chart out, char text[AL_TXT * 2]) {
    char a[AL_TXT], b[AL_TXT];
    al_txt_short(a, AL_UNIT_BYTES_PER_SECOND, al_chart_value(d->in->history, g, in));
    al_txt_short(b, AL_UNIT_BYTES_PER_SECOND, al_chart_value(d->in->history, g, out));
    (void)snprintf(text, (size_t)AL_TXT * 2, "%s %s", a, b);
}

static void spark(struct al_draw *d, struct al_rect r, const struct al_gpu *g, enum al_chart chart, uint8_t style) {
    float values[AL_GRID_MAX];
    double full = al_chart_full(g, chart);
    if (r.w > AL_GRID_MAX || !d->in->history || full <= 0)
        return;
    al_history_columns(d->in->history, g->info.uuid, chart, d->in->s->monotonic_ns, al_ui_column_ns(d->ui), values, r.w);
    for (int i = 0; i < r.w; i++)
        values[i] = (float)((double)values[i] / full);
    al_grid_chart(d->g, r, values, style);
}

static void gauge(struct al_draw *d, const struct al_gpu *g, int column, int x, int y, int w) {
    struct al_value util = al_chart_value(NULL, g, AL_CHART_UTIL), used = g->m[AL_GPU_MEM_USED];
    double memory = share(used, g->m[AL_GPU_MEM_TOTAL]);
    if (column == COL_UTIL_BAR)
        al_grid_bar(d->g, x, y, w, al_txt_has(util) ? util.num : (double)NAN, aged(util_style(util), util));
    else if (column == COL_MEM_BAR)
        al_grid_bar(d->g, x, y, w, memory, aged(al_draw_memory_style(memory), used));
    else
        spark(d, (struct al_rect){x, y, w, 1}, g, AL_CHART_UTIL, AL_INK_GOOD);
}

static void figure(struct al_draw *d, const struct al_gpu *g, int column, int x, int y, int w) {
    static const enum al_chart ratios[COL_COUNT] = {[COL_SM] = AL_CHART_SM, [COL_TENSOR] = AL_CHART_TENSOR, [COL_DRAM] = AL_CHART_DRAM};
    char text[AL_TXT * 2] = "";
    bool bad = false;
    struct al_value v = al_value_none(AL_STATUS_OK), limit = g->m[AL_GPU_POWER_ENFORCED];
    uint8_t style = AL_INK_PLAIN;
    switch (column) {
    case COL_ID: al_draw_gpu_label(d->in->s, g, text); memmove(text, text + 4, strlen(text + 4) + 1); style = AL_STYLE_BOLD; break;
    case COL_NAME: (void)al_str_copy(text, sizeof text, al_txt_gpu_name(g)); break;
    case COL_UTIL: v = al_chart_value(NULL, g, AL_CHART_UTIL); al_txt_short(text, AL_UNIT_RATIO, v); style = util_style(v); break;
    case COL_MEM:
        v = g->m[AL_GPU_MEM_USED];
        al_txt_of(text, AL_UNIT_BYTES, v, g->m[AL_GPU_MEM_TOTAL]);
        style = al_draw_memory_style(share(v, g->m[AL_GPU_MEM_TOTAL]));
        break;
    case COL_POWER:
        v = g->m[AL_GPU_POWER];
        al_txt_of(text, AL_UNIT_WATTS, v, al_txt_has(limit) ? limit : g->m[AL_GPU_POWER_LIMIT]);
        style = share(v, limit) >= 0.98 ? AL_INK_WARN : AL_INK_PLAIN;
        break;
    case COL_TEMP: v = g->m[AL_GPU_TEMP]; al_txt_short(text, AL_UNIT_CELSIUS, v); style = al_draw_temp_style(g); break;
    case COL_CLOCK: v = g->m[AL_GPU_CLOCK_SM]; al_txt_short(text, AL_UNIT_HERTZ, v); break;
    case COL_SM:
    case COL_TENSOR:
    case COL_DRAM: v = al_chart_value(NULL, g, ratios[column]); al_txt_short(text, AL_UNIT_RATIO, v); break;
    case COL_PCIE: two_rates(d, g, AL_CHART_PCIE_RX, AL_CHART_PCIE_TX, text); break;
    case COL_NVLINK: two_rates(d, g, AL_CHART_NVLINK_RX, AL_CHART_NVLINK_TX, text); break;
    case COL_HELD: al_txt_throttle(text, sizeof text, g->m[AL_GPU_THROTTLE], &bad); style = bad ? AL_INK_WARN : AL_STYLE_DIM; break;
    case COL_AGE:
        if (al_scene_stale_ns(d->in->s, g))
            al_txt_age(text, al_scene_stale_ns(d->in->s, g));
        style = AL_INK_BAD;
        break;
    default: break;
    }
    cell_text(d, x, y, w, column, aged(strcmp(text, "-") == 0 ? AL_STYLE_DIM : style, v), text);
}

static void first_line(struct al_draw *d, const struct plan *plan, const struct al_gpu *g, int x, int y, int w) {
    int at = x;
    for (int c = 0; c < COL_COUNT; c++) {
        if (!plan->width[c])
            continue;
        if (g->info.status != AL_STATUS_OK && c > COL_NAME) {
            (void)al_grid_text(d->g, at, y, x + w - at, AL_INK_BAD | AL_STYLE_BOLD, al_status_text(g->info.status));
            return;
        }
        if (c == COL_UTIL_BAR || c == COL_MEM_BAR || c == COL_SPARK)
            gauge(d, g, c, at, y, plan->width[c]);
        else
            figure(d, g, c, at, y, plan->width[c]);
        at += plan->width[c] + 1;
    }
}

static void part(char *out, size_t size, const char *format, const char *a, const char *b) {
    size_t len = strlen(out);
    if (len + 1 < size)
        (void)snprintf(out + len, size - len, format, a, b);
}

static void link_parts(struct al_draw *d, const struct al_gpu *g, char *out, size_t size) {
    char rates[AL_TXT * 2], a[AL_TXT], b[AL_TXT];
    if (al_txt_has(g->m[AL_GPU_PCIE_GEN]) && al_txt_has(g->m[AL_GPU_PCIE_WIDTH])) {
        al_txt_short(a, AL_UNIT_COUNT, g->m[AL_GPU_PCIE_GEN]);
        al_txt_short(b, AL_UNIT_COUNT, g->m[AL_GPU_PCIE_WIDTH]);
        part(out, size, "  PCIe %s×%s", a, b);
    }
    if (al_txt_has(al_chart_value(d->in->history, g, AL_CHART_PCIE_RX))) {
        two_rates(d, g, AL_CHART_PCIE_RX, AL_CHART_PCIE_TX, rates);
        part(out, size, " in/out %s%s", rates, "");
    }
    if (al_txt_has(g->m[AL_GPU_NVLINK_LINKS]) && g->m[AL_GPU_NVLINK_LINKS].num > 0) {
        al_txt_short(a, AL_UNIT_COUNT, g->m[AL_GPU_NVLINK_ACTIVE]);
        al_txt_short(b, AL_UNIT_COUNT, g->m[AL_GPU_NVLINK_LINKS]);
        part(out, size, "  NVLink %s/%s", a, b);
    } else {
        return; // the activity counters tell rates of links that are not there: 0
    }
    if (al_txt_has(al_chart_value(d->in->history, g, AL_CHART_NVLINK_RX))) {
        two_rates(d, g, AL_CHART_NVLINK_RX, AL_CHART_NVLINK_TX, rates);
        part(out, size, " in/out %s%s", rates, "");
    }
}

static void second_line(struct al_draw *d, const struct al_gpu *g, int x, int y, int w) {
    char text[400] = "", a[AL_TXT], b[AL_TXT], held[96];
    bool bad;
    if (g->info.status != AL_STATUS_OK)
        return;
    al_txt_short(a, AL_UNIT_HERTZ, g->m[AL_GPU_CLOCK_SM]);
    al_txt_short(b, AL_UNIT_HERTZ, g->m[AL_GPU_CLOCK_MEM]);
    part(text, sizeof text, "SM %s%s", a, "");
    if (al_txt_has(g->m[AL_GPU_CLOCK_MEM]))
        part(text, sizeof text, "  memory %s%s", b, "");
    if (al_txt_has(g->m[AL_GPU_PSTATE])) {
        al_txt_short(a, AL_UNIT_COUNT, g->m[AL_GPU_PSTATE]);
        part(text, sizeof text, "  P%s%s", a, "");
    }
    if (al_txt_has(g->m[AL_GPU_FAN])) {
        al_txt_short(a, AL_UNIT_RATIO, g->m[AL_GPU_FAN]);
        part(text, sizeof text, "  fan %s%s", a, "");
    }
    link_parts(d, g, text, sizeof text);
    al_txt_throttle(held, sizeof held, g->m[AL_GPU_THROTTLE], &bad);
    int at = x + 4, used = 0;
    if (bad) {
        used = al_grid_text(d->g, at, y, w - 4, AL_INK_WARN, "held by ");
        used += al_grid_text(d->g, at + used, y, w - 4 - used, AL_INK_WARN, held);
        used += 2;
    }
    (void)al_grid_text(d->g, at + used, y, w - 4 - used, AL_STYLE_DIM, text);
}

static void heads(struct al_draw *d, const struct plan *plan, struct al_rect r, int cell_w) {
    al_grid_fill(d->g, (struct al_rect){r.x, r.y, r.w, 1}, ' ', AL_STYLE_LINE);
    for (int column = 0; column < d->l->gpu_columns; column++) {
        int at = r.x + r.w * column / d->l->gpu_columns;
        for (int c = 0; c < COL_COUNT; c++) {
            // The figure stands beside its bar: one title for both.
            bool said = (c == COL_UTIL && plan->width[COL_UTIL_BAR] > 10) || (c == COL_MEM && plan->width[COL_MEM_BAR] > 6);
            const char *title = said ? "" : c == COL_UTIL_BAR && plan->width[c] < 11 ? "" : columns[c].title;
            if (c == COL_MEM_BAR && plan->width[c] <= 6)
                title = "";
            if (plan->width[c])
                cell_text(d, at, r.y, plan->width[c], c, AL_STYLE_LINE | AL_STYLE_BOLD, title);
            at += plan->width[c] ? plan->width[c] + 1 : 0;
        }
        (void)cell_w;
    }
}

static void choose(struct al_draw *d, int x, int y, int w) {
    for (int i = 0; i < w; i++) {
        const struct al_cell *c = al_grid_at(d->g, x + i, y);
        if (c)
            al_grid_restyle(d->g, (struct al_rect){x + i, y, 1, 1}, c->style | AL_STYLE_REVERSE);
    }
}

void al_draw_gpus(struct al_draw *d, struct al_rect r) {
    const struct al_snapshot *s = d->in->s;
    if (r.h < 1)
        return;
    if (!s || !s->gpu_count) {
        (void)al_grid_text(d->g, r.x, r.y, r.w, AL_STYLE_DIM, s ? "no GPU" : "waiting for the first reading …");
        return;
    }
    struct plan plan;
    int n = (int)s->gpu_count, rows = (n + d->l->gpu_columns - 1) / d->l->gpu_columns;
    int gap = d->l->gpu_columns > 1, cell_w = r.w / d->l->gpu_columns - gap;
    make_plan(d, cell_w, &plan);
    if (d->l->gpu_head)
        heads(d, &plan, r, cell_w);
    for (int column = 0; column < d->l->gpu_columns; column++)
        for (int row = 0; row < d->l->gpu_rows; row++) {
            int i = column * rows + row + d->ui->gpu_scroll, y = r.y + d->l->gpu_head + row * d->l->gpu_lines;
            if (row + d->ui->gpu_scroll >= rows || i >= n || y >= r.y + r.h)
                continue;
            int x = r.x + r.w * column / d->l->gpu_columns;
            first_line(d, &plan, &s->gpus[i], x, y, cell_w);
            if (d->l->gpu_lines > 1)
                second_line(d, &s->gpus[i], x, y + 1, cell_w);
            if (d->ui->focus == AL_FOCUS_GPUS && i == d->ui->gpu && n > 1)
                choose(d, x, y, plan.width[COL_ID] + (plan.width[COL_NAME] ? plan.width[COL_NAME] + 1 : 0));
        }
}
