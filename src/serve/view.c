// SPDX-License-Identifier: Apache-2.0
// One copy of the newest tick, so that the collect's lock is held for a moment only, however many pages are printed
// from it.
#include <string.h>

#include "serve/parts.h"

static void copy_findings(struct finding_log *to, const struct finding_log *from) {
    memcpy(to->open, from->open, from->open_count * sizeof *to->open);
    to->open_count = from->open_count;
    uint64_t ended = from->ended_count < FINDINGS_ENDED_MAX ? from->ended_count : FINDINGS_ENDED_MAX;
    memcpy(to->ended, from->ended, ended * sizeof *to->ended);
    to->ended_count = from->ended_count;
}

void al_serve_view(struct al_serve *s) {
    struct view *v = &s->view;
    al_collect_lock(s->o.collect);
    const struct al_snapshot *now = al_collect_snapshot(s->o.collect);
    bool newer = now && (!v->have || now->tick != v->tick || s->findings.event_count != v->event_count);
    if (newer && al_snapshot_copy(v->snapshot, now) == 0) {
        v->have = true;
        v->tick = now->tick;
        v->event_count = s->findings.event_count;
        v->cost = s->cost;
        copy_findings(&v->findings, &s->findings);
    }
    al_collect_unlock(s->o.collect);
}

bool al_serve_fresh(const struct al_serve *s) {
    int64_t ticked = atomic_load(&s->ticked_ns);
    return s->view.have && ticked && al_monotonic_ns() - ticked <= s->o.stale_after_ns;
}

bool al_serve_up(const struct al_serve *s) {
    return al_serve_fresh(s) && !s->view.snapshot->hung_call[0];
}
