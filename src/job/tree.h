// SPDX-License-Identifier: Apache-2.0
// Who is in a job's process tree: how many of each kind were there at once.
#ifndef AL_JOB_TREE_H
#define AL_JOB_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/snapshot.h"

// X(ID, key of the report, one, several)
#define AL_BOOK_KINDS(X)                                                                                               \
    X(LAUNCHER, "launcher", "launcher", "launchers")                                                                   \
    X(RANK, "rank", "rank", "ranks")                                                                                   \
    X(WORKER, "worker", "worker", "workers")                                                                           \
    X(ENGINE, "engine", "engine", "engines")                                                                           \
    X(NOTEBOOK, "notebook", "notebook", "notebooks")                                                                   \
    X(FORK_SERVER, "fork_server", "fork server", "fork servers")                                                       \
    X(RESOURCE_TRACKER, "resource_tracker", "resource tracker", "resource trackers")                                   \
    X(OTHER, "other", "other", "others")

enum al_book_kind {
#define X(id, key, one, several) AL_BOOK_KIND_##id,
    AL_BOOK_KINDS(X)
#undef X
        AL_BOOK_KIND_COUNT
};

struct al_book_tree {
    int64_t looked_ns;
    uint32_t most[AL_BOOK_KIND_COUNT]; // at one look
    uint32_t processes;                // most at one look, all kinds
    bool training;                     // looks before there was a rank do not count any more
};

struct al_book;
// Looks every two seconds at most.
void al_book_tree(struct al_book *book, const struct al_snapshot *s);
// A line of the summary; nothing for a single process.
void al_book_say_tree(const struct al_book *book, struct al_buf *b);
// {"launcher":1,...}; null when no tree was seen.
void al_book_put_tree(struct al_buf *b, const struct al_book *book);

#endif
