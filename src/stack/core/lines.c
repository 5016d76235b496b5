// SPDX-License-Identifier: Apache-2.0
// Formats as CPython's Objects/lnotab_notes.txt (to 3.9), PEP 626 (3.10) and InternalDocs/code_objects.md (3.11 on)
// say.
#include "stack/core/lines.h"

#define NO_LINE_310 (-128)

// Sums stay far from overflow: lines beyond this are damage.
#define LINE_MOST (1 << 30)

enum { CODE_LINE_0 = 10, CODE_LINE_2 = 12, CODE_NO_COLUMNS = 13, CODE_LONG = 14, CODE_NONE = 15 };

static int signed_byte(unsigned char byte) {
    return byte < 128 ? byte : byte - 256;
}

static bool line_ok(int64_t line) {
    return line >= 0 && line <= LINE_MOST;
}

// Pairs (bytes unsigned, lines signed); a line holds from where its pair ends.
static bool find_lnotab(const unsigned char *table, size_t size, int64_t line, int64_t offset,
                        struct al_position *ret) {
    int64_t at = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        at += table[i];
        if (at > offset)
            break;
        line += signed_byte(table[i + 1]);
    }
    if (!line_ok(line))
        return false;
    ret->line = ret->end_line = (int32_t)line;
    return true;
}

// Pairs (bytes unsigned, lines signed); a pair's line holds for its own bytes; -128: they belong to no line.
static bool find_310(const unsigned char *table, size_t size, int64_t line, int64_t offset, struct al_position *ret) {
    int64_t at = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        int delta = signed_byte(table[i + 1]);
        at += table[i];
        if (delta != NO_LINE_310)
            line += delta;
        if (at > offset) {
            if (delta == NO_LINE_310 || !line_ok(line))
                return false;
            ret->line = ret->end_line = (int32_t)line;
            return true;
        }
    }
    return false;
}

struct cursor {
    const unsigned char *at, *end;
    bool failed;
};

static unsigned next_byte(struct cursor *c) {
    if (c->at == c->end) {
        c->failed = true;
        return 0;
    }
    return *c->at++;
}

// Six bits a byte, low ones first; bit 6: more follow.
static int64_t next_varint(struct cursor *c) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift <= 30; shift += 6) {
        unsigned b = next_byte(c);
        value |= (uint64_t)(b & 0x3f) << shift;
        if (!(b & 0x40))
            return (int64_t)value;
    }
    c->failed = true;
    return 0;
}

static int64_t next_signed(struct cursor *c) {
    int64_t value = next_varint(c);
    return value & 1 ? -(value >> 1) : value >> 1;
}

// What follows an entry's first byte; *line is carried from entry to entry.
static void next_entry(struct cursor *c, unsigned code, int64_t *line, struct al_position *p) {
    *p = (struct al_position){0, 0, -1, -1};
    if (code == CODE_NONE)
        return;
    if (code == CODE_LONG) {
        *line += next_signed(c);
        p->end_line = (int32_t)((*line + next_varint(c)) & INT32_MAX);
        p->column = (int32_t)(next_varint(c) - 1);
        p->end_column = (int32_t)(next_varint(c) - 1);
    } else if (code == CODE_NO_COLUMNS) {
        *line += next_signed(c);
    } else if (code >= CODE_LINE_0 && code <= CODE_LINE_2) {
        *line += code - CODE_LINE_0;
        p->column = (int32_t)next_byte(c);
        p->end_column = (int32_t)next_byte(c);
    } else {
        unsigned b = next_byte(c);
        p->column = (int32_t)(code << 3 | b >> 4);
        p->end_column = p->column + (int32_t)(b & 0xf);
    }
    if (!line_ok(*line)) {
        c->failed = true;
        return;
    }
    p->line = (int32_t)*line;
    if (p->end_line < p->line)
        p->end_line = p->line;
}

static bool find_311(const unsigned char *table, size_t size, int64_t line, int64_t offset, struct al_position *ret) {
    struct cursor c = {table, table + size, false};
    int64_t at = 0;
    while (c.at < c.end && !c.failed) {
        unsigned first = next_byte(&c);
        struct al_position p;
        if (!(first & 0x80))
            return false; // every entry's first byte has it
        next_entry(&c, first >> 3 & 0xf, &line, &p);
        at += 2 * ((int64_t)(first & 7) + 1);
        if (at > offset && !c.failed) {
            *ret = p;
            return p.line != 0;
        }
    }
    return false;
}

bool al_lines_find(enum al_lines_format format, const unsigned char *table, size_t size, int32_t first_line,
                   int64_t offset, struct al_position *ret) {
    *ret = (struct al_position){0, 0, -1, -1};
    if (offset < 0) {
        if (!line_ok(first_line))
            return false;
        ret->line = ret->end_line = first_line;
        return true;
    }
    switch (format) {
    case AL_LINES_LNOTAB: return find_lnotab(table, size, first_line, offset, ret);
    case AL_LINES_310: return find_310(table, size, first_line, offset, ret);
    default: return find_311(table, size, first_line, offset, ret);
    }
}
