// SPDX-License-Identifier: Apache-2.0
// Events of one training process -> totals. Two partitions, never mixed: its host timeline and its GPU time. Pure.
#ifndef AL_TALLY_TALLY_H
#define AL_TALLY_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"
#include "model/rank.h"
#include "tally/floor.h"
#include "tally/spread.h"
#include "tally/host.h"
#include "tally/nccl.h"

// Parts of the host timeline: the phases, and the time between a step's end and the next one's begin that no phase names
// (reading the loss, which waits for the GPU; callbacks; own logging), with a trainer that between its phases, too.
enum { AL_PART_BETWEEN = AL_PHASE_COUNT, AL_PART_COUNT };
const char *al_part_word(int part); // "data" ... "between_steps"

#define AL_TALLY_DEPTH 32   // open phases; deeper ones count for the innermost that has room
#define AL_TALLY_RECENT 32  // steps that the live view looks back on
#define AL_TALLY_DEVICES 16
#define AL_TALLY_TEXT 512

// Parts sum to the wall time exactly; part_ns[AL_IN_OTHER] is the remainder that nothing explains.
struct al_tally_span {
    int64_t wall_ns, part_ns[AL_PART_COUNT];
};

struct al_tally_memory {
    int32_t device;
    bool known[AL_ALLOCATOR_COUNT];
    int64_t last[AL_ALLOCATOR_COUNT], most[AL_ALLOCATOR_COUNT], first[AL_ALLOCATOR_COUNT];
    struct al_floor allocated, reserved; // lowest values over the steps
    uint64_t readings;
    bool driver_known[AL_DRIVER_COUNT], outside_known;
    int64_t driver_last[AL_DRIVER_COUNT], driver_most[AL_DRIVER_COUNT];
    int64_t driver_pending; // PROCESS_USED that waits for the allocator's next reading; 0 none
    int64_t outside_last, outside_most; // the driver's figure for the process less what torch holds
    int64_t outside_of;  // the driver's figure that outside_last was reckoned from
    struct al_floor outside;
};

enum { AL_TALLY_COST_ALLOCATOR, AL_TALLY_COST_EVENTS, AL_TALLY_COSTS };

struct al_tally {
    bool hello;
    int64_t rank, world; // -1 unknown
    int64_t first_ns, last_ns; // first and last event; 0 none
    int64_t begin_ns;    // training began: the first phase, or the first step's end where no phase is known
    int64_t step_end_ns; // the last step's end
    int64_t epoch;       // -1 none seen
    int64_t step;        // number of the last step

    uint64_t done, skipped, aborted, micro; // steps by their state; micro-steps are parts of a step
    int64_t samples;
    bool samples_unknown; // some step did not say how many
    int64_t tokens, step_tokens; // of whole steps; of the one that runs
    bool tokens_unknown;         // some step had a batch without input_ids
    uint64_t events, lost, unmatched; // unmatched: ends without a begin

    struct al_tally_span total;   // of whole steps: from begin_ns to step_end_ns
    struct al_tally_span current; // since then
    struct al_tally_span first;   // the first step: warm-up
    struct al_tally_span recent[AL_TALLY_RECENT]; // ring of the last steps
    uint32_t recent_next, recent_count;
    int64_t last_step_wall_ns, longest_ns, shortest_ns;
    struct al_tally_span last_step;
    struct al_spread spread_wall, spread_part[AL_PART_COUNT]; // seconds of each step but the first

    int64_t gpu_ns[AL_PHASE_COUNT]; // between CUDA events
    int64_t gpu_step[AL_PHASE_COUNT]; // the last step's
    uint64_t gpu_steps;             // steps that were so measured
    int64_t gpu_last_step;

    uint8_t open[AL_TALLY_DEPTH]; // enum al_phase_kind
    uint32_t depth;
    bool between;
    int64_t cursor_ns;

    uint32_t device_count;
    struct al_tally_memory memory[AL_TALLY_DEVICES];
    int64_t oom_count; // OOMS as last told, all devices
    int64_t cost_ns[AL_TALLY_COSTS]; // of the hook's own readings
    uint64_t cost_count[AL_TALLY_COSTS];
    uint64_t emptied; // devices whose cache was emptied on request
    int64_t emptied_bytes, emptied_ns;
    struct al_tally_host host;
    struct al_tally_nccl nccl;

    bool exited;
    uint16_t exit_kind; // 0 normal, 1 exception, 2 signal
    int64_t exit_value, exit_ns;
    char text[AL_TEXT_COUNT][AL_TALLY_TEXT]; // by enum al_text; one line each, "" when not told
};

void al_tally_init(struct al_tally *t);
// One record; TEXT records go to al_tally_text. Unknown kinds and codes are counted and left alone.
void al_tally_event(struct al_tally *t, int64_t at_ns, uint16_t kind, uint16_t code, int32_t device, int64_t a, int64_t b);
void al_tally_text(struct al_tally *t, uint16_t code, const char *text, size_t len);
void al_tally_lost(struct al_tally *t, uint64_t lost); // records lost so far

// Innermost open phase (OTHER when none).
enum al_phase_kind al_tally_phase(const struct al_tally *t);
// What its time belongs to now: AL_PART_*. Whatever runs inside an evaluation is evaluation.
int al_tally_part(const struct al_tally *t);
// Its figures, rank, world size and source as a row of the snapshot; the rest of the identity is the caller's.
void al_tally_rank(const struct al_tally *t, struct al_rank *r);
// Steps that ended, whatever their state but micro.
uint64_t al_tally_steps(const struct al_tally *t);
// Sum of the recent steps; returns how many.
uint32_t al_tally_recent(const struct al_tally *t, struct al_tally_span *ret);
// Whether the process trains: it has ended a step or opened a phase.
bool al_tally_trains(const struct al_tally *t);
// GPU time over wall time of the measured steps: an estimate. False when no step was measured.
bool al_tally_gpu_ratio(const struct al_tally *t, double *ret);
// The value of "key=value" in a text of such words; false when it is not there.
bool al_tally_word(const struct al_tally *t, enum al_text text, const char *key, char *out, size_t size);
bool al_tally_number(const struct al_tally *t, enum al_text text, const char *key, double *ret);
// A number of the trainer's own closing metrics, such as "train_runtime".
bool al_tally_metric(const struct al_tally *t, const char *key, double *ret);
// Every how many steps the hook reads, and which share of their time that costs; false when it never did.
bool al_tally_cost(const struct al_tally *t, int which, double *ret_every, double *ret_share);
// Greatest ALLOCATED_PEAK of any device, in bytes; false when the allocator was never read.
bool al_tally_peak(const struct al_tally *t, double *ret);

#endif
