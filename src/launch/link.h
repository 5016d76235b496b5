// SPDX-License-Identifier: Apache-2.0
// The Unix socket at which watched processes hand over their rings.
#ifndef AL_LAUNCH_LINK_H
#define AL_LAUNCH_LINK_H

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>

#include "ring/ring.h"

#define AL_LINK_PENDING 32 // connections that have not said anything yet

struct al_link {
    int listen_fd;
    int dir_fd;     // holds a lock on the folder while alula runs
    int place_fd;   // the folder that dir lies in
    uid_t guest;    // another user who may hand rings over; (uid_t)-1 none
    char dir[80];   // 0700, ours alone
    char path[100]; // for ALULA_SOCKET; sun_path holds 108 bytes
    struct {
        int fd; // -1 free
        int64_t since_ns;
    } pending[AL_LINK_PENDING];
    uint64_t refused;
};

// A process that handed its ring over. Both descriptors are the taker's.
struct al_link_guest {
    int ring_fd;       // sealed against shrinking
    int connection_fd; // kept open, so that the process sees when its collector is gone
    pid_t pid;         // as seen from here, told by the kernel
    struct al_ring_hello hello;
};

// In a new folder below XDG_RUNTIME_DIR, else /tmp. AL_E_IO, AL_E_DENIED.
int al_link_open(struct al_link *l);
// The same in a new folder below `place`, which may lie in another process's root.
int al_link_open_below(struct al_link *l, const char *place);
// The same at the path that a running process was given (its ALULA_SOCKET), after the alula behind it has gone: its probe
// tries the path again at step ends. AL_E_AGAIN: an alula still listens there; AL_E_INVALID: not such a path.
int al_link_take_over(struct al_link *l, const char *path);
// Removes the folder and what is in it; fine on a zeroed struct after open failed.
void al_link_close(struct al_link *l);
// Descriptors to wait for; returns how many (at most 1 + AL_LINK_PENDING).
uint32_t al_link_poll(const struct al_link *l, struct pollfd *ret);
// The next guest: 0, or AL_E_AGAIN. Whoever is another user, sends another message, or an unsealed ring is refused.
int al_link_take(struct al_link *l, int64_t now_ns, struct al_link_guest *ret);

#endif
