// SPDX-License-Identifier: Apache-2.0
// The GPUs beside the job, on a thread of their own.
#ifndef AL_CLI_RUN_DEVICE_H
#define AL_CLI_RUN_DEVICE_H

#include <pthread.h>
#include <stdbool.h>

#include "model/source.h"

struct al_collect;
struct al_run;

// Whose stacks the verdicts on steps want looked at; under the run's lock.
struct al_run_looks {
    pid_t pids[64];
    uint32_t count;
    bool possible;     // somebody looks when asked
    int64_t asked_ns;  // when a finding first wanted it; 0 not yet
};

struct al_run_device {
    struct al_sink sink; // first
    pthread_t thread;
    bool started;
    bool joined;
    _Atomic int stop;
    bool hangs; // left alone in a driver call
    // of the thread
    struct al_run *run;
    bool color;
    uint64_t looked[16]; // findings that were told with what the processes execute, by a hash of their keys
    uint32_t looked_count;
    struct al_collect *collect; // while it collects, else NULL
};

void al_run_device_start(struct al_run *r);
void al_run_device_stop(struct al_run *r);

#endif
