// SPDX-License-Identifier: Apache-2.0
// The part of libcuda.so.1 that matters here, as driver 580.159 was seen to do it: at the first cuInit the library named
// in CUDA_INJECTION64_PATH is opened with RTLD_NOW and its InitializeInjection called; whatever fails there is passed
// over without a word.
#include <dlfcn.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT int cuInit(unsigned flags);
EXPORT int cuDeviceGetCount(int *count);

int cuInit(unsigned flags) {
    static int done;
    if (flags)
        return 1; // CUDA_ERROR_INVALID_VALUE
    if (done++)
        return 0;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
    int (*start)(void) = NULL;
    if (library)
        *(void **)(&start) = dlsym(library, "InitializeInjection");
    if (start)
        (void)start();
    return 0;
}

int cuDeviceGetCount(int *count) {
    *count = 1;
    return 0;
}
