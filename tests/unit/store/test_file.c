// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

static void write_bytes(const char *path, const char *bytes, size_t len) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void refused(const char *path, int error, const char *why) {
    struct al_store *s = NULL;
    struct al_store_error e = {{0}};
    assert_int_equal(al_store_open(path, &s, &e), error);
    assert_null(s);
    if (!strstr(e.text, why))
        fail_msg("\"%s\" does not say \"%s\"", e.text, why);
    assert_non_null(strstr(e.text, path));
    assert_null(strchr(e.text, '\n'));
}

static void change(const char *path, const char *sql) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_bad_files(void **state) {
    const char *path = made_path(state, "x.alula");
    char junk[4096];
    refused(path, AL_E_NOENT, "No such file");
    refused((const char *)*state, AL_E_FORMAT, "not a file");
    write_bytes(path, "", 0);
    refused(path, AL_E_FORMAT, "the file is empty");
    write_bytes(path, "alula", 5);
    refused(path, AL_E_FORMAT, "too short");
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)(i * 31);
    write_bytes(path, junk, sizeof junk);
    refused(path, AL_E_FORMAT, "not an alula recording");
    (void)unlink(path);
    change(path, "CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    refused(path, AL_E_FORMAT, "not an alula recording");
}

static void test_newer_and_damaged(void **state) {
    const char *path = made_path(state, "x.alula");
    const struct al_store_options o = {.path = path};
    made_recording(&o, 10);
    change(path, "PRAGMA user_version=4");
    refused(path, AL_E_FORMAT, "written by a newer alula (schema 4; this one reads up to 3)");
    change(path, "PRAGMA user_version=3; DROP TABLE blocks");
    refused(path, AL_E_FORMAT, "no such table: blocks");
    (void)unlink(path);
    made_recording(&o, 10);
    assert_int_equal(truncate(path, 9000), 0);
    refused(path, AL_E_FORMAT, "damaged");
}

static int no_mark(void *user, const struct al_store_process *who, const struct al_mark *mark, const char *text, size_t len) {
    (void)user, (void)who, (void)mark, (void)text, (void)len;
    return -1;
}

static int no_rank(void *user, int64_t first_ns, const void *what) {
    (void)user, (void)first_ns, (void)what;
    return -1;
}

// What schema 2 added is not there in a file of schema 1, and the rest is read as before.
static void test_older(void **state) {
    const char *path = made_path(state, "x.alula");
    const struct al_store_options o = {.path = path, .block_ns = 5 * S, .plain_ns = 1 * S};
    struct al_store *s = NULL;
    struct al_store_error e;
    struct al_store_info info;
    struct al_snapshot *now = al_snapshot_new();
    made_recording(&o, 60);
    change(path, "PRAGMA user_version=1; DROP TABLE ranks; DROP TABLE rank_samples; DROP TABLE marks; DROP TABLE mark_processes;"
                 "DROP TABLE looks; DROP TABLE look_samples; DELETE FROM metrics WHERE kind=7; DELETE FROM chunks WHERE kind=7;"
                 "DELETE FROM metrics WHERE kind=6; DELETE FROM chunks WHERE kind=6; DELETE FROM layouts WHERE kind=6");
    assert_int_equal(al_store_open(path, &s, &e), 0);
    for (int i = 0; i < 60; i++) {
        al_snapshot_clear(now);
        assert_int_equal(al_store_at(s, i * TICK - 1, i * TICK, now), 0);
        assert_int_equal(now->gpu_count, 2);
        assert_int_equal(now->proc_count, 1);
        assert_int_equal(now->rank_count, 0);
    }
    al_store_info(s, &info);
    assert_int_equal(info.schema, 1);
    assert_int_equal(info.ranks, 0);
    assert_int_equal(al_store_read_marks(s, no_mark, NULL), 0);
    assert_int_equal(al_store_ranks(s, no_rank, NULL), 0);
    assert_int_equal(al_store_damage(s, NULL), 0);
    al_store_free(s);
    al_snapshot_free(now);
}

static void test_mode_and_one_file(void **state) {
    struct stat st;
    char beside[300];
    const char *path = made_path(state, "x.alula");
    const struct al_store_options o = {.path = path};
    made_recording(&o, 3);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    static const char *const ends[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(beside, sizeof beside, "%s%s", path, ends[i]);
        assert_int_equal(access(beside, F_OK), -1);
    }
}

static void test_one_writer(void **state) {
    struct al_sink *first = NULL, *second = NULL;
    struct al_store_error e = {{0}};
    const char *path = made_path(state, "x.alula");
    struct al_store_options o = {.path = path};
    assert_int_equal(al_store_writer(&o, &first, &e), 0);
    for (int force = 0; force < 2; force++) {
        o.force = force;
        assert_int_equal(al_store_writer(&o, &second, &e), AL_E_DENIED);
        assert_non_null(strstr(e.text, "another alula is recording to this file"));
    }
    struct al_snapshot *s = al_snapshot_new();
    made_tick(s, 0);
    assert_int_equal(first->ops->tick(first, s), 0); // the first one goes on
    assert_int_equal(al_store_close(first, &e), 0);
    o.force = false;
    assert_int_equal(al_store_writer(&o, &second, &e), AL_E_DENIED);
    assert_non_null(strstr(e.text, "exists already"));
    o.force = true;
    assert_int_equal(al_store_writer(&o, &second, &e), 0);
    assert_int_equal(al_store_close(second, &e), 0);
    al_snapshot_free(s);
}

static void test_force_spares_other_files(void **state) {
    struct al_sink *sink = NULL;
    struct al_store_error e = {{0}};
    const char *path = made_path(state, "thesis.txt");
    const struct al_store_options o = {.path = path, .force = true};
    write_bytes(path, "four years of work", 18);
    assert_int_equal(al_store_writer(&o, &sink, &e), AL_E_DENIED);
    assert_non_null(strstr(e.text, "is not a recording"));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 18);
}

static void test_read_while_written(void **state) {
    struct al_sink *sink = NULL;
    struct al_store *s = NULL;
    struct al_store_error e = {{0}};
    struct al_store_info info;
    struct al_snapshot *snapshot = al_snapshot_new();
    const struct al_store_options o = {.path = made_path(state, "x.alula")};
    assert_int_equal(al_store_writer(&o, &sink, &e), 0);
    made_tick(snapshot, 0);
    assert_int_equal(sink->ops->tick(sink, snapshot), 0); // committed at once: none was before
    assert_int_equal(al_store_open(o.path, &s, &e), 0);
    al_store_info(s, &info);
    assert_int_equal(info.ticks, 1);
    assert_false(info.closed);
    al_store_free(s);
    assert_int_equal(al_store_close(sink, &e), 0);
    assert_int_equal(al_store_open(o.path, &s, &e), 0);
    al_store_info(s, &info);
    assert_true(info.closed);
    al_store_free(s);
    al_snapshot_free(snapshot);
}

static void test_without_wal(void **state) {
    struct al_store *s = NULL;
    struct al_store_error e = {{0}};
    struct al_store_info info;
    const struct al_store_options o = {.path = made_path(state, "x.alula"), .no_wal = true};
    made_recording(&o, 20);
    assert_int_equal(al_store_open(o.path, &s, &e), 0);
    al_store_info(s, &info);
    assert_int_equal(info.ticks, 20);
    al_store_free(s);
}

static void test_no_place(void **state) {
    struct al_sink *sink = NULL;
    struct al_store_error e = {{0}};
    const struct al_store_options o = {.path = made_path(state, "no/such/x.alula")};
    assert_int_equal(al_store_writer(&o, &sink, &e), AL_E_IO);
    assert_non_null(strstr(e.text, "No such file or directory"));
}

int test_file(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, made_folder, made_folder_gone)
    const struct CMUnitTest tests[] = {T(test_bad_files),  T(test_newer_and_damaged), T(test_older),         T(test_mode_and_one_file),
                                       T(test_one_writer), T(test_force_spares_other_files), T(test_read_while_written),
                                       T(test_without_wal), T(test_no_place)};
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
