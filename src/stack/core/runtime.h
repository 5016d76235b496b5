// SPDX-License-Identifier: Apache-2.0
#ifndef AL_STACK_CORE_RUNTIME_H
#define AL_STACK_CORE_RUNTIME_H

#include "stack/core/layout.h"
#include "stack/core/memory.h"

// Whether `runtime` is one: its first interpreter's first thread points back. 1 yes, 0 no, -1: it has no interpreter
// yet.
int al_runtime_check(const struct al_memory *m, const struct al_layout *l, uint64_t runtime);

#endif
