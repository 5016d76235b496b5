// SPDX-License-Identifier: Apache-2.0
#include "unwind/rule.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "unwind/expr.h"

static uint32_t hash_of(const struct al_rule *rule) {
    const unsigned char *bytes = (const unsigned char *)rule;
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < sizeof *rule; i++)
        h = (h ^ bytes[i]) * 16777619u;
    return h;
}

static bool grow_table(struct al_rules *r) {
    uint32_t cap = r->table_cap ? 2 * r->table_cap : 256;
    uint32_t *table = calloc(cap, sizeof *table);
    if (!table)
        return false;
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t at = hash_of(&r->list[i]) & (cap - 1);
        while (table[at])
            at = (at + 1) & (cap - 1);
        table[at] = i + 1;
    }
    free(r->table);
    r->table = table;
    r->table_cap = cap;
    return true;
}

static bool same_rule(const struct al_rule *a, const struct al_rule *b) {
    if (a->cfa_expr != b->cfa_expr || a->cfa_offset != b->cfa_offset || a->cfa_reg != b->cfa_reg || a->ra != b->ra ||
        a->signal != b->signal)
        return false;
    for (unsigned i = 0; i < AL_REG_COUNT; i++)
        if (a->regs[i].kind != b->regs[i].kind || a->regs[i].value != b->regs[i].value)
            return false;
    return true;
}

// Room for `count` more of `size` bytes each.
static bool room(void *list, uint32_t used, uint32_t *cap, uint32_t count, size_t size) {
    if (used + count <= *cap)
        return true;
    uint32_t more = 2 * (used + count) + 16;
    void *grown = realloc(*(void **)list, more * size);
    if (!grown)
        return false;
    *(void **)list = grown;
    *cap = more;
    return true;
}

static void prepare(struct al_rule *rule) {
    rule->changed_count = 0;
    rule->kept = 0;
    memset(rule->changed, 0, sizeof rule->changed);
    for (unsigned i = 0; i < AL_REG_COUNT; i++)
        if (rule->regs[i].kind == AL_RULE_SAME)
            rule->kept |= 1ULL << i;
        else if (rule->regs[i].kind != AL_RULE_LOST)
            rule->changed[rule->changed_count++] = (uint8_t)i;
}

int al_rules_add(struct al_rules *r, struct al_rule *rule, uint32_t *ret) {
    prepare(rule);
    if (2 * (r->count + 1) > r->table_cap && !grow_table(r))
        return AL_E_NOMEM;
    uint32_t at = hash_of(rule) & (r->table_cap - 1);
    for (; r->table[at]; at = (at + 1) & (r->table_cap - 1))
        if (same_rule(&r->list[r->table[at] - 1], rule)) {
            *ret = r->table[at] - 1;
            return 0;
        }
    if (r->count >= AL_RULES_MOST)
        return AL_E_TOOBIG;
    if (!room(&r->list, r->count, &r->cap, 1, sizeof *r->list))
        return AL_E_NOMEM;
    memcpy(&r->list[r->count], rule, sizeof *rule); // padding too: it is hashed
    *ret = r->count++;
    r->table[at] = *ret + 1;
    return 0;
}

static bool same_ops(const struct al_op *a, const struct al_op *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (a[i].atom != b[i].atom || a[i].offset != b[i].offset || a[i].a != b[i].a || a[i].b != b[i].b)
            return false;
    return true;
}

int al_rules_add_expr(struct al_rules *r, const struct al_op *ops, size_t count, uint32_t *ret) {
    if (!count || count > AL_RULE_OPS_MOST)
        return count ? AL_E_TOOBIG : AL_E_NOENT;
    // There are few: those of a signal's frame, of linkage stubs and of functions that align their stack.
    for (uint32_t i = 0; i < r->exprs_count; i++)
        if (r->exprs[i].count == count && same_ops(r->ops + r->exprs[i].first, ops, count)) {
            *ret = i;
            return 0;
        }
    if (r->exprs_count >= 4096)
        return AL_E_TOOBIG;
    if (!room(&r->exprs, r->exprs_count, &r->exprs_cap, 1, sizeof *r->exprs) ||
        !room(&r->ops, r->ops_count, &r->ops_cap, (uint32_t)count, sizeof *r->ops))
        return AL_E_NOMEM;
    memcpy(r->ops + r->ops_count, ops, count * sizeof *ops);
    r->exprs[r->exprs_count] = (struct al_expr){r->ops_count, (uint32_t)count};
    r->ops_count += (uint32_t)count;
    *ret = r->exprs_count++;
    return 0;
}

void al_rules_free(struct al_rules *r) {
    free(r->list);
    free(r->exprs);
    free(r->ops);
    free(r->table);
    *r = (struct al_rules){0};
}

void al_copy_init(struct al_copy *c, const struct al_unwind_input *in, const struct al_memory *memory) {
    c->bytes = in->stack;
    c->from = in->regs[AL_REG_SP];
    c->size = in->stack ? in->size : 0;
    c->memory = memory;
    c->block_from = c->block_size = 0;
    c->beyond = false;
}

bool al_copy_u64(struct al_copy *c, uint64_t address, uint64_t *ret) {
    uint64_t at = address - c->from;
    if (c->size >= 8 && at <= c->size - 8) {
        memcpy(ret, c->bytes + at, 8);
        return true;
    }
    at = address - c->block_from;
    if (c->block_size < 8 || at > c->block_size - 8) {
        uint64_t to_page = 4096 - address % 4096;
        uint32_t size = (uint32_t)(to_page < 8 ? to_page + 8 : to_page);
        if (!c->memory || !al_memory_get(c->memory, address, c->block, size)) {
            c->beyond |= address >= c->from && !c->memory;
            c->block_size = 0;
            return false;
        }
        c->block_from = address;
        c->block_size = size;
        at = 0;
    }
    memcpy(ret, c->block + at, 8);
    return true;
}

enum al_step al_rule_cfa(const struct al_rules *all, const struct al_rule *rule, const struct al_regs *regs,
                         struct al_copy *copy, uint64_t *ret) {
    if (rule->cfa_expr)
        return al_expr_value(all, rule->cfa_expr - 1, regs, 0, copy, ret);
    if (!al_reg_known(regs, rule->cfa_reg))
        return AL_STEP_NEEDS;
    *ret = regs->value[rule->cfa_reg] + (uint64_t)(int64_t)rule->cfa_offset;
    return AL_STEP_OK;
}

static enum al_step one(const struct al_rules *all, const struct al_rule_reg *r, uint64_t cfa, const struct al_regs *old,
                        struct al_copy *copy, uint64_t *ret) {
    uint64_t where;
    enum al_step step;
    switch (r->kind) {
    case AL_RULE_AT: return al_copy_u64(copy, cfa + (uint64_t)(int64_t)r->value, ret) ? AL_STEP_OK : AL_STEP_FAILS;
    case AL_RULE_IS: *ret = cfa + (uint64_t)(int64_t)r->value; return AL_STEP_OK;
    case AL_RULE_COPY:
        *ret = old->value[r->value];
        return al_reg_known(old, (unsigned)r->value) ? AL_STEP_OK : AL_STEP_NEEDS;
    case AL_RULE_AT_EXPR:
        step = al_expr_value(all, (uint32_t)r->value, old, cfa, copy, &where);
        return step ? step : al_copy_u64(copy, where, ret) ? AL_STEP_OK : AL_STEP_FAILS;
    case AL_RULE_IS_EXPR: return al_expr_value(all, (uint32_t)r->value, old, cfa, copy, ret);
    default: return AL_STEP_NEEDS;
    }
}

enum al_step al_rule_step(const struct al_rules *all, const struct al_rule *rule, uint64_t cfa, struct al_regs *regs,
                          struct al_copy *copy) {
    uint64_t value[AL_REG_COUNT] = {0}, known = 0;
    if (rule->regs[rule->ra].kind == AL_RULE_LOST)
        return AL_STEP_END;
    if (rule->regs[rule->ra].kind == AL_RULE_SAME && !al_reg_known(regs, rule->ra))
        return AL_STEP_NEEDS;
    for (unsigned n = 0; n < rule->changed_count; n++) {
        unsigned i = rule->changed[n];
        enum al_step step = one(all, &rule->regs[i], cfa, regs, copy, &value[i]);
        if (step == AL_STEP_OK)
            known |= 1ULL << i;
        else if (i == rule->ra || i == AL_REG_SP)
            return i == rule->ra ? step : AL_STEP_FAILS;
    }
    for (unsigned n = 0; n < rule->changed_count; n++)
        regs->value[rule->changed[n]] = value[rule->changed[n]]; // what is not known is not looked at
    if (rule->regs[AL_REG_SP].kind <= AL_RULE_SAME)
        regs->value[AL_REG_SP] = cfa;
    regs->value[AL_REG_PC] = regs->value[rule->ra];
#if defined __aarch64__
    if (rule->ra != AL_REG_PC) // the upper bits may hold a signature of the return address
        regs->value[AL_REG_PC] &= (1ULL << 48) - 1;
#endif
    regs->known = (regs->known & rule->kept) | known | 1ULL << AL_REG_SP | 1ULL << AL_REG_PC;
    return AL_STEP_OK;
}
