// SPDX-License-Identifier: Apache-2.0
// A snapshot seen by jobs: which processes hold which GPUs. Made once a tick, read by all rules.
#ifndef AL_DETECT_VIEW_H
#define AL_DETECT_VIEW_H

#include "model/snapshot.h"

#define AL_JOBS_MAX 128

struct al_job {
    pid_t pid;            // of its topmost process
    uint64_t start_ticks; // of that process, 0 when it was not seen
    uint32_t gpu_count;
    uint64_t gpus[(AL_GPU_MAX + 63) / 64]; // bit set of positions
};

// What the process list of a GPU tells.
enum al_holders {
    AL_HOLDERS_NONE,    // read, and no living process computes there
    AL_HOLDERS_SEEN,    // every process on it is known on the host side
    AL_HOLDERS_FOREIGN, // some pid belongs to another pid namespace
    AL_HOLDERS_UNSEEN,  // some pid was not found on the host side (not read, or just gone)
    AL_HOLDERS_UNKNOWN  // the list could not be read
};

struct al_view {
    const struct al_snapshot *s;
    uint32_t first_row[AL_GPU_MAX + 1]; // rows of GPU g: first_row[g] .. first_row[g + 1] - 1
    enum al_holders holders[AL_GPU_MAX];
    int job_of_gpu[AL_GPU_MAX]; // position in jobs; -1: none or several
    uint32_t job_count;
    struct al_job jobs[AL_JOBS_MAX];
};

void al_view_build(struct al_view *v, const struct al_snapshot *s);
bool al_view_computes(const struct al_proc_gpu *row); // compute or MPS, not graphics alone
bool al_job_has(const struct al_job *job, uint32_t gpu);
// A job's name as an entity: it tells two jobs that had the same pid apart.
void al_job_entity(const struct al_job *job, char *out, size_t size);
// The row with the most memory among the compute rows of a GPU; NULL when there is none.
const struct al_proc_gpu *al_view_holder(const struct al_view *v, uint32_t gpu);

#endif
