// SPDX-License-Identifier: Apache-2.0
// Marks on their way out: the rows of each process one behind the other, the processes merged by time.
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "store/marks.h"
#include "store/reader.h"

#define PROCESSES_MAX 4096u // each keeps a row of 80 KiB in memory
#define ROW_BYTES_MAX (4u << 20) // before compression: a full row has 130 KiB, and its texts 64

struct stream {
    struct al_store_process who;
    int64_t process, row; // ids; row: the last that was read
    struct al_marks marks;
    uint32_t next;
    bool ended;
};

struct streams {
    struct stream *list;
    uint32_t count, cap;
    struct stream **heap; // those that have more, the earliest on top
    uint32_t waiting;
    sqlite3_stmt *rows;
};

static int32_t number_of(int64_t v) {
    return v >= 0 && v <= INT32_MAX ? (int32_t)v : -1;
}

static int add_stream(struct streams *all, sqlite3_stmt *st) {
    if (all->count == PROCESSES_MAX)
        return AL_E_TOOBIG; // what was not written so
    if (all->count == all->cap) {
        uint32_t cap = all->cap ? 2 * all->cap : 16;
        struct stream *wider = realloc(all->list, cap * sizeof *wider);
        if (!wider)
            return AL_E_NOMEM;
        all->list = wider;
        all->cap = cap;
    }
    all->list[all->count++] = (struct stream){
        .process = sqlite3_column_int64(st, 0),
        .who = {.pid = number_of(sqlite3_column_int64(st, 1)), .start_ticks = (uint64_t)sqlite3_column_int64(st, 2),
                .rank = number_of(sqlite3_column_int64(st, 3)), .local_rank = number_of(sqlite3_column_int64(st, 4)),
                .world = number_of(sqlite3_column_int64(st, 5))}};
    return 0;
}

static int open_streams(struct al_store *s, struct streams *all) {
    sqlite3_stmt *st = NULL;
    struct al_store_error e = {{0}};
    int rc = SQLITE_DONE, result = al_db_prepare(s->db, "SELECT id, pid, start_ticks, rank, local_rank, world FROM"
                                                        " mark_processes ORDER BY id", &st, &e);
    while (!result && (rc = sqlite3_step(st)) == SQLITE_ROW)
        result = add_stream(all, st);
    if (!result)
        result = al_db_result(s->db, rc, NULL, &e);
    (void)sqlite3_finalize(st);
    if (!result)
        result = al_db_prepare(s->db, "SELECT id, bytes FROM marks WHERE process=?1 AND id>?2 ORDER BY id LIMIT 1", &all->rows,
                               &e);
    if (result && result != AL_E_NOMEM) {
        al_store_note_damage(s, "the marks cannot be read", e.text);
        all->count = 0;
        return 0;
    }
    return result;
}

static int unpack(struct stream *from, const void *packed, size_t len) {
    uint8_t *raw = NULL;
    size_t size = 0;
    int result = al_chunk_unpack(packed, len, &raw, &size);
    if (!result)
        result = size > ROW_BYTES_MAX ? AL_E_TOOBIG : al_marks_decode(raw, size, &from->marks);
    free(raw);
    return result;
}

// The next row that can be read; `ended` behind the last.
static int next_row(struct al_store *s, struct streams *all, struct stream *from) {
    al_marks_done(&from->marks);
    from->next = 0;
    while (!from->ended && from->next == from->marks.count) {
        (void)sqlite3_bind_int64(all->rows, 1, from->process);
        (void)sqlite3_bind_int64(all->rows, 2, from->row);
        int rc = sqlite3_step(all->rows), result = 0;
        from->ended = rc != SQLITE_ROW;
        if (rc == SQLITE_ROW) {
            from->row = sqlite3_column_int64(all->rows, 0);
            result = unpack(from, sqlite3_column_blob(all->rows, 1), (size_t)sqlite3_column_bytes(all->rows, 1));
        }
        (void)sqlite3_reset(all->rows);
        if (result == AL_E_NOMEM)
            return result;
        if (result || (rc != SQLITE_ROW && rc != SQLITE_DONE)) {
            char what[64];
            (void)snprintf(what, sizeof what, "row %lld of the marks is damaged", (long long)from->row);
            al_store_note_damage(s, what, NULL);
        }
    }
    return 0;
}

static bool is_before(const struct stream *a, const struct stream *b) {
    int64_t x = a->marks.list[a->next].at_ns, y = b->marks.list[b->next].at_ns;
    return x != y ? x < y : a->process < b->process;
}

static void sift(struct streams *all, uint32_t at) {
    for (uint32_t least = at;; at = least) {
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < all->waiting; child++)
            if (is_before(all->heap[child], all->heap[least]))
                least = child;
        if (least == at)
            return;
        struct stream *other = all->heap[at];
        all->heap[at] = all->heap[least];
        all->heap[least] = other;
    }
}

static int begin_all(struct al_store *s, struct streams *all) {
    int result = 0;
    all->heap = calloc(all->count ? all->count : 1, sizeof(struct stream *));
    if (!all->heap)
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < all->count && !result; i++) {
        result = next_row(s, all, &all->list[i]);
        if (!result && !all->list[i].ended)
            all->heap[all->waiting++] = &all->list[i];
    }
    for (uint32_t i = all->waiting / 2; i-- > 0;)
        sift(all, i);
    return result;
}

static int hand_over(const struct stream *p, al_store_mark_fn *fn, void *user) {
    struct al_mark mark = p->marks.list[p->next];
    if (mark.kind != AL_EVENT_TEXT)
        return fn(user, &p->who, &mark, NULL, 0);
    const char *text = p->marks.text.data + mark.b;
    mark.b = 0;
    return fn(user, &p->who, &mark, text, (size_t)mark.a);
}

int al_store_read_marks(struct al_store *s, al_store_mark_fn *fn, void *user) {
    struct streams all = {0};
    if (s->schema < AL_STORE_SCHEMA_RANKS)
        return 0;
    int result = open_streams(s, &all);
    if (!result)
        result = begin_all(s, &all);
    while (!result && all.waiting) {
        struct stream *p = all.heap[0];
        if (!p || !p->marks.list) // never: who waits in the heap has a mark
            break;
        result = hand_over(p, fn, user);
        if (!result && ++p->next == p->marks.count)
            result = next_row(s, &all, p);
        if (p->ended)
            all.heap[0] = all.heap[--all.waiting];
        sift(&all, 0);
    }
    for (uint32_t i = 0; i < all.count; i++)
        al_marks_done(&all.list[i].marks);
    (void)sqlite3_finalize(all.rows);
    free(all.heap);
    free(all.list);
    return result;
}
