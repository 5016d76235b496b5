// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "model/finding.h"
#include "model/select.h"
#include "model/snapshot.h"
#include "model/told.h"
#include "model/attr.h"
#include "model/gpu_peak.h"

// Units live in names: the name of a metric ends in the word of its unit.
static void metric_names_carry_their_unit(void **state) {
    (void)state;
    for (int i = 0; i < AL_GPU_METRIC_COUNT; i++) {
        const struct al_metric_info *m = &al_gpu_metrics[i];
        const char *unit = al_unit_word(m->unit);
        size_t n = strlen(m->name), u = strlen(unit);
        if (u && (n < u || strcmp(m->name + n - u, unit) != 0))
            fail_msg("%s does not end in %s", m->name, unit);
        assert_int_equal(al_gpu_metric_find(m->name), i); // unique
        assert_true(strlen(m->help) > 10 && *m->resolution && *m->generations);
        assert_string_not_equal(al_group_word(m->group), "?");
    }
    assert_int_equal(al_gpu_metric_find("no_such"), -1);
}

static void words_go_both_ways(void **state) {
    (void)state;
    for (uint32_t i = 0; i < AL_STATUS_COUNT; i++)
        assert_int_equal(al_status_from_word(al_status_word(i)), (int)i);
    assert_int_equal(al_status_from_word("nonsense"), -1);
    assert_string_equal(al_status_smi(AL_STATUS_DENIED), "[Insufficient Permissions]");
    assert_int_equal(al_role_from_word("worker"), AL_ROLE_WORKER);
    assert_int_equal(al_level_from_word("critical"), AL_LEVEL_CRITICAL);
    for (int i = 0; i < AL_ATTR_COUNT; i++)
        assert_int_equal(al_attr_find(al_attrs[i].name), i);
}

static void snapshots_grow_copy_and_sort(void **state) {
    (void)state;
    struct al_snapshot *a = al_snapshot_new(), *b = al_snapshot_new();
    for (int i = 0; i < AL_GPU_MAX; i++) {
        struct al_gpu *g = al_snapshot_add_gpu(a);
        assert_non_null(g);
        (void)snprintf(g->info.uuid, sizeof g->info.uuid, "GPU-%d", i);
    }
    assert_null(al_snapshot_add_gpu(a));
    for (int pid = 100; pid > 0; pid--)
        al_snapshot_add_proc(a)->pid = pid;
    al_snapshot_add_row(a)->gpu = 3;
    al_snapshot_add_row(a)->gpu = 1;
    al_snapshot_sort(a);
    assert_int_equal(a->rows[0].gpu, 1);
    assert_int_equal(al_snapshot_copy(b, a), 0);
    assert_int_equal(al_snapshot_proc(b, 42)->pid, 42);
    assert_null(al_snapshot_proc(b, 101));
    assert_ptr_equal(al_snapshot_gpu(b, "GPU-7"), &b->gpus[7]);
    assert_int_equal(b->procs[0].rank, -1);
    al_snapshot_clear(b);
    assert_int_equal(b->gpu_count, 0);
    assert_non_null(b->gpus);
    al_snapshot_free(a);
    assert_null(al_snapshot_free(b));
}

static void ranks_travel_with_the_snapshot_in_the_order_of_ranks(void **state) {
    (void)state;
    struct al_snapshot *a = al_snapshot_new(), *b = al_snapshot_new();
    static const struct {
        pid_t job, pid;
        int32_t rank;
    } given[] = {{20, 5, 0}, {10, 9, 1}, {10, 7, 0}};
    for (size_t i = 0; i < 3; i++) {
        struct al_rank *r = al_snapshot_add_rank(a);
        assert_int_equal(r->rank, -1);
        assert_int_equal(r->device, -1);
        r->job = given[i].job, r->pid = given[i].pid, r->rank = given[i].rank;
    }
    al_snapshot_sort(a);
    assert_int_equal(al_snapshot_copy(b, a), 0);
    assert_int_equal(b->rank_count, 3);
    assert_int_equal(b->ranks[0].pid, 7);
    assert_int_equal(b->ranks[1].pid, 9);
    assert_int_equal(b->ranks[2].pid, 5);
    assert_int_equal(al_snapshot_rank(b, 9)->rank, 1);
    assert_null(al_snapshot_rank(b, 8));
    al_snapshot_clear(b);
    assert_int_equal(b->rank_count, 0);
    assert_non_null(b->ranks);
    al_snapshot_free(a);
    al_snapshot_free(b);
}

static void a_rank_says_its_phase_or_that_it_is_not_known(void **state) {
    (void)state;
    struct al_rank r = {.pid = 1};
    assert_null(al_rank_phase(&r));
    r.m[AL_RANK_PHASE] = al_value_ok(AL_IN_SAVE, 1);
    assert_string_equal(al_rank_phase(&r), "save");
    r.m[AL_RANK_TRAINING] = al_value_ok(0, 1);
    assert_string_equal(al_rank_phase(&r), "starting");
    r.m[AL_RANK_TRAINING].num = 1;
    r.m[AL_RANK_PHASE].num = AL_RANK_BETWEEN;
    assert_string_equal(al_rank_phase(&r), "between_steps");
    r.m[AL_RANK_PHASE].num = AL_RANK_BETWEEN + 1;
    assert_null(al_rank_phase(&r));
    r.m[AL_RANK_PHASE].num = -1;
    assert_null(al_rank_phase(&r));
    assert_int_equal(al_rank_phase_from_word("data"), AL_IN_DATA);
    assert_int_equal(al_rank_phase_from_word("starting"), -1);
    for (int i = 0; i <= AL_PHASE_COUNT; i++) { // the columns of shares carry the phases' words
        char name[48];
        (void)snprintf(name, sizeof name, "%s_ratio", al_rank_phase_word((uint32_t)i));
        assert_string_equal(al_rank_metric_table[AL_RANK_SHARE_OTHER + i].name, name);
    }
}

static void memory_of_a_process_is_summed_or_unknown(void **state) {
    (void)state;
    struct al_snapshot *s = al_snapshot_new();
    for (uint32_t i = 0; i < 2; i++) {
        struct al_proc_gpu *r = al_snapshot_add_row(s);
        r->pid = 7;
        r->gpu = i;
        r->memory_bytes = al_value_ok(100, 1);
    }
    struct al_value v = al_snapshot_proc_memory(s, 7);
    assert_true(al_ok(v) && v.num == 200);
    assert_int_equal(al_snapshot_proc_memory(s, 8).status, AL_STATUS_UNREAD);
    s->rows[1].memory_bytes = al_value_none(AL_STATUS_UNSUPPORTED);
    assert_int_equal(al_snapshot_proc_memory(s, 7).status, AL_STATUS_UNSUPPORTED);
    al_snapshot_free(s);
}

static void gpus_are_chosen_by_index_uuid_and_bus(void **state) {
    (void)state;
    struct al_gpu_info g = {.uuid = "GPU-a1b2c3d4-0000", .pci_bus_id = "00000000:83:00.0", .index = 2};
    assert_true(al_gpu_selected(NULL, &g));
    assert_true(al_gpu_selected("", &g));
    assert_true(al_gpu_selected("0, 2", &g));
    assert_false(al_gpu_selected("0,1", &g));
    assert_true(al_gpu_selected("gpu-A1B2", &g));
    assert_false(al_gpu_selected("GPU-b", &g));
    assert_true(al_gpu_selected("83:00.0", &g));
    assert_true(al_gpu_selected("0000:83:00.0", &g));
    assert_false(al_gpu_selected("0001:83:00.0", &g));
    assert_false(al_gpu_selected("84:00.0", &g));
    char item[32];
    assert_int_equal(al_gpu_select_check("0,GPU-1,83:00.0", item, sizeof item), 0);
    assert_int_equal(al_gpu_select_check("0,foo", item, sizeof item), AL_E_INVALID);
    assert_string_equal(item, "foo");
    assert_int_equal(al_gpu_select_check("0,,1", item, sizeof item), AL_E_INVALID);
}

static void peaks_are_known_by_the_driver_s_name(void **state) {
    static const struct {
        const char *name;
        double peak; // TFLOP/s; 0 unknown
    } cases[] = {
        {"NVIDIA A100-SXM4-80GB", 312}, {"NVIDIA A100-PCIE-40GB", 312}, {"A100-PCIE-40GB", 312},
        {"NVIDIA A100-SXM4-40GB MIG 3g.20gb", 0}, {"GRID A100-10C", 0},
        {"NVIDIA H100 80GB HBM3", 989.4}, {"NVIDIA H100 PCIe", 756}, {"NVIDIA H100 NVL", 835.5}, {"NVIDIA H100", 0},
        {"NVIDIA H200", 989.4}, {"NVIDIA H200 NVL", 835.5}, {"NVIDIA H20", 148}, {"NVIDIA GH200 480GB", 989.4},
        {"NVIDIA L4", 121}, {"NVIDIA L40", 181}, {"NVIDIA L40S", 362}, {"NVIDIA A10", 125}, {"NVIDIA A10G", 0},
        {"NVIDIA RTX A6000", 154.8}, {"NVIDIA RTX 6000 Ada Generation", 364.2},
        {"NVIDIA GeForce RTX 4090", 165.2}, {"NVIDIA GeForce RTX 4090 D", 0}, {"NVIDIA GeForce RTX 4090 Laptop GPU", 0},
        {"NVIDIA GeForce RTX 3090 Ti", 80}, {"NVIDIA B200", 2250}, {"Tesla V100-SXM2-32GB", 0}, {"", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double peak = 0;
        bool known = al_gpu_peak_bf16(cases[i].name, &peak);
        assert_int_equal(known, cases[i].peak > 0);
        assert_true(!known || peak == cases[i].peak * 1e12);
    }
}

static void a_process_says_how_its_parts_are_known(void **state) {
    (void)state;
    const char *full = "torch.optim hook; data=none forward=inferred optimizer=exact odd=maybe; no loader; so";
    assert_int_equal(al_told_name(full), 16);
    assert_string_equal(al_told_confidence(full, "data"), "none");
    assert_string_equal(al_told_confidence(full, "forward"), "inferred");
    assert_string_equal(al_told_confidence(full, "optimizer"), "exact");
    assert_null(al_told_confidence(full, "odd"));
    assert_null(al_told_confidence(full, "save"));
    assert_null(al_told_confidence(full, "dat"));
    assert_string_equal(al_told_reason(full), "no loader; so");
    static const char *const bare[] = {"", "transformers.Trainer", ";", ";;", "a;data", "a; data=; ", "a; =exact", "data=exact"};
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
        assert_null(al_told_confidence(bare[i], "data"));
        assert_string_equal(al_told_reason(bare[i]), "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metric_names_carry_their_unit),
        cmocka_unit_test(words_go_both_ways),
        cmocka_unit_test(snapshots_grow_copy_and_sort),
        cmocka_unit_test(ranks_travel_with_the_snapshot_in_the_order_of_ranks),
        cmocka_unit_test(a_rank_says_its_phase_or_that_it_is_not_known),
        cmocka_unit_test(memory_of_a_process_is_summed_or_unknown),
        cmocka_unit_test(gpus_are_chosen_by_index_uuid_and_bus),
        cmocka_unit_test(a_process_says_how_its_parts_are_known),
        cmocka_unit_test(peaks_are_known_by_the_driver_s_name),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
