// SPDX-License-Identifier: Apache-2.0
// What a rank's memory comes to: for the report, and in lines.
#ifndef AL_JOB_MEMORY_H
#define AL_JOB_MEMORY_H

#include "detect/allocator.h"
#include "export/report_memory.h"
#include "job/book.h"

// Room for one rank's rows; the texts point into it and the tally.
struct al_book_memory {
    struct al_allocator allocator;
    struct al_report_memory devices[AL_TALLY_DEVICES];
    struct al_report_epoch epochs[AL_TALLY_EPOCHS];
    struct al_report_oom oom;
};

void al_book_memory_fill(const struct al_book_rank *k, struct al_book_memory *room, struct al_report_rank_memory *ret);
// "alula: epoch 3 …": what was read at the begin of the last epoch.
void al_book_say_epoch(const struct al_book_rank *k, struct al_buf *b);
// At the end: what is live, cached and outside, the host side, and what the reading cost. Of all ranks, or of the leader.
void al_book_say_memory(const struct al_book *book, bool all, struct al_buf *b);

#endif
