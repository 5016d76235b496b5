// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "series/change.h"

#define N 400

static struct al_sample series[N];

static double noise(int i) { // repeatable, about -1..1
    return (double)((i * 2654435761U >> 7) % 2001) / 1000 - 1;
}

static void fill(double (*f)(int)) {
    for (int i = 0; i < N; i++)
        series[i] = (struct al_sample){i * 500000000LL, f(i)};
}

static double flat(int i) {
    return 50 + noise(i);
}
static double climb(int i) {
    return 10 + 0.5 * i + noise(i);
}
static double step(int i) {
    return (i < 150 ? 100 : 130) + noise(i);
}
static double leak(int i) { // level until 200, then 2 a sample
    return 100 + (i < 200 ? 0 : 2.0 * (i - 200)) + noise(i);
}
static double constant(int i) {
    (void)i;
    return 3;
}
static double stairs(int i) {
    return 100.0 * (i / 50) + noise(i);
}
static double repeated(int i) { // each reading twice
    return 50 + noise(i / 2);
}

static void test_noise_and_climbs_change_nothing(void **state) {
    (void)state;
    struct al_segment s[9];
    double (*const shapes[])(int) = {flat, climb, constant, repeated};
    for (int i = 0; i < 4; i++) {
        fill(shapes[i]);
        assert_int_equal(al_segments(series, N, 5, s, 9), 1);
        assert_int_equal(s[0].from, 0);
        assert_int_equal(s[0].to, N);
    }
    fill(climb);
    assert_int_equal(al_segments(series, N, 5, s, 9), 1);
    assert_true(fabs(s[0].per_second - 1.0) < 0.01); // 0.5 a sample of half a second
    assert_true(fabs(s[0].first - 10) < 0.5 && fabs(s[0].last - 209.5) < 0.5);
    fill(constant);
    assert_int_equal(al_segments(series, N, 5, s, 9), 1);
    assert_true(s[0].first == 3 && s[0].last == 3 && s[0].per_second == 0);
}

static void test_a_step(void **state) {
    (void)state;
    struct al_segment s[9];
    fill(step);
    assert_int_equal(al_segments(series, N, 5, s, 9), 2);
    assert_int_equal(s[0].to, 150);
    assert_int_equal(s[1].from, 150);
    assert_int_equal(s[1].to, N);
    assert_true(fabs(s[0].last - 100) < 1 && fabs(s[1].first - 130) < 1);
    assert_true(fabs(s[0].per_second) < 0.05 && fabs(s[1].per_second) < 0.05);
}

static void test_a_leak_begins(void **state) {
    (void)state;
    struct al_segment s[9];
    fill(leak);
    assert_int_equal(al_segments(series, N, 5, s, 9), 2);
    assert_in_range(s[1].from, 195, 205);
    assert_true(fabs(s[0].per_second) < 0.05 && fabs(s[1].per_second - 4) < 0.05);
}

static void test_the_clearest_are_kept(void **state) {
    (void)state;
    struct al_segment s[32];
    fill(stairs);
    assert_int_equal(al_segments(series, N, 5, s, 32), 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(s[i].from, 50 * i);
    int few = al_segments(series, N, 5, s, 4);
    assert_in_range(few, 1, 4);
    assert_int_equal(s[0].from, 0);
    assert_int_equal(s[few - 1].to, N);
}

static void test_short_and_wrong(void **state) {
    (void)state;
    struct al_segment s[4];
    fill(step);
    assert_int_equal(al_segments(series, 4, 5, s, 4), 0);
    assert_int_equal(al_segments(series, 0, 5, s, 4), 0);
    assert_int_equal(al_segments(series, 5, 5, s, 4), 1);
    assert_int_equal(al_segments(series, N, 2, s, 4), AL_E_INVALID);
    assert_int_equal(al_segments(series, 65537, 5, s, 4), AL_E_INVALID);
}

int change_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise_and_climbs_change_nothing), cmocka_unit_test(test_a_step),
        cmocka_unit_test(test_a_leak_begins), cmocka_unit_test(test_the_clearest_are_kept),
        cmocka_unit_test(test_short_and_wrong)};
    return cmocka_run_group_tests_name("change", tests, NULL, NULL);
}
