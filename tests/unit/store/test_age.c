// SPDX-License-Identifier: Apache-2.0
// Months in seconds: small blocks, short ages.
#include "suites.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

static void change(const char *path, const char *sql) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static int64_t ask(const char *path, const char *sql) {
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return value;
}

static struct al_store_options aging(const char *path) {
    return (struct al_store_options){.path = path, .block_ns = 60 * S, .plain_ns = 60 * S, .full_ns = 300 * S,
                                     .coarse_ns = 600 * S, .keep_ns = 1200 * S};
}

static void test_levels(void **state) {
    const struct al_store_options o = aging(made_path(state, "x.alula"));
    struct al_store *s = NULL;
    struct al_store_error e;
    struct al_store_info info;
    struct al_snapshot *now = al_snapshot_new();
    made_recording(&o, 3600); // 30 minutes
    assert_int_equal(al_store_open(o.path, &s, &e), 0);
    al_store_info(s, &info);
    assert_int_equal(info.duration_ns, 3599 * TICK);
    assert_in_range(info.level_ns[0], 300 * S, 420 * S);
    assert_in_range(info.level_ns[1], 240 * S, 420 * S);
    assert_in_range(info.level_ns[2], 480 * S, 660 * S);
    assert_in_range(info.level_ns[0] + info.level_ns[1] + info.level_ns[2], 1190 * S, 1300 * S); // the rest is gone
    int64_t t = -1, first = -1, steps[3] = {0}, before = -1;
    while (al_store_next(s, t, &t) == 0) {
        first = first < 0 ? t : first;
        if (before >= 0 && al_store_level(s, before) == al_store_level(s, t) && !steps[al_store_level(s, t)])
            steps[al_store_level(s, t)] = t - before;
        before = t;
    }
    assert_true(steps[0] == TICK && steps[1] == 10 * S && steps[2] == 60 * S);
    assert_in_range(first, 480 * S, 600 * S);
    // A minute of 120 ticks: the mean of the power, its least and greatest, the last of a counter.
    double low = 0, high = 0, sum = 0, least = 1e9, most = 0;
    int64_t minute = (first / (60 * S) + 1) * 60 * S;
    int from = (int)(minute / TICK);
    assert_int_equal(al_store_level(s, minute), 2);
    assert_int_equal(al_store_at(s, -1, minute, now), 0);
    for (int i = from; i < from + 120; i++) {
        double v = made_power(1, i);
        sum += v;
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    assert_true(fabs(now->gpus[1].m[AL_GPU_POWER].num - sum / 120) < 1e-9);
    assert_true(al_store_range(s, minute, 1, AL_GPU_POWER, &low, &high));
    assert_true(low == least && high == most);
    assert_true(now->gpus[1].m[AL_GPU_ENERGY].num == 500.0 * ((from + 119) / 2));
    assert_int_equal(now->gpus[1].fresh_count, 0);
    assert_int_equal(now->gpus[1].m[AL_GPU_FAN].status, AL_STATUS_DENIED);
    assert_int_equal(now->proc_count, 1);
    assert_int_equal(now->procs[0].start_ticks, 99);
    assert_int_equal(now->realtime_ns, 1795953600 * S + minute);
    double share = 0;
    for (int i = from; i < from + 120; i++)
        share += (i / 4 % 10) / 16.0;
    assert_int_equal(now->rank_count, 1);
    assert_string_equal(now->ranks[0].source, "torch.optim hook");
    assert_true(fabs(now->ranks[0].m[AL_RANK_SHARE_DATA].num - share / 120) < 0.02); // of the rows, one a change
    assert_in_range((int)now->ranks[0].m[AL_RANK_STEP].num, (from + 116) / 4, (from + 119) / 4);
    assert_int_equal(al_store_damage(s, NULL), 0);
    al_store_free(s);
    al_snapshot_free(now);
}

// Twice as long is no larger once everything has its age.
static void test_bounded(void **state) {
    struct al_store_options o = aging(made_path(state, "x.alula"));
    struct stat st;
    made_recording(&o, 3600);
    assert_int_equal(stat(o.path, &st), 0);
    int64_t once = st.st_size;
    o.force = true;
    made_recording(&o, 7200);
    assert_int_equal(stat(o.path, &st), 0);
    assert_in_range(st.st_size, 1, once + once / 10);
    assert_int_equal(ask(o.path, "SELECT COUNT(*) FROM processes WHERE start_ticks=77"), 0); // gone since long
    assert_int_equal(ask(o.path, "SELECT COUNT(*) FROM processes WHERE start_ticks=99"), 1);
    assert_true(ask(o.path, "SELECT COUNT(*) FROM looks") > 0);
    assert_int_equal(ask(o.path, "SELECT COUNT(*) FROM looks WHERE id NOT IN (SELECT entity FROM chunks WHERE kind=7) AND id NOT IN "
                                 "(SELECT look FROM look_samples) AND first_t < 60000000000"), 0);
}

static void test_corrupt_chunk_costs_its_part_only(void **state) {
    const struct al_store_options o = {.path = made_path(state, "x.alula"), .block_ns = 10 * S, .plain_ns = 1 * S};
    struct al_store *s = NULL;
    struct al_store_error e = {{0}};
    struct al_snapshot *now = al_snapshot_new();
    made_recording(&o, 200);
    change(o.path, "UPDATE chunks SET bytes = substr(bytes, 1, 40) || x'00' || substr(bytes, 42)"
                   " WHERE kind = 1 AND entity = 1 AND block = 2");
    assert_int_equal(al_store_open(o.path, &s, &e), 0);
    assert_int_equal(al_store_at(s, -1, 5 * S, now), 0);
    assert_int_equal(now->gpu_count, 2);
    assert_int_equal(al_store_damage(s, &e), 0);
    al_snapshot_clear(now);
    assert_int_equal(al_store_at(s, -1, 15 * S, now), 0);
    assert_int_equal(now->gpu_count, 1); // the other GPU of this block
    assert_string_equal(now->gpus[0].info.uuid, "GPU-1");
    assert_int_equal(now->row_count, 1);
    assert_int_equal(now->rows[0].gpu, 0);
    assert_int_equal(al_store_damage(s, &e), 1);
    assert_non_null(strstr(e.text, "chunk"));
    al_store_free(s);
    al_snapshot_free(now);
}

static void test_all_plain(void **state) {
    const struct al_store_options o = {.path = made_path(state, "x.alula"), .block_ns = 10 * S, .plain_ns = 1 * S, .all_plain = true};
    made_recording(&o, 200);
    assert_int_equal(ask(o.path, "SELECT COUNT(*) FROM samples"), 400);
    assert_int_equal(ask(o.path, "SELECT COUNT(*) FROM chunks"), 0);
    // Unknown is null, also where an old reading is known.
    assert_int_equal(ask(o.path, "SELECT COUNT(temperature_celsius) FROM samples"), 300);
    assert_int_equal(ask(o.path, "SELECT COUNT(*) FROM pragma_table_info('samples') WHERE name='fan_speed_ratio'"), 0);
    assert_int_equal(ask(o.path, "SELECT power_watts = 400.919 FROM sample_times WHERE uuid='GPU-0' ORDER BY t LIMIT 1 OFFSET 1"), 1);
}

int test_age(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, made_folder, made_folder_gone)
    const struct CMUnitTest tests[] = {T(test_levels), T(test_bounded), T(test_corrupt_chunk_costs_its_part_only),
                                       T(test_all_plain)};
    return cmocka_run_group_tests_name("age", tests, NULL, NULL);
}
