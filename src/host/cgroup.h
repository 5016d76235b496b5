// SPDX-License-Identifier: Apache-2.0
// Where a process sits: control groups of both versions, and the container, pod or Slurm job that their paths tell.
#ifndef AL_HOST_CGROUP_H
#define AL_HOST_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

#define AL_CGROUP_PATH_MAX 512

// /proc/PID/cgroup. A path too long for its array is left out ("" = not known), since a cut path names another group.
struct al_cgroup {
    char unified[AL_CGROUP_PATH_MAX]; // v2
    char memory[AL_CGROUP_PATH_MAX];  // v1 memory controller; wins over unified when not ""
    char cpu[AL_CGROUP_PATH_MAX];     // v1 cpu controller
    char named[AL_CGROUP_PATH_MAX];   // v1 name=systemd
    char container[72];               // docker, containerd, CRI-O, podman: 64 hex digits; LXC: its name
    char pod[72];                     // Kubernetes pod UID with '-'
    char slurm_job[24];
};
// Pure; text[len] is untrusted and ends with NUL.
void al_cgroup_parse(const char *text, struct al_cgroup *ret);
// The path worth showing: the unified one unless it says nothing, then v1's.
const char *al_cgroup_show(const struct al_cgroup *c);

#endif
