// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "export/hot_parts.h"

#define RANKS_MOST 1024u
#define RANK_SAMPLES_LEAST 10 // of a rank that count, before its shares are compared: one alone would be 100 %

void al_profile_get_frame(const struct al_profile *p, uint32_t frame, const char **name, const char **file, int32_t *line) {
    bool known = frame < p->frame_count;
    *name = known ? p->frames[frame].name : "";
    *file = !known ? "" : *p->frames[frame].file ? p->frames[frame].file : p->frames[frame].object;
    *line = known ? p->frames[frame].line : 0;
}

// --- functions of frames ---

static uint64_t function_hash(const struct al_profile_frame *f) {
    uint64_t h = 0xcbf29ce484222325ULL ^ (uint32_t)f->first_line;
    for (const char *c = f->name; *c; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3ULL;
    for (const char *c = f->file; *c; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3ULL;
    for (const char *c = f->object; *c; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3ULL;
    return h ^ h >> 29;
}

static bool same_function(const struct al_profile_frame *a, const struct al_profile_frame *b) {
    return a->first_line == b->first_line && strcmp(a->name, b->name) == 0 && strcmp(a->file, b->file) == 0 &&
           strcmp(a->object, b->object) == 0;
}

static uint32_t place_of(const struct al_profile *p, const struct al_profile_index *x, uint32_t frame) {
    uint32_t at = (uint32_t)function_hash(&p->frames[frame]) & (x->size - 1);
    while (x->slots[at] && !same_function(&p->frames[x->slots[at] - 1], &p->frames[frame]))
        at = (at + 1) & (x->size - 1);
    return at;
}

static int index_functions(struct al_hot *h, const struct al_profile *p) {
    if (h->function_cap < p->frame_count) {
        uint32_t cap = p->frame_cap;
        uint32_t *more = realloc(h->function_of, cap * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        h->function_of = more;
        h->function_cap = cap;
    }
    if (h->by_function.size < p->frame_count * 2 + 2) {
        struct al_profile_index larger = {.size = 1024};
        while (larger.size < p->frame_cap * 2 + 2)
            larger.size *= 2;
        larger.slots = calloc(larger.size, sizeof *larger.slots);
        if (!larger.slots)
            return AL_E_NOMEM;
        free(h->by_function.slots);
        h->by_function = larger;
        h->function_count = 0; // all anew
    }
    for (uint32_t i = h->function_count; i < p->frame_count; i++) {
        uint32_t at = place_of(p, &h->by_function, i);
        if (!h->by_function.slots[at])
            h->by_function.slots[at] = i + 1;
        h->function_of[i] = h->by_function.slots[at] - 1;
    }
    h->function_count = p->frame_count;
    return 0;
}

// --- rows ---

static bool counts(const struct al_hot_query *q, const struct al_hot_cell *c) {
    if (q->track != AL_PROFILE_NONE && c->track != q->track)
        return false;
    return q->gil ? (c->state & AL_HOT_GIL) != 0 : q->idle || !(c->state & AL_HOT_IDLE);
}

static void add_states(struct al_hot_counts *to, const struct al_hot_cell *c, uint64_t n) {
    to->all += n;
    to->gil += c->state & AL_HOT_GIL ? n : 0;
    to->waits += c->state & AL_HOT_WAITS ? n : 0;
    to->idle += c->state & AL_HOT_IDLE ? n : 0;
}

static int32_t rank_of(const struct al_hot *h, const struct al_hot_cell *c) {
    uint32_t process = c->track < h->thread_count ? h->threads[c->track].process : AL_PROFILE_NONE;
    int32_t rank = process < h->process_count ? h->processes[process].rank : -1;
    return rank < (int32_t)RANKS_MOST ? rank : -1;
}

static uint32_t rank_count(const struct al_hot *h) {
    int32_t most = -1;
    for (uint32_t i = 0; i < h->process_count; i++)
        if (h->processes[i].rank > most && h->processes[i].rank < (int32_t)RANKS_MOST)
            most = h->processes[i].rank;
    return (uint32_t)(most + 1);
}

static int make_room(struct al_hot_view *v, uint32_t rows, uint32_t ranks) {
    if (v->cap < rows) {
        struct al_hot_row *more = realloc(v->rows, rows * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        v->rows = more;
        v->cap = rows;
    }
    if (v->stamp_cap < rows) {
        uint32_t *more = realloc(v->stamps, rows * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        v->stamps = more;
        v->stamp_cap = rows;
    }
    size_t by_rank = ((size_t)rows + 1) * ranks; // the last line: all samples of the rank
    if (v->by_rank_cap < by_rank) {
        float *more = realloc(v->by_rank, by_rank * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        v->by_rank = more;
        v->by_rank_cap = by_rank;
    }
    if (rows)
        memset(v->stamps, 0, rows * sizeof *v->stamps);
    if (by_rank)
        memset(v->by_rank, 0, by_rank * sizeof *v->by_rank);
    return 0;
}

struct pass {
    struct al_hot *h;
    const struct al_profile *p;
    const struct al_hot_query *q;
    struct al_hot_view *v;
    uint32_t rows, ranks;
};

static void take_row(const struct pass *a, struct al_hot_row *row, const struct al_hot_cell *c, bool leaf, bool counted, int32_t rank) {
    uint64_t n = a->q->whole ? c->ever : c->window;
    add_states(&row->c, c, n);
    if (!counted)
        return;
    row->c.total += n;
    row->total_ever += c->ever;
    row->c.self += leaf ? n : 0;
    row->self_ever += leaf ? c->ever : 0;
    if (rank >= 0)
        a->v->by_rank[(size_t)(row - a->v->rows) * a->ranks + (uint32_t)rank] += (float)n;
}

// The row that a node of a stack counts for; AL_PROFILE_NONE none. below: the node that it called, AL_PROFILE_NONE for the leaf.
static uint32_t row_of(const struct pass *a, uint32_t node, uint32_t below) {
    const struct al_profile_node *nodes = a->p->nodes;
    const uint32_t *function_of = a->h->function_of;
    uint32_t frame = nodes[node].frame, function = function_of[frame];
    switch (a->q->part) {
    case AL_HOT_LINES_OF: return function == a->q->of ? frame : AL_PROFILE_NONE;
    case AL_HOT_CALLERS_OF:
        return below != AL_PROFILE_NONE && function_of[nodes[below].frame] == a->q->of ? function : AL_PROFILE_NONE;
    case AL_HOT_CALLED_BY: {
        uint32_t parent = nodes[node].parent;
        return parent < a->p->node_count && function_of[nodes[parent].frame] == a->q->of ? function : AL_PROFILE_NONE;
    }
    case AL_HOT_ALL: break;
    }
    return a->q->by == AL_HOT_BY_FUNCTION ? function : frame;
}

static void take_frames(const struct pass *a, uint32_t number, bool counted, int32_t rank) {
    const struct al_hot_cell *c = &a->h->cells[number];
    uint32_t below = AL_PROFILE_NONE;
    for (uint32_t node = c->stack; node < a->p->node_count; below = node, node = a->p->nodes[node].parent) {
        uint32_t row = row_of(a, node, below);
        // A caller's self: it called what the stack ends in.
        bool leaf = a->q->part == AL_HOT_CALLERS_OF ? below == c->stack : below == AL_PROFILE_NONE;
        if (row == AL_PROFILE_NONE || a->v->stamps[row] == number + 1)
            continue; // recursion: once a stack
        a->v->stamps[row] = number + 1;
        take_row(a, &a->v->rows[row], c, leaf, counted, rank);
    }
}

static void pass_cells(const struct pass *a) {
    for (uint32_t i = 0; i < a->h->cell_count; i++) {
        const struct al_hot_cell *c = &a->h->cells[i];
        uint64_t n = a->q->whole ? c->ever : c->window;
        bool mine = a->q->track == AL_PROFILE_NONE || c->track == a->q->track, counted = counts(a->q, c);
        int32_t rank = a->ranks ? rank_of(a->h, c) : -1;
        if (!mine)
            continue;
        add_states(&a->v->sum, c, n);
        a->v->sum.total += counted ? n : 0;
        if (counted && rank >= 0)
            a->v->by_rank[(size_t)a->rows * a->ranks + (uint32_t)rank] += (float)n;
        if (a->q->by == AL_HOT_BY_THREAD)
            take_row(a, &a->v->rows[c->track], c, true, counted, rank);
        else
            take_frames(a, i, counted, rank);
    }
    a->v->sum.self = a->v->sum.total;
}

// The leaf of the stack in which a thread was met most often: of those that count, else of any.
static int find_most(const struct pass *a) {
    uint64_t *best = calloc(a->rows ? a->rows : 1, sizeof *best);
    if (!best)
        return AL_E_NOMEM;
    for (int all = 0; all < 2; all++) {
        for (uint32_t i = 0; i < a->h->cell_count; i++) {
            const struct al_hot_cell *c = &a->h->cells[i];
            struct al_hot_row *row = &a->v->rows[c->track];
            uint64_t n = a->q->whole ? c->ever : c->window;
            if (counts(a->q, c) == (all > 0) || (all && row->c.self) || n <= best[c->track] || c->stack >= a->p->node_count)
                continue;
            best[c->track] = n;
            row->most = a->p->nodes[c->stack].frame;
        }
    }
    free(best);
    return 0;
}

static int by_float(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Which rank stands out in a row, by its share of the rank's own samples.
static void find_difference(const struct pass *a, uint32_t row) {
    const float *mine = &a->v->by_rank[(size_t)row * a->ranks], *all = &a->v->by_rank[(size_t)a->rows * a->ranks];
    float shares[RANKS_MOST];
    uint32_t count = 0;
    for (uint32_t r = 0; r < a->ranks; r++)
        if (all[r] >= RANK_SAMPLES_LEAST)
            shares[count++] = mine[r] / all[r];
    if (count < 2)
        return;
    qsort(shares, count, sizeof *shares, by_float);
    double median = count % 2 ? shares[count / 2] : (shares[count / 2 - 1] + shares[count / 2]) / 2.0, farthest = -1;
    for (uint32_t r = 0; r < a->ranks; r++) {
        bool enough = all[r] >= RANK_SAMPLES_LEAST;
        double share = enough ? mine[r] / all[r] : median;
        double apart = fabs(share - median);
        bool more = apart > farthest + 1e-6 || (apart > farthest - 1e-6 && share > a->v->rows[row].rank_share); // of two, the one that has it
        if (enough && more) {
            farthest = apart > farthest ? apart : farthest;
            a->v->rows[row].rank = (int32_t)r;
            a->v->rows[row].rank_share = share;
        }
    }
    a->v->rows[row].median_share = median;
}

static void name_row(const struct pass *a, uint32_t i) {
    struct al_hot_row *row = &a->v->rows[i];
    *row = (struct al_hot_row){.track = AL_PROFILE_NONE, .most = AL_PROFILE_NONE, .function = AL_PROFILE_NONE, .rank = -1};
    if (a->q->by == AL_HOT_BY_THREAD) {
        const struct al_hot_thread *t = &a->h->threads[i];
        row->track = i;
        row->name = t->name ? t->name : "";
        row->file = t->process < a->h->process_count ? a->h->processes[t->process].name : "";
        return;
    }
    const struct al_profile_frame *f = &a->p->frames[i];
    row->name = f->name;
    row->file = *f->file ? f->file : f->object;
    row->function = a->h->function_of[i];
    row->line = a->q->by == AL_HOT_BY_FUNCTION ? f->first_line : f->line;
}

static double difference(const struct al_hot_row *r) {
    return r->rank < 0 ? 0 : fabs(r->rank_share - r->median_share);
}

static int order(const void *a, const void *b, void *user) {
    const struct al_hot_row *x = a, *y = b;
    const struct al_hot_query *q = user;
    double of_x = 0, of_y = 0;
    switch (q->sort) {
    case AL_HOT_SORT_SELF: of_x = (double)x->c.self, of_y = (double)y->c.self; break;
    case AL_HOT_SORT_TOTAL: of_x = (double)x->c.total, of_y = (double)y->c.total; break;
    case AL_HOT_SORT_SELF_TIME: of_x = (double)x->self_ever, of_y = (double)y->self_ever; break;
    case AL_HOT_SORT_TOTAL_TIME: of_x = (double)x->total_ever, of_y = (double)y->total_ever; break;
    case AL_HOT_SORT_DIFFERENCE: of_x = difference(x), of_y = difference(y); break;
    case AL_HOT_SORT_NAME: break;
    }
    int result = of_x < of_y ? 1 : of_x > of_y ? -1 : 0;
    if (!result && q->sort != AL_HOT_SORT_NAME) // what is alike stands by its other figures
        result = x->c.self < y->c.self ? 1 : x->c.self > y->c.self ? -1 : 0;
    if (!result && q->sort != AL_HOT_SORT_NAME)
        result = x->c.total < y->c.total ? 1 : x->c.total > y->c.total ? -1 : 0;
    if (!result)
        result = strcmp(x->name, y->name);
    if (!result)
        result = strcmp(x->file, y->file);
    if (!result)
        result = (x->line > y->line) - (x->line < y->line);
    if (!result)
        result = (x->track > y->track) - (x->track < y->track);
    return q->reverse ? -result : result;
}

static bool wanted(const struct al_hot_query *q, const struct al_hot_row *row) {
    return !q->filter || !*q->filter || strcasestr(row->name, q->filter) || strcasestr(row->file, q->filter);
}

static void keep_rows(const struct pass *a) {
    struct al_hot_view *v = a->v;
    bool threads = a->q->by == AL_HOT_BY_THREAD;
    v->count = v->rows_all = 0;
    for (uint32_t i = 0; i < a->rows; i++) {
        struct al_hot_row row = v->rows[i];
        if (threads ? !row.c.all : !row.c.total && !row.total_ever)
            continue;
        v->rows_all++;
        if (wanted(a->q, &row))
            v->rows[v->count++] = row;
    }
    if (v->count)
        qsort_r(v->rows, v->count, sizeof *v->rows, order, (void *)a->q);
}

static void tell_span(const struct pass *a) {
    struct al_hot_view *v = a->v;
    const struct al_hot *h = a->h;
    v->ticks_ever = h->ticks;
    v->span_ever_ns = h->last_ns - h->began_ns;
    v->ticks = a->q->whole ? h->ticks : h->window_ticks;
    v->span_ns = v->span_ever_ns;
    if (!a->q->whole) {
        int64_t oldest = h->last_ns;
        for (uint32_t i = 0; i < AL_HOT_SLICES; i++)
            if (h->slices[i].began_ns && h->slices[i].began_ns < oldest)
                oldest = h->slices[i].began_ns;
        v->span_ns = h->last_ns - oldest;
    }
}

static void count_groups(const struct pass *a) {
    const float *all = a->v->by_rank + (size_t)a->rows * a->ranks;
    a->v->threads = a->v->ranks = 0;
    for (uint32_t r = 0; r < a->ranks; r++)
        a->v->ranks += all[r] > 0;
    for (uint32_t i = 0; a->q->by == AL_HOT_BY_THREAD && i < a->rows; i++)
        a->v->threads += a->v->rows[i].c.all > 0;
}

int al_hot_rows(struct al_hot *h, const struct al_profile *p, const struct al_hot_query *q, struct al_hot_view *v) {
    struct pass a = {.h = h, .p = p, .q = q, .v = v};
    a.rows = q->by == AL_HOT_BY_THREAD ? h->thread_count : p->frame_count;
    a.ranks = rank_count(h);
    a.ranks = a.ranks < 2 ? 0 : a.ranks;
    int result = make_room(v, a.rows, a.ranks);
    if (!result)
        result = index_functions(h, p);
    if (result)
        return result;
    v->sum = (struct al_hot_counts){0};
    for (uint32_t i = 0; i < a.rows; i++)
        name_row(&a, i);
    pass_cells(&a);
    count_groups(&a);
    for (uint32_t i = 0; a.ranks && i < a.rows; i++)
        if (v->rows[i].c.total)
            find_difference(&a, i);
    if (q->by == AL_HOT_BY_THREAD)
        result = find_most(&a);
    tell_span(&a);
    if (!result)
        keep_rows(&a);
    return result;
}

void al_hot_view_free(struct al_hot_view *v) {
    free(v->rows);
    free(v->stamps);
    free(v->by_rank);
    *v = (struct al_hot_view){0};
}
