// SPDX-License-Identifier: Apache-2.0
// The board of a running `alula run`: a small text file in its folder that tells other alulas of the same user of its
// ranks. The writer rewrites it once a second; who reads it trusts no byte of it.
//
//   alula board 1
//   pid 4242                       alula itself; start_ticks, pid_ns, job, began_ns (since the epoch), written_ns
//   command swift sft ...          masked; output and record: where its report and recording go
//   rank pid=4300 start=77 ... step=120@5000000000 ... source=torch.optim hook
//
// A figure is name=number@time (monotonic ns), with "~" behind one that was old already, or name=!status word.
#ifndef AL_LAUNCH_BOARD_H
#define AL_LAUNCH_BOARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "model/rank.h"
#include "model/source.h"

#define AL_BOARD_NAME "status"
#define AL_BOARD_RANKS 1024
#define AL_BOARD_BYTES (4u << 20) // the greatest file that is read
#define AL_BOARD_OLD_NS 5000000000LL // a board that was not written for so long: its figures are stale

struct al_board_head {
    pid_t pid;             // alula itself
    uint64_t start_ticks;
    uint64_t pid_ns;       // inode of its pid namespace; 0 unknown
    pid_t job;             // the command that it started
    int64_t began_realtime_ns;
    int64_t written_ns;    // monotonic
    char command[512];     // masked
    char output[512];      // folder of the report; "" when nothing names one
    char record[512];      // the recording; "" none
    uid_t uid;             // reader: who owns it
};

struct al_board {
    struct al_board_head head;
    struct al_rank *ranks; // AL_BOARD_RANKS at most
    uint32_t rank_count, rank_cap;
};

void al_board_format(struct al_buf *b, const struct al_board_head *head, const struct al_rank *ranks, uint32_t count);
// Fills *ret, whose rank memory is used again. AL_E_FORMAT for what is no board, AL_E_UNSUPPORTED for one of another
// version; lines that are not understood are left out.
int al_board_parse(const char *text, size_t len, struct al_board *ret);
void al_board_clear(struct al_board *b); // frees

// ---- writing ----

struct al_board_writer;
// dir_fd: the folder (al_link). Starts a thread that may wait for the disk; nobody else does.
int al_board_writer_new(int dir_fd, const struct al_board_head *head, struct al_board_writer **ret);
// What the next writing tells. Takes a copy and never waits.
void al_board_writer_put(struct al_board_writer *w, const struct al_rank *ranks, uint32_t count);
void al_board_writer_output(struct al_board_writer *w, const char *folder); // once it is known
// Removes the file. NULL is fine.
struct al_board_writer *al_board_writer_free(struct al_board_writer *w);

// ---- reading ----

// Calls fn for each board of a running alula of this user (root: of all users) in this pid namespace.
typedef void al_board_fn(void *user, const struct al_board *board);
void al_boards_each(al_board_fn *fn, void *user);
// The ranks of all boards, figures of a board that is not kept up marked as stale.
int al_boards_open(struct al_ranks **ret);

#endif
