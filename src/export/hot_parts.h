// SPDX-License-Identifier: Apache-2.0
// Between hot.c, which keeps samples, and hot_rows.c, which makes rows of them.
#ifndef AL_EXPORT_HOT_PARTS_H
#define AL_EXPORT_HOT_PARTS_H

#include "export/hot.h"
#include "export/profile_parts.h"

#define AL_HOT_SLICES 20u // that a window has: it slides by a twentieth

struct al_hot_cell { // samples of one thread in one stack and state
    uint32_t track, stack, state;
    uint32_t entry; // in the newest slice, + 1; 0 none
    uint64_t ever, window;
};

struct al_hot_entry {
    uint32_t cell, count;
};

struct al_hot_slice {
    struct al_hot_entry *entries;
    uint32_t count, cap;
    uint64_t ticks;
    int64_t began_ns;
};

struct al_hot_thread {
    char *name;
    uint32_t process; // AL_PROFILE_NONE: not told
};

struct al_hot_process {
    char *name;
    int32_t rank;
};

struct al_hot {
    int64_t slice_ns, began_ns, last_ns;
    uint64_t ticks, window_ticks;
    struct al_hot_cell *cells;
    uint32_t cell_count, cell_cap;
    struct al_profile_index by_cell;
    struct al_hot_slice slices[AL_HOT_SLICES];
    uint32_t newest;
    struct al_hot_thread *threads; // by track
    uint32_t thread_count, thread_cap;
    struct al_hot_process *processes;
    uint32_t process_count, process_cap;
    // The frame that stands for its function, by frame; made as frames come.
    uint32_t *function_of;
    uint32_t function_count, function_cap;
    struct al_profile_index by_function;
};

#endif
