// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "image.h"
#include "stack/value.h"
#include "suites.h"

#define READY (1u << 12)
#define TYPE_AT (IMAGE_BASE + 0x8000)
#define OBJECT_AT (IMAGE_BASE + 0x100)

struct fixture {
    struct image *image;
    struct al_memory memory;
    struct al_layout layout;
    struct al_values values;
};

static struct fixture *set_up(uint32_t version) {
    struct fixture *f = calloc(1, sizeof *f);
    f->image = calloc(1, sizeof *f->image);
    f->memory = (struct al_memory){image_gather, f->image};
    assert_int_equal(al_layout_table(version, 62, &f->layout), AL_LAYOUT_FINE);
    f->values = (struct al_values){.memory = &f->memory, .layout = &f->layout};
    return f;
}

static void tear_down(struct fixture *f) {
    free(f->image);
    free(f);
}

// An object of a new type; number tells types apart.
static uint64_t object(struct fixture *f, uint64_t at, const char *type, unsigned flag, unsigned number) {
    uint64_t place = TYPE_AT + number * 0x400u;
    image_u64(f->image, at + f->layout.object_type, place);
    image_u64(f->image, place + f->layout.type_flags, READY | (flag ? 1ULL << flag : 0));
    image_u64(f->image, place + f->layout.type_name, place + 0x380);
    strcpy((char *)f->image->bytes + (place + 0x380 - IMAGE_BASE), type);
    return at;
}

static const char *text(struct fixture *f, uint64_t at) {
    static char out[AL_VALUE_TEXT];
    assert_true(al_value_text(&f->values, at, out));
    return out;
}

static void ints_of_all_versions(void **state) {
    (void)state;
    struct fixture *f = set_up(0x030b07f0);
    uint64_t at = object(f, OBJECT_AT, "int", 24, 0);
    image_u64(f->image, at + f->layout.long_tag, (uint64_t)-2);
    image_u64(f->image, at + f->layout.long_digits, 1ULL << 32 | 5);
    assert_string_equal(text(f, at), "-1073741829");
    image_u64(f->image, at + f->layout.long_tag, (uint64_t)-3);
    image_u64(f->image, at + f->layout.long_digits, 0x3fffffffULL << 32 | 0x3fffffff);
    image_u64(f->image, at + f->layout.long_digits + 8, 15);
    assert_string_equal(text(f, at), "-18446744073709551615"); // what 64 bits hold
    image_u64(f->image, at + f->layout.long_digits + 8, 16);
    assert_string_equal(text(f, at), "int of 65 bits");
    image_u64(f->image, at + f->layout.long_digits + 8, 0x40000000);
    assert_string_equal(text(f, at), "?"); // no digit
    image_u64(f->image, at + f->layout.long_tag, 4);
    image_u64(f->image, at + f->layout.long_digits + 8, 0x3fffffffULL << 32);
    assert_string_equal(text(f, at), "int of 120 bits");
    image_u64(f->image, at + f->layout.long_tag, 1ULL << 40);
    assert_string_equal(text(f, at), "?");
    tear_down(f);
    f = set_up(0x030c01f0);
    at = object(f, OBJECT_AT, "bool", 24, 0);
    image_u64(f->image, at + f->layout.long_tag, 1); // zero
    assert_string_equal(text(f, at), "False");
    image_u64(f->image, at + f->layout.long_tag, 1 << 3);
    image_u64(f->image, at + f->layout.long_digits, 1);
    assert_string_equal(text(f, at), "True");
    tear_down(f);
    char out[AL_VALUE_TEXT];
    al_value_tagged((uint64_t)(-7LL * 4) | 3, out);
    assert_string_equal(out, "-7");
}

static void containers_that_hold_themselves_and_damage(void **state) {
    (void)state;
    struct fixture *f = set_up(0x030b07f0);
    uint64_t at = object(f, OBJECT_AT, "list", 25, 0), items = IMAGE_BASE + 0x400;
    char out[AL_VALUE_TEXT];
    image_u64(f->image, at + f->layout.list_size, 100);
    image_u64(f->image, at + f->layout.list_items, items);
    for (unsigned i = 0; i < 4; i++)
        image_u64(f->image, items + 8 * i, at);
    const char *deep = text(f, at);
    assert_true(strlen(deep) < AL_VALUE_TEXT && strncmp(deep, "[[[... 100 items], [... 100 items], ", 36) == 0);
    image_u64(f->image, items, IMAGE_BASE + IMAGE_SIZE); // not there
    image_u64(f->image, at + f->layout.list_size, 1);
    assert_string_equal(text(f, at), "[?]");
    image_u64(f->image, at + f->layout.list_items, 0);
    assert_string_equal(text(f, at), "?");
    image_u64(f->image, at + f->layout.object_type, 12);
    assert_false(al_value_text(&f->values, at, out));
    assert_false(al_value_text(&f->values, 0, out));
    image_u64(f->image, TYPE_AT + 0x400 + f->layout.type_flags, 0); // no type that is ready
    image_u64(f->image, at + f->layout.object_type, TYPE_AT + 0x400);
    assert_false(al_value_text(&f->values, at, out));
    tear_down(f);
}

static void what_is_told_of_others(void **state) {
    (void)state;
    struct fixture *f = set_up(0x030b07f0);
    uint64_t at = object(f, OBJECT_AT, "Tensor", 0, 0), real = object(f, OBJECT_AT + 0x100, "float", 0, 1);
    double value = 3;
    assert_string_equal(text(f, at), "");
    assert_string_equal(al_value_type(&f->values, at)->name, "Tensor");
    memcpy(f->image->bytes + (real + f->layout.float_value - IMAGE_BASE), &value, 8);
    assert_string_equal(text(f, real), "3.0");
    uint64_t array = object(f, OBJECT_AT + 0x200, "numpy.ndarray", 0, 2);
    image_u64(f->image, array + 24, 2);
    image_u64(f->image, array + 32, IMAGE_BASE + 0x400);
    image_u64(f->image, IMAGE_BASE + 0x400, 3);
    image_u64(f->image, IMAGE_BASE + 0x408, 4);
    assert_string_equal(text(f, array), "shape (3, 4)");
    image_u64(f->image, array + 24, 65); // more than numpy allows
    assert_string_equal(text(f, array), "?");
    uint64_t raw = object(f, OBJECT_AT + 0x300, "bytes", 27, 3);
    image_u64(f->image, raw + f->layout.bytes_size, 40);
    memcpy(f->image->bytes + (raw + f->layout.bytes_data - IMAGE_BASE), "a\x1b", 2);
    assert_true(strncmp(text(f, raw), "b'a\\x1b\\x00", 11) == 0);
    assert_non_null(strstr(text(f, raw), "...' (40 bytes)"));
    tear_down(f);
}

static void tensors_by_their_own_count(void **state) {
    (void)state;
    struct fixture *f = set_up(0x030b07f0);
    uint64_t at = object(f, OBJECT_AT, "Tensor", 0, 0), inside = IMAGE_BASE + 0x400, shape = inside + 56;
    image_u64(f->image, at + 16, inside);
    image_u64(f->image, shape, 2);
    image_u64(f->image, shape + 8, 3);
    image_u64(f->image, shape + 16, 4);
    image_u64(f->image, shape + 96, 12);
    image_u64(f->image, shape + 104, 15 | 1ULL << 16 | 2ULL << 24 | 1ULL << 32);
    assert_string_equal(text(f, at), "shape (3, 4), bfloat16, cuda:2");
    image_u64(f->image, at + 24, inside); // as an older release has it: behind a word
    image_u64(f->image, at + 16, 1);
    assert_string_equal(text(f, at), "shape (3, 4), bfloat16, cuda:2");
    image_u64(f->image, shape + 96, 13); // the count says otherwise
    assert_string_equal(text(f, at), "");
    image_u64(f->image, shape + 96, 12);
    image_u64(f->image, shape, 1ULL << 40);
    assert_string_equal(text(f, at), "");
    tear_down(f);
}

int al_test_value(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ints_of_all_versions),
        cmocka_unit_test(containers_that_hold_themselves_and_damage),
        cmocka_unit_test(what_is_told_of_others),
        cmocka_unit_test(tensors_by_their_own_count),
    };
    return cmocka_run_group_tests_name("stack/value", tests, NULL, NULL);
}
