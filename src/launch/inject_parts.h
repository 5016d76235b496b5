// SPDX-License-Identifier: Apache-2.0
// Between the files of inject.h.
#ifndef AL_LAUNCH_INJECT_PARTS_H
#define AL_LAUNCH_INJECT_PARTS_H

#include <signal.h>

#include "launch/inject.h"

#define AL_INJECT_STUB 64 // bytes of code in front of the line
#define AL_INJECT_ROOM (AL_INJECT_STUB + AL_INJECT_LINE_MAX)

// inject_stop.c. Where a test lets the tracer die.
enum al_inject_death { AL_INJECT_LIVES, AL_INJECT_DIES_STOPPED, AL_INJECT_DIES_CALLING };
bool al_inject_is_stub(const uint8_t *bytes);
int al_inject_by_stop(const struct al_inject *t, const char *line, enum al_inject_death death, char *why, size_t size);

// inject_remote.c
void al_inject_look_remote(struct al_inject *t);
int al_inject_by_remote(const struct al_inject *t, const char *script, char *why, size_t size);

#endif
