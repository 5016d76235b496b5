// SPDX-License-Identifier: Apache-2.0
// Who died first, of what, and where everyone was.
#ifndef AL_JOB_END_H
#define AL_JOB_END_H

#include "detect/oom.h"
#include "job/book.h"

// How a process ended, in words: "SIGKILL (core dumped)", "exit status 1".
void al_book_status_words(int status, char *out, size_t size);
// True when the process ended as it should: status 0, or not known and no exception was told.
bool al_book_ended_well(const struct al_book_rank *k);
// "SIGKILL", "OutOfMemoryError: ... (train.py:12 main), exit status 1"
void al_book_cause(const struct al_book *book, const struct al_book_rank *k, char *out, size_t size);
// What an out-of-memory error of torch's comes to; false where none ended the process.
bool al_book_out_of_memory(const struct al_book_rank *k, struct al_oom *ret, char *message, size_t size, char *advice,
                           size_t advice_size);
// Nothing where the job ended with status 0.
void al_book_post_mortem(const struct al_book *book, struct al_buf *b);

#endif
