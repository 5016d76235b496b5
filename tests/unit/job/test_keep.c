// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "job/keep.h"
#include "suites.h"

static void new_book(struct al_book *book) {
    struct al_settings set;
    al_settings_default(&set);
    assert_int_equal(al_book_init(book, &set), 0);
}

static void test_what_is_kept_is_read_again(void **state) {
    (void)state;
    struct al_book book, again;
    struct al_book_kept kept = {.origin_ns = 5, .finished = true, .runtime_seconds = 1.25, .written_realtime_ns = 7}, read;
    struct al_buf b = AL_BUF_INIT, other = AL_BUF_INIT;
    new_book(&book);
    new_book(&again);
    book.job = (struct al_book_job){.pid = 42, .start_ns = 9, .start_realtime_ns = 11, .ended = true, .status = SIGKILL,
                                    .oom_kills = 2, .cpus = 1.5};
    (void)al_str_copy(book.job.command, sizeof book.job.command, "python\ntrain.py"); // one line comes of it
    book.device_open = true;
    struct al_book_rank *k = al_book_add(&book, 43, 77);
    k->workers = 4;
    k->looked = true;
    k->look.line.line = 58;
    (void)al_str_copy(k->look.line.function, sizeof k->look.line.function, "main");
    (void)al_str_copy(k->look.worker.file, sizeof k->look.worker.file, "/home/u/my data.py");
    k->look.m[AL_LOOK_SAMPLES] = al_value_ok(30, 12);
    k->look.m[AL_LOOK_LOADER] = al_value_ok(0.875, 12);
    al_tally_lost(&k->tally, 3);
    al_book_rank_ended(k, 500, true, SIGKILL);
    book.gpu_count = 1;
    book.gpus[0] = (struct al_book_gpu){.index = 3, .used_by_job = true, .ratio_ns = 1e9, .covered_ns = 2e9, .max = 0.75};
    (void)al_str_copy(book.gpus[0].uuid, sizeof book.gpus[0].uuid, "GPU-a");
    (void)al_str_copy(book.gpus[0].name, sizeof book.gpus[0].name, "NVIDIA H200");
    (void)al_str_copy(book.trainlog_path, sizeof book.trainlog_path, "out/logging.jsonl");
    book.tree.processes = 5;
    book.tree.most[AL_BOOK_KIND_WORKER] = 4;
    book.trainlog.lines = 10;
    book.trainlog.speed_key = AL_TRAINLOG_S_IT;
    book.trainlog.steps_per_second = 2.5;
    al_book_keep(&b, &book, &kept);
    assert_int_equal(al_book_read(b.data, &again, &read), 0);
    assert_true(read.finished && read.origin_ns == 5 && read.runtime_seconds == 1.25 && read.written_realtime_ns == 7);
    assert_string_equal(again.job.command, "python train.py");
    assert_true(again.job.ended && again.job.status == SIGKILL && again.job.cpus == 1.5 && again.job.oom_kills == 2);
    assert_int_equal(again.rank_count, 1);
    k = al_book_find(&again, 43, 77);
    assert_true(k && k->workers == 4 && k->tally.lost == 3 && k->ended && k->ended_ns == 500 && k->status_known);
    assert_true(k->looked && k->look.line.line == 58 && k->look.m[AL_LOOK_SAMPLES].num == 30 && k->look.m[AL_LOOK_LOADER].num == 0.875);
    assert_string_equal(k->look.line.function, "main");
    assert_string_equal(k->look.worker.file, "/home/u/my data.py");
    assert_int_equal(k->look.m[AL_LOOK_SAVE].status, AL_STATUS_UNREAD);
    assert_string_equal(again.gpus[0].name, "NVIDIA H200");
    assert_true(again.gpus[0].used_by_job && again.gpus[0].ratio_ns == 1e9 && again.device_open);
    assert_true(again.tree.processes == 5 && again.tree.most[AL_BOOK_KIND_WORKER] == 4);
    assert_true(again.trainlog.steps_per_second == 2.5 && isnan(again.trainlog.memory_gib));
    al_book_keep(&other, &again, &read);
    assert_string_equal(b.data, other.data);
    al_buf_free(&b);
    al_buf_free(&other);
    al_book_free(&book);
    al_book_free(&again);
}

static void test_what_is_not_one(void **state) {
    (void)state;
    static const char *const none[] = {"", "job", "job 1", "job 2\npid 4\n", "pid 4\n"};
    struct al_book book;
    struct al_book_kept read;
    new_book(&book);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(al_book_read(none[i], &book, &read), AL_E_FORMAT);
    // Lines that make no sense are left out.
    assert_int_equal(al_book_read("job 1\npid -4\nrank 1 2\nrank 0 0 0 0 0 0 0\ngpu GPU-a 0 1 1 1 1 1 1 1 1 x\nstatus nan\n"
                                  "rank 5 1 0 -1 0 0 0\nrank 5 1 0 -1 0 0 0\nnew things\n", &book, &read), 0);
    assert_true(book.job.pid == 0 && book.rank_count == 1 && book.gpu_count == 0 && !read.finished);
    al_book_free(&book);
}

int test_keep(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_kept_is_read_again),
                                       cmocka_unit_test(test_what_is_not_one)};
    return cmocka_run_group_tests_name("keep", tests, NULL, NULL);
}
