// SPDX-License-Identifier: Apache-2.0
#include "unwind/symbols.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

#define BLOCK 4096u // symbols read at once
#define BACK 16u    // symbols looked back upon for one that covers the address

struct draft {
    struct al_symbol s;
    uint8_t rank; // of those at one address the lowest stays
};

struct drafts {
    struct draft *list;
    size_t count, cap;
};

static bool is_code(const Elf64_Sym *s) {
    unsigned type = ELF64_ST_TYPE(s->st_info);
    return s->st_shndx != SHN_UNDEF && s->st_value && (type == STT_FUNC || type == STT_GNU_IFUNC || (type == STT_NOTYPE && s->st_size)) &&
           s->st_name && s->st_name < 1u << 31;
}

static uint8_t rank_of(const Elf64_Sym *s) {
    unsigned bind = ELF64_ST_BIND(s->st_info);
    return (uint8_t)((s->st_size ? 0 : 4) + (bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 1 : 2));
}

static int add(struct drafts *d, const Elf64_Sym *s, bool second) {
    if (d->count >= AL_SYMBOLS_MOST)
        return 0;
    if (d->count == d->cap) {
        size_t cap = d->cap ? d->cap + d->cap / 2 : 1024;
        struct draft *more = realloc(d->list, cap * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        d->list = more;
        d->cap = cap;
    }
    uint32_t size = s->st_size < UINT32_MAX ? (uint32_t)s->st_size : UINT32_MAX;
    d->list[d->count++] = (struct draft){{s->st_value, size, s->st_name & 0x7fffffffu, second}, rank_of(s)};
    return 0;
}

void al_bytes_close(struct al_bytes *b) {
    if (b->size && b->fd >= 0)
        close(b->fd);
    else if (b->size)
        free(b->data);
    *b = (struct al_bytes){.fd = -1};
}

bool al_symbol_table(const struct al_bytes *b, uint32_t type, struct al_symbol_table *ret) {
    Elf64_Shdr table, texts;
    if (!b->size || !al_bytes_section(b, type, NULL, &table, &texts) || texts.sh_type != SHT_STRTAB)
        return false;
    *ret = (struct al_symbol_table){*b, table.sh_offset, table.sh_size / sizeof(Elf64_Sym), texts.sh_offset, texts.sh_size};
    return true;
}

static int add_table(struct drafts *d, const struct al_symbol_table *t, bool second) {
    Elf64_Sym *block = malloc(BLOCK * sizeof *block);
    int error = block ? 0 : AL_E_NOMEM;
    for (uint64_t at = 0; at < t->count && !error;) {
        uint64_t count = t->count - at < BLOCK ? t->count - at : BLOCK;
        if (!al_bytes_read(&t->from, t->at + at * sizeof *block, block, count * sizeof *block))
            break;
        for (uint64_t i = 0; i < count && !error; i++)
            if (is_code(&block[i]))
                error = add(d, &block[i], second);
        at += count;
    }
    free(block);
    return error;
}

static int compare(const void *a, const void *b) {
    const struct draft *x = a, *y = b;
    if (x->s.address != y->s.address)
        return x->s.address < y->s.address ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->s.name < y->s.name ? -1 : x->s.name > y->s.name;
}

static int keep(struct al_symbols *s, struct drafts *d) {
    qsort(d->list, d->count, sizeof *d->list, compare);
    s->list = malloc(d->count * sizeof *s->list);
    if (!s->list)
        return AL_E_NOMEM;
    for (size_t i = 0; i < d->count; i++)
        if (!s->count || s->list[s->count - 1].address != d->list[i].s.address)
            s->list[s->count++] = d->list[i].s;
    return 0;
}

int al_symbols_open(struct al_symbols *s, const struct al_symbol_table *first, const struct al_symbol_table *second) {
    struct drafts d = {0};
    *s = (struct al_symbols){.tables = {*first, *second}};
    int error = 0;
    for (int i = 0; i < 2 && !error; i++)
        if (s->tables[i].from.size)
            error = add_table(&d, &s->tables[i], i);
    if (!error)
        error = d.count ? keep(s, &d) : AL_E_FORMAT;
    free(d.list);
    if (error)
        al_symbols_free(s);
    return error;
}

void al_symbols_free(struct al_symbols *s) {
    for (int i = 0; i < 2; i++)
        al_bytes_close(&s->tables[i].from);
    free(s->list);
    *s = (struct al_symbols){0};
}

uint64_t al_symbols_bytes(const struct al_symbols *s) {
    uint64_t bytes = s->count * sizeof *s->list;
    for (int i = 0; i < 2; i++)
        bytes += s->tables[i].from.fd < 0 ? s->tables[i].from.size : 0;
    return bytes;
}

const struct al_symbol *al_symbols_find(const struct al_symbols *s, uint64_t address) {
    uint32_t low = 0, high = s->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (s->list[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (uint32_t i = low, back = 0; i > 0 && back < BACK; i--, back++) {
        const struct al_symbol *found = &s->list[i - 1];
        if (found->size ? address - found->address < found->size : back == 0)
            return found;
    }
    return NULL;
}

bool al_symbols_name(const struct al_symbols *s, const struct al_symbol *symbol, char *out, size_t size) {
    const struct al_symbol_table *t = &s->tables[symbol->second];
    if (symbol->name >= t->names_size || size < 2)
        return false;
    uint64_t left = t->names_size - symbol->name;
    size_t length = left < size - 1 ? (size_t)left : size - 1;
    if (!al_bytes_read(&t->from, t->names + symbol->name, out, length))
        return false;
    out[length] = '\0';
    return out[0] != '\0';
}
