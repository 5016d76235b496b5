// SPDX-License-Identifier: Apache-2.0
// The view that one alula leaves for others: what comes back, and what is refused.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "device/shared.h"
#include "fake.h"

static struct al_snapshot *node(void) {
    struct al_snapshot *s = al_snapshot_new();
    assert_non_null(s);
    for (uint32_t i = 0; i < 2; i++) {
        struct al_gpu *g = al_snapshot_add_gpu(s);
        assert_non_null(g);
        g->info.index = i;
        g->info.parent = -1;
        g->info.status = AL_STATUS_OK;
        memcpy(g->info.uuid, i ? "GPU-1" : "GPU-0", 6);
        g->m[AL_GPU_UTIL] = al_value_ok(0.5, 7);
        g->fresh_count = 1;
        g->fresh[0] = (struct al_fresh){5, 0.25};
    }
    struct al_proc_gpu *r = al_snapshot_add_row(s);
    *r = (struct al_proc_gpu){.pid = 42, .gpu = 1, .memory_bytes = al_value_ok(1e9, 7)};
    memcpy(s->node.driver_version, "580.1", 6);
    return s;
}

static struct al_buf bytes_of(const struct al_snapshot *s) {
    struct al_buf b = AL_BUF_INIT;
    al_shared_format(&b, &(struct al_shared_head){9, AL_GROUP_FAST}, s);
    assert_false(b.failed);
    return b;
}

static void there_and_back(void **state) {
    (void)state;
    struct al_snapshot *s = node(), *back = al_snapshot_new();
    struct al_buf b = bytes_of(s);
    struct al_shared_head head;
    assert_int_equal(al_shared_parse(b.data, b.len, &head, back), 0);
    assert_int_equal(head.written_ns, 9);
    assert_int_equal(head.groups, AL_GROUP_FAST);
    assert_int_equal(back->gpu_count, 2);
    assert_string_equal(back->node.driver_version, "580.1");
    assert_memory_equal(back->gpus, s->gpus, 2 * sizeof *s->gpus);
    assert_int_equal(back->row_count, 1);
    assert_memory_equal(back->rows, s->rows, sizeof *s->rows);
    al_buf_free(&b);
    al_snapshot_free(s);
    al_snapshot_free(back);
}

static void cut_and_foreign(void **state) {
    (void)state;
    struct al_snapshot *s = node(), *back = al_snapshot_new();
    struct al_buf b = bytes_of(s);
    struct al_shared_head head;
    for (size_t len = 0; len < b.len; len += len < 300 ? 1 : 997)
        assert_int_equal(al_shared_parse(b.data, len, &head, back), AL_E_FORMAT);
    b.data[8]++; // version
    assert_int_equal(al_shared_parse(b.data, b.len, &head, back), AL_E_UNSUPPORTED);
    b.data[8]--;
    b.data[16]++; // layout
    assert_int_equal(al_shared_parse(b.data, b.len, &head, back), AL_E_UNSUPPORTED);
    al_buf_free(&b);
    al_snapshot_free(s);
    al_snapshot_free(back);
}

// Figures, places and texts out of their bounds, as a crash or a careless hand may leave them.
static void out_of_bounds(void **state) {
    (void)state;
    struct al_snapshot *s = node(), *back = al_snapshot_new();
    struct al_shared_head head;
    s->gpus[0].info.parent = 7;
    s->gpus[0].info.status = 99;
    s->gpus[0].xid_count = 1000;
    s->gpus[0].fresh_count = 100000;
    s->gpus[0].fresh[0].ratio = NAN;
    memset(s->gpus[0].info.name, 'x', sizeof s->gpus[0].info.name);
    memset(&s->gpus[0].info.is_mig, 0x55, 1);
    s->gpus[0].m[AL_GPU_UTIL] = (struct al_value){INFINITY, 1, AL_STATUS_OK};
    s->gpus[0].m[AL_GPU_TEMP].status = 77;
    s->rows[0].gpu = 2;
    struct al_buf b = bytes_of(s);
    assert_int_equal(al_shared_parse(b.data, b.len, &head, back), 0);
    const struct al_gpu *g = &back->gpus[0];
    assert_int_equal(g->info.parent, -1);
    assert_int_equal(g->info.status, AL_STATUS_ERROR);
    assert_int_equal(g->xid_count, AL_XID_CODES);
    assert_int_equal(g->fresh_count, AL_FRESH_MAX - 1);
    assert_int_equal(strlen(g->info.name), sizeof g->info.name - 1);
    assert_true(g->info.is_mig);
    assert_int_equal(g->m[AL_GPU_UTIL].status, AL_STATUS_ERROR);
    assert_int_equal(g->m[AL_GPU_TEMP].status, AL_STATUS_ERROR);
    assert_int_equal(back->row_count, 0);
    al_buf_free(&b);
    al_snapshot_free(s);
    al_snapshot_free(back);
}

int shared_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(cut_and_foreign),
        cmocka_unit_test(out_of_bounds),
    };
    return cmocka_run_group_tests_name("shared", tests, NULL, NULL);
}
