// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "detect/xid.h"
#include "world.h"

static void xid(struct world *w, uint32_t gpu, uint32_t code)
{
    struct al_gpu *g = &w->s->gpus[gpu];
    uint32_t i = 0;
    while (i < g->xid_count && g->xid[i].code != code)
        i++;
    if (i == g->xid_count)
        g->xid[g->xid_count++] = (struct al_xid){.code = code};
    g->xid[i].count++;
    g->xid[i].last_ns = w->s->monotonic_ns + 1;
}

static void test_ecc_rise(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_gpu(&w, 0, AL_GPU_ECC_UNC_VOL_TOTAL, 5); // from before
    world_ticks(&w, 10);
    assert_int_equal(w.count, 0);
    w.s->gpus[0].m[AL_GPU_ECC_UNC_VOL_TOTAL].num = 7;
    world_tick(&w);
    assert_int_equal(w.count, 1);
    assert_int_equal(w.log[0].level, AL_LEVEL_CRITICAL);
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_HIGH);
    assert_string_equal(w.log[0].message, "GPU 0: 2 uncorrectable ECC errors");
    assert_true(evidence(&w.log[0], "ecc_uncorrected_volatile_total_errors") == 2);
    world_ticks(&w, 599);
    assert_non_null(world_open(&w, "hardware"));
    world_ticks(&w, 2); // 300 s after the last event
    assert_null(world_open(&w, "hardware"));
    w.s->gpus[0].m[AL_GPU_ECC_UNC_VOL_TOTAL].num = 0; // driver reloaded: no event
    world_ticks(&w, 10);
    assert_null(world_open(&w, "hardware"));
    world_free(&w);
}

static void test_one_fault_is_one_finding(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 2);
    world_ticks(&w, 2);
    xid(&w, 1, 45);
    world_tick(&w);
    assert_int_equal(w.log[0].level, AL_LEVEL_INFO);
    xid(&w, 1, 48);
    xid(&w, 1, 45);
    xid(&w, 1, 154);
    w.s->gpus[1].m[AL_GPU_ECC_UNC_VOL_TOTAL].num += 1;
    world_tick(&w);
    assert_int_equal(w.count, 2);
    assert_int_equal(w.log[1].phase, AL_PHASE_UPDATED);
    assert_int_equal(w.log[1].level, AL_LEVEL_CRITICAL);
    assert_string_equal(w.log[1].key, "hardware/GPU-1");
    assert_string_equal(w.log[1].title, "Xid 48: hardware fault");
    assert_string_equal(w.log[1].message, "GPU 1: Xid 48, hardware fault: an uncorrectable (double-bit) memory error; with "
                                          "it Xid 45, Xid 154, 1 uncorrectable ECC errors");
    world_free(&w);
}

static void test_application_fault(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    w.s->gpus[0].xid[0] = (struct al_xid){13, 4, 1}; // before alula looked
    w.s->gpus[0].xid_count = 1;
    world_ticks(&w, 3);
    assert_int_equal(w.count, 0);
    xid(&w, 0, 13);
    world_tick(&w);
    xid(&w, 0, 13); // the same again is seen again
    world_tick(&w);
    const struct al_finding *f = world_open(&w, "hardware");
    assert_int_equal(f->level, AL_LEVEL_WARNING);
    assert_has(f->message, "Xid 13 (2 times), application fault");
    assert_has(f->advice, "compute-sanitizer");
    assert_has(f->considered, "Faulty hardware: unlikely");
    world_free(&w);
}

// A program's fault is no fault of the GPU, though both come at the same time; what only follows goes with the graver.
static void test_program_and_hardware_are_apart(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_ticks(&w, 2);
    xid(&w, 0, 31);
    xid(&w, 0, 45);
    world_tick(&w);
    assert_int_equal(w.count, 1);
    assert_string_equal(w.log[0].key, "hardware/GPU-0/application");
    assert_has(w.log[0].message, "not mapped; with it Xid 45");
    world_ticks(&w, 300);
    xid(&w, 0, 94);
    world_tick(&w);
    assert_has(world_key(&w, "hardware/GPU-0")->message, "Xid 94, hardware fault");
    assert_has(world_key(&w, "hardware/GPU-0")->message, "with it Xid 45");
    assert_null(strstr(world_key(&w, "hardware/GPU-0")->message, "31"));
    world_ticks(&w, 310); // 300 s after each has last come
    assert_null(world_key(&w, "hardware/GPU-0/application"));
    assert_non_null(world_key(&w, "hardware/GPU-0"));
    world_ticks(&w, 300);
    assert_int_equal(world_open_count(&w), 0);
    world_free(&w);
}

static void test_xid_of_the_first_tick_counts(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    xid(&w, 0, 94);
    world_tick(&w);
    assert_int_equal(world_log_count(&w, "hardware", AL_PHASE_BEGAN), 1);
    world_free(&w);
}

static void test_states_and_reset(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 3);
    world_gpu(&w, 0, AL_GPU_REMAP_PENDING, 1);
    world_gpu(&w, 1, AL_GPU_REMAP_PENDING, 1);
    world_gpu(&w, 1, AL_GPU_REMAP_FAILED, 1);
    w.s->gpus[2].info.status = AL_STATUS_RESET;
    world_tick(&w);
    assert_int_equal(world_log_count(&w, "hardware", AL_PHASE_BEGAN), 3);
    assert_has(w.log[0].message, "waits for a reset to be remapped");
    assert_int_equal(w.log[0].level, AL_LEVEL_WARNING);
    assert_has(w.log[1].message, "remapping a bad memory row failed");
    assert_int_equal(w.log[1].level, AL_LEVEL_CRITICAL);
    assert_string_equal(w.log[2].title, "GPU requires a reset");
    world_gpu(&w, 0, AL_GPU_REMAP_PENDING, 0);
    world_tick(&w);
    assert_int_equal(world_log_count(&w, "hardware", AL_PHASE_ENDED), 1);
    world_free(&w);
}

static void test_corrected_rate_is_info(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_gpu(&w, 0, AL_GPU_ECC_COR_VOL_TOTAL, 1e6);
    world_ticks(&w, 60);
    w.s->gpus[0].m[AL_GPU_ECC_COR_VOL_TOTAL].num += 2; // a few are nothing
    world_ticks(&w, 60);
    assert_int_equal(w.count, 0);
    w.s->gpus[0].m[AL_GPU_ECC_COR_VOL_TOTAL].num += 30;
    world_tick(&w);
    assert_int_equal(w.count, 1);
    assert_int_equal(w.log[0].level, AL_LEVEL_INFO);
    world_ticks(&w, 130);
    assert_null(world_open(&w, "hardware"));
    world_free(&w);
}

static void test_remapped_rows_rise(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_ticks(&w, 2);
    w.s->gpus[0].m[AL_GPU_REMAP_COR].num = 1;
    world_tick(&w);
    assert_int_equal(w.log[0].level, AL_LEVEL_INFO);
    w.s->gpus[0].m[AL_GPU_REMAP_UNC].num = 1;
    world_tick(&w);
    assert_int_equal(w.log[1].level, AL_LEVEL_WARNING);
    assert_has(w.log[1].message, "1 memory rows to be remapped after uncorrectable errors; with it 1 memory rows to be "
                                 "remapped after correctable errors");
    world_free(&w);
}

static void test_cannot_tell(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        world_gpu_status(&w, 0, m, AL_STATUS_UNSUPPORTED);
    world_ticks(&w, 3);
    assert_int_equal(w.count, 0);
    assert_cannot(&w, "hardware", "GPU-0", "neither ECC counters nor Xid");
    assert_cannot(&w, "hardware", "GPU-0/application", "Xid events cannot be read");
    assert_cannot(&w, "hardware", "GPU-0/service", "could not be read");
    assert_cannot(&w, "hardware", "GPU-0/corrected", "could not be read");
    world_free(&w);
}

static void test_xid_table(void **unused)
{
    (void)unused;
    uint32_t count;
    const struct al_xid_info *t = al_xid_table(&count);
    assert_true(count > 45);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(i == 0 || t[i - 1].code < t[i].code);
        assert_true(strlen(t[i].meaning) > 10 && strlen(t[i].action) > 8);
        assert_true(strlen(t[i].action) < sizeof((struct al_finding *)0)->advice);
    }
    assert_int_equal(al_xid_info(79)->level, AL_LEVEL_CRITICAL);
    assert_int_equal(al_xid_info(63)->level, AL_LEVEL_INFO); // a repair that worked
    assert_int_equal(al_xid_info(94)->level, AL_LEVEL_WARNING);
    assert_int_equal(al_xid_info(31)->class, AL_XID_APPLICATION);
    assert_int_equal(al_xid_info(9999)->level, AL_LEVEL_WARNING);
    assert_has(al_xid_info(9999)->meaning, "no words for");
}

int hardware_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ecc_rise),
        cmocka_unit_test(test_one_fault_is_one_finding),
        cmocka_unit_test(test_application_fault),
        cmocka_unit_test(test_program_and_hardware_are_apart),
        cmocka_unit_test(test_xid_of_the_first_tick_counts),
        cmocka_unit_test(test_states_and_reset),
        cmocka_unit_test(test_corrected_rate_is_info),
        cmocka_unit_test(test_remapped_rows_rise),
        cmocka_unit_test(test_cannot_tell),
        cmocka_unit_test(test_xid_table),
    };
    return cmocka_run_group_tests_name("hardware", tests, NULL, NULL);
}
