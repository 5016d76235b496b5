// SPDX-License-Identifier: Apache-2.0
// What a recording says besides its samples: findings, gaps, verdicts, attributes, and about itself.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "store/reader.h"

const char *al_store_meta(struct al_store *s, const char *key) {
    sqlite3_stmt *st = NULL;
    free(s->meta);
    s->meta = NULL;
    if (al_db_prepare(s->db, "SELECT value FROM meta WHERE key = ?", &st, NULL) == 0) {
        (void)sqlite3_bind_text(st, 1, key, -1, SQLITE_TRANSIENT);
        if (sqlite3_step(st) == SQLITE_ROW && sqlite3_column_text(st, 0))
            s->meta = strdup((const char *)sqlite3_column_text(st, 0));
    }
    (void)sqlite3_finalize(st);
    return s->meta;
}

bool al_store_has(struct al_store *s, int metric) {
    // Columns are made when a metric is first known, and stay.
    sqlite3_stmt *st = NULL;
    bool has = false;
    if (al_db_prepare(s->db, "SELECT 1 FROM pragma_table_info('samples') WHERE name = ?", &st, NULL) == 0) {
        (void)sqlite3_bind_text(st, 1, al_gpu_metrics[metric].name, -1, SQLITE_STATIC);
        has = sqlite3_step(st) == SQLITE_ROW;
    }
    (void)sqlite3_finalize(st);
    return has;
}

int al_store_attr(struct al_store *s, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    sqlite3_stmt *st = NULL;
    memset(ret, 0, sizeof *ret);
    if (gpu >= s->shown_count)
        return AL_E_NOENT;
    int result = al_db_prepare(s->db, "SELECT status, number, text FROM gpu_attributes WHERE gpu=? AND name=?", &st, NULL);
    if (result)
        return result;
    (void)sqlite3_bind_int64(st, 1, s->shown[gpu]);
    (void)sqlite3_bind_text(st, 2, al_attrs[attr].name, -1, SQLITE_STATIC);
    if (sqlite3_step(st) == SQLITE_ROW) {
        char word[48];
        al_db_text(st, 0, word, sizeof word);
        int status = al_status_from_word(word);
        ret->status = status < 0 ? AL_STATUS_ERROR : (uint32_t)status;
        ret->num = sqlite3_column_double(st, 1);
        al_db_text(st, 2, ret->text, sizeof ret->text);
    }
    (void)sqlite3_finalize(st);
    return 0;
}

static int word_index(const char *word, const char *(*name)(int), int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(name(i), word) == 0)
            return i;
    return 0;
}
static const char *confidence(int i) {
    return al_confidence_word((enum al_confidence)i);
}
static const char *phase(int i) {
    return al_phase_word((enum al_phase)i);
}
static const char *unit(int i) {
    return al_unit_word((enum al_unit)i);
}

static int take_evidence(struct al_store *s, int64_t id, struct al_finding *f) {
    sqlite3_stmt *st = NULL;
    int result = al_db_prepare(s->db, "SELECT name, value, unit, source FROM evidence WHERE finding=? ORDER BY rowid", &st,
                               NULL);
    if (!result)
        (void)sqlite3_bind_int64(st, 1, id);
    while (!result && f->evidence_count < AL_EVIDENCE_MAX && sqlite3_step(st) == SQLITE_ROW) {
        struct al_evidence *e = &f->evidence[f->evidence_count++];
        char word[32];
        al_db_text(st, 0, e->name, sizeof e->name);
        e->value = sqlite3_column_type(st, 1) == SQLITE_NULL ? NAN : sqlite3_column_double(st, 1);
        al_db_text(st, 2, word, sizeof word);
        e->unit = (enum al_unit)word_index(word, unit, AL_UNIT_BOOL + 1);
        al_db_text(st, 3, e->source, sizeof e->source);
    }
    (void)sqlite3_finalize(st);
    return result;
}

static void take_finding(sqlite3_stmt *st, char *rule, size_t rule_size, struct al_finding *f) {
    char word[24];
    memset(f, 0, sizeof *f);
    al_db_text(st, 2, word, sizeof word);
    f->phase = (enum al_phase)word_index(word, phase, 3);
    al_db_text(st, 3, rule, rule_size);
    f->rule = rule;
    al_db_text(st, 4, f->key, sizeof f->key);
    al_db_text(st, 5, word, sizeof word);
    int level = al_level_from_word(word);
    f->level = level < 0 ? AL_LEVEL_INFO : (enum al_level)level;
    al_db_text(st, 6, word, sizeof word);
    f->confidence = (enum al_confidence)word_index(word, confidence, 3);
    f->gpu = -1;
    f->gpu_index = (int32_t)sqlite3_column_int64(st, 7);
    al_db_text(st, 8, f->gpu_uuid, sizeof f->gpu_uuid);
    f->pid = (pid_t)sqlite3_column_int64(st, 9);
    f->job = (pid_t)sqlite3_column_int64(st, 10);
    f->began_ns = sqlite3_column_int64(st, 11);
    f->ended_ns = sqlite3_column_int64(st, 12);
    f->updated_ns = sqlite3_column_int64(st, 13);
    f->began_realtime_ns = sqlite3_column_int64(st, 14);
    al_db_text(st, 15, f->title, sizeof f->title);
    al_db_text(st, 16, f->message, sizeof f->message);
    al_db_text(st, 17, f->considered, sizeof f->considered);
    al_db_text(st, 18, f->advice, sizeof f->advice);
}

int al_store_findings(struct al_store *s, int64_t after_ns, int64_t until_ns, al_store_finding_fn *fn, void *user) {
    sqlite3_stmt *st = NULL;
    int rc = SQLITE_DONE;
    int result = al_db_prepare(s->db,
                               "SELECT id, t, phase, rule, key, level, confidence, gpu_index, gpu_uuid, pid, job,"
                               " began_ns, ended_ns, updated_ns, began_realtime_ns, title, message, considered, advice"
                               " FROM findings WHERE t > ?1 AND t <= ?2 ORDER BY t, id", &st, NULL);
    if (!result) {
        (void)sqlite3_bind_int64(st, 1, after_ns);
        (void)sqlite3_bind_int64(st, 2, until_ns);
    }
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct al_finding f;
        char rule[48];
        take_finding(st, rule, sizeof rule, &f);
        result = take_evidence(s, sqlite3_column_int64(st, 0), &f);
        if (!result)
            result = fn(user, sqlite3_column_int64(st, 1), &f);
    }
    if (!result)
        result = al_db_result(s->db, rc, NULL, NULL);
    (void)sqlite3_finalize(st);
    return result;
}

int al_store_gaps(struct al_store *s, al_store_gap_fn *fn, void *user) {
    sqlite3_stmt *st = NULL;
    int rc = SQLITE_DONE, result = al_db_prepare(s->db, "SELECT from_ns, to_ns, reason FROM gaps ORDER BY from_ns", &st, NULL);
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        char reason[96];
        al_db_text(st, 2, reason, sizeof reason);
        result = fn(user, sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1), reason);
    }
    if (!result)
        result = al_db_result(s->db, rc, NULL, NULL);
    (void)sqlite3_finalize(st);
    return result;
}

int al_store_verdicts(struct al_store *s, al_store_verdict_fn *fn, void *user) {
    sqlite3_stmt *st = NULL;
    int rc = SQLITE_DONE;
    int result = al_db_prepare(s->db, "SELECT t, rule, key, verdict, why FROM verdicts ORDER BY t, rowid", &st, NULL);
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        char rule[48], key[160], verdict[32], why[320];
        al_db_text(st, 1, rule, sizeof rule);
        al_db_text(st, 2, key, sizeof key);
        al_db_text(st, 3, verdict, sizeof verdict);
        al_db_text(st, 4, why, sizeof why);
        result = fn(user, sqlite3_column_int64(st, 0), rule, key, verdict, why);
    }
    if (!result)
        result = al_db_result(s->db, rc, NULL, NULL);
    (void)sqlite3_finalize(st);
    return result;
}

static int each_entity(struct al_store *s, uint8_t kind, const char *sql, al_store_entity_fn *fn, void *user) {
    sqlite3_stmt *st = NULL;
    void *what = calloc(1, al_entity_kinds[kind].size);
    int rc = SQLITE_DONE, result = what ? al_db_prepare(s->db, sql, &st, NULL) : AL_E_NOMEM;
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        memset(what, 0, al_entity_kinds[kind].size);
        result = al_entity_load(s->db, kind, sqlite3_column_int64(st, 0), what, NULL);
        if (!result)
            result = fn(user, sqlite3_column_int64(st, 1), what);
    }
    if (!result)
        result = al_db_result(s->db, rc, NULL, NULL);
    (void)sqlite3_finalize(st);
    free(what);
    return result;
}

int al_store_gpus(struct al_store *s, al_store_entity_fn *fn, void *user) {
    return each_entity(s, AL_STORE_GPU, "SELECT MAX(id), MIN(first_t) FROM gpus GROUP BY uuid ORDER BY 1", fn, user);
}

int al_store_processes(struct al_store *s, al_store_entity_fn *fn, void *user) {
    return each_entity(s, AL_STORE_PROC, "SELECT MAX(id), MIN(first_t) FROM processes GROUP BY pid, start_ticks"
                                         " ORDER BY 2, pid", fn, user);
}

int al_store_ranks(struct al_store *s, al_store_entity_fn *fn, void *user) {
    if (s->schema < AL_STORE_SCHEMA_RANKS)
        return 0;
    return each_entity(s, AL_STORE_RANK, "SELECT MAX(id), MIN(first_t) FROM ranks GROUP BY pid, start_ticks"
                                         " ORDER BY 2, rank, pid", fn, user);
}

static int64_t ask(struct al_store *s, const char *sql) {
    int64_t value = 0;
    (void)al_db_ints(s->db, sql, NULL, 0, &value, 0, NULL);
    return value;
}

static void take_levels(struct al_store *s, struct al_store_info *ret) {
    sqlite3_stmt *st = NULL;
    for (uint32_t i = 0; i < s->block_count; i++) {
        int level = s->blocks[i].level < 0 ? 0 : s->blocks[i].level;
        int64_t end = s->blocks[i].end_ns < s->last_t ? s->blocks[i].end_ns : s->last_t;
        if (end > s->blocks[i].start_ns)
            ret->level_ns[level] += end - s->blocks[i].start_ns;
    }
    if (al_db_prepare(s->db, "SELECT level, SUM(CASE kind WHEN 1 THEN rows ELSE 0 END), SUM(LENGTH(bytes)) FROM chunks"
                             " WHERE kind IN (1, 2) GROUP BY level", &st, NULL) == 0)
        while (sqlite3_step(st) == SQLITE_ROW) {
            int64_t level = sqlite3_column_int64(st, 0);
            if (level < 0 || level > 2)
                continue;
            ret->level_rows[level] = sqlite3_column_int64(st, 1);
            ret->level_bytes[level] = sqlite3_column_int64(st, 2);
        }
    (void)sqlite3_finalize(st);
}

static void copy_meta(struct al_store *s, const char *key, char *out, size_t size) {
    const char *text = al_store_meta(s, key);
    (void)al_str_copy(out, size, text ? text : "");
}

void al_store_info(struct al_store *s, struct al_store_info *ret) {
    struct stat st;
    *ret = (struct al_store_info){.start_realtime_ns = s->start_realtime_ns,
                                  .duration_ns = s->last_t > 0 ? s->last_t : 0,
                                  .interval_ns = s->interval_ns};
    ret->plain_ticks = ask(s, "SELECT COUNT(*) FROM ticks");
    ret->ticks = ret->plain_ticks + ask(s, "SELECT SUM(rows) FROM chunks WHERE kind=0");
    ret->gpu_samples = ask(s, "SELECT COUNT(*) FROM samples") + ask(s, "SELECT SUM(rows) FROM chunks WHERE kind=1");
    ret->processes = ask(s, "SELECT COUNT(*) FROM (SELECT DISTINCT pid, start_ticks FROM processes)");
    ret->findings = ask(s, "SELECT COUNT(*) FROM findings WHERE phase='began'");
    ret->gaps = ask(s, "SELECT COUNT(*) FROM gaps");
    if (s->schema >= AL_STORE_SCHEMA_RANKS) {
        ret->ranks = ask(s, "SELECT COUNT(*) FROM (SELECT DISTINCT pid, start_ticks FROM ranks)");
        ret->marks = ask(s, "SELECT SUM(count) FROM marks");
        ret->mark_bytes = ask(s, "SELECT SUM(LENGTH(bytes)) FROM marks");
    }
    ret->chunk_bytes = ask(s, "SELECT SUM(LENGTH(bytes)) FROM chunks");
    ret->schema = (int)ask(s, "PRAGMA user_version");
    take_levels(s, ret);
    ret->file_bytes = stat(s->path, &st) == 0 ? st.st_size : 0;
    copy_meta(s, "alula_version", ret->version, sizeof ret->version);
    copy_meta(s, "host", ret->hostname, sizeof ret->hostname);
    copy_meta(s, "driver", ret->driver, sizeof ret->driver);
    copy_meta(s, "boot_id", ret->boot_id, sizeof ret->boot_id);
    const char *closed = al_store_meta(s, "closed");
    ret->closed = closed && strcmp(closed, "1") == 0;
}
