// SPDX-License-Identifier: Apache-2.0
// SQLite under one roof: errors as ours, the schema, entities by field table, rows of a kind.
#ifndef AL_STORE_DB_H
#define AL_STORE_DB_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/part.h"
#include "store/store.h"

#define AL_STORE_APPLICATION 0x414c554c // "ALUL"
#define AL_STORE_SCHEMA 3
#define AL_STORE_SCHEMA_RANKS 2 // ranks and marks

void al_db_say(struct al_store_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
// An SQLite result as an al_error with the reason said (`what`: a path or verb); 0 for OK, ROW, DONE.
int al_db_result(sqlite3 *db, int rc, const char *what, struct al_store_error *e);
int al_db_exec(sqlite3 *db, const char *sql, struct al_store_error *e);
int al_db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret, struct al_store_error *e);
// Steps a statement that answers nothing, and resets it.
int al_db_run(sqlite3_stmt *st, struct al_store_error *e);
// One statement with up to four integers bound; *ret_value (may be NULL) takes the first column of the first row
// (`otherwise` when there is none).
int al_db_ints(sqlite3 *db, const char *sql, const int64_t *bind, int count, int64_t *ret_value, int64_t otherwise,
               struct al_store_error *e);
// Text or blob of a column, "" for NULL; never longer than the array it goes to.
void al_db_text(sqlite3_stmt *st, int column, char *out, size_t size);

// The tables of profiles, if they are not there yet.
extern const char al_store_profile_tables[];
int al_db_create(sqlite3 *db, struct al_store_error *e);

// ---- what rows refer to ----

struct al_row_info {
    int64_t gpu; // id in the table gpus
    pid_t pid;
    uint32_t type, order, gpu_instance, compute_instance;
    char driver_name[256];
};

struct al_entity_field {
    const char *name;
    char type; // t text, i int32, u uint32, l int64, b bool, r role
    uint16_t offset, size;
};
struct al_entity_kind {
    const char *table;
    const struct al_entity_field *fields;
    uint32_t field_count;
    size_t size; // of the struct
};
// By enum al_kind; table NULL for TICK and FRESH.
extern const struct al_entity_kind al_entity_kinds[AL_STORE_KINDS];
bool al_entity_equal(uint8_t kind, const void *a, const void *b);
int al_entity_insert(sqlite3 *db, uint8_t kind, int64_t first_t, const void *entity, int64_t *ret_id,
                     struct al_store_error *e);
// Into a zeroed struct; AL_E_NOENT when there is no such id.
int al_entity_load(sqlite3 *db, uint8_t kind, int64_t id, void *ret, struct al_store_error *e);

// ---- plain rows ----

// Blob of a row's reading times and stale numbers.
void al_row_times(struct al_buf *b, const struct al_row *row, uint32_t metrics);

// File metrics by kind: names in the order of chunks and layouts.
struct al_metric_names {
    uint32_t count[AL_STORE_KINDS];
    char (*name[AL_STORE_KINDS])[64];
};
void al_metric_names_done(struct al_metric_names *n);
int al_metric_names_load(sqlite3 *db, struct al_metric_names *n, struct al_store_error *e);

struct al_parts {
    struct al_part **list;
    uint32_t count, cap;
};
void al_parts_done(struct al_parts *p);
int al_parts_push(struct al_parts *p, struct al_part *part);
// The part of a kind and entity, made when missing.
int al_parts_get(struct al_parts *p, uint8_t kind, int64_t entity, uint32_t metrics, struct al_part **ret);
// Plain rows of a kind with from_ns <= t < to_ns, of one entity (< 0: all), into parts by entity.
int al_db_rows(sqlite3 *db, uint8_t kind, int64_t entity, int64_t from_ns, int64_t to_ns, struct al_layouts *layouts,
               const struct al_metric_names *names, struct al_parts *ret, struct al_store_error *e);
// Layouts that the table has and the list has not.
int al_db_layouts(sqlite3 *db, struct al_layouts *layouts, struct al_store_error *e);

// Compression of a chunk's bytes by zstd with a checksum, both ways.
int al_chunk_pack(const char *bytes, size_t len, char **ret, size_t *ret_len);
int al_chunk_unpack(const void *packed, size_t len, uint8_t **ret, size_t *ret_len);

#endif
