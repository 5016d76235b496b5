// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "suites.h"

static void columns_hold_means_and_gaps(void **state) {
    (void)state;
    struct world w;
    float v[5];
    world_make(&w, 1, false); // at 1000 s: 0.5
    w.s->gpus[0].m[AL_GPU_UTIL_MEAN].num = 0.7;
    world_tick(&w, S / 2);
    w.s->gpus[0].m[AL_GPU_UTIL_MEAN] = al_value_none(AL_STATUS_LOST);
    world_tick(&w, S / 2); // 1001 s
    w.s->gpus[0].m[AL_GPU_UTIL_MEAN] = al_value_ok(1, 0);
    world_tick(&w, S); // 1002 s
    al_history_columns(w.history, "GPU-00", AL_CHART_UTIL, w.s->monotonic_ns, S, v, 5);
    assert_true(isnan(v[0]) && isnan(v[1]) && isnan(v[3]));
    assert_true(fabsf(v[2] - 0.6F) < 1e-6F);
    assert_true(fabsf(v[4] - 1) < 1e-6F);
    al_history_columns(w.history, "GPU-77", AL_CHART_UTIL, w.s->monotonic_ns, S, v, 5);
    for (int i = 0; i < 5; i++)
        assert_true(isnan(v[i]));
    world_free(&w);
}

// A column keeps what it shows while time moves on inside the next one.
static void charts_scroll_without_shimmer(void **state) {
    (void)state;
    struct world w;
    float before[8], after[8];
    world_make(&w, 1, false);
    for (int i = 0; i < 40; i++) {
        w.s->gpus[0].m[AL_GPU_UTIL_MEAN].num = (i * 37 % 100) / 100.0;
        world_tick(&w, S / 2);
    }
    al_history_columns(w.history, "GPU-00", AL_CHART_UTIL, w.s->monotonic_ns, S, before, 8);
    world_tick(&w, S);
    al_history_columns(w.history, "GPU-00", AL_CHART_UTIL, w.s->monotonic_ns, S, after, 8);
    assert_memory_equal(before + 1, after, 6 * sizeof(float));
    world_free(&w);
}

static void rates_come_from_counters_where_nothing_better_is(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 1, false);
    struct al_gpu *g = &w.s->gpus[0];
    g->m[AL_GPU_NVLINK_RX] = al_value_ok(1e9, 0);
    world_tick(&w, S);
    assert_int_equal(al_chart_value(w.history, g, AL_CHART_NVLINK_RX).status, AL_STATUS_UNREAD); // one reading is no rate
    g->m[AL_GPU_NVLINK_RX].num = 3e9;
    world_tick(&w, 2 * S);
    struct al_value v = al_chart_value(w.history, g, AL_CHART_NVLINK_RX);
    assert_true(al_ok(v) && fabs(v.num - 1e9) < 1);
    assert_true(al_history_has(w.history, "GPU-00", AL_CHART_NVLINK_RX));
    assert_false(al_history_has(w.history, "GPU-00", AL_CHART_NVLINK_TX));
    g->m[AL_GPU_NVLINK_RX].num = 5; // a reset is not a rate
    world_tick(&w, S);
    assert_false(al_ok(al_chart_value(w.history, g, AL_CHART_NVLINK_RX)));
    g->m[AL_GPU_GPM_NVLINK_RX] = al_value_ok(7e9, 0);
    assert_true(fabs(al_chart_value(w.history, g, AL_CHART_NVLINK_RX).num - 7e9) < 1);
    world_free(&w);
}

static void the_ring_forgets_the_oldest_and_a_reading_counts_once(void **state) {
    (void)state;
    struct world w;
    float v[300];
    int known = 0;
    world_make(&w, 2, false);
    for (int i = 0; i < 500; i++)
        world_tick(&w, S);
    assert_int_equal(al_history_push(w.history, w.s), 0); // the same again
    al_history_columns(w.history, "GPU-01", AL_CHART_TEMP, w.s->monotonic_ns, S, v, 300);
    for (int i = 0; i < 300; i++)
        known += isfinite(v[i]) != 0;
    assert_int_equal(known, 200);
    world_free(&w);
}

static void devices_that_come_and_go_do_not_pile_up(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 1, false);
    for (int i = 0; i < 3 * AL_GPU_MAX; i++) {
        (void)snprintf(w.s->gpus[0].info.uuid, sizeof w.s->gpus[0].info.uuid, "MIG-%d", i);
        world_tick(&w, S);
    }
    assert_true(al_history_has(w.history, "MIG-383", AL_CHART_UTIL));
    assert_false(al_history_has(w.history, "MIG-0", AL_CHART_UTIL));
    world_free(&w);
}

int history_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_hold_means_and_gaps),
        cmocka_unit_test(charts_scroll_without_shimmer),
        cmocka_unit_test(rates_come_from_counters_where_nothing_better_is),
        cmocka_unit_test(the_ring_forgets_the_oldest_and_a_reading_counts_once),
        cmocka_unit_test(devices_that_come_and_go_do_not_pile_up),
    };
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
