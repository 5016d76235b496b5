// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "world.h"

static void test_hanging_call(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 2);
    world_ticks(&w, 4);
    strcpy(w.s->hung_call, "nvmlDeviceGetMemoryInfo_v2");
    w.s->hung_since_ns = w.s->monotonic_ns;
    for (uint32_t g = 0; g < 2; g++)
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            if (w.s->gpus[g].m[m].status == AL_STATUS_OK)
                w.s->gpus[g].m[m].status = AL_STATUS_STALE;
    world_ticks(&w, 9);
    assert_int_equal(w.count, 0);
    world_tick(&w);
    assert_int_equal(w.count, 1); // and no finding for each GPU
    assert_string_equal(w.log[0].key, "sensor/driver");
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_HIGH);
    assert_string_equal(w.log[0].message, "driver call nvmlDeviceGetMemoryInfo_v2 has not come back for 5 s: all GPU figures "
                                          "are as old as that");
    world_ticks(&w, 110); // a minute
    assert_int_equal(world_open(&w, "sensor")->level, AL_LEVEL_CRITICAL);
    w.s->gpu_count = 0; // not even listed any more: still one finding
    world_ticks(&w, 20);
    assert_int_equal(world_open_count(&w), 1);
    w.s->gpu_count = 2;
    w.s->hung_call[0] = 0;
    for (uint32_t g = 0; g < 2; g++)
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            if (w.s->gpus[g].m[m].status == AL_STATUS_STALE)
                w.s->gpus[g].m[m].status = AL_STATUS_OK;
    world_tick(&w);
    assert_int_equal(world_open_count(&w), 0);
    world_free(&w);
}

static void test_stale_readings(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 2);
    world_ticks(&w, 2);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        if (w.s->gpus[1].m[m].status == AL_STATUS_OK)
            w.s->gpus[1].m[m].status = AL_STATUS_STALE;
    world_ticks(&w, 9);
    assert_int_equal(w.count, 0);
    world_tick(&w);
    assert_int_equal(w.count, 1);
    assert_string_equal(w.log[0].key, "sensor/GPU-1");
    assert_has(w.log[0].message, "GPU 1: the newest reading is 5 s old");
    world_gpu(&w, 1, AL_GPU_TEMP, 41); // one fresh figure shows that the GPU is heard
    world_tick(&w);
    assert_int_equal(world_open_count(&w), 0);
    world_free(&w);
}

static void test_lost_and_back(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 2);
    world_ticks(&w, 3);
    w.s->gpus[1].info.status = AL_STATUS_LOST;
    w.s->gpus[1].xid[0] = (struct al_xid){79, 1, w.s->monotonic_ns + 1};
    w.s->gpus[1].xid_count = 1;
    world_tick(&w);
    assert_int_equal(w.count, 1); // the Xid is told along, not by itself
    assert_string_equal(w.log[0].key, "sensor/GPU-1");
    assert_int_equal(w.log[0].level, AL_LEVEL_CRITICAL);
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_HIGH);
    assert_string_equal(w.log[0].message, "GPU 1: the driver says that the GPU is lost (Xid 79: no longer reached over PCIe)");
    assert_has(w.log[0].advice, "Restart the machine");
    w.s->gpus[1].info.status = AL_STATUS_OK; // nor is it told again when the GPU is back
    world_ticks(&w, 4);
    assert_int_equal(world_open_count(&w), 0);
    world_free(&w);
}

static void test_gpu_no_longer_listed(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 3);
    strcpy(w.s->gpus[2].info.uuid, "MIG-2");
    w.s->gpus[2].info.is_mig = true;
    world_ticks(&w, 3);
    w.s->gpu_count = 1;
    world_ticks(&w, 9);
    assert_int_equal(w.count, 0);
    world_tick(&w);
    assert_int_equal(w.count, 1); // not the MIG instance
    assert_string_equal(w.log[0].key, "sensor/GPU-1");
    assert_true(w.log[0].gpu == -1 && w.log[0].gpu_index == 1);
    assert_has(w.log[0].message, "has not listed it for 5 s");
    w.s->gpu_count = 2;
    world_tick(&w);
    assert_int_equal(world_open_count(&w), 0);
    world_free(&w);
}

static void test_nothing_read_yet(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        w.s->gpus[0].m[m] = al_value_none(AL_STATUS_UNSUPPORTED);
    world_ticks(&w, 30);
    assert_int_equal(w.count, 0);
    assert_cannot(&w, "sensor", "GPU-0", "no reading");
    world_free(&w);
}

int sensor_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hanging_call),         cmocka_unit_test(test_stale_readings),
        cmocka_unit_test(test_lost_and_back),        cmocka_unit_test(test_gpu_no_longer_listed),
        cmocka_unit_test(test_nothing_read_yet),
    };
    return cmocka_run_group_tests_name("sensor", tests, NULL, NULL);
}
