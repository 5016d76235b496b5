// SPDX-License-Identifier: Apache-2.0
// Where CPython keeps things: offsets in bytes, by version. 3.8 to 3.12 from generated tables (tools/layouts), later ones
// from the table that the interpreter carries itself, which is checked field by field.
#ifndef AL_STACK_CORE_LAYOUT_H
#define AL_STACK_CORE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AL_LAYOUT_NONE UINT32_MAX // this version has no such field
#define AL_LAYOUT_DEBUG_BYTES 888 // the largest _Py_DebugOffsets that is known (3.15)

// From a code object's first line to the number that it got when it was made: 3.12 on, 0 where they ran out.
#define AL_LAYOUT_CODE_NUMBER 24u

// From a frame object's instruction to the byte that says whether it runs: to 3.10.
#define AL_LAYOUT_FRAME_STATE 12u

// X(field): one offset or size.
#define AL_LAYOUT_FIELDS(X)                                                                                            \
    X(runtime_size) X(runtime_interpreters) X(runtime_current) X(runtime_gil) X(runtime_finalizing)                    \
    X(interp_next) X(interp_id) X(interp_threads) X(interp_modules) X(interp_gil) X(interp_code_generation)            \
    X(gil_holder) X(gil_locked) X(gil_size)                                                                            \
    X(thread_prev) X(thread_next) X(thread_interp) X(thread_frame) X(thread_base_frame) X(thread_id)                   \
    X(thread_native_id) X(thread_number) X(thread_chunk) X(thread_status) X(thread_holds_gil) X(thread_wants_gil)                       \
    X(cframe_frame)                                                                                                    \
    X(frame_size) X(frame_previous) X(frame_code) X(frame_instr) X(frame_owner) X(frame_entry) X(frame_locals)         \
    X(frame_tlbc) X(frame_stack) X(frame_stack_top)                                                                    \
    X(code_size) X(code_filename) X(code_name) X(code_qualname) X(code_lines) X(code_first_line) X(code_bytecode)      \
    X(code_tlbc) X(code_varnames) X(code_cellvars) X(code_freevars) X(code_locals_names) X(code_locals_kinds)          \
    X(object_type) X(type_name) X(type_flags) X(type_basic_size) X(type_cached_keys)                                   \
    X(text_size) X(text_length) X(text_state) X(text_ascii) X(text_compact)                                            \
    X(bytes_size) X(bytes_data)                                                                                        \
    X(dict_keys) X(dict_values) X(tuple_size) X(tuple_items) X(long_tag) X(long_digits)                                \
    X(generator_frame) X(generator_state) X(list_size) X(list_items) X(float_value)

enum al_lines_format { AL_LINES_LNOTAB, AL_LINES_310, AL_LINES_311 };

struct al_layout {
    uint16_t version; // 0x0308 to 0x030f
    bool free_threaded;
    uint8_t lines;       // enum al_lines_format
    uint8_t instr_unit;  // frame_instr counts bytes (1), code units (2), or is an address (0)
    uint8_t shim_owner;  // owners from here on are not Python frames; 0 none
    uint32_t machine;    // ELF machine that the numbers are for; 0 any
#define X(field) uint32_t field;
    AL_LAYOUT_FIELDS(X)
#undef X
};

enum al_layout_problem {
    AL_LAYOUT_FINE,
    AL_LAYOUT_OLD,     // before 3.8
    AL_LAYOUT_NEWER,   // later than alula knows
    AL_LAYOUT_ALPHA,   // alpha or beta: its layout still moves
    AL_LAYOUT_MACHINE, // no table for this processor
    AL_LAYOUT_DAMAGED, // the table contradicts itself
};

// version: PY_VERSION_HEX. For 3.8 to 3.12.
enum al_layout_problem al_layout_table(uint32_t version, uint32_t machine, struct al_layout *ret);
// For 3.13 on, from the first bytes of _PyRuntime; sets *ret_version when the cookie is there.
enum al_layout_problem al_layout_debug(const void *bytes, size_t size, uint32_t machine, struct al_layout *ret,
                                       uint32_t *ret_version);
bool al_layout_cookie(const void *bytes, size_t size);
const char *al_layout_problem_text(enum al_layout_problem problem);

extern const struct al_layout al_layout_tables[];
extern const size_t al_layout_tables_count;

#endif
