// SPDX-License-Identifier: Apache-2.0
// Call frame information of one object of the target, from its memory: .eh_frame is loaded with the program, so that no
// file is needed and none can be cut off under the reader. Only what is looked up is copied.
#ifndef AL_UNWIND_CFI_H
#define AL_UNWIND_CFI_H

#include "unwind/elfutils.h"
#include "unwind/rule.h"

struct al_cfi {
    const struct al_elfutils *e;
    const struct al_memory *memory;
    uint64_t bias;
    // A made ELF file: a header, then the object's memory [base, end) (its own addresses), of which only pages that
    // `filled` marks were copied.
    unsigned char *image;
    size_t image_size;
    uint64_t base, end;
    unsigned char *filled;
    uint64_t copied; // bytes
    uint64_t header, table; // .eh_frame_hdr and its sorted table; table 0: none
    uint64_t count;         // of the table
    Elf *elf;
    Dwarf_CFI *cfi;
};

#define AL_CFI_SPAN_MOST (2ULL << 30)  // bytes of address space of an object's image
#define AL_CFI_COPY_MOST (64ULL << 20) // bytes of it that are copied
#define AL_CFI_WHOLE_MOST (16ULL << 20) // of .eh_frame without a table, which is copied whole

// header: the object's address of .eh_frame_hdr, size its bytes; segment_end: end of the loaded segment that holds it.
// AL_E_FORMAT: not usable; AL_E_NOMEM.
int al_cfi_open(struct al_cfi *c, const struct al_elfutils *e, const struct al_memory *memory, uint64_t bias,
                uint64_t header, uint64_t size, uint64_t segment_end);
// The same of an .eh_frame without a header (static programs), which is copied whole.
int al_cfi_open_bare(struct al_cfi *c, const struct al_elfutils *e, const struct al_memory *memory, uint64_t bias,
                     uint64_t frames, uint64_t size);
void al_cfi_close(struct al_cfi *c);
// The rule at an address of the target; *ret_start: where its function begins (0 not known). AL_E_NOENT: none there.
int al_cfi_rule(struct al_cfi *c, struct al_rules *rules, uint64_t address, uint32_t *ret, uint64_t *ret_start);
// The same from any of libdw's tables (.debug_frame); address as the object's.
int al_cfi_rule_of(const struct al_elfutils *e, Dwarf_CFI *cfi, struct al_rules *rules, uint64_t address, uint32_t *ret);
// Makes a rule of what libdw tells; for al_cfi_rule_of and its fuzzer.
int al_cfi_make_rule(const struct al_elfutils *e, Dwarf_Frame *frame, struct al_rules *rules, uint32_t *ret);

#endif
