// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "suites.h"

#define W_MAX 300
#define H_MAX 100

static bool is_there(struct al_rect r) {
    return r.w > 0 && r.h > 0;
}

// Inside the screen, none empty in one direction only, every line of the screen in exactly one of them.
static void check_panes(const struct al_layout *l, int w, int h) {
    uint8_t taken[H_MAX] = {0};
    for (int i = 0; i < AL_PANE_COUNT; i++) {
        struct al_rect r = l->pane[i];
        if (!is_there(r)) {
            assert_int_equal(r.w, 0);
            assert_int_equal(r.h, 0);
            continue;
        }
        assert_int_equal(r.x, 0);
        assert_int_equal(r.w, w);
        assert_true(r.y >= 0 && r.y + r.h <= h);
        for (int y = r.y; y < r.y + r.h; y++)
            taken[y]++;
    }
    for (int y = 0; y < h; y++)
        assert_int_equal(taken[y], 1);
}

// Side by side and below each other inside their pane: no overlap, none empty.
static void check_charts(const struct al_layout *l) {
    struct al_rect p = l->pane[AL_PANE_CHARTS];
    int area = 0;
    if (!is_there(p)) {
        assert_false(is_there(al_layout_chart(l, 0)));
        return;
    }
    for (int i = 0; i < l->charts; i++) {
        struct al_rect r = al_layout_chart(l, i);
        assert_true(r.w >= 10 && r.h >= 2);
        assert_true(r.x >= p.x && r.y >= p.y && r.x + r.w <= p.x + p.w && r.y + r.h <= p.y + p.h);
        for (int k = 0; k < i; k++) {
            struct al_rect o = al_layout_chart(l, k);
            assert_true(r.x >= o.x + o.w || o.x >= r.x + r.w || r.y >= o.y + o.h || o.y >= r.y + r.h);
        }
        area += r.w * r.h;
    }
    assert_int_equal(area, p.w * p.h);
    assert_false(is_there(al_layout_chart(l, l->charts)));
    assert_false(is_there(al_layout_chart(l, -1)));
}

static void check_gpus(const struct al_layout *l, const struct al_layout_in *in) {
    struct al_rect r = l->pane[AL_PANE_GPUS];
    assert_true(is_there(r)); // GPUs are always in sight
    assert_true(l->gpu_rows >= 1 && l->gpu_columns >= 1 && l->gpu_lines >= 1 && l->gpu_lines <= 2);
    assert_true(l->gpu_rows * l->gpu_lines + l->gpu_head <= r.h);
    // No column without a GPU in it.
    int n = in->gpus > 1 ? in->gpus : 1, rows = (n + l->gpu_columns - 1) / l->gpu_columns;
    assert_true((l->gpu_columns - 1) * rows < n);
    if (l->gpu_columns > 1)
        assert_true(in->w / l->gpu_columns >= AL_GPU_CELL_MIN);
}

static void check(const struct al_layout_in *in) {
    struct al_layout l;
    memset(&l, 0x5a, sizeof l);
    al_layout_main(in, &l);
    check_panes(&l, in->w, in->h);
    check_charts(&l);
    check_gpus(&l, in);
    assert_true(!in->no_procs || !is_there(l.pane[AL_PANE_PROCS]));
    assert_true(in->charts > 0 || !is_there(l.pane[AL_PANE_CHARTS]));
    assert_true(!l.proc_head || l.pane[AL_PANE_PROCS].h >= 2);
}

static void every_size_and_count_has_a_sound_layout(void **state) {
    (void)state;
    static const int gpus[] = {0, 1, 2, 3, 4, 7, 8, 16, 33, 64};
    uint64_t seed = 1;
    for (int h = 1; h <= H_MAX; h++)
        for (int w = 1; w <= W_MAX; w++)
            for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
                uint64_t random = next_random(&seed);
                const struct al_layout_in in = {.w = w, .h = h, .gpus = gpus[i], .findings = random % 9,
                                                .procs = (int)(random >> 8 & 0xff) % 200, .charts = (int)(random >> 16 & 0xf),
                                                .no_procs = random >> 24 & 1};
                check(&in);
            }
}

static void every_count_of_gpus_fits(void **state) {
    (void)state;
    for (int n = 0; n <= 64; n++)
        for (int h = 1; h <= H_MAX; h += 3)
            for (int w = 1; w <= W_MAX; w += 7) {
                const struct al_layout_in in = {.w = w, .h = h, .gpus = n, .findings = 2, .procs = 2 * n, .charts = 10};
                check(&in);
            }
}

static void sixteen_gpus_are_on_one_small_screen(void **state) {
    (void)state;
    struct al_layout l;
    const struct al_layout_in in = {.w = 80, .h = 24, .gpus = 16, .findings = 1, .procs = 17, .charts = 10};
    al_layout_main(&in, &l);
    assert_true(l.gpu_rows * l.gpu_columns >= 16);
    assert_true(l.pane[AL_PANE_PROCS].h >= 4);
}

static void details_and_boxes_stay_inside(void **state) {
    (void)state;
    for (int h = 1; h <= H_MAX; h++)
        for (int w = 1; w <= W_MAX; w++)
            for (int charts = 0; charts <= 12; charts += 3) {
                struct al_layout l;
                al_layout_details(w, h, charts, &l);
                check_panes(&l, w, h);
                check_charts(&l);
                assert_true(is_there(l.pane[AL_PANE_GPUS]));
                struct al_rect box = al_layout_box(w, h, 70, 4 + charts);
                assert_true(box.x >= 0 && box.y >= 0 && box.w > 0 && box.h > 0 && box.x + box.w <= w && box.y + box.h <= h);
            }
}

int layout_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_and_count_has_a_sound_layout),
        cmocka_unit_test(every_count_of_gpus_fits),
        cmocka_unit_test(sixteen_gpus_are_on_one_small_screen),
        cmocka_unit_test(details_and_boxes_stay_inside),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
