// SPDX-License-Identifier: Apache-2.0
// Rules over snapshots and windows. No clock, no I/O: live and replay give the same findings.
#ifndef AL_DETECT_DETECT_H
#define AL_DETECT_DETECT_H

#include "detect/settings.h"
#include "model/finding.h"
#include "model/snapshot.h"

struct al_detect;

// What a rule thinks of one entity, also when it raises nothing.
enum al_verdict { AL_VERDICT_QUIET, AL_VERDICT_FINDING, AL_VERDICT_TOO_LITTLE_DATA, AL_VERDICT_CANNOT_TELL };

typedef void al_finding_fn(void *user, const struct al_finding *f);
typedef void al_verdict_fn(void *user, const char *rule, const char *key, enum al_verdict verdict, const char *why);

int al_detect_new(const struct al_settings *settings, struct al_detect **ret);
struct al_detect *al_detect_free(struct al_detect *d);
// New thresholds, windows and open findings kept (SIGHUP).
void al_detect_settings(struct al_detect *d, const struct al_settings *settings);
// Metric groups that the enabled rules read.
uint32_t al_detect_groups(const struct al_detect *d);
// One tick: calls `emit` for each finding that began, was updated (its level or confidence changed, or its message did
// and findings.update_every is over) or ended.
int al_detect_tick(struct al_detect *d, const struct al_snapshot *s, al_finding_fn *emit, void *user);
// Processes at whose stacks the last tick's rules want a look; returns how many were written.
#define AL_DETECT_LOOKS 64
size_t al_detect_looks(const struct al_detect *d, pid_t *ret, size_t max);
// The open ones; returns how many, writes pointers valid until the next tick.
size_t al_detect_open(const struct al_detect *d, const struct al_finding **ret, size_t max);
void al_detect_verdicts(const struct al_detect *d, al_verdict_fn *fn, void *user);

#endif
