// SPDX-License-Identifier: Apache-2.0
// The ring's way to the collector: one Unix socket, never waited for.
#ifndef AL_PROBE_HANDOVER_H
#define AL_PROBE_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// A descriptor together with what it was: the host may close any number and get it again for something of its own.
struct al_probe_fd {
    int fd; // -1 none
    dev_t dev;
    ino_t ino;
};

struct al_probe_fd al_probe_fd_take(int fd);
bool al_probe_fd_ours(const struct al_probe_fd *f);
void al_probe_fd_close(struct al_probe_fd *f);
// Gives back the memory behind it; mappings of it read as zero.
void al_probe_fd_empty(const struct al_probe_fd *f, size_t size);

// Connects to path; -1 when nobody listens or it would have to wait.
int al_probe_connect(const char *path);
// Sends the greeting with memfd; 0 or -1.
int al_probe_greet(int socket, int memfd, uint64_t start_ticks);
// False once the collector has closed its end.
bool al_probe_peer_there(int socket);

#endif
