// SPDX-License-Identifier: Apache-2.0
#include "probe/loop.h"

#include "model/event.h"
#include "probe/probe.h"

static uint64_t ends(uint8_t phase) {
    return (uint64_t)(phase + 1) << AL_PROBE_TURN_END;
}

static uint64_t begins(uint8_t phase) {
    return (uint64_t)(phase + 1) << AL_PROBE_TURN_BEGIN;
}

static uint64_t step(int state, int64_t samples) {
    uint64_t known = samples < 0 ? 0 : samples > (int64_t)UINT32_MAX ? UINT32_MAX : (uint64_t)samples;
    return (uint64_t)(state + 1) << AL_PROBE_TURN_STATE | known << AL_PROBE_TURN_SAMPLES;
}

// What closes the phase that is open.
static uint64_t close_phase(const struct al_loop *l) {
    if (!l->phase)
        return 0;
    bool broken = l->phase == AL_IN_BACKWARD || l->phase == AL_IN_OPTIMIZER;
    return ends(l->phase) | (broken ? step(AL_STEP_ABORTED, 0) : 0);
}

static void open_phase(struct al_loop *l, uint8_t phase) {
    l->phase = phase;
    l->stale = false;
}

// The next micro-batch begins without a step since the last backward pass.
static uint64_t close_micro(struct al_loop *l) {
    uint64_t turn = close_phase(l);
    if (l->backwards && !(turn >> AL_PROBE_TURN_STATE))
        turn |= step(AL_STEP_MICRO, l->samples_micro);
    l->backwards = 0;
    l->samples_micro = 0;
    return turn;
}

static void timed(struct al_loop_move *m, uint8_t ended, uint8_t begun) {
    m->timed = true;
    m->ended = ended;
    m->begun = begun;
}

// Batches taken with gradients off: a loop of its own that ends with its loader or the next training batch.
static void infer_evaluation(struct al_loop *l, struct al_loop_move *m) {
    if (l->phase == AL_IN_EVALUATION || l->trainer)
        return;
    m->turn = close_phase(l) | begins(AL_IN_EVALUATION);
    open_phase(l, AL_IN_EVALUATION);
}

bool al_loop_data_begin(struct al_loop *l, bool gradients, struct al_loop_move *m) {
    if (l->phase == AL_IN_DATA && !l->stale)
        return false;
    if (!gradients) {
        infer_evaluation(l, m);
        return false;
    }
    m->turn = close_micro(l) | begins(AL_IN_DATA);
    open_phase(l, AL_IN_DATA);
    l->fed = true;
    return true;
}

// A batch comes from another iterator than the last one: an epoch, if the loader is the one that is trained on.
static void change_loader(struct al_loop *l, al_loop_id iterator, al_loop_id dataset, struct al_loop_move *m) {
    l->iterator = iterator;
    l->dataset = dataset;
    if (l->trainer || l->epochs_told)
        return;
    if (dataset != l->train_dataset) {
        l->epoch_due = true;
        return;
    }
    if (iterator == l->train_iterator) // another loader's batch was in between
        return;
    l->train_iterator = iterator;
    l->epoch++;
    m->epoch = true;
}

void al_loop_batch(struct al_loop *l, al_loop_id iterator, al_loop_id dataset, int64_t samples, struct al_loop_move *m) {
    if (iterator != l->iterator)
        change_loader(l, iterator, dataset, m);
    l->samples += samples;
    l->samples_micro += samples;
    if (l->trainer || l->phase != AL_IN_DATA) {
        al_loop_data_end(l, m);
        return;
    }
    al_loop_fed(l, m);
}

void al_loop_fed(struct al_loop *l, struct al_loop_move *m) {
    if (l->phase != AL_IN_DATA)
        return;
    m->turn = ends(AL_IN_DATA) | begins(AL_IN_FORWARD);
    open_phase(l, AL_IN_FORWARD);
    timed(m, 0, AL_IN_FORWARD);
}

void al_loop_data_end(struct al_loop *l, struct al_loop_move *m) {
    if (l->phase != AL_IN_DATA)
        return; // something inside of the fetch has closed it
    open_phase(l, 0);
    m->turn = ends(AL_IN_DATA);
}

void al_loop_data_raised(struct al_loop *l) {
    l->stale = l->phase == AL_IN_DATA;
}

void al_loop_loader_ends(struct al_loop *l, bool begun, struct al_loop_move *m) {
    l->iterator = l->train_iterator = 0;
    if (begun) {
        al_loop_data_end(l, m);
    } else if (l->phase == AL_IN_EVALUATION && !l->quiet) {
        open_phase(l, 0);
        m->turn = ends(AL_IN_EVALUATION);
    }
}

bool al_loop_epoch(struct al_loop *l, int64_t number, struct al_loop_move *m) {
    if (l->trainer)
        return false;
    if (number < 0)
        number = l->epochs_told ? l->epoch + 1 : 0;
    l->epochs_told = true;
    l->epoch = number;
    m->epoch = true;
    return true;
}

void al_loop_trainer(struct al_loop *l, int by) {
    if (by > 0 && !l->trainer) {
        l->optimizer = 0;
        l->other_count = l->backwards = 0;
        l->samples = l->samples_micro = 0;
    }
    l->trainer += by > 0 ? 1 : -(l->trainer > 0);
}

void al_loop_forward_begin(struct al_loop *l, int64_t samples, struct al_loop_move *m) {
    if (l->phase == AL_IN_FORWARD)
        return;
    m->turn = close_micro(l) | begins(AL_IN_FORWARD);
    l->samples_micro = samples;
    l->samples += samples;
    open_phase(l, AL_IN_FORWARD);
    timed(m, 0, AL_IN_FORWARD);
}

void al_loop_forward_end(struct al_loop *l, struct al_loop_move *m) {
    if (l->phase != AL_IN_FORWARD)
        return;
    open_phase(l, 0);
    m->turn = ends(AL_IN_FORWARD);
}

bool al_loop_backward_begin(struct al_loop *l, struct al_loop_move *m) {
    if (l->phase == AL_IN_BACKWARD || l->phase == AL_IN_OPTIMIZER)
        return false; // a checkpoint's inner backward, a closure of the optimizer's
    if (l->epoch_due && !l->trainer && !l->epochs_told) {
        l->epoch_due = false;
        if (!l->train_dataset) {
            l->train_dataset = l->dataset;
            l->train_iterator = l->iterator;
            m->epoch = true;
        }
    }
    m->turn = close_phase(l) | begins(AL_IN_BACKWARD);
    timed(m, l->phase, AL_IN_BACKWARD);
    open_phase(l, AL_IN_BACKWARD);
    return true;
}

void al_loop_backward_end(struct al_loop *l, struct al_loop_move *m) {
    if (l->phase != AL_IN_BACKWARD)
        return;
    open_phase(l, 0);
    l->backwards++;
    m->turn = ends(AL_IN_BACKWARD);
    timed(m, AL_IN_BACKWARD, 0);
}

static bool begin_optimizer(struct al_loop *l, struct al_loop_move *m) {
    if (l->phase == AL_IN_OPTIMIZER)
        return false;
    m->turn = close_phase(l) | begins(AL_IN_OPTIMIZER);
    open_phase(l, AL_IN_OPTIMIZER);
    timed(m, 0, AL_IN_OPTIMIZER);
    return true;
}

static bool ends_step(struct al_loop *l, al_loop_id optimizer) {
    bool again = false;
    for (uint32_t i = 0; i < l->other_count; i++)
        again = again || l->others[i] == optimizer;
    if (optimizer == l->optimizer || !l->optimizer || again) {
        l->optimizer = optimizer;
        l->other_count = 0;
        return true;
    }
    if (l->other_count < AL_LOOP_OPTIMIZERS)
        l->others[l->other_count++] = optimizer;
    return false;
}

static void end_optimizer(struct al_loop *l, al_loop_id optimizer, int state, struct al_loop_move *m) {
    open_phase(l, 0);
    m->turn = ends(AL_IN_OPTIMIZER);
    timed(m, AL_IN_OPTIMIZER, 0);
    if (!ends_step(l, optimizer))
        return;
    m->turn |= step(state, l->samples);
    m->step = true;
    l->unfed = l->fed || l->trainer ? 0 : l->unfed + (l->unfed < UINT32_MAX);
    l->fed = false;
    l->backwards = 0;
    l->samples = l->samples_micro = 0;
}

bool al_loop_clip_begin(struct al_loop *l, struct al_loop_move *m) {
    return !l->in_scaler && begin_optimizer(l, m);
}

void al_loop_clip_end(struct al_loop *l, struct al_loop_move *m) {
    if (l->phase != AL_IN_OPTIMIZER)
        return;
    open_phase(l, 0);
    m->turn = ends(AL_IN_OPTIMIZER);
    timed(m, AL_IN_OPTIMIZER, 0);
}

void al_loop_optimizer_begin(struct al_loop *l, struct al_loop_move *m) {
    if (!l->in_scaler)
        (void)begin_optimizer(l, m);
}

void al_loop_optimizer_end(struct al_loop *l, al_loop_id optimizer, struct al_loop_move *m) {
    if (l->in_scaler)
        l->stepped = true;
    else if (l->phase == AL_IN_OPTIMIZER)
        end_optimizer(l, optimizer, AL_STEP_DONE, m);
}

bool al_loop_scaler_begin(struct al_loop *l, struct al_loop_move *m) {
    if (l->in_scaler || !begin_optimizer(l, m))
        return false;
    l->in_scaler = true;
    l->stepped = false;
    return true;
}

void al_loop_scaler_end(struct al_loop *l, al_loop_id optimizer, bool raised, struct al_loop_move *m) {
    l->in_scaler = false;
    if (!raised && l->phase == AL_IN_OPTIMIZER)
        end_optimizer(l, optimizer, l->stepped ? AL_STEP_DONE : AL_STEP_SKIPPED, m);
}

bool al_loop_enter(struct al_loop *l, uint8_t phase, struct al_loop_move *m) {
    if (l->quiet)
        return false;
    m->turn = close_phase(l) | begins(phase);
    l->resumes = phase == AL_IN_ROLLOUT && l->phase == AL_IN_FORWARD;
    if (l->resumes)
        timed(m, AL_IN_FORWARD, 0);
    open_phase(l, 0);
    l->quiet = 1;
    return true;
}

void al_loop_leave(struct al_loop *l, uint8_t phase, struct al_loop_move *m) {
    if (l->quiet != 1)
        return;
    l->quiet = 0;
    m->turn = ends(phase);
    if (!l->resumes)
        return;
    l->resumes = false;
    m->turn |= begins(AL_IN_FORWARD);
    open_phase(l, AL_IN_FORWARD);
    timed(m, 0, AL_IN_FORWARD);
}
