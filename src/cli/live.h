// SPDX-License-Identifier: Apache-2.0
// The inside of alula stacks: live.c (options, what is sampled), live_run.c (on a terminal), live_text.c (a table, JSON).
#ifndef AL_CLI_LIVE_H
#define AL_CLI_LIVE_H

#include "cli/profile.h"
#include "tui/stacks.h"

struct al_live {
    struct al_profiling p;
    struct al_hot *hot;
    struct {
        const struct al_profile_target *target;
        uint32_t role;
        int32_t rank;
    } *processes; // by hot's number
    uint32_t process_count;
    struct al_hot_view view, around[3];
    struct al_stacks_ui ui;
    double window_s;
    bool once, json, no_cmdline, no_color, color, ascii;
    uint32_t rows;       // of the table
    const char *thread;  // --thread: its name or tid
    bool thread_found;
    char title[200], command[AL_CMD_MAX];
    bool no_gil; // of the interpreter that the title is of
    uint32_t forgets;    // how often profile and threads were made anew: rows are of those before
    int64_t forgot_ns;   // when samples were thrown away for their memory; 0 never
    // The sampling thread's side, all of the above but ui and view under the lock:
    pthread_t sampler;
    pthread_mutex_t lock;
    _Atomic int stop, done, result;
};

// Makes the rows for ui's query, and what stands around them. With the lock held. AL_E_NOMEM.
int al_live_take(struct al_live *l, struct al_stacks_in *ret);
void al_live_reset(struct al_live *l);
// The terminal until the user leaves; an exit status.
int al_live_run(struct al_live *l);
void al_live_text(struct al_buf *b, const struct al_live *l, const struct al_stacks_in *in);
void al_live_json(struct al_buf *b, const struct al_live *l, const struct al_stacks_in *in);

#endif
