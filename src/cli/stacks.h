// SPDX-License-Identifier: Apache-2.0
// What the commands that read stacks share: whose stacks, and how they are opened.
#ifndef AL_CLI_STACKS_H
#define AL_CLI_STACKS_H

#include "model/process.h"
#include "stack/stack.h"

enum al_stacks_reach {
    AL_STACKS_ONE,   // the process
    AL_STACKS_BELOW, // and all below it
    AL_STACKS_JOB,   // the whole job that it belongs to
};

struct al_stacks_process {
    pid_t pid, owner;    // owner: a worker's rank; 0 none
    uint32_t role;       // enum al_role
    int32_t rank, world; // a rank's own, or its worker's rank; -1 not known
    int32_t local_rank;  // of a rank; -1 not known
    pid_t parent;
    char state; // as in /proc/PID/stat; 0 not known
    bool helper; // multiprocessing's own: its fork server, its tracker of resources
    char command[AL_CMD_MAX];
};

struct al_stacks_who {
    struct al_stacks_process *list;
    uint32_t count;
    pid_t pid; // that was named
    pid_t top; // from where on processes were looked at: it, or a launcher above it
    struct al_stacks_ended {
        pid_t pid, parent;
    } *ended; // zombies in the tree
    uint32_t ended_count;
    char several[480]; // "" unless ranks of several jobs are among them: their names, and what to do
};

// The named process is among them even when nothing is known of it. top: that of a look before, which spares the way up;
// else 0. AL_E_NOMEM, or what /proc answers.
int al_stacks_find(struct al_stacks_who *who, pid_t pid, enum al_stacks_reach reach, bool no_cmdline, pid_t top);
// By a signal or a debugger.
static inline bool al_stacks_stopped(const struct al_stacks_process *p) {
    return p->state == 'T' || p->state == 't';
}
void al_stacks_free(struct al_stacks_who *who);
// Of a process that has just started (alula profile $! in a script), which is a shell still or whose interpreter is not up
// yet: returns when it can be read, or when it is no longer young.
void al_stacks_await(pid_t pid);
// "rank 1 of 2", "worker of rank 1 (4242)", "launcher"; "" when nothing is known.
void al_stacks_role(const struct al_stacks_process *p, char *out, size_t size);
// "3.13.0rc1"; "3.8" before 3.11
void al_stacks_version(uint32_t version, char *out, size_t size);
// A PID as an argument: 0 when it is none.
pid_t al_stacks_pid(const char *text);
// Samples a second, and a time in seconds (a bare number is seconds, as py-spy takes it), as arguments; false: neither.
#define AL_STACKS_RATE_DEFAULT 100
bool al_stacks_rate(const char *text, double *ret);
bool al_stacks_seconds(const char *text, double most, double *ret);
#define AL_STACKS_DURATION_MOST (366 * 86400.0)
// Whether an error of one process of several is worth a word: in a tree not all need be Python, not even the named one.
bool al_stacks_tells(const struct al_stacks_who *who, int error);

#endif
