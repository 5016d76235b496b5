// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

static struct al_settings settings;
static struct al_config_error error;

static int parse(const char *text) {
    al_settings_default(&settings);
    return al_config_parse(text, strlen(text), &settings, &error);
}

static void values_are_taken_in_base_units(void **state) {
    (void)state;
    assert_int_equal(parse("# mine\nsampling:\n  interval: 250ms\nmemory:\n  used_above: 85 %\n  slope_above: 2MiB/s\n"
                           "inefficient:\n  enabled: false\n  ticks: 8\n"),
                     0);
    assert_true(settings.sampling_interval == 0.25);
    assert_true(settings.memory_used_above == 0.85);
    assert_true(settings.memory_slope_above == 2 * 1048576.0);
    assert_true(settings.inefficient_enabled == 0);
    assert_true(settings.inefficient_ticks == 8);
    assert_true(settings.inefficient_utilization_below == 0.2); // not named: the default
    assert_int_equal(parse(""), 0);
    assert_int_equal(parse("memory:\n"), 0);
}

struct wrong {
    const char *text;
    int line, column;
    const char *message; // a part of it
};

static void errors_name_place_and_remedy(void **state) {
    (void)state;
    static const struct wrong table[] = {
        {"memori:\n  used_above: 1\n", 1, 1, "did you mean \"memory\""},
        {"memory:\n  used_abov: 90%\n", 2, 3, "did you mean \"used_above\""},
        {"memory:\n  zzzzzzzz: 90%\n", 2, 3, "unknown key"},
        {"memory:\n  used_above: 90GiB\n", 2, 15, "wrong or no unit"},
        {"sampling:\n  interval: 5\n", 2, 13, "wrong or no unit"},
        {"sampling:\n  interval: soon\n", 2, 13, "is not a time"},
        {"sampling:\n  interval: 10ms\n", 2, 13, "out of bounds (100ms to 1h)"},
        {"memory:\n  used_above: 130%\n", 2, 15, "out of bounds"},
        {"memory:\n  enabled: maybe\n", 2, 12, "true or false"},
        {"memory:\n  window: [1s]\n", 2, 11, "takes one value"},
        {"memory: 5\n", 1, 9, "takes lines"},
        {"- a\n", 1, 1, "expected sections"},
        {"memory:\n  window: 5s\n  window: 6s\n", 3, 3, "given twice"},
        {"memory:\n\twindow: 5s\n", 2, 1, ""},
        {"memory: {window: 5s\n", 2, 1, ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(parse(table[i].text), AL_E_CONFIG);
        if (error.line != table[i].line || error.column != table[i].column || !strstr(error.message, table[i].message))
            fail_msg("%s: got %d:%d %s", table[i].text, error.line, error.column, error.message);
    }
}

static void a_bad_config_changes_nothing(void **state) {
    (void)state;
    struct al_settings before;
    al_settings_default(&before);
    assert_int_equal(parse("memory:\n  used_above: 50%\n  nope: 1\n"), AL_E_CONFIG);
    assert_memory_equal(&settings, &before, sizeof before);
    assert_int_equal(parse("inefficient:\n  utilization_below: 50%\n"), AL_E_CONFIG);
    assert_non_null(strstr(error.message, "utilization_clear"));
}

static void what_is_printed_reads_back(void **state) {
    (void)state;
    struct al_settings defaults;
    struct al_buf b = AL_BUF_INIT;
    al_settings_default(&defaults);
    al_config_print(&b, &defaults);
    memset(&settings, 0, sizeof settings);
    int result = al_config_parse(b.data, b.len, &settings, &error);
    if (result)
        fail_msg("%d:%d %s\n%s", error.line, error.column, error.message, b.data);
    assert_memory_equal(&settings, &defaults, sizeof defaults);
    al_buf_free(&b);
}

static void defaults_lie_within_their_bounds(void **state) {
    (void)state;
    struct al_settings defaults;
    al_settings_default(&defaults);
    for (unsigned i = 0; i < al_setting_count; i++) {
        const struct al_setting_info *info = &al_setting_table[i];
        double v;
        memcpy(&v, (const char *)&defaults + info->offset, sizeof v);
        if (!(v >= info->min && v <= info->max))
            fail_msg("%s.%s", info->section, info->key);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_taken_in_base_units),
        cmocka_unit_test(errors_name_place_and_remedy),
        cmocka_unit_test(a_bad_config_changes_nothing),
        cmocka_unit_test(what_is_printed_reads_back),
        cmocka_unit_test(defaults_lie_within_their_bounds),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
