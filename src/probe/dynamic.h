// SPDX-License-Identifier: Apache-2.0
// The dynamic loader's functions by their oldest name. Since glibc 2.34 they are libc's own, under a version that an
// older libc has not; the old name is there in every one, in libdl before 2.34. Weak: a program that is linked without
// libdl on such an old system has none of them, and then nothing is asked of the loader.
#ifndef AL_PROBE_DYNAMIC_H
#define AL_PROBE_DYNAMIC_H

#include <dlfcn.h>
#include <stdbool.h>

#if defined(__GLIBC__) && defined(__x86_64__)
#define AL_PROBE_OLDEST "GLIBC_2.2.5"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define AL_PROBE_OLDEST "GLIBC_2.17"
#endif

#ifdef AL_PROBE_OLDEST
__asm__(".symver dlopen, dlopen@" AL_PROBE_OLDEST);
__asm__(".symver dlsym, dlsym@" AL_PROBE_OLDEST);
__asm__(".symver dlclose, dlclose@" AL_PROBE_OLDEST);
__asm__(".symver dladdr, dladdr@" AL_PROBE_OLDEST);
#endif

#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose
#pragma weak dladdr

static inline bool al_probe_has_loader(void) {
    void *(*open)(const char *, int) = dlopen;
    void *(*symbol)(void *, const char *) = dlsym;
    int (*close)(void *) = dlclose;
    int (*address)(const void *, Dl_info *) = dladdr;
    return open && symbol && close && address;
}

#endif
