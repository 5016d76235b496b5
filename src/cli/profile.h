// SPDX-License-Identifier: Apache-2.0
// alula profile: options, whom it samples, and what came of it.
#ifndef AL_CLI_PROFILE_H
#define AL_CLI_PROFILE_H

#include <pthread.h>

#include "cli/stacks.h"
#include "export/profile.h"
#include "unwind/native.h"
#include "launch/job.h"

struct al_profile_thread {
    uint64_t id;
    pid_t tid;
    struct al_stack_frame *last; // of its last sample, whose stack need not be looked up again: most threads sleep
    uint32_t last_count, last_cap, last_stack;
    uint32_t seen; // samples, until it is named
    bool named;
    uint32_t track, root; // root: the stack of its process's and its own name; AL_PROFILE_NONE without
};

struct al_profile_known { // a frame's number, found without its text
    uint32_t code, frame;
    int32_t line;
};
#define AL_PROFILE_KNOWN 4096u

// A process that is sampled.
struct al_profile_target {
    struct al_stacks_process process;
    struct al_stack *stack; // NULL: it has ended, or is not open yet
    struct al_native *native; // NULL: not asked for, or not to be had
    const struct al_stack_sample *sample; // the last one; NULL none
    bool ended;
    int64_t retry_ns, since_ns; // since: when it was first seen
    struct al_profile_thread *threads;
    uint32_t thread_count, thread_cap;
    struct al_profile_known *known;
    struct al_stack_counts before; // of samplers that were closed
    struct al_native_counts native_before;
};

struct al_profiling;
// A sample of a thread: where it goes instead of the profile's runs. AL_E_NOMEM.
typedef int al_profiling_add_fn(struct al_profiling *p, struct al_profile_target *t, const struct al_stack_thread *thread,
                                uint32_t track, uint32_t stack);

struct al_profiling {
    // Options:
    pid_t pid;
    enum al_stacks_reach reach;
    const struct al_profile_format *format;
    const char *output;
    char *const *argv; // the command that is started; NULL: the process runs already
    int output_fd;     // of what is no recording
    bool recording;    // the output is a recording, instead of a format
    const char *from;  // the recording that profiles are read from; NULL: a process is sampled
    int64_t id;        // of the profile there; 0 the latest
    bool list, no_record, no_cmdline;
    double rate, seconds; // seconds: 0 until the process ends
    bool gil, idle, by_function, by_thread, no_lines, quiet, help;
    bool native, native_all, blocking;
    // For another view than the profile that is written; NULL and false without:
    al_profiling_add_fn *add;
    int (*ticked)(struct al_profiling *p, int64_t now_ns); // before each round of samples
    void *user;
    pthread_mutex_t *lock; // held while a tick or a look for processes changes what is here
    _Atomic int *stop;     // instead of al_cli_stop
    const char *name;      // of the command, in front of its messages; NULL: profile
    bool cmdline;          // command lines are wanted
    bool bare;             // no process and no thread as roots of stacks
    bool mute;             // nothing on stderr: the last word is in `said`
    char said[512];
    // The command:
    struct al_job job;
    bool look_soon; // a process became another program
    int64_t peek_ns; // when it is looked for new processes again
    bool launched, awaits, wrapped; // awaits: no Python was found yet; wrapped: it is no Python, but has some below it, which is sampled
    // What is done:
    struct al_profile *profile;
    struct al_profile_target **targets;
    uint32_t target_count;
    pid_t top; // from where on processes are looked at; 0 not looked yet
    uint32_t tick; // of the sample that is taken, with those that were left out
    uint64_t ticks, late, failed; // late: left out, since the one before took too long; failed: the threads could not be listed
    int64_t began_ns, ended_ns, cpu_began_ns, cpu_ns, start_ns; // start_ns: by the clock since 1970
    bool all_ended;
    bool native_told; // what of native frames cannot be had was said
    int error; // the first of a process
};

// The named process must be open afterwards: its error is printed.
int al_profiling_open(struct al_profiling *p);
// Until the duration is over, all processes have ended, or a signal came. AL_E_NOMEM.
int al_profiling_sample(struct al_profiling *p);
// Parts of it. Whether a process is known, be it Python or not; looks who is there now; tries to open those that are not.
bool al_profiling_knows(const struct al_profiling *p, pid_t pid);
int al_profiling_look(struct al_profiling *p);
void al_profiling_try(struct al_profiling *p, int64_t now_ns);

// profile_start.c. Starts p->argv: 0, or an exit status with the message printed.
int al_profiling_start(struct al_profiling *p);
// Until there is Python in the command. AL_E_FORMAT: there never was; said.
int al_profiling_await(struct al_profiling *p);
// Whether there are processes below the command that are not known.
bool al_profiling_has_new(const struct al_profiling *p);
// Handles signals until then; false: the command has ended.
bool al_profiling_wait(struct al_profiling *p, int64_t until_ns);
// Waits for the command's end and leaves as it ended, or returns `status` where that was 0.
int al_profiling_end(struct al_profiling *p, int status);

// profile.c: makes sure that the place of p's options will take a profile, before anything is sampled or started; then writes
// p->profile there. Errors are printed.
int al_profiling_open_output(struct al_profiling *p, bool *ret_fresh);
int al_profiling_write(const struct al_profiling *p, const struct al_profile_about *about);

// profile_from.c: lists or writes profiles of the recording p->from; an exit status.
int al_profile_from(struct al_profiling *p);
// The recording of the running alula run of this user that watches a process. False: there is none.
bool al_profile_run_recording(pid_t pid, char *out, size_t size);

// A new profile; threads are met anew. AL_E_NOMEM.
int al_profiling_forget(struct al_profiling *p);
void al_profiling_counts(const struct al_profiling *p, struct al_stack_counts *ret);
void al_profiling_close(struct al_profiling *p);

// ---- profile_native.c: --native and --blocking ----
// With the target's sampler open. An error is told and kept in p->error for the process that was named.
int al_profiling_native_open(struct al_profiling *p, struct al_profile_target *t);
void al_profiling_native_close(struct al_profile_target *t); // before its sampler
// Thread i of the sample as it is to be counted. AL_E_NOMEM.
int al_profiling_native_thread(struct al_profiling *p, struct al_profile_target *t, size_t i, struct al_stack_thread *ret);
// Waits until the time, and meanwhile takes the pictures of running threads that come. False: a signal.
bool al_profiling_native_wait(struct al_profiling *p, int64_t until_ns);
void al_profiling_native_counts(const struct al_profiling *p, struct al_native_counts *ret);

#endif
