// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static struct al_store *opened(const char *path) {
    struct al_store *s = NULL;
    struct al_store_error e = {{0}};
    assert_int_equal(al_store_open(path, &s, &e), 0);
    return s;
}

// What is read back has the values, statuses and times of what was recorded, told from the start.
static void same_values(const struct al_value *now, const struct al_value *was, int count, const struct al_metric_info *info) {
    for (int m = 0; m < count; m++) {
        assert_int_equal(now[m].status, was[m].status);
        if (was[m].status != AL_STATUS_OK && was[m].status != AL_STATUS_STALE)
            continue;
        double kept = info && info[m].unit == AL_UNIT_RATIO ? nearbyint(was[m].num * 1e6) / 1e6 : was[m].num;
        assert_true(now[m].num == kept);
        assert_int_equal(now[m].at_ns, was[m].at_ns - 7000 * S);
    }
}

static void same_tick(const struct al_snapshot *now, const struct al_snapshot *was) {
    assert_int_equal(now->gpu_count, was->gpu_count);
    assert_int_equal(now->realtime_ns, was->realtime_ns);
    assert_string_equal(now->hung_call, was->hung_call);
    assert_string_equal(now->node.hostname, "node1");
    assert_string_equal(now->node.driver_version, "580.159.04");
    same_values(now->node.m, was->node.m, AL_NODE_METRIC_COUNT, al_node_metric_table);
    for (uint32_t g = 0; g < was->gpu_count; g++) {
        const struct al_gpu *a = &now->gpus[g], *b = &was->gpus[g];
        assert_string_equal(a->info.uuid, b->info.uuid);
        assert_string_equal(a->info.serial, b->info.serial);
        assert_int_equal(a->process_status, AL_STATUS_OK);
        same_values(a->m, b->m, AL_GPU_METRIC_COUNT, al_gpu_metrics);
        assert_int_equal(a->fresh_count, 2);
        assert_int_equal(a->fresh[0].at_ns, b->fresh[0].at_ns - 7000 * S);
        assert_true(a->fresh[1].ratio == b->fresh[1].ratio);
        assert_int_equal(a->xid_count, b->xid_count);
        if (b->xid_count) {
            assert_int_equal(a->xid[0].code, 31);
            assert_int_equal(a->xid[0].count, b->xid[0].count);
            assert_int_equal(a->xid[0].last_ns, b->xid[0].last_ns - 7000 * S);
        }
    }
    assert_int_equal(now->proc_count, was->proc_count);
    assert_int_equal(now->row_count, was->row_count);
    for (uint32_t i = 0; i < was->proc_count; i++) {
        const struct al_proc *a = &now->procs[i], *b = &was->procs[i];
        assert_int_equal(a->pid, b->pid);
        assert_int_equal(a->start_ticks, b->start_ticks);
        assert_int_equal(a->state, b->state);
        assert_int_equal(a->rank, b->rank);
        assert_int_equal(a->role, b->role);
        assert_true(a->alive);
        assert_string_equal(a->user, b->user);
        assert_string_equal(a->command, b->command);
        same_values(a->m, b->m, AL_PROC_METRIC_COUNT, al_proc_metric_table);
        assert_int_equal(now->rows[i].gpu, 1);
        assert_int_equal(now->rows[i].type, AL_PROC_COMPUTE);
        same_values(&now->rows[i].memory_bytes, &was->rows[i].memory_bytes, 1, NULL);
        assert_int_equal(now->rows[i].sm_ratio.status, AL_STATUS_UNSUPPORTED);
    }
}

static void same_ranks(const struct al_snapshot *now, const struct al_snapshot *was) {
    assert_int_equal(now->rank_count, was->rank_count);
    for (uint32_t i = 0; i < was->rank_count; i++) {
        const struct al_rank *a = &now->ranks[i], *b = &was->ranks[i];
        assert_int_equal(a->pid, b->pid);
        assert_int_equal(a->start_ticks, b->start_ticks);
        assert_int_equal(a->job, b->job);
        assert_int_equal(a->rank, b->rank);
        assert_int_equal(a->local_rank, b->local_rank);
        assert_int_equal(a->world, b->world);
        assert_int_equal(a->device, b->device);
        assert_string_equal(a->source, b->source);
        same_values(a->m, b->m, AL_RANK_METRIC_COUNT, al_rank_metric_table);
    }
}

static void same_looks(const struct al_snapshot *now, const struct al_snapshot *was) {
    assert_int_equal(now->look_count, was->look_count);
    for (uint32_t i = 0; i < was->look_count; i++) {
        const struct al_look *a = &now->looks[i], *b = &was->looks[i];
        assert_int_equal(a->pid, b->pid);
        assert_int_equal(a->start_ticks, b->start_ticks);
        assert_int_equal(a->rank, b->rank);
        assert_int_equal(a->line.line, b->line.line);
        assert_string_equal(a->line.function, b->line.function);
        assert_string_equal(a->line.file, b->line.file);
        assert_string_equal(a->worker.call, b->worker.call);
        assert_int_equal(a->worker.line, b->worker.line);
        assert_string_equal(a->problem, b->problem);
        same_values(a->m, b->m, AL_LOOK_METRIC_COUNT, al_look_metric_table);
    }
}

static void compare(const char *path, int ticks, int step) {
    struct al_store *s = opened(path);
    struct al_snapshot *now = al_snapshot_new(), *was = al_snapshot_new();
    for (int i = 0; i < ticks; i += step) {
        al_snapshot_clear(now);
        assert_int_equal(al_store_at(s, i * TICK - 1, i * TICK, now), 0);
        // Samples since the tick before, which is less than half an interval behind.
        for (uint32_t g = 0; i && g < now->gpu_count; g++)
            now->gpus[g].fresh_count = 0;
        al_snapshot_clear(now);
        assert_int_equal(al_store_at(s, i ? (i - 1) * TICK : -1, i * TICK, now), 0);
        made_tick(was, i);
        same_tick(now, was);
        same_ranks(now, was);
        same_looks(now, was);
    }
    assert_int_equal(al_store_damage(s, NULL), 0);
    al_snapshot_free(now);
    al_snapshot_free(was);
    al_store_free(s);
}

static void test_plain(void **state) {
    const struct al_store_options o = {.path = made_path(state, "x.alula")};
    made_recording(&o, 200);
    compare(o.path, 200, 1);
    compare(o.path, 200, 37);
}

// All but the last blocks are chunks.
static void test_chunks(void **state) {
    const struct al_store_options o = {.path = made_path(state, "x.alula"), .block_ns = 20 * S, .plain_ns = 1 * S};
    struct al_store_info info;
    made_recording(&o, 300);
    struct al_store *s = opened(o.path);
    al_store_info(s, &info);
    al_store_free(s);
    assert_int_equal(info.ticks, 300);
    assert_in_range(info.plain_ticks, 20, 80);
    assert_int_equal(info.level_rows[0], (300 - info.plain_ticks) * 2);
    compare(o.path, 300, 1);
    compare(o.path, 300, 41);
}

static void test_next(void **state) {
    const struct al_store_options o = {.path = made_path(state, "x.alula"), .block_ns = 10 * S, .plain_ns = 1 * S};
    int64_t t = -1;
    int ticks = 0;
    made_recording(&o, 100);
    struct al_store *s = opened(o.path);
    while (al_store_next(s, t, &t) == 0)
        assert_int_equal(t, ticks++ * TICK);
    assert_int_equal(ticks, 100);
    al_store_free(s);
}

static void test_source(void **state) {
    const struct al_store_options o = {.path = made_path(state, "x.alula")};
    struct al_source *source = NULL;
    struct al_snapshot *now = al_snapshot_new();
    made_recording(&o, 100);
    struct al_store *s = opened(o.path);
    assert_int_equal(al_store_source(s, 10 * S, 20 * S, &source), 0);
    assert_int_equal(source->duration_ns, 10 * S);
    assert_int_equal(source->interval_ns, TICK);
    assert_int_equal(source->start_realtime_ns, 1795953610 * S);
    assert_int_equal(source->ops->at(source, -1, 0, now), 0);
    assert_true(now->gpus[0].m[AL_GPU_POWER].num == made_power(0, 20));
    assert_int_equal(now->gpus[0].m[AL_GPU_POWER].at_ns, 0);
    assert_int_equal(now->gpus[0].fresh_count, 2);
    // Two ticks at once hand out both ticks' samples.
    assert_int_equal(source->ops->at(source, 0, 2 * TICK, now), 0);
    assert_int_equal(now->gpus[0].fresh_count, 4);
    assert_int_equal(now->gpus[0].fresh[3].at_ns, 2 * TICK - 100000000);
    // The tick that came a little late belongs to its place.
    assert_int_equal(source->ops->at(source, 0, TICK - 1000000, now), 0);
    assert_true(now->gpus[0].m[AL_GPU_POWER].num == made_power(0, 21));
    assert_int_equal(now->gpus[0].m[AL_GPU_POWER].at_ns, TICK - 1000000); // but nothing is from the future
    assert_int_equal(source->ops->at(source, 0, 11 * S, now), AL_E_END);
    struct al_attr_value v;
    assert_int_equal(source->ops->attr(source, 0, AL_ATTR_NAME, 0, &v), 0);
    assert_int_equal(v.status, AL_STATUS_UNREAD); // none were asked for
    int64_t from = 0;
    assert_ptr_equal(al_store_of(source, &from), s);
    assert_int_equal(from, 10 * S);
    source->ops->free(source);
    al_store_free(s);
    al_snapshot_free(now);
}

static int attr(void *user, uint32_t gpu, enum al_attr a, struct al_attr_value *ret) {
    (void)user;
    *ret = (struct al_attr_value){.status = AL_STATUS_OK, .num = 9 + gpu};
    if (a == AL_ATTR_VBIOS)
        (void)strcpy(ret->text, "96.00.CF");
    return a == AL_ATTR_VBIOS || a == AL_ATTR_ARCHITECTURE ? 0 : AL_E_NOENT;
}

static void test_attributes(void **state) {
    const struct al_store_options o = {.path = made_path(state, "x.alula"), .attr = attr, .version = "1.2.3", .config = "a: 1\n"};
    struct al_snapshot *now = al_snapshot_new();
    struct al_attr_value v;
    made_recording(&o, 2);
    struct al_store *s = opened(o.path);
    assert_int_equal(al_store_at(s, -1, 0, now), 0);
    assert_int_equal(al_store_attr(s, 1, AL_ATTR_ARCHITECTURE, &v), 0);
    assert_true(v.status == AL_STATUS_OK && v.num == 10);
    assert_int_equal(al_store_attr(s, 0, AL_ATTR_VBIOS, &v), 0);
    assert_string_equal(v.text, "96.00.CF");
    assert_int_equal(al_store_attr(s, 2, AL_ATTR_VBIOS, &v), AL_E_NOENT);
    assert_string_equal(al_store_meta(s, "alula_version"), "1.2.3");
    assert_string_equal(al_store_meta(s, "config"), "a: 1\n");
    assert_null(al_store_meta(s, "nonsense"));
    al_store_free(s);
    al_snapshot_free(now);
}

static int check_finding(void *user, int64_t at_ns, const struct al_finding *f) {
    int *count = user;
    assert_int_equal(at_ns, (*count + 1) * TICK);
    assert_string_equal(f->rule, "memory");
    assert_string_equal(f->key, "memory/GPU-0");
    assert_int_equal(f->phase, *count);
    assert_int_equal(f->level, AL_LEVEL_CRITICAL);
    assert_int_equal(f->confidence, AL_CONFIDENCE_MEDIUM);
    assert_int_equal(f->gpu_index, 3);
    assert_int_equal(f->pid, 4300);
    assert_int_equal(f->began_ns, TICK);
    assert_int_equal(f->evidence_count, 1);
    assert_string_equal(f->evidence[0].name, "used_ratio");
    assert_int_equal(f->evidence[0].unit, AL_UNIT_RATIO);
    assert_true(f->evidence[0].value == 0.91);
    assert_string_equal(f->advice, "Free some.");
    ++*count;
    return 0;
}

static void test_findings(void **state) {
    const struct al_store_options o = {.path = made_path(state, "x.alula")};
    struct al_sink *sink = NULL;
    struct al_store_error e;
    struct al_snapshot *s = al_snapshot_new();
    struct al_finding f = {.rule = "memory", .key = "memory/GPU-0", .level = AL_LEVEL_CRITICAL,
                           .confidence = AL_CONFIDENCE_MEDIUM, .gpu = 0, .gpu_index = 3, .pid = 4300,
                           .began_ns = 7000 * S + TICK, .title = "t", .advice = "Free some.",
                           .evidence = {{"used_ratio", 0.91, AL_UNIT_RATIO, "nvml"}}, .evidence_count = 1};
    assert_int_equal(al_store_writer(&o, &sink, &e), 0);
    for (int i = 0; i < 4; i++) {
        made_tick(s, i);
        assert_int_equal(sink->ops->tick(sink, s), 0);
        f.phase = (enum al_phase)(i - 1);
        f.updated_ns = s->monotonic_ns;
        if (i)
            assert_int_equal(sink->ops->finding(sink, s, &f), 0);
        assert_int_equal(al_store_verdict(sink, "memory", "GPU-0", i < 2 ? "finding" : "nothing found", "why"), 0);
    }
    assert_int_equal(al_store_close(sink, &e), 0);
    struct al_store *store = opened(o.path);
    int count = 0;
    assert_int_equal(al_store_findings(store, -1, INT64_MAX, check_finding, &count), 0);
    assert_int_equal(count, 3);
    count = 1;
    assert_int_equal(al_store_findings(store, TICK, 2 * TICK, check_finding, &count), 0);
    assert_int_equal(count, 2);
    al_store_free(store);
    sqlite3 *db; // verdicts are kept when they change
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(o.path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT group_concat(t || verdict) FROM verdicts", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(st, 0), "0finding,1000000000nothing found");
    sqlite3_finalize(st);
    sqlite3_close(db);
    al_snapshot_free(s);
}

int test_replay(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, made_folder, made_folder_gone)
    const struct CMUnitTest tests[] = {T(test_plain),  T(test_chunks),     T(test_next),
                                       T(test_source), T(test_attributes), T(test_findings)};
    return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
