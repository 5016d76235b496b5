// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "world.h"

static void make(struct world *w)
{
    world_make(w, 1);
    world_job(w, 1);
    world_gpu(w, 0, AL_GPU_UTIL, 0.98);
    world_gpu(w, 0, AL_GPU_UTIL_MEAN, 0.98);
    world_gpu(w, 0, AL_GPU_POWER, 500);
    world_gpu(w, 0, AL_GPU_EVENT_HW_THERMAL, 100);
}

static void mask(struct world *w, int ticks, int bits)
{
    world_gpu(w, 0, AL_GPU_THROTTLE, bits);
    for (int i = 0; i < ticks; i++) {
        if (bits & 0x40)
            w->s->gpus[0].m[AL_GPU_EVENT_HW_THERMAL].num += 0.4;
        world_tick(w);
    }
}

static void test_heat(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    mask(&w, 10, 0);
    assert_int_equal(w.count, 0);
    world_gpu(&w, 0, AL_GPU_TEMP, 88);
    world_gpu(&w, 0, AL_GPU_CLOCK_SM, 1200e6);
    mask(&w, 1, 0x48); // 1 of 10 readings
    assert_int_equal(w.count, 0);
    mask(&w, 1, 0x48);
    assert_int_equal(w.count, 1);
    const struct al_finding *f = &w.log[0];
    assert_string_equal(f->key, "throttled/GPU-0");
    assert_string_equal(f->title, "throttled by heat");
    assert_int_equal(f->level, AL_LEVEL_WARNING);
    assert_string_equal(f->message, "GPU 0: hw_thermal_slowdown in 20.0 % of the last 10 readings; SM clock 1200 MHz of at "
                                    "most 1980 MHz, 88 \302\260C, 500 W");
    assert_true(evidence(f, "hw_thermal_slowdown") == 0.2);
    assert_true(fabs(evidence(f, "clocks_event_hw_thermal_slowdown_seconds") - 0.8) < 1e-9);
    assert_int_equal(f->confidence, AL_CONFIDENCE_HIGH); // reason, clock and temperature
    mask(&w, 9, 0); // one of ten left: half the limit, still open
    assert_non_null(world_open(&w, "throttled"));
    mask(&w, 1, 0);
    assert_null(world_open(&w, "throttled"));
    world_free(&w);
}

static void test_each_reason(void **unused)
{
    (void)unused;
    static const struct {
        int bits;
        const char *title, *part;
    } cases[] = {
        {0x20, "throttled by heat", "sw_thermal_slowdown"},
        {0x88, "throttled by the power brake", "hw_power_brake_slowdown"},
        {0x08, "throttled by hardware", "hw_slowdown"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world w;
        make(&w);
        mask(&w, 10, cases[i].bits);
        assert_int_equal(w.count, 1);
        assert_string_equal(w.log[0].title, cases[i].title);
        assert_has(w.log[0].message, cases[i].part);
        world_free(&w);
    }
}

static void test_power_cap_is_info(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    world_gpu(&w, 0, AL_GPU_POWER, 698);
    mask(&w, 30, 0x4);
    assert_int_equal(world_log_count(&w, "throttled", AL_PHASE_BEGAN), 1);
    assert_int_equal(w.log[0].level, AL_LEVEL_INFO);
    assert_string_equal(w.log[0].key, "throttled/GPU-0/power");
    assert_has(w.log[0].advice, "Normal at full load");
    world_free(&w);
}

static void test_healthy_twins(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    mask(&w, 40, 0x1 | 0x2 | 0x10); // idle, application clocks, sync boost
    assert_int_equal(w.count, 0);
    world_gpu(&w, 0, AL_GPU_UTIL, 0.0);
    mask(&w, 20, 0x40); // idle and hot: worth an info only
    assert_int_equal(w.log[0].level, AL_LEVEL_INFO);
    world_free(&w);
}

static void test_too_little_and_cannot_tell(void **unused)
{
    (void)unused;
    struct world w;
    char why[160];
    make(&w);
    mask(&w, 9, 0x40);
    assert_int_equal(w.count, 0);
    assert_int_equal(world_verdict(&w, "throttled", "GPU-0", why, sizeof why), AL_VERDICT_TOO_LITTLE_DATA);
    mask(&w, 1, 0x40);
    assert_non_null(world_open(&w, "throttled"));
    world_gpu_status(&w, 0, AL_GPU_THROTTLE, AL_STATUS_UNSUPPORTED);
    world_tick(&w);
    assert_cannot(&w, "throttled", "GPU-0", "does not say");
    assert_non_null(world_open(&w, "throttled")); // outlives the signal for 10 s
    world_ticks(&w, 20);
    assert_null(world_open(&w, "throttled"));
    world_free(&w);
}

// A window is as long with short ticks: one hot moment of 200 ms is no fifth of it.
static void test_short_ticks(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    w.s->interval_ns = SEC / 10;
    world_gpu(&w, 0, AL_GPU_TEMP, 88);
    mask(&w, 49, 0);
    mask(&w, 9, 0x20);
    assert_int_equal(w.count, 0);
    mask(&w, 1, 0x20);
    assert_int_equal(w.count, 1);
    assert_has(w.log[0].message, "in 20.0 % of the last 50 readings");
    world_free(&w);
}

static void test_what_backs_it(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    world_gpu(&w, 0, AL_GPU_TEMP, 60); // the core is cool, but the margin is used up: memory
    world_gpu(&w, 0, AL_GPU_TEMP_MARGIN, 3);
    world_gpu_status(&w, 0, AL_GPU_CLOCK_SM_MAX, AL_STATUS_ERROR);
    mask(&w, 10, 0x20);
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_MEDIUM);
    assert_null(strstr(w.log[0].message, "MHz"));
    world_free(&w);
    make(&w);
    world_gpu(&w, 0, AL_GPU_TEMP, 60); // nothing else shows heat
    mask(&w, 10, 0x20);
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_LOW);
    assert_int_equal(w.log[0].level, AL_LEVEL_INFO);
    world_free(&w);
    make(&w);
    world_gpu(&w, 0, AL_GPU_POWER, 690);
    mask(&w, 10, 0x4);
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_MEDIUM);
    world_free(&w);
    make(&w);
    world_gpu(&w, 0, AL_GPU_POWER, 300);
    mask(&w, 10, 0x4);
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_LOW);
    world_free(&w);
}

int throttled_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heat),          cmocka_unit_test(test_each_reason),
        cmocka_unit_test(test_power_cap_is_info), cmocka_unit_test(test_healthy_twins),
        cmocka_unit_test(test_too_little_and_cannot_tell),
        cmocka_unit_test(test_what_backs_it), cmocka_unit_test(test_short_ticks),
    };
    return cmocka_run_group_tests_name("throttled", tests, NULL, NULL);
}
