// SPDX-License-Identifier: Apache-2.0
// What a process says of its own code: tables, expressions, symbol tables, packed ones, perf maps and names are the
// input's bytes. Every look ends soon, stays within its buffers, and a stack grows with each step.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unwind/cfi.h"
#include "unwind/expr.h"
#include "unwind/source.h"
#include "unwind/perfmap.h"
#include "unwind/texts.h"
#include "unwind/xz.h"

#define BASE 0x10000u
#define STACK 0x7fff0000u

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct image {
    const unsigned char *data;
    size_t size;
};

// Pages behind the input are zero, so that whole pages can be copied.
static size_t gather(void *user, const struct al_piece *pieces, size_t count, void *buffer) {
    const struct image *i = user;
    size_t end = (i->size + 4095) / 4096 * 4096;
    for (size_t k = 0; k < count; k++) {
        const struct al_piece *p = &pieces[k];
        if (p->address < BASE || p->address - BASE > end || p->size > end - (p->address - BASE))
            return k;
        size_t at = p->address - BASE, there = at < i->size ? i->size - at : 0;
        if (there > p->size)
            there = p->size;
        memset((char *)buffer + p->at, 0, p->size);
        memcpy((char *)buffer + p->at, i->data + at, there);
    }
    return count;
}

static void step(const struct al_rules *rules, uint32_t number, const unsigned char *data, size_t size) {
    struct al_unwind_input in = {.stack = data, .size = size};
    struct al_regs regs = {.known = (1ULL << AL_REG_COUNT) - 1};
    static struct al_copy copy;
    uint64_t cfa;
    for (unsigned i = 0; i < AL_REG_COUNT; i++)
        regs.value[i] = in.regs[i] = STACK + 8ULL * i;
    al_copy_init(&copy, &in, NULL);
    if (al_rule_cfa(rules, &rules->list[number], &regs, &copy, &cfa) == AL_STEP_OK)
        (void)al_rule_step(rules, &rules->list[number], cfa, &regs, &copy);
}

static void tables(const unsigned char *data, size_t size, bool bare) {
    struct image i = {data, size};
    struct al_memory m = {gather, &i};
    const struct al_elfutils *e;
    struct al_unwind_error error;
    struct al_rules rules = {0};
    struct al_cfi c;
    uint32_t number;
    uint64_t start;
    if (al_elfutils_open(&e, &error) != 0)
        return;
    if ((bare ? al_cfi_open_bare(&c, e, &m, 0, BASE, size) : al_cfi_open(&c, e, &m, 0, BASE, size, BASE + size)) != 0)
        return;
    for (uint64_t at = BASE - 8192; at < BASE + 4096; at += 19)
        if (al_cfi_rule(&c, &rules, at, &number, &start) == 0)
            step(&rules, number, data, size);
    al_cfi_close(&c);
    al_rules_free(&rules);
}

static void expression(const unsigned char *data, size_t size) {
    struct al_op ops[AL_RULE_OPS_MOST];
    struct al_rules rules = {0};
    struct al_rule rule;
    size_t count = 0;
    uint32_t number;
    for (size_t at = 0; at + 4 <= size && count < AL_RULE_OPS_MOST; at += 4, count++)
        ops[count] = (struct al_op){data[at], data[at + 1], (uint64_t)(int64_t)(int8_t)data[at + 2], data[at + 3]};
    memset(&rule, 0, sizeof rule);
    if (al_rules_add_expr(&rules, ops, count, &number) == 0) {
        rule.cfa_expr = number + 1;
        rule.regs[AL_REG_SP].kind = rule.regs[0].kind = AL_RULE_IS_EXPR;
        rule.regs[0].value = rule.regs[AL_REG_SP].value = (int32_t)number;
        if (al_rules_add(&rules, &rule, &number) == 0)
            step(&rules, number, data, size);
    }
    al_rules_free(&rules);
}

static void symbols(const unsigned char *data, size_t size) {
    struct al_bytes file = {-1, (unsigned char *)data, size}, packed;
    struct al_symbol_table first = {0}, none = {0};
    struct al_symbols s;
    unsigned char id[64];
    char name[300];
    (void)al_bytes_build_id(&file, id, sizeof id);
    if (al_xz_debugdata(&file, &packed))
        al_bytes_close(&packed);
    if (!al_symbol_table(&file, SHT_SYMTAB, &first))
        return;
    first.from.data = malloc(size); // it is taken over
    if (!first.from.data)
        return;
    memcpy(first.from.data, data, size);
    if (al_symbols_open(&s, &first, &none) != 0)
        return;
    for (uint64_t at = 0; at < 65536; at += 61) {
        const struct al_symbol *found = al_symbols_find(&s, at);
        if (found && found->address > at)
            abort();
        if (found && al_symbols_name(&s, found, name, sizeof name) && !memchr(name, '\0', sizeof name))
            abort();
    }
    al_symbols_free(&s);
}

static void perf_map(const unsigned char *data, size_t size) {
    struct al_perf_map m = {0};
    size_t half = al_perf_map_parse(&m, (const char *)data, size / 2);
    if (half > size / 2 || al_perf_map_parse(&m, (const char *)data + half, size - half) > size - half)
        abort();
    for (uint64_t at = 0; at < 4096; at += 13) {
        const struct al_perf_entry *e = al_perf_map_find(&m, at);
        if (e && (at < e->start || at - e->start >= e->size || (size_t)e->name + e->length > m.text_len))
            abort();
    }
    al_perf_map_free(&m);
}

static void names(const unsigned char *data, size_t size) {
    char *raw = calloc(1, size + 1), shown[AL_NAME_MOST];
    struct al_texts t = {0};
    uint32_t first, second;
    if (raw) {
        memcpy(raw, data, size);
        al_demangle(raw, shown, sizeof shown);
        if (!memchr(shown, '\0', sizeof shown))
            abort();
        if (al_texts_add(&t, shown, raw, raw, 1, &first) == 0 &&
            (al_texts_add(&t, shown, raw, raw, 1, &second) != 0 || first != second))
            abort();
    }
    al_texts_free(&t);
    free(raw);
}

static void lines(const unsigned char *data, size_t size) {
    const struct al_elfutils *e;
    struct al_unwind_error error;
    struct al_source *l = calloc(1, sizeof *l);
    const char *file;
    int line, fd = memfd_create("lines", MFD_CLOEXEC);
    if (l && fd >= 0 && write(fd, data, size) == (ssize_t)size && al_elfutils_open(&e, &error) == 0) {
        l->file = (struct al_bytes){fd, NULL, size};
        l->alt_file.fd = -1;
        if (al_source_begin(e, l))
            for (uint64_t at = 0; at < 256; at += 7)
                if (al_source_find(e, l, at, &file, &line) && !*file)
                    abort();
        al_source_free(e, l);
    } else {
        free(l);
        if (fd >= 0)
            close(fd);
    }
}

// The first byte picks what the rest is.
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    if (size < 2)
        return 0;
    switch (data[0] % 7) {
    case 0: perf_map(data + 1, size - 1); break;
    case 1: expression(data + 1, size - 1); break;
    case 2: tables(data + 1, size - 1, false); break;
    case 3: tables(data + 1, size - 1, true); break;
    case 6: lines(data + 1, size - 1); break;
    case 4: symbols(data + 1, size - 1); break;
    default: names(data + 1, size - 1); break;
    }
    return 0;
}
