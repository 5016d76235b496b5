// SPDX-License-Identifier: Apache-2.0
#include "launch/environment.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

#define ONE_STRING_MOST 131071 // Linux's MAX_ARG_STRLEN, less the NUL
#define NCCL_PATH_MOST 254     // NCCL cuts a longer name off
#define NCCL_PROFILER "libnccl-profiler.so"

static const char *const names[AL_WAY_COUNT] = {
    [AL_WAY_SOCKET] = "ALULA_SOCKET",
    [AL_WAY_PROBE] = "ALULA_PROBE",
    [AL_WAY_PYTHON] = "PYTHONPATH",
    [AL_WAY_CUDA] = "CUDA_INJECTION64_PATH",
    [AL_WAY_CUDA_CHAIN] = "ALULA_CHAINED_CUDA_INJECTION",
    [AL_WAY_NCCL] = "NCCL_PROFILER_PLUGIN",
    [AL_WAY_NVTX] = "ALULA_NVTX",
};

static void put(enum al_way way, const char *value) {
    if (value && strlen(names[way]) + 1 + strlen(value) > ONE_STRING_MOST)
        return; // with it nothing could be executed
    if (value)
        (void)setenv(names[way], value, 1);
    else
        (void)unsetenv(names[way]);
}

// Another alula run around this one, or the same one.
static bool is_probe(const char *path) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash && strcmp(slash + 1, "libalula-probe.so") == 0;
}

static bool is_file(const char *folder, size_t len, const char *name) {
    struct stat st;
    char *path = NULL;
    if (!len || asprintf(&path, "%.*s/%s", (int)len, folder, name) < 0)
        return false;
    bool found = stat(path, &st) == 0;
    free(path);
    return found;
}

// The hook in front; an outer alula's would start a second one.
static void put_hook(const char *hook) {
    struct al_buf b = AL_BUF_INIT;
    al_buf_str(&b, hook);
    const char *old = getenv(names[AL_WAY_PYTHON]);
    for (const char *p = old && *old ? old : NULL; p;) {
        size_t len = strcspn(p, ":");
        if (!is_file(p, len, "_alula_hook/__init__.py")) {
            al_buf_char(&b, ':');
            al_buf_add(&b, p, len); // an empty part is the working folder
        }
        p = p[len] ? p + len + 1 : NULL;
    }
    al_buf_char(&b, '\0');
    if (b.data && !b.failed)
        put(AL_WAY_PYTHON, b.data);
    al_buf_free(&b);
}

static void put_cuda(const char *probe) {
    const char *old = getenv(names[AL_WAY_CUDA]);
    if (old && *old && !is_probe(old))
        put(AL_WAY_CUDA_CHAIN, old);
    else if (!is_probe(old))
        put(AL_WAY_CUDA_CHAIN, NULL);
    put(AL_WAY_CUDA, probe);
}

static bool in_loader_cache(void) {
    struct stat st;
    int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    bool found = false;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        void *text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (text != MAP_FAILED) {
            found = memmem(text, (size_t)st.st_size, NCCL_PROFILER, sizeof NCCL_PROFILER) != NULL;
            (void)munmap(text, (size_t)st.st_size);
        }
    }
    if (fd >= 0)
        (void)close(fd);
    return found;
}

// The profiler that NCCL loads without being told to.
static bool has_default_profiler(void) {
    for (const char *p = getenv("LD_LIBRARY_PATH"); p && *p; p += strspn(p, ":;")) {
        size_t len = strcspn(p, ":;");
        if (is_file(p, len, NCCL_PROFILER))
            return true;
        p += len;
    }
    return in_loader_cache();
}

static void put_nccl(const char *probe) {
    const char *old = getenv(names[AL_WAY_NCCL]);
    bool taken = old && *old ? !is_probe(old) : has_default_profiler();
    if (!taken && strlen(probe) <= NCCL_PATH_MOST)
        put(AL_WAY_NCCL, probe);
}

void al_environment_set(const struct al_job_options *o, struct al_environment *ret) {
    for (int way = 0; way < AL_WAY_COUNT; way++) {
        const char *old = getenv(names[way]);
        ret->before[way] = old ? strdup(old) : NULL;
    }
    if (o->socket)
        put(AL_WAY_SOCKET, o->socket);
    if (o->probe)
        put(AL_WAY_PROBE, o->probe);
    if (o->nvtx && o->socket)
        put(AL_WAY_NVTX, "1");
    if (o->hook && o->socket)
        put_hook(o->hook);
    if (o->probe && o->socket) {
        put_cuda(o->probe);
        put_nccl(o->probe);
    }
}

void al_environment_undo(struct al_environment *e) {
    for (int way = 0; way < AL_WAY_COUNT; way++) {
        put((enum al_way)way, e->before[way]);
        free(e->before[way]);
        e->before[way] = NULL;
    }
}
