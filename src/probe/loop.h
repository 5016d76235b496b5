// SPDX-License-Identifier: Apache-2.0
// Where a training loop is: what each thing that happens in it ends and begins. Pure: no clock, no ring, no interpreter.
//
// At most one of DATA, FORWARD, BACKWARD and OPTIMIZER is open; EVALUATION, SAVE and LOG close it and hide what happens
// inside them. A call that raises leaves its phase open, so that a job's end shows where it was; whoever marks next
// closes it, and the step counts as aborted. FORWARD is inferred in a plain loop: from the end of the batch's fetch to
// the begin of the backward pass.
#ifndef AL_PROBE_LOOP_H
#define AL_PROBE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#define AL_LOOP_OPTIMIZERS 16 // that are told apart
#define AL_LOOP_OFF (1 << 30) // `quiet` for good

typedef uintptr_t al_loop_id; // an object of the host's, by its address; 0 none

struct al_loop {
    int quiet;          // > 0: inside of EVALUATION, SAVE or LOG of a trainer, or AL_LOOP_OFF
    int trainer;        // > 0: a trainer tells by itself where FORWARD begins and which epoch it is
    uint8_t phase;      // the open one (enum al_phase_kind); EVALUATION only where it is inferred
    bool stale;         // DATA is open because a fetch raised
    bool resumes;       // FORWARD goes on behind the ROLLOUT inside of it
    bool in_scaler, stepped;
    bool fed;           // a batch's fetch was seen since the last step
    bool epoch_due;     // the loader whose batch came last is not known to be trained on
    bool epochs_told;   // by the job itself (alula.mark): loaders begin none any more
    uint32_t unfed;     // steps in a row without one
    uint32_t backwards; // since the last step or micro-step
    int64_t samples, samples_micro; // since the last step, the last micro-step
    int64_t epoch;
    al_loop_id iterator, dataset;   // of the last batch: its loader's iterator and dataset
    al_loop_id train_iterator, train_dataset;
    al_loop_id optimizer;           // whose step ends a step
    al_loop_id others[AL_LOOP_OPTIMIZERS];
    uint32_t other_count;
};

// What follows from one happening, to be told in this order.
struct al_loop_move {
    bool epoch;     // one began: its number is the loop's `epoch`
    uint64_t turn;  // as of alula_probe_turn, 0 nothing
    uint8_t ended, begun; // phases for the GPU's own timeline, 0 none
    bool timed;     // they are to be told
    bool step;      // a step ended
};

// Those that return bool: false when nothing was begun, so that the end must not be told.

// A batch is fetched; gradients: whether they are on. Without them it is the batch of an evaluation.
bool al_loop_data_begin(struct al_loop *l, bool gradients, struct al_loop_move *m);
// A batch of so many samples (0 unknown) came from this iterator over this dataset.
void al_loop_batch(struct al_loop *l, al_loop_id iterator, al_loop_id dataset, int64_t samples, struct al_loop_move *m);
// A batch came from an iterator that is no loader's: how many samples is not known.
void al_loop_fed(struct al_loop *l, struct al_loop_move *m);
// A part of the wait that gave no batch by itself.
void al_loop_data_end(struct al_loop *l, struct al_loop_move *m);
void al_loop_data_raised(struct al_loop *l);
// The loader's iterator is through; begun: al_loop_data_begin had said so.
void al_loop_loader_ends(struct al_loop *l, bool begun, struct al_loop_move *m);

// The job says by itself that an epoch begins, its number or -1 for the next one; false inside of a trainer's loop, which
// tells its own.
bool al_loop_epoch(struct al_loop *l, int64_t number, struct al_loop_move *m);

// A trainer's loop begins (1) or ends (-1); it has an optimizer of its own.
void al_loop_trainer(struct al_loop *l, int by);
// A trainer's own marks.
void al_loop_forward_begin(struct al_loop *l, int64_t samples, struct al_loop_move *m);
void al_loop_forward_end(struct al_loop *l, struct al_loop_move *m);

bool al_loop_backward_begin(struct al_loop *l, struct al_loop_move *m);
void al_loop_backward_end(struct al_loop *l, struct al_loop_move *m);

// An optimizer's step. Inside of a scaler's step it only tells that it took place. Of several optimizers the first
// one's step ends a step, until another one steps twice in between.
void al_loop_optimizer_begin(struct al_loop *l, struct al_loop_move *m);
// Gradients are clipped or otherwise made ready: between these two as well, but no step ends.
bool al_loop_clip_begin(struct al_loop *l, struct al_loop_move *m);
void al_loop_clip_end(struct al_loop *l, struct al_loop_move *m);
void al_loop_optimizer_end(struct al_loop *l, al_loop_id optimizer, struct al_loop_move *m);
bool al_loop_scaler_begin(struct al_loop *l, struct al_loop_move *m);
void al_loop_scaler_end(struct al_loop *l, al_loop_id optimizer, bool raised, struct al_loop_move *m);

// EVALUATION, SAVE, LOG or ROLLOUT; false inside of one already. A forward pass goes on behind a ROLLOUT.
bool al_loop_enter(struct al_loop *l, uint8_t phase, struct al_loop_move *m);
void al_loop_leave(struct al_loop *l, uint8_t phase, struct al_loop_move *m);

#endif
