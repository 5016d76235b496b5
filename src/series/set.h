// SPDX-License-Identifier: Apache-2.0
// The windows of a session: one for each (entity, metric) that ever had a value, made when the first one arrives.
#ifndef AL_SERIES_SET_H
#define AL_SERIES_SET_H

#include "series/window.h"

struct al_series_set;

// What `metric` below means: an enum al_gpu_metric, al_node_metric or al_proc_metric plus its offset. Push gauges only:
// means of states and counters say nothing, and constants fill memory.
enum { AL_SERIES_GPU = 0, AL_SERIES_NODE = 0x1000, AL_SERIES_PROC = 0x2000, AL_SERIES_ROW = 0x3000 };

// 64-bit name of an entity: of a UUID or any text, and of a process by its identity.
uint64_t al_series_entity(const char *text);
uint64_t al_series_entity_process(uint64_t pid_ns, int64_t pid, uint64_t start_ticks);

// At most max_windows windows of span_ns each.
int al_series_set_new(int64_t span_ns, uint32_t max_windows, struct al_series_set **ret);
struct al_series_set *al_series_set_free(struct al_series_set *set);

// The caller passes values whose status is OK, nothing else. period_ns is how often this metric is read; it sets the
// memory of the window when the first value makes it (24 bytes a sample).
// 1 taken; 0 the same reading again; AL_E_INVALID not finite; AL_E_TOOBIG no room for another window; AL_E_NOMEM.
int al_series_set_push(struct al_series_set *set, uint64_t entity, uint32_t metric, int64_t period_ns, int64_t at_ns,
                       double value);
// NULL when there is none. Valid until the next expire or forget.
const struct al_window *al_series_set_get(const struct al_series_set *set, uint64_t entity, uint32_t metric);

// Once a tick: drops samples older than the span; a window left empty is freed, and so an entity that is gone takes its
// windows along one span later. forget does it at once.
void al_series_set_expire(struct al_series_set *set, int64_t now_ns);
void al_series_set_forget(struct al_series_set *set, uint64_t entity);

uint32_t al_series_set_count(const struct al_series_set *set);
size_t al_series_set_bytes(const struct al_series_set *set);
uint64_t al_series_set_refused(const struct al_series_set *set); // values that found no room

#endif
