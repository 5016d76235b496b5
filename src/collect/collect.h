// SPDX-License-Identifier: Apache-2.0
// The loop: device + host -> snapshot -> windows -> rules -> sinks. Threads and lifetimes live here only.
#ifndef AL_COLLECT_COLLECT_H
#define AL_COLLECT_COLLECT_H

#include <stdatomic.h>

#include "base/clock.h"
#include "model/source.h"

struct al_collect;
struct al_detect;
struct al_settings;
struct al_series_set;

struct al_collect_options {
    struct al_device *device;  // not taken over; NULL: host only, as on machines without an NVIDIA driver
    struct al_host *host;      // not taken over; NULL: device only
    struct al_ranks *ranks;    // not taken over; NULL: none are known
    struct al_clock *clock;
    int64_t interval_ns;       // 100 ms and more
    uint32_t groups;           // what the caller reads itself, besides its sinks' and rules' needs
    int64_t process_period_ns; // host side of processes; 0: 2 s
    int64_t slow_period_ns;    // slow groups and the node; 0: 2 s
    struct al_detect *detect;  // NULL: no rules; not taken over
    int64_t window_ns;         // length of the sliding windows; 0: none are kept
    uint32_t windows_max;      // 0: 4096
    const struct al_settings *looks; // by whose section `stacks` processes are looked at when a rule asks; NULL: never
    bool inline_device;        // replay: sample on the caller's thread, in step with the clock
};

// What the session itself costs and how punctual it is.
struct al_collect_cost {
    uint64_t ticks;
    uint64_t skipped; // ticks left out because the one before took too long
    uint64_t late;    // ticks whose driver readings were not there in time
    int64_t jitter_mean_ns, jitter_max_ns; // how late ticks began
    int64_t wall_ns, process_cpu_ns;       // since al_collect_new
    int64_t device_cpu_ns;                 // of which the driver thread
};

int al_collect_new(const struct al_collect_options *options, struct al_collect **ret);
// Ends the device thread. AL_E_TIMEOUT when it hangs in a driver call: then the device must not be freed, and the
// process should leave by _exit.
int al_collect_stop(struct al_collect *c);
struct al_collect *al_collect_free(struct al_collect *c); // stops first
int al_collect_add_sink(struct al_collect *c, struct al_sink *sink);

// One whole snapshot of all groups, for commands that print once. With settle_ns > 0 a second one is taken that much
// later, so that rates exist. AL_E_TIMEOUT when the driver does not answer within timeout_ns (the snapshot then says
// which call hangs). The snapshot stays valid until the next call.
int al_collect_once(struct al_collect *c, int64_t settle_ns, int64_t timeout_ns, const struct al_snapshot **ret);
// Besides what rules ask for: these processes' stacks are looked at, too, until the next call; at most AL_COLLECT_LOOKS. From a
// sink's tick.
#define AL_COLLECT_LOOKS 64
void al_collect_look_at(struct al_collect *c, const pid_t *pids, uint32_t count);
bool al_collect_looks(const struct al_collect *c); // whether stacks are looked at when asked for
// Ticks until `duration_ns` is over (0: for ever), *stop becomes non-zero, the source ends (AL_E_END) or a sink fails.
int al_collect_run(struct al_collect *c, int64_t duration_ns, const _Atomic int *stop);
// Takes force with the next al_collect_run; not while one runs.
void al_collect_set_interval(struct al_collect *c, int64_t interval_ns);
// One attribute, asked on the device thread. AL_E_TIMEOUT as above.
int al_collect_attr(struct al_collect *c, uint32_t gpu, enum al_attr attr, int64_t timeout_ns,
                    struct al_attr_value *ret);
// Other threads read the latest snapshot, the windows and the open findings between lock and unlock; short, since the
// next tick waits for it. A sink's calls come on the collecting thread; its finding() runs with the lock held.
void al_collect_lock(struct al_collect *c);
void al_collect_unlock(struct al_collect *c);
// The latest snapshot (NULL before the first).
const struct al_snapshot *al_collect_snapshot(const struct al_collect *c);
// The sliding windows, or NULL when none are kept (series/set.h).
const struct al_series_set *al_collect_series(const struct al_collect *c);
void al_collect_cost(const struct al_collect *c, struct al_collect_cost *ret);

#endif
