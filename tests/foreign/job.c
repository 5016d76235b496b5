// SPDX-License-Identifier: Apache-2.0
// cuda-job LIBCUDA [LIBNCCL [CALLS]]: a program without Python that uses CUDA, and NCCL.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *need(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        (void)fprintf(stderr, "cuda-job: %s: %s\n", name, dlerror());
        exit(1);
    }
    return found;
}

static void collectives(const char *path, int calls) {
    void *nccl = dlopen(path, RTLD_NOW);
    int (*open)(uint64_t, const char *, int, int, int);
    void (*call)(uint64_t, const char *, const char *, size_t);
    void (*close)(void);
    *(void **)(&open) = need(nccl, "standin_nccl_open");
    *(void **)(&call) = need(nccl, "standin_nccl_call");
    *(void **)(&close) = need(nccl, "standin_nccl_close");
    printf("mask %d\n", open(0x1234, "default_pg", 1, 2, 1));
    for (int i = 0; i < calls; i++) {
        call(0x1234, "AllReduce", "ncclFloat32", 1000);
        call(0x1234, "AllGather", "ncclBfloat16", 10);
        call(0x1234, "Send", "ncclInt64", 3);
    }
    if (!getenv("CUDA_JOB_LEAVES_NCCL"))
        close();
}

int main(int argc, char **argv) {
    void *cuda = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*init)(unsigned);
    int (*count)(int *);
    int devices = 0;
    *(void **)(&init) = need(cuda, "cuInit");
    *(void **)(&count) = need(cuda, "cuDeviceGetCount");
    int result = init(0);
    (void)count(&devices);
    printf("cuInit %d, %d device\n", result, devices);
    if (argc > 2)
        collectives(argv[2], argc > 3 ? atoi(argv[3]) : 1);
    (void)fflush(stdout);
    return 0;
}
