// SPDX-License-Identifier: Apache-2.0
// Memory of single processes and their control group, for who watches a few of them closely: no walk over /proc.
// Reading a process's status takes no lock of its own; its proportional set does, for a time that grows with its size.
#ifndef AL_HOST_MEMORY_H
#define AL_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct al_host_resident {
    uint64_t all, anon, file, shmem; // bytes
};
// AL_E_GONE, AL_E_DENIED, AL_E_FORMAT (a kernel before 4.5 does not tell them apart).
int al_host_resident(int root_fd, pid_t pid, struct al_host_resident *ret);

struct al_host_proportional {
    uint64_t all, anon;
    bool anon_known; // Linux 5.9 and newer
};
int al_host_proportional(int root_fd, pid_t pid, struct al_host_proportional *ret);

struct al_host_group {
    bool known, limit_known; // limit_known: the lowest of the group's and those above it
    uint64_t used, anon, file, shmem, limit;
};
// Of the process's control group, either version.
void al_host_group(int root_fd, pid_t pid, struct al_host_group *ret);

// DataLoader workers of a rank: its children with its own command line (forked), or that torch has named. Returns how many
// (at most max are filled in), -1 when the kernel lists no children or the process is gone.
int al_host_workers(int root_fd, pid_t pid, pid_t *ret, int max);

#endif
