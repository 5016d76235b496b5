// SPDX-License-Identifier: Apache-2.0
#include "stack/code.h"

#include <stdlib.h>
#include <string.h>

#define MEMOS 1024u // a power of 2
// How long an entry is believed without a look: a freed code object's address may come back for another one. Most are freed young
// (those of modules, once they were run), so that what is new is looked at more often.
#define CHECK_FIRST_NS (5 * AL_NS_PER_MS)
#define CHECK_NS (100 * AL_NS_PER_MS)
#define STRICT_NS (5 * AL_NS_PER_S)
#define RETRY_NS AL_NS_PER_S // until what could not be read is tried again
#define ENTRIES_MOST (1u << 18)
#define LINES_BYTES_MOST (64u << 20) // of all line tables that are kept
#define CODE_READ_MOST 512u
#define CHECK_MOST 256u
#define PAGE 4096u
#define NAME_BYTES 128u // of the object of a name: its head and NAME_MOST characters
#define NAME_MOST 48u
#define STATE_ASCII 0x40u // to 3.11
#define OFFSET_MOST (256 << 20) // bytes of bytecode

int al_codes_init(struct al_codes *c, const struct al_layout *l, const struct al_memory *m, uint64_t code_type) {
    *c = (struct al_codes){.layout = l, .memory = m, .code_type = code_type, .cap = 256};
    c->table = calloc(c->cap, sizeof *c->table);
    c->memos = calloc(MEMOS, sizeof *c->memos);
    return c->table && c->memos ? 0 : -1;
}

static void clear(struct al_codes *c) {
    for (size_t i = 0; i < c->cap; i++) {
        free(c->table[i].lines);
        c->table[i] = (struct al_code){0};
    }
    c->count = 0;
    c->lines_bytes = 0;
}

void al_codes_free(struct al_codes *c) {
    if (c->table)
        clear(c);
    free(c->table);
    free(c->memos);
    al_intern_free(&c->names);
}

static size_t place_of(uint64_t address, size_t cap) {
    return (size_t)((address >> 4) * 0x9e3779b97f4a7c15ULL >> 20) & (cap - 1);
}

static struct al_code *find(struct al_codes *c, uint64_t address) {
    size_t at = place_of(address, c->cap);
    while (c->table[at].address && c->table[at].address != address)
        at = (at + 1) & (c->cap - 1);
    return &c->table[at];
}

static bool grow(struct al_codes *c) {
    if (c->count >= ENTRIES_MOST || c->lines_bytes > LINES_BYTES_MOST)
        clear(c); // generated code without end: what still runs is read again
    if (2 * (c->count + 1) <= c->cap)
        return true;
    size_t cap = c->cap ? 2 * c->cap : 256;
    struct al_code *table = calloc(cap, sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < c->cap; i++) {
        if (!c->table[i].address)
            continue;
        size_t at = place_of(c->table[i].address, cap);
        while (table[at].address)
            at = (at + 1) & (cap - 1);
        table[at] = c->table[i];
    }
    free(c->table);
    c->table = table;
    c->cap = cap;
    return true;
}

static void take_words(const struct al_layout *l, const unsigned char *raw, uint64_t *words) {
    words[0] = al_u64(raw + l->object_type);
    words[1] = al_u64(raw + l->code_filename);
    words[2] = al_u64(raw + l->code_name);
    words[3] = l->code_qualname == AL_LAYOUT_NONE ? 0 : al_u64(raw + l->code_qualname);
    words[4] = al_u64(raw + l->code_lines);
    words[5] = al_u32(raw + l->code_first_line);
    words[6] = l->version >= 0x030c ? al_u32(raw + l->code_first_line + AL_LAYOUT_CODE_NUMBER) : 0;
}

// Bytes of the name's object that are looked at: to its characters and some of them, but not over a page's end.
static uint32_t name_bytes(const struct al_layout *l, uint64_t name) {
    uint32_t left = PAGE - (uint32_t)(name % PAGE), size = l->text_ascii + NAME_MOST;
    return size < left ? size : left;
}

// What is compared of an entry; it comes to lie at raw + at. Returns the number of pieces.
static uint32_t ask(const struct al_codes *c, const struct al_code *e, uint32_t at, struct al_piece *pieces) {
    const struct al_layout *l = c->layout;
    pieces[0] = (struct al_piece){e->address, l->code_size, at};
    if (l->version >= 0x030c)
        return 1;
    pieces[1] = (struct al_piece){e->words[2], name_bytes(l, e->words[2]), at + l->code_size};
    return 2;
}

// A text's length and first characters; what else its object holds may change.
static uint64_t digest(const struct al_layout *l, const unsigned char *raw, uint32_t size) {
    uint64_t length = size >= l->text_ascii ? al_u64(raw + l->text_length) : 0, h = length;
    bool ascii = size >= l->text_ascii && (al_u32(raw + l->text_state) & STATE_ASCII);
    for (uint32_t i = 0; ascii && i < length && l->text_ascii + i < size; i++)
        h = (h ^ raw[l->text_ascii + i]) * 0x100000001b3ULL;
    return h;
}

static void answer(const struct al_codes *c, const struct al_code *e, const unsigned char *raw, uint64_t *words) {
    const struct al_layout *l = c->layout;
    take_words(l, raw, words);
    if (l->version < 0x030c)
        words[6] = digest(l, raw + l->code_size, name_bytes(l, e->words[2]));
}

// Whether the object's type is `code`; learned by the type's name when no symbol told it.
static bool is_code(struct al_codes *c, uint64_t type) {
    char name[16];
    uint64_t at;
    if (c->code_type)
        return type == c->code_type;
    if (!al_address_ok(type, 8) || !al_memory_u64(c->memory, type + c->layout->type_name, &at) ||
        !al_cstring_read(c->memory, at, name, sizeof name) || strcmp(name, "code") != 0)
        return false;
    c->code_type = type;
    return true;
}

static void read_lines(struct al_codes *c, struct al_code *e) {
    uint64_t data, size;
    if (!al_bytes_head(c->memory, c->layout, e->words[4], AL_LINES_MOST, &data, &size))
        return;
    e->lines = malloc(size + 1); // empty: all is on the first line (to 3.9)
    if (!e->lines)
        return;
    if (size && !al_memory_get(c->memory, data, e->lines, (uint32_t)size)) {
        free(e->lines);
        e->lines = NULL;
        return;
    }
    e->lines_size = (uint32_t)size;
    c->lines_bytes += size;
}

static bool read_name(struct al_codes *c, struct al_code *e, uint64_t address, char *out, size_t size) {
    if (al_text_read(c->memory, c->layout, address, out, size))
        return true;
    memcpy(out, "?", 2);
    e->incomplete = true;
    return false;
}

// An object that was freed while it was read may have got another's words and texts.
static bool stands(struct al_codes *c, struct al_code *e) {
    unsigned char raw[CODE_READ_MOST + NAME_BYTES];
    uint64_t words[AL_CODE_WORDS];
    struct al_piece pieces[2];
    uint32_t n = ask(c, e, 0, pieces);
    if (c->memory->gather(c->memory->user, pieces, n, raw) < n)
        return false;
    answer(c, e, raw, words);
    if (n > 1)
        e->words[6] = words[6];
    return memcmp(words, e->words, sizeof words) == 0;
}

static void read_code(struct al_codes *c, struct al_code *e, uint64_t address, int64_t now_ns) {
    unsigned char raw[CODE_READ_MOST];
    char file[AL_TEXT_MOST], name[1024], qualname[AL_TEXT_MOST];
    *e = (struct al_code){.address = address,
                          .id = AL_STACK_NO_CODE,
                          .checked_ns = now_ns,
                          .wait_ns = CHECK_FIRST_NS,
                          .generation = c->generation};
    e->serial = ++c->serial;
    e->round = c->round;
    c->fresh = true;
    if (!al_address_ok(address, 8) || c->layout->code_size > sizeof raw ||
        !al_memory_get(c->memory, address, raw, c->layout->code_size)) {
        e->incomplete = true;
        return;
    }
    take_words(c->layout, raw, e->words);
    if (!is_code(c, e->words[0])) {
        e->not_code = true;
        return;
    }
    e->first_line = (int32_t)e->words[5];
    bool named = read_name(c, e, e->words[2], name, sizeof name);
    named |= read_name(c, e, e->words[1], file, sizeof file);
    e->helper = e->words[1] == e->words[2] && strcmp(name, "__init__") == 0; // file and name are one object
    if (!e->words[3])
        memcpy(qualname, name, sizeof name);
    else if (!read_name(c, e, e->words[3], qualname, sizeof qualname))
        memcpy(qualname, name, sizeof name);
    read_lines(c, e);
    if (!stands(c, e)) {
        c->strict_until_ns = now_ns + STRICT_NS;
        e->incomplete = true;
    } else if (named)
        e->id = al_intern_add(&c->names, file, name, qualname, e->first_line);
}

struct al_code *al_codes_get(struct al_codes *c, uint64_t address, int64_t now_ns) {
    struct al_code *e = find(c, address);
    int64_t wait = al_codes_strict(c, now_ns) && e->round != c->round ? -1 : RETRY_NS;
    if (e->address && !((e->incomplete || e->not_code) && now_ns - e->checked_ns > wait))
        return e;
    if (!e->address) {
        if (!grow(c))
            return NULL;
        e = find(c, address);
        c->count++;
    } else {
        c->lines_bytes -= e->lines_size;
        free(e->lines);
    }
    read_code(c, e, address, now_ns);
    return e;
}

bool al_codes_strict(const struct al_codes *c, int64_t now_ns) {
    return now_ns < c->strict_until_ns;
}

uint32_t al_codes_serial(struct al_codes *c, uint64_t address) {
    return find(c, address)->serial;
}

static bool due(const struct al_codes *c, const struct al_code *e, int64_t now_ns, bool all) {
    if (!e->address || e->not_code || e->incomplete)
        return false;
    if (all || al_codes_strict(c, now_ns))
        return e->round != c->round;
    return c->generation ? e->generation != c->generation : now_ns - e->checked_ns > e->wait_ns;
}

// The entries of a batch against what was read of them now; what differs is read anew when it is next asked for.
static void compare(struct al_codes *c, struct al_code **batch, uint32_t count, const unsigned char *raw, uint32_t each,
                    uint32_t done, int64_t now_ns) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t words[AL_CODE_WORDS] = {0};
        struct al_code *e = batch[i];
        if (i < done)
            answer(c, e, raw + i * each, words);
        if (memcmp(words, e->words, sizeof words) == 0) {
            e->wait_ns = e->wait_ns * 2 < CHECK_NS ? e->wait_ns * 2 : AL_CODES_CHECK_NS;
            continue;
        }
        c->strict_until_ns = now_ns + STRICT_NS;
        c->lines_bytes -= e->lines_size;
        free(e->lines);
        read_code(c, e, e->address, now_ns);
    }
}

void al_codes_check(struct al_codes *c, const struct al_raw_frame *frames, uint32_t count, int64_t now_ns, bool all) {
    struct al_piece pieces[2 * CHECK_MOST];
    struct al_code *batch[CHECK_MOST];
    uint32_t n = 0, asked = 0, parts = 1, each = c->layout->code_size + NAME_BYTES;
    unsigned char raw[CHECK_MOST * 256];
    c->round++;
    for (uint32_t i = 0; i < count && n < CHECK_MOST && (n + 1) * each <= sizeof raw; i++) {
        struct al_code *e = find(c, frames[i].code);
        if (!due(c, e, now_ns, all))
            continue;
        e->checked_ns = now_ns;
        e->round = c->round;
        e->generation = c->generation;
        batch[n] = e;
        parts = ask(c, e, n++ * each, pieces + asked);
        asked += parts;
    }
    if (n)
        compare(c, batch, n, raw, each, (uint32_t)c->memory->gather(c->memory->user, pieces, asked, raw) / parts, now_ns);
}

// Where the bytecode that the frame runs begins: free-threaded builds have a copy for each thread.
static bool start_of(struct al_codes *c, struct al_code *e, uint32_t tlbc, uint64_t *ret) {
    uint64_t array, size;
    *ret = e->address + c->layout->code_bytecode;
    if (!tlbc || c->layout->code_tlbc == AL_LAYOUT_NONE)
        return true;
    if (e->tlbc_index != tlbc) {
        if (!al_memory_u64(c->memory, e->address + c->layout->code_tlbc, &array) || !al_address_ok(array, 8) ||
            !al_memory_u64(c->memory, array, &size) || tlbc >= size ||
            !al_memory_u64(c->memory, array + 8 + 8ULL * tlbc, &e->tlbc_start))
            return false;
        e->tlbc_index = tlbc;
    }
    *ret = e->tlbc_start;
    return true;
}

static bool find_line(struct al_codes *c, struct al_code *e, uint64_t instr, uint32_t tlbc, struct al_position *ret) {
    uint64_t start = 0;
    if (!c->layout->instr_unit && !start_of(c, e, tlbc, &start))
        return false;
    int64_t offset = (int64_t)(instr - start);
    // The interpreter stands one unit before the code until the first instruction has begun.
    return offset >= -2 && offset < OFFSET_MOST &&
           al_lines_find(c->layout->lines, e->lines, e->lines_size, e->first_line, offset, ret);
}

bool al_codes_position(struct al_codes *c, struct al_code *e, uint64_t instr, uint32_t tlbc, struct al_position *ret) {
    uint64_t key = (instr ^ (uint64_t)e->serial << 32 ^ tlbc) * 0x9e3779b97f4a7c15ULL;
    struct al_memo *memo = &c->memos[key >> 48 & (MEMOS - 1)];
    if (memo->serial == e->serial && memo->instr == instr && memo->tlbc == tlbc) {
        *ret = memo->position;
        return memo->good;
    }
    *memo = (struct al_memo){.instr = instr, .serial = e->serial, .tlbc = tlbc, .position = {0, 0, -1, -1}};
    bool kept = tlbc && e->tlbc_index == tlbc;
    memo->good = find_line(c, e, instr, tlbc, &memo->position);
    if (!memo->good && kept) { // a copy that no thread runs is freed, and made again elsewhere
        e->tlbc_index = 0;
        memo->good = find_line(c, e, instr, tlbc, &memo->position);
    }
    *ret = memo->position;
    return memo->good;
}
