// SPDX-License-Identifier: Apache-2.0
// The book of a job out of its recording.
#ifndef AL_CLI_JOB_STORED_H
#define AL_CLI_JOB_STORED_H

#include "job/book.h"
#include "job/keep.h"
#include "store/store.h"

struct al_cli_job {
    struct al_book book;
    struct al_book_kept kept; // finished false: the recording was cut off, or still goes on
    struct al_store_info info;
    bool is_job; // made by alula run; else the GPUs alone are known, over the whole recording
    bool damaged;
};

// config: settings of this file instead of those recorded; may be NULL. 0, or an exit status with the message printed.
// Free it with al_book_free(&job->book).
int al_cli_job_load(const char *path, const char *config, struct al_cli_job *ret);
// Its metrics_report.json as alula run wrote it.
int al_cli_job_json(struct al_cli_job *job, struct al_buf *b);

#endif
