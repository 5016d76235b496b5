// SPDX-License-Identifier: Apache-2.0
#include "unwind/objects.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "stack/maps.h"

#define HEADERS_MOST 128u
#define NOTES_MOST 4096u
#define STANDS_NS (2 * AL_NS_PER_MS) // so long it is believed to be where it was
#define HEADER_MARK 24u              // of an ELF header: where its entry and its tables are
#define VDSO "[vdso]"
#define DELETED " (deleted)"

static void read_build_id(struct al_dso *d, const struct al_memory *m, const Elf64_Phdr *p) {
    unsigned char notes[NOTES_MOST];
    uint32_t size = p->p_filesz < sizeof notes ? (uint32_t)p->p_filesz : (uint32_t)sizeof notes;
    if (d->build_id_len || size < 12 || !al_memory_get(m, d->bias + p->p_vaddr, notes, size))
        return;
    for (uint32_t at = 0; at + 12 <= size;) {
        uint32_t name = al_u32(notes + at), desc = al_u32(notes + at + 4), type = al_u32(notes + at + 8);
        if (name > size || desc > size)
            return;
        uint32_t from = at + 12 + ((name + 3) & ~3u), next = from + ((desc + 3) & ~3u);
        if (from > size || desc > size - from)
            return;
        if (type == NT_GNU_BUILD_ID && name == 4 && memcmp(notes + at + 12, "GNU", 4) == 0 && desc && desc <= sizeof d->build_id) {
            memcpy(d->build_id, notes + from, desc);
            d->build_id_len = desc;
            d->mark_at = d->bias + p->p_vaddr + from;
            d->mark_size = desc < AL_MARK ? desc : AL_MARK;
            memcpy(d->mark, d->build_id, d->mark_size);
            return;
        }
        at = next;
    }
}

static bool read_headers(struct al_dso *d, const struct al_memory *m) {
    Elf64_Ehdr h;
    Elf64_Phdr p[HEADERS_MOST];
    bool biased = false;
    if (!al_memory_get(m, d->header, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_phentsize != sizeof *p ||
        !h.e_phnum || h.e_phnum > HEADERS_MOST || h.e_phoff > 1 << 20 ||
        !al_memory_get(m, d->header + h.e_phoff, p, (uint32_t)(h.e_phnum * sizeof *p)))
        return false;
    for (unsigned i = 0; i < h.e_phnum && !biased; i++)
        if (p[i].p_type == PT_LOAD && p[i].p_offset == 0) {
            d->bias = d->header - p[i].p_vaddr;
            biased = true;
        }
    d->mark_at = d->header + HEADER_MARK;
    d->mark_size = AL_MARK;
    memcpy(d->mark, (unsigned char *)&h + HEADER_MARK, AL_MARK);
    for (unsigned i = 0; i < h.e_phnum && biased; i++) {
        if (p[i].p_type == PT_NOTE)
            read_build_id(d, m, &p[i]);
        if (p[i].p_type != PT_GNU_EH_FRAME)
            continue;
        d->frames = p[i].p_vaddr;
        d->frames_size = p[i].p_memsz;
        for (unsigned k = 0; k < h.e_phnum; k++)
            if (p[k].p_type == PT_LOAD && d->frames >= p[k].p_vaddr && d->frames - p[k].p_vaddr < p[k].p_filesz)
                d->frames_segment_end = p[k].p_vaddr + p[k].p_filesz;
    }
    return biased;
}

static void dso_free(struct al_objects *o, struct al_dso *d) {
    if (!d)
        return;
    o->bytes -= d->bytes;
    al_source_free(o->e, d->source);
    al_cfi_close(&d->cfi);
    al_symbols_free(&d->symbols);
    free(d->path);
    free(d);
}

static struct al_dso *dso_new(struct al_objects *o, const struct al_area *area, const char *path) {
    struct al_dso *d = calloc(1, sizeof *d);
    if (!d || !(d->path = strdup(path))) {
        dso_free(o, d);
        return NULL;
    }
    d->inode = area->inode;
    d->header = area->start;
    d->first_end = area->end;
    d->vdso = strcmp(path, VDSO) == 0;
    if (al_str_ends(path, DELETED)) {
        d->deleted = true;
        d->path[strlen(path) - strlen(DELETED)] = '\0';
    }
    if (!read_headers(d, o->memory)) {
        dso_free(o, d);
        return NULL;
    }
    return d;
}

static bool same(const struct al_dso *d, const struct al_area *area, const char *path) {
    size_t length = strlen(d->path);
    return !d->gone && d->header == area->start && d->inode == area->inode && strncmp(d->path, path, length) == 0 &&
           (path[length] == '\0' || strcmp(path + length, DELETED) == 0);
}

// *ret NULL: no object.
static int object_of(struct al_objects *o, const struct al_area *first, const char *path, struct al_dso **ret) {
    for (uint32_t i = 0; i < o->count; i++)
        if (same(o->list[i], first, path)) {
            *ret = o->list[i];
            (*ret)->used = true;
            return 0;
        }
    *ret = o->count < AL_OBJECTS_MOST ? dso_new(o, first, path) : NULL;
    if (!*ret)
        return 0;
    if (o->count == o->cap) {
        uint32_t cap = o->cap ? 2 * o->cap : 64;
        struct al_dso **more = realloc(o->list, cap * sizeof(struct al_dso *));
        if (!more) {
            dso_free(o, *ret);
            return AL_E_NOMEM;
        }
        o->list = more;
        o->cap = cap;
    }
    (*ret)->used = true;
    o->list[o->count++] = *ret;
    return 0;
}

static int add_area(struct al_objects *o, const struct al_area *area, struct al_dso *dso) {
    if (o->areas_count == o->areas_cap) {
        uint32_t cap = o->areas_cap ? 2 * o->areas_cap : 128;
        struct al_code_area *more = realloc(o->areas, cap * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        o->areas = more;
        o->areas_cap = cap;
    }
    o->areas[o->areas_count++] = (struct al_code_area){area->start, area->end, dso};
    return 0;
}

static void drop_unused(struct al_objects *o) {
    uint32_t kept = 0;
    o->asked_count = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->list[i]->used)
            o->list[kept++] = o->list[i];
        else
            dso_free(o, o->list[i]);
    }
    o->count = kept;
}

static int take_areas(struct al_objects *o, const struct al_areas *list) {
    int error = 0;
    const struct al_area *first = NULL; // the mapping of the current file's beginning
    struct al_dso *dso = NULL;
    for (size_t i = 0; i < list->count && !error; i++) {
        const struct al_area *area = &list->list[i];
        const char *path = al_area_path(list, area);
        bool vdso = strcmp(path, VDSO) == 0;
        if ((area->inode && area->offset == 0) || vdso) {
            first = area;
            dso = NULL;
        }
        if (!area->executable)
            continue;
        bool of_first = first && (area->inode || vdso) && area->inode == first->inode &&
                        strcmp(path, al_area_path(list, first)) == 0;
        if (of_first && !dso)
            error = object_of(o, first, path, &dso);
        if (!error)
            error = add_area(o, area, of_first ? dso : NULL);
    }
    return error;
}

static bool same_areas(const struct al_code_area *a, uint32_t a_count, const struct al_code_area *b, uint32_t b_count) {
    if (a_count != b_count)
        return false;
    for (uint32_t i = 0; i < a_count; i++)
        if (a[i].start != b[i].start || a[i].end != b[i].end || a[i].dso != b[i].dso)
            return false;
    return true;
}

int al_objects_read(struct al_objects *o, bool *ret_changed) {
    struct al_areas areas;
    struct al_code_area *old = o->areas;
    uint32_t old_count = o->areas_count;
    *ret_changed = false;
    int error = al_areas_read(&areas, o->procfs, o->pid);
    if (error)
        return error;
    o->areas = NULL;
    o->areas_count = o->areas_cap = 0;
    for (uint32_t i = 0; i < o->count; i++)
        o->list[i]->used = false;
    error = take_areas(o, &areas);
    *ret_changed = !same_areas(old, old_count, o->areas, o->areas_count);
    drop_unused(o);
    free(old);
    al_areas_free(&areas);
    return error;
}

const struct al_code_area *al_objects_find(const struct al_objects *o, uint64_t address) {
    uint32_t low = 0, high = o->areas_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (o->areas[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < o->areas_count && o->areas[low].start <= address ? &o->areas[low] : NULL;
}

void al_objects_free(struct al_objects *o) {
    for (uint32_t i = 0; i < o->count; i++)
        dso_free(o, o->list[i]);
    free(o->list);
    free(o->areas);
    o->list = NULL;
    o->areas = NULL;
    o->count = o->cap = o->areas_count = o->areas_cap = 0;
}

void al_objects_ask(struct al_objects *o, struct al_dso *d) {
    for (uint32_t i = o->asked_count; i-- > 0;)
        if (o->asked[i] == d)
            return;
    if (o->asked_count < AL_ASKED_MOST && !d->vdso)
        o->asked[o->asked_count++] = d;
}

bool al_objects_stand(struct al_objects *o) {
    struct al_piece pieces[AL_ASKED_MOST];
    unsigned char found[AL_ASKED_MOST][AL_MARK];
    int64_t now = al_monotonic_ns();
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->asked_count; i++) {
        struct al_dso *d = o->asked[i];
        if (now - d->stood_ns < STANDS_NS)
            continue;
        pieces[count] = (struct al_piece){d->mark_at, d->mark_size, count * AL_MARK};
        o->asked[count++] = d;
    }
    size_t whole = count ? o->memory->gather(o->memory->user, pieces, count, found) : 0;
    bool stand = true;
    for (uint32_t i = 0; i < count && i <= whole; i++) { // behind one that cannot be read, nothing was
        struct al_dso *d = o->asked[i];
        d->gone = i == whole || memcmp(found[i], d->mark, d->mark_size) != 0;
        d->stood_ns = now;
        stand = stand && !d->gone;
    }
    o->asked_count = 0;
    return stand;
}

bool al_dso_hold(struct al_objects *o, struct al_dso *d, uint64_t bytes) {
    if (bytes > AL_OBJECTS_BYTES - o->bytes)
        return false;
    o->bytes += bytes;
    d->bytes += bytes;
    return true;
}

// Static programs have tables, but only their section headers tell where.
static bool open_bare(struct al_objects *o, struct al_dso *d) {
    struct al_bytes file;
    Elf64_Shdr s;
    if (d->vdso || !al_dso_open_file(o, d, &file))
        return false;
    bool ok = al_bytes_section(&file, 0, ".eh_frame", &s, NULL) && s.sh_flags & SHF_ALLOC &&
              al_dso_hold(o, d, s.sh_size) && al_cfi_open_bare(&d->cfi, o->e, o->memory, d->bias, s.sh_addr, s.sh_size) == 0;
    al_bytes_close(&file);
    return ok;
}

struct al_cfi *al_dso_cfi(struct al_objects *o, struct al_dso *d) {
    if (!d->cfi_tried) {
        d->cfi_tried = true;
        if (!d->frames_size)
            d->cfi_ok = open_bare(o, d);
        else
            d->cfi_ok = al_dso_hold(o, d, d->frames_size) && al_cfi_open(&d->cfi, o->e, o->memory, d->bias, d->frames,
                                                                         d->frames_size, d->frames_segment_end) == 0;
    }
    return d->cfi_ok ? &d->cfi : NULL;
}
