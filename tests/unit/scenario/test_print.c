// SPDX-License-Identifier: Apache-2.0
// What is printed reads back as it was: over random sessions, and byte for byte in a small one.
#include <stdio.h>
#include <string.h>

#include "suite.h"

static uint32_t seed = 1;

static uint32_t rnd(uint32_t below) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 12) % below;
}

static struct al_value some_value(int64_t now) {
    static const uint32_t statuses[] = {AL_STATUS_OK, AL_STATUS_OK, AL_STATUS_OK, AL_STATUS_DENIED, AL_STATUS_UNREAD,
                                        AL_STATUS_UNSUPPORTED, AL_STATUS_STALE};
    uint32_t status = statuses[rnd(7)];
    bool counts = status == AL_STATUS_OK || status == AL_STATUS_STALE;
    return (struct al_value){counts ? rnd(100000) / 64.0 : 0, now, status};
}

static void change_looks(struct al_snapshot *s, int64_t now) {
    s->look_count = 0;
    for (int p = 0; p < 3; p++) {
        if (rnd(3) == 0)
            continue;
        struct al_look *look = al_snapshot_add_look(s);
        look->pid = 100 + p;
        look->start_ticks = 50 + rnd(2);
        look->rank = p;
        look->line.line = (int32_t)rnd(200);
        snprintf(look->line.function, sizeof look->line.function, "<lambda> %u", rnd(2));
        snprintf(look->worker.file, sizeof look->worker.file, "/home/u/a \"b\" %u.py", rnd(2));
        snprintf(look->problem, sizeof look->problem, "%s", rnd(2) ? "" : "may not read");
        for (int m = 0; m < AL_LOOK_METRIC_COUNT; m++)
            look->m[m] = some_value(now);
    }
}

static void change_ranks(struct al_snapshot *s, int64_t now) {
    s->rank_count = 0;
    change_looks(s, now);
    for (int p = 0; p < 4; p++) {
        if (rnd(4) == 0)
            continue;
        struct al_rank *rank = al_snapshot_add_rank(s);
        rank->pid = 100 + p;
        rank->start_ticks = 50 + rnd(2);
        rank->job = 90;
        rank->rank = p;
        rank->world = 4;
        snprintf(rank->source, sizeof rank->source, "a \"b\" %u", rnd(2));
        for (int m = 0; m < AL_RANK_METRIC_COUNT; m++)
            rank->m[m] = some_value(now);
        rank->m[AL_RANK_PHASE] = rnd(4) ? al_value_ok(rnd(AL_RANK_BETWEEN + 1), now) : al_value_none(AL_STATUS_UNREAD);
    }
}

// The state of a session, changed a little from tick to tick.
static void change(struct al_snapshot *s, int tick, int64_t now) {
    s->monotonic_ns = now;
    s->gpu_count = 0;
    for (int g = 0; g < 3; g++)
        assert_non_null(al_snapshot_add_gpu(s));
    s->row_count = s->proc_count = 0;
    snprintf(s->hung_call, sizeof s->hung_call, "%s", rnd(4) ? "" : "nvmlDeviceGetName");
    s->hung_since_ns = s->hung_call[0] ? now : 0;
    for (int m = 0; m < AL_NODE_METRIC_COUNT; m++)
        s->node.m[m] = some_value(now);
    for (int g = 0; g < 3; g++) {
        struct al_gpu *gpu = &s->gpus[g];
        snprintf(gpu->info.uuid, sizeof gpu->info.uuid, "%s-%d", g == 2 ? "MIG" : "GPU", g);
        snprintf(gpu->info.name, sizeof gpu->info.name, "name \"%d\"\\", g);
        gpu->info.index = g == 2 ? 0 : (uint32_t)g;
        gpu->info.is_mig = g == 2;
        gpu->info.parent = g == 2 ? 1 : -1;
        gpu->info.status = g == 0 && rnd(3) == 0 ? AL_STATUS_LOST : AL_STATUS_OK;
        gpu->process_status = gpu->procutil_status = gpu->info.status;
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            gpu->m[m] = gpu->info.status == AL_STATUS_OK ? some_value(now) : al_value_none(AL_STATUS_LOST);
        gpu->xid_count = 1;
        gpu->xid[0] = (struct al_xid){79, (uint32_t)(tick + 1), now - 5};
        for (uint32_t i = 0; gpu->info.status == AL_STATUS_OK && g < 2 && i < 2; i++)
            gpu->fresh[gpu->fresh_count++] = (struct al_fresh){now - 200 + i * 100, rnd(65) / 64.0};
    }
    for (int p = 0; p < 6; p++) {
        if (rnd(4) == 0)
            continue;
        struct al_proc *proc = al_snapshot_add_proc(s);
        proc->pid = 100 + p;
        proc->start_ticks = 50 + rnd(2);
        proc->alive = rnd(2);
        proc->rank = (int32_t)rnd(3);
        proc->role = rnd(6);
        proc->state = 'R';
        proc->started_realtime_ns = 1795953600LL * S + rnd(1000);
        snprintf(proc->command, sizeof proc->command, "a b#c\n\x1b[31m\"%u", rnd(3));
        for (int m = 0; m < AL_PROC_METRIC_COUNT; m++)
            proc->m[m] = some_value(now);
    }
    change_ranks(s, now);
    for (uint32_t g = 0; g < 3; g++)
        for (int p = 0; p < 6 && s->gpus[g].info.status == AL_STATUS_OK; p++) {
            if (rnd(3) == 0)
                continue;
            struct al_proc_gpu *row = al_snapshot_add_row(s);
            row->pid = 100 + p;
            row->gpu = g;
            row->type = 1 + rnd(7);
            row->gpu_instance = 1 + rnd(2);
            row->memory_bytes = some_value(now);
            row->sm_ratio = some_value(now);
            snprintf(row->driver_name, sizeof row->driver_name, "%s", rnd(2) ? "x y" : "");
        }
    for (uint32_t i = 0; i < s->proc_count; i++)
        for (uint32_t r = 0; r < s->row_count; r++)
            if (s->rows[r].pid == s->procs[i].pid)
                s->procs[i].holds_context = true;
}

static void same_value(struct al_value a, struct al_value b, const char *what, int i) {
    bool counts = a.status == AL_STATUS_OK || a.status == AL_STATUS_STALE;
    if (a.status != b.status || (counts && a.num != b.num) || (a.status == AL_STATUS_OK && a.at_ns != b.at_ns))
        fail_msg("%s %d: wrote %g (%u), read %g (%u)", what, i, a.num, a.status, b.num, b.status);
}

static void same_procs(const struct al_snapshot *a, const struct al_snapshot *b) {
    assert_int_equal(a->proc_count, b->proc_count);
    for (uint32_t i = 0; i < a->proc_count; i++) {
        struct al_proc x = a->procs[i], y = b->procs[i];
        for (int m = 0; m < AL_PROC_METRIC_COUNT; m++)
            same_value(x.m[m], y.m[m], "proc", m);
        memset(x.m, 0, sizeof x.m);
        memset(y.m, 0, sizeof y.m);
        assert_string_equal(x.command, y.command);
        memset(x.command, 0, sizeof x.command);
        memset(y.command, 0, sizeof y.command);
        assert_memory_equal(&x, &y, sizeof x);
    }
    assert_int_equal(a->row_count, b->row_count);
    for (uint32_t i = 0; i < a->row_count; i++) {
        const struct al_proc_gpu *x = &a->rows[i], *y = &b->rows[i];
        assert_int_equal(x->pid, y->pid);
        assert_int_equal(x->gpu, y->gpu);
        assert_int_equal(x->type, y->type);
        assert_int_equal(x->gpu_instance, y->gpu_instance);
        same_value(x->memory_bytes, y->memory_bytes, "row memory", (int)i);
        same_value(x->sm_ratio, y->sm_ratio, "row sm", (int)i);
        assert_string_equal(x->driver_name, y->driver_name);
    }
}

static void same_ranks(const struct al_snapshot *a, const struct al_snapshot *b) {
    assert_int_equal(a->rank_count, b->rank_count);
    for (uint32_t i = 0; i < a->rank_count; i++) {
        const struct al_rank *x = &a->ranks[i], *y = al_snapshot_rank(b, x->pid);
        assert_non_null(y);
        assert_int_equal(x->start_ticks, y->start_ticks);
        assert_int_equal(x->job, y->job);
        assert_int_equal(x->rank, y->rank);
        assert_int_equal(x->local_rank, y->local_rank);
        assert_int_equal(x->world, y->world);
        assert_int_equal(x->device, y->device);
        assert_string_equal(x->source, y->source);
        for (int m = 0; m < AL_RANK_METRIC_COUNT; m++)
            same_value(x->m[m], y->m[m], al_rank_metric_table[m].name, (int)i);
    }
}

static void same_looks(const struct al_snapshot *a, const struct al_snapshot *b) {
    assert_int_equal(a->look_count, b->look_count);
    for (uint32_t i = 0; i < a->look_count; i++) {
        const struct al_look *x = &a->looks[i], *y = al_snapshot_look(b, x->pid);
        assert_non_null(y);
        assert_int_equal(x->start_ticks, y->start_ticks);
        assert_int_equal(x->rank, y->rank);
        assert_int_equal(x->line.line, y->line.line);
        assert_string_equal(x->line.function, y->line.function);
        assert_string_equal(x->worker.file, y->worker.file);
        assert_string_equal(x->problem, y->problem);
        for (int m = 0; m < AL_LOOK_METRIC_COUNT; m++)
            same_value(x->m[m], y->m[m], al_look_metric_table[m].name, (int)i);
    }
}

static void same(const struct al_snapshot *a, const struct al_snapshot *b) {
    for (int m = 0; m < AL_NODE_METRIC_COUNT; m++)
        same_value(a->node.m[m], b->node.m[m], "node", m);
    assert_string_equal(a->hung_call, b->hung_call);
    for (uint32_t g = 0; g < a->gpu_count; g++) {
        const struct al_gpu *x = &a->gpus[g], *y = &b->gpus[g];
        assert_string_equal(x->info.uuid, y->info.uuid);
        assert_string_equal(x->info.name, y->info.name);
        assert_int_equal(x->info.status, y->info.status);
        assert_int_equal(x->process_status, y->process_status);
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            same_value(x->m[m], y->m[m], al_gpu_metrics[m].name, (int)g);
        assert_int_equal(x->xid_count, y->xid_count);
        assert_memory_equal(&x->xid[0], &y->xid[0], sizeof x->xid[0]);
        assert_int_equal(x->fresh_count, y->fresh_count);
        assert_memory_equal(x->fresh, y->fresh, x->fresh_count * sizeof *x->fresh);
    }
    same_procs(a, b);
    same_ranks(a, b);
    same_looks(a, b);
}

#define TICKS 12

static void test_round_trip(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        struct al_snapshot *tick[TICKS], *back = al_snapshot_new();
        struct al_buf b = AL_BUF_INIT;
        const int64_t start = 77 * S + 5;
        for (int t = 0; t < TICKS; t++) {
            tick[t] = al_snapshot_new();
            change(tick[t], t, t * S / 2 + 300);
        }
        for (int t = 0; t < TICKS; t++) { // the printer takes the start off again
            struct al_snapshot *shifted = al_snapshot_new();
            al_snapshot_copy(shifted, tick[t]);
            shifted->monotonic_ns += start;
            shifted->hung_since_ns += start;
            for (uint32_t g = 0; g < shifted->gpu_count; g++) {
                shifted->gpus[g].xid[0].last_ns += start;
                for (uint32_t i = 0; i < shifted->gpus[g].fresh_count; i++)
                    shifted->gpus[g].fresh[i].at_ns += start;
            }
            if (t == 0)
                al_scenario_print_head(&b, shifted, NULL, NULL);
            al_scenario_print_tick(&b, t ? tick[t - 1] : NULL, shifted, start);
            al_snapshot_free(shifted);
        }
        struct al_scenario *s = parsed(b.data);
        for (int t = 0; t < TICKS; t++) {
            assert_int_equal(al_scenario_at(s, t ? tick[t - 1]->monotonic_ns : -1, tick[t]->monotonic_ns, back), 0);
            same(tick[t], back);
        }
        for (int t = 0; t < TICKS; t++)
            al_snapshot_free(tick[t]);
        al_snapshot_free(back);
        al_scenario_free(s);
        al_buf_free(&b);
    }
}

static int one_attr(void *user, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    (void)user;
    (void)gpu;
    *ret = (struct al_attr_value){.status = AL_STATUS_UNSUPPORTED};
    if (attr == AL_ATTR_VBIOS)
        *ret = (struct al_attr_value){AL_STATUS_OK, 0, "96.00.A5.00.1A"};
    if (attr == AL_ATTR_UUID)
        *ret = (struct al_attr_value){AL_STATUS_OK, 0, "GPU-1"}; // follows from the gpu line
    return 0;
}

static void test_bytes(void **state) {
    (void)state;
    struct al_scenario *s =
        parsed("alula scenario 1\nstart 2026-11-29T12:00:00Z\ninterval 500ms\ndriver 580.159.04\n"
               "host hostname=n pid_ns=4\ngpu 0 uuid=GPU-1\n@0s\ngpu 0 power_watts=77.5\n"
               "proc 5 user=alice cpu_ratio=1\nrow 5 gpu=0 memory_bytes=1GiB\n@0.5s\ngpu 0 power_watts=78\n");
    struct al_snapshot *first = al_snapshot_new(), *second = al_snapshot_new();
    struct al_buf b = AL_BUF_INIT;
    al_scenario_at(s, -1, 0, first);
    al_scenario_at(s, 0, S / 2, second);
    first->realtime_ns = 1795953600LL * S;
    first->interval_ns = S / 2;
    second->monotonic_ns = S / 2;
    al_scenario_print_head(&b, first, one_attr, NULL);
    al_scenario_print_tick(&b, NULL, first, 0);
    al_scenario_print_tick(&b, first, second, 0);
    assert_string_equal(
        b.data, "alula scenario 1\nstart 2026-11-29T12:00:00Z\ninterval 0.5s\ndriver 580.159.04\n"
                "host hostname=n host_pid_ns=yes pid_ns=4\n"
                "gpu 0 name=\"NVIDIA H200\" uuid=GPU-1 pci_bus_id=00000000:01:00.0 serial=1650000000001 minor=0 "
                "architecture=9 samples=recorded\n"
                "attr 0 name=!unsupported serial=!unsupported minor_number=!unsupported architecture=!unsupported "
                "pci_bus_id=!unsupported pci_domain=!unsupported pci_bus=!unsupported pci_device=!unsupported "
                "vbios_version=96.00.A5.00.1A mig_mode=!unsupported mig_mode_pending=!unsupported\n"
                "@0s\n"
                "gpu 0 utilization_mean_ratio=!unsupported memory_free_bytes=!unsupported power_watts=77.5 "
                "xid_errors=0\n"
                "proc 5 pid_ns=4 user=alice cpu_ratio=1\nrow 5 gpu=0 memory_bytes=1073741824\n"
                "@0.5s\ngpu 0 power_watts=78\n");
    al_buf_free(&b);
    al_snapshot_free(first);
    al_snapshot_free(second);
    al_scenario_free(s);
}

int print_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
