// SPDX-License-Identifier: Apache-2.0
// Findings of a replay: the rules' own where every tick was kept, the stored ones where the recording was thinned.
#ifndef AL_CLI_STORED_H
#define AL_CLI_STORED_H

#include "model/finding.h"
#include "model/snapshot.h"
#include "model/source.h"

struct al_detect;
struct al_settings;
struct al_stored;

typedef int al_stored_fn(void *user, const struct al_snapshot *s, const struct al_finding *f);

// NULL in *ret for a source that is no recording, or one that is whole. `settings` are the rules' and stay the caller's.
int al_stored_new(const struct al_source *source, struct al_detect *detect, const struct al_settings *settings,
                  struct al_stored **ret);
struct al_stored *al_stored_free(struct al_stored *st);
// To be added to collect before other sinks: switches the rules off over thinned parts, where they would take the long
// steps for stale sensors, and on again behind them.
struct al_sink *al_stored_sink(struct al_stored *st);
// At a tick, before its own findings: hands out what is stored since the last one.
int al_stored_tick(struct al_stored *st, const struct al_snapshot *s, al_stored_fn *fn, void *user);
// Whether a rule's finding is to be shown; one that goes on from the thinned part is turned into an update.
bool al_stored_keep(struct al_stored *st, struct al_finding *f);

#endif
