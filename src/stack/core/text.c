// SPDX-License-Identifier: Apache-2.0
#include "stack/core/text.h"

#define HEAD_MOST 96u   // of the structs before a text's characters: 40 to 80 bytes
#define CHUNK 1024u     // characters' bytes that are read at once
#define READ_BLOCK 256u // of a C string: never over a page's end

struct shape {
    uint64_t length, data;
    unsigned width; // bytes a character
};

static bool head(const struct al_memory *m, const struct al_layout *l, uint64_t address, struct shape *ret) {
    unsigned char raw[HEAD_MOST];
    // state: interned (2 bits; a byte of its own in 3.14t), kind (3), compact (1), ascii (1)
    unsigned shift = l->free_threaded && l->version >= 0x030e ? 8 : 2;
    if (!al_address_ok(address, 8) || l->text_ascii > sizeof raw || !al_memory_get(m, address, raw, l->text_ascii))
        return false;
    uint32_t state = al_u32(raw + l->text_state) >> shift;
    unsigned kind = state & 7;
    bool compact = state & 8, ascii = state & 16;
    ret->length = al_u64(raw + l->text_length);
    if (!compact || (kind != 1 && kind != 2 && kind != 4) || (ascii && kind != 1) || ret->length > AL_TEXT_LENGTH_MOST)
        return false;
    ret->width = kind;
    ret->data = address + (ascii ? l->text_ascii : l->text_compact);
    return true;
}

static size_t put_character(uint32_t c, char *out) {
    if (c < 0x20 || c == 0x7f || (c >= 0x80 && c < 0xa0) || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        c = '?';
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

static uint32_t character(const unsigned char *raw, unsigned width) {
    return width == 1 ? raw[0] : width == 2 ? (uint32_t)(raw[0] | raw[1] << 8) : al_u32(raw);
}

bool al_text_read(const struct al_memory *m, const struct al_layout *l, uint64_t address, char *out, size_t size) {
    unsigned char raw[CHUNK];
    struct shape s;
    size_t used = 0;
    out[0] = '\0';
    if (!head(m, l, address, &s))
        return false;
    for (uint64_t done = 0; done < s.length;) {
        uint64_t count = s.length - done < CHUNK / s.width ? s.length - done : CHUNK / s.width;
        if (!al_memory_get(m, s.data + done * s.width, raw, (uint32_t)(count * s.width))) {
            out[0] = '\0';
            return false;
        }
        for (uint64_t i = 0; i < count; i++) {
            char utf8[4];
            size_t bytes = put_character(character(raw + i * s.width, s.width), utf8);
            if (used + bytes >= size) {
                out[used] = '\0';
                return true;
            }
            memcpy(out + used, utf8, bytes);
            used += bytes;
        }
        done += count;
    }
    out[used] = '\0';
    return true;
}

bool al_bytes_head(const struct al_memory *m, const struct al_layout *l, uint64_t address, uint64_t most,
                   uint64_t *ret_data, uint64_t *ret_size) {
    if (!al_address_ok(address, 8) || !al_memory_u64(m, address + l->bytes_size, ret_size) || *ret_size > most)
        return false;
    *ret_data = address + l->bytes_data;
    return true;
}

bool al_cstring_read(const struct al_memory *m, uint64_t address, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    if (!al_address_ok(address, 1))
        return false;
    while (used + 1 < size) {
        uint32_t block = READ_BLOCK - (uint32_t)((address + used) % READ_BLOCK);
        if (block > size - 1 - used)
            block = (uint32_t)(size - 1 - used);
        if (!al_memory_get(m, address + used, out + used, block)) {
            out[0] = '\0';
            return false;
        }
        if (memchr(out + used, '\0', block))
            return true;
        used += block;
    }
    out[used] = '\0';
    return true;
}
