// SPDX-License-Identifier: Apache-2.0
// GPUs, processes and the like as rows of their own tables, by field table.
#include <stddef.h>
#include <string.h>

#include "model/look.h"
#include "model/node.h"
#include "model/process.h"
#include "model/rank.h"
#include "store/db.h"

#define FIELD(type, letter, member) {#member, letter, offsetof(struct type, member), sizeof(((struct type *)0)->member)}
static const struct al_entity_field gpu_fields[] = {
#define F(letter, member) FIELD(al_gpu_info, letter, member)
    F('t', uuid), F('t', name), F('t', pci_bus_id), F('t', serial), F('u', index), F('u', minor), F('u', architecture),
    F('b', mig_enabled), F('b', is_mig), F('u', gpu_instance), F('u', compute_instance), F('t', mig_profile),
    F('b', unified_memory),
#undef F
};
static const struct al_entity_field node_fields[] = {
#define F(letter, member) FIELD(al_node, letter, member)
    F('t', hostname), F('t', boot_id), F('t', driver_version), F('t', nvml_version), F('t', cuda_version),
    F('l', pid_ns), F('b', host_pid_ns),
#undef F
};
static const struct al_entity_field proc_fields[] = {
#define F(letter, member) FIELD(al_proc, letter, member)
    F('i', pid), F('l', start_ticks), F('l', pid_ns), F('i', ppid), F('u', uid), F('b', alive), F('b', foreign),
    F('t', user), F('t', comm), F('t', exe), F('t', command), F('t', cgroup), F('t', container), F('t', pod),
    F('t', slurm_job), F('t', visible_devices), F('i', rank), F('i', local_rank), F('i', world_size),
    F('i', node_rank), F('r', role), F('i', job), F('i', owner), F('b', holds_context), F('l', started_realtime_ns),
#undef F
};
static const struct al_entity_field row_fields[] = {
#define F(letter, member) FIELD(al_row_info, letter, member)
    F('i', pid), F('l', gpu), F('u', type), F('u', order), F('u', gpu_instance), F('u', compute_instance),
    F('t', driver_name),
#undef F
};
static const struct al_entity_field rank_fields[] = {
#define F(letter, member) FIELD(al_rank, letter, member)
    F('i', pid), F('l', start_ticks), F('i', job), F('i', rank), F('i', local_rank), F('i', world), F('i', device),
    F('t', source),
#undef F
};

static const struct al_entity_field look_fields[] = {
#define F(letter, name, member) {name, letter, offsetof(struct al_look, member), sizeof(((struct al_look *)0)->member)}
    F('i', "pid", pid), F('l', "start_ticks", start_ticks), F('i', "rank", rank), F('t', "function", line.function),
    F('t', "file", line.file), F('i', "line", line.line), F('t', "call", line.call), F('t', "worker_function", worker.function),
    F('t', "worker_file", worker.file), F('i', "worker_line", worker.line), F('t', "worker_call", worker.call),
    F('t', "problem", problem),
#undef F
};

#define TABLE(array) array, sizeof(array) / sizeof((array)[0])
const struct al_entity_kind al_entity_kinds[AL_STORE_KINDS] = {
    [AL_STORE_GPU] = {"gpus", TABLE(gpu_fields), sizeof(struct al_gpu_info)},
    [AL_STORE_NODE] = {"nodes", TABLE(node_fields), sizeof(struct al_node)},
    [AL_STORE_PROC] = {"processes", TABLE(proc_fields), sizeof(struct al_proc)},
    [AL_STORE_ROW] = {"process_gpus", TABLE(row_fields), sizeof(struct al_row_info)},
    [AL_STORE_RANK] = {"ranks", TABLE(rank_fields), sizeof(struct al_rank)},
    [AL_STORE_LOOK] = {"looks", TABLE(look_fields), sizeof(struct al_look)},
};

bool al_entity_equal(uint8_t kind, const void *a, const void *b) {
    const struct al_entity_kind *k = &al_entity_kinds[kind];
    for (uint32_t i = 0; i < k->field_count; i++) {
        const struct al_entity_field *f = &k->fields[i];
        const char *x = (const char *)a + f->offset, *y = (const char *)b + f->offset;
        if (f->type == 't' ? strncmp(x, y, f->size) != 0 : memcmp(x, y, f->size) != 0)
            return false;
    }
    return true;
}

static void bind(sqlite3_stmt *st, int column, const struct al_entity_field *f, const char *at) {
    int32_t i32 = 0;
    uint32_t u32 = 0;
    int64_t i64 = 0;
    switch (f->type) {
    case 't':
        (void)sqlite3_bind_text(st, column, at, (int)strnlen(at, f->size), SQLITE_TRANSIENT);
        break;
    case 'i':
        memcpy(&i32, at, sizeof i32);
        (void)sqlite3_bind_int64(st, column, i32);
        break;
    case 'r':
        memcpy(&u32, at, sizeof u32);
        (void)sqlite3_bind_text(st, column, al_role_word(u32), -1, SQLITE_STATIC);
        break;
    case 'u':
        memcpy(&u32, at, sizeof u32);
        (void)sqlite3_bind_int64(st, column, u32);
        break;
    case 'l':
        memcpy(&i64, at, sizeof i64);
        (void)sqlite3_bind_int64(st, column, i64);
        break;
    default:
        (void)sqlite3_bind_int(st, column, *at != 0);
    }
}

int al_entity_insert(sqlite3 *db, uint8_t kind, int64_t first_t, const void *entity, int64_t *ret_id,
                     struct al_store_error *e) {
    const struct al_entity_kind *k = &al_entity_kinds[kind];
    struct al_buf b = AL_BUF_INIT;
    sqlite3_stmt *st = NULL;
    al_buf_printf(&b, "INSERT INTO %s VALUES(NULL, ?", k->table);
    for (uint32_t i = 0; i < k->field_count; i++)
        al_buf_str(&b, ", ?");
    al_buf_str(&b, ")");
    int result = b.failed ? AL_E_NOMEM : al_db_prepare(db, b.data, &st, e);
    al_buf_free(&b);
    if (result)
        return result;
    (void)sqlite3_bind_int64(st, 1, first_t);
    for (uint32_t i = 0; i < k->field_count; i++)
        bind(st, (int)i + 2, &k->fields[i], (const char *)entity + k->fields[i].offset);
    result = al_db_run(st, e);
    (void)sqlite3_finalize(st);
    *ret_id = sqlite3_last_insert_rowid(db);
    return result;
}

static void take(sqlite3_stmt *st, int column, const struct al_entity_field *f, char *at) {
    int64_t i64 = sqlite3_column_int64(st, column);
    uint32_t u32 = (uint32_t)i64;
    switch (f->type) {
    case 't':
        al_db_text(st, column, at, f->size);
        break;
    case 'r': {
        char word[24];
        al_db_text(st, column, word, sizeof word);
        int role = al_role_from_word(word);
        u32 = role < 0 ? AL_ROLE_UNKNOWN : (uint32_t)role;
        memcpy(at, &u32, sizeof u32);
        break;
    }
    case 'i':
    case 'u':
        memcpy(at, &u32, sizeof u32);
        break;
    case 'l':
        memcpy(at, &i64, sizeof i64);
        break;
    default:
        *(bool *)at = i64 != 0;
    }
}

int al_entity_load(sqlite3 *db, uint8_t kind, int64_t id, void *ret, struct al_store_error *e) {
    const struct al_entity_kind *k = &al_entity_kinds[kind];
    struct al_buf b = AL_BUF_INIT;
    sqlite3_stmt *st = NULL;
    al_buf_str(&b, "SELECT ");
    for (uint32_t i = 0; i < k->field_count; i++)
        al_buf_printf(&b, "%s\"%s\"", i ? ", " : "", k->fields[i].name);
    al_buf_printf(&b, " FROM %s WHERE id=?", k->table);
    int result = b.failed ? AL_E_NOMEM : al_db_prepare(db, b.data, &st, e);
    al_buf_free(&b);
    if (result)
        return result;
    (void)sqlite3_bind_int64(st, 1, id);
    int rc = sqlite3_step(st);
    result = rc == SQLITE_DONE ? AL_E_NOENT : al_db_result(db, rc, NULL, e);
    for (uint32_t i = 0; i < k->field_count && !result; i++)
        take(st, (int)i, &k->fields[i], (char *)ret + k->fields[i].offset);
    (void)sqlite3_finalize(st);
    return result;
}
