// SPDX-License-Identifier: Apache-2.0
#include "export/csv.h"

#include <string.h>
#include <time.h>

void al_csv_text(struct al_buf *b, const char *text) {
    bool formula = *text && strchr("=+-@\t\r", *text);
    if (!formula && !strpbrk(text, "\",\r\n")) {
        al_buf_str(b, text);
        return;
    }
    al_buf_char(b, '"');
    if (formula)
        al_buf_char(b, '\'');
    for (; *text; text++) {
        if (*text == '"')
            al_buf_char(b, '"');
        al_buf_char(b, *text);
    }
    al_buf_char(b, '"');
}

void al_csv_head(struct al_buf *b, const bool *metric) {
    al_buf_str(b, "time,seconds,resolution_seconds,gpu,uuid,state");
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        if (metric[m]) {
            al_buf_char(b, ',');
            al_buf_str(b, al_gpu_metrics[m].name);
        }
    al_buf_char(b, '\n');
}

static void put_time(struct al_buf *b, int64_t realtime_ns) {
    time_t seconds = (time_t)(realtime_ns / 1000000000);
    struct tm t;
    if (realtime_ns > 0 && gmtime_r(&seconds, &t))
        al_buf_printf(b, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
                      t.tm_min, t.tm_sec, (int)(realtime_ns / 1000000 % 1000));
}

static void put_when(struct al_buf *b, const struct al_snapshot *s, double resolution_seconds) {
    put_time(b, s->realtime_ns);
    al_buf_char(b, ',');
    al_buf_number(b, (double)s->monotonic_ns / 1e9);
    al_buf_char(b, ',');
    al_buf_number(b, resolution_seconds);
}

void al_csv_sample(struct al_buf *b, const struct al_snapshot *s, const bool *metric, double resolution_seconds) {
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const struct al_gpu *g = &s->gpus[i];
        put_when(b, s, resolution_seconds);
        al_buf_printf(b, ",%u,", g->info.index);
        al_csv_text(b, g->info.uuid);
        al_buf_char(b, ',');
        al_buf_str(b, al_status_word(g->info.status));
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++) {
            if (!metric[m])
                continue;
            al_buf_char(b, ',');
            if (al_ok(g->m[m]))
                al_buf_number(b, g->m[m].num);
        }
        al_buf_char(b, '\n');
    }
}

void al_csv_rank_head(struct al_buf *b) {
    al_buf_str(b, "time,seconds,resolution_seconds,job,rank,pid");
    for (int m = 0; m < AL_RANK_METRIC_COUNT; m++) {
        al_buf_char(b, ',');
        al_buf_str(b, al_rank_metric_table[m].name);
    }
    al_buf_char(b, '\n');
}

static void put_known(struct al_buf *b, bool known, int64_t v) {
    al_buf_char(b, ',');
    if (known)
        al_buf_printf(b, "%lld", (long long)v);
}

void al_csv_rank_sample(struct al_buf *b, const struct al_snapshot *s, double resolution_seconds) {
    for (uint32_t i = 0; i < s->rank_count; i++) {
        const struct al_rank *r = &s->ranks[i];
        const char *phase = al_rank_phase(r);
        put_when(b, s, resolution_seconds);
        put_known(b, r->job > 0, r->job);
        put_known(b, r->rank >= 0, r->rank);
        put_known(b, true, r->pid);
        for (int m = 0; m < AL_RANK_METRIC_COUNT; m++) {
            al_buf_char(b, ',');
            if (m == AL_RANK_PHASE)
                al_csv_text(b, phase ? phase : "");
            else if (al_ok(r->m[m]))
                al_buf_number(b, r->m[m].num);
        }
        al_buf_char(b, '\n');
    }
}
