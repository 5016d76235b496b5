// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/dl.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/signals.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/units.h"

static void errors_have_text_and_status(void **state) {
    (void)state;
    assert_string_equal(al_error_text(0), "ok");
    assert_string_equal(al_error_text(AL_E_NOGPU), "no GPU found");
    assert_string_equal(al_error_text(-12345), "unknown error");
    assert_int_equal(al_error_exit_status(0), 0);
    assert_int_equal(al_error_exit_status(AL_E_NOLIB), 12);
    assert_int_equal(al_error_exit_status(AL_E_CONFIG), 2);
}

static void numbers_read_back(void **state) {
    (void)state;
    static const double values[] = {0, -0.0, 1, 0.93, 1e300, 0.1 + 0.2, 9007199254740991.0, 1.0 / 3, 5e-324};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct al_buf b = AL_BUF_INIT;
        al_buf_number(&b, values[i]);
        assert_true(strtod(b.data, NULL) == values[i]);
        al_buf_free(&b);
    }
    struct al_buf b = AL_BUF_INIT;
    al_buf_number(&b, NAN);
    assert_string_equal(b.data, "null");
    al_buf_clear(&b);
    al_buf_number(&b, 0.93);
    al_buf_char(&b, ' ');
    al_buf_fixed(&b, 655.255, 2);
    al_buf_pad(&b, '.', 3);
    assert_string_equal(b.data, "0.93 655.25...");
    al_buf_free(&b);
}

static void numbers_ignore_the_locale(void **state) {
    (void)state;
    // Not every machine has a comma locale; where it is missing the default one is tested.
    (void)(setlocale(LC_NUMERIC, "de_DE.UTF-8") || setlocale(LC_NUMERIC, "fr_FR.UTF-8"));
    char text[64];
    (void)al_fmt_fixed(text, sizeof text, -1234.5, 2);
    assert_string_equal(text, "-1234.50");
    double value = 0;
    assert_true(al_str_double("1.5", &value));
    assert_true(value == 1.5);
    assert_false(al_str_double("1,5", &value));
    setlocale(LC_NUMERIC, "C");
}

static void sizes_and_times_for_people(void **state) {
    (void)state;
    char text[32];
    (void)al_fmt_bytes(text, sizeof text, 132.8 * 1073741824.0);
    assert_string_equal(text, "132.8 GiB");
    (void)al_fmt_bytes(text, sizeof text, 12);
    assert_string_equal(text, "12 B");
    (void)al_fmt_duration(text, sizeof text, 0.0042);
    assert_string_equal(text, "4.2 ms");
    (void)al_fmt_duration(text, sizeof text, 6.04);
    assert_string_equal(text, "6.0 s");
    (void)al_fmt_duration(text, sizeof text, 7200);
    assert_string_equal(text, "2.0 h");
    (void)al_fmt_duration(text, sizeof text, 300);
    assert_string_equal(text, "5 min");
}

static void strings_are_cut_whole(void **state) {
    (void)state;
    char out[6];
    assert_true(al_str_copy(out, sizeof out, "abcde"));
    assert_false(al_str_copy(out, sizeof out, "abcd\xc3\xa9"));
    assert_string_equal(out, "abcd");
    assert_true(al_str_starts("GPU-1", "GPU-"));
    assert_true(al_str_ends("x.so.1", ".so.1"));
    uint64_t u;
    int64_t i;
    assert_true(al_str_u64("18446744073709551615", &u));
    assert_false(al_str_u64("18446744073709551616", &u));
    assert_false(al_str_u64("", &u));
    assert_false(al_str_u64("1 ", &u));
    assert_true(al_str_i64("-5", &i));
    assert_int_equal(i, -5);
    double d;
    assert_false(al_str_double("nan", &d));
    assert_false(al_str_double("0x10", &d));
    assert_false(al_str_double(" 1", &d));
}

static void hostile_text_is_made_safe(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    al_json_string(&b, "a\"\\\n\x1b[31m\xff\xc3\xa9");
    assert_string_equal(b.data, "\"a\\\"\\\\\\n\\u001b[31m\xef\xbf\xbd\xc3\xa9\"");
    al_buf_clear(&b);
    al_term_string(&b, "p\x1b[2J\n\xc2\x9b" "x\xe2\x82\xac\xed\xa0\x80");
    assert_string_equal(b.data, "p?[2J??x\xe2\x82\xac???");
    al_buf_free(&b);
    char text[] = "a\tb\x7f\xc2\x85";
    assert_string_equal(al_str_clean(text), "a?b???");
}

static void quantities_need_their_unit(void **state) {
    (void)state;
    double v;
    assert_int_equal(al_unit_parse("500ms", AL_UNIT_SECONDS, &v), 0);
    assert_true(v == 0.5);
    assert_int_equal(al_unit_parse("20 %", AL_UNIT_RATIO, &v), 0);
    assert_true(v == 0.2);
    assert_int_equal(al_unit_parse("0.2", AL_UNIT_RATIO, &v), 0);
    assert_int_equal(al_unit_parse("10GiB", AL_UNIT_BYTES, &v), 0);
    assert_true(v == 10737418240.0);
    assert_int_equal(al_unit_parse("1980 MHz", AL_UNIT_HERTZ, &v), 0);
    assert_true(v == 1980e6);
    assert_int_equal(al_unit_parse("5", AL_UNIT_SECONDS, &v), AL_E_INVALID);
    assert_int_equal(al_unit_parse("5GiB", AL_UNIT_SECONDS, &v), AL_E_INVALID);
    assert_int_equal(al_unit_parse("x", AL_UNIT_SECONDS, &v), AL_E_FORMAT);
    assert_int_equal(al_unit_parse("", AL_UNIT_COUNT, &v), AL_E_FORMAT);
    assert_int_equal(al_unit_parse("true", AL_UNIT_BOOL, &v), 0);
    assert_true(v == 1);
    assert_int_equal(al_unit_parse("maybe", AL_UNIT_BOOL, &v), AL_E_FORMAT);
    assert_int_equal(al_unit_parse("1e3", AL_UNIT_COUNT, &v), 0);
    assert_true(v == 1000);
}

static void files_are_read_below_the_root(void **state) {
    (void)state;
    char dir[] = "/tmp/alula-test-XXXXXX", path[64], text[8];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/f", dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "123456789\n", 10), 10);
    close(fd);
    int root;
    assert_int_equal(al_fs_root(dir, &root), 0);
    assert_int_equal(al_fs_read(root, "f", text, sizeof text), 7);
    assert_string_equal(text, "1234567");
    uint64_t u;
    assert_int_equal(al_fs_u64(root, "f", &u), 0);
    assert_int_equal(u, 123456789);
    assert_int_equal(al_fs_read(root, "none", text, sizeof text), AL_E_NOENT);
    assert_string_equal(text, "");
    char *data;
    size_t len;
    assert_int_equal(al_fs_slurp(path, 100, &data, &len), 0);
    assert_int_equal(len, 10);
    free(data);
    assert_int_equal(al_fs_slurp(path, 9, &data, &len), AL_E_TOOBIG);
    assert_int_equal(al_fs_slurp(dir, 9, &data, &len), AL_E_FORMAT);
    assert_int_equal(al_fs_make_folder(path, 0700), AL_E_NOENT); // a file is in the way
    close(root);
    unlink(path);
    (void)snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_equal(al_fs_make_folder(path, 0700), 0);
    assert_int_equal(al_fs_make_folder(path, 0700), 0);
    rmdir(path);
    (void)snprintf(path, sizeof path, "%s/a", dir);
    rmdir(path);
    assert_int_equal(rmdir(dir), 0);
}

static void virtual_time_stands_until_it_is_turned(void **state) {
    (void)state;
    struct al_clock c;
    al_clock_virtual(&c, 1000, 5000, 0);
    assert_int_equal(al_clock_now(&c), 1000);
    assert_int_equal(al_clock_realtime(&c), 5000);
    assert_true(al_clock_sleep_until(&c, 60 * AL_NS_PER_S));
    assert_int_equal(al_clock_now(&c), 60 * AL_NS_PER_S);
    assert_true(al_clock_sleep_until(&c, 5));
    assert_int_equal(al_clock_now(&c), 60 * AL_NS_PER_S);
    assert_int_equal(al_clock_realtime(&c), 60 * AL_NS_PER_S + 4000);
}

static void missing_symbols_are_named(void **state) {
    (void)state;
    struct {
        void (*absent)(void);
        double (*cosine)(double);
    } table;
    const struct al_dl_symbol optional[] = {{"al_no_such", offsetof(__typeof__(table), absent), false},
                                            {"cos", offsetof(__typeof__(table), cosine), true}};
    const struct al_dl_symbol required[] = {{"al_no_such", 0, true}};
    const char *const none[] = {"libal-no-such.so.9", NULL}, *const some[] = {"libal-no-such.so.9", "libm.so.6", NULL};
    const char *path = NULL, *missing = NULL;
    char why[128];
    void *handle = NULL;
    assert_int_equal(al_dl_open(none, &handle, &path, why, sizeof why), AL_E_NOLIB);
    assert_non_null(strstr(why, "libal-no-such"));
    assert_int_equal(al_dl_open(some, &handle, &path, why, sizeof why), 0);
    assert_string_equal(path, "libm.so.6");
    assert_int_equal(al_dl_resolve(handle, optional, 2, &table, &missing), 0);
    assert_null(table.absent);
    assert_true(table.cosine(0) == 1);
    assert_int_equal(al_dl_resolve(handle, required, 1, &table, &missing), AL_E_NOSYM);
    assert_string_equal(missing, "al_no_such");
}

static void signals_have_names(void **state) {
    (void)state;
    char name[32];
    al_signal_word(SIGKILL, name, sizeof name);
    assert_string_equal(name, "SIGKILL");
    al_signal_word(SIGXFSZ, name, sizeof name);
    assert_string_equal(name, "SIGXFSZ");
    al_signal_word(40, name, sizeof name);
    assert_string_equal(name, "signal 40");
    al_signal_word(-1, name, sizeof name);
    assert_string_equal(name, "signal -1");
}

static void json_is_read(void **state) {
    (void)state;
    static const char text[] = " {\"a\": [1, -2.5e1, \"x\\u00e9\\ud83d\\ude00\\ud800\\n\", null, true], \"b\": {}, \"a\": 7} ";
    struct al_json_document d;
    double n;
    assert_int_equal(al_json_parse(text, sizeof text - 1, &d, NULL), 0);
    const struct al_json *list = al_json_first(&d, al_json_get(&d, al_json_root(&d), "a"));
    assert_true(al_json_number(list, &n) && n == 1);
    list = al_json_next(&d, list);
    assert_true(al_json_number(list, &n) && n == -25);
    list = al_json_next(&d, list);
    assert_string_equal(al_json_text(list), "x\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd\n");
    assert_false(al_json_number(list, &n));
    list = al_json_next(&d, al_json_next(&d, list));
    assert_true(list->kind == AL_JSON_TRUE && !al_json_next(&d, list));
    assert_null(al_json_first(&d, al_json_get(&d, al_json_root(&d), "b")));
    assert_null(al_json_get(&d, al_json_root(&d), "c"));
    al_json_free(&d);
}

static void what_is_no_json(void **state) {
    (void)state;
    static const char *const none[] = {"",      "{",      "[1,]",  "{\"a\"}",  "{\"a\":}", "{a:1}",    "01",   "1.",   "+1",
                                       "1e999", "\"\\x\"", "\"\xff\"", "\"\n\"", "nul",     "[1] [2]", "\"a", "-",   "NaN"};
    struct al_json_document d;
    char deep[200];
    size_t at;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(al_json_parse(none[i], strlen(none[i]), &d, &at), AL_E_FORMAT);
    memset(deep, '[', sizeof deep);
    assert_int_equal(al_json_parse(deep, sizeof deep, &d, &at), AL_E_TOOBIG);
}

static void all_is_written_or_the_reason_known(void **state) {
    (void)state;
    char in[300], out[300] = {0};
    int fds[2];
    memset(in, 'x', sizeof in);
    assert_int_equal(pipe(fds), 0);
    assert_true(al_fs_write_all(fds[1], in, sizeof in));
    assert_true(al_fs_write_all(fds[1], NULL, 0));
    assert_int_equal(read(fds[0], out, sizeof out), (int)sizeof out);
    assert_memory_equal(in, out, sizeof in);
    (void)close(fds[0]);
    (void)close(fds[1]);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    errno = 0;
    assert_false(al_fs_write_all(full, in, sizeof in));
    assert_int_equal(errno, ENOSPC);
    (void)close(full);
}

static void unknown_is_null_in_json(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    al_json_string_or_null(&b, NULL);
    al_json_string_or_null(&b, "");
    al_json_string_or_null(&b, "a\"");
    al_json_integer_or_null(&b, false, 7);
    al_json_integer_or_null(&b, true, INT64_MIN);
    assert_string_equal(b.data, "nullnull\"a\\\"\"null-9223372036854775808");
    al_buf_free(&b);
}

static void *blocked(void *argument) {
    (void)pthread_sigmask(SIG_SETMASK, NULL, argument);
    return NULL;
}

static void threads_leave_signals_alone(void **state) {
    (void)state;
    sigset_t there, before, after;
    pthread_t thread;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(al_thread_start(&thread, blocked, &there), 0);
    (void)pthread_join(thread, NULL);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_true(sigismember(&there, SIGTERM) == 1 && sigismember(&there, SIGCHLD) == 1 && sigismember(&after, SIGTERM) == 0);
    for (int number = 1; number < 32; number++)
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));

    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    al_thread_cond(&cond);
    int64_t until = al_monotonic_ns() + 5 * AL_NS_PER_MS; // by the other clock it is long past
    const struct timespec limit = {.tv_sec = until / AL_NS_PER_S, .tv_nsec = until % AL_NS_PER_S};
    (void)pthread_mutex_lock(&lock);
    int result;
    while (!(result = pthread_cond_timedwait(&cond, &lock, &limit))) {}
    (void)pthread_mutex_unlock(&lock);
    assert_int_equal(result, ETIMEDOUT);
    assert_true(al_monotonic_ns() >= until);
    (void)pthread_cond_destroy(&cond);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_written_or_the_reason_known),
        cmocka_unit_test(unknown_is_null_in_json),
        cmocka_unit_test(errors_have_text_and_status),
        cmocka_unit_test(numbers_read_back),
        cmocka_unit_test(numbers_ignore_the_locale),
        cmocka_unit_test(sizes_and_times_for_people),
        cmocka_unit_test(strings_are_cut_whole),
        cmocka_unit_test(hostile_text_is_made_safe),
        cmocka_unit_test(quantities_need_their_unit),
        cmocka_unit_test(files_are_read_below_the_root),
        cmocka_unit_test(virtual_time_stands_until_it_is_turned),
        cmocka_unit_test(json_is_read),
        cmocka_unit_test(what_is_no_json),
        cmocka_unit_test(signals_have_names),
        cmocka_unit_test(missing_symbols_are_named),
        cmocka_unit_test(threads_leave_signals_alone),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
