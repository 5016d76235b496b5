// SPDX-License-Identifier: Apache-2.0
// Names of functions as users read them, each kept once under a number.
#ifndef AL_UNWIND_TEXTS_H
#define AL_UNWIND_TEXTS_H

#include "unwind/unwind.h"

#define AL_TEXTS_MOST 1048576u      // numbers
#define AL_TEXTS_BYTES (128u << 20) // of all texts
#define AL_NAME_MOST 512u           // bytes of a name as shown; longer ones end in "..."

struct al_texts {
    struct al_unwind_symbol **blocks; // of AL_TEXTS_BLOCK, so that they never move
    uint32_t count;
    uint32_t *table; // number + 1 by hash
    uint32_t table_cap;
    struct al_text_block *strings;
    size_t bytes;
};

// *ret: the number; the texts are copied and cleaned. AL_E_NOMEM (also when the most is reached).
int al_texts_add(struct al_texts *t, const char *name, const char *object, const char *file, int32_t line, uint32_t *ret);
const struct al_unwind_symbol *al_texts_get(const struct al_texts *t, uint32_t number);
void al_texts_free(struct al_texts *t);

// C++ and Rust names as they were written, where the C++ library is there; others as they are.
void al_demangle(const char *raw, char *out, size_t size);

#endif
