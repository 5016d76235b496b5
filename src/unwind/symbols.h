// SPDX-License-Identifier: Apache-2.0
// Functions of an ELF file, by address. Names stay in the file until they are asked for: those of a large library are
// tens of megabytes.
#ifndef AL_UNWIND_SYMBOLS_H
#define AL_UNWIND_SYMBOLS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct al_bytes { // a file, or one in memory; read by offset, never mapped, so that it may shrink under the reader
    int fd;       // -1: data
    unsigned char *data;
    uint64_t size;
};

bool al_bytes_read(const struct al_bytes *b, uint64_t offset, void *out, size_t size);

// Bytes of its build id, 0: none.
uint32_t al_bytes_build_id(const struct al_bytes *b, unsigned char *out, uint32_t size);
// A section by type (0: any) and name (NULL: any); *ret_number its number where not NULL.
bool al_bytes_section(const struct al_bytes *b, uint32_t type, const char *name, Elf64_Shdr *ret, Elf64_Shdr *ret_link);

struct al_symbol {
    uint64_t address; // the file's
    uint32_t size;
    uint32_t name : 31, second : 1; // in which string table
};

struct al_symbol_table {
    struct al_bytes from; // size 0: no table
    uint64_t at, count;   // Elf64_Sym
    uint64_t names, names_size;
};

struct al_symbols {
    struct al_symbol *list; // by address, one an address
    uint32_t count;
    struct al_symbol_table tables[2];
};

#define AL_SYMBOLS_MOST 4000000u // of one file

void al_bytes_close(struct al_bytes *b);
// The table of a type (SHT_SYMTAB, SHT_DYNSYM), which may be empty of functions. False: there is none.
bool al_symbol_table(const struct al_bytes *b, uint32_t type, struct al_symbol_table *ret);
// Takes over both tables' bytes, also when it fails. AL_E_FORMAT: no functions; AL_E_NOMEM.
int al_symbols_open(struct al_symbols *s, const struct al_symbol_table *first, const struct al_symbol_table *second);
void al_symbols_free(struct al_symbols *s);
uint64_t al_symbols_bytes(const struct al_symbols *s); // of memory
// The function at an address of the file; NULL: none.
const struct al_symbol *al_symbols_find(const struct al_symbols *s, uint64_t address);
// Its raw name; false: it cannot be read.
bool al_symbols_name(const struct al_symbols *s, const struct al_symbol *symbol, char *out, size_t size);

#endif
