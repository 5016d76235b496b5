// SPDX-License-Identifier: Apache-2.0
// Preloaded into an interpreter: counts how often threads other than the main one let go of its lock (the GIL), or take it,
// each of which CPython 3.8 to 3.14 tells the others by one pthread_cond_signal.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static _Atomic long count;

PUBLIC long gil_count(void);

long gil_count(void) {
    return count;
}

PUBLIC int pthread_cond_signal(pthread_cond_t *cond) {
    int (*original)(pthread_cond_t *);
    void *found = dlsym(RTLD_NEXT, "pthread_cond_signal");
    memcpy(&original, &found, sizeof original);
    if (gettid() != getpid())
        count++;
    return original(cond);
}
