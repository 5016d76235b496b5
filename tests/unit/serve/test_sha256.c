// SPDX-License-Identifier: Apache-2.0
// Vectors of FIPS 180-4's examples, and lengths around the padding's edges (sums made by coreutils' sha256sum).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serve/sha256.h"
#include "suites.h"

static void check(const char *data, size_t len, const char *hex) {
    uint8_t got[AL_SHA256_SIZE], want[AL_SHA256_SIZE];
    assert_true(al_sha256_from_hex(hex, want));
    al_sha256(data, len, got);
    assert_memory_equal(got, want, sizeof got);
}

static void known_messages(void **state) {
    (void)state;
    char a[200];
    memset(a, 'a', sizeof a);
    check("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", 3, "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD");
    check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check(a, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    check(a, 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
    check(a, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    check(a, 200, "c2a908d98f5df987ade41b5fce213067efbcc21ef2240212a41e54b5e7c28ae5");
}

static void hex_is_checked(void **state) {
    (void)state;
    uint8_t out[AL_SHA256_SIZE];
    char hex[66];
    memset(hex, 'f', 64);
    hex[64] = '\0';
    assert_true(al_sha256_from_hex(hex, out));
    assert_int_equal(out[0], 255);
    hex[10] = 'g';
    assert_false(al_sha256_from_hex(hex, out));
    hex[10] = '\0';
    assert_false(al_sha256_from_hex(hex, out));
    memset(hex, '0', 65);
    hex[65] = '\0';
    assert_false(al_sha256_from_hex(hex, out));
}

static void every_bit_counts_in_a_comparison(void **state) {
    (void)state;
    uint8_t a[AL_SHA256_SIZE] = {0}, b[AL_SHA256_SIZE] = {0};
    assert_true(al_sha256_equal(a, b));
    for (int i = 0; i < AL_SHA256_SIZE * 8; i++) {
        b[i / 8] = (uint8_t)(1u << i % 8);
        assert_false(al_sha256_equal(a, b));
        b[i / 8] = 0;
    }
}

int al_test_sha256(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_messages),
        cmocka_unit_test(hex_is_checked),
        cmocka_unit_test(every_bit_counts_in_a_comparison),
    };
    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
