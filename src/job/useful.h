// SPDX-License-Identifier: Apache-2.0
// What a job's work was worth, and what its trainer's own log says of it.
#ifndef AL_JOB_USEFUL_H
#define AL_JOB_USEFUL_H

#include "export/report.h"
#include "job/book.h"

// Tokens, the model's arithmetic, and the share of the GPUs' peak that it makes up.
void al_book_useful(const struct al_book *book, struct al_report_useful *ret);
// The trainer's log beside alula's own figures; false when none was read.
bool al_book_trainer_log(const struct al_book *book, struct al_report_log *ret);

// A line of each for the summary; nothing where nothing is known.
void al_book_say_useful(const struct al_book *book, struct al_buf *b);
void al_book_say_trainer_log(const struct al_book *book, struct al_buf *b);

#endif
