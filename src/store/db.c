// SPDX-License-Identifier: Apache-2.0
#include "store/db.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "base/str.h"

#define RAW_MAX (256u << 20) // bytes of one chunk before compression

void al_db_say(struct al_store_error *e, const char *format, ...) {
    va_list args;
    if (!e)
        return;
    va_start(args, format);
    (void)vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    (void)al_str_clean(e->text);
}

static int code_of(int rc) {
    switch (rc & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_MISMATCH:
    case SQLITE_ERROR: // a table or column that should be there is not
        return AL_E_FORMAT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PERM:
    case SQLITE_READONLY:
        return AL_E_DENIED;
    case SQLITE_NOMEM:
        return AL_E_NOMEM;
    case SQLITE_TOOBIG:
        return AL_E_TOOBIG;
    default:
        return AL_E_IO;
    }
}

int al_db_result(sqlite3 *db, int rc, const char *what, struct al_store_error *e) {
    if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE)
        return 0;
    int number = errno, primary = rc & 0xff; // SQLite keeps the errno of some errors only
    if (db && sqlite3_system_errno(db))
        number = sqlite3_system_errno(db);
    const char *why = db ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
    if (primary == SQLITE_FULL || (primary == SQLITE_IOERR && number == ENOSPC))
        why = "no space left on the disk";
    else if (primary == SQLITE_IOERR && number == EFBIG)
        why = "the file may not grow any larger (file size limit)";
    else if (primary == SQLITE_IOERR && number)
        why = strerror(number);
    else if (primary == SQLITE_NOTADB)
        why = "not an alula recording";
    else if (primary == SQLITE_CORRUPT)
        why = "the recording is damaged";
    else if (primary == SQLITE_BUSY)
        why = "another program has locked the file";
    al_db_say(e, "%s%s%s", what ? what : "", what ? ": " : "", why);
    return code_of(rc);
}

int al_db_exec(sqlite3 *db, const char *sql, struct al_store_error *e) {
    return al_db_result(db, sqlite3_exec(db, sql, NULL, NULL, NULL), NULL, e);
}

int al_db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret, struct al_store_error *e) {
    return al_db_result(db, sqlite3_prepare_v2(db, sql, -1, ret, NULL), NULL, e);
}

int al_db_run(sqlite3_stmt *st, struct al_store_error *e) {
    int rc = sqlite3_step(st);
    int result = al_db_result(sqlite3_db_handle(st), rc, NULL, e);
    (void)sqlite3_reset(st);
    return result;
}

int al_db_ints(sqlite3 *db, const char *sql, const int64_t *bind, int count, int64_t *ret_value, int64_t otherwise,
               struct al_store_error *e) {
    sqlite3_stmt *st = NULL;
    int result = al_db_prepare(db, sql, &st, e);
    for (int i = 0; i < count && !result; i++)
        (void)sqlite3_bind_int64(st, i + 1, bind[i]);
    if (ret_value)
        *ret_value = otherwise;
    if (!result) {
        int rc = sqlite3_step(st);
        result = al_db_result(db, rc, NULL, e);
        if (rc == SQLITE_ROW && ret_value && sqlite3_column_type(st, 0) != SQLITE_NULL)
            *ret_value = sqlite3_column_int64(st, 0);
    }
    (void)sqlite3_finalize(st);
    return result;
}

void al_db_text(sqlite3_stmt *st, int column, char *out, size_t size) {
    const char *text = (const char *)sqlite3_column_text(st, column);
    (void)al_str_copy(out, size, text ? text : "");
}

// ---- schema ----

static const char fixed[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE metrics(kind INTEGER, id INTEGER, name TEXT, unit TEXT, type TEXT, help TEXT, PRIMARY KEY(kind, id))"
    " WITHOUT ROWID;"
    "CREATE TABLE statuses(id INTEGER PRIMARY KEY, word TEXT);"
    "CREATE TABLE layouts(id INTEGER PRIMARY KEY, kind INTEGER, runs BLOB);"
    "CREATE TABLE texts(id INTEGER PRIMARY KEY, text TEXT UNIQUE);"
    "CREATE TABLE blocks(id INTEGER PRIMARY KEY, start_ns INTEGER, end_ns INTEGER, level INTEGER);"
    "CREATE TABLE chunks(id INTEGER PRIMARY KEY, block INTEGER, kind INTEGER, entity INTEGER, level INTEGER,"
    " rows INTEGER, bytes BLOB, UNIQUE(block, kind, entity));"
    "CREATE TABLE clocks(t INTEGER, monotonic_ns INTEGER, realtime_ns INTEGER, boot_id TEXT, reason TEXT);"
    "CREATE TABLE gaps(from_ns INTEGER, to_ns INTEGER, reason TEXT);"
    "CREATE TABLE gpu_attributes(gpu INTEGER, name TEXT, status TEXT, number REAL, text TEXT,"
    " PRIMARY KEY(gpu, name)) WITHOUT ROWID;"
    "CREATE TABLE xids(t INTEGER, gpu INTEGER, code INTEGER, count INTEGER, last_ns INTEGER);"
    "CREATE TABLE findings(id INTEGER PRIMARY KEY, t INTEGER, phase TEXT, rule TEXT, key TEXT, level TEXT,"
    " confidence TEXT, gpu_index INTEGER, gpu_uuid TEXT, pid INTEGER, job INTEGER, began_ns INTEGER,"
    " ended_ns INTEGER, updated_ns INTEGER, began_realtime_ns INTEGER, title TEXT, message TEXT, considered TEXT,"
    " advice TEXT);"
    "CREATE INDEX findings_t ON findings(t);"
    "CREATE TABLE evidence(finding INTEGER, name TEXT, value REAL, unit TEXT, source TEXT);"
    "CREATE INDEX evidence_finding ON evidence(finding);"
    "CREATE TABLE verdicts(t INTEGER, rule TEXT, key TEXT, verdict TEXT, why TEXT);"
    "CREATE TABLE mark_processes(id INTEGER PRIMARY KEY, pid INTEGER, start_ticks INTEGER, rank INTEGER,"
    " local_rank INTEGER, world INTEGER);"
    "CREATE TABLE marks(id INTEGER PRIMARY KEY, process INTEGER, t INTEGER, until_ns INTEGER, count INTEGER, bytes BLOB);"
    "CREATE INDEX marks_process ON marks(process);"
    "CREATE TABLE mark_kinds(id INTEGER PRIMARY KEY, name TEXT, help TEXT);"
    "CREATE TABLE mark_phases(id INTEGER PRIMARY KEY, word TEXT, help TEXT);"
    "CREATE TABLE sample_ranges(t INTEGER, gpu INTEGER, metric TEXT, min REAL, max REAL);";

static void table_of_kind(struct al_buf *b, uint8_t kind) {
    const struct al_store_kind *k = &al_store_kinds[kind];
    al_buf_printf(b, "CREATE TABLE %s(t INTEGER", k->table);
    if (k->entity)
        al_buf_printf(b, ", %s INTEGER", k->entity);
    for (uint32_t e = 0; e < k->extra_count; e++)
        al_buf_printf(b, ", %s %s", k->extras[e].name, k->extras[e].scale > 0 ? "REAL" : "INTEGER");
    if (k->metric_count)
        al_buf_str(b, ", layout INTEGER, at BLOB");
    al_buf_str(b, ", PRIMARY KEY(t");
    if (k->entity)
        al_buf_printf(b, ", %s", k->entity);
    al_buf_printf(b, "%s)) WITHOUT ROWID;", kind == AL_STORE_FRESH ? ", at_us" : "");
}

static void table_of_entity(struct al_buf *b, uint8_t kind) {
    const struct al_entity_kind *k = &al_entity_kinds[kind];
    if (!k->table)
        return;
    al_buf_printf(b, "CREATE TABLE %s(id INTEGER PRIMARY KEY, first_t INTEGER", k->table);
    for (uint32_t f = 0; f < k->field_count; f++)
        al_buf_printf(b, ", \"%s\" %s", k->fields[f].name,
                      k->fields[f].type == 't' || k->fields[f].type == 'r' ? "TEXT" : "INTEGER");
    al_buf_str(b, ");");
}

static void fill_marks(struct al_buf *b) {
    static const struct {
        const char *table, *name, *help;
    } rows[] = {
#define X(name, help) {"kinds", #name, help},
        AL_EVENTS(X)
#undef X
#define X(name, word, help) {"phases", word, help},
            AL_PHASES(X)
#undef X
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        char *sql = sqlite3_mprintf("INSERT INTO mark_%s VALUES(%d,%Q,%Q);", rows[i].table,
                                    i < AL_EVENT_COUNT ? i : i - AL_EVENT_COUNT, rows[i].name, rows[i].help);
        al_buf_str(b, sql ? sql : "x");
        sqlite3_free(sql);
    }
}

static void fill_words(struct al_buf *b) {
    for (uint32_t s = 0; s < AL_STATUS_COUNT; s++)
        al_buf_printf(b, "INSERT INTO statuses VALUES(%u,'%s');", s, al_status_word(s));
    for (int kind = 0; kind < AL_STORE_KINDS; kind++)
        for (uint32_t m = 0; m < al_store_kinds[kind].metric_count; m++) {
            const struct al_metric_info *i = &al_store_kinds[kind].metrics[m];
            char *sql = sqlite3_mprintf("INSERT INTO metrics VALUES(%d,%d,%Q,%Q,%Q,%Q);", kind, m, i->name,
                                        al_unit_word(i->unit), al_metric_kind_word(i->kind), i->help);
            al_buf_str(b, sql ? sql : "x");
            sqlite3_free(sql);
        }
}

int al_db_create(sqlite3 *db, struct al_store_error *e) {
    struct al_buf b = AL_BUF_INIT;
    al_buf_str(&b, "BEGIN;");
    al_buf_str(&b, fixed);
    al_buf_str(&b, al_store_profile_tables);
    for (int kind = 0; kind < AL_STORE_KINDS; kind++) {
        table_of_kind(&b, (uint8_t)kind);
        table_of_entity(&b, (uint8_t)kind);
    }
    fill_words(&b);
    fill_marks(&b);
    al_buf_printf(&b, "PRAGMA user_version=%d;", AL_STORE_SCHEMA);
    al_buf_str(&b, "CREATE VIEW sample_times AS SELECT s.*, k.realtime_ns / 1e9 AS time, g.uuid, g.\"index\""
                   " FROM samples s JOIN ticks k USING(t) JOIN gpus g ON g.id = s.gpu;COMMIT;");
    int result = b.failed ? AL_E_NOMEM : al_db_exec(db, b.data, e);
    al_buf_free(&b);
    return result;
}

// ---- chunk bytes ----

int al_chunk_pack(const char *bytes, size_t len, char **ret, size_t *ret_len) {
    ZSTD_CCtx *c = ZSTD_createCCtx();
    size_t room = ZSTD_compressBound(len);
    char *to = malloc(room);
    int result = c && to ? 0 : AL_E_NOMEM;
    if (!result) {
        (void)ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 9);
        (void)ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
        size_t written = ZSTD_compress2(c, to, room, bytes, len);
        if (ZSTD_isError(written))
            result = AL_E_NOMEM;
        *ret_len = written;
    }
    (void)ZSTD_freeCCtx(c);
    if (result)
        free(to);
    else
        *ret = to;
    return result;
}

int al_chunk_unpack(const void *packed, size_t len, uint8_t **ret, size_t *ret_len) {
    unsigned long long size = packed ? ZSTD_getFrameContentSize(packed, len) : 0;
    if (!packed || size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
        return AL_E_FORMAT;
    if (size > RAW_MAX)
        return AL_E_TOOBIG;
    uint8_t *to = malloc(size ? size : 1);
    if (!to)
        return AL_E_NOMEM;
    size_t written = ZSTD_decompress(to, size, packed, len);
    if (ZSTD_isError(written) || written != size) {
        free(to);
        return AL_E_FORMAT;
    }
    *ret = to;
    *ret_len = size;
    return 0;
}
