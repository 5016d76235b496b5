// SPDX-License-Identifier: Apache-2.0
// metrics_report.json from the book.
#ifndef AL_JOB_FILL_H
#define AL_JOB_FILL_H

#include "job/book.h"

struct al_book_report {
    const char *version;
    const char *output_dir_source; // NULL: null
    bool finished;                 // false: the job still runs
    int64_t written_realtime_ns;
    double runtime_seconds; // of the whole command
};

// AL_E_NOMEM.
int al_book_report_json(struct al_book *book, const struct al_book_report *r, struct al_buf *b);

#endif
