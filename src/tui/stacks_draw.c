// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "tui/stacks.h"

#define HEAD_LINES 4
#define HEAD_FULL_H 10 // below that height only the title stands above the table
#define RANK_W 26

struct page {
    struct al_grid *g;
    const struct al_stacks_in *in;
    struct al_stacks_ui *ui;
};

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

void al_stacks_state_text(char *out, size_t size, const struct al_stacks_in *in) {
    const struct al_hot_counts *c = &in->view->sum;
    uint64_t ticks = in->view->ticks;
    *out = '\0';
    if (!ticks)
        return;
    uint64_t running = c->all > c->idle + c->waits ? c->all - c->idle - c->waits : 0;
    char gil[48] = "no GIL";
    if (!in->no_gil)
        (void)snprintf(gil, sizeof gil, "GIL held %.0f %%", 100 * share(c->gil, ticks * (in->processes ? in->processes : 1)));
    (void)snprintf(out, size, "%s; threads %.1f: running %.1f, waiting for the GIL %.1f, idle %.1f", gil, share(c->all, ticks),
                   share(running, ticks), share(c->waits, ticks), share(c->idle, ticks));
}

static void title_line(struct page *p) {
    char right[64] = "";
    struct tm t = {0};
    time_t seconds = (time_t)(p->in->realtime_ns / AL_NS_PER_S);
    al_grid_fill(p->g, (struct al_rect){0, 0, p->g->w, 1}, ' ', AL_STYLE_REVERSE);
    if (p->in->realtime_ns) {
        (void)localtime_r(&seconds, &t);
        (void)snprintf(right, sizeof right, "%02d:%02d:%02d ", t.tm_hour, t.tm_min, t.tm_sec);
    }
    int end = p->g->w - al_text_width(right) - 1;
    int x = 1 + al_grid_text(p->g, 1, 0, end - 1, AL_STYLE_REVERSE | AL_STYLE_BOLD, p->in->title);
    if (*p->in->command && x + 4 < end)
        (void)al_grid_text(p->g, x + 2, 0, end - x - 2, AL_STYLE_REVERSE, p->in->command);
    (void)al_grid_text_right(p->g, 0, 0, p->g->w, AL_STYLE_REVERSE, right);
}

static void figures_line(struct page *p) {
    char text[320], of[96];
    const struct al_hot_view *v = p->in->view;
    if (p->ui->query.whole)
        (void)snprintf(of, sizeof of, "shares since the start");
    else
        (void)snprintf(of, sizeof of, "shares of the last %.0f s", p->in->window_s);
    (void)snprintf(text, sizeof text, "%g/s, %llu samples in %.0f s, %s; own cost %.1f %% of a core; moved %.2f %%", p->in->rate,
                   (unsigned long long)v->ticks_ever, (double)v->span_ever_ns / 1e9, of, 100 * p->in->own, 100 * p->in->moved);
    size_t len = strlen(text);
    if (p->in->unreadable > 0)
        len += (size_t)snprintf(text + len, sizeof text - len, "; not readable %.2f %%", 100 * p->in->unreadable);
    if (p->in->late && len < sizeof text)
        (void)snprintf(text + len, sizeof text - len, "; late %llu", (unsigned long long)p->in->late);
    (void)al_grid_text(p->g, 1, 1, p->g->w - 1, AL_INK_PLAIN, text);
}

static void state_line(struct page *p) {
    char text[256];
    al_stacks_state_text(text, sizeof text, p->in);
    int x = 1 + al_grid_text(p->g, 1, 2, p->g->w - 1, AL_INK_PLAIN, text);
    const char *only = p->ui->query.gil ? "only what held the GIL" : p->ui->query.idle ? "idle threads count too" : "";
    if (*only && x + 2 < p->g->w)
        (void)al_grid_text(p->g, x + 2, 2, p->g->w - x - 2, AL_INK_WARN | AL_STYLE_BOLD, only);
}

// --- the table ---

static bool shows_ranks(const struct page *p) {
    return p->in->view->ranks > 1 && p->ui->query.by != AL_HOT_BY_THREAD && p->g->w >= 80 + RANK_W;
}

// What a narrow screen has room for beside the names.
static bool shows_total(const struct page *p) {
    return p->g->w >= 30;
}

static bool shows_states(const struct page *p) {
    return p->g->w >= 50;
}

static bool shows_times(const struct page *p) {
    return p->g->w >= 76;
}

static int column(struct page *p, int x, int y, int w, uint8_t style, const char *text) {
    if (x + w > p->g->w)
        return x;
    (void)al_grid_text_right(p->g, x, y, w, style, text);
    return x + w;
}

static uint8_t head_style(const struct page *p, enum al_hot_sort sort) {
    return AL_STYLE_LINE | (p->ui->query.sort == sort ? AL_STYLE_BOLD | AL_INK_COOL : AL_INK_PLAIN);
}

static void head_line(struct page *p, int y) {
    bool threads = p->ui->query.by == AL_HOT_BY_THREAD, all = p->ui->query.idle || p->ui->query.gil;
    int x = 0;
    al_grid_fill(p->g, (struct al_rect){0, y, p->g->w, 1}, ' ', AL_STYLE_LINE);
    x = column(p, x, y, 7, head_style(p, AL_HOT_SORT_SELF), !threads ? "self%" : all ? "count%" : "run%");
    if (!threads && shows_total(p))
        x = column(p, x, y, 8, head_style(p, AL_HOT_SORT_TOTAL), "total%");
    if (shows_times(p))
        x = column(p, x, y, 10, head_style(p, AL_HOT_SORT_SELF_TIME), threads ? "time" : "self");
    if (!threads && shows_times(p))
        x = column(p, x, y, 10, head_style(p, AL_HOT_SORT_TOTAL_TIME), "total");
    if (shows_states(p))
        x = column(p, x, y, 6, AL_STYLE_LINE, "GIL%");
    if (threads && shows_states(p))
        x = column(p, x, y, 7, AL_STYLE_LINE, "wait%");
    if (shows_states(p))
        x = column(p, x, y, 7, AL_STYLE_LINE, "idle%");
    if (shows_ranks(p))
        (void)al_grid_text(p->g, p->g->w - RANK_W, y, RANK_W, head_style(p, AL_HOT_SORT_DIFFERENCE), "rank that differs");
    static const char *const names[] = {"function", "line", "thread"};
    (void)al_grid_text(p->g, x + 2, y, p->g->w - x - 2 - (shows_ranks(p) ? RANK_W + 1 : 0), head_style(p, AL_HOT_SORT_NAME),
                       names[p->ui->query.by]);
}

static void percent(char out[16], double ratio) {
    (void)snprintf(out, 16, "%.1f", 100 * ratio);
}

static void seconds(char out[16], uint64_t samples, const struct al_hot_view *v) {
    double s = v->ticks_ever ? (double)samples * ((double)v->span_ever_ns / 1e9) / (double)v->ticks_ever : 0;
    (void)snprintf(out, 16, s < 1000 ? "%.2fs" : "%.0fs", s);
}

static uint8_t heat(double ratio) {
    return ratio >= 0.5 ? AL_INK_BAD | AL_STYLE_BOLD : ratio >= 0.2 ? AL_INK_WARN | AL_STYLE_BOLD : ratio >= 0.05 ? AL_STYLE_BOLD : AL_INK_PLAIN;
}

// A place that is too long loses its front: the file's name and the line are what is looked for.
static void place(struct page *p, int x, int y, int max, const char *file, int32_t line) {
    char text[1024];
    if (max < 4 || !*file)
        return;
    if (line > 0)
        (void)snprintf(text, sizeof text, "%s:%d", file, (int)line);
    else
        (void)al_str_copy(text, sizeof text, file);
    const char *from = text;
    if (al_text_width(text) > max) {
        for (const char *slash; al_text_width(from) > max - 1 && (slash = strchr(from + 1, '/'));)
            from = slash;
        while (al_text_width(from) > max - 1) {
            size_t len = al_utf8_len((const unsigned char *)from, strlen(from));
            from += len ? len : 1;
        }
    }
    if (from != text) {
        al_grid_put(p->g, x, y, 0x2026, AL_STYLE_DIM);
        x++;
        max--;
    }
    (void)al_grid_text(p->g, x, y, max, AL_STYLE_DIM, from);
}

static void rank_cell(struct page *p, int y, const struct al_hot_row *r) {
    char text[64];
    if (r->rank < 0)
        return;
    double apart = r->rank_share - r->median_share;
    (void)snprintf(text, sizeof text, "%d: %.0f %%, others %.0f %%", (int)r->rank, 100 * r->rank_share, 100 * r->median_share);
    if (apart >= 0.05 || apart <= -0.05)
        (void)al_grid_text(p->g, p->g->w - RANK_W, y, RANK_W, heat(apart < 0 ? -apart : apart), text);
}

static void frame_row(struct page *p, int y, const struct al_hot_row *r) {
    const struct al_hot_view *v = p->in->view;
    char text[16];
    double self = share(r->c.self, v->sum.total), total = share(r->c.total, v->sum.total);
    int x = 0, end = p->g->w - (shows_ranks(p) ? RANK_W + 1 : 0);
    percent(text, self);
    x = column(p, x, y, 7, heat(self), text);
    percent(text, total);
    if (shows_total(p))
        x = column(p, x, y, 8, AL_INK_PLAIN, text);
    if (shows_times(p)) {
        seconds(text, r->self_ever, v);
        x = column(p, x, y, 10, AL_INK_PLAIN, text);
        seconds(text, r->total_ever, v);
        x = column(p, x, y, 10, AL_INK_PLAIN, text);
    }
    if (shows_states(p)) {
        percent(text, share(r->c.gil, r->c.all));
        x = column(p, x, y, 6, AL_INK_PLAIN, p->in->no_gil || !r->c.all ? "-" : text);
        percent(text, share(r->c.idle, r->c.all));
        x = column(p, x, y, 7, AL_INK_PLAIN, r->c.all ? text : "-");
    }
    x += 2;
    int most = (end - x) / 2 > 24 ? (end - x) / 2 : 24;
    x += al_grid_text(p->g, x, y, end - x < most ? end - x : most, self >= 0.05 ? AL_STYLE_BOLD : AL_INK_PLAIN, r->name) + 1;
    place(p, x, y, end - x, r->file, r->line);
    if (shows_ranks(p))
        rank_cell(p, y, r);
}

static void thread_row(struct page *p, int y, const struct al_hot_row *r) {
    const struct al_hot_view *v = p->in->view;
    const char *name, *file;
    int32_t line;
    char text[16];
    double run = share(r->c.self, r->c.all);
    int x = 0;
    percent(text, run);
    x = column(p, x, y, 7, heat(run), text);
    seconds(text, r->self_ever, v);
    if (shows_times(p))
        x = column(p, x, y, 10, AL_INK_PLAIN, text);
    if (shows_states(p)) {
        percent(text, share(r->c.gil, r->c.all));
        x = column(p, x, y, 6, AL_INK_PLAIN, p->in->no_gil ? "-" : text);
        percent(text, share(r->c.waits, r->c.all));
        x = column(p, x, y, 7, AL_INK_PLAIN, p->in->no_gil ? "-" : text);
        percent(text, share(r->c.idle, r->c.all));
        x = column(p, x, y, 7, AL_INK_PLAIN, text);
    }
    x += 2;
    x += al_grid_text(p->g, x, y, p->g->w - x, r->track == p->ui->query.track ? AL_STYLE_BOLD | AL_INK_COOL : AL_STYLE_BOLD, r->name) + 1;
    if (p->in->processes > 1)
        x += al_grid_text(p->g, x, y, p->g->w - x, AL_INK_PLAIN, r->file) + 1;
    al_profile_get_frame(p->in->profile, r->most, &name, &file, &line);
    x += al_grid_text(p->g, x, y, p->g->w - x, AL_INK_PLAIN, name) + 1;
    place(p, x, y, p->g->w - x, file, line);
}

static void rows(struct page *p, int y, int h) {
    const struct al_hot_view *v = p->in->view;
    struct al_stacks_ui *ui = p->ui;
    int count = (int)v->count;
    ui->page = h > 0 ? h : 0;
    ui->row = ui->row >= count ? count - 1 : ui->row;
    ui->row = ui->row < 0 ? 0 : ui->row;
    ui->scroll = ui->row < ui->scroll ? ui->row : ui->row >= ui->scroll + h ? ui->row - h + 1 : ui->scroll;
    ui->scroll = ui->scroll > count - h ? count - h : ui->scroll;
    ui->scroll = ui->scroll < 0 ? 0 : ui->scroll;
    for (int i = 0; i < h && ui->scroll + i < count; i++) {
        const struct al_hot_row *r = &v->rows[ui->scroll + i];
        if (ui->query.by == AL_HOT_BY_THREAD)
            thread_row(p, y + i, r);
        else
            frame_row(p, y + i, r);
        if (ui->scroll + i == ui->row)
            al_grid_restyle(p->g, (struct al_rect){0, y + i, p->g->w, 1}, AL_STYLE_REVERSE);
    }
    if (count || h < 2)
        return;
    const char *why = !v->ticks_ever ? "no sample yet"
                      : v->rows_all  ? "no row has this text"
                      : ui->query.gil ? "no thread was seen with the GIL"
                                      : "no thread was seen running: i also counts those that sleep or wait";
    (void)al_grid_text(p->g, 2, y + 1, p->g->w - 2, AL_STYLE_DIM, why);
}

// --- one function ---

static int section(struct page *p, int y, int end, const char *title, const struct al_hot_view *v) {
    if (y >= end)
        return y;
    (void)al_grid_text(p->g, 1, y++, p->g->w - 1, AL_STYLE_BOLD | AL_INK_COOL, title);
    for (uint32_t i = 0; i < v->count && y < end; i++)
        frame_row(p, y++, &v->rows[i]);
    if (!v->count && y < end)
        (void)al_grid_text(p->g, 2, y++, p->g->w - 2, AL_STYLE_DIM, "none");
    return y + 1;
}

// Each part has a third; what one leaves is the next one's.
static void around_page(struct page *p, int y, int h) {
    static const char *const titles[] = {"lines", "called by", "calls"};
    int end = y + h, third = h / 3 > 3 ? h / 3 : 3;
    for (int i = 0; i < 3; i++) {
        int limit = i == 2 ? end : y + third + (i == 1 ? (h - (y - (end - h))) / 6 : 0);
        y = section(p, y, limit < end ? limit : end, titles[i], &p->in->around[i]);
    }
}

// --- help and status ---

static const char *const help_lines[][2] = {
    {"1 2 3 4", "sort by self%, total%, self time, total time; again turns the order round"},
    {"5, 6 or d", "sort by name; by how far a rank is from the others (--tree)"},
    {"l", "functions, or lines"},
    {"Enter", "a function's lines, who called it and what it called; Esc back"},
    {"t", "threads; Enter there shows one alone, Esc all again"},
    {"w", "shares of the window, or since the start"},
    {"i", "idle threads, which sleep or wait in the kernel, count too"},
    {"g", "only samples that held the GIL"},
    {"/", "rows whose name or file holds a text; Esc clears it"},
    {"p, Space", "pause the screen; sampling goes on"},
    {"r", "forget what was sampled"},
    {"arrows, PgUp, PgDn", "move; Home and End go to the ends"},
    {"Ctrl-L", "draw the screen anew"},
    {"q, Ctrl-C", "leave"},
    {"", ""},
    {"self, total", "the function ran itself, or was anywhere on the stack; of the samples that count"},
    {"time", "thread-seconds since the start or the last r"},
    {"GIL%, idle%", "of the row's samples, idle ones included: those that held the GIL, those asleep"},
    {"moved", "stacks that changed while they were read; what is sure of them is kept"},
};

static void help_page(struct page *p, int y, int h) {
    int count = (int)(sizeof help_lines / sizeof help_lines[0]);
    int first = p->ui->scroll > count - h ? count - h : p->ui->scroll;
    first = first < 0 ? 0 : first;
    p->ui->scroll = first;
    for (int i = 0; i < h && first + i < count; i++) {
        (void)al_grid_text(p->g, 1, y + i, 20, AL_STYLE_BOLD, help_lines[first + i][0]);
        (void)al_grid_text(p->g, 21, y + i, p->g->w - 21, AL_INK_PLAIN, help_lines[first + i][1]);
    }
}

static void status_line(struct page *p, int y) {
    static const char *const hints[] = {"?", "help", "1-6", "sort", "l", "lines", "t", "threads", "w", "window", "i", "idle",
                                        "g", "GIL", "/", "filter", "p", "pause", "r", "reset", "q", "quit", NULL};
    const struct al_stacks_ui *ui = p->ui;
    int x = 0, end = p->g->w;
    al_grid_fill(p->g, (struct al_rect){0, y, end, 1}, ' ', AL_INK_PLAIN);
    if (ui->paused)
        x += al_grid_text(p->g, x, y, end - x, AL_STYLE_REVERSE | AL_INK_WARN, " PAUSED ") + 1;
    if (ui->typing) {
        x += al_grid_text(p->g, x, y, end - x, AL_STYLE_BOLD, "filter: ");
        x += al_grid_text(p->g, x, y, end - x - 1, AL_INK_PLAIN, ui->typed);
        al_grid_put(p->g, x, y, ' ', AL_STYLE_REVERSE);
        return;
    }
    const char *said = ui->message[0] ? ui->message : ui->top == 1 && p->in->ended ? p->in->ended : p->in->said;
    if (*said) {
        (void)al_grid_text(p->g, x, y, end - x, AL_INK_WARN | AL_STYLE_BOLD, said);
        return;
    }
    if (*ui->filter) {
        x += al_grid_text(p->g, x, y, end - x, AL_INK_WARN | AL_STYLE_BOLD, "filter: ");
        x += al_grid_text(p->g, x, y, end - x, AL_INK_WARN, ui->filter) + 2;
    }
    for (const char *const *hint = hints; *hint; hint += 2) {
        if (x + al_text_width(hint[0]) + al_text_width(hint[1]) + 1 > end)
            break;
        x += al_grid_text(p->g, x, y, end - x, AL_STYLE_BOLD | AL_INK_COOL, hint[0]) + 1;
        x += al_grid_text(p->g, x, y, end - x, AL_INK_PLAIN, hint[1]) + 2;
    }
}

// What the table is of, in the line above it.
static void about_line(struct page *p, bool around) {
    struct al_grid *g = p->g;
    int y = HEAD_LINES - 1;
    if (around) {
        int x = 1 + al_grid_text(g, 1, y, g->w - 1, AL_STYLE_DIM, "function ");
        (void)al_grid_text(g, x, y, g->w - x, AL_STYLE_BOLD, p->ui->open_name);
    } else if (p->in->ended) {
        (void)al_grid_text(g, 1, y, g->w - 1, AL_INK_BAD | AL_STYLE_BOLD, p->in->ended);
    } else if (p->ui->thread_name[0]) {
        int x = 1 + al_grid_text(g, 1, y, g->w - 1, AL_INK_WARN | AL_STYLE_BOLD, "only ");
        (void)al_grid_text(g, x, y, g->w - x, AL_INK_WARN, p->ui->thread_name);
    }
}

void al_stacks_draw(struct al_grid *g, const struct al_stacks_in *in, struct al_stacks_ui *ui) {
    struct page p = {g, in, ui};
    bool around = ui->open != AL_PROFILE_NONE && in->around;
    ui->top = g->h >= HEAD_FULL_H ? HEAD_LINES : 1;
    int body = g->h - ui->top - 2;
    title_line(&p);
    if (ui->top == HEAD_LINES) {
        figures_line(&p);
        state_line(&p);
        about_line(&p, around);
    }
    if (ui->help) {
        help_page(&p, ui->top, body + 1);
    } else {
        head_line(&p, ui->top);
        if (around)
            around_page(&p, ui->top + 1, body);
        else
            rows(&p, ui->top + 1, body);
    }
    if (g->h > 1)
        status_line(&p, g->h - 1);
}
