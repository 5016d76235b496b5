// SPDX-License-Identifier: Apache-2.0
// The one thread that talks to the driver. A call that hangs costs freshness, never the caller.
#ifndef AL_COLLECT_WORKER_H
#define AL_COLLECT_WORKER_H

#include "model/source.h"

// Groups that are read with every tick; the others follow in their own, slower period.
#define AL_FAST_GROUPS (AL_GROUP_FAST | AL_GROUP_SAMPLES | AL_GROUP_PROCESS)

struct al_worker;

int al_worker_new(struct al_device *device, struct al_worker **ret);
// Joins the thread within a moment; AL_E_TIMEOUT when it hangs: its memory then stays with it.
int al_worker_free(struct al_worker *w);

// Asks for a sample of the fast groups, then (when slow is not 0) of the slow ones. Returns at once; a request that
// comes while the fast half of one is under way is dropped (AL_E_AGAIN), a slow half under way is not doubled.
int al_worker_request(struct al_worker *w, uint32_t fast, uint32_t slow);
// Waits until the fast (and with `all` also the slow) part of the last request is there. 0 or AL_E_TIMEOUT.
int al_worker_wait(struct al_worker *w, bool all, int64_t timeout_ns);
// Copies the newest parts; *ret_fast_ns and *ret_slow_ns tell when they were taken (0: never). Returns the result of
// the newest sample call.
int al_worker_take(struct al_worker *w, struct al_snapshot *fast, struct al_snapshot *slow, int64_t *ret_fast_ns,
                   int64_t *ret_slow_ns);
int al_worker_attr(struct al_worker *w, uint32_t gpu, enum al_attr attr, int64_t timeout_ns,
                   struct al_attr_value *ret);
int64_t al_worker_cpu_ns(const struct al_worker *w);

#endif
