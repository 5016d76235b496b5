// SPDX-License-Identifier: Apache-2.0
// A snapshot as rows: everything at a block's first tick, afterwards GPUs at every tick and the rest when it changed.
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "store/writer.h"

#define TOGETHER_NS 100000000 // fast readings of one round
#define LAYOUTS_FINE 4000

// ---- entities ----

static void live_done(struct al_live *l) {
    free(l->info);
    free(l->row);
}

void al_writer_put_done(struct al_writer *w) {
    for (int kind = 0; kind < AL_STORE_KINDS; kind++) {
        for (uint32_t i = 0; i < w->lives[kind].count; i++)
            live_done(&w->lives[kind].list[i]);
        free(w->lives[kind].list);
        (void)sqlite3_finalize(w->insert[kind]);
    }
}

static int live_add(struct al_writer *w, uint8_t kind, const void *info, int64_t t, struct al_live **ret) {
    struct al_lives *all = &w->lives[kind];
    size_t size = al_entity_kinds[kind].size;
    if (all->count == all->cap) {
        uint32_t cap = all->cap ? 2 * all->cap : 16;
        struct al_live *wider = realloc(all->list, cap * sizeof *wider);
        if (!wider)
            return AL_E_NOMEM;
        all->list = wider;
        all->cap = cap;
    }
    struct al_live l = {.info = malloc(size), .row = calloc(1, sizeof(struct al_row))};
    int result = l.info && l.row ? al_entity_insert(w->db, kind, t, info, &l.id, &w->why) : AL_E_NOMEM;
    if (result) {
        live_done(&l);
        return result;
    }
    memcpy(l.info, info, size);
    all->list[all->count] = l;
    *ret = &all->list[all->count++];
    return 0;
}

// The entity's place, by content: what changes its name, role or index gets another row in its table.
static int live_get(struct al_writer *w, uint8_t kind, uint32_t hint, const void *info, int64_t t,
                    struct al_live **ret, bool *ret_new) {
    struct al_lives *all = &w->lives[kind];
    *ret_new = false;
    for (uint32_t i = 0; i < all->count; i++) { // the order rarely changes: the same place first
        uint32_t at = (hint + i) % all->count;
        if (all->list[at].seen != w->tick && al_entity_equal(kind, all->list[at].info, info)) {
            *ret = &all->list[at];
            (*ret)->seen = w->tick;
            return 0;
        }
    }
    int result = live_add(w, kind, info, t, ret);
    if (!result)
        (*ret)->seen = w->tick;
    *ret_new = true;
    return result;
}

// ---- rows ----

static int add_column(struct al_writer *w, uint8_t kind, uint32_t metric) {
    const struct al_store_kind *k = &al_store_kinds[kind];
    char sql[160];
    (void)snprintf(sql, sizeof sql, "ALTER TABLE %s ADD COLUMN \"%s\" REAL", k->table, k->metrics[metric].name);
    (void)sqlite3_finalize(w->insert[kind]);
    w->insert[kind] = NULL;
    int result = al_db_exec(w->db, sql, &w->why);
    if (!result) {
        w->column[kind][metric] = true;
        w->metric_order[kind][w->metric_count[kind]++] = (int)metric;
    }
    return result;
}

static int prepare(struct al_writer *w, uint8_t kind) {
    const struct al_store_kind *k = &al_store_kinds[kind];
    struct al_buf b = AL_BUF_INIT;
    int columns = 1 + (k->entity != NULL) + (int)k->extra_count + (k->metric_count ? 2 : 0) + w->metric_count[kind];
    al_buf_printf(&b, "INSERT OR REPLACE INTO %s VALUES(?", k->table);
    for (int i = 1; i < columns; i++)
        al_buf_str(&b, ",?");
    al_buf_char(&b, ')');
    int result = b.failed ? AL_E_NOMEM : al_db_prepare(w->db, b.data, &w->insert[kind], &w->why);
    al_buf_free(&b);
    return result;
}

// One reading time for all: what is left when a driver's timing makes ever new layouts.
static void flatten(struct al_row *row, uint32_t metrics) {
    for (uint32_t m = 0; m < metrics; m++)
        row->code[m] &= 15;
    row->slots = row->slots ? 1 : 0;
}

static int find_layout(struct al_writer *w, uint8_t kind, struct al_row *row) {
    uint32_t count = al_store_kinds[kind].metric_count;
    if (w->layouts.count >= LAYOUTS_FINE && !al_layouts_match(&w->layouts, kind, row->code, count))
        flatten(row, count);
    const struct al_layout *l = al_layouts_match(&w->layouts, kind, row->code, count);
    if (l) {
        row->layout = l->id;
        return 0;
    }
    sqlite3_stmt *st = NULL;
    int result = al_db_prepare(w->db, "INSERT INTO layouts VALUES(NULL, ?, ?)", &st, &w->why);
    al_buf_clear(&w->buf);
    al_layout_runs(&w->buf, row->code, count);
    if (!result) {
        (void)sqlite3_bind_int(st, 1, kind);
        (void)sqlite3_bind_blob(st, 2, w->buf.data, (int)w->buf.len, SQLITE_TRANSIENT);
        result = al_db_run(st, &w->why);
    }
    (void)sqlite3_finalize(st);
    row->layout = sqlite3_last_insert_rowid(w->db);
    return result ? result : al_layouts_add(&w->layouts, row->layout, kind, row->code, count);
}

static void bind_extras(sqlite3_stmt *st, int *column, const struct al_store_kind *k, const struct al_row *row) {
    for (uint32_t e = 0; e < k->extra_count; e++, ++*column)
        if (k->extras[e].scale > 0)
            (void)sqlite3_bind_double(st, *column, (double)row->extra[e] / k->extras[e].scale);
        else
            (void)sqlite3_bind_int64(st, *column, row->extra[e]);
}

static int bind_metrics(struct al_writer *w, uint8_t kind, int *column, struct al_row *row) {
    sqlite3_stmt *st = w->insert[kind];
    (void)sqlite3_bind_int64(st, (*column)++, row->layout);
    al_buf_clear(&w->buf);
    al_row_times(&w->buf, row, al_store_kinds[kind].metric_count);
    if (w->buf.failed)
        return AL_E_NOMEM;
    (void)sqlite3_bind_blob(st, (*column)++, w->buf.data ? w->buf.data : "", (int)w->buf.len, SQLITE_TRANSIENT);
    for (int i = 0; i < w->metric_count[kind]; i++, ++*column) {
        int m = w->metric_order[kind][i];
        if ((row->code[m] & 15) == AL_STATUS_OK)
            (void)sqlite3_bind_double(st, *column, row->num[m]);
        else
            (void)sqlite3_bind_null(st, *column);
    }
    return 0;
}

int al_writer_put_row(struct al_writer *w, uint8_t kind, int64_t entity, struct al_row *row) {
    const struct al_store_kind *k = &al_store_kinds[kind];
    int result = 0, column = 1;
    for (uint32_t m = 0; m < k->metric_count && !result; m++)
        if ((row->code[m] & 15) == AL_STATUS_OK && !w->column[kind][m])
            result = add_column(w, kind, m);
    if (!result && k->metric_count)
        result = find_layout(w, kind, row);
    if (!result && !w->insert[kind])
        result = prepare(w, kind);
    if (result)
        return result;
    sqlite3_stmt *st = w->insert[kind];
    (void)sqlite3_bind_int64(st, column++, row->t);
    if (k->entity)
        (void)sqlite3_bind_int64(st, column++, entity);
    bind_extras(st, &column, k, row);
    if (k->metric_count)
        result = bind_metrics(w, kind, &column, row);
    return result ? result : al_db_run(st, &w->why);
}

static bool same_row(const struct al_row *a, const struct al_row *b, uint8_t kind) {
    uint32_t metrics = al_store_kinds[kind].metric_count, extras = al_store_kinds[kind].extra_count;
    return a->slots == b->slots && memcmp(a->extra, b->extra, extras * sizeof *a->extra) == 0 &&
           memcmp(a->at, b->at, a->slots * sizeof *a->at) == 0 &&
           memcmp(a->code, b->code, metrics * sizeof *a->code) == 0 &&
           memcmp(a->num, b->num, metrics * sizeof *a->num) == 0;
}

// w->row, when it says something new.
static int put_change(struct al_writer *w, uint8_t kind, struct al_live *live, int64_t t) {
    w->row->t = t;
    if (live->written && !w->keyframe && same_row(live->row, w->row, kind))
        return 0;
    *live->row = *w->row;
    live->written = true;
    return al_writer_put_row(w, kind, live->id, w->row);
}

static int64_t together(const struct al_snapshot *s) {
    return s->interval_ns > 0 && s->interval_ns / 4 < TOGETHER_NS ? s->interval_ns / 4 : TOGETHER_NS;
}

// ---- the parts of a snapshot ----

static int put_fresh(struct al_writer *w, const struct al_gpu *g, int64_t gpu, int64_t t) {
    int result = 0;
    w->row->t = t;
    for (uint32_t i = 0; i < g->fresh_count && i < AL_FRESH_MAX && !result; i++) {
        w->row->extra[AL_FRESH_AT] = (g->fresh[i].at_ns - w->start_ns) / 1000;
        w->row->extra[AL_FRESH_RATIO] = (int64_t)(g->fresh[i].ratio * 1e6 + 0.5);
        result = al_writer_put_row(w, AL_STORE_FRESH, gpu, w->row);
    }
    return result;
}

static int put_gpu(struct al_writer *w, const struct al_snapshot *s, uint32_t position, int64_t t) {
    const struct al_gpu *g = &s->gpus[position];
    struct al_live *live = NULL;
    bool added;
    int result = live_get(w, AL_STORE_GPU, position, &g->info, t, &live, &added);
    if (result)
        return result;
    live->position = position;
    memset(w->row->extra, 0, sizeof w->row->extra);
    w->row->t = t;
    w->row->extra[AL_GPU_POSITION] = position;
    w->row->extra[AL_GPU_PARENT] = g->info.parent;
    w->row->extra[AL_GPU_STATE] = g->info.status;
    w->row->extra[AL_GPU_PROCESSES] = g->process_status;
    w->row->extra[AL_GPU_PROCUTIL] = g->procutil_status;
    al_row_pack(w->row, g->m, al_gpu_metrics, AL_GPU_METRIC_COUNT, w->start_ns, together(s));
    result = al_writer_put_row(w, AL_STORE_GPU, live->id, w->row);
    if (!result)
        result = al_writer_note_xids(w, live, g, t);
    if (!result && added && w->o.attr)
        result = al_writer_note_attrs(w, position, live->id);
    w->stats.gpu_samples++;
    w->block_samples++;
    return result ? result : put_fresh(w, g, live->id, t);
}

static int put_node(struct al_writer *w, const struct al_snapshot *s, int64_t t) {
    struct al_live *live = NULL;
    bool added;
    int result = live_get(w, AL_STORE_NODE, 0, &s->node, t, &live, &added);
    if (result)
        return result;
    memset(w->row->extra, 0, sizeof w->row->extra);
    al_row_pack(w->row, s->node.m, al_store_kinds[AL_STORE_NODE].metrics, AL_NODE_METRIC_COUNT, w->start_ns,
                together(s));
    return put_change(w, AL_STORE_NODE, live, t);
}

static int put_proc(struct al_writer *w, const struct al_snapshot *s, uint32_t i, int64_t t) {
    const struct al_proc *p = &s->procs[i];
    struct al_live *live = NULL;
    bool added;
    int result = live_get(w, AL_STORE_PROC, i, p, t, &live, &added);
    if (result)
        return result;
    memset(w->row->extra, 0, sizeof w->row->extra);
    w->row->extra[AL_PROC_STATE] = (unsigned char)p->state;
    al_row_pack(w->row, p->m, al_store_kinds[AL_STORE_PROC].metrics, AL_PROC_METRIC_COUNT, w->start_ns, together(s));
    return put_change(w, AL_STORE_PROC, live, t);
}

static int put_process_gpu(struct al_writer *w, const struct al_snapshot *s, uint32_t i, int64_t t) {
    const struct al_proc_gpu *r = &s->rows[i];
    struct al_row_info info;
    if (r->gpu >= s->gpu_count)
        return 0;
    memset(&info, 0, sizeof info);
    info.gpu = al_writer_gpu_id(w, s->gpus[r->gpu].info.uuid);
    info.pid = r->pid;
    info.type = r->type;
    info.order = r->order;
    info.gpu_instance = r->gpu_instance;
    info.compute_instance = r->compute_instance;
    memcpy(info.driver_name, r->driver_name, sizeof info.driver_name);
    struct al_live *live = NULL;
    bool added;
    int result = live_get(w, AL_STORE_ROW, i, &info, t, &live, &added);
    if (result)
        return result;
    const struct al_value values[] = {r->memory_bytes,  r->sm_ratio,   r->memory_ratio, r->encoder_ratio,
                                      r->decoder_ratio, r->jpeg_ratio, r->ofa_ratio};
    memset(w->row->extra, 0, sizeof w->row->extra);
    al_row_pack(w->row, values, al_store_kinds[AL_STORE_ROW].metrics, sizeof values / sizeof *values, w->start_ns,
                together(s));
    return put_change(w, AL_STORE_ROW, live, t);
}

static int put_rank(struct al_writer *w, const struct al_snapshot *s, uint32_t i, int64_t t) {
    struct al_live *live = NULL;
    bool added;
    int result = live_get(w, AL_STORE_RANK, i, &s->ranks[i], t, &live, &added);
    if (result)
        return result;
    memset(w->row->extra, 0, sizeof w->row->extra);
    al_row_pack(w->row, s->ranks[i].m, al_store_kinds[AL_STORE_RANK].metrics, AL_RANK_METRIC_COUNT, w->start_ns,
                together(s));
    return put_change(w, AL_STORE_RANK, live, t);
}

static int put_look(struct al_writer *w, const struct al_snapshot *s, uint32_t i, int64_t t) {
    struct al_live *live = NULL;
    bool added;
    int result = live_get(w, AL_STORE_LOOK, i, &s->looks[i], t, &live, &added);
    if (result)
        return result;
    memset(w->row->extra, 0, sizeof w->row->extra);
    al_row_pack(w->row, s->looks[i].m, al_store_kinds[AL_STORE_LOOK].metrics, AL_LOOK_METRIC_COUNT, w->start_ns, together(s));
    return put_change(w, AL_STORE_LOOK, live, t);
}

// Entities that this tick did not have: their last row says so.
static int put_gone(struct al_writer *w, uint8_t kind, int64_t t) {
    struct al_lives *all = &w->lives[kind];
    uint32_t kept = 0;
    int result = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        struct al_live *l = &all->list[i];
        if (l->seen == w->tick) {
            all->list[kept++] = *l;
            continue;
        }
        if (kind != AL_STORE_GPU && l->written && !result) {
            l->row->t = t;
            l->row->extra[0] = 1; // every kind's first extra but the GPU's is "gone"
            result = al_writer_put_row(w, kind, l->id, l->row);
        }
        live_done(l);
    }
    all->count = kept;
    return result;
}

int64_t al_writer_gpu_id(const struct al_writer *w, const char *uuid) {
    const struct al_lives *all = &w->lives[AL_STORE_GPU];
    for (uint32_t i = 0; i < all->count; i++)
        if (all->list[i].seen == w->tick && strcmp(((const struct al_gpu_info *)all->list[i].info)->uuid, uuid) == 0)
            return all->list[i].id;
    return 0;
}

static int put_head(struct al_writer *w, const struct al_snapshot *s, int64_t t) {
    struct al_row *row = w->row;
    row->t = t;
    row->extra[AL_TICK_REALTIME] = s->realtime_ns;
    row->extra[AL_TICK_INTERVAL] = s->interval_ns;
    row->extra[AL_TICK_JITTER] = s->jitter_ns;
    row->extra[AL_TICK_GROUPS] = s->groups;
    row->extra[AL_TICK_HUNG_SINCE] = *s->hung_call ? s->hung_since_ns - w->start_ns : 0;
    int result = al_writer_note_text(w, s->hung_call, &row->extra[AL_TICK_HUNG]);
    return result ? result : al_writer_put_row(w, AL_STORE_TICK, 0, row);
}

int al_writer_put_tick(struct al_writer *w, const struct al_snapshot *s, int64_t t) {
    int result = put_head(w, s, t);
    for (uint32_t i = 0; i < s->gpu_count && !result; i++)
        result = put_gpu(w, s, i, t);
    if (!result)
        result = put_node(w, s, t);
    for (uint32_t i = 0; i < s->proc_count && !result; i++)
        result = put_proc(w, s, i, t);
    for (uint32_t i = 0; i < s->row_count && !result; i++)
        result = put_process_gpu(w, s, i, t);
    for (uint32_t i = 0; i < s->rank_count && !result; i++)
        result = put_rank(w, s, i, t);
    for (uint32_t i = 0; i < s->look_count && !result; i++)
        result = put_look(w, s, i, t);
    static const uint8_t kinds[] = {AL_STORE_GPU, AL_STORE_NODE, AL_STORE_PROC, AL_STORE_ROW, AL_STORE_RANK,
                                    AL_STORE_LOOK};
    for (size_t i = 0; i < sizeof kinds && !result; i++)
        result = put_gone(w, kinds[i], t);
    return result;
}
