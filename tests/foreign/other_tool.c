// SPDX-License-Identifier: Apache-2.0
// Another tool in alula's place: says on stderr that it was called.
#include <stdio.h>

#include "nccl.h"

EXPORT int InitializeInjection(void);
EXPORT int InitializeInjection(void) {
    (void)fputs("other tool: CUDA\n", stderr);
    return 1;
}

static int init(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, void *log) {
    (void)id, (void)name, (void)nodes, (void)ranks, (void)rank, (void)log;
    (void)fputs("other tool: NCCL\n", stderr);
    *context = NULL;
    *mask = 0;
    return 0;
}

static int finalize(void *context) {
    (void)context;
    return 0;
}

EXPORT extern const struct {
    const char *name;
    int (*init)(void **, uint64_t, int *, const char *, int, int, int, void *);
    void *events[3]; // none is asked for
    int (*finalize)(void *);
} ncclProfiler_v5;
const __typeof__(ncclProfiler_v5) ncclProfiler_v5 = {.name = "other", .init = init, .finalize = finalize};
