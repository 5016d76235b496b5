// SPDX-License-Identifier: Apache-2.0
#include "store/column.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

void al_put_varint(struct al_buf *b, uint64_t v) {
    for (; v >= 0x80; v >>= 7)
        al_buf_char(b, (char)(v | 0x80));
    al_buf_char(b, (char)v);
}

int al_get_varint(struct al_bytes *in, uint64_t *ret) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (in->p >= in->end)
            return AL_E_FORMAT;
        uint8_t c = *in->p++;
        if (shift == 63 && c > 1)
            return AL_E_FORMAT;
        v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) {
            *ret = v;
            return 0;
        }
    }
    return AL_E_FORMAT;
}

uint64_t al_zigzag(int64_t v) {
    return (uint64_t)v << 1 ^ (0 - (uint64_t)(v < 0));
}

int64_t al_unzigzag(uint64_t v) {
    return (int64_t)(v >> 1 ^ -(v & 1));
}

// Differences of `order` in place, from the back; arithmetic wraps, and so does its reverse.
static void difference(uint64_t *v, uint32_t count, unsigned order) {
    for (unsigned o = 1; o <= order; o++)
        for (uint32_t i = count; i-- > o;)
            v[i] -= v[i - 1];
}

static void integrate(uint64_t *v, uint32_t count, unsigned order) {
    for (unsigned o = order; o >= 1; o--)
        for (uint32_t i = o; i < count; i++)
            v[i] += v[i - 1];
}

static unsigned bits(uint64_t v) {
    return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

// Sum of the lengths of what is left behind the first `order` numbers, which are stored apart.
static uint64_t price(const uint64_t *v, uint32_t count, unsigned order) {
    uint64_t sum = 0;
    for (uint32_t i = order; i < count; i++)
        sum += bits(al_zigzag((int64_t)v[i]));
    return sum + 16ULL * order;
}

static void put_planes(struct al_buf *b, const uint64_t *v, uint32_t from, uint32_t count, unsigned width) {
    for (unsigned plane = 0; plane < width; plane++)
        for (uint32_t i = from; i < count; i++)
            al_buf_char(b, (char)(v[i] >> (8 * plane)));
}

static int get_planes(struct al_bytes *in, uint64_t *v, uint32_t from, uint32_t count, unsigned width) {
    size_t each = count - from;
    if ((size_t)(in->end - in->p) < each * width)
        return AL_E_FORMAT;
    for (uint32_t i = from; i < count; i++)
        v[i] = 0;
    for (unsigned plane = 0; plane < width; plane++)
        for (uint32_t i = from; i < count; i++)
            v[i] |= (uint64_t)*in->p++ << (8 * plane);
    return 0;
}

int al_column_put(struct al_buf *b, const int64_t *v, uint32_t count) {
    if (!count)
        return 0;
    uint64_t *work = malloc(count * sizeof *work);
    if (!work)
        return AL_E_NOMEM;
    unsigned best = 0;
    uint64_t least = UINT64_MAX;
    for (unsigned order = 0; order <= 2 && order <= count; order++) {
        memcpy(work, v, count * sizeof *work);
        difference(work, count, order);
        uint64_t cost = price(work, count, order);
        if (cost < least) {
            least = cost;
            best = order;
        }
    }
    memcpy(work, v, count * sizeof *work);
    difference(work, count, best);
    uint64_t any = 0;
    for (uint32_t i = 0; i < count; i++) {
        work[i] = al_zigzag((int64_t)work[i]);
        any |= i >= best ? work[i] : 0;
    }
    unsigned width = (bits(any) + 7) / 8;
    al_buf_char(b, (char)(best << 4 | width));
    for (uint32_t i = 0; i < best; i++)
        al_put_varint(b, work[i]);
    put_planes(b, work, best, count, width);
    free(work);
    return b->failed ? AL_E_NOMEM : 0;
}

int al_column_get(struct al_bytes *in, int64_t *ret, uint32_t count) {
    if (!count)
        return 0;
    if (in->p >= in->end)
        return AL_E_FORMAT;
    unsigned order = *in->p >> 4, width = *in->p & 15;
    in->p++;
    if (order > 2 || width > 8 || order > count)
        return AL_E_FORMAT;
    uint64_t *v = (uint64_t *)ret;
    for (uint32_t i = 0; i < order; i++)
        if (al_get_varint(in, &v[i]) < 0)
            return AL_E_FORMAT;
    int result = get_planes(in, v, order, count, width);
    if (result)
        return result;
    for (uint32_t i = 0; i < count; i++)
        v[i] = (uint64_t)al_unzigzag(v[i]);
    integrate(v, count, order);
    return 0;
}

// 1e9 last: nanoseconds of long times are over 2^53 of the smaller scales' range only there.
static const double scales[] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e9};
#define SCALES (sizeof scales / sizeof *scales)
enum { FORM_XOR = 15 };

static bool fits(double v, double scale, int64_t *ret) {
    double scaled = nearbyint(v * scale);
    if (!(fabs(scaled) < 9007199254740992.0) || (scaled == 0 && signbit(v)))
        return false;
    *ret = (int64_t)scaled;
    return (double)*ret / scale == v;
}

static bool to_integers(const double *v, uint32_t count, double scale, int64_t *ret) {
    for (uint32_t i = 0; i < count; i++)
        if (!fits(v[i], scale, &ret[i]))
            return false;
    return true;
}

static uint64_t common(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int put_scaled(struct al_buf *b, int64_t *v, uint32_t count, unsigned scale) {
    uint64_t divisor = 0;
    int64_t base = v[0];
    for (uint32_t i = 1; i < count && divisor != 1; i++)
        divisor = common(divisor, (uint64_t)(v[i] > base ? v[i] - base : base - v[i]));
    al_buf_char(b, (char)scale);
    al_put_varint(b, al_zigzag(base));
    al_put_varint(b, divisor); // 0: all are the base
    if (!divisor)
        return b->failed ? AL_E_NOMEM : 0;
    for (uint32_t i = 0; i < count; i++)
        v[i] = (v[i] - base) / (int64_t)divisor;
    return al_column_put(b, v, count);
}

static int put_xor(struct al_buf *b, const double *v, uint32_t count) {
    uint64_t *work = malloc(count * sizeof *work), before = 0;
    if (!work)
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t now;
        memcpy(&now, &v[i], sizeof now);
        work[i] = now ^ before;
        before = now;
    }
    al_buf_char(b, FORM_XOR);
    put_planes(b, work, 0, count, 8);
    free(work);
    return b->failed ? AL_E_NOMEM : 0;
}

int al_numbers_put(struct al_buf *b, const double *v, uint32_t count) {
    if (!count)
        return 0;
    int64_t *work = malloc(count * sizeof *work);
    int result = work ? 1 : AL_E_NOMEM;
    for (unsigned s = 0; s < SCALES && result > 0; s++)
        if (to_integers(v, count, scales[s], work))
            result = put_scaled(b, work, count, s);
    free(work);
    return result > 0 ? put_xor(b, v, count) : result;
}

static int get_scaled(struct al_bytes *in, double *ret, uint32_t count, double scale) {
    uint64_t base, divisor;
    if (al_get_varint(in, &base) < 0 || al_get_varint(in, &divisor) < 0)
        return AL_E_FORMAT;
    int64_t first = al_unzigzag(base);
    int64_t *work = divisor ? malloc(count * sizeof *work) : NULL;
    if (divisor && !work)
        return AL_E_NOMEM;
    int result = divisor ? al_column_get(in, work, count) : 0;
    for (uint32_t i = 0; i < count && !result; i++) {
        uint64_t step = divisor ? (uint64_t)work[i] * divisor : 0;
        ret[i] = (double)(int64_t)((uint64_t)first + step) / scale;
    }
    free(work);
    return result;
}

int al_numbers_get(struct al_bytes *in, double *ret, uint32_t count) {
    if (!count)
        return 0;
    if (in->p >= in->end)
        return AL_E_FORMAT;
    unsigned form = *in->p++;
    if (form < SCALES)
        return get_scaled(in, ret, count, scales[form]);
    if (form != FORM_XOR)
        return AL_E_FORMAT;
    uint64_t before = 0, *work = malloc(count * sizeof *work);
    int result = work ? get_planes(in, work, 0, count, 8) : AL_E_NOMEM;
    for (uint32_t i = 0; i < count && !result; i++) {
        before ^= work[i];
        memcpy(&ret[i], &before, sizeof before);
        if (!isfinite(ret[i]))
            result = AL_E_FORMAT;
    }
    free(work);
    return result;
}
