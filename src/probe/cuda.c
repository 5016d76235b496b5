// SPDX-License-Identifier: Apache-2.0
// The way in through the CUDA driver: cuInit loads the library that CUDA_INJECTION64_PATH names and calls its
// InitializeInjection, in any program that uses CUDA, with or without Python.
//
// What the driver does (tried on 580.159): dlopen(path, RTLD_NOW) once, at the first cuInit; a path that leads nowhere,
// something that is no library, one without the function, and any returned value are all passed over in silence, and
// CUDA goes on. A list of paths is none. So a job that enters a container without the probe loses nothing, and whoever
// was there before alula is served the same way.
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "model/event.h"
#include "probe/dynamic.h"
#include "probe/probe.h"

#define RECORD_VERSION 1 // of HELLO

AL_PROBE_EXPORT int InitializeInjection(void);

// By hand: strtoll of today's headers is a symbol that no older glibc has.
static int64_t number(const char *name, int64_t unknown) {
    const char *text = getenv(name);
    int64_t value = 0;
    if (!text || !*text || strlen(text) > 9)
        return unknown;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return unknown;
        value = value * 10 + (*text - '0');
    }
    return value;
}

static void chain(const char *path) {
    if (!path || !path[0] || !al_probe_has_loader())
        return;
    void *library = dlopen(path, RTLD_NOW);
    int (*initialize)(void) = NULL;
    if (library)
        *(void **)(&initialize) = dlsym(library, "InitializeInjection");
    if (initialize && initialize != InitializeInjection) // not in a circle
        (void)initialize();
    // It stays loaded, as where the driver loads it.
} // cppcheck-suppress resourceLeak

// A process of which only this is known has no steps to tell of; the Python hook says more when it has more.
void al_probe_introduce(void) {
    static const char source[] = AL_SOURCE_CUDA;
    if (getauxval(AT_SECURE) || al_probe_introduced())
        return;
    (void)alula_probe_mark(AL_EVENT_HELLO, RECORD_VERSION, -1, number("RANK", -1), number("WORLD_SIZE", 0));
    (void)alula_probe_text(AL_TEXT_SOURCE, source, sizeof source - 1); // kept for a later collector, too
}

int InitializeInjection(void) {
    al_probe_introduce();
    if (!getauxval(AT_SECURE))
        chain(getenv("ALULA_CHAINED_CUDA_INJECTION"));
    return 1;
}
