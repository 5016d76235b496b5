// SPDX-License-Identifier: Apache-2.0
// Starting a command as it would be started without alula, and standing between it and whoever sends signals.
//
// The command stays in alula's process group: the terminal's Ctrl-C, Ctrl-Z, Ctrl-\ and hang-up reach it from the kernel
// as ever, alula sits still meanwhile, and the shell's job control sees one job. Nothing ties the job's life to alula's.
#ifndef AL_LAUNCH_JOB_H
#define AL_LAUNCH_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "launch/sentinel.h"

struct al_job_options {
    char *const *argv;  // NULL-ended; argv[0] is looked for on PATH
    const char *socket; // ALULA_SOCKET; NULL: nobody listens
    const char *probe;  // libalula-probe.so, absolute; NULL: not installed
    const char *hook;   // folder of the Python start hook; NULL: not installed
    bool nvtx;          // the hook is to put NVTX ranges around the phases
};

struct al_job {
    pid_t pid;
    bool ended;
    int status; // as waitpid gives it
    int signal_fd;
    sigset_t blocked, before; // before: the mask that alula was started with
    struct sigaction child_before;
    struct al_sentinel sentinel;
};

// How an orphan of the job that alula adopted (it is its reaper, as PID 1 or not) ended.
typedef void al_job_orphan_fn(void *user, pid_t pid, int status);

// Blocks signals and starts the command; call while alula has one thread. 0, AL_E_IO (fork failed), AL_E_NOENT or
// AL_E_DENIED (exec failed); *ret_errno tells why.
int al_job_start(const struct al_job_options *options, struct al_job *ret, int *ret_errno);
// What to say of a command that did not start.
const char *al_job_why(const char *program, int result, int error);
// Handles the signals that came: passes on, reaps. Returns the last number that was for the job's end (SIGTERM,
// SIGINT, SIGHUP, SIGQUIT) or 0.
int al_job_signals(struct al_job *j, al_job_orphan_fn *fn, void *user);
// Reaps everything that is there to be reaped.
void al_job_reap(struct al_job *j, al_job_orphan_fn *fn, void *user);
void al_job_done(struct al_job *j);
// Ends alula the way the job ended: by the same signal (without a core of its own), or with its status.
_Noreturn void al_job_exit_as(struct al_job *j);

#endif
