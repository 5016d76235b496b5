// SPDX-License-Identifier: Apache-2.0
// Between profile.c and the formats.
#ifndef AL_EXPORT_PROFILE_PARTS_H
#define AL_EXPORT_PROFILE_PARTS_H

#include "export/profile.h"

struct al_profile_frame {
    char *name, *file, *object; // one allocation
    int32_t line, first_line; // first_line: of its function; 0 not known
    uint8_t kind; // enum al_profile_kind
};

struct al_profile_node {
    uint32_t parent, frame;
    uint32_t depth; // 1 at the root
    uint64_t count; // of samples that ended here
};

#define AL_PROFILE_RUN_MOST ((1u << 29) - 1)
struct al_profile_run { // samples at one tick after another with the same stack in the same state
    uint32_t node, tick;
    uint32_t count : 29, state : 3;
};

struct al_profile_track {
    struct al_profile_who who; // texts in one allocation, at who.process
    struct al_profile_run *runs;
    uint32_t count, cap;
};

struct al_profile_index { // open addressing; entries are numbers + 1
    uint32_t *slots;
    uint32_t size, used;
};

struct al_profile {
    struct al_profile_frame *frames;
    struct al_profile_node *nodes; // a parent lies before its children
    struct al_profile_track *tracks;
    uint32_t frame_count, frame_cap, node_count, node_cap, track_count, track_cap;
    struct al_profile_index by_frame, by_node;
    uint64_t samples, run_total, run_most;
    uint32_t frame_most, node_most; // beyond, what is new hangs on its known callers as one frame
    uint32_t rest;                  // that frame; AL_PROFILE_NONE: not needed yet
    bool disordered; // equal stacks of a thread were put together: ticks say nothing, counts do
};

// Room for one more of `size` bytes in a list of `count`; false: no memory.
bool al_profile_grow(void **list, uint32_t count, uint32_t *cap, size_t size);
// "process 4242, rank 0 of 2, thread 4243 MainThread"
void al_profile_put_who(struct al_buf *b, const struct al_profile_who *who);
// The deepest stack. *ret_path: room for it (one more than that), to be freed. AL_E_NOMEM.
int al_profile_path(const struct al_profile *p, uint32_t **ret_path, uint32_t *ret_depth);
// Writes node's nodes from the root on; their number.
uint32_t al_profile_walk(const struct al_profile *p, uint32_t node, uint32_t *path);

// A track's runs with equal stack and state put together (tick 0), in the order of stacks; to be freed. AL_E_NOMEM.
int al_profile_sums(const struct al_profile_track *t, struct al_profile_run **ret, uint32_t *ret_count);

// Runs of a track at every `every`th tick only, as a sampler of a lower rate would have seen them. Starts with {0}.
struct al_profile_thinned {
    uint32_t at;
    struct al_profile_run run; // tick and count in steps of `every`
};
bool al_profile_thin(const struct al_profile_track *t, uint32_t every, struct al_profile_thinned *i);
// The smallest power of two that leaves at most `most` runs of all tracks together.
uint32_t al_profile_thin_to(const struct al_profile *p, uint64_t most);

#endif
