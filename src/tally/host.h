// SPDX-License-Identifier: Apache-2.0
// Host memory of a rank and its workers: at ticks for the trend, at epochs for the table.
#ifndef AL_TALLY_HOST_H
#define AL_TALLY_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "model/event.h"
#include "tally/floor.h"

#define AL_TALLY_EPOCHS 64 // rows that are kept: the first half, and the last ones

struct al_tally_epoch {
    int64_t epoch, step; // step: that had ended when it was read
    bool known[AL_HOST_COUNT];
    int64_t value[AL_HOST_COUNT];
};

struct al_tally_host {
    bool known[AL_HOST_COUNT];
    int64_t first[AL_HOST_COUNT], last[AL_HOST_COUNT], most[AL_HOST_COUNT];
    struct al_floor anon, workers_anon; // over the steps, since training began
    // The latest readings, which count once a later step has ended: what is read behind the last one, when the job lets go
    // of everything, is no floor of training.
    struct al_tally_host_reading {
        bool waits;
        int64_t step, value;
    } anon_read, workers_read;
    uint32_t epoch_count;
    uint64_t epochs_left_out;
    struct al_tally_epoch epoch[AL_TALLY_EPOCHS];
};

// What counts as kept by the process: anonymous memory of rank and workers, pages that they share by fork once; where the
// kernel does not tell that, the rank's alone. False when neither was read.
bool al_tally_epoch_kept(const struct al_tally_epoch *e, double *ret);
// Growth between the begin of epoch i and that of the one behind it, both measured in the same way; of the last one up to
// now, of the rank alone. False when unknown.
bool al_tally_epoch_growth(const struct al_tally_host *h, uint32_t i, double *ret);

#endif
