// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "export/compat.h"
#include "suites.h"

static void check(const struct al_snapshot *s, const char *expected) {
    struct al_buf b = AL_BUF_INIT;
    al_compat_sample(&b, s, 0);
    assert_false(b.failed);
    assert_string_equal(b.data, expected);
    al_buf_free(&b);
}

static void record_has_its_keys_and_roundings(void **state) {
    (void)state;
    struct al_snapshot *s = al_snapshot_new();
    assert_non_null(s);
    struct al_gpu *g = al_snapshot_add_gpu(s);
    assert_non_null(g);
    s->realtime_ns = 1741356309123456000;
    g->info.index = 3;
    g->m[AL_GPU_UTIL] = al_value_ok(0.29, 1);
    g->m[AL_GPU_UTIL_MEAN] = al_value_ok(0.333333, 1);
    g->m[AL_GPU_MEM_USED] = al_value_ok(110796.0 * 1048576, 1); // 108.19921875 GB
    g->m[AL_GPU_MEM_TOTAL] = al_value_ok(143771.0 * 1048576, 1); // 140.4013671875 GB
    check(s, "{\"timestamp\": 1741356309.123456, \"gpu_id\": 3, \"gpu_util_percent\": 29, \"mem_used_gb\": 108.20, "
             "\"mem_total_gb\": 140.40, \"mem_usage_ratio\": 0.771, \"pytorch_allocated_gb\": null, "
             "\"pytorch_reserved_gb\": null}\n");
    g->m[AL_GPU_UTIL] = al_value_none(AL_STATUS_UNSUPPORTED);
    g->m[AL_GPU_MEM_USED].status = AL_STATUS_STALE;
    check(s, "{\"timestamp\": 1741356309.123456, \"gpu_id\": 3, \"gpu_util_percent\": 33.33, \"mem_used_gb\": null, "
             "\"mem_total_gb\": 140.40, \"mem_usage_ratio\": null, \"pytorch_allocated_gb\": null, "
             "\"pytorch_reserved_gb\": null}\n");
    g->m[AL_GPU_UTIL_MEAN] = g->m[AL_GPU_MEM_TOTAL] = al_value_none(AL_STATUS_LOST);
    g->m[AL_GPU_MEM_USED] = al_value_ok(0, 1);
    check(s, "{\"timestamp\": 1741356309.123456, \"gpu_id\": 3, \"gpu_util_percent\": null, \"mem_used_gb\": 0.00, "
             "\"mem_total_gb\": null, \"mem_usage_ratio\": null, \"pytorch_allocated_gb\": null, "
             "\"pytorch_reserved_gb\": null}\n");
    al_snapshot_free(s);
}

static struct al_rank *add_rank(struct al_snapshot *s, pid_t pid, uint32_t gpu, double allocated) {
    struct al_proc_gpu *row = al_snapshot_add_row(s);
    struct al_rank *r = al_snapshot_add_rank(s);
    assert_true(row && r);
    row->pid = r->pid = pid;
    row->gpu = gpu;
    r->m[AL_RANK_ALLOCATED] = al_value_ok(allocated * 1073741824, 1);
    return r;
}

// Known where every rank on the GPU tells of this GPU alone; a process that tells nothing adds nothing.
static void ranks_tell_pytorch_memory(void **state) {
    (void)state;
    struct al_snapshot *s = al_snapshot_new();
    struct al_compat c;
    assert_non_null(s);
    assert_true(al_snapshot_add_gpu(s) && al_snapshot_add_gpu(s));
    (void)add_rank(s, 10, 0, 1.5);
    (void)add_rank(s, 11, 0, 2);
    al_snapshot_add_row(s)->pid = 12;
    al_compat_fill(&c, s, 0);
    assert_true(c.pytorch_allocated_gb == 3.5);
    assert_true(isnan(c.pytorch_reserved_gb));
    al_compat_fill(&c, s, 1);
    assert_true(isnan(c.pytorch_allocated_gb));
    struct al_proc_gpu *other = al_snapshot_add_row(s);
    other->pid = 11; // it holds memory on the other GPU too: which one it speaks of is not known
    other->gpu = 1;
    al_compat_fill(&c, s, 0);
    assert_true(isnan(c.pytorch_allocated_gb));
    al_snapshot_free(s);
}

int al_test_compat(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_has_its_keys_and_roundings),
        cmocka_unit_test(ranks_tell_pytorch_memory),
    };
    return cmocka_run_group_tests_name("compat", tests, NULL, NULL);
}
