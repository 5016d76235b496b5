// SPDX-License-Identifier: Apache-2.0
// What is to be shown: a pure function of snapshot, findings, history and the choices of the user.
#ifndef AL_TUI_SCENE_H
#define AL_TUI_SCENE_H

#include "model/finding.h"
#include "model/snapshot.h"
#include "tui/history.h"

// What the session hands to the screen; all of it stays valid while the frame is drawn.
struct al_scene_in {
    const struct al_snapshot *s;      // NULL before the first reading
    const struct al_history *history; // may be NULL
    const struct al_finding *findings; // open ones, worst first
    uint32_t finding_count;
    int64_t silent_ns;  // since the last reading came in: more than the interval when something hangs
    const char *source; // "" for this machine's driver
    bool ended;         // a recording came to its end
};

enum al_sort {
    AL_SORT_GPU,
    AL_SORT_PID,
    AL_SORT_USER,
    AL_SORT_ROLE,
    AL_SORT_MEM,
    AL_SORT_SM,
    AL_SORT_CPU,
    AL_SORT_RSS,
    AL_SORT_TIME,
    AL_SORT_COMMAND,
    AL_SORT_STEPS, // the slowest first
    AL_SORT_COUNT
};
const char *al_sort_word(uint32_t sort);

struct al_scene_options {
    enum al_sort sort;
    bool reverse; // other than the column's usual way: names rise, amounts fall
    bool tree;
    bool workers; // DataLoader workers one by one, not one row a rank
    const char *filter;
};

// A row of the process table: a process, or the folded workers of one (pid 0, workers > 0).
struct al_scene_proc {
    pid_t pid;
    const struct al_proc *p; // NULL: only the driver knows it
    const struct al_rank *rank; // NULL: it tells nothing of itself
    const char *driver_name;
    uint64_t gpus[AL_GPU_MAX / 64]; // bit a position
    struct al_value memory; // over all its GPUs
    struct al_value sm;     // on its busiest GPU
    struct al_value cpu, rss;
    uint32_t workers;
    int depth;       // in the tree
    bool last;       // the last child of its parent
    uint32_t guides; // bit d: a line of depth d goes on below
    // Own use:
    int32_t parent, child, sibling;
    bool shown, placed;
};

struct al_scene {
    struct al_scene_proc *procs; // the rows in their order
    uint32_t proc_count, proc_all; // rows; processes before the filter
    uint32_t cap;
    struct al_scene_proc *spare;
    uint32_t spare_cap;
};

// Builds the rows; pointers into `in` stay in them. AL_E_NOMEM leaves none.
int al_scene_build(struct al_scene *v, const struct al_scene_in *in, const struct al_scene_options *o);
void al_scene_free(struct al_scene *v);

// Words separated by blanks, all of which must fit: text anywhere in pid, user, command, role, container, pod or job;
// user:NAME, job:PID or Slurm job, gpu:INDEX, rank:N.
bool al_scene_matches(const struct al_snapshot *s, const struct al_scene_proc *row, const char *filter);
// "0-3,7": the indices of a row's GPUs, as the driver counts; MIG devices as parent:instance.
void al_scene_gpus(const struct al_snapshot *s, const struct al_scene_proc *row, char *out, size_t size);
// The oldest reading among what a GPU's row shows; 0 when nothing is stale.
int64_t al_scene_stale_ns(const struct al_snapshot *s, const struct al_gpu *g);

#endif
