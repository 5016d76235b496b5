// SPDX-License-Identifier: Apache-2.0
// Between attach.c and attach_find.c.
#ifndef AL_CLI_ATTACH_H
#define AL_CLI_ATTACH_H

#include "cli/run.h"
#include "launch/attach.h"

// The processes to attach to for a PID: itself, or the ranks below it where it is a launcher or no Python; with tree the
// ranks of its whole job. *ret_top: the top of what is watched.
int al_attach_find(struct al_attach *a, pid_t pid, bool tree, pid_t *ret_top);
// The processes around a PID into *s, by *host (the caller frees it; NULL at first). *ret: with tree the nearest launcher at or
// above the process, else the process itself.
int al_attach_top(pid_t pid, bool tree, struct al_host **host, struct al_snapshot *s, pid_t *ret);

#endif
