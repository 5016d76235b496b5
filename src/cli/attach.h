// SPDX-License-Identifier: Apache-2.0
// Between attach.c and attach_find.c.
#ifndef AL_CLI_ATTACH_H
#define AL_CLI_ATTACH_H

#include "cli/run.h"
#include "launch/attach.h"

// The processes to attach to for a PID: itself, or the ranks below it where it is a launcher or no Python; with tree the
// ranks of its whole job. *ret_top: the top of what is watched.
int al_attach_find(struct al_attach *a, pid_t pid, bool tree, pid_t *ret_top);

#endif
