// SPDX-License-Identifier: Apache-2.0
#include "base/pb.h"

#include <string.h>

#include "base/str.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };
#define VARINT_MAX 10

static size_t put_varint(char *out, uint64_t value) {
    size_t len = 0;
    for (; value > 0x7f; value >>= 7)
        out[len++] = (char)(unsigned char)(value | 0x80);
    out[len++] = (char)(unsigned char)value;
    return len;
}

static void varint(struct al_buf *b, uint64_t value) {
    char bytes[VARINT_MAX];
    al_buf_add(b, bytes, put_varint(bytes, value));
}

static void tag(struct al_buf *b, uint32_t field, uint32_t wire) {
    varint(b, (uint64_t)field << 3 | wire);
}

void al_pb_uint(struct al_buf *b, uint32_t field, uint64_t value) {
    tag(b, field, WIRE_VARINT);
    varint(b, value);
}

void al_pb_fixed64(struct al_buf *b, uint32_t field, uint64_t value) {
    char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(unsigned char)(value >> (8 * i));
    tag(b, field, WIRE_FIXED64);
    al_buf_add(b, bytes, sizeof bytes);
}

void al_pb_float(struct al_buf *b, uint32_t field, float value) {
    uint32_t bits;
    char bytes[4];
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        bytes[i] = (char)(unsigned char)(bits >> (8 * i));
    tag(b, field, WIRE_FIXED32);
    al_buf_add(b, bytes, sizeof bytes);
}

void al_pb_double(struct al_buf *b, uint32_t field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    al_pb_fixed64(b, field, bits);
}

void al_pb_string(struct al_buf *b, uint32_t field, const char *text) {
    size_t len = strlen(text);
    if (!len)
        return;
    tag(b, field, WIRE_BYTES);
    varint(b, len);
    for (size_t i = 0; i < len;) {
        size_t n = al_utf8_len((const unsigned char *)text + i, len - i);
        al_buf_add(b, n ? text + i : "?", n ? n : 1);
        i += n ? n : 1;
    }
}

size_t al_pb_open(struct al_buf *b, uint32_t field) {
    tag(b, field, WIRE_BYTES);
    return b->len;
}

// The length goes in front of what it counts: known only now, so the message makes room for it.
void al_pb_close(struct al_buf *b, size_t start) {
    char bytes[VARINT_MAX];
    if (b->failed)
        return;
    size_t size = b->len - start, len = put_varint(bytes, size);
    al_buf_add(b, bytes, len);
    if (b->failed)
        return;
    memmove(b->data + start + len, b->data + start, size);
    memcpy(b->data + start, bytes, len);
}

static bool get_varint(const char *data, size_t len, size_t *at, uint64_t *ret) {
    *ret = 0;
    for (unsigned shift = 0; shift < 64 && *at < len; shift += 7) {
        unsigned char byte = (unsigned char)data[(*at)++];
        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool get_fixed(const char *data, size_t len, size_t *at, unsigned size, uint64_t *ret) {
    *ret = 0;
    if (len - *at < size)
        return false;
    for (unsigned i = 0; i < size; i++)
        *ret |= (uint64_t)(unsigned char)data[(*at)++] << (8 * i);
    return true;
}

bool al_pb_next(const char *data, size_t len, size_t *at, struct al_pb_field *ret) {
    uint64_t key;
    size_t here = *at;
    *ret = (struct al_pb_field){0};
    if (!get_varint(data, len, &here, &key) || key >> 3 == 0 || key >> 32)
        return false;
    ret->number = (uint32_t)(key >> 3);
    ret->wire = key & 7;
    bool ok;
    switch (ret->wire) {
    case WIRE_VARINT: ok = get_varint(data, len, &here, &ret->value); break;
    case WIRE_FIXED64: ok = get_fixed(data, len, &here, 8, &ret->value); break;
    case WIRE_FIXED32: ok = get_fixed(data, len, &here, 4, &ret->value); break;
    case WIRE_BYTES:
        ok = get_varint(data, len, &here, &ret->value) && ret->value <= len - here;
        if (ok) {
            ret->bytes = data + here;
            ret->size = (size_t)ret->value;
            here += ret->size;
        }
        break;
    default: ok = false;
    }
    if (ok)
        *at = here;
    return ok;
}
