// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "image.h"
#include "stack/core/dict.h"
#include "stack/core/text.h"
#include "suites.h"

#define STATE(kind, ascii) ((kind) << 2 | 1 << 5 | (ascii) << 6)

struct fixture {
    struct image *image;
    struct al_memory memory;
    struct al_layout layout;
};

static struct fixture set_up(void) {
    struct fixture f = {.image = calloc(1, sizeof *f.image)};
    f.memory = (struct al_memory){image_gather, f.image};
    assert_int_equal(al_layout_table(0x030b07f0, 62, &f.layout), AL_LAYOUT_FINE);
    return f;
}

static uint64_t put_text(struct fixture *f, uint64_t at, uint64_t length, unsigned state, const void *data,
                         size_t bytes) {
    image_u64(f->image, at + f->layout.text_length, length);
    image_u64(f->image, at + f->layout.text_state, state);
    memcpy(f->image->bytes + (at - IMAGE_BASE) + (state & 1 << 6 ? f->layout.text_ascii : f->layout.text_compact), data,
           bytes);
    return at;
}

static void all_kinds_become_utf8(void **state) {
    (void)state;
    struct fixture f = set_up();
    char out[64];
    uint64_t at = IMAGE_BASE;
    assert_true(al_text_read(&f.memory, &f.layout, put_text(&f, at, 5, STATE(1, 1), "ab\ncd", 5), out, sizeof out));
    assert_string_equal(out, "ab?cd");
    assert_true(al_text_read(&f.memory, &f.layout, put_text(&f, at, 2, STATE(1, 0), "\xe4z", 2), out, sizeof out));
    assert_string_equal(out, "\xc3\xa4z");
    const uint16_t two[] = {0x4e2d, 0xd800, 'x'};
    assert_true(al_text_read(&f.memory, &f.layout, put_text(&f, at, 3, STATE(2, 0), two, sizeof two), out, sizeof out));
    assert_string_equal(out, "\xe4\xb8\xad?x");
    const uint32_t four[] = {0x1f600, 0x110000};
    assert_true(
        al_text_read(&f.memory, &f.layout, put_text(&f, at, 2, STATE(4, 0), four, sizeof four), out, sizeof out));
    assert_string_equal(out, "\xf0\x9f\x98\x80?");
    assert_true(al_text_read(&f.memory, &f.layout, at, out, 4)); // no room for half a character
    assert_string_equal(out, "");
    assert_true(al_text_read(&f.memory, &f.layout, put_text(&f, at, 0, STATE(1, 1), "", 0), out, sizeof out));
    assert_string_equal(out, "");
    free(f.image);
}

static void what_is_no_text_is_refused(void **state) {
    (void)state;
    struct fixture f = set_up();
    char out[64];
    uint64_t at = IMAGE_BASE;
    assert_false(al_text_read(&f.memory, &f.layout, put_text(&f, at, 1ULL << 40, STATE(1, 1), "", 0), out, sizeof out));
    assert_false(al_text_read(&f.memory, &f.layout, put_text(&f, at, 3, STATE(3, 0), "", 0), out, sizeof out));
    assert_false(al_text_read(&f.memory, &f.layout, put_text(&f, IMAGE_BASE + IMAGE_SIZE - 64, 100, STATE(1, 1), "", 0),
                              out,
                              sizeof out)); // goes over the end
    assert_false(al_text_read(&f.memory, &f.layout, 8, out, sizeof out));
    assert_false(al_text_read(&f.memory, &f.layout, at + 4, out, sizeof out)); // not aligned
    assert_string_equal(out, "");
    free(f.image);
}

static void ints_have_digits(void **state) {
    (void)state;
    struct fixture f = set_up();
    uint64_t at = IMAGE_BASE, value;
    image_u64(f.image, at + f.layout.long_tag, 2);
    image_u64(f.image, at + f.layout.long_digits, 5ULL << 32 | 7);
    assert_true(al_int_read(&f.memory, &f.layout, at, &value));
    assert_int_equal(value, (5ULL << 30) + 7);
    image_u64(f.image, at + f.layout.long_tag, (uint64_t)-1); // negative
    assert_false(al_int_read(&f.memory, &f.layout, at, &value));
    free(f.image);
}

int al_test_text(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds_become_utf8),
        cmocka_unit_test(what_is_no_text_is_refused),
        cmocka_unit_test(ints_have_digits),
    };
    return cmocka_run_group_tests_name("stack/text", tests, NULL, NULL);
}
