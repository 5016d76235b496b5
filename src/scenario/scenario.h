// SPDX-License-Identifier: Apache-2.0
// A session as text (format: docs/scenario.md): parsed for the replay device and the stand-in driver, printed by
// whoever records one. Pure: no I/O, no clock; every text is untrusted.
#ifndef AL_SCENARIO_SCENARIO_H
#define AL_SCENARIO_SCENARIO_H

#include "base/buf.h"
#include "model/source.h"

struct al_scenario;

struct al_scenario_error {
    int line, column; // from 1
    char message[160];
};

// Parses text[len]. AL_E_FORMAT with the place and reason in *reterr_error, AL_E_TOOBIG, AL_E_NOMEM.
int al_scenario_parse(const char *text, size_t len, struct al_scenario **ret, struct al_scenario_error *reterr_error);
struct al_scenario *al_scenario_free(struct al_scenario *s);

// A source that plays it; takes the scenario over (freed with the source).
int al_scenario_source(struct al_scenario *s, struct al_source **ret);

// For the stand-in driver, which asks value by value. Times are ns since the scenario's start.
int64_t al_scenario_duration(const struct al_scenario *s);
// Fills *ret with the state at `at_ns`, as al_source_ops.at does, also behind the end (the last values hold).
int al_scenario_at(struct al_scenario *s, int64_t after_ns, int64_t at_ns, struct al_snapshot *ret);
int al_scenario_attr(struct al_scenario *s, uint32_t gpu, enum al_attr attr, int64_t at_ns, struct al_attr_value *ret);


// The same, value by value. `gpu` is the scenario's own number: boards 0.., then MIG devices as the file lists them; it
// stays with the board when that returns at another index.
const struct al_node *al_scenario_node(const struct al_scenario *s); // identity only
uint32_t al_scenario_gpu_count(const struct al_scenario *s);         // boards and MIG devices
const struct al_gpu_info *al_scenario_gpu_info(const struct al_scenario *s, uint32_t gpu);
uint32_t al_scenario_gpu_at(struct al_scenario *s, uint32_t position, int64_t at_ns); // UINT32_MAX when none
// OK, LOST or RESET; *ret_gone (may be NULL): no longer on the bus.
uint32_t al_scenario_gpu_status(struct al_scenario *s, uint32_t gpu, int64_t at_ns, bool *ret_gone);
void al_scenario_list_status(struct al_scenario *s, uint32_t gpu, int64_t at_ns, uint32_t *ret_processes,
                             uint32_t *ret_utilization);
struct al_value al_scenario_value(struct al_scenario *s, uint32_t gpu, enum al_gpu_metric metric, int64_t at_ns);
int al_scenario_gpu_attr(struct al_scenario *s, uint32_t gpu, enum al_attr attr, int64_t at_ns,
                         struct al_attr_value *ret);
// Driver utilisation samples of (after_ns, at_ns], oldest first; when more than max, the newest.
size_t al_scenario_samples(struct al_scenario *s, uint32_t gpu, int64_t after_ns, int64_t at_ns, struct al_fresh *ret,
                           size_t max);
// Rows of a GPU by pid; returns how many there are, which may be more than were written.
size_t al_scenario_rows(struct al_scenario *s, uint32_t gpu, int64_t at_ns, struct al_proc_gpu *ret, size_t max);
const struct al_proc *al_scenario_proc(struct al_scenario *s, pid_t pid, int64_t at_ns); // NULL when there is none

// What the scenario says of a driver function on a GPU (-1: no GPU) at a time: *ret_code is an NVML result (0 none),
// *ret_hang_ns how long the call has to hang first.
void al_scenario_fault(struct al_scenario *s, const char *function, int gpu, int64_t at_ns, int *ret_code,
                       int64_t *ret_hang_ns);
// True when the library must look as if it lacked the function.
bool al_scenario_missing(const struct al_scenario *s, const char *function);

// Xid events in (after_ns, at_ns]; returns how many were written (at most max).
struct al_scenario_xid {
    int64_t at_ns;
    uint32_t gpu, code;
};
size_t al_scenario_xids(const struct al_scenario *s, int64_t after_ns, int64_t at_ns, struct al_scenario_xid *ret,
                        size_t max);

// Printing: head once (attributes by `attr`), then one block a tick with what changed since `before` (NULL: all).
typedef int al_scenario_attr_fn(void *user, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret);
void al_scenario_print_head(struct al_buf *b, const struct al_snapshot *s, al_scenario_attr_fn *attr, void *user);
void al_scenario_print_tick(struct al_buf *b, const struct al_snapshot *before, const struct al_snapshot *s,
                            int64_t start_ns);

#endif
