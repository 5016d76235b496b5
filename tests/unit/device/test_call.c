// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "fake.h"

static void codes_become_statuses(void **state) {
    static const struct {
        int code, status;
    } want[] = {{0, AL_STATUS_OK},          {1, AL_STATUS_ERROR},    {2, AL_STATUS_ERROR},
                {3, AL_STATUS_UNSUPPORTED}, {4, AL_STATUS_DENIED},   {6, AL_STATUS_ERROR},
                {7, AL_STATUS_ERROR},       {10, AL_STATUS_TIMEOUT}, {13, AL_STATUS_MISSING},
                {15, AL_STATUS_LOST},       {16, AL_STATUS_RESET},   {25, AL_STATUS_ERROR},
                {26, AL_STATUS_DEPRECATED}, {999, AL_STATUS_ERROR},  {-7, AL_STATUS_ERROR}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(al_nvml_status(want[i].code), want[i].status);
    assert_string_equal(al_nvml_result_text(18), "ERROR_LIB_RM_VERSION_MISMATCH");
    assert_string_equal(al_nvml_result_text(-1), "an unknown result");
    assert_string_equal(al_nvml_function_name(NVML_FN_nvmlInit_v2), "nvmlInit_v2");
    assert_string_equal(al_nvml_function_name((enum al_nvml_fn)(NVML_FN_COUNT - 1)), "nvmlEventSetFree");
}

static void blanks_are_not_numbers(void **state) {
    (void)state;
    assert_true(al_nvml_blank(0xffffffffU, false) && al_nvml_blank(0x7ffffff0U, false) &&
                al_nvml_blank(0x7ffffff3U, false));
    assert_false(al_nvml_blank(0x7ffffff4U, false) || al_nvml_blank(0, false) || al_nvml_blank(0xffffffffU, true));
    assert_true(al_nvml_blank(UINT64_MAX, true) && al_nvml_blank(0x7ffffffffffffff1ULL, true));
}

static double read_union(unsigned long long raw, int type, bool *valid) {
    union nvml_value v = {.ullVal = raw};
    return al_nvml_union_number(&v, type, valid);
}

static void a_value_is_read_in_its_own_type(void **state) {
    bool valid;
    (void)state;
    // What an H200 gave: 4 bytes of a number, the rest of the union stale.
    assert_float_equal(read_union(0x5a5a5a5a00000031ULL, AL_NVML_VALUE_UNSIGNED_INT, &valid), 49, 0);
    assert_true(valid);
    assert_float_equal(read_union(0xfffffff8ULL, AL_NVML_VALUE_SIGNED_INT, &valid), -8, 0);
    assert_true(valid);
    assert_float_equal(read_union(1ULL << 40, AL_NVML_VALUE_UNSIGNED_LONG_LONG, &valid), 1099511627776.0, 0);
    assert_float_equal(read_union((unsigned long long)-5, AL_NVML_VALUE_SIGNED_LONG_LONG, &valid), -5, 0);
    assert_float_equal(read_union(0x1234567, AL_NVML_VALUE_UNSIGNED_SHORT, &valid), 0x4567, 0);
    union nvml_value d = {.dVal = 140737488355328.0};
    (void)al_nvml_union_number(&d, AL_NVML_VALUE_DOUBLE, &valid);
    assert_false(valid);
    (void)read_union(UINT64_MAX, AL_NVML_VALUE_UNSIGNED_LONG_LONG, &valid);
    assert_false(valid);
    (void)read_union(1, 77, &valid);
    assert_false(valid);
}

static struct al_value judged(enum al_gpu_metric metric, double num) {
    struct al_nvml *n = al_nvml_new();
    struct al_value v = al_nvml_value(n, metric, AL_NVML_SUCCESS, num);
    free(n);
    return v;
}

static void impossible_numbers_are_errors(void **state) {
    (void)state;
    NUMBER(judged(AL_GPU_UTIL, 1.0), 1.0);
    STATUS(judged(AL_GPU_UTIL, 1.01), ERROR);
    STATUS(judged(AL_GPU_UTIL, NAN), ERROR);
    NUMBER(judged(AL_GPU_FAN, 1.05), 1.05);
    STATUS(judged(AL_GPU_TEMP, 82505), ERROR); // dcgm-exporter#312
    NUMBER(judged(AL_GPU_TEMP_MARGIN, -8), -8);
    STATUS(judged(AL_GPU_MEM_USED, -1), ERROR);
    STATUS(judged(AL_GPU_POWER, 4294967.295), ERROR);
}

static void every_call_is_counted_and_watched(void **state) {
    struct al_call_stat rows[NVML_FN_COUNT];
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetPowerUsage] = AL_NVML_ERROR_TIMEOUT;
    fake_sample(n, s, AL_GROUP_FAST, 1);
    fake_sample(n, s, AL_GROUP_FAST, 500);
    size_t count = n->base.ops->stats(&n->base, rows, NVML_FN_COUNT), seen = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, "nvmlDeviceGetPowerUsage") == 0) {
            assert_int_equal(rows[i].calls, 2);
            assert_int_equal(rows[i].errors, 2);
            seen++;
        } else if (strcmp(rows[i].name, "nvmlDeviceGetClockInfo") == 0) {
            assert_int_equal(rows[i].calls, 8);
            assert_int_equal(rows[i].errors, 0);
            seen++;
        }
        assert_true(rows[i].calls > 0 && rows[i].min_ns <= rows[i].max_ns);
    }
    assert_int_equal(seen, 2);
    assert_int_equal(n->base.ops->stats(&n->base, rows, 3), 3);
    assert_null(atomic_load(&n->base.watch.name));
    al_nvml_begin(n, NVML_FN_nvmlDeviceGetMigMode); // a call that has not come back
    assert_string_equal(atomic_load(&n->base.watch.name), "nvmlDeviceGetMigMode");
    assert_int_equal(atomic_load(&n->base.watch.since_ns), fake.now_ns);
    al_nvml_end(n, NVML_FN_nvmlDeviceGetMigMode, 0);
    al_snapshot_free(s);
    al_device_free(&n->base);
    assert_int_equal(fake.inits, fake.shutdowns);
}

static void opening_fails(int result, int want, const char *part) {
    struct al_device_error e = {""};
    struct al_nvml *n = fake_backend();
    fake.init_result = result;
    assert_int_equal(al_nvml_start(n, NULL, &e), want);
    if (!strstr(e.message, part) || strchr(e.message, '\n'))
        fail_msg("\"%s\" does not say \"%s\" in one line", e.message, part);
    al_device_free(&n->base);
}

static void a_driver_that_does_not_start_says_why(void **state) {
    (void)state;
    opening_fails(AL_NVML_ERROR_DRIVER_NOT_LOADED, AL_E_NODRIVER, "kernel driver is not loaded");
    opening_fails(AL_NVML_ERROR_NO_PERMISSION, AL_E_DENIED, "no permission");
    opening_fails(AL_NVML_ERROR_LIB_RM_VERSION_MISMATCH, AL_E_MISMATCH, "different versions");
    opening_fails(AL_NVML_ERROR_TIMEOUT, AL_E_TIMEOUT, "did not answer");
    opening_fails(AL_NVML_ERROR_UNKNOWN, AL_E_NODRIVER, "ERROR_UNKNOWN (999)");
    assert_int_equal(fake.shutdowns, 0); // what was not initialised is not shut down
    fake.count = 0;
    opening_fails(AL_NVML_SUCCESS, AL_E_NOGPU, "no GPU");
}

static int open_path(const char *path, const char *gpus, struct al_device_error *e) {
    struct al_device *d = NULL;
    struct al_nvml_options o = {path, gpus};
    return al_nvml_open(&o, &d, e);
}

static void a_library_that_does_not_serve_says_why(void **state) {
    struct al_device_error e;
    (void)state;
    assert_int_equal(open_path("/nonexistent/libnvidia-ml.so.1", NULL, &e), AL_E_NOLIB);
    assert_non_null(strstr(e.message, "/nonexistent/libnvidia-ml.so.1"));
    assert_int_equal(open_path("libm.so.6", NULL, &e), AL_E_NOSYM); // a library, but not NVML
    assert_non_null(strstr(e.message, "nvmlInit_v2"));
    assert_int_equal(open_path("libm.so.6", "0,frog", &e), AL_E_INVALID);
    assert_non_null(strstr(e.message, "frog"));
    setenv("ALULA_NVML_LIBRARY", "/nonexistent/from-env.so", 1);
    assert_int_equal(open_path(NULL, NULL, &e), AL_E_NOLIB);
    assert_non_null(strstr(e.message, "from-env.so"));
    unsetenv("ALULA_NVML_LIBRARY");
}

const struct CMUnitTest call_tests[] = {
    cmocka_unit_test(codes_become_statuses),
    cmocka_unit_test(blanks_are_not_numbers),
    cmocka_unit_test(a_value_is_read_in_its_own_type),
    cmocka_unit_test(impossible_numbers_are_errors),
    cmocka_unit_test_setup_teardown(every_call_is_counted_and_watched, fake_setup, fake_teardown),
    cmocka_unit_test_setup_teardown(a_driver_that_does_not_start_says_why, fake_setup, fake_teardown),
    cmocka_unit_test(a_library_that_does_not_serve_says_why),
};
const size_t call_test_count = sizeof call_tests / sizeof *call_tests;
