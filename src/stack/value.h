// SPDX-License-Identifier: Apache-2.0
// Objects of another interpreter as short texts: what a variable holds. Nothing is called there, nothing is believed, and
// each look is bounded in depth, items, bytes and reads.
#ifndef AL_STACK_VALUE_H
#define AL_STACK_VALUE_H

#include "stack/core/layout.h"
#include "stack/core/memory.h"

#define AL_VALUE_TEXT 256 // bytes of a value's text with its NUL
#define AL_VALUE_TYPE 64
#define AL_VALUE_TYPES 128 // types that are kept; a power of 2

struct al_value_type {
    uint64_t address; // 0: a free place
    uint64_t flags;
    char name[AL_VALUE_TYPE];
};

struct al_values {
    const struct al_memory *memory;
    const struct al_layout *layout;
    bool (*secret)(const char *name); // whether what has this name is not to be shown; NULL: all is
    void (*mask)(char *text, size_t size); // changes a str's text in place before it is shown; NULL: nothing
    struct al_value_type types[AL_VALUE_TYPES];
};

// Its type; NULL: no object, or unreadable.
const struct al_value_type *al_value_type(struct al_values *v, uint64_t object);
// "12", "'text'", "[1, 2, ... of 100]", "shape (3, 4)" of an array; "" for what only its type is told of. out has AL_VALUE_TEXT bytes.
// False: no object, or unreadable.
bool al_value_text(struct al_values *v, uint64_t object, char *out);
// A small int that is kept in the reference itself (3.14 on).
void al_value_tagged(uint64_t bits, char *out);

#endif
