// SPDX-License-Identifier: Apache-2.0
// Parts of the interpreter's loop that have no name: optimising builds (Debian's from 3.13 on) move most of the loop away from
// its symbol, and stripping takes the name of what was moved. The named part jumps into the middle of it, which nothing else does.
#include <stdlib.h>
#include <string.h>

#include "unwind/parts.h"

#define CODE_MOST (512u << 10) // of the named part
#define JUMPS_LEAST 4u
#define JUMPS_MOST 4096u // that are looked at
#define NAMED "_PyEval_EvalFrameDefault"
#define SYMBOLS_MOST 200000u

static const struct al_symbol *find_named(const struct al_symbols *s) {
    char name[64];
    for (uint32_t i = 0; i < s->count && s->count <= SYMBOLS_MOST; i++)
        if (s->list[i].size && al_symbols_name(s, &s->list[i], name, sizeof name) && strcmp(name, NAMED) == 0)
            return &s->list[i];
    return NULL;
}

// Where a jump at code[i] leads, relative to the code's beginning; false: it is none, or a short one.
static bool jump_at(const unsigned char *code, size_t size, size_t i, int64_t *ret) {
#if defined __aarch64__
    uint32_t word;
    if (i % 4 || i + 4 > size)
        return false;
    memcpy(&word, code + i, 4);
    if (word >> 26 == 5) // b
        *ret = (int64_t)i + (int64_t)((int32_t)(word << 6) >> 6) * 4;
    else if (word >> 24 == 0x54) // b.cond
        *ret = (int64_t)i + (int64_t)((int32_t)(word << 8) >> 13) * 4;
    else
        return false;
    return true;
#else
    int32_t by;
    size_t length = code[i] == 0xe9 ? 1 : code[i] == 0x0f && i + 1 < size && (code[i + 1] & 0xf0) == 0x80 ? 2 : 0; // jmp, jcc
    if (!length || i + length + 4 > size)
        return false;
    memcpy(&by, code + i + length, 4);
    *ret = (int64_t)(i + length + 4) + by;
    return true;
#endif
}

static void count_jump(struct al_unwind *u, struct al_dso *d, struct al_cfi *cfi, uint64_t to, unsigned *jumps) {
    uint32_t rule, i = 0;
    uint64_t start = 0;
    const struct al_code_area *area = al_objects_find(&u->objects, to);
    if (!area || area->dso != d || al_cfi_rule(cfi, &u->rules, to, &rule, &start) || !start || start == to)
        return; // to a function's beginning: a call that ends this one
    while (i < d->loop_count && d->loop_parts[i] != start)
        i++;
    if (i == AL_LOOP_PARTS)
        return;
    d->loop_count = i == d->loop_count ? (uint8_t)(i + 1) : d->loop_count;
    d->loop_parts[i] = start;
    jumps[i]++;
}

static void look(struct al_unwind *u, struct al_dso *d) {
    unsigned jumps[AL_LOOP_PARTS] = {0};
    const struct al_symbols *s = al_dso_symbols(&u->objects, d);
    struct al_cfi *cfi = al_dso_cfi(&u->objects, d);
    const struct al_symbol *named = s && cfi ? find_named(s) : NULL;
    unsigned char *code = named && named->size <= CODE_MOST ? malloc(named->size) : NULL;
    uint64_t from = named ? named->address + d->bias : 0;
    if (code && al_memory_get(&u->memory, from, code, named->size))
        for (size_t i = 0, seen = 0; i < named->size && seen < JUMPS_MOST; i++) {
            int64_t to;
            if (!jump_at(code, named->size, i, &to) || (to >= 0 && to < (int64_t)named->size))
                continue;
            seen++;
            count_jump(u, d, cfi, from + (uint64_t)to, jumps);
        }
    free(code);
    uint8_t kept = 0;
    for (uint8_t i = 0; i < d->loop_count; i++)
        if (jumps[i] >= JUMPS_LEAST)
            d->loop_parts[kept++] = d->loop_parts[i];
    d->loop_count = kept;
}

bool al_is_loop_part(struct al_unwind *u, struct al_dso *d, uint64_t start) {
    if (!start || !*u->interpreter || strcmp(u->interpreter, d->path) != 0)
        return false;
    if (!d->loop_tried)
        look(u, d);
    d->loop_tried = true;
    for (uint8_t i = 0; i < d->loop_count; i++)
        if (d->loop_parts[i] == start)
            return true;
    return false;
}
