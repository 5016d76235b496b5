// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "suites.h"

static struct world w;

static int make(void **state) {
    (void)state;
    world_make(&w, 4, true);
    (void)world_finding(&w, AL_LEVEL_CRITICAL, 1, "one", "first");
    (void)world_finding(&w, AL_LEVEL_INFO, -1, "two", "second");
    (void)world_text(&w, 120, 40);
    return 0;
}
static int done(void **state) {
    (void)state;
    world_free(&w);
    return 0;
}

static enum al_action press(uint32_t key) {
    enum al_action action = al_tui_key(&w.tui, &w.in, key);
    (void)world_text(&w, 120, 40);
    return action;
}
static enum al_action type(const char *keys) {
    enum al_action action = AL_ACTION_NONE;
    for (; *keys; keys++)
        action = press(*keys == '\n' ? AL_KEY_ENTER : *keys == '\t' ? AL_KEY_TAB : *keys == '\033' ? AL_KEY_ESCAPE : (uint32_t)*keys);
    return action;
}

static void leaving(void **state) {
    (void)state;
    assert_int_equal(press(AL_KEY_ESCAPE), AL_ACTION_NONE);
    assert_int_equal(press('q'), AL_ACTION_QUIT);
    assert_int_equal(press(AL_KEY_F0 + 10), AL_ACTION_QUIT);
    assert_int_equal(press(3), AL_ACTION_QUIT);
    assert_int_equal(type("h"), AL_ACTION_NONE);
    assert_int_equal(w.tui.ui.screen, AL_SCREEN_HELP);
    assert_int_equal(type("q"), AL_ACTION_NONE); // out of the help, not out of the program
    assert_int_equal(w.tui.ui.screen, AL_SCREEN_MAIN);
}

static void focus_goes_round_and_skips_what_is_not_there(void **state) {
    (void)state;
    assert_int_equal(w.tui.ui.focus, AL_FOCUS_GPUS);
    (void)press(AL_KEY_TAB);
    assert_int_equal(w.tui.ui.focus, AL_FOCUS_PROCS);
    (void)press(AL_KEY_TAB);
    assert_int_equal(w.tui.ui.focus, AL_FOCUS_FINDINGS);
    (void)press(AL_KEY_BACK_TAB);
    assert_int_equal(w.tui.ui.focus, AL_FOCUS_PROCS);
    w.in.finding_count = 0;
    (void)press(AL_KEY_TAB);
    assert_int_equal(w.tui.ui.focus, AL_FOCUS_GPUS);
    (void)press('x'); // without the table
    (void)press(AL_KEY_TAB);
    assert_int_equal(w.tui.ui.focus, AL_FOCUS_GPUS);
}

static void details_open_for_what_is_chosen(void **state) {
    (void)state;
    (void)press(AL_KEY_DOWN);
    (void)press(AL_KEY_ENTER);
    assert_int_equal(w.tui.ui.screen, AL_SCREEN_GPU);
    assert_string_equal(w.tui.ui.gpu_uuid, "GPU-01");
    (void)type("\033\t\n");
    assert_int_equal(w.tui.ui.screen, AL_SCREEN_PROC);
    assert_int_equal(w.tui.ui.pid, 100);
    (void)type("\033\t\n");
    assert_int_equal(w.tui.ui.screen, AL_SCREEN_FINDING);
    assert_non_null(strstr(world_text(&w, 120, 40), "first"));
    // Ended while it is read: the page says so and does not turn into another finding.
    w.in.finding_count = 1;
    (void)al_str_copy(w.findings[0].key, sizeof w.findings[0].key, "other");
    assert_non_null(strstr(world_text(&w, 120, 40), "this finding is over"));
}

static void a_choice_follows_its_object(void **state) {
    (void)state;
    (void)type("\t");
    for (int i = 0; i < 3; i++)
        (void)press(AL_KEY_DOWN);
    assert_int_equal(w.tui.ui.pid, 201);
    int before = w.tui.ui.proc;
    al_snapshot_proc(w.s, 201)->m[AL_PROC_CPU].num = 50;
    (void)press('P'); // sorted by CPU it stands elsewhere
    assert_int_equal(w.tui.ui.pid, 201);
    assert_int_not_equal(w.tui.ui.proc, before);
    // Gone: the row stays, whoever is there now.
    struct al_proc *p = al_snapshot_proc(w.s, 201);
    int row = w.tui.ui.proc;
    p->pid = 250;
    for (uint32_t i = 0; i < w.s->row_count; i++)
        w.s->rows[i].pid = w.s->rows[i].pid == 201 ? 250 : w.s->rows[i].pid;
    al_snapshot_sort(w.s);
    (void)world_text(&w, 120, 40);
    assert_int_equal(w.tui.ui.proc, row);
    assert_int_not_equal(w.tui.ui.pid, 201);
}

static void a_folded_row_unfolds(void **state) {
    (void)state;
    (void)type("\t");
    (void)press(AL_KEY_DOWN);
    (void)press(AL_KEY_DOWN);
    assert_int_equal(w.tui.ui.pid, -200);
    (void)press(AL_KEY_ENTER);
    assert_true(w.tui.ui.workers);
    assert_int_equal(w.tui.ui.screen, AL_SCREEN_MAIN);
    (void)press('w');
    assert_false(w.tui.ui.workers);
}

static void typing_a_filter(void **state) {
    (void)state;
    (void)type("/rank:1q");
    assert_string_equal(w.tui.ui.filter, "rank:1q"); // q is a letter here
    (void)press(AL_KEY_BACKSPACE);
    assert_string_equal(w.tui.ui.filter, "rank:1");
    (void)press(AL_KEY_ENTER);
    assert_int_equal(w.tui.view.proc_count, 2);
    assert_int_equal(w.tui.ui.focus, AL_FOCUS_PROCS);
    (void)press(AL_KEY_ESCAPE);
    assert_string_equal(w.tui.ui.filter, "");
    (void)type("/x");
    (void)press(0xe9); // é takes two bytes and leaves as one letter
    assert_string_equal(w.tui.ui.filter, "x\xc3\xa9");
    (void)press(AL_KEY_BACKSPACE);
    assert_string_equal(w.tui.ui.filter, "x");
    for (int i = 0; i < 300; i++)
        (void)press('y');
    assert_int_equal(strlen(w.tui.ui.filter), sizeof w.tui.ui.filter - 1);
    (void)press(0x15);
    assert_string_equal(w.tui.ui.filter, "");
    (void)type("z\033");
    assert_string_equal(w.tui.ui.filter, "");
    assert_int_equal(w.tui.ui.prompt, AL_PROMPT_NONE);
}

static void a_signal_needs_a_process_a_choice_and_a_yes(void **state) {
    (void)state;
    assert_int_equal(type("k"), AL_ACTION_NONE); // the GPUs have the focus
    assert_int_equal(w.tui.ui.prompt, AL_PROMPT_NONE);
    assert_true(w.tui.ui.message[0]);
    (void)type("\t");
    (void)press(AL_KEY_DOWN);
    (void)type("k");
    assert_int_equal(w.tui.ui.prompt, AL_PROMPT_SIGNAL);
    assert_int_equal(w.tui.ui.target.pid, 200);
    assert_int_equal(w.tui.ui.target.start_ticks, 1200);
    (void)press(AL_KEY_ENTER);
    assert_int_equal(w.tui.ui.prompt, AL_PROMPT_CONFIRM);
    assert_int_equal(press(AL_KEY_ENTER), AL_ACTION_NONE); // Enter twice is no yes
    assert_int_equal(w.tui.ui.prompt, AL_PROMPT_NONE);
    assert_string_equal(w.tui.ui.message, "nothing was sent");
    (void)type("k");
    (void)press(AL_KEY_END);
    (void)press(AL_KEY_ENTER);
    assert_int_equal(press('y'), AL_ACTION_SIGNAL);
    assert_int_equal(w.tui.ui.target.number, SIGKILL);
    (void)type("k\033");
    assert_int_equal(w.tui.ui.prompt, AL_PROMPT_NONE);
    // The target is who was chosen when the menu opened, whatever moves meanwhile.
    (void)type("k");
    w.tui.ui.pid = 201;
    (void)press(AL_KEY_ENTER);
    assert_int_equal(press('y'), AL_ACTION_SIGNAL);
    assert_int_equal(w.tui.ui.target.pid, 200);
    // A folded row has no pid.
    (void)press(AL_KEY_HOME);
    (void)press(AL_KEY_DOWN);
    (void)press(AL_KEY_DOWN);
    assert_true(w.tui.ui.pid < 0);
    (void)type("k");
    assert_int_equal(w.tui.ui.prompt, AL_PROMPT_NONE);
}

static void intervals_step_within_bounds(void **state) {
    (void)state;
    assert_int_equal(press('+'), AL_ACTION_INTERVAL);
    assert_int_equal(w.tui.ui.interval_ns, S);
    assert_int_equal(press('-'), AL_ACTION_INTERVAL);
    assert_int_equal(w.tui.ui.interval_ns, S / 2);
    for (int i = 0; i < 30; i++)
        (void)press('-');
    assert_int_equal(w.tui.ui.interval_ns, 100 * AL_NS_PER_MS);
    assert_int_equal(press('-'), AL_ACTION_NONE);
    for (int i = 0; i < 30; i++)
        (void)press('+');
    assert_int_equal(w.tui.ui.interval_ns, 60 * S);
    w.tui.ui.interval_ns = 700 * AL_NS_PER_MS; // one that was given
    (void)press('-');
    assert_int_equal(w.tui.ui.interval_ns, S / 2);
}

static void sorting_by_menu_letter_and_click(void **state) {
    (void)state;
    (void)type("M");
    assert_int_equal(w.tui.ui.sort, AL_SORT_MEM);
    (void)type("M");
    assert_true(w.tui.ui.reverse);
    (void)type("s");
    (void)press(AL_KEY_HOME);
    (void)press(AL_KEY_DOWN);
    (void)press(AL_KEY_ENTER);
    assert_int_equal(w.tui.ui.sort, AL_SORT_PID);
    assert_false(w.tui.ui.reverse);
    struct al_rect r = w.tui.layout.pane[AL_PANE_PROCS];
    (void)al_tui_mouse(&w.tui, &w.in, 9, r.y, AL_MOUSE_CLICK); // "user"
    assert_int_equal(w.tui.ui.sort, AL_SORT_USER);
}

static void the_mouse_chooses_opens_and_scrolls(void **state) {
    (void)state;
    struct al_rect gpus = w.tui.layout.pane[AL_PANE_GPUS], procs = w.tui.layout.pane[AL_PANE_PROCS];
    struct al_rect findings = w.tui.layout.pane[AL_PANE_FINDINGS];
    (void)al_tui_mouse(&w.tui, &w.in, 5, gpus.y + w.tui.layout.gpu_head + 2 * w.tui.layout.gpu_lines, AL_MOUSE_CLICK);
    assert_int_equal(w.tui.ui.gpu, 2);
    (void)al_tui_mouse(&w.tui, &w.in, 5, procs.y + 2, AL_MOUSE_CLICK);
    assert_int_equal(w.tui.ui.pid, 200);
    (void)al_tui_mouse(&w.tui, &w.in, 5, procs.y + 2, AL_MOUSE_WHEEL_DOWN);
    assert_int_equal(w.tui.ui.proc, 4);
    (void)al_tui_mouse(&w.tui, &w.in, 5, findings.y + 1, AL_MOUSE_DOUBLE);
    assert_int_equal(w.tui.ui.screen, AL_SCREEN_FINDING);
    assert_string_equal(w.tui.ui.finding_key, "test/2");
    (void)press(AL_KEY_ESCAPE);
    for (int y = -2; y < 50; y++) // anywhere, even outside
        for (int x = -2; x < 130; x += 3)
            (void)al_tui_mouse(&w.tui, &w.in, x, y, AL_MOUSE_CLICK);
}

static void keys_at_random_never_break_a_frame(void **state) {
    (void)state;
    uint64_t seed = 42;
    for (int i = 0; i < 20000; i++) {
        uint64_t random = next_random(&seed);
        uint32_t key = random % 3 ? (uint32_t)(random >> 8) % 128 : AL_KEY_NONE + (uint32_t)(random >> 8) % 30;
        if (random % 17 == 0)
            (void)al_tui_mouse(&w.tui, &w.in, (int)(random >> 16 & 0x7f), (int)(random >> 24 & 0x3f), (enum al_mouse)(random >> 32 & 3));
        else
            (void)al_tui_key(&w.tui, &w.in, key);
        if (random % 101 == 0)
            world_tick(&w, S);
        w.in.finding_count = (uint32_t)(random >> 40) % 3;
        (void)world_text(&w, 1 + (int)(random >> 44 & 0x7f), 1 + (int)(random >> 52 & 0x3f));
    }
}

#define UI_TEST(f) cmocka_unit_test_setup_teardown(f, make, done)

int ui_suite(void) {
    const struct CMUnitTest tests[] = {
        UI_TEST(leaving),
        UI_TEST(focus_goes_round_and_skips_what_is_not_there),
        UI_TEST(details_open_for_what_is_chosen),
        UI_TEST(a_choice_follows_its_object),
        UI_TEST(a_folded_row_unfolds),
        UI_TEST(typing_a_filter),
        UI_TEST(a_signal_needs_a_process_a_choice_and_a_yes),
        UI_TEST(intervals_step_within_bounds),
        UI_TEST(sorting_by_menu_letter_and_click),
        UI_TEST(the_mouse_chooses_opens_and_scrolls),
        UI_TEST(keys_at_random_never_break_a_frame),
    };
    return cmocka_run_group_tests_name("ui", tests, NULL, NULL);
}
