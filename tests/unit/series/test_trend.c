// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "series/window.h"
#include "suites.h"

#define S 1000000000LL

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void fill(struct al_window *w, const double *values, uint32_t count)
{
    assert_int_equal(al_window_init(w, 0, count), 0);
    for (uint32_t i = 0; i < count; i++)
        al_window_push(w, i * S / 2, values[i]);
}

static void test_quantiles(void **unused)
{
    (void)unused;
    struct al_window w;
    const double values[] = {15, 20, 35, 40, 50};
    fill(&w, values, 5);
    // numpy.quantile([15,20,35,40,50], q), its default method
    assert_close(al_window_quantile(&w, 0), 15, 0);
    assert_close(al_window_quantile(&w, 0.05), 16, 1e-12);
    assert_close(al_window_quantile(&w, 0.4), 29, 1e-12);
    assert_close(al_window_quantile(&w, 0.5), 35, 0);
    assert_close(al_window_quantile(&w, 0.95), 48, 1e-12);
    assert_close(al_window_quantile(&w, 1), 50, 0);
    assert_true(isnan(al_window_quantile(&w, 1.5)) && isnan(al_window_quantile(&w, NAN)));
    al_window_done(&w);
}

static void test_quantile_of_many(void **unused)
{
    (void)unused;
    uint64_t state = seed_of("quantile");
    static double values[2001];
    struct al_window w;
    for (int i = 0; i < 2001; i++)
        values[i] = rand_unit(&state);
    fill(&w, values, 2001);
    qsort(values, 2001, sizeof *values, rising);
    for (int p = 0; p <= 100; p += 5)
        assert_true(al_window_quantile(&w, p / 100.0) >= values[p * 20] - 1e-12 &&
                    al_window_quantile(&w, p / 100.0) <= values[p * 20] + 1e-3);
    assert_close(al_window_quantile(&w, 0.5), values[1000], 0);
    al_window_done(&w);
}

static void test_line(void **unused)
{
    (void)unused;
    struct al_window w;
    struct al_slope slope;
    const double values[] = {1, 2.5, 2.8, 4.6, 4.9, 6.35};
    fill(&w, values, 6);
    assert_int_equal(al_window_slope(&w, INT64_MIN, &slope), 0);
    double tt = 4.375, tv = 0, vv = 0, mean = 22.15 / 6;
    for (int i = 0; i < 6; i++) {
        tv += (i * 0.5 - 1.25) * (values[i] - mean);
        vv += (values[i] - mean) * (values[i] - mean);
    }
    assert_close(slope.per_second, tv / tt, 1e-12);
    assert_close(slope.error, sqrt((vv - tv * tv / tt) / 4 / tt), 1e-12);
    assert_close(slope.high - slope.per_second, 2.776 * slope.error, 1e-12);
    assert_close(slope.per_second - slope.sure_low, 8.610 * slope.error, 1e-12);
    assert_int_equal(slope.count, 6);
    assert_close(slope.seconds, 2.5, 0);
    assert_int_equal(al_window_slope(&w, 3 * S / 2, &slope), 0); // the last three
    assert_int_equal(slope.count, 3);
    assert_int_equal(al_window_slope(&w, 2 * S, &slope), AL_E_AGAIN);
    al_window_done(&w);
}

static void test_exact_line_on_a_large_level(void **unused)
{
    (void)unused;
    struct al_window w;
    struct al_slope slope;
    double values[120];
    for (int i = 0; i < 120; i++)
        values[i] = 1.5e11 + i * 524288.0;
    fill(&w, values, 120);
    assert_int_equal(al_window_slope(&w, INT64_MIN, &slope), 0);
    assert_close(slope.per_second, 1048576, 1e-4);
    assert_close(slope.error, 0, 1);
    assert_int_equal(al_window_robust_slope(&w, INT64_MIN, 64, &slope), 0);
    assert_close(slope.per_second, 1048576, 1e-6);
    assert_close(slope.low, 1048576, 1e-6);
    assert_int_equal(slope.count, 64);
    al_window_done(&w);
}

static void test_robust_by_hand(void **unused)
{
    (void)unused;
    struct al_window w;
    struct al_slope slope;
    // Pair slopes of (0,0) (.5,1) (1,1) (1.5,9) (2,4), per second: 2 1 6 2 | 0 8 2 | 16 3 | -10; median 2.
    // C = 1.96 sqrt(5 4 15 / 18) = 8.0, so the interval is from the 1st to the 10th of the ten.
    const double values[] = {0, 1, 1, 9, 4};
    fill(&w, values, 5);
    assert_int_equal(al_window_robust_slope(&w, INT64_MIN, 128, &slope), 0);
    assert_close(slope.per_second, 2, 1e-12);
    assert_close(slope.low, -10, 1e-12);
    assert_close(slope.high, 16, 1e-12);
    al_window_done(&w);
}

static void test_four_samples_prove_nothing(void **unused)
{
    (void)unused;
    struct al_window w;
    struct al_slope slope;
    const double values[] = {1, 2, 3, 4};
    fill(&w, values, 4);
    assert_int_equal(al_window_robust_slope(&w, INT64_MIN, 128, &slope), 0);
    assert_close(slope.per_second, 2, 1e-12);
    assert_true(slope.low == -INFINITY && slope.high == INFINITY);
    al_window_done(&w);
}

// A jump between two flats, and outliers, are no trend to the robust slope.
static void test_robust_ignores_a_jump(void **unused)
{
    (void)unused;
    struct al_window w;
    struct al_slope slope;
    double values[60];
    for (int i = 0; i < 60; i++)
        values[i] = i < 30 ? 1e9 : 5e9;
    fill(&w, values, 60);
    assert_int_equal(al_window_robust_slope(&w, INT64_MIN, 60, &slope), 0);
    assert_true(slope.low <= 0);
    assert_int_equal(al_window_slope(&w, INT64_MIN, &slope), 0);
    assert_true(slope.low > 0); // least squares takes it for one
    al_window_done(&w);
}

// The 95 % interval holds the true slope in about 95 % of cases (white noise).
static void test_coverage(void **unused)
{
    (void)unused;
    uint64_t state = seed_of("coverage");
    int least = 0, robust = 0;
    for (int run = 0; run < 2000; run++) {
        struct al_window w;
        struct al_slope slope;
        double values[40];
        for (int i = 0; i < 40; i++)
            values[i] = 3.0 * i * 0.5 + rand_unit(&state) + rand_unit(&state) + rand_unit(&state);
        fill(&w, values, 40);
        assert_int_equal(al_window_slope(&w, INT64_MIN, &slope), 0);
        least += slope.low <= 3 && slope.high >= 3;
        assert_int_equal(al_window_robust_slope(&w, INT64_MIN, 128, &slope), 0);
        robust += slope.low <= 3 && slope.high >= 3;
        al_window_done(&w);
    }
    // 1900 expected, standard deviation 10: eight of them to either side.
    assert_in_range(least, 1820, 1980);
    assert_in_range(robust, 1820, 1980);
}

int trend_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_quantile_of_many),
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_exact_line_on_a_large_level),
        cmocka_unit_test(test_robust_by_hand),
        cmocka_unit_test(test_four_samples_prove_nothing),
        cmocka_unit_test(test_robust_ignores_a_jump),
        cmocka_unit_test(test_coverage),
    };
    return cmocka_run_group_tests_name("trend", tests, NULL, NULL);
}
