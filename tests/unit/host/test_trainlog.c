// SPDX-License-Identifier: Apache-2.0
// Lines as ms-swift 3.x and 4.x write them (the keys are theirs, the numbers made up).
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "host/trainlog.h"
#include "suite.h"

static struct al_trainlog read_lines(const char *text) {
    struct al_trainlog l;
    al_trainlog_init(&l);
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
        al_trainlog_line(&l, p, strcspn(p, "\n"), false);
    return l;
}

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9 * (1 + fabs(b));
}

static void the_older_key_is_steps_a_second(void **state) {
    (void)state;
    struct al_trainlog l = read_lines(
        "{\"loss\": 1.6, \"token_acc\": 0.63, \"grad_norm\": 1.9, \"learning_rate\": 1e-04, \"memory(GiB)\": 2.44, "
        "\"train_speed(iter/s)\": 0.25, \"epoch\": 0.0, \"global_step/max_steps\": \"1/94\", \"percentage\": \"1.06%\", "
        "\"elapsed_time\": \"3s\", \"remaining_time\": \"9h 30m 16s\"}\n"
        "{\"loss\": 1.5, \"memory(GiB)\": 5.15, \"train_speed(iter/s)\": 0.275, \"global_step/max_steps\": \"5/94\", "
        "\"elapsed_time\": \"1m 0s\", \"remaining_time\": \"7h 59m 46s\"}\n");
    assert_int_equal(l.writer, AL_TRAINLOG_HF);
    assert_int_equal(l.speed_key, AL_TRAINLOG_ITER_S);
    assert_int_equal(l.lines, 2);
    assert_int_equal(l.steps, 2);
    assert_int_equal(l.damaged, 0);
    assert_int_equal(l.first_step, 1);
    assert_int_equal(l.step, 5);
    assert_int_equal(l.steps_of_all, 94);
    assert_true(near(l.steps_per_second, 0.275) && near(l.elapsed_seconds, 60) && near(l.memory_gib, 5.15));
    assert_true(near(l.remaining_seconds, 7 * 3600 + 59 * 60 + 46) && near(l.loss, 1.5));
    assert_false(l.old_speed_after_resume);
    assert_true(isnan(l.train_runtime));
}

static void the_newer_key_is_seconds_a_step(void **state) {
    (void)state;
    struct al_trainlog l = read_lines("{\"iteration\": \"20/1000\", \"loss\": 0.5, \"elapsed_time\": \"2d 1h 0m 5s\", "
                                      "\"memory(GiB)\": 53.84, \"train_speed(s/it)\": 4}\n");
    assert_int_equal(l.writer, AL_TRAINLOG_MEGATRON);
    assert_int_equal(l.speed_key, AL_TRAINLOG_S_IT);
    assert_true(near(l.steps_per_second, 0.25) && near(l.elapsed_seconds, 2 * 86400 + 3600 + 5));
    assert_int_equal(l.step, 20);
}

static void numbers_may_be_strings(void **state) {
    (void)state;
    struct al_trainlog l = read_lines("{\"loss\": \"1.001\", \"train_speed(s/it)\": \"2.5\", \"memory(GiB)\": \"9\", "
                                      "\"elapsed_time\": \"12.5\", \"global_step/max_steps\": \"3/9\"}\n");
    assert_true(near(l.steps_per_second, 0.4) && near(l.loss, 1.001) && near(l.memory_gib, 9));
    assert_true(near(l.elapsed_seconds, 12.5));
}

static void a_resumed_run_s_old_speed_is_known_for_wrong(void **state) {
    (void)state;
    assert_true(read_lines("{\"train_speed(iter/s)\": 9, \"global_step/max_steps\": \"505/900\"}\n").old_speed_after_resume);
    assert_false(read_lines("{\"train_speed(s/it)\": 9, \"global_step/max_steps\": \"505/900\"}\n").old_speed_after_resume);
}

static void what_is_no_figure_is_not_known(void **state) {
    (void)state;
    struct al_trainlog l = read_lines("{\"train_speed(s/it)\": 0.0, \"memory(GiB)\": NaN, \"loss\": null, "
                                      "\"elapsed_time\": \"soon\", \"global_step/max_steps\": \"x/y\"}\n"
                                      "{\"train_speed(iter/s)\": 1e308, \"memory(GiB)\": -1, \"iteration\": {\"a\": [1]}}\n");
    assert_true(isnan(l.steps_per_second) && isnan(l.memory_gib) && isnan(l.loss) && isnan(l.elapsed_seconds));
    assert_int_equal(l.steps, 0);
    assert_int_equal(l.damaged, 0);
    assert_int_equal(l.step, -1);
}

static void what_is_no_object_is_counted(void **state) {
    (void)state;
    struct al_trainlog l = read_lines("Train:  4%\n[1]\n{\"a\": 1\n{\"a\" 1}\n{}\n\n{\"a\": \"b}\n{\"a\": [{\"b\": \"]}\"}], \"loss\": 2}\n");
    assert_int_equal(l.lines, 7);
    assert_int_equal(l.damaged, 5);
    assert_true(near(l.loss, 2));
}

static void times_are_read_as_they_are_written(void **state) {
    static const struct {
        const char *text;
        double seconds; // -1: none
    } cases[] = {{"34s", 34}, {"1m 0s", 60}, {"9h 30m 16s", 34216}, {"1d 0h 0m 1s", 86401}, {"7", 7}, {"2h", 7200},
                 {"", -1}, {"s", -1}, {"5x", -1}, {"1s 1m", -1}, {"1m1m", -1}, {"-5s", -1}, {"-5", -1}, {"1.2.3s", -1}, {"1m ", 60}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double seconds = -1;
        assert_int_equal(al_trainlog_seconds(cases[i].text, &seconds), cases[i].seconds >= 0);
        assert_true(near(seconds, cases[i].seconds));
    }
}

// ---- the file ----

static char folder[64];

static void write_to(const char *name, const char *text, bool append) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC), 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void the_newest_version_s_log_is_found(void **state) {
    char path[128], want[128];
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    (void)state;
    (void)strcpy(folder, "/tmp/alula-trainlog-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(al_trainlog_find(folder, 5000 * S, path, sizeof path), AL_E_NOENT);
    static const char *const names[] = {"v0-20240101-000000", "v10-20240101-000001", "checkpoint-5", "vx-1"};
    for (size_t i = 0; i < 4; i++) {
        char name[128];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        (void)snprintf(name, sizeof name, "%s/logging.jsonl", names[i]);
        write_to(name, "{}\n", false);
    }
    (void)snprintf(want, sizeof want, "%s/v0-20240101-000000/logging.jsonl", folder);
    assert_int_equal(utimensat(AT_FDCWD, want, old, 0), 0);
    (void)snprintf(want, sizeof want, "%s/v10-20240101-000001/logging.jsonl", folder);
    assert_int_equal(al_trainlog_find(folder, 5000 * S, path, sizeof path), 0);
    assert_string_equal(path, want);
    // of an earlier run
    assert_int_equal(utimensat(AT_FDCWD, want, old, 0), 0);
    assert_int_equal(al_trainlog_find(folder, 5000 * S, path, sizeof path), AL_E_NOENT);
    // the trainer's folder itself
    write_to("logging.jsonl", "{}\n", false);
    assert_int_equal(al_trainlog_find(folder, 5000 * S, path, sizeof path), 0);
    assert_int_equal(strlen(path), strlen(folder) + strlen("/logging.jsonl"));
    char command[128];
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void it_is_followed_to_a_last_line_of_any_length(void **state) {
    struct al_trainlog_tail t;
    struct al_trainlog l;
    char path[128];
    (void)state;
    (void)strcpy(folder, "/tmp/alula-trainlog-XXXXXX");
    assert_non_null(mkdtemp(folder));
    write_to("logging.jsonl", "{\"iteration\": \"1/9\", \"train_spe", false);
    (void)snprintf(path, sizeof path, "%s/logging.jsonl", folder);
    al_trainlog_init(&l);
    assert_int_equal(al_trainlog_open(&t, path), 0);
    (void)al_trainlog_read(&t, &l, 1 << 20, false);
    assert_int_equal(l.lines, 0);
    write_to("logging.jsonl", "ed(s/it)\": 2}\n{\"iteration\": \"2/9\", \"train_speed(s/it)\": 4}\n", true);
    (void)al_trainlog_read(&t, &l, 1 << 20, false);
    assert_int_equal(l.steps, 2);
    // the summary: 1 MiB, its figures in front, no newline
    char *long_line = malloc(1 << 20);
    memset(long_line, ' ', 1 << 20);
    memcpy(long_line, "{\"train_runtime\": 7.5, \"log_history\": [", 39);
    long_line[(1 << 20) - 1] = '\0';
    write_to("logging.jsonl", long_line, true);
    free(long_line);
    while (al_trainlog_read(&t, &l, 100000, false))
        ;
    (void)al_trainlog_read(&t, &l, 100000, true);
    assert_int_equal(l.lines, 3);
    assert_int_equal(l.damaged, 0);
    assert_true(near(l.train_runtime, 7.5) && near(l.steps_per_second, 0.25));
    write_to("logging.jsonl", "\n{\"loss\": 3}", true);
    (void)al_trainlog_read(&t, &l, 100000, true);
    assert_true(near(l.loss, 3));
    al_trainlog_close(&t);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(al_trainlog_open(&t, path), AL_E_FORMAT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int trainlog_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_older_key_is_steps_a_second),
        cmocka_unit_test(the_newer_key_is_seconds_a_step),
        cmocka_unit_test(numbers_may_be_strings),
        cmocka_unit_test(a_resumed_run_s_old_speed_is_known_for_wrong),
        cmocka_unit_test(what_is_no_figure_is_not_known),
        cmocka_unit_test(what_is_no_object_is_counted),
        cmocka_unit_test(times_are_read_as_they_are_written),
        cmocka_unit_test(the_newest_version_s_log_is_found),
        cmocka_unit_test(it_is_followed_to_a_last_line_of_any_length),
    };
    return cmocka_run_group_tests_name("trainlog", tests, NULL, NULL);
}
