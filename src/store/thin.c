// SPDX-License-Identifier: Apache-2.0
// Thinning: rows of a bucket become one, with mean, least and greatest.
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/part.h"

struct bucket {
    struct al_row row; // the last one's extras and layout
    uint32_t count[AL_STORE_METRICS_MAX];
    double sum[AL_STORE_METRICS_MAX], low[AL_STORE_METRICS_MAX], high[AL_STORE_METRICS_MAX];
    uint32_t weight[AL_STORE_METRICS_MAX];
    bool open;
};

// A bucket's stamp is its begin, but never before the block's: both sides of a block compute the same.
static int64_t stamp_of(int64_t t, int64_t width_ns, int64_t block_start_ns) {
    int64_t begin = t / width_ns * width_ns;
    return begin < block_start_ns ? block_start_ns : begin;
}

static void take(struct bucket *b, const struct al_part *p, uint32_t r, const struct al_layout *layout) {
    const double *num = p->num + (size_t)r * p->metrics;
    const double *low = p->level ? p->low + (size_t)r * p->metrics : num;
    const double *high = p->level ? p->high + (size_t)r * p->metrics : num;
    for (uint32_t m = 0; m < p->metrics; m++) {
        uint16_t code = m < layout->count ? layout->code[m] : 0;
        b->row.code[m] = code;
        if (!al_code_has_number(code)) {
            b->row.num[m] = 0;
            continue;
        }
        b->row.num[m] = num[m];
        if (b->count[m] == 0 || low[m] < b->low[m])
            b->low[m] = low[m];
        if (b->count[m] == 0 || high[m] > b->high[m])
            b->high[m] = high[m];
        b->sum[m] += num[m];
        b->count[m]++;
    }
    b->row.layout = p->layout[r];
    b->row.slots = layout->slots;
    memcpy(b->row.extra, p->extra + (size_t)r * p->extras, p->extras * sizeof *p->extra);
    if (layout->slots)
        memcpy(b->row.at, p->at + p->at_from[r], layout->slots * sizeof *b->row.at);
}

static int finish(struct bucket *b, const struct al_metric_info *metrics, struct al_part *to, int64_t last_t) {
    if (!b->open)
        return 0;
    for (uint32_t m = 0; m < to->metrics; m++)
        if (al_code_has_number(b->row.code[m]) && metrics && metrics[m].kind == AL_KIND_GAUGE && b->count[m])
            b->row.num[m] = b->sum[m] / b->count[m];
    if (to->kind == AL_STORE_TICK) // the stamp moved to the begin of the bucket; its wall time with it
        b->row.extra[AL_TICK_REALTIME] -= last_t - b->row.t;
    int result = al_part_add(to, &b->row);
    if (result)
        return result;
    size_t at = (size_t)(to->rows - 1) * to->metrics;
    for (uint32_t m = 0; m < to->metrics; m++)
        if (al_code_has_number(b->row.code[m]) && b->count[m]) {
            to->low[at + m] = b->low[m];
            to->high[at + m] = b->high[m];
        }
    return 0;
}

int al_part_thin(const struct al_part *p, const struct al_layouts *layouts, const struct al_metric_info *metrics,
                 int64_t width_ns, uint8_t level, int64_t block_start_ns, struct al_part **ret) {
    struct al_part *to = NULL;
    struct bucket *b = calloc(1, sizeof *b);
    int result = b ? al_part_new(p->kind, level, p->entity, p->metrics, &to) : AL_E_NOMEM;
    int64_t last = 0;
    for (uint32_t r = 0; r < p->rows && !result; r++) {
        const struct al_layout *layout = al_layouts_find(layouts, p->layout[r]);
        static const struct al_layout none = {0};
        int64_t stamp = stamp_of(p->t[r], width_ns, block_start_ns);
        if (!b->open || stamp != b->row.t) {
            result = finish(b, metrics, to, last);
            memset(b, 0, sizeof *b);
            b->open = true;
            b->row.t = stamp;
        }
        take(b, p, r, layout ? layout : &none);
        last = p->t[r];
    }
    if (!result)
        result = finish(b, metrics, to, last);
    free(b);
    if (result) {
        al_part_free(to);
        return result;
    }
    *ret = to;
    return 0;
}
