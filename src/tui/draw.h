// SPDX-License-Identifier: Apache-2.0
// Drawing of the panes into cells. Each takes the rectangle that the layout gave it.
#ifndef AL_TUI_DRAW_H
#define AL_TUI_DRAW_H

#include "base/buf.h"
#include "tui/text.h"
#include "tui/ui.h"

struct al_draw {
    struct al_grid *g;
    const struct al_scene_in *in;
    const struct al_scene *v;
    const struct al_layout *l;
    struct al_ui *ui; // drawing tells it how long a page is
    bool color;       // false: levels are told by attributes alone
};

void al_draw_header(struct al_draw *d, struct al_rect r);
void al_draw_findings(struct al_draw *d, struct al_rect r);
void al_draw_status(struct al_draw *d, struct al_rect r);
void al_draw_gpus(struct al_draw *d, struct al_rect r);
void al_draw_charts(struct al_draw *d, const char *uuid, bool all_gpus);
void al_draw_procs(struct al_draw *d, struct al_rect r);
void al_draw_prompt(struct al_draw *d, int w, int h);
// How many charts there are to draw: kinds that this GPU ever had, or GPUs.
int al_draw_chart_count(const struct al_scene_in *in, const struct al_ui *ui, const char *uuid, bool all_gpus);

// A page of lines: what details and help show. Each line begins with its style byte + 1 and ends with '\n'.
void al_page_line(struct al_buf *page, uint8_t style, const char *text);
void al_page_wrap(struct al_buf *page, int w, uint8_t style, const char *label, const char *text);
void al_draw_page(struct al_draw *d, struct al_rect r, const struct al_buf *page);
void al_page_gpu(struct al_draw *d, int w, struct al_buf *page);
void al_page_proc(struct al_draw *d, int w, struct al_buf *page);
// What a rank tells of itself; nothing for NULL.
void al_page_rank(struct al_draw *d, int w, struct al_buf *page, const struct al_rank *r);
// A metric's line: name, value, age, meaning or why there is no value.
void al_page_value(struct al_buf *page, const struct al_snapshot *s, const char *name, enum al_unit unit, struct al_value v,
                   const char *help);
void al_page_finding(struct al_draw *d, int w, struct al_buf *page);
void al_page_help(struct al_draw *d, int w, struct al_buf *page);

// True when a driver call hangs or no reading comes in: a line of its own says so.
bool al_draw_hung(const struct al_scene_in *in);
// The column of the process table at x of w: an enum al_sort, or -1.
int al_draw_proc_sort_at(const struct al_scene *v, int w, int x);
// "GPU 3", or "GPU 0:1" for MIG.
void al_draw_gpu_label(const struct al_snapshot *s, const struct al_gpu *g, char out[AL_TXT]);
// By level: good, warn, bad.
uint8_t al_draw_level(enum al_level level);
uint8_t al_draw_memory_style(double share);
uint8_t al_draw_temp_style(const struct al_gpu *g);

#endif
