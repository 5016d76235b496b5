// SPDX-License-Identifier: Apache-2.0
// Who died first, of what, and where everyone was.
#ifndef AL_CLI_RUN_END_H
#define AL_CLI_RUN_END_H

#include "cli/run.h"

// True when the process ended as it should: status 0, or not known and no exception was told.
bool al_run_ended_well(const struct al_run_rank *k);
// "SIGKILL", "OutOfMemoryError: ... (train.py:12 main), exit status 1"
void al_run_cause(const struct al_run *r, const struct al_run_rank *k, char *out, size_t size);
// Nothing where the job ended with status 0.
void al_run_say_post_mortem(const struct al_run *r, struct al_buf *b);

#endif
