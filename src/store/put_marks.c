// SPDX-License-Identifier: Apache-2.0
// Marks on their way into the file: handed over from any thread, written with each commit. A process's last row is written
// anew with every commit until it is full: rows of a second would cost twice as much.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/marks.h"
#include "store/writer.h"

#define WAITING_MAX (1u << 18) // marks of one process that no commit has taken yet
#define PROCESSES_MAX 4096u // each keeps up to a row in memory
#define TEXT_MAX 8192u

struct al_marked {
    struct al_store_process who;
    int64_t id, row; // 0: not in the file yet
    uint32_t written; // marks of the list that the row holds already
    bool changed;     // rank or world became known
    struct al_marks marks;
};

void al_writer_marks_done(struct al_writer *w) {
    for (uint32_t i = 0; i < w->marked_count; i++)
        al_marks_done(&w->marked[i].marks);
    free(w->marked);
    w->marked = NULL;
    w->marked_count = 0;
}

static struct al_marked *process_of(struct al_writer *w, const struct al_store_process *who) {
    for (uint32_t i = 0; i < w->marked_count; i++) {
        struct al_marked *p = &w->marked[i];
        if (p->who.pid != who->pid || p->who.start_ticks != who->start_ticks)
            continue;
        p->changed |= p->who.rank != who->rank || p->who.local_rank != who->local_rank || p->who.world != who->world;
        p->who = *who;
        return p;
    }
    if (w->marked_count == PROCESSES_MAX)
        return NULL;
    if (w->marked_count == w->marked_cap) {
        uint32_t cap = w->marked_cap ? 2 * w->marked_cap : 16;
        struct al_marked *wider = realloc(w->marked, cap * sizeof *wider);
        if (!wider)
            return NULL;
        w->marked = wider;
        w->marked_cap = cap;
    }
    w->marked[w->marked_count] = (struct al_marked){.who = *who};
    return &w->marked[w->marked_count++];
}

static int add(struct al_writer *w, const struct al_store_process *who, const struct al_mark *marks, size_t count,
               const char *text, size_t len) {
    pthread_mutex_lock(&w->marks_lock);
    struct al_marked *p = process_of(w, who);
    int result = p ? 0 : AL_E_NOMEM;
    for (size_t i = 0; i < count && !result; i++)
        result = p->marks.count - p->written >= WAITING_MAX ? AL_E_TOOBIG : al_marks_add(&p->marks, &marks[i], text, len);
    pthread_mutex_unlock(&w->marks_lock);
    return result;
}

int al_store_marks(struct al_sink *sink, const struct al_store_process *who, const struct al_mark *marks, size_t count) {
    return add((struct al_writer *)sink, who, marks, count, NULL, 0);
}

int al_store_mark_text(struct al_sink *sink, const struct al_store_process *who, int64_t at_ns, uint16_t code,
                       const char *text, size_t len) {
    const struct al_mark mark = {.at_ns = at_ns, .kind = AL_EVENT_TEXT, .code = code, .device = -1};
    return add((struct al_writer *)sink, who, &mark, 1, text, len < TEXT_MAX ? len : TEXT_MAX);
}

// ---- commits ----

static int put_process(struct al_writer *w, struct al_marked *p) {
    sqlite3_stmt *st = NULL;
    if (p->id && !p->changed)
        return 0;
    int result = al_db_prepare(w->db, "INSERT OR REPLACE INTO mark_processes VALUES(?, ?, ?, ?, ?, ?)", &st, &w->why);
    if (!result) {
        if (p->id)
            (void)sqlite3_bind_int64(st, 1, p->id);
        (void)sqlite3_bind_int64(st, 2, p->who.pid);
        (void)sqlite3_bind_int64(st, 3, (int64_t)p->who.start_ticks);
        (void)sqlite3_bind_int64(st, 4, p->who.rank);
        (void)sqlite3_bind_int64(st, 5, p->who.local_rank);
        (void)sqlite3_bind_int64(st, 6, p->who.world);
        result = al_db_run(st, &w->why);
    }
    (void)sqlite3_finalize(st);
    p->id = p->id ? p->id : sqlite3_last_insert_rowid(w->db);
    p->changed = false;
    return result;
}

static int insert_row(struct al_writer *w, struct al_marked *p, uint32_t count, const char *bytes, size_t len) {
    sqlite3_stmt *st = NULL;
    int64_t first = p->marks.list[0].at_ns, last = first;
    for (uint32_t i = 1; i < count; i++) {
        int64_t at = p->marks.list[i].at_ns;
        first = at < first ? at : first;
        last = at > last ? at : last;
    }
    int result = al_db_prepare(w->db, "INSERT OR REPLACE INTO marks VALUES(?, ?, ?, ?, ?, ?)", &st, &w->why);
    if (!result) {
        if (p->row)
            (void)sqlite3_bind_int64(st, 1, p->row);
        (void)sqlite3_bind_int64(st, 2, p->id);
        (void)sqlite3_bind_int64(st, 3, first - w->start_ns);
        (void)sqlite3_bind_int64(st, 4, last - w->start_ns);
        (void)sqlite3_bind_int64(st, 5, count);
        (void)sqlite3_bind_blob(st, 6, bytes, (int)len, SQLITE_TRANSIENT);
        result = al_db_run(st, &w->why);
    }
    (void)sqlite3_finalize(st);
    p->row = p->row ? p->row : sqlite3_last_insert_rowid(w->db);
    return result;
}

// Exports have the marks as rows of a table, too.
static int put_plain(struct al_writer *w, const struct al_marked *p, uint32_t count) {
    sqlite3_stmt *st = NULL;
    int result = al_db_exec(w->db, "CREATE TABLE IF NOT EXISTS mark_rows(process INTEGER, t INTEGER, kind INTEGER,"
                                   " code INTEGER, device INTEGER, a INTEGER, b INTEGER, text TEXT)", &w->why);
    if (!result)
        result = al_db_prepare(w->db, "INSERT INTO mark_rows VALUES(?, ?, ?, ?, ?, ?, ?, ?)", &st, &w->why);
    for (uint32_t i = p->written; i < count && !result; i++) {
        const struct al_mark *m = &p->marks.list[i];
        bool text = m->kind == AL_EVENT_TEXT;
        const int64_t columns[] = {p->id, m->at_ns - w->start_ns, m->kind, m->code, m->device, m->a, text ? 0 : m->b};
        for (int c = 0; c < (int)(sizeof columns / sizeof *columns); c++)
            (void)sqlite3_bind_int64(st, c + 1, columns[c]);
        if (text)
            (void)sqlite3_bind_text(st, 8, p->marks.text.data + m->b, (int)m->a, SQLITE_TRANSIENT);
        else
            (void)sqlite3_bind_null(st, 8);
        result = al_db_run(st, &w->why);
    }
    (void)sqlite3_finalize(st);
    return result;
}

static int write_row(struct al_writer *w, struct al_marked *p, uint32_t count) {
    struct al_buf b = AL_BUF_INIT;
    char *packed = NULL;
    size_t len = 0;
    int result = al_marks_encode(&p->marks, count, w->start_ns, &b);
    if (!result)
        result = al_chunk_pack(b.data, b.len, &packed, &len);
    if (!result)
        result = insert_row(w, p, count, packed, len);
    if (!result && w->o.all_plain)
        result = put_plain(w, p, count);
    free(packed);
    al_buf_free(&b);
    return result;
}

static int put_row(struct al_writer *w, struct al_marked *p) {
    uint32_t count = al_marks_row(&p->marks);
    int result = count > p->written ? write_row(w, p, count) : 0; // else what came is for the next row
    if (result)
        return result;
    w->stats.marks += count - p->written;
    p->written = count;
    if (count < p->marks.count || count == AL_MARKS_ROW) { // full: the next one begins behind it
        al_marks_drop(&p->marks, count);
        p->written = 0;
        p->row = 0;
    }
    return 0;
}

int al_writer_put_marks(struct al_writer *w) {
    int result = 0;
    pthread_mutex_lock(&w->marks_lock);
    for (uint32_t i = 0; i < w->marked_count && !result; i++) {
        struct al_marked *p = &w->marked[i];
        result = put_process(w, p);
        while (p->marks.count > p->written && !result)
            result = put_row(w, p);
    }
    pthread_mutex_unlock(&w->marks_lock);
    return result;
}

bool al_writer_marks_start(struct al_writer *w, int64_t *ret_ns) {
    bool any = false;
    pthread_mutex_lock(&w->marks_lock);
    for (uint32_t i = 0; i < w->marked_count; i++)
        for (uint32_t k = 0; k < w->marked[i].marks.count; k++) {
            int64_t at = w->marked[i].marks.list[k].at_ns;
            *ret_ns = any && *ret_ns < at ? *ret_ns : at;
            any = true;
        }
    pthread_mutex_unlock(&w->marks_lock);
    return any;
}
