// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "world.h"

// Sets the process's memory and the device's with it.
static void level(struct world *w, uint32_t gpu, pid_t pid, double gib)
{
    for (uint32_t i = 0; i < w->s->row_count; i++)
        if (w->s->rows[i].gpu == gpu && w->s->rows[i].pid == pid)
            w->s->rows[i].memory_bytes.num = gib * GIB;
    world_gpu(w, gpu, AL_GPU_MEM_USED, gib * GIB);
    world_gpu(w, gpu, AL_GPU_MEM_FREE, 140 * GIB - gib * GIB);
}

static void make(struct world *w)
{
    world_make(w, 1);
    world_job(w, 1);
    world_gpu(w, 0, AL_GPU_UTIL_MEAN, 0.95);
}

static void ramp(struct world *w, double from, double to, double per_tick)
{
    for (double x = from; x < to; x += per_tick) {
        level(w, 0, 1000, x);
        world_tick(w);
    }
}

static void test_rising_above_the_limit_fires(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    ramp(&w, 120, 126.5, 0.5); // 90 % is 126.9
    assert_int_equal(w.count, 0);
    ramp(&w, 127, 128.6, 0.5); // four readings above
    assert_int_equal(w.count, 0);
    char why[160];
    assert_int_equal(world_verdict(&w, "memory", "GPU-0", why, sizeof why), AL_VERDICT_TOO_LITTLE_DATA);
    level(&w, 0, 1000, 129);
    world_tick(&w);
    assert_int_equal(w.count, 1);
    const struct al_finding *f = &w.log[0];
    assert_string_equal(f->rule, "memory");
    assert_int_equal(f->level, AL_LEVEL_CRITICAL); // 11 s
    assert_int_equal(f->confidence, AL_CONFIDENCE_MEDIUM);
    assert_string_equal(f->message, "GPU 0: memory 91.5 % used (129.0 of 141.0 GiB) and rising 1.0 GiB/s; full in about "
                                    "11 s (pid 1000 rank 0: process memory rises 1.0 GiB/s)");
    assert_true(fabs(evidence(f, "memory_slope") - GIB) < 1);
    assert_true(fabs(evidence(f, "time_to_full") - 11) < 1e-6);
    assert_true(evidence(f, "limit") == 0.9);
    assert_true(f->pid == 1000 && f->job == 1000);
    world_free(&w);
}

static void test_slow_rise_is_a_warning(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    ramp(&w, 127, 127.6, 0.005); // 10 MiB/s: 20 minutes left
    assert_int_equal(world_log_count(&w, "memory", AL_PHASE_BEGAN), 1);
    assert_int_equal(world_open(&w, "memory")->level, AL_LEVEL_WARNING);
    world_free(&w);
}

static void test_another_window_keeps_the_readings(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    ramp(&w, 126, 128.6, 0.5);
    w.set.memory_window = 30;
    world_settings(&w);
    ramp(&w, 129, 129.6, 0.5);
    assert_non_null(world_open(&w, "memory"));
    world_free(&w);
}

static void test_ends_when_it_falls_or_stays(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    ramp(&w, 126, 131, 0.5);
    assert_non_null(world_open(&w, "memory"));
    level(&w, 0, 1000, 126.5); // below the limit, within the margin
    world_tick(&w);
    assert_non_null(world_open(&w, "memory"));
    level(&w, 0, 1000, 120);
    world_tick(&w);
    assert_null(world_open(&w, "memory"));
    assert_int_equal(world_last(&w, "memory")->phase, AL_PHASE_ENDED);
    ramp(&w, 127, 133, 0.5); // beyond the earlier peak
    assert_non_null(world_open(&w, "memory"));
    world_ticks(&w, 200); // flat
    assert_null(world_open(&w, "memory"));
    world_free(&w);
}

// Healthy twins: a pool filled once (vLLM), noise on a full pool, a square wave that was lived through, a full but
// falling level, a rise far below the limit.
static void test_healthy_twins(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    ramp(&w, 20, 110, 2);
    level(&w, 0, 1000, 134); // the pool in one step
    world_ticks(&w, 240);
    assert_int_equal(w.count, 0);
    for (int i = 0; i < 240; i++) {
        level(&w, 0, 1000, 134 + (i * 7919 % 13) * 0.01);
        world_tick(&w);
    }
    assert_int_equal(w.count, 0);
    ramp(&w, 60, 120, 0.3);
    assert_int_equal(w.count, 0);
    for (double x = 134; x > 127; x -= 0.1) {
        level(&w, 0, 1000, x);
        world_tick(&w);
    }
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_square_wave_is_learned(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    level(&w, 0, 1000, 132);
    world_ticks(&w, 20);
    for (int i = 0; i < 30; i++) { // sleep and wake with ramps of 4 s
        level(&w, 0, 1000, 60);
        world_ticks(&w, 60);
        ramp(&w, 124, 132, 1);
        level(&w, 0, 1000, 132);
        world_ticks(&w, 60);
    }
    assert_int_equal(w.count, 0);
    world_free(&w);
}

// Up and down above the limit: the first climb is one, the turns after it are none.
static void test_sawtooth_is_told_once(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    for (int i = 0; i < 40; i++) {
        ramp(&w, 126, 133, 0.25);
        level(&w, 0, 1000, 126);
        world_ticks(&w, 6);
    }
    assert_int_equal(world_log_count(&w, "memory", AL_PHASE_BEGAN), 1);
    assert_int_equal(world_log_count(&w, "memory", AL_PHASE_ENDED), 1);
    world_free(&w);
}

static void test_staircase_is_one_finding(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    level(&w, 0, 1000, 126);
    world_tick(&w);
    for (int i = 0; i < 12; i++) { // 0.6 GiB each 10 s
        level(&w, 0, 1000, 127.5 + 0.6 * i);
        world_ticks(&w, 20);
    }
    assert_int_equal(world_log_count(&w, "memory", AL_PHASE_BEGAN), 1);
    assert_non_null(world_open(&w, "memory"));
    world_free(&w);
}

// Noise above the limit sets new peaks, too, and is asked about at each of them: 20 draws of five minutes, +-200 MiB.
static void test_noise_is_no_rise(void **unused)
{
    (void)unused;
    uint32_t seed = 12345;
    for (int draw = 0; draw < 20; draw++) {
        struct world w;
        make(&w);
        for (int i = 0; i < 600; i++) {
            seed = seed * 1664525 + 1013904223;
            level(&w, 0, 1000, 130 + ((seed >> 8) % 4001 / 10000.0 - 0.2));
            world_tick(&w);
        }
        assert_int_equal(w.count, 0);
        world_free(&w);
    }
}

static void test_too_slow_or_too_far_is_silent(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    ramp(&w, 127, 127.02, 0.0001); // 0.2 MiB/s
    assert_int_equal(w.count, 0);
    ramp(&w, 127.1, 127.25, 0.001); // 2 MiB/s: 110 minutes left
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_model_size_moves_the_limit(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    ramp(&w, 114, 118, 0.25);
    assert_int_equal(w.count, 0);
    w.set.memory_model_size = 7;
    world_settings(&w);
    ramp(&w, 114, 118, 0.25);
    assert_int_equal(world_log_count(&w, "memory", AL_PHASE_BEGAN), 1);
    assert_true(evidence(&w.log[0], "limit") == 0.8);
    world_free(&w);
}

static void test_unknown_process_is_said(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    w.s->gpus[0].process_status = AL_STATUS_DENIED;
    w.s->row_count = 0;
    ramp(&w, 126, 132, 0.5);
    assert_non_null(world_open(&w, "memory"));
    assert_has(world_open(&w, "memory")->considered, "Which process rises is not known");
    assert_int_equal(world_open(&w, "memory")->confidence, AL_CONFIDENCE_LOW);
    assert_int_equal(world_open(&w, "memory")->pid, 0);
    world_free(&w);
}

static void test_names_the_process_that_rises(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    world_proc(&w, 3000, AL_ROLE_ENGINE, -1, 3000);
    world_row(&w, 0, 3000, 100 * GIB);
    for (int i = 0; i < 12; i++) {
        world_gpu(&w, 0, AL_GPU_MEM_USED, (127 + i * 0.2) * GIB);
        for (uint32_t k = 0; k < w.s->row_count; k++)
            if (w.s->rows[k].pid == 1000)
                w.s->rows[k].memory_bytes.num = (27 + i * 0.2) * GIB;
        world_tick(&w);
    }
    assert_int_equal(world_open(&w, "memory")->pid, 1000);
    world_free(&w);
}

// vLLM and its like fill up to a share that was asked for, and stay there; what rises long after the start is told.
static void test_a_young_engine_fills_its_pool(void **unused)
{
    (void)unused;
    for (int old = 0; old < 2; old++) {
        struct world w;
        make(&w);
        world_find(&w, 1000)->role = AL_ROLE_ENGINE;
        world_find(&w, 1000)->started_realtime_ns = w.s->realtime_ns - (old ? 1000 : 120) * SEC;
        ramp(&w, 120, 132, 0.25);
        assert_int_equal(w.count, old);
        char why[160];
        assert_int_equal(world_verdict(&w, "memory", "GPU-0", why, sizeof why),
                         old ? AL_VERDICT_FINDING : AL_VERDICT_TOO_LITTLE_DATA);
        world_free(&w);
    }
}

static void test_no_slope_is_told_while_it_stays(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    ramp(&w, 120, 133, 0.25);
    world_ticks(&w, 6);
    uint32_t told = w.count;
    assert_non_null(world_open(&w, "memory"));
    world_ticks(&w, 48); // 27 s in all
    assert_non_null(world_open(&w, "memory"));
    assert_int_equal(w.count, told);
    world_ticks(&w, 8);
    assert_null(world_open(&w, "memory"));
    world_free(&w);
}

// A MIG device's own number counts within its GPU, whose number is the one to tell.
static void test_names_the_gpu_of_a_mig_device(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 2);
    world_job(&w, 1);
    w.s->gpus[0].info.index = 3; // the only one that is shown
    w.s->gpus[0].info.mig_enabled = true;
    w.s->gpus[1].info = (struct al_gpu_info){.is_mig = true, .parent = 0, .index = 1, .gpu_instance = 5,
                                              .status = AL_STATUS_OK};
    strcpy(w.s->gpus[1].info.uuid, "MIG-5");
    w.s->rows[0].gpu = 1;
    for (double x = 120; x < 132; x += 0.5) {
        level(&w, 1, 1000, x);
        world_tick(&w);
    }
    assert_has(world_key(&w, "memory/MIG-5")->message, "GPU 3 MIG 5/0: memory ");
    assert_true(w.log[0].gpu == 1 && w.log[0].gpu_index == 3);
    world_free(&w);
}

static void test_cannot_tell(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 3);
    w.s->gpus[0].info.unified_memory = true;
    world_gpu_status(&w, 0, AL_GPU_MEM_USED, AL_STATUS_UNSUPPORTED);
    world_gpu_status(&w, 1, AL_GPU_MEM_USED, AL_STATUS_ERROR);
    w.s->gpus[2].info.mig_enabled = true;
    world_ticks(&w, 3);
    assert_cannot(&w, "memory", "GPU-0", "unified memory");
    assert_cannot(&w, "memory", "GPU-1", "could not be read");
    char why[160];
    assert_int_equal(world_verdict(&w, "memory", "GPU-2", why, sizeof why), AL_VERDICT_QUIET);
    world_free(&w);
}

static void test_plateau_above_the_learned_peak(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    for (int i = 0; i < 1250; i++) { // 625 s between 40 and 50
        level(&w, 0, 1000, 40 + i % 11);
        world_tick(&w);
    }
    assert_int_equal(w.count, 0);
    for (int i = 0; i < 200; i++) { // peaks above, no plateau
        level(&w, 0, 1000, i % 20 ? 48 : 60);
        world_tick(&w);
    }
    assert_int_equal(w.count, 0);
    level(&w, 0, 1000, 58);
    world_ticks(&w, 140);
    assert_int_equal(world_log_count(&w, "memory", AL_PHASE_BEGAN), 1);
    assert_int_equal(w.log[0].level, AL_LEVEL_INFO);
    assert_string_equal(w.log[0].key, "memory/GPU-0/baseline");
    assert_has(w.log[0].message, "8.0 GiB over its learned peak of 50.0 GiB");
    world_free(&w);
}

int memory_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rising_above_the_limit_fires), cmocka_unit_test(test_slow_rise_is_a_warning),
        cmocka_unit_test(test_ends_when_it_falls_or_stays),  cmocka_unit_test(test_healthy_twins),
        cmocka_unit_test(test_square_wave_is_learned),       cmocka_unit_test(test_too_slow_or_too_far_is_silent),
        cmocka_unit_test(test_noise_is_no_rise), cmocka_unit_test(test_sawtooth_is_told_once),        cmocka_unit_test(test_staircase_is_one_finding),
        cmocka_unit_test(test_model_size_moves_the_limit),   cmocka_unit_test(test_unknown_process_is_said),
        cmocka_unit_test(test_names_the_process_that_rises), cmocka_unit_test(test_a_young_engine_fills_its_pool),
        cmocka_unit_test(test_names_the_gpu_of_a_mig_device), cmocka_unit_test(test_no_slope_is_told_while_it_stays),
        cmocka_unit_test(test_cannot_tell),
        cmocka_unit_test(test_plateau_above_the_learned_peak), cmocka_unit_test(test_another_window_keeps_the_readings),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
