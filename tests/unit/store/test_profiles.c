// SPDX-License-Identifier: Apache-2.0
// Profiles in recordings: what is read back, what damage does, and that a writer at work is not disturbed.
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/profiles.h"
#include "store/runs.h"
#include "suites.h"

#define FRAMES 300u
#define STACKS 3000u

static const struct al_store_run some[] = {{7, 0, 3, 0}, {9, 3, 1, 1}, {7, 4, 2, 3}, {2999, 100, 1, 7}, {0, 101, 4000000000u, 2}};
#define SOME (sizeof some / sizeof *some)

static void give_frame(void *user, uint32_t i, struct al_store_frame *ret) {
    (void)user;
    *ret = (struct al_store_frame){i % 2 ? "load" : "step ünïcode", "/home/you/data.py", i == 7 ? "libc.so.6" : "", (int32_t)i, 3, i == 7};
}
static void give_stack(void *user, uint32_t i, struct al_store_stack *ret) {
    (void)user;
    *ret = (struct al_store_stack){i ? i / 2 : AL_STORE_NO_STACK, i % FRAMES, i};
}
static int give_track(void *user, uint32_t i, struct al_store_track *ret, struct al_store_run **ret_free) {
    (void)user;
    *ret_free = NULL;
    *ret = (struct al_store_track){"process 7, rank 1 of 2", "MainThread", 7, 8 + (int32_t)i, i ? 1 : -1, some, i ? SOME : 0};
    return 0;
}

static const struct al_store_profile head = {.start_realtime_ns = 1795953600000000000, .seconds = 1.5, .rate = 100, .pid = 7, .processes = 2,
                                             .samples = 42, .ticks = 150, .late = 1, .stacks = 43, .unstable = 2, .idle = true,
                                             .name = "process 7", .command = "python train.py", .version = "0.1"};
static const struct al_store_profile_parts parts = {.frames = FRAMES, .stacks = STACKS, .tracks = 2, .frame = give_frame,
                                                    .stack = give_stack, .track = give_track};

static struct al_sink *writer(const char *path) {
    const struct al_store_options o = {.path = path, .keep_ns = 20000000000, .block_ns = 5000000000, .plain_ns = 1000000000,
                                       .full_ns = 2000000000, .coarse_ns = 3000000000};
    struct al_sink *sink = NULL;
    struct al_store_error e = {{0}};
    assert_int_equal(al_store_writer(&o, &sink, &e), 0);
    return sink;
}

static void made_ticks(struct al_sink *sink, int from, int to) {
    struct al_snapshot *s = al_snapshot_new();
    for (int i = from; i < to; i++) {
        al_snapshot_clear(s);
        made_tick(s, i);
        assert_int_equal(sink->ops->tick(sink, s), 0);
    }
    al_snapshot_free(s);
}

static int64_t made_realtime(int i) {
    return 1795953600 * S + i * TICK;
}

static void make(const char *path) {
    struct al_store_error e = {{0}};
    struct al_sink *sink = writer(path);
    int64_t id = 0;
    made_ticks(sink, 0, 4);
    assert_int_equal(al_store_close(sink, &e), 0);
    assert_int_equal(al_store_add_profile(path, &head, &parts, &id, &e), 0);
    assert_int_equal(id, 1);
}

struct seen {
    uint32_t profiles, frames, stacks, tracks;
    struct al_store_profile last;
    char name[64];
};

static int on_profile(void *user, const struct al_store_profile *p) {
    struct seen *x = user;
    x->profiles++;
    x->last = *p;
    (void)strncpy(x->name, p->name, sizeof x->name - 1);
    return 0;
}
static int on_frame(void *user, const struct al_store_frame *f) {
    struct seen *x = user;
    struct al_store_frame want;
    give_frame(NULL, x->frames++, &want);
    assert_string_equal(f->name, want.name);
    assert_string_equal(f->file, want.file);
    assert_string_equal(f->object, want.object);
    assert_true(f->line == want.line && f->first_line == 3 && f->kind == want.kind);
    return 0;
}
static int on_stack(void *user, const struct al_store_stack *s) {
    struct seen *x = user;
    struct al_store_stack want;
    give_stack(NULL, x->stacks++, &want);
    assert_true(s->parent == want.parent && s->frame == want.frame && s->samples == want.samples);
    return 0;
}
static int on_track(void *user, const struct al_store_track *t) {
    struct seen *x = user;
    bool second = x->tracks++ == 1;
    assert_true(t->pid == 7 && t->tid == (second ? 9 : 8) && t->rank == (second ? 1 : -1) && t->run_count == (second ? SOME : 0));
    assert_string_equal(t->thread, "MainThread");
    for (uint32_t i = 0; i < t->run_count; i++)
        assert_true(t->runs[i].stack == some[i].stack && t->runs[i].tick == some[i].tick && t->runs[i].count == some[i].count &&
                    t->runs[i].state == some[i].state);
    return 0;
}

static struct seen read_back(const char *path, int64_t id, int want, const char *words) {
    struct seen x = {0};
    struct al_store *s = NULL;
    struct al_store_error e = {{0}};
    const struct al_store_profile_reader r = {on_frame, on_stack, on_track, &x};
    assert_int_equal(al_store_open(path, &s, &e), 0);
    assert_int_equal(al_store_profiles(s, on_profile, &x), 0);
    assert_int_equal(al_store_read_profile(s, id, &r, &e), want);
    if (words)
        assert_non_null(strstr(e.text, words));
    al_store_free(s);
    return x;
}

static void what_is_read_back(void **state) {
    const char *path = made_path(state, "x.alula");
    make(path);
    struct seen x = read_back(path, 1, 0, NULL);
    assert_true(x.profiles == 1 && x.frames == FRAMES && x.stacks == STACKS && x.tracks == 2);
    assert_true(x.last.id == 1 && x.last.start_realtime_ns == head.start_realtime_ns && x.last.seconds == 1.5 && x.last.rate == 100);
    assert_true(x.last.samples == 42 && x.last.late == 1 && x.last.unstable == 2 && x.last.idle && !x.last.gil && x.last.processes == 2);
    (void)read_back(path, 2, AL_E_NOENT, "there is no profile 2");
    (void)unlink(path);
}

static void damage_is_told(void **state) {
    static const struct {
        const char *sql, *words;
    } cases[] = {
        {"UPDATE profile_frames SET id = 9999 WHERE id = 5", "frame 5"},
        {"UPDATE profile_stacks SET parent = 77 WHERE id = 70", "stack 70"},
        {"UPDATE profile_stacks SET parent = -1 WHERE id = 70", "stack 70"},
        {"UPDATE profile_stacks SET frame = 300 WHERE id = 70", "stack 70"},
        {"DELETE FROM profile_stacks WHERE id >= 2000", "samples of thread 1"}, // a run names one that is not there
        {"UPDATE profile_tracks SET runs = x'00' WHERE id = 1", "samples of thread 1"},
        {"UPDATE profile_tracks SET runs = NULL WHERE id = 1", "samples of thread 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = made_path(state, "x.alula");
        sqlite3 *db = NULL;
        make(path);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, cases[i].sql, NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        (void)read_back(path, 1, AL_E_FORMAT, cases[i].words);
        (void)unlink(path);
    }
}

static void runs_trust_nothing(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_store_run *runs;
    uint32_t count;
    assert_int_equal(al_runs_encode(some, SOME, &b), 0);
    assert_int_equal(al_runs_decode((const uint8_t *)b.data, b.len, STACKS, &runs, &count), 0);
    assert_int_equal(count, SOME);
    free(runs);
    assert_int_equal(al_runs_decode((const uint8_t *)b.data, b.len, STACKS - 1, &runs, &count), AL_E_FORMAT);
    for (size_t len = 0; len < b.len; len++) // cut off anywhere
        assert_int_equal(al_runs_decode((const uint8_t *)b.data, len, STACKS, &runs, &count), AL_E_FORMAT);
    al_buf_char(&b, 1);
    assert_int_equal(al_runs_decode((const uint8_t *)b.data, b.len, STACKS, &runs, &count), AL_E_FORMAT); // more than was told
    al_buf_free(&b);
}

static void old_ones_go(void **state) {
    const char *path = made_path(state, "x.alula");
    struct al_store_error e = {{0}};
    struct al_store_profile mine = head;
    int64_t id;
    struct al_sink *sink = writer(path); // keeps 20 s
    made_ticks(sink, 0, 10);
    assert_int_equal(al_store_commit(sink), 0);
    mine.start_realtime_ns = made_realtime(4);
    assert_int_equal(al_store_add_profile(path, &mine, &parts, &id, &e), 0);
    made_ticks(sink, 10, 100); // 50 s
    assert_int_equal(al_store_commit(sink), 0);
    mine.start_realtime_ns = made_realtime(95);
    assert_int_equal(al_store_add_profile(path, &mine, &parts, &id, &e), 0);
    made_ticks(sink, 100, 200);
    assert_int_equal(al_store_close(sink, &e), 0);
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT (SELECT count(*) FROM profiles), (SELECT count(*) FROM profile_stacks),"
                                            " (SELECT count(*) FROM profile_tracks)", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sqlite3_column_int(st, i), 0);
    (void)sqlite3_finalize(st);
    (void)sqlite3_close(db);
    (void)unlink(path);
}

// A recording is written all the while; what is added comes in between.
struct beside {
    const char *path;
    _Atomic int done;
    int result;
};

static void *add_beside(void *user) {
    struct beside *b = user;
    struct al_store_error e = {{0}};
    int64_t id;
    for (int i = 0; i < 3 && !b->result; i++)
        b->result = al_store_add_profile(b->path, &head, &parts, &id, &e);
    b->done = 1;
    return NULL;
}

static void beside_a_writer(void **state) {
    const char *path = made_path(state, "x.alula");
    struct al_store_error e = {{0}};
    struct beside b = {.path = path};
    pthread_t thread;
    struct al_sink *sink = writer(path);
    made_ticks(sink, 0, 2);
    assert_int_equal(pthread_create(&thread, NULL, add_beside, &b), 0);
    int ticks = 2;
    for (; !b.done; ticks++) { // a transaction is open until a second is over, and some time free
        made_ticks(sink, ticks, ticks + 1);
        (void)usleep(20000);
        if (ticks % 5 == 4) {
            assert_int_equal(al_store_commit(sink), 0);
            (void)usleep(100000);
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(b.result, 0);
    assert_int_equal(al_store_close(sink, &e), 0);
    struct seen x = read_back(path, 3, 0, NULL);
    assert_true(x.profiles == 3 && x.stacks == STACKS);
    struct al_store *s = NULL;
    struct al_store_info info;
    assert_int_equal(al_store_open(path, &s, &e), 0);
    al_store_info(s, &info);
    assert_int_equal(info.ticks, ticks);
    al_store_free(s);
    (void)unlink(path);
}

int test_profiles(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_read_back, made_folder, made_folder_gone),
        cmocka_unit_test_setup_teardown(damage_is_told, made_folder, made_folder_gone),
        cmocka_unit_test_setup_teardown(runs_trust_nothing, made_folder, made_folder_gone),
        cmocka_unit_test_setup_teardown(old_ones_go, made_folder, made_folder_gone),
        cmocka_unit_test_setup_teardown(beside_a_writer, made_folder, made_folder_gone),
    };
    return cmocka_run_group_tests_name("profiles", tests, NULL, NULL);
}
