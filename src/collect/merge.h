// SPDX-License-Identifier: Apache-2.0
// Joining the fast and the slow half of a reading. Pure.
#ifndef AL_COLLECT_MERGE_H
#define AL_COLLECT_MERGE_H

#include "model/snapshot.h"

// Adds to `s` (the fast half) what `slow` knows: metrics of slow groups by GPU UUID, Xid tables, per-process
// utilisation by process and GPU.
void al_merge_slow(struct al_snapshot *s, const struct al_snapshot *slow);
// Turns OK values of the metrics in `groups` into STALE ones.
void al_merge_mark_stale(struct al_snapshot *s, uint32_t groups);

#endif
