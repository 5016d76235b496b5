// SPDX-License-Identifier: Apache-2.0
#ifndef AL_CLI_WATCH_SUMMARY_H
#define AL_CLI_WATCH_SUMMARY_H

#include "base/buf.h"
#include "model/snapshot.h"
#include "series/set.h"

// The last window of each GPU as a table: mean, peak, min, standard deviation, median, 95th percentile, slope.
void al_watch_summary(struct al_buf *b, const struct al_snapshot *s, const struct al_series_set *windows);
// The same as one JSON Lines object {"type":"summary",...}, every metric that has a window.
void al_watch_summary_json(struct al_buf *b, const struct al_snapshot *s, const struct al_series_set *windows);

#endif
