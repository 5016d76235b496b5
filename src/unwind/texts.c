// SPDX-License-Identifier: Apache-2.0
#include "unwind/texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

#define BLOCK 1024u
#define STRINGS 65536u // bytes of a block of texts

struct al_text_block {
    struct al_text_block *next;
    size_t used, cap;
    char bytes[];
};

static uint32_t hash_text(uint32_t h, const char *text) {
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return (h ^ 0xff) * 16777619u;
}

static uint32_t hash_of(const struct al_unwind_symbol *s) {
    uint32_t h = hash_text(hash_text(hash_text(2166136261u, s->name), s->object), s->file);
    return (h ^ (uint32_t)s->line) * 2654435761u;
}

const struct al_unwind_symbol *al_texts_get(const struct al_texts *t, uint32_t number) {
    return number < t->count ? &t->blocks[number / BLOCK][number % BLOCK] : NULL;
}

static bool grow_table(struct al_texts *t) {
    uint32_t cap = t->table_cap ? 2 * t->table_cap : 1024;
    uint32_t *table = calloc(cap, sizeof *table);
    if (!table)
        return false;
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t at = hash_of(al_texts_get(t, i)) & (cap - 1);
        while (table[at])
            at = (at + 1) & (cap - 1);
        table[at] = i + 1;
    }
    free(t->table);
    t->table = table;
    t->table_cap = cap;
    return true;
}

static const char *keep(struct al_texts *t, const char *text) {
    size_t size = strlen(text) + 1;
    if (size == 1)
        return "";
    if (size > AL_TEXTS_BYTES - t->bytes)
        return NULL;
    if (!t->strings || size > t->strings->cap - t->strings->used) {
        size_t cap = size > STRINGS ? size : STRINGS;
        struct al_text_block *more = malloc(sizeof *more + cap);
        if (!more)
            return NULL;
        *more = (struct al_text_block){t->strings, 0, cap};
        t->strings = more;
    }
    char *at = t->strings->bytes + t->strings->used;
    memcpy(at, text, size);
    t->strings->used += size;
    t->bytes += size;
    return at;
}

static void clean(char *out, size_t size, const char *text) {
    if (!al_str_copy(out, size, text) && size > 4) {
        size_t length = strlen(out);
        (void)al_str_copy(out + (length < size - 4 ? length : size - 4), 4, "...");
    }
    for (unsigned char *p = (unsigned char *)out; *p;) {
        size_t length = al_utf8_len(p, strlen((char *)p));
        if (!length)
            *p = '?';
        p += length ? length : 1;
    }
    (void)al_str_clean(out);
}

int al_texts_add(struct al_texts *t, const char *name, const char *object, const char *file, int32_t line, uint32_t *ret) {
    char names[AL_NAME_MOST], objects[4096], files[4096];
    if (2 * (t->count + 1) > t->table_cap && !grow_table(t))
        return AL_E_NOMEM;
    clean(names, sizeof names, name);
    clean(objects, sizeof objects, object);
    clean(files, sizeof files, file);
    struct al_unwind_symbol s = {names, objects, files, line};
    uint32_t at = hash_of(&s) & (t->table_cap - 1);
    for (; t->table[at]; at = (at + 1) & (t->table_cap - 1)) {
        const struct al_unwind_symbol *old = al_texts_get(t, t->table[at] - 1);
        if (old->line == line && !strcmp(old->name, names) && !strcmp(old->object, objects) && !strcmp(old->file, files)) {
            *ret = t->table[at] - 1;
            return 0;
        }
    }
    if (t->count >= AL_TEXTS_MOST || !(s.name = keep(t, names)) || !(s.object = keep(t, objects)) || !(s.file = keep(t, files)))
        return AL_E_NOMEM;
    if (t->count % BLOCK == 0) {
        struct al_unwind_symbol **more = realloc(t->blocks, (t->count / BLOCK + 1) * sizeof(struct al_unwind_symbol *));
        if (!more)
            return AL_E_NOMEM;
        t->blocks = more;
        if (!(more[t->count / BLOCK] = malloc(BLOCK * sizeof **more)))
            return AL_E_NOMEM;
    }
    t->blocks[t->count / BLOCK][t->count % BLOCK] = s;
    *ret = t->count++;
    t->table[at] = *ret + 1;
    return 0;
}

void al_texts_free(struct al_texts *t) {
    for (uint32_t i = 0; i * BLOCK < t->count; i++)
        free(t->blocks[i]);
    free(t->blocks);
    free(t->table);
    while (t->strings) {
        struct al_text_block *next = t->strings->next;
        free(t->strings);
        t->strings = next;
    }
    *t = (struct al_texts){0};
}
