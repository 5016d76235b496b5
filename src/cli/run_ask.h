// SPDX-License-Identifier: Apache-2.0
// Requests to the job's processes: who asked, what they answer, and --empty-cache-above.
#ifndef AL_CLI_RUN_ASK_H
#define AL_CLI_RUN_ASK_H

#include "base/buf.h"
#include "launch/ask.h"
#include "model/event.h"

#define AL_RUN_ASKED 256 // requests times ranks that wait for an answer

struct al_run;
struct al_run_rank;

struct al_run_rank_ask {
    struct al_buf answer; // parts of a text that it was asked for
    bool emptying;        // by --empty-cache-above, with what was unused then and came back
    double unused, back;
    int64_t emptied_ns, wait_ns;
};

struct al_run_ask {
    struct al_ask socket;
    bool open;
    struct {
        bool waits;
        uint32_t client, rank, bit;
    } asked[AL_RUN_ASKED];
    double above; // --empty-cache-above: bytes, or up to 1 a share of the device; 0 off
};

// 0, or AL_E_FORMAT: "6GiB", "50%", "0.5".
int al_run_ask_limit(struct al_run *r, const char *text);
void al_run_ask_start(struct al_run *r);
void al_run_ask_stop(struct al_run *r);
uint32_t al_run_ask_poll(const struct al_run *r, struct pollfd *ret); // at most 1 + AL_ASK_CLIENTS
// Takes requests, tells of ranks that are gone, and looks at the limit.
void al_run_ask_tick(struct al_run *r, int64_t now_ns);
// With the lock held: what a rank answers; lines are for the terminal.
void al_run_answer_text(struct al_run_rank *k, const char *text, size_t len);
void al_run_answer(struct al_run *r, struct al_run_rank *k, const struct al_mark *m, struct al_buf *lines);

#endif
