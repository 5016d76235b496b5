// SPDX-License-Identifier: Apache-2.0
// The window against a reference that keeps everything and works each figure out anew.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "series/window.h"
#include "suites.h"

#define MS 1000000LL
#define S 1000000000LL
#define REF_MAX 4096

struct reference {
    struct al_sample kept[REF_MAX];
    uint32_t count;
};

static void reference_drop(struct reference *r, uint32_t n)
{
    memmove(r->kept, r->kept + n, (r->count - n) * sizeof *r->kept);
    r->count -= n;
}

static void reference_push(struct reference *r, int64_t span, uint32_t cap, int64_t at, double value)
{
    if (r->count && at <= r->kept[r->count - 1].at_ns)
        return;
    r->kept[r->count++] = (struct al_sample){at, value};
    if (r->count > cap)
        reference_drop(r, 1);
    uint32_t old = 0;
    while (span && r->kept[old].at_ns <= at - span)
        old++;
    reference_drop(r, old);
}

static void check(const struct al_window *w, const struct reference *r)
{
    assert_int_equal(w->count, r->count);
    if (r->count == 0)
        return;
    long double total = 0, squares = 0;
    double peak = -INFINITY, least = INFINITY, size = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        assert_true(al_window_at(w, i)->at_ns == r->kept[i].at_ns && al_window_at(w, i)->value == r->kept[i].value);
        total += r->kept[i].value;
        peak = fmax(peak, r->kept[i].value);
        least = fmin(least, r->kept[i].value);
        size = fmax(size, fabs(r->kept[i].value));
    }
    long double mean = total / r->count;
    for (uint32_t i = 0; i < r->count; i++)
        squares += (r->kept[i].value - mean) * (r->kept[i].value - mean);
    double deviation = (double)sqrtl(squares / r->count);
    assert_close(al_window_mean(w), (double)mean, 1e-14 * size);
    assert_close(al_window_deviation(w), deviation, 1e-12 * deviation + 1e-15 * size);
    assert_true(al_window_peak(w) == peak);
    assert_true(al_window_min(w) == least);
}

// Shapes that break running sums: levels that jump by many decades, long flats, ramps, small noise on a large level.
static double shape(uint64_t *state, int kind, int i)
{
    switch (kind) {
    case 0:
        return rand_unit(state);
    case 1:
        return 1.5e11 + floor(rand_unit(state) * 4096);
    case 2:
        return (i / 50 % 2 ? 1e15 : 1e-3) * (1 + 1e-6 * rand_unit(state));
    case 3:
        return i / 40 % 3 * 1e9;
    case 4:
        return (double)i * 1048576.0;
    default:
        return -(double)i + rand_unit(state) * 3;
    }
}

static void test_against_reference(void **unused)
{
    (void)unused;
    static struct reference r;
    uint64_t state = seed_of("window");
    for (int run = 0; run < 120; run++) {
        uint32_t cap = 1 + (uint32_t)(rand64(&state) % 150);
        int64_t span = run % 4 == 0 ? 0 : (int64_t)(1 + rand64(&state) % 70) * S;
        struct al_window w;
        assert_int_equal(al_window_init(&w, span, cap), 0);
        r.count = 0;
        int64_t at = -5 * S;
        for (int i = 0; i < 700; i++) {
            uint64_t dice = rand64(&state) % 100;
            at += dice < 3 ? 0 : dice < 5 ? -(int64_t)(rand64(&state) % S)
                : dice < 7 ? (int64_t)(rand64(&state) % 90) * S : (int64_t)(400 + rand64(&state) % 200) * MS;
            double value = shape(&state, run % 6, i);
            reference_push(&r, span, cap, at, value);
            al_window_push(&w, at, value);
            if (w.count)
                at = al_window_last(&w)->at_ns;
            check(&w, &r);
        }
        al_window_done(&w);
    }
}

// Ten million pushes: no figure may have drifted at the end.
static void test_drift(void **unused)
{
    (void)unused;
    static struct reference r;
    uint64_t state = seed_of("drift");
    struct al_window w;
    assert_int_equal(al_window_init(&w, 60 * S, 121), 0);
    r.count = 0;
    const int total = 10000000;
    for (int i = 1; i <= total; i++) {
        double value = shape(&state, i / 1000000 % 3, i);
        al_window_push(&w, i * 500 * MS, value);
        if (total - i < 200)
            reference_push(&r, 60 * S, 121, i * 500 * MS, value);
        if (i % 999983 == 0) {
            assert_int_equal(w.count, 120);
            assert_true(w.removed <= w.count);
        }
    }
    check(&w, &r);
    al_window_done(&w);
}

static void test_minute_is_120_samples(void **unused)
{
    (void)unused;
    struct al_window w;
    assert_int_equal(al_window_capacity(60 * S, 500 * MS), 129);
    assert_int_equal(al_window_init(&w, 60 * S, al_window_capacity(60 * S, 500 * MS)), 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(al_window_push(&w, i * 500 * MS, i), 1);
    assert_int_equal(w.count, 120);
    assert_true(al_window_first(&w)->value == 180 && al_window_last(&w)->value == 299);
    assert_close(al_window_mean(&w), 239.5, 0);
    assert_close(al_window_deviation(&w), sqrt((120.0 * 120 - 1) / 12), 1e-12);
    al_window_done(&w);
}

static void test_same_reading_counts_once(void **unused)
{
    (void)unused;
    struct al_window w;
    assert_int_equal(al_window_init(&w, 60 * S, 10), 0);
    assert_int_equal(al_window_push(&w, 5 * S, 1), 1);
    assert_int_equal(al_window_push(&w, 5 * S, 1), 0);
    assert_int_equal(al_window_push(&w, 4 * S, 9), 0);
    assert_int_equal(al_window_push(&w, 6 * S, NAN), AL_E_INVALID);
    assert_int_equal(al_window_push(&w, 6 * S, INFINITY), AL_E_INVALID);
    assert_int_equal(w.count, 1);
    al_window_done(&w);
}

static void test_empty_and_expired(void **unused)
{
    (void)unused;
    struct al_window w;
    assert_int_equal(al_window_init(&w, 10 * S, 0), AL_E_INVALID);
    assert_int_equal(al_window_init(&w, -1, 4), AL_E_INVALID);
    assert_int_equal(al_window_init(&w, 10 * S, 4), 0);
    assert_true(isnan(al_window_mean(&w)) && isnan(al_window_peak(&w)) && isnan(al_window_deviation(&w)));
    assert_null(al_window_first(&w));
    al_window_push(&w, 1 * S, 7);
    al_window_push(&w, 2 * S, 9);
    al_window_expire(&w, 11 * S); // 1 s is as old as the span: out
    assert_int_equal(w.count, 1);
    assert_close(al_window_mean(&w), 9, 0);
    al_window_expire(&w, 12 * S);
    assert_int_equal(w.count, 0);
    al_window_push(&w, 13 * S, -3);
    assert_close(al_window_mean(&w), -3, 0);
    assert_close(al_window_deviation(&w), 0, 0);
    al_window_done(&w);
    al_window_done(&w);
}

static void test_resize(void **unused)
{
    (void)unused;
    struct al_window w;
    assert_int_equal(al_window_init(&w, 60 * S, 20), 0);
    for (int i = 1; i <= 20; i++)
        al_window_push(&w, i * S, i);
    assert_int_equal(al_window_resize(&w, 5 * S, 8), 0);
    assert_int_equal(w.count, 5);
    assert_close(al_window_mean(&w), 18, 0);
    assert_close(al_window_min(&w), 16, 0);
    assert_int_equal(al_window_resize(&w, 5 * S, 0), AL_E_INVALID);
    assert_int_equal(w.count, 5);
    al_window_done(&w);
}

static void test_share(void **unused)
{
    (void)unused;
    struct al_window w;
    int64_t covered;
    assert_int_equal(al_window_init(&w, 60 * S, 16), 0);
    assert_true(isnan(al_window_share(&w, 1, false, S, &covered)));
    al_window_push(&w, 0, 5);
    al_window_push(&w, 1 * S, 5);
    al_window_push(&w, 3 * S, 1);
    al_window_push(&w, 30 * S, 5); // a gap: stands for 2 s at most
    assert_close(al_window_share(&w, 2, false, 2 * S, &covered), 3.0 / 5, 1e-15);
    assert_true(covered == 5 * S);
    assert_close(al_window_share(&w, 2, true, 2 * S, NULL), 2.0 / 5, 1e-15);
    assert_close(al_window_share(&w, 5, false, 2 * S, NULL), 0, 0);
    al_window_done(&w);
}

int window_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reference), cmocka_unit_test(test_drift),
        cmocka_unit_test(test_minute_is_120_samples), cmocka_unit_test(test_same_reading_counts_once),
        cmocka_unit_test(test_empty_and_expired), cmocka_unit_test(test_resize), cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
