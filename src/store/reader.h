// SPDX-License-Identifier: Apache-2.0
// The reader's inside: reader.c (file, blocks), at.c (snapshots), events.c (findings and the like).
#ifndef AL_STORE_READER_H
#define AL_STORE_READER_H

#include "store/db.h"

struct al_block {
    int64_t id, start_ns, end_ns;
    int level; // -1: plain rows (or on the way to chunks)
};

struct al_xid_event {
    int64_t t, gpu, last_ns;
    uint32_t code, count;
};

// A part in memory with what it belongs to.
struct al_loaded {
    struct al_part *part;
    void *info; // by al_entity_kinds; NULL without
};

struct al_store {
    sqlite3 *db;
    char *path;
    struct al_layouts layouts;
    struct al_metric_names names;
    int own[AL_STORE_KINDS][AL_STORE_METRICS_MAX]; // file metric -> this program's, -1 unknown here
    struct al_block *blocks;
    uint32_t block_count;
    struct al_xid_event *xids;
    size_t xid_count;
    int64_t start_realtime_ns, interval_ns, last_t;
    uint32_t at_block; // that is loaded; UINT32_MAX none
    struct al_loaded *loaded;
    uint32_t loaded_count;
    const struct al_part *ticks;
    int64_t shown[AL_GPU_MAX]; // gpu ids by position of the last al_store_at
    uint32_t shown_count;
    int schema;
    uint32_t damage;
    struct al_store_error first_damage;
    char *meta;
};

void al_store_note_damage(struct al_store *s, const char *what, const char *why);
// Loads a block unless it is there already. What can't be read is left out and counted.
int al_store_load(struct al_store *s, uint32_t block);
// The block with start <= t, or UINT32_MAX.
uint32_t al_store_block(const struct al_store *s, int64_t t);

#endif
