// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/pb.h"

static void holds(struct al_buf *b, const char *bytes, size_t len) {
    assert_false(b->failed);
    assert_int_equal(b->len, len);
    assert_memory_equal(b->data, bytes, len);
    al_buf_clear(b);
}
#define HOLDS(b, bytes) holds(b, bytes, sizeof bytes - 1)

// The examples of protobuf.dev/programming-guides/encoding, and the edges of the varint.
static void fields_are_written_as_the_format_says(void **state) {
    struct al_buf b = AL_BUF_INIT;
    (void)state;
    al_pb_uint(&b, 1, 150);
    HOLDS(&b, "\x08\x96\x01");
    al_pb_uint(&b, 1, 0);
    HOLDS(&b, "\x08\x00");
    al_pb_uint(&b, 16, UINT64_MAX);
    HOLDS(&b, "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    al_pb_string(&b, 2, "testing");
    HOLDS(&b, "\x12\x07testing");
    al_pb_string(&b, 2, "");
    HOLDS(&b, "");
    al_pb_fixed64(&b, 3, 0x0102030405060708);
    HOLDS(&b, "\x19\x08\x07\x06\x05\x04\x03\x02\x01");
    al_pb_double(&b, 4, 1.0);
    HOLDS(&b, "\x21\x00\x00\x00\x00\x00\x00\xf0\x3f");
    al_pb_float(&b, 2, 1.0F);
    HOLDS(&b, "\x15\x00\x00\x80\x3f");
    size_t outer = al_pb_open(&b, 3);
    al_pb_uint(&b, 1, 150);
    al_pb_close(&b, outer);
    HOLDS(&b, "\x1a\x03\x08\x96\x01");
    outer = al_pb_open(&b, 3);
    al_pb_close(&b, outer);
    HOLDS(&b, "\x1a\x00");
    al_buf_free(&b);
}

static void text_is_made_valid_with_its_length(void **state) {
    struct al_buf b = AL_BUF_INIT;
    (void)state;
    al_pb_string(&b, 1, "a\xff\xc3\xa4\xc3");
    HOLDS(&b, "\x0a\x05" "a?\xc3\xa4?");
    al_buf_free(&b);
}

static void a_long_message_gets_a_longer_length(void **state) {
    struct al_buf b = AL_BUF_INIT;
    char text[301] = {0};
    (void)state;
    memset(text, 'x', 300);
    size_t outer = al_pb_open(&b, 1), inner = al_pb_open(&b, 2);
    al_pb_string(&b, 3, text);
    al_pb_close(&b, inner);
    al_pb_close(&b, outer);
    assert_int_equal(b.len, 300 + 3 * 3);
    assert_memory_equal(b.data, "\x0a\xb2\x02\x12\xaf\x02\x1a\xac\x02xxx", 12);
    al_buf_free(&b);
}

static void what_was_written_is_read(void **state) {
    struct al_buf b = AL_BUF_INIT;
    struct al_pb_field f;
    size_t at = 0;
    (void)state;
    al_pb_uint(&b, 1, 300);
    al_pb_string(&b, 2, "word");
    al_pb_fixed64(&b, 3, 7);
    al_buf_add(&b, "\x25\x01\x00\x00\x00", 5); // fixed32, field 4
    assert_true(al_pb_next(b.data, b.len, &at, &f) && f.number == 1 && f.wire == 0 && f.value == 300);
    assert_true(al_pb_next(b.data, b.len, &at, &f) && f.number == 2 && f.size == 4 && memcmp(f.bytes, "word", 4) == 0);
    assert_true(al_pb_next(b.data, b.len, &at, &f) && f.number == 3 && f.wire == 1 && f.value == 7);
    assert_true(al_pb_next(b.data, b.len, &at, &f) && f.number == 4 && f.wire == 5 && f.value == 1);
    assert_false(al_pb_next(b.data, b.len, &at, &f));
    assert_int_equal(at, b.len);
    al_buf_free(&b);
}

static void broken_bytes_end_the_reading(void **state) {
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"\x08", 1},             // no value
        {"\x08\x80", 2},         // an unfinished varint
        {"\x12\x05" "abcd", 6},  // fewer bytes than said
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
        {"\x19\x01", 2},         // an unfinished fixed64
        {"\x00\x01", 2},         // field 0
        {"\x0b\x01", 2},         // a group
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct al_pb_field f;
        size_t at = 0;
        assert_false(al_pb_next(cases[i].bytes, cases[i].len, &at, &f));
        assert_int_equal(at, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_written_as_the_format_says),
        cmocka_unit_test(text_is_made_valid_with_its_length),
        cmocka_unit_test(a_long_message_gets_a_longer_length),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(broken_bytes_end_the_reading),
    };
    return cmocka_run_group_tests_name("pb", tests, NULL, NULL);
}
