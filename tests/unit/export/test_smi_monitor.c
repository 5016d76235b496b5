// SPDX-License-Identifier: Apache-2.0
// dmon and pmon against what nvidia-smi printed on an H200.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "export/smi_monitor.h"
#include "suites.h"

#define MIB 1048576.0

static struct al_attr_value protected_memory;

static int attr(void *user, uint32_t gpu, enum al_attr id, struct al_attr_value *ret) {
    (void)user;
    (void)gpu;
    (void)id;
    *ret = protected_memory;
    return 0;
}

static void add_process(struct al_snapshot *s, pid_t pid, double sm, double mib, const char *name) {
    struct al_proc_gpu *row = al_snapshot_add_row(s);
    assert_non_null(row);
    row->pid = pid;
    row->type = AL_PROC_COMPUTE;
    row->memory_bytes = al_value_ok(mib * MIB, 1);
    row->sm_ratio = sm < 0 ? al_value_none(AL_STATUS_UNREAD) : al_value_ok(sm, 1);
    row->memory_ratio = sm < 0 ? al_value_none(AL_STATUS_UNREAD) : al_value_ok(0.24, 1);
    row->encoder_ratio = row->decoder_ratio = sm < 0 ? al_value_none(AL_STATUS_UNREAD) : al_value_ok(0, 1);
    (void)snprintf(row->driver_name, sizeof row->driver_name, "%s", name);
}

// The state of the recordings under load.
static struct al_snapshot *loaded(struct al_smi_view *view) {
    static const struct {
        enum al_gpu_metric id;
        double value;
    } values[] = {
        {AL_GPU_POWER, 692.998},        {AL_GPU_TEMP, 58},          {AL_GPU_TEMP_MEM, 49},
        {AL_GPU_UTIL, 1},               {AL_GPU_MEM_UTIL, 0.25},    {AL_GPU_ENC_UTIL, 0},
        {AL_GPU_DEC_UTIL, 0},           {AL_GPU_JPG_UTIL, 0},       {AL_GPU_OFA_UTIL, 0},
        {AL_GPU_CLOCK_MEM, 3201e6},     {AL_GPU_CLOCK_SM, 1455e6},  {AL_GPU_VIOL_POWER, 10},
        {AL_GPU_VIOL_THERMAL, 3},       {AL_GPU_BAR1_USED, 21852 * MIB}, {AL_GPU_ECC_COR_VOL_TOTAL, 0},
        {AL_GPU_ECC_UNC_VOL_TOTAL, 0},  {AL_GPU_PCIE_REPLAY, 1},    {AL_GPU_PCIE_RX, 52999e3},
        {AL_GPU_PCIE_TX, 64000e3},      {AL_GPU_MEM_USED, 21850.5 * MIB},
    };
    struct al_snapshot *s = al_snapshot_new();
    assert_non_null(s);
    assert_non_null(al_snapshot_add_gpu(s));
    s->gpus[0].info.parent = -1;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        s->gpus[0].m[values[i].id] = al_value_ok(values[i].value, 1);
    s->realtime_ns = 1795975740 * AL_NS_PER_S; // 2026-11-29 18:09:00 UTC
    add_process(s, 416, 0.99, 20294, "python3");
    add_process(s, 3740, -1, 1542, "/tmp/we ird, n\"x/py3");
    memset(view, 0, sizeof *view);
    view->s = s;
    view->attr = attr;
    protected_memory = (struct al_attr_value){.status = AL_STATUS_OK};
    assert_int_equal(al_smi_select(view, NULL), 0);
    return s;
}

// The violation counters are read again.
static void later(struct al_snapshot *s, int seconds) {
    s->gpus[0].m[AL_GPU_VIOL_POWER].at_ns += seconds * AL_NS_PER_S;
    s->gpus[0].m[AL_GPU_VIOL_THERMAL].at_ns += seconds * AL_NS_PER_S;
}

static void check_golden(const struct al_buf *b, const char *name) {
    char path[512];
    char *expected = NULL;
    size_t len = 0;
    (void)snprintf(path, sizeof path, "%s/nvidia-smi-580.159.04/%s.out", al_test_golden_dir, name);
    assert_int_equal(al_fs_slurp(path, 1 << 20, &expected, &len), 0);
    assert_false(b->failed);
    assert_string_equal(b->data, expected);
    free(expected);
}

static void dmon_prints_all_columns(void **state) {
    (void)state;
    struct al_smi_view view;
    struct al_snapshot *s = loaded(&view);
    struct al_smi_monitor m;
    struct al_buf b = AL_BUF_INIT;
    assert_int_equal(al_smi_monitor_init(&m, AL_SMI_DMON, "pucvmet"), 0);
    al_smi_monitor_header(&b, &m);
    al_smi_monitor_rows(&b, &m, &view);
    later(s, 1);
    s->gpus[0].m[AL_GPU_POWER].num = 690.9;
    s->gpus[0].m[AL_GPU_UTIL].num = 0.99;
    s->gpus[0].m[AL_GPU_MEM_UTIL].num = 0.24;
    s->gpus[0].m[AL_GPU_VIOL_POWER].num += 1.01; // a little more than the wall time: still 100 %
    s->gpus[0].m[AL_GPU_PCIE_RX].num = 29e6;
    s->gpus[0].m[AL_GPU_PCIE_TX].num = 32999e3; // cut off
    al_smi_monitor_rows(&b, &m, &view);
    check_golden(&b, "load-dmon-s-all-c2");
    al_buf_free(&b);
    al_snapshot_free(s);
}

static void violations_are_shares_of_the_interval(void **state) {
    (void)state;
    struct al_smi_view view;
    struct al_snapshot *s = loaded(&view);
    struct al_smi_monitor m;
    struct al_buf b = AL_BUF_INIT;
    assert_int_equal(al_smi_monitor_init(&m, AL_SMI_DMON, "v"), 0);
    al_smi_monitor_rows(&b, &m, &view);
    later(s, 2);
    s->gpus[0].m[AL_GPU_VIOL_POWER].num += 0.5;
    s->gpus[0].m[AL_GPU_VIOL_THERMAL].num += 0.001;
    al_smi_monitor_rows(&b, &m, &view);
    later(s, 1);
    s->gpus[0].m[AL_GPU_VIOL_POWER].status = AL_STATUS_UNSUPPORTED;
    al_smi_monitor_rows(&b, &m, &view);
    assert_string_equal(b.data, "    0      0      0 \n    0     25      1 \n    0      -      0 \n");
    al_buf_free(&b);
    al_snapshot_free(s);
}

// Numbers that nvidia-smi was made to show: what it rounds up (device memory) and what it cuts off (all else).
static void numbers_are_cut_as_nvidia_smi_cuts_them(void **state) {
    (void)state;
    struct al_smi_view view;
    struct al_snapshot *s = loaded(&view);
    struct al_smi_monitor m;
    char text[32];
    struct al_buf b = AL_BUF_INIT;
    s->gpus[0].m[AL_GPU_POWER].num = 99.999;
    s->gpus[0].m[AL_GPU_MEM_USED].num = 5 * MIB + 1;
    s->gpus[0].m[AL_GPU_BAR1_USED].num = 2 * MIB - 1;
    s->gpus[0].m[AL_GPU_PCIE_RX].num = 2999e3;
    s->gpus[0].m[AL_GPU_PCIE_TX].num = 5500e3;
    s->gpus[0].m[AL_GPU_GPM_SM] = al_value_ok(0.995, 1);
    s->gpus[0].m[AL_GPU_GPM_DRAM] = al_value_ok(0.29, 1);
    s->gpus[0].m[AL_GPU_GPM_PCIE_RX] = al_value_ok(12.7 * MIB, 1);
    protected_memory.num = 1500000;
    assert_int_equal(al_smi_monitor_init(&m, AL_SMI_DMON, "pmt"), 0);
    assert_int_equal(al_smi_monitor_gpm(&m, "2,10,21,30", text, sizeof text), 0);
    al_smi_monitor_rows(&b, &m, &view);
    assert_string_equal(b.data, "    0     99     58     49      6      1      1      2      5         99         29"
                                "         12          - \n");
    al_buf_free(&b);
    al_snapshot_free(s);
}

static void check_header(enum al_smi_monitor_kind kind, const char *select, const char *options, const char *format,
                         const char *gpm, const char *name, int lines) {
    struct al_smi_monitor m;
    char text[64];
    struct al_buf b = AL_BUF_INIT;
    assert_int_equal(al_smi_monitor_init(&m, kind, select), 0);
    assert_int_equal(al_smi_monitor_options(&m, options), 0);
    assert_int_equal(al_smi_monitor_format(&m, format, text, sizeof text), 0);
    assert_int_equal(al_smi_monitor_gpm(&m, gpm, text, sizeof text), 0);
    al_smi_monitor_header(&b, &m);
    char path[512];
    char *expected = NULL, *end;
    size_t len = 0;
    (void)snprintf(path, sizeof path, "%s/nvidia-smi-580.159.04/%s.out", al_test_golden_dir, name);
    assert_int_equal(al_fs_slurp(path, 1 << 20, &expected, &len), 0);
    for (end = expected; lines > 0; lines--)
        end = strchr(end, '\n') + 1;
    *end = '\0';
    assert_string_equal(b.data, expected);
    free(expected);
    al_buf_free(&b);
}

static void headers_are_nvidia_smis(void **state) {
    (void)state;
    check_header(AL_SMI_DMON, NULL, "", "", "", "idle-dmon-c3", 2);
    check_header(AL_SMI_DMON, NULL, "D", "", "", "idle-dmon-oD", 2);
    check_header(AL_SMI_DMON, NULL, "T", "", "", "idle-dmon-oT", 2);
    check_header(AL_SMI_DMON, NULL, "TD", "", "", "err-dmon-o-TD", 2);
    check_header(AL_SMI_DMON, "pucvmet", "DT", "", "", "idle-dmon-s-all-oDT", 2);
    check_header(AL_SMI_DMON, "tp", "", "", "", "err-dmon-s-tp", 2);
    check_header(AL_SMI_DMON, "pp", "", "", "", "err-dmon-s-dup", 2);
    check_header(AL_SMI_DMON, NULL, "", "csv", "", "idle-dmon-csv", 2);
    check_header(AL_SMI_DMON, NULL, "DT", "csv", "", "idle-dmon-csv-oDT", 2);
    check_header(AL_SMI_DMON, NULL, "", "csv,noheader", "", "idle-dmon-csv-noheader", 1);
    check_header(AL_SMI_DMON, NULL, "", "nounit,csv", "", "idle-dmon-csv-nounit", 1);
    check_header(AL_SMI_DMON, NULL, "", "", "1,2,3,4,5,6,7,8,9,10,11,12,13,20,21,60,61", "idle-dmon-gpm-all", 2);
    check_header(AL_SMI_DMON, NULL, "", "", "0", "err-dmon-gpm-0", 2);
    check_header(AL_SMI_DMON, "u", "", "csv", "2,10", "idle-dmon-gpm-s-u", 2);
    check_header(AL_SMI_PMON, NULL, "", "", "", "load-pmon-c2", 2);
    check_header(AL_SMI_PMON, NULL, "DT", "", "", "load-pmon-oDT", 2);
    check_header(AL_SMI_PMON, "m", "", "", "", "load-pmon-s-m", 2);
    check_header(AL_SMI_PMON, "um", "T", "", "", "load-pmon-s-um-oT", 2);
}

static void wrong_options_are_named(void **state) {
    (void)state;
    struct al_smi_monitor m;
    char text[64];
    assert_int_equal(al_smi_monitor_init(&m, AL_SMI_DMON, ""), AL_E_INVALID);
    assert_int_equal(al_smi_monitor_init(&m, AL_SMI_DMON, "pz"), AL_E_INVALID);
    assert_int_equal(al_smi_monitor_init(&m, AL_SMI_PMON, "p"), AL_E_INVALID);
    assert_int_equal(al_smi_monitor_init(&m, AL_SMI_DMON, "p"), 0);
    assert_int_equal(al_smi_monitor_options(&m, "DZ"), AL_E_INVALID);
    assert_int_equal(al_smi_monitor_format(&m, "csv,nounits", text, sizeof text), AL_E_INVALID);
    assert_string_equal(text, "nounits");
    assert_int_equal(al_smi_monitor_gpm(&m, "abc", text, sizeof text), AL_E_INVALID);
    assert_string_equal(text, "Found offending character: a");
    assert_int_equal(al_smi_monitor_gpm(&m, "999", text, sizeof text), AL_E_INVALID);
    assert_string_equal(text, "Metric value too high: 999");
    assert_int_equal(al_smi_monitor_gpm(&m, "4294967298", text, sizeof text), AL_E_INVALID);
    assert_int_equal(al_smi_monitor_gpm(&m, "209", text, sizeof text), 0);
    assert_string_equal(m.column[m.count - 1].title, "cs7actpt");
}

static void pmon_prints_a_line_a_process(void **state) {
    (void)state;
    struct al_smi_view view;
    struct al_snapshot *s = loaded(&view);
    struct al_smi_monitor m;
    struct al_buf b = AL_BUF_INIT;
    assert_int_equal(al_smi_monitor_init(&m, AL_SMI_PMON, "um"), 0);
    assert_int_equal(m.groups, AL_GROUP_PROCESS | AL_GROUP_PROCUTIL);
    assert_int_equal(al_smi_monitor_options(&m, "T"), 0);
    al_smi_monitor_header(&b, &m);
    al_smi_monitor_rows(&b, &m, &view);
    check_golden(&b, "load-pmon-s-um-oT");
    al_buf_clear(&b);
    s->row_count = 0;
    assert_int_equal(al_smi_monitor_init(&m, AL_SMI_PMON, "u"), 0);
    al_smi_monitor_header(&b, &m);
    al_smi_monitor_rows(&b, &m, &view);
    check_golden(&b, "idle-pmon-i0");
    al_buf_clear(&b);
    add_process(s, 880, -1, 1542, "VLLM::Engine, Core");
    add_process(s, 882, 0.05, 0, "a\nb");
    add_process(s, 884, 0, 0, "idle");
    s->rows[2].memory_ratio.num = 0;
    add_process(s, 885, 0.01, 0, "encoder");
    s->rows[3].memory_ratio.num = 0;
    s->rows[3].encoder_ratio.num = 0.3;
    s->rows[1].type = AL_PROC_COMPUTE | AL_PROC_GRAPHICS;
    al_smi_monitor_rows(&b, &m, &view);
    assert_string_equal(b.data,
                        "    0        880     C      -      -      -      -      -      -    VLLM::Engine, C\n"
                        "    0        882   C+G      5     24      -      -      -      -    a?b            \n"
                        "    0        884     C      -      -      -      -      -      -    idle           \n"
                        "    0        885     C      1      0     30      -      -      -    encoder        \n");
    al_buf_free(&b);
    al_snapshot_free(s);
}

int al_test_smi_monitor(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dmon_prints_all_columns),
        cmocka_unit_test(violations_are_shares_of_the_interval),
        cmocka_unit_test(numbers_are_cut_as_nvidia_smi_cuts_them),
        cmocka_unit_test(headers_are_nvidia_smis),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(pmon_prints_a_line_a_process),
    };
    return cmocka_run_group_tests_name("smi monitor", tests, NULL, NULL);
}
