// SPDX-License-Identifier: Apache-2.0
// The spelling is what Python's json.dumps gives for the same text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "export/json.h"
#include "suites.h"

static void strings_are_spelt_as_python_does(void **state) {
    (void)state;
    static const struct { const char *text, *json; } cases[] = {
        {"", "\"\""},
        {"a \"b\" \\ /", "\"a \\\"b\\\" \\\\ /\""},
        {"\b\t\n\f\r\x01\x1f\x7f", "\"\\b\\t\\n\\f\\r\\u0001\\u001f\\u007f\""},
        {"Zo\xc3\xab", "\"Zo\\u00eb\""},
        {"\xe2\x82\xac", "\"\\u20ac\""},
        {"\xef\xbf\xbf", "\"\\uffff\""},
        {"\xf0\x9f\x98\x80", "\"\\ud83d\\ude00\""},
        {"\xf4\x8f\xbf\xbf", "\"\\udbff\\udfff\""},
        {"\xff" "a\xc3", "\"\\ufffda\\ufffd\""},         // no UTF-8, and a sequence that was cut
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""}, // a surrogate is no character
    };
    struct al_buf b = AL_BUF_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        al_buf_clear(&b);
        al_json_ascii(&b, cases[i].text);
        assert_string_equal(b.data, cases[i].json);
    }
    al_buf_free(&b);
}

int al_test_json(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_spelt_as_python_does),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
