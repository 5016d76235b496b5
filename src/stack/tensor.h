// SPDX-License-Identifier: Apache-2.0
// A torch tensor's shape, type and device, out of the C++ object behind it. Its layout is not told anywhere and changes with
// releases: it is looked for, and believed where the number of elements that it notes is that of its shape.
#ifndef AL_STACK_TENSOR_H
#define AL_STACK_TENSOR_H

#include "stack/core/layout.h"
#include "stack/core/memory.h"

#define AL_TENSOR_TEXT 160

// Whether a type of this name may be one.
bool al_tensor_named(const char *type);
// "shape (3, 4), bfloat16, cuda:0" into out[AL_TENSOR_TEXT]. False: it is none, or no layout fits.
bool al_tensor_text(const struct al_memory *m, const struct al_layout *l, uint64_t object, char *out);

#endif
