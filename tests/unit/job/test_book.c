// SPDX-License-Identifier: Apache-2.0
// The book of a job: figures, GPU use, ends and words out of made marks, snapshots and ends.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/str.h"
#include "job/book.h"
#include "job/end.h"
#include "job/fill.h"
#include "job/say.h"
#include "suites.h"

#define MS AL_NS_PER_MS
#define START (100 * AL_NS_PER_S)

static void begin(struct al_book *book) {
    struct al_settings set;
    al_settings_default(&set);
    assert_int_equal(al_book_init(book, &set), 0);
    book->job.pid = 100;
    book->job.start_ns = START;
    (void)al_str_copy(book->job.command, sizeof book->job.command, "python train.py");
}

static void phase(struct al_tally *t, int64_t at_ns, int kind, int64_t step, int64_t for_ns) {
    al_tally_event(t, at_ns, AL_EVENT_PHASE_BEGIN, (uint16_t)kind, -1, step, 0);
    al_tally_event(t, at_ns + for_ns, AL_EVENT_PHASE_END, (uint16_t)kind, -1, step, 0);
}

// Steps of 100 ms: 20 data, 30 forward, 40 backward, 10 optimizer.
static struct al_book_rank *train(struct al_book *book, pid_t pid, int64_t rank, int64_t world, int steps) {
    struct al_book_rank *k = al_book_add(book, pid, 1);
    struct al_tally *t = &k->tally;
    al_tally_event(t, START, AL_EVENT_HELLO, 1, -1, rank, world);
    for (int i = 1; i <= steps; i++) {
        int64_t at = START + (int64_t)(i - 1) * 100 * MS;
        phase(t, at, AL_IN_DATA, i, 20 * MS);
        phase(t, at + 20 * MS, AL_IN_FORWARD, i, 30 * MS);
        phase(t, at + 50 * MS, AL_IN_BACKWARD, i, 40 * MS);
        phase(t, at + 90 * MS, AL_IN_OPTIMIZER, i, 10 * MS);
        al_tally_event(t, at + 100 * MS, AL_EVENT_STEP, AL_STEP_DONE, -1, i, 4);
    }
    al_book_counted(book);
    return k;
}

static struct al_gpu *gpu(struct al_snapshot *s, const char *uuid, uint32_t index) {
    struct al_gpu *g = al_snapshot_add_gpu(s);
    (void)al_str_copy(g->info.uuid, sizeof g->info.uuid, uuid);
    g->info.index = index;
    return g;
}

static void fresh(struct al_gpu *g, int64_t at_ns, double ratio) {
    g->fresh[g->fresh_count++] = (struct al_fresh){at_ns, ratio};
}

static void on_gpu(struct al_snapshot *s, uint32_t at, pid_t pid) {
    struct al_proc_gpu *row = al_snapshot_add_row(s);
    row->gpu = at;
    row->pid = pid;
}

static void process(struct al_snapshot *s, pid_t pid, pid_t parent) {
    struct al_proc *p = al_snapshot_add_proc(s);
    p->pid = pid;
    p->ppid = parent;
}

// Two GPUs: on the first a grandchild of the job, on the second a stranger.
static void sample(struct al_book *book, int64_t at_ns, double first, double second) {
    struct al_snapshot *s = al_snapshot_new();
    fresh(gpu(s, "GPU-a", 0), at_ns, first);
    fresh(gpu(s, "GPU-b", 1), at_ns, second);
    on_gpu(s, 0, 102);
    on_gpu(s, 1, 900);
    process(s, 100, 50);
    process(s, 101, 100);
    process(s, 102, 101);
    process(s, 900, 1);
    al_snapshot_sort(s);
    al_book_snapshot(book, s, NULL, NULL);
    al_snapshot_free(s);
}

static void test_utilization_counts_while_it_trains(void **state) {
    (void)state;
    struct al_book book;
    struct al_book_utilization u;
    begin(&book);
    book.device_open = true;
    sample(&book, START - 200 * MS, 0.01, 1); // loading
    (void)train(&book, 555, 0, 1, 10);
    sample(&book, START + 200 * MS, 0.8, 0.1);
    sample(&book, START + 400 * MS, 0.6, 0.1);
    sample(&book, START + 5000 * MS, 0, 0); // behind the last step
    al_book_settle(&book);
    al_book_utilization(&book, &u);
    assert_true(u.known);
    assert_true(u.mean > 0.699 && u.mean < 0.701);
    assert_true(u.max > 0.799 && u.max < 0.801);
    assert_true(al_book_gpu(&book, "GPU-a")->used_by_job && !al_book_gpu(&book, "GPU-b")->used_by_job);
    al_book_free(&book);
}

static void test_gpus_of_the_job_by_its_marking_processes(void **state) {
    (void)state;
    struct al_book book;
    begin(&book);
    (void)train(&book, 900, 0, 1, 1); // no way to it in the process tree
    sample(&book, START, 1, 1);
    assert_true(al_book_gpu(&book, "GPU-b")->used_by_job);
    al_book_free(&book);
}

static void test_the_lowest_rank_leads(void **state) {
    (void)state;
    struct al_book book;
    begin(&book);
    assert_null(al_book_leader(&book));
    (void)al_book_add(&book, 7, 1); // marks nothing
    (void)train(&book, 8, 1, 2, 2);
    (void)train(&book, 9, 0, 2, 2);
    assert_int_equal(al_book_leader(&book)->pid, 9);
    al_book_free(&book);
}

static void test_report(void **state) {
    (void)state;
    struct al_book book;
    struct al_buf b = AL_BUF_INIT;
    const struct al_book_report r = {.version = "1", .finished = true, .runtime_seconds = 12};
    begin(&book);
    (void)train(&book, 102, 0, 1, 50);
    book.job.ended = true;
    assert_int_equal(al_book_report_json(&book, &r, &b), 0);
    assert_non_null(strstr(b.data, "\"train_runtime\": 5.0000"));
    assert_non_null(strstr(b.data, "\"train_samples_per_second\": 40.0000"));
    assert_non_null(strstr(b.data, "\"data_loading_time_ratio\": 0.200000"));
    assert_non_null(strstr(b.data, "\"gpu_avg_utilization_percent\": null"));
    assert_non_null(strstr(b.data, "\"job_end\":\"exit status 0\""));
    al_buf_clear(&b);
    al_book_say_summary(&book, false, &b);
    assert_non_null(strstr(b.data, "50 steps in 5 s (10.00/s): optimizer 10.0 %, backward 40.0 %"));
    assert_non_null(strstr(b.data, "data_wait: finding: "));
    al_buf_free(&b);
    al_book_free(&book);
}

static void test_who_died_first(void **state) {
    (void)state;
    struct al_book book;
    struct al_buf b = AL_BUF_INIT;
    begin(&book);
    struct al_book_rank *peer = train(&book, 8, 1, 2, 3), *cause = train(&book, 9, 0, 2, 3);
    al_tally_text(&peer->tally, AL_TEXT_ERROR, "RuntimeError: Connection closed by peer", 39);
    al_book_rank_ended(peer, START + 1000 * MS, true, 1 << 8);
    al_book_rank_ended(cause, START + 1100 * MS, true, SIGKILL); // seen later, within the time that does not tell
    book.job.ended = true;
    book.job.status = 1 << 8;
    book.job.oom_kills = 1;
    al_book_post_mortem(&book, &b);
    assert_non_null(strstr(b.data, "the job ended with exit status 1; first to die: rank 0 (pid 9), of SIGKILL"));
    assert_non_null(strstr(b.data, "out-of-memory killer"));
    assert_non_null(strstr(b.data, "rank 1 (pid 8) was between steps, after step 3; RuntimeError: Connection closed"));
    al_buf_clear(&b);
    book.job.status = 0;
    al_book_post_mortem(&book, &b);
    assert_int_equal(b.len, 0);
    al_buf_free(&b);
    al_book_free(&book);
}

int test_book(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utilization_counts_while_it_trains),
        cmocka_unit_test(test_gpus_of_the_job_by_its_marking_processes),
        cmocka_unit_test(test_the_lowest_rank_leads),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_who_died_first),
    };
    return cmocka_run_group_tests_name("book", tests, NULL, NULL);
}
