// SPDX-License-Identifier: Apache-2.0
// What a scenario says at a time.
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "suite.h"

static struct al_snapshot *snap;

static int make(void **state) {
    (void)state;
    snap = al_snapshot_new();
    return snap ? 0 : 1;
}

static int unmake(void **state) {
    (void)state;
    snap = al_snapshot_free(snap);
    return 0;
}

static void at(struct al_scenario *s, int64_t after, int64_t now) {
    assert_int_equal(al_scenario_at(s, after, now, snap), 0);
}

#define VALUE(gpu, metric) (snap->gpus[gpu].m[AL_GPU_##metric])

static void test_identity(void **state) {
    (void)state;
    struct al_scenario *s = parsed("alula scenario 1\nstart 2026-11-29T12:00:00.5Z\ninterval 100ms\nduration 2min\n"
                                   "driver 580.159.04\nnvml 13.580.159.04\ncuda 13.0\n"
                                   "host hostname=node1 boot_id=abc host_pid_ns=no pid_ns=7\n"
                                   "gpu 0-2 name=\"NVIDIA H200\"\n"
                                   "gpu 1 uuid=GPU-x pci_bus_id=00000000:83:00.0 serial=77 minor=9 architecture=8 "
                                   "unified_memory=yes\n");
    at(s, -1, 0);
    assert_string_equal(snap->node.hostname, "node1");
    assert_string_equal(snap->node.driver_version, "580.159.04");
    assert_string_equal(snap->node.nvml_version, "13.580.159.04");
    assert_string_equal(snap->node.cuda_version, "13.0");
    assert_false(snap->node.host_pid_ns);
    assert_int_equal(snap->node.pid_ns, 7);
    assert_int_equal(snap->gpu_count, 3);
    assert_string_equal(snap->gpus[0].info.pci_bus_id, "00000000:01:00.0");
    assert_string_not_equal(snap->gpus[0].info.uuid, snap->gpus[2].info.uuid);
    assert_int_equal(strlen(snap->gpus[0].info.uuid), 40);
    const struct al_gpu_info *i = &snap->gpus[1].info;
    assert_string_equal(i->uuid, "GPU-x");
    assert_string_equal(i->serial, "77");
    assert_int_equal(i->minor, 9);
    assert_int_equal(i->architecture, 8);
    assert_true(i->unified_memory);
    assert_int_equal(i->index, 1);
    assert_int_equal(i->parent, -1);
    assert_int_equal(VALUE(0, POWER).status, AL_STATUS_UNSUPPORTED);
    assert_int_equal(VALUE(0, XID_ERRORS).status, AL_STATUS_OK);
    struct al_attr_value v;
    assert_int_equal(al_scenario_attr(s, 1, AL_ATTR_PCI_BUS, 0, &v), 0);
    assert_int_equal((int)v.num, 0x83);
    struct al_source *source;
    assert_int_equal(al_scenario_source(s, &source), 0);
    assert_int_equal(source->duration_ns, 120 * S);
    assert_int_equal(source->interval_ns, 100000000);
    // date -d 2026-11-29T12:00:00Z +%s
    assert_int_equal(source->start_realtime_ns, 1795953600LL * S + 500000000);
    assert_int_equal(source->ops->at(source, -1, 120 * S, snap), 0);
    assert_int_equal(source->ops->at(source, -1, 120 * S + 1, snap), AL_E_END);
    source->ops->free(source);
}

static void test_values(void **state) {
    (void)state;
    struct al_scenario *s =
        parsed("alula scenario 1\ngpu 0-3\nattr 0-3 vbios_version=\"96 x\" ecc_mode=1 brand=!denied\n"
               "@1s\ngpu 0,2-3 utilization_ratio=93% power_watts=655.2 clocks_event_reasons=0x4\n"
               "gpu 0 memory_total_bytes=100GiB memory_used_bytes=10GiB..20GiB/10s energy_joules=0..600/100s\n"
               "@11s\ngpu 0 power_watts=!stale temperature_celsius=50!stale performance_state=0\n"
               "attr 1 vbios_version=new\n"
               "node cpu_ratio=0.25 load1=3\n");
    at(s, -1, 0);
    assert_int_equal(VALUE(0, UTIL).status, AL_STATUS_UNSUPPORTED);
    at(s, 0, 6 * S);
    assert_float_equal(VALUE(0, UTIL).num, 0.93, 1e-12);
    assert_int_equal(VALUE(1, UTIL).status, AL_STATUS_UNSUPPORTED);
    assert_float_equal(VALUE(3, POWER).num, 655.2, 0);
    assert_float_equal(VALUE(0, THROTTLE).num, 4, 0);
    assert_float_equal(VALUE(0, MEM_USED).num, 15.0 * 1073741824, 0);
    assert_float_equal(VALUE(0, MEM_FREE).num, 85.0 * 1073741824, 0);
    assert_float_equal(VALUE(0, ENERGY).num, 30, 1e-9);
    assert_int_equal(VALUE(0, POWER).at_ns, 6 * S);
    assert_int_equal(snap->node.m[AL_NODE_CPU].status, AL_STATUS_UNREAD);
    at(s, 6 * S, 1000 * S);
    assert_int_equal(VALUE(0, POWER).status, AL_STATUS_STALE);
    assert_float_equal(VALUE(0, POWER).num, 655.2, 0);
    assert_int_equal(VALUE(0, POWER).at_ns, 11 * S);
    assert_float_equal(VALUE(0, TEMP).num, 50, 0);
    assert_int_equal(VALUE(0, TEMP).status, AL_STATUS_STALE);
    assert_float_equal(VALUE(0, MEM_USED).num, 20.0 * 1073741824, 0);
    assert_float_equal(snap->node.m[AL_NODE_CPU].num, 0.25, 0);
    assert_float_equal(snap->node.m[AL_NODE_LOAD1].num, 3, 0);
    struct al_attr_value v;
    al_scenario_attr(s, 1, AL_ATTR_VBIOS, 10 * S, &v); // backwards
    assert_string_equal(v.text, "96 x");
    al_scenario_attr(s, 1, AL_ATTR_VBIOS, 11 * S, &v);
    assert_string_equal(v.text, "new");
    al_scenario_attr(s, 1, AL_ATTR_BRAND, 11 * S, &v);
    assert_int_equal(v.status, AL_STATUS_DENIED);
    al_scenario_attr(s, 1, AL_ATTR_SERIAL, 11 * S, &v);
    assert_string_equal(v.text, "1650000000002");
    at(s, -1, 2 * S);
    assert_float_equal(VALUE(0, MEM_USED).num, 11.0 * 1073741824, 0);
    al_scenario_free(s);
}

static void test_samples(void **state) {
    (void)state;
    struct al_scenario *s = parsed("alula scenario 1\ngpu 0\n@0s\ngpu 0 utilization_ratio=1\n"
                                   "@0.5s\ngpu 0 utilization_ratio=0\n@0.7s\ngpu 0 utilization_ratio=0.5\n");
    at(s, 0, S);
    const struct al_gpu *g = &snap->gpus[0];
    assert_int_equal(g->fresh_count, 5);
    const double want[] = {1, 1, 0, 0.5, 0.5};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(g->fresh[i].at_ns, (i + 1) * (S / 5));
        assert_float_equal(g->fresh[i].ratio, want[i], 0);
    }
    assert_float_equal(VALUE(0, UTIL_MEAN).num, 0.6, 1e-12);
    at(s, S, S + S / 10); // no driver sample in between
    assert_int_equal(snap->gpus[0].fresh_count, 0);
    assert_int_equal(VALUE(0, UTIL_MEAN).status, AL_STATUS_STALE);
    assert_int_equal(VALUE(0, UTIL_MEAN).at_ns, S);
    at(s, 0, 3600 * S); // the buffer keeps the newest
    assert_int_equal(snap->gpus[0].fresh_count, AL_FRESH_MAX);
    assert_int_equal(snap->gpus[0].fresh[AL_FRESH_MAX - 1].at_ns, 3600 * S);
    at(s, 100 * S, 101 * S);
    assert_int_equal(snap->gpus[0].fresh_count, 5);
    al_scenario_free(s);
    s = parsed("alula scenario 1\ngpu 0 samples=recorded\n@1s\nsample 0 0.31s=0.9 0.52s=1 0.98s=40%\n");
    at(s, 310000000, S);
    assert_int_equal(snap->gpus[0].fresh_count, 2);
    assert_int_equal(snap->gpus[0].fresh[1].at_ns, 980000000);
    assert_float_equal(VALUE(0, UTIL_MEAN).num, 0.7, 1e-12);
    al_scenario_free(s);
}

static void test_processes(void **state) {
    (void)state;
    struct al_scenario *s = parsed(
        "alula scenario 1\nhost pid_ns=5\ngpu 0-1\n@0s\n"
        "proc 4242 ppid=4200 start_ticks=99 uid=1000 user=alice comm=python command=\"python train.py\\x1b\" role=rank "
        "rank=3 job=4200 state=S started=2026-11-29T12:00:00Z cpu_ratio=1 resident_anonymous_bytes=1GiB..2GiB/10s\n"
        "proc 12 foreign=yes alive=no\n"
        "row 4242 gpu=1 type=C+G memory_bytes=10GiB sm_ratio=0.9 gpu_instance=2 driver_name=py\n"
        "row 4242 gpu=0\nrow 77 gpu=0 type=M+C memory_bytes=!denied\n"
        "@10s\nunrow 4242 gpu=0\n@20s\nexit 4242\n@30s\nproc 4242 start_ticks=1000\n");
    at(s, -1, 5 * S);
    assert_int_equal(snap->proc_count, 2);
    const struct al_proc *p = al_snapshot_proc(snap, 4242);
    assert_int_equal(p->ppid, 4200);
    assert_int_equal(p->pid_ns, 5);
    assert_int_equal(p->start_ticks, 99);
    assert_string_equal(p->command, "python train.py\x1b");
    assert_int_equal(p->role, AL_ROLE_RANK);
    assert_int_equal(p->rank, 3);
    assert_int_equal(p->local_rank, -1);
    assert_int_equal(p->state, 'S');
    assert_true(p->alive && p->holds_context && !p->foreign);
    assert_int_equal(p->started_realtime_ns, 1795953600LL * S);
    assert_float_equal(p->m[AL_PROC_RSS_ANON].num, 1.5 * 1073741824, 0);
    assert_int_equal(p->m[AL_PROC_SWAP].status, AL_STATUS_UNREAD);
    assert_true(snap->procs[0].foreign && !snap->procs[0].alive && !snap->procs[0].holds_context);
    assert_int_equal(snap->row_count, 3);
    assert_int_equal(snap->rows[0].pid, 77);
    assert_int_equal(snap->rows[0].type, AL_PROC_MPS | AL_PROC_COMPUTE);
    assert_int_equal(snap->rows[0].memory_bytes.status, AL_STATUS_DENIED);
    assert_int_equal(snap->rows[2].gpu, 1);
    assert_int_equal(snap->rows[2].type, AL_PROC_COMPUTE | AL_PROC_GRAPHICS);
    assert_int_equal(snap->rows[2].gpu_instance, 2);
    assert_int_equal(snap->rows[2].compute_instance, UINT32_MAX);
    assert_string_equal(snap->rows[2].driver_name, "py");
    assert_float_equal(snap->rows[2].sm_ratio.num, 0.9, 0);
    at(s, 0, 15 * S);
    assert_int_equal(snap->row_count, 2);
    at(s, 0, 25 * S);
    assert_int_equal(snap->row_count, 1);
    assert_null(al_snapshot_proc(snap, 4242));
    at(s, 0, 30 * S);
    p = al_snapshot_proc(snap, 4242);
    assert_int_equal(p->start_ticks, 1000);
    assert_string_equal(p->user, "");
    assert_false(p->holds_context);
    al_scenario_free(s);
}

static void test_loss(void **state) {
    (void)state;
    struct al_scenario *s =
        parsed("alula scenario 1\ngpu 0-2\nmig 1 profile=1g.18gb\nmig 1 profile=2g.35gb gpu_instance=5\n"
               "@0s\ngpu 0-2 power_watts=100\ngpu 1/1 memory_used_bytes=5GiB\nrow 5 gpu=1/1\nrow 6 gpu=0\n"
               "@1s\nlost 1\nlost 0\n@2s\nback 0 index=2\n@3s\nback 1\ngone 2\n");
    at(s, -1, 0);
    assert_int_equal(snap->gpu_count, 5);
    assert_true(snap->gpus[1].info.mig_enabled);
    const struct al_gpu_info *mig = &snap->gpus[4].info;
    assert_true(mig->is_mig);
    assert_int_equal(mig->parent, 1);
    assert_int_equal(mig->index, 1);
    assert_int_equal(mig->gpu_instance, 5);
    assert_string_equal(mig->name, "NVIDIA H200 MIG 2g.35gb");
    assert_memory_equal(mig->uuid, "MIG-", 4);
    assert_int_equal(snap->rows[1].gpu, 4);
    at(s, 0, S);
    assert_int_equal(snap->gpus[1].info.status, AL_STATUS_LOST);
    assert_int_equal(snap->gpus[4].info.status, AL_STATUS_LOST);
    assert_int_equal(VALUE(1, POWER).status, AL_STATUS_LOST);
    assert_int_equal(snap->gpus[1].process_status, AL_STATUS_LOST);
    assert_int_equal(snap->gpus[1].fresh_count, 0);
    assert_int_equal(snap->row_count, 0);
    at(s, S, 2 * S); // board 0 sits behind the others now
    assert_int_equal(snap->gpus[2].info.minor, 0);
    assert_int_equal(snap->gpus[2].info.index, 2);
    assert_int_equal(snap->gpus[0].info.minor, 1);
    assert_int_equal(snap->gpus[3].info.parent, 0);
    assert_int_equal(snap->rows[0].gpu, 2);
    at(s, S, 3 * S);
    bool gone;
    assert_int_equal(al_scenario_gpu_status(s, 2, 3 * S, &gone), AL_STATUS_LOST);
    assert_true(gone);
    assert_int_equal(al_scenario_gpu_status(s, 3, 3 * S, &gone), AL_STATUS_OK);
    al_scenario_free(s);
}

static void test_xids(void **state) {
    (void)state;
    struct al_scenario *s =
        parsed("alula scenario 1\ngpu 0-1\n@1s\nxid 0 79\n@2s\nxid 0-1 48 count=2\n@3s\nxid 0 79 at=2.5s\n");
    struct al_scenario_xid x[8];
    assert_int_equal(al_scenario_xids(s, 0, 2 * S, x, 8), 5);
    assert_int_equal(x[0].code, 79);
    assert_int_equal(x[4].gpu, 1);
    assert_int_equal(al_scenario_xids(s, S, 3 * S, x, 2), 2);
    assert_int_equal(al_scenario_xids(s, 3 * S, 9 * S, x, 8), 0);
    at(s, 0, 4 * S);
    assert_int_equal(snap->gpus[0].xid_count, 2);
    assert_int_equal(snap->gpus[0].xid[0].code, 79);
    assert_int_equal(snap->gpus[0].xid[0].count, 2);
    assert_int_equal(snap->gpus[0].xid[0].last_ns, 2500000000);
    assert_float_equal(VALUE(0, XID_ERRORS).num, 4, 0);
    assert_float_equal(VALUE(1, XID_ERRORS).num, 2, 0);
    al_scenario_free(s);
}

static void test_faults(void **state) {
    (void)state;
    struct al_scenario *s = parsed("alula scenario 1\ngpu 0-1\nmissing nvmlDeviceGetMemoryInfo_v2 nvmlGpm*\n"
                                   "fault nvmlInit_v2 DRIVER_NOT_LOADED for=1s\n@0s\ngpu 0-1 power_watts=1..101/100s\n"
                                   "@10s\nfault nvmlDeviceGetPowerUsage NOT_SUPPORTED gpu=0 for=10s\n"
                                   "fault nvmlDeviceGetName 999 calls=2\n"
                                   "@30s\nhang nvmlDeviceGetMemoryInfo 45s gpu=1\n@35s\ngpu 0 power_watts=7\n");
    int code;
    int64_t hang;
    assert_true(al_scenario_missing(s, "nvmlDeviceGetMemoryInfo_v2"));
    assert_true(al_scenario_missing(s, "nvmlGpmSampleGet"));
    assert_false(al_scenario_missing(s, "nvmlDeviceGetMemoryInfo"));
    const struct { const char *call; int gpu; int64_t at; int code; int64_t hang; } want[] = {
        {"nvmlInit_v2", -1, 0, 9, 0},
        {"nvmlInit_v2", -1, S, 0, 0},
        {"nvmlDeviceGetPowerUsage", 0, 9 * S, 0, 0},
        {"nvmlDeviceGetPowerUsage", 0, 10 * S, 3, 0},
        {"nvmlDeviceGetPowerUsage", 1, 10 * S, 0, 0},
        {"nvmlDeviceGetPowerUsage", 0, 20 * S, 0, 0},
        {"nvmlDeviceGetName", 1, 20 * S, 999, 0},
        {"nvmlDeviceGetName", 1, 20 * S, 999, 0},
        {"nvmlDeviceGetName", 1, 20 * S, 0, 0},
        {"nvmlDeviceGetMemoryInfo", 1, 40 * S, 0, 35 * S},
        {"nvmlDeviceGetMemoryInfo", 0, 40 * S, 0, 0},
        {"nvmlDeviceGetMemoryInfo", 1, 75 * S, 0, 0},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        al_scenario_fault(s, want[i].call, want[i].gpu, want[i].at, &code, &hang);
        assert_int_equal(code, want[i].code);
        assert_int_equal(hang, want[i].hang);
    }
    at(s, 30 * S, 40 * S);
    assert_string_equal(snap->hung_call, "nvmlDeviceGetMemoryInfo");
    assert_int_equal(snap->hung_since_ns, 30 * S);
    assert_int_equal(VALUE(0, POWER).status, AL_STATUS_STALE);
    assert_float_equal(VALUE(0, POWER).num, 31, 1e-9);
    assert_int_equal(snap->gpus[0].fresh_count, 0);
    at(s, 40 * S, 75 * S);
    assert_string_equal(snap->hung_call, "");
    assert_float_equal(VALUE(0, POWER).num, 7, 0);
    al_scenario_free(s);
}

static int64_t duration(const char *text) {
    struct al_scenario *s = parsed(text);
    int64_t ns = al_scenario_duration(s);
    al_scenario_free(s);
    return ns;
}

static void test_end(void **state) {
    (void)state;
    assert_int_equal(duration("alula scenario 1\nduration 3s\ngpu 0\n@0s\n@5s\n"), 3 * S);
    assert_int_equal(duration("alula scenario 1\ninterval 2s\ngpu 0\n@0s\n@5s\n"), 7 * S);
    assert_int_equal(duration("alula scenario 1\ninterval 2s\ngpu 0 samples=recorded\n@0s\n@5s\n"), 5 * S);
}

// Field by field: the bytes between them are nobody's.
static void same_gpu(const struct al_gpu *a, const struct al_gpu *b) {
    assert_string_equal(a->info.uuid, b->info.uuid);
    assert_int_equal(a->info.index, b->info.index);
    assert_int_equal(a->info.status, b->info.status);
    assert_int_equal(a->xid_count, b->xid_count);
    assert_int_equal(a->fresh_count, b->fresh_count);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++) {
        assert_int_equal(a->m[m].status, b->m[m].status);
        assert_int_equal(a->m[m].at_ns, b->m[m].at_ns);
        assert_true(a->m[m].num == b->m[m].num);
    }
}

// Whatever way the cursor takes, the same time says the same.
static void test_any_order(void **state) {
    (void)state;
    static const char text[] =
        "alula scenario 1\ngpu 0-1\n@0s\ngpu 0-1 power_watts=0..100/10s\nproc 5\n@3s\nlost 1\n@5s\nback 1 "
        "index=0\nexit 5\n@7s\nxid 0 79\ngpu 0 power_watts=!denied\n";
    struct al_scenario *s = parsed(text);
    uint32_t random = 1;
    for (int i = 0; i < 200; i++) {
        random = random * 1664525 + 1013904223;
        int64_t now = (random >> 16) % 1000 * (S / 100);
        struct al_scenario *other = parsed(text);
        struct al_snapshot *want = al_snapshot_new();
        assert_int_equal(al_scenario_at(other, now - S, now, want), 0);
        at(s, now - S, now);
        assert_int_equal(snap->gpu_count, want->gpu_count);
        for (uint32_t g = 0; g < want->gpu_count; g++)
            same_gpu(&snap->gpus[g], &want->gpus[g]);
        assert_int_equal(snap->proc_count, want->proc_count);
        al_snapshot_free(want);
        al_scenario_free(other);
    }
    al_scenario_free(s);
}

static void test_ranks(void **state) {
    (void)state;
    struct al_scenario *s = parsed("alula scenario 1\nduration 1min\ngpu 0\n@0s\nrank 42 job=40 rank=1 local_rank=1 world_size=8 "
                                   "device=0 source=\"torch.optim hook\" start_ticks=7 training=0\n"
                                   "@10s\nrank 42 training=1 phase=data step=1..11/10s data_ratio=20% reserved_bytes=10GiB\n"
                                   "@20s\nrank 42 phase=between_steps step=!stale\n@30s\nunrank 42\n"
                                   "@40s\nrank 42 phase=!unread\n");
    at(s, -1, 5 * S);
    assert_int_equal(snap->rank_count, 1);
    const struct al_rank *r = &snap->ranks[0];
    assert_int_equal(r->pid, 42);
    assert_int_equal(r->job, 40);
    assert_int_equal(r->rank, 1);
    assert_int_equal(r->world, 8);
    assert_int_equal(r->start_ticks, 7);
    assert_string_equal(r->source, "torch.optim hook");
    assert_string_equal(al_rank_phase(r), "starting");
    assert_int_equal(r->m[AL_RANK_STEP].status, AL_STATUS_UNREAD);
    at(s, 5 * S, 15 * S);
    r = &snap->ranks[0];
    assert_string_equal(al_rank_phase(r), "data");
    assert_true(r->m[AL_RANK_STEP].num == 6);
    assert_true(r->m[AL_RANK_SHARE_DATA].num == 0.2);
    assert_true(r->m[AL_RANK_RESERVED].num == 10.0 * (1 << 30));
    at(s, 15 * S, 25 * S);
    r = &snap->ranks[0];
    assert_string_equal(al_rank_phase(r), "between_steps");
    assert_int_equal(r->m[AL_RANK_STEP].status, AL_STATUS_STALE);
    at(s, 25 * S, 35 * S);
    assert_int_equal(snap->rank_count, 0);
    at(s, 35 * S, 45 * S); // another process: nothing is left of the first
    assert_int_equal(snap->ranks[0].job, 0);
    assert_int_equal(snap->ranks[0].rank, -1);
    assert_null(al_rank_phase(&snap->ranks[0]));
    al_scenario_free(s);
}

int play_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_identity, make, unmake),
        cmocka_unit_test_setup_teardown(test_values, make, unmake),
        cmocka_unit_test_setup_teardown(test_samples, make, unmake),
        cmocka_unit_test_setup_teardown(test_processes, make, unmake),
        cmocka_unit_test_setup_teardown(test_ranks, make, unmake),
        cmocka_unit_test_setup_teardown(test_loss, make, unmake),
        cmocka_unit_test_setup_teardown(test_xids, make, unmake),
        cmocka_unit_test_setup_teardown(test_faults, make, unmake),
        cmocka_unit_test(test_end),
        cmocka_unit_test_setup_teardown(test_any_order, make, unmake),
    };
    return cmocka_run_group_tests_name("play", tests, NULL, NULL);
}
