// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "fake.h"

#define START 5000

static int64_t asked_after;

static void put_gpu(struct al_snapshot *s, int i) {
    struct al_gpu *g = al_snapshot_add_gpu(s);
    (void)snprintf(g->info.uuid, sizeof g->info.uuid, "%s-%d", i == 2 ? "MIG" : "GPU", i);
    g->info.index = (uint32_t)i;
    g->info.is_mig = i == 2;
    g->info.parent = i == 2 ? 1 : -1;
    g->m[AL_GPU_UTIL] = al_value_ok(0.1 * i, 90);
    g->m[AL_GPU_UTIL_MEAN] = al_value_ok(0.5, 80);
    g->m[AL_GPU_ENERGY] = al_value_ok(7, 40); // read a while ago
    g->m[AL_GPU_FAN] = al_value_none(AL_STATUS_UNSUPPORTED);
    g->fresh[0] = (struct al_fresh){85, 0.5};
    g->fresh_count = 1;
    g->xid[0] = (struct al_xid){79, 1, 33};
    g->xid_count = 1;
    g->procutil_status = g->process_status = AL_STATUS_OK;
}

static int source_at(struct al_source *source, int64_t after_ns, int64_t at_ns, struct al_snapshot *s) {
    (void)source;
    asked_after = after_ns;
    if (at_ns > 1000)
        return AL_E_END;
    (void)snprintf(s->node.driver_version, sizeof s->node.driver_version, "580");
    for (int i = 0; i < 3; i++)
        put_gpu(s, i);
    for (uint32_t i = 0; i < 3; i++) {
        struct al_proc_gpu *row = al_snapshot_add_row(s);
        row->gpu = i;
        row->pid = (pid_t)(10 + i);
        row->memory_bytes = al_value_ok(1, 60);
        row->sm_ratio = al_value_ok(0.3, 60);
    }
    return 0;
}

static int source_attr(struct al_source *source, uint32_t gpu, enum al_attr attr, int64_t at_ns,
                       struct al_attr_value *ret) {
    (void)source;
    ret->num = gpu * 1000.0 + attr + (double)at_ns / 1e6;
    return 0;
}

static const struct al_source_ops ops = {.name = "made", .at = source_at, .attr = source_attr};

static void a_source_is_played_on_the_clock(void **state) {
    struct al_source source = {.ops = &ops};
    struct al_device *d;
    struct al_snapshot *s = al_snapshot_new();
    (void)state;
    assert_int_equal(al_replay_device(&source, NULL, START, &d), 0);
    assert_int_equal(d->ops->sample(d, s, AL_GROUP_FAST | AL_GROUP_SLOW, START + 100), 0);
    assert_int_equal(s->gpu_count, 3);
    assert_string_equal(s->node.driver_version, "580");
    NUMBER(s->gpus[1].m[AL_GPU_UTIL], 0.1);
    assert_int_equal(s->gpus[1].m[AL_GPU_UTIL].at_ns, START + 90);
    assert_int_equal(s->gpus[1].m[AL_GPU_ENERGY].at_ns, START + 40);
    STATUS(s->gpus[1].m[AL_GPU_FAN], UNSUPPORTED);
    STATUS(s->gpus[1].m[AL_GPU_MEM_USED], UNREAD);
    assert_int_equal(s->gpus[1].fresh_count, 0);
    assert_int_equal(s->gpus[1].xid_count, 0);
    assert_int_equal(s->row_count, 0);
    assert_int_equal(s->gpus[1].process_status, AL_STATUS_UNREAD);

    assert_int_equal(d->ops->sample(d, s, AL_GROUP_SAMPLES | AL_GROUP_XID | AL_GROUP_PROCESS, START + 200), 0);
    assert_int_equal(asked_after, -1); // the samples of the first tick were not asked for, so not used up
    STATUS(s->gpus[1].m[AL_GPU_UTIL], UNREAD);
    STATUS(s->gpus[1].m[AL_GPU_ENERGY], UNREAD);
    NUMBER(s->gpus[1].m[AL_GPU_UTIL_MEAN], 0.5);
    assert_int_equal(s->gpus[1].fresh[0].at_ns, START + 85);
    assert_int_equal(s->gpus[1].xid[0].last_ns, START + 33);
    assert_int_equal(s->gpus[1].procutil_status, AL_STATUS_UNREAD);
    assert_int_equal(s->row_count, 3);
    assert_int_equal(s->rows[2].memory_bytes.at_ns, START + 60);
    STATUS(s->rows[2].sm_ratio, UNREAD);

    assert_int_equal(d->ops->sample(d, s, AL_GROUP_SAMPLES | AL_GROUP_PROCUTIL, START + 300), 0);
    assert_int_equal(asked_after, 200);
    NUMBER(s->rows[2].sm_ratio, 0.3);
    assert_int_equal(d->ops->sample(d, s, AL_GROUP_FAST, START + 1001), AL_E_END);
    assert_int_equal(d->ops->stats(d, NULL, 0), 0);
    al_device_free(d);
    al_snapshot_free(s);
}

static void a_filter_moves_positions(void **state) {
    struct al_source source = {.ops = &ops};
    struct al_device *d;
    struct al_attr_value v;
    struct al_snapshot *s = al_snapshot_new();
    (void)state;
    assert_int_equal(al_replay_device(&source, "1,MIG-2", START, &d), 0);
    assert_int_equal(d->ops->sample(d, s, AL_GROUP_PROCESS, START + 100), 0);
    assert_int_equal(s->gpu_count, 2);
    assert_string_equal(s->gpus[0].info.uuid, "GPU-1");
    assert_int_equal(s->gpus[1].info.parent, 0);
    assert_int_equal(s->row_count, 2);
    assert_int_equal(s->rows[0].gpu, 0);
    assert_int_equal(s->rows[0].pid, 11);
    assert_int_equal(s->rows[1].gpu, 1);
    assert_int_equal(d->ops->attr(d, 1, AL_ATTR_BRAND, &v), 0);
    assert_int_equal(v.num, 2000 + AL_ATTR_BRAND);
    assert_int_equal(d->ops->attr(d, 2, AL_ATTR_BRAND, &v), AL_E_NOENT);
    al_device_free(d);
    assert_int_equal(al_replay_device(&source, "MIG-2", START, &d), 0);
    assert_int_equal(d->ops->sample(d, s, AL_GROUP_PROCESS, START + 100), 0);
    assert_int_equal(s->gpus[0].info.parent, -1); // its GPU is not shown
    al_device_free(d);
    al_snapshot_free(s);
}

const struct CMUnitTest replay_tests[] = {
    cmocka_unit_test(a_source_is_played_on_the_clock),
    cmocka_unit_test(a_filter_moves_positions),
};
const size_t replay_test_count = sizeof replay_tests / sizeof *replay_tests;
