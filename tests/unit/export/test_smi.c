// SPDX-License-Identifier: Apache-2.0
// Against what nvidia-smi printed on an H200: tests/golden/nvidia-smi-580.159.04/README.md.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "export/smi.h"
#include "export/smi_fields.h"
#include "model/metric.h"
#include "suites.h"

#define MIB 1048576.0

static char *golden(const char *name, const char *suffix) {
    char path[512];
    char *text = NULL;
    size_t len = 0;
    (void)snprintf(path, sizeof path, "%s/nvidia-smi-580.159.04/%s.%s", al_test_golden_dir, name, suffix);
    assert_int_equal(al_fs_slurp(path, 1 << 20, &text, &len), 0);
    return text;
}

// What a view's attributes are read from.
static struct al_attr_value attrs[AL_ATTR_COUNT];

static int attr(void *user, uint32_t gpu, enum al_attr id, struct al_attr_value *ret) {
    (void)user;
    (void)gpu;
    *ret = attrs[id];
    return 0;
}

static void new_view(struct al_smi_view *view, struct al_snapshot *s) {
    memset(view, 0, sizeof *view);
    view->s = s;
    view->attr = attr;
    memset(attrs, 0, sizeof attrs);
}

static struct al_snapshot *one_gpu(struct al_smi_view *view) {
    struct al_snapshot *s = al_snapshot_new();
    assert_non_null(s);
    assert_non_null(al_snapshot_add_gpu(s));
    (void)snprintf(s->gpus[0].info.uuid, sizeof s->gpus[0].info.uuid, "GPU-a1b2c3d4-0000-1111-2222-333344445555");
    (void)snprintf(s->gpus[0].info.name, sizeof s->gpus[0].info.name, "NVIDIA H200");
    (void)snprintf(s->gpus[0].info.pci_bus_id, sizeof s->gpus[0].info.pci_bus_id, "00000000:00:06.0");
    s->gpus[0].info.parent = -1;
    s->gpus[0].info.status = AL_STATUS_OK;
    new_view(view, s);
    assert_int_equal(al_smi_select(view, NULL), 0);
    return s;
}

static const struct al_smi_field *field(const char *name) {
    for (size_t i = 0; al_smi_field_at(AL_SMI_GPU, i); i++)
        if (strcmp(al_smi_field_name(al_smi_field_at(AL_SMI_GPU, i)), name) == 0)
            return al_smi_field_at(AL_SMI_GPU, i);
    fail_msg("no field %s", name);
    return NULL;
}

// Names of a recorded help page in its order: lines that are "name" or "name" or "alias" and nothing else.
static void fields_are_the_documented_ones(enum al_smi_list list, const char *file, size_t expected) {
    char *text = golden(file, "out");
    size_t count = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char name[128], alias[128] = "", rest[8] = "";
        int parts = sscanf(line, "\"%127[^\"]\" or \"%127[^\"]\"%7s", name, alias, rest);
        if (parts != 2) {
            alias[0] = '\0';
            size_t len = strlen(line);
            if (sscanf(line, "\"%127[^\"]\"%7s", name, rest) != 1 || line[len - 1] != '"')
                continue;
        }
        const struct al_smi_field *f = al_smi_field_at(list, count++);
        assert_non_null(f);
        assert_string_equal(al_smi_field_name(f), name);
        struct al_smi_query q;
        char bad[64];
        assert_int_equal(al_smi_query_parse(list, name, &q, bad, sizeof bad), 0);
        assert_ptr_equal(q.field[0], f);
        if (alias[0] && strcmp(alias, name) != 0) {
            assert_string_equal(al_smi_field_alias(f), alias);
            assert_int_equal(al_smi_query_parse(list, alias, &q, bad, sizeof bad), 0);
            assert_ptr_equal(q.field[0], f);
        } else {
            assert_null(al_smi_field_alias(f));
        }
    }
    assert_int_equal(count, expected);
    assert_null(al_smi_field_at(list, count));
    free(text);
}

static void every_documented_field_is_known(void **state) {
    (void)state;
    fields_are_the_documented_ones(AL_SMI_GPU, "help-query-gpu", 214);
    fields_are_the_documented_ones(AL_SMI_APPS, "help-query-compute-apps", 8);
}

static void cell_text(const struct al_smi_field *f, const struct al_attr_value *v, bool units, char *out, size_t size) {
    struct al_buf b = AL_BUF_INIT;
    al_smi_cell(&b, f, v, units);
    assert_false(b.failed);
    (void)snprintf(out, size, "%s", b.data ? b.data : "");
    al_buf_free(&b);
}

static double scale_of(uint8_t style) {
    switch (style) {
    case AL_SMI_MIB: return MIB;
    case AL_SMI_PERCENT: return 0.01;
    case AL_SMI_MHZ: return 1e6;
    case AL_SMI_US: return 1e-6;
    case AL_SMI_MS: return 1e-3;
    default: return 1;
    }
}

// The value that prints as `text`: found by trying, so that nothing of the printer is repeated here.
static void value_of(const struct al_smi_field *f, const char *text, struct al_attr_value *ret) {
    char got[256];
    memset(ret, 0, sizeof *ret);
    for (uint32_t status = AL_STATUS_UNSUPPORTED; status < AL_STATUS_COUNT; status++) {
        ret->status = status;
        cell_text(f, ret, true, got, sizeof got);
        if (strcmp(got, text) == 0)
            return;
    }
    ret->status = AL_STATUS_OK;
    (void)al_str_copy(ret->text, sizeof ret->text, text);
    double candidates[12] = {strtod(text, NULL) * scale_of(f->style), (double)strtoull(text, NULL, 16),
                             strtod(text + (text[0] == 'P'), NULL)};
    for (int i = 0; i < 9; i++)
        candidates[3 + i] = i;
    for (size_t i = 0; i < 12; i++) {
        ret->num = candidates[i];
        cell_text(f, ret, true, got, sizeof got);
        if (strcmp(got, text) == 0)
            return;
    }
    fail_msg("nothing prints as \"%s\" in %s", text, f->name);
}

static void put(struct al_snapshot *s, const struct al_smi_field *f, const char *text) {
    struct al_attr_value v;
    if (f->source == AL_SMI_NONE || f->style == AL_SMI_REASON)
        return;
    value_of(f, text, &v);
    if (f->source == AL_SMI_METRIC)
        s->gpus[0].m[f->id] = (struct al_value){v.num, 1, v.status};
    else if (f->source == AL_SMI_ATTR || (f->source == AL_SMI_FABRIC && strcmp(text, "N/A") != 0))
        attrs[f->id] = v;
    else if (f->source == AL_SMI_FABRIC)
        attrs[f->id] = (struct al_attr_value){.status = AL_STATUS_OK};
    else if (strcmp(f->name, "compute_cap") == 0) {
        attrs[AL_ATTR_COMPUTE_CAP_MAJOR] = (struct al_attr_value){.status = AL_STATUS_OK, .num = strtod(text, NULL)};
        attrs[AL_ATTR_COMPUTE_CAP_MINOR] = (struct al_attr_value){.status = AL_STATUS_OK};
    } else if (strcmp(f->name, "driver_version") == 0)
        (void)snprintf(s->node.driver_version, sizeof s->node.driver_version, "%s", text);
}

static int64_t time_of(const char *text) {
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y/%m/%d %H:%M:%S", &tm);
    assert_non_null(rest);
    return (int64_t)timegm(&tm) * 1000000000 + atoi(rest + 1) * 1000000LL;
}

// A recorded row becomes a snapshot; that snapshot must print the row again, whole and without header or units.
static void check_recorded(const char *name) {
    char file[128], bad[64];
    struct al_smi_view view;
    struct al_snapshot *s = one_gpu(&view);
    (void)snprintf(file, sizeof file, "%s-csv", name);
    char *cmd = golden(file, "cmd"), *text = golden(file, "out");
    char *fields = strstr(cmd, "--query-gpu=") + strlen("--query-gpu=");
    fields[strcspn(fields, " \n")] = '\0';
    struct al_smi_query q;
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, fields, &q, bad, sizeof bad), 0);
    char *copy = strdup(text), *row = strchr(copy, '\n') + 1;
    row[strcspn(row, "\n")] = '\0';
    for (size_t i = 0; i < q.count; i++) {
        char *end = strstr(row, ", ");
        if (end)
            *end = '\0';
        if (strcmp(q.field[i]->name, "timestamp") == 0)
            s->realtime_ns = time_of(row);
        put(s, q.field[i], row);
        row = end ? end + 2 : NULL;
    }
    assert_null(row);
    free(copy);
    struct al_buf b = AL_BUF_INIT;
    assert_int_equal(al_smi_query_format(&q, "csv"), 0);
    al_smi_query_header(&b, &q);
    al_smi_query_rows(&b, &q, &view);
    assert_false(b.failed);
    assert_string_equal(b.data, text);
    al_buf_free(&b);
    free(cmd);
    free(text);
    al_snapshot_free(s);
}

static void recorded_rows_print_again(void **state) {
    (void)state;
    static const char *const names[] = {"all", "aliases", "common", "exporter", "s143", "s74"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "idle-query-gpu-%s", names[i]);
        check_recorded(name);
        (void)snprintf(name, sizeof name, "load-query-gpu-%s", names[i]);
        check_recorded(name);
    }
}

static void check_cell(const char *name, double num, bool units, const char *expected) {
    char got[256];
    struct al_attr_value v = {.status = AL_STATUS_OK, .num = num};
    cell_text(field(name), &v, units, got, sizeof got);
    assert_string_equal(got, expected);
}

static void values_print_in_their_style(void **state) {
    (void)state;
    check_cell("memory.used", 0, true, "0 MiB");
    check_cell("memory.used", 1, true, "1 MiB"); // rounded up
    check_cell("memory.used", 110795 * MIB + 1, false, "110796");
    check_cell("utilization.gpu", 0.29, true, "29 %"); // 0.29 * 100 is a little less than 29
    check_cell("utilization.gpu", 1, false, "100");
    check_cell("fan.speed", 1.05, true, "105 %");
    // As nvidia-smi printed these milliwatts: single precision.
    check_cell("power.draw", 77.715, true, "77.71 W");
    check_cell("power.draw", 77.725, true, "77.72 W");
    check_cell("power.draw", 77.705, true, "77.71 W");
    check_cell("power.draw", 1.005, true, "1.00 W");
    check_cell("power.draw", 1.015, true, "1.01 W");
    check_cell("power.draw", 655.645, true, "655.65 W");
    check_cell("power.draw", 655.655, true, "655.66 W");
    check_cell("power.draw", 99.999, true, "100.00 W");
    check_cell("power.limit", 700, false, "700.00");
    check_cell("clocks.current.sm", 1980e6, true, "1980 MHz");
    check_cell("clocks_event_reasons_counters.sw_power_cap", 4.958047, true, "4958047 us");
    check_cell("temperature.gpu.tlimit", -8, true, "-8");
    check_cell("ecc.errors.corrected.volatile.total", 4294967296.0, true, "4294967296");
    check_cell("pci.domain", 0x1a, true, "0x001A");
    check_cell("pci.bus", 0x83, true, "0x83");
    check_cell("pci.baseClass", 3, true, "0x3");
    check_cell("pci.device_id", 0x233510DE, true, "0x233510DE");
    check_cell("clocks_event_reasons.active", 0x184, true, "0x0000000000000184");
    check_cell("clocks_event_reasons.hw_power_brake_slowdown", 0x184, true, "Active");
    check_cell("clocks_event_reasons.sw_power_cap", 0x184, true, "Active");
    check_cell("clocks_event_reasons.hw_slowdown", 0x184, true, "Not Active");
    check_cell("clocks_event_reasons.gpu_idle", 1, true, "Active");
    check_cell("clocks_event_reasons.applications_clocks_setting", 2, true, "Active");
    check_cell("clocks_event_reasons.sync_boost", 0x10, true, "Active");
    check_cell("clocks_event_reasons.sw_thermal_slowdown", 0x20, true, "Active");
    check_cell("clocks_event_reasons.hw_thermal_slowdown", 0x40, true, "Active");
    check_cell("pstate", 12, true, "P12");
    check_cell("persistence_mode", 0, true, "Disabled");
    check_cell("mig.mode.current", 1, true, "Enabled");
    check_cell("remapped_rows.pending", 1, true, "Yes");
    check_cell("compute_mode", 1, true, "Exclusive_Thread");
    check_cell("compute_mode", 2, true, "Prohibited");
    check_cell("compute_mode", 3, true, "Exclusive_Process");
    check_cell("compute_mode", 9, true, "9"); // a state of a newer driver
    check_cell("gpu_recovery_action", 1, true, "GPU Reset");
    check_cell("gpu_recovery_action", 4, true, "Drain and Reset");
    check_cell("addressing_mode", 1, true, "HMM");
    check_cell("fabric.state", 3, true, "Completed");
    check_cell("fabric.status", 0, true, "Success");
    check_cell("fabric.health.summary", 1, true, "Healthy");
    check_cell("fabric.health.bandwidth", 2, true, "Full");
    check_cell("fabric.health.route_unhealthy", 1 << 4, true, "True");
    check_cell("fabric.health.partition_assigned", 2 << 12, true, "False");
    check_cell("fabric.health.incorrect_configuration", 1 << 8, true, "None");
}

static void missing_values_say_why(void **state) {
    (void)state;
    static const struct {
        uint32_t status;
        const char *word;
    } words[] = {
        {AL_STATUS_UNREAD, "[N/A]"},
        {AL_STATUS_UNSUPPORTED, "[N/A]"},
        {AL_STATUS_STALE, "[N/A]"},
        {AL_STATUS_DENIED, "[Insufficient Permissions]"},
        {AL_STATUS_LOST, "[GPU is lost]"},
        {AL_STATUS_RESET, "[GPU requires reset]"},
        {AL_STATUS_MISSING, "[Function Not Found]"},
        {AL_STATUS_DEPRECATED, "[Requested functionality has been deprecated]"},
        {AL_STATUS_TIMEOUT, "[Timeout]"},
        {AL_STATUS_ERROR, "[Unknown Error]"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char got[128];
        struct al_attr_value v = {.status = words[i].status, .num = 7};
        cell_text(field("memory.used"), &v, true, got, sizeof got);
        assert_string_equal(got, words[i].word);
    }
    char got[128];
    struct al_attr_value nan = {.status = AL_STATUS_OK, .num = 0.0 / 0.0};
    cell_text(field("power.draw"), &nan, true, got, sizeof got);
    assert_string_equal(got, "[Unknown Error]");
}

static void queries_cost_what_they_ask(void **state) {
    (void)state;
    struct al_smi_query q;
    char bad[32];
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, "memory.used", &q, bad, sizeof bad), 0);
    assert_int_equal(q.groups, AL_GROUP_FAST);
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, "name,uuid,index", &q, bad, sizeof bad), 0);
    assert_int_equal(q.groups, 0);
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, "pcie.link.gen.current,power.limit", &q, bad, sizeof bad), 0);
    assert_int_equal(q.groups, AL_GROUP_LINK | AL_GROUP_SLOW);
    assert_int_equal(al_smi_query_parse(AL_SMI_APPS, "pid", &q, bad, sizeof bad), 0);
    assert_int_equal(q.groups, AL_GROUP_PROCESS);
}

static void lists_are_read_as_nvidia_smi_reads_them(void **state) {
    (void)state;
    struct al_smi_query q;
    char bad[8];
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, ",index,,name,", &q, bad, sizeof bad), 0);
    assert_int_equal(q.count, 2);
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, "", &q, bad, sizeof bad), 0);
    assert_int_equal(q.count, 0);
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, "index,INDEX", &q, bad, sizeof bad), AL_E_NOENT);
    assert_string_equal(bad, "INDEX");
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, "index, name", &q, bad, sizeof bad), AL_E_NOENT);
    assert_string_equal(bad, " name");
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, "indexx", &q, bad, sizeof bad), AL_E_NOENT);
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, "pid", &q, bad, sizeof bad), AL_E_NOENT);
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, "a_name_longer_than_the_array", &q, bad, sizeof bad), AL_E_NOENT);
    assert_string_equal(bad, "a_name_");
    assert_int_equal(al_smi_query_format(&q, NULL), 0);
    assert_true(q.header && q.units);
    assert_int_equal(al_smi_query_format(&q, "noheader,csv"), 0);
    assert_true(!q.header && q.units);
    assert_int_equal(al_smi_query_format(&q, "csv,nounits"), 0);
    assert_true(q.header && !q.units);
    assert_int_equal(al_smi_query_format(&q, "csv,nounit"), AL_E_INVALID);
    assert_int_equal(al_smi_query_format(&q, "csv, noheader"), AL_E_INVALID);
    assert_int_equal(al_smi_query_format(&q, "CSV"), AL_E_INVALID);
    char *many = malloc(AL_SMI_FIELDS_MAX * 6 + 7);
    assert_non_null(many);
    for (size_t i = 0; i <= AL_SMI_FIELDS_MAX; i++)
        (void)strcpy(many + i * 6, "index,");
    assert_int_equal(al_smi_query_parse(AL_SMI_GPU, many, &q, bad, sizeof bad), AL_E_TOOBIG);
    free(many);
}

static void check_select(struct al_smi_view *view, const char *list, uint32_t count, uint32_t first, uint32_t last) {
    assert_int_equal(al_smi_select(view, list), count > 0 ? 0 : AL_E_NOENT);
    assert_int_equal(view->gpu_count, count);
    if (count > 0) {
        assert_int_equal(view->gpu[0], first);
        assert_int_equal(view->gpu[count - 1], last);
    }
}

static void gpus_are_chosen_by_any_name(void **state) {
    (void)state;
    struct al_smi_view view;
    struct al_snapshot *s = one_gpu(&view);
    assert_non_null(al_snapshot_add_gpu(s));
    assert_non_null(al_snapshot_add_gpu(s));
    s->gpus[1].info = (struct al_gpu_info){.uuid = "MIG-1", .name = "m", .is_mig = true, .parent = 0, .index = 7};
    s->gpus[2].info = (struct al_gpu_info){.uuid = "GPU-2", .name = "b", .index = 1, .pci_bus_id = "00000000:83:00.0",
                                           .serial = "1650000000000", .parent = -1};
    check_select(&view, NULL, 2, 0, 2);
    check_select(&view, "1,0", 2, 0, 2);
    check_select(&view, "7,1", 1, 2, 2);
    check_select(&view, "0, 0", 1, 0, 0);
    check_select(&view, "7", 0, 0, 0);
    check_select(&view, "GPU-2", 1, 2, 2);
    check_select(&view, "GPU-", 0, 0, 0);
    check_select(&view, "00000000:83:00.0", 1, 2, 2);
    check_select(&view, "0000:83:00.0", 1, 2, 2);
    check_select(&view, "83:00.0", 1, 2, 2);
    check_select(&view, "1650000000000", 1, 2, 2);
    check_select(&view, "", 0, 0, 0);
    al_snapshot_free(s);
}

static void add_process(struct al_snapshot *s, uint32_t gpu, pid_t pid, uint32_t type, double bytes, const char *name) {
    struct al_proc_gpu *row = al_snapshot_add_row(s);
    assert_non_null(row);
    row->gpu = gpu;
    row->pid = pid;
    row->type = type;
    row->memory_bytes = bytes < 0 ? al_value_none(AL_STATUS_UNSUPPORTED) : al_value_ok(bytes, 1);
    (void)snprintf(row->driver_name, sizeof row->driver_name, "%s", name);
}

static void processes_that_compute_are_rows(void **state) {
    (void)state;
    struct al_smi_view view;
    struct al_snapshot *s = one_gpu(&view);
    assert_non_null(al_snapshot_add_gpu(s));
    s->gpus[1].info = (struct al_gpu_info){.uuid = "MIG-1", .is_mig = true, .parent = 0};
    add_process(s, 0, 416, AL_PROC_COMPUTE, 20294 * MIB, "python3");
    add_process(s, 0, 500, AL_PROC_GRAPHICS, 5 * MIB, "/usr/lib/xorg/Xorg");
    add_process(s, 0, 3740, AL_PROC_COMPUTE | AL_PROC_GRAPHICS, 1542 * MIB, "/tmp/we ird, n\"x/py3");
    add_process(s, 0, 3741, AL_PROC_MPS, -1, "a\nb\033[2J");
    add_process(s, 1, 3742, AL_PROC_COMPUTE, 1, "");
    struct al_smi_query q;
    char bad[32];
    assert_int_equal(al_smi_query_parse(AL_SMI_APPS, "pid,name,used_memory,gpu_uuid", &q, bad, sizeof bad), 0);
    assert_int_equal(al_smi_query_format(&q, "csv"), 0);
    struct al_buf b = AL_BUF_INIT;
    al_smi_query_header(&b, &q);
    al_smi_query_rows(&b, &q, &view);
    assert_string_equal(b.data, "pid, process_name, used_gpu_memory [MiB], gpu_uuid\n"
                                "416, python3, 20294 MiB, GPU-a1b2c3d4-0000-1111-2222-333344445555\n"
                                "3740, /tmp/we ird? n\"x/py3, 1542 MiB, GPU-a1b2c3d4-0000-1111-2222-333344445555\n"
                                "3741, a?b?[2J, [N/A], GPU-a1b2c3d4-0000-1111-2222-333344445555\n"
                                "3742, [Not Found], 1 MiB, GPU-a1b2c3d4-0000-1111-2222-333344445555\n");
    al_buf_free(&b);
    al_snapshot_free(s);
}

static void list_shows_mig_devices_and_lost_gpus(void **state) {
    (void)state;
    struct al_smi_view view;
    struct al_snapshot *s = one_gpu(&view);
    assert_non_null(al_snapshot_add_gpu(s));
    s->gpus[1].info = (struct al_gpu_info){.uuid = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", .is_mig = true,
                                           .parent = 0, .mig_profile = "1g.18gb"};
    struct al_buf b = AL_BUF_INIT;
    assert_int_equal(al_smi_list_gpus(&b, &view), 0);
    assert_string_equal(b.data, "GPU 0: NVIDIA H200 (UUID: GPU-a1b2c3d4-0000-1111-2222-333344445555)\n"
                                "  MIG 1g.18gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n");
    al_buf_clear(&b);
    s->gpus[0].info.status = AL_STATUS_LOST;
    assert_int_equal(al_smi_list_gpus(&b, &view), AL_E_LOST);
    char *expected = golden("fault-handle-15-L", "out");
    assert_string_equal(b.data, expected);
    free(expected);
    al_buf_free(&b);
    al_snapshot_free(s);
}

static int in_utc(void **state) {
    (void)state;
    return setenv("TZ", "UTC", 1);
}

int al_test_smi(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_documented_field_is_known),
        cmocka_unit_test(recorded_rows_print_again),
        cmocka_unit_test(values_print_in_their_style),
        cmocka_unit_test(missing_values_say_why),
        cmocka_unit_test(queries_cost_what_they_ask),
        cmocka_unit_test(lists_are_read_as_nvidia_smi_reads_them),
        cmocka_unit_test(gpus_are_chosen_by_any_name),
        cmocka_unit_test(processes_that_compute_are_rows),
        cmocka_unit_test(list_shows_mig_devices_and_lost_gpus),
    };
    return cmocka_run_group_tests_name("smi", tests, in_utc, NULL);
}
