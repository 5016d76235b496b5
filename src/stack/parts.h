// SPDX-License-Identifier: Apache-2.0
// The sampler's inside.
#ifndef AL_STACK_PARTS_H
#define AL_STACK_PARTS_H

#include "stack/code.h"
#include "stack/find.h"
#include "stack/slot.h"
#include "stack/stack.h"

#define AL_THREADS_MOST 65536u
#define AL_INTERPS_MOST 1024u

// A PyThreadState as it was read.
struct al_tstate {
    uint64_t address, interp, next, id;
    uint64_t number; // of all that the interpreter ever had; 0 not known (3.13 on: native tells them apart)
    int64_t native;  // tid in the target's pid namespace; 0 not known
    uint32_t status, holds, wants;
    uint32_t piece; // of the reading of the list
};

struct al_interp {
    uint64_t address, gil;
    int64_t id;
    uint64_t holder; // thread state; 0 nobody
};

struct al_active { // of threading._active
    uint64_t ident, thread;
};

#define KEPT_ACTIVE 4
struct al_kept_active {
    uint64_t interp, dict;
};

struct al_stack {
    pid_t pid;
    char procfs[128];
    struct al_found found;
    struct al_remote remote;
    struct al_memory memory;
    struct al_codes codes;
    uint32_t depth;
    bool started; // codes are set up
    uint64_t start_time;
    bool same_pids; // the target's pid namespace is this one
    pid_t inner_pid;

    struct al_walk walk;
    unsigned char *buffer;

    struct al_tstate *tstates; // as in the list of the last sample
    size_t tstates_count, tstates_cap;
    struct al_tstate *next_tstates;
    size_t next_cap;
    struct al_interp *interps;
    size_t interps_count, interps_cap;
    uint64_t *block; // for one gathered reading of thread states
    size_t block_cap;
    struct al_piece *pieces;
    size_t pieces_count, pieces_cap, heads, done;
    uint32_t block_used;
    struct al_ahead ahead[AL_AHEAD_MOST]; // in the order of tstates
    size_t ahead_count;
    uint64_t generation; // of the interpreters' counts of freed code objects
    bool generation_known, list_broken;

    struct al_slot **slots; // by thread state, a hash table
    size_t slots_count, slots_cap;
    uint64_t number; // of the sample

    struct al_stack_thread *threads;
    size_t threads_cap;
    struct al_stack_sample sample;
    struct al_stack_counts counts;

    uint32_t pthread_tid; // where a pthread's struct keeps its tid (3.8 to 3.10); 0 not known
    size_t place_tried;   // with how many threads it was looked for
    int64_t tids_ns;      // when the map of tids was made
    struct {
        int64_t inner;
        pid_t outer;
    } *tids;
    size_t tids_count;

    struct al_active *active; // by ident
    size_t active_count, active_cap;
    uint64_t active_number; // of the sample at which it was read; 0 never
    struct al_kept_active kept_active[KEPT_ACTIVE];
};

// sample.c: a frame as it was read, with its function and line.
void al_frame_fill(struct al_stack *s, const struct al_raw_frame *raw, struct al_code *code, struct al_stack_frame *f);
// threads.c: s->tstates and s->interps as they are now.
int al_threads_list(struct al_stack *s);
// ahead.c
void al_ahead_note(struct al_stack *s, const struct al_slot *slot); // that its stack was read in this sample
// Adds the thread state of `span` bytes with what its thread's walk needs to s->pieces; *piece: the thread state's.
bool al_ahead_ask(struct al_stack *s, struct al_ahead *a, const struct al_interp *interp, uint32_t span, uint32_t *piece);
void al_ahead_take(struct al_stack *s); // after the reading
// threads.c
bool al_pieces_room(struct al_stack *s, size_t more);
bool al_threads_fetch(struct al_stack *s, uint64_t address, void *out, uint32_t size); // of what is not of one thread
// slots.c
struct al_slot *al_slot_find(const struct al_stack *s, uint64_t tstate);         // NULL: none
struct al_slot *al_slot_get(struct al_stack *s, const struct al_tstate *t); // NULL: out of memory
void al_slots_drop_old(struct al_stack *s);
void al_slots_free(struct al_stack *s);
// sample.c: fills in the slot's frames and status.
int al_slot_walk(struct al_stack *s, struct al_slot *slot, int64_t now);
const struct al_interp *al_interp_of(const struct al_stack *s, uint64_t address);
// Before and after a walk: whether the thread held the GIL all along.
void al_gil_watch(struct al_stack *s, const struct al_interp *interp, bool holds);
bool al_gil_held(const struct al_stack *s, uint64_t tstate);
// tids.c: tid here of a thread; 0 not known.
pid_t al_tid_of(struct al_stack *s, const struct al_tstate *t);
void al_tids_open(struct al_stack *s);
// task.c
void al_task_look(struct al_stack *s, struct al_slot *slot, uint64_t gil);
void al_task_name(struct al_stack *s, struct al_slot *slot);
void al_task_free(struct al_task *t);
// names.c: the name that threading gives the thread; false: not known (yet).
bool al_name_of(struct al_stack *s, struct al_slot *slot);
// Why a process cannot be read; fills in the line.
int al_stack_denied(pid_t pid, struct al_stack_error *error);
// "starttime" of /proc/PID/stat; 0: gone.
uint64_t al_start_time(const char *procfs, pid_t pid);

#endif
