// SPDX-License-Identifier: Apache-2.0
// Functions by (file, qualified name, first line): one number each, as long as the sampler lives.
#ifndef AL_STACK_INTERN_H
#define AL_STACK_INTERN_H

#include "stack/stack.h"

#define AL_INTERN_MOST (1u << 20) // functions of one process; generated ones beyond share "(too many functions)"

struct al_intern {
    struct al_stack_code *codes;
    uint32_t count, cap;
    uint32_t *table; // number + 1; 0 free
    uint32_t table_cap;
};

// AL_STACK_NO_CODE: out of memory.
uint32_t al_intern_add(struct al_intern *t, const char *filename, const char *name, const char *qualname,
                       int32_t first_line);
void al_intern_free(struct al_intern *t);

#endif
