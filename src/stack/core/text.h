// SPDX-License-Identifier: Apache-2.0
// str and bytes objects of another interpreter, read with bounds.
#ifndef AL_STACK_CORE_TEXT_H
#define AL_STACK_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/core/layout.h"
#include "stack/core/memory.h"

#define AL_TEXT_MOST 4096 // bytes of UTF-8 of one name; longer ones are cut
// str objects of more characters than this are taken for damage
#define AL_TEXT_LENGTH_MOST (1u << 28)

// The text as UTF-8 with a NUL behind, cut to size - 1 bytes at a character's border; control characters become '?'.
// Surrogates become '?'. False: it could not be read, or is no str (out is "").
bool al_text_read(const struct al_memory *m, const struct al_layout *l, uint64_t address, char *out, size_t size);
// The length of a bytes object and where its content begins. False: unreadable, or longer than `most`.
bool al_bytes_head(const struct al_memory *m, const struct al_layout *l, uint64_t address, uint64_t most,
                   uint64_t *ret_data, uint64_t *ret_size);
// A C string of at most size - 1 bytes.
bool al_cstring_read(const struct al_memory *m, uint64_t address, char *out, size_t size);

#endif
