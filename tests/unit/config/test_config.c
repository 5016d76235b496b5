// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

static struct al_config config;
static struct al_config_error error;

static int parse(const char *text) {
    al_config_default(&config);
    return al_config_parse(text, strlen(text), &config, &error);
}

static void values_are_taken_in_base_units(void **state) {
    (void)state;
    assert_int_equal(parse("# mine\nsampling:\n  interval: 250ms\nmemory:\n  used_above: 85 %\n  slope_above: 2MiB/s\n"
                           "inefficient:\n  enabled: false\n  ticks: 8\n"),
                     0);
    assert_true(config.settings.sampling_interval == 0.25);
    assert_true(config.settings.memory_used_above == 0.85);
    assert_true(config.settings.memory_slope_above == 2 * 1048576.0);
    assert_true(config.settings.inefficient_enabled == 0);
    assert_true(config.settings.inefficient_ticks == 8);
    assert_true(config.settings.inefficient_utilization_below == 0.2); // not named: the default
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
        {"serve:\n  listne: x\n", 2, 3, "did you mean \"listen\""},
        {"serv:\n  listen: x\n", 1, 1, "did you mean \"serve\""},
        {"serve:\n  listen: [a]\n", 2, 11, "takes one word"},
        {"serve:\n  hosts: {a: b}\n", 2, 10, "one word or a list"},
        {"serve:\n  hosts: [a, [b]]\n", 2, 14, "one word or a list"},
        {"serve:\n  hosts: [\"a\\nb\"]\n", 2, 11, "control characters"},
        {"serve:\n  listen: a\n  listen: b\n", 3, 3, "given twice"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(parse(table[i].text), AL_E_CONFIG);
        if (error.line != table[i].line || error.column != table[i].column || !strstr(error.message, table[i].message))
            fail_msg("%s: got %d:%d %s", table[i].text, error.line, error.column, error.message);
    }
}

static void a_bad_config_changes_nothing(void **state) {
    (void)state;
    struct al_config before;
    al_config_default(&before);
    assert_int_equal(parse("memory:\n  used_above: 50%\n  nope: 1\n"), AL_E_CONFIG);
    assert_memory_equal(&config, &before, sizeof before);
    assert_int_equal(parse("inefficient:\n  utilization_below: 50%\n"), AL_E_CONFIG);
    assert_non_null(strstr(error.message, "utilization_clear"));
}

static void what_is_printed_reads_back(void **state) {
    (void)state;
    struct al_config defaults;
    struct al_buf b = AL_BUF_INIT;
    al_config_default(&defaults);
    (void)strcpy(defaults.texts.serve_hosts, "gpu7\ngpu7.example.org\na \"b\" #c");
    (void)strcpy(defaults.texts.serve_tls_key, "/etc/alula/key: 1.pem");
    al_config_print(&b, &defaults);
    memset(&config, 0, sizeof config);
    int result = al_config_parse(b.data, b.len, &config, &error);
    if (result)
        fail_msg("%d:%d %s\n%s", error.line, error.column, error.message, b.data);
    assert_memory_equal(&config, &defaults, sizeof defaults);
    al_buf_free(&b);
}

static void words_are_taken(void **state) {
    (void)state;
    assert_int_equal(parse("serve:\n  listen: 10.0.0.7:9000\n  hosts: [a, b.example.org]\n  dcgm_names: true\n"), 0);
    assert_string_equal(config.texts.serve_listen, "10.0.0.7:9000");
    assert_string_equal(config.texts.serve_hosts, "a\nb.example.org");
    assert_string_equal(config.texts.serve_tls_key, "");
    assert_true(config.settings.serve_dcgm_names == 1);
    assert_int_equal(parse("serve:\n  hosts: one\n  listen: \"\"\n"), 0);
    assert_string_equal(config.texts.serve_hosts, "one");
    assert_string_equal(config.texts.serve_listen, "");
    assert_int_equal(parse("serve:\n  hosts: []\n"), 0);
    assert_string_equal(config.texts.serve_hosts, "");
    assert_int_equal(parse(""), 0);
    assert_string_equal(config.texts.serve_listen, "127.0.0.1:9810");
}

// Printed configs end up in tickets and recordings: tokens in URLs stay out of them.
static void urls_are_printed_without_their_secrets(void **state) {
    static const struct {
        const char *url, *printed;
    } cases[] = {
        {"http://host:4318", "http://host:4318"},
        {"http://host/", "http://host"},
        {"https://hooks.example/T0/B1/token", "https://hooks.example/..."},
        {"https://user:pass@host", "https://host"},
        {"https://user:p@ss@host/x@y?key=1", "https://host/..."},
        {"https://host?key=1", "https://host/..."},
        {"user:pass@host/token", "host/..."},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256], expected[160];
        struct al_buf b = AL_BUF_INIT;
        (void)snprintf(text, sizeof text, "push:\n  endpoint: \"%s\"\nwebhook:\n  urls: [\"%s\", \"http://b\"]\n", cases[i].url,
                       cases[i].url);
        assert_int_equal(parse(text), 0);
        assert_string_equal(config.texts.push_endpoint, cases[i].url);
        al_config_print(&b, &config);
        (void)snprintf(expected, sizeof expected, "  endpoint: \"%s\"  #", cases[i].printed);
        assert_non_null(strstr(b.data, expected));
        (void)snprintf(expected, sizeof expected, "  urls: [\"%s\", \"http://b\"]  #", cases[i].printed);
        assert_non_null(strstr(b.data, expected));
        al_buf_free(&b);
    }
}

static void words_of_a_few_are_held_to_them(void **state) {
    (void)state;
    assert_int_equal(parse("webhook:\n  format: alertmanager\n  level: critical\n"), 0);
    assert_int_equal(parse("webhook:\n  format: slack\n"), AL_E_CONFIG);
    assert_non_null(strstr(error.message, "json or alertmanager"));
    assert_int_equal(parse("webhook:\n  level: error\n"), AL_E_CONFIG);
    assert_non_null(strstr(error.message, "info, warning or critical"));
    assert_int_equal(parse("push:\n  retry_min: 10s\n  retry_max: 1s\n"), AL_E_CONFIG);
    assert_non_null(strstr(error.message, "push.retry_max"));
}

static void a_word_too_long_is_refused(void **state) {
    (void)state;
    char text[2100] = "serve:\n  tls_key: ";
    size_t head = strlen(text);
    memset(text + head, 'x', AL_TEXT_MAX - 2);
    assert_int_equal(parse(text), 0);
    assert_int_equal(strlen(config.texts.serve_tls_key), AL_TEXT_MAX - 2);
    memset(text + head, 'x', AL_TEXT_MAX);
    assert_int_equal(parse(text), AL_E_CONFIG);
    assert_non_null(strstr(error.message, "longer than 1023 bytes"));
    assert_int_equal(error.line, 2);
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
        cmocka_unit_test(words_are_taken),
        cmocka_unit_test(urls_are_printed_without_their_secrets),
        cmocka_unit_test(words_of_a_few_are_held_to_them),
        cmocka_unit_test(a_word_too_long_is_refused),
        cmocka_unit_test(defaults_lie_within_their_bounds),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
