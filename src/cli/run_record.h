// SPDX-License-Identifier: Apache-2.0
// run.alula, the recording of a job.
#ifndef AL_CLI_RUN_RECORD_H
#define AL_CLI_RUN_RECORD_H

#include <pthread.h>

#include "base/buf.h"
#include "job/book.h"
#include "model/source.h"

struct al_run;

// The recording. The collecting thread writes it, and the main thread at the end.
struct al_run_record {
    bool off;          // --no-record
    const char *named; // --record
    pthread_mutex_t lock;  // of writing: a driver that hangs holds the collecting thread, but not this
    struct al_sink *store; // NULL: none
    bool opened;           // there was a store when the job began
    bool slow;             // the driver did not answer in time about a GPU's attributes
    _Atomic bool failed;   // nothing is written any more
    char path[4200];   // where it is written
    char folder[256];  // of its own on a local disk, from which it is moved; "" none
    struct al_buf config;
    int64_t origin_ns; // its first tick
    _Atomic int64_t keep_ns; // when the job's own row is written again
    struct al_finding queue[AL_STEPS_VERDICTS]; // of the rules on steps, until the next tick
    uint32_t queued;
};

// Called without the lock but where it is said.
void al_run_record_open(struct al_run *r);
void al_run_record_tick(struct al_run *r, const struct al_snapshot *s);
void al_run_record_finding(struct al_run *r, const struct al_snapshot *s, const struct al_finding *f);
void al_run_record_note(struct al_run *r, const struct al_finding *f); // of the rules on steps; with the lock held
void al_run_record_marks(struct al_run *r, const struct al_book_rank *k, const struct al_mark *marks, size_t count);
void al_run_record_text(struct al_run *r, const struct al_book_rank *k, int64_t at_ns, uint16_t code, const char *text,
                        size_t len);
void al_run_record_close(struct al_run *r); // and moves it to where it belongs

#endif
