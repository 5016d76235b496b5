// SPDX-License-Identifier: Apache-2.0
// The findings that last, and what webhooks are told of them: that one began, that its level changed, that it ended.
// Not thread-safe: the caller locks.
#ifndef AL_PUSH_ALERTS_H
#define AL_PUSH_ALERTS_H

#include "base/buf.h"
#include "model/finding.h"
#include "model/snapshot.h"

enum al_alert_format {
    AL_ALERT_JSON,        // the object of `alula watch --json`, one a message
    AL_ALERT_ALERTMANAGER // Alertmanager's POST /api/v2/alerts
};

struct al_alerts;

// repeat_ns: how often al_alerts_repeat is called. Alertmanager takes an alert for resolved at its endsAt, so that one
// which is not repeated (alula was killed) ends by itself after four of them.
int al_alerts_new(enum al_alert_format format, enum al_level least, int64_t repeat_ns, struct al_alerts **ret);
struct al_alerts *al_alerts_free(struct al_alerts *a);
// Takes one call of a sink's finding(); what has to be told of it is added to b (nothing is, most of the time).
int al_alerts_finding(struct al_alerts *a, const struct al_snapshot *s, const struct al_finding *f, struct al_buf *b);
// All alerts that last, for Alertmanager; nothing when there are none.
void al_alerts_repeat(const struct al_alerts *a, const struct al_snapshot *s, struct al_buf *b);
// At most max of the findings that last; returns how many.
uint32_t al_alerts_open(const struct al_alerts *a, struct al_finding *ret, uint32_t max);

// What was told and lasts, as text, so that the next run does not tell it once more. load makes text unusable; what lies
// further back than AL_ALERTS_RESTART_NS is a new occurrence and is told.
void al_alerts_save(const struct al_alerts *a, int64_t realtime_ns, struct al_buf *b);
void al_alerts_load(struct al_alerts *a, int64_t realtime_ns, char *text);

#define AL_ALERTS_RESTART_NS (600 * INT64_C(1000000000))
#define AL_ALERTS_MAX 256 // findings that last; more are not told of

#endif
