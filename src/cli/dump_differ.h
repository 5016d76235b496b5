// SPDX-License-Identifier: Apache-2.0
// Between dump_differ.c and dump_words.c.
#ifndef AL_CLI_DUMP_DIFFER_H
#define AL_CLI_DUMP_DIFFER_H

#include "cli/dump.h"

enum al_differ_doing {
    AL_DIFFER_UNKNOWN,
    AL_DIFFER_WAITS,     // idle in both samples, at one place
    AL_DIFFER_RUNS,      // at one place, not idle
    AL_DIFFER_MOVES,     // at two places
    AL_DIFFER_WAITS_GIL,
    AL_DIFFER_BLOCKED,   // in the kernel, not to be interrupted
    AL_DIFFER_STOPPED,   // by a signal or a debugger
};

struct al_differ_rank {
    const struct al_dump_member *member;
    struct al_differ_stack stack;
    enum al_differ_doing doing;
    bool has; // it was read and has such a thread
};

struct al_differ_view { // one thread of every rank
    char name[64];      // "": the main thread; digits of a name are '*'
    uint32_t nth;       // of that name
    struct al_differ_rank *ranks;
    uint32_t count;
    struct al_differ d;
};

struct al_dump_differ {
    const struct al_dump_job *job;
    const struct al_dump_member **members; // the ranks
    uint32_t count;
    struct al_differ_view main;
    struct al_differ_view *others; // threads in which they differ
    uint32_t other_count, same;    // same: threads in which they do not
};

// Variables of the functions that all ranks are in and that hold something else in some: a sentence each, or JSON objects. AL_E_NOMEM.
int al_dump_variables(struct al_buf *b, const struct al_dump_differ *a, bool json);

// AL_E_NOMEM. Free it in any case.
int al_dump_differ_make(struct al_dump_differ *a, const struct al_dump_job *j);
void al_dump_differ_free(struct al_dump_differ *a);

#endif
