// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "export/openmetrics.h"
#include "export/openmetrics_write.h"
#include "suites.h"

static struct al_snapshot *snapshot(void) {
    struct al_snapshot *s = al_snapshot_new();
    assert_non_null(s);
    struct al_gpu *g = al_snapshot_add_gpu(s);
    assert_non_null(g);
    (void)strcpy(g->info.uuid, "GPU-1");
    (void)strcpy(g->info.name, "NVIDIA \"H200\"\\\n");
    (void)strcpy(g->info.pci_bus_id, "00000000:83:00.0");
    g->info.index = 3;
    g->info.minor = 4;
    g->info.parent = -1;
    g->info.status = AL_STATUS_OK;
    (void)strcpy(s->node.hostname, "node1");
    (void)strcpy(s->node.driver_version, "580.1");
    return s;
}

// What is printed of the snapshot, without alula's own health, which comes first.
static char *printed(struct al_buf *b, const struct al_om_page *p, const char *from) {
    al_buf_clear(b);
    al_openmetrics_print(b, p);
    assert_true(!b->failed && b->data);
    char *at = strstr(b->data, from);
    if (!at)
        fail_msg("no %s in\n%s", from, b->data);
    return at;
}

static void has(const char *text, const char *line) {
    if (strstr(text, line))
        return;
    fputs(text, stderr); // cmocka cuts long messages
    fail_msg("no\n%s", line);
}

static void has_not(const char *text, const char *part) {
    if (strstr(text, part))
        fail_msg("%s in\n%s", part, text);
}

static void a_page_is_exact(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_snapshot *s = snapshot();
    struct al_gpu *g = &s->gpus[0];
    g->m[AL_GPU_UTIL] = al_value_ok(0.93, 1);
    g->m[AL_GPU_MEM_USED] = (struct al_value){5e9, 1, AL_STATUS_STALE};
    g->m[AL_GPU_POWER] = al_value_none(AL_STATUS_LOST);
    g->m[AL_GPU_ENERGY] = al_value_ok(123456789.25, 1);
    g->m[AL_GPU_PCIE_GEN] = al_value_ok(5, 1);
    g->process_status = AL_STATUS_DENIED;
    struct al_om_page p = {.s = s};
    assert_string_equal(
        printed(&b, &p, "# HELP alula_gpu_info"),
        "# HELP alula_gpu_info What the GPU is; join on uuid\n"
        "# TYPE alula_gpu_info gauge\n"
        "alula_gpu_info{gpu=\"3\",uuid=\"GPU-1\",name=\"NVIDIA \\\"H200\\\"\\\\\\n\",pci_bus_id=\"00000000:83:00.0\","
        "driver_version=\"580.1\",minor_number=\"4\"} 1\n"
        "# HELP alula_gpu_up 1 when the GPU answers; 0 when it is lost or needs a reset\n"
        "# TYPE alula_gpu_up gauge\n"
        "alula_gpu_up{gpu=\"3\",uuid=\"GPU-1\"} 1\n"
        "# HELP alula_gpu_utilization_ratio Share of the driver's last sample period in which at least one kernel ran. It says "
        "nothing of how much of the GPU that kernel used: see sm_active_ratio\n"
        "# TYPE alula_gpu_utilization_ratio gauge\n"
        "alula_gpu_utilization_ratio{gpu=\"3\",uuid=\"GPU-1\"} 0.93\n"
        "# HELP alula_gpu_energy_joules_total Energy used since the driver was loaded\n"
        "# TYPE alula_gpu_energy_joules_total counter\n"
        "alula_gpu_energy_joules_total{gpu=\"3\",uuid=\"GPU-1\"} 123456789.25\n"
        "# HELP alula_gpu_pcie_link_generation PCIe generation in use now\n"
        "# TYPE alula_gpu_pcie_link_generation gauge\n"
        "alula_gpu_pcie_link_generation{gpu=\"3\",uuid=\"GPU-1\"} 5\n");
    p.openmetrics = true;
    const char *open = printed(&b, &p, "# HELP alula_gpu ");
    has(open, "# HELP alula_gpu What the GPU is; join on uuid\n# TYPE alula_gpu info\nalula_gpu_info{");
    has(open, "# TYPE alula_gpu_utilization_ratio gauge\n# UNIT alula_gpu_utilization_ratio ratio\nalula_gpu_utilization_ratio{");
    has(open, "# TYPE alula_gpu_energy_joules counter\n# UNIT alula_gpu_energy_joules joules\nalula_gpu_energy_joules_total{");
    assert_string_equal(b.data + b.len - 6, "# EOF\n");
    al_snapshot_free(s);
    al_buf_free(&b);
}

static void without_a_fresh_sample_health_alone_is_told(void **state) {
    (void)state;
    static const struct al_call_stat calls[] = {{"nvmlDeviceGetUtilizationRates", 40, 2, 1500000, 90000, 10}};
    struct al_buf b = AL_BUF_INIT;
    struct al_om_page p = {.health = {.version = "0.1.0", .up = false, .age_seconds = 12.5, .interval_seconds = 0.5, .ticks = 7,
                                      .late = 2, .skipped = 1, .delay_mean_seconds = 0.001, .delay_max_seconds = 0.25,
                                      .cpu_seconds = 1.5, .resident_bytes = 8388608, .connections = 3,
                                      .connections_refused = 4, .requests = {0, 0, 10, 0, 2, 1}, .calls = calls, .call_count = 1}};
    const char *text = printed(&b, &p, "# HELP alula_build_info");
    static const char *const lines[] = {
        "\nalula_build_info{version=\"0.1.0\"} 1\n", "\nalula_up 0\n", "\nalula_sample_age_seconds 12.5\n",
        "\nalula_sampling_interval_seconds 0.5\n", "\nalula_ticks_total 7\n", "\nalula_ticks_late_total 2\n",
        "\nalula_ticks_skipped_total 1\n", "\nalula_tick_delay_mean_seconds 0.001\n", "\nalula_tick_delay_max_seconds 0.25\n",
        "\nalula_driver_call_hung 0\n", "\nalula_driver_calls_total{call=\"nvmlDeviceGetUtilizationRates\"} 40\n",
        "\nalula_driver_call_errors_total{call=\"nvmlDeviceGetUtilizationRates\"} 2\n",
        "\nalula_driver_call_seconds_total{call=\"nvmlDeviceGetUtilizationRates\"} 0.0015\n",
        "\nalula_driver_call_max_seconds{call=\"nvmlDeviceGetUtilizationRates\"} 0.00009\n",
        "\nalula_self_cpu_seconds_total 1.5\n", "\nalula_self_resident_bytes 8388608\n",
        "\nalula_http_requests_total{code=\"2xx\"} 10\n", "\nalula_http_requests_total{code=\"4xx\"} 2\n",
        "\nalula_http_requests_total{code=\"5xx\"} 1\n", "\nalula_http_connections 3\n",
        "\nalula_http_connections_cut_total 4\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        has(text, lines[i]);
    has_not(text, "alula_gpu");
    has_not(text, "alula_node");
    p.health.age_seconds = -1; // no sample ever: no age
    has_not(printed(&b, &p, "# HELP"), "alula_sample_age");
    al_buf_free(&b);
}

static void a_hang_names_its_call(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_snapshot *s = snapshot();
    s->monotonic_ns = 9500000000;
    s->hung_since_ns = 2000000000;
    (void)strcpy(s->hung_call, "nvmlDeviceGetPowerUsage");
    const struct al_om_page p = {.s = s};
    const char *text = printed(&b, &p, "# HELP");
    has(text, "\nalula_driver_call_hung 1\n");
    has(text, "\nalula_driver_call_hung_seconds{call=\"nvmlDeviceGetPowerUsage\"} 7.5\n");
    al_snapshot_free(s);
    al_buf_free(&b);
}

static void findings_xids_and_reasons_have_labels(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_snapshot *s = snapshot();
    const struct al_finding findings[] = {
        {.rule = "memory", .key = "memory/GPU-1", .level = AL_LEVEL_CRITICAL, .gpu_index = 3, .gpu_uuid = "GPU-1"},
        {.rule = "host_memory", .key = "host_memory/77", .level = AL_LEVEL_INFO, .gpu_index = -1},
    };
    s->gpus[0].xid[0] = (struct al_xid){79, 2, 5};
    s->gpus[0].xid_count = 1;
    s->gpus[0].m[AL_GPU_THROTTLE] = al_value_ok(0x44, 1);
    s->gpus[0].info.status = AL_STATUS_LOST;
    const struct al_om_page p = {.s = s, .findings = findings, .finding_count = 2};
    const char *text = printed(&b, &p, "# HELP");
    has(text, "\nalula_finding_active{rule=\"memory\",severity=\"critical\",gpu=\"3\",uuid=\"GPU-1\",key=\"memory/GPU-1\"} 1\n");
    has(text, "\nalula_finding_active{rule=\"host_memory\",severity=\"info\",key=\"host_memory/77\"} 1\n");
    has(text, "\nalula_findings_open{severity=\"critical\"} 1\n");
    has(text, "\nalula_findings_open{severity=\"warning\"} 0\n");
    has(text, "\nalula_gpu_xid_code_errors_total{gpu=\"3\",uuid=\"GPU-1\",code=\"79\"} 2\n");
    has(text, "\nalula_gpu_clocks_event_reason{gpu=\"3\",uuid=\"GPU-1\",reason=\"sw_power_cap\"} 1\n");
    has(text, "\nalula_gpu_clocks_event_reason{gpu=\"3\",uuid=\"GPU-1\",reason=\"hw_thermal_slowdown\"} 1\n");
    has(text, "\nalula_gpu_clocks_event_reason{gpu=\"3\",uuid=\"GPU-1\",reason=\"hw_slowdown\"} 0\n");
    has(text, "\nalula_gpu_up{gpu=\"3\",uuid=\"GPU-1\"} 0\n");
    al_snapshot_free(s);
    al_buf_free(&b);
}

static void findings_are_bounded(void **state) {
    (void)state;
    static struct al_finding many[AL_OM_FINDINGS_MAX + 40];
    struct al_buf b = AL_BUF_INIT;
    struct al_snapshot *s = snapshot();
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        many[i] = (struct al_finding){.rule = "orphan", .level = AL_LEVEL_WARNING, .gpu_index = -1};
    const struct al_om_page p = {.s = s, .findings = many, .finding_count = sizeof many / sizeof *many};
    const char *text = printed(&b, &p, "# HELP");
    has(text, "\nalula_findings_open{severity=\"warning\"} 168\n");
    int series = 0;
    for (const char *at = text; (at = strstr(at, "\nalula_finding_active{")); at++)
        series++;
    assert_int_equal(series, AL_OM_FINDINGS_MAX);
    al_snapshot_free(s);
    al_buf_free(&b);
}

static void add_process(struct al_snapshot *s, pid_t pid, double bytes) {
    struct al_proc *p = al_snapshot_add_proc(s);
    struct al_proc_gpu *r = al_snapshot_add_row(s);
    assert_true(p && r);
    p->pid = pid;
    p->alive = true;
    p->rank = -1;
    p->job = pid;
    (void)strcpy(p->comm, "python");
    (void)strcpy(p->command, "python train.py --password=x");
    (void)strcpy(p->user, "alice");
    p->m[AL_PROC_CPU] = al_value_ok(1.5, 1);
    r->pid = pid;
    r->memory_bytes = al_value_ok(bytes, 1);
    r->sm_ratio = al_value_ok(0.25, 1);
}

static void processes_are_capped_and_the_rest_summed(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_snapshot *s = snapshot();
    add_process(s, 30, 1e9);
    add_process(s, 10, 5e9);
    add_process(s, 20, 3e9);
    add_process(s, 40, 2e9);
    struct al_proc_gpu *again = al_snapshot_add_row(s); // the same memory in the graphics list
    *again = (struct al_proc_gpu){.pid = 40, .memory_bytes = al_value_ok(2e9, 1)};
    al_snapshot_sort(s);
    struct al_om_page p = {.s = s, .max_processes = 2};
    has_not(printed(&b, &p, "# HELP"), "alula_process_"); // nobody came with credentials
    p.processes = true;
    const char *text = printed(&b, &p, "# HELP");
    has(text, "\nalula_process_gpu_memory_bytes{gpu=\"3\",uuid=\"GPU-1\",pid=\"10\"} 5000000000\n"
              "alula_process_gpu_memory_bytes{gpu=\"3\",uuid=\"GPU-1\",pid=\"20\"} 3000000000\n"
              "alula_process_gpu_memory_bytes{gpu=\"3\",uuid=\"GPU-1\",pid=\"other\"} 3000000000\n#");
    has(text, "\nalula_process_gpu_sm_ratio{gpu=\"3\",uuid=\"GPU-1\",pid=\"other\"} 0.5\n");
    has(text, "\nalula_process_cpu_ratio{pid=\"10\"} 1.5\n");
    has(text, "\nalula_process_info{pid=\"10\",name=\"python\",user=\"alice\",role=\"unknown\",job=\"10\",container=\"\","
              "pod=\"\",slurm_job=\"\"} 1\n");
    has(text, "\nalula_processes_summed 2\n");
    has_not(text, "pid=\"30\"");
    has_not(text, "train.py");
    p.max_processes = 0;
    has_not(printed(&b, &p, "# HELP"), "pid=\"10\"");
    al_snapshot_free(s);
    al_buf_free(&b);
}

static const char *xid_text(uint32_t code) {
    return code == 79 ? "the GPU fell off the bus" : "";
}

static void dcgm_names_are_exact(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_snapshot *s = snapshot();
    struct al_gpu *g = &s->gpus[0];
    (void)strcpy(g->info.name, "NVIDIA H200");
    g->m[AL_GPU_UTIL] = al_value_ok(0.29, 1);
    g->m[AL_GPU_CLOCK_SM] = al_value_ok(1980e6, 1);
    g->m[AL_GPU_POWER] = al_value_ok(655.25, 1);
    g->m[AL_GPU_ENERGY] = al_value_ok(1234.567, 1);
    g->m[AL_GPU_MEM_USED] = al_value_ok(70.0 * 1073741824, 1);
    g->m[AL_GPU_GPM_TENSOR] = al_value_ok(0.4, 1);
    g->m[AL_GPU_XID_ERRORS] = al_value_ok(1, 1);
    g->xid[0] = (struct al_xid){79, 1, 5};
    g->xid_count = 1;
    struct al_gpu *mig = al_snapshot_add_gpu(s);
    assert_non_null(mig);
    g = &s->gpus[0];
    mig->info = (struct al_gpu_info){.uuid = "MIG-9", .name = "NVIDIA H200 MIG 1g.18gb", .is_mig = true, .parent = 0, .gpu_instance = 7,
                                     .mig_profile = "1g.18gb"};
    mig->m[AL_GPU_MEM_USED] = al_value_ok(1048576, 1);
    struct al_om_page p = {.s = s, .dcgm = true, .xid_text = xid_text};
#define LABELS                                                                                                         \
    "{gpu=\"3\",UUID=\"GPU-1\",pci_bus_id=\"00000000:83:00.0\",device=\"nvidia4\",modelName=\"NVIDIA H200\","
#define NODE "Hostname=\"node1\",DCGM_FI_DRIVER_VERSION=\"580.1\""
    const char *text = printed(&b, &p, "# HELP");
    has(text, "# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).\n# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"
              "DCGM_FI_DEV_SM_CLOCK" LABELS NODE "} 1980\n");
    has(text, "\nDCGM_FI_DEV_GPU_UTIL" LABELS NODE "} 29\n"); // 0.29 * 100 is not 28.999
    has(text, "\nDCGM_FI_DEV_POWER_USAGE" LABELS NODE "} 655.250000\n");
    has(text, "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" LABELS NODE "} 1234567\n");
    has(text, "\nDCGM_FI_DEV_FB_USED" LABELS NODE "} 71680\n");
    has(text, "\nDCGM_FI_DEV_FB_USED" LABELS "GPU_I_PROFILE=\"1g.18gb\",GPU_I_ID=\"7\"," NODE "} 1\n");
    has(text, "\nDCGM_FI_PROF_PIPE_TENSOR_ACTIVE" LABELS NODE "} 0.400000\n");
    has(text, "\nDCGM_FI_DEV_XID_ERRORS" LABELS NODE ",err_code=\"79\",err_msg=\"the GPU fell off the bus\"} 79\n");
    has_not(text, "DCGM_FI_DEV_GPU_TEMP"); // not read: no series
    p.openmetrics = true;
    has(printed(&b, &p, "# HELP"), "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION unknown\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{");
    p.dcgm = false;
    has_not(printed(&b, &p, "# HELP"), "DCGM");
    al_snapshot_free(s);
    al_buf_free(&b);
}

static void labels_are_escaped(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    al_om_escape(&b, "a\"b\\c\nd\te\x1b[2J\xff\xc3\xa9");
    assert_string_equal(b.data, "a\\\"b\\\\c\\nd?e?[2J\xef\xbf\xbd\xc3\xa9");
    al_buf_free(&b);
}

static void ranks_have_series_for_those_who_may_see_processes(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_snapshot *s = snapshot();
    for (int i = 0; i < 3; i++) {
        struct al_rank *r = al_snapshot_add_rank(s);
        assert_non_null(r);
        r->pid = 100 + i;
        r->job = 90;
        r->rank = i < 2 ? i : -1;
        r->world = 2;
        (void)strcpy(r->source, "torch.optim hook");
        r->m[AL_RANK_TRAINING] = al_value_ok(i != 1, 1);
        r->m[AL_RANK_PHASE] = al_value_ok(AL_IN_SAVE, 1);
        r->m[AL_RANK_STEP] = al_value_ok(12 + i, 1);
        r->m[AL_RANK_SHARE_DATA] = al_value_ok(0.25, 1);
        r->m[AL_RANK_ALLOCATED] = (struct al_value){5e9, 1, AL_STATUS_STALE};
    }
    struct al_om_page p = {.s = s, .max_processes = 2};
    al_openmetrics_print(&b, &p);
    has_not(b.data, "alula_rank");
    p.processes = true;
    const char *page = printed(&b, &p, "# HELP alula_rank_info");
    has(page, "alula_rank_info{rank=\"0\",pid=\"100\",job=\"90\",world_size=\"2\",source=\"torch.optim hook\"} 1\n");
    has(page, "alula_rank_phase{rank=\"0\",pid=\"100\",phase=\"save\"} 1\n");
    has(page, "alula_rank_phase{rank=\"0\",pid=\"100\",phase=\"data\"} 0\n");
    has(page, "alula_rank_phase{rank=\"1\",pid=\"101\",phase=\"save\"} 0\n"); // it has not begun
    has(page, "# TYPE alula_rank_step_total counter\nalula_rank_step_total{rank=\"0\",pid=\"100\"} 12\n");
    has(page, "alula_rank_data_ratio{rank=\"1\",pid=\"101\"} 0.25\n");
    has(page, "alula_ranks 3\n");
    has_not(page, "pid=\"102\"");
    has_not(page, "alula_rank_allocated_bytes");
    p.max_processes = 9;
    has(printed(&b, &p, "# HELP alula_rank_info"), "alula_rank_step_total{rank=\"\",pid=\"102\"} 14\n");
    al_buf_free(&b);
    al_snapshot_free(s);
}

int al_test_openmetrics(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_exact),
        cmocka_unit_test(without_a_fresh_sample_health_alone_is_told),
        cmocka_unit_test(a_hang_names_its_call),
        cmocka_unit_test(findings_xids_and_reasons_have_labels),
        cmocka_unit_test(findings_are_bounded),
        cmocka_unit_test(processes_are_capped_and_the_rest_summed),
        cmocka_unit_test(dcgm_names_are_exact),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(ranks_have_series_for_those_who_may_see_processes),
    };
    return cmocka_run_group_tests_name("openmetrics", tests, NULL, NULL);
}
