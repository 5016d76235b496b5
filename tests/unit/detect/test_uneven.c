// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "world.h"

#define JOB "job-1000-6000"

static void make(struct world *w, uint32_t gpus, double busy, double idle, uint32_t odd, bool odd_is_busy)
{
    world_make(w, gpus);
    world_job(w, gpus);
    w->set.inefficient_enabled = 0; // the idle ones are also that
    world_settings(w);
    for (uint32_t g = 0; g < gpus; g++) {
        bool is_busy = (g == odd) == odd_is_busy;
        world_gpu(w, g, AL_GPU_UTIL_MEAN, is_busy ? busy : idle);
        world_gpu(w, g, AL_GPU_POWER, is_busy ? 600 : 120);
    }
}

static void test_one_busy_others_idle(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 4, 0.97, 0.12, 2, true);
    world_ticks(&w, 9);
    assert_int_equal(w.count, 0);
    world_tick(&w);
    assert_int_equal(w.count, 1);
    const struct al_finding *f = &w.log[0];
    assert_string_equal(f->key, "uneven/" JOB);
    assert_string_equal(f->message, "GPU 2 (pid 1002 rank 2) is at 97.0 % while the other 3 of job 1000 are at "
                                    "12.0 % or less, for 5 s");
    assert_has(f->considered, "draw 85.7 % of their power limit: they compute");
    assert_int_equal(f->confidence, AL_CONFIDENCE_HIGH);
    assert_true(f->gpu == 2 && f->pid == 1002 && f->job == 1000);
    world_gpu(&w, 1, AL_GPU_UTIL_MEAN, 0.5);
    world_tick(&w);
    assert_null(world_open(&w, "uneven"));
    world_free(&w);
}

static void test_a_checkpoint_of_one_rank(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 4, 1.0, 0.0, 0, false);
    world_host(&w, 1000, AL_PROC_WRITE_RATE, 900 * MIB);
    world_ticks(&w, 60);
    world_host(&w, 1000, AL_PROC_WRITE_RATE, 0);
    world_ticks(&w, 8);
    assert_int_equal(w.count, 0);
    world_ticks(&w, 8);
    assert_int_equal(w.count, 1);
    world_free(&w);
}

static void test_short_ticks_last_as_long(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 4, 0.97, 0.12, 2, true);
    w.s->interval_ns = SEC / 10;
    world_ticks(&w, 47);
    assert_int_equal(w.count, 0);
    world_ticks(&w, 3);
    assert_int_equal(w.count, 1);
    world_free(&w);
}

static void test_one_idle_others_wait_for_it(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 4, 1.0, 0.0, 1, false);
    for (uint32_t g = 0; g < 4; g++)
        world_gpu(&w, g, AL_GPU_POWER, 150); // spinning
    world_ticks(&w, 10);
    const struct al_finding *f = world_open(&w, "uneven");
    assert_non_null(f);
    assert_has(f->message, "GPU 1 (pid 1001 rank 1) is at 0.0 % while the other 3");
    assert_has(f->considered, "may only wait in a collective");
    assert_has(f->advice, "The others wait for it");
    world_free(&w);
}

static void test_healthy_twins(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 4, 0.97, 0.35, 2, true); // not under 30 %
    world_ticks(&w, 30);
    assert_int_equal(w.count, 0);
    for (int i = 0; i < 40; i++) { // turns: each is alone busy for four ticks
        for (uint32_t g = 0; g < 4; g++)
            world_gpu(&w, g, AL_GPU_UTIL_MEAN, g == (uint32_t)i / 4 % 4 ? 1.0 : 0.0);
        world_tick(&w);
    }
    assert_int_equal(w.count, 0);
    world_free(&w);
    make(&w, 2, 0.99, 0.01, 0, true); // two jobs, one GPU each
    world_find(&w, 1001)->job = 1001;
    world_ticks(&w, 30);
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_idle_worker_is_named(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 3, 0.99, 0.02, 2, false);
    world_find(&w, 1002)->role = AL_ROLE_WORKER;
    world_find(&w, 1002)->rank = -1;
    world_find(&w, 1002)->owner = 1000;
    world_ticks(&w, 10);
    assert_has(world_open(&w, "uneven")->message, "pid 1002 (worker of rank 0)");
    assert_has(world_open(&w, "uneven")->considered, "is a DataLoader worker that holds a CUDA context");
    world_free(&w);
}

static void test_cannot_tell_and_stale(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 2, 0.99, 0.02, 0, true);
    world_gpu_status(&w, 1, AL_GPU_UTIL_MEAN, AL_STATUS_STALE);
    world_ticks(&w, 20);
    assert_int_equal(world_log_count(&w, "uneven", AL_PHASE_BEGAN), 0);
    assert_cannot(&w, "uneven", JOB, "not known");
    world_free(&w);
}

static void test_first_gpu_may_be_the_odd_one(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 3, 0.99, 0.02, 0, true);
    world_gpu(&w, 0, AL_GPU_POWER, 349); // just under half the limit: may only wait
    world_ticks(&w, 10);
    assert_non_null(world_open(&w, "uneven"));
    assert_int_equal(world_open(&w, "uneven")->gpu, 0);
    assert_has(world_open(&w, "uneven")->considered, "may only wait");
    world_gpu(&w, 0, AL_GPU_UTIL_MEAN, 0.02); // another one takes its place: counts anew
    world_gpu(&w, 1, AL_GPU_UTIL_MEAN, 0.99);
    world_tick(&w);
    assert_null(world_open(&w, "uneven"));
    world_ticks(&w, 9);
    assert_int_equal(world_open(&w, "uneven")->gpu, 1);
    world_free(&w);
}

int uneven_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_busy_others_idle),  cmocka_unit_test(test_one_idle_others_wait_for_it),
        cmocka_unit_test(test_healthy_twins),         cmocka_unit_test(test_idle_worker_is_named),
        cmocka_unit_test(test_cannot_tell_and_stale), cmocka_unit_test(test_short_ticks_last_as_long),
        cmocka_unit_test(test_a_checkpoint_of_one_rank),
        cmocka_unit_test(test_first_gpu_may_be_the_odd_one),
    };
    return cmocka_run_group_tests_name("uneven", tests, NULL, NULL);
}
