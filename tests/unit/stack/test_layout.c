// SPDX-License-Identifier: Apache-2.0
// The tables that CPython carries from 3.13 on, as Debian's and self-built interpreters have them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stack/core/layout.h"
#include "suites.h"

static const uint64_t DEBUG_313[73] = {
    0x7970677562656478, 0x30d12f0, 0x0, 283408, 608, 632, 194984, 7272, 7264, 7344, 7400, 7656, 7640, 7648, 16, 7752,
    0, 7768, 7760, 312, 0, 8, 16, 72, 152, 160, 232, 32, 80, 8, 0, 56, 72, 70, 208, 112, 120, 128, 136, 68, 52, 96,
    104, 200, 16, 8, 416, 24, 88, 168, 32, 24, 16, 40, 24, 16, 48, 32, 40, 24, 16, 32, 16, 24, 40, 16, 32, 64, 32, 16,
    40, 240, 200};

static const uint64_t DEBUG_313T[73] = {
    0x7970677562656478, 0x30d05f0, 0x1, 328320, 608, 632, 215616, 7272, 7264, 7344, 7400, 7664, 7648, 7656, 16, 7760,
    0, 7784, 7776, 304, 0, 8, 16, 72, 152, 160, 232, 32, 80, 8, 0, 56, 72, 70, 224, 128, 136, 144, 152, 84, 68, 112,
    120, 216, 32, 24, 432, 40, 104, 184, 48, 40, 32, 56, 40, 32, 64, 48, 56, 40, 32, 48, 32, 40, 56, 32, 48, 80, 48,
    32, 56, 248, 200};

static const uint64_t DEBUG_314[95] = {
    0x7970677562656478, 0x30e0af0, 0x0, 316616, 784, 808, 225864, 7280, 7272, 7344, 7360, 7408, 7688, 7672, 7680, 16,
    7784, 0, 7800, 7792, 7992, 0, 832, 0, 8, 16, 72, 152, 160, 232, 32, 88, 8, 0, 56, 80, 74, 64, 0, 216, 112, 120,
    128, 136, 68, 52, 96, 104, 208, 0, 16, 8, 416, 24, 88, 168, 40, 32, 16, 40, 24, 16, 200, 24, 40, 32, 48, 32, 40,
    24, 16, 32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 264, 192, 160, 24, 72, 67, 0, 8, 24, 304, 8076, 0, 4, 512};

static const uint64_t DEBUG_315[111] = {
    0x7970677562656478, 0x30f02f0, 0x0, 346568, 912, 936, 226240, 7272, 7264, 7336, 7352, 7400, 7592, 7576, 7584, 16,
    7736, 0, 7752, 7744, 7944, 0, 888, 0, 8, 16, 72, 80, 88, 96, 176, 184, 256, 32, 36, 40, 136, 288, 0, 88, 8, 0, 56,
    80, 74, 64, 0, 216, 112, 120, 128, 136, 68, 52, 96, 104, 208, 0, 16, 8, 424, 24, 88, 168, 32, 288, 944, 888, 40,
    32, 16, 40, 24, 16, 200, 24, 40, 32, 48, 32, 40, 24, 16, 32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 56, 176, 112,
    120, 1120, 104, 160, 24, 72, 67, 0, 8, 24, 344, 8028, 0, 4, 512};

static enum al_layout_problem read_words(const uint64_t *words, size_t count, struct al_layout *l, uint32_t *version) {
    return al_layout_debug(words, count * 8, 62, l, version);
}

static void tables_of_releases_are_read(void **state) {
    (void)state;
    struct al_layout l;
    uint32_t version;
    assert_int_equal(read_words(DEBUG_313, 73, &l, &version), AL_LAYOUT_FINE);
    assert_int_equal(version, 0x030d12f0);
    assert_int_equal(l.thread_frame, 72);
    assert_int_equal(l.frame_owner, 70);
    assert_int_equal(l.code_bytecode, 200);
    assert_int_equal(l.thread_holds_gil, AL_LAYOUT_NONE);
    assert_int_equal(l.text_compact, 56);
    assert_int_equal(read_words(DEBUG_313T, 73, &l, &version), AL_LAYOUT_FINE);
    assert_true(l.free_threaded);
    assert_int_equal(l.object_type, 24);
    assert_int_equal(read_words(DEBUG_314, 95, &l, &version), AL_LAYOUT_FINE);
    assert_int_equal(l.interp_code_generation, 7992);
    assert_int_equal(l.generator_frame, 72);
    assert_int_equal(read_words(DEBUG_315, 111, &l, &version), AL_LAYOUT_FINE);
    assert_int_equal(l.thread_holds_gil, 36);
    assert_int_equal(l.thread_base_frame, 80);
    assert_int_equal(l.type_cached_keys, 888);
}

static void alphas_and_later_versions_are_refused(void **state) {
    (void)state;
    struct al_layout l;
    uint32_t version;
    uint64_t words[111];
    memcpy(words, DEBUG_315, sizeof words);
    words[1] = 0x030f00a3; // 3.15.0a3
    assert_int_equal(read_words(words, 111, &l, &version), AL_LAYOUT_ALPHA);
    words[1] = 0x030f00b1;
    assert_int_equal(read_words(words, 111, &l, &version), AL_LAYOUT_ALPHA);
    words[1] = 0x031000f0; // 3.16
    assert_int_equal(read_words(words, 111, &l, &version), AL_LAYOUT_NEWER);
    assert_int_equal(version, 0x031000f0);
    words[1] = 0x030c00f0; // had none
    assert_int_equal(read_words(words, 111, &l, &version), AL_LAYOUT_DAMAGED);
    words[0] ^= 1;
    assert_int_equal(read_words(words, 111, &l, &version), AL_LAYOUT_DAMAGED);
    assert_int_equal(read_words(DEBUG_315, 110, &l, &version), AL_LAYOUT_DAMAGED); // cut
}

// Every offset that is used must lie in the struct that it belongs to.
static void damaged_tables_are_refused(void **state) {
    (void)state;
    struct al_layout l;
    uint32_t version;
    unsigned refused = 0;
    for (unsigned i = 3; i < 111; i++) {
        uint64_t words[111];
        memcpy(words, DEBUG_315, sizeof words);
        words[i] = UINT64_MAX - 7;
        refused += read_words(words, 111, &l, &version) == AL_LAYOUT_DAMAGED;
    }
    assert_true(refused >= 60); // the others are fields that alula does not use
}

static void old_versions_have_tables(void **state) {
    (void)state;
    struct al_layout l;
    for (uint32_t minor = 8; minor <= 12; minor++) {
        assert_int_equal(al_layout_table(0x030000f0 | minor << 16, 62, &l), AL_LAYOUT_FINE);
        assert_int_equal(l.version, 0x0300 | minor);
    }
    assert_int_equal(al_layout_table(0x030712f0, 62, &l), AL_LAYOUT_OLD);
    assert_int_equal(al_layout_table(0x030c00a1, 62, &l), AL_LAYOUT_ALPHA);
    assert_int_equal(al_layout_table(0x030c01f0, 243, &l), AL_LAYOUT_MACHINE); // RISC-V
    assert_int_equal(al_layout_table(0x030d00f0, 62, &l), AL_LAYOUT_NEWER);
}

int al_test_layout(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_releases_are_read),
        cmocka_unit_test(alphas_and_later_versions_are_refused),
        cmocka_unit_test(damaged_tables_are_refused),
        cmocka_unit_test(old_versions_have_tables),
    };
    return cmocka_run_group_tests_name("stack/layout", tests, NULL, NULL);
}
