// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "world.h"

static void make(struct world *w, uint32_t gpus)
{
    world_make(w, gpus);
    for (uint32_t g = 0; g < gpus; g++)
        world_gpu(w, g, AL_GPU_UTIL, 0.9);
}

static void test_pcie_below_maximum_under_load(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 1);
    world_ticks(&w, 10);
    world_gpu(&w, 0, AL_GPU_PCIE_WIDTH, 8);
    world_ticks(&w, 4);
    assert_int_equal(w.count, 0);
    world_tick(&w);
    assert_int_equal(w.count, 1);
    assert_string_equal(w.log[0].key, "link/GPU-0/pcie");
    assert_string_equal(w.log[0].message, "GPU 0: PCIe runs at generation 5 x8 under load, GPU and slot can do generation 5 "
                                          "x16");
    assert_true(evidence(&w.log[0], "pcie_link_width") == 8);
    world_gpu(&w, 0, AL_GPU_UTIL, 0.0); // idle: neither proof nor end
    world_ticks(&w, 5);
    assert_non_null(world_open(&w, "link"));
    world_gpu(&w, 0, AL_GPU_PCIE_WIDTH, 16);
    world_tick(&w);
    assert_null(world_open(&w, "link"));
    world_free(&w);
}

static void test_idle_link_is_no_fault(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 2);
    world_gpu(&w, 0, AL_GPU_UTIL, 0.02);
    world_gpu(&w, 0, AL_GPU_PCIE_GEN, 1);
    world_gpu(&w, 1, AL_GPU_PSTATE, 8); // low power at 90 % of a slow clock
    world_gpu(&w, 1, AL_GPU_PCIE_GEN, 1);
    world_ticks(&w, 40);
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_replays(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 1);
    world_gpu(&w, 0, AL_GPU_PCIE_REPLAY, 100000); // from before: no event
    world_ticks(&w, 40);
    assert_int_equal(w.count, 0);
    for (int i = 0; i < 40; i++) {
        w.s->gpus[0].m[AL_GPU_PCIE_REPLAY].num += 3; // 6/s; over the minute's mean it passes 1/s
        world_tick(&w);
    }
    assert_int_equal(world_log_count(&w, "link", AL_PHASE_BEGAN), 1);
    assert_string_equal(world_open(&w, "link")->key, "link/GPU-0/replays");
    assert_true(fabs(evidence(world_open(&w, "link"), "pcie_replay_rate") - 120 / 39.5) < 1e-9);
    w.s->gpus[0].m[AL_GPU_PCIE_REPLAY].num = 0; // reset
    world_ticks(&w, 12);
    assert_null(world_open(&w, "link"));
    world_free(&w);
}

static void test_nvlink_down_and_errors(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 2);
    world_ticks(&w, 20);
    world_gpu(&w, 1, AL_GPU_NVLINK_ACTIVE, 16);
    world_tick(&w);
    assert_int_equal(w.count, 1);
    assert_string_equal(w.log[0].key, "link/GPU-1/nvlink");
    assert_string_equal(w.log[0].message, "GPU 1: 16 of 18 NVLink links are up, 18 were up before");
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_HIGH);
    for (int i = 0; i < 20; i++) {
        w.s->gpus[0].m[AL_GPU_NVLINK_CRC].num += 10;
        w.s->gpus[0].m[AL_GPU_NVLINK_REPLAY].num += 10;
        world_tick(&w);
    }
    assert_has(world_key(&w, "link/GPU-0/nvlink-errors")->message, "NVLink replays, CRC errors and recoveries at");
    world_free(&w);
}

static void test_wiring_is_no_fault(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 3);
    for (uint32_t g = 0; g < 3; g++)
        world_gpu(&w, g, AL_GPU_NVLINK_ACTIVE, g == 2 ? 4 : 0); // no bridge; the third is another product
    strcpy(w.s->gpus[2].info.name, "NVIDIA A100");
    world_ticks(&w, 20);
    assert_int_equal(w.count, 0);
    world_gpu(&w, 0, AL_GPU_NVLINK_ACTIVE, 12); // now the same products differ
    world_tick(&w);
    assert_string_equal(w.log[0].gpu_uuid, "GPU-1");
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_MEDIUM);
    world_free(&w);
}

static void test_cannot_tell(void **unused)
{
    (void)unused;
    struct world w;
    char why[160];
    make(&w, 1);
    world_tick(&w);
    assert_int_equal(world_verdict(&w, "link", "GPU-0/replays", why, sizeof why), AL_VERDICT_TOO_LITTLE_DATA);
    world_gpu_status(&w, 0, AL_GPU_PCIE_WIDTH, AL_STATUS_UNSUPPORTED);
    world_gpu_status(&w, 0, AL_GPU_NVLINK_ACTIVE, AL_STATUS_UNSUPPORTED);
    world_gpu_status(&w, 0, AL_GPU_PCIE_REPLAY, AL_STATUS_DENIED);
    world_tick(&w);
    assert_cannot(&w, "link", "GPU-0/pcie", "could not be read");
    assert_cannot(&w, "link", "GPU-0/nvlink", "no NVLink");
    assert_cannot(&w, "link", "GPU-0/replays", "could not be read");
    world_free(&w);
}

static void test_counter_hysteresis(void **unused)
{
    (void)unused;
    struct world w;
    make(&w, 1);
    for (int i = 0; i < 130; i++) {
        w.s->gpus[0].m[AL_GPU_PCIE_REPLAY].num += 0.6; // 1.2/s
        world_tick(&w);
    }
    assert_non_null(world_open(&w, "link"));
    for (int i = 0; i < 130; i++) {
        w.s->gpus[0].m[AL_GPU_PCIE_REPLAY].num += 0.4; // 0.8/s: between half the limit and the limit
        world_tick(&w);
    }
    assert_non_null(world_open(&w, "link"));
    for (int i = 0; i < 130; i++) {
        w.s->gpus[0].m[AL_GPU_PCIE_REPLAY].num += 0.2;
        world_tick(&w);
    }
    assert_null(world_open(&w, "link"));
    assert_int_equal(world_log_count(&w, "link", AL_PHASE_BEGAN), 1);
    world_free(&w);
}

int link_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pcie_below_maximum_under_load), cmocka_unit_test(test_idle_link_is_no_fault),
        cmocka_unit_test(test_replays),                       cmocka_unit_test(test_nvlink_down_and_errors),
        cmocka_unit_test(test_wiring_is_no_fault),            cmocka_unit_test(test_cannot_tell),
        cmocka_unit_test(test_counter_hysteresis),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
