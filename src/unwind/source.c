// SPDX-License-Identifier: Apache-2.0
// Source lines of objects that have DWARF, in their own file or a separate one. The sections are read, not mapped, and only
// when they are of a size that is worth it.
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/cfi_check.h"
#include "unwind/source.h"
#include "unwind/objects.h"

#define DEBUG_MOST (128u << 20) // bytes of all debugging sections, unpacked
#define SECTIONS_MOST 65000u
#define UNITS_MOST 20000u

// Bytes that libdw will hold; UINT64_MAX: not worth it, or a lie.
static uint64_t debug_size(const struct al_bytes *b) {
    Elf64_Ehdr h;
    Elf64_Shdr names, s;
    uint64_t total = 0;
    bool info = false;
    if (!al_bytes_read(b, 0, &h, sizeof h) || h.e_shnum > SECTIONS_MOST || h.e_shentsize != sizeof s ||
        h.e_shstrndx >= h.e_shnum || !al_bytes_read(b, h.e_shoff + h.e_shstrndx * sizeof s, &names, sizeof names))
        return UINT64_MAX;
    for (unsigned i = 0; i < h.e_shnum; i++) {
        char name[8] = "";
        Elf64_Chdr packed;
        if (!al_bytes_read(b, h.e_shoff + i * sizeof s, &s, sizeof s))
            return UINT64_MAX;
        (void)al_bytes_read(b, names.sh_offset + s.sh_name, name, 7);
        if (s.sh_type == SHT_NOBITS || (memcmp(name, ".debug_", 7) != 0 && memcmp(name, ".zdebug", 7) != 0))
            continue;
        if (name[1] == 'z') // an older way of packing, without a size that can be looked at first
            return UINT64_MAX;
        uint64_t size = s.sh_size;
        if (s.sh_flags & SHF_COMPRESSED)
            size += al_bytes_read(b, s.sh_offset, &packed, sizeof packed) ? packed.ch_size : DEBUG_MOST;
        if (size > DEBUG_MOST || (total += size) > DEBUG_MOST)
            return UINT64_MAX;
        info = true;
    }
    return info ? total : UINT64_MAX;
}

// Whether the last text of a section ends there: libdw looks for its end beyond the section (0.188). Of one that is packed that
// is not known.
static bool texts_end(const struct al_bytes *b, const char *section, bool absent, bool packed) {
    Elf64_Shdr s;
    char last;
    if (!al_bytes_section(b, 0, section, &s, NULL) || s.sh_type == SHT_NOBITS || !s.sh_size)
        return absent;
    if (s.sh_flags & SHF_COMPRESSED)
        return packed;
    return al_bytes_read(b, s.sh_offset + s.sh_size - 1, &last, 1) && !last;
}

static bool all_texts_end(const struct al_bytes *b) {
    return texts_end(b, ".debug_str", true, true) && texts_end(b, ".debug_line_str", true, true);
}

static bool has_info(const struct al_bytes *b) {
    Elf64_Shdr s;
    return al_bytes_section(b, SHT_PROGBITS, ".debug_info", &s, NULL) && debug_size(b) != UINT64_MAX && all_texts_end(b);
}

static Dwarf *open_dwarf(const struct al_elfutils *e, const struct al_bytes *b, Elf **ret_elf) {
    *ret_elf = e->elf_begin(b->fd, ELF_C_READ, NULL);
    return *ret_elf ? e->dwarf_begin_elf(*ret_elf, DWARF_C_READ, NULL) : NULL;
}

// What several files share (dwz) lies in a further one. libdw would open whatever path the file tells: it is found here,
// by its build id alone. False: there is one, and it is not to be had.
static bool open_alt(struct al_objects *o, struct al_dso *d, struct al_source *l) {
    Elf64_Shdr s;
    char link[512];
    if (!al_bytes_section(&l->file, SHT_PROGBITS, ".gnu_debugaltlink", &s, NULL))
        return true;
    if (s.sh_size >= sizeof link || !al_bytes_read(&l->file, s.sh_offset, link, s.sh_size))
        return false;
    link[s.sh_size] = '\0';
    size_t id = strlen(link) + 1;
    if (id >= s.sh_size || !al_debug_by_id(o, (unsigned char *)link + id, (uint32_t)(s.sh_size - id), &l->alt_file))
        return false;
    if (al_dso_hold(o, d, debug_size(&l->alt_file)) && all_texts_end(&l->alt_file))
        l->alt = open_dwarf(o->e, &l->alt_file, &l->alt_elf);
    if (l->alt)
        o->e->dwarf_setalt(l->dwarf, l->alt);
    return l->alt != NULL;
}

bool al_source_begin(const struct al_elfutils *e, struct al_source *l) {
    if (has_info(&l->file))
        l->dwarf = open_dwarf(e, &l->file, &l->elf);
    l->info_ends = l->dwarf && texts_end(&l->file, ".debug_info", false, false);
    return l->dwarf != NULL;
}

static struct al_source *source_open(struct al_objects *o, struct al_dso *d) {
    struct al_source *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    struct al_bytes own = {.fd = -1};
    bool file = al_dso_open_file(o, d, &own);
    if (file && has_info(&own)) {
        l->file = own;
    } else {
        if (!al_dso_open_debug(o, d, &own, &l->file))
            l->file = (struct al_bytes){.fd = -1};
        al_bytes_close(&own);
    }
    if (l->file.size && al_dso_hold(o, d, debug_size(&l->file)) && al_source_begin(o->e, l) && open_alt(o, d, l))
        return l;
    al_source_free(o->e, l);
    return NULL;
}

void al_source_free(const struct al_elfutils *e, struct al_source *l) {
    if (!l)
        return;
    if (l->dwarf)
        (void)e->dwarf_end(l->dwarf);
    if (l->alt)
        (void)e->dwarf_end(l->alt);
    if (l->elf)
        (void)e->elf_end(l->elf);
    if (l->alt_elf)
        (void)e->elf_end(l->alt_elf);
    al_bytes_close(&l->file);
    al_bytes_close(&l->alt_file);
    free(l);
}

// By the table of addresses; compilers that write none leave each unit's own ranges.
static Dwarf_Die *unit_of(const struct al_elfutils *e, Dwarf *dwarf, uint64_t address, Dwarf_Die *ret) {
    if (e->dwarf_addrdie(dwarf, address, ret))
        return ret;
    Dwarf_Off at = 0, next;
    size_t header;
    for (unsigned i = 0; i < UNITS_MOST && e->dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) == 0; i++) {
        if (e->dwarf_offdie(dwarf, at + header, ret) && e->dwarf_haspc(ret, address) == 1)
            return ret;
        if (next <= at)
            return NULL;
        at = next;
    }
    return NULL;
}

static struct al_source *source_of(struct al_objects *o, struct al_dso *d) {
    if (!d->source_tried) {
        d->source_tried = true;
        d->source = d->vdso ? NULL : source_open(o, d);
    }
    return d->source;
}

static bool frame_section_ok(const struct al_bytes *file) {
    Elf64_Shdr s;
    if (!al_bytes_section(file, SHT_PROGBITS, ".debug_frame", &s, NULL) || s.sh_flags & SHF_COMPRESSED ||
        s.sh_size > DEBUG_MOST || !s.sh_size)
        return false;
    unsigned char *section = malloc(s.sh_size);
    bool ok = section && al_bytes_read(file, s.sh_offset, section, s.sh_size) && al_cfi_section_ok(section, s.sh_size, false);
    free(section);
    return ok;
}

Dwarf_CFI *al_dso_debug_frame(struct al_objects *o, struct al_dso *d) {
    struct al_source *l = source_of(o, d);
    if (l && !l->frames_tried) {
        l->frames_tried = true;
        l->frames = frame_section_ok(&l->file) ? o->e->dwarf_getcfi(l->dwarf) : NULL;
    }
    return l ? l->frames : NULL;
}

// The name of the unit's folder, which libdw reads up to its end, may stand in the unit itself.
static bool folder_ends(const struct al_elfutils *e, const struct al_source *l, Dwarf_Die *unit) {
    Dwarf_Attribute folder;
    return l->info_ends || !e->dwarf_attr(unit, DW_AT_comp_dir, &folder) || e->dwarf_whatform(&folder) != DW_FORM_string;
}

bool al_source_find(const struct al_elfutils *e, const struct al_source *l, uint64_t address, const char **ret_file, int *ret_line) {
    Dwarf_Die unit;
    bool found = unit_of(e, l->dwarf, address, &unit) && folder_ends(e, l, &unit);
    Dwarf_Line *line = found ? e->dwarf_getsrc_die(&unit, address) : NULL;
    *ret_file = line ? e->dwarf_linesrc(line, NULL, NULL) : NULL;
    return *ret_file && e->dwarf_lineno(line, ret_line) == 0 && *ret_line > 0;
}

bool al_dso_line(struct al_objects *o, struct al_dso *d, uint64_t address, const char **ret_file, int *ret_line) {
    const struct al_source *l = source_of(o, d);
    return l && al_source_find(o->e, l, address, ret_file, ret_line);
}
