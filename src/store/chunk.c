// SPDX-License-Identifier: Apache-2.0
// A part as bytes: columns one behind the other.
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/column.h"
#include "store/part.h"

#define MAGIC "ALC\1"
#define NUMBERS_MAX (4u << 20)

enum { HOLDS = 1, RANGES = 2 };

static const struct al_layout nothing = {0}; // of kinds without metrics

// The layouts of all rows, looked up once.
static int look_up(const struct al_part *p, const struct al_layouts *layouts, const struct al_layout ***ret) {
    const struct al_layout **of = calloc(p->rows ? p->rows : 1, sizeof(struct al_layout *));
    if (!of)
        return AL_E_NOMEM;
    for (uint32_t r = 0; r < p->rows; r++) {
        if (!p->metrics) {
            of[r] = &nothing;
            continue;
        }
        if (r && p->layout[r] == p->layout[r - 1])
            of[r] = of[r - 1];
        else
            of[r] = al_layouts_find(layouts, p->layout[r]);
        if (!of[r] || of[r]->kind != p->kind || of[r]->count > p->metrics) {
            free(of);
            return AL_E_FORMAT;
        }
    }
    *ret = of;
    return 0;
}

static bool has(const struct al_layout *layout, uint32_t metric) {
    return metric < layout->count && al_code_has_number(layout->code[metric]);
}

// The same reading as in the row before: its value need not be written again.
static bool held(const struct al_part *p, const struct al_layout *const *of, uint32_t r, uint32_t metric) {
    if (!r || of[r] != of[r - 1])
        return false;
    uint32_t slot = of[r]->code[metric] >> 4;
    return p->at[p->at_from[r] + slot] == p->at[p->at_from[r - 1] + slot];
}

// Zeros of both signs differ here.
static bool same_bits(double a, double b) {
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

static bool hold_is_true(const struct al_part *p, const struct al_layout *const *of, uint32_t metric) {
    for (uint32_t r = 1; r < p->rows; r++)
        if (has(of[r], metric) && held(p, of, r, metric) &&
            !same_bits(p->num[(size_t)r * p->metrics + metric], p->num[(size_t)(r - 1) * p->metrics + metric]))
            return false;
    return true;
}

static bool same_range(const struct al_part *p, const struct al_layout *const *of, uint32_t metric) {
    for (uint32_t r = 0; r < p->rows; r++) {
        size_t i = (size_t)r * p->metrics + metric;
        if (has(of[r], metric) && (p->low[i] != p->num[i] || p->high[i] != p->num[i]))
            return false;
    }
    return true;
}

static uint32_t gather(const struct al_part *p, const struct al_layout *const *of, uint32_t metric, bool holds,
                       const double *from, double *ret) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < p->rows; r++)
        if (has(of[r], metric) && !(holds && held(p, of, r, metric)))
            ret[count++] = from[(size_t)r * p->metrics + metric];
    return count;
}

static int put_metric(const struct al_part *p, const struct al_layout *const *of, uint32_t metric, double *work,
                      struct al_buf *b) {
    bool holds = !p->level && hold_is_true(p, of, metric);
    uint32_t count = gather(p, of, metric, holds, p->num, work);
    if (!count)
        return 0;
    bool ranges = p->level && !same_range(p, of, metric);
    al_buf_char(b, (char)((holds ? HOLDS : 0) | (ranges ? RANGES : 0)));
    int result = al_numbers_put(b, work, count);
    if (!result && ranges) {
        (void)gather(p, of, metric, false, p->low, work);
        result = al_numbers_put(b, work, count);
    }
    if (!result && ranges) {
        (void)gather(p, of, metric, false, p->high, work);
        result = al_numbers_put(b, work, count);
    }
    return result;
}

static int put_times(const struct al_part *p, const struct al_layout *const *of, int64_t *work, struct al_buf *b) {
    int result = 0;
    for (uint32_t s = 0; s < AL_STORE_SLOTS_MAX && !result; s++) {
        uint32_t count = 0;
        for (uint32_t r = 0; r < p->rows; r++) {
            if (of[r]->slots <= s)
                continue;
            int64_t at = p->at[p->at_from[r] + s];
            bool same = r && of[r - 1]->slots > s && p->at[p->at_from[r - 1] + s] == at;
            work[count++] = same ? 0 : (int64_t)(1 + al_zigzag(at - p->t[r] / 1000));
        }
        if (!count)
            break;
        result = al_column_put(b, work, count);
    }
    return result;
}

int al_chunk_encode(const struct al_part *p, const struct al_layouts *layouts, struct al_buf *b) {
    const struct al_layout **of = NULL;
    int64_t *work = malloc((p->rows ? p->rows : 1) * sizeof *work);
    double *numbers = malloc((p->rows ? p->rows : 1) * sizeof *numbers);
    int result = work && numbers ? look_up(p, layouts, &of) : AL_E_NOMEM;
    al_buf_add(b, MAGIC, 4);
    al_buf_char(b, (char)p->kind);
    al_buf_char(b, (char)p->level);
    al_put_varint(b, p->rows);
    al_put_varint(b, p->metrics);
    if (!result)
        result = al_column_put(b, p->t, p->rows);
    for (uint32_t e = 0; e < p->extras && !result; e++) {
        for (uint32_t r = 0; r < p->rows; r++)
            work[r] = p->extra[(size_t)r * p->extras + e];
        result = al_column_put(b, work, p->rows);
    }
    if (!result)
        result = al_column_put(b, p->layout, p->rows);
    if (!result)
        result = put_times(p, of, work, b);
    for (uint32_t m = 0; m < p->metrics && !result; m++)
        result = put_metric(p, of, m, numbers, b);
    free(of);
    free(work);
    free(numbers);
    return result ? result : b->failed ? AL_E_NOMEM : 0;
}

// ---- decoding ----

static int get_head(struct al_bytes *in, struct al_part **ret) {
    uint64_t rows, metrics;
    if (in->end - in->p < 6 || memcmp(in->p, MAGIC, 4) != 0)
        return AL_E_FORMAT;
    uint8_t kind = in->p[4], level = in->p[5];
    in->p += 6;
    if (kind >= AL_STORE_KINDS || level > 2 || al_get_varint(in, &rows) < 0 || al_get_varint(in, &metrics) < 0)
        return AL_E_FORMAT;
    if (rows > AL_STORE_ROWS_MAX || metrics > AL_STORE_METRICS_MAX || rows * (metrics ? metrics : 1) > NUMBERS_MAX)
        return AL_E_TOOBIG;
    int result = al_part_new(kind, level, 0, (uint32_t)metrics, ret);
    if (result)
        return result;
    struct al_part *p = *ret;
    size_t n = rows ? rows : 1, numbers = n * (metrics ? metrics : 1);
    p->rows = p->cap = (uint32_t)rows;
    p->t = calloc(n, sizeof *p->t);
    p->extra = calloc(n * p->extras, sizeof *p->extra);
    p->layout = calloc(n, sizeof *p->layout);
    p->at_from = calloc(n, sizeof *p->at_from);
    p->num = calloc(numbers, sizeof *p->num);
    if (level) {
        p->low = calloc(numbers, sizeof *p->low);
        p->high = calloc(numbers, sizeof *p->high);
    }
    bool whole = p->t && p->extra && p->layout && p->at_from && p->num && (!level || (p->low && p->high));
    return whole ? 0 : AL_E_NOMEM;
}

static int get_times(struct al_bytes *in, struct al_part *p, const struct al_layout *const *of, int64_t *work) {
    uint64_t total = 0;
    for (uint32_t r = 0; r < p->rows; r++) {
        p->at_from[r] = (uint32_t)total;
        total += of[r]->slots;
    }
    if (total > NUMBERS_MAX)
        return AL_E_TOOBIG;
    p->at_count = p->at_cap = (uint32_t)total;
    p->at = calloc(total ? total : 1, sizeof *p->at);
    if (!p->at)
        return AL_E_NOMEM;
    for (uint32_t s = 0; s < AL_STORE_SLOTS_MAX; s++) {
        uint32_t count = 0, i = 0;
        for (uint32_t r = 0; r < p->rows; r++)
            count += of[r]->slots > s;
        if (!count)
            return 0;
        if (al_column_get(in, work, count) < 0)
            return AL_E_FORMAT;
        for (uint32_t r = 0; r < p->rows; r++) {
            if (of[r]->slots <= s)
                continue;
            uint64_t code = (uint64_t)work[i++], base = (uint64_t)(p->t[r] / 1000);
            if (!code && !(r && of[r - 1]->slots > s))
                return AL_E_FORMAT;
            p->at[p->at_from[r] + s] = code ? (int64_t)(base + (uint64_t)al_unzigzag(code - 1))
                                            : p->at[p->at_from[r - 1] + s];
            int64_t at = p->at[p->at_from[r] + s];
            if (at > INT64_MAX / 4000 || at < INT64_MIN / 4000) // becomes nanoseconds and is moved by a start
                return AL_E_FORMAT;
        }
    }
    return 0;
}

static int get_column(struct al_bytes *in, struct al_part *p, const struct al_layout *const *of, uint32_t metric,
                      uint32_t count, bool holds, double *to, double *work) {
    int result = al_numbers_get(in, work, count);
    uint32_t i = 0;
    for (uint32_t r = 0; r < p->rows && !result; r++) {
        if (!has(of[r], metric))
            continue;
        size_t at = (size_t)r * p->metrics + metric;
        to[at] = holds && held(p, of, r, metric) ? to[at - p->metrics] : work[i++];
    }
    return result;
}

static int get_metric(struct al_bytes *in, struct al_part *p, const struct al_layout *const *of, uint32_t metric,
                      double *work) {
    uint32_t all = 0, fresh = 0;
    for (uint32_t r = 0; r < p->rows; r++) {
        all += has(of[r], metric);
        fresh += has(of[r], metric) && !held(p, of, r, metric);
    }
    if (!all)
        return 0;
    if (in->p >= in->end)
        return AL_E_FORMAT;
    unsigned flags = *in->p++;
    bool holds = flags & HOLDS, ranges = flags & RANGES;
    if (flags > 3 || (holds && p->level) || (ranges && !p->level))
        return AL_E_FORMAT;
    int result = get_column(in, p, of, metric, holds ? fresh : all, holds, p->num, work);
    if (!result && p->level) {
        if (ranges) {
            result = get_column(in, p, of, metric, all, false, p->low, work);
            return result ? result : get_column(in, p, of, metric, all, false, p->high, work);
        }
        for (uint32_t r = 0; r < p->rows; r++) {
            size_t at = (size_t)r * p->metrics + metric;
            p->low[at] = p->high[at] = p->num[at];
        }
    }
    return result;
}

static int get_rows(struct al_bytes *in, struct al_part *p, int64_t *work) {
    int result = al_column_get(in, p->t, p->rows);
    for (uint32_t r = 0; r < p->rows && !result; r++)
        if (p->t[r] < 0 || p->t[r] > INT64_MAX / 4 || (r && p->t[r] < p->t[r - 1]))
            result = AL_E_FORMAT;
    for (uint32_t e = 0; e < p->extras && !result; e++) {
        result = al_column_get(in, work, p->rows);
        for (uint32_t r = 0; r < p->rows && !result; r++)
            p->extra[(size_t)r * p->extras + e] = work[r];
    }
    return result ? result : al_column_get(in, p->layout, p->rows);
}

int al_chunk_decode(const uint8_t *bytes, size_t len, const struct al_layouts *layouts, struct al_part **ret) {
    struct al_bytes in = {bytes, bytes + len};
    struct al_part *p = NULL;
    const struct al_layout **of = NULL;
    int64_t *work = NULL;
    double *numbers = NULL;
    int result = get_head(&in, &p);
    if (!result) {
        work = malloc((p->rows ? p->rows : 1) * sizeof *work);
        numbers = malloc((p->rows ? p->rows : 1) * sizeof *numbers);
        result = work && numbers ? get_rows(&in, p, work) : AL_E_NOMEM;
    }
    if (!result)
        result = look_up(p, layouts, &of);
    if (!result)
        result = get_times(&in, p, of, work);
    for (uint32_t m = 0; !result && m < p->metrics; m++)
        result = get_metric(&in, p, of, m, numbers);
    if (!result && in.p != in.end)
        result = AL_E_FORMAT;
    free(of);
    free(work);
    free(numbers);
    if (result) {
        al_part_free(p);
        return result;
    }
    *ret = p;
    return 0;
}
