// SPDX-License-Identifier: Apache-2.0
#include "model/metric.h"

#include <string.h>

#include "model/look.h"
#include "model/node.h"
#include "model/process.h"
#include "model/rank.h"

const struct al_metric_info al_gpu_metrics[AL_GPU_METRIC_COUNT] = {
#define X(id, name, unit, kind, group, resolution, generations, help)                                                  \
    {#id, name, AL_UNIT_##unit, AL_KIND_##kind, AL_GROUP_##group, resolution, generations, help},
    AL_GPU_METRICS(X)
#undef X
};

static const struct al_metric_info proc_metrics[AL_PROC_METRIC_COUNT] = {
#define X(id, name, unit, kind, help) {#id, name, AL_UNIT_##unit, AL_KIND_##kind, AL_GROUP_HOST, "at the call", "all", help},
    AL_PROC_METRICS(X)
#undef X
};
const struct al_metric_info *const al_proc_metric_table = proc_metrics;

static const struct al_metric_info node_metrics[AL_NODE_METRIC_COUNT] = {
#define X(id, name, unit, kind, help) {#id, name, AL_UNIT_##unit, AL_KIND_##kind, AL_GROUP_NODE, "at the call", "all", help},
    AL_NODE_METRICS(X)
#undef X
};
const struct al_metric_info *const al_node_metric_table = node_metrics;

static const struct al_metric_info rank_metrics[AL_RANK_METRIC_COUNT] = {
#define X(id, name, unit, kind, help) {#id, name, AL_UNIT_##unit, AL_KIND_##kind, 0, "a step", "all", help},
    AL_RANK_METRICS(X)
#undef X
};
const struct al_metric_info *const al_rank_metric_table = rank_metrics;

static const struct al_metric_info look_metrics[AL_LOOK_METRIC_COUNT] = {
#define X(id, name, unit, kind, help) {#id, name, AL_UNIT_##unit, AL_KIND_##kind, 0, "a look", "all", help},
    AL_LOOK_METRICS(X)
#undef X
};
const struct al_metric_info *const al_look_metric_table = look_metrics;

int al_gpu_metric_find(const char *name) {
    for (int i = 0; i < AL_GPU_METRIC_COUNT; i++)
        if (strcmp(al_gpu_metrics[i].name, name) == 0)
            return i;
    return -1;
}

const char *al_metric_kind_word(enum al_metric_kind kind) {
    return kind == AL_KIND_GAUGE ? "gauge" : kind == AL_KIND_COUNTER ? "counter" : "state";
}

const char *al_group_word(uint32_t group) {
    switch (group) {
    case AL_GROUP_FAST: return "fast";
    case AL_GROUP_SLOW: return "slow";
    case AL_GROUP_LINK: return "link";
    case AL_GROUP_ECC: return "ecc";
    case AL_GROUP_GPM: return "gpm";
    case AL_GROUP_PCIE: return "pcie";
    case AL_GROUP_XID: return "xid";
    case AL_GROUP_SAMPLES: return "samples";
    case AL_GROUP_PROCESS: return "process";
    case AL_GROUP_PROCUTIL: return "procutil";
    case AL_GROUP_HOST: return "host";
    case AL_GROUP_NODE: return "node";
    case AL_GROUP_PSS: return "pss";
    case 0: return "rank"; // told by the training process
    default: return "?";
    }
}
