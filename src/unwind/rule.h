// SPDX-License-Identifier: Apache-2.0
// How to get from a frame to its caller: where the caller's registers are, as call frame information tells it, made small;
// and taking that step on a copy of the stack. Rules come from the target's files, so each step is bounded.
#ifndef AL_UNWIND_RULE_H
#define AL_UNWIND_RULE_H

#include "stack/core/memory.h"
#include "unwind/unwind.h"

#if defined __aarch64__
#define AL_REG_COUNT 33u
#define AL_REG_FP 29u
#define AL_REG_SP 31u
#define AL_REG_PC 32u
#define AL_REG_SAVED 0x3ff80000ULL // x19 to x29: functions leave them as they were
#else
#define AL_REG_COUNT 17u
#define AL_REG_FP 6u
#define AL_REG_SP 7u
#define AL_REG_PC 16u
#define AL_REG_SAVED 0xf048ULL // rbx, rbp, r12 to r15: functions leave them as they were
#endif

enum al_rule_kind {
    AL_RULE_LOST,    // the caller's value cannot be had
    AL_RULE_SAME,    // this frame did not touch it
    AL_RULE_AT,      // saved at CFA + value
    AL_RULE_IS,      // is CFA + value
    AL_RULE_COPY,    // is in register `value`
    AL_RULE_AT_EXPR, // saved where expression `value` says
    AL_RULE_IS_EXPR, // is what expression `value` says
};

struct al_rule_reg {
    int32_t value;
    uint8_t kind; // enum al_rule_kind
};

struct al_rule {
    uint32_t cfa_expr; // number + 1; 0: cfa_reg + cfa_offset
    int32_t cfa_offset;
    uint8_t cfa_reg;
    uint8_t ra; // register that holds the caller's instruction
    bool signal; // a frame that a signal put there: what it interrupted stands at the instruction, not behind a call
    uint8_t changed_count; // filled in by al_rules_add: the registers that a step changes,
    uint8_t changed[AL_REG_COUNT];
    uint64_t kept; // and a bit for each that it leaves as it is
    struct al_rule_reg regs[AL_REG_COUNT];
};

struct al_op { // one operation of a DWARF expression
    uint8_t atom;
    uint32_t offset; // in bytes, for branches
    uint64_t a, b;
};

struct al_expr {
    uint32_t first, count; // in ops
};

struct al_rules { // interned
    struct al_rule *list;
    uint32_t count, cap;
    struct al_expr *exprs;
    uint32_t exprs_count, exprs_cap;
    struct al_op *ops;
    uint32_t ops_count, ops_cap;
    uint32_t *table; // number + 1 by hash
    uint32_t table_cap;
};

#define AL_RULES_MOST 100000u
#define AL_RULE_OPS_MOST 64u // operations of one expression

// *ret: the rule's number. AL_E_NOMEM, AL_E_TOOBIG.
int al_rules_add(struct al_rules *r, struct al_rule *rule, uint32_t *ret);
// Of an expression. Also AL_E_NOENT for an empty one.
int al_rules_add_expr(struct al_rules *r, const struct al_op *ops, size_t count, uint32_t *ret);
void al_rules_free(struct al_rules *r);

struct al_regs {
    uint64_t value[AL_REG_COUNT];
    uint64_t known; // bit i
};

static inline bool al_reg_known(const struct al_regs *r, unsigned i) {
    return r->known >> i & 1;
}

struct al_copy { // the stack as it was copied
    const unsigned char *bytes;
    uint64_t from; // address of the first byte
    size_t size;
    const struct al_memory *memory; // of the process, for what the copy lacks; NULL: none
    uint64_t block_from;            // of the block kept from there
    uint32_t block_size;
    unsigned char block[4096];
    bool beyond; // something above the copy's end was wanted and not there
};

void al_copy_init(struct al_copy *c, const struct al_unwind_input *in, const struct al_memory *memory);
bool al_copy_u64(struct al_copy *c, uint64_t address, uint64_t *ret);

enum al_step {
    AL_STEP_OK,
    AL_STEP_END,   // the outermost frame: the caller's instruction is marked as undefined
    AL_STEP_NEEDS, // a register that is not known
    AL_STEP_FAILS, // memory that is not there, or nonsense
};

enum al_step al_rule_cfa(const struct al_rules *all, const struct al_rule *rule, const struct al_regs *regs,
                         struct al_copy *copy, uint64_t *ret);
// Makes *regs the caller's, with the frame's CFA known.
enum al_step al_rule_step(const struct al_rules *all, const struct al_rule *rule, uint64_t cfa, struct al_regs *regs,
                          struct al_copy *copy);

#endif
