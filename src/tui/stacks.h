// SPDX-License-Identifier: Apache-2.0
// The screen of alula stacks: what runs, as a table of functions, lines or threads. Pure: rows go in, cells come out.
#ifndef AL_TUI_STACKS_H
#define AL_TUI_STACKS_H

#include "export/hot.h"
#include "tui/cell.h"
#include "tui/ui.h"

struct al_stacks_ui {
    struct al_hot_query query; // its filter is the text below
    char filter[96], typed[96];
    bool typing, help, paused;
    uint32_t open; // the function that is looked at, AL_PROFILE_NONE none
    char open_name[160];
    char thread_name[96]; // of query.track; "" all threads
    enum al_hot_by back;  // what rows were before they were threads
    int row, scroll; // chosen row; first one in sight
    int page, top;   // set by drawing: rows a page, the line of their heading
    char message[160];
};

struct al_stacks_in {
    const struct al_hot_view *view;
    const struct al_hot_view *around; // [3] of the function that is looked at: its lines, callers, what it called
    const struct al_profile *profile; // names of the threads' most frequent frames
    const char *title;                // "process 4242, rank 0 of 2, Python 3.11.2"
    const char *command;
    const char *ended;   // why no samples come any more; NULL: they do
    const char *said;    // the last error; "" none
    double rate, own;    // samples a second; CPU time of alula in cores
    double window_s;     // length of the window
    double moved, unreadable; // shares of the stacks that were read, since the start
    uint64_t late;       // samples that were left out
    uint32_t processes;
    bool no_gil;         // the interpreter has none
    int64_t realtime_ns; // 0: not shown
};

enum al_stacks_action { AL_STACKS_NONE, AL_STACKS_QUIT, AL_STACKS_RESET, AL_STACKS_REDRAW };

void al_stacks_ui_init(struct al_stacks_ui *ui);
// Draws everything at the grid's size.
void al_stacks_draw(struct al_grid *g, const struct al_stacks_in *in, struct al_stacks_ui *ui);
enum al_stacks_action al_stacks_key(struct al_stacks_ui *ui, const struct al_stacks_in *in, uint32_t key);
enum al_stacks_action al_stacks_mouse(struct al_stacks_ui *ui, const struct al_stacks_in *in, int y, enum al_mouse what);

// Words that screen, table and --sort share.
const char *al_stacks_sort_word(enum al_hot_sort sort);
// "GIL held 71 %; threads 14: running 1.2, waiting for the GIL 0.3, idle 12.5"; "" without samples.
void al_stacks_state_text(char *out, size_t size, const struct al_stacks_in *in);

#endif
