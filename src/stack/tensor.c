// SPDX-License-Identifier: Apache-2.0
#include "stack/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define BYTES 240u           // of the C++ object that are read
#define FIRST 32u            // where the shape may begin: behind table, counts, storage ...
#define LAST 104u
#define INLINE 5u            // dimensions that stand in the object; more stand behind a pointer
#define DIMENSIONS_MOST 16u
#define SIZE_MOST (1LL << 48)

// From where the shape's struct begins: number of dimensions; sizes and strides or a pointer; offset in the storage; elements;
// type (2 bytes), device (type, index, known).
#define AT_SIZES 8u
#define AT_OFFSET 88u
#define AT_ELEMENTS 96u
#define AT_TYPE 104u

// By torch's number.
static const char *const TYPES[] = {
    [0] = "uint8",        [1] = "int8",         [2] = "int16",          [3] = "int32",           [4] = "int64",
    [5] = "float16",      [6] = "float32",      [7] = "float64",        [8] = "complex32",       [9] = "complex64",
    [10] = "complex128",  [11] = "bool",        [15] = "bfloat16",      [23] = "float8_e5m2",    [24] = "float8_e4m3fn",
    [25] = "float8_e5m2fnuz", [26] = "float8_e4m3fnuz", [27] = "uint16", [28] = "uint32",        [29] = "uint64",
};
#define TYPES_MOST 64u // there are more than are named

struct shape {
    int64_t sizes[DIMENSIONS_MOST];
    uint32_t count;
    unsigned type, device;
    int index; // of the device; -1 none
};

bool al_tensor_named(const char *type) {
    return al_str_ends(type, "Tensor") || strcmp(type, "Parameter") == 0 || strcmp(type, "Buffer") == 0;
}

static bool fits(const struct al_memory *m, const unsigned char *p, struct shape *s) {
    uint64_t count = al_u64(p);
    int64_t product = 1, elements = (int64_t)al_u64(p + AT_ELEMENTS), offset = (int64_t)al_u64(p + AT_OFFSET);
    *s = (struct shape){.count = (uint32_t)count, .type = (unsigned)p[AT_TYPE] | (unsigned)p[AT_TYPE + 1] << 8,
                        .device = p[AT_TYPE + 2], .index = (signed char)p[AT_TYPE + 3]};
    if (count > DIMENSIONS_MOST || s->type >= TYPES_MOST || s->device > 32 || p[AT_TYPE + 4] != 1 || offset < 0 || offset > SIZE_MOST)
        return false;
    if (count <= INLINE)
        memcpy(s->sizes, p + AT_SIZES, count * 8);
    else if (!al_address_ok(al_u64(p + AT_SIZES), 8) || !al_memory_get(m, al_u64(p + AT_SIZES), s->sizes, (uint32_t)count * 8))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (s->sizes[i] < 0 || s->sizes[i] > SIZE_MOST || (s->sizes[i] && product > SIZE_MOST / s->sizes[i]))
            return false;
        product *= s->sizes[i];
    }
    return product == elements;
}

// One place alone may fit.
static bool look(const struct al_memory *m, uint64_t object, struct shape *ret) {
    unsigned char raw[BYTES];
    struct shape s;
    unsigned found = 0;
    if (!al_address_ok(object, 8) || !al_memory_get(m, object, raw, sizeof raw))
        return false;
    for (uint32_t at = FIRST; at <= LAST; at += 8)
        if (fits(m, raw + at, &s)) {
            *ret = s;
            found++;
        }
    return found == 1;
}

bool al_tensor_text(const struct al_memory *m, const struct al_layout *l, uint64_t object, char *out) {
    uint64_t words[2]; // the pointer, or (to some release) whether it is borrowed and the pointer
    struct shape s;
    if (!al_memory_get(m, object + l->object_type + 8, words, sizeof words) || (!look(m, words[0], &s) && !look(m, words[1], &s)))
        return false;
    size_t used = (size_t)snprintf(out, AL_TENSOR_TEXT, "shape (");
    for (uint32_t i = 0; i < s.count && used < AL_TENSOR_TEXT; i++)
        used += (size_t)snprintf(out + used, AL_TENSOR_TEXT - used, i ? ", %" PRId64 : "%" PRId64, s.sizes[i]);
    if (used < AL_TENSOR_TEXT)
        used += (size_t)snprintf(out + used, AL_TENSOR_TEXT - used, s.count == 1 ? ",)" : ")");
    if (used < AL_TENSOR_TEXT && s.type < sizeof TYPES / sizeof *TYPES && TYPES[s.type])
        used += (size_t)snprintf(out + used, AL_TENSOR_TEXT - used, ", %s", TYPES[s.type]);
    if (used < AL_TENSOR_TEXT && s.device == 0)
        (void)snprintf(out + used, AL_TENSOR_TEXT - used, ", cpu");
    else if (used < AL_TENSOR_TEXT && s.device == 1)
        (void)snprintf(out + used, AL_TENSOR_TEXT - used, s.index >= 0 ? ", cuda:%d" : ", cuda", s.index);
    return true;
}
