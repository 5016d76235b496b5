// SPDX-License-Identifier: Apache-2.0
// The host half of a demo, in step with the stand-in driver: scenario time = (now - epoch) * speed + start.
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/demo_source.h"

struct paced {
    struct al_source source; // first
    struct al_source *inner;
    double speed;
    int64_t start_ns;
    int64_t began_realtime_ns; // real time of `start_ns`
};

static int64_t inner_time(const struct paced *p, int64_t at_ns) {
    return (int64_t)((double)at_ns * p->speed) + p->start_ns;
}

// Processes start as long before now as they did in the session: rules and tables tell a young job by it.
static void start_now(const struct paced *p, struct al_snapshot *s) {
    int64_t start = p->inner->start_realtime_ns + p->start_ns;
    for (uint32_t i = 0; i < s->proc_count; i++) {
        int64_t *started = &s->procs[i].started_realtime_ns;
        if (*started)
            *started = p->began_realtime_ns + (int64_t)((double)(*started - start) / p->speed);
    }
}

static int paced_at(struct al_source *s, int64_t after_ns, int64_t at_ns, struct al_snapshot *ret) {
    struct paced *p = (struct paced *)s;
    int result = p->inner->ops->at(p->inner, inner_time(p, after_ns), inner_time(p, at_ns), ret);
    if (!result || result == AL_E_END)
        start_now(p, ret);
    return result;
}

static int paced_attr(struct al_source *s, uint32_t gpu, enum al_attr attr, int64_t at_ns, struct al_attr_value *ret) {
    struct paced *p = (struct paced *)s;
    return p->inner->ops->attr(p->inner, gpu, attr, inner_time(p, at_ns), ret);
}

static void paced_free(struct al_source *s) {
    struct paced *p = (struct paced *)s;
    p->inner->ops->free(p->inner);
    free(p);
}

static const struct al_source_ops paced_ops = {.name = "demo", .at = paced_at, .attr = paced_attr, .free = paced_free};

int al_demo_source(struct al_source *inner, int64_t epoch_ns, struct al_source **ret) {
    const char *speed = getenv("ALULA_SCENARIO_SPEED"), *start = getenv("ALULA_SCENARIO_START");
    struct paced *p = calloc(1, sizeof *p);
    double seconds = 0;
    if (!p)
        return AL_E_NOMEM;
    *p = (struct paced){.source = *inner, .inner = inner, .speed = 1};
    p->source.ops = &paced_ops;
    if (speed && (!al_str_double(speed, &p->speed) || p->speed <= 0))
        p->speed = 1;
    if (start && al_unit_parse(start, AL_UNIT_SECONDS, &seconds) == 0)
        p->start_ns = (int64_t)(seconds * 1e9);
    p->began_realtime_ns = al_realtime_ns() - (al_monotonic_ns() - epoch_ns);
    *ret = &p->source;
    return 0;
}
