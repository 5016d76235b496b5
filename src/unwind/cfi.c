// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "unwind/cfi_check.h"

#define PAGE 4096u
#define FRONT PAGE // bytes of the image before the object's memory
#if defined __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

#define PE_OMIT 0xff
#define PE_UDATA4 0x03 // encodings of .eh_frame_hdr that linkers write
#define PE_PCREL_SDATA4 0x1b
#define PE_DATAREL_SDATA4 0x3b

// Copies the pages of [from, from + size) (the object's addresses) that are not there yet.
static bool fill(struct al_cfi *c, uint64_t from, uint64_t size) {
    if (from < c->base || from >= c->end || size > c->end - from)
        return false;
    uint64_t first = (from - c->base) / PAGE, last = (from + size - 1 - c->base) / PAGE;
    for (uint64_t page = first; page <= last;) {
        if (c->filled[page / 8] >> page % 8 & 1) {
            page++;
            continue;
        }
        uint64_t run = page;
        while (run <= last && run - page < 256 && !(c->filled[run / 8] >> run % 8 & 1))
            run++;
        uint64_t at = page * PAGE, bytes = (run - page) * PAGE;
        if (bytes > c->end - c->base - at)
            bytes = c->end - c->base - at;
        c->copied += bytes;
        if (c->copied > AL_CFI_COPY_MOST || !al_memory_get(c->memory, c->bias + c->base + at, c->image + FRONT + at, (uint32_t)bytes))
            return false;
        for (; page < run; page++)
            c->filled[page / 8] |= (unsigned char)(1u << page % 8);
    }
    return true;
}

static void write_header(struct al_cfi *c, uint64_t size) {
    Elf64_Ehdr h = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                    .e_type = ET_DYN,
                    .e_machine = MACHINE,
                    .e_version = EV_CURRENT,
                    .e_phoff = sizeof h,
                    .e_ehsize = sizeof h,
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = 1};
    Elf64_Phdr p = {.p_type = PT_GNU_EH_FRAME,
                    .p_flags = PF_R,
                    .p_offset = FRONT + (c->header - c->base),
                    .p_vaddr = c->header,
                    .p_paddr = c->header,
                    .p_filesz = size,
                    .p_memsz = size,
                    .p_align = 4};
    memcpy(c->image, &h, sizeof h);
    memcpy(c->image + sizeof h, &p, sizeof p);
}

// Finds .eh_frame by the head of .eh_frame_hdr, and sets up what the image spans.
static int span(struct al_cfi *c, uint64_t size, uint64_t segment_end, uint64_t *ret_frames) {
    unsigned char head[12];
    if (size < sizeof head || !al_memory_get(c->memory, c->bias + c->header, head, sizeof head) || head[0] != 1 ||
        head[1] != PE_PCREL_SDATA4)
        return AL_E_FORMAT;
    uint64_t frames = c->header + 4 + (uint64_t)(int64_t)(int32_t)al_u32(head + 4);
    if (head[2] == PE_UDATA4 && head[3] == PE_DATAREL_SDATA4) {
        c->count = al_u32(head + 8);
        if (c->count > (size - sizeof head) / 8)
            c->count = (size - sizeof head) / 8;
        c->table = c->count ? c->header + sizeof head : 0;
    }
    // Linkers put the one behind the other, either way round.
    c->base = (frames < c->header ? frames : c->header) & ~(uint64_t)(PAGE - 1);
    c->end = c->header + size > segment_end ? c->header + size : segment_end;
    if (frames >= c->end || c->end - c->base > AL_CFI_SPAN_MOST)
        return AL_E_FORMAT;
    *ret_frames = frames;
    return 0;
}

static const unsigned char *at(const struct al_cfi *c, uint64_t address) {
    return c->image + FRONT + (address - c->base);
}

static int make_image(struct al_cfi *c) {
    c->image_size = FRONT + (c->end - c->base);
    c->filled = calloc(1, (c->end - c->base) / PAGE / 8 + 1);
    c->image = mmap(NULL, c->image_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->image == MAP_FAILED)
        c->image = NULL;
    return c->filled && c->image ? 0 : AL_E_NOMEM;
}

static int understand(struct al_cfi *c, bool ok) {
    c->elf = ok ? c->e->elf_memory((char *)c->image, c->image_size) : NULL;
    c->cfi = c->elf ? c->e->dwarf_getcfi_elf(c->elf) : NULL;
    if (c->cfi)
        return 0;
    al_cfi_close(c);
    return AL_E_FORMAT;
}

int al_cfi_open(struct al_cfi *c, const struct al_elfutils *e, const struct al_memory *memory, uint64_t bias,
                uint64_t header, uint64_t size, uint64_t segment_end) {
    uint64_t frames = 0;
    *c = (struct al_cfi){.e = e, .memory = memory, .bias = bias, .header = header};
    if (size > AL_CFI_COPY_MOST || header > UINT64_MAX - AL_CFI_SPAN_MOST)
        return AL_E_FORMAT;
    int error = span(c, size, segment_end, &frames);
    if (error)
        return error;
    if ((error = make_image(c))) {
        al_cfi_close(c);
        return error;
    }
    write_header(c, size);
    uint64_t rest = c->end - frames < AL_CFI_WHOLE_MOST ? c->end - frames : AL_CFI_WHOLE_MOST;
    return understand(c, fill(c, header, size) &&
                             (c->table || (fill(c, frames, rest) && al_cfi_section_ok(at(c, frames), rest, true))));
}

// A header is put into the image's front, as if it lay right before the object's memory.
int al_cfi_open_bare(struct al_cfi *c, const struct al_elfutils *e, const struct al_memory *memory, uint64_t bias,
                     uint64_t frames, uint64_t size) {
    unsigned char head[8] = {1, PE_PCREL_SDATA4, PE_OMIT, PE_OMIT};
    *c = (struct al_cfi){.e = e, .memory = memory, .bias = bias};
    if (frames < FRONT || size > AL_CFI_WHOLE_MOST || size < sizeof head || frames > UINT64_MAX - size)
        return AL_E_FORMAT;
    c->base = frames & ~(uint64_t)(PAGE - 1);
    c->end = frames + size;
    c->header = c->base - FRONT / 2;
    int error = make_image(c);
    if (error) {
        al_cfi_close(c);
        return error;
    }
    int32_t way = (int32_t)(frames - (c->header + 4));
    memcpy(head + 4, &way, sizeof way);
    write_header(c, sizeof head);
    memcpy(c->image + FRONT / 2, head, sizeof head);
    return understand(c, fill(c, frames, size) && al_cfi_section_ok(at(c, frames), size, true));
}

void al_cfi_close(struct al_cfi *c) {
    if (c->cfi)
        (void)c->e->dwarf_cfi_end(c->cfi);
    if (c->elf)
        (void)c->e->elf_end(c->elf);
    if (c->image)
        (void)munmap(c->image, c->image_size);
    free(c->filled);
    *c = (struct al_cfi){0};
}

// Bytes of code that an entry covers.
static uint64_t covers(const unsigned char *fde, unsigned pointer) {
    uint64_t bytes = 0;
    memcpy(&bytes, fde + 8 + pointer, pointer);
    return bytes;
}

// Copies the entry that covers the address, and the one that it refers to, so that libdw finds both. The table tells only where
// each begins: code without an entry (assembly) follows another's.
static bool fill_entry(struct al_cfi *c, uint64_t address, uint64_t *ret_start) {
    uint64_t low = 0, high = c->count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (c->header + (uint64_t)(int64_t)(int32_t)al_u32(at(c, c->table + 8 * middle)) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return false;
    const unsigned char *entry = at(c, c->table + 8 * (low - 1));
    uint64_t fde = c->header + (uint64_t)(int64_t)(int32_t)al_u32(entry + 4);
    uint64_t start = c->header + (uint64_t)(int64_t)(int32_t)al_u32(entry);
    if (!fill(c, fde, 8))
        return false;
    struct al_cfi_shape shape;
    uint32_t length = al_u32(at(c, fde)), back = al_u32(at(c, fde + 4));
    uint64_t cie = fde + 4 - back;
    if (length < 4 || length > AL_CFI_ENTRY_MOST || !fill(c, fde, 4ULL + length) || !fill(c, cie, 8))
        return false;
    uint32_t cie_length = al_u32(at(c, cie));
    if (cie_length > AL_CFI_ENTRY_MOST || !fill(c, cie, 4ULL + cie_length) ||
        !al_cfi_cie_ok(at(c, cie), 4ULL + cie_length, true, &shape) || !al_cfi_fde_ok(at(c, fde), 4ULL + length, &shape) ||
        address - start >= covers(at(c, fde), shape.pointer))
        return false;
    *ret_start = start;
    return true;
}

int al_cfi_rule(struct al_cfi *c, struct al_rules *rules, uint64_t address, uint32_t *ret, uint64_t *ret_start) {
    *ret_start = 0;
    if (c->table && !fill_entry(c, address - c->bias, ret_start))
        return AL_E_NOENT;
    if (*ret_start)
        *ret_start += c->bias;
    return al_cfi_rule_of(c->e, c->cfi, rules, address - c->bias, ret);
}
