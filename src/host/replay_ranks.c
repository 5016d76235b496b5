// SPDX-License-Identifier: Apache-2.0
// The ranks of a scenario or recording, and the looks at what they executed.
#include <stdlib.h>

#include "base/err.h"
#include "host/host.h"

struct replay {
    struct al_ranks base;
    struct al_source *source;
    struct al_snapshot *at; // the source's state, of which only the ranks are handed on
    int64_t start_ns, last_ns;
};

static int replay_fill(struct al_ranks *base, struct al_snapshot *s, int64_t now_ns) {
    struct replay *r = (struct replay *)base;
    int64_t at_ns = now_ns - r->start_ns;
    if (r->last_ns != at_ns) {
        al_snapshot_clear(r->at);
        int result = r->source->ops->at(r->source, r->last_ns < at_ns ? r->last_ns : at_ns, at_ns, r->at);
        if (result < 0)
            return result;
        r->last_ns = at_ns;
    }
    for (uint32_t i = 0; i < r->at->rank_count; i++) {
        struct al_rank *to = al_snapshot_add_rank(s);
        if (!to)
            return AL_E_NOMEM;
        *to = r->at->ranks[i];
        for (int m = 0; m < AL_RANK_METRIC_COUNT; m++) // times of the source count from its start; 0 stays "no reading"
            if (to->m[m].status == AL_STATUS_OK || to->m[m].status == AL_STATUS_STALE)
                to->m[m].at_ns += r->start_ns;
    }
    for (uint32_t i = 0; i < r->at->look_count; i++) {
        struct al_look *to = al_snapshot_add_look(s);
        if (!to)
            return AL_E_NOMEM;
        *to = r->at->looks[i];
        for (int m = 0; m < AL_LOOK_METRIC_COUNT; m++)
            if (to->m[m].status == AL_STATUS_OK || to->m[m].status == AL_STATUS_STALE)
                to->m[m].at_ns += r->start_ns;
    }
    return 0;
}

static void replay_free(struct al_ranks *base) {
    struct replay *r = (struct replay *)base;
    al_snapshot_free(r->at);
    free(r);
}

static const struct al_ranks_ops replay_ops = {"replay", replay_fill, replay_free};

int al_replay_ranks(struct al_source *source, int64_t start_ns, struct al_ranks **ret) {
    struct replay *r = calloc(1, sizeof *r);
    if (!r)
        return AL_E_NOMEM;
    *r = (struct replay){{&replay_ops}, source, al_snapshot_new(), start_ns, -1};
    if (!r->at) {
        free(r);
        return AL_E_NOMEM;
    }
    *ret = &r->base;
    return 0;
}
