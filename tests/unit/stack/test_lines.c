// SPDX-License-Identifier: Apache-2.0
// Tables that CPython 3.9, 3.10 and 3.11 made. tests/integration/test_stack_lines.py compares whole libraries.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stack/core/lines.h"
#include "suites.h"

static const unsigned char LNOTAB[] = {0x00, 0x02, 0x04, 0x01, 0x04, 0x01, 0x04, 0x01, 0x02, 0xff, 0x04, 0x02, 0x02,
                                       0x02, 0x02, 0x01, 0x02, 0xff, 0x02, 0xff, 0x02, 0x04, 0x04, 0xfc, 0x02, 0x04};
static const int LNOTAB_LINES[] = {3, 3, 4, 4, 5, 5, 6, 5, 5, 7, 9, 10, 9, 8, 12, 12, 8, 12, 12, 12, 12, 12};

static const unsigned char TABLE_310[] = {0x04, 0x02, 0x04, 0x01, 0x04, 0x01, 0x02, 0x01, 0x04, 0xff, 0x02,
                                          0x02, 0x02, 0x02, 0x02, 0x01, 0x02, 0xff, 0x02, 0xff, 0x0c, 0x04};
static const int LINES_310[] = {3, 3, 4, 4, 5, 5, 6, 5, 5, 7, 9, 10, 9, 8, 12, 12, 12, 12, 12, 12};

static const unsigned char TABLE_311[] = {
    0x80, 0x00, 0xf0, 0x04, 0x01, 0x09, 0x13, 0xf0, 0x00, 0x01, 0x09, 0x13, 0xdd, 0x09, 0x0e, 0x88, 0x71, 0x89, 0x18, 0x8c,
    0x18, 0xf0, 0x03, 0x01, 0x09, 0x13, 0xf1, 0x00, 0x01, 0x09, 0x13, 0xf4, 0x00, 0x01, 0x09, 0x13, 0x80, 0x41, 0xe0, 0x07,
    0x08, 0xf0, 0x00, 0x02, 0x05, 0x14};
static const struct al_position POSITIONS_311[] = {{1, 1, 0, 0},  {3, 4, 8, 18}, {3, 4, 8, 18}, {4, 4, 9, 14},
                                                   {4, 4, 9, 14}, {4, 4, 9, 14}, {4, 4, 9, 14}, {4, 4, 9, 14},
                                                   {4, 4, 9, 14}, {4, 4, 15, 16}, {4, 4, 9, 17}};

static void lnotab_gives_lines(void **state) {
    (void)state;
    struct al_position p;
    for (int i = 0; i < 22; i++) {
        assert_true(al_lines_find(AL_LINES_LNOTAB, LNOTAB, sizeof LNOTAB, 1, 2 * i, &p));
        assert_int_equal(p.line, LNOTAB_LINES[i]);
        assert_int_equal(p.column, -1);
    }
    assert_true(al_lines_find(AL_LINES_LNOTAB, NULL, 0, 7, 40, &p)); // all on one line
    assert_int_equal(p.line, 7);
}

static void pep626_gives_lines(void **state) {
    (void)state;
    struct al_position p;
    for (int i = 0; i < 20; i++) {
        assert_true(al_lines_find(AL_LINES_310, TABLE_310, sizeof TABLE_310, 1, 2 * i, &p));
        assert_int_equal(p.line, LINES_310[i]);
    }
    assert_false(al_lines_find(AL_LINES_310, TABLE_310, sizeof TABLE_310, 1, 40, &p)); // behind the end
    assert_int_equal(p.line, 0);
    const unsigned char none[] = {4, 0x80, 4, 1};
    assert_false(al_lines_find(AL_LINES_310, none, sizeof none, 5, 2, &p));
    assert_true(al_lines_find(AL_LINES_310, none, sizeof none, 5, 4, &p));
    assert_int_equal(p.line, 6);
}

static void location_table_gives_columns(void **state) {
    (void)state;
    struct al_position p;
    for (int i = 0; i < 11; i++) {
        assert_true(al_lines_find(AL_LINES_311, TABLE_311, sizeof TABLE_311, 1, 2 * i, &p));
        assert_memory_equal(&p, &POSITIONS_311[i], sizeof p);
    }
    assert_true(al_lines_find(AL_LINES_311, TABLE_311, sizeof TABLE_311, 9, -2, &p)); // not begun
    assert_int_equal(p.line, 9);
    const unsigned char none[] = {0xf8, 0xe8, 0x02}; // no location; then line only, +1
    assert_false(al_lines_find(AL_LINES_311, none, sizeof none, 5, 0, &p));
    assert_true(al_lines_find(AL_LINES_311, none, sizeof none, 5, 2, &p));
    assert_int_equal(p.line, 6);
    assert_int_equal(p.column, -1);
}

// Cut tables, endless numbers and lines out of range are "none".
static void damage_is_none(void **state) {
    (void)state;
    struct al_position p;
    for (size_t size = 0; size < sizeof TABLE_311; size++)
        (void)al_lines_find(AL_LINES_311, TABLE_311, size, 1, 1 << 20, &p);
    const unsigned char endless[] = {0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, low[] = {0x02};
    assert_false(al_lines_find(AL_LINES_311, endless, sizeof endless, 1, 0, &p));
    assert_false(al_lines_find(AL_LINES_311, low, sizeof low, 1, 0, &p));
    const unsigned char back[] = {0x04, 0x81}; // line 1 - 127
    assert_false(al_lines_find(AL_LINES_310, back, sizeof back, 1, 0, &p));
    assert_false(al_lines_find(AL_LINES_311, endless, sizeof endless, INT32_MIN, -2, &p));
}

int al_test_lines(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lnotab_gives_lines),
        cmocka_unit_test(pep626_gives_lines),
        cmocka_unit_test(location_table_gives_columns),
        cmocka_unit_test(damage_is_none),
    };
    return cmocka_run_group_tests_name("stack/lines", tests, NULL, NULL);
}
