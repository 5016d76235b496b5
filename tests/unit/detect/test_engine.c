// SPDX-License-Identifier: Apache-2.0
// The machinery: groups, switching off, lost signals, entities that go, bounds, replays.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static void test_groups_follow_the_enabled_rules(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    const uint32_t all = AL_GROUP_FAST | AL_GROUP_SAMPLES | AL_GROUP_SLOW | AL_GROUP_GPM | AL_GROUP_PROCESS |
                         AL_GROUP_HOST | AL_GROUP_NODE | AL_GROUP_LINK | AL_GROUP_ECC | AL_GROUP_XID;
    assert_int_equal(al_detect_groups(w.d), all);
    for (unsigned i = 0; i < al_setting_count; i++)
        if (al_setting_table[i].is_bool)
            memcpy((char *)&w.set + al_setting_table[i].offset, &(double){0}, sizeof(double));
    world_settings(&w);
    assert_int_equal(al_detect_groups(w.d), 0);
    w.set.link_enabled = 1;
    world_settings(&w);
    assert_int_equal(al_detect_groups(w.d), AL_GROUP_FAST | AL_GROUP_LINK);
    world_free(&w);
}

static void test_healthy_machine_is_quiet(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 8);
    world_job(&w, 8);
    for (uint32_t g = 0; g < 8; g++) {
        world_gpu(&w, g, AL_GPU_UTIL, 0.97);
        world_gpu(&w, g, AL_GPU_UTIL_MEAN, 0.97);
        world_gpu(&w, g, AL_GPU_POWER, 640);
    }
    world_ticks(&w, 700);
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_empty_snapshot(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 0);
    world_ticks(&w, 20);
    assert_int_equal(w.count, 0);
    assert_int_equal(world_open_count(&w), 0);
    world_free(&w);
    assert_null(al_detect_free(NULL));
}

static void test_switching_a_rule_off_ends_its_findings(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    world_ticks(&w, 6);
    assert_non_null(world_open(&w, "inefficient"));
    w.set.inefficient_enabled = 0;
    world_settings(&w);
    world_tick(&w);
    assert_null(world_open(&w, "inefficient"));
    assert_int_equal(world_last(&w, "inefficient")->phase, AL_PHASE_ENDED);
    w.set.inefficient_enabled = 1;
    world_settings(&w);
    world_ticks(&w, 4);
    assert_null(world_open(&w, "inefficient")); // counts anew
    world_free(&w);
}

static void test_new_settings_keep_open_findings(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    world_ticks(&w, 6);
    int64_t began = world_open(&w, "inefficient")->began_ns;
    w.set.memory_window = 120;
    w.set.throttled_ticks = 40;
    world_settings(&w);
    world_ticks(&w, 3);
    assert_true(world_open(&w, "inefficient")->began_ns == began);
    world_free(&w);
}

static void test_the_same_again_is_no_update(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_gpu(&w, 0, AL_GPU_REMAP_PENDING, 1);
    world_ticks(&w, 100);
    assert_int_equal(w.count, 1);
    world_gpu(&w, 0, AL_GPU_REMAP_FAILED, 1); // graver, and another message: at once
    world_tick(&w);
    assert_int_equal(w.count, 2);
    assert_int_equal(w.log[1].phase, AL_PHASE_UPDATED);
    assert_true(w.log[1].began_ns == w.log[0].began_ns);
    world_free(&w);
}

static void test_vanished_entity_ends_its_finding(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 2);
    world_gpu(&w, 1, AL_GPU_REMAP_PENDING, 1);
    world_tick(&w);
    assert_non_null(world_open(&w, "hardware"));
    w.s->gpu_count = 1;
    world_tick(&w);
    assert_null(world_open(&w, "hardware"));
    assert_int_equal(world_last(&w, "hardware")->phase, AL_PHASE_ENDED);
    world_free(&w);
}

static void test_more_entities_than_the_table_holds(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 128);
    for (uint32_t g = 0; g < 128; g++)
        world_gpu(&w, g, AL_GPU_REMAP_PENDING, 1);
    world_ticks(&w, 3); // link and hardware have more than 3 tracks a GPU: at most 512 are kept
    assert_int_equal(world_log_count(&w, "hardware", AL_PHASE_BEGAN), 128);
    for (uint32_t i = 0; i < w.count; i++)
        assert_string_equal(w.log[i].rule, "hardware");
    world_free(&w);
}

// A made session with everything in it, from a seed.
static void play(struct world *w, uint32_t seed)
{
    world_make(w, 4);
    world_job(w, 4);
    for (int i = 0; i < 400; i++) {
        for (uint32_t g = 0; g < 4; g++) {
            seed = seed * 1664525 + 1013904223;
            world_gpu(w, g, AL_GPU_UTIL_MEAN, (seed >> 16) % 100 < 70 ? 0.05 : 0.9);
            world_gpu(w, g, AL_GPU_THROTTLE, (seed >> 8) % 3 ? 0 : 0x40);
            world_gpu(w, g, AL_GPU_MEM_USED, (100 + i * 0.09) * GIB);
            world_gpu(w, g, AL_GPU_MEM_FREE, (40 - i * 0.09) * GIB);
        }
        if (i == 200)
            w->s->gpus[2].xid[w->s->gpus[2].xid_count++] = (struct al_xid){31, 1, w->s->monotonic_ns};
        world_tick(w);
    }
}

static void test_replays_are_equal(void **unused)
{
    (void)unused;
    static struct world a, b;
    play(&a, 7);
    play(&b, 7);
    assert_true(a.count > 10);
    assert_int_equal(a.count, b.count);
    for (uint32_t i = 0; i < a.count; i++) {
        assert_string_equal(a.log[i].key, b.log[i].key);
        assert_string_equal(a.log[i].message, b.log[i].message);
        assert_int_equal(a.log[i].phase, b.log[i].phase);
        assert_true(a.log[i].updated_ns == b.log[i].updated_ns);
    }
    world_free(&a);
    world_free(&b);
}

// Every BEGAN has one ENDED or is open, keys are not open twice, texts are filled and clean.
static void test_findings_are_well_formed(void **unused)
{
    (void)unused;
    static struct world w;
    play(&w, 99);
    for (uint32_t i = 0; i < w.count; i++) {
        const struct al_finding *f = &w.log[i];
        int open = 0;
        for (uint32_t k = 0; k <= i; k++)
            if (strcmp(w.log[k].key, f->key) == 0)
                open += w.log[k].phase == AL_PHASE_BEGAN ? 1 : w.log[k].phase == AL_PHASE_ENDED ? -1 : 0;
        assert_int_equal(open, f->phase == AL_PHASE_ENDED ? 0 : 1);
        assert_true(f->title[0] && f->message[0] && f->advice[0] && f->evidence_count > 0);
        assert_true(strncmp(f->key, f->rule, strlen(f->rule)) == 0);
        assert_null(strpbrk(f->message, "\n\033"));
        assert_true((f->ended_ns != 0) == (f->phase == AL_PHASE_ENDED));
        for (uint32_t k = 0; k < f->evidence_count; k++)
            assert_true(f->evidence[k].name[0] && f->evidence[k].source[0] &&
                        f->evidence[k].value - f->evidence[k].value == 0);
    }
    world_free(&w);
}

int engine_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_follow_the_enabled_rules),
        cmocka_unit_test(test_healthy_machine_is_quiet),
        cmocka_unit_test(test_empty_snapshot),
        cmocka_unit_test(test_switching_a_rule_off_ends_its_findings),
        cmocka_unit_test(test_new_settings_keep_open_findings),
        cmocka_unit_test(test_the_same_again_is_no_update),
        cmocka_unit_test(test_vanished_entity_ends_its_finding),
        cmocka_unit_test(test_more_entities_than_the_table_holds),
        cmocka_unit_test(test_replays_are_equal),
        cmocka_unit_test(test_findings_are_well_formed),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
