// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/err.h"
#include "series/rate.h"
#include "suites.h"

#define S 1000000000LL

static void test_rate_and_reset(void **unused)
{
    (void)unused;
    struct al_rate r = {0};
    double rate = -1;
    assert_int_equal(al_rate_push(&r, 1 * S, 1000, &rate), 0); // what was there before is no rate
    assert_int_equal(al_rate_push(&r, 3 * S, 1500, &rate), 1);
    assert_close(rate, 250, 0);
    assert_int_equal(al_rate_push(&r, 3 * S, 9999, &rate), 0); // the same reading
    assert_int_equal(al_rate_push(&r, 4 * S, 7, &rate), 0);    // reset: left out once
    assert_close(rate, 250, 0);
    assert_int_equal(r.resets, 1);
    assert_int_equal(al_rate_push(&r, 5 * S, 10, &rate), 1);
    assert_close(rate, 3, 0);
    assert_int_equal(al_rate_push(&r, 6 * S, 10, &rate), 1);
    assert_close(rate, 0, 0);
    assert_int_equal(al_rate_push(&r, 7 * S, NAN, &rate), AL_E_INVALID);
    assert_int_equal(al_rate_push(&r, 8 * S, 12, &rate), 1);
    assert_close(rate, 1, 0);
}

static void test_rise(void **unused)
{
    (void)unused;
    struct al_rate r = {0};
    double rise = -1;
    assert_int_equal(al_rate_rise(&r, 1, 5, &rise), 0);
    assert_int_equal(al_rate_rise(&r, 2, 7, &rise), 1);
    assert_close(rise, 2, 0);
    assert_int_equal(al_rate_rise(&r, 3, 6, &rise), 0);
    assert_close(rise, 2, 0);
}

int rate_suite(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rate_and_reset), cmocka_unit_test(test_rise)};
    return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
