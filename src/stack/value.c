// SPDX-License-Identifier: Apache-2.0
#include "stack/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "stack/core/dict.h"
#include "stack/core/text.h"
#include "stack/tensor.h"

#define DEPTH_MOST 2 // containers in containers
#define ITEMS_MOST 4u
#define TEXT_MOST 64u   // characters of a str
#define BYTES_MOST 24u  // of a bytes object
#define SIZE_MOST (1ULL << 40) // more items than this are damage
#define DIMENSIONS_MOST 64u
#define SECRET "***"
#define MORE "..." // where the rest did not fit

// Py_TPFLAGS_…
#define READY (1u << 12)
#define IS_INT (1u << 24)
#define IS_LIST (1u << 25)
#define IS_TUPLE (1u << 26)
#define IS_BYTES (1u << 27)
#define IS_TEXT (1u << 28)
#define IS_DICT (1u << 29)

struct out {
    char *text;
    size_t used;
    bool full; // what did not fit is left out
};

static void put(struct out *o, const char *text) {
    if (o->full)
        return;
    o->full = !al_str_copy(o->text + o->used, AL_VALUE_TEXT - sizeof MORE - o->used, text);
    o->used += strlen(o->text + o->used);
    if (o->full)
        memcpy(o->text + o->used, MORE, sizeof MORE);
}

__attribute__((format(printf, 2, 3))) static void say(struct out *o, const char *format, ...) {
    char text[96];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    put(o, text);
}

// Where an object's own fields begin.
static uint32_t head(const struct al_layout *l) {
    return l->object_type + 8;
}

static bool printable(const char *name) {
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
            return false;
    return *name != '\0';
}

const struct al_value_type *al_value_type(struct al_values *v, uint64_t object) {
    const struct al_layout *l = v->layout;
    uint64_t type, name;
    if (!al_address_ok(object, 8) || !al_memory_u64(v->memory, object + l->object_type, &type) || !al_address_ok(type, 8))
        return NULL;
    struct al_value_type *t = &v->types[(type >> 4 ^ type >> 12) & (AL_VALUE_TYPES - 1)];
    if (t->address == type)
        return t;
    *t = (struct al_value_type){0};
    if (!al_memory_u64(v->memory, type + l->type_flags, &t->flags) || !al_memory_u64(v->memory, type + l->type_name, &name) ||
        !al_cstring_read(v->memory, name, t->name, sizeof t->name) || !printable(t->name))
        return NULL;
    // To 3.9 the types of asynchronous generators' awaitables are used without having been made ready.
    if (!(t->flags & READY) && strncmp(t->name, "async_generator", 15) != 0)
        return NULL;
    t->address = type;
    return t;
}

static void put_value(struct al_values *v, struct out *o, uint64_t object, int depth);

// Of an int that 64 bits do not hold: its size, by the highest of its digits of 30 bits.
static bool put_great(struct al_values *v, struct out *o, uint64_t object, uint64_t count) {
    uint32_t highest;
    if (count > 1u << 24 || !al_memory_get(v->memory, object + v->layout->long_digits + (count - 1) * 4, &highest, 4) ||
        !highest || highest >> 30)
        return false;
    say(o, "int of %" PRIu64 " bits", count * 30 + 2 - (uint64_t)__builtin_clz(highest));
    return true;
}

static bool put_int(struct al_values *v, struct out *o, uint64_t object, bool is_bool) {
    const struct al_layout *l = v->layout;
    uint64_t tag, value = 0;
    uint32_t digits[3] = {0};
    if (!al_memory_u64(v->memory, object + l->long_tag, &tag))
        return false;
    bool negative = l->version >= 0x030c ? (tag & 3) == 2 : (int64_t)tag < 0;
    uint64_t count = l->version >= 0x030c ? ((tag & 3) == 1 ? 0 : tag >> 3) : negative ? 0 - tag : tag;
    if (count && count <= 3 && !al_memory_get(v->memory, object + l->long_digits, digits, (uint32_t)count * 4))
        return false;
    if (count > 3 || digits[2] >> 4)
        return put_great(v, o, object, count);
    for (uint64_t i = count; i-- > 0;)
        value = value << 30 | (digits[i] & 0x3fffffff);
    if (is_bool)
        put(o, value ? "True" : "False");
    else
        say(o, "%s%" PRIu64, negative ? "-" : "", value);
    return true;
}

void al_value_tagged(uint64_t bits, char *out) {
    (void)snprintf(out, AL_VALUE_TEXT, "%" PRId64, (int64_t)bits >> 2);
}

static bool put_float(struct al_values *v, struct out *o, uint64_t object) {
    struct al_buf b = AL_BUF_INIT;
    double value;
    if (!al_memory_get(v->memory, object + v->layout->float_value, &value, sizeof value))
        return false;
    if (isnan(value) || isinf(value)) {
        put(o, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return true;
    }
    al_buf_number(&b, value);
    put(o, b.failed ? "?" : b.data);
    if (!b.failed && !strpbrk(b.data, ".e"))
        put(o, ".0");
    al_buf_free(&b);
    return true;
}

static bool put_text(struct al_values *v, struct out *o, uint64_t object) {
    char text[4 * TEXT_MOST + 1];
    uint64_t length;
    size_t end = 0;
    if (!al_memory_u64(v->memory, object + v->layout->text_length, &length) ||
        !al_text_read(v->memory, v->layout, object, text, sizeof text))
        return false;
    for (unsigned n = 0; text[end] && n < TEXT_MOST; n++)
        for (end++; ((unsigned char)text[end] & 0xc0) == 0x80;)
            end++;
    bool cut = text[end] != '\0';
    text[end] = '\0';
    if (v->mask)
        v->mask(text, sizeof text);
    put(o, "'");
    put(o, text);
    put(o, cut ? "...'" : "'");
    if (cut)
        say(o, " (%" PRIu64 " characters)", length);
    return true;
}

static bool put_bytes(struct al_values *v, struct out *o, uint64_t object) {
    unsigned char raw[BYTES_MOST];
    char text[BYTES_MOST * 4 + 1];
    uint64_t data, size;
    size_t used = 0;
    if (!al_bytes_head(v->memory, v->layout, object, SIZE_MOST, &data, &size) ||
        !al_memory_get(v->memory, data, raw, (uint32_t)(size < BYTES_MOST ? size : BYTES_MOST)))
        return false;
    for (uint64_t i = 0; i < size && i < BYTES_MOST; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, raw[i] >= 0x20 && raw[i] < 0x7f ? "%c" : "\\x%02x", raw[i]);
    text[used] = '\0';
    if (v->mask)
        v->mask(text, sizeof text);
    put(o, "b'");
    put(o, text);
    put(o, size > BYTES_MOST ? "...'" : "'");
    if (size > BYTES_MOST)
        say(o, " (%" PRIu64 " bytes)", size);
    return true;
}

// items: where the references stand.
static bool put_items(struct al_values *v, struct out *o, uint64_t items, uint64_t size, const char *ends, int depth) {
    uint64_t list[ITEMS_MOST];
    uint32_t count = (uint32_t)(size < ITEMS_MOST ? size : ITEMS_MOST);
    char end[2] = {ends[1], '\0'};
    if (size > SIZE_MOST || (count && !al_memory_get(v->memory, items, list, count * 8)))
        return false;
    say(o, "%c", ends[0]);
    for (uint32_t i = 0; i < count && depth < DEPTH_MOST && !o->full; i++) {
        put(o, i ? ", " : "");
        put_value(v, o, list[i], depth + 1);
    }
    if (depth >= DEPTH_MOST && size)
        say(o, "... %" PRIu64 "%s", size, size == 1 ? " item" : " items");
    else if (size > count)
        say(o, ", ... of %" PRIu64, size);
    put(o, ends[0] == '(' && size == 1 && depth < DEPTH_MOST ? ",)" : end);
    return true;
}

static bool put_list(struct al_values *v, struct out *o, uint64_t object, int depth) {
    uint64_t size, items = 0;
    if (!al_memory_u64(v->memory, object + v->layout->list_size, &size) ||
        (size && (!al_memory_u64(v->memory, object + v->layout->list_items, &items) || !al_address_ok(items, 8))))
        return false;
    return put_items(v, o, items, size, "[]", depth);
}

static bool put_tuple(struct al_values *v, struct out *o, uint64_t object, int depth) {
    uint64_t size;
    if (!al_memory_u64(v->memory, object + v->layout->tuple_size, &size))
        return false;
    return put_items(v, o, object + v->layout->tuple_items, size, "()", depth);
}

struct entries {
    struct al_values *values;
    struct out *out;
    uint32_t count;
    int depth;
};

static bool put_entry(void *user, uint64_t key, uint64_t value) {
    struct entries *e = user;
    const struct al_value_type *t = al_value_type(e->values, key);
    char name[AL_VALUE_TYPE];
    bool secret = t && t->flags & IS_TEXT && e->values->secret &&
                  al_text_read(e->values->memory, e->values->layout, key, name, sizeof name) && e->values->secret(name);
    put(e->out, e->count ? ", " : "");
    put_value(e->values, e->out, key, e->depth + 1);
    put(e->out, ": ");
    if (secret)
        put(e->out, SECRET);
    else
        put_value(e->values, e->out, value, e->depth + 1);
    return ++e->count == ITEMS_MOST || e->out->full;
}

static bool put_dict(struct al_values *v, struct out *o, uint64_t object, int depth) {
    struct entries e = {v, o, 0, depth};
    uint64_t size; // ma_used: an object's first own field
    if (!al_memory_u64(v->memory, object + head(v->layout), &size) || size > SIZE_MOST)
        return false;
    put(o, "{");
    if (size && depth < DEPTH_MOST)
        (void)al_dict_walk(v->memory, v->layout, object, put_entry, &e);
    if (e.count < size)
        say(o, e.count ? ", ... of %" PRIu64 : "... %" PRIu64 " items", size);
    put(o, "}");
    return true;
}

// PySetObject: places in use and left behind, places in use.
static bool put_set(struct al_values *v, struct out *o, uint64_t object) {
    uint64_t size;
    if (!al_memory_u64(v->memory, object + head(v->layout) + 8, &size) || size > SIZE_MOST)
        return false;
    say(o, "%" PRIu64 "%s", size, size == 1 ? " item" : " items");
    return true;
}

// numpy's array, whose struct is part of its interface: data, number of dimensions, dimensions.
static bool put_shape(struct al_values *v, struct out *o, uint64_t object) {
    uint64_t fields[3], shape[DIMENSIONS_MOST];
    if (!al_memory_get(v->memory, object + head(v->layout), fields, sizeof fields))
        return false;
    uint32_t count = (uint32_t)fields[1];
    if (count > DIMENSIONS_MOST || (count && (!al_address_ok(fields[2], 8) ||
                                              !al_memory_get(v->memory, fields[2], shape, count * 8))))
        return false;
    put(o, "shape (");
    for (uint32_t i = 0; i < count; i++)
        say(o, i ? ", %" PRIu64 : "%" PRIu64, shape[i]);
    put(o, count == 1 ? ",)" : ")");
    return true;
}

// False: unreadable. Of other types nothing is told.
static bool put_known(struct al_values *v, struct out *o, const struct al_value_type *t, uint64_t object, int depth) {
    char shape[AL_TENSOR_TEXT];
    if (t->flags & IS_INT)
        return put_int(v, o, object, strcmp(t->name, "bool") == 0);
    if (t->flags & IS_TEXT)
        return put_text(v, o, object);
    if (t->flags & IS_LIST)
        return put_list(v, o, object, depth);
    if (t->flags & IS_TUPLE)
        return put_tuple(v, o, object, depth);
    if (t->flags & IS_DICT)
        return put_dict(v, o, object, depth);
    if (t->flags & IS_BYTES)
        return put_bytes(v, o, object);
    if (strcmp(t->name, "float") == 0 || strcmp(t->name, "numpy.float64") == 0) // the latter derives from the former
        return put_float(v, o, object);
    if (strcmp(t->name, "set") == 0 || strcmp(t->name, "frozenset") == 0)
        return put_set(v, o, object);
    if (strcmp(t->name, "numpy.ndarray") == 0)
        return put_shape(v, o, object);
    if (strcmp(t->name, "NoneType") == 0)
        put(o, "None");
    if (al_tensor_named(t->name) && al_tensor_text(v->memory, v->layout, object, shape))
        put(o, shape);
    return true;
}

// Inside a container; what has no value is told by its type.
static void put_value(struct al_values *v, struct out *o, uint64_t object, int depth) {
    const struct al_value_type *t = al_value_type(v, object);
    size_t before = o->used;
    if (t && al_tensor_named(t->name)) {
        say(o, "<%s", t->name);
        put(o, " ");
        before = o->used;
        (void)put_known(v, o, t, object, depth);
        o->used -= o->used == before;
        put(o, ">");
    } else if (!t || !put_known(v, o, t, object, depth)) {
        put(o, "?");
    } else if (o->used == before) {
        say(o, "<%s>", t->name);
    }
}

bool al_value_text(struct al_values *v, uint64_t object, char *out) {
    struct out o = {out, 0, false};
    const struct al_value_type *t = al_value_type(v, object);
    *out = '\0';
    if (t && !put_known(v, &o, t, object, 0))
        put(&o, "?");
    return t != NULL;
}
