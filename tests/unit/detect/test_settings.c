// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "world.h"

static void test_defaults_are_the_documents(void **unused)
{
    (void)unused;
    struct al_settings s;
    al_settings_default(&s);
    assert_true(s.inefficient_ticks == 5 && s.inefficient_utilization_below == 0.20 && s.inefficient_tick == 0.5);
    assert_true(s.memory_used_above == 0.90 && s.sampling_window == 60 && s.sampling_interval == 0.5);
    assert_true(s.uneven_busy_above == 0.95 && s.uneven_idle_below == 0.30);
    assert_true(s.sensor_enabled == 1 && s.host_memory_growth_above == 512 * MIB);
}

static void test_table_is_sound(void **unused)
{
    (void)unused;
    struct al_settings s;
    al_settings_default(&s);
    assert_true(al_setting_count * sizeof(double) == sizeof s);
    for (unsigned i = 0; i < al_setting_count; i++) {
        const struct al_setting_info *a = &al_setting_table[i];
        double value;
        memcpy(&value, (const char *)&s + a->offset, sizeof value);
        assert_true(value == a->def && a->min <= a->def && a->def <= a->max);
        assert_int_equal(a->is_bool, a->unit == AL_UNIT_BOOL);
        assert_true(strlen(a->help) > 10);
        for (unsigned k = 0; k < i; k++)
            assert_false(strcmp(a->section, al_setting_table[k].section) == 0 &&
                         strcmp(a->key, al_setting_table[k].key) == 0);
    }
}

static void test_limit_by_model_size(void **unused)
{
    (void)unused;
    static const double cases[][2] = {{0, 0.90}, {1.5, 0.80}, {7, 0.80}, {10, 0.81}, {13, 0.82},
                                      {22.5, 0.835}, {32, 0.85}, {51, 0.875}, {70, 0.90}, {671, 0.90}};
    struct al_settings s;
    al_settings_default(&s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.memory_model_size = cases[i][0];
        double difference = al_memory_limit(&s) - cases[i][1];
        assert_true(difference < 1e-12 && difference > -1e-12);
    }
    s.memory_model_size = 0;
    s.memory_used_above = 0.95;
    assert_true(al_memory_limit(&s) == 0.95);
}

int settings_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_the_documents),
        cmocka_unit_test(test_table_is_sound),
        cmocka_unit_test(test_limit_by_model_size),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
