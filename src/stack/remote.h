// SPDX-License-Identifier: Apache-2.0
// Another process's memory by process_vm_readv: nothing is stopped, nothing attached.
#ifndef AL_STACK_REMOTE_H
#define AL_STACK_REMOTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stack/core/memory.h"

struct al_remote {
    pid_t pid;
    int error;      // errno of the last read that failed for another reason than a bad address; 0 none
    uint64_t reads; // system calls
    uint32_t spent; // calls and pages since the caller began: past a bound all fails, so that a hostile process's look ends
};

// al_memory_gather_fn; user: struct al_remote *.
size_t al_remote_gather(void *user, const struct al_piece *pieces, size_t count, void *buffer);
// AL_E_GONE, AL_E_DENIED, or AL_E_FORMAT for an address that is not there.
int al_remote_error(const struct al_remote *r);

#endif
