// SPDX-License-Identifier: Apache-2.0
// Python frames put where the interpreter's runs stand in the native stack. Works on lists alone.
#ifndef AL_UNWIND_MERGE_H
#define AL_UNWIND_MERGE_H

#include "stack/stack.h"
#include "unwind/unwind.h"

enum al_merge_kind {
    AL_MERGE_SHOWN,     // native code
    AL_MERGE_HIDDEN,    // native code that is not to be shown
    AL_MERGE_LOOP,      // a run of the interpreter's loop: in its place come the Python frames of that run
    AL_MERGE_LOOP_PART, // a piece of the loop that the loop may have called (tail-call interpreters): one run with it
};

struct al_merge_input {
    const struct al_stack_frame *python; // innermost first; `entry` ends a run: to 3.10 each frame, later where native code called
    uint32_t python_count;
    bool truncated;        // Python's root end is missing
    const uint8_t *native; // enum al_merge_kind, innermost first
    uint32_t native_count;
    uint8_t native_status; // enum al_unwind_status
};

// Into out[python_count + native_count], innermost first: i is python[i], -1 - i is native[i]. Returns how many.
// *ret: MERGED: both are whole, and every run has its frames. PART: an end is missing at the root, so they were matched
// from the leaf on; what lies beyond is Python's alone. UNFIT: the counts contradict each other: Python's frames alone.
uint32_t al_merge(const struct al_merge_input *in, int32_t *out, enum al_stack_native *ret);

// Whether a function of the interpreter's own object is its plumbing (calls, the way into main), as against one that does a
// built-in's work ("list_sort", "take_gil", "gc_collect_main"). Names without a symbol ("0x12ab") are plumbing.
bool al_merge_is_plumbing(const char *symbol);
// Whether it only starts threads and programs, in any object.
bool al_merge_is_start(const char *symbol);

#endif
