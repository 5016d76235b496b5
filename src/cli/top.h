// SPDX-License-Identifier: Apache-2.0
// Parts of alula top that its files share.
#ifndef AL_CLI_TOP_H
#define AL_CLI_TOP_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/cli.h"
#include "model/finding.h"
#include "tui/term.h"
#include "tui/tui.h"

#define AL_TOP_FINDINGS 64

struct al_top {
    struct al_sink sink; // first
    struct al_cli_session session;
    struct al_tui tui;
    char source[160];    // what the title says of a session that is not this machine's

    // The collecting thread's side; `lock` guards history and last_tick_ns.
    pthread_t thread;
    pthread_mutex_t lock;
    struct al_history *history;
    int64_t last_tick_ns;     // real monotonic time at which the last reading came in
    _Atomic int stop, quit, ended, result;
    _Atomic int64_t interval_wanted; // 0: no change
    int wake;                 // eventfd: readings, signals, the end

    // The screen's own copies.
    struct al_snapshot *shown;
    bool have_snapshot;
    struct al_finding findings[AL_TOP_FINDINGS];
    uint32_t finding_count;
    int64_t silent_ns;
};

// Copies the latest reading and the open findings, worst first. AL_E_NOMEM.
int al_top_take(struct al_top *t);
// What is to be drawn now; the history in it is read under t->lock.
struct al_scene_in al_top_input(const struct al_top *t);
// Sends the signal that the user confirmed, or says in the status line why not. *local: processes are of this machine.
void al_top_signal(struct al_ui *ui, const struct al_snapshot *s, bool local);
// The loop on a terminal until the user leaves; returns the exit status.
int al_top_run(struct al_top *t, bool color, bool mouse);

#endif
