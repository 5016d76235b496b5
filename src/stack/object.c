// SPDX-License-Identifier: Apache-2.0
#include "stack/object.h"

#include <elf.h>
#include <stdlib.h>
#include <unistd.h>

#define HEADERS_MOST 128u  // program headers
#define DYNAMIC_MOST 512u  // entries of PT_DYNAMIC
#define CHAIN_MOST 100000u // symbols of one hash bucket
#define SECTIONS_MOST 10000u
#define NAME_MOST 32u
#define TABLE_MOST (256u << 20) // bytes of a symbol or string table in a file
#define BLOCK 1024u             // symbols read at once

static bool header_ok(const Elf64_Ehdr *h) {
    return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64 &&
           h->e_ident[EI_DATA] == ELFDATA2LSB && (h->e_type == ET_EXEC || h->e_type == ET_DYN);
}

// glibc's loader writes addresses into the table, others leave the file's.
static uint64_t relocated(const struct al_object *o, uint64_t value) {
    return value < o->bias ? value + o->bias : value;
}

static void read_dynamic(struct al_object *o, uint64_t address, uint64_t size) {
    uint64_t count = size / sizeof(Elf64_Dyn) < DYNAMIC_MOST ? size / sizeof(Elf64_Dyn) : DYNAMIC_MOST;
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Dyn d;
        if (!al_memory_get(o->memory, address + i * sizeof d, &d, sizeof d) || d.d_tag == DT_NULL)
            return;
        switch (d.d_tag) {
        case DT_STRTAB: o->strings = relocated(o, d.d_un.d_ptr); break;
        case DT_STRSZ: o->strings_size = d.d_un.d_val; break;
        case DT_SYMTAB: o->symbols = relocated(o, d.d_un.d_ptr); break;
        case DT_GNU_HASH: o->gnu_hash = relocated(o, d.d_un.d_ptr); break;
        case DT_HASH: o->hash = relocated(o, d.d_un.d_ptr); break;
        default: break;
        }
    }
}

bool al_object_open(struct al_object *o, const struct al_memory *memory, uint64_t header) {
    Elf64_Ehdr h;
    Elf64_Phdr p[HEADERS_MOST], *dynamic = NULL;
    bool biased = false;
    *o = (struct al_object){.memory = memory};
    if (!al_memory_get(memory, header, &h, sizeof h) || !header_ok(&h) || h.e_phentsize != sizeof *p || !h.e_phnum ||
        h.e_phnum > HEADERS_MOST || h.e_phoff > 1 << 20 ||
        !al_memory_get(memory, header + h.e_phoff, p, (uint32_t)(h.e_phnum * sizeof *p)))
        return false;
    o->machine = h.e_machine;
    o->type = h.e_type;
    for (unsigned i = 0; i < h.e_phnum; i++) {
        if (p[i].p_type == PT_LOAD && !biased && p[i].p_offset == 0) {
            o->bias = header - p[i].p_vaddr;
            biased = true;
        }
        if (p[i].p_type == PT_DYNAMIC)
            dynamic = &p[i];
    }
    if (!biased)
        return false;
    if (dynamic)
        read_dynamic(o, o->bias + dynamic->p_vaddr, dynamic->p_memsz);
    return true;
}

// Whether symbol number `index` is the defined one of that name.
static bool symbol_is(const struct al_object *o, uint64_t index, const char *name, uint64_t *ret) {
    Elf64_Sym s;
    char text[NAME_MOST] = {0};
    size_t length = strlen(name) + 1;
    if (!al_memory_get(o->memory, o->symbols + index * sizeof s, &s, sizeof s) || s.st_shndx == SHN_UNDEF ||
        !s.st_value || s.st_name >= o->strings_size || length > sizeof text || length > o->strings_size - s.st_name ||
        !al_memory_get(o->memory, o->strings + s.st_name, text, (uint32_t)length) || memcmp(text, name, length) != 0)
        return false;
    *ret = s.st_value + o->bias;
    return true;
}

static uint32_t gnu_hash_of(const char *name) {
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

static uint32_t sysv_hash_of(const char *name) {
    uint32_t h = 0;
    for (; *name; name++) {
        h = (h << 4) + (unsigned char)*name;
        uint32_t high = h & 0xf0000000u;
        h = (h ^ high >> 24) & ~high;
    }
    return h;
}

// Head: buckets, first symbol, words of the filter, shift; then filter, buckets, chains whose last hash is odd.
static uint64_t by_gnu_hash(const struct al_object *o, const char *name) {
    uint32_t head[4], index, wanted = gnu_hash_of(name);
    uint64_t found = 0;
    if (!al_memory_get(o->memory, o->gnu_hash, head, sizeof head) || !head[0])
        return 0;
    uint64_t buckets = o->gnu_hash + 16 + 8ULL * head[2], chains = buckets + 4ULL * head[0];
    if (!al_memory_get(o->memory, buckets + 4ULL * (wanted % head[0]), &index, 4) || index < head[1])
        return 0;
    for (unsigned n = 0; n < CHAIN_MOST; n++, index++) {
        uint32_t hash;
        if (!al_memory_get(o->memory, chains + 4ULL * (index - head[1]), &hash, 4))
            return 0;
        if ((hash | 1) == (wanted | 1) && symbol_is(o, index, name, &found))
            return found;
        if (hash & 1)
            return 0;
    }
    return 0;
}

static uint64_t by_sysv_hash(const struct al_object *o, const char *name) {
    uint32_t head[2], index;
    uint64_t found = 0;
    if (!al_memory_get(o->memory, o->hash, head, sizeof head) || !head[0] ||
        !al_memory_get(o->memory, o->hash + 8 + 4ULL * (sysv_hash_of(name) % head[0]), &index, 4))
        return 0;
    for (unsigned n = 0; n < CHAIN_MOST && index; n++) {
        if (symbol_is(o, index, name, &found))
            return found;
        if (!al_memory_get(o->memory, o->hash + 8 + 4ULL * ((uint64_t)head[0] + index), &index, 4))
            return 0;
    }
    return 0;
}

uint64_t al_object_symbol(const struct al_object *o, const char *name) {
    if (!o->symbols || !o->strings)
        return 0;
    return o->gnu_hash ? by_gnu_hash(o, name) : o->hash ? by_sysv_hash(o, name) : 0;
}

static bool file_at(int fd, void *out, size_t size, uint64_t offset) {
    return offset < INT64_MAX && pread(fd, out, size, (off_t)offset) == (ssize_t)size;
}

// A section's header by type or name (NULL: any name). *ret_link: the header of the section that it names as its link.
static bool find_section(int fd, uint32_t type, const char *name, Elf64_Shdr *ret, Elf64_Shdr *ret_link) {
    Elf64_Ehdr h;
    Elf64_Shdr names;
    if (!file_at(fd, &h, sizeof h, 0) || !header_ok(&h) || h.e_shentsize != sizeof names || h.e_shnum > SECTIONS_MOST ||
        h.e_shstrndx >= h.e_shnum || !file_at(fd, &names, sizeof names, h.e_shoff + h.e_shstrndx * sizeof names))
        return false;
    for (unsigned i = 0; i < h.e_shnum; i++) {
        char text[NAME_MOST] = {0};
        if (!file_at(fd, ret, sizeof *ret, h.e_shoff + i * sizeof *ret))
            return false;
        if (type && ret->sh_type != type)
            continue;
        if (name &&
            (ret->sh_name >= names.sh_size ||
             pread(fd, text, sizeof text - 1, (off_t)(names.sh_offset + ret->sh_name)) <= 0 || strcmp(text, name) != 0))
            continue;
        return !ret_link || (ret->sh_link < h.e_shnum &&
                             file_at(fd, ret_link, sizeof *ret_link, h.e_shoff + ret->sh_link * sizeof *ret_link));
    }
    return false;
}

uint64_t al_object_file_symbol(int fd, uint64_t bias, const char *name) {
    Elf64_Shdr table, texts;
    Elf64_Sym block[BLOCK];
    size_t length = strlen(name) + 1;
    uint64_t found = 0;
    if (!find_section(fd, SHT_SYMTAB, NULL, &table, &texts) || texts.sh_size > TABLE_MOST || texts.sh_size < length ||
        table.sh_size > TABLE_MOST)
        return 0;
    char *strings = malloc(texts.sh_size);
    if (strings && file_at(fd, strings, texts.sh_size, texts.sh_offset)) {
        for (uint64_t at = 0; at + sizeof *block <= table.sh_size && !found; at += sizeof block) {
            uint64_t bytes = table.sh_size - at < sizeof block ? table.sh_size - at : sizeof block;
            if (!file_at(fd, block, bytes, table.sh_offset + at))
                break;
            for (size_t i = 0; i < bytes / sizeof *block; i++)
                if (block[i].st_value && block[i].st_shndx != SHN_UNDEF && block[i].st_name <= texts.sh_size - length &&
                    memcmp(strings + block[i].st_name, name, length) == 0)
                    found = block[i].st_value + bias;
        }
    }
    free(strings);
    return found;
}

uint64_t al_object_file_section(int fd, uint64_t bias, const char *name, uint64_t *ret_size) {
    Elf64_Shdr s;
    if (!find_section(fd, 0, name, &s, NULL) || !s.sh_addr)
        return 0;
    *ret_size = s.sh_size;
    return s.sh_addr + bias;
}
