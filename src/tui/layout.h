// SPDX-License-Identifier: Apache-2.0
// Where everything goes: a pure function of the terminal's size and of how much there is to show.
#ifndef AL_TUI_LAYOUT_H
#define AL_TUI_LAYOUT_H

#include "tui/cell.h"

enum al_pane { AL_PANE_HEADER, AL_PANE_FINDINGS, AL_PANE_GPUS, AL_PANE_CHARTS, AL_PANE_PROCS, AL_PANE_STATUS, AL_PANE_COUNT };

struct al_layout_in {
    int w, h;
    int gpus, findings, procs; // rows there are
    int charts;                // charts that may be drawn, 0: none wanted
    bool no_procs;             // process table switched off
};

// A pane that has no room has w == h == 0. The others lie inside the screen, one below the other, and cover it.
struct al_layout {
    struct al_rect pane[AL_PANE_COUNT];
    bool gpu_head, proc_head;       // the first line of the pane names the columns
    int gpu_columns;                // GPUs side by side
    int gpu_lines;                  // lines a GPU: 1 or 2
    int gpu_rows;                   // rows of GPUs that are in sight
    int chart_columns, chart_rows;
    int charts;                     // in sight; those of the last row share its width
};

#define AL_GPU_CELL_MIN 38 // columns that a GPU beside another needs
#define AL_CHART_W 27      // columns that a chart likes
#define AL_CHART_H 5       // lines that a chart likes, its title included
#define AL_CHART_H_MIN 4

void al_layout_main(const struct al_layout_in *in, struct al_layout *ret);
// The i-th chart of a layout; w == 0 when i is not in sight.
struct al_rect al_layout_chart(const struct al_layout *l, int i);
// Details of a GPU: charts above (when there is room), the list below. One line at the top is the title, one at the
// bottom the status line where h allows.
void al_layout_details(int w, int h, int charts, struct al_layout *ret);
// A box of about w x h in the middle of a screen, cut to it.
struct al_rect al_layout_box(int screen_w, int screen_h, int w, int h);

#endif
