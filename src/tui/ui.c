// SPDX-License-Identifier: Apache-2.0
#include "tui/ui.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "tui/draw.h"

#define INTERVAL_MIN (100 * AL_NS_PER_MS)
#define INTERVAL_MAX (60 * AL_NS_PER_S)
#define SPAN_COLUMNS 60

const int al_spans[] = {30, 60, 120, 300, 600, 0};

const struct al_signal_row al_signals[] = {
    {SIGTERM, "SIGTERM", "ask it to end"},
    {SIGINT, "SIGINT", "as Ctrl-C: Python raises KeyboardInterrupt"},
    {SIGHUP, "SIGHUP", "its terminal went away"},
    {SIGQUIT, "SIGQUIT", "end with a core dump; faulthandler prints stacks"},
    {SIGUSR1, "SIGUSR1", "Slurm and Lightning: save a checkpoint"},
    {SIGUSR2, "SIGUSR2", "what the program makes of it"},
    {SIGSTOP, "SIGSTOP", "halt it where it is; its GPU memory stays"},
    {SIGCONT, "SIGCONT", "let it go on"},
    {SIGABRT, "SIGABRT", "abort with a core dump"},
    {SIGKILL, "SIGKILL", "end it at once: nothing is saved"},
    {0, NULL, NULL},
};

int al_signal_count(void) {
    int n = 0;
    while (al_signals[n].number)
        n++;
    return n;
}

int64_t al_ui_column_ns(const struct al_ui *ui) {
    int64_t column = al_spans[ui->span] * AL_NS_PER_S / SPAN_COLUMNS;
    // Narrower columns than readings would leave gaps.
    return column < ui->interval_ns ? ui->interval_ns : column;
}

void al_ui_init(struct al_ui *ui, int64_t interval_ns) {
    *ui = (struct al_ui){.focus = AL_FOCUS_GPUS, .tree = true, .interval_ns = interval_ns, .span = 1};
}

static int clamp(int value, int count) {
    return value < 0 || count < 1 ? 0 : value >= count ? count - 1 : value;
}

// Moves the scroll position as little as keeps `at` in sight.
static int follow(int scroll, int at, int rows, int count) {
    if (rows < 1)
        return 0;
    if (at < scroll)
        scroll = at;
    if (at >= scroll + rows)
        scroll = at - rows + 1;
    return scroll > count - rows ? (count > rows ? count - rows : 0) : scroll < 0 ? 0 : scroll;
}

static pid_t row_pid(const struct al_scene *v, int i) {
    const struct al_scene_proc *row = &v->procs[i];
    return row->pid || i == 0 ? row->pid : -v->procs[i - 1].pid;
}

static void remember_proc(struct al_ui *ui, const struct al_scene *v) {
    ui->proc = clamp(ui->proc, (int)v->proc_count);
    ui->pid = v->proc_count ? row_pid(v, ui->proc) : 0;
    ui->start_ticks = v->proc_count && v->procs[ui->proc].p ? v->procs[ui->proc].p->start_ticks : 0;
}

static void find_proc(struct al_ui *ui, const struct al_scene *v) {
    for (int i = 0; ui->pid && i < (int)v->proc_count; i++)
        if (row_pid(v, i) == ui->pid) {
            ui->proc = i;
            break;
        }
    remember_proc(ui, v);
}

static void remember_gpu(struct al_ui *ui, const struct al_snapshot *s) {
    ui->gpu = clamp(ui->gpu, s ? (int)s->gpu_count : 0);
    if (s && s->gpu_count)
        memcpy(ui->gpu_uuid, s->gpus[ui->gpu].info.uuid, sizeof ui->gpu_uuid);
}

static void find_gpu(struct al_ui *ui, const struct al_snapshot *s) {
    for (uint32_t i = 0; s && *ui->gpu_uuid && i < s->gpu_count; i++)
        if (strcmp(s->gpus[i].info.uuid, ui->gpu_uuid) == 0)
            ui->gpu = (int)i;
    remember_gpu(ui, s);
}

static void remember_finding(struct al_ui *ui, const struct al_scene_in *in) {
    ui->finding = clamp(ui->finding, (int)in->finding_count);
    if (in->finding_count)
        memcpy(ui->finding_key, in->findings[ui->finding].key, sizeof ui->finding_key);
}

static void find_finding(struct al_ui *ui, const struct al_scene_in *in) {
    for (uint32_t i = 0; *ui->finding_key && i < in->finding_count; i++)
        if (strcmp(in->findings[i].key, ui->finding_key) == 0)
            ui->finding = (int)i;
    // An open page about a finding that is over stays with it, not with the one that took its row.
    if (ui->screen != AL_SCREEN_FINDING)
        remember_finding(ui, in);
}

static int hung_lines(const struct al_scene_in *in) {
    return al_draw_hung(in) ? 1 : 0;
}

void al_ui_sync(struct al_ui *ui, const struct al_scene_in *in, const struct al_scene *v, const struct al_layout *l) {
    int gpus = in->s ? (int)in->s->gpu_count : 0;
    find_gpu(ui, in->s);
    find_finding(ui, in);
    find_proc(ui, v);
    int rows = (gpus + l->gpu_columns - 1) / l->gpu_columns;
    ui->gpu_scroll = follow(ui->gpu_scroll, rows ? ui->gpu % rows : 0, l->gpu_rows, rows);
    ui->finding_scroll = follow(ui->finding_scroll, ui->finding, l->pane[AL_PANE_FINDINGS].h - hung_lines(in),
                                (int)in->finding_count);
    ui->proc_scroll = follow(ui->proc_scroll, ui->proc, l->pane[AL_PANE_PROCS].h - l->proc_head, (int)v->proc_count);
    if (ui->focus == AL_FOCUS_PROCS && ui->no_procs)
        ui->focus = AL_FOCUS_GPUS;
}

// --- moving ---

static void move(struct al_ui *ui, const struct al_scene_in *in, const struct al_scene *v, int by) {
    ui->message[0] = '\0';
    if (ui->screen != AL_SCREEN_MAIN) {
        ui->list_scroll = clamp(ui->list_scroll + by, ui->list_lines);
    } else if (ui->focus == AL_FOCUS_FINDINGS) {
        ui->finding = clamp(ui->finding + by, (int)in->finding_count);
        remember_finding(ui, in);
    } else if (ui->focus == AL_FOCUS_GPUS) {
        ui->gpu = clamp(ui->gpu + by, in->s ? (int)in->s->gpu_count : 0);
        remember_gpu(ui, in->s);
    } else {
        ui->proc = clamp(ui->proc + by, (int)v->proc_count);
        remember_proc(ui, v);
    }
}

static int page(const struct al_ui *ui, const struct al_layout *l) {
    enum al_pane pane = ui->screen != AL_SCREEN_MAIN ? AL_PANE_GPUS
                        : ui->focus == AL_FOCUS_FINDINGS ? AL_PANE_FINDINGS
                        : ui->focus == AL_FOCUS_GPUS ? AL_PANE_GPUS : AL_PANE_PROCS;
    return l->pane[pane].h > 2 ? l->pane[pane].h - 1 : 1;
}

static bool moving_key(struct al_ui *ui, const struct al_scene_in *in, const struct al_scene *v,
                       const struct al_layout *l, uint32_t key) {
    // GPUs side by side run down the columns.
    int gpus = in->s ? (int)in->s->gpu_count : 0, sideways = (gpus + l->gpu_columns - 1) / l->gpu_columns;
    bool columns = ui->screen == AL_SCREEN_MAIN && ui->focus == AL_FOCUS_GPUS && l->gpu_columns > 1;
    switch (key) {
    case AL_KEY_UP: move(ui, in, v, -1); return true;
    case AL_KEY_DOWN:
    case 'j': move(ui, in, v, 1); return true;
    case AL_KEY_LEFT: move(ui, in, v, columns ? -sideways : -1); return true;
    case AL_KEY_RIGHT: move(ui, in, v, columns ? sideways : 1); return true;
    case AL_KEY_PAGE_UP: move(ui, in, v, -page(ui, l)); return true;
    case AL_KEY_PAGE_DOWN:
    case ' ': move(ui, in, v, page(ui, l)); return true;
    case AL_KEY_HOME:
    case 'g': move(ui, in, v, -1000000); return true;
    case AL_KEY_END:
    case 'G': move(ui, in, v, 1000000); return true;
    default: return false;
    }
}

static void turn_focus(struct al_ui *ui, const struct al_scene_in *in, int by) {
    for (int i = 0; i < AL_FOCUS_COUNT; i++) {
        ui->focus = (enum al_focus)((ui->focus + AL_FOCUS_COUNT + by) % AL_FOCUS_COUNT);
        bool none = (ui->focus == AL_FOCUS_FINDINGS && !in->finding_count) || (ui->focus == AL_FOCUS_PROCS && ui->no_procs);
        if (!none)
            return;
    }
}

// --- opening and closing ---

static void open_screen(struct al_ui *ui, enum al_screen screen) {
    ui->back = ui->screen;
    ui->screen = screen;
    ui->list_scroll = 0;
    ui->list_filter[0] = '\0';
}

static void open_details(struct al_ui *ui, const struct al_scene_in *in, const struct al_scene *v) {
    if (ui->focus == AL_FOCUS_FINDINGS && in->finding_count)
        open_screen(ui, AL_SCREEN_FINDING);
    else if (ui->focus == AL_FOCUS_GPUS && in->s && in->s->gpu_count)
        open_screen(ui, AL_SCREEN_GPU);
    else if (ui->focus == AL_FOCUS_PROCS && v->proc_count && ui->pid < 0)
        ui->workers = true; // the folded row unfolds
    else if (ui->focus == AL_FOCUS_PROCS && v->proc_count)
        open_screen(ui, AL_SCREEN_PROC);
}

static void close_one(struct al_ui *ui) {
    if (ui->message[0])
        ui->message[0] = '\0';
    else if (ui->screen != AL_SCREEN_MAIN && ui->list_filter[0])
        ui->list_filter[0] = '\0';
    else if (ui->screen != AL_SCREEN_MAIN) {
        ui->screen = ui->screen == AL_SCREEN_HELP ? ui->back : AL_SCREEN_MAIN;
        ui->list_scroll = 0;
    } else
        ui->filter[0] = '\0';
}

static void open_prompt(struct al_ui *ui, enum al_prompt prompt) {
    ui->prompt = prompt;
    ui->choice = 0;
    ui->message[0] = '\0';
    if (prompt == AL_PROMPT_FILTER)
        (void)al_str_copy(ui->typed, sizeof ui->typed, ui->screen == AL_SCREEN_MAIN ? ui->filter : ui->list_filter);
    if (prompt == AL_PROMPT_SORT)
        ui->choice = (int)ui->sort;
}

static void say(struct al_ui *ui, bool bad, const char *text) {
    (void)al_str_copy(ui->message, sizeof ui->message, text);
    ui->message_bad = bad;
}

static void open_signal(struct al_ui *ui, const struct al_scene *v) {
    if (ui->screen == AL_SCREEN_MAIN && ui->focus != AL_FOCUS_PROCS) {
        say(ui, true, "choose a process first: Tab goes to the processes");
        return;
    }
    const struct al_scene_proc *row = v->proc_count ? &v->procs[ui->proc] : NULL;
    if ((ui->screen != AL_SCREEN_MAIN && ui->screen != AL_SCREEN_PROC) || !row || row->pid <= 0) {
        say(ui, true, "no process is chosen");
        return;
    }
    ui->target.pid = row->pid;
    ui->target.start_ticks = row->p ? row->p->start_ticks : 0;
    (void)al_str_copy(ui->target.name, sizeof ui->target.name,
                      row->p ? (*row->p->command ? row->p->command : row->p->comm) : row->driver_name);
    open_prompt(ui, AL_PROMPT_SIGNAL);
}

// --- prompts ---

void al_ui_type(char *text, size_t size, uint32_t key) {
    size_t len = strlen(text);
    // Bytes of a UTF-8 letter leave together.
    if (key == AL_KEY_BACKSPACE || key == AL_KEY_DELETE) {
        while (len && ((unsigned char)text[len - 1] & 0xc0) == 0x80)
            text[--len] = '\0';
        if (len)
            text[len - 1] = '\0';
    } else if (key == 0x15) { // Ctrl-U
        text[0] = '\0';
    } else if (key >= 0x20 && key < 0x7f && len + 1 < size) {
        text[len] = (char)key;
        text[len + 1] = '\0';
    } else if (key >= 0xa0 && key < 0x10000 && len + 3 < size) {
        size_t n = key < 0x800 ? 2 : 3;
        if (n == 2)
            text[len] = (char)(0xc0 | key >> 6);
        else {
            text[len] = (char)(0xe0 | key >> 12);
            text[len + 1] = (char)(0x80 | (key >> 6 & 0x3f));
        }
        text[len + n - 1] = (char)(0x80 | (key & 0x3f));
        text[len + n] = '\0';
    }
}

static enum al_action filter_key(struct al_ui *ui, uint32_t key) {
    char *filter = ui->screen == AL_SCREEN_MAIN ? ui->filter : ui->list_filter;
    if (key == AL_KEY_ESCAPE) {
        ui->prompt = AL_PROMPT_NONE;
        filter[0] = '\0';
        return AL_ACTION_NONE;
    }
    if (key == AL_KEY_ENTER) {
        ui->prompt = AL_PROMPT_NONE;
        if (ui->screen == AL_SCREEN_MAIN && !ui->no_procs)
            ui->focus = AL_FOCUS_PROCS;
        return AL_ACTION_NONE;
    }
    al_ui_type(ui->typed, sizeof ui->typed, key);
    (void)al_str_copy(filter, sizeof ui->filter, ui->typed); // takes effect while it is typed
    ui->list_scroll = 0;
    return AL_ACTION_NONE;
}

static void choose_sort(struct al_ui *ui, enum al_sort sort) {
    ui->reverse = ui->sort == sort ? !ui->reverse : false;
    ui->sort = sort;
}

static enum al_action menu_key(struct al_ui *ui, uint32_t key) {
    int count = ui->prompt == AL_PROMPT_SORT ? AL_SORT_COUNT : al_signal_count();
    if (key == AL_KEY_ESCAPE || key == 'q') {
        ui->prompt = AL_PROMPT_NONE;
    } else if (key == AL_KEY_UP) {
        ui->choice = clamp(ui->choice - 1, count);
    } else if (key == AL_KEY_DOWN || key == 'j') {
        ui->choice = clamp(ui->choice + 1, count);
    } else if (key == AL_KEY_HOME || key == AL_KEY_PAGE_UP) {
        ui->choice = 0;
    } else if (key == AL_KEY_END || key == AL_KEY_PAGE_DOWN) {
        ui->choice = count - 1;
    } else if (key == AL_KEY_ENTER && ui->prompt == AL_PROMPT_SORT) {
        if (ui->choice != (int)ui->sort)
            choose_sort(ui, (enum al_sort)ui->choice);
        ui->prompt = AL_PROMPT_NONE;
    } else if (key == AL_KEY_ENTER) {
        ui->target.number = al_signals[clamp(ui->choice, count)].number;
        ui->prompt = AL_PROMPT_CONFIRM;
    }
    return AL_ACTION_NONE;
}

// Only a plain y is yes.
static enum al_action confirm_key(struct al_ui *ui, uint32_t key) {
    ui->prompt = AL_PROMPT_NONE;
    if (key == 'y' || key == 'Y')
        return AL_ACTION_SIGNAL;
    say(ui, false, "nothing was sent");
    return AL_ACTION_NONE;
}

static enum al_action prompt_key(struct al_ui *ui, uint32_t key) {
    switch (ui->prompt) {
    case AL_PROMPT_FILTER: return filter_key(ui, key);
    case AL_PROMPT_CONFIRM: return confirm_key(ui, key);
    default: return menu_key(ui, key);
    }
}

// --- single keys ---

static enum al_action change_interval(struct al_ui *ui, bool longer) {
    static const int64_t steps[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};
    int64_t wanted = ui->interval_ns;
    int count = sizeof steps / sizeof steps[0];
    for (int i = 0; i < count; i++) {
        int64_t step = steps[longer ? i : count - 1 - i] * AL_NS_PER_MS;
        if (longer ? step > ui->interval_ns : step < ui->interval_ns) {
            wanted = step;
            break;
        }
    }
    if (wanted == ui->interval_ns || wanted < INTERVAL_MIN || wanted > INTERVAL_MAX)
        return AL_ACTION_NONE;
    ui->interval_ns = wanted;
    return AL_ACTION_INTERVAL;
}

static bool sort_key(struct al_ui *ui, uint32_t key) {
    // As top and nvtop users know them.
    switch (key) {
    case 'M': choose_sort(ui, AL_SORT_MEM); return true;
    case 'P': choose_sort(ui, AL_SORT_CPU); return true;
    case 'U': choose_sort(ui, AL_SORT_SM); return true;
    case 'R': choose_sort(ui, AL_SORT_RSS); return true;
    case 'T': choose_sort(ui, AL_SORT_TIME); return true;
    case 'N': choose_sort(ui, AL_SORT_PID); return true;
    case 'I':
    case 'r': ui->reverse = !ui->reverse; return true;
    default: return false;
    }
}

static int span_count(void) {
    int n = 0;
    while (al_spans[n])
        n++;
    return n;
}

static bool switch_key(struct al_ui *ui, uint32_t key) {
    switch (key) {
    case 't':
    case AL_KEY_F0 + 5: ui->tree = !ui->tree; return true;
    case 'w': ui->workers = !ui->workers; return true;
    case 'c': ui->no_charts = !ui->no_charts; return true;
    case 'x': ui->no_procs = !ui->no_procs; return true;
    case 'a': ui->all_gpus = !ui->all_gpus; return true;
    case 'm': ui->chart = (enum al_chart)((ui->chart + 1) % AL_CHART_COUNT); ui->all_gpus = true; return true;
    case ']': ui->span = clamp(ui->span + 1, span_count()); return true;
    case '[': ui->span = clamp(ui->span - 1, span_count()); return true;
    case 'p':
    case 'Z': ui->paused = !ui->paused; return true;
    default: return false;
    }
}

static enum al_action main_key(struct al_ui *ui, const struct al_scene_in *in, const struct al_scene *v, uint32_t key) {
    if (sort_key(ui, key) || switch_key(ui, key))
        return AL_ACTION_NONE;
    switch (key) {
    case AL_KEY_TAB: turn_focus(ui, in, 1); break;
    case AL_KEY_BACK_TAB: turn_focus(ui, in, -1); break;
    case AL_KEY_ENTER: open_details(ui, in, v); break;
    case 's':
    case '>':
    case AL_KEY_F0 + 6: open_prompt(ui, AL_PROMPT_SORT); break;
    default: break;
    }
    return AL_ACTION_NONE;
}

enum al_action al_ui_key(struct al_ui *ui, const struct al_scene_in *in, const struct al_scene *v,
                         const struct al_layout *l, uint32_t key) {
    if (key == 0x0c) // Ctrl-L
        return AL_ACTION_REDRAW;
    if (ui->prompt)
        return prompt_key(ui, key);
    if (moving_key(ui, in, v, l, key))
        return AL_ACTION_NONE;
    switch (key) {
    case AL_KEY_F0 + 10:
    case 0x03: return AL_ACTION_QUIT;
    case 'q':
        if (ui->screen == AL_SCREEN_MAIN)
            return AL_ACTION_QUIT;
        close_one(ui);
        return AL_ACTION_NONE;
    case AL_KEY_ESCAPE:
    case AL_KEY_BACKSPACE: close_one(ui); return AL_ACTION_NONE;
    case 'h':
    case '?':
    case AL_KEY_F0 + 1:
        if (ui->screen != AL_SCREEN_HELP)
            open_screen(ui, AL_SCREEN_HELP);
        else
            close_one(ui);
        return AL_ACTION_NONE;
    case '+':
    case '=': return change_interval(ui, true);
    case '-': return change_interval(ui, false);
    case '/':
    case '\\':
    case AL_KEY_F0 + 3:
    case AL_KEY_F0 + 4: open_prompt(ui, AL_PROMPT_FILTER); return AL_ACTION_NONE;
    case 'k':
    case AL_KEY_F0 + 9: open_signal(ui, v); return AL_ACTION_NONE;
    case 'p': ui->paused = !ui->paused; return AL_ACTION_NONE;
    case '[':
    case ']': (void)switch_key(ui, key); return AL_ACTION_NONE;
    default: return ui->screen == AL_SCREEN_MAIN ? main_key(ui, in, v, key) : AL_ACTION_NONE;
    }
}

// --- mouse ---

static bool inside(struct al_rect r, int x, int y) {
    return x >= r.x && x < r.x + r.w && y >= r.y && y < r.y + r.h;
}

static bool click_gpu(struct al_ui *ui, const struct al_scene_in *in, const struct al_layout *l, int x, int y) {
    struct al_rect r = l->pane[AL_PANE_GPUS];
    int n = in->s ? (int)in->s->gpu_count : 0, rows = (n + l->gpu_columns - 1) / l->gpu_columns;
    ui->focus = AL_FOCUS_GPUS;
    if (y - r.y < l->gpu_head)
        return false;
    int row = (y - r.y - l->gpu_head) / l->gpu_lines + ui->gpu_scroll, column = (x - r.x) * l->gpu_columns / r.w;
    int i = column * rows + row;
    if (row >= rows || i >= n)
        return false;
    ui->gpu = i;
    remember_gpu(ui, in->s);
    return true;
}

static bool click_proc(struct al_ui *ui, const struct al_scene *v, const struct al_layout *l, int x, int y) {
    struct al_rect r = l->pane[AL_PANE_PROCS];
    ui->focus = AL_FOCUS_PROCS;
    if (y - r.y < l->proc_head) {
        int sort = al_draw_proc_sort_at(v, r.w, x - r.x);
        if (sort >= 0)
            choose_sort(ui, (enum al_sort)sort);
        return false;
    }
    int i = y - r.y - l->proc_head + ui->proc_scroll;
    if (i >= (int)v->proc_count)
        return false;
    ui->proc = i;
    remember_proc(ui, v);
    return true;
}

static bool click_finding(struct al_ui *ui, const struct al_scene_in *in, const struct al_layout *l, int y) {
    int i = y - l->pane[AL_PANE_FINDINGS].y - hung_lines(in) + ui->finding_scroll;
    if (i < 0 || i >= (int)in->finding_count)
        return false;
    ui->focus = AL_FOCUS_FINDINGS;
    ui->finding = i;
    remember_finding(ui, in);
    return true;
}

enum al_action al_ui_mouse(struct al_ui *ui, const struct al_scene_in *in, const struct al_scene *v,
                           const struct al_layout *l, int x, int y, enum al_mouse what) {
    bool wheel = what == AL_MOUSE_WHEEL_UP || what == AL_MOUSE_WHEEL_DOWN;
    int by = what == AL_MOUSE_WHEEL_UP ? -3 : 3;
    if (ui->prompt) {
        if (wheel)
            (void)prompt_key(ui, by < 0 ? AL_KEY_UP : AL_KEY_DOWN);
        return AL_ACTION_NONE;
    }
    if (ui->screen != AL_SCREEN_MAIN) {
        if (wheel)
            move(ui, in, v, by);
        return AL_ACTION_NONE;
    }
    bool hit = false;
    if (inside(l->pane[AL_PANE_FINDINGS], x, y))
        hit = wheel ? (ui->focus = AL_FOCUS_FINDINGS, true) : click_finding(ui, in, l, y);
    else if (inside(l->pane[AL_PANE_GPUS], x, y))
        hit = wheel ? (ui->focus = AL_FOCUS_GPUS, true) : click_gpu(ui, in, l, x, y);
    else if (inside(l->pane[AL_PANE_PROCS], x, y))
        hit = wheel ? (ui->focus = AL_FOCUS_PROCS, true) : click_proc(ui, v, l, x, y);
    if (hit && wheel)
        move(ui, in, v, by);
    if (hit && what == AL_MOUSE_DOUBLE)
        open_details(ui, in, v);
    return AL_ACTION_NONE;
}
