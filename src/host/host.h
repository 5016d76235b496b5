// SPDX-License-Identifier: Apache-2.0
// The backends of struct al_host.
#ifndef AL_HOST_HOST_H
#define AL_HOST_HOST_H

#include "model/source.h"

struct al_procfs_options {
    const char *root;  // "/" or a made tree that holds proc/, sys/, etc/
    bool no_cmdline;   // leave commands out everywhere
};

// A process that ended but was not yet waited for by its parent is still in /proc: its row is alive, with state 'Z' and
// the command it had when last seen.
int al_procfs_open(const struct al_procfs_options *options, struct al_host **ret);
// Process trees that belong to the picture whether or not they use a GPU: the commands of jobs. Before the loop runs or on
// its thread; at most AL_PROCFS_ROOTS, the rest is left out. A backend of another kind ignores it.
#define AL_PROCFS_ROOTS 256
void al_procfs_roots(struct al_host *h, const pid_t *pids, size_t count);
// Starters of training (torchrun, accelerate, deepspeed, swift ...) by their command lines, on a machine's own /proc: those
// that stand below no other one nor below one of the `known`. Adds to pids[count], at most max; returns how many there are.
size_t al_host_find_trainings(pid_t *pids, size_t count, size_t max);
// Plays the host half of `source` (not taken over), its start at start_ns.
int al_replay_host(struct al_source *source, bool no_cmdline, int64_t start_ns, struct al_host **ret);
// The ranks of `source` likewise.
int al_replay_ranks(struct al_source *source, int64_t start_ns, struct al_ranks **ret);
struct al_host *al_host_free(struct al_host *h);

#endif
