// SPDX-License-Identifier: Apache-2.0
// Profiles in recordings: sampled stacks with who, when and how (docs/recording.md). Any process may add one, also while
// the recording is being written by another.
#ifndef AL_STORE_PROFILES_H
#define AL_STORE_PROFILES_H

#include "store/store.h"

#define AL_STORE_NO_STACK UINT32_MAX // the parent of a root

struct al_store_frame {
    const char *name, *file, *object; // never NULL
    int32_t line, first_line;         // 0 not known
    uint8_t kind;                     // enum al_profile_kind of export/profile.h
};

struct al_store_stack {
    uint32_t parent, frame; // parent: a lower number, or AL_STORE_NO_STACK
    uint64_t samples;       // that ended in it
};

struct al_store_run { // samples at one tick after another in one stack and state
    uint32_t stack, tick, count;
    uint8_t state; // 0 to 7
};

struct al_store_track { // a thread
    const char *process, *thread; // never NULL
    int32_t pid, tid, rank;       // rank -1: none
    const struct al_store_run *runs;
    uint32_t run_count;
};

struct al_store_profile {
    int64_t id; // reading
    int64_t start_realtime_ns;
    double seconds, rate;
    int32_t pid;
    uint32_t processes;
    uint64_t samples; // of threads
    uint64_t ticks, late, failed, stacks, unstable, unreadable, truncated;
    bool idle, gil, by_function, disordered; // disordered: the runs' order and ticks say nothing
    const char *name, *command, *version;
};

// Where the parts are fetched from, by number; each struct is read before the next call.
struct al_store_profile_parts {
    uint32_t frames, stacks, tracks;
    void (*frame)(void *user, uint32_t i, struct al_store_frame *ret);
    void (*stack)(void *user, uint32_t i, struct al_store_stack *ret);
    // *ret_free: memory of the runs, to be freed after use; AL_E_NOMEM.
    int (*track)(void *user, uint32_t i, struct al_store_track *ret, struct al_store_run **ret_free);
    void *user;
};

// Adds a profile to a recording, in short transactions of their own: a writer that is at work there waits some milliseconds at
// most. AL_E_DENIED: it is locked for good (a recording on a network file system is its writer's alone); AL_E_NOENT, AL_E_FORMAT,
// AL_E_IO. What was not finished is never read. *ret_id: its number.
int al_store_add_profile(const char *path, const struct al_store_profile *p, const struct al_store_profile_parts *parts,
                         int64_t *ret_id, struct al_store_error *reterr);

// All profiles, the oldest first. Texts are valid during the call.
typedef int al_store_profile_fn(void *user, const struct al_store_profile *p);
int al_store_profiles(struct al_store *s, al_store_profile_fn *fn, void *user);
// The parts of one: frames, then stacks, then tracks, each from number 0 on without a gap, and each number that they name was told
// before. AL_E_FORMAT: damaged; AL_E_NOENT: no such profile.
struct al_store_profile_reader {
    int (*frame)(void *user, const struct al_store_frame *frame);
    int (*stack)(void *user, const struct al_store_stack *stack);
    int (*track)(void *user, const struct al_store_track *track);
    void *user;
};
int al_store_read_profile(struct al_store *s, int64_t id, const struct al_store_profile_reader *r, struct al_store_error *reterr);

#endif
