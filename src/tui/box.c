// SPDX-License-Identifier: Apache-2.0
// Menus and questions over the screen.
#include <stdio.h>

#include "base/str.h"
#include "tui/draw.h"

static void frame(struct al_draw *d, struct al_rect r, const char *title) {
    al_grid_fill(d->g, r, ' ', AL_STYLE_REVERSE);
    (void)al_grid_text(d->g, r.x + 1, r.y, r.w - 2, AL_STYLE_REVERSE | AL_STYLE_BOLD, title);
}

static void entry_text(enum al_prompt prompt, int i, char *out, size_t size) {
    if (prompt == AL_PROMPT_SORT)
        (void)snprintf(out, size, "%s", al_sort_word((uint32_t)i));
    else
        (void)snprintf(out, size, "%2d %-8s %s", al_signals[i].number, al_signals[i].name, al_signals[i].what);
}

static void menu(struct al_draw *d, int w, int h) {
    bool sort = d->ui->prompt == AL_PROMPT_SORT;
    int count = sort ? AL_SORT_COUNT : al_signal_count();
    char text[160];
    struct al_rect r = al_layout_box(w, h, sort ? 28 : 66, count + 2);
    int rows = r.h > 2 ? r.h - 2 : r.h, top = r.h > 2 ? 1 : 0;
    if (sort)
        (void)snprintf(text, sizeof text, "sort by");
    else
        (void)snprintf(text, sizeof text, "signal to %d %s", (int)d->ui->target.pid, d->ui->target.name);
    frame(d, r, top ? text : "");
    int first = d->ui->choice >= rows ? d->ui->choice - rows + 1 : 0;
    for (int i = 0; i < rows && first + i < count; i++) {
        bool chosen = first + i == d->ui->choice;
        struct al_rect line = {r.x + 1, r.y + top + i, r.w - 2, 1};
        entry_text(d->ui->prompt, first + i, text, sizeof text);
        if (chosen)
            al_grid_fill(d->g, line, ' ', AL_INK_COOL | AL_STYLE_BOLD);
        (void)al_grid_text(d->g, line.x + 1, line.y, line.w - 2, chosen ? AL_INK_COOL | AL_STYLE_BOLD : AL_STYLE_REVERSE, text);
    }
    if (top)
        (void)al_grid_text(d->g, r.x + 1, r.y + r.h - 1, r.w - 2, AL_STYLE_REVERSE, "Enter chooses, Esc goes back");
}

static void question(struct al_draw *d, int w, int h) {
    char text[200];
    const char *name = "?";
    for (int i = 0; al_signals[i].number; i++)
        if (al_signals[i].number == d->ui->target.number)
            name = al_signals[i].name;
    struct al_rect r = al_layout_box(w, h, 70, 4);
    frame(d, r, "are you sure?");
    (void)snprintf(text, sizeof text, "Send %s to %d %s?", name, (int)d->ui->target.pid, d->ui->target.name);
    if (r.h < 3) { // the question matters more than the title
        (void)al_grid_text(d->g, r.x, r.y, r.w, AL_STYLE_REVERSE | AL_STYLE_BOLD, text);
        return;
    }
    (void)al_grid_text(d->g, r.x + 1, r.y + 1, r.w - 2, AL_STYLE_REVERSE, text);
    (void)al_grid_text(d->g, r.x + 1, r.y + 2, r.w - 2, AL_STYLE_REVERSE | AL_STYLE_BOLD, "y sends it, any other key does not");
}

void al_draw_prompt(struct al_draw *d, int w, int h) {
    switch (d->ui->prompt) {
    case AL_PROMPT_SORT:
    case AL_PROMPT_SIGNAL: menu(d, w, h); break;
    case AL_PROMPT_CONFIRM: question(d, w, h); break;
    default: break;
    }
}
