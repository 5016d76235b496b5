// SPDX-License-Identifier: Apache-2.0
// Two calls by number: with headers of today's glibc their symbols are GLIBC_2.28 and 2.33, and a probe that is loaded
// into somebody's Python has to do with 2.17. 64-bit only, where the kernel's struct stat is libc's.
#ifndef AL_RING_CALLS_H
#define AL_RING_CALLS_H

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8, "fstat by number fits struct stat on 64-bit Linux only");

static inline int al_ring_fcntl(int fd, int command, long argument) {
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

static inline int al_ring_fstat(int fd, struct stat *st) {
    return (int)syscall(SYS_fstat, fd, st);
}

#endif
