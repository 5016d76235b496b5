// SPDX-License-Identifier: Apache-2.0
// GPUs that get their batches in bursts.
#include <string.h>

#include "world.h"

static void low(struct world *w, uint32_t gpu, double util)
{
    world_gpu(w, gpu, AL_GPU_UTIL_MEAN, util);
}

// Eight workers' batches at once each three seconds: 12 % on average, and never five low ticks in a row.
static void test_bursts_are_judged_by_their_mean(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.95);
    world_ticks(&w, 20);
    for (int i = 0; i < 40; i++) {
        low(&w, 0, 0);
        world_ticks(&w, 4);
        low(&w, 0, i % 2 ? 0.25 : 0.3);
        world_tick(&w);
        low(&w, 0, 0.4);
        world_tick(&w);
    }
    const struct al_finding *f = world_open(&w, "inefficient");
    assert_non_null(f);
    assert_int_equal(f->level, AL_LEVEL_WARNING);
    assert_non_null(strstr(f->message, "ticks under 20.0 %)"));
    assert_non_null(strstr(f->message, " of "));
    double mean = evidence(f, "utilization_mean_ratio");
    assert_true(mean > 0.10 && mean < 0.15);
    low(&w, 0, 0.9); // it ends by the same mean
    world_ticks(&w, 4);
    assert_non_null(world_open(&w, "inefficient"));
    world_ticks(&w, 20);
    assert_null(world_open(&w, "inefficient"));
    world_free(&w);
}

// The same bursts, longer: 43 % on average is not called idle.
static void test_longer_bursts_are_work(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    for (int i = 0; i < 40; i++) {
        low(&w, 0, 0.02);
        world_ticks(&w, 4);
        low(&w, 0, 0.98);
        world_ticks(&w, 3);
    }
    assert_int_equal(w.count, 0);
    world_free(&w);
}

// A long idle time that is over does not come back as bursts.
static void test_idle_time_that_is_over(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.03);
    world_ticks(&w, 60);
    assert_non_null(world_open(&w, "inefficient"));
    low(&w, 0, 0.93);
    world_ticks(&w, 3);
    assert_null(world_open(&w, "inefficient"));
    world_ticks(&w, 60);
    assert_null(world_open(&w, "inefficient"));
    world_free(&w);
}

int inefficient_bursts_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bursts_are_judged_by_their_mean),
        cmocka_unit_test(test_longer_bursts_are_work),
        cmocka_unit_test(test_idle_time_that_is_over),
    };
    return cmocka_run_group_tests_name("inefficient in bursts", tests, NULL, NULL);
}
