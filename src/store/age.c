// SPDX-License-Identifier: Apache-2.0
// Old data on its way down: plain rows become chunks, chunks are thinned, and in the end deleted. One entity of one
// block a tick; rows go in the transaction that brings their chunk, so a reader finds them in one place or the other.
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "store/writer.h"

#define LOOK_EVERY_NS 60000000000LL

static const int64_t widths[] = {0, 10000000000LL, 60000000000LL};

static int step(struct al_writer *w, const char *sql, const int64_t *bind, int count, int64_t *ret_value) {
    return al_db_ints(w->db, sql, bind, count, ret_value, -1, &w->why);
}

static int put_chunk(struct al_writer *w, const struct al_part *p, int64_t entity) {
    struct al_buf b = AL_BUF_INIT;
    char *packed = NULL;
    size_t len = 0;
    sqlite3_stmt *st = NULL;
    int result = al_chunk_encode(p, &w->layouts, &b);
    if (!result)
        result = al_chunk_pack(b.data, b.len, &packed, &len);
    al_buf_free(&b);
    if (!result)
        result = al_db_prepare(w->db, "INSERT OR REPLACE INTO chunks VALUES((SELECT id FROM chunks WHERE block=?1 AND"
                                      " kind=?2 AND entity=?3), ?1, ?2, ?3, ?4, ?5, ?6)", &st, &w->why);
    if (!result) {
        (void)sqlite3_bind_int64(st, 1, w->aging.block);
        (void)sqlite3_bind_int(st, 2, p->kind);
        (void)sqlite3_bind_int64(st, 3, entity);
        (void)sqlite3_bind_int(st, 4, p->level);
        (void)sqlite3_bind_int64(st, 5, p->rows);
        (void)sqlite3_bind_blob(st, 6, packed, (int)len, SQLITE_TRANSIENT);
        result = al_db_run(st, &w->why);
    }
    if (!result && p->level == 0 && (p->kind == AL_STORE_GPU || p->kind == AL_STORE_FRESH)) {
        w->stats.chunk_bytes += (int64_t)len;
        w->stats.chunk_gpu_samples += p->kind == AL_STORE_GPU ? p->rows : 0;
    }
    (void)sqlite3_finalize(st);
    free(packed);
    return result;
}

// The plain rows of one entity as a chunk. *ret_more is false when the kind has none left.
static int pack_one(struct al_writer *w, uint8_t kind, bool *ret_more) {
    const struct al_store_kind *k = &al_store_kinds[kind];
    const struct al_aging *a = &w->aging;
    char sql[200];
    int64_t entity = -1;
    const int64_t span[] = {a->start_ns, a->end_ns};
    (void)snprintf(sql, sizeof sql, "SELECT %s FROM %s WHERE t >= ?1 AND t < ?2 LIMIT 1", k->entity ? k->entity : "0",
                   k->table);
    int result = step(w, sql, span, 2, &entity);
    *ret_more = entity >= 0;
    if (result || entity < 0)
        return result;
    struct al_parts parts = {0};
    result = al_db_rows(w->db, kind, entity, a->start_ns, a->end_ns, &w->layouts, &w->names, &parts, &w->why);
    if (!result && parts.count == 1)
        result = put_chunk(w, parts.list[0], entity);
    al_parts_done(&parts);
    if (result)
        return result;
    const int64_t gone[] = {a->start_ns, a->end_ns, entity};
    (void)snprintf(sql, sizeof sql, "DELETE FROM %s WHERE t >= ?1 AND t < ?2%s%s%s", k->table, k->entity ? " AND " : "",
                   k->entity ? k->entity : "", k->entity ? " = ?3" : "");
    return step(w, sql, gone, k->entity ? 3 : 2, NULL);
}

static int thin_part(struct al_writer *w, const struct al_part *p, int64_t entity) {
    const struct al_aging *a = &w->aging;
    struct al_part *thin = NULL;
    int result = al_part_thin(p, &w->layouts, al_store_kinds[p->kind].metrics, widths[a->target], (uint8_t)a->target,
                              a->start_ns, &thin);
    if (!result)
        result = put_chunk(w, thin, entity);
    al_part_free(thin);
    return result;
}

static int thin_one(struct al_writer *w, bool *ret_more) {
    const int64_t which[] = {w->aging.block, w->aging.target};
    sqlite3_stmt *st = NULL;
    int64_t drop = -1, entity = -1;
    struct al_part *p = NULL;
    int result = al_db_prepare(w->db, "SELECT id, kind, entity, bytes FROM chunks WHERE block=?1 AND level<?2 LIMIT 1", &st,
                               &w->why);
    if (result)
        return result;
    (void)sqlite3_bind_int64(st, 1, which[0]);
    (void)sqlite3_bind_int64(st, 2, which[1]);
    *ret_more = sqlite3_step(st) == SQLITE_ROW;
    if (*ret_more) {
        uint8_t *raw = NULL;
        size_t len = 0;
        entity = sqlite3_column_int64(st, 2);
        if (al_chunk_unpack(sqlite3_column_blob(st, 3), (size_t)sqlite3_column_bytes(st, 3), &raw, &len) != 0 ||
            al_chunk_decode(raw, len, &w->layouts, &p) != 0 || p->kind == AL_STORE_FRESH)
            drop = sqlite3_column_int64(st, 0); // damaged on the disk, or of no use without every tick
        free(raw);
    }
    (void)sqlite3_finalize(st);
    if (drop >= 0)
        result = step(w, "DELETE FROM chunks WHERE id=?1", &drop, 1, NULL);
    else if (p)
        result = thin_part(w, p, entity);
    al_part_free(p);
    return result;
}

static int find_job(struct al_writer *w, int64_t now) {
    const int64_t ages[] = {w->o.plain_ns, w->o.full_ns, w->o.coarse_ns};
    struct al_aging *a = &w->aging;
    for (int target = 0; target < 3; target++) {
        sqlite3_stmt *st = NULL;
        int result = al_db_prepare(w->db, "SELECT id, start_ns, end_ns FROM blocks WHERE end_ns <= ?1 AND level = ?2"
                                          " ORDER BY id LIMIT 1", &st, &w->why);
        if (result)
            return result;
        (void)sqlite3_bind_int64(st, 1, now - ages[target]);
        (void)sqlite3_bind_int(st, 2, target - 1);
        if (sqlite3_step(st) == SQLITE_ROW)
            *a = (struct al_aging){.look = true, .looked_ns = a->looked_ns, .active = true, .block = sqlite3_column_int64(st, 0),
                                   .start_ns = sqlite3_column_int64(st, 1), .end_ns = sqlite3_column_int64(st, 2),
                                   .target = target};
        (void)sqlite3_finalize(st);
        if (a->active)
            return 0;
    }
    a->look = false;
    a->looked_ns = now;
    return 0;
}

static const char unused_rows[] = "DELETE FROM process_gpus WHERE first_t < ?1 AND id NOT IN (SELECT entity FROM chunks"
                                  " WHERE kind=5) AND id NOT IN (SELECT process_gpu FROM process_gpu_samples)";
static const char unused_processes[] = "DELETE FROM processes WHERE first_t < ?1 AND id NOT IN (SELECT entity FROM chunks"
                                       " WHERE kind=4) AND id NOT IN (SELECT process FROM process_samples)";

static const char unused_ranks[] = "DELETE FROM ranks WHERE first_t < ?1 AND id NOT IN (SELECT entity FROM chunks"
                                   " WHERE kind=6) AND id NOT IN (SELECT process_rank FROM rank_samples)";

static const char unused_looks[] = "DELETE FROM looks WHERE first_t < ?1 AND id NOT IN (SELECT entity FROM chunks"
                                   " WHERE kind=7) AND id NOT IN (SELECT look FROM look_samples)";

static int forget(struct al_writer *w, int64_t limit) {
    static const char *const statements[] = {
        "DELETE FROM chunks WHERE block IN (SELECT id FROM blocks WHERE end_ns <= ?1 AND level >= 0)",
        "DELETE FROM findings WHERE t < ?1 AND key NOT IN (SELECT key FROM findings WHERE t >= ?1)",
        "DELETE FROM findings WHERE t < ?1 AND phase = 'updated'",
        "DELETE FROM evidence WHERE finding NOT IN (SELECT id FROM findings)",
        "DELETE FROM clocks WHERE t < ?1 AND t > 0",
        "DELETE FROM gaps WHERE to_ns < ?1",
        "DELETE FROM xids WHERE t < ?1 AND EXISTS (SELECT 1 FROM xids x WHERE x.gpu=xids.gpu AND x.code=xids.code AND x.t>xids.t)",
        unused_rows,
        unused_processes,
        unused_ranks,
        unused_looks,
        "DELETE FROM marks WHERE until_ns < ?1",
        "DELETE FROM profiles WHERE t < ?1",
        "DELETE FROM profile_frames WHERE profile NOT IN (SELECT id FROM profiles)",
        "DELETE FROM profile_stacks WHERE profile NOT IN (SELECT id FROM profiles)",
        "DELETE FROM profile_tracks WHERE profile NOT IN (SELECT id FROM profiles)",
        "DELETE FROM blocks WHERE end_ns <= ?1 AND level >= 0 AND id NOT IN (SELECT block FROM chunks)",
    };
    int64_t old = -1;
    int result = step(w, "SELECT id FROM blocks WHERE end_ns <= ?1 AND level >= 0 LIMIT 1", &limit, 1, &old);
    for (size_t i = 0; i < sizeof statements / sizeof *statements && !result && old >= 0; i++)
        result = step(w, statements[i], &limit, 1, NULL);
    return result;
}

// Once a block: updates of findings older than full resolution say what their end says again.
static int prune(struct al_writer *w, int64_t now) {
    const int64_t full = now - w->o.full_ns;
    int result = step(w, "DELETE FROM evidence WHERE finding IN (SELECT id FROM findings WHERE t < ?1 AND"
                         " phase = 'updated')", &full, 1, NULL);
    if (!result)
        result = step(w, "DELETE FROM findings WHERE t < ?1 AND phase = 'updated'", &full, 1, NULL);
    if (!result && w->o.keep_ns)
        result = forget(w, now - w->o.keep_ns);
    return result ? result : al_db_exec(w->db, "PRAGMA incremental_vacuum(2000)", &w->why);
}

static int set_level(struct al_writer *w) {
    const int64_t which[] = {w->aging.block, w->aging.target};
    return step(w, "UPDATE blocks SET level=?2 WHERE id=?1", which, 2, NULL);
}

int al_writer_age(struct al_writer *w, int64_t now) {
    struct al_aging *a = &w->aging;
    int result = 0;
    if (w->keyframe)
        result = prune(w, now);
    if (now - a->looked_ns >= LOOK_EVERY_NS)
        a->look = true;
    if (result || (!a->active && !a->look))
        return result;
    if (!a->active) {
        result = find_job(w, now);
        // The level is the block's from the start of thinning: a reader thins what is not done yet. Packing shows at its
        // end, since rows are looked for as long as it lasts.
        if (!result && a->active && a->target > 0)
            result = set_level(w);
        if (result || !a->active)
            return result;
    }
    bool more = false;
    if (a->target > 0) {
        result = thin_one(w, &more);
    } else {
        result = pack_one(w, (uint8_t)a->kind, &more);
        if (!more)
            a->kind++;
        more = a->kind < AL_STORE_KINDS;
    }
    if (result || more)
        return result;
    a->active = false;
    return a->target > 0 ? 0 : set_level(w);
}
