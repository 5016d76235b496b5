// SPDX-License-Identifier: Apache-2.0
// The writer's inside: what writer.c (ticks, commits), put.c (rows), note.c (events) and age.c (old data) share.
#ifndef AL_STORE_WRITER_H
#define AL_STORE_WRITER_H

#include <pthread.h>

#include "model/finding.h"
#include "store/db.h"

// What was last written of an entity that is there now.
struct al_live {
    int64_t id;
    uint64_t seen; // tick
    uint32_t position; // of a GPU in that tick
    void *info;    // a copy, by al_entity_kinds
    bool written;
    struct al_row *row;
    struct al_xid xid[AL_XID_CODES];
    uint32_t xid_count;
};
struct al_lives {
    struct al_live *list;
    uint32_t count, cap;
};

// Old data on its way down: one unit (an entity of a block) a tick, so that no tick waits long.
struct al_aging {
    bool look;     // there may be a job
    int64_t looked_ns; // when there was none
    bool active;
    int64_t block, start_ns, end_ns;
    int target;    // level that the block is brought to
    int kind;
};

struct al_writer {
    struct al_sink sink; // first
    struct al_store_options o;
    char *path;
    sqlite3 *db;
    int lock_fd; // keeps the lock; closed after the database, since closing any descriptor of a file drops SQLite's locks
    bool wal;
    int failed;  // the first error: nothing is written behind it
    struct al_store_error why;

    bool started, in_transaction;
    int64_t start_ns, start_realtime_ns;    // monotonic and wall time of the first tick
    int64_t last_t, last_commit_ns;         // last_commit_ns: on the real clock
    int64_t clock_t, clock_offset_ns;       // of the last clock triple
    uint64_t tick;
    int64_t block, block_start, block_samples;
    bool keyframe; // this tick starts a block: everything is written
    struct al_layouts layouts;
    struct al_metric_names names;
    struct al_lives lives[AL_STORE_KINDS];
    struct al_row *row; // scratch
    struct al_buf buf;
    sqlite3_stmt *insert[AL_STORE_KINDS];
    bool column[AL_STORE_KINDS][AL_STORE_METRICS_MAX]; // metrics that have a column
    int metric_order[AL_STORE_KINDS][AL_STORE_METRICS_MAX], metric_count[AL_STORE_KINDS];
    struct al_aging aging;
    pthread_mutex_t marks_lock; // of what follows: marks come from any thread
    struct al_marked *marked;   // processes
    uint32_t marked_count, marked_cap;
    struct al_store_stats stats;
};

// put.c
int al_writer_put_tick(struct al_writer *w, const struct al_snapshot *s, int64_t t);
void al_writer_put_done(struct al_writer *w);
// A prepared row (t, extras, codes, numbers) of a kind.
int al_writer_put_row(struct al_writer *w, uint8_t kind, int64_t entity, struct al_row *row);
int64_t al_writer_gpu_id(const struct al_writer *w, const char *uuid); // of a GPU of this tick; 0 when unknown

// note.c
int al_writer_meta(struct al_writer *w, const char *key, const char *text);
int al_writer_meta_int(struct al_writer *w, const char *key, int64_t value);
int al_writer_note_clock(struct al_writer *w, const struct al_snapshot *s, int64_t t);
int al_writer_note_gap(struct al_writer *w, int64_t from, int64_t to, const char *reason);
int al_writer_note_text(struct al_writer *w, const char *text, int64_t *ret_id); // 0 for ""
int al_writer_note_attrs(struct al_writer *w, uint32_t position, int64_t gpu);
int al_writer_note_xids(struct al_writer *w, struct al_live *live, const struct al_gpu *g, int64_t t);
int al_writer_note_finding(struct al_writer *w, const struct al_snapshot *s, const struct al_finding *f);

// put_marks.c
int al_writer_put_marks(struct al_writer *w);
bool al_writer_marks_start(struct al_writer *w, int64_t *ret_ns); // time of the earliest that waits
void al_writer_marks_done(struct al_writer *w);

// age.c
int al_writer_age(struct al_writer *w, int64_t now);

#endif
