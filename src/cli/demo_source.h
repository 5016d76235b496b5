// SPDX-License-Identifier: Apache-2.0
#ifndef AL_CLI_DEMO_SOURCE_H
#define AL_CLI_DEMO_SOURCE_H

#include "base/err.h"
#include "model/source.h"

// `inner` (taken over) at the pace of ALULA_SCENARIO_SPEED and from ALULA_SCENARIO_START on, as the stand-in plays it.
// epoch_ns: CLOCK_MONOTONIC of its begin; processes' start times are moved to it.
int al_demo_source(struct al_source *inner, int64_t epoch_ns, struct al_source **ret);

#endif
