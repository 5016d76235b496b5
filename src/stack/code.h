// SPDX-License-Identifier: Apache-2.0
// Code objects of the target by their address, with names and line tables kept here. An address may be used again for
// another one: entries are compared with the target now and then (by its own count of freed code objects where it has
// one). Where one was found to be another's, the target is one that makes code anew: for a while all that is used is
// compared at each sample.
#ifndef AL_STACK_CODE_H
#define AL_STACK_CODE_H

#include "base/clock.h"
#include "stack/core/lines.h"
#include "stack/core/text.h"
#include "stack/core/walk.h"
#include "stack/intern.h"

// How long an entry is believed without a look where the target does not count its freed code objects.
#define AL_CODES_CHECK_NS (100 * AL_NS_PER_MS)

// Type, file, name, qualified name, lines, first line; and, since all of these may come back together, the code's own number
// (3.12 on), else what its name begins with.
#define AL_CODE_WORDS 7

struct al_code {
    uint64_t address;  // 0: a free place
    uint64_t words[AL_CODE_WORDS]; // what it was read from
    uint32_t serial;   // of this reading
    uint32_t id;       // in the names; AL_STACK_NO_CODE: no code object, or unreadable
    bool not_code;     // another object (None), which is no frame
    bool helper;       // the interpreter's own frame around a class's __init__ (3.13 on), which no traceback shows
    bool incomplete;   // some of its names could not be read
    int32_t first_line;
    unsigned char *lines;
    uint32_t lines_size;
    int64_t checked_ns, wait_ns; // wait_ns: how long it is believed without a look
    uint64_t generation;
    uint32_t round;      // of comparing
    uint32_t tlbc_index; // the copy of the bytecode whose start is known; 0 none
    uint64_t tlbc_start;
};

struct al_memo {
    uint64_t instr;
    uint32_t serial, tlbc;
    struct al_position position;
    bool good;
};

struct al_codes {
    const struct al_layout *layout;
    const struct al_memory *memory;
    uint64_t code_type;  // 0: not known yet
    uint64_t generation; // the target's, of this sample; 0 it has none
    struct al_intern names;
    struct al_code *table;
    size_t count, cap; // cap is a power of 2
    size_t lines_bytes;
    uint32_t serial, round;
    int64_t strict_until_ns; // to when nothing is believed without a look
    bool fresh;              // something was read (anew) since the caller cleared it
    struct al_memo *memos;
};

int al_codes_init(struct al_codes *c, const struct al_layout *l, const struct al_memory *m, uint64_t code_type);
void al_codes_free(struct al_codes *c);
// Compares the entries of these frames that were not compared lately (or all), by one read.
void al_codes_check(struct al_codes *c, const struct al_raw_frame *frames, uint32_t count, int64_t now_ns, bool all);
// The number of the reading that the code's entry is from; 0 none.
uint32_t al_codes_serial(struct al_codes *c, uint64_t address);
// Whether the target is one that makes code anew all the time.
bool al_codes_strict(const struct al_codes *c, int64_t now_ns);
// Reads it when it is new. NULL: out of memory.
struct al_code *al_codes_get(struct al_codes *c, uint64_t address, int64_t now_ns);
// False: the line is not known.
bool al_codes_position(struct al_codes *c, struct al_code *code, uint64_t instr, uint32_t tlbc,
                       struct al_position *ret);

#endif
