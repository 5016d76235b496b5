// SPDX-License-Identifier: Apache-2.0
// Everything one tick saw. Windows, rules, screens, pages and exports read this and nothing else.
#ifndef AL_MODEL_SNAPSHOT_H
#define AL_MODEL_SNAPSHOT_H

#include "model/gpu.h"
#include "model/look.h"
#include "model/node.h"
#include "model/process.h"
#include "model/rank.h"

struct al_snapshot {
    uint64_t tick;          // counts from 1
    int64_t monotonic_ns;   // of the tick
    int64_t realtime_ns;    // ns since the epoch
    int64_t interval_ns;    // the period asked for
    int64_t jitter_ns;      // how late this tick began
    uint32_t groups;        // enum al_group bits that were asked for

    struct al_node node;
    uint32_t gpu_count;
    struct al_gpu *gpus;    // gpu_cap entries
    uint32_t proc_count;
    struct al_proc *procs;  // sorted by pid
    uint32_t row_count;
    struct al_proc_gpu *rows; // sorted by gpu, then pid
    uint32_t rank_count;
    struct al_rank *ranks;  // sorted by job, rank, pid
    uint32_t look_count;
    struct al_look *looks;  // sorted by rank, pid

    // A driver call that has not come back.
    char hung_call[64];     // "" when none
    int64_t hung_since_ns;

    uint32_t gpu_cap, proc_cap, row_cap, rank_cap, look_cap;
};

struct al_snapshot *al_snapshot_new(void);
struct al_snapshot *al_snapshot_free(struct al_snapshot *s);
// Sets counts to 0 and keeps the memory.
void al_snapshot_clear(struct al_snapshot *s);
// Adds a zeroed entry; NULL when memory is out or AL_GPU_MAX is reached.
struct al_gpu *al_snapshot_add_gpu(struct al_snapshot *s);
struct al_proc *al_snapshot_add_proc(struct al_snapshot *s);
struct al_proc_gpu *al_snapshot_add_row(struct al_snapshot *s);
struct al_rank *al_snapshot_add_rank(struct al_snapshot *s);
struct al_look *al_snapshot_add_look(struct al_snapshot *s);
int al_snapshot_copy(struct al_snapshot *to, const struct al_snapshot *from);
void al_snapshot_sort(struct al_snapshot *s);

struct al_gpu *al_snapshot_gpu(const struct al_snapshot *s, const char *uuid);
// Needs procs sorted by pid (al_snapshot_sort).
struct al_proc *al_snapshot_proc(const struct al_snapshot *s, pid_t pid);
struct al_rank *al_snapshot_rank(const struct al_snapshot *s, pid_t pid);
struct al_look *al_snapshot_look(const struct al_snapshot *s, pid_t pid);
// Sum of a process's memory over all devices; status tells when nothing is known.
struct al_value al_snapshot_proc_memory(const struct al_snapshot *s, pid_t pid);

#endif
