// SPDX-License-Identifier: Apache-2.0
// The user's side: what is chosen and open, and what a key or click makes of it. Pure: no terminal, no process.
#ifndef AL_TUI_UI_H
#define AL_TUI_UI_H

#include "tui/layout.h"
#include "tui/scene.h"

// Keys are code points; these lie above them.
enum al_key {
    AL_KEY_NONE = 0x200000,
    AL_KEY_UP,
    AL_KEY_DOWN,
    AL_KEY_LEFT,
    AL_KEY_RIGHT,
    AL_KEY_PAGE_UP,
    AL_KEY_PAGE_DOWN,
    AL_KEY_HOME,
    AL_KEY_END,
    AL_KEY_ENTER,
    AL_KEY_ESCAPE,
    AL_KEY_TAB,
    AL_KEY_BACK_TAB,
    AL_KEY_BACKSPACE,
    AL_KEY_DELETE,
    AL_KEY_RESIZE,
    AL_KEY_MOUSE,
    AL_KEY_F0, // F1 is AL_KEY_F0 + 1
    AL_KEY_F12 = AL_KEY_F0 + 12
};

enum al_mouse { AL_MOUSE_CLICK, AL_MOUSE_DOUBLE, AL_MOUSE_WHEEL_UP, AL_MOUSE_WHEEL_DOWN };

enum al_screen { AL_SCREEN_MAIN, AL_SCREEN_GPU, AL_SCREEN_PROC, AL_SCREEN_FINDING, AL_SCREEN_HELP };
enum al_focus { AL_FOCUS_FINDINGS, AL_FOCUS_GPUS, AL_FOCUS_PROCS, AL_FOCUS_COUNT };
enum al_prompt { AL_PROMPT_NONE, AL_PROMPT_FILTER, AL_PROMPT_SORT, AL_PROMPT_SIGNAL, AL_PROMPT_CONFIRM };

struct al_ui {
    enum al_screen screen, back; // back: where help returns to
    enum al_focus focus;
    enum al_prompt prompt;
    // Chosen by what they are, so that a new order does not choose another.
    char gpu_uuid[AL_UUID_MAX];
    char finding_key[160];
    pid_t pid;            // a folded row: the negative pid of the row above it
    uint64_t start_ticks;
    int gpu, finding, proc; // their rows now
    int gpu_scroll, finding_scroll, proc_scroll, list_scroll;
    int list_lines; // of an open details page, set by drawing
    enum al_sort sort;
    bool reverse, tree, workers, no_charts, no_procs, all_gpus, paused;
    enum al_chart chart; // of the view of all GPUs
    int span;            // index of the charts' time span
    char filter[96], list_filter[96], typed[96]; // of processes, of a details page; being typed
    int choice; // in an open menu
    struct {
        pid_t pid;
        uint64_t start_ticks;
        int number;
        char name[64];
    } target; // of a signal
    int64_t interval_ns;
    char message[160]; // of the last action; "" when none
    bool message_bad;
};

enum al_action { AL_ACTION_NONE, AL_ACTION_QUIT, AL_ACTION_SIGNAL, AL_ACTION_INTERVAL, AL_ACTION_REDRAW };

void al_ui_init(struct al_ui *ui, int64_t interval_ns);
// Finds the chosen things in a new view, keeps them in sight. Call before drawing and before keys.
void al_ui_sync(struct al_ui *ui, const struct al_scene_in *in, const struct al_scene *v, const struct al_layout *l);
enum al_action al_ui_key(struct al_ui *ui, const struct al_scene_in *in, const struct al_scene *v,
                         const struct al_layout *l, uint32_t key);
enum al_action al_ui_mouse(struct al_ui *ui, const struct al_scene_in *in, const struct al_scene *v,
                           const struct al_layout *l, int x, int y, enum al_mouse what);

// What a key does to a line that is being typed.
void al_ui_type(char *text, size_t size, uint32_t key);

// Time that one column of a chart stands for, from the seconds that the whole chart shows.
extern const int al_spans[]; // seconds a 60-column chart shows, ends with 0
int64_t al_ui_column_ns(const struct al_ui *ui);

struct al_signal_row {
    int number;
    const char *name;
    const char *what;
};
extern const struct al_signal_row al_signals[]; // ends with number 0
int al_signal_count(void);

#endif
