// SPDX-License-Identifier: Apache-2.0
// Symbols of a program or library that is mapped into the target: exported ones from its memory (no file is needed, so
// deleted files and containers are all the same), others and sections from its file. Nothing there is trusted.
#ifndef AL_STACK_OBJECT_H
#define AL_STACK_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/core/memory.h"

struct al_object {
    const struct al_memory *memory;
    uint64_t bias; // added to the file's addresses
    uint16_t machine, type;
    uint64_t strings, strings_size, symbols, gnu_hash, hash;
};

// The object whose header is mapped at `header`. False: not a 64-bit little-endian ELF.
bool al_object_open(struct al_object *o, const struct al_memory *memory, uint64_t header);
// Address of a defined, exported symbol; 0: none.
uint64_t al_object_symbol(const struct al_object *o, const char *name);
// The same from .symtab of the file. 0: none, or no such table.
uint64_t al_object_file_symbol(int fd, uint64_t bias, const char *name);
// Address and size of a section by its name. 0: none.
uint64_t al_object_file_section(int fd, uint64_t bias, const char *name, uint64_t *ret_size);

#endif
