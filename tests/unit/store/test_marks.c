// SPDX-License-Identifier: Apache-2.0
// Raw marks: what is read back, how many bytes a step takes, what a kill and damage leave.
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "store/column.h"
#include "store/marks.h"
#include "suites.h"

#define MS 1000000LL
#define BYTES_A_STEP 60 // of all that the hook tells of a step on a GPU; 100 is the goal

struct list {
    struct al_mark mark[40000];
    struct al_store_process who[40000];
    char text[40000][16];
    size_t count;
};

static int keep(void *user, const struct al_store_process *who, const struct al_mark *mark, const char *text, size_t len) {
    struct list *l = user;
    assert_true(l->count < 40000);
    l->who[l->count] = *who;
    l->mark[l->count] = *mark;
    if (text) {
        assert_int_equal(text[len], 0);
        (void)strncpy(l->text[l->count], text, sizeof l->text[0] - 1);
    }
    l->count++;
    return 0;
}

static struct list *read_all(const char *path, uint32_t damage) {
    struct al_store *s = NULL;
    struct al_store_error e;
    struct list *l = calloc(1, sizeof *l);
    assert_int_equal(al_store_open(path, &s, &e), 0);
    assert_int_equal(al_store_read_marks(s, keep, l), 0);
    assert_int_equal(al_store_damage(s, &e), damage);
    al_store_free(s);
    return l;
}

static struct al_sink *writer(const char *path) {
    const struct al_store_options o = {.path = path};
    struct al_sink *sink = NULL;
    struct al_store_error e;
    assert_int_equal(al_store_writer(&o, &sink, &e), 0);
    return sink;
}

static void tick(struct al_sink *sink, int i) {
    struct al_snapshot *s = al_snapshot_new();
    made_tick(s, i);
    assert_int_equal(sink->ops->tick(sink, s), 0);
    al_snapshot_free(s);
}

static void put(struct al_sink *sink, const struct al_store_process *who, int64_t at_ns, uint16_t kind, uint16_t code,
                int32_t device, int64_t a, int64_t b) {
    const struct al_mark m = {at_ns, kind, code, device, a, b};
    assert_int_equal(al_store_marks(sink, who, &m, 1), 0);
}

static void test_both_ways(void **state) {
    const char *path = made_path(state, "x.alula");
    struct al_sink *sink = writer(path);
    struct al_store_process zero = {4300, 77, -1, -1, -1}, one = {4301, 78, 1, 1, 2};
    put(sink, &zero, 6999 * S, AL_EVENT_HELLO, 1, -1, 0, 2); // before the first tick
    assert_int_equal(al_store_mark_text(sink, &zero, 6999 * S + 1000, AL_TEXT_SOURCE, "hook", 4), 0);
    zero.rank = zero.local_rank = 0, zero.world = 2; // known by now
    put(sink, &zero, 7000 * S + 5 * MS, AL_EVENT_PHASE_BEGIN, AL_IN_DATA, -1, 1, 0);
    tick(sink, 0);
    put(sink, &one, 7000 * S + 4 * MS, AL_EVENT_MEMORY, AL_ALLOCATOR_RESERVED, 3, INT64_MIN, INT64_MAX);
    put(sink, &zero, 7000 * S + 3 * MS, AL_EVENT_PHASE_END, AL_IN_DATA, -1, 1, 0); // of another thread: a little late
    put(sink, &zero, 7000 * S + 9 * MS + 1499, AL_EVENT_GPU_TIME, AL_IN_FORWARD, -1, 1, 12345678);
    put(sink, &one, 7000 * S + 8 * MS, 65535, 65535, INT32_MIN, -1, -2); // of a newer probe
    assert_int_equal(al_store_mark_text(sink, &one, 7000 * S + 10 * MS, AL_TEXT_ERROR, "a\0b", 3), 0);
    assert_int_equal(al_store_mark_text(sink, &one, 7000 * S + 11 * MS, AL_TEXT_WHERE, "", 0), 0);
    tick(sink, 1);
    assert_int_equal(al_store_close(sink, NULL), 0);

    struct list *l = read_all(path, 0);
    static const struct {
        pid_t pid;
        int64_t at_ns;
        uint16_t kind, code;
        int32_t device;
        int64_t a, b;
    } expected[] = {
        {4300, -1 * S, AL_EVENT_HELLO, 1, -1, 0, 2},
        {4300, -1 * S + 1000, AL_EVENT_TEXT, AL_TEXT_SOURCE, -1, 4, 0},
        {4301, 4 * MS, AL_EVENT_MEMORY, AL_ALLOCATOR_RESERVED, 3, INT64_MIN, INT64_MAX},
        {4300, 5 * MS, AL_EVENT_PHASE_BEGIN, AL_IN_DATA, -1, 1, 0},
        {4300, 3 * MS, AL_EVENT_PHASE_END, AL_IN_DATA, -1, 1, 0}, // a process keeps its order
        {4301, 8 * MS, 65535, 65535, INT32_MIN, -1, -2},
        {4300, 9 * MS + 1000, AL_EVENT_GPU_TIME, AL_IN_FORWARD, -1, 1, 12346000},
        {4301, 10 * MS, AL_EVENT_TEXT, AL_TEXT_ERROR, -1, 3, 0},
        {4301, 11 * MS, AL_EVENT_TEXT, AL_TEXT_WHERE, -1, 0, 0},
    };
    assert_int_equal(l->count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < l->count; i++) {
        const struct al_mark *m = &l->mark[i];
        assert_int_equal(l->who[i].pid, expected[i].pid);
        assert_int_equal(l->who[i].rank, expected[i].pid == 4301); // also of what came before the rank was known
        assert_int_equal(l->who[i].world, 2);
        assert_int_equal(m->at_ns, expected[i].at_ns);
        assert_int_equal(m->kind, expected[i].kind);
        assert_int_equal(m->code, expected[i].code);
        assert_int_equal(m->device, expected[i].device);
        assert_int_equal(m->a, expected[i].a);
        assert_int_equal(m->b, expected[i].b);
    }
    assert_string_equal(l->text[1], "hook");
    assert_string_equal(l->text[7], "a");
    free(l);
}

// ---- a step as the hook tells it on a GPU ----

static uint64_t seed;
static int64_t noise(int64_t most) { // 0 .. most, the same at every run
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)(most + 1));
}

static int64_t phase(struct al_sink *sink, const struct al_store_process *who, int64_t at, uint16_t code, int64_t step,
                     int64_t lasts) {
    at += 3000 + noise(4000);
    put(sink, who, at, AL_EVENT_PHASE_BEGIN, code, -1, step, 0);
    at += lasts + noise(lasts / 10);
    put(sink, who, at, AL_EVENT_PHASE_END, code, -1, step, 0);
    return at;
}

static int64_t one_step(struct al_sink *sink, const struct al_store_process *who, int64_t at, int64_t step) {
    static const uint16_t phases[] = {AL_IN_DATA, AL_IN_FORWARD, AL_IN_BACKWARD, AL_IN_OPTIMIZER};
    static const int64_t lasts[] = {2 * MS, 100 * MS, 200 * MS, 20 * MS};
    for (int p = 0; p < 4; p++)
        at = phase(sink, who, at, phases[p], step, lasts[p]);
    for (int p = 1; p < 4; p++)
        put(sink, who, at += 1000 + noise(1000), AL_EVENT_GPU_TIME, phases[p], -1, step, lasts[p] + noise(lasts[p] / 10));
    for (uint16_t f = 0; f < AL_ALLOCATOR_COUNT; f++)
        put(sink, who, at += 200 + noise(300), AL_EVENT_MEMORY, f, 0,
            f == AL_ALLOCATOR_RESERVED || f >= AL_ALLOCATOR_SEGMENTS ? 13000000000 + f : 12000000000 + 512 * noise(2000000),
            step);
    put(sink, who, at += 1000, AL_EVENT_COST, 0, -1, 20000 + noise(9000), step);
    put(sink, who, at += 1000, AL_EVENT_COST, 1, -1, 8000 + noise(3000), step);
    put(sink, who, at += 1000 + noise(1000), AL_EVENT_STEP, AL_STEP_DONE, -1, step, 8);
    return step % 10 ? at : phase(sink, who, at, AL_IN_LOG, step, MS);
}

static int64_t ask(const char *path, const char *sql) {
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t v = sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return v;
}

static void test_bytes_of_a_step(void **state) {
    enum { STEPS = 1000 };
    const char *path = made_path(state, "x.alula");
    const struct al_store_process who = {4300, 77, 0, 0, 1};
    struct al_sink *sink = writer(path);
    int64_t at = 7000 * S;
    seed = 1;
    tick(sink, 0);
    for (int64_t step = 1; step <= STEPS; step++)
        at = one_step(sink, &who, at, step);
    tick(sink, 1);
    assert_int_equal(al_store_close(sink, NULL), 0);
    int64_t bytes = ask(path, "SELECT SUM(LENGTH(bytes)) FROM marks"), pages = ask(path, "SELECT COUNT(*) FROM marks");
    print_message("          %lld bytes a step in %lld rows\n", (long long)bytes / STEPS, (long long)pages);
    assert_in_range(bytes / STEPS, 1, BYTES_A_STEP);
    struct list *l = read_all(path, 0);
    assert_int_equal(l->count, STEPS * (8 + 3 + AL_ALLOCATOR_COUNT + 2 + 1) + STEPS / 10 * 2);
    for (size_t i = 1; i < l->count; i++)
        assert_true(l->mark[i].at_ns >= l->mark[i - 1].at_ns);
    assert_int_equal(l->mark[l->count - 3].a, STEPS);
    free(l);
}

// What was committed is there after a kill, and nothing is there twice although rows are written anew.
static void test_kill(void **state) {
    const char *path = made_path(state, "x.alula");
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        const struct al_store_process who = {4300, 77, 0, 0, 1};
        struct al_sink *sink = writer(path);
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 100; k++)
                put(sink, &who, 7000 * S + (i * 100 + k) * MS, AL_EVENT_STEP, 0, -1, i * 100 + k, 8);
            tick(sink, i);
            if (i < 2)
                usleep(i ? 1100000 : 0); // ticks 0 and 1: committed at the first and, with tick 2, a second later
        }
        put(sink, &who, 7001 * S, AL_EVENT_STEP, 0, -1, 300, 8);
        (void)kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    struct list *l = read_all(path, 0);
    assert_int_equal(l->count, 300);
    for (int i = 0; i < 300; i++)
        assert_int_equal(l->mark[i].a, i);
    free(l);
    assert_int_equal(ask(path, "SELECT COUNT(*) FROM marks"), 1);
}

static void test_without_a_tick(void **state) {
    const char *path = made_path(state, "x.alula");
    const struct al_store_process who = {4300, 77, 0, 0, 1};
    struct al_sink *sink = writer(path);
    put(sink, &who, 50 * S, AL_EVENT_HELLO, 1, -1, 0, 1);
    put(sink, &who, 51 * S, AL_EVENT_EXIT, 0, -1, 0, 0);
    assert_int_equal(al_store_close(sink, NULL), 0);
    struct list *l = read_all(path, 0);
    assert_int_equal(l->count, 2);
    assert_int_equal(l->mark[0].at_ns, 0);
    assert_int_equal(l->mark[1].at_ns, S);
    free(l);
}

// Marks go with the rest when they are older than what is kept; what an idle process says next is not lost with them.
static void test_old_marks_are_forgotten(void **state) {
    const struct al_store_options o = {.path = made_path(state, "x.alula"), .block_ns = 20 * S, .plain_ns = 20 * S,
                                       .full_ns = 60 * S, .coarse_ns = 100 * S, .keep_ns = 200 * S};
    const struct al_store_process busy = {4300, 77, 0, 0, 2}, silent = {4301, 78, 1, 1, 2};
    struct al_sink *sink = NULL;
    assert_int_equal(al_store_writer(&o, &sink, NULL), 0);
    put(sink, &silent, 7000 * S, AL_EVENT_STEP, 0, -1, 1, 8);
    for (int i = 0; i < 2000; i++) {
        for (int k = 0; k < 10; k++)
            put(sink, &busy, 7000 * S + i * TICK + k * MS, AL_EVENT_STEP, 0, -1, i * 10 + k, 8);
        tick(sink, i);
        if (i % 20 == 19)
            assert_int_equal(al_store_commit(sink), 0);
    }
    put(sink, &silent, 7000 * S + 2000 * TICK, AL_EVENT_STEP, 0, -1, 2, 8);
    assert_int_equal(al_store_close(sink, NULL), 0);
    struct list *l = read_all(o.path, 0);
    assert_in_range(l->count, 4000, 8000);
    assert_in_range(l->mark[0].at_ns, 600 * S, 800 * S);
    assert_int_equal(l->mark[l->count - 2].a, 19999);
    assert_int_equal(l->who[l->count - 1].pid, 4301);
    assert_int_equal(l->mark[l->count - 1].a, 2);
    free(l);
}

static void test_damage_costs_a_row(void **state) {
    const char *path = made_path(state, "x.alula");
    const struct al_store_process who = {4300, 77, 0, 0, 1};
    struct al_sink *sink = writer(path);
    tick(sink, 0);
    for (int i = 0; i < 3 * (int)AL_MARKS_ROW; i++)
        put(sink, &who, 7000 * S + i * MS, AL_EVENT_STEP, 0, -1, i, 8);
    tick(sink, 1);
    assert_int_equal(al_store_close(sink, NULL), 0);
    assert_int_equal(ask(path, "UPDATE marks SET bytes=x'28b52ffd00' WHERE id=2 RETURNING 1"), 1);
    struct list *l = read_all(path, 1);
    assert_int_equal(l->count, 2 * AL_MARKS_ROW);
    assert_int_equal(l->mark[AL_MARKS_ROW].a, 2 * AL_MARKS_ROW);
    free(l);
}

// Bytes that nobody wrote: every one is refused or read, and never more than a row.
static void test_wild_bytes(void **state) {
    (void)state;
    struct al_marks m = {0}, back = {0};
    struct al_buf b = AL_BUF_INIT;
    for (int i = 0; i < 50; i++) {
        const struct al_mark mark = {i * MS, (uint16_t)(i % 9), (uint16_t)(i % 4), i % 3 - 1, i, -i};
        assert_int_equal(al_marks_add(&m, &mark, "text", 4), 0);
    }
    assert_int_equal(al_marks_encode(&m, 50, 0, &b), 0);
    for (size_t cut = 0; cut < b.len; cut++)
        assert_true(al_marks_decode((const uint8_t *)b.data, cut, &back) < 0);
    seed = 7;
    for (int i = 0; i < 20000; i++) {
        size_t at = (size_t)noise((int64_t)b.len - 1);
        char was = b.data[at];
        b.data[at] = (char)noise(255);
        if (al_marks_decode((const uint8_t *)b.data, b.len, &back) == 0)
            assert_in_range(back.count, 0, AL_MARKS_ROW);
        al_marks_done(&back);
        b.data[at] = was;
    }
    al_buf_clear(&b);
    al_buf_add(&b, "ALM\1", 4);
    al_put_varint(&b, UINT64_MAX);
    al_put_varint(&b, 1);
    assert_int_equal(al_marks_decode((const uint8_t *)b.data, b.len, &back), AL_E_TOOBIG);
    al_buf_free(&b);
    al_marks_done(&m);
}

int test_marks(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, made_folder, made_folder_gone)
    const struct CMUnitTest tests[] = {T(test_both_ways),      T(test_bytes_of_a_step),    T(test_kill),
                                       T(test_without_a_tick), T(test_old_marks_are_forgotten), T(test_damage_costs_a_row), cmocka_unit_test(test_wild_bytes)};
    return cmocka_run_group_tests_name("marks", tests, NULL, NULL);
}
