// SPDX-License-Identifier: Apache-2.0
// Every gauge of a snapshot into the session's sliding windows.
#ifndef AL_COLLECT_WINDOWS_H
#define AL_COLLECT_WINDOWS_H

#include "model/snapshot.h"
#include "series/set.h"

// Pushes what is OK, by GPU UUID, node and process identity; a reading that was pushed before is not counted again.
// The utilisation window takes the driver's own samples. slow_ns: period of the slow groups, process_ns: of processes.
void al_windows_push(struct al_series_set *set, const struct al_snapshot *s, int64_t slow_ns, int64_t process_ns);

#endif
