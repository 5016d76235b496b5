// SPDX-License-Identifier: Apache-2.0
// Opening a recording and loading its blocks.
#include "store/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

#define BLOCKS_MAX 1000000

void al_store_note_damage(struct al_store *s, const char *what, const char *why) {
    if (s->damage++ == 0)
        al_db_say(&s->first_damage, "%s%s%s", what, why && *why ? ": " : "", why ? why : "");
}

uint32_t al_store_damage(const struct al_store *s, struct al_store_error *reterr) {
    if (s->damage && reterr)
        *reterr = s->first_damage;
    return s->damage;
}

// ---- blocks ----

static void unload(struct al_store *s) {
    for (uint32_t i = 0; i < s->loaded_count; i++) {
        al_part_free(s->loaded[i].part);
        free(s->loaded[i].info);
    }
    free(s->loaded);
    s->loaded = NULL;
    s->loaded_count = 0;
    s->ticks = NULL;
    s->at_block = UINT32_MAX;
}

uint32_t al_store_block(const struct al_store *s, int64_t t) {
    uint32_t low = 0, high = s->block_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->blocks[middle].start_ns <= t)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : UINT32_MAX;
}

static int load_chunk(struct al_store *s, sqlite3_stmt *st, struct al_parts *parts) {
    uint8_t *raw = NULL;
    size_t len = 0;
    struct al_part *p = NULL;
    int64_t kind = sqlite3_column_int64(st, 0);
    int result = al_chunk_unpack(sqlite3_column_blob(st, 2), (size_t)sqlite3_column_bytes(st, 2), &raw, &len);
    if (!result)
        result = al_chunk_decode(raw, len, &s->layouts, &p);
    free(raw);
    if (result == AL_E_NOMEM)
        return result;
    if (result || p->kind != kind || p->metrics > s->names.count[p->kind]) {
        char what[64];
        (void)snprintf(what, sizeof what, "chunk %lld is damaged", (long long)sqlite3_column_int64(st, 3));
        al_store_note_damage(s, what, NULL);
        al_part_free(p);
        return 0;
    }
    p->entity = sqlite3_column_int64(st, 1);
    result = al_parts_push(parts, p);
    if (result)
        al_part_free(p);
    return result;
}

static int load_chunks(struct al_store *s, const struct al_block *b, struct al_parts *parts) {
    sqlite3_stmt *st = NULL;
    struct al_store_error e = {{0}};
    int rc = SQLITE_DONE;
    int result = al_db_layouts(s->db, &s->layouts, &e);
    if (!result)
        result = al_db_prepare(s->db, "SELECT kind, entity, bytes, id FROM chunks WHERE block=? ORDER BY kind, entity", &st,
                               &e);
    if (!result)
        (void)sqlite3_bind_int64(st, 1, b->id);
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW)
        result = load_chunk(s, st, parts);
    if (!result)
        result = al_db_result(s->db, rc, NULL, &e);
    (void)sqlite3_finalize(st);
    if (result == AL_E_NOMEM)
        return result;
    if (result)
        al_store_note_damage(s, "some chunks cannot be read", e.text);
    return 0;
}

static int load_plain(struct al_store *s, const struct al_block *b, struct al_parts *parts) {
    for (int kind = 0; kind < AL_STORE_KINDS; kind++) {
        struct al_store_error e = {{0}};
        if (al_store_kinds[kind].since > s->schema)
            continue;
        int result = al_db_rows(s->db, (uint8_t)kind, -1, b->start_ns, b->end_ns, &s->layouts, &s->names, parts, &e);
        if (result == AL_E_NOMEM)
            return result;
        if (result)
            al_store_note_damage(s, "some rows cannot be read", e.text);
    }
    return 0;
}

// The writer was on its way with this block: what it had not thinned yet is thinned here.
static int thin(struct al_store *s, const struct al_block *b, struct al_part **p) {
    static const int64_t widths[] = {0, 10000000000LL, 60000000000LL};
    struct al_metric_info metrics[AL_STORE_METRICS_MAX] = {{0}};
    struct al_part *thinned = NULL;
    for (uint32_t m = 0; m < (*p)->metrics; m++)
        if (s->own[(*p)->kind][m] >= 0)
            metrics[m] = al_store_kinds[(*p)->kind].metrics[s->own[(*p)->kind][m]];
    int result = al_part_thin(*p, &s->layouts, metrics, widths[b->level], (uint8_t)b->level, b->start_ns, &thinned);
    if (result)
        return result;
    al_part_free(*p);
    *p = thinned;
    return 0;
}

static int thin_all(struct al_store *s, const struct al_block *b, struct al_parts *parts) {
    int result = 0;
    for (uint32_t i = 0; i < parts->count && !result; i++)
        if (parts->list[i]->level < b->level && parts->list[i]->kind != AL_STORE_FRESH)
            result = thin(s, b, &parts->list[i]);
    return result;
}

// Takes the parts over.
static int adopt(struct al_store *s, struct al_parts *parts) {
    s->loaded = calloc(parts->count ? parts->count : 1, sizeof *s->loaded);
    if (!s->loaded)
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < parts->count; i++) {
        struct al_part *p = parts->list[i];
        struct al_loaded *l = &s->loaded[s->loaded_count];
        const struct al_entity_kind *k = &al_entity_kinds[p->kind];
        if (p->kind == AL_STORE_TICK)
            s->ticks = p;
        if (k->table) {
            l->info = calloc(1, k->size);
            struct al_store_error e = {{0}};
            if (!l->info || al_entity_load(s->db, p->kind, p->entity, l->info, &e) != 0) {
                free(l->info);
                l->info = NULL;
                al_store_note_damage(s, "a row names what is not there", e.text);
                continue;
            }
        }
        l->part = p;
        parts->list[i] = NULL;
        s->loaded_count++;
    }
    return 0;
}

int al_store_load(struct al_store *s, uint32_t block) {
    struct al_parts parts = {0};
    if (s->at_block == block)
        return 0;
    unload(s);
    const struct al_block *b = &s->blocks[block];
    // One short read transaction: the writer may just be turning rows into a chunk.
    (void)sqlite3_exec(s->db, "BEGIN", NULL, NULL, NULL);
    int result = load_chunks(s, b, &parts);
    if (!result)
        result = load_plain(s, b, &parts);
    if (!result && b->level > 0)
        result = thin_all(s, b, &parts);
    if (!result)
        result = adopt(s, &parts);
    (void)sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL);
    al_parts_done(&parts);
    if (result)
        unload(s);
    else
        s->at_block = block;
    return result;
}

static int load_blocks(struct al_store *s, struct al_store_error *e) {
    sqlite3_stmt *st = NULL;
    uint32_t cap = 0;
    int rc = SQLITE_DONE;
    int result = al_db_prepare(s->db, "SELECT id, start_ns, COALESCE(end_ns, 4611686018427387904), level FROM blocks"
                                      " ORDER BY start_ns LIMIT 1000000", &st, e);
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW && s->block_count < BLOCKS_MAX) {
        if (s->block_count == cap) {
            cap = cap ? 2 * cap : 64;
            struct al_block *wider = realloc(s->blocks, cap * sizeof *wider);
            if (!wider) {
                result = AL_E_NOMEM;
                break;
            }
            s->blocks = wider;
        }
        struct al_block *b = &s->blocks[s->block_count];
        *b = (struct al_block){sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2),
                               sqlite3_column_int(st, 3)};
        if (b->start_ns >= 0 && b->end_ns > b->start_ns && b->level >= -1 && b->level <= 2)
            s->block_count++;
    }
    if (!result)
        result = al_db_result(s->db, rc, s->path, e);
    (void)sqlite3_finalize(st);
    return result;
}

static int load_xids(struct al_store *s, struct al_store_error *e) {
    sqlite3_stmt *st = NULL;
    size_t cap = 0;
    int rc = SQLITE_DONE;
    int result = al_db_prepare(s->db, "SELECT t, gpu, last_ns, code, count FROM xids ORDER BY t LIMIT 1000000", &st, e);
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        if (s->xid_count == cap) {
            cap = cap ? 2 * cap : 64;
            struct al_xid_event *wider = realloc(s->xids, cap * sizeof *wider);
            if (!wider) {
                result = AL_E_NOMEM;
                break;
            }
            s->xids = wider;
        }
        s->xids[s->xid_count++] = (struct al_xid_event){
            sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2),
            (uint32_t)sqlite3_column_int64(st, 3), (uint32_t)sqlite3_column_int64(st, 4)};
    }
    if (!result)
        result = al_db_result(s->db, rc, s->path, e);
    (void)sqlite3_finalize(st);
    return result;
}

// ---- the file ----

static int say_foreign(const char *path, struct al_store_error *e) {
    al_db_say(e, "%s: not an alula recording", path);
    return AL_E_FORMAT;
}

static int check_kind(struct al_store *s, struct al_store_error *e) {
    int64_t application = 0, version = 0;
    int result = al_db_ints(s->db, "PRAGMA application_id", NULL, 0, &application, 0, e);
    if (!result)
        result = al_db_ints(s->db, "PRAGMA user_version", NULL, 0, &version, 0, e);
    if (result) {
        struct al_store_error why = e ? *e : (struct al_store_error){{0}};
        al_db_say(e, "%s: %s", s->path, why.text);
        return result;
    }
    if (application != AL_STORE_APPLICATION || version < 1)
        return say_foreign(s->path, e);
    if (version > AL_STORE_SCHEMA) {
        al_db_say(e, "%s: written by a newer alula (schema %lld; this one reads up to %d)", s->path, (long long)version,
                  AL_STORE_SCHEMA);
        return AL_E_FORMAT;
    }
    s->schema = (int)version;
    return 0;
}

static int try_open(struct al_store *s, const char *name, int flags, const char *setup) {
    (void)sqlite3_close(s->db);
    s->db = NULL;
    int rc = sqlite3_open_v2(name, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        (void)sqlite3_busy_timeout(s->db, 2000);
    if (rc == SQLITE_OK && setup)
        (void)sqlite3_exec(s->db, setup, NULL, NULL, NULL);
    return rc == SQLITE_OK ? sqlite3_exec(s->db, "SELECT 1 FROM sqlite_master LIMIT 1", NULL, NULL, NULL) : rc;
}

// Read-only first. A journal left by a killed writer needs to be read too: that takes a writable folder, or the lock
// to ourselves, or, where neither can be had, the file as it is without its last seconds.
static int open_database(struct al_store *s, struct al_store_error *e) {
    char uri[4400];
    int rc = try_open(s, s->path, SQLITE_OPEN_READONLY, NULL);
    if ((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY)
        rc = try_open(s, s->path, SQLITE_OPEN_READWRITE, "PRAGMA locking_mode=EXCLUSIVE");
    if (((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY) && !strpbrk(s->path, "?#%") &&
        (size_t)snprintf(uri, sizeof uri, "file:%s?immutable=1", s->path) < sizeof uri)
        rc = try_open(s, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    if ((rc & 0xff) == SQLITE_NOTADB)
        return say_foreign(s->path, e);
    return al_db_result(s->db, rc, s->path, e);
}

static int check_file(const char *path, struct al_store_error *e) {
    struct stat st;
    if (stat(path, &st) != 0) {
        al_db_say(e, "%s: %s", path, strerror(errno));
        return errno == EACCES ? AL_E_DENIED : errno == ENOENT || errno == ENOTDIR ? AL_E_NOENT : AL_E_IO;
    }
    if (!S_ISREG(st.st_mode) || st.st_size < 100) {
        al_db_say(e, "%s: %s", path, !S_ISREG(st.st_mode) ? "not a file" : st.st_size ? "too short for a recording" : "the file is empty");
        return AL_E_FORMAT;
    }
    if (access(path, R_OK) != 0) {
        al_db_say(e, "%s: %s", path, strerror(errno));
        return AL_E_DENIED;
    }
    return 0;
}

static void map_metrics(struct al_store *s) {
    for (int kind = 0; kind < AL_STORE_KINDS; kind++)
        for (uint32_t m = 0; m < s->names.count[kind]; m++) {
            s->own[kind][m] = -1;
            for (uint32_t i = 0; i < al_store_kinds[kind].metric_count; i++)
                if (strcmp(al_store_kinds[kind].metrics[i].name, s->names.name[kind][m]) == 0)
                    s->own[kind][m] = (int)i;
        }
}

static int64_t meta_int(struct al_store *s, const char *key) {
    const char *text = al_store_meta(s, key);
    int64_t value = 0;
    return text && al_str_i64(text, &value) ? value : 0;
}

// The last tick: of the last block that has any.
static void find_end(struct al_store *s) {
    s->last_t = -1;
    for (uint32_t i = s->block_count; i-- > 0 && s->last_t < 0;)
        if (al_store_load(s, i) == 0 && s->ticks && s->ticks->rows)
            s->last_t = s->ticks->t[s->ticks->rows - 1];
}

int al_store_open(const char *path, struct al_store **ret, struct al_store_error *reterr) {
    struct al_store_error own = {{0}};
    struct al_store_error *e = reterr ? reterr : &own;
    int result = check_file(path, e);
    if (result)
        return result;
    struct al_store *s = calloc(1, sizeof *s);
    if (!s)
        return AL_E_NOMEM;
    s->at_block = UINT32_MAX;
    s->path = strdup(path);
    result = s->path ? open_database(s, e) : AL_E_NOMEM;
    if (!result)
        result = check_kind(s, e);
    if (!result)
        result = al_metric_names_load(s->db, &s->names, e);
    if (!result)
        result = al_db_layouts(s->db, &s->layouts, e);
    if (!result)
        result = load_blocks(s, e);
    if (!result)
        result = load_xids(s, e);
    if (!result) {
        map_metrics(s);
        s->start_realtime_ns = meta_int(s, "start_realtime_ns");
        s->interval_ns = meta_int(s, "interval_ns");
        if (s->interval_ns < 0 || s->interval_ns > 86400000000000LL)
            s->interval_ns = 0;
        find_end(s);
        *ret = s;
        return 0;
    }
    if (!strstr(e->text, path)) {
        own = *e;
        al_db_say(e, "%s: %s", path, *own.text ? own.text : al_error_text(result));
    }
    al_store_free(s);
    return result;
}

struct al_store *al_store_free(struct al_store *s) {
    if (s) {
        unload(s);
        (void)sqlite3_close(s->db);
        al_layouts_done(&s->layouts);
        al_metric_names_done(&s->names);
        free(s->blocks);
        free(s->xids);
        free(s->meta);
        free(s->path);
        free(s);
    }
    return NULL;
}
