// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "tui/stacks.h"

const char *al_stacks_sort_word(enum al_hot_sort sort) {
    static const char *const words[] = {"self", "total", "self-time", "total-time", "name", "difference"};
    return (size_t)sort < sizeof words / sizeof words[0] ? words[sort] : NULL;
}

void al_stacks_ui_init(struct al_stacks_ui *ui) {
    *ui = (struct al_stacks_ui){.open = AL_PROFILE_NONE};
    ui->query.track = AL_PROFILE_NONE;
}

static void sort_by(struct al_stacks_ui *ui, enum al_hot_sort sort) {
    ui->query.reverse = ui->query.sort == sort && !ui->query.reverse;
    ui->query.sort = sort;
    ui->row = ui->scroll = 0;
}

static void rows_are(struct al_stacks_ui *ui, enum al_hot_by by) {
    ui->open = AL_PROFILE_NONE;
    if (by == AL_HOT_BY_THREAD && ui->query.by != by)
        ui->back = ui->query.by;
    ui->query.by = by;
    ui->row = ui->scroll = 0;
}

static void only_thread(struct al_stacks_ui *ui, uint32_t track, const char *name, const char *process) {
    ui->query.track = track;
    (void)snprintf(ui->thread_name, sizeof ui->thread_name, "%s%s%s", name, *process ? ", " : "", process);
}

static void enter(struct al_stacks_ui *ui, const struct al_stacks_in *in) {
    if (ui->open != AL_PROFILE_NONE || ui->row < 0 || (uint32_t)ui->row >= in->view->count)
        return;
    const struct al_hot_row *r = &in->view->rows[ui->row];
    if (ui->query.by != AL_HOT_BY_THREAD) {
        ui->open = r->function;
        (void)al_str_copy(ui->open_name, sizeof ui->open_name, r->name);
        return;
    }
    only_thread(ui, r->track, r->name, in->processes > 1 ? r->file : "");
    rows_are(ui, ui->back);
}

// What was chosen last is given up first.
static void escape(struct al_stacks_ui *ui) {
    if (ui->help || ui->open != AL_PROFILE_NONE) {
        ui->open = ui->help ? ui->open : AL_PROFILE_NONE;
        ui->help = false;
        return;
    }
    if (*ui->filter)
        ui->filter[0] = '\0';
    else if (ui->query.by == AL_HOT_BY_THREAD)
        rows_are(ui, ui->back);
    else if (ui->query.track != AL_PROFILE_NONE)
        only_thread(ui, AL_PROFILE_NONE, "", "");
    ui->row = ui->scroll = 0;
}

static void typing_key(struct al_stacks_ui *ui, uint32_t key) {
    if (key == AL_KEY_ENTER || key == AL_KEY_ESCAPE) {
        ui->typing = false;
        if (key == AL_KEY_ESCAPE)
            ui->filter[0] = '\0';
        return;
    }
    al_ui_type(ui->typed, sizeof ui->typed, key);
    (void)al_str_copy(ui->filter, sizeof ui->filter, ui->typed); // takes effect while it is typed
    ui->row = ui->scroll = 0;
}

static void move(struct al_stacks_ui *ui, int by) {
    if (ui->help)
        ui->scroll += by;
    else
        ui->row += by;
}

static bool move_key(struct al_stacks_ui *ui, const struct al_stacks_in *in, uint32_t key) {
    int all = (int)in->view->count + 100;
    switch (key) {
    case AL_KEY_UP: move(ui, ui->row > 0 || ui->help ? -1 : 0); return true;
    case AL_KEY_DOWN: move(ui, 1); return true;
    case AL_KEY_PAGE_UP: move(ui, -(ui->page > 0 ? ui->page : 1)); return true;
    case AL_KEY_PAGE_DOWN: move(ui, ui->page > 0 ? ui->page : 1); return true;
    case AL_KEY_HOME: move(ui, -all); return true;
    case AL_KEY_END: move(ui, all); return true;
    default: return false;
    }
}

static bool toggle_key(struct al_stacks_ui *ui, uint32_t key) {
    switch (key) {
    case 'l':
    case 'L': rows_are(ui, ui->query.by == AL_HOT_BY_LINE ? AL_HOT_BY_FUNCTION : AL_HOT_BY_LINE); return true;
    case 't':
    case 'T': rows_are(ui, ui->query.by == AL_HOT_BY_THREAD ? ui->back : AL_HOT_BY_THREAD); return true;
    case 'w':
    case 'W': ui->query.whole = !ui->query.whole; return true;
    case 'i':
    case 'I': ui->query.idle = !ui->query.idle; return true;
    case 'g':
    case 'G': ui->query.gil = !ui->query.gil; return true;
    case 'p':
    case ' ': ui->paused = !ui->paused; return true;
    default: return false;
    }
}

enum al_stacks_action al_stacks_key(struct al_stacks_ui *ui, const struct al_stacks_in *in, uint32_t key) {
    ui->message[0] = '\0';
    if (ui->typing) {
        typing_key(ui, key);
        return AL_STACKS_NONE;
    }
    if (move_key(ui, in, key) || toggle_key(ui, key))
        return AL_STACKS_NONE;
    switch (key) {
    case 'q':
    case 'Q':
        if (!ui->help && ui->open == AL_PROFILE_NONE)
            return AL_STACKS_QUIT;
        escape(ui);
        break;
    case 'x':
    case 'X':
    case AL_KEY_ESCAPE: escape(ui); break;
    case '?':
    case 'h':
    case AL_KEY_F0 + 1:
        ui->help = !ui->help;
        ui->scroll = 0;
        break;
    case '1': sort_by(ui, AL_HOT_SORT_SELF); break;
    case '2': sort_by(ui, AL_HOT_SORT_TOTAL); break;
    case '3': sort_by(ui, AL_HOT_SORT_SELF_TIME); break;
    case '4': sort_by(ui, AL_HOT_SORT_TOTAL_TIME); break;
    case '5': sort_by(ui, AL_HOT_SORT_NAME); break;
    case '6':
    case 'd': sort_by(ui, AL_HOT_SORT_DIFFERENCE); break;
    case '/':
        ui->typing = true;
        (void)al_str_copy(ui->typed, sizeof ui->typed, ui->filter);
        break;
    case AL_KEY_ENTER: enter(ui, in); break;
    case 'r':
    case 'R': return AL_STACKS_RESET;
    case 0x0c: return AL_STACKS_REDRAW; // Ctrl-L
    default: break;
    }
    return AL_STACKS_NONE;
}

enum al_stacks_action al_stacks_mouse(struct al_stacks_ui *ui, const struct al_stacks_in *in, int y, enum al_mouse what) {
    switch (what) {
    case AL_MOUSE_WHEEL_UP: (void)move_key(ui, in, AL_KEY_UP); break;
    case AL_MOUSE_WHEEL_DOWN: (void)move_key(ui, in, AL_KEY_DOWN); break;
    case AL_MOUSE_CLICK:
    case AL_MOUSE_DOUBLE:
        y -= ui->top + 1;
        if (ui->help || y < 0 || y >= ui->page)
            break;
        ui->row = ui->scroll + y;
        if (what == AL_MOUSE_DOUBLE)
            enter(ui, in);
        break;
    }
    return AL_STACKS_NONE;
}
