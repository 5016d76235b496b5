// SPDX-License-Identifier: Apache-2.0
// The full-screen view: what the session has goes in, cells come out; keys and clicks go in, wishes come out.
#ifndef AL_TUI_TUI_H
#define AL_TUI_TUI_H

#include "base/buf.h"
#include "tui/draw.h"

struct al_tui {
    struct al_ui ui;
    struct al_scene view;
    struct al_layout layout;
    struct al_grid grid;
    struct al_buf page;
    bool color;
};

void al_tui_init(struct al_tui *t, int64_t interval_ns, bool ascii, bool color);
void al_tui_free(struct al_tui *t);
// Draws everything into t->grid at this size. AL_E_NOMEM.
int al_tui_frame(struct al_tui *t, const struct al_scene_in *in, int w, int h);
// What a key means for the last frame.
enum al_action al_tui_key(struct al_tui *t, const struct al_scene_in *in, uint32_t key);
enum al_action al_tui_mouse(struct al_tui *t, const struct al_scene_in *in, int x, int y, enum al_mouse what);

#endif
