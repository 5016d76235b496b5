// SPDX-License-Identifier: Apache-2.0
// Bringing the start hook into running processes, and taking it out again.
//
// Each is given a line that makes it connect to a second socket in the link's folder, so that alula knows of it, and then
// load the hook, which it reads as one file. It says when the hook is in place, and waits: a word, or the end of that
// connection by whatever cause, makes it take everything out again; when the connection ends the ring is given back. A
// process that comes to run its line only after alula has given up finds no socket and does nothing.
#ifndef AL_LAUNCH_ATTACH_H
#define AL_LAUNCH_ATTACH_H

#include <poll.h>

#include "launch/inject.h"
#include "launch/link.h"

#define AL_ATTACH_MOST 256 // processes of one job on this node
#define AL_ATTACH_WORD 512 // bytes of what a process says

enum al_attach_state {
    AL_ATTACH_FOUND,    // may be attached to
    AL_ATTACH_REFUSED,  // why tells
    AL_ATTACH_ASKED,    // given its line
    AL_ATTACH_THERE,    // the hook is in place
    AL_ATTACH_LEAVING,  // told to take it out
    AL_ATTACH_LEFT,     // it has
    AL_ATTACH_ENDED     // the process ended
};

struct al_attach_process {
    pid_t pid;
    enum al_attach_state state;
    int fd; // its connection; -1
    bool heard; // it has connected: its line was run
    int error; // REFUSED: al_error
    struct al_inject how;
    char why[AL_INJECT_WHY];
    char word[AL_ATTACH_WORD]; // what it said last
};

struct al_attach {
    struct al_attach_process *processes; // AL_ATTACH_MOST
    uint32_t count;
    // Where they are, the same for all:
    bool foreign;     // in another root or of another user: it gets a copy of the probe
    uid_t uid;
    gid_t gid;
    char root[32];    // "/proc/77/root"; "" when it is ours
    int control_fd;
    char control[116];
    size_t script_size; // bytes of the script that each is given
};

int al_attach_init(struct al_attach *a);
void al_attach_free(struct al_attach *a);
// Looks at a process and keeps it, refused or not. AL_E_TOOBIG.
int al_attach_add(struct al_attach *a, pid_t pid);
// Opens `link` where those found can reach it, and puts there what they need. hook: the folder of _alula_hook.
int al_attach_open(struct al_attach *a, struct al_link *link, const char *hook, const char *probe, char *why, size_t size);
// Gives each its line.
void al_attach_ask(struct al_attach *a, const struct al_link *link);
uint32_t al_attach_poll(const struct al_attach *a, struct pollfd *ret); // at most 1 + AL_ATTACH_MOST
// Takes what they say.
void al_attach_hear(struct al_attach *a);
uint32_t al_attach_count(const struct al_attach *a, enum al_attach_state state);
// Those that have not said that they are there are refused, with AL_E_TIMEOUT. One may still come, finds nobody, and takes out
// what it has loaded.
void al_attach_give_up(struct al_attach *a);
// Gives up those that have not answered, and tells those that are there to leave. Those that leave need
// al_attach_hear for their word.
void al_attach_leave(struct al_attach *a);

#endif
