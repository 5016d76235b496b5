// SPDX-License-Identifier: Apache-2.0
// How a process says that its steps are known (AL_TEXT_SOURCE): "NAME; data=exact forward=inferred ...; why not".
#ifndef AL_MODEL_TOLD_H
#define AL_MODEL_TOLD_H

#include <stddef.h>

// "exact", "inferred" or "none"; NULL where it says nothing of that part.
const char *al_told_confidence(const char *source, const char *part);
// Why a part is not known; "" when that is not said.
const char *al_told_reason(const char *source);
// Length of the name alone.
size_t al_told_name(const char *source);

#endif
