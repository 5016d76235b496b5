// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/db.h"

#define METRICS 5

struct fixture {
    struct al_layouts layouts;
    struct al_part *part;
    struct al_row *row;
};

static const uint16_t codes[2][METRICS] = {
    {AL_STATUS_OK, 1 << 4 | AL_STATUS_OK, AL_STATUS_UNSUPPORTED, AL_STATUS_OK, AL_STATUS_UNREAD},
    {AL_STATUS_OK, 1 << 4 | AL_STATUS_STALE, AL_STATUS_UNSUPPORTED, AL_STATUS_DENIED, AL_STATUS_UNREAD}};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    f->row = calloc(1, sizeof *f->row);
    assert_int_equal(al_layouts_add(&f->layouts, 10, AL_STORE_GPU, codes[0], METRICS), 0);
    assert_int_equal(al_layouts_add(&f->layouts, 11, AL_STORE_GPU, codes[1], METRICS), 0);
    assert_int_equal(al_part_new(AL_STORE_GPU, 0, 3, METRICS, &f->part), 0);
    for (int i = 0; i < 200; i++) {
        bool stale = i % 50 >= 45;
        f->row->t = i * TICK;
        f->row->layout = stale ? 11 : 10;
        f->row->slots = 2;
        f->row->at[0] = i * 500000 - 300 - i % 7; // microseconds
        f->row->at[1] = stale ? 1 : i / 2 * 1000000 - 20;
        f->row->extra[AL_GPU_POSITION] = i >= 100;
        f->row->num[0] = (i * 31 % 100) / 100.0;
        f->row->num[1] = stale ? 7 : i / 2 / 3.0; // read at every other tick
        f->row->num[2] = 0;
        f->row->num[3] = stale ? 0 : 42;
        assert_int_equal(al_part_add(f->part, f->row), 0);
    }
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    al_part_free(f->part);
    al_layouts_done(&f->layouts);
    free(f->row);
    free(f);
    return 0;
}

static void same(const struct al_part *a, const struct al_part *b) {
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->level, b->level);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->metrics, b->metrics);
    assert_int_equal(a->at_count, b->at_count);
    assert_memory_equal(a->t, b->t, a->rows * sizeof *a->t);
    assert_memory_equal(a->extra, b->extra, a->rows * a->extras * sizeof *a->extra);
    assert_memory_equal(a->layout, b->layout, a->rows * sizeof *a->layout);
    assert_memory_equal(a->at, b->at, a->at_count * sizeof *a->at);
    assert_memory_equal(a->num, b->num, (size_t)a->rows * a->metrics * sizeof *a->num);
    if (a->level) {
        assert_memory_equal(a->low, b->low, (size_t)a->rows * a->metrics * sizeof *a->low);
        assert_memory_equal(a->high, b->high, (size_t)a->rows * a->metrics * sizeof *a->high);
    }
}

static void round_trip(const struct al_part *p, const struct al_layouts *layouts, struct al_buf *b) {
    struct al_part *back = NULL;
    assert_int_equal(al_chunk_encode(p, layouts, b), 0);
    assert_int_equal(al_chunk_decode((const uint8_t *)b->data, b->len, layouts, &back), 0);
    same(p, back);
    al_part_free(back);
}

static void test_round_trip(void **state) {
    struct fixture *f = *state;
    struct al_buf b = AL_BUF_INIT;
    round_trip(f->part, &f->layouts, &b);
    al_buf_free(&b);
}

static void test_thinned(void **state) {
    struct fixture *f = *state;
    struct al_part *thin = NULL;
    struct al_buf b = AL_BUF_INIT;
    static const struct al_metric_info metrics[METRICS] = {
        {.kind = AL_KIND_GAUGE}, {.kind = AL_KIND_COUNTER}, {.kind = AL_KIND_GAUGE}, {.kind = AL_KIND_GAUGE}, {.kind = 0}};
    assert_int_equal(al_part_thin(f->part, &f->layouts, metrics, 10 * S, 1, 0, &thin), 0);
    assert_int_equal(thin->rows, 10);
    for (uint32_t r = 0; r < 10; r++) {
        double sum = 0, low = 1, high = 0;
        for (uint32_t i = 20 * r; i < 20 * r + 20; i++) {
            double v = (i * 31 % 100) / 100.0;
            sum += v;
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        assert_int_equal(thin->t[r], r * 10 * S);
        assert_true(fabs(thin->num[r * METRICS] - sum / 20) < 1e-12);
        assert_true(thin->low[r * METRICS] == low && thin->high[r * METRICS] == high);
        // a counter keeps its last value
        assert_true(thin->num[r * METRICS + 1] == f->part->num[(20 * r + 19) * METRICS + 1]);
    }
    round_trip(thin, &f->layouts, &b);
    // Again, to a minute: the extremes stay.
    struct al_part *more = NULL;
    assert_int_equal(al_part_thin(thin, &f->layouts, metrics, 60 * S, 2, 0, &more), 0);
    assert_int_equal(more->rows, 2);
    assert_true(more->low[0] == 0.0 && more->high[0] == 0.99);
    al_part_free(more);
    al_part_free(thin);
    al_buf_free(&b);
}

static void test_damage(void **state) {
    struct fixture *f = *state;
    struct al_buf b = AL_BUF_INIT;
    struct al_part *back = NULL;
    assert_int_equal(al_chunk_encode(f->part, &f->layouts, &b), 0);
    for (size_t cut = 0; cut < b.len; cut++)
        assert_int_equal(al_chunk_decode((const uint8_t *)b.data, cut, &f->layouts, &back), AL_E_FORMAT);
    for (size_t i = 0; i < b.len; i++) { // whatever comes out, nothing is read or written where it must not be
        char old = b.data[i];
        b.data[i] ^= 0x55;
        if (al_chunk_decode((const uint8_t *)b.data, b.len, &f->layouts, &back) == 0)
            al_part_free(back);
        b.data[i] = old;
    }
    al_buf_char(&b, 0);
    assert_int_equal(al_chunk_decode((const uint8_t *)b.data, b.len, &f->layouts, &back), AL_E_FORMAT);
    const struct al_layouts none = {0};
    assert_int_equal(al_chunk_decode((const uint8_t *)b.data, b.len - 1, &none, &back), AL_E_FORMAT);
    al_buf_free(&b);
}

static void test_too_big(void **state) {
    struct fixture *f = *state;
    struct al_part *back = NULL;
    const uint8_t huge[] = {'A', 'L', 'C', 1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 5};
    assert_int_equal(al_chunk_decode(huge, sizeof huge, &f->layouts, &back), AL_E_TOOBIG);
    const uint8_t wide[] = {'A', 'L', 'C', 1, 1, 0, 0x80, 0x80, 0x20, 0xff, 3}; // 524288 rows of 511
    assert_int_equal(al_chunk_decode(wide, sizeof wide, &f->layouts, &back), AL_E_TOOBIG);
}

static void test_checksum(void **state) {
    (void)state;
    char *packed = NULL;
    uint8_t *raw = NULL;
    size_t len = 0, back = 0;
    char text[4000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * i % 251);
    assert_int_equal(al_chunk_pack(text, sizeof text, &packed, &len), 0);
    assert_int_equal(al_chunk_unpack(packed, len, &raw, &back), 0);
    assert_int_equal(back, sizeof text);
    assert_memory_equal(raw, text, sizeof text);
    free(raw);
    for (size_t i = 0; i < len; i++) { // every single flipped bit is found, or makes no difference at all
        packed[i] ^= 0x10;
        if (al_chunk_unpack(packed, len, &raw, &back) == 0) {
            assert_int_equal(back, sizeof text);
            assert_memory_equal(raw, text, sizeof text);
            free(raw);
        }
        packed[i] ^= 0x10;
    }
    assert_int_equal(al_chunk_unpack(packed, len - 1, &raw, &back), AL_E_FORMAT);
    assert_int_equal(al_chunk_unpack(NULL, 0, &raw, &back), AL_E_FORMAT);
    free(packed);
}

int test_chunk(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_thinned, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_too_big, setup, teardown),
                                       cmocka_unit_test(test_checksum)};
    return cmocka_run_group_tests_name("chunk", tests, NULL, NULL);
}
