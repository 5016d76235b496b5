// SPDX-License-Identifier: Apache-2.0
// The process table.
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "tui/draw.h"

enum column { COL_PID, COL_USER, COL_GPU, COL_ROLE, COL_MEM, COL_SM, COL_CPU, COL_RSS, COL_TIME, COL_STEP, COL_RATE,
              COL_DATA, COL_PHASE, COL_VISIBLE, COL_CONTAINER, COL_COMMAND, COL_COUNT };

static const struct {
    const char *title;
    int width, rank, sort; // sort: enum al_sort, -1 none
    bool right;
} columns[COL_COUNT] = {
    [COL_PID] = {"PID", 7, 0, AL_SORT_PID, true},        [COL_USER] = {"user", 9, 11, AL_SORT_USER, false},
    [COL_GPU] = {"GPU", 5, 2, AL_SORT_GPU, false},       [COL_ROLE] = {"role", 8, 4, AL_SORT_ROLE, false},
    [COL_MEM] = {"GPU mem", 7, 3, AL_SORT_MEM, true},    [COL_SM] = {"SM%", 4, 5, AL_SORT_SM, true},
    [COL_CPU] = {"CPU%", 5, 10, AL_SORT_CPU, true},      [COL_RSS] = {"host mem", 8, 12, AL_SORT_RSS, true},
    [COL_TIME] = {"time", 7, 13, AL_SORT_TIME, true},    [COL_VISIBLE] = {"visible", 9, 14, -1, false},
    [COL_STEP] = {"step", 7, 6, -1, true},               [COL_RATE] = {"steps/s", 7, 8, AL_SORT_STEPS, true},
    [COL_DATA] = {"data%", 5, 9, -1, true},              [COL_PHASE] = {"phase", 9, 7, -1, false},
    [COL_CONTAINER] = {"container", 12, 15, -1, false},  [COL_COMMAND] = {"command", 12, 1, AL_SORT_COMMAND, false},
};

struct plan {
    int x[COL_COUNT], width[COL_COUNT]; // width 0: not there
};

static bool is_of_ranks(int column) {
    return column == COL_STEP || column == COL_RATE || column == COL_DATA || column == COL_PHASE;
}

// A column that no row fills is left out.
static bool wanted(const struct al_scene *v, int column) {
    bool of_ranks = is_of_ranks(column);
    if (column != COL_VISIBLE && column != COL_CONTAINER && column != COL_TIME && !of_ranks)
        return true;
    for (uint32_t i = 0; i < v->proc_count; i++) {
        const struct al_proc *p = v->procs[i].p;
        if (of_ranks && v->procs[i].rank)
            return true;
        if (!p || of_ranks)
            continue;
        if (column == COL_TIME ? p->started_realtime_ns != 0 : column == COL_VISIBLE ? *p->visible_devices
                                                                            : *p->container || *p->pod || *p->slurm_job)
            return true;
    }
    return false;
}

static void make_plan(const struct al_scene *v, int w, struct plan *ret) {
    int left = w, x = 0;
    memset(ret, 0, sizeof *ret);
    for (int rank = 0; rank < COL_COUNT; rank++)
        for (int c = 0; c < COL_COUNT; c++)
            if (columns[c].rank == rank && columns[c].width + (left < w) <= left && wanted(v, c)) {
                left -= columns[c].width + (left < w);
                ret->width[c] = columns[c].width;
            }
    if (ret->width[COL_COMMAND])
        ret->width[COL_COMMAND] += left;
    else
        ret->width[COL_PID] = ret->width[COL_PID] ? ret->width[COL_PID] : w;
    for (int c = 0; c < COL_COUNT; c++) {
        ret->x[c] = x;
        x += ret->width[c] ? ret->width[c] + 1 : 0;
    }
}

int al_draw_proc_sort_at(const struct al_scene *v, int w, int x) {
    struct plan plan;
    make_plan(v, w, &plan);
    for (int c = 0; c < COL_COUNT; c++)
        if (plan.width[c] && x >= plan.x[c] && x < plan.x[c] + plan.width[c])
            return columns[c].sort;
    return -1;
}

static void percent(char out[AL_TXT], struct al_value v) {
    al_txt_short(out, AL_UNIT_RATIO, v);
    char *sign = strchr(out, '%');
    if (sign)
        memmove(sign, sign + 1, strlen(sign));
}

static void role(const struct al_scene_proc *row, char out[AL_TXT]) {
    const struct al_proc *p = row->p;
    int32_t rank = p && p->rank < 0 && row->rank ? row->rank->rank : p ? p->rank : -1;
    if (!p)
        (void)al_str_copy(out, AL_TXT, "?");
    else if (rank >= 0 && (p->role == AL_ROLE_RANK || p->role == AL_ROLE_UNKNOWN))
        (void)snprintf(out, AL_TXT, "rank %d", (int)rank);
    else
        (void)al_str_copy(out, AL_TXT, p->role == AL_ROLE_UNKNOWN || p->role == AL_ROLE_OTHER ? "" : al_role_word(p->role));
}

static void lifetime(const struct al_draw *d, const struct al_proc *p, char out[AL_TXT]) {
    int64_t ns = p && p->started_realtime_ns ? d->in->s->realtime_ns - p->started_realtime_ns : -1;
    al_txt_short(out, AL_UNIT_SECONDS,
                 ns >= 0 ? al_value_ok((double)ns / (double)AL_NS_PER_S, 0) : al_value_none(AL_STATUS_UNREAD));
}

static const char *where(const struct al_proc *p) {
    return *p->container ? p->container : *p->pod ? p->pod : p->slurm_job;
}

static void tree_text(const struct al_scene_proc *row, char *out, size_t size) {
    size_t len = 0;
    out[0] = '\0';
    for (int i = 1; i < row->depth && len + 8 < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s", row->guides >> i & 1 ? "│ " : "  ");
    if (row->depth > 0 && len + 8 < size)
        (void)snprintf(out + len, size - len, "%s", row->last ? "└─" : "├─");
}

static void command_text(const struct al_scene_proc *row, char *out, size_t size) {
    const struct al_proc *p = row->p;
    tree_text(row, out, size);
    size_t len = strlen(out);
    if (row->workers) {
        (void)snprintf(out + len, size - len, "%u DataLoader worker%s (w shows them)", row->workers, row->workers > 1 ? "s" : "");
        return;
    }
    const char *text = !p ? row->driver_name : *p->command ? p->command : *p->comm ? p->comm : p->exe;
    if (!*text)
        text = !p || p->foreign ? "(not visible from here: another container or user)" : "";
    (void)al_str_copy(out + len, size - len, text);
}

// Narrow words for the table; the details have the whole ones.
static const char *phase_word(const struct al_rank *r) {
    const struct al_value *v = &r->m[AL_RANK_PHASE];
    const char *word = al_rank_phase(r);
    if (!word && v->status == AL_STATUS_STALE && v->num >= 0 && v->num <= AL_RANK_BETWEEN)
        word = al_rank_phase_word((uint32_t)v->num);
    if (!word)
        return "-";
    if (strcmp(word, al_rank_phase_word(AL_RANK_BETWEEN)) == 0)
        return "between";
    return al_str_starts(word, "communic") ? "comm." : al_str_starts(word, "evaluat") ? "eval." : word;
}

static void rank_text(const struct al_rank *r, int column, char out[AL_TXT]) {
    if (!r)
        return;
    struct al_value rate = r->m[AL_RANK_STEP_RATE];
    switch (column) {
    case COL_STEP: al_txt_short(out, AL_UNIT_COUNT, r->m[AL_RANK_STEP]); break;
    case COL_RATE:
        if (al_txt_has(rate))
            (void)al_fmt_fixed(out, AL_TXT - 1, rate.num, rate.num >= 100 ? 0 : rate.num >= 10 ? 1 : 2);
        else
            (void)al_str_copy(out, AL_TXT, "-");
        if (rate.status == AL_STATUS_STALE)
            (void)al_str_copy(out + strlen(out), 2, "~");
        break;
    case COL_DATA: percent(out, r->m[AL_RANK_SHARE_DATA]); break;
    default: (void)al_str_copy(out, AL_TXT, phase_word(r));
    }
}

static void cell_text(const struct al_draw *d, const struct al_scene_proc *row, int column, char *out, size_t size) {
    char text[AL_TXT] = "";
    out[0] = '\0';
    switch (column) {
    case COL_PID:
        if (row->pid)
            (void)snprintf(text, sizeof text, "%d", (int)row->pid);
        break;
    case COL_GPU: al_scene_gpus(d->in->s, row, out, size); return;
    case COL_USER: (void)al_str_copy(out, size, row->p ? row->p->user : ""); return;
    case COL_ROLE:
        if (row->workers)
            (void)snprintf(text, sizeof text, "%u work.", row->workers);
        else
            role(row, text);
        break;
    case COL_MEM:
        if (row->memory.status != AL_STATUS_UNREAD)
            al_txt_short(text, AL_UNIT_BYTES, row->memory);
        break;
    case COL_SM:
        if (row->memory.status != AL_STATUS_UNREAD)
            percent(text, row->sm);
        break;
    case COL_CPU: percent(text, row->cpu); break;
    case COL_RSS: al_txt_short(text, AL_UNIT_BYTES, row->rss); break;
    case COL_TIME:
        if (!row->workers)
            lifetime(d, row->p, text);
        break;
    case COL_STEP:
    case COL_RATE:
    case COL_DATA:
    case COL_PHASE: rank_text(row->rank, column, text); break;
    case COL_VISIBLE: (void)al_str_copy(out, size, row->p ? row->p->visible_devices : ""); return;
    case COL_CONTAINER: (void)al_str_copy(out, size, row->p ? where(row->p) : ""); return;
    default: command_text(row, out, size); return;
    }
    (void)al_str_copy(out, size, text);
}

static uint8_t style_of(const struct al_scene_proc *row, int column) {
    const struct al_proc *p = row->p;
    if (p && (p->state == 'Z' || p->state == 'D') && column == COL_PID)
        return p->state == 'Z' ? AL_INK_BAD : AL_INK_WARN;
    if (is_of_ranks(column) && row->rank)
        return row->rank->m[AL_RANK_STEP].status == AL_STATUS_STALE ? AL_STYLE_DIM : column == COL_PHASE ? AL_INK_BLUE : AL_INK_PLAIN;
    if (row->rank)
        return column == COL_ROLE ? AL_INK_ODD : column == COL_MEM ? AL_INK_COOL : column == COL_SM ? AL_INK_GOOD : AL_INK_PLAIN;
    if (row->workers || (p && !p->holds_context && row->memory.status == AL_STATUS_UNREAD))
        return column == COL_COMMAND || column == COL_ROLE ? AL_STYLE_DIM : AL_INK_PLAIN;
    if (column == COL_MEM)
        return row->memory.status == AL_STATUS_STALE ? AL_STYLE_DIM : AL_INK_COOL;
    if (column == COL_SM)
        return row->sm.status == AL_STATUS_STALE ? AL_STYLE_DIM : AL_INK_GOOD;
    return column == COL_ROLE ? AL_INK_ODD : AL_INK_PLAIN;
}

static void draw_row(struct al_draw *d, const struct plan *plan, const struct al_scene_proc *row, struct al_rect r, bool chosen) {
    char text[AL_CMD_MAX + 128];
    uint8_t over = chosen ? AL_STYLE_REVERSE : 0;
    if (chosen)
        al_grid_fill(d->g, r, ' ', AL_STYLE_REVERSE);
    for (int c = 0; c < COL_COUNT; c++) {
        if (!plan->width[c])
            continue;
        cell_text(d, row, c, text, sizeof text);
        uint8_t style = (uint8_t)(style_of(row, c) | over);
        if (columns[c].right)
            (void)al_grid_text_right(d->g, r.x + plan->x[c], r.y, plan->width[c], style, text);
        else
            (void)al_grid_text(d->g, r.x + plan->x[c], r.y, plan->width[c], style, text);
    }
}

static void head(struct al_draw *d, const struct plan *plan, struct al_rect r) {
    al_grid_fill(d->g, (struct al_rect){r.x, r.y, r.w, 1}, ' ', AL_STYLE_LINE);
    for (int c = 0; c < COL_COUNT; c++) {
        bool by_this = columns[c].sort == (int)d->ui->sort;
        uint8_t style = (uint8_t)(AL_STYLE_LINE | AL_STYLE_BOLD | (by_this ? AL_INK_COOL : 0));
        char text[AL_TXT];
        // The mark only where it does not push the title out.
        bool mark = by_this && (int)strlen(columns[c].title) < plan->width[c];
        (void)snprintf(text, sizeof text, "%s%s", columns[c].title, mark ? d->ui->reverse ? "▲" : "▼" : "");
        if (columns[c].right)
            (void)al_grid_text_right(d->g, r.x + plan->x[c], r.y, plan->width[c], style, text);
        else
            (void)al_grid_text(d->g, r.x + plan->x[c], r.y, plan->width[c], style, text);
    }
}

static void say_nothing(struct al_draw *d, struct al_rect r) {
    const char *text = *d->ui->filter && d->v->proc_all ? "no process matches the filter (Esc clears it)"
                       : d->in->s ? "no process on these GPUs" : "";
    (void)al_grid_text(d->g, r.x, r.y + d->l->proc_head, r.w, AL_STYLE_DIM, text);
}

void al_draw_procs(struct al_draw *d, struct al_rect r) {
    struct plan plan;
    if (r.h < 1)
        return;
    make_plan(d->v, r.w, &plan);
    if (d->l->proc_head)
        head(d, &plan, r);
    if (!d->v->proc_count)
        say_nothing(d, r);
    for (int row = 0; row < r.h - d->l->proc_head; row++) {
        int i = row + d->ui->proc_scroll;
        if (i >= (int)d->v->proc_count)
            break;
        draw_row(d, &plan, &d->v->procs[i], (struct al_rect){r.x, r.y + d->l->proc_head + row, r.w, 1},
                 d->ui->focus == AL_FOCUS_PROCS && i == d->ui->proc);
    }
}
