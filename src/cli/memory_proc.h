// SPDX-License-Identifier: Apache-2.0
// What /proc knows of single pids, for alula memory: does it exist, whose child or thread is it, is it a namespace's
// name for another process.
#ifndef AL_CLI_MEMORY_PROC_H
#define AL_CLI_MEMORY_PROC_H

#include <stdbool.h>
#include <sys/types.h>

// The root folder that the session reads (ALULA_HOST_ROOT or "/"); -1 when it cannot be opened.
int al_memory_proc_root(void);
bool al_memory_proc_exists(int root, pid_t pid);
// 0 when not known.
pid_t al_memory_proc_parent(int root, pid_t pid);
// The process that `pid` is a thread of; `pid` itself for a process, 0 when not known.
pid_t al_memory_proc_leader(int root, pid_t pid);
// True when a nested pid namespace calls the process `inner` (NSpid's later fields). Its own pid does not count.
bool al_memory_proc_is_called(int root, pid_t pid, pid_t inner);
// 1: has a file below /dev/nvidia* open, as every process with a context does; 0: has none; -1: not allowed to look.
int al_memory_proc_uses_gpu(int root, pid_t pid);

#endif
