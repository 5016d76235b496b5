// SPDX-License-Identifier: Apache-2.0
// The screen of alula stacks, drawn at every size, and what keys make of it.
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "suites.h"
#include "tui/stacks.h"

struct table {
    struct al_profile *p;
    struct al_hot *h;
    struct al_hot_view view, around[3];
    struct al_stacks_in in;
    struct al_stacks_ui ui;
    struct al_grid g;
    struct al_buf text;
};

static uint32_t stack(struct al_profile *p, uint32_t parent, const char *name, const char *file, int32_t line, int32_t first) {
    uint32_t frame = al_profile_frame(p, name, file, line);
    al_profile_first_line(p, frame, first);
    return al_profile_stack(p, parent, frame);
}

// Two ranks; the second one waits in all_reduce, and has a thread that sleeps.
static void set_up(struct table *w, int rounds) {
    *w = (struct table){.p = al_profile_new(), .h = al_hot_new(5 * AL_NS_PER_S)};
    const char *deep = "/a/very/long/way/to/where/the/code/of/this/program/lies/and/then/some/more/train_the_model.py";
    uint32_t main = stack(w->p, AL_PROFILE_NONE, "main", deep, 40, 30), load = stack(w->p, main, "Loader.__next__", "/w/data\001.py", 9, 7);
    uint32_t reduce = stack(w->p, main, "all_reduce", "/w/ünïcode.py", 3, 2), sleeps = stack(w->p, AL_PROFILE_NONE, "sleeps", "/w/t.py", 5, 4);
    for (int rank = 0; rank < 2; rank++) {
        char name[64];
        (void)snprintf(name, sizeof name, "process %d, rank %d of 2", 70 + rank, rank);
        assert_int_equal(al_hot_process(w->h, name, rank), rank);
        assert_int_equal(al_hot_thread(w->h, (uint32_t)rank, (uint32_t)rank, "thread 7 MainThread"), 0);
    }
    assert_int_equal(al_hot_thread(w->h, 2, 1, "thread 9 sleeper"), 0);
    for (int i = 0; i < rounds; i++) {
        assert_int_equal(al_hot_tick(w->h, AL_NS_PER_S + i * AL_NS_PER_S / 100), 0);
        assert_int_equal(al_hot_add(w->h, 0, i % 10 ? load : main, AL_HOT_GIL), 0);
        assert_int_equal(al_hot_add(w->h, 1, i % 10 ? reduce : load, 0), 0);
        assert_int_equal(al_hot_add(w->h, 2, sleeps, AL_HOT_IDLE), 0);
    }
    al_stacks_ui_init(&w->ui);
    w->in = (struct al_stacks_in){.view = &w->view, .profile = w->p, .title = "process 70, rank 0 of 2", .command = "python\ttrain.py",
                                  .said = "", .rate = 100, .own = 0.01, .window_s = 5, .moved = 0.001, .processes = 2};
}

static void tear_down(struct table *w) {
    al_hot_view_free(&w->view);
    for (int i = 0; i < 3; i++)
        al_hot_view_free(&w->around[i]);
    al_grid_free(&w->g);
    al_buf_free(&w->text);
    al_hot_free(w->h);
    al_profile_free(w->p);
}

static const char *drawn(struct table *w, int width, int height) {
    w->ui.query.filter = w->ui.filter;
    assert_int_equal(al_hot_rows(w->h, w->p, &w->ui.query, &w->view), 0);
    w->in.around = NULL;
    for (int i = 0; i < 3 && w->ui.open != AL_PROFILE_NONE; i++) {
        struct al_hot_query q = w->ui.query;
        q.part = (enum al_hot_part)(AL_HOT_LINES_OF + i);
        q.of = w->ui.open;
        q.by = i ? AL_HOT_BY_FUNCTION : AL_HOT_BY_LINE;
        assert_int_equal(al_hot_rows(w->h, w->p, &q, &w->around[i]), 0);
        w->in.around = w->around;
    }
    assert_int_equal(al_grid_resize(&w->g, width, height), 0);
    al_grid_clear(&w->g);
    al_stacks_draw(&w->g, &w->in, &w->ui);
    al_buf_clear(&w->text);
    al_grid_print(&w->g, &w->text);
    return w->text.data;
}

static void press(struct table *w, uint32_t key) {
    (void)al_stacks_key(&w->ui, &w->in, key);
}

static void figures_on_the_screen(void **state) {
    (void)state;
    struct table w;
    set_up(&w, 100);
    const char *text = drawn(&w, 150, 20);
    assert_non_null(strstr(text, " 100/s, 100 samples in 1 s, shares of the last 5 s; own cost 1.0 % of a core; moved 0.10 %"));
    assert_non_null(strstr(text, " GIL held 50 %; threads 3.0: running 2.0, waiting for the GIL 0.0, idle 1.0")); // of two processes
    assert_non_null(strstr(text, "   50.0    50.0     0.99s     0.99s  90.0    0.0  Loader.__next__ /w/data?.py:7"));
    assert_non_null(strstr(text, "0: 90 %, others 50 %"));
    assert_non_null(strstr(text, "/more/train_the_model.py:30")); // the end of a long way
    assert_null(strstr(text, "sleeps"));
    press(&w, 'i');
    assert_non_null(strstr(drawn(&w, 150, 20), "sleeps /w/t.py:4"));
    w.in.no_gil = true;
    assert_non_null(strstr(drawn(&w, 150, 20), " no GIL; threads 3.0"));
    w.in.ended = "the process has ended";
    assert_non_null(strstr(drawn(&w, 150, 20), "\n the process has ended\n"));
    tear_down(&w);
}

// What a narrow or low screen has room for: names before times and states, rows before figures, and nothing over another.
static void figures_on_small_screens(void **state) {
    (void)state;
    struct table w;
    set_up(&w, 100);
    const char *text = drawn(&w, 60, 12);
    assert_non_null(strstr(text, "\n  self%  total%  GIL%  idle%  function"));
    assert_non_null(strstr(text, "\n   50.0    50.0  90.0    0.0  Loader.__next__ /w/data?.py:7"));
    text = drawn(&w, 46, 12);
    assert_non_null(strstr(text, "\n   50.0    50.0  Loader.__next__ /w/data?.py:7"));
    assert_non_null(strstr(drawn(&w, 36, 12), " \xe2\x80\xa6" "e_model.py:30\n")); // too long by itself: its end
    text = drawn(&w, 22, 5);
    assert_non_null(strstr(text, "\n  self%  function\n   50.0  Loader.__nex"));
    assert_non_null(strstr(text, "\n? help  1-6 sort"));
    w.in.ended = "the process has ended";
    assert_non_null(strstr(drawn(&w, 22, 5), "\nthe process has ended"));
    w.in.ended = NULL;
    (void)al_stacks_mouse(&w.ui, &w.in, 3, AL_MOUSE_CLICK);
    assert_int_equal(w.ui.row, 1);
    assert_non_null(strstr(drawn(&w, 22, 2), "\n? help  1-6 sort"));
    press(&w, 't');
    assert_non_null(strstr(drawn(&w, 60, 12), "\n   run%  GIL%  wait%  idle%  thread"));
    press(&w, 'i'); // of what counts then it runs no more
    assert_non_null(strstr(drawn(&w, 60, 12), "\n count%  GIL%  wait%  idle%  thread"));
    tear_down(&w);
}

static void every_size_and_every_key(void **state) {
    (void)state;
    static const uint32_t keys[] = {'1', '2', '3', '4', '5', '6', 'd', 'l', 't', 'w', 'i', 'g', 'p', ' ', '?', '/', 'x', AL_KEY_BACKSPACE, AL_KEY_ENTER,
                                    AL_KEY_ENTER, AL_KEY_ESCAPE, AL_KEY_UP, AL_KEY_DOWN, AL_KEY_PAGE_UP, AL_KEY_PAGE_DOWN, AL_KEY_HOME, AL_KEY_END,
                                    't', AL_KEY_DOWN, AL_KEY_ENTER, 0x263a, 'r', 0x0c, AL_KEY_F0 + 1, AL_KEY_ESCAPE, AL_KEY_ESCAPE};
    static const int sizes[][2] = {{1, 1}, {2, 2}, {10, 3}, {40, 5}, {40, 8}, {80, 24}, {107, 7}, {200, 60}};
    for (int rounds = 0; rounds <= 50; rounds += 50) { // without a sample, and with
        struct table w;
        set_up(&w, rounds);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                (void)drawn(&w, sizes[i][0], sizes[i][1]);
            press(&w, keys[k]);
            (void)al_stacks_mouse(&w.ui, &w.in, (int)k % 12, (enum al_mouse)(k % 4));
        }
        tear_down(&w);
    }
}

static void moves_and_chooses(void **state) {
    (void)state;
    struct table w;
    set_up(&w, 100);
    (void)drawn(&w, 120, 20);
    press(&w, AL_KEY_UP);
    assert_int_equal(w.ui.row, 0);
    press(&w, AL_KEY_END);
    (void)drawn(&w, 120, 20);
    assert_int_equal(w.ui.row, (int)w.view.count - 1);
    press(&w, AL_KEY_HOME);
    (void)drawn(&w, 120, 20);
    press(&w, AL_KEY_ENTER); // a function
    assert_non_null(strstr(drawn(&w, 120, 20), "called by"));
    assert_int_equal(al_stacks_key(&w.ui, &w.in, 'q'), AL_STACKS_NONE); // back
    assert_null(strstr(drawn(&w, 120, 20), "called by"));
    press(&w, 't');
    (void)drawn(&w, 120, 20);
    (void)al_stacks_mouse(&w.ui, &w.in, 6, AL_MOUSE_DOUBLE); // the second thread
    assert_int_equal(w.ui.query.by, AL_HOT_BY_FUNCTION);
    assert_int_not_equal(w.ui.query.track, AL_PROFILE_NONE);
    assert_non_null(strstr(drawn(&w, 120, 20), " only thread "));
    press(&w, AL_KEY_ESCAPE);
    assert_int_equal(w.ui.query.track, AL_PROFILE_NONE);
    press(&w, '/');
    for (const char *c = "redu"; *c; c++)
        press(&w, (unsigned char)*c);
    (void)drawn(&w, 120, 20);
    assert_int_equal(w.view.count, 1);
    press(&w, AL_KEY_ENTER);
    assert_string_equal(w.ui.filter, "redu");
    press(&w, AL_KEY_ESCAPE);
    assert_string_equal(w.ui.filter, "");
    assert_int_equal(al_stacks_key(&w.ui, &w.in, 'r'), AL_STACKS_RESET);
    assert_int_equal(al_stacks_key(&w.ui, &w.in, 'q'), AL_STACKS_QUIT);
    tear_down(&w);
}

int stacks_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_on_the_screen),
        cmocka_unit_test(figures_on_small_screens),
        cmocka_unit_test(every_size_and_every_key),
        cmocka_unit_test(moves_and_chooses),
    };
    return cmocka_run_group_tests_name("stacks", tests, NULL, NULL);
}
