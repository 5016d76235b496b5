// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "pods/list.h"
#include "suites.h"

static struct al_pod_use uses[8];
static size_t count;

// A field of bytes; lengths below 16384.
static void field(struct al_buf *b, int number, const char *bytes, size_t len) {
    al_buf_char(b, (char)(number << 3 | 2));
    if (len < 128) {
        al_buf_char(b, (char)len);
    } else {
        al_buf_char(b, (char)(0x80 | (len & 0x7f)));
        al_buf_char(b, (char)(len >> 7));
    }
    al_buf_add(b, bytes, len);
}

static void text(struct al_buf *b, int number, const char *value) {
    field(b, number, value, strlen(value));
}

static void inner(struct al_buf *b, int number, struct al_buf *content) {
    field(b, number, content->data ? content->data : "", content->len);
    al_buf_free(content);
}

// One pod with one container that has these devices. late: names behind what they name, as protobuf allows.
static void pod(struct al_buf *b, const char *names[3], const char *resource, const char *const *devices, bool late) {
    struct al_buf d = AL_BUF_INIT, c = AL_BUF_INIT, p = AL_BUF_INIT;
    if (!late)
        text(&d, 1, resource);
    for (; *devices; devices++)
        text(&d, 2, *devices);
    if (late)
        text(&d, 1, resource);
    if (!late)
        text(&c, 1, names[2]);
    al_buf_add(&c, "\x18\x07\x1a\x02\x01\x02", 6); // cpu_ids, one by one and packed
    inner(&c, 2, &d);
    if (late)
        text(&c, 1, names[2]);
    if (!late) {
        text(&p, 1, names[0]);
        text(&p, 2, names[1]);
    }
    inner(&p, 3, &c);
    if (late) {
        text(&p, 2, names[1]);
        text(&p, 1, names[0]);
    }
    inner(b, 1, &p);
}

static int decode(struct al_buf *b, size_t max) {
    memset(uses, 0x55, sizeof uses);
    int result = al_pods_decode(b->data ? b->data : "", b->len, uses, max, &count);
    al_buf_free(b);
    return result;
}

static void names_and_devices(void **state) {
    struct al_buf b = AL_BUF_INIT;
    (void)state;
    pod(&b, (const char *[]){"train-0", "team-a", "main"}, "nvidia.com/gpu", (const char *[]){"GPU-1", "GPU-2", NULL}, false);
    pod(&b, (const char *[]){"notebook", "team-b", "lab"}, "nvidia.com/gpu.shared",
        (const char *[]){"GPU-3::0", "GPU-3::7", NULL}, true);
    pod(&b, (const char *[]){"other", "team-c", "c"}, "example.com/nic", (const char *[]){"eth0", NULL}, false);
    assert_int_equal(decode(&b, 8), 0);
    assert_int_equal(count, 3); // a GPU of which a container has two shares is one use
    assert_string_equal(uses[0].device, "GPU-1");
    assert_string_equal(uses[1].device, "GPU-2");
    for (int i = 0; i < 2; i++) {
        assert_string_equal(uses[i].pod, "train-0");
        assert_string_equal(uses[i].name_space, "team-a");
        assert_string_equal(uses[i].container, "main");
        assert_string_equal(uses[i].resource, "nvidia.com/gpu");
    }
    assert_string_equal(uses[2].device, "GPU-3");
    assert_string_equal(uses[2].pod, "notebook");
    assert_string_equal(uses[2].container, "lab");
    assert_string_equal(uses[2].resource, "nvidia.com/gpu.shared");
}

static void nothing_and_too_many(void **state) {
    struct al_buf b = AL_BUF_INIT;
    (void)state;
    assert_int_equal(decode(&b, 8), 0);
    assert_int_equal(count, 0);
    pod(&b, (const char *[]){"p", "n", "c"}, "nvidia.com/gpu", (const char *[]){"a", "b", "c", NULL}, false);
    assert_int_equal(decode(&b, 2), 0);
    assert_int_equal(count, 2);
}

static void names_that_are_none(void **state) {
    static char longest[300];
    const char *const names[][3] = {{"", "n", "c"}, {"p", "", "c"}, {"p", "n", ""}, {longest, "n", "c"}, {"p\xff", "n", "c"}};
    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct al_buf b = AL_BUF_INIT;
        pod(&b, (const char *[]){names[i][0], names[i][1], names[i][2]}, "nvidia.com/gpu", (const char *[]){"a", NULL}, false);
        // It costs that pod alone.
        pod(&b, (const char *[]){"p", "n", "c"}, "nvidia.com/gpu", (const char *[]){"b", NULL}, false);
        assert_int_equal(decode(&b, 8), 0);
        assert_int_equal(count, 1);
        assert_string_equal(uses[0].device, "b");
    }
}

static void every_cut_is_noticed_or_short(void **state) {
    struct al_buf b = AL_BUF_INIT;
    (void)state;
    pod(&b, (const char *[]){"p", "n", "c"}, "nvidia.com/gpu", (const char *[]){"a", NULL}, false);
    for (size_t len = 1; len < b.len; len++) {
        assert_int_equal(al_pods_decode(b.data, len, uses, 8, &count), AL_E_FORMAT);
        assert_int_equal(count, 0);
    }
    al_buf_free(&b);
    static const char *const wrong[] = {"\x0b", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x09zzz", "\x0d\x01", "\x80"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(al_pods_decode(wrong[i], strlen(wrong[i]), uses, 8, &count), AL_E_FORMAT);
}

int al_test_list(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_devices),
        cmocka_unit_test(nothing_and_too_many),
        cmocka_unit_test(names_that_are_none),
        cmocka_unit_test(every_cut_is_noticed_or_short),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
