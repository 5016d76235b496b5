// SPDX-License-Identifier: Apache-2.0
// Plain rows read back into parts, and the tables that explain them.
#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "store/column.h"
#include "store/db.h"

#define COLUMNS_MAX 700

void al_row_times(struct al_buf *b, const struct al_row *row, uint32_t metrics) {
    for (uint32_t s = 0; s < row->slots; s++)
        al_put_varint(b, al_zigzag(row->at[s] - row->t / 1000));
    for (uint32_t m = 0; m < metrics; m++)
        if ((row->code[m] & 15) == AL_STATUS_STALE) { // the table's column is NULL: nobody may take it for current
            char bytes[sizeof(double)];
            memcpy(bytes, &row->num[m], sizeof bytes);
            al_buf_add(b, bytes, sizeof bytes);
        }
}

static int take_times(const uint8_t *bytes, size_t len, const struct al_layout *layout, struct al_row *row) {
    struct al_bytes in = {bytes, bytes ? bytes + len : NULL}; // an empty blob comes as NULL
    row->slots = layout->slots;
    for (uint32_t s = 0; s < layout->slots; s++) {
        uint64_t v;
        if (al_get_varint(&in, &v) < 0)
            return AL_E_FORMAT;
        row->at[s] = (int64_t)((uint64_t)(row->t / 1000) + (uint64_t)al_unzigzag(v));
        if (row->at[s] > INT64_MAX / 4000 || row->at[s] < INT64_MIN / 4000)
            return AL_E_FORMAT;
    }
    for (uint32_t m = 0; m < layout->count; m++) {
        if ((layout->code[m] & 15) != AL_STATUS_STALE)
            continue;
        if ((size_t)(in.end - in.p) < sizeof(double))
            return AL_E_FORMAT;
        memcpy(&row->num[m], in.p, sizeof(double));
        in.p += sizeof(double);
        if (!isfinite(row->num[m]))
            return AL_E_FORMAT;
    }
    return in.p == in.end ? 0 : AL_E_FORMAT;
}

void al_metric_names_done(struct al_metric_names *n) {
    for (int kind = 0; kind < AL_STORE_KINDS; kind++)
        free(n->name[kind]);
    *n = (struct al_metric_names){0};
}

int al_metric_names_load(sqlite3 *db, struct al_metric_names *n, struct al_store_error *e) {
    sqlite3_stmt *st = NULL;
    int rc = SQLITE_DONE, result = al_db_prepare(db, "SELECT kind, id, name FROM metrics ORDER BY kind, id", &st, e);
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t kind = sqlite3_column_int64(st, 0), id = sqlite3_column_int64(st, 1);
        if (kind < 0 || kind >= AL_STORE_KINDS || id != n->count[kind] || id >= AL_STORE_METRICS_MAX) {
            al_db_say(e, "the table of metrics is damaged");
            result = AL_E_FORMAT;
            break;
        }
        char (*wider)[64] = realloc(n->name[kind], ((size_t)id + 1) * sizeof *wider);
        if (!wider) {
            result = AL_E_NOMEM;
            break;
        }
        n->name[kind] = wider;
        al_db_text(st, 2, wider[id], sizeof wider[id]);
        n->count[kind]++;
    }
    if (!result)
        result = al_db_result(db, rc, NULL, e);
    (void)sqlite3_finalize(st);
    return result;
}

void al_parts_done(struct al_parts *p) {
    for (uint32_t i = 0; i < p->count; i++)
        al_part_free(p->list[i]);
    free(p->list);
    *p = (struct al_parts){0};
}

int al_parts_push(struct al_parts *p, struct al_part *part) {
    if (p->count == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 32;
        struct al_part **wider = realloc(p->list, cap * sizeof(struct al_part *));
        if (!wider)
            return AL_E_NOMEM;
        p->list = wider;
        p->cap = cap;
    }
    p->list[p->count++] = part;
    return 0;
}

int al_parts_get(struct al_parts *p, uint8_t kind, int64_t entity, uint32_t metrics, struct al_part **ret) {
    for (uint32_t i = p->count; i-- > 0;)
        if (p->list[i]->kind == kind && p->list[i]->entity == entity) {
            *ret = p->list[i];
            return 0;
        }
    int result = al_part_new(kind, 0, entity, metrics, ret);
    if (!result)
        result = al_parts_push(p, *ret);
    if (result)
        *ret = al_part_free(*ret);
    return result;
}

int al_db_layouts(sqlite3 *db, struct al_layouts *layouts, struct al_store_error *e) {
    sqlite3_stmt *st = NULL;
    int64_t last = layouts->count ? layouts->list[layouts->count - 1].id : 0;
    int rc = SQLITE_DONE;
    int result = al_db_prepare(db, "SELECT id, kind, runs FROM layouts WHERE id > ? ORDER BY id", &st, e);
    if (!result)
        (void)sqlite3_bind_int64(st, 1, last);
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        uint16_t code[AL_STORE_METRICS_MAX];
        int64_t kind = sqlite3_column_int64(st, 1);
        const uint8_t *runs = sqlite3_column_blob(st, 2);
        int count = runs ? al_layout_parse(runs, (size_t)sqlite3_column_bytes(st, 2), code, AL_STORE_METRICS_MAX) : 0;
        if (count < 0 || kind < 0 || kind >= AL_STORE_KINDS) {
            al_db_say(e, "the table of layouts is damaged");
            result = AL_E_FORMAT;
            break;
        }
        result = al_layouts_add(layouts, sqlite3_column_int64(st, 0), (uint8_t)kind, code, (uint32_t)count);
    }
    if (!result)
        result = al_db_result(db, rc, NULL, e);
    (void)sqlite3_finalize(st);
    return result;
}

// Where each column of a SELECT * goes.
struct columns {
    int t, entity, layout, at, extra[AL_STORE_EXTRAS_MAX];
    int metric[AL_STORE_METRICS_MAX]; // by file metric; -1: has no column
};

static int find_columns(sqlite3_stmt *st, const struct al_store_kind *k, const char (*names)[64], uint32_t name_count,
                        struct columns *c) {
    memset(c, 0xff, sizeof *c);
    int count = sqlite3_column_count(st);
    if (count > COLUMNS_MAX)
        return AL_E_FORMAT;
    for (int i = 0; i < count; i++) {
        const char *name = sqlite3_column_name(st, i);
        if (!name)
            return AL_E_NOMEM;
        if (strcmp(name, "t") == 0)
            c->t = i;
        else if (k->entity && strcmp(name, k->entity) == 0)
            c->entity = i;
        else if (strcmp(name, "layout") == 0)
            c->layout = i;
        else if (strcmp(name, "at") == 0)
            c->at = i;
        for (uint32_t e = 0; e < k->extra_count; e++)
            if (strcmp(name, k->extras[e].name) == 0)
                c->extra[e] = i;
        for (uint32_t m = 0; m < name_count; m++)
            if (strcmp(name, names[m]) == 0)
                c->metric[m] = i;
    }
    bool whole = c->t >= 0 && (!k->entity || c->entity >= 0) && (!k->metric_count || (c->layout >= 0 && c->at >= 0));
    for (uint32_t e = 0; e < k->extra_count; e++)
        whole &= c->extra[e] >= 0;
    return whole ? 0 : AL_E_FORMAT;
}

static int take_numbers(sqlite3_stmt *st, const struct columns *c, const struct al_layout *layout, struct al_row *row,
                        uint32_t metrics) {
    memset(row->num, 0, metrics * sizeof *row->num);
    for (uint32_t m = 0; m < layout->count; m++) {
        if ((layout->code[m] & 15) != AL_STATUS_OK)
            continue;
        if (c->metric[m] < 0 || sqlite3_column_type(st, c->metric[m]) == SQLITE_NULL)
            return AL_E_FORMAT;
        row->num[m] = sqlite3_column_double(st, c->metric[m]);
        if (!isfinite(row->num[m]))
            return AL_E_FORMAT;
    }
    return take_times(sqlite3_column_blob(st, c->at), (size_t)sqlite3_column_bytes(st, c->at), layout, row);
}

static int take_row(sqlite3_stmt *st, uint8_t kind, const struct columns *c, struct al_layouts *layouts,
                    uint32_t metrics, struct al_row *row, struct al_store_error *e) {
    const struct al_store_kind *k = &al_store_kinds[kind];
    row->t = sqlite3_column_int64(st, c->t);
    row->slots = 0;
    row->layout = 0;
    if (row->t < 0 || row->t > INT64_MAX / 4)
        return AL_E_FORMAT;
    for (uint32_t i = 0; i < k->extra_count; i++) {
        double scaled = k->extras[i].scale > 0 ? sqlite3_column_double(st, c->extra[i]) * k->extras[i].scale : 0;
        row->extra[i] = k->extras[i].scale <= 0 ? sqlite3_column_int64(st, c->extra[i])
                        : fabs(scaled) < 1e15   ? (int64_t)nearbyint(scaled)
                                                : 0;
    }
    if (!k->metric_count)
        return 0;
    row->layout = sqlite3_column_int64(st, c->layout);
    const struct al_layout *layout = al_layouts_find(layouts, row->layout);
    if (!layout && al_db_layouts(sqlite3_db_handle(st), layouts, e) == 0)
        layout = al_layouts_find(layouts, row->layout);
    if (!layout || layout->kind != kind || layout->count > metrics)
        return AL_E_FORMAT;
    return take_numbers(st, c, layout, row, metrics);
}

int al_db_rows(sqlite3 *db, uint8_t kind, int64_t entity, int64_t from_ns, int64_t to_ns, struct al_layouts *layouts,
               const struct al_metric_names *names, struct al_parts *ret, struct al_store_error *e) {
    const struct al_store_kind *k = &al_store_kinds[kind];
    char sql[160];
    sqlite3_stmt *st = NULL;
    struct columns c;
    struct al_row *row = calloc(1, sizeof *row);
    (void)snprintf(sql, sizeof sql, "SELECT * FROM %s WHERE t >= ?1 AND t < ?2%s%s%s ORDER BY t", k->table,
                   entity >= 0 && k->entity ? " AND " : "", entity >= 0 && k->entity ? k->entity : "",
                   entity >= 0 && k->entity ? " = ?3" : "");
    int rc = SQLITE_DONE, result = row ? al_db_prepare(db, sql, &st, e) : AL_E_NOMEM;
    if (!result) {
        (void)sqlite3_bind_int64(st, 1, from_ns);
        (void)sqlite3_bind_int64(st, 2, to_ns);
        if (entity >= 0 && k->entity)
            (void)sqlite3_bind_int64(st, 3, entity);
        result = find_columns(st, k, (const char (*)[64])names->name[kind], names->count[kind], &c);
    }
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct al_part *part;
        result = take_row(st, kind, &c, layouts, names->count[kind], row, e);
        if (!result)
            result = al_parts_get(ret, kind, k->entity ? sqlite3_column_int64(st, c.entity) : 0, names->count[kind],
                                  &part);
        if (!result)
            result = al_part_add(part, row);
        if (result)
            al_db_say(e, "a row of %s is damaged", k->table);
    }
    if (!result)
        result = al_db_result(db, rc, NULL, e);
    (void)sqlite3_finalize(st);
    free(row);
    return result;
}
