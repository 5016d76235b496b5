// SPDX-License-Identifier: Apache-2.0
#include "stack/core/layout.h"

#include <string.h>

#define COOKIE "xdebugpy" // the first bytes of _PyRuntime, 3.13 on
#define OLDEST 0x0308
#define NEWEST 0x030f
#define FIRST_DEBUG 0x030d
#define LEVEL_CANDIDATE 0xc // PY_RELEASE_LEVEL_GAMMA; alpha and beta are below

enum al_layout_problem al_layout_table(uint32_t version, uint32_t machine, struct al_layout *ret) {
    uint32_t minor = version >> 16;
    bool known = false;
    if (minor < OLDEST)
        return AL_LAYOUT_OLD;
    if (minor >= FIRST_DEBUG)
        return AL_LAYOUT_NEWER;
    if (((version >> 4) & 0xf) < LEVEL_CANDIDATE)
        return AL_LAYOUT_ALPHA;
    for (size_t i = 0; i < al_layout_tables_count; i++) {
        const struct al_layout *l = &al_layout_tables[i];
        known |= l->version == minor;
        if (l->version == minor && (!machine || l->machine == machine)) {
            *ret = *l;
            return AL_LAYOUT_FINE;
        }
    }
    return known ? AL_LAYOUT_MACHINE : AL_LAYOUT_OLD;
}

bool al_layout_cookie(const void *bytes, size_t size) {
    return size >= sizeof COOKIE - 1 && memcmp(bytes, COOKIE, sizeof COOKIE - 1) == 0;
}

// One entry of _Py_DebugOffsets, by its place (in 8-byte words) in 3.13, 3.14 and 3.15; 0: not there.
struct word {
    uint8_t at[3];
    uint8_t group[3]; // the word that gives the size of the struct it lies in; 0: none, bounded by SPAN_MOST
    uint8_t bytes;    // width of the field itself; 0: it is a size
    bool needed;
    uint16_t field;   // offset in struct al_layout
};

#define F(name) offsetof(struct al_layout, name)
#define SPAN_MOST (4u << 20) // no struct of the interpreter is larger (_PyRuntime has 0.35 MB)
#define SMALL_MOST 8192u     // nor any but _PyRuntime and PyInterpreterState

// From CPython's Include/internal/pycore_debug_offsets.h of each version.
static const struct word WORDS[] = {
    {{3, 3, 3}, {0, 0, 0}, 0, true, F(runtime_size)},
    {{4, 4, 4}, {3, 3, 3}, 8, true, F(runtime_finalizing)},
    {{5, 5, 5}, {3, 3, 3}, 8, true, F(runtime_interpreters)},
    {{7, 7, 7}, {6, 6, 6}, 8, true, F(interp_id)},
    {{8, 8, 8}, {6, 6, 6}, 8, true, F(interp_next)},
    {{9, 9, 9}, {6, 6, 6}, 8, true, F(interp_threads)},
    {{11, 12, 12}, {6, 6, 6}, 8, true, F(interp_modules)},
    {{14, 15, 15}, {6, 6, 6}, 8, true, F(interp_gil)},
    {{0, 20, 20}, {6, 6, 6}, 8, false, F(interp_code_generation)},
    {{20, 23, 23}, {19, 22, 22}, 8, true, F(thread_prev)},
    {{21, 24, 24}, {19, 22, 22}, 8, true, F(thread_next)},
    {{22, 25, 25}, {19, 22, 22}, 8, true, F(thread_interp)},
    {{23, 26, 26}, {19, 22, 22}, 8, true, F(thread_frame)},
    {{0, 0, 27}, {0, 0, 22}, 8, true, F(thread_base_frame)},
    {{24, 27, 30}, {19, 22, 22}, 8, true, F(thread_id)},
    {{25, 28, 31}, {19, 22, 22}, 8, true, F(thread_native_id)},
    {{26, 29, 32}, {19, 22, 22}, 24, true, F(thread_chunk)}, // chunk, top, limit
    {{27, 30, 33}, {19, 22, 22}, 4, true, F(thread_status)},
    {{0, 0, 34}, {0, 0, 22}, 4, true, F(thread_holds_gil)},
    {{0, 0, 35}, {0, 0, 22}, 4, true, F(thread_wants_gil)},
    {{29, 32, 40}, {28, 31, 39}, 8, true, F(frame_previous)},
    {{30, 33, 41}, {28, 31, 39}, 8, true, F(frame_code)},
    {{31, 34, 42}, {28, 31, 39}, 8, true, F(frame_instr)},
    {{32, 35, 43}, {28, 31, 39}, 8, true, F(frame_locals)},
    {{33, 36, 44}, {28, 31, 39}, 1, true, F(frame_owner)},
    {{0, 37, 45}, {0, 31, 39}, 8, false, F(frame_stack_top)},
    {{0, 38, 46}, {0, 31, 39}, 4, false, F(frame_tlbc)},
    {{35, 40, 48}, {34, 39, 47}, 8, true, F(code_filename)},
    {{36, 41, 49}, {34, 39, 47}, 8, true, F(code_name)},
    {{37, 42, 50}, {34, 39, 47}, 8, true, F(code_qualname)},
    {{38, 43, 51}, {34, 39, 47}, 8, true, F(code_lines)},
    {{39, 44, 52}, {34, 39, 47}, 4, true, F(code_first_line)},
    {{43, 48, 56}, {34, 39, 47}, 0, true, F(code_bytecode)}, // where the struct's variable part begins: may be its end
    {{0, 49, 57}, {0, 39, 47}, 8, false, F(code_tlbc)},
    {{41, 46, 54}, {34, 39, 47}, 8, true, F(code_locals_names)},
    {{42, 47, 55}, {34, 39, 47}, 8, true, F(code_locals_kinds)},
    {{45, 51, 59}, {44, 50, 58}, 8, true, F(object_type)},
    {{47, 53, 61}, {46, 52, 60}, 8, true, F(type_name)},
    {{49, 55, 63}, {46, 52, 60}, 8, true, F(type_flags)},
    {{0, 0, 64}, {0, 0, 60}, 8, true, F(type_basic_size)},
    {{0, 0, 67}, {0, 0, 66}, 8, true, F(type_cached_keys)},
    {{51, 57, 69}, {50, 56, 68}, 8, true, F(tuple_items)},
    {{52, 58, 70}, {50, 56, 68}, 8, true, F(tuple_size)},
    {{54, 60, 72}, {53, 59, 71}, 8, true, F(list_items)},
    {{55, 61, 73}, {53, 59, 71}, 8, true, F(list_size)},
    {{57, 67, 79}, {56, 66, 78}, 8, true, F(dict_keys)},
    {{58, 68, 80}, {56, 66, 78}, 8, true, F(dict_values)},
    {{60, 70, 82}, {59, 69, 81}, 8, true, F(float_value)},
    {{62, 72, 84}, {61, 71, 83}, 8, true, F(long_tag)},
    {{63, 73, 85}, {61, 71, 83}, 4, true, F(long_digits)},
    {{65, 75, 87}, {64, 74, 86}, 8, true, F(bytes_size)},
    {{66, 76, 88}, {64, 74, 86}, 1, true, F(bytes_data)},
    {{68, 78, 90}, {67, 77, 89}, 4, true, F(text_state)},
    {{69, 79, 91}, {67, 77, 89}, 8, true, F(text_length)},
    {{70, 80, 92}, {67, 77, 89}, 0, true, F(text_ascii)},
    {{0, 85, 101}, {0, 83, 99}, 0, false, F(generator_frame)},
    {{0, 86, 102}, {0, 83, 99}, 1, false, F(generator_state)},
};

static const uint16_t DEBUG_BYTES[3] = {584, 760, 888};

static uint64_t word_at(const unsigned char *bytes, unsigned index) {
    uint64_t v;
    memcpy(&v, bytes + 8u * index, sizeof v);
    return v;
}

static bool take(const unsigned char *bytes, const struct word *w, unsigned column, struct al_layout *ret) {
    uint32_t *out = (uint32_t *)(void *)((char *)ret + w->field);
    *out = AL_LAYOUT_NONE;
    if (!w->at[column])
        return true; // this version has none
    uint64_t value = word_at(bytes, w->at[column]);
    uint64_t span = w->group[column] ? word_at(bytes, w->group[column]) : SPAN_MOST;
    bool large = w->group[column] == 3 || w->group[column] == 6 || !w->group[column];
    uint64_t most = large ? SPAN_MOST : SMALL_MOST;
    uint64_t width = w->bytes;
    if (span > most || value > span || width > span - value || (width >= 8 && value % 8) || (width == 4 && value % 4))
        return false;
    *out = (uint32_t)value;
    return true;
}

static uint32_t largest(const uint32_t *values, size_t count) {
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (values[i] != AL_LAYOUT_NONE && values[i] > most)
            most = values[i];
    return most;
}

// What follows from the table's words.
static bool derive(const unsigned char *bytes, unsigned column, struct al_layout *l) {
    // The GIL is given by its struct in the interpreter and the two fields' places there; other interpreters may share it.
    uint64_t gil = word_at(bytes, column ? 16 : 15), locked = word_at(bytes, column ? 18 : 17),
             holder = word_at(bytes, column ? 19 : 18);
    if (locked < gil || holder < gil || locked - gil > 256 || holder - gil > 256 || (holder - gil) % 8)
        return false;
    l->gil_locked = (uint32_t)(locked - gil);
    l->gil_holder = (uint32_t)(holder - gil);
    l->gil_size = 256; // for a waiter's futex: the struct has 208 bytes with glibc
    l->runtime_current = l->runtime_gil = l->cframe_frame = l->frame_entry = l->thread_number =
        l->code_varnames = l->code_cellvars = l->code_freevars = l->frame_stack = AL_LAYOUT_NONE;
    if (l->frame_stack_top == AL_LAYOUT_NONE)
        l->frame_stack_top = l->frame_instr + 8; // 3.13, which does not name it: an int behind the instruction
    if (l->generator_frame == AL_LAYOUT_NONE) { // nor this: weak references, two names, exception, origin, four flags
        l->generator_state = l->object_type + 8 + 6 * 8 + 3;
        l->generator_frame = l->object_type + 8 + 7 * 8;
    }
    // Only what stands before the locals is read of a frame.
    l->frame_size = l->frame_locals;
    uint32_t in_frame[] = {l->frame_previous + 8, l->frame_code + 8, l->frame_instr + 8, l->frame_owner + 1};
    uint32_t in_code[] = {l->code_filename + 8, l->code_name + 8, l->code_qualname + 8, l->code_lines + 8,
                          l->code_first_line + AL_LAYOUT_CODE_NUMBER + 4};
    if (largest(in_frame, 4) > l->frame_size || (l->free_threaded && l->frame_tlbc != AL_LAYOUT_NONE &&
                                                 l->frame_tlbc + 4 > l->frame_size))
        return false;
    l->code_size = largest(in_code, 5);
    if (l->object_type + 8 > l->code_size)
        return false;
    l->text_compact = l->text_ascii + 16; // utf8_length, utf8
    l->text_size = l->text_compact;
    if (!l->free_threaded)
        l->frame_tlbc = l->code_tlbc = AL_LAYOUT_NONE;
    if (l->type_basic_size == AL_LAYOUT_NONE)
        l->type_basic_size = l->type_name + 8;
    // PyHeapTypeObject: the type, its method tables (55 pointers), name, slots, qualified name.
    if (l->type_cached_keys == AL_LAYOUT_NONE)
        l->type_cached_keys = (uint32_t)word_at(bytes, column ? 52 : 46) + 58 * 8;
    return l->text_length + 8 <= l->text_ascii && l->text_state + 4 <= l->text_ascii;
}

enum al_layout_problem al_layout_debug(const void *bytes, size_t size, uint32_t machine, struct al_layout *ret,
                                       uint32_t *ret_version) {
    uint64_t version, free_threaded;
    *ret_version = 0;
    if (size < 24 || !al_layout_cookie(bytes, size))
        return AL_LAYOUT_DAMAGED;
    version = word_at(bytes, 1);
    free_threaded = word_at(bytes, 2);
    if (version > UINT32_MAX || free_threaded > 1)
        return AL_LAYOUT_DAMAGED;
    *ret_version = (uint32_t)version;
    if (version >> 16 < FIRST_DEBUG)
        return AL_LAYOUT_DAMAGED;
    if (version >> 16 > NEWEST)
        return AL_LAYOUT_NEWER;
    if (((version >> 4) & 0xf) < LEVEL_CANDIDATE)
        return AL_LAYOUT_ALPHA;
    unsigned column = (unsigned)((version >> 16) - FIRST_DEBUG);
    if (size < DEBUG_BYTES[column])
        return AL_LAYOUT_DAMAGED;
    memset(ret, 0, sizeof *ret);
    ret->version = (uint16_t)(version >> 16);
    ret->free_threaded = free_threaded;
    ret->lines = AL_LINES_311;
    ret->shim_owner = 3; // FRAME_OWNED_BY_CSTACK (3.13), FRAME_OWNED_BY_INTERPRETER (3.14 on)
    ret->machine = machine;
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (!take(bytes, &WORDS[i], column, ret))
            return AL_LAYOUT_DAMAGED;
    return derive(bytes, column, ret) ? AL_LAYOUT_FINE : AL_LAYOUT_DAMAGED;
}

const char *al_layout_problem_text(enum al_layout_problem problem) {
    switch (problem) {
    case AL_LAYOUT_OLD: return "alula reads CPython 3.8 and later";
    case AL_LAYOUT_NEWER: return "it is newer than this alula knows (3.15): take a newer alula";
    case AL_LAYOUT_ALPHA: return "it is an alpha or beta, whose layout still moves: alula does not guess";
    case AL_LAYOUT_MACHINE: return "alula has no table for this version on this processor";
    case AL_LAYOUT_DAMAGED: return "its debug offsets contradict themselves: alula does not guess";
    default: return "fine";
    }
}
