// SPDX-License-Identifier: Apache-2.0
// TensorBoard's own reader reads the file in tests/integration/test_run_tensorboard.py; here: frames, and what is not written.
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/pb.h"
#include "export/tensorboard.h"
#include "suites.h"

static char folder[64];

static int setup(void **state) {
    (void)state;
    (void)strcpy(folder, "/tmp/alula-tensorboard-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static uint64_t number(const char *bytes, int size) {
    uint64_t n = 0;
    for (int i = 0; i < size; i++)
        n |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
    return n;
}

// Length of the record at `at`; its frame is checked.
static size_t record(const char *data, size_t len, size_t at) {
    assert_true(len - at > 16);
    size_t size = (size_t)number(data + at, 8);
    assert_true(at + size + 16 <= len);
    assert_int_equal(number(data + at + 8, 4), al_crc32c_masked(data + at, 8));
    assert_int_equal(number(data + at + 12 + size, 4), al_crc32c_masked(data + at + 12, size));
    return size;
}

static void finish(struct al_tensorboard *t, char **data, size_t *len) {
    assert_int_equal(al_fs_slurp(al_tensorboard_path(t), 1 << 20, data, len), 0);
    assert_int_equal(unlink(al_tensorboard_path(t)), 0);
    al_tensorboard_free(t);
    assert_int_equal(rmdir(folder), 0);
}

static void checksums_are_castagnoli_s(void **state) {
    (void)state;
    // RFC 3720, B.4, and the usual check value
    static const char zeros[32];
    assert_int_equal(al_crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(al_crc32c(zeros, 32), 0x8a9136aau);
    assert_int_equal(al_crc32c("", 0), 0);
    uint32_t crc = al_crc32c("123456789", 9);
    assert_int_equal(al_crc32c_masked("123456789", 9), (crc >> 15 | crc << 17) + 0xa282ead8u);
}

static void a_point_is_one_record_behind_the_version(void **state) {
    struct al_tensorboard *t;
    struct al_pb_field f;
    char *data;
    size_t len, at = 0;
    (void)state;
    assert_int_equal(al_tensorboard_open(folder, "node/7", 5000000000, &t), 0);
    assert_non_null(strstr(al_tensorboard_path(t), "/events.out.tfevents.0000000005.node7."));
    al_tensorboard_scalar(t, 0.5, "alula/step_seconds");
    al_tensorboard_scalar(t, NAN, "alula/not_known");
    al_tensorboard_scalar(t, 1, "alula/gpu/%d/utilization", 3);
    assert_int_equal(al_tensorboard_point(t, 7, 6000000000), 0);
    assert_int_equal(al_tensorboard_point(t, 8, 7000000000), 0); // nothing known: no record
    assert_int_equal(al_tensorboard_points(t), 1);
    finish(t, &data, &len);
    size_t first = record(data, len, 0), second = record(data, len, first + 16);
    assert_int_equal(len, first + second + 32);
    assert_non_null(memmem(data + 12, first, "brain.Event:2", 13));
    const char *event = data + first + 16 + 12;
    assert_true(al_pb_next(event, second, &at, &f) && f.number == 1);
    assert_true(al_pb_next(event, second, &at, &f) && f.number == 2 && f.value == 7);
    assert_true(al_pb_next(event, second, &at, &f) && f.number == 5);
    assert_non_null(memmem(f.bytes, f.size, "alula/gpu/3/utilization", 23));
    assert_null(memmem(f.bytes, f.size, "not_known", 9));
    assert_false(al_pb_next(event, second, &at, &f));
    assert_int_equal(at, second);
    free(data);
}

// A disk without room: whole records stay, no half one.
static void half_a_record_is_taken_back(void **state) {
    struct al_tensorboard *t;
    struct rlimit before, small;
    char *data;
    size_t len;
    (void)state;
    assert_int_equal(al_tensorboard_open(folder, "node", 5000000000, &t), 0);
    al_tensorboard_scalar(t, 1, "alula/step_seconds");
    assert_int_equal(al_tensorboard_point(t, 1, 6000000000), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 120, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    al_tensorboard_scalar(t, 1, "alula/step_seconds");
    assert_int_equal(al_tensorboard_point(t, 2, 7000000000), AL_E_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(al_tensorboard_points(t), 1);
    finish(t, &data, &len);
    size_t first = record(data, len, 0), second = record(data, len, first + 16);
    assert_int_equal(len, first + second + 32);
    free(data);
}

static void a_folder_that_cannot_be_is_told(void **state) {
    struct al_tensorboard *t;
    (void)state;
    assert_int_not_equal(al_tensorboard_open("/proc/alula", "node", 0, &t), 0);
    assert_null(t);
    assert_int_equal(rmdir(folder), 0);
}

int al_test_tensorboard(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_castagnoli_s),
        cmocka_unit_test_setup(a_point_is_one_record_behind_the_version, setup),
        cmocka_unit_test_setup(half_a_record_is_taken_back, setup),
        cmocka_unit_test_setup(a_folder_that_cannot_be_is_told, setup),
    };
    return cmocka_run_group_tests_name("tensorboard", tests, NULL, NULL);
}
