// SPDX-License-Identifier: Apache-2.0
// Against what gpustat printed for the same scene: tests/golden/gpustat-1.1.1/README.md.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/fs.h"
#include "export/gpustat.h"
#include "suites.h"

#define MIB 1048576.0
#define NONE (-1.0)

static void set(struct al_gpu *gpu, enum al_gpu_metric metric, double value) {
    gpu->m[metric] = value < 0 ? al_value_none(AL_STATUS_UNSUPPORTED) : al_value_ok(value, 1);
}

struct scene_gpu {
    const char *name;
    double temp, fan, used, total, util, enc, dec, power, limit;
    enum al_status processes;
};

static void add_gpu(struct al_snapshot *s, const struct scene_gpu *g) {
    struct al_gpu *gpu = al_snapshot_add_gpu(s);
    assert_non_null(gpu);
    uint32_t i = s->gpu_count - 1;
    gpu->info.index = i;
    gpu->process_status = g->processes;
    (void)snprintf(gpu->info.uuid, sizeof gpu->info.uuid, "GPU-%08u-aaaa-bbbb-cccc-dddddddddddd", i);
    (void)snprintf(gpu->info.name, sizeof gpu->info.name, "%s", g->name ? g->name : "");
    gpu->info.status = g->name ? AL_STATUS_OK : AL_STATUS_LOST;
    const enum al_gpu_metric metrics[] = {AL_GPU_TEMP, AL_GPU_FAN, AL_GPU_MEM_USED, AL_GPU_MEM_TOTAL, AL_GPU_UTIL,
                                          AL_GPU_ENC_UTIL, AL_GPU_DEC_UTIL, AL_GPU_POWER, AL_GPU_POWER_ENFORCED};
    const double values[] = {g->temp, g->fan, g->used, g->total, g->util, g->enc, g->dec, g->power, g->limit};
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++)
        set(gpu, metrics[m], values[m]);
}

static void add_row(struct al_snapshot *s, uint32_t gpu, pid_t pid, double bytes) {
    struct al_proc_gpu *row = al_snapshot_add_row(s);
    assert_non_null(row);
    row->gpu = gpu;
    row->pid = pid;
    row->type = AL_PROC_COMPUTE;
    row->memory_bytes = bytes < 0 ? al_value_none(AL_STATUS_UNSUPPORTED) : al_value_ok(bytes, 1);
}

static void add_proc(struct al_snapshot *s, pid_t pid, const char *user, const char *command, double cpu, double rss) {
    struct al_proc *proc = al_snapshot_add_proc(s);
    assert_non_null(proc);
    proc->pid = pid;
    proc->alive = true;
    proc->state = 'R';
    (void)snprintf(proc->user, sizeof proc->user, "%s", user);
    (void)snprintf(proc->command, sizeof proc->command, "%s", command);
    proc->m[AL_PROC_CPU] = al_value_ok(cpu, 1);
    proc->m[AL_PROC_RSS] = al_value_ok(rss, 1);
}

static struct al_snapshot *new_snapshot(void) {
    struct al_snapshot *s = al_snapshot_new();
    assert_non_null(s);
    s->realtime_ns = 1741356309123456789; // 2025-03-07 14:05:09 UTC
    (void)snprintf(s->node.hostname, sizeof s->node.hostname, "node7");
    (void)snprintf(s->node.driver_version, sizeof s->node.driver_version, "580.159.04");
    return s;
}

static struct al_snapshot *new_scene(void) {
    static const struct scene_gpu gpus[] = {
        {"NVIDIA H200", 34, NONE, 110797 * MIB - 1, 143771.5 * MIB, 0.97, 0, 0.67, 655.999, 700, AL_STATUS_OK},
        {"NVIDIA GeForce GTX TITAN X", 80, 0.29, 0, 12189 * MIB, 0.29, 0.50, 0.49, 125, 312.5, AL_STATUS_OK},
        {"NVIDIA Tesla P4", NONE, 0.30, NONE, NONE, NONE, NONE, NONE, NONE, NONE, AL_STATUS_UNSUPPORTED},
        {NULL, 1, 1, 1, 1, 1, 1, 1, 1, 1, AL_STATUS_LOST},
        {"NVIDIA H200", 50, 1, 100 * MIB, 143771 * MIB, 0.30, 1, 0, 100, NONE, AL_STATUS_OK},
    };
    struct al_snapshot *s = new_snapshot();
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++)
        add_gpu(s, &gpus[i]);
    add_row(s, 0, 4242, 1234 * MIB + 5);
    add_row(s, 0, 4242, 1234 * MIB); // compute and graphics
    add_row(s, 0, 4243, NONE);
    add_row(s, 4, 999999, 8 * MIB); // not in /proc
    add_proc(s, 4242, "alice", "/usr/bin/python3 train.py --name Zoë=\"q\"", 1.015, 1073741824);
    add_proc(s, 4243, "bob", "vllm serve", 0, 77);
    return s;
}

static const struct al_gpustat_options plain = {.name_width = -1};
static const struct al_gpustat_options all = {.name_width = -1, .show_cmd = true, .show_full_cmd = true,
    .show_user = true, .show_pid = true, .show_fan = true, .show_enc = true, .show_dec = true, .show_power = true,
    .show_power_limit = true};

static void check_golden(const struct al_buf *b, const char *file) {
    char path[512];
    char *expected = NULL;
    size_t len = 0;
    (void)snprintf(path, sizeof path, "%s/gpustat-1.1.1/%s", al_test_golden_dir, file);
    assert_int_equal(al_fs_slurp(path, 1 << 20, &expected, &len), 0);
    assert_false(b->failed);
    assert_string_equal(b->data, expected);
    free(expected);
}

static void check_text(struct al_snapshot *s, const struct al_gpustat_options *o, const char *file) {
    struct al_buf b = AL_BUF_INIT;
    al_gpustat_text(&b, s, o);
    check_golden(&b, file);
    al_buf_free(&b);
}

static void text_is_gpustats(void **state) {
    (void)state;
    struct al_snapshot *s = new_scene();
    check_text(s, &plain, "default.txt");
    check_text(s, &all, "all-full.txt");
    struct al_gpustat_options o = {.name_width = 12, .show_cmd = true, .show_full_cmd = true, .show_power = true,
                                   .no_header = true};
    check_text(s, &o, "cut-names.txt");
    o = plain;
    o.name_width = 0;
    check_text(s, &o, "no-names.txt");
    static const uint32_t chosen[] = {4, 0};
    o = (struct al_gpustat_options){.name_width = -1, .no_processes = true, .show_enc = true, .gpus = chosen,
                                    .gpu_count = 2};
    check_text(s, &o, "chosen.txt");
    al_snapshot_free(s);
}

static void colors_are_gpustats(void **state) {
    (void)state;
    struct al_snapshot *s = new_scene();
    struct al_gpustat_options o = all;
    o.color = AL_GPUSTAT_FORCED_COLOR;
    o.deep_colors = true;
    check_text(s, &o, "color.txt");
    o = (struct al_gpustat_options){.name_width = -1, .color = AL_GPUSTAT_FORCED_COLOR, .deep_colors = true,
        .show_power = true, .show_cmd = true, .show_pid = true, .no_header = true};
    check_text(s, &o, "color-draw.txt");
    al_snapshot_free(s);
}

static void json_is_gpustats(void **state) {
    (void)state;
    struct al_snapshot *s = new_scene();
    struct al_buf b = AL_BUF_INIT;
    al_gpustat_json(&b, s, &plain);
    check_golden(&b, "scene.json");
    al_buf_clear(&b);
    al_snapshot_clear(s);
    struct al_snapshot *none = new_snapshot();
    al_gpustat_json(&b, none, &plain);
    check_golden(&b, "none.json");
    check_text(none, &plain, "none.txt");
    al_buf_free(&b);
    al_snapshot_free(s);
    al_snapshot_free(none);
}

static void check(struct al_snapshot *s, const struct al_gpustat_options *o, const char *expected) {
    struct al_buf b = AL_BUF_INIT;
    al_gpustat_text(&b, s, o);
    assert_string_equal(b.data, expected);
    al_buf_free(&b);
}

static void roles_show_what_gpustat_leaves_out(void **state) {
    (void)state;
    struct al_snapshot *s = new_scene();
    s->procs[0].role = AL_ROLE_RANK;
    s->procs[0].rank = 3;
    s->procs[1].role = AL_ROLE_ENGINE;
    struct al_gpustat_options o = {.name_width = 0, .no_header = true, .show_cmd = true, .show_pid = true,
                                   .show_user = true, .roles = true};
    static const uint32_t chosen[] = {0, 4};
    o.gpus = chosen;
    o.gpu_count = 2;
    check(s, &o, "[0]  34°C,  97 % | 110796 / 143771 MB | alice:python3/4242(1234M rank3) bob:vllm/4243(?M engine)\n"
                 "[4]  50°C,  30 % |   100 / 143771 MB | --:?/999999(8M)\n");
    struct al_buf b = AL_BUF_INIT;
    al_gpustat_json(&b, s, &o);
    assert_non_null(strstr(b.data, "\"pid\": 4242,\n                    \"role\": \"rank\",\n"
                                   "                    \"rank\": 3\n"));
    assert_non_null(strstr(b.data, "\"pid\": 4243,\n                    \"role\": \"engine\",\n"
                                   "                    \"rank\": null\n"));
    al_buf_free(&b);
    al_snapshot_free(s);
}

static void processes_come_in_the_drivers_order(void **state) {
    (void)state;
    struct al_snapshot *s = new_scene();
    struct al_gpustat_options o = {.name_width = 0, .no_header = true, .no_processes = false};
    static const uint32_t chosen[] = {0};
    o.gpus = chosen;
    o.gpu_count = 1;
    s->rows[0].order = s->rows[1].order = 2;
    s->rows[2].order = 1;
    check(s, &o, "[0]  34°C,  97 % | 110796 / 143771 MB | bob(?M) alice(1234M)\n");
    al_snapshot_free(s);
}

static void others_text_cannot_steer_the_terminal(void **state) {
    (void)state;
    struct al_snapshot *s = new_snapshot();
    struct scene_gpu g = {"Evil\033[2J\nBoard °", 34, NONE, 0, MIB, 0, 0, 0, 1, 1, AL_STATUS_OK};
    add_gpu(s, &g);
    add_row(s, 0, 7, MIB);
    add_proc(s, 7, "al\nice", "a\033]0;x\007\xff one\ntwo", 0, 1);
    struct al_gpustat_options o = {.name_width = -1, .no_header = true, .show_cmd = true, .show_user = true,
                                   .show_full_cmd = true};
    check(s, &o, "[0] Evil?[2J?Board ° | 34°C,   0 % |     0 /     1 MB | al?ice:a?]0;x?\?(1M)\n"
                 " └─      7 (   0%,     1B): a?]0;x?? one?two\n");
    o.ascii = true;
    o.name_width = 9;
    check(s, &o, "[0] ...oard ? | 34'C,   0 % |     0 /     1 MB | al?ice:a?]0;x?\?(1M)\n"
                 " `-      7 (   0%,     1B): a?]0;x?? one?two\n");
    al_snapshot_free(s);
}

static void mig_devices_are_folded_or_shown(void **state) {
    (void)state;
    struct al_snapshot *s = new_snapshot();
    struct scene_gpu g = {"NVIDIA H200", 34, NONE, 0, MIB, NONE, 0, 0, 1, 1, AL_STATUS_OK};
    add_gpu(s, &g);
    g.name = "NVIDIA H200 MIG 1g.18gb";
    add_gpu(s, &g);
    add_gpu(s, &g);
    s->gpus[0].info.mig_enabled = true;
    for (int i = 1; i < 3; i++) {
        s->gpus[i].info.is_mig = true;
        s->gpus[i].info.parent = 0;
    }
    add_row(s, 0, 7, MIB);
    add_row(s, 2, 7, MIB);
    add_row(s, 2, 8, 2 * MIB);
    add_proc(s, 7, "a", "x", 0, 1);
    add_proc(s, 8, "b", "y", 0, 1);
    struct al_gpustat_options o = {.name_width = 0, .no_header = true};
    check(s, &o, "[0]  34°C,  ?? % |     0 /     1 MB | a(1M) b(2M)\n");
    o.mig = true;
    check(s, &o, "[0]  34°C,  ?? % |     0 /     1 MB | a(1M)\n"
                 "[0:0]  34°C,  ?? % |     0 /     1 MB |\n"
                 "[0:1]  34°C,  ?? % |     0 /     1 MB | a(1M) b(2M)\n");
    al_snapshot_free(s);
}

int al_test_gpustat(void) {
    (void)setenv("TZ", "UTC", 1);
    tzset();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_gpustats),
        cmocka_unit_test(colors_are_gpustats),
        cmocka_unit_test(json_is_gpustats),
        cmocka_unit_test(roles_show_what_gpustat_leaves_out),
        cmocka_unit_test(processes_come_in_the_drivers_order),
        cmocka_unit_test(others_text_cannot_steer_the_terminal),
        cmocka_unit_test(mig_devices_are_folded_or_shown),
    };
    return cmocka_run_group_tests_name("gpustat", tests, NULL, NULL);
}
