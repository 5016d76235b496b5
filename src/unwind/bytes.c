// SPDX-License-Identifier: Apache-2.0
// Sections and notes of an ELF file whose every number may be a lie.
#include <string.h>
#include <unistd.h>

#include "unwind/symbols.h"

#define SECTIONS_MOST 65000u
#define NAME_MOST 32u
#define NOTES_MOST 65536u

bool al_bytes_read(const struct al_bytes *b, uint64_t offset, void *out, size_t size) {
    if (offset > b->size || size > b->size - offset || offset > INT64_MAX)
        return false;
    if (b->fd < 0) {
        memcpy(out, b->data + offset, size);
        return true;
    }
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(b->fd, (char *)out + done, size - done, (off_t)(offset + done));
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static bool read_header(const struct al_bytes *b, Elf64_Ehdr *h) {
    return al_bytes_read(b, 0, h, sizeof *h) && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
           h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == ELFDATA2LSB &&
           h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shnum <= SECTIONS_MOST && h->e_shoff < b->size;
}

static bool read_section(const struct al_bytes *b, const Elf64_Ehdr *h, uint32_t number, Elf64_Shdr *ret) {
    return number < h->e_shnum && al_bytes_read(b, h->e_shoff + number * sizeof *ret, ret, sizeof *ret) &&
           (ret->sh_type == SHT_NOBITS || (ret->sh_offset <= b->size && ret->sh_size <= b->size - ret->sh_offset));
}

static bool has_name(const struct al_bytes *b, const Elf64_Shdr *names, const Elf64_Shdr *s, const char *name) {
    char text[NAME_MOST];
    size_t length = strlen(name) + 1;
    return length <= sizeof text && s->sh_name < names->sh_size && length <= names->sh_size - s->sh_name &&
           al_bytes_read(b, names->sh_offset + s->sh_name, text, length) && memcmp(text, name, length) == 0;
}

bool al_bytes_section(const struct al_bytes *b, uint32_t type, const char *name, Elf64_Shdr *ret, Elf64_Shdr *ret_link) {
    Elf64_Ehdr h;
    Elf64_Shdr names;
    if (!read_header(b, &h) || (name && !read_section(b, &h, h.e_shstrndx, &names)))
        return false;
    for (uint32_t i = 0; i < h.e_shnum; i++) {
        if (!read_section(b, &h, i, ret) || (type && ret->sh_type != type) || (name && !has_name(b, &names, ret, name)))
            continue;
        return !ret_link || read_section(b, &h, ret->sh_link, ret_link);
    }
    return false;
}

uint32_t al_bytes_build_id(const struct al_bytes *b, unsigned char *out, uint32_t size) {
    Elf64_Shdr s;
    unsigned char head[16];
    if (!al_bytes_section(b, SHT_NOTE, ".note.gnu.build-id", &s, NULL) || s.sh_size > NOTES_MOST ||
        !al_bytes_read(b, s.sh_offset, head, sizeof head) || memcmp(head + 12, "GNU", 4) != 0)
        return 0;
    uint32_t length;
    memcpy(&length, head + 4, 4);
    return length && length <= size && length <= s.sh_size - 16 && al_bytes_read(b, s.sh_offset + 16, out, length) ? length : 0;
}
