// SPDX-License-Identifier: Apache-2.0
// The inside of alula run and attach: run.c (options, loop), run_ranks.c (processes and their rings), run_device.c (the
// GPUs, on a thread of their own), run_say.c (what is printed), run_report.c and run_record.c (what is written). What they
// learn is kept in the book (job/book.h), and its words come from there.
#ifndef AL_CLI_RUN_H
#define AL_CLI_RUN_H

#include <pthread.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/run_ask.h"
#include "cli/run_device.h"
#include "cli/run_outputs.h"
#include "cli/run_record.h"
#include "cli/run_soak.h"
#include "job/book.h"
#include "launch/job.h"
#include "launch/link.h"
#include "ring/ring.h"

// A process that handed its ring over.
struct al_run_rank {
    struct al_book_rank *book; // never NULL
    struct al_ring_reader *ring;
    int connection_fd, end_fd; // -1 none
    int64_t transport_ns; // when it was looked at; 0 not yet
    bool epoch_due; // one began whose host memory was not read yet
    struct al_ring_record *own; // marks of the collector itself, until they are counted with the ring's
    uint32_t own_count, own_cap;
    struct al_run_rank_ask ask;
};

struct al_run_told { // verdicts already told
    const char *rule;
    char key[160];
};

struct al_run {
    const char *name; // of the command, in front of its messages
    struct al_cli_options options;
    double model_size;
    bool attached; // to a job that runs by itself
    bool goes_on;  // attached: the job goes on without alula
    bool elsewhere; // attached: what it calls its folders is not what alula calls them
    const char *output_dir;
    bool quiet, nvtx, verbose;
    int fail_on;            // --fail-on: least level, -1 none
    const char *fail_rules; // the whole of it: rules too; NULL
    _Atomic bool failed, leak; // a finding of it was raised; host memory leaks, by the rules on processes
    uint64_t log_every;

    char *const *argv;
    struct al_link link;
    bool linked, probed, hooked; // somebody listens; the probe and its start hook for Python are installed
    char probe[600], hook[600];
    struct al_job job;
    uint64_t oom_start;
    bool oom_known;
    int told_signal;
    pthread_mutex_t lock; // of the book; never held while something is written
    struct al_book book;
    struct al_run_rank ranks[AL_BOOK_RANKS]; // by their places in the book
    uint32_t refused;
    int64_t workers_looked_ns;
    struct al_run_device device;
    pthread_t host_thread;
    bool host_started;
    _Atomic int host_stop;
    struct al_run_ask ask;
    struct al_run_record record;
    struct al_run_told told[AL_STEPS_VERDICTS];
    uint32_t told_count;
    struct al_run_looks looks;
    struct al_run_tensorboard tensorboard;
    struct al_run_log log;
    struct al_run_soak soak;
    char written[4200]; // folder of the report; "" none
};

#define AL_RUN_TICK_NS (250 * AL_NS_PER_MS)
#define AL_RUN_WAIT_MORE 300 // descriptors of others

// run.c
extern const struct option al_run_options[]; // ends with a row of zeros
int al_run_take_option(struct al_run *r, int option, const char *argument);
// Config, book, output folder, probe. 0, or an exit status with the message printed.
int al_run_prepare(struct al_run *r);
void al_run_name_command(struct al_run *r, const char *words, size_t length); // each ended by NUL
void al_run_wait(const struct al_run *r, const struct pollfd *more, uint32_t more_count, int64_t until_ns);
void al_run_tick(struct al_run *r, int64_t now_ns);
void al_run_finish(struct al_run *r);

// run_ranks.c
void al_run_accept(struct al_run *r, int64_t now_ns);
void al_run_drain(struct al_run *r);
// A mark of the collector's own about a rank, counted with those of its ring; with the lock held.
void al_run_own_mark(struct al_run *r, uint32_t rank, uint16_t kind, uint16_t code, int32_t device, int64_t a, int64_t b);
// Notes who ended since the last call, with the time.
void al_run_note_ends(struct al_run *r, int64_t now_ns);
void al_run_note_orphan(void *user, pid_t pid, int status); // al_job_orphan_fn
// The command itself ended: its status is known, whatever its descriptor said.
void al_run_note_job_end(struct al_run *r, int64_t now_ns);
void al_run_look_for_workers(struct al_run *r, int64_t now_ns);

// run_transport.c: how ranks may reach each other, of those that have something to reach
void al_run_look_at_transport(struct al_run *r, int64_t now_ns);

// run_say.c
void al_run_say_start(const struct al_run *r);
void al_run_judge(struct al_run *r, bool live);
void al_run_say_end(struct al_run *r);
// One write to stderr.
void al_run_print(struct al_buf *b);

// run_report.c
// The folder that the report belongs in; NULL when nothing names one. *ret_source tells what named it.
const char *al_run_output_dir(const struct al_run *r, const char **ret_source);
// The folder that the trainer itself writes into, likewise: its log lies there wherever the report goes.
const char *al_run_trainer_dir(const struct al_run *r, const char **ret_source);
void al_run_report(struct al_run *r, bool finished);

#endif
