// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fake.h"

#define US(ms_ago) ((unsigned long long)((FAKE_EPOCH_NS + fake.now_ns - FAKE_START_NS) / 1000 - (ms_ago) * 1000LL))

static void run(unsigned pid, unsigned long long bytes) {
    struct nvml_device *d = fake.gpus[0];
    d->compute[d->compute_count++] =
        (struct nvml_process_v2){pid, bytes, AL_NVML_NO_INSTANCE, AL_NVML_NO_INSTANCE};
}

static void use(unsigned pid, unsigned ms_ago, unsigned sm) {
    struct nvml_device *d = fake.gpus[0];
    d->utils[d->util_count++] = (struct nvml_process_util){US(ms_ago), pid, sm, 20, 3, 4, 5, 6};
}

static void rows_are_sorted_merged_and_named(void **state) {
    (void)state;
    run(300, 3000);
    run(100, AL_NVML_VALUE_NOT_AVAILABLE);
    run(0, 5);
    fake.gpus[0]->graphics[0] = (struct nvml_process_v2){300, 3000, AL_NVML_NO_INSTANCE, AL_NVML_NO_INSTANCE};
    fake.gpus[0]->graphics[1] = (struct nvml_process_v2){200, 7, AL_NVML_NO_INSTANCE, AL_NVML_NO_INSTANCE};
    fake.gpus[0]->graphics_count = 2;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_PROCESS, 1);
    assert_int_equal(s->gpus[0].process_status, AL_STATUS_OK);
    assert_int_equal(s->row_count, 3); // not the pid 0, not 300 twice
    assert_int_equal(s->rows[0].pid, 100);
    STATUS(s->rows[0].memory_bytes, UNSUPPORTED); // row 6: never 2^64 - 1
    assert_int_equal(s->rows[1].pid, 200);
    assert_int_equal(s->rows[1].type, AL_PROC_GRAPHICS);
    assert_int_equal(s->rows[2].type, AL_PROC_COMPUTE | AL_PROC_GRAPHICS);
    NUMBER(s->rows[2].memory_bytes, 3000);
    assert_int_equal(s->rows[2].gpu_instance, AL_NVML_NO_INSTANCE);
    assert_string_equal(s->rows[2].driver_name, "name?300"); // cleaned
    STATUS(s->rows[2].sm_ratio, UNREAD);
    fake_sample(n, s, AL_GROUP_PROCESS, 500);
    assert_string_equal(s->rows[2].driver_name, "name?300");
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlSystemGetProcessName], 3); // once a process
    al_snapshot_free(s);
    al_device_free(&n->base);
}

// Row 4: v3, v2 and v1 entries differ in size; the count grows between two calls.
static void old_lists_are_read_in_their_own_layout(void **state) {
    (void)state;
    run(100, 1000);
    run(200, 2000);
    fake.gpus[0]->compute[1].gpuInstanceId = 3;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    n->api.nvmlDeviceGetComputeRunningProcesses_v3 = NULL;
    fake_sample(n, s, AL_GROUP_PROCESS, 1);
    assert_int_equal(s->row_count, 2);
    assert_int_equal(s->rows[1].gpu_instance, 3);
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetComputeRunningProcesses_v2] = AL_NVML_ERROR_FUNCTION_NOT_FOUND;
    fake_sample(n, s, AL_GROUP_PROCESS, 1);
    assert_int_equal(s->row_count, 2);
    assert_int_equal(s->rows[1].pid, 200);
    NUMBER(s->rows[1].memory_bytes, 2000);
    assert_int_equal(s->rows[1].gpu_instance, AL_NVML_NO_INSTANCE); // v1 does not tell
    n->api.nvmlDeviceGetComputeRunningProcesses = NULL;
    fake_sample(n, s, AL_GROUP_PROCESS, 1);
    assert_int_equal(s->row_count, 0);
    assert_int_equal(s->gpus[0].process_status, AL_STATUS_MISSING);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void a_list_that_grows_is_read_whole(void **state) {
    (void)state;
    run(100, 1000);
    fake.gpus[0]->compute[0].pid = 1000;
    fake.gpus[0]->growing = 5; // 20 more at each of the first calls: 21, 41, 61, 81, 101
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_PROCESS, 1);
    fake_sample(n, s, AL_GROUP_PROCESS, 1);
    fake_sample(n, s, AL_GROUP_PROCESS, 1);
    fake_sample(n, s, AL_GROUP_PROCESS, 1); // 81 do not fit 64
    assert_int_equal(fake.gpus[0]->growing, 0);
    assert_int_equal(s->row_count, 101);
    for (int i = 0; i < 101; i++)
        assert_int_equal(s->rows[i].pid, 1000 + i);
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetComputeRunningProcesses_v3] = AL_NVML_ERROR_INSUFFICIENT_SIZE;
    fake_sample(n, s, AL_GROUP_PROCESS, 1); // for ever: gives up
    assert_int_equal(s->gpus[0].process_status, AL_STATUS_ERROR);
    assert_int_equal(s->row_count, 0);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

// Row 5.
static void utilisation_is_the_mean_since_the_last_look(void **state) {
    (void)state;
    run(100, 1000);
    run(200, 2000);
    use(100, 800, 40);
    use(100, 400, 60);
    use(999, 300, 50);                                      // not in the list
    use(200, 350, 101);                                     // garbage
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake.gpus[0]->utils[fake.gpus[0]->util_count++] = (struct nvml_process_util){US(-99000), 200, 9, 9, 9, 9, 9, 9};
    fake.gpus[0]->utils[fake.gpus[0]->util_count++] = (struct nvml_process_util){5, 200, 9, 9, 9, 9, 9, 9};
    fake_sample(n, s, AL_GROUP_PROCUTIL, 0);
    assert_int_equal(s->gpus[0].procutil_status, AL_STATUS_OK);
    assert_int_equal(fake.util_since, US(1000));
    assert_int_equal(s->row_count, 2);
    NUMBER(s->rows[0].sm_ratio, 0.5);
    NUMBER(s->rows[0].memory_ratio, 0.2);
    NUMBER(s->rows[0].encoder_ratio, 0.03);
    NUMBER(s->rows[0].decoder_ratio, 0.04);
    NUMBER(s->rows[0].jpeg_ratio, 0.05);
    NUMBER(s->rows[0].ofa_ratio, 0.06);
    NUMBER(s->rows[1].sm_ratio, 0); // others have samples, it has none: it ran nothing

    unsigned long long last = US(300);
    fake_sample(n, s, AL_GROUP_PROCUTIL, 100); // "not found", 400 ms after the last sample: cannot be told yet
    assert_int_equal(fake.util_since, last);
    STATUS(s->rows[0].sm_ratio, STALE);
    assert_float_equal(s->rows[0].sm_ratio.num, 0.5, 1e-9);
    assert_int_equal(s->gpus[0].procutil_status, AL_STATUS_OK);
    fake_sample(n, s, AL_GROUP_PROCUTIL, 700); // over a second without one: idle
    NUMBER(s->rows[0].sm_ratio, 0);
    fake_sample(n, s, AL_GROUP_PROCUTIL, 1000);
    NUMBER(s->rows[0].sm_ratio, 0);
    assert_true(fake.util_since > last); // the next mean does not reach back over the idle time
    use(100, 10, 80);
    fake_sample(n, s, AL_GROUP_PROCUTIL, 0);
    NUMBER(s->rows[0].sm_ratio, 0.8);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void the_older_utilisation_serves_too(void **state) {
    (void)state;
    run(100, 1000);
    use(100, 200, 70);
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    n->api.nvmlDeviceGetProcessesUtilizationInfo = NULL;
    fake_sample(n, s, AL_GROUP_PROCESS | AL_GROUP_PROCUTIL, 0);
    NUMBER(s->rows[0].sm_ratio, 0.7);
    NUMBER(s->rows[0].decoder_ratio, 0.04);
    STATUS(s->rows[0].jpeg_ratio, UNSUPPORTED);
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetProcessUtilization] = AL_NVML_ERROR_NO_PERMISSION;
    fake_sample(n, s, AL_GROUP_PROCUTIL, 500);
    assert_int_equal(s->gpus[0].procutil_status, AL_STATUS_DENIED);
    STATUS(s->rows[0].sm_ratio, DENIED);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void mig_processes_belong_to_their_instance(void **state) {
    (void)state;
    struct nvml_device *mig = fake_mig(fake.gpus[0], 2, "MIG-2", 4, 0);
    mig->compute[0] = (struct nvml_process_v2){100, 50, 4, 0};
    mig->compute_count = 1;
    fake.gpus[0]->compute[0] = (struct nvml_process_v2){100, 50, 4, 0};
    fake.gpus[0]->compute_count = 1;
    mig->result[NVML_FN_nvmlDeviceGetProcessesUtilizationInfo] = AL_NVML_ERROR_INVALID_ARGUMENT;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_PROCESS | AL_GROUP_PROCUTIL, 1);
    assert_int_equal(s->row_count, 1); // not once more for the GPU
    assert_int_equal(s->rows[0].gpu, 1);
    assert_int_equal(s->rows[0].gpu_instance, 4);
    STATUS(s->rows[0].sm_ratio, UNSUPPORTED);
    assert_int_equal(s->gpus[0].process_status, AL_STATUS_OK);
    assert_int_equal(s->gpus[1].procutil_status, AL_STATUS_UNSUPPORTED);
    al_device_free(&n->base);
    n = fake_started("0"); // the instances are not shown: the GPU's own list
    fake_sample(n, s, AL_GROUP_PROCESS, 1);
    assert_int_equal(s->row_count, 1);
    assert_int_equal(s->rows[0].gpu, 0);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
const struct CMUnitTest process_tests[] = {
    TEST(rows_are_sorted_merged_and_named),
    TEST(old_lists_are_read_in_their_own_layout),
    TEST(a_list_that_grows_is_read_whole),
    TEST(utilisation_is_the_mean_since_the_last_look),
    TEST(the_older_utilisation_serves_too),
    TEST(mig_processes_belong_to_their_instance),
};
const size_t process_test_count = sizeof process_tests / sizeof *process_tests;
