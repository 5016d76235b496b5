// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi_check.h"

#include <dwarf.h>
#include <string.h>

#include "stack/core/memory.h"

#define PE_ABSPTR 0x00
#define PE_ALIGNED 0x50
#define PE_OMIT 0xff

struct reader {
    const unsigned char *at, *end;
    bool bad;
};

static uint64_t fixed(struct reader *r, unsigned bytes) {
    uint64_t value = 0;
    if ((size_t)(r->end - r->at) < bytes) {
        r->bad = true;
        return 0;
    }
    memcpy(&value, r->at, bytes);
    r->at += bytes;
    return value;
}

// Signed ones are only skipped: their length is the same.
static uint64_t leb(struct reader *r) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = fixed(r, 1);
        value |= (byte & 0x7f) << shift;
        if (r->bad || !(byte & 0x80))
            return value;
    }
    r->bad = true;
    return 0;
}

static void skip(struct reader *r, uint64_t bytes) {
    if (bytes > (uint64_t)(r->end - r->at))
        r->bad = true;
    else
        r->at += bytes;
}

static void reg(struct reader *r) {
    if (leb(r) >= AL_CFI_REGISTERS)
        r->bad = true;
}

static void block(struct reader *r) {
    skip(r, leb(r));
}

static void extended(struct reader *r, unsigned op, unsigned pointer, unsigned *states) {
    switch (op) {
    case DW_CFA_nop:
    case DW_CFA_GNU_window_save: break; // also aarch64's signed return addresses
    case DW_CFA_set_loc: skip(r, pointer ? pointer : UINT64_MAX); break;
    case DW_CFA_advance_loc1: skip(r, 1); break;
    case DW_CFA_advance_loc2: skip(r, 2); break;
    case DW_CFA_advance_loc4: skip(r, 4); break;
    case DW_CFA_remember_state: r->bad |= ++*states > AL_CFI_STATES; break;
    case DW_CFA_restore_state:
        r->bad |= !*states;
        *states -= !r->bad;
        break;
    case DW_CFA_restore_extended:
    case DW_CFA_undefined:
    case DW_CFA_same_value:
    case DW_CFA_def_cfa_register: reg(r); break;
    case DW_CFA_register:
        reg(r);
        reg(r);
        break;
    case DW_CFA_offset_extended:
    case DW_CFA_offset_extended_sf:
    case DW_CFA_def_cfa:
    case DW_CFA_def_cfa_sf:
    case DW_CFA_val_offset:
    case DW_CFA_val_offset_sf:
    case DW_CFA_GNU_negative_offset_extended:
        reg(r);
        (void)leb(r);
        break;
    case DW_CFA_def_cfa_offset:
    case DW_CFA_def_cfa_offset_sf:
    case DW_CFA_GNU_args_size: (void)leb(r); break;
    case DW_CFA_def_cfa_expression: block(r); break;
    case DW_CFA_expression:
    case DW_CFA_val_expression:
        reg(r);
        block(r);
        break;
    default: r->bad = true;
    }
}

static bool program_ok(struct reader *r, unsigned pointer) {
    unsigned states = 0;
    while (!r->bad && r->at < r->end) {
        unsigned op = (unsigned)fixed(r, 1);
        if ((op & 0xc0) == DW_CFA_offset)
            (void)leb(r);
        else if (!(op & 0xc0))
            extended(r, op, pointer, &states);
    }
    return !r->bad;
}

static unsigned encoded_size(unsigned encoding) {
    if (encoding == PE_OMIT || (encoding & 0x70) == PE_ALIGNED)
        return 0;
    switch (encoding & 7) {
    case 0:
    case 4: return 8;
    case 2: return 2;
    case 3: return 4;
    default: return 0;
    }
}

// "zR", "zPLR", "zRS"...: a letter for each thing in the augmentation's data.
static unsigned pointer_size(struct reader *data, const char *letters) {
    unsigned pointer = 8;
    for (; *letters && !data->bad; letters++) {
        unsigned encoding = *letters == 'R' || *letters == 'L' || *letters == 'P' ? (unsigned)fixed(data, 1) : 0;
        if (*letters == 'R')
            pointer = encoded_size(encoding);
        else if (*letters == 'P')
            skip(data, encoded_size(encoding) ? encoded_size(encoding) : UINT64_MAX);
    }
    return data->bad ? 0 : pointer;
}

bool al_cfi_cie_ok(const unsigned char *entry, size_t size, bool eh, struct al_cfi_shape *ret) {
    struct reader r = {entry, entry + size, false};
    skip(&r, 4);
    uint64_t id = fixed(&r, 4), version = fixed(&r, 1);
    const char *letters = (const char *)r.at;
    const unsigned char *zero = r.bad ? NULL : memchr(r.at, '\0', (size_t)(r.end - r.at));
    *ret = (struct al_cfi_shape){8, false};
    if (!zero || id != (eh ? 0 : UINT32_MAX) || (version != 1 && version != 3 && (version != 4 || eh)) ||
        (letters[0] && letters[0] != 'z') || strlen(letters) > 8)
        return false;
    r.at = zero + 1;
    uint64_t sizes = version == 4 ? fixed(&r, 2) : 8; // of an address, and of a segment above it
    if (sizes != 8)
        return false;
    (void)leb(&r);
    (void)leb(&r);
    if ((version == 1 ? fixed(&r, 1) : leb(&r)) >= AL_CFI_REGISTERS)
        return false;
    if (letters[0] == 'z') {
        uint64_t length = leb(&r);
        struct reader data = {r.at, r.at, false};
        skip(&r, length);
        if (r.bad)
            return false;
        data.end = r.at;
        *ret = (struct al_cfi_shape){pointer_size(&data, letters + 1), true};
    }
    return !r.bad && ret->pointer && program_ok(&r, ret->pointer);
}

bool al_cfi_fde_ok(const unsigned char *entry, size_t size, const struct al_cfi_shape *shape) {
    struct reader r = {entry, entry + size, false};
    skip(&r, 8 + 2ULL * shape->pointer);
    if (shape->augmented)
        block(&r);
    return !r.bad && program_ok(&r, shape->pointer);
}

static bool entry_ok(const unsigned char *section, size_t size, size_t at, size_t length, bool eh) {
    struct al_cfi_shape shape;
    uint32_t id = al_u32(section + at + 4);
    if (id == (eh ? 0 : UINT32_MAX))
        return al_cfi_cie_ok(section + at, length, eh, &shape);
    uint64_t cie = eh ? at + 4 - (uint64_t)id : id;
    if (cie > size - 8 || al_u32(section + cie) > AL_CFI_ENTRY_MOST || al_u32(section + cie) + 4ULL > size - cie)
        return false;
    return al_cfi_cie_ok(section + cie, al_u32(section + cie) + (size_t)4, eh, &shape) &&
           al_cfi_fde_ok(section + at, length, &shape);
}

bool al_cfi_section_ok(const unsigned char *section, size_t size, bool eh) {
    for (size_t at = 0; size - at >= 8;) {
        uint32_t length = al_u32(section + at);
        if (!length && eh)
            return true; // the end
        if (length < 4 || length > AL_CFI_ENTRY_MOST || length + (size_t)4 > size - at ||
            !entry_ok(section, size, at, length + (size_t)4, eh))
            return false;
        at += length + (size_t)4;
    }
    return true;
}
