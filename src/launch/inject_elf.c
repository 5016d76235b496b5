// SPDX-License-Identifier: Apache-2.0
#include "launch/inject_elf.h"

#include <elf.h>
#include <string.h>

#include "base/err.h"

#define HEADERS_MOST 64  // program headers
#define DYNAMIC_MOST 256 // entries
#define CHAIN_MOST 4096  // symbols of one hash bucket
#define NAME_MOST 64
#define PAGE 4096ULL

static bool get(const struct al_elf *e, uint64_t address, void *out, size_t size) {
    return e->read(e->user, address, out, size);
}

// The loader has added the bias to what it uses itself, on most systems (the kernel's vDSO and musl: not).
static uint64_t pointer(const struct al_elf *e, uint64_t value) {
    return value < e->bias ? value + e->bias : value;
}

static int read_dynamic(struct al_elf *e, uint64_t address) {
    for (int i = 0; i < DYNAMIC_MOST; i++) {
        Elf64_Dyn d;
        if (!get(e, address + (uint64_t)i * sizeof d, &d, sizeof d))
            return AL_E_FORMAT;
        switch (d.d_tag) {
        case DT_NULL: return e->strings && e->symbols && e->hash ? 0 : AL_E_FORMAT;
        case DT_STRTAB: e->strings = pointer(e, d.d_un.d_ptr); break;
        case DT_SYMTAB: e->symbols = pointer(e, d.d_un.d_ptr); break;
        case DT_GNU_HASH: e->hash = pointer(e, d.d_un.d_ptr); break;
        case DT_STRSZ: e->strings_size = d.d_un.d_val; break;
        default: break;
        }
    }
    return AL_E_FORMAT;
}

static int read_headers(struct al_elf *e, uint64_t header, const Elf64_Ehdr *h) {
    Elf64_Phdr p[HEADERS_MOST];
    uint64_t dynamic = 0, text = 0;
    bool first = true;
    if (h->e_phentsize != sizeof *p || !h->e_phnum || h->e_phnum > HEADERS_MOST ||
        !get(e, header + h->e_phoff, p, h->e_phnum * sizeof *p))
        return AL_E_FORMAT;
    for (int i = 0; i < h->e_phnum; i++) {
        if (p[i].p_type == PT_LOAD && first) {
            e->bias = header - (p[i].p_vaddr & ~(PAGE - 1)) + (p[i].p_offset & ~(PAGE - 1));
            first = false;
        }
        if (p[i].p_type == PT_LOAD && (p[i].p_flags & PF_X))
            text = p[i].p_vaddr + p[i].p_memsz;
        if (p[i].p_type == PT_DYNAMIC)
            dynamic = p[i].p_vaddr;
    }
    e->text_end = text ? text + e->bias : 0;
    return first || !dynamic ? AL_E_FORMAT : read_dynamic(e, dynamic + e->bias);
}

int al_elf_open(struct al_elf *e, al_elf_read_fn *read, void *user, uint64_t header) {
    Elf64_Ehdr h;
    *e = (struct al_elf){.read = read, .user = user};
    if (!get(e, header, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
        return AL_E_FORMAT;
    e->class = h.e_ident[EI_CLASS];
    e->machine = h.e_machine; // at the same place in both classes
    if (e->class != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB)
        return AL_E_UNSUPPORTED;
    return read_headers(e, header, &h);
}

static uint32_t gnu_hash(const char *name) {
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

static uint64_t symbol_at(const struct al_elf *e, uint32_t index, const char *name, size_t length) {
    Elf64_Sym s;
    char found[NAME_MOST];
    if (!get(e, e->symbols + (uint64_t)index * sizeof s, &s, sizeof s) || s.st_shndx == SHN_UNDEF ||
        s.st_name >= e->strings_size || length >= e->strings_size - s.st_name ||
        !get(e, e->strings + s.st_name, found, length + 1) || memcmp(found, name, length + 1) != 0)
        return 0;
    return s.st_value + e->bias;
}

uint64_t al_elf_symbol(const struct al_elf *e, const char *name) {
    struct {
        uint32_t buckets, first, bloom, shift;
    } h;
    size_t length = strlen(name);
    uint32_t hash = gnu_hash(name), index, value;
    if (length >= NAME_MOST || !e->hash || !get(e, e->hash, &h, sizeof h) || !h.buckets)
        return 0;
    uint64_t buckets = e->hash + sizeof h + (uint64_t)h.bloom * 8;
    uint64_t chain = buckets + (uint64_t)h.buckets * 4;
    if (!get(e, buckets + (uint64_t)(hash % h.buckets) * 4, &index, sizeof index) || index < h.first)
        return 0;
    for (int i = 0; i < CHAIN_MOST; i++, index++) {
        if (!get(e, chain + (uint64_t)(index - h.first) * 4, &value, sizeof value))
            return 0;
        uint64_t address = (value | 1) == (hash | 1) ? symbol_at(e, index, name, length) : 0;
        if (address)
            return address;
        if (value & 1)
            break;
    }
    return 0;
}
