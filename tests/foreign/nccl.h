// SPDX-License-Identifier: Apache-2.0
#ifndef AL_TESTS_FOREIGN_NCCL_H
#define AL_TESTS_FOREIGN_NCCL_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

// The version that it plays: ALULA_STANDIN_NCCL, 22809 without.
EXPORT int ncclGetVersion(int *version);
// A communicator: what NCCL does with its profiler when one is made; the mask of events that the plugin asked for, -1
// without a plugin.
EXPORT int standin_nccl_open(uint64_t id, const char *name, int nodes, int ranks, int rank);
// One call, told as this version of NCCL would tell it.
EXPORT void standin_nccl_call(uint64_t id, const char *function, const char *type, size_t count);
EXPORT void standin_nccl_close(void);

// nccl_open.c: the plugin's library, by NCCL's rules for the name; NULL: none.
void *nccl_open_plugin(int version);

#endif
