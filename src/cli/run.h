// SPDX-License-Identifier: Apache-2.0
// The inside of alula run: run.c (options, loop), run_ranks.c (processes and their rings), run_device.c (the GPUs, on a
// thread of their own), run_say.c (what is printed), run_report.c (what is written).
#ifndef AL_CLI_RUN_H
#define AL_CLI_RUN_H

#include <pthread.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "detect/steps.h"
#include "launch/job.h"
#include "launch/link.h"
#include "ring/ring.h"
#include "tally/tally.h"

#define AL_RUN_RANKS 1024 // processes with a ring

// A process that handed its ring over.
struct al_run_rank {
    pid_t pid;
    struct al_ring_reader *ring; // NULL: unreadable
    int connection_fd, end_fd;   // -1 none
    struct al_tally tally;
    bool ended, status_known;
    int64_t ended_ns;
    int status;
    int32_t workers; // most DataLoader workers seen; -1 not looked
    // at the last log line
    struct al_tally_span logged;
    uint64_t logged_steps;
};

#define AL_RUN_PENDING 1024 // utilisation samples of a GPU that wait for the step that they belong to

struct al_run_gpu {
    char uuid[AL_UUID_MAX], name[96];
    uint32_t index;
    bool used_by_job;
    double ratio_ns, covered_ns, max; // while the job trained
    int64_t last_ns;
    double memory_most, memory_total, memory_now;
    bool memory_known;
    double ratio_now;
    bool ratio_known;
    uint32_t pending;
    struct al_fresh *samples; // AL_RUN_PENDING
};

struct al_run_device {
    struct al_sink sink; // first
    pthread_t thread;
    bool started;
    bool joined;
    _Atomic int stop;
    _Atomic int64_t begin_ns, end_ns; // training: first step's begin, last step's end; 0 not yet
    _Atomic bool cuda_seen; // some process told of its CUDA allocator
    pthread_mutex_t lock; // of what follows
    bool open;
    char missing[256]; // why not
    struct al_run_gpu *gpus;
    uint32_t gpu_count;
    int level; // highest of the findings so far, -1 none
    uint64_t findings;
    bool hangs; // left alone in a driver call
    // of the thread
    const struct al_cli_options *options;
    struct al_settings settings;
    struct al_sink *store; // --record
    const char *record;
    pid_t job;
    bool quiet, color;
};

struct al_run_told { // verdicts already told
    const char *rule;
    char key[160];
};

struct al_run {
    struct al_cli_options options;
    struct al_settings settings;
    const char *output_dir, *record;
    bool quiet, verbose;
    int fail_on;
    uint64_t log_every;

    char *const *argv;
    char command[512]; // masked
    struct al_link link;
    bool linked, probed, hooked; // somebody listens; the probe and its start hook for Python are installed
    char probe[600], hook[600];
    struct al_job job;
    int64_t start_ns, start_realtime_ns;
    uint64_t oom_start;
    bool oom_known;
    int told_signal;
    struct al_run_rank **ranks;
    uint32_t rank_count, refused;
    int64_t workers_looked_ns;
    struct al_run_device device;
    double cpus;
    struct al_run_told told[AL_STEPS_VERDICTS];
    uint32_t told_count;
    int level; // highest of the step findings, -1 none
    char written[4200]; // folder of the report; "" none
};

// run_ranks.c
void al_run_accept(struct al_run *r, int64_t now_ns);
void al_run_drain(struct al_run *r);
// Notes who ended since the last call, with the time.
void al_run_note_ends(struct al_run *r, int64_t now_ns);
void al_run_note_orphan(void *user, pid_t pid, int status); // al_job_orphan_fn
void al_run_look_for_workers(struct al_run *r, int64_t now_ns);
uint32_t al_run_view(const struct al_run *r, bool live, struct al_steps_rank *ranks, struct al_steps_view *ret);
// The rank whose own figures count for the whole job: rank 0, else the first that trains; NULL none.
const struct al_run_rank *al_run_leader(const struct al_run *r);
void al_run_ranks_free(struct al_run *r);

// run_device.c
void al_run_device_start(struct al_run *r);
void al_run_device_stop(struct al_run *r);
struct al_run_utilization {
    bool known;
    double mean, max;
    char why[200]; // why not, or how the GPUs were told to be the job's
};
void al_run_utilization(struct al_run *r, struct al_run_utilization *ret);

// run_say.c
void al_run_say_start(const struct al_run *r);
void al_run_say_step(struct al_run *r, struct al_run_rank *k); // a step ended: the lines of --log-every, if due
void al_run_judge(struct al_run *r, bool live);
// Of the whole run; ret holds AL_STEPS_VERDICTS. Returns how many.
uint32_t al_run_verdicts(struct al_run *r, struct al_steps_verdict *ret);
void al_run_say_end(struct al_run *r);
// How a process ended, in words: "ended by SIGKILL", "exit status 1".
void al_run_status_words(int status, char *out, size_t size);
// One write to stderr.
void al_run_print(struct al_buf *b);

// run_report.c
// The folder that the report belongs in; NULL when nothing names one. *ret_source tells what named it.
const char *al_run_output_dir(const struct al_run *r, const char **ret_source);
void al_run_report(struct al_run *r, bool finished);

#endif
