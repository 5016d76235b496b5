// SPDX-License-Identifier: Apache-2.0
// Ranks: training processes that tell of themselves (steps, phases, allocator). One row a process, filled from its ring or,
// by another alula, from what that one publishes.
#ifndef AL_MODEL_RANK_H
#define AL_MODEL_RANK_H

#include <sys/types.h>

#include "model/event.h"
#include "model/status.h"

// Figures of a rank: X(ID, name, unit, kind, help). At_ns of a step is its end.
// Shares are of the wall time of the recent steps (the last 32), one for each part of the host timeline, in the order of
// AL_PHASES with BETWEEN behind them. Memory is that of the rank's main device, the one with the most reserved bytes.
#define AL_RANK_METRICS(X)                                                                                             \
    X(STEP, "step", COUNT, COUNTER, "number of the last optimizer step, from 1; 0 before the first")                   \
    X(EPOCH, "epoch", COUNT, STATE, "epoch, from 0")                                                                   \
    X(PHASE, "phase", STATE, STATE, "what it does now: the open phase by its number, 10 between two steps")            \
    X(TRAINING, "training", BOOL, STATE, "whether it has begun to train: its first step or phase was seen")            \
    X(SKIPPED, "skipped_steps", COUNT, COUNTER, "steps that the gradient scaler skipped")                              \
    X(ABORTED, "aborted_steps", COUNT, COUNTER, "steps that ended by an exception")                                    \
    X(STEP_RATE, "steps_per_second", PER_SECOND, GAUGE, "optimizer steps a second over the recent steps")              \
    X(STEP_SECONDS, "step_seconds", SECONDS, GAUGE, "wall time of a step, mean of the recent steps")                   \
    X(SAMPLE_RATE, "samples_per_second", PER_SECOND, GAUGE, "samples a second since training began")                   \
    X(SHARE_OTHER, "other_ratio", RATIO, GAUGE, "share of step time that no mark explains")                            \
    X(SHARE_DATA, "data_ratio", RATIO, GAUGE, "share of step time waiting for the next batch")                         \
    X(SHARE_FORWARD, "forward_ratio", RATIO, GAUGE, "share of step time in the forward pass and loss")                 \
    X(SHARE_BACKWARD, "backward_ratio", RATIO, GAUGE, "share of step time in the backward pass")                       \
    X(SHARE_OPTIMIZER, "optimizer_ratio", RATIO, GAUGE, "share of step time in the optimizer step")                    \
    X(SHARE_EVALUATION, "evaluation_ratio", RATIO, GAUGE, "share of step time in evaluation")                          \
    X(SHARE_SAVE, "save_ratio", RATIO, GAUGE, "share of step time writing checkpoints")                                \
    X(SHARE_LOG, "log_ratio", RATIO, GAUGE, "share of step time logging and reporting")                                \
    X(SHARE_ROLLOUT, "rollout_ratio", RATIO, GAUGE, "share of step time generating samples")                           \
    X(SHARE_COMMUNICATION, "communication_ratio", RATIO, GAUGE, "share of step time blocking in a collective")         \
    X(SHARE_BETWEEN, "between_steps_ratio", RATIO, GAUGE, "share of step time between two steps that no phase names")  \
    X(GPU_RATIO, "gpu_ratio", RATIO, GAUGE, "time between CUDA events over step time: an estimate")                    \
    X(ALLOCATED, "allocated_bytes", BYTES, GAUGE, "memory of tensors (torch's allocator)")                             \
    X(ALLOCATED_PEAK, "allocated_peak_bytes", BYTES, GAUGE, "greatest memory of tensors so far")                       \
    X(RESERVED, "reserved_bytes", BYTES, GAUGE, "memory that the allocator holds")                                     \
    X(RESERVED_PEAK, "reserved_peak_bytes", BYTES, GAUGE, "greatest memory that the allocator held")                   \
    X(ACTIVE, "active_bytes", BYTES, GAUGE, "memory of blocks in use or waiting for a stream")                         \
    X(INACTIVE_SPLIT, "inactive_split_bytes", BYTES, GAUGE, "free remains of split blocks: fragmentation")             \
    X(RETRIES, "allocation_retries", COUNT, COUNTER, "allocations that first had to empty the cache")                  \
    X(OOMS, "out_of_memory_errors", COUNT, COUNTER, "out-of-memory errors of the allocator")                           \
    X(LOST, "lost_records", COUNT, COUNTER, "records that it could not hand over")

enum al_rank_metric {
#define X(id, name, unit, kind, help) AL_RANK_##id,
    AL_RANK_METRICS(X)
#undef X
        AL_RANK_METRIC_COUNT
};
_Static_assert(AL_RANK_SHARE_BETWEEN == AL_RANK_SHARE_OTHER + (int)AL_PHASE_COUNT, "a share for each phase");

// Value of PHASE between two steps.
#define AL_RANK_BETWEEN ((uint32_t)AL_PHASE_COUNT)

struct al_metric_info;

struct al_rank {
    // identity, as of struct al_proc
    uint64_t start_ticks; // 0 when unknown
    pid_t pid;            // as seen from here
    pid_t job;            // pid of the command that `alula run` started; 0 when unknown
    int32_t rank, local_rank, world; // -1 when unknown
    int32_t device;       // of the memory figures, as the framework counts; -1 when none is known
    char source[48];      // how its steps are known: "torch.optim hook"; "" when not told
    struct al_value m[AL_RANK_METRIC_COUNT];
};

extern const struct al_metric_info *const al_rank_metric_table; // AL_RANK_METRIC_COUNT rows
// "data" ... "between_steps"; NULL for what is none.
const char *al_rank_phase_word(uint32_t phase);
int al_rank_phase_from_word(const char *word); // -1
// The phase of a rank: NULL when unknown, "starting" before it trains.
const char *al_rank_phase(const struct al_rank *r);

#endif
