// SPDX-License-Identifier: Apache-2.0
// The parts "allocator", "readings", "empty_cache" and "host_memory" of a rank in metrics_report.json.
#ifndef AL_EXPORT_REPORT_MEMORY_H
#define AL_EXPORT_REPORT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/event.h"

struct al_report_memory { // of a device
    int32_t device;
    bool known[AL_ALLOCATOR_COUNT];
    double last[AL_ALLOCATOR_COUNT], most[AL_ALLOCATOR_COUNT];
    bool driver_known[AL_DRIVER_COUNT], outside_known, outside_by_process;
    double driver_last[AL_DRIVER_COUNT], driver_most[AL_DRIVER_COUNT], outside_last, outside_most;
};

struct al_report_reading { // what the hook itself does
    bool known;
    double every_steps, cost_ratio;
};

struct al_report_epoch {
    int64_t epoch, step;
    bool known[AL_HOST_COUNT], warm_up, growth_known;
    double value[AL_HOST_COUNT], growth;
};

struct al_report_oom { // of the error that ended the process
    bool known, total_known, free_known, in_use_known, allocated_known, unallocated_known, others_known;
    int64_t device; // -1: null
    double tried, total, free, in_use, allocated, unallocated, others;
    const char *cause;
    char message[400], advice[320];
};

struct al_report_rank_memory {
    const char *backend, *settings, *variable; // "": null
    bool settings_known, expandable;
    uint32_t device_count;
    const struct al_report_memory *devices;
    struct al_report_reading allocator, events;
    uint64_t emptied;
    double emptied_bytes, emptied_seconds;
    bool host_known[AL_HOST_COUNT];
    double host_first[AL_HOST_COUNT], host_last[AL_HOST_COUNT], host_most[AL_HOST_COUNT];
    uint32_t epoch_count;
    const struct al_report_epoch *epochs;
    const struct al_report_oom *oom;
};

void al_report_oom(struct al_buf *b, const struct al_report_oom *o);
void al_report_rank_memory(struct al_buf *b, const struct al_report_rank_memory *m);

#endif
