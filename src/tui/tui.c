// SPDX-License-Identifier: Apache-2.0
#include "tui/tui.h"

#include <string.h>

#include "base/err.h"

void al_tui_init(struct al_tui *t, int64_t interval_ns, bool ascii, bool color) {
    *t = (struct al_tui){.color = color};
    t->grid.ascii = ascii;
    al_ui_init(&t->ui, interval_ns);
}

void al_tui_free(struct al_tui *t) {
    al_scene_free(&t->view);
    al_grid_free(&t->grid);
    al_buf_free(&t->page);
}

static void main_layout(struct al_tui *t, const struct al_scene_in *in, int w, int h) {
    const struct al_ui *ui = &t->ui;
    const struct al_layout_in wanted = {
        .w = w,
        .h = h,
        .gpus = in->s ? (int)in->s->gpu_count : 0,
        .findings = (int)in->finding_count + al_draw_hung(in),
        .procs = (int)t->view.proc_count,
        .charts = ui->no_charts ? 0 : al_draw_chart_count(in, ui, ui->gpu_uuid, ui->all_gpus),
        .no_procs = ui->no_procs,
    };
    al_layout_main(&wanted, &t->layout);
}

static void main_screen(struct al_tui *t, struct al_draw *d) {
    const struct al_rect *pane = t->layout.pane;
    al_draw_header(d, pane[AL_PANE_HEADER]);
    al_draw_findings(d, pane[AL_PANE_FINDINGS]);
    al_draw_gpus(d, pane[AL_PANE_GPUS]);
    al_draw_charts(d, t->ui.gpu_uuid, t->ui.all_gpus);
    al_draw_procs(d, pane[AL_PANE_PROCS]);
    al_draw_status(d, pane[AL_PANE_STATUS]);
}

static void page_screen(struct al_tui *t, struct al_draw *d) {
    static void (*const make[])(struct al_draw *, int, struct al_buf *) = {
        [AL_SCREEN_GPU] = al_page_gpu,
        [AL_SCREEN_PROC] = al_page_proc,
        [AL_SCREEN_FINDING] = al_page_finding,
        [AL_SCREEN_HELP] = al_page_help,
    };
    const struct al_rect *pane = t->layout.pane;
    al_buf_clear(&t->page);
    make[t->ui.screen](d, pane[AL_PANE_GPUS].w, &t->page);
    al_draw_header(d, pane[AL_PANE_HEADER]);
    if (t->ui.screen == AL_SCREEN_GPU)
        al_draw_charts(d, t->ui.gpu_uuid, false);
    al_draw_page(d, pane[AL_PANE_GPUS], &t->page);
    al_draw_status(d, pane[AL_PANE_STATUS]);
}

int al_tui_frame(struct al_tui *t, const struct al_scene_in *in, int w, int h) {
    struct al_ui *ui = &t->ui;
    const struct al_scene_options options = {ui->sort, ui->reverse, ui->tree, ui->workers, ui->filter};
    int result = al_grid_resize(&t->grid, w, h);
    if (!result)
        result = al_scene_build(&t->view, in, &options);
    if (result)
        return result;
    w = t->grid.w;
    h = t->grid.h;
    if (ui->screen == AL_SCREEN_MAIN)
        main_layout(t, in, w, h);
    else
        al_layout_details(w, h, ui->screen == AL_SCREEN_GPU ? al_draw_chart_count(in, ui, ui->gpu_uuid, false) : 0,
                          &t->layout);
    al_ui_sync(ui, in, &t->view, &t->layout);
    struct al_draw d = {&t->grid, in, &t->view, &t->layout, ui, t->color};
    if (ui->screen == AL_SCREEN_MAIN)
        main_screen(t, &d);
    else
        page_screen(t, &d);
    al_draw_prompt(&d, w, h);
    return t->page.failed ? AL_E_NOMEM : 0;
}

enum al_action al_tui_key(struct al_tui *t, const struct al_scene_in *in, uint32_t key) {
    return al_ui_key(&t->ui, in, &t->view, &t->layout, key);
}

enum al_action al_tui_mouse(struct al_tui *t, const struct al_scene_in *in, int x, int y, enum al_mouse what) {
    return al_ui_mouse(&t->ui, in, &t->view, &t->layout, x, y, what);
}
