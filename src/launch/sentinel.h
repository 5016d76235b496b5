// SPDX-License-Identifier: Apache-2.0
// Tells a signal to the whole process group (which the job has got itself) from one to alula alone (to be passed on).
//
// The kernel does not say to whom kill() was addressed. A tiny child in the same group does: what it gets as well was
// for the group (kill %1 in a shell, `kill 0` in a job's script, timeout), and passing it on would hit the job twice,
// which many launchers take as "at once, without cleaning up".
#ifndef AL_LAUNCH_SENTINEL_H
#define AL_LAUNCH_SENTINEL_H

#include <signal.h>
#include <stdbool.h>

struct al_sentinel {
    pid_t pid; // 0 none
    int fd;
};

// Call before other threads exist. Without one (fork failed) every signal counts as being for alula alone.
void al_sentinel_start(struct al_sentinel *s, const sigset_t *signals);
void al_sentinel_stop(struct al_sentinel *s);
// Whether the group got this signal too; waits up to 0.1 s for the word of it.
bool al_sentinel_saw(struct al_sentinel *s, int number);

#endif
