// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "stack/maps.h"
#include "suites.h"

static void mappings_are_read(void **state) {
    (void)state;
    struct al_areas a;
    assert_int_equal(al_areas_parse(&a, "55d0-55e0 r--p 00000000 08:01 77    /usr/bin/a b (deleted)\n"
                                        "55e0-55f0 rw-p 00010000 08:01 77    /usr/bin/a b (deleted)\n"
                                        "55f0-5600 rw-p 00000000 00:00 0 \n"
                                        "nonsense\n"
                                        "7000-6000 r--p 00000000 08:01 78 /turned\n"
                                        "7ff0-8000 rw-p 00000000 00:00 0     [stack]"), 0);
    assert_int_equal(a.count, 4);
    assert_string_equal(al_area_path(&a, &a.list[0]), "/usr/bin/a b (deleted)");
    assert_int_equal(a.list[0].path, a.list[1].path);
    assert_true(a.list[1].writable);
    assert_true(a.list[2].after_file);
    assert_string_equal(al_area_path(&a, &a.list[2]), "");
    assert_false(a.list[3].after_file);
    al_areas_free(&a);
    assert_int_equal(al_areas_parse(&a, ""), AL_E_FORMAT);
}

int al_test_maps(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mappings_are_read)};
    return cmocka_run_group_tests_name("stack/maps", tests, NULL, NULL);
}
