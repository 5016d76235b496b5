// SPDX-License-Identifier: Apache-2.0
// Steps from frame to frame on a made stack, and the expressions that some rules are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dwarf.h>
#include <string.h>

#include "base/err.h"
#include "suites.h"
#include "unwind/expr.h"

#define FROM 0x7fff00001000u
#define WORDS 16

struct made {
    uint64_t words[WORDS]; // the stack: each word is 100 + its number
    struct al_regs regs;
    struct al_copy copy;
    struct al_rules rules;
    struct al_rule rule; // CFA: stack pointer + 32, return address below it
};

static void make(struct made *m) {
    struct al_unwind_input in = {.stack = (unsigned char *)m->words, .size = sizeof m->words};
    memset(m, 0, sizeof *m);
    for (uint64_t i = 0; i < WORDS; i++)
        m->words[i] = 100 + i;
    in.regs[AL_REG_SP] = m->regs.value[AL_REG_SP] = FROM;
    in.regs[AL_REG_PC] = m->regs.value[AL_REG_PC] = 0x1000;
    m->regs.known = 1ULL << AL_REG_SP | 1ULL << AL_REG_PC;
    al_copy_init(&m->copy, &in, NULL);
    m->rule.cfa_reg = AL_REG_SP;
    m->rule.cfa_offset = 32;
    m->rule.ra = AL_REG_PC;
    m->rule.regs[AL_REG_PC] = (struct al_rule_reg){-8, AL_RULE_AT};
    m->rule.regs[AL_REG_SP] = (struct al_rule_reg){0, AL_RULE_IS};
}

static enum al_step go(struct made *m) {
    uint64_t cfa = 0;
    uint32_t number;
    assert_int_equal(al_rules_add(&m->rules, &m->rule, &number), 0); // fills in what a step goes by
    al_rules_free(&m->rules);
    enum al_step step = al_rule_cfa(&m->rules, &m->rule, &m->regs, &m->copy, &cfa);
    return step ? step : al_rule_step(&m->rules, &m->rule, cfa, &m->regs, &m->copy);
}

static void a_step_takes_what_was_saved(void **state) {
    (void)state;
    struct made m;
    make(&m);
    m.regs.value[1] = 77;
    m.regs.known |= 1ULL << 1;
    m.rule.regs[0] = (struct al_rule_reg){-32, AL_RULE_AT};
    m.rule.regs[1].kind = AL_RULE_SAME;
    m.rule.regs[2].kind = AL_RULE_SAME; // not known, and stays so
    m.rule.regs[3] = (struct al_rule_reg){1, AL_RULE_COPY};
    m.rule.regs[4] = (struct al_rule_reg){-16, AL_RULE_IS};
    assert_int_equal(go(&m), AL_STEP_OK);
    assert_int_equal(m.regs.value[AL_REG_PC], 103);
    assert_int_equal(m.regs.value[AL_REG_SP], FROM + 32);
    assert_int_equal(m.regs.value[0], 100);
    assert_int_equal(m.regs.value[1], 77);
    assert_int_equal(m.regs.value[3], 77);
    assert_int_equal(m.regs.value[4], FROM + 16);
    assert_int_equal(m.regs.known, 1ULL << AL_REG_SP | 1ULL << AL_REG_PC | 0x1b);
}

static void what_is_missing_is_told(void **state) {
    (void)state;
    struct made m;
    make(&m);
    m.rule.cfa_reg = AL_REG_FP;
    assert_int_equal(go(&m), AL_STEP_NEEDS);
    m.rule.cfa_reg = AL_REG_SP;
    m.rule.cfa_offset = 8 * WORDS + 16; // the return address lies behind the copy
    assert_int_equal(go(&m), AL_STEP_FAILS);
    assert_true(m.copy.beyond);
    m.copy.beyond = false;
    m.rule.cfa_offset = -64; // below it: nonsense, not a copy that was too short
    assert_int_equal(go(&m), AL_STEP_FAILS);
    assert_false(m.copy.beyond);
    m.rule.regs[AL_REG_PC].kind = AL_RULE_LOST;
    m.rule.cfa_offset = 32;
    assert_int_equal(go(&m), AL_STEP_END);
    assert_int_equal(m.regs.value[AL_REG_PC], 0x1000);
}

static void equal_rules_are_one(void **state) {
    (void)state;
    struct made m;
    uint32_t first, second, number;
    make(&m);
    assert_int_equal(al_rules_add(&m.rules, &m.rule, &first), 0);
    assert_int_equal(al_rules_add(&m.rules, &m.rule, &second), 0);
    assert_int_equal(first, second);
    for (int i = 0; i < 1000; i++) {
        m.rule.cfa_offset = i;
        assert_int_equal(al_rules_add(&m.rules, &m.rule, &number), 0);
    }
    assert_int_equal(m.rules.count, 1000); // 32 was there
    al_rules_free(&m.rules);
}

// Its value with the CFA 1000; what a step says, where it has none.
static enum al_step value_of(const struct al_op *ops, size_t count, uint64_t *ret) {
    struct made m;
    uint32_t number;
    make(&m);
    assert_int_equal(al_rules_add_expr(&m.rules, ops, count, &number), 0);
    enum al_step step = al_expr_value(&m.rules, number, &m.regs, 1000, &m.copy, ret);
    al_rules_free(&m.rules);
    return step;
}

static void expressions_are_worked_out(void **state) {
    (void)state;
    uint64_t value = 0;
    const struct al_op stub[] = { // a linkage stub's: sp + 8 + 8 * ((pc & 15) >= 11)
        {DW_OP_breg0 + AL_REG_SP, 0, 8, 0}, {DW_OP_breg0 + 16, 2, 0, 0}, {DW_OP_lit0 + 15, 4, 0, 0}, {DW_OP_and, 5, 0, 0},
        {DW_OP_lit0 + 11, 6, 0, 0}, {DW_OP_ge, 7, 0, 0}, {DW_OP_lit0 + 3, 8, 0, 0}, {DW_OP_shl, 9, 0, 0}, {DW_OP_plus, 10, 0, 0}};
#if !defined __aarch64__
    assert_int_equal(value_of(stub, sizeof stub / sizeof *stub, &value), AL_STEP_OK);
    assert_int_equal(value, FROM + 8);
#else
    (void)stub;
#endif
    const struct al_op memory[] = {
        {DW_OP_bregx, 0, AL_REG_SP, 16}, {DW_OP_deref, 3, 0, 0}, {DW_OP_call_frame_cfa, 4, 0, 0}, {DW_OP_minus, 5, 0, 0}};
    assert_int_equal(value_of(memory, 4, &value), AL_STEP_OK);
    assert_int_equal((int64_t)value, 102 - 1000);
    const struct al_op jump[] = {{DW_OP_lit0 + 1, 0, 0, 0}, {DW_OP_bra, 1, 1, 0}, {DW_OP_lit0 + 7, 4, 0, 0}, {DW_OP_lit0 + 9, 5, 0, 0}};
    assert_int_equal(value_of(jump, 4, &value), AL_STEP_OK);
    assert_int_equal(value, 9);
}

static void bad_expressions_end(void **state) {
    (void)state;
    uint64_t value;
    const struct al_op round[] = {{DW_OP_lit0, 0, 0, 0}, {DW_OP_skip, 1, (uint64_t)-4, 0}};
    const struct al_op under[] = {{DW_OP_plus, 0, 0, 0}};
    const struct al_op zero[] = {{DW_OP_lit0, 0, 0, 0}, {DW_OP_lit0, 1, 0, 0}, {DW_OP_div, 2, 0, 0}};
    const struct al_op overflow[] = {{DW_OP_const8s, 0, 1ULL << 63, 0}, {DW_OP_const1s, 9, UINT64_MAX, 0}, {DW_OP_div, 11, 0, 0}};
    const struct al_op nowhere[] = {{DW_OP_lit0, 0, 0, 0}, {DW_OP_skip, 1, 100, 0}};
    const struct al_op unknown[] = {{DW_OP_breg0 + 3, 0, 0, 0}};
    const struct al_op none[] = {{DW_OP_nop, 0, 0, 0}};
    const struct al_op other[] = {{DW_OP_push_object_address, 0, 0, 0}};
    struct al_rules rules = {0};
    uint32_t number;
    assert_int_equal(value_of(round, 2, &value), AL_STEP_FAILS);
    assert_int_equal(value_of(under, 1, &value), AL_STEP_FAILS);
    assert_int_equal(value_of(zero, 3, &value), AL_STEP_FAILS);
    assert_int_equal(value_of(overflow, 3, &value), AL_STEP_FAILS);
    assert_int_equal(value_of(nowhere, 2, &value), AL_STEP_FAILS);
    assert_int_equal(value_of(unknown, 1, &value), AL_STEP_NEEDS);
    assert_int_equal(value_of(none, 1, &value), AL_STEP_FAILS);
    assert_int_equal(value_of(other, 1, &value), AL_STEP_FAILS);
    assert_int_equal(al_rules_add_expr(&rules, round, 0, &number), AL_E_NOENT);
    assert_int_equal(al_rules_add_expr(&rules, round, AL_RULE_OPS_MOST + 1, &number), AL_E_TOOBIG);
}

int al_test_rule(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_takes_what_was_saved), cmocka_unit_test(what_is_missing_is_told),
        cmocka_unit_test(equal_rules_are_one),         cmocka_unit_test(expressions_are_worked_out),
        cmocka_unit_test(bad_expressions_end),
    };
    return cmocka_run_group_tests_name("unwind/rule", tests, NULL, NULL);
}
