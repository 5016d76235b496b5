// SPDX-License-Identifier: Apache-2.0
// The lines of a job for people, each begun with "alula: ".
#ifndef AL_JOB_SAY_H
#define AL_JOB_SAY_H

#include "job/book.h"

// The lines of --log-every, as means since the rank's last ones.
void al_book_say_step(const struct al_book *book, struct al_book_rank *k, struct al_buf *b);
void al_book_say_finding(const struct al_finding *f, struct al_buf *b);
// Ranks, GPUs, verdicts. verbose: all ranks, and rules that found nothing too.
void al_book_say_summary(struct al_book *book, bool verbose, struct al_buf *b);

#endif
