// SPDX-License-Identifier: Apache-2.0
// Where snapshots come from and where they go. Backends fill their part of a snapshot and leave the rest alone.
#ifndef AL_MODEL_SOURCE_H
#define AL_MODEL_SOURCE_H

#include <stdatomic.h>
#include <stddef.h>

#include "model/attr.h"
#include "model/snapshot.h"

struct al_finding;

// What one kind of driver call cost so far.
struct al_call_stat {
    const char *name;
    uint64_t calls;
    uint64_t errors;
    int64_t total_ns, max_ns, min_ns;
};

// The driver call that is under way; the caller's thread looks at it when an answer is late.
struct al_call_watch {
    _Atomic(const char *) name; // NULL when none
    _Atomic int64_t since_ns;
};

struct al_device;
struct al_device_ops {
    const char *name; // "nvml", "replay"
    // Fills node.driver_version and the like, gpus and rows for `groups`. Only one thread calls it at a time. GPUs that
    // fail keep their row with info.status; a group that was not asked for is left as UNREAD.
    int (*sample)(struct al_device *d, struct al_snapshot *s, uint32_t groups, int64_t now_ns);
    // One attribute of the GPU at a position of the last sample.
    int (*attr)(struct al_device *d, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret);
    // Cost table, at most `max` rows; returns how many. May be called from another thread.
    size_t (*stats)(struct al_device *d, struct al_call_stat *ret, size_t max);
    void (*free)(struct al_device *d);
};
// A backend embeds this as its first member.
struct al_device {
    const struct al_device_ops *ops;
    struct al_call_watch watch;
    _Atomic(struct al_device *) inner; // whose watch counts instead, in a device that stands before another; NULL none
};

struct al_host;
struct al_host_ops {
    const char *name; // "procfs", "replay"
    int (*node)(struct al_host *h, struct al_snapshot *s, int64_t now_ns);
    // Fills s->procs for the processes of s->rows and s->ranks and their trees (launchers above, workers below), with
    // roles.
    int (*processes)(struct al_host *h, struct al_snapshot *s, uint32_t groups, int64_t now_ns);
    void (*free)(struct al_host *h);
};
struct al_host {
    const struct al_host_ops *ops;
};

// Who knows the ranks: a job's book, boards of running jobs.
struct al_ranks;
struct al_ranks_ops {
    const char *name; // "job", "boards"
    // Adds its ranks to s->ranks (unsorted is fine). Called at every tick on the collecting thread, behind the GPUs and
    // before the host, which follows the ranks' trees.
    int (*fill)(struct al_ranks *r, struct al_snapshot *s, int64_t now_ns);
    void (*free)(struct al_ranks *r);
};
struct al_ranks {
    const struct al_ranks_ops *ops;
};

// A recording or scenario: whole snapshots by time. device/replay.c and host/replay.c hand its two halves on.
struct al_source;
struct al_source_ops {
    const char *name; // "scenario", "recording"
    // The state at `at_ns` (from the source's start) with driver samples of (after_ns, at_ns]. Fills everything but tick
    // bookkeeping. AL_E_END behind the end.
    int (*at)(struct al_source *s, int64_t after_ns, int64_t at_ns, struct al_snapshot *ret);
    int (*attr)(struct al_source *s, uint32_t gpu, enum al_attr attr, int64_t at_ns, struct al_attr_value *ret);
    void (*free)(struct al_source *s);
};
struct al_source {
    const struct al_source_ops *ops;
    int64_t duration_ns;
    int64_t interval_ns;       // as recorded; 0 when unknown
    int64_t start_realtime_ns; // 0 when unknown
};

// A reader of the stream: screen, file, page. `groups` is what it needs.
struct al_sink;
struct al_sink_ops {
    const char *name;
    uint32_t groups;
    int (*tick)(struct al_sink *sink, const struct al_snapshot *s);
    int (*finding)(struct al_sink *sink, const struct al_snapshot *s, const struct al_finding *f);
    void (*free)(struct al_sink *sink);
};
struct al_sink {
    const struct al_sink_ops *ops;
};

#endif
