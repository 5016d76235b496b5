// SPDX-License-Identifier: Apache-2.0
// Whole frames: a small one to the letter, all sizes for soundness, and what must be on them.
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "suites.h"

static void a_small_screen_to_the_letter(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 2, true);
    (void)world_finding(&w, AL_LEVEL_WARNING, 1, "running inefficiently", "GPU 1: 12 % for 40 s");
    assert_string_equal(world_text(&w, 80, 14),
        " alula  node1  2 × NVIDIA H200  driver 580.1              every 0.5 s  22:13:20\n"
        "warning GPU 1 running inefficiently: 12 % for 40 s\n"
        "GPU          util memory                 power   temp    clock    SM  tens  DRAM\n"
        "  0 ━━━╸───   50% ━━━╸───  70.0/140G  350/700W   50°C  1980MHz   40%   20%   30%\n"
        "  1 ━━━━───   60% ━━━╸───  70.0/140G  350/700W   51°C  1980MHz   40%   20%   30%\n"
        "    PID user      GPU▼  role     GPU mem  SM%  CPU% host mem command\n"
        "    100 alice           launcher                 25     2.0G torchrun train.py\n"
        "    200 alice     0     rank 0     69.0G   80    25     2.0G ├─python train.py\n"
        "                        2 work.                  50     2.0G │ └─2 DataLoader w…\n"
        "    201 alice     1     rank 1     69.0G   80    25     2.0G └─python train.py\n"
        "                        2 work.                  50     2.0G   └─2 DataLoader w…\n"
        "\n"
        "\n"
        "F1 help  Tab pane  Enter details  / filter  s sort  t tree  k signal  c charts\n");
    world_free(&w);
}

static void tiny_screens_still_show_something(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 2, true);
    assert_string_equal(world_text(&w, 1, 1), "0\n");
    assert_string_equal(world_text(&w, 10, 1), "  0   50%\n");
    assert_string_equal(world_text(&w, 20, 2), "  0   50%  70.0/140G\n  1   60%  70.0/140G\n");
    world_free(&w);
}

// Every size, every screen, with and without ASCII: sound cells, and ASCII alone where that is asked for.
static void every_size_draws(void **state) {
    (void)state;
    static const int counts[] = {0, 1, 8, 64};
    static const enum al_screen screens[] = {AL_SCREEN_MAIN, AL_SCREEN_GPU, AL_SCREEN_PROC, AL_SCREEN_FINDING, AL_SCREEN_HELP};
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
        struct world w;
        world_make(&w, counts[n], counts[n] > 0);
        for (int i = 0; i < 5; i++)
            (void)world_finding(&w, AL_LEVEL_INFO, i % 2 - 1, "a finding", "訓練 with wide text and more of it than fits");
        for (int h = 1; h <= 100; h += h < 30 ? 1 : 17)
            for (int width = 1; width <= 300; width += width < 50 ? 1 : 29) {
                w.tui.ui.screen = screens[(h + width) % 5];
                w.tui.ui.prompt = (enum al_prompt)((h * 7 + width) % 5);
                w.tui.grid.ascii = (h + width) % 2;
                w.tui.ui.all_gpus = width % 3 == 0;
                assert_int_equal(al_tui_frame(&w.tui, &w.in, width, h), 0);
                for (int i = 0; i < width * h; i++) {
                    struct al_cell c = w.tui.grid.cells[i];
                    assert_true(c.cp != 0 || (i % width > 0 && w.tui.grid.cells[i - 1].cp >= 0x1100));
                    assert_true(!w.tui.grid.ascii || (c.cp >= 0x20 && c.cp < 0x7f));
                    assert_true(c.cp == 0 || c.cp >= 0x20);
                }
            }
        world_free(&w);
    }
}

static void old_values_say_so_and_how_old(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 2, true);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        if (al_ok(w.s->gpus[1].m[m]))
            w.s->gpus[1].m[m] = (struct al_value){w.s->gpus[1].m[m].num, w.s->monotonic_ns - 75 * S, AL_STATUS_STALE};
    (void)al_str_copy(w.s->hung_call, sizeof w.s->hung_call, "nvmlDeviceGetTemperature");
    w.s->hung_since_ns = w.s->monotonic_ns - 130 * S;
    const char *text = world_text(&w, 110, 30);
    assert_non_null(strstr(text, "the driver hangs: nvmlDeviceGetTemperature has not answered for 2m;"));
    assert_non_null(strstr(text, " 60%~"));
    assert_non_null(strstr(text, " 51°C~"));
    assert_non_null(strstr(text, "70.0/140G~"));
    assert_non_null(strstr(text, " 75s\n"));
    assert_non_null(strstr(text, " 50% "));
    assert_non_null(strstr(text, " 69.0G~")); // the driver's word on processes is as old
    w.tui.ui.gpu = 1;
    (void)al_str_copy(w.tui.ui.gpu_uuid, sizeof w.tui.ui.gpu_uuid, "GPU-01");
    w.tui.ui.screen = AL_SCREEN_GPU;
    text = world_text(&w, 110, 60);
    assert_non_null(strstr(text, "temperature_celsius                               51 °C    75s  the last reading is old"));
    world_free(&w);
}

static void silence_is_told(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 1, false);
    w.in.silent_ns = S;
    assert_null(strstr(world_text(&w, 80, 24), "no reading"));
    w.in.silent_ns = 12 * S;
    assert_non_null(strstr(world_text(&w, 80, 24), "no reading for 12s: all figures are from before"));
    w.in.s = NULL;
    assert_non_null(strstr(world_text(&w, 80, 24), "no reading yet after 12s"));
    assert_non_null(strstr(world_text(&w, 80, 24), "waiting for the first reading"));
    world_free(&w);
}

static void unknown_is_never_zero(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 1, false);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        w.s->gpus[0].m[m] = al_value_none(m % 2 ? AL_STATUS_DENIED : AL_STATUS_UNSUPPORTED);
    const char *text = world_text(&w, 80, 10);
    assert_non_null(strstr(text, " - "));
    assert_null(strstr(text, "0%"));
    assert_null(strstr(text, "0W"));
    w.tui.ui.screen = AL_SCREEN_GPU;
    text = world_text(&w, 100, 300);
    assert_non_null(strstr(text, "permission denied"));
    assert_non_null(strstr(text, "not supported by this GPU or driver"));
    world_free(&w);
}

static void lost_gpus_keep_their_row(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 2, false);
    w.s->gpus[0].info.status = AL_STATUS_LOST;
    assert_non_null(strstr(world_text(&w, 80, 24), "  0 the GPU is lost"));
    world_free(&w);
}

static void throttling_is_on_the_row(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 1, false);
    w.s->gpus[0].m[AL_GPU_THROTTLE].num = 0x48;
    assert_non_null(strstr(world_text(&w, 120, 30), "held by hot (hardware)  SM 1980MHz"));
    w.s->gpus[0].m[AL_GPU_THROTTLE].num = 0x4;
    assert_non_null(strstr(world_text(&w, 120, 8), "power cap"));
    w.s->gpus[0].m[AL_GPU_THROTTLE].num = 0x1; // idle holds nobody back
    assert_null(strstr(world_text(&w, 120, 30), "held"));
    world_free(&w);
}

static void tell_of(struct world *w, pid_t pid, uint64_t start_ticks, double rate) {
    struct al_rank *r = al_snapshot_add_rank(w->s);
    assert_non_null(r);
    *r = (struct al_rank){.pid = pid, .start_ticks = start_ticks, .job = 100, .rank = pid - 200, .world = 2, .local_rank = -1,
                          .source = "torch.optim hook"};
    int64_t now = w->s->monotonic_ns;
    r->m[AL_RANK_TRAINING] = al_value_ok(1, now);
    r->m[AL_RANK_STEP] = al_value_ok(1200, now);
    r->m[AL_RANK_STEP_RATE] = al_value_ok(rate, now);
    r->m[AL_RANK_STEP_SECONDS] = al_value_ok(1 / rate, now);
    r->m[AL_RANK_PHASE] = al_value_ok(AL_IN_BACKWARD, now - 34 * S);
    for (int m = AL_RANK_SHARE_OTHER; m <= AL_RANK_SHARE_BETWEEN; m++)
        r->m[m] = al_value_ok(0, now);
    r->m[AL_RANK_SHARE_DATA] = al_value_ok(0.25, now);
    r->m[AL_RANK_SHARE_BACKWARD] = al_value_ok(0.7, now);
    r->m[AL_RANK_SHARE_OTHER] = al_value_ok(0.05, now);
    al_snapshot_sort(w->s);
}

static void ranks_tell_where_they_are(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 2, true);
    tell_of(&w, 200, 1200, 2.406);
    tell_of(&w, 201, 77, 9); // of a process that had the pid before
    const char *text = world_text(&w, 120, 20);
    assert_non_null(strstr(text, "   step steps/s data% phase     command\n"));
    assert_non_null(strstr(text, "   1200    2.41    25 backward  ├─python train.py\n"));
    assert_null(strstr(text, "9.00"));
    // The details: where it is and since when, and its partition as bars.
    w.tui.ui.focus = AL_FOCUS_PROCS;
    w.tui.ui.screen = AL_SCREEN_PROC;
    w.tui.ui.pid = 200;
    text = world_text(&w, 100, 40);
    assert_non_null(strstr(text, "training        step 1200, epoch -, in backward for 34s\n"));
    assert_non_null(strstr(text, "rate            2.41 steps a second, 416 ms a step\n"));
    assert_non_null(strstr(text, "known by        torch.optim hook\n"));
    assert_non_null(strstr(text, "  data            25.0 %  ███████████████\n"
                                 "  backward        70.0 %  ██████████████████████████████████████████\n"
                                 "  other            5.0 %  ███\n"));
    w.s->ranks[0].m[AL_RANK_STEP].status = w.s->ranks[0].m[AL_RANK_PHASE].status = AL_STATUS_STALE;
    text = world_text(&w, 100, 40);
    assert_non_null(strstr(text, "step 1200~, epoch -, in backward for 34s (the last that was told)\n"));
    world_free(&w);
}

static void hostile_process_names_are_cleaned(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 1, true);
    struct al_proc *p = al_snapshot_proc(w.s, 200);
    (void)al_str_copy(p->command, sizeof p->command, "py\033]0;owned\007\nthon\xc3");
    (void)al_str_copy(p->user, sizeof p->user, "\033[31mroot");
    const char *text = world_text(&w, 120, 30);
    assert_null(strchr(text, '\033'));
    assert_null(strchr(text, '\007'));
    assert_non_null(strstr(text, "py?]0;owned??thon?"));
    w.tui.ui.pid = 200;
    w.tui.ui.screen = AL_SCREEN_PROC;
    text = world_text(&w, 120, 30);
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "py?]0;owned? thon?"));
    world_free(&w);
}

static void numbers_are_short_and_have_units(void **state) {
    (void)state;
    static const struct {
        enum al_unit unit;
        double value;
        const char *text;
    } cases[] = {
        {AL_UNIT_RATIO, 0.974, "97%"},         {AL_UNIT_BYTES, 0, "0B"},
        {AL_UNIT_BYTES, 1023.9 * 1024, "1.0M"},         {AL_UNIT_BYTES, 99.96 * GIB, "100G"},
        {AL_UNIT_BYTES, 1023.9 * GIB, "1.0T"}, {AL_UNIT_BYTES_PER_SECOND, 999.9e6, "1.0GB/s"},
        {AL_UNIT_WATTS, 639.6, "640W"},        {AL_UNIT_HERTZ, 1980e6, "1980MHz"},
        {AL_UNIT_SECONDS, 59.9, "59s"},        {AL_UNIT_SECONDS, 3661, "1h01m"},
        {AL_UNIT_SECONDS, 1e6, "11d13h"},      {AL_UNIT_COUNT, 16, "16"},
    };
    char text[AL_TXT];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        al_txt_short(text, cases[i].unit, al_value_ok(cases[i].value, 0));
        assert_string_equal(text, cases[i].text);
    }
    al_txt_short(text, AL_UNIT_RATIO, al_value_none(AL_STATUS_LOST));
    assert_string_equal(text, "-");
    al_txt_of(text, AL_UNIT_WATTS, al_value_ok(640, 0), al_value_none(AL_STATUS_UNSUPPORTED));
    assert_string_equal(text, "640W");
    al_txt_of(text, AL_UNIT_BYTES, al_value_ok(5 * 1048576, 0), al_value_ok(140 * GIB, 0));
    assert_string_equal(text, "5.0M/140G");
}

int frame_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_screen_to_the_letter),
        cmocka_unit_test(tiny_screens_still_show_something),
        cmocka_unit_test(every_size_draws),
        cmocka_unit_test(old_values_say_so_and_how_old),
        cmocka_unit_test(silence_is_told),
        cmocka_unit_test(unknown_is_never_zero),
        cmocka_unit_test(lost_gpus_keep_their_row),
        cmocka_unit_test(throttling_is_on_the_row),
        cmocka_unit_test(ranks_tell_where_they_are),
        cmocka_unit_test(hostile_process_names_are_cleaned),
        cmocka_unit_test(numbers_are_short_and_have_units),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
