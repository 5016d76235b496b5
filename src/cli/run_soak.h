// SPDX-License-Identifier: Apache-2.0
// alula run --soak: the command again and again until the time is over, each run watched by an alula of its own.
#ifndef AL_CLI_RUN_SOAK_H
#define AL_CLI_RUN_SOAK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct al_run;

struct al_run_soak {
    int64_t length_ns; // 0: no soak
    // in the alula of one run
    int tell_fd;
    uint32_t number; // of the run, from 1
    int64_t begin_ns, end_ns, said_ns;
    bool asked;      // the time is over: the job was asked to end
    int64_t kill_ns; // when it is killed if it does not
};

// Runs it with run(); the exit status, or it ends alula as the last run ended.
int al_run_soak(struct al_run *r, int (*run)(struct al_run *));

// Of one run's alula: says how far it is, ends the job when the time is over.
void al_run_soak_tick(struct al_run *r, int64_t now_ns);
// Its slopes and what was found, to the user and to the alula above; behind the last verdicts.
void al_run_soak_tell(struct al_run *r);

#endif
