// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/gzip.h"
#include "suites.h"

// That receivers unpack it is shown by tests/integration/test_push.py.
static void it_gets_smaller_or_stays_as_it_was(void **state) {
    struct al_buf b = AL_BUF_INIT;
    (void)state;
    assert_false(al_gzip(&b)); // nothing to do
    al_buf_pad(&b, 'x', 10000);
    if (al_gzip(&b)) {
        assert_true(b.len > 18 && b.len < 1000);
        assert_memory_equal(b.data, "\x1f\x8b\x08", 3);
    } else {
        assert_int_equal(b.len, 10000);
    }
    al_buf_free(&b);
}

int al_test_gzip(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_gets_smaller_or_stays_as_it_was)};
    return cmocka_run_group_tests_name("gzip", tests, NULL, NULL);
}
