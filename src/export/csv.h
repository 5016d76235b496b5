// SPDX-License-Identifier: Apache-2.0
// Samples of GPUs or ranks as CSV: a line a tick and GPU (rank), a column a metric in its base unit; empty where nothing is known.
#ifndef AL_EXPORT_CSV_H
#define AL_EXPORT_CSV_H

#include "base/buf.h"
#include "model/snapshot.h"

// `metric` says which of the AL_GPU_METRIC_COUNT columns there are.
void al_csv_head(struct al_buf *b, const bool *metric);
// resolution_seconds: what a line stands for (0.5, 10, 60).
void al_csv_sample(struct al_buf *b, const struct al_snapshot *s, const bool *metric, double resolution_seconds);
// Likewise for ranks, with every metric of theirs.
void al_csv_rank_head(struct al_buf *b);
void al_csv_rank_sample(struct al_buf *b, const struct al_snapshot *s, double resolution_seconds);
// A field by RFC 4180: in quotes where it must be. What a spreadsheet would run as a formula gets a ' in front.
void al_csv_text(struct al_buf *b, const char *text);

#endif
