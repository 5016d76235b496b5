// SPDX-License-Identifier: Apache-2.0
// What is known of how the ranks of a job communicate: NCCL's version, its communicators and calls, the transport.
#ifndef AL_JOB_COMMUNICATION_H
#define AL_JOB_COMMUNICATION_H

#include "export/report_communication.h"
#include "job/book.h"

// NULL: one rank, and nobody told of NCCL. Else the rank that speaks for all.
const struct al_book_rank *al_book_communicates(const struct al_book *book);
void al_book_communication(const struct al_book *book, struct al_report_communication *ret);
// A line of the summary; nothing for one rank.
void al_book_say_communication(const struct al_book *book, struct al_buf *b);

#endif
