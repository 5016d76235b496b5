// SPDX-License-Identifier: Apache-2.0
// Exported functions of a running program, looked up in its own memory: no file is opened, so containers, deleted and
// replaced files are all the same. Whatever the memory says is checked; nothing there can make a look-up long.
#ifndef AL_LAUNCH_INJECT_ELF_H
#define AL_LAUNCH_INJECT_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// False unless all `size` bytes at `address` could be read.
typedef bool al_elf_read_fn(void *user, uint64_t address, void *out, size_t size);

struct al_elf {
    al_elf_read_fn *read;
    void *user;
    uint64_t bias; // what is added to addresses in the file
    uint16_t machine;
    uint8_t class; // 1: 32 bit, 2: 64 bit
    // Of the executable segment: [end of its content, end of its last page).
    uint64_t text_end;
    // Own use:
    uint64_t strings, symbols, hash;
    uint64_t strings_size;
};

// The object whose header is mapped at `header`. AL_E_FORMAT: not ELF, or damaged; AL_E_UNSUPPORTED: 32 bit (class and
// machine are set).
int al_elf_open(struct al_elf *e, al_elf_read_fn *read, void *user, uint64_t header);
// Address of a defined, exported symbol; 0 none.
uint64_t al_elf_symbol(const struct al_elf *e, const char *name);

#endif
