// SPDX-License-Identifier: Apache-2.0
// A driver that lacks a function: dlsym must not find it, whoever asks. The symbol's value in this library's own
// dynamic symbol table is set to 0 when the library is loaded; the loader takes such a symbol for undefined.
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "standin.h"

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

// Some loaders write addresses into the dynamic section, others leave offsets.
static uintptr_t entry(ElfW(Sxword) tag) {
    uintptr_t base = (uintptr_t)&__ehdr_start;
    for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag)
            return d->d_un.d_ptr < base ? base + d->d_un.d_ptr : d->d_un.d_ptr;
    return 0;
}

// The symbol table does not tell its length; the hash table's longest chain does.
static uint32_t count_symbols(const uint32_t *hash) {
    uint32_t buckets = hash[0], first = hash[1], bloom_words = hash[2], last = 0;
    const uint32_t *bucket = hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last)
            last = bucket[i];
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

void standin_hide_symbols(bool (*hidden)(const char *name, void *user), void *user) {
    const uint32_t *hash = (const uint32_t *)entry(DT_GNU_HASH);
    ElfW(Sym) *symbols = (ElfW(Sym) *)entry(DT_SYMTAB);
    const char *names = (const char *)entry(DT_STRTAB);
    if (!hash || !symbols || !names)
        return;
    uint32_t count = count_symbols(hash);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)symbols / page * page, to = (uintptr_t)(symbols + count);
    if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE) != 0)
        return;
    for (uint32_t i = 1; i < count; i++)
        if (strncmp(names + symbols[i].st_name, "nvml", 4) == 0 && symbols[i].st_shndx != SHN_UNDEF &&
            hidden(names + symbols[i].st_name, user)) {
            symbols[i].st_value = 0;
            symbols[i].st_shndx = SHN_UNDEF;
        }
    mprotect((void *)from, to - from, PROT_READ);
}
