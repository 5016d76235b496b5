// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/live.h"

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

static double seconds(const struct al_hot_view *v, uint64_t samples) {
    return v->ticks_ever ? (double)samples * ((double)v->span_ever_ns / 1e9) / (double)v->ticks_ever : 0;
}

static void place(struct al_buf *b, const char *name, const char *file, int32_t line) {
    al_buf_str(b, name);
    if (*file && line > 0)
        al_buf_printf(b, " (%s:%d)", file, (int)line);
    else if (*file)
        al_buf_printf(b, " (%s)", file);
}

static void clean(struct al_buf *b, size_t from) {
    for (size_t i = from; i < b->len; i++)
        if ((unsigned char)b->data[i] < 0x20 || b->data[i] == 0x7f)
            b->data[i] = '?';
}

static void row_text(struct al_buf *b, const struct al_live *l, const struct al_stacks_in *in, const struct al_hot_row *r) {
    const struct al_hot_view *v = in->view;
    size_t from = b->len;
    char gil[16] = "-";
    if (!in->no_gil)
        (void)snprintf(gil, sizeof gil, "%.1f", 100 * share(r->c.gil, r->c.all));
    if (l->ui.query.by == AL_HOT_BY_THREAD) {
        const char *name, *file;
        int32_t line;
        al_buf_printf(b, "%7.1f %9.2fs %5s %6.1f %6.1f  %s", 100 * share(r->c.self, r->c.all), seconds(v, r->self_ever), gil,
                      100 * share(r->c.waits, r->c.all), 100 * share(r->c.idle, r->c.all), r->name);
        if (in->processes > 1)
            al_buf_printf(b, ", %s", r->file);
        al_profile_get_frame(in->profile, r->most, &name, &file, &line);
        al_buf_str(b, *name ? ": " : "");
        place(b, name, file, line);
    } else {
        al_buf_printf(b, "%7.1f %7.1f %9.2fs %9.2fs %5s %6.1f  ", 100 * share(r->c.self, v->sum.total),
                      100 * share(r->c.total, v->sum.total), seconds(v, r->self_ever), seconds(v, r->total_ever), gil,
                      100 * share(r->c.idle, r->c.all));
        place(b, r->name, r->file, r->line);
        if (r->rank >= 0 && v->ranks > 1)
            al_buf_printf(b, "  rank %d: %.1f %%, others %.1f %%", (int)r->rank, 100 * r->rank_share, 100 * r->median_share);
    }
    clean(b, from);
    al_buf_char(b, '\n');
}

void al_live_text(struct al_buf *b, const struct al_live *l, const struct al_stacks_in *in) {
    const struct al_hot_view *v = in->view;
    char state[256];
    size_t from = b->len;
    al_buf_printf(b, "%s%s%s", in->title, *in->command ? ": " : "", in->command);
    clean(b, from);
    al_buf_printf(b, "\n%llu samples in %.1f s at %g a second; own cost %.1f %% of a core; moved %.2f %%", (unsigned long long)v->ticks_ever,
                  (double)v->span_ever_ns / 1e9, in->rate, 100 * in->own, 100 * in->moved);
    if (in->unreadable > 0)
        al_buf_printf(b, "; not readable %.2f %%", 100 * in->unreadable);
    if (in->late)
        al_buf_printf(b, "; late %llu", (unsigned long long)in->late);
    al_stacks_state_text(state, sizeof state, in);
    al_buf_printf(b, "%s%s\n%s%s\n", in->ended ? "; " : "", in->ended ? in->ended : "", state,
                  l->ui.query.gil ? "; only what held the GIL" : l->ui.query.idle ? "; idle threads count too" : "");
    if (l->ui.query.by == AL_HOT_BY_THREAD)
        al_buf_printf(b, " %6s       time  GIL%%  wait%%  idle%%  thread\n", l->ui.query.idle || l->ui.query.gil ? "count%" : "run%");
    else
        al_buf_printf(b, "  self%%  total%%       self      total  GIL%%  idle%%  %s\n", l->ui.query.by == AL_HOT_BY_LINE ? "line" : "function");
    for (uint32_t i = 0; i < v->count && i < l->rows; i++)
        row_text(b, l, in, &v->rows[i]);
    if (v->count > l->rows)
        al_buf_printf(b, "  (%u more rows: --rows)\n", (unsigned)(v->count - l->rows));
    if (!v->sum.total && !l->ui.query.idle)
        al_buf_printf(b, "  no thread was seen %s\n", l->ui.query.gil ? "with the GIL" : "running: --idle also counts those that sleep or wait");
}

// --- JSON ---

static void figure(struct al_buf *b, const char *name, double value) {
    al_buf_printf(b, "\"%s\": ", name);
    al_buf_fixed(b, value, 6);
    al_buf_str(b, ", ");
}

static void word(struct al_buf *b, const char *name, const char *value) {
    al_buf_printf(b, "\"%s\": ", name);
    al_json_string_or_null(b, value);
    al_buf_str(b, ", ");
}

static void gil(struct al_buf *b, const char *name, const struct al_stacks_in *in, double value) {
    if (in->no_gil)
        al_buf_printf(b, "\"%s\": null, ", name);
    else
        figure(b, name, value);
}

static void row_json(struct al_buf *b, const struct al_live *l, const struct al_stacks_in *in, const struct al_hot_row *r) {
    const struct al_hot_view *v = in->view;
    const char *name = r->name, *file = r->file;
    int32_t line = r->line;
    al_buf_char(b, '{');
    if (l->ui.query.by == AL_HOT_BY_THREAD) {
        word(b, "thread", r->name);
        word(b, "process", r->file);
        al_profile_get_frame(in->profile, r->most, &name, &file, &line);
        figure(b, "running_ratio", share(r->c.self, r->c.all));
        gil(b, "waits_for_gil_ratio", in, share(r->c.waits, r->c.all));
    } else {
        figure(b, "self_ratio", share(r->c.self, v->sum.total));
        figure(b, "total_ratio", share(r->c.total, v->sum.total));
        figure(b, "total_seconds", seconds(v, r->total_ever));
    }
    figure(b, "self_seconds", seconds(v, r->self_ever));
    gil(b, "gil_ratio", in, share(r->c.gil, r->c.all));
    figure(b, "idle_ratio", share(r->c.idle, r->c.all));
    if (r->rank >= 0 && v->ranks > 1) {
        al_buf_printf(b, "\"rank\": %d, ", (int)r->rank);
        figure(b, "rank_ratio", r->rank_share);
        figure(b, "median_ratio", r->median_share);
    }
    word(b, "function", name);
    word(b, "file", file);
    al_buf_str(b, "\"line\": ");
    al_json_integer_or_null(b, line > 0, line);
    al_buf_char(b, '}');
}

static void processes_json(struct al_buf *b, const struct al_live *l) {
    char role[96];
    for (uint32_t i = 0, printed = 0; i < l->p.target_count; i++) {
        const struct al_profile_target *t = l->p.targets[i];
        if (!t->stack && !t->before.samples)
            continue;
        al_stacks_role(&t->process, role, sizeof role);
        al_buf_printf(b, "%s{\"pid\": %d, ", printed++ ? ", " : "", (int)t->process.pid);
        word(b, "role", role);
        al_buf_str(b, "\"rank\": ");
        al_json_integer_or_null(b, t->process.rank >= 0, t->process.rank);
        al_buf_str(b, ", \"command\": ");
        al_json_string_or_null(b, t->process.command);
        al_buf_char(b, '}');
    }
}

void al_live_json(struct al_buf *b, const struct al_live *l, const struct al_stacks_in *in) {
    const struct al_hot_view *v = in->view;
    static const char *const by[] = {"function", "line", "thread"};
    al_buf_str(b, "{\"processes\": [");
    processes_json(b, l);
    al_buf_printf(b, "], \"by\": \"%s\", \"ended\": %s, \"samples\": %llu, \"late\": %llu, \"counted\": %llu, ", by[l->ui.query.by],
                  in->ended ? "true" : "false", (unsigned long long)v->ticks_ever, (unsigned long long)in->late,
                  (unsigned long long)v->sum.total);
    figure(b, "seconds", (double)v->span_ever_ns / 1e9);
    figure(b, "rate_hertz", in->rate);
    figure(b, "own_cores", in->own);
    figure(b, "moved_ratio", in->moved);
    figure(b, "not_readable_ratio", in->unreadable);
    gil(b, "gil_held_ratio", in, share(v->sum.gil, v->ticks * (in->processes ? in->processes : 1)));
    figure(b, "threads", share(v->sum.all, v->ticks));
    figure(b, "idle_threads", share(v->sum.idle, v->ticks));
    gil(b, "threads_waiting_for_gil", in, share(v->sum.waits, v->ticks));
    al_buf_str(b, "\"rows\": [");
    for (uint32_t i = 0; i < v->count && i < l->rows; i++) {
        al_buf_str(b, i ? ", " : "");
        row_json(b, l, in, &v->rows[i]);
    }
    al_buf_str(b, "]}\n");
}
