// SPDX-License-Identifier: Apache-2.0
// The sink that writes a recording: file, lock, transactions.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "store/writer.h"

#define MINUTE (60 * AL_NS_PER_S)
#define BUSY_MS 10000 // alula profile adds to recordings, for milliseconds at a time; on a busy machine those may be long
#define BUSY_AT_END_MS 200
#define BLOCK_SAMPLES 20000 // GPU samples after which a block is closed early: bounds a reader's memory

bool al_store_built(void) {
    return true;
}


// An empty file or a recording may be replaced, nothing else.
static bool replaceable(int fd) {
    char head[72];
    ssize_t n = pread(fd, head, sizeof head, 0);
    return n == 0 || (n == (ssize_t)sizeof head && memcmp(head, "SQLite format 3", 16) == 0 &&
                      memcmp(head + 68, "ALUL", 4) == 0);
}

static void remove_files(const char *path) {
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char name[4200];
        if ((size_t)snprintf(name, sizeof name, "%s%s", path, ends[i]) < sizeof name)
            (void)unlink(name);
    }
}

static int clear_way(const struct al_store_options *o, struct al_store_error *e) {
    struct stat st;
    int fd = open(o->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return 0;
    int result = 0;
    if (fd < 0) {
        al_db_say(e, "%s: %s", o->path, strerror(errno));
        return errno == EACCES || errno == EPERM ? AL_E_DENIED : AL_E_IO;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        al_db_say(e, "%s: another alula is recording to this file", o->path);
        result = AL_E_DENIED;
    } else if (!o->force) {
        al_db_say(e, "%s: exists already (--force replaces a recording)", o->path);
        result = AL_E_DENIED;
    } else if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || !replaceable(fd)) {
        al_db_say(e, "%s: is not a recording, so it is not replaced", o->path);
        result = AL_E_DENIED;
    } else {
        remove_files(o->path);
    }
    (void)close(fd);
    return result;
}

static int create_file(struct al_writer *w, struct al_store_error *e) {
    int result = clear_way(&w->o, e);
    if (result)
        return result;
    // Command lines and user names are nobody else's business; SQLite gives its journal the same mode.
    w->lock_fd = open(w->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (w->lock_fd < 0) {
        al_db_say(e, "%s: %s", w->path, strerror(errno));
        return errno == EACCES || errno == EPERM ? AL_E_DENIED : AL_E_IO;
    }
    w->wal = !w->o.no_wal && !al_fs_remote(w->path);
    // On NFS flock() is a lock of the same kind as SQLite's own, which it would shut out.
    if (w->wal && flock(w->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        al_db_say(e, "%s: another alula is recording to this file", w->path);
        return AL_E_DENIED;
    }
    return 0;
}

static int open_database(struct al_writer *w, struct al_store_error *e) {
    int rc = sqlite3_open_v2(w->path, &w->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    int result = al_db_result(w->db, rc, w->path, e);
    if (result)
        return result;
    (void)sqlite3_extended_result_codes(w->db, 1);
    (void)sqlite3_busy_timeout(w->db, BUSY_MS);
    char setup[256];
    (void)snprintf(setup, sizeof setup, "PRAGMA page_size=4096;PRAGMA auto_vacuum=INCREMENTAL;PRAGMA application_id=%d;"
                   "%sPRAGMA journal_mode=%s;PRAGMA synchronous=NORMAL;PRAGMA temp_store=MEMORY;",
                   AL_STORE_APPLICATION, w->wal ? "" : "PRAGMA locking_mode=EXCLUSIVE;", w->wal ? "WAL" : "DELETE");
    result = al_db_exec(w->db, setup, e);
    if (!result)
        result = al_db_create(w->db, e);
    return result ? result : al_metric_names_load(w->db, &w->names, e);
}

static int write_meta(struct al_writer *w) {
    int result = al_writer_meta(w, "format", "alula recording");
    if (!result)
        result = al_writer_meta_int(w, "schema", AL_STORE_SCHEMA);
    if (!result)
        result = al_writer_meta(w, "alula_version", w->o.version ? w->o.version : "");
    if (!result)
        result = al_writer_meta(w, "config", w->o.config ? w->o.config : "");
    return result ? result : al_writer_meta_int(w, "closed", 0);
}

static struct al_writer *writer_free(struct al_writer *w) {
    if (w) {
        al_writer_put_done(w);
        al_writer_marks_done(w);
        pthread_mutex_destroy(&w->marks_lock);
        (void)sqlite3_close(w->db);
        if (w->lock_fd >= 0)
            (void)close(w->lock_fd);
        al_layouts_done(&w->layouts);
        al_metric_names_done(&w->names);
        al_buf_free(&w->buf);
        free(w->row);
        free(w->path);
        free(w);
    }
    return NULL;
}

// ---- ticks ----

static int fail(struct al_writer *w, int result) {
    if (!w->failed) {
        w->failed = result;
        if (!*w->why.text)
            al_db_say(&w->why, "%s", al_error_text(result));
        // What was committed stays; the second that was under way is given up as a whole.
        if (w->in_transaction && !sqlite3_get_autocommit(w->db))
            (void)sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
        w->in_transaction = false;
    }
    return result;
}

static int begin(struct al_writer *w) {
    if (w->in_transaction)
        return 0;
    int result = al_db_exec(w->db, "BEGIN IMMEDIATE", &w->why);
    w->in_transaction = !result;
    return result;
}

static int commit(struct al_writer *w) {
    if (!w->in_transaction)
        return 0;
    int result = al_writer_put_marks(w);
    if (!result)
        result = al_db_exec(w->db, "COMMIT", &w->why);
    if (!result) {
        w->in_transaction = false;
        w->last_commit_ns = al_monotonic_ns();
    }
    return result;
}

static int start(struct al_writer *w, const struct al_snapshot *s) {
    w->started = true;
    w->start_ns = s->monotonic_ns;
    w->start_realtime_ns = s->realtime_ns;
    int result = al_writer_meta_int(w, "start_realtime_ns", s->realtime_ns);
    if (!result)
        result = al_writer_meta_int(w, "interval_ns", s->interval_ns);
    if (!result)
        result = al_writer_meta(w, "host", s->node.hostname);
    if (!result)
        result = al_writer_meta(w, "boot_id", s->node.boot_id);
    return result ? result : al_writer_meta(w, "driver", s->node.driver_version);
}

static int begin_block(struct al_writer *w, int64_t t) {
    const int64_t close[] = {w->block, t};
    int result = w->block ? al_db_ints(w->db, "UPDATE blocks SET end_ns=?2 WHERE id=?1", close, 2, NULL, 0, &w->why) : 0;
    const int64_t open[] = {t};
    if (!result)
        result = al_db_ints(w->db, "INSERT INTO blocks VALUES(NULL, ?, NULL, -1)", open, 1, NULL, 0, &w->why);
    w->block = sqlite3_last_insert_rowid(w->db);
    w->block_start = t;
    w->block_samples = 0;
    w->keyframe = true;
    w->aging.look = true;
    return result;
}

static int write_tick(struct al_writer *w, const struct al_snapshot *s) {
    int64_t t = w->started ? s->monotonic_ns - w->start_ns : 0;
    int result = begin(w);
    if (!result && !w->started)
        result = start(w, s);
    if (result || (w->tick && t <= w->last_t))
        return result; // the same tick again
    w->tick++;
    w->keyframe = false;
    if (w->tick == 1 || t - w->block_start >= w->o.block_ns || w->block_samples >= BLOCK_SAMPLES)
        result = begin_block(w, t);
    if (!result && w->tick > 1 && s->interval_ns > 0 && t - w->last_t > s->interval_ns * 7 / 4)
        result = al_writer_note_gap(w, w->last_t, t, "ticks left out");
    if (!result)
        result = al_writer_note_clock(w, s, t);
    if (!result)
        result = al_writer_put_tick(w, s, t);
    w->last_t = t;
    w->stats.ticks++;
    if (!result && !w->o.all_plain)
        result = al_writer_age(w, t);
    // Half a tick early, so that no second is ever two.
    if (!result && al_monotonic_ns() - w->last_commit_ns >= AL_NS_PER_S - s->interval_ns / 2)
        result = commit(w);
    return result;
}

static int on_tick(struct al_sink *sink, const struct al_snapshot *s) {
    struct al_writer *w = (struct al_writer *)sink;
    if (w->failed)
        return w->failed;
    int result = write_tick(w, s);
    return result ? fail(w, result) : 0;
}

static int on_finding(struct al_sink *sink, const struct al_snapshot *s, const struct al_finding *f) {
    struct al_writer *w = (struct al_writer *)sink;
    if (w->failed)
        return w->failed;
    if (!w->started)
        return 0;
    int result = begin(w);
    if (!result)
        result = al_writer_note_finding(w, s, f);
    return result ? fail(w, result) : 0;
}

int al_store_commit(struct al_sink *sink) {
    struct al_writer *w = (struct al_writer *)sink;
    if (w->failed || !w->started)
        return w->failed;
    int result = begin(w);
    if (!result)
        result = commit(w);
    return result ? fail(w, result) : 0;
}

static void on_free(struct al_sink *sink) {
    (void)al_store_close(sink, NULL);
}

static const struct al_sink_ops store_ops = {
    .name = "store", .groups = AL_GROUP_ALL, .tick = on_tick, .finding = on_finding, .free = on_free};

int al_store_writer(const struct al_store_options *o, struct al_sink **ret, struct al_store_error *reterr) {
    struct al_writer *w = calloc(1, sizeof *w);
    if (!w)
        return AL_E_NOMEM;
    w->sink.ops = &store_ops;
    w->o = *o;
    w->lock_fd = -1;
    pthread_mutex_init(&w->marks_lock, NULL);
    w->path = strdup(o->path);
    w->row = calloc(1, sizeof *w->row);
    w->o.block_ns = o->block_ns ? o->block_ns : 10 * MINUTE;
    w->o.plain_ns = o->plain_ns ? o->plain_ns : 60 * MINUTE;
    w->o.full_ns = o->full_ns ? o->full_ns : 24 * 60 * MINUTE;
    w->o.coarse_ns = o->coarse_ns ? o->coarse_ns : 7 * 24 * 60 * MINUTE;
    int result = w->path && w->row ? create_file(w, reterr) : AL_E_NOMEM;
    bool created = !result;
    if (!result)
        result = open_database(w, reterr);
    if (!result) {
        result = write_meta(w);
        if (result && reterr)
            *reterr = w->why;
    }
    if (result) {
        if (created && w->path)
            remove_files(w->path);
        writer_free(w);
        return result;
    }
    *ret = &w->sink;
    return 0;
}

// Marks of a job that ended before the first tick count from the first of them.
static int start_without_tick(struct al_writer *w) {
    int64_t now = al_monotonic_ns(), realtime = al_realtime_ns();
    if (w->started || !al_writer_marks_start(w, &w->start_ns))
        return 0;
    w->started = true;
    w->start_realtime_ns = realtime - (now - w->start_ns);
    return al_writer_meta_int(w, "start_realtime_ns", w->start_realtime_ns);
}

static int finish(struct al_writer *w) {
    const int64_t end[] = {w->block, w->last_t + 1};
    int result = begin(w);
    if (!result)
        result = start_without_tick(w);
    if (!result && w->block)
        result = al_db_ints(w->db, "UPDATE blocks SET end_ns=?2 WHERE id=?1", end, 2, NULL, 0, &w->why);
    if (!result)
        result = al_writer_meta_int(w, "closed", 1);
    if (!result)
        result = al_db_exec(w->db, "PRAGMA incremental_vacuum(20000)", &w->why);
    return result ? result : commit(w);
}

int al_store_close(struct al_sink *sink, struct al_store_error *reterr) {
    struct al_writer *w = (struct al_writer *)sink;
    if (!w)
        return 0;
    int result = w->failed;
    if (!result)
        result = finish(w);
    if (result)
        (void)fail(w, result);
    for (int kind = 0; kind < AL_STORE_KINDS; kind++) {
        (void)sqlite3_finalize(w->insert[kind]);
        w->insert[kind] = NULL;
    }
    // One file is left; when this fails (a full disk), the journal beside it holds the rest. While someone reads, the
    // last reader does it, and is not waited for.
    struct al_store_error why = {{0}};
    (void)sqlite3_busy_timeout(w->db, BUSY_AT_END_MS);
    int folded = w->wal ? al_db_exec(w->db, "PRAGMA wal_checkpoint(TRUNCATE);PRAGMA journal_mode=DELETE", &why) : 0;
    if (!result && folded && folded != AL_E_DENIED) {
        result = folded;
        w->why = why;
    }
    if (reterr)
        *reterr = w->why;
    writer_free(w);
    return result;
}

const char *al_store_why(const struct al_sink *sink) {
    return ((const struct al_writer *)sink)->why.text;
}

void al_store_stats(const struct al_sink *sink, struct al_store_stats *ret) {
    const struct al_writer *w = (const struct al_writer *)sink;
    static const char *const ends[] = {"", "-wal"};
    *ret = w->stats;
    ret->file_bytes = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char name[4200];
        struct stat st;
        if ((size_t)snprintf(name, sizeof name, "%s%s", w->path, ends[i]) < sizeof name && stat(name, &st) == 0)
            ret->file_bytes += st.st_size;
    }
}
