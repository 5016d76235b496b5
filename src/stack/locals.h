// SPDX-License-Identifier: Apache-2.0
// The local variables of a thread's frames, read after a sample and checked against the stack once more afterwards.
#ifndef AL_STACK_LOCALS_H
#define AL_STACK_LOCALS_H

#include "stack/stack.h"
#include "stack/value.h"

#define AL_LOCALS_MOST 64u // variables of one frame

struct al_stack_local {
    char name[64];
    char type[AL_VALUE_TYPE];  // "" unreadable
    char value[AL_VALUE_TEXT]; // "" none: only its type is told
    uint64_t bits;             // the reference as it was read
    uint32_t slot;             // its place in the frame
    bool changed;              // it was bound to something else while it was read: type and value are left out
};

struct al_stack_locals {
    struct al_stack_local *list;
    uint32_t count, left_out; // left_out: more than AL_LOCALS_MOST
    uint32_t slots;           // that were read of the frame
    bool moved;               // the frame went on or ended meanwhile: nothing is told
};

struct al_stack_locals_options { // as in struct al_values
    bool (*secret)(const char *name);
    void (*mask)(char *text, size_t size);
};

// For each frame of a thread of the last sample one entry (frames without functions' variables, such as a module's, have
// none). Free them with al_stack_locals_free(ret, t->count). AL_E_NOMEM. t and
// its frames stay as they are.
int al_stack_locals(struct al_stack *s, const struct al_stack_thread *t, const struct al_stack_locals_options *o,
                    struct al_stack_locals **ret);
void al_stack_locals_free(struct al_stack_locals *list, uint32_t count);

#endif
