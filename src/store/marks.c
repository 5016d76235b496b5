// SPDX-License-Identifier: Apache-2.0
// A row of marks: its shapes (kind, code and device, which repeat with every step), which mark has which, and then for each
// shape columns of its own. A shape's times are told as the time since the mark before it, which is much the same in each
// step; step numbers and memory that does not change cost a few bytes a row.
#include "store/marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/column.h"

#define MAGIC "ALM\1"
#define SHAPES_MAX AL_MARKS_ROW
#define TIME_MOST (INT64_MAX / 4)

struct shape {
    uint16_t kind, code;
    int32_t device;
    uint32_t count;
};

void al_marks_done(struct al_marks *m) {
    free(m->list);
    al_buf_free(&m->text);
    *m = (struct al_marks){0};
}

int al_marks_add(struct al_marks *m, const struct al_mark *mark, const char *text, size_t len) {
    if (m->count == m->cap) {
        uint32_t cap = m->cap ? 2 * m->cap : 64;
        struct al_mark *wider = realloc(m->list, cap * sizeof *wider);
        if (!wider)
            return AL_E_NOMEM;
        m->list = wider;
        m->cap = cap;
    }
    struct al_mark *to = &m->list[m->count];
    *to = *mark;
    if (mark->kind == AL_EVENT_TEXT) {
        to->a = (int64_t)len;
        to->b = (int64_t)m->text.len;
        al_buf_add(&m->text, text ? text : "", len);
        al_buf_char(&m->text, '\0');
        if (m->text.failed)
            return AL_E_NOMEM;
    }
    m->count++;
    return 0;
}

static size_t text_end(const struct al_marks *m, uint32_t count) {
    for (uint32_t i = count; i-- > 0;)
        if (m->list[i].kind == AL_EVENT_TEXT)
            return (size_t)(m->list[i].b + m->list[i].a + 1);
    return 0;
}

void al_marks_drop(struct al_marks *m, uint32_t count) {
    size_t text = text_end(m, count);
    m->count -= count;
    memmove(m->list, m->list + count, m->count * sizeof *m->list);
    if (!text)
        return;
    m->text.len -= text;
    memmove(m->text.data, m->text.data + text, m->text.len);
    for (uint32_t i = 0; i < m->count; i++)
        if (m->list[i].kind == AL_EVENT_TEXT)
            m->list[i].b -= (int64_t)text;
}

uint32_t al_marks_row(const struct al_marks *m) {
    uint32_t n = 0;
    int64_t text = 0;
    for (; n < m->count && n < AL_MARKS_ROW; n++) {
        text += m->list[n].kind == AL_EVENT_TEXT ? m->list[n].a + 1 : 0;
        if (n && (text > AL_MARKS_ROW_TEXT || m->list[n].at_ns - m->list[0].at_ns >= AL_MARKS_ROW_NS))
            break;
    }
    return n;
}

// Durations in nanoseconds are kept to 1 us, as times are: CUDA's clock is no finer.
static bool is_duration(const struct shape *s, bool b) {
    return s->kind == (b ? AL_EVENT_GPU_TIME : AL_EVENT_COST);
}

static int64_t microseconds(int64_t ns) {
    return ns >= 0 ? (ns + 500) / 1000 : -((-(ns + 1) + 500) / 1000);
}

// ---- writing ----

static uint32_t shape_of(struct shape *shapes, uint32_t *count, const struct al_mark *m) {
    uint32_t s = 0;
    while (s < *count && (shapes[s].kind != m->kind || shapes[s].code != m->code || shapes[s].device != m->device))
        s++;
    if (s == *count)
        shapes[(*count)++] = (struct shape){m->kind, m->code, m->device, 0};
    shapes[s].count++;
    return s;
}

struct writing {
    const struct al_marks *m;
    uint32_t count, shape_count;
    struct shape *shapes;
    int64_t *which, *since, *work; // by mark: its shape; microseconds since the mark before; scratch
};

static int put_shape(const struct writing *w, uint32_t s, struct al_buf *b) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->which[i] == s)
            w->work[n++] = w->since[i];
    int result = al_column_put(b, w->work, n);
    for (int column = 0; column < 2 && !result; column++) {
        bool duration = is_duration(&w->shapes[s], column == 1);
        n = 0;
        for (uint32_t i = 0; i < w->count; i++) {
            const struct al_mark *m = &w->m->list[i];
            int64_t v = column == 0 ? m->a : m->kind == AL_EVENT_TEXT ? 0 : m->b;
            if (w->which[i] == s)
                w->work[n++] = duration ? microseconds(v) : v;
        }
        result = al_column_put(b, w->work, n);
    }
    return result;
}

static int put_all(struct writing *w, int64_t start_ns, struct al_buf *b) {
    int64_t before = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        const struct al_mark *m = &w->m->list[i];
        int64_t from = m->at_ns > TIME_MOST ? TIME_MOST : m->at_ns < -TIME_MOST ? -TIME_MOST : m->at_ns;
        int64_t at = microseconds(from - start_ns);
        w->which[i] = shape_of(w->shapes, &w->shape_count, m);
        w->since[i] = at - before;
        before = at;
    }
    al_buf_add(b, MAGIC, 4);
    al_put_varint(b, w->count);
    al_put_varint(b, w->shape_count);
    for (uint32_t s = 0; s < w->shape_count; s++) {
        al_put_varint(b, w->shapes[s].kind);
        al_put_varint(b, w->shapes[s].code);
        al_put_varint(b, al_zigzag(w->shapes[s].device));
    }
    int result = al_column_put(b, w->which, w->count);
    for (uint32_t s = 0; s < w->shape_count && !result; s++)
        result = put_shape(w, s, b);
    for (uint32_t i = 0; i < w->count; i++)
        if (w->m->list[i].kind == AL_EVENT_TEXT)
            al_buf_add(b, w->m->text.data + w->m->list[i].b, (size_t)w->m->list[i].a);
    return result ? result : b->failed ? AL_E_NOMEM : 0;
}

int al_marks_encode(const struct al_marks *m, uint32_t count, int64_t start_ns, struct al_buf *b) {
    size_t n = count ? count : 1;
    struct writing w = {.m = m, .count = count, .shapes = calloc(n, sizeof *w.shapes), .which = calloc(n, sizeof *w.which),
                        .since = calloc(n, sizeof *w.since), .work = calloc(n, sizeof *w.work)};
    int result = w.shapes && w.which && w.since && w.work ? put_all(&w, start_ns, b) : AL_E_NOMEM;
    free(w.shapes);
    free(w.which);
    free(w.since);
    free(w.work);
    return result;
}

// ---- reading ----

struct reading {
    struct al_bytes in;
    uint32_t count, shape_count;
    struct shape *shapes;
    int64_t *which, *since, *work;
};

static int get_head(struct reading *r) {
    uint64_t count, shapes;
    if (r->in.end - r->in.p < 4 || memcmp(r->in.p, MAGIC, 4) != 0)
        return AL_E_FORMAT;
    r->in.p += 4;
    if (al_get_varint(&r->in, &count) < 0 || al_get_varint(&r->in, &shapes) < 0)
        return AL_E_FORMAT;
    if (count > AL_MARKS_ROW || shapes > count)
        return AL_E_TOOBIG;
    r->count = (uint32_t)count;
    r->shape_count = (uint32_t)shapes;
    r->shapes = calloc(count ? count : 1, sizeof *r->shapes);
    r->which = calloc(count ? count : 1, sizeof *r->which);
    r->since = calloc(count ? count : 1, sizeof *r->since);
    r->work = calloc(count ? count : 1, sizeof *r->work);
    return r->shapes && r->which && r->since && r->work ? 0 : AL_E_NOMEM;
}

static int get_shapes(struct reading *r) {
    for (uint32_t s = 0; s < r->shape_count; s++) {
        uint64_t kind, code, device;
        if (al_get_varint(&r->in, &kind) < 0 || al_get_varint(&r->in, &code) < 0 || al_get_varint(&r->in, &device) < 0 ||
            kind > UINT16_MAX || code > UINT16_MAX || device > UINT32_MAX)
            return AL_E_FORMAT;
        r->shapes[s] = (struct shape){(uint16_t)kind, (uint16_t)code, (int32_t)al_unzigzag(device), 0};
    }
    int result = al_column_get(&r->in, r->which, r->count);
    for (uint32_t i = 0; i < r->count && !result; i++) {
        if (r->which[i] < 0 || r->which[i] >= r->shape_count)
            return AL_E_FORMAT;
        r->shapes[r->which[i]].count++;
    }
    return result;
}

static int get_shape(struct reading *r, uint32_t s, struct al_mark *list) {
    const struct shape *shape = &r->shapes[s];
    for (int column = 0; column < 3; column++) {
        int result = al_column_get(&r->in, r->work, shape->count);
        bool duration = column > 0 && is_duration(shape, column == 2);
        for (uint32_t i = 0, n = 0; i < r->count && !result; i++) {
            if (r->which[i] != s)
                continue;
            int64_t v = r->work[n++];
            if (duration && (v > INT64_MAX / 1000 || v < INT64_MIN / 1000))
                return AL_E_FORMAT;
            *(column == 0 ? &r->since[i] : column == 1 ? &list[i].a : &list[i].b) = duration ? v * 1000 : v;
        }
        if (result)
            return result;
    }
    return 0;
}

// What lies behind the columns is the texts, one after the other.
static int get_texts(struct reading *r, struct al_marks *m) {
    for (uint32_t i = 0; i < r->count; i++) {
        struct al_mark *mark = &m->list[i];
        if (mark->kind != AL_EVENT_TEXT)
            continue;
        if (mark->a < 0 || mark->a > r->in.end - r->in.p)
            return AL_E_FORMAT;
        mark->b = (int64_t)m->text.len;
        al_buf_add(&m->text, (const char *)r->in.p, (size_t)mark->a);
        al_buf_char(&m->text, '\0');
        r->in.p += mark->a;
    }
    return m->text.failed ? AL_E_NOMEM : r->in.p == r->in.end ? 0 : AL_E_FORMAT;
}

static int get_all(struct reading *r, struct al_marks *m) {
    uint64_t at = 0; // wraps like the writer's differences
    int result = get_shapes(r);
    m->list = calloc(r->count ? r->count : 1, sizeof *m->list);
    m->count = m->cap = m->list ? r->count : 0;
    if (!m->list)
        return AL_E_NOMEM;
    for (uint32_t s = 0; s < r->shape_count && !result; s++)
        result = get_shape(r, s, m->list);
    for (uint32_t i = 0; i < r->count && !result; i++) {
        const struct shape *shape = &r->shapes[r->which[i]];
        at += (uint64_t)r->since[i];
        if ((int64_t)at > TIME_MOST / 1000 || (int64_t)at < -TIME_MOST / 1000)
            return AL_E_FORMAT;
        m->list[i].at_ns = (int64_t)at * 1000;
        m->list[i].kind = shape->kind;
        m->list[i].code = shape->code;
        m->list[i].device = shape->device;
    }
    return result ? result : get_texts(r, m);
}

int al_marks_decode(const uint8_t *bytes, size_t len, struct al_marks *ret) {
    struct reading r = {.in = {bytes, bytes + len}};
    int result = get_head(&r);
    if (!result)
        result = get_all(&r, ret);
    free(r.shapes);
    free(r.which);
    free(r.since);
    free(r.work);
    if (result)
        al_marks_done(ret);
    return result;
}
