// SPDX-License-Identifier: Apache-2.0
// The list of what one thread's walk reads.
#ifndef AL_STACK_CORE_PLAN_H
#define AL_STACK_CORE_PLAN_H

#include "stack/core/walk.h"

#define AL_PLAN_EXTRA AL_WATCH_MOST // bytes behind a copy: what is watched

enum al_plan_learned {
    AL_PLAN_FULL,   // the plan has no room for it
    AL_PLAN_NOTED,  // to be read from the next time on
    AL_PLAN_CHUNKS, // likewise, with all chunks of the thread's frames: the rest of the chain is best read then, too
};

// The span that holds [address, address + size); it is marked as needed. NULL: none.
struct al_span *al_plan_find(struct al_plan *plan, uint64_t address, uint32_t size);
enum al_plan_learned al_plan_learn(struct al_plan *plan, const struct al_layout *l, const struct al_memory *m,
                                   uint64_t address, uint32_t size);
// Reads the plan's frames twice into w->buffer. False: not everything could be read (what could not is left out next time).
bool al_plan_read(struct al_plan *plan, struct al_walk *w);
// The same by the caller's own reading: al_plan_lay gives the bytes of one copy (0: nothing is known, or more than `most`)
// and the sequence, then the pieces of the two passes, of which at most 2 * count + 1 come out. The first leaves out what
// lies in [low, high): the caller reads it right after that pass.
uint32_t al_plan_lay(struct al_plan *plan, uint32_t most, uint16_t sequence[AL_SPANS_MOST]);
uint32_t al_plan_first(const struct al_plan *plan, const uint16_t *sequence, uint64_t low, uint64_t high, uint32_t at,
                       struct al_piece *pieces);
uint32_t al_plan_second(const struct al_plan *plan, const uint16_t *sequence, uint32_t at, struct al_piece *pieces);
// After the reading: what was read once stands in both copies.
void al_plan_twins(const struct al_plan *plan, const unsigned char *first, unsigned char *second);
void al_plan_begin(struct al_plan *plan); // before a walk
void al_plan_end(struct al_plan *plan);   // after it: what was long not needed is dropped

#endif
