// SPDX-License-Identifier: Apache-2.0
// The book of one training job: its processes with their tallies, its GPUs while it trained, who ended and of what; from
// it the verdicts, the report and the words of alula run. Fed live or by a recording. No clock, no I/O, no lock.
#ifndef AL_JOB_BOOK_H
#define AL_JOB_BOOK_H

#include "base/buf.h"
#include "detect/steps.h"
#include "host/trainlog.h"
#include "job/tree.h"
#include "model/snapshot.h"
#include "tally/tally.h"

#define AL_BOOK_RANKS 1024 // processes that mark

// A process that marks.
struct al_book_rank {
    pid_t pid;
    uint64_t start_ticks;
    struct al_tally tally;
    bool ended, status_known;
    int64_t ended_ns;
    int status; // as waitpid gives it
    int32_t workers; // most DataLoader workers seen; -1 not looked
    bool looked;     // what it executes was seen; the last time:
    struct al_look look;
    // at the last log line
    struct al_tally_span logged;
    uint64_t logged_steps;
};

#define AL_BOOK_PENDING 1024 // utilisation samples of a GPU that wait for the step that they belong to

struct al_book_gpu {
    char uuid[AL_UUID_MAX], name[96];
    uint32_t index;
    bool used_by_job;
    double ratio_ns, covered_ns, max; // while the job trained
    struct al_spread spread; // of its samples
    double kept_error;       // of the mean, out of a recording; 0 unknown
    int64_t last_ns;
    double memory_most, memory_total, memory_now;
    bool memory_known;
    bool nvlinks_known;
    uint32_t nvlinks; // that are up
    double ratio_now;
    bool ratio_known;
    uint32_t pending;
    struct al_fresh *samples; // AL_BOOK_PENDING
};

// The command that was started.
struct al_book_job {
    pid_t pid; // top of its process tree; 0 unknown
    char command[512]; // masked
    int64_t start_ns, start_realtime_ns;
    bool ended;
    int status; // as waitpid gives it
    bool attached; // it was not started by this alula: its status is nobody's to know
    uint64_t oom_kills; // by the kernel in its cgroup, since it began
    double cpus; // that it may use on its node
};

struct al_book {
    struct al_settings settings;
    struct al_book_job job;
    struct al_book_rank **ranks; // AL_BOOK_RANKS
    uint32_t rank_count;
    int64_t begin_ns, end_ns; // training: first step's begin, last step's end; 0 not yet
    bool no_job; // a recording of GPUs alone: their use is that of its whole length
    bool cuda_seen; // some process told of its CUDA allocator
    bool device_open;
    char device_missing[256]; // why not
    struct al_book_gpu *gpus; // AL_GPU_MAX
    uint32_t gpu_count;
    struct al_book_tree tree;
    struct al_trainlog trainlog; // what the trainer's own log says
    char trainlog_path[512];     // "" none
    // scratch
    struct al_steps_rank *views;
    struct al_steps_verdict *verdicts; // AL_STEPS_VERDICTS
};

int al_book_init(struct al_book *book, const struct al_settings *settings);
void al_book_free(struct al_book *book);

// ---- what goes in ----

// NULL when the book is full or memory is out.
struct al_book_rank *al_book_add(struct al_book *book, pid_t pid, uint64_t start_ticks);
// Each rank's marks go to its tally (al_tally_event ...) in their order; this looks over all of them afterwards.
void al_book_counted(struct al_book *book);
void al_book_rank_ended(struct al_book_rank *k, int64_t at_ns, bool status_known, int status);
// Whether a process is one of the job's; NULL: by the snapshot's process tree.
typedef bool al_book_member_fn(const void *user, pid_t pid);
void al_book_snapshot(struct al_book *book, const struct al_snapshot *s, al_book_member_fn *member, const void *user);
// Whether pid is job or below it, by the snapshot's own process tree.
bool al_book_below(const struct al_snapshot *s, pid_t pid, pid_t job);
// Counts what waits: nothing further comes.
void al_book_settle(struct al_book *book);
void al_book_device_missing(struct al_book *book, const char *why);

// ---- what comes out ----

// The rank whose own figures count for the whole job: rank 0, else the first that trains; NULL none.
const struct al_book_rank *al_book_leader(const struct al_book *book);
// The ranks that train, as the rules see them; valid until the next call.
void al_book_view(struct al_book *book, bool live, struct al_steps_view *ret);
// Each rule's verdict, over the recent steps (live) or all; returns how many, valid until the next call.
uint32_t al_book_judge(struct al_book *book, bool live, const struct al_steps_verdict **ret);
const char *al_book_verdict_word(enum al_verdict v);
const struct al_book_gpu *al_book_gpu(const struct al_book *book, const char *uuid);

// A row for each rank that lives and has marked (unsorted).
void al_book_fill(const struct al_book *book, struct al_snapshot *s);

struct al_book_utilization {
    bool known;
    double mean, max, error; // error: of the mean, 0 unknown
    char why[200]; // why not, or how the GPUs were told to be the job's
};
// Standard error of its mean utilisation; 0 unknown.
double al_book_gpu_error(const struct al_book_gpu *g);
void al_book_utilization(const struct al_book *book, struct al_book_utilization *ret);

#endif
