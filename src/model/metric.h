// SPDX-License-Identifier: Apache-2.0
// What is known of a metric, whatever it belongs to.
#ifndef AL_MODEL_METRIC_H
#define AL_MODEL_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "model/gpu_metrics.h"

enum al_metric_kind {
    AL_KIND_GAUGE,
    AL_KIND_COUNTER, // only rises; a fall is a reset
    AL_KIND_STATE,   // a number that names something; means and slopes make no sense
};

// What a sink or rule asks for. collect samples the union, so nobody pays for what nobody reads.
enum al_group {
    AL_GROUP_FAST = 1 << 0,      // every tick: 0.3 to 15 us a call
    AL_GROUP_SLOW = 1 << 1,      // energy, field values, limits: up to 5 ms
    AL_GROUP_LINK = 1 << 2,      // PCIe and NVLink state and counters
    AL_GROUP_ECC = 1 << 3,       // error counters, retired and remapped rows
    AL_GROUP_GPM = 1 << 4,       // SM, tensor, DRAM activity (Hopper and newer)
    AL_GROUP_PCIE = 1 << 5,      // on request: 20 ms a direction, blocking
    AL_GROUP_XID = 1 << 6,       // driver events
    AL_GROUP_SAMPLES = 1 << 7,   // the driver's buffered utilisation samples
    AL_GROUP_PROCESS = 1 << 8,   // processes on the GPU and their memory
    AL_GROUP_PROCUTIL = 1 << 9,  // per-process utilisation: 1.7 ms
    AL_GROUP_HOST = 1 << 10,     // /proc of those processes and their tree
    AL_GROUP_NODE = 1 << 11,     // CPU, memory, PSI, disk and network of the node
    AL_GROUP_PSS = 1 << 12,      // on request: proportional set size
    AL_GROUP_ALL = (1 << 12) - 1 - (1 << 5)
};

struct al_metric_info {
    const char *id; // "UTIL"
    const char *name;
    enum al_unit unit;
    enum al_metric_kind kind;
    uint32_t group;
    const char *resolution;
    const char *generations;
    const char *help;
};

enum al_gpu_metric {
#define X(id, name, unit, kind, group, resolution, generations, help) AL_GPU_##id,
    AL_GPU_METRICS(X)
#undef X
        AL_GPU_METRIC_COUNT
};

extern const struct al_metric_info al_gpu_metrics[AL_GPU_METRIC_COUNT];

// Index by name, or -1.
int al_gpu_metric_find(const char *name);
const char *al_metric_kind_word(enum al_metric_kind kind); // "gauge" "counter" "state"
const char *al_group_word(uint32_t group);                 // "fast" ...

#endif
