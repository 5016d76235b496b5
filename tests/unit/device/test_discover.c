// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fake.h"

static void identity_is_read_once(void **state) {
    (void)state;
    fake_gpu(1, "GPU-bbbb");
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    for (int i = 0; i < 5; i++)
        fake_sample(n, s, AL_GROUP_FAST, 500);
    assert_int_equal(s->gpu_count, 2);
    assert_string_equal(s->gpus[1].info.uuid, "GPU-bbbb");
    assert_string_equal(s->gpus[1].info.pci_bus_id, "00000000:01:00.0");
    assert_string_equal(s->gpus[1].info.name, "Fake GPU");
    assert_int_equal(s->gpus[1].info.index, 1);
    assert_int_equal(s->gpus[1].info.parent, -1);
    assert_string_equal(s->node.driver_version, "580.159.04");
    assert_string_equal(s->node.cuda_version, "13.1");
    assert_string_equal(s->node.nvml_version, ""); // the fake lacks the function
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetName], 1);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void only_selected_gpus_are_asked(void **state) {
    struct al_attr_value v;
    struct al_device_error e = {""};
    (void)state;
    fake_gpu(1, "GPU-bbbb");
    struct al_nvml *n = fake_started("1");
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_FAST, 1);
    assert_int_equal(s->gpu_count, 1);
    assert_string_equal(s->gpus[0].info.uuid, "GPU-bbbb");
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetPowerUsage], 0);
    assert_int_equal(n->base.ops->attr(&n->base, 0, AL_ATTR_UUID, &v), 0);
    assert_string_equal(v.text, "GPU-bbbb");
    assert_int_equal(n->base.ops->attr(&n->base, 1, AL_ATTR_UUID, &v), AL_E_NOENT);
    al_device_free(&n->base);
    n = fake_backend();
    assert_int_equal(al_nvml_start(n, "GPU-zz", &e), AL_E_NOENT);
    assert_string_equal(e.message, "no GPU matches \"GPU-zz\"");
    al_snapshot_free(s);
    al_device_free(&n->base);
}

// Row 9: lost in mid-run, then back under another index. Its UUID keeps its identity.
static void a_gpu_is_lost_and_returns_elsewhere(void **state) {
    struct al_attr_value v;
    (void)state;
    struct nvml_device *a = fake.gpus[0], *b = fake_gpu(1, "GPU-bbbb");
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_ALL, 500);
    a->gone = true;
    fake_sample(n, s, AL_GROUP_ALL | AL_GROUP_PCIE, 500);
    assert_int_equal(s->gpu_count, 2);
    assert_string_equal(s->gpus[0].info.uuid, "GPU-aaaa");
    assert_int_equal(s->gpus[0].info.status, AL_STATUS_LOST);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        STATUS(s->gpus[0].m[m], LOST);
    assert_int_equal(s->gpus[0].process_status, AL_STATUS_LOST);
    assert_int_equal(s->gpus[1].info.status, AL_STATUS_OK);
    NUMBER(s->gpus[1].m[AL_GPU_UTIL], 0.42);
    assert_int_equal(n->base.ops->attr(&n->base, 0, AL_ATTR_UUID, &v), 0);
    assert_string_equal(v.text, "GPU-aaaa");
    assert_int_equal(n->base.ops->attr(&n->base, 0, AL_ATTR_ECC_MODE, &v), 0);
    assert_int_equal(v.status, AL_STATUS_LOST);

    int asked = a->calls[NVML_FN_nvmlDeviceGetPowerUsage];
    fake_sample(n, s, AL_GROUP_FAST, 500);
    assert_int_equal(a->calls[NVML_FN_nvmlDeviceGetPowerUsage], asked); // not hammered while it is lost

    // The driver drops it: the other one moves to index 0.
    fake.gpus[0] = b;
    fake.gpus[1] = NULL;
    fake.count = 1;
    fake_sample(n, s, AL_GROUP_FAST, 5000);
    assert_int_equal(s->gpu_count, 2);
    struct al_gpu *lost = al_snapshot_gpu(s, "GPU-aaaa"), *other = al_snapshot_gpu(s, "GPU-bbbb");
    assert_int_equal(lost->info.status, AL_STATUS_LOST);
    assert_int_equal(other->info.status, AL_STATUS_OK);
    assert_int_equal(other->info.index, 0);

    a->gone = false;
    a->util = 55;
    fake.gpus[1] = a;
    fake.count = 2;
    fake_sample(n, s, AL_GROUP_FAST, 60000);
    lost = al_snapshot_gpu(s, "GPU-aaaa");
    assert_int_equal(s->gpu_count, 2);
    assert_int_equal(lost->info.status, AL_STATUS_OK);
    assert_int_equal(lost->info.index, 1);
    NUMBER(lost->m[AL_GPU_UTIL], 0.55);
    assert_int_equal(fake.inits - fake.shutdowns, 1);
    al_snapshot_free(s);
    al_device_free(&n->base);
    assert_int_equal(fake.samples_alive, 0);
}

// Row 2: one call that answers "lost" is that cell's answer alone.
static void one_lost_answer_is_one_cell(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetPowerUsage] = AL_NVML_ERROR_GPU_IS_LOST;
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetPerformanceState] = AL_NVML_ERROR_NO_PERMISSION;
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetTemperature] = AL_NVML_ERROR_UNKNOWN;
    fake_sample(n, s, AL_GROUP_FAST, 1);
    STATUS(s->gpus[0].m[AL_GPU_POWER], LOST);
    STATUS(s->gpus[0].m[AL_GPU_PSTATE], DENIED);
    STATUS(s->gpus[0].m[AL_GPU_TEMP], ERROR);
    NUMBER(s->gpus[0].m[AL_GPU_UTIL], 0.42);
    assert_int_equal(s->gpus[0].info.status, AL_STATUS_OK);
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetPowerUsage] = AL_NVML_ERROR_RESET_REQUIRED;
    fake_sample(n, s, AL_GROUP_FAST, 500);
    STATUS(s->gpus[0].m[AL_GPU_POWER], RESET);
    assert_int_equal(s->gpus[0].info.status, AL_STATUS_RESET);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void a_restarted_driver_is_initialised_anew(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_FAST | AL_GROUP_XID | AL_GROUP_GPM, 500);
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetUtilizationRates] = AL_NVML_ERROR_UNINITIALIZED;
    fake_sample(n, s, AL_GROUP_FAST, 2000);
    assert_int_equal(fake.inits, 1);
    fake.init_result = AL_NVML_ERROR_DRIVER_NOT_LOADED; // reloading
    fake_sample(n, s, AL_GROUP_FAST, 500);
    assert_int_equal(fake.inits, 2);
    assert_int_equal(s->gpu_count, 1);
    assert_int_equal(s->gpus[0].info.status, AL_STATUS_LOST);
    assert_int_equal(fake.samples_alive, 0); // given back before the shutdown
    for (int i = 0; i < 20; i++)
        fake_sample(n, s, AL_GROUP_FAST, 500);
    assert_in_range(fake.inits, 3, 6); // 10 s with back-off, not one try a tick
    fake.init_result = 0;
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetUtilizationRates] = 0;
    fake_sample(n, s, AL_GROUP_FAST | AL_GROUP_XID, 30000);
    assert_int_equal(s->gpus[0].info.status, AL_STATUS_OK);
    NUMBER(s->gpus[0].m[AL_GPU_UTIL], 0.42);
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceRegisterEvents], 2);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void a_gpu_that_appears_is_added(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_FAST, 1);
    fake_gpu(1, "GPU-bbbb");
    fake_sample(n, s, AL_GROUP_FAST, 5000);
    assert_int_equal(s->gpu_count, 2);
    NUMBER(s->gpus[1].m[AL_GPU_UTIL], 0.42);
    fake.gpus[1]->result[NVML_FN_nvmlDeviceGetHandleByIndex_v2] = AL_NVML_ERROR_GPU_IS_LOST; // not even a handle
    fake_sample(n, s, AL_GROUP_FAST, 5000);
    assert_int_equal(s->gpu_count, 2);
    assert_string_equal(s->gpus[1].info.uuid, "GPU-bbbb");
    assert_int_equal(s->gpus[1].info.status, AL_STATUS_LOST);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void a_gpu_lost_from_the_start_has_a_row(void **state) {
    (void)state;
    struct nvml_device *b = fake_gpu(1, "GPU-bbbb");
    b->result[NVML_FN_nvmlDeviceGetHandleByIndex_v2] = AL_NVML_ERROR_GPU_IS_LOST;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_FAST, 1);
    assert_int_equal(s->gpu_count, 2);
    assert_string_equal(s->gpus[1].info.uuid, "");
    assert_int_equal(s->gpus[1].info.status, AL_STATUS_LOST);
    STATUS(s->gpus[1].m[AL_GPU_MEM_USED], LOST);
    b->result[NVML_FN_nvmlDeviceGetHandleByIndex_v2] = 0;
    fake_sample(n, s, AL_GROUP_FAST, 60000);
    assert_int_equal(s->gpu_count, 2);
    assert_string_equal(s->gpus[1].info.uuid, "GPU-bbbb");
    assert_string_equal(s->gpus[1].info.name, "Fake GPU");
    NUMBER(s->gpus[1].m[AL_GPU_MEM_USED], 300);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

// Row 11: sparse indices, instances destroyed and made anew while running.
static void mig_devices_come_and_go(void **state) {
    (void)state;
    fake_gpu(1, "GPU-bbbb");
    struct nvml_device *parent = fake.gpus[0], *first = fake_mig(parent, 1, "MIG-1", 7, 0),
                       *second = fake_mig(parent, 5, "MIG-5", 9, 1);
    (void)snprintf(second->name, sizeof second->name, "Fake GPU");
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    parent->result[NVML_FN_nvmlDeviceGetUtilizationRates] = AL_NVML_ERROR_NOT_SUPPORTED;
    fake_sample(n, s, AL_GROUP_FAST | AL_GROUP_GPM, 1);
    assert_int_equal(s->gpu_count, 4);
    assert_true(s->gpus[0].info.mig_enabled && !s->gpus[1].info.mig_enabled);
    assert_string_equal(s->gpus[1].info.uuid, "GPU-bbbb"); // all whole GPUs first
    const struct al_gpu *m = &s->gpus[2];
    assert_true(m->info.is_mig);
    assert_string_equal(m->info.uuid, "MIG-1");
    assert_string_equal(m->info.mig_profile, "7g.10gb");
    assert_int_equal(m->info.parent, 0);
    assert_int_equal(m->info.gpu_instance, 7);
    assert_int_equal(m->info.index, 1);
    assert_string_equal(s->gpus[3].info.mig_profile, "1c.2g.20gb"); // from its slices
    assert_int_equal(s->gpus[3].info.compute_instance, 1);
    STATUS(s->gpus[0].m[AL_GPU_UTIL], UNSUPPORTED);
    STATUS(m->m[AL_GPU_UTIL], UNSUPPORTED); // "invalid argument" from a MIG handle
    NUMBER(m->m[AL_GPU_MEM_USED], 50);
    STATUS(m->m[AL_GPU_GPM_SM], UNREAD);
    fake.gpus[0]->gpm_value = 25;
    fake_sample(n, s, AL_GROUP_GPM, 500);
    NUMBER(s->gpus[2].m[AL_GPU_GPM_SM], 0.25);
    assert_int_equal(fake.gpm_instance, 9);

    parent->children[1] = NULL; // destroyed; another instance takes its place with the same ids
    struct nvml_device *third = fake_mig(parent, 0, "MIG-0", 7, 0);
    fake_sample(n, s, AL_GROUP_FAST | AL_GROUP_GPM, 5000);
    assert_int_equal(s->gpu_count, 4);
    assert_string_equal(s->gpus[2].info.uuid, "MIG-0");
    assert_string_equal(s->gpus[3].info.uuid, "MIG-5");
    STATUS(s->gpus[2].m[AL_GPU_GPM_SM], UNREAD); // seeded anew: nothing of the old instance
    NUMBER(s->gpus[3].m[AL_GPU_GPM_SM], 0.25);
    (void)third;

    parent->gone = true;
    fake_sample(n, s, AL_GROUP_FAST, 500);
    fake_sample(n, s, AL_GROUP_FAST, 5000);
    assert_int_equal(s->gpu_count, 4); // its instances are lost with it, not gone
    assert_int_equal(s->gpus[0].info.status, AL_STATUS_LOST);
    assert_int_equal(s->gpus[3].info.status, AL_STATUS_LOST);
    assert_int_equal(s->gpus[3].info.parent, 0);
    al_snapshot_free(s);
    al_device_free(&n->base);
    free(first);
}

static void old_functions_serve_when_new_ones_lack(void **state) {
    (void)state;
    struct al_nvml *n = fake_backend();
    struct al_device_error e = {""};
    n->api.nvmlInit = n->api.nvmlInit_v2;
    n->api.nvmlDeviceGetCount = n->api.nvmlDeviceGetCount_v2;
    n->api.nvmlDeviceGetHandleByIndex = n->api.nvmlDeviceGetHandleByIndex_v2;
    n->api.nvmlInit_v2 = NULL;
    n->api.nvmlDeviceGetCount_v2 = NULL;
    n->api.nvmlDeviceGetHandleByIndex_v2 = NULL;
    n->api.nvmlDeviceGetMigMode = NULL;
    assert_int_equal(al_nvml_start(n, NULL, &e), 0);
    assert_int_equal(n->order_count, 1);
    al_device_free(&n->base);
}

const struct CMUnitTest discover_tests[] = {
    cmocka_unit_test_setup_teardown(identity_is_read_once, fake_setup, fake_teardown),
    cmocka_unit_test_setup_teardown(only_selected_gpus_are_asked, fake_setup, fake_teardown),
    cmocka_unit_test_setup_teardown(a_gpu_is_lost_and_returns_elsewhere, fake_setup, fake_teardown),
    cmocka_unit_test_setup_teardown(one_lost_answer_is_one_cell, fake_setup, fake_teardown),
    cmocka_unit_test_setup_teardown(a_restarted_driver_is_initialised_anew, fake_setup, fake_teardown),
    cmocka_unit_test_setup_teardown(a_gpu_that_appears_is_added, fake_setup, fake_teardown),
    cmocka_unit_test_setup_teardown(a_gpu_lost_from_the_start_has_a_row, fake_setup, fake_teardown),
    cmocka_unit_test_setup_teardown(mig_devices_come_and_go, fake_setup, fake_teardown),
    cmocka_unit_test_setup_teardown(old_functions_serve_when_new_ones_lack, fake_setup, fake_teardown),
};
const size_t discover_test_count = sizeof discover_tests / sizeof *discover_tests;
