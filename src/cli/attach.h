// SPDX-License-Identifier: Apache-2.0
// Between attach.c, attach_find.c and attach_late.c.
#ifndef AL_CLI_ATTACH_H
#define AL_CLI_ATTACH_H

#include "cli/run.h"
#include "launch/attach.h"

// The processes around a PID into *s, by *host (the caller frees it; NULL at first). *ret: with tree the nearest launcher at or
// above the process, else the process itself.
int al_attach_top(pid_t pid, bool tree, struct al_host **host, struct al_snapshot *s, pid_t *ret);
// Of each that was given up without a reason, what keeps it.
void al_attach_say_late(const struct al_attach *a);

// One shell, or one program that tries many settings, may have started several jobs: their ranks are told apart by WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT.
struct al_attach_job {
    pid_t top;
    const struct al_proc *rank; // the one that was named, or whose process was; NULL: none
    char several[480];          // the jobs below the top, in words that say what to do; "" where it is one
};
// The job of a process among those below `top`; it lives as long as *s.
void al_attach_job(const struct al_snapshot *s, pid_t pid, pid_t top, bool no_cmdline, struct al_attach_job *ret);
// Whether a process is at or below the top, and, where several jobs are, of that job.
bool al_attach_in_job(const struct al_snapshot *s, const struct al_attach_job *job, pid_t pid);

// The processes to attach to for a PID: itself, or the ranks below it where it is a launcher or no Python; with tree the
// ranks of its whole job. AL_E_INVALID: ret->several says why. ret->rank is NULL.
int al_attach_find(struct al_attach *a, pid_t pid, bool tree, struct al_attach_job *ret);

#endif
