// SPDX-License-Identifier: Apache-2.0
// The Python processes below one that is none: a shell, a launcher, the first half of a bundled program.
#ifndef AL_STACK_BELOW_H
#define AL_STACK_BELOW_H

#include <stddef.h>
#include <sys/types.h>

// "43 (python3), 44 (worker) and 6 more"; "" when none is found among the descendants (which the kernel may not list).
void al_python_below(const char *procfs, pid_t pid, char *out, size_t size);

#endif
