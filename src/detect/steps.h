// SPDX-License-Identifier: Apache-2.0
// Rules on the steps of a training job. Pure: tallies in, verdicts out; live over the recent steps, at the end over all.
#ifndef AL_DETECT_STEPS_H
#define AL_DETECT_STEPS_H

#include "detect/detect.h"
#include "model/look.h"
#include "tally/tally.h"

#define AL_STEPS_VERDICTS 96

struct al_steps_rank {
    const struct al_tally *tally;
    int64_t rank; // 0.. ; -1 unknown
    pid_t pid;
    int32_t workers; // DataLoader worker processes seen below it; -1 not known
    const struct al_look *look; // the last at its stacks; NULL none
};

struct al_steps_view {
    const struct al_steps_rank *ranks;
    uint32_t count;
    bool live; // judge the recent steps only
    double cpus; // that the job may use on this node
    bool utilization_known;
    double utilization;              // mean of the job's GPUs while it trained
    const char *utilization_missing; // why it is not known
    const char *command;             // the job's, masked, words separated by blanks; NULL unknown
};

// How much time is exposed communication. world: ranks of the job.
struct al_steps_communication {
    bool known;
    double ratio;
    const char *source; // how it is known, or why not
};
void al_steps_communication(const struct al_steps_view *v, struct al_steps_communication *ret);
// Why it is not known how long the ranks wait for data; NULL when it is.
const char *al_steps_data_unknown(const struct al_steps_view *v);
// Share of wall time of a part over all ranks; false where no step ended. whole: with the first step (warm-up).
bool al_steps_share(const struct al_steps_view *v, int part, bool whole, double *ret);
// DataLoader workers a rank that this node's cores carry: cores over local ranks without the one that the rank itself
// uses, 1 to 16.
int al_steps_workers(double cpus, uint32_t local_ranks);

struct al_steps_verdict {
    const char *rule; // "data_wait", "communication", "save", "log", "between_steps", "host_bound", "allocated", "outside_torch", "host", "healthy"...
    enum al_verdict verdict;
    bool look; // a look at the ranks' stacks would tell more
    struct al_finding finding; // with AL_VERDICT_FINDING; otherwise key and message are filled
};

// Whether epoch row i is the first, in which memory grows for many reasons.
bool al_steps_epoch_is_warm_up(const struct al_tally_host *h, uint32_t i);

// One verdict a rule, for those on memory one a rank (and device); returns how many.
uint32_t al_steps_judge(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret,
                        uint32_t max);

#endif
