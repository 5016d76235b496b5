// SPDX-License-Identifier: Apache-2.0
// How watched processes end: descriptors to wait on, a status where one can be had, out-of-memory kills.
#ifndef AL_LAUNCH_END_H
#define AL_LAUNCH_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Readable once the process ended; -1 where the kernel has none (before 5.3) or the process is gone.
int al_end_fd(pid_t pid);
// Status as waitpid gives it, of a process that is not our child: from its zombie, if its parent has left it so long.
bool al_end_status(int pidfd, pid_t pid, int *ret_status);
// Whether `pid` stands below `ancestor` in the process tree.
bool al_end_descends(pid_t pid, pid_t ancestor);

// Kills by the kernel's out-of-memory killer so far in the cgroup of `pid` (0: alula's own), v2 or v1. AL_E_NOENT where
// it cannot be read.
int al_end_oom_kills(pid_t pid, uint64_t *ret);
// CPUs that this process may use: its affinity, and the quota of its cgroup and those above (v2) where set.
double al_end_cpus(void);

#endif
