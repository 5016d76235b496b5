// SPDX-License-Identifier: Apache-2.0
// Beside the job: what fails the run, TensorBoard's scalars, and the log that the trainer itself keeps.
#ifndef AL_CLI_RUN_OUTPUTS_H
#define AL_CLI_RUN_OUTPUTS_H

#include "export/tensorboard.h"
#include "host/trainlog.h"
#include "tally/tally.h"

struct al_finding;
struct al_run;

// ---- run_fail.c: --fail-on ----

int al_run_fail_on(struct al_run *r, const char *argument); // AL_E_INVALID
bool al_run_is_leak(const struct al_finding *f);
bool al_run_fails_on(const struct al_run *r, const struct al_finding *f);

// ---- run_tensorboard.c ----

struct al_run_tensorboard {
    bool asked;
    const char *folder; // --tensorboard=DIR; NULL: runs/alula in the output folder
    bool failed;        // said once
    struct al_tensorboard *file;
    struct al_tally_span written; // of the leading rank, as of the last point
    uint64_t written_steps;
    int64_t next_ns, spacing_ns;
};

// A point, when a step ended and one is due; `last`: whatever is left.
void al_run_tensorboard(struct al_run *r, bool last);
void al_run_tensorboard_close(struct al_run *r);

// ---- run_log.c ----

struct al_run_log {
    struct al_trainlog_tail tail;
    struct al_trainlog log;
    bool open;
    int64_t next_ns;
};

// Looks for it and reads what is new, every few seconds; `last`: now, to its end.
void al_run_log(struct al_run *r, int64_t now_ns, bool last);
void al_run_log_close(struct al_run *r);

#endif
