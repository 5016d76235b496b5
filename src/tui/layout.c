// SPDX-License-Identifier: Apache-2.0
#include "tui/layout.h"

static int least(int a, int b) {
    return a < b ? a : b;
}
static int most(int a, int b) {
    return a > b ? a : b;
}
static int up(int a, int b) {
    return (a + b - 1) / b;
}

static int finding_lines(int h, int findings) {
    if (h < 6)
        return 0;
    int most_lines = h >= 40 ? 6 : h >= 30 ? 4 : h >= 20 ? 3 : h >= 12 ? 2 : 1;
    return most(1, least(findings, most_lines)); // without a finding one line says so
}

// Lines of the GPU pane out of `room`, of which `keep` should stay for the processes.
static int gpu_lines(const struct al_layout_in *in, int room, int keep, struct al_layout *l) {
    int n = most(in->gpus, 1), space = most(room - keep, 1);
    l->gpu_head = space >= 3;
    l->gpu_columns = l->gpu_lines = 1;
    space -= l->gpu_head;
    if (n > space)
        l->gpu_columns = most(1, least(in->w / AL_GPU_CELL_MIN, up(n, space)));
    else if (in->w >= 60 && 2 * n <= space && 2 * n + l->gpu_head <= room * 40 / 100)
        l->gpu_lines = 2;
    l->gpu_columns = up(n, up(n, l->gpu_columns)); // none without a GPU
    l->gpu_rows = least(up(n, l->gpu_columns), most(1, space / l->gpu_lines));
    return l->gpu_rows * l->gpu_lines + l->gpu_head;
}

static void place(struct al_layout *l, enum al_pane pane, int w, int *y, int h) {
    if (h > 0) {
        l->pane[pane] = (struct al_rect){0, *y, w, h};
        *y += h;
    }
}

static void chart_grid(int w, int h, int charts, struct al_layout *l) {
    l->chart_columns = most(1, least(w / AL_CHART_W, charts));
    int rows = most(1, least(h / AL_CHART_H, up(charts, l->chart_columns)));
    // As few rows as hold them all; wider charts rather than empty places.
    while (rows > 1 && (rows - 1) * l->chart_columns >= charts)
        rows--;
    l->chart_columns = most(1, least(l->chart_columns, up(charts, rows)));
    l->chart_rows = rows;
    l->charts = least(charts, rows * l->chart_columns);
}

// Lines for charts out of what GPUs and the least of processes leave.
static int chart_lines(const struct al_layout_in *in, int room, int keep, struct al_layout *l) {
    if (in->charts <= 0 || in->w < 20 || room - keep < AL_CHART_H_MIN)
        return 0;
    int columns = most(1, least(in->w / AL_CHART_W, in->charts));
    // On a small screen the processes come first.
    int most_procs = in->h < 20 ? room : room / 2;
    int rows = up(in->charts, columns), wanted = in->no_procs ? 0 : most(keep, least(in->procs + 1, most_procs));
    if (room - wanted < AL_CHART_H_MIN)
        return 0;
    int h = least(most(room - wanted, AL_CHART_H_MIN), in->no_procs ? room : most(rows * 9, AL_CHART_H_MIN));
    chart_grid(in->w, h, in->charts, l);
    return h;
}

void al_layout_main(const struct al_layout_in *in, struct al_layout *ret) {
    struct al_layout *l = ret;
    *l = (struct al_layout){.gpu_columns = 1, .gpu_lines = 1, .gpu_rows = 1};
    int w = in->w, left = in->h, y = 0;
    if (w < 1 || left < 1)
        return;
    int status = left >= 3;
    left -= status;
    int header = left >= 24 ? 2 : left >= 4;
    left -= header;
    int findings = finding_lines(in->h, in->findings);
    left -= findings;
    int keep = in->no_procs ? 0 : left >= 8 ? most(4, least(in->procs + 1, left / 4)) : left >= 4 ? 2 : 0;
    int gpus = least(gpu_lines(in, left, keep, l), left);
    left -= gpus;
    int charts = chart_lines(in, left, keep, l);
    left -= charts;
    int procs = in->no_procs ? 0 : left;
    if (in->no_procs) { // somebody has to take the rest
        if (charts)
            charts += left;
        else
            gpus += left;
    }
    l->proc_head = procs >= 2;
    place(l, AL_PANE_HEADER, w, &y, header);
    place(l, AL_PANE_FINDINGS, w, &y, findings);
    place(l, AL_PANE_GPUS, w, &y, gpus);
    place(l, AL_PANE_CHARTS, w, &y, charts);
    place(l, AL_PANE_PROCS, w, &y, procs);
    place(l, AL_PANE_STATUS, w, &y, status);
}

struct al_rect al_layout_chart(const struct al_layout *l, int i) {
    struct al_rect p = l->pane[AL_PANE_CHARTS], none = {0, 0, 0, 0};
    if (i < 0 || p.h < 1 || i >= l->charts)
        return none;
    int column = i % l->chart_columns, row = i / l->chart_columns;
    int columns = least(l->chart_columns, l->charts - row * l->chart_columns);
    int x0 = p.w * column / columns, x1 = p.w * (column + 1) / columns;
    int y0 = p.h * row / l->chart_rows, y1 = p.h * (row + 1) / l->chart_rows;
    return (struct al_rect){p.x + x0, p.y + y0, x1 - x0, y1 - y0};
}

void al_layout_details(int w, int h, int charts, struct al_layout *ret) {
    struct al_layout *l = ret;
    *l = (struct al_layout){.gpu_columns = 1, .gpu_lines = 1, .gpu_rows = 1};
    if (w < 1 || h < 1)
        return;
    int status = h >= 3, header = h >= 2, left = h - status - header, y = 0;
    int chart_h = 0;
    if (charts > 0 && w >= 20 && left >= 3 * AL_CHART_H_MIN) {
        int columns = most(1, least(w / AL_CHART_W, charts));
        chart_h = least(left * 45 / 100, up(charts, columns) * (AL_CHART_H + 1));
        chart_grid(w, chart_h, charts, l);
        left -= chart_h;
    }
    place(l, AL_PANE_HEADER, w, &y, header);
    place(l, AL_PANE_CHARTS, w, &y, chart_h);
    place(l, AL_PANE_GPUS, w, &y, left); // the list
    place(l, AL_PANE_STATUS, w, &y, status);
}

struct al_rect al_layout_box(int screen_w, int screen_h, int w, int h) {
    w = least(w, screen_w);
    h = least(h, screen_h);
    return (struct al_rect){(screen_w - w) / 2, (screen_h - h) / 2, w, h};
}
