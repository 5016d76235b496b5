// SPDX-License-Identifier: Apache-2.0
// From libdw's description of a frame to a rule.
#include <dwarf.h>
#include <stdlib.h>

#include "base/err.h"
#include "unwind/cfi.h"

static int add_expr(struct al_rules *rules, const Dwarf_Op *ops, size_t count, uint32_t *ret) {
    struct al_op own[AL_RULE_OPS_MOST];
    if (count > AL_RULE_OPS_MOST)
        return AL_E_TOOBIG;
    for (size_t i = 0; i < count; i++)
        own[i] = (struct al_op){ops[i].atom, (uint32_t)ops[i].offset, ops[i].number, ops[i].number2};
    return al_rules_add_expr(rules, own, count, ret);
}

static bool fits(Dwarf_Word value) {
    return (int64_t)value >= INT32_MIN && (int64_t)value <= INT32_MAX;
}

static int make_cfa(const struct al_elfutils *e, Dwarf_Frame *frame, struct al_rules *rules, struct al_rule *rule) {
    Dwarf_Op *ops;
    size_t count;
    uint32_t number = 0;
    if (e->dwarf_frame_cfa(frame, &ops, &count) != 0 || !count)
        return AL_E_NOENT;
    if (count == 1 && ops->atom == DW_OP_bregx && ops->number < AL_REG_COUNT && fits(ops->number2)) {
        rule->cfa_reg = (uint8_t)ops->number;
        rule->cfa_offset = (int32_t)ops->number2;
        return 0;
    }
    if (count == 1 && ops->atom >= DW_OP_breg0 && ops->atom < DW_OP_breg0 + AL_REG_COUNT && fits(ops->number)) {
        rule->cfa_reg = (uint8_t)(ops->atom - DW_OP_breg0);
        rule->cfa_offset = (int32_t)ops->number;
        return 0;
    }
    int error = add_expr(rules, ops, count, &number);
    rule->cfa_expr = number + 1;
    return error;
}

// libdw tells the common forms as short expressions upon the CFA.
static bool simple(const Dwarf_Op *ops, size_t count, struct al_rule_reg *ret) {
    if (ops[0].atom == DW_OP_regx && count == 1 && ops[0].number < AL_REG_COUNT) {
        *ret = (struct al_rule_reg){(int32_t)ops[0].number, AL_RULE_COPY};
        return true;
    }
    if (ops[0].atom >= DW_OP_reg0 && ops[0].atom < DW_OP_reg0 + AL_REG_COUNT && count == 1) {
        *ret = (struct al_rule_reg){ops[0].atom - DW_OP_reg0, AL_RULE_COPY};
        return true;
    }
    if (ops[0].atom != DW_OP_call_frame_cfa)
        return false;
    size_t i = 1;
    uint64_t offset = 0;
    if (i < count && ops[i].atom == DW_OP_plus_uconst && fits(ops[i].number))
        offset = ops[i++].number;
    bool value = i < count && ops[i].atom == DW_OP_stack_value;
    if (i + value != count)
        return false;
    *ret = (struct al_rule_reg){(int32_t)offset, value ? AL_RULE_IS : AL_RULE_AT};
    return true;
}

static int make_reg(const struct al_elfutils *e, Dwarf_Frame *frame, struct al_rules *rules, unsigned i,
                    struct al_rule_reg *ret) {
    Dwarf_Op mem[3], *ops;
    size_t count;
    uint32_t number = 0;
    if (e->dwarf_frame_register(frame, (int)i, mem, &ops, &count) != 0) {
        ret->kind = AL_RULE_LOST;
        return 0;
    }
    if (!count) {
        // What a table does not mention is the ABI's to say. libdw's list of registers that a function leaves as they were
        // lacks rbx, and tells such a one from a register that is marked as undefined in no way.
        ret->kind = ops && !(AL_REG_SAVED >> i & 1) ? AL_RULE_LOST : AL_RULE_SAME;
        return 0;
    }
    if (simple(ops, count, ret))
        return 0;
    int error = add_expr(rules, ops, count, &number);
    ret->kind = ops[count - 1].atom == DW_OP_stack_value ? AL_RULE_IS_EXPR : AL_RULE_AT_EXPR;
    ret->value = (int32_t)number;
    return error;
}

int al_cfi_make_rule(const struct al_elfutils *e, Dwarf_Frame *frame, struct al_rules *rules, uint32_t *ret) {
    struct al_rule rule;
    bool signal = false;
    memset(&rule, 0, sizeof rule); // padding is hashed
    int ra = e->dwarf_frame_info(frame, NULL, NULL, &signal);
    if (ra < 0 || ra >= (int)AL_REG_COUNT)
        return AL_E_NOENT;
    rule.ra = (uint8_t)ra;
    rule.signal = signal;
    int error = make_cfa(e, frame, rules, &rule);
    for (unsigned i = 0; i < AL_REG_COUNT && !error; i++) {
        struct al_rule_reg reg = {0, AL_RULE_LOST};
        error = make_reg(e, frame, rules, i, &reg);
        rule.regs[i].kind = reg.kind;
        rule.regs[i].value = reg.value;
    }
    return error ? error : al_rules_add(rules, &rule, ret);
}

int al_cfi_rule_of(const struct al_elfutils *e, Dwarf_CFI *cfi, struct al_rules *rules, uint64_t address,
                   uint32_t *ret) {
    Dwarf_Frame *frame;
    if (e->dwarf_cfi_addrframe(cfi, address, &frame) != 0)
        return AL_E_NOENT;
    int error = al_cfi_make_rule(e, frame, rules, ret);
    free(frame);
    return error;
}
