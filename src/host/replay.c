// SPDX-License-Identifier: Apache-2.0
// The host half of a scenario or recording.
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "host/host.h"

struct replay {
    struct al_host host;
    struct al_source *source;
    struct al_snapshot *at; // the source's state, of which only the host's half is handed on
    int64_t start_ns, last_ns;
    bool no_cmdline;
};

// Times of the source count from its start; 0 stays "no reading".
static void shift(struct al_value *values, size_t count, int64_t start_ns) {
    for (size_t i = 0; i < count; i++)
        if (values[i].status == AL_STATUS_OK || values[i].status == AL_STATUS_STALE)
            values[i].at_ns += start_ns;
}

static int look(struct replay *r, int64_t now_ns) {
    int64_t at_ns = now_ns - r->start_ns;
    if (r->last_ns == at_ns)
        return 0;
    al_snapshot_clear(r->at);
    int result = r->source->ops->at(r->source, r->last_ns < at_ns ? r->last_ns : at_ns, at_ns, r->at);
    if (result == 0)
        r->last_ns = at_ns;
    return result;
}

static int replay_node(struct al_host *h, struct al_snapshot *s, int64_t now_ns) {
    struct replay *r = (struct replay *)h;
    int result = look(r, now_ns);
    if (result < 0)
        return result;
    // The driver's versions are the device half's.
    struct al_node node = r->at->node;
    memcpy(node.driver_version, s->node.driver_version, sizeof node.driver_version);
    memcpy(node.nvml_version, s->node.nvml_version, sizeof node.nvml_version);
    memcpy(node.cuda_version, s->node.cuda_version, sizeof node.cuda_version);
    shift(node.m, AL_NODE_METRIC_COUNT, r->start_ns);
    s->node = node;
    return 0;
}

static int replay_processes(struct al_host *h, struct al_snapshot *s, uint32_t groups, int64_t now_ns) {
    (void)groups;
    struct replay *r = (struct replay *)h;
    int result = look(r, now_ns);
    if (result < 0)
        return result;
    s->proc_count = 0;
    for (uint32_t i = 0; i < r->at->proc_count; i++) {
        struct al_proc *to = al_snapshot_add_proc(s);
        if (!to)
            return AL_E_NOMEM;
        *to = r->at->procs[i];
        shift(to->m, AL_PROC_METRIC_COUNT, r->start_ns);
        if (r->no_cmdline)
            to->command[0] = '\0';
    }
    return 0;
}

static void replay_free(struct al_host *h) {
    struct replay *r = (struct replay *)h;
    al_snapshot_free(r->at);
    free(r);
}

static const struct al_host_ops replay_ops = {"replay", replay_node, replay_processes, replay_free};

int al_replay_host(struct al_source *source, bool no_cmdline, int64_t start_ns, struct al_host **ret) {
    struct replay *r = calloc(1, sizeof *r);
    if (!r)
        return AL_E_NOMEM;
    *r = (struct replay){{&replay_ops}, source, al_snapshot_new(), start_ns, -1, no_cmdline};
    if (!r->at) {
        free(r);
        return AL_E_NOMEM;
    }
    *ret = &r->host;
    return 0;
}
