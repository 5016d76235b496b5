// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "export/ps.h"

#define CELL 48
#define COMMAND_LEAST 16
#define PHASE_OLD_NS (10 * AL_NS_PER_S) // a phase that lasts longer says for how long

enum column { PID, USER, ROLE, RANK, GPU, GPU_MEMORY, CPU, RSS, AGE, STEP, RATE, DATA, PHASE, COMMAND, COLUMNS };

// `keep`: the lowest stay longest where the terminal is narrow.
static const struct {
    const char *title;
    int keep;
    bool right, optional; // optional: left out where no row has it
} columns[COLUMNS] = {
    [PID] = {"PID", 0, true, false},        [USER] = {"USER", 7, false, false},
    [ROLE] = {"ROLE", 3, false, false},     [RANK] = {"RANK", 2, true, true},
    [GPU] = {"GPU", 4, false, true},        [GPU_MEMORY] = {"GPU MEM", 8, true, true},
    [CPU] = {"CPU%", 10, true, false},      [RSS] = {"RSS ANON", 9, true, false},
    [AGE] = {"AGE", 11, true, false},       [STEP] = {"STEP", 5, true, true},
    [RATE] = {"STEP/S", 6, true, true},     [DATA] = {"DATA", 12, true, true},
    [PHASE] = {"PHASE", 4, false, true},    [COMMAND] = {"COMMAND", 1, false, false},
};

struct table {
    const struct al_snapshot *s;
    const struct al_ps_options *o;
    struct al_ps_row *rows;
    uint32_t count;
    char (*cells)[COMMAND][CELL]; // a row of them for each process
    int width[COLUMNS]; // 0: left out
};

// ---- cells ----

static bool has(struct al_value v) {
    return v.status == AL_STATUS_OK || v.status == AL_STATUS_STALE;
}

static void mark_old(char *out, struct al_value v) {
    size_t len = strlen(out);
    if (v.status == AL_STATUS_STALE && len + 1 < CELL) {
        out[len] = '~';
        out[len + 1] = '\0';
    }
}

static void bytes(char *out, struct al_value v) {
    if (!has(v))
        return;
    (void)al_fmt_bytes(out, CELL, v.num);
    mark_old(out, v);
}

static void fixed(char *out, struct al_value v, double factor, int decimals) {
    if (!has(v))
        return;
    (void)al_fmt_fixed(out, CELL, v.num * factor, decimals);
    mark_old(out, v);
}

static void gpu_label(const struct al_snapshot *s, const struct al_gpu *g, char *out, size_t size) {
    if (g->info.is_mig && g->info.parent >= 0 && (uint32_t)g->info.parent < s->gpu_count)
        (void)snprintf(out, size, "%u:%u", s->gpus[g->info.parent].info.index, g->info.gpu_instance);
    else
        (void)snprintf(out, size, "%u", g->info.index);
}

static void gpus(char *out, const struct al_snapshot *s, pid_t pid) {
    size_t len = 0;
    for (uint32_t i = 0; i < s->row_count; i++) {
        char label[24];
        if (s->rows[i].pid != pid || s->rows[i].gpu >= s->gpu_count)
            continue;
        gpu_label(s, &s->gpus[s->rows[i].gpu], label, sizeof label);
        if (len + strlen(label) + 4 >= CELL) {
            (void)snprintf(out + len, CELL - len, ",+");
            return;
        }
        len += (size_t)snprintf(out + len, CELL - len, "%s%s", len ? "," : "", label);
    }
}

static void rank_text(char *out, const struct al_ps_row *row) {
    int32_t rank = row->p->rank >= 0 ? row->p->rank : row->rank ? row->rank->rank : -1;
    int32_t world = row->p->world_size > 0 ? row->p->world_size : row->rank ? row->rank->world : -1;
    if (rank < 0 || row->p->role == AL_ROLE_WORKER || row->p->role == AL_ROLE_OTHER)
        return;
    if (world > 0)
        (void)snprintf(out, CELL, "%d/%d", (int)rank, (int)world);
    else
        (void)snprintf(out, CELL, "%d", (int)rank);
}

static void training(const struct table *t, const struct al_rank *r, char (*cell)[CELL]) {
    const char *phase = al_rank_phase(r);
    char age[24];
    bool trains = al_ok(r->m[AL_RANK_TRAINING]) ? r->m[AL_RANK_TRAINING].num != 0 : has(r->m[AL_RANK_STEP]);
    if (trains) {
        fixed(cell[STEP], r->m[AL_RANK_STEP], 1, 0);
        fixed(cell[RATE], r->m[AL_RANK_STEP_RATE], 1, 2);
        fixed(cell[DATA], r->m[AL_RANK_SHARE_DATA], 100, 1);
        if (*cell[DATA])
            (void)snprintf(cell[DATA] + strlen(cell[DATA]), 4, " %%");
    }
    struct al_value v = r->m[AL_RANK_PHASE];
    int64_t since = t->s->monotonic_ns - v.at_ns;
    if (!phase && has(v) && v.num >= 0 && v.num <= AL_RANK_BETWEEN)
        phase = al_rank_phase_word((uint32_t)v.num);
    if (!phase)
        return;
    if (trains && has(v) && v.at_ns > 0 && since > PHASE_OLD_NS) {
        (void)al_fmt_duration(age, sizeof age, (double)since / 1e9);
        (void)snprintf(cell[PHASE], CELL, "%s %s", phase, age);
    } else {
        (void)al_str_copy(cell[PHASE], CELL, phase);
    }
}

static void fill(const struct table *t, const struct al_ps_row *row, char (*cell)[CELL]) {
    const struct al_proc *p = row->p;
    (void)snprintf(cell[PID], CELL, "%d", (int)p->pid);
    (void)al_str_copy(cell[USER], CELL, p->user);
    (void)al_str_clean(cell[USER]);
    (void)al_str_copy(cell[ROLE], CELL, p->role == AL_ROLE_UNKNOWN ? "" : al_role_word(p->role));
    rank_text(cell[RANK], row);
    gpus(cell[GPU], t->s, p->pid);
    bytes(cell[GPU_MEMORY], al_snapshot_proc_memory(t->s, p->pid));
    fixed(cell[CPU], p->m[AL_PROC_CPU], 100, 1);
    bytes(cell[RSS], p->m[AL_PROC_RSS_ANON]);
    if (p->started_realtime_ns && t->s->realtime_ns > p->started_realtime_ns)
        (void)al_fmt_duration(cell[AGE], CELL, (double)(t->s->realtime_ns - p->started_realtime_ns) / 1e9);
    if (row->rank)
        training(t, row->rank, cell);
}

// ---- widths ----

static int text_width(const char *text) {
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

// Column by column as long as there is room, what matters most first.
static void plan(struct table *t) {
    int wanted[COLUMNS] = {0}, left = t->o->width ? (int)t->o->width : 1 << 20;
    for (int c = 0; c < COMMAND; c++) {
        bool any = !columns[c].optional;
        wanted[c] = (int)strlen(columns[c].title);
        for (uint32_t i = 0; i < t->count; i++) {
            int width = text_width(t->cells[i][c]);
            any |= width > 0;
            wanted[c] = width > wanted[c] ? width : wanted[c];
        }
        wanted[c] = any ? wanted[c] : 0;
    }
    wanted[COMMAND] = COMMAND_LEAST;
    for (int keep = 0; keep < COLUMNS; keep++)
        for (int c = 0; c < COLUMNS; c++)
            if (columns[c].keep == keep && wanted[c] && (wanted[c] + 2 <= left || c == PID)) {
                t->width[c] = wanted[c];
                left -= wanted[c] + 2;
            }
    if (t->width[COMMAND])
        t->width[COMMAND] += left + 2; // nothing follows it
}

// ---- printing ----

static void style(struct al_buf *b, const struct table *t, const char *sgr) {
    if (t->o->color)
        al_buf_printf(b, "\033[%sm", sgr);
}

// Cut at `width` columns; blanks up to there only where something follows.
static void print(struct al_buf *b, const char *text, int width, bool right, bool pad) {
    int used = text_width(text);
    if (right && used < width)
        al_buf_pad(b, ' ', (size_t)(width - used));
    if (used <= width) {
        al_buf_str(b, text);
    } else {
        int n = 0;
        const char *end = text;
        while (*end && (n < width - 1 || ((unsigned char)*end & 0xc0) == 0x80))
            n += ((unsigned char)*end++ & 0xc0) != 0x80;
        while (((unsigned char)*end & 0xc0) == 0x80)
            end++;
        al_buf_add(b, text, (size_t)(end - text));
        al_buf_char(b, '+');
    }
    if (!right && pad && used < width)
        al_buf_pad(b, ' ', (size_t)(width - used));
}

static void command(const struct table *t, const struct al_ps_row *row, char *out, size_t size) {
    const struct al_proc *p = row->p;
    size_t len = 0;
    for (int d = 1; d < row->depth && len + 8 < size; d++)
        len += (size_t)snprintf(out + len, size - len, "%s", !(row->guides >> d & 1) ? "  " : t->o->ascii ? "| " : "│ ");
    if (row->depth && len + 8 < size)
        len += (size_t)snprintf(out + len, size - len, "%s",
                                t->o->ascii ? (row->last ? "`-" : "|-") : row->last ? "└─" : "├─");
    const char *text = *p->command ? p->command : *p->exe ? p->exe : p->comm;
    if (!*text && p->foreign)
        text = "(not visible from here: another container or user)";
    (void)al_str_copy(out + len, size - len, text);
    (void)al_str_clean(out);
}

static const char *style_of(const struct al_ps_row *row, int column) {
    bool works = row->p->role == AL_ROLE_RANK || row->p->role == AL_ROLE_ENGINE || row->p->role == AL_ROLE_NOTEBOOK;
    if (column == ROLE && works)
        return "36";
    if (column == PHASE || column == STEP || column == RATE)
        return "32";
    return row->p->role == AL_ROLE_WORKER || row->p->role == AL_ROLE_OTHER ? "2" : NULL;
}

static void line(struct al_buf *b, const struct table *t, uint32_t i) {
    char text[AL_CMD_MAX + 160];
    const struct al_ps_row *row = &t->rows[i];
    bool first = true;
    for (int c = 0; c < COLUMNS; c++) {
        if (!t->width[c])
            continue;
        if (!first)
            al_buf_str(b, "  ");
        first = false;
        const char *sgr = style_of(row, c);
        if (c == COMMAND)
            command(t, row, text, sizeof text);
        else
            (void)al_str_copy(text, sizeof text, *t->cells[i][c] ? t->cells[i][c] : "-");
        if (sgr)
            style(b, t, sgr);
        print(b, text, t->width[c], columns[c].right, c != COMMAND && t->width[COMMAND] > 0);
        if (sgr)
            style(b, t, "0");
    }
    al_buf_char(b, '\n');
}

static void head(struct al_buf *b, const struct table *t) {
    bool first = true;
    style(b, t, "1");
    for (int c = 0; c < COLUMNS; c++) {
        if (!t->width[c])
            continue;
        if (!first)
            al_buf_str(b, "  ");
        first = false;
        print(b, columns[c].title, t->width[c], columns[c].right, c != COMMAND && t->width[COMMAND] > 0);
    }
    style(b, t, "0");
    al_buf_char(b, '\n');
}

int al_ps_table(struct al_buf *b, const struct al_snapshot *s, const struct al_ps_options *o, uint32_t *ret_count) {
    struct table t = {.s = s, .o = o};
    int result = al_ps_rows(s, o->user, &t.rows, &t.count);
    if (result)
        return result;
    t.cells = calloc(t.count + 1, sizeof *t.cells);
    result = t.cells ? 0 : AL_E_NOMEM;
    for (uint32_t i = 0; i < t.count && !result; i++)
        fill(&t, &t.rows[i], t.cells[i]);
    if (!result)
        plan(&t);
    if (!result && t.count)
        head(b, &t);
    for (uint32_t i = 0; i < t.count && !result; i++)
        line(b, &t, i);
    if (ret_count)
        *ret_count = t.count;
    free(t.cells);
    free(t.rows);
    return result ? result : b->failed ? AL_E_NOMEM : 0;
}
