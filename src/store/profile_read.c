// SPDX-License-Identifier: Apache-2.0
// Profiles out of a recording. Numbers there are not trusted: what they name must have come before.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/profiles.h"
#include "store/reader.h"
#include "store/runs.h"

#define PARTS_MOST (64u << 20) // frames, stacks or tracks of one profile

static bool has_profiles(struct al_store *s) {
    int64_t tables = 0;
    struct al_store_error e = {{0}};
    return al_db_ints(s->db, "SELECT count(*) FROM sqlite_master WHERE name IN ('profiles', 'profile_frames', 'profile_stacks',"
                             " 'profile_tracks')", NULL, 0, &tables, 0, &e) == 0 && tables == 4;
}

static const char *text_of(sqlite3_stmt *st, int column) {
    const char *text = (const char *)sqlite3_column_text(st, column);
    return text ? text : "";
}

static double positive(sqlite3_stmt *st, int column, double otherwise) {
    double v = sqlite3_column_double(st, column);
    return isfinite(v) && v > 0 && v < 1e12 ? v : otherwise;
}

static uint64_t count_of(sqlite3_stmt *st, int column) {
    int64_t v = sqlite3_column_int64(st, column);
    return v > 0 ? (uint64_t)v : 0;
}

static int32_t int_of(sqlite3_stmt *st, int column) {
    int64_t v = sqlite3_column_int64(st, column);
    return v >= 0 && v <= INT32_MAX ? (int32_t)v : 0;
}

static void take_head(sqlite3_stmt *st, struct al_store_profile *p) {
    uint64_t *const counts[] = {&p->samples, &p->ticks, &p->late, &p->failed, &p->stacks, &p->unstable, &p->unreadable, &p->truncated};
    bool *const flags[] = {&p->idle, &p->gil, &p->by_function, &p->disordered};
    *p = (struct al_store_profile){.id = sqlite3_column_int64(st, 0), .start_realtime_ns = sqlite3_column_int64(st, 1),
                                   .seconds = positive(st, 2, 0), .rate = positive(st, 3, 100), .pid = int_of(st, 4),
                                   .processes = (uint32_t)int_of(st, 5)};
    for (int i = 0; i < 8; i++)
        *counts[i] = count_of(st, 6 + i);
    for (int i = 0; i < 4; i++)
        *flags[i] = sqlite3_column_int64(st, 14 + i) != 0;
    p->name = text_of(st, 18);
    p->command = text_of(st, 19);
    p->version = text_of(st, 20);
}

int al_store_profiles(struct al_store *s, al_store_profile_fn *fn, void *user) {
    static const char sql[] = "SELECT id, realtime_ns, seconds, rate, pid, processes, samples, ticks, late, failed, stacks, unstable,"
                              " unreadable, truncated, idle, gil, by_function, disordered, name, command, alula_version FROM profiles"
                              " WHERE complete = 1 ORDER BY realtime_ns, id";
    struct al_store_error e = {{0}};
    struct al_store_profile p;
    sqlite3_stmt *st = NULL;
    int rc = SQLITE_DONE;
    if (!has_profiles(s))
        return 0;
    int result = al_db_prepare(s->db, sql, &st, &e);
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        take_head(st, &p);
        result = fn(user, &p);
        if (result) {
            (void)sqlite3_finalize(st);
            return result;
        }
    }
    if (!result)
        result = al_db_result(s->db, rc, NULL, &e);
    (void)sqlite3_finalize(st);
    if (result == AL_E_NOMEM)
        return result;
    if (result)
        al_store_note_damage(s, "some profiles cannot be read", e.text);
    return 0;
}

struct read {
    const struct al_store_profile_reader *r;
    uint32_t frames, stacks, tracks;
};

static int damaged(struct al_store_error *e, const char *what, uint32_t i) {
    al_db_say(e, "the profile is damaged: %s %u", what, i);
    return AL_E_FORMAT;
}

static int read_frame(struct read *x, sqlite3_stmt *st, struct al_store_error *e) {
    if (sqlite3_column_int64(st, 0) != x->frames || x->frames >= PARTS_MOST)
        return damaged(e, "frame", x->frames);
    int64_t kind = sqlite3_column_int64(st, 1);
    const struct al_store_frame f = {.name = text_of(st, 2), .file = text_of(st, 3), .object = text_of(st, 4), .line = int_of(st, 5),
                                     .first_line = int_of(st, 6), .kind = kind >= 0 && kind <= 255 ? (uint8_t)kind : 255};
    x->frames++;
    return x->r->frame(x->r->user, &f);
}

static int read_stack(struct read *x, sqlite3_stmt *st, struct al_store_error *e) {
    bool root = sqlite3_column_type(st, 1) == SQLITE_NULL;
    int64_t parent = sqlite3_column_int64(st, 1), frame = sqlite3_column_int64(st, 2);
    if (sqlite3_column_int64(st, 0) != x->stacks || x->stacks >= PARTS_MOST || frame < 0 || frame >= x->frames ||
        (!root && (parent < 0 || parent >= x->stacks)))
        return damaged(e, "stack", x->stacks);
    const struct al_store_stack k = {root ? AL_STORE_NO_STACK : (uint32_t)parent, (uint32_t)frame, count_of(st, 3)};
    x->stacks++;
    return x->r->stack(x->r->user, &k);
}

static int read_track(struct read *x, sqlite3_stmt *st, struct al_store_error *e) {
    struct al_store_run *runs = NULL;
    uint8_t *raw = NULL;
    size_t len = 0;
    uint32_t count = 0;
    if (sqlite3_column_int64(st, 0) != x->tracks || x->tracks >= PARTS_MOST)
        return damaged(e, "thread", x->tracks);
    int result = al_chunk_unpack(sqlite3_column_blob(st, 6), (size_t)sqlite3_column_bytes(st, 6), &raw, &len);
    if (!result)
        result = al_runs_decode(raw, len, x->stacks, &runs, &count);
    free(raw);
    if (result)
        return result == AL_E_NOMEM ? result : damaged(e, "samples of thread", x->tracks);
    const struct al_store_track t = {.process = text_of(st, 4), .thread = text_of(st, 5), .pid = int_of(st, 1), .tid = int_of(st, 2),
                                     .rank = sqlite3_column_type(st, 3) == SQLITE_NULL ? -1 : int_of(st, 3), .runs = runs,
                                     .run_count = count};
    x->tracks++;
    result = x->r->track(x->r->user, &t);
    free(runs);
    return result;
}

typedef int read_fn(struct read *x, sqlite3_stmt *st, struct al_store_error *e);

static int read_each(struct al_store *s, struct read *x, const char *sql, int64_t id, read_fn *one, struct al_store_error *e) {
    sqlite3_stmt *st = NULL;
    int rc = SQLITE_DONE, result = al_db_prepare(s->db, sql, &st, e);
    if (!result)
        (void)sqlite3_bind_int64(st, 1, id);
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW)
        result = one(x, st, e);
    if (!result)
        result = al_db_result(s->db, rc, NULL, e);
    (void)sqlite3_finalize(st);
    return result;
}

int al_store_read_profile(struct al_store *s, int64_t id, const struct al_store_profile_reader *r, struct al_store_error *reterr) {
    struct al_store_error own = {{0}}, *e = reterr ? reterr : &own;
    struct read x = {.r = r};
    int64_t there = 0;
    int result = has_profiles(s) ? al_db_ints(s->db, "SELECT count(*) FROM profiles WHERE id=?1 AND complete=1", &id, 1, &there, 0, e) : 0;
    if (!result && !there) {
        al_db_say(e, "there is no profile %lld", (long long)id);
        result = AL_E_NOENT;
    }
    if (!result)
        result = read_each(s, &x, "SELECT id, kind, name, file, object, line, first_line FROM profile_frames WHERE profile=?1"
                                  " ORDER BY id", id, read_frame, e);
    if (!result)
        result = read_each(s, &x, "SELECT id, parent, frame, samples FROM profile_stacks WHERE profile=?1 ORDER BY id", id, read_stack, e);
    if (!result)
        result = read_each(s, &x, "SELECT id, pid, tid, rank, process, thread, runs FROM profile_tracks WHERE profile=?1 ORDER BY id",
                           id, read_track, e);
    return result;
}
