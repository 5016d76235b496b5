// SPDX-License-Identifier: Apache-2.0
#include "stack/intern.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_text(uint64_t h, const char *text) {
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3ULL; // FNV-1a
    return (h ^ 0xff) * 0x100000001b3ULL;
}

static uint32_t hash_of(const char *filename, const char *qualname, const char *name, int32_t line) {
    uint64_t h = hash_text(hash_text(hash_text(0xcbf29ce484222325ULL, filename), qualname), name);
    h = (h ^ (uint32_t)line) * 0x9e3779b97f4a7c15ULL;
    return (uint32_t)(h >> 32);
}

static bool is(const struct al_stack_code *c, const char *filename, const char *name, const char *qualname,
               int32_t line) {
    return c->first_line == line && strcmp(c->qualname, qualname) == 0 && strcmp(c->name, name) == 0 &&
           strcmp(c->filename, filename) == 0;
}

// Doubles the table while it is more than half full.
static bool make_room(struct al_intern *t) {
    if (2 * (t->count + 1) > t->table_cap) {
        uint32_t cap = t->table_cap ? 2 * t->table_cap : 1024;
        uint32_t *table = calloc(cap, sizeof *table);
        if (!table)
            return false;
        for (uint32_t i = 0; i < t->count; i++) {
            const struct al_stack_code *c = &t->codes[i];
            uint32_t at = hash_of(c->filename, c->qualname, c->name, c->first_line) & (cap - 1);
            while (table[at])
                at = (at + 1) & (cap - 1);
            table[at] = i + 1;
        }
        free(t->table);
        t->table = table;
        t->table_cap = cap;
    }
    if (t->count == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 256;
        struct al_stack_code *codes = realloc(t->codes, cap * sizeof *codes);
        if (!codes)
            return false;
        t->codes = codes;
        t->cap = cap;
    }
    return true;
}

uint32_t al_intern_add(struct al_intern *t, const char *filename, const char *name, const char *qualname,
                       int32_t first_line) {
    if (t->count >= AL_INTERN_MOST - 1) {
        filename = "";
        name = qualname = "(too many functions)";
        first_line = 0;
    }
    if (!make_room(t))
        return AL_STACK_NO_CODE;
    uint32_t at = hash_of(filename, qualname, name, first_line) & (t->table_cap - 1);
    for (; t->table[at]; at = (at + 1) & (t->table_cap - 1))
        if (is(&t->codes[t->table[at] - 1], filename, name, qualname, first_line))
            return t->table[at] - 1;
    // One block for the three texts.
    size_t a = strlen(filename) + 1, b = strlen(name) + 1, c = strlen(qualname) + 1;
    char *texts = malloc(a + b + c);
    if (!texts)
        return AL_STACK_NO_CODE;
    memcpy(texts, filename, a);
    memcpy(texts + a, name, b);
    memcpy(texts + a + b, qualname, c);
    t->codes[t->count] = (struct al_stack_code){texts, texts + a, texts + a + b, first_line};
    t->table[at] = ++t->count;
    return t->count - 1;
}

void al_intern_free(struct al_intern *t) {
    for (uint32_t i = 0; i < t->count; i++)
        free((char *)(uintptr_t)t->codes[i].filename);
    free(t->codes);
    free(t->table);
    *t = (struct al_intern){0};
}
