// SPDX-License-Identifier: Apache-2.0
#include "stack/core/dict.h"

#include "stack/core/text.h"

#define BLOCK 64u // entries read at once
#define KEY_MOST 31u
#define FLAG_INLINE_VALUES (1u << 2) // Py_TPFLAGS_INLINE_VALUES, 3.13 on
#define FLAG_MANAGED_DICT (1u << 4)  // Py_TPFLAGS_MANAGED_DICT, 3.11 on
#define DIGIT_BITS 30

// A PyDictKeysObject.
struct keys {
    uint64_t entries, count;
    unsigned stride, key, value; // bytes of an entry; where key and value stand
};

static bool read_keys(const struct al_memory *m, const struct al_layout *l, uint64_t address, struct keys *k) {
    uint64_t head[5];
    if (!al_address_ok(address, 8) || !al_memory_get(m, address, head, sizeof head))
        return false;
    if (l->version < 0x030b) { // refcount, size, lookup function, usable, entries; then indices
        unsigned width = head[1] <= 0xff ? 1 : head[1] <= 0xffff ? 2 : head[1] <= 0xffffffffu ? 4 : 8;
        if (head[1] > 1u << 30)
            return false;
        *k = (struct keys){address + 40 + head[1] * width, head[4], 24, 8, 16};
    } else { // refcount, {log2 size, log2 bytes of indices, kind, -, version}, usable, entries; then indices
        unsigned bytes = head[1] >> 8 & 0xff, kind = head[1] >> 16 & 0xff;
        if (bytes > 33 || kind > 2)
            return false;
        *k = kind == 0 ? (struct keys){address + 32 + (1ULL << bytes), head[3], 24, 8, 16}
                       : (struct keys){address + 32 + (1ULL << bytes), head[3], 16, 0, 8};
    }
    if (k->count > AL_DICT_MOST)
        k->count = AL_DICT_MOST;
    return true;
}

// values: of a split dict the array of values; 0: they stand in the entries.
static bool walk_keys(const struct al_memory *m, const struct keys *k, uint64_t values, al_dict_each_fn *each,
                      void *user) {
    unsigned char block[BLOCK * 24];
    uint64_t apart[BLOCK];
    for (uint64_t at = 0; at < k->count; at += BLOCK) {
        uint32_t n = (uint32_t)(k->count - at < BLOCK ? k->count - at : BLOCK);
        if (!al_memory_get(m, k->entries + at * k->stride, block, n * k->stride) ||
            (values && !al_memory_get(m, values + at * 8, apart, n * 8)))
            return false;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t key = al_u64(block + i * k->stride + k->key);
            uint64_t value = values ? apart[i] : al_u64(block + i * k->stride + k->value);
            if (key && value && each(user, key, value))
                return true;
        }
    }
    return false;
}

// Where the values of PyDictValues begin: a head of sizes stands before them from 3.13 on.
static uint64_t values_at(const struct al_layout *l, uint64_t address) {
    return address && l->version >= 0x030d ? address + 8 : address;
}

bool al_dict_walk(const struct al_memory *m, const struct al_layout *l, uint64_t dict, al_dict_each_fn *each,
                  void *user) {
    uint64_t keys, values;
    struct keys k;
    if (!al_address_ok(dict, 8) || !al_memory_u64(m, dict + l->dict_keys, &keys) ||
        !al_memory_u64(m, dict + l->dict_values, &values) || !read_keys(m, l, keys, &k))
        return false;
    return walk_keys(m, &k, values_at(l, values), each, user);
}

struct wanted {
    const struct al_memory *memory;
    const struct al_layout *layout;
    const char *key;
    size_t length;
    uint64_t found;
};

static bool is_wanted(void *user, uint64_t key, uint64_t value) {
    struct wanted *w = user;
    const struct al_layout *l = w->layout;
    char text[KEY_MOST + 1];
    uint64_t length;
    if (!al_address_ok(key, 8) || !al_memory_u64(w->memory, key + l->text_length, &length) || length != w->length ||
        !al_memory_get(w->memory, key + l->text_ascii, text, (uint32_t)length) || memcmp(text, w->key, length) != 0)
        return false;
    w->found = value;
    return true;
}

static struct wanted want(const struct al_memory *m, const struct al_layout *l, const char *key) {
    return (struct wanted){m, l, key, strlen(key), 0};
}

uint64_t al_dict_get(const struct al_memory *m, const struct al_layout *l, uint64_t dict, const char *key) {
    struct wanted w = want(m, l, key);
    return w.length <= KEY_MOST && al_dict_walk(m, l, dict, is_wanted, &w) ? w.found : 0;
}

// Values that stand apart from a dict, under the keys that the class keeps for all its instances.
static uint64_t by_class(const struct al_memory *m, const struct al_layout *l, uint64_t type, uint64_t values,
                         const char *name) {
    uint64_t keys;
    struct keys k;
    struct wanted w = want(m, l, name);
    if (!al_address_ok(values, 8) || !al_memory_u64(m, type + l->type_cached_keys, &keys) || !read_keys(m, l, keys, &k))
        return 0;
    return walk_keys(m, &k, values, is_wanted, &w) ? w.found : 0;
}

// 3.11: values before the dict, before the object; 3.12: one word for both, odd for values.
static uint64_t managed(const struct al_memory *m, const struct al_layout *l, uint64_t object, uint64_t type,
                        const char *name) {
    uint64_t words[2];
    if (!al_memory_get(m, object - 32, words, sizeof words))
        return 0;
    if (l->version == 0x030b)
        return words[0] ? by_class(m, l, type, words[0], name) : al_dict_get(m, l, words[1], name);
    return words[1] & 1 ? by_class(m, l, type, words[1] + 1, name) : al_dict_get(m, l, words[1], name);
}

// 3.13 on: values behind the object as long as they are valid, else a dict.
static uint64_t in_line(const struct al_memory *m, const struct al_layout *l, uint64_t object, uint64_t type,
                        uint64_t flags, const char *name) {
    uint64_t basic, head, dict;
    if (flags & FLAG_INLINE_VALUES) {
        if (!al_memory_u64(m, type + l->type_basic_size, &basic) || basic > 1u << 20 ||
            !al_memory_u64(m, object + basic, &head))
            return 0;
        if (head >> 24 & 0xff) // capacity, size, embedded, valid
            return by_class(m, l, type, object + basic + 8, name);
    }
    if (!al_memory_u64(m, object - (l->free_threaded ? 8 : 24), &dict))
        return 0;
    return al_dict_get(m, l, dict, name);
}

uint64_t al_attribute(const struct al_memory *m, const struct al_layout *l, uint64_t object, const char *name) {
    uint64_t type, flags, dict;
    if (!al_address_ok(object, 8) || !al_memory_u64(m, object + l->object_type, &type) || !al_address_ok(type, 8))
        return 0;
    if (l->version < 0x030b) // classes written in Python keep the dict right behind the head
        return al_memory_u64(m, object + l->object_type + 8, &dict) ? al_dict_get(m, l, dict, name) : 0;
    if (!al_memory_u64(m, type + l->type_flags, &flags) || !(flags & FLAG_MANAGED_DICT))
        return 0;
    return l->version < 0x030d ? managed(m, l, object, type, name) : in_line(m, l, object, type, flags, name);
}

bool al_int_read(const struct al_memory *m, const struct al_layout *l, uint64_t object, uint64_t *ret) {
    uint64_t tag;
    uint32_t digits[3];
    if (!al_address_ok(object, 8) || !al_memory_u64(m, object + l->long_tag, &tag))
        return false;
    if (l->version >= 0x030c) // sign in the two lowest bits, the number of digits from bit 3 on
        tag = tag & 3 ? (tag & 1 ? 0 : UINT64_MAX) : tag >> 3;
    if (tag > 3 || !al_memory_get(m, object + l->long_digits, digits, (uint32_t)(tag * 4)))
        return false;
    *ret = 0;
    for (uint64_t i = tag; i-- > 0;)
        *ret = *ret << DIGIT_BITS | digits[i];
    return true;
}
