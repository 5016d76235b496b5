// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "world.h"

static void make(struct world *w)
{
    world_make(w, 4);
    world_job(w, 4);
    for (uint32_t g = 0; g < 4; g++)
        world_gpu(w, g, AL_GPU_UTIL_MEAN, 0.9);
}

static void test_ranks_on_device_0_too(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    for (pid_t pid = 1001; pid < 1004; pid++)
        world_row(&w, 0, pid, 512 * MIB);
    world_ticks(&w, 20);
    assert_int_equal(w.count, 0);
    world_tick(&w);
    assert_int_equal(w.count, 1);
    assert_string_equal(w.log[0].key, "contexts/GPU-0");
    assert_string_equal(w.log[0].message, "GPU 0: 3 ranks (1 to 3) whose own GPU is another one sit here too (pid 1001, "
                                          "1002, 1003), which costs 1.5 GiB");
    assert_true(evidence(&w.log[0], "extra_contexts") == 3);
    assert_true(w.log[0].job == 1000);
    world_drop_proc(&w, 1001);
    world_drop_proc(&w, 1002);
    world_drop_proc(&w, 1003);
    world_tick(&w);
    assert_null(world_open(&w, "contexts"));
    world_free(&w);
}

static void test_worker_with_a_context(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    world_proc(&w, 1200, AL_ROLE_WORKER, -1, 1000)->owner = 1002;
    world_row(&w, 2, 1200, 420 * MIB);
    world_ticks(&w, 21);
    assert_int_equal(w.count, 1);
    assert_string_equal(w.log[0].key, "contexts/GPU-2/workers");
    assert_string_equal(w.log[0].message, "GPU 2: 1 DataLoader worker holds a CUDA context (pid 1200), which costs 420.0 MiB");
    world_free(&w);
}

static void test_healthy_twins(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    world_proc(&w, 5000, AL_ROLE_RANK, 0, 5000); // a model spread over all GPUs by one process of another job
    for (uint32_t g = 0; g < 4; g++)
        world_row(&w, g, 5000, (g == 3 ? 30 : 0.4) * GIB);
    world_row(&w, 1, 1000, 20 * GIB); // pipeline stages that share: large on both
    world_ticks(&w, 60);
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_cannot_tell(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    world_row(&w, 0, 7777, 500 * MIB);
    w.s->gpus[1].process_status = AL_STATUS_ERROR;
    world_ticks(&w, 30);
    assert_cannot(&w, "contexts", "GPU-0", "cannot be seen");
    assert_cannot(&w, "contexts", "GPU-1/workers", "cannot be seen");
    world_free(&w);
}

int contexts_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_on_device_0_too),
        cmocka_unit_test(test_worker_with_a_context),
        cmocka_unit_test(test_healthy_twins),
        cmocka_unit_test(test_cannot_tell),
    };
    return cmocka_run_group_tests_name("contexts", tests, NULL, NULL);
}
