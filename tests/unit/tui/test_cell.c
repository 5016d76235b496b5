// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suites.h"

static struct al_grid g;

static const char *shown(void) {
    static char text[4096];
    struct al_buf b = AL_BUF_INIT;
    al_grid_print(&g, &b);
    assert_false(b.failed);
    (void)snprintf(text, sizeof text, "%s", b.data);
    al_buf_free(&b);
    return text;
}

static void make(int w, int h, bool ascii) {
    al_grid_free(&g);
    g.ascii = ascii;
    assert_int_equal(al_grid_resize(&g, w, h), 0);
}

static void texts_are_cut_with_an_ellipsis(void **state) {
    (void)state;
    make(8, 1, false);
    assert_int_equal(al_grid_text(&g, 0, 0, 8, 0, "12345678"), 8);
    assert_string_equal(shown(), "12345678\n");
    assert_int_equal(al_grid_text(&g, 0, 0, 8, 0, "123456789"), 8);
    assert_string_equal(shown(), "1234567…\n");
    assert_int_equal(al_grid_text(&g, 6, 0, 99, 0, "abc"), 2); // the edge of the grid cuts too
    assert_string_equal(shown(), "123456a…\n");
    assert_int_equal(al_grid_text(&g, 8, 0, 5, 0, "x"), 0);
    assert_int_equal(al_grid_text(&g, 0, 1, 5, 0, "x"), 0);
    assert_int_equal(al_grid_text(&g, 0, -1, 5, 0, "x"), 0);
    assert_int_equal(al_grid_text(&g, 0, 0, 0, 0, "x"), 0);
    make(8, 1, false);
    assert_int_equal(al_grid_text_right(&g, 0, 0, 6, 0, "97%"), 6);
    assert_string_equal(shown(), "   97%\n");
}

static void wide_characters_take_two_cells_and_never_half(void **state) {
    (void)state;
    make(6, 1, false);
    assert_int_equal(al_text_width("訓練"), 4);
    assert_int_equal(al_grid_text(&g, 0, 0, 6, 0, "訓練ab"), 6);
    assert_int_equal(al_grid_at(&g, 1, 0)->cp, 0);
    assert_string_equal(shown(), "訓練ab\n");
    // Cut where only one column is left: the character goes, its half does not stay.
    make(6, 1, false);
    assert_int_equal(al_grid_text(&g, 0, 0, 4, 0, "a訓練"), 4);
    assert_string_equal(shown(), "a訓…\n");
    // Overwriting one half blanks the other.
    make(6, 1, false);
    (void)al_grid_text(&g, 0, 0, 6, 0, "訓練");
    al_grid_put(&g, 1, 0, 'x', 0);
    assert_string_equal(shown(), " x練\n");
    al_grid_put(&g, 2, 0, 'y', 0);
    assert_string_equal(shown(), " xy\n");
}

static void hostile_names_cannot_steer_the_screen(void **state) {
    (void)state;
    make(40, 1, false);
    (void)al_grid_text(&g, 0, 0, 40, 0, "a\033[2Jb\nc\td\177e\302\233f");
    assert_string_equal(shown(), "a?[2Jb?c?d?e?f\n");
    make(40, 1, false);
    (void)al_grid_text(&g, 0, 0, 40, 0, "x\377\300\200y\xe2\x80"); // not UTF-8
    assert_string_equal(shown(), "x???y??\n");
    make(40, 1, false);
    // Right-to-left override, zero-width space, a combining accent: no column, nothing shown.
    (void)al_grid_text(&g, 0, 0, 40, 0, "a\u202eb\u200bc\u0301d");
    assert_string_equal(shown(), "abcd\n");
}

static void ascii_terminals_get_ascii_alone(void **state) {
    (void)state;
    make(20, 2, true);
    (void)al_grid_text(&g, 0, 0, 20, 0, "58°C ├─ × … 訓 é");
    al_grid_bar(&g, 0, 1, 4, 0.5, 0);
    assert_string_equal(shown(), "58C |- x ~ ? ?\n==..\n");
    for (int i = 0; i < g.w * g.h; i++)
        assert_true(g.cells[i].cp < 0x7f && g.cells[i].cp >= 0x20);
}

static void bars_fill_by_halves(void **state) {
    (void)state;
    static const struct {
        double ratio;
        const char *bar;
    } cases[] = {
        {0, "────\n"},    {0.01, "╸───\n"}, {0.125, "╸───\n"}, {0.5, "━━──\n"}, {0.6, "━━╸─\n"},
        {1, "━━━━\n"},    {7, "━━━━\n"},    {-1, "────\n"},    {NAN, "────\n"}, {INFINITY, "────\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make(4, 1, false);
        al_grid_bar(&g, 0, 0, 4, cases[i].ratio, 0);
        assert_string_equal(shown(), cases[i].bar);
    }
}

static void charts_stand_on_a_base_line_and_leave_gaps(void **state) {
    (void)state;
    static const float values[] = {0, 0.25F, 0.5F, NAN, 1, 2};
    make(6, 2, false);
    al_grid_chart(&g, (struct al_rect){0, 0, 6, 2}, values, AL_INK_GOOD);
    assert_string_equal(shown(), "    ██\n▁▄█ ██\n");
    assert_int_equal(al_grid_at(&g, 4, 0)->style, AL_INK_GOOD);
    assert_int_equal(al_grid_at(&g, 4, 1)->style, AL_INK_GOOD | AL_STYLE_DIM);
    make(6, 1, false); // a single row stays below the next one
    al_grid_chart(&g, (struct al_rect){0, 0, 6, 1}, values, 0);
    assert_string_equal(shown(), "▁▂▄ ▇▇\n");
}

static void colours_are_runs_of_sgr(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    make(4, 1, false);
    (void)al_grid_text(&g, 0, 0, 4, AL_INK_BAD | AL_STYLE_BOLD, "ab");
    (void)al_grid_text(&g, 2, 0, 4, 0, "c");
    al_grid_print_color(&g, &b);
    assert_string_equal(b.data, "\033[0;1;31mab\033[0mc\n");
    al_buf_free(&b);
}

static void sizes_are_kept_in_bounds(void **state) {
    (void)state;
    make(0, -5, false);
    assert_int_equal(g.w, 1);
    assert_int_equal(g.h, 1);
    assert_int_equal(al_grid_resize(&g, 1 << 30, 1 << 30), 0);
    assert_int_equal(g.w, AL_GRID_MAX);
    assert_int_equal(g.h, AL_GRID_MAX);
    assert_null(al_grid_at(&g, AL_GRID_MAX, 0));
    al_grid_free(&g);
}

int cell_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_cut_with_an_ellipsis),
        cmocka_unit_test(wide_characters_take_two_cells_and_never_half),
        cmocka_unit_test(hostile_names_cannot_steer_the_screen),
        cmocka_unit_test(ascii_terminals_get_ascii_alone),
        cmocka_unit_test(bars_fill_by_halves),
        cmocka_unit_test(charts_stand_on_a_base_line_and_leave_gaps),
        cmocka_unit_test(colours_are_runs_of_sgr),
        cmocka_unit_test(sizes_are_kept_in_bounds),
    };
    return cmocka_run_group_tests_name("cell", tests, NULL, NULL);
}
