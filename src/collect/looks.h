// SPDX-License-Identifier: Apache-2.0
// The thread that looks at what processes execute (model/look.h), for as long as a rule asks. It delays no tick.
#ifndef AL_COLLECT_LOOKS_H
#define AL_COLLECT_LOOKS_H

#include "model/snapshot.h"

struct al_looks;

struct al_look_target {
    pid_t pid, owner;     // owner: of a DataLoader worker its rank, else 0
    uint64_t start_ticks; // 0 when unknown
    int32_t rank;
};
#define AL_LOOK_TARGETS 256

struct al_looks_options {
    double rate;            // samples a second
    double seconds, every;  // length of a look, time from one's begin to the next one's
    uint32_t processes;     // most that are sampled
};

int al_looks_new(const struct al_looks_options *options, struct al_looks **ret);
// Ends the thread; one that is held by a process's memory is left alone with what it holds.
void al_looks_free(struct al_looks *l);
// These, from now on; the first call starts the thread. count 0: none, and what was seen is forgotten.
void al_looks_ask(struct al_looks *l, const struct al_look_target *targets, uint32_t count);
// The wanted processes and their workers as the snapshot has them; returns how many.
uint32_t al_looks_targets(const struct al_snapshot *s, const pid_t *pids, size_t count, struct al_look_target *ret, uint32_t max);
// Adds the latest looks to the snapshot.
int al_looks_take(struct al_looks *l, struct al_snapshot *s);
bool al_looks_running(const struct al_looks *l); // whether the thread was ever needed

#endif
