// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/err.h"
#include "suites.h"
#include "tally/floor.h"

#define MIB 1048576.0

// Noise above the floor, as batches of different lengths make it; deterministic.
static double noise(int64_t step) {
    return (double)((uint64_t)step * 2654435761u % 97) * MIB;
}

static void fill(struct al_floor *f, int64_t from, int64_t to, double start, double per_step) {
    for (int64_t step = from; step <= to; step++)
        al_floor_push(f, step, start + per_step * (double)(step - from) + noise(step));
}

static void test_slope_is_exact_without_noise(void **unused) {
    (void)unused;
    struct al_floor f = {0};
    struct al_floor_trend t;
    for (int64_t step = 1; step <= 40; step++)
        al_floor_push(&f, step, 1000 + 3 * (double)step);
    assert_int_equal(al_floor_trend(&f, 20, &t), 0);
    assert_int_equal(t.blocks, 38); // the first two readings are warm-up
    assert_int_equal(t.first_step, 3);
    assert_int_equal(t.last_step, 40);
    assert_true(t.per_step > 2.999999 && t.per_step < 3.000001);
    assert_true(t.low > 2.99 && t.high < 3.01);
    assert_true(t.from == 1009 && t.to == 1000 + 3 * 29);
}

static void test_one_mib_a_step_within_200_steps(void **unused) {
    (void)unused;
    struct al_floor f = {0};
    struct al_floor_trend t;
    fill(&f, 1, 200, 1e10, MIB);
    assert_int_equal(al_floor_trend(&f, 20, &t), 0);
    assert_true(t.low > 0);
    assert_true(t.low <= MIB && t.high >= 0.8 * MIB);
}

static void test_level_and_jump_hold_zero(void **unused) {
    (void)unused;
    struct al_floor level = {0}, jump = {0};
    struct al_floor_trend t;
    fill(&level, 1, 500, 1e10, 0);
    assert_int_equal(al_floor_trend(&level, 20, &t), 0);
    assert_true(t.low <= 0 && t.high >= 0);
    for (int64_t step = 1; step <= 80; step++) // the optimizer's state comes with a late first update
        al_floor_push(&jump, step, step < 10 ? 1e9 : 3e9);
    assert_int_equal(al_floor_trend(&jump, 20, &t), 0);
    assert_true(t.low <= 0);
}

static void test_memory_is_fixed(void **unused) {
    (void)unused;
    struct al_floor f = {0};
    struct al_floor_trend t;
    for (int64_t step = 1; step <= 100000; step++)
        al_floor_push(&f, step, 5 * (double)step);
    assert_int_equal(f.readings, 100000);
    assert_true(f.count <= AL_FLOOR_BLOCKS && f.count >= AL_FLOOR_BLOCKS / 2 - 1);
    assert_int_equal(al_floor_trend(&f, 20, &t), 0);
    assert_true(t.per_step > 4.9999 && t.per_step < 5.0001);
    assert_int_equal(t.first_step, 3);
}

static void test_too_little(void **unused) {
    (void)unused;
    struct al_floor f = {0};
    struct al_floor_trend t;
    for (int64_t step = 1; step <= 21; step++)
        al_floor_push(&f, step, 1);
    assert_int_equal(al_floor_trend(&f, 20, &t), AL_E_AGAIN);
    for (int i = 0; i < 50; i++)
        al_floor_push(&f, 21, 1); // a step number that stands still is no time
    al_floor_push(&f, -5, 1);
    al_floor_push(&f, INT64_MAX, 1);
    assert_int_equal(al_floor_trend(&f, 20, &t), AL_E_AGAIN);
    al_floor_push(&f, 22, 1);
    assert_int_equal(al_floor_trend(&f, 20, &t), 0);
    assert_int_equal(t.last_step, 22);
}

int floor_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slope_is_exact_without_noise), cmocka_unit_test(test_one_mib_a_step_within_200_steps),
        cmocka_unit_test(test_level_and_jump_hold_zero), cmocka_unit_test(test_memory_is_fixed),
        cmocka_unit_test(test_too_little)};
    return cmocka_run_group_tests_name("floor", tests, NULL, NULL);
}
