// SPDX-License-Identifier: Apache-2.0
// How NCCL finds its profiler plugin: NCCL_PROFILER_PLUGIN as a name for the loader, then, unless it looks like a file,
// libnccl-profiler-NAME.so; without the variable libnccl-profiler.so. "none" is none.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nccl.h"

#define NAME_MOST 255

static int looks_like_a_file(const char *name) {
    size_t len = strlen(name);
    return strchr(name, '/') || (strncmp(name, "lib", 3) == 0 && len >= 3 && strcmp(name + len - 3, ".so") == 0);
}

void *nccl_open_plugin(int version) {
    char name[NAME_MOST];
    const char *told = getenv("NCCL_PROFILER_PLUGIN");
    if (version < 22300 || (told && strcasecmp(told, "none") == 0))
        return NULL;
    (void)snprintf(name, sizeof name, "%s", told && *told ? told : "libnccl-profiler.so");
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library || !told || !*told || looks_like_a_file(told))
        return library;
    (void)snprintf(name, sizeof name, "libnccl-profiler-%s.so", told);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}
