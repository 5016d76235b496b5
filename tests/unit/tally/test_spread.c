// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "suites.h"
#include "tally/spread.h"

static double noise(uint64_t i) { // in [-0.5, 0.5), deterministic
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    i = (i ^ (i >> 31)) * 0xbf58476d1ce4e5b9u;
    return (double)((i ^ (i >> 29)) >> 11) / 9007199254740992.0 - 0.5;
}

static void test_too_few_say_nothing(void **unused) {
    (void)unused;
    struct al_spread s = {0};
    double error;
    for (int i = 0; i < AL_SPREAD_LEAST - 1; i++)
        al_spread_push(&s, 1);
    assert_false(al_spread_error(&s, &error));
    al_spread_push(&s, 1);
    assert_true(al_spread_error(&s, &error) && error == 0);
}

// Uniform noise of width 1: sigma is 1/sqrt(12), the error of the mean sigma/sqrt(n).
static void test_independent_values(void **unused) {
    (void)unused;
    for (uint64_t n = 100; n <= 1000000; n *= 10) {
        struct al_spread s = {0};
        double error, right = 1 / sqrt(12.0 * (double)n);
        for (uint64_t i = 0; i < n; i++)
            al_spread_push(&s, 5 + noise(i));
        assert_true(al_spread_error(&s, &error));
        assert_true(error > right / 2 && error < right * 2);
    }
}

// Values that stay for 1000 steps are not 1000 times as sure.
static void test_values_that_follow_each_other(void **unused) {
    (void)unused;
    struct al_spread s = {0};
    double error, right = 1 / sqrt(12.0 * 100);
    for (uint64_t i = 0; i < 100000; i++)
        al_spread_push(&s, noise(i / 1000));
    assert_true(al_spread_error(&s, &error));
    assert_true(error > right / 2);
}

int spread_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_too_few_say_nothing), cmocka_unit_test(test_independent_values),
                                       cmocka_unit_test(test_values_that_follow_each_other)};
    return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}
