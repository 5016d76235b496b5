// SPDX-License-Identifier: Apache-2.0
// torch's allocator as a process told of it: backend, settings, and how its settings are changed in this torch.
#ifndef AL_DETECT_ALLOCATOR_H
#define AL_DETECT_ALLOCATOR_H

#include "tally/tally.h"

struct al_allocator {
    bool known;      // the process told
    bool async;      // backend cudaMallocAsync: no blocks, no fragmentation figures
    bool expandable; // expandable_segments is on already
    char backend[32], settings[128]; // settings: those that hold
    const char *variable;    // that holds them, or would; a static text
    const char *not_read[2]; // variables that are set and that this torch does not look at; NULL none
};

void al_allocator_of(const struct al_tally *t, struct al_allocator *ret);
// What to do against fragmentation, only if it is not done already.
void al_allocator_advise(const struct al_allocator *a, char *out, size_t size);

#endif
