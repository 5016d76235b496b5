// SPDX-License-Identifier: Apache-2.0
// Who is who in the process trees around the GPUs: a pure function of parentage, GPU use, users and rank variables.
// Names decide only where a tree ends (shells, init, ssh, container and batch daemons), what a GPU process serves
// (engines, notebooks), and whether a child was made by multiprocessing.
#ifndef AL_HOST_ROLES_H
#define AL_HOST_ROLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct al_proc;

struct al_role_node {
    // Given:
    pid_t pid, ppid;
    uid_t uid;    // (uid_t)-1 unknown
    bool gpu;         // holds a compute context
    bool trains, root; // a rank that tells of itself; the top of a job's tree, as the caller said
    uint64_t devices; // which GPUs, by position modulo 64
    int32_t rank, local_rank, world_size; // -1 unknown
    uint64_t meeting;         // of MASTER_ADDR and MASTER_PORT; 0 unknown
    uint64_t start_stack;       // equal in parent and child: forked without an exec; 0 when not known
    const char *comm, *exe;     // exe: last part
    const char *program, *verb; // host/command.h
    const char *command;        // whole, compared between parent and child; "" when not readable
    // Found:
    bool member; // belongs to a job; the others (shells, daemons) are only there to be climbed over
    uint32_t role;
    pid_t job;   // topmost process of its job; 0 for none
    pid_t owner; // a worker's rank, engine or notebook; else 0
    // Own use:
    int32_t parent, primary; // index; -1 none
    uint8_t seen;
    bool told; // at or below a root
};

// True for processes that end a job's tree upwards.
bool al_role_is_shell(const char *exe);
bool al_role_is_boundary(const char *exe, const char *program);
// Programs that start training, as al_program_parse gives them.
bool al_role_starts_training(const char *program, const char *verb);
// Whether `up` is of the very program that its child is: multiprocessing made that, a fork without an exec, or an engine that
// gave it its title.
bool al_role_is_made(const struct al_proc *child, const struct al_proc *up);
// nodes[count] sorted by pid, each pid once.
void al_roles_assign(struct al_role_node *nodes, size_t count);

#endif
