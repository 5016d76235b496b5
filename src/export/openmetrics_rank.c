// SPDX-License-Identifier: Apache-2.0
// Series of ranks, by rank and pid. Their number is bounded as that of processes is: the first ones of a sorted snapshot.
#include <stdio.h>
#include <string.h>

#include "export/openmetrics.h"
#include "export/openmetrics_write.h"

static void labels(struct al_om *o, const struct al_rank *r) {
    al_om_begin(o);
    if (r->rank >= 0)
        al_om_label_number(o, "rank", r->rank);
    else
        al_om_label(o, "rank", "");
    al_om_label_number(o, "pid", r->pid);
}

static void info(struct al_om *o, const struct al_snapshot *s, uint32_t count) {
    al_om_family(o, "alula_rank", AL_OM_INFO, "", "Which training process it is; join on pid");
    for (uint32_t i = 0; i < count; i++) {
        const struct al_rank *r = &s->ranks[i];
        labels(o, r);
        al_om_label_number(o, "job", r->job);
        if (r->local_rank >= 0)
            al_om_label_number(o, "local_rank", r->local_rank);
        if (r->world > 0)
            al_om_label_number(o, "world_size", r->world);
        if (r->device >= 0)
            al_om_label_number(o, "device", r->device);
        al_om_label(o, "source", r->source);
        al_om_end(o, 1);
    }
}

// A number says nothing on a dashboard: one series a phase, 1 for the one that it is in.
static void phase(struct al_om *o, const struct al_snapshot *s, uint32_t count) {
    al_om_family(o, "alula_rank_phase", AL_OM_GAUGE, "", "1 for the phase that the rank is in");
    for (uint32_t i = 0; i < count; i++) {
        const char *now = al_rank_phase(&s->ranks[i]), *word;
        for (uint32_t p = 0; now && (word = al_rank_phase_word(p)); p++) {
            labels(o, &s->ranks[i]);
            al_om_label(o, "phase", word);
            al_om_end(o, strcmp(word, now) == 0);
        }
    }
}

void al_om_ranks(struct al_om *o, const struct al_om_page *p) {
    const struct al_snapshot *s = p->s;
    uint32_t count = s->rank_count < p->max_processes ? s->rank_count : p->max_processes;
    if (!count)
        return;
    info(o, s, count);
    phase(o, s, count);
    for (int m = 0; m < AL_RANK_METRIC_COUNT; m++) {
        const struct al_metric_info *row = &al_rank_metric_table[m];
        char name[112];
        if (m == AL_RANK_PHASE)
            continue;
        (void)snprintf(name, sizeof name, "alula_rank_%s", row->name);
        al_om_family(o, name, row->kind == AL_KIND_COUNTER ? AL_OM_COUNTER : AL_OM_GAUGE, al_unit_word(row->unit), row->help);
        for (uint32_t i = 0; i < count; i++) {
            if (!al_ok(s->ranks[i].m[m]))
                continue;
            labels(o, &s->ranks[i]);
            al_om_end(o, s->ranks[i].m[m].num);
        }
    }
    al_om_family(o, "alula_ranks", AL_OM_GAUGE, "", "Training processes that tell of themselves");
    al_om_value(o, s->rank_count);
}
