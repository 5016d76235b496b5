// SPDX-License-Identifier: Apache-2.0
// One frame of the interpreter, from its bytes.
#ifndef AL_STACK_CORE_FRAME_H
#define AL_STACK_CORE_FRAME_H

#include "stack/core/walk.h"

#define AL_OWNER_MOST 8u // larger owners are damage

// What is needed of a layout for each frame, in a form that stays in registers.
struct al_frame_shape {
    uint32_t previous, code, instr, owner, entry, tlbc;
    uint32_t instr_unit, shim_owner;
    uint64_t tag; // bits of the reference to the code that are no address
};

static inline struct al_frame_shape al_frame_shape(const struct al_layout *l) {
    return (struct al_frame_shape){
        l->frame_previous,
        l->frame_code,
        l->frame_instr,
        l->frame_owner,
        l->frame_entry,
        l->frame_tlbc,
        l->instr_unit,
        l->shim_owner,
        l->version >= 0x030d ? 3 : 0, // Python 3.14 on
    };
}

// p: frame_size bytes at `address`. *next: the frame that called it; *shim: it stands between runs of the interpreter's
// loop and runs no code. False: it is no frame.
static inline bool al_frame_parse(struct al_frame_shape s, const unsigned char *p, uint64_t address,
                                  struct al_raw_frame *f, uint64_t *next, bool *shim) {
    unsigned owner = s.owner == AL_LAYOUT_NONE ? 0 : p[s.owner];
    *next = al_u64(p + s.previous);
    *shim = s.shim_owner && owner >= s.shim_owner;
    f->address = address;
    f->code = al_u64(p + s.code) & ~s.tag;
    f->instr =
        s.instr_unit ? (uint64_t)(int64_t)(int32_t)al_u32(p + s.instr) * s.instr_unit : al_u64(p + s.instr);
    f->tlbc = s.tlbc == AL_LAYOUT_NONE ? 0 : al_u32(p + s.tlbc);
    f->entry = s.entry != AL_LAYOUT_NONE ? p[s.entry] != 0 : s.shim_owner == 0;
    return *next != address && owner <= AL_OWNER_MOST;
}

#endif
