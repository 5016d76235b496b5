// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "series/set.h"
#include "suites.h"

#define S 1000000000LL
#define HALF (S / 2)

static void test_made_at_the_first_value(void **unused)
{
    (void)unused;
    struct al_series_set *set;
    assert_int_equal(al_series_set_new(60 * S, 100, &set), 0);
    uint64_t gpu = al_series_entity("GPU-1");
    assert_null(al_series_set_get(set, gpu, 3));
    assert_int_equal(al_series_set_push(set, gpu, 3, HALF, S, NAN), AL_E_INVALID);
    assert_int_equal(al_series_set_count(set), 0);
    assert_int_equal(al_series_set_push(set, gpu, 3, HALF, S, 0.5), 1);
    assert_int_equal(al_series_set_push(set, gpu, 3, HALF, S, 0.5), 0);
    assert_int_equal(al_series_set_get(set, gpu, 3)->count, 1);
    assert_null(al_series_set_get(set, gpu, 4));
    assert_null(al_series_set_get(set, al_series_entity("GPU-2"), 3));
    assert_null(al_series_set_free(set));
    assert_null(al_series_set_free(NULL));
}

static void test_bounded(void **unused)
{
    (void)unused;
    struct al_series_set *set;
    assert_int_equal(al_series_set_new(60 * S, 5, &set), 0);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(al_series_set_push(set, 1, i, HALF, S, i), 1);
    assert_int_equal(al_series_set_push(set, 1, 5, HALF, S, 5), AL_E_TOOBIG);
    assert_int_equal(al_series_set_push(set, 1, 4, HALF, 2 * S, 5), 1);
    assert_true(al_series_set_refused(set) == 1);
    al_series_set_forget(set, 1);
    assert_int_equal(al_series_set_count(set), 0);
    assert_int_equal(al_series_set_push(set, 1, 5, HALF, 3 * S, 5), 1);
    al_series_set_free(set);
    assert_int_equal(al_series_set_new(0, 5, &set), AL_E_INVALID);
}

static void test_gone_entities_leave(void **unused)
{
    (void)unused;
    struct al_series_set *set;
    assert_int_equal(al_series_set_new(60 * S, 100, &set), 0);
    uint64_t a = al_series_entity_process(4026531836, 42, 1000), b = al_series_entity_process(4026531836, 42, 1001);
    assert_true(a != b); // the pid came back as another process
    for (int i = 1; i <= 10; i++)
        al_series_set_push(set, a, AL_SERIES_PROC, 2 * S, i * S, i);
    for (int i = 1; i <= 80; i++) {
        al_series_set_push(set, b, AL_SERIES_PROC, 2 * S, i * S, i);
        al_series_set_expire(set, i * S);
        assert_int_equal(al_series_set_count(set), i < 70 ? 2 : 1);
    }
    assert_null(al_series_set_get(set, a, AL_SERIES_PROC));
    al_series_set_free(set);
}

// Random pushes and forgets against a plain table.
static void test_against_reference(void **unused)
{
    (void)unused;
    enum { ENTITIES = 40, METRICS = 30 };
    static uint32_t kept[ENTITIES][METRICS];
    struct al_series_set *set;
    uint64_t state = seed_of("set");
    assert_int_equal(al_series_set_new(1000000 * S, ENTITIES * METRICS, &set), 0);
    for (int i = 1; i < 60000; i++) {
        uint32_t e = (uint32_t)(rand64(&state) % ENTITIES), m = (uint32_t)(rand64(&state) % METRICS);
        if (rand64(&state) % 200 == 0) {
            al_series_set_forget(set, e);
            for (uint32_t k = 0; k < METRICS; k++)
                kept[e][k] = 0;
        } else {
            assert_int_equal(al_series_set_push(set, e, m, 100000 * S, i * S, i), 1);
            if (kept[e][m] < al_window_capacity(1000000 * S, 100000 * S))
                kept[e][m]++;
        }
        if (i % 500)
            continue;
        uint32_t count = 0;
        for (e = 0; e < ENTITIES; e++)
            for (m = 0; m < METRICS; m++) {
                const struct al_window *w = al_series_set_get(set, e, m);
                assert_int_equal(w ? w->count : 0, kept[e][m]);
                count += kept[e][m] > 0;
            }
        assert_int_equal(al_series_set_count(set), count);
    }
    al_series_set_free(set);
}

// 64 GPUs with 15 gauges each 500 ms and 40 each second: a few MiB.
static void test_memory_of_a_large_node(void **unused)
{
    (void)unused;
    struct al_series_set *set;
    assert_int_equal(al_series_set_new(60 * S, 64 * 100, &set), 0);
    for (uint64_t gpu = 0; gpu < 64; gpu++)
        for (uint32_t m = 0; m < 55; m++)
            assert_int_equal(al_series_set_push(set, gpu, m, m < 15 ? HALF : S, S, 1), 1);
    assert_true(al_series_set_bytes(set) < 8U << 20);
    al_series_set_free(set);
}

int set_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_at_the_first_value), cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_gone_entities_leave),     cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_memory_of_a_large_node),
    };
    return cmocka_run_group_tests_name("set", tests, NULL, NULL);
}
