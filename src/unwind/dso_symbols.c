// SPDX-License-Identifier: Apache-2.0
// Where an object's functions are named: its own full table, that of its debugging file, the small packed one, or only what
// it exports; of what has no file that can be read, what it exports, from memory.
#include <stdlib.h>

#include "base/err.h"
#include "unwind/objects.h"
#include "unwind/xz.h"

#define HEADERS_MOST 128u
#define DYNAMIC_MOST 512u
#define MEMORY_MOST (16u << 20) // of tables copied from memory
#define RELOCATIONS 256u // read at once
#define VDSO_MOST (1u << 20)

static bool copy(const struct al_objects *o, uint64_t from, uint64_t size, struct al_bytes *ret) {
    unsigned char *data = size ? malloc(size) : NULL;
    if (data && al_memory_get(o->memory, from, data, (uint32_t)size)) {
        *ret = (struct al_bytes){-1, data, size};
        return true;
    }
    free(data);
    return false;
}

static uint64_t dynamic_section(const struct al_objects *o, const struct al_dso *d) {
    Elf64_Ehdr h;
    Elf64_Phdr p;
    if (!al_memory_get(o->memory, d->header, &h, sizeof h) || h.e_phnum > HEADERS_MOST || h.e_phentsize != sizeof p)
        return 0;
    for (unsigned i = 0; i < h.e_phnum; i++)
        if (al_memory_get(o->memory, d->header + h.e_phoff + i * sizeof p, &p, sizeof p) && p.p_type == PT_DYNAMIC)
            return d->bias + p.p_vaddr;
    return 0;
}

// No count of the symbols is loaded; linkers put the strings right behind them.
static bool table_in_memory(const struct al_objects *o, const struct al_dso *d, struct al_symbol_table *ret) {
    uint64_t at = dynamic_section(o, d), symbols = 0, strings = 0, size = 0;
    for (unsigned i = 0; at && i < DYNAMIC_MOST; i++) {
        Elf64_Dyn e;
        if (!al_memory_get(o->memory, at + i * sizeof e, &e, sizeof e) || e.d_tag == DT_NULL)
            break;
        uint64_t address = e.d_un.d_ptr < d->bias ? e.d_un.d_ptr + d->bias : e.d_un.d_ptr; // glibc's loader writes these
        symbols = e.d_tag == DT_SYMTAB ? address : symbols;
        strings = e.d_tag == DT_STRTAB ? address : strings;
        size = e.d_tag == DT_STRSZ ? e.d_un.d_val : size;
    }
    if (!symbols || strings <= symbols || strings - symbols > MEMORY_MOST || !size || size > MEMORY_MOST)
        return false;
    *ret = (struct al_symbol_table){
        .count = (strings - symbols) / sizeof(Elf64_Sym), .names = strings - symbols, .names_size = size};
    return copy(o, symbols, strings - symbols + size, &ret->from);
}

static int open_file_tables(const struct al_objects *o, const struct al_dso *d, struct al_bytes *file, struct al_symbols *ret) {
    struct al_symbol_table first = {0}, second = {0};
    struct al_bytes other;
    if (al_symbol_table(file, SHT_SYMTAB, &first))
        return al_symbols_open(ret, &first, &second);
    if (al_dso_open_debug(o, d, file, &other) || al_xz_debugdata(file, &other)) {
        if (!al_symbol_table(&other, SHT_SYMTAB, &first))
            al_bytes_close(&other);
    }
    if (!al_symbol_table(file, SHT_DYNSYM, &second))
        al_bytes_close(file);
    return al_symbols_open(ret, &first, &second);
}

static int open_tables(const struct al_objects *o, const struct al_dso *d, struct al_symbols *ret) {
    struct al_symbol_table first = {0}, none = {0};
    struct al_bytes file = {.fd = -1};
    if (d->vdso) {
        uint64_t size = d->first_end - d->header;
        if (!copy(o, d->header, size < VDSO_MOST ? size : VDSO_MOST, &file))
            return AL_E_FORMAT;
        return open_file_tables(o, d, &file, ret);
    }
    if (al_dso_open_file(o, d, &file))
        return open_file_tables(o, d, &file, ret);
    if (al_dso_open_debug(o, d, &file, &file)) {
        if (al_symbol_table(&file, SHT_SYMTAB, &first))
            return al_symbols_open(ret, &first, &none);
        al_bytes_close(&file);
    }
    return table_in_memory(o, d, &first) ? al_symbols_open(ret, &first, &none) : AL_E_FORMAT;
}

const struct al_symbols *al_dso_symbols(struct al_objects *o, struct al_dso *d) {
    if (!d->symbols_tried) {
        d->symbols_tried = true;
        d->symbols_ok = open_tables(o, d, &d->symbols) == 0;
        if (d->symbols_ok && !al_dso_hold(o, d, al_symbols_bytes(&d->symbols))) {
            al_symbols_free(&d->symbols);
            d->symbols_ok = false;
        }
    }
    return d->symbols_ok ? &d->symbols : NULL;
}

static bool import_in(const struct al_bytes *file, const char *section, uint64_t slot, uint32_t *ret) {
    Elf64_Shdr s;
    Elf64_Rela block[RELOCATIONS];
    if (!al_bytes_section(file, SHT_RELA, section, &s, NULL))
        return false;
    for (uint64_t at = 0; at + sizeof *block <= s.sh_size; at += sizeof block) {
        uint64_t bytes = s.sh_size - at < sizeof block ? s.sh_size - at : sizeof block;
        if (!al_bytes_read(file, s.sh_offset + at, block, bytes))
            return false;
        for (size_t i = 0; i < bytes / sizeof *block; i++)
            if (block[i].r_offset == slot) {
                *ret = (uint32_t)ELF64_R_SYM(block[i].r_info);
                return *ret != 0;
            }
    }
    return false;
}

bool al_dso_import(const struct al_objects *o, const struct al_dso *d, uint64_t slot, char *out, size_t size) {
    struct al_bytes file;
    struct al_symbol_table t;
    Elf64_Sym s;
    uint32_t number;
    if (d->vdso || !al_dso_open_file(o, d, &file))
        return false;
    struct al_symbols all = {0};
    bool ok = (import_in(&file, ".rela.plt", slot - d->bias, &number) || import_in(&file, ".rela.dyn", slot - d->bias, &number)) &&
              al_symbol_table(&file, SHT_DYNSYM, &t) && number < t.count &&
              al_bytes_read(&file, t.at + number * sizeof s, &s, sizeof s) && s.st_name < 1u << 31;
    if (ok) {
        all.tables[0] = t;
        ok = al_symbols_name(&all, &(struct al_symbol){.name = s.st_name & 0x7fffffffu}, out, size);
    }
    al_bytes_close(&file);
    return ok;
}
