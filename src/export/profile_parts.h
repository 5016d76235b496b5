// SPDX-License-Identifier: Apache-2.0
// Between profile.c and the formats.
#ifndef AL_EXPORT_PROFILE_PARTS_H
#define AL_EXPORT_PROFILE_PARTS_H

#include "export/profile.h"

struct al_profile_frame {
    char *name, *file; // one allocation
    int32_t line, first_line; // first_line: of its function; 0 not known
};

struct al_profile_node {
    uint32_t parent, frame;
    uint32_t depth; // 1 at the root
    uint64_t count; // of samples that ended here
};

struct al_profile_run { // so many samples after one another with the same stack
    uint32_t node, count;
};

struct al_profile_track {
    char *name;
    struct al_profile_run *runs;
    uint32_t count, cap;
};

struct al_profile_index { // open addressing; entries are numbers + 1
    uint32_t *slots;
    uint32_t size, used;
};

struct al_profile {
    struct al_profile_frame *frames;
    struct al_profile_node *nodes;
    struct al_profile_track *tracks;
    uint32_t frame_count, frame_cap, node_count, node_cap, track_count, track_cap;
    struct al_profile_index by_frame, by_node;
    uint64_t samples, run_total, run_most;
};

#endif
