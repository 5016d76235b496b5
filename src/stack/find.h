// SPDX-License-Identifier: Apache-2.0
// Where a process keeps its Python interpreter, and how that one lays things out.
#ifndef AL_STACK_FIND_H
#define AL_STACK_FIND_H

#include "stack/core/runtime.h"
#include "stack/maps.h"
#include "stack/remote.h"
#include "stack/stack.h"

struct al_found {
    struct al_layout layout;
    uint32_t version; // PY_VERSION_HEX, as far as known
    bool table;
    uint64_t runtime;
    const char *how;
    char object[512];
    uint64_t code_type; // address of PyCode_Type; 0 not known
};

int al_find_python(struct al_found *ret, const struct al_memory *m, const struct al_areas *areas, const char *procfs,
                   pid_t pid, struct al_stack_error *error);
// Where a section of a mapped file lies in the process: of a file by its whole path, or by how its last part begins. 0: none.
uint64_t al_find_section(const struct al_memory *m, const struct al_areas *areas, const char *procfs, pid_t pid, const char *file,
                         const char *section, uint64_t *ret_size);

#endif
