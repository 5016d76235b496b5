// SPDX-License-Identifier: Apache-2.0
// How a process may reach other ranks, seen from outside: what it holds open of InfiniBand, and the few variables that
// decide what NCCL takes.
#ifndef AL_HOST_TRANSPORT_H
#define AL_HOST_TRANSPORT_H

#include <stddef.h>
#include <sys/types.h>

// "verbs_open=2 verbs_devices=4 local_world=8 NCCL_NET=Socket ..." into out; what cannot be read is not named. The
// environment is the one that the process was started with. AL_E_NOENT, AL_E_DENIED when nothing of it can be read.
int al_transport_text(int root_fd, pid_t pid, char *out, size_t size);

// The environment's part of it, behind what b holds; a last entry without its NUL was cut off and is not used.
struct al_buf;
void al_transport_environ(struct al_buf *b, const char *text, size_t len);

#endif
