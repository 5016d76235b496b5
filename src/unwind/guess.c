// SPDX-License-Identifier: Apache-2.0
// Frames without enough to go by. Of a thread that waits only the stack pointer, the instruction and the system call's
// arguments are known; a function whose frame hangs on another register (a frame pointer) cannot be left by its rule. What
// is looked for then is its return address: the first word up the stack that points behind a call. Best is a call of this
// very function, next one by pointer or table, last one of another function (which may have jumped here). What lies in
// dead variables can mislead: such frames are marked.
#include <string.h>

#include "unwind/parts.h"

#define WORDS_MOST 4096u // looked at for one frame
#define STUB_MOST 16u

#if defined __aarch64__
static void read_call(struct al_unwind *u, struct al_known *k, uint64_t ret) {
    uint32_t code;
    k->call = AL_CALL_NONE;
    if (!al_memory_get(&u->memory, ret - 4, &code, sizeof code))
        return;
    if (code >> 26 == 0x25) { // bl
        k->call = AL_CALL_DIRECT;
        k->target = ret - 4 + (uint64_t)(((int64_t)(int32_t)(code << 6) >> 6) * 4);
    } else if ((code & 0xfffffc1f) == 0xd63f0000 || (code & 0xfefff800) == 0xd63f0800) { // blr, blraa
        k->call = AL_CALL_INDIRECT;
    }
}

uint64_t al_stub_slot(struct al_unwind *u, uint64_t stub) {
    (void)u;
    (void)stub;
    return 0;
}
#else
static void read_call(struct al_unwind *u, struct al_known *k, uint64_t ret) {
    unsigned char b[8] = {0}; // what stands before the return address
    unsigned in_page = ret % 4096;
    k->call = AL_CALL_NONE;
    if (!al_memory_get(&u->memory, ret - sizeof b, b, sizeof b) &&
        (in_page >= sizeof b || !in_page || !al_memory_get(&u->memory, ret - in_page, b + sizeof b - in_page, in_page)))
        return;
    if (b[3] == 0xe8) {
        k->call = AL_CALL_DIRECT;
        k->target = ret + (uint64_t)(int64_t)(int32_t)al_u32(b + 4);
    } else if ((b[6] == 0xff && (b[7] & 0x38) == 0x10) || (b[5] == 0xff && (b[6] & 0x38) == 0x10) ||
               (b[4] == 0xff && (b[5] & 0x38) == 0x10) || (b[2] == 0xff && (b[3] & 0x38) == 0x10) ||
               (b[1] == 0xff && (b[2] & 0x38) == 0x10)) {
        k->call = AL_CALL_INDIRECT;
    }
}

// [endbr64] [bnd] jmp *slot(%rip)
uint64_t al_stub_slot(struct al_unwind *u, uint64_t stub) {
    unsigned char b[STUB_MOST];
    if (!al_memory_get(&u->memory, stub, b, sizeof b))
        return 0;
    unsigned at = memcmp(b, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0;
    at += b[at] == 0xf2;
    if (b[at] != 0xff || b[at + 1] != 0x25)
        return 0;
    return stub + at + 6 + (uint64_t)(int64_t)(int32_t)al_u32(b + at + 2);
}
#endif

static uint64_t stub_target(struct al_unwind *u, uint64_t stub) {
    uint64_t slot = al_stub_slot(u, stub), target;
    return slot && al_memory_u64(&u->memory, slot, &target) ? target : 0;
}

// How well `address` fits as the place where the function that begins at `start` returns to: 0 not at all, 3 best.
static int fit(struct al_unwind *u, uint64_t address, uint64_t start) {
    const struct al_code_area *area = al_objects_find(&u->objects, address - 1);
    if (!area || address == area->start)
        return 0;
    bool of_object = area->dso != NULL;
    struct al_known *k = (struct al_known *)al_known_get(u, address - 1); // the table is u's own
    if (!k)
        return 0;
    if (k->call == AL_CALL_NOT_TRIED) {
        read_call(u, k, address);
        uint64_t behind = k->call == AL_CALL_DIRECT ? stub_target(u, k->target) : 0;
        if (behind)
            k->target = behind;
    }
    if (k->call == AL_CALL_NONE || (of_object && !k->rule && !k->outermost))
        return 0;
    return k->call == AL_CALL_INDIRECT ? 2 : start && k->target == start ? 3 : 1;
}

// Where on the stack the return address is.
static bool find_return(struct al_unwind *u, uint64_t from, uint64_t start, uint64_t *ret) {
    int best = 0;
    for (unsigned i = 0; i < WORDS_MOST && best < 3; i++) {
        uint64_t at = (from & ~7ULL) + 8ULL * i, word;
        if (!al_copy_u64(&u->copy, at, &word))
            break;
        int now = fit(u, word, start);
        if (now > best) {
            best = now;
            *ret = at;
        }
    }
    return best > 0;
}

bool al_guess_cfa(struct al_unwind *u, const struct al_known *k, const struct al_regs *regs, uint64_t *ret_cfa) {
    const struct al_rule *rule = &u->rules.list[k->rule - 1];
    const struct al_rule_reg ra = rule->regs[rule->ra]; // what is looked up on the way may move the list
    uint64_t at;
    if (ra.kind != AL_RULE_AT || !find_return(u, regs->value[AL_REG_SP], k->start, &at))
        return false;
    *ret_cfa = at - (uint64_t)(int64_t)ra.value;
    return *ret_cfa > regs->value[AL_REG_SP];
}

// Whether a function begins by making a frame pointer.
static bool keeps_frame_pointer(struct al_unwind *u, uint64_t start) {
    unsigned char b[16];
    if (!start || !al_memory_get(&u->memory, start, b, sizeof b))
        return false;
#if defined __aarch64__
    unsigned at = al_u32(b) == 0xd503233f || (al_u32(b) & 0xffffff3f) == 0xd503241f ? 4 : 0; // paciasp, bti
    return (al_u32(b + at) & 0xffc07fff) == 0xa9807bfd;                                      // stp x29, x30, [sp, #-n]!
#else
    unsigned at = memcmp(b, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0; // endbr64
    return b[at] == 0x55 && (memcmp(b + at + 1, "\x48\x89\xe5", 3) == 0 || memcmp(b + at + 1, "\x48\x8b\xec", 3) == 0);
#endif
}

// Whether the stack stands where the call left it: assembly that needs room makes it at once. Only of code that called nobody.
static bool leaves_stack(struct al_unwind *u, uint64_t start) {
#if defined __aarch64__
    (void)u;
    (void)start;
    return false; // the return address is in a register then
#else
    static const unsigned char by[][3] = {{0x48, 0x83, 0xec}, {0x48, 0x81, 0xec}, {0x48, 0x89, 0xe5}, {0x48, 0x8b, 0xec},
                                          {0x48, 0x89, 0xe0}, {0x49, 0x89, 0xe2}, {0x4c, 0x8b, 0xdc}, {0x49, 0x89, 0xe3},
                                          {0x48, 0x8d, 0x64}, {0x48, 0x8d, 0xa4}}; // sub, lea; or it is kept elsewhere first
    unsigned char b[16];
    if (!start || !al_memory_get(&u->memory, start, b, sizeof b))
        return false;
    unsigned at = memcmp(b, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0; // endbr64
    for (size_t i = 0; i < sizeof by / sizeof *by; i++)
        if (memcmp(b + at, by[i], sizeof by[i]) == 0)
            return false;
    return (b[at + (b[at] == 0x41)] & 0xf8) != 0x50 && b[at] != 0xc8; // push, enter
#endif
}

static bool by_frame_pointer(struct al_unwind *u, const struct al_known *k, struct al_regs *regs) {
    uint64_t fp = regs->value[AL_REG_FP], pc, saved;
    if (!al_reg_known(regs, AL_REG_FP) || fp < regs->value[AL_REG_SP] || fp % 8 != 0 || !al_copy_u64(&u->copy, fp, &saved) ||
        !al_copy_u64(&u->copy, fp + 8, &pc) || !fit(u, pc, k->start))
        return false;
    regs->value[AL_REG_FP] = saved;
    regs->value[AL_REG_SP] = fp + 16;
    regs->value[AL_REG_PC] = pc;
    return true;
}

// Code made at run time, or assembly without tables. A frame pointer is believed first where the function makes one, or
// where that cannot be seen; else the words on the stack are: the first at once where nothing was put above it.
bool al_guess_caller(struct al_unwind *u, const struct al_known *k, struct al_regs *regs, bool called_nobody) {
    uint64_t at, pc;
    if (called_nobody && (k->address == k->start || leaves_stack(u, k->start)) &&
        al_copy_u64(&u->copy, regs->value[AL_REG_SP], &pc) && fit(u, pc, k->start)) {
        regs->value[AL_REG_SP] += 8;
        regs->value[AL_REG_PC] = pc;
        return true;
    }
    if ((!k->start || keeps_frame_pointer(u, k->start)) && by_frame_pointer(u, k, regs))
        return true;
    if (!find_return(u, regs->value[AL_REG_SP], k->start, &at) || !al_copy_u64(&u->copy, at, &pc))
        return by_frame_pointer(u, k, regs);
    regs->value[AL_REG_SP] = at + 8;
    regs->value[AL_REG_PC] = pc;
    return true;
}
