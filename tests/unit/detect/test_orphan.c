// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "world.h"

static void test_dead_process_holds_memory(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    world_gpu(&w, 0, AL_GPU_UTIL_MEAN, 0.9);
    world_ticks(&w, 4);
    world_gpu(&w, 0, AL_GPU_UTIL_MEAN, 0.0);
    world_find(&w, 1000)->alive = false;
    world_ticks(&w, 20);
    char why[160];
    assert_int_equal(world_verdict(&w, "orphan", "GPU-0", why, sizeof why), AL_VERDICT_TOO_LITTLE_DATA);
    assert_int_equal(w.count, 0); // nor "inefficient": nobody is there to be so
    world_tick(&w);
    assert_int_equal(w.count, 1);
    assert_string_equal(w.log[0].key, "orphan/GPU-0");
    assert_has(w.log[0].message, "GPU 0: 30.0 GiB held for 10 s by pid 1000, which is no longer alive");
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_HIGH);
    assert_int_equal(w.log[0].pid, 1000);
    world_drop_proc(&w, 1000);
    world_tick(&w);
    assert_null(world_open(&w, "orphan"));
    world_free(&w);
}

static void test_used_without_a_process(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_gpu(&w, 0, AL_GPU_MEM_USED, 12 * GIB);
    world_ticks(&w, 21);
    assert_int_equal(w.count, 1);
    assert_has(w.log[0].message, "12.0 GiB used for 10 s, and the driver lists no process");
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_MEDIUM);
    world_free(&w);
}

static void test_healthy_twins(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 3);
    world_gpu(&w, 0, AL_GPU_MEM_USED, 500 * MIB); // a floor
    world_job(&w, 1);
    world_gpu(&w, 0, AL_GPU_UTIL_MEAN, 0.9);
    world_gpu(&w, 0, AL_GPU_MEM_USED, 34 * GIB); // more than its rows tell: contexts, fragmentation of the list
    world_gpu(&w, 2, AL_GPU_MEM_USED, 60 * GIB); // a parent of MIG instances has no process of its own
    w.s->gpus[2].info.mig_enabled = true;
    world_ticks(&w, 60);
    assert_int_equal(w.count, 0);
    for (int i = 0; i < 10; i++) { // processes that end take seconds to give their memory back
        world_gpu(&w, 1, AL_GPU_MEM_USED, 60 * GIB);
        world_ticks(&w, 8);
        world_gpu(&w, 1, AL_GPU_MEM_USED, 0);
        world_ticks(&w, 2);
    }
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_cannot_tell(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 3);
    w.s->node.host_pid_ns = false;
    world_gpu(&w, 0, AL_GPU_MEM_USED, 60 * GIB);
    world_gpu(&w, 1, AL_GPU_MEM_USED, 60 * GIB);
    w.s->gpus[1].process_status = AL_STATUS_DENIED;
    world_gpu_status(&w, 2, AL_GPU_MEM_USED, AL_STATUS_ERROR);
    world_ticks(&w, 40);
    assert_int_equal(w.count, 0);
    assert_cannot(&w, "orphan", "GPU-0", "pid namespace");
    assert_cannot(&w, "orphan", "GPU-1", "process list could not be read");
    assert_cannot(&w, "orphan", "GPU-2", "memory used could not be read");
    world_free(&w);
}

int orphan_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dead_process_holds_memory),
        cmocka_unit_test(test_used_without_a_process),
        cmocka_unit_test(test_healthy_twins),
        cmocka_unit_test(test_cannot_tell),
    };
    return cmocka_run_group_tests_name("orphan", tests, NULL, NULL);
}
