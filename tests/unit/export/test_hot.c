// SPDX-License-Identifier: Apache-2.0
// Shares of functions, lines and threads: of all time and of a window that slides.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "export/hot.h"
#include "suites.h"

#define SECOND AL_NS_PER_S

struct world {
    struct al_profile *p;
    struct al_hot *h;
    struct al_hot_view v;
    uint32_t main, load, load_later, deep, other; // stacks
    int64_t now;
};

static uint32_t frame_of(struct al_profile *p, const char *name, const char *file, int32_t line, int32_t first) {
    uint32_t f = al_profile_frame(p, name, file, line);
    al_profile_first_line(p, f, first);
    return f;
}

static void set_up(struct world *w) {
    *w = (struct world){.p = al_profile_new(), .h = al_hot_new(10 * SECOND), .now = 100 * SECOND};
    uint32_t main = frame_of(w->p, "main", "/w/train.py", 9, 1), load = frame_of(w->p, "load", "/w/data.py", 4, 3);
    uint32_t later = frame_of(w->p, "load", "/w/data.py", 6, 3), again = frame_of(w->p, "again", "/w/data.py", 20, 19);
    w->main = al_profile_stack(w->p, AL_PROFILE_NONE, main);
    w->load = al_profile_stack(w->p, w->main, load);
    w->load_later = al_profile_stack(w->p, w->main, later);
    // A function that calls itself, from another function of the same name elsewhere.
    w->other = al_profile_stack(w->p, AL_PROFILE_NONE, frame_of(w->p, "load", "/w/data.py", 41, 40));
    w->deep = w->other;
    for (int i = 0; i < 5; i++)
        w->deep = al_profile_stack(w->p, w->deep, again);
    assert_int_equal(al_hot_process(w->h, "process 7, rank 0 of 2", 0), 0);
    assert_int_equal(al_hot_process(w->h, "process 8, rank 1 of 2", 1), 1);
    assert_false(al_hot_knows(w->h, 0));
    assert_int_equal(al_hot_thread(w->h, 0, 0, "thread 7 MainThread"), 0);
    assert_int_equal(al_hot_thread(w->h, 2, 1, "thread 8 MainThread"), 0); // 1 was never told of
    assert_true(al_hot_knows(w->h, 2) && !al_hot_knows(w->h, 1));
}

static void tear_down(struct world *w) {
    al_hot_view_free(&w->v);
    al_hot_free(w->h);
    al_profile_free(w->p);
}

static void rounds(struct world *w, int count, uint32_t track, uint32_t stack, unsigned state) {
    for (int i = 0; i < count; i++) {
        assert_int_equal(al_hot_tick(w->h, w->now), 0);
        assert_int_equal(al_hot_add(w->h, track, stack, state), 0);
        w->now += SECOND / 10;
    }
}

static const struct al_hot_query all = {.track = AL_PROFILE_NONE, .whole = true};

static const struct al_hot_row *row_at(struct world *w, const struct al_hot_query *q, const char *name, int32_t line) {
    assert_int_equal(al_hot_rows(w->h, w->p, q, &w->v), 0);
    for (uint32_t i = 0; i < w->v.count; i++)
        if (strcmp(w->v.rows[i].name, name) == 0 && (line < 0 || w->v.rows[i].line == line))
            return &w->v.rows[i];
    return NULL;
}

static void functions_and_lines(void **state) {
    (void)state;
    struct world w;
    set_up(&w);
    rounds(&w, 6, 0, w.load, AL_HOT_GIL);
    rounds(&w, 3, 0, w.load_later, 0);
    rounds(&w, 1, 0, w.main, AL_HOT_WAITS);
    struct al_hot_query q = all;
    const struct al_hot_row *r = row_at(&w, &q, "load", 3);
    assert_int_equal(w.v.sum.total, 10);
    assert_int_equal(w.v.ticks, 10);
    assert_int_equal(w.v.count, 2);
    assert_true(r == &w.v.rows[0] && r->c.self == 9 && r->c.total == 9 && r->c.gil == 6 && r->self_ever == 9);
    r = row_at(&w, &q, "main", 1);
    assert_true(r->c.self == 1 && r->c.total == 10 && r->c.waits == 1);
    q.by = AL_HOT_BY_LINE;
    assert_int_equal(row_at(&w, &q, "load", 4)->c.self, 6);
    assert_int_equal(row_at(&w, &q, "load", 6)->c.self, 3);
    assert_int_equal(w.v.count, 3);
    tear_down(&w);
}

static void recursion_counts_once_and_names_are_not_enough(void **state) {
    (void)state;
    struct world w;
    set_up(&w);
    rounds(&w, 4, 0, w.deep, 0);
    rounds(&w, 4, 0, w.load, 0);
    struct al_hot_query q = all;
    const struct al_hot_row *r = row_at(&w, &q, "again", 19);
    assert_true(r->c.total == 4 && r->c.self == 4);
    assert_int_equal(row_at(&w, &q, "load", 40)->c.total, 4); // two functions of one name in one file
    assert_int_equal(row_at(&w, &q, "load", 3)->c.total, 4);
    tear_down(&w);
}

static void what_counts(void **state) {
    (void)state;
    struct world w;
    set_up(&w);
    rounds(&w, 5, 0, w.load, AL_HOT_GIL);
    rounds(&w, 15, 2, w.deep, AL_HOT_IDLE);
    struct al_hot_query q = all;
    assert_null(row_at(&w, &q, "again", -1));
    assert_true(w.v.sum.total == 5 && w.v.sum.all == 20 && w.v.sum.idle == 15);
    q.idle = true;
    const struct al_hot_row *r = row_at(&w, &q, "again", -1);
    assert_true(w.v.sum.total == 20 && r->c.total == 15 && r->c.idle == 15);
    q.gil = true;
    assert_null(row_at(&w, &q, "again", -1));
    assert_int_equal(w.v.sum.total, 5);
    q = all;
    q.idle = true;
    q.track = 2;
    assert_null(row_at(&w, &q, "main", -1));
    assert_int_equal(w.v.sum.all, 15);
    q = all;
    q.filter = "TRAIN";
    assert_non_null(row_at(&w, &q, "main", -1));
    assert_true(w.v.count == 1 && w.v.rows_all == 2 && w.v.sum.total == 5); // shares stay those of all
    tear_down(&w);
}

static void the_window_slides(void **state) {
    (void)state;
    struct world w;
    set_up(&w);
    struct al_hot_query q = all;
    q.whole = false;
    rounds(&w, 50, 0, w.load, 0);
    assert_int_equal(row_at(&w, &q, "load", -1)->c.self, 50);
    rounds(&w, 90, 0, w.main, 0); // 14 s in all
    const struct al_hot_row *r = row_at(&w, &q, "load", -1);
    assert_true(r->c.self < 20 && r->self_ever == 50);
    assert_true(w.v.ticks >= 95 && w.v.ticks <= 100 && w.v.span_ns <= 10 * SECOND);
    assert_int_equal(w.v.sum.total, w.v.ticks);
    rounds(&w, 30, 0, w.main, 0);
    r = row_at(&w, &q, "load", -1);
    assert_true(r->c.self == 0 && r->self_ever == 50); // still listed, with its time
    w.now += 3600 * SECOND; // alula was stopped
    rounds(&w, 1, 0, w.load, 0);
    assert_int_equal(row_at(&w, &q, "load", -1)->c.self, 1);
    assert_int_equal(w.v.sum.total, 1);
    al_hot_reset(w.h, false);
    assert_null(row_at(&w, &q, "load", -1));
    rounds(&w, 2, 0, w.load, 0);
    assert_true(row_at(&w, &q, "load", -1)->self_ever == 2 && w.v.ticks_ever == 2);
    tear_down(&w);
}

static void threads_and_ranks(void **state) {
    (void)state;
    struct world w;
    set_up(&w);
    for (int i = 0; i < 10; i++) { // rank 0 loads 20 %, rank 1 90 %
        assert_int_equal(al_hot_tick(w.h, w.now += SECOND / 10), 0);
        assert_int_equal(al_hot_add(w.h, 0, i < 2 ? w.load : w.main, AL_HOT_GIL), 0);
        assert_int_equal(al_hot_add(w.h, 2, i < 9 ? w.load : w.deep, i < 9 ? 0 : AL_HOT_IDLE), 0);
    }
    struct al_hot_query q = {.track = AL_PROFILE_NONE, .whole = true, .idle = true, .sort = AL_HOT_SORT_DIFFERENCE};
    const struct al_hot_row *r = row_at(&w, &q, "load", 3);
    assert_int_equal(w.v.ranks, 2);
    assert_true(r->rank == 0 || r->rank == 1);
    assert_float_equal(r->median_share, 0.55, 1e-6);
    assert_float_equal(r->rank == 1 ? r->rank_share - 0.9 : r->rank_share - 0.2, 0, 1e-6);
    q.by = AL_HOT_BY_THREAD;
    r = row_at(&w, &q, "thread 8 MainThread", -1);
    assert_int_equal(w.v.threads, 2);
    assert_string_equal(r->file, "process 8, rank 1 of 2");
    assert_true(r->c.all == 10 && r->c.idle == 1 && r->track == 2);
    const char *name, *file;
    int32_t line;
    al_profile_get_frame(w.p, r->most, &name, &file, &line);
    assert_string_equal(name, "load");
    assert_int_equal(line, 4);
    tear_down(&w);
}

// One sample of a rank that waits all the time would be 100 % of its own: it is not compared, until idle ones count.
static void ranks_with_hardly_a_sample(void **state) {
    (void)state;
    struct world w;
    set_up(&w);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(al_hot_tick(w.h, w.now += SECOND / 100), 0);
        assert_int_equal(al_hot_add(w.h, 0, w.main, AL_HOT_GIL), 0);
        assert_int_equal(al_hot_add(w.h, 2, w.load, i ? AL_HOT_IDLE : 0), 0);
    }
    struct al_hot_query q = {.track = AL_PROFILE_NONE, .whole = true, .sort = AL_HOT_SORT_DIFFERENCE};
    assert_int_equal(row_at(&w, &q, "load", 3)->rank, -1);
    q.idle = true;
    const struct al_hot_row *r = row_at(&w, &q, "load", 3);
    assert_int_equal(r->rank, 1);
    assert_float_equal(r->rank_share, 1, 1e-6);
    tear_down(&w);
}

static void around_a_function(void **state) {
    (void)state;
    struct world w;
    set_up(&w);
    rounds(&w, 6, 0, w.load, 0);
    rounds(&w, 3, 0, w.load_later, 0);
    rounds(&w, 1, 0, w.main, 0);
    rounds(&w, 5, 0, w.deep, 0);
    struct al_hot_query q = all;
    uint32_t load = row_at(&w, &q, "load", 3)->function, main = row_at(&w, &q, "main", 1)->function, again = row_at(&w, &q, "again", 19)->function;
    q.part = AL_HOT_LINES_OF;
    q.by = AL_HOT_BY_LINE;
    q.of = load;
    assert_int_equal(row_at(&w, &q, "load", 4)->c.self, 6);
    assert_int_equal(w.v.count, 2);
    q.by = AL_HOT_BY_FUNCTION;
    q.part = AL_HOT_CALLERS_OF;
    const struct al_hot_row *r = row_at(&w, &q, "main", 1);
    assert_true(w.v.count == 1 && r->c.total == 9 && r->c.self == 9);
    q.of = main;
    assert_int_equal(al_hot_rows(w.h, w.p, &q, &w.v), 0);
    assert_int_equal(w.v.count, 0); // a root
    q.part = AL_HOT_CALLED_BY;
    r = row_at(&w, &q, "load", 3);
    assert_true(w.v.count == 1 && r->c.total == 9 && r->c.self == 9 && w.v.sum.total == 15);
    q.of = again; // it calls itself, and is called by a function and by itself
    assert_int_equal(row_at(&w, &q, "again", 19)->c.total, 5);
    q.part = AL_HOT_CALLERS_OF;
    assert_int_equal(row_at(&w, &q, "again", 19)->c.total, 5);
    assert_int_equal(row_at(&w, &q, "load", 40)->c.total, 5);
    tear_down(&w);
}

static void orders(void **state) {
    (void)state;
    struct world w;
    set_up(&w);
    rounds(&w, 6, 0, w.load, 0);
    rounds(&w, 4, 0, w.deep, 0);
    static const struct {
        enum al_hot_sort sort;
        const char *first, *last;
    } cases[] = {{AL_HOT_SORT_SELF, "load", "load"}, {AL_HOT_SORT_TOTAL, "load", "load"}, {AL_HOT_SORT_NAME, "again", "main"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct al_hot_query q = all;
        q.sort = cases[i].sort;
        assert_int_equal(al_hot_rows(w.h, w.p, &q, &w.v), 0);
        assert_string_equal(w.v.rows[0].name, cases[i].first);
        assert_string_equal(w.v.rows[w.v.count - 1].name, cases[i].last);
        q.reverse = true;
        assert_int_equal(al_hot_rows(w.h, w.p, &q, &w.v), 0);
        assert_string_equal(w.v.rows[w.v.count - 1].name, cases[i].first);
    }
    tear_down(&w);
}

int al_test_hot(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_and_lines), cmocka_unit_test(recursion_counts_once_and_names_are_not_enough),
        cmocka_unit_test(what_counts),         cmocka_unit_test(the_window_slides),
        cmocka_unit_test(threads_and_ranks),   cmocka_unit_test(orders),
        cmocka_unit_test(ranks_with_hardly_a_sample),
        cmocka_unit_test(around_a_function),
    };
    return cmocka_run_group_tests_name("hot", tests, NULL, NULL);
}
