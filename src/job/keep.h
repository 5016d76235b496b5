// SPDX-License-Identifier: Apache-2.0
// What a recording keeps of a job beside marks and snapshots, as the text of its meta row AL_BOOK_KEY:
//
//   job 1
//   pid 4242                       top of its process tree
//   command swift sft ...          masked
//   origin_ns, start_ns            monotonic: the recording's first tick, the command's start
//   rank PID START LOST WORKERS ENDED_NS KNOWN STATUS
//   look PID START LINE WORKER_LINE, look_figure PID START NAME VALUE, look_text PID START WHICH TEXT   the last look at its stacks
//   tree PROCESSES N...            most at once, of each kind (job/tree.h)
//   trainlog WRITER KEY OLD STEP STEPS_OF_ALL LINES DAMAGED STEPS_PER_SECOND ELAPSED MEMORY   the trainer's own log
//   gpu UUID INDEX USED RATIO_NS COVERED_NS MAX KNOWN MOST TOTAL ERROR NAME
//
// It is written at the begin, now and then, and at the end (finished 1). Who reads it trusts no byte of it.
#ifndef AL_JOB_KEEP_H
#define AL_JOB_KEEP_H

#include "job/book.h"

#define AL_BOOK_KEY "job"

struct al_book_kept {
    int64_t origin_ns;
    bool finished;
    double runtime_seconds;
    int64_t written_realtime_ns;
    char output_dir_source[48]; // "" none
};

void al_book_keep(struct al_buf *b, const struct al_book *book, const struct al_book_kept *k);
// Into an empty book (al_book_init). The GPUs' use is taken from a finished text alone, else it comes from snapshots.
// AL_E_FORMAT for what is no such text; lines that are not understood are left out.
int al_book_read(const char *text, struct al_book *book, struct al_book_kept *ret);
// The rank of a process; NULL.
struct al_book_rank *al_book_find(const struct al_book *book, pid_t pid, uint64_t start_ticks);

// keep_look.c: the lines of a rank that was looked at.
void al_book_keep_look(struct al_buf *b, const struct al_book_rank *k);
void al_book_read_look(const char *key, char *p, struct al_book *book);

#endif
