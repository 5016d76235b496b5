// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/column.h"
#include "store/part.h"

static size_t integers(const int64_t *v, uint32_t count) {
    struct al_buf b = AL_BUF_INIT;
    int64_t back[256];
    assert_int_equal(al_column_put(&b, v, count), 0);
    struct al_bytes in = {(const uint8_t *)b.data, (const uint8_t *)b.data + b.len};
    assert_int_equal(al_column_get(&in, back, count), 0);
    assert_ptr_equal(in.p, in.end);
    assert_memory_equal(back, v, count * sizeof *v);
    for (size_t cut = 0; cut < b.len; cut++) { // one byte less is never enough
        in = (struct al_bytes){(const uint8_t *)b.data, (const uint8_t *)b.data + cut};
        assert_int_equal(al_column_get(&in, back, count), AL_E_FORMAT);
    }
    size_t len = b.len;
    al_buf_free(&b);
    return len;
}

static void test_integers(void **state) {
    (void)state;
    const int64_t extremes[] = {INT64_MAX, INT64_MIN, 0, -1, 1, INT64_MIN, INT64_MAX};
    int64_t line[200], parabola[200], noise[200];
    for (int i = 0; i < 200; i++) {
        line[i] = 1000000 + 500000000LL * i;
        parabola[i] = 3LL * i * i;
        noise[i] = i * 7919 % 100;
    }
    (void)integers(extremes, 7);
    (void)integers(extremes, 1);
    assert_in_range(integers(line, 200), 3, 12);     // second differences are all 0
    assert_in_range(integers(parabola, 200), 3, 205); // one byte each
    assert_in_range(integers(noise, 200), 201, 205);
}

static size_t numbers(const double *v, uint32_t count) {
    struct al_buf b = AL_BUF_INIT;
    double back[256];
    assert_int_equal(al_numbers_put(&b, v, count), 0);
    struct al_bytes in = {(const uint8_t *)b.data, (const uint8_t *)b.data + b.len};
    assert_int_equal(al_numbers_get(&in, back, count), 0);
    assert_ptr_equal(in.p, in.end);
    assert_memory_equal(back, v, count * sizeof *v); // every bit
    for (size_t cut = 0; cut < b.len; cut++) {
        in = (struct al_bytes){(const uint8_t *)b.data, (const uint8_t *)b.data + cut};
        assert_int_equal(al_numbers_get(&in, back, count), AL_E_FORMAT);
    }
    size_t len = b.len;
    al_buf_free(&b);
    return len;
}

static void test_numbers(void **state) {
    (void)state;
    const double odd[] = {0.1, -0.0, 1e300, 5e-324, 3.14159265358979, -1.0 / 3};
    double percent[200], memory[200], same[200];
    for (int i = 0; i < 200; i++) {
        percent[i] = (i * 7919 % 100) / 100.0;
        memory[i] = 1073741824.0 * 3 + 65536.0 * (i * 31 % 100);
        same[i] = 143771.0 * 1048576;
    }
    assert_int_equal(numbers(odd, 6), 1 + 6 * 8); // as they are
    assert_in_range(numbers(percent, 200), 201, 210);
    assert_in_range(numbers(memory, 200), 201, 215); // 64 KiB steps: one byte each
    assert_in_range(numbers(same, 200), 3, 12);
    assert_int_equal(numbers(odd, 0), 0);
}

static void test_infinite_is_refused(void **state) {
    (void)state;
    const uint8_t infinite[] = {15, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f};
    struct al_bytes in = {infinite, infinite + sizeof infinite};
    double back;
    assert_int_equal(al_numbers_get(&in, &back, 1), AL_E_FORMAT);
}

static void test_varint(void **state) {
    (void)state;
    const uint64_t values[] = {0, 127, 128, 300, UINT64_MAX, (uint64_t)1 << 63};
    for (size_t i = 0; i < 6; i++) {
        struct al_buf b = AL_BUF_INIT;
        uint64_t back = 1;
        al_put_varint(&b, values[i]);
        struct al_bytes in = {(const uint8_t *)b.data, (const uint8_t *)b.data + b.len};
        assert_int_equal(al_get_varint(&in, &back), 0);
        assert_true(back == values[i]);
        al_buf_free(&b);
    }
    const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02};
    struct al_bytes in = {endless, endless + sizeof endless};
    uint64_t back;
    assert_int_equal(al_get_varint(&in, &back), AL_E_FORMAT);
}

static void test_layouts(void **state) {
    (void)state;
    const uint16_t code[] = {1, 1, 1, 2, 17, 17, 4};
    uint16_t back[8];
    struct al_buf b = AL_BUF_INIT;
    al_layout_runs(&b, code, 7);
    assert_int_equal(b.len, 8);
    assert_int_equal(al_layout_parse((const uint8_t *)b.data, b.len, back, 8), 7);
    assert_memory_equal(back, code, sizeof code);
    assert_int_equal(al_layout_parse((const uint8_t *)b.data, b.len, back, 6), AL_E_FORMAT);
    assert_int_equal(al_layout_parse((const uint8_t *)b.data, b.len - 1, back, 8), AL_E_FORMAT);
    const uint8_t no_status[] = {15, 1};
    assert_int_equal(al_layout_parse(no_status, 2, back, 8), AL_E_FORMAT);
    al_buf_free(&b);
}

int test_column(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_integers), cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_infinite_is_refused), cmocka_unit_test(test_varint),
                                       cmocka_unit_test(test_layouts)};
    return cmocka_run_group_tests_name("column", tests, NULL, NULL);
}
