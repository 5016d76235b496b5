// SPDX-License-Identifier: Apache-2.0
// Adds a profile to a recording that may be somebody else's at this moment: transactions are kept to milliseconds, and the writer
// waits for them (its busy timeout is far longer). The journal is left to the writer as well: nothing is checkpointed here.
#include "store/profiles.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "store/db.h"
#include "store/runs.h"

#define WAIT_STEP_NS (3 * AL_NS_PER_MS) // between two tries for the lock: the writer leaves it free for part of each second
#define WAIT_MOST_NS (20 * AL_NS_PER_S)
#define HOLD_NS (5 * AL_NS_PER_MS)      // of one transaction
#define REST_NS (4 * AL_NS_PER_MS)      // before the next one: others come in

const char al_store_profile_tables[] =
    "CREATE TABLE IF NOT EXISTS profiles(id INTEGER PRIMARY KEY, t INTEGER, realtime_ns INTEGER, complete INTEGER, seconds REAL,"
    " rate REAL, pid INTEGER, processes INTEGER, samples INTEGER, ticks INTEGER, late INTEGER, failed INTEGER, stacks INTEGER,"
    " unstable INTEGER, unreadable INTEGER, truncated INTEGER, idle INTEGER, gil INTEGER, by_function INTEGER, disordered INTEGER,"
    " name TEXT, command TEXT, alula_version TEXT);"
    "CREATE TABLE IF NOT EXISTS profile_frames(profile INTEGER, id INTEGER, kind INTEGER, name TEXT, file TEXT, object TEXT,"
    " line INTEGER, first_line INTEGER, PRIMARY KEY(profile, id)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS profile_stacks(profile INTEGER, id INTEGER, parent INTEGER, frame INTEGER, samples INTEGER,"
    " PRIMARY KEY(profile, id)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS profile_tracks(profile INTEGER, id INTEGER, pid INTEGER, tid INTEGER, rank INTEGER, process TEXT,"
    " thread TEXT, samples INTEGER, runs BLOB, PRIMARY KEY(profile, id));";

struct put {
    sqlite3 *db;
    struct al_store_error *e;
    int64_t waits_since_ns, began_ns;
    bool in_transaction;
    sigset_t before;
    int64_t id;
    sqlite3_stmt *frame, *stack, *track;
};

static void rest(int64_t ns) {
    const struct timespec t = {0, ns};
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static int on_busy(void *user, int tries) {
    struct put *x = user;
    int64_t now = al_monotonic_ns();
    if (!tries)
        x->waits_since_ns = now;
    if (now - x->waits_since_ns > WAIT_MOST_NS)
        return 0;
    rest(WAIT_STEP_NS);
    return 1;
}

// Ctrl-Z in the midst of a transaction would lock the writer out for as long.
static int begin(struct put *x) {
    sigset_t stops;
    if (x->in_transaction)
        return 0;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTSTP);
    sigaddset(&stops, SIGTTOU);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &stops, &x->before);
    int result = al_db_exec(x->db, "BEGIN IMMEDIATE", x->e);
    x->in_transaction = !result;
    x->began_ns = al_monotonic_ns();
    if (result)
        (void)sigprocmask(SIG_SETMASK, &x->before, NULL);
    return result;
}

static int finish(struct put *x, int result) {
    if (!x->in_transaction)
        return result;
    x->in_transaction = false;
    if (!result)
        result = al_db_exec(x->db, "COMMIT", x->e);
    if (result)
        (void)sqlite3_exec(x->db, "ROLLBACK", NULL, NULL, NULL);
    (void)sigprocmask(SIG_SETMASK, &x->before, NULL);
    return result;
}

// After a row: others come in when this transaction has lasted long enough.
static int breathe(struct put *x) {
    if (!x->in_transaction || al_monotonic_ns() - x->began_ns < HOLD_NS)
        return 0;
    int result = finish(x, 0);
    rest(REST_NS);
    return result;
}

static int open_file(struct put *x, const char *path) {
    struct stat st;
    int64_t application = 0, version = 0, tables = 0;
    if (stat(path, &st) != 0) {
        al_db_say(x->e, "%s: %s", path, strerror(errno));
        return errno == EACCES ? AL_E_DENIED : errno == ENOENT || errno == ENOTDIR ? AL_E_NOENT : AL_E_IO;
    }
    int rc = sqlite3_open_v2(path, &x->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    int result = al_db_result(x->db, rc, path, x->e);
    if (result)
        return result;
    (void)sqlite3_busy_handler(x->db, on_busy, x);
    result = al_db_exec(x->db, "PRAGMA wal_autocheckpoint=0;PRAGMA synchronous=NORMAL;PRAGMA temp_store=MEMORY", x->e);
    if (!result)
        result = al_db_ints(x->db, "PRAGMA application_id", NULL, 0, &application, 0, x->e);
    if (!result)
        result = al_db_ints(x->db, "PRAGMA user_version", NULL, 0, &version, 0, x->e);
    if (!result && (application != AL_STORE_APPLICATION || version < 1 || version > AL_STORE_SCHEMA)) {
        al_db_say(x->e, "%s: %s", path, application == AL_STORE_APPLICATION && version > AL_STORE_SCHEMA ? "written by a newer alula"
                                                                                                       : "not an alula recording");
        return AL_E_FORMAT;
    }
    if (!result)
        result = al_db_ints(x->db, "SELECT count(*) FROM sqlite_master WHERE name = 'profile_tracks'", NULL, 0, &tables, 0, x->e);
    if (result || tables)
        return result;
    result = begin(x); // an older alula's
    if (!result)
        result = al_db_exec(x->db, al_store_profile_tables, x->e);
    return finish(x, result);
}

static int put_head(struct put *x, const struct al_store_profile *p) {
    static const char sql[] = "INSERT INTO profiles VALUES(NULL,?1 - COALESCE((SELECT value FROM meta WHERE key='start_realtime_ns'),?1),"
                              "?1,0,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20)";
    const uint64_t numbers[] = {(uint64_t)(int64_t)p->pid, p->processes, p->samples, p->ticks,     p->late,       p->failed, p->stacks,
                                p->unstable, p->unreadable, p->truncated, p->idle, p->gil, p->by_function, p->disordered};
    const char *const texts[] = {p->name, p->command, p->version};
    sqlite3_stmt *st = NULL;
    int result = begin(x);
    if (!result)
        result = al_db_prepare(x->db, sql, &st, x->e);
    if (result)
        return result;
    (void)sqlite3_bind_int64(st, 1, p->start_realtime_ns);
    (void)sqlite3_bind_double(st, 2, p->seconds);
    (void)sqlite3_bind_double(st, 3, p->rate);
    for (int i = 0; i < 14; i++)
        (void)sqlite3_bind_int64(st, 4 + i, (int64_t)numbers[i]);
    for (int i = 0; i < 3; i++)
        (void)sqlite3_bind_text(st, 18 + i, texts[i], -1, SQLITE_STATIC);
    result = al_db_run(st, x->e);
    x->id = sqlite3_last_insert_rowid(x->db);
    (void)sqlite3_finalize(st);
    return finish(x, result);
}

static int put_frame(struct put *x, const struct al_store_profile_parts *parts, uint32_t i) {
    struct al_store_frame f;
    parts->frame(parts->user, i, &f);
    (void)sqlite3_bind_int64(x->frame, 1, x->id);
    (void)sqlite3_bind_int64(x->frame, 2, i);
    (void)sqlite3_bind_int64(x->frame, 3, f.kind);
    (void)sqlite3_bind_text(x->frame, 4, f.name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(x->frame, 5, f.file, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(x->frame, 6, f.object, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(x->frame, 7, f.line);
    (void)sqlite3_bind_int64(x->frame, 8, f.first_line);
    return al_db_run(x->frame, x->e);
}

static int put_stack(struct put *x, const struct al_store_profile_parts *parts, uint32_t i) {
    struct al_store_stack s;
    parts->stack(parts->user, i, &s);
    (void)sqlite3_bind_int64(x->stack, 1, x->id);
    (void)sqlite3_bind_int64(x->stack, 2, i);
    if (s.parent == AL_STORE_NO_STACK)
        (void)sqlite3_bind_null(x->stack, 3);
    else
        (void)sqlite3_bind_int64(x->stack, 3, s.parent);
    (void)sqlite3_bind_int64(x->stack, 4, s.frame);
    (void)sqlite3_bind_int64(x->stack, 5, (int64_t)s.samples);
    return al_db_run(x->stack, x->e);
}

// What takes time, the compression, is done before the transaction.
static int put_track(struct put *x, const struct al_store_profile_parts *parts, uint32_t i) {
    struct al_store_track t = {.process = "", .thread = ""};
    struct al_store_run *memory = NULL;
    struct al_buf b = AL_BUF_INIT;
    char *packed = NULL;
    size_t len = 0;
    int64_t samples = 0;
    int result = finish(x, 0);
    if (!result)
        result = parts->track(parts->user, i, &t, &memory);
    if (!result)
        result = al_runs_encode(t.runs, t.run_count, &b);
    if (!result)
        result = al_chunk_pack(b.data, b.len, &packed, &len);
    for (uint32_t r = 0; !result && r < t.run_count; r++)
        samples += t.runs[r].count;
    if (!result)
        result = begin(x);
    if (!result) {
        const int64_t numbers[] = {x->id, i, t.pid, t.tid};
        for (int n = 0; n < 4; n++)
            (void)sqlite3_bind_int64(x->track, n + 1, numbers[n]);
        if (t.rank >= 0)
            (void)sqlite3_bind_int64(x->track, 5, t.rank);
        else
            (void)sqlite3_bind_null(x->track, 5);
        (void)sqlite3_bind_text(x->track, 6, t.process, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(x->track, 7, t.thread, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(x->track, 8, samples);
        (void)sqlite3_bind_blob64(x->track, 9, packed, len, SQLITE_STATIC);
        result = al_db_run(x->track, x->e);
        (void)sqlite3_clear_bindings(x->track);
    }
    free(memory);
    free(packed);
    al_buf_free(&b);
    return result;
}

typedef int put_fn(struct put *x, const struct al_store_profile_parts *parts, uint32_t i);

static int put_each(struct put *x, const struct al_store_profile_parts *parts, uint32_t count, put_fn *one) {
    int result = 0;
    for (uint32_t i = 0; i < count && !result; i++) {
        result = one == put_track ? 0 : begin(x);
        if (!result)
            result = one(x, parts, i);
        if (!result)
            result = breathe(x);
    }
    return finish(x, result);
}

static int put_parts(struct put *x, const struct al_store_profile_parts *parts) {
    int result = al_db_prepare(x->db, "INSERT INTO profile_frames VALUES(?,?,?,?,?,?,?,?)", &x->frame, x->e);
    if (!result)
        result = al_db_prepare(x->db, "INSERT INTO profile_stacks VALUES(?,?,?,?,?)", &x->stack, x->e);
    if (!result)
        result = al_db_prepare(x->db, "INSERT INTO profile_tracks VALUES(?,?,?,?,?,?,?,?,?)", &x->track, x->e);
    if (!result)
        result = put_each(x, parts, parts->frames, put_frame);
    if (!result)
        result = put_each(x, parts, parts->stacks, put_stack);
    if (!result)
        result = put_each(x, parts, parts->tracks, put_track);
    (void)sqlite3_finalize(x->frame);
    (void)sqlite3_finalize(x->stack);
    (void)sqlite3_finalize(x->track);
    return result;
}

int al_store_add_profile(const char *path, const struct al_store_profile *p, const struct al_store_profile_parts *parts,
                         int64_t *ret_id, struct al_store_error *reterr) {
    struct al_store_error own = {{0}};
    struct put x = {.e = reterr ? reterr : &own};
    int result = open_file(&x, path);
    if (!result)
        result = put_head(&x, p);
    if (!result)
        result = put_parts(&x, parts);
    if (!result)
        result = begin(&x);
    if (!result)
        result = finish(&x, al_db_ints(x.db, "UPDATE profiles SET complete=1 WHERE id=?1", &x.id, 1, NULL, 0, x.e));
    (void)sqlite3_close(x.db);
    if (result && !strstr(x.e->text, path)) {
        own = *x.e;
        al_db_say(x.e, "%s: %s", path, *own.text ? own.text : al_error_text(result));
    }
    *ret_id = x.id;
    return result;
}
