// SPDX-License-Identifier: Apache-2.0
// The state at a time as a snapshot.
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/reader.h"

struct where {
    int64_t t;     // of the tick
    int64_t at_ns; // asked for: no reading is later
    bool thinned;
};

// A recorded tick came a little late: the one that belongs to a time may lie up to half an interval behind it.
static int64_t look_ahead(const struct al_store *s, int64_t at_ns) {
    return at_ns + s->interval_ns / 2;
}

// The tick to show at a time; false when there is none, as before the first.
static bool find_tick(struct al_store *s, int64_t at_ns, int64_t *ret_t) {
    uint32_t block = al_store_block(s, look_ahead(s, at_ns));
    for (; block != UINT32_MAX; block--) {
        if (al_store_load(s, block) != 0)
            return false;
        uint32_t r = s->ticks ? al_part_find(s->ticks, s->blocks[block].level > 0 ? at_ns : look_ahead(s, at_ns)) : UINT32_MAX;
        if (r != UINT32_MAX) {
            *ret_t = s->ticks->t[r];
            return true;
        }
        if (!block)
            break;
    }
    return false;
}

int al_store_next(struct al_store *s, int64_t after_ns, int64_t *ret_ns) {
    uint32_t block = after_ns < 0 ? 0 : al_store_block(s, after_ns);
    for (block = block == UINT32_MAX ? 0 : block; block < s->block_count; block++) {
        int result = al_store_load(s, block);
        if (result)
            return result;
        if (!s->ticks || !s->ticks->rows)
            continue;
        uint32_t r = after_ns < 0 ? UINT32_MAX : al_part_find(s->ticks, after_ns);
        r = r == UINT32_MAX ? 0 : r + 1;
        if (r < s->ticks->rows) {
            *ret_ns = s->ticks->t[r];
            return 0;
        }
    }
    return AL_E_END;
}

int al_store_level(const struct al_store *s, int64_t at_ns) {
    uint32_t block = al_store_block(s, look_ahead(s, at_ns));
    return block == UINT32_MAX || s->blocks[block].level < 0 ? 0 : s->blocks[block].level;
}

static void take_values(const struct al_store *s, const struct al_part *p, uint32_t row, const struct where *w,
                        struct al_value *to) {
    const struct al_layout *layout = al_layouts_find(&s->layouts, p->layout[row]);
    for (uint32_t m = 0; m < p->metrics; m++) {
        int own = s->own[p->kind][m];
        if (own < 0)
            continue;
        struct al_value v = al_part_value(p, row, layout, m);
        if (v.status != AL_STATUS_UNREAD && (v.at_ns > w->at_ns || w->thinned))
            v.at_ns = w->thinned ? w->t : w->at_ns;
        to[own] = v;
    }
}

// The row of an entity that lasts until another one says otherwise.
static uint32_t lasting(const struct al_part *p, int64_t t) {
    uint32_t r = al_part_find(p, t);
    return r == UINT32_MAX || p->extra[(size_t)r * p->extras] ? UINT32_MAX : r;
}

static void take_xids(const struct al_store *s, int64_t gpu, const struct where *w, struct al_gpu *g) {
    for (size_t i = 0; i < s->xid_count && s->xids[i].t <= w->t; i++) {
        const struct al_xid_event *e = &s->xids[i];
        uint32_t x = 0;
        if (e->gpu != gpu)
            continue;
        while (x < g->xid_count && g->xid[x].code != e->code)
            x++;
        if (x == AL_XID_CODES)
            continue;
        g->xid[x] = (struct al_xid){e->code, e->count, e->last_ns < w->at_ns ? e->last_ns : w->at_ns};
        if (x == g->xid_count)
            g->xid_count++;
    }
}

static uint32_t status_in(int64_t v) {
    return v >= 0 && v < AL_STATUS_COUNT ? (uint32_t)v : AL_STATUS_ERROR;
}

static void take_gpu(struct al_store *s, const struct al_loaded *l, uint32_t row, const struct where *w,
                     struct al_gpu *g) {
    const int64_t *extra = l->part->extra + (size_t)row * l->part->extras;
    g->info = *(const struct al_gpu_info *)l->info;
    g->info.parent = extra[AL_GPU_PARENT] >= 0 && extra[AL_GPU_PARENT] < AL_GPU_MAX ? (int32_t)extra[AL_GPU_PARENT] : -1;
    g->info.status = status_in(extra[AL_GPU_STATE]);
    g->process_status = status_in(extra[AL_GPU_PROCESSES]);
    g->procutil_status = status_in(extra[AL_GPU_PROCUTIL]);
    take_values(s, l->part, row, w, g->m);
    take_xids(s, l->part->entity, w, g);
}

// GPUs in the order of their positions.
static int take_gpus(struct al_store *s, const struct where *w, struct al_snapshot *ret) {
    const struct al_loaded *at[AL_GPU_MAX] = {NULL};
    for (uint32_t i = 0; i < s->loaded_count; i++) {
        const struct al_loaded *l = &s->loaded[i];
        uint32_t r = l->part->kind == AL_STORE_GPU ? al_part_find(l->part, w->t) : UINT32_MAX;
        if (r == UINT32_MAX || l->part->t[r] != w->t)
            continue;
        int64_t position = l->part->extra[(size_t)r * l->part->extras + AL_GPU_POSITION];
        if (position >= 0 && position < AL_GPU_MAX)
            at[position] = l;
    }
    s->shown_count = 0;
    for (uint32_t p = 0; p < AL_GPU_MAX; p++) {
        if (!at[p])
            continue;
        struct al_gpu *g = al_snapshot_add_gpu(ret);
        if (!g)
            return AL_E_NOMEM;
        take_gpu(s, at[p], al_part_find(at[p]->part, w->t), w, g);
        if (g->info.parent >= (int32_t)ret->gpu_count)
            g->info.parent = -1;
        s->shown[s->shown_count++] = at[p]->part->entity;
    }
    return 0;
}

static uint32_t position_of(const struct al_store *s, int64_t gpu) {
    for (uint32_t i = 0; i < s->shown_count; i++)
        if (s->shown[i] == gpu)
            return i;
    return UINT32_MAX;
}

static int take_row(struct al_store *s, const struct al_loaded *l, uint32_t row, const struct where *w,
                    struct al_snapshot *ret) {
    const struct al_row_info *info = l->info;
    uint32_t position = position_of(s, info->gpu);
    struct al_value v[7] = {{0}};
    if (position == UINT32_MAX)
        return 0;
    struct al_proc_gpu *r = al_snapshot_add_row(ret);
    if (!r)
        return AL_E_NOMEM;
    take_values(s, l->part, row, w, v);
    *r = (struct al_proc_gpu){.pid = info->pid, .gpu = position, .type = info->type, .order = info->order,
                              .gpu_instance = info->gpu_instance, .compute_instance = info->compute_instance,
                              .memory_bytes = v[0], .sm_ratio = v[1], .memory_ratio = v[2], .encoder_ratio = v[3],
                              .decoder_ratio = v[4], .jpeg_ratio = v[5], .ofa_ratio = v[6]};
    memcpy(r->driver_name, info->driver_name, sizeof r->driver_name);
    return 0;
}

static int take_lasting(struct al_store *s, const struct al_loaded *l, const struct where *w, struct al_snapshot *ret) {
    uint32_t row = lasting(l->part, w->t);
    if (row == UINT32_MAX)
        return 0;
    if (l->part->kind == AL_STORE_NODE) {
        ret->node = *(const struct al_node *)l->info;
        take_values(s, l->part, row, w, ret->node.m);
        return 0;
    }
    if (l->part->kind == AL_STORE_ROW)
        return take_row(s, l, row, w, ret);
    if (l->part->kind == AL_STORE_RANK) {
        struct al_rank *rank = al_snapshot_add_rank(ret);
        if (!rank)
            return AL_E_NOMEM;
        *rank = *(const struct al_rank *)l->info;
        take_values(s, l->part, row, w, rank->m);
        return 0;
    }
    if (l->part->kind == AL_STORE_LOOK) {
        struct al_look *look = al_snapshot_add_look(ret);
        if (!look)
            return AL_E_NOMEM;
        *look = *(const struct al_look *)l->info;
        take_values(s, l->part, row, w, look->m);
        return 0;
    }
    struct al_proc *p = al_snapshot_add_proc(ret);
    if (!p)
        return AL_E_NOMEM;
    *p = *(const struct al_proc *)l->info;
    p->state = (char)l->part->extra[(size_t)row * l->part->extras + AL_PROC_STATE];
    take_values(s, l->part, row, w, p->m);
    return 0;
}

static void take_head(struct al_store *s, const struct where *w, struct al_snapshot *ret) {
    uint32_t r = s->ticks ? al_part_find(s->ticks, w->t) : UINT32_MAX;
    if (r == UINT32_MAX)
        return;
    const int64_t *extra = s->ticks->extra + (size_t)r * s->ticks->extras;
    ret->monotonic_ns = w->t;
    ret->realtime_ns = extra[AL_TICK_REALTIME];
    ret->interval_ns = extra[AL_TICK_INTERVAL];
    ret->jitter_ns = extra[AL_TICK_JITTER];
    ret->groups = (uint32_t)extra[AL_TICK_GROUPS];
    if (!extra[AL_TICK_HUNG])
        return;
    sqlite3_stmt *st = NULL;
    ret->hung_since_ns = extra[AL_TICK_HUNG_SINCE];
    if (al_db_prepare(s->db, "SELECT text FROM texts WHERE id=?", &st, NULL) == 0) {
        (void)sqlite3_bind_int64(st, 1, extra[AL_TICK_HUNG]);
        if (sqlite3_step(st) == SQLITE_ROW)
            al_db_text(st, 0, ret->hung_call, sizeof ret->hung_call);
    }
    (void)sqlite3_finalize(st);
}

// Driver samples of the ticks behind after_t up to until_t that the loaded block holds; the newest when there are many.
static void take_fresh(struct al_store *s, int64_t after_t, int64_t until_t, int64_t at_ns, struct al_snapshot *ret) {
    for (uint32_t i = 0; i < s->loaded_count; i++) {
        const struct al_part *p = s->loaded[i].part;
        uint32_t position = p->kind == AL_STORE_FRESH ? position_of(s, p->entity) : UINT32_MAX;
        if (position == UINT32_MAX)
            continue;
        struct al_gpu *g = &ret->gpus[position];
        uint32_t from = after_t < 0 ? 0 : al_part_find(p, after_t) + 1; // UINT32_MAX + 1 is 0
        uint32_t to = al_part_find(p, until_t) + 1;
        uint32_t room = AL_FRESH_MAX - g->fresh_count;
        if (to > from && to - from > room)
            from = to - room;
        for (uint32_t r = from; r < to; r++) {
            int64_t at = p->extra[(size_t)r * p->extras + AL_FRESH_AT];
            at = at > INT64_MAX / 4000 || at < INT64_MIN / 4000 ? 0 : at * 1000;
            g->fresh[g->fresh_count++] =
                (struct al_fresh){at < at_ns ? at : at_ns, (double)p->extra[(size_t)r * p->extras + AL_FRESH_RATIO] / 1e6};
        }
    }
}

int al_store_at(struct al_store *s, int64_t after_ns, int64_t at_ns, struct al_snapshot *ret) {
    struct where w = {.at_ns = at_ns};
    int64_t after_t = -1, before = -1;
    // Samples of another block are not looked for: between two ticks there is at most one block's end.
    if (after_ns >= 0 && after_ns < at_ns &&
        al_store_block(s, look_ahead(s, after_ns)) == al_store_block(s, look_ahead(s, at_ns)) &&
        find_tick(s, after_ns, &before))
        after_t = before;
    if (!find_tick(s, at_ns, &w.t))
        return s->block_count ? 0 : AL_E_END;
    if (after_ns >= at_ns)
        after_t = w.t;
    w.thinned = s->ticks && s->at_block != UINT32_MAX && s->blocks[s->at_block].level > 0;
    take_head(s, &w, ret);
    int result = take_gpus(s, &w, ret);
    for (uint32_t i = 0; i < s->loaded_count && !result; i++) {
        uint8_t kind = s->loaded[i].part->kind;
        if (kind == AL_STORE_NODE || kind == AL_STORE_PROC || kind == AL_STORE_ROW || kind == AL_STORE_RANK ||
            kind == AL_STORE_LOOK)
            result = take_lasting(s, &s->loaded[i], &w, ret);
    }
    if (!result && !w.thinned)
        take_fresh(s, after_t, w.t, at_ns, ret);
    al_snapshot_sort(ret);
    return result;
}

bool al_store_range(struct al_store *s, int64_t at_ns, uint32_t gpu, int metric, double *ret_min, double *ret_max) {
    int64_t t;
    if (!find_tick(s, at_ns, &t) || gpu >= s->shown_count)
        return false;
    for (uint32_t i = 0; i < s->loaded_count; i++) {
        const struct al_part *p = s->loaded[i].part;
        if (p->kind != AL_STORE_GPU || p->entity != s->shown[gpu] || !p->level)
            continue;
        uint32_t r = al_part_find(p, t);
        for (uint32_t m = 0; m < p->metrics && r != UINT32_MAX; m++)
            if (s->own[AL_STORE_GPU][m] == metric) {
                *ret_min = p->low[(size_t)r * p->metrics + m];
                *ret_max = p->high[(size_t)r * p->metrics + m];
                return true;
            }
    }
    return false;
}

// ---- a source ----

struct source {
    struct al_source base; // first
    struct al_store *store;
    int64_t from_ns;
};

static void shift(struct al_value *v, size_t count, int64_t by_ns) {
    for (size_t i = 0; i < count; i++)
        if (al_code_has_number((uint16_t)v[i].status))
            v[i].at_ns += by_ns;
}

static void shift_all(struct al_snapshot *s, int64_t by_ns) {
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        struct al_gpu *g = &s->gpus[i];
        shift(g->m, AL_GPU_METRIC_COUNT, by_ns);
        for (uint32_t f = 0; f < g->fresh_count; f++)
            g->fresh[f].at_ns += by_ns;
        for (uint32_t x = 0; x < g->xid_count; x++)
            g->xid[x].last_ns += by_ns;
    }
    shift(s->node.m, AL_NODE_METRIC_COUNT, by_ns);
    for (uint32_t i = 0; i < s->proc_count; i++)
        shift(s->procs[i].m, AL_PROC_METRIC_COUNT, by_ns);
    for (uint32_t i = 0; i < s->rank_count; i++)
        shift(s->ranks[i].m, AL_RANK_METRIC_COUNT, by_ns);
    for (uint32_t i = 0; i < s->look_count; i++)
        shift(s->looks[i].m, AL_LOOK_METRIC_COUNT, by_ns);
    for (uint32_t i = 0; i < s->row_count; i++) {
        struct al_proc_gpu *r = &s->rows[i];
        struct al_value *const all[] = {&r->memory_bytes,  &r->sm_ratio,   &r->memory_ratio, &r->encoder_ratio,
                                        &r->decoder_ratio, &r->jpeg_ratio, &r->ofa_ratio};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            shift(all[k], 1, by_ns);
    }
    s->hung_since_ns += *s->hung_call ? by_ns : 0;
    s->monotonic_ns += by_ns;
}

static int source_at(struct al_source *base, int64_t after_ns, int64_t at_ns, struct al_snapshot *ret) {
    struct source *s = (struct source *)base;
    al_snapshot_clear(ret);
    if (at_ns > base->duration_ns + base->interval_ns / 2)
        return AL_E_END;
    int64_t after = after_ns < 0 ? s->from_ns - 1 - base->interval_ns / 2 : after_ns + s->from_ns;
    int result = al_store_at(s->store, after, at_ns + s->from_ns, ret);
    if (!result && s->from_ns)
        shift_all(ret, -s->from_ns);
    return result;
}

static int source_attr(struct al_source *base, uint32_t gpu, enum al_attr attr, int64_t at_ns,
                       struct al_attr_value *ret) {
    (void)at_ns;
    return al_store_attr(((struct source *)base)->store, gpu, attr, ret);
}

static void source_free(struct al_source *base) {
    free(base);
}

static const struct al_source_ops source_ops = {"recording", source_at, source_attr, source_free};

int al_store_source(struct al_store *store, int64_t from_ns, int64_t to_ns, struct al_source **ret) {
    struct source *s = calloc(1, sizeof *s);
    if (!s)
        return AL_E_NOMEM;
    int64_t end = to_ns > 0 && to_ns < store->last_t ? to_ns : store->last_t;
    s->store = store;
    s->from_ns = from_ns > 0 ? from_ns : 0;
    s->base = (struct al_source){&source_ops, end > s->from_ns ? end - s->from_ns : 0, store->interval_ns,
                                 store->start_realtime_ns ? store->start_realtime_ns + s->from_ns : 0};
    *ret = &s->base;
    return 0;
}

struct al_store *al_store_of(const struct al_source *source, int64_t *ret_from_ns) {
    if (!source || source->ops != &source_ops)
        return NULL;
    if (ret_from_ns)
        *ret_from_ns = ((const struct source *)source)->from_ns;
    return ((const struct source *)source)->store;
}
