// SPDX-License-Identifier: Apache-2.0
// JSON Lines for log shippers and jq: one object a line, each with a "type". Schema: docs/jsonl.md.
#ifndef AL_EXPORT_JSONL_H
#define AL_EXPORT_JSONL_H

#include "base/buf.h"
#include "model/finding.h"
#include "model/snapshot.h"

// {"type":"session",...}: who is watched, and which metrics will stay null and why.
void al_jsonl_session(struct al_buf *b, const struct al_snapshot *s, const char *version);
// {"type":"sample",...}: every metric of the groups that were asked for has its key; null when there is no fresh value.
void al_jsonl_sample(struct al_buf *b, const struct al_snapshot *s);
void al_jsonl_finding(struct al_buf *b, const struct al_snapshot *s, const struct al_finding *f);

// What every line begins with: {"type":…,"time":…,"host":… (the caller goes on with a comma).
void al_jsonl_head(struct al_buf *b, const char *type, int64_t realtime_ns, const char *host);
// "2026-11-29T12:00:00.123Z"
void al_jsonl_time(struct al_buf *b, int64_t realtime_ns);

#endif
