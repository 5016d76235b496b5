// SPDX-License-Identifier: Apache-2.0
#include "unwind/expr.h"

#include <dwarf.h>
#include <string.h>

struct machine {
    uint64_t stack[AL_EXPR_DEPTH];
    unsigned depth;
    const struct al_regs *regs;
    uint64_t cfa;
    struct al_copy *copy;
};

static enum al_step push(struct machine *m, uint64_t value) {
    if (m->depth == AL_EXPR_DEPTH)
        return AL_STEP_FAILS;
    m->stack[m->depth++] = value;
    return AL_STEP_OK;
}

static enum al_step push_register(struct machine *m, uint64_t number, uint64_t offset) {
    if (number >= AL_REG_COUNT)
        return AL_STEP_FAILS;
    if (!al_reg_known(m->regs, (unsigned)number))
        return AL_STEP_NEEDS;
    return push(m, m->regs->value[number] + offset);
}

static enum al_step deref(struct machine *m, uint64_t size) {
    uint64_t value;
    if (!m->depth || size < 1 || size > 8 || !al_copy_u64(m->copy, m->stack[m->depth - 1], &value))
        return AL_STEP_FAILS;
    if (size < 8)
        value &= (1ULL << 8 * size) - 1;
    m->stack[m->depth - 1] = value;
    return AL_STEP_OK;
}

static enum al_step two(struct machine *m, uint8_t atom) {
    if (m->depth < 2)
        return AL_STEP_FAILS;
    uint64_t y = m->stack[--m->depth], *x = &m->stack[m->depth - 1];
    switch (atom) {
    case DW_OP_and: *x &= y; break;
    case DW_OP_or: *x |= y; break;
    case DW_OP_xor: *x ^= y; break;
    case DW_OP_plus: *x += y; break;
    case DW_OP_minus: *x -= y; break;
    case DW_OP_mul: *x *= y; break;
    case DW_OP_shl: *x = y < 64 ? *x << y : 0; break;
    case DW_OP_shr: *x = y < 64 ? *x >> y : 0; break;
    case DW_OP_shra: *x = *x >> 63 ? ~(~*x >> (y < 64 ? y : 63)) : *x >> (y < 64 ? y : 63); break;
    case DW_OP_eq: *x = *x == y; break;
    case DW_OP_ne: *x = *x != y; break;
    case DW_OP_lt: *x = (int64_t)*x < (int64_t)y; break;
    case DW_OP_le: *x = (int64_t)*x <= (int64_t)y; break;
    case DW_OP_gt: *x = (int64_t)*x > (int64_t)y; break;
    case DW_OP_ge: *x = (int64_t)*x >= (int64_t)y; break;
    case DW_OP_div:
        if (!y || (y == UINT64_MAX && *x == 1ULL << 63))
            return AL_STEP_FAILS;
        *x = (uint64_t)((int64_t)*x / (int64_t)y);
        break;
    case DW_OP_mod:
        if (!y)
            return AL_STEP_FAILS;
        *x %= y;
        break;
    default: return AL_STEP_FAILS;
    }
    return AL_STEP_OK;
}

static enum al_step shuffle(struct machine *m, const struct al_op *op) {
    unsigned n = m->depth;
    uint64_t *s = m->stack;
    if (!n)
        return AL_STEP_FAILS;
    switch (op->atom) {
    case DW_OP_dup: return push(m, s[n - 1]);
    case DW_OP_over: return n > 1 ? push(m, s[n - 2]) : AL_STEP_FAILS;
    case DW_OP_pick: return op->a < n ? push(m, s[n - 1 - op->a]) : AL_STEP_FAILS;
    case DW_OP_drop: m->depth--; return AL_STEP_OK;
    case DW_OP_swap:
    case DW_OP_rot: {
        unsigned back = op->atom == DW_OP_swap ? 2 : 3;
        if (n < back)
            return AL_STEP_FAILS;
        uint64_t top = s[n - 1];
        memmove(s + n - back + 1, s + n - back, (back - 1) * sizeof *s);
        s[n - back] = top;
        return AL_STEP_OK;
    }
    case DW_OP_neg: s[n - 1] = 0 - s[n - 1]; return AL_STEP_OK;
    case DW_OP_not: s[n - 1] = ~s[n - 1]; return AL_STEP_OK;
    case DW_OP_abs: s[n - 1] = s[n - 1] >> 63 ? 0 - s[n - 1] : s[n - 1]; return AL_STEP_OK;
    default: return AL_STEP_FAILS;
    }
}

static enum al_step operate(struct machine *m, const struct al_op *op) {
    uint8_t atom = op->atom;
    if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31)
        return push(m, atom - DW_OP_lit0);
    if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
        return push_register(m, atom - DW_OP_breg0, op->a);
    switch (atom) {
    case DW_OP_nop:
    case DW_OP_stack_value: return AL_STEP_OK;
    case DW_OP_bregx: return push_register(m, op->a, op->b);
    case DW_OP_addr:
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_const4u:
    case DW_OP_const4s:
    case DW_OP_const8u:
    case DW_OP_const8s:
    case DW_OP_constu:
    case DW_OP_consts: return push(m, op->a);
    case DW_OP_call_frame_cfa: return push(m, m->cfa);
    case DW_OP_deref: return deref(m, 8);
    case DW_OP_deref_size: return deref(m, op->a);
    case DW_OP_plus_uconst:
        if (!m->depth)
            return AL_STEP_FAILS;
        m->stack[m->depth - 1] += op->a;
        return AL_STEP_OK;
    case DW_OP_dup:
    case DW_OP_over:
    case DW_OP_pick:
    case DW_OP_drop:
    case DW_OP_swap:
    case DW_OP_rot:
    case DW_OP_neg:
    case DW_OP_not:
    case DW_OP_abs: return shuffle(m, op);
    default: return two(m, atom);
    }
}

// A branch leads to the operation that begins at a byte: 3 bytes are the branch itself.
static bool branch(const struct al_op *ops, uint32_t count, uint32_t *at) {
    int64_t to = (int64_t)ops[*at].offset + 3 + (int16_t)ops[*at].a;
    for (uint32_t i = 0; i < count; i++)
        if (ops[i].offset == to) {
            *at = i;
            return true;
        }
    return false;
}

enum al_step al_expr_value(const struct al_rules *all, uint32_t number, const struct al_regs *regs, uint64_t cfa,
                           struct al_copy *copy, uint64_t *ret) {
    struct machine m = {.regs = regs, .cfa = cfa, .copy = copy};
    if (number >= all->exprs_count)
        return AL_STEP_FAILS;
    const struct al_op *ops = all->ops + all->exprs[number].first;
    uint32_t count = all->exprs[number].count, steps = 0;
    for (uint32_t at = 0; at < count;) {
        if (++steps > AL_EXPR_STEPS)
            return AL_STEP_FAILS;
        uint8_t atom = ops[at].atom;
        if (atom == DW_OP_skip || atom == DW_OP_bra) {
            if (atom == DW_OP_bra && !m.depth)
                return AL_STEP_FAILS;
            if (atom == DW_OP_bra && !m.stack[--m.depth])
                at++;
            else if (!branch(ops, count, &at))
                return AL_STEP_FAILS;
            continue;
        }
        enum al_step step = operate(&m, &ops[at]);
        if (step != AL_STEP_OK)
            return step;
        at++;
    }
    if (!m.depth)
        return AL_STEP_FAILS;
    *ret = m.stack[m.depth - 1];
    return AL_STEP_OK;
}
