// SPDX-License-Identifier: Apache-2.0
// Flame graphs as files: what the page's script is given, and that no name gets out of its string.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "export/flame.h"
#include "suites.h"

static const struct al_profile_about about = {
    .name = "process 7", .command = "</title><script>alert(1)</script>", .exporter = "alula 0", .rate = 100, .seconds = 1, .pid = 7};

static const char *const hostile[] = {
    "</script><script>alert(1)</script>", "\"'><img src=x onerror=alert(2)>", "]]><script>alert(3)</script>", "<!--",
    "\xe2\x80\xaeright to left\xe2\x81\xa6", "a\x01\x1b[2Jb\nc", "\xff\xfe\xc0", "&lt;b&gt;",
    "\xef\xbf\xbe\xef\xbb\xbf", "\xe2\x80\xa8", "\xc2\x9b", ""};
#define HOSTILE (sizeof hostile / sizeof *hostile)

static uint32_t track_of(struct al_profile *p, const char *thread) {
    return al_profile_track(p, &(struct al_profile_who){7, 7, -1, "process 7", thread});
}

// A stack of each name on top of `main`, the first once, the second twice ...
static struct al_profile *of_names(const char *const *names, uint32_t count) {
    struct al_profile *p = al_profile_new();
    assert_non_null(p);
    uint32_t track = track_of(p, names[0]), tick = 0;
    uint32_t root = al_profile_stack(p, AL_PROFILE_NONE, al_profile_frame(p, "main", "/w/train.py", 9));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t stack = al_profile_stack(p, root, al_profile_frame_of(p, AL_PROFILE_NATIVE, names[i], names[count - 1 - i], names[i], 1));
        for (uint32_t k = 0; k <= i; k++)
            assert_int_equal(al_profile_add(p, track, stack, tick++, AL_PROFILE_GIL), 0);
    }
    return p;
}

static void text(void **state) {
    (void)state;
    char out[AL_FLAME_TEXT], *huge = malloc(100001);
    static const char *const expected[HOSTILE] = {
        "</script><script>alert(1)</script>", "\"'><img src=x onerror=alert(2)>", "]]><script>alert(3)</script>", "<!--", "?right to left?",
        "a??[2Jb?c", "???", "&lt;b&gt;", "??", "?", "?", ""};
    for (size_t i = 0; i < HOSTILE; i++) {
        al_flame_text(out, sizeof out, hostile[i]);
        assert_string_equal(out, expected[i]);
    }
    al_flame_text(out, sizeof out, "\xc3\xa4\xe2\x80\xa6\xf0\x9f\x94\xa5"); // letters, three dots, an emoji stay
    assert_string_equal(out, "\xc3\xa4\xe2\x80\xa6\xf0\x9f\x94\xa5");
    assert_non_null(huge);
    memset(huge, 'x', 100000);
    huge[100000] = '\0';
    al_flame_text(out, sizeof out, huge);
    assert_in_range(strlen(out), AL_FLAME_TEXT - 5, AL_FLAME_TEXT - 1);
    assert_string_equal(out + strlen(out) - 4, "x\xe2\x80\xa6");
    al_flame_text(out, 6, "\xc3\xa4\xc3\xa4\xc3\xa4"); // never cut within a letter
    assert_string_equal(out, "\xc3\xa4\xe2\x80\xa6");
    free(huge);
}

static uint32_t count_of(const struct al_buf *b, const char *what) {
    uint32_t count = 0;
    for (const char *at = b->data; (at = strstr(at, what)); at++)
        count++;
    return count;
}

static void names_do_not_get_out(void **state) {
    (void)state;
    struct al_profile *p = of_names(hostile, HOSTILE);
    struct al_buf b = AL_BUF_INIT;
    assert_int_equal(al_flame_html(&b, p, &about), 0);
    assert_int_equal(count_of(&b, "<script"), 2);
    assert_int_equal(count_of(&b, "</script"), 2);
    assert_int_equal(count_of(&b, "<img"), 0);
    assert_int_equal(count_of(&b, "<!--"), 0);
    assert_int_equal(count_of(&b, "</title><script"), 0);
    assert_int_equal(count_of(&b, "\xe2\x80\xae"), 0);
    assert_non_null(strstr(b.data, al_flame_js_sha256));
    assert_non_null(strstr(b.data, "default-src 'none'"));
    al_buf_clear(&b);
    assert_int_equal(al_flame_svg(&b, p, &about), 0);
    assert_int_equal(count_of(&b, "<script"), 2);
    assert_int_equal(count_of(&b, "]]>"), 2); // that of the style and that of the script
    assert_int_equal(count_of(&b, "<img"), 0);
    al_buf_free(&b);
    al_profile_free(p);
}

// What is put between <script> and </script>, and into CDATA, ends neither.
static void the_script_can_be_embedded(void **state) {
    (void)state;
    static const char *const ends[] = {"</script", "<!--", "]]>", "\r"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        assert_null(strstr(al_flame_js, ends[i]));
    assert_null(strstr(al_flame_css, "</style"));
    assert_null(strstr(al_flame_css, "]]>"));
    assert_null(strstr(al_flame_css, "url("));
    assert_int_equal(strlen(al_flame_js_sha256), 44);
}

static double number(const struct al_json *n) {
    double value = -1;
    assert_true(al_json_number(n, &value));
    return value;
}

// Samples of all runs under `key` of the first track, and in *ret_in_rare of those in frame `rare`.
static double sum_of(const struct al_json_document *d, const char *key, double rare, double *ret_in_rare) {
    const struct al_json *root = al_json_root(d), *track = al_json_first(d, al_json_get(d, root, "tracks"));
    double sum = 0;
    *ret_in_rare = 0;
    for (const struct al_json *n = al_json_first(d, al_json_get(d, track, key)); n;) {
        double node = number(n), count;
        const struct al_json *at = al_json_first(d, al_json_get(d, root, "nodes"));
        for (double i = 0; i < 2 * node + 1; i++)
            at = al_json_next(d, at);
        n = al_json_next(d, al_json_next(d, n));
        count = number(n);
        sum += count;
        *ret_in_rare += number(at) == rare ? count : 0;
        n = al_json_next(d, al_json_next(d, n));
    }
    return sum;
}

static void data(void **state) {
    (void)state;
    struct al_profile *p = of_names(hostile, HOSTILE);
    struct al_buf b = AL_BUF_INIT;
    struct al_json_document d = {0};
    size_t at;
    double in_rare;
    assert_int_equal(al_flame_data(&b, p, &about, AL_FLAME_NODES, AL_FLAME_RUNS), 0);
    assert_int_equal(al_json_parse(b.data, b.len, &d, &at), 0);
    assert_true(sum_of(&d, "runs", p->frame_count, &in_rare) == HOSTILE * (HOSTILE + 1) / 2);
    assert_true(in_rare == 0);
    const struct al_json *root = al_json_root(&d), *facts = al_json_get(&d, root, "about");
    assert_true(number(al_json_get(&d, facts, "every")) == 1 && number(al_json_get(&d, facts, "rare")) == 0);
    assert_string_equal(al_json_text(al_json_get(&d, facts, "command")), about.command);
    assert_null(al_json_get(&d, al_json_first(&d, al_json_get(&d, root, "tracks")), "sums"));
    al_json_free(&d);
    al_buf_free(&b);
    al_profile_free(p);
}

// Of main and twelve leaves with 1 to 12 samples, seven nodes are kept: main and the six largest.
static void what_is_rare_is_put_together(void **state) {
    (void)state;
    struct al_profile *p = of_names(hostile, HOSTILE);
    struct al_buf b = AL_BUF_INIT;
    struct al_json_document d = {0};
    size_t at;
    double in_rare;
    assert_int_equal(al_flame_data(&b, p, &about, 7, 5), 0);
    assert_int_equal(al_json_parse(b.data, b.len, &d, &at), 0);
    assert_true(sum_of(&d, "sums", p->frame_count, &in_rare) == 78);
    assert_true(in_rare == 1 + 2 + 3 + 4 + 5 + 6);
    const struct al_json *facts = al_json_get(&d, al_json_root(&d), "about");
    assert_true(number(al_json_get(&d, facts, "rare")) == 21);
    assert_true(number(al_json_get(&d, facts, "every")) == 16); // 78 ticks in at most 5 runs
    assert_true(sum_of(&d, "runs", p->frame_count, &in_rare) == 5);
    al_json_free(&d);
    al_buf_free(&b);
    al_profile_free(p);
}

static void equal_ones_fill_the_room(void **state) {
    (void)state;
    struct al_profile *p = al_profile_new();
    struct al_buf b = AL_BUF_INIT;
    uint32_t track = track_of(p, "t"), root = al_profile_stack(p, AL_PROFILE_NONE, al_profile_frame(p, "main", "", 0));
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t stack = al_profile_stack(p, root, al_profile_frame(p, "f", "", (int32_t)i));
        assert_int_equal(al_profile_add(p, track, stack, i, AL_PROFILE_GIL), 0);
    }
    assert_int_equal(al_flame_data(&b, p, &about, 41, AL_FLAME_RUNS), 0);
    assert_non_null(strstr(b.data, "\"rare\":60}"));
    al_buf_free(&b);
    al_profile_free(p);
}

static void the_picture_is_bounded(void **state) {
    (void)state;
    struct al_profile *p = al_profile_new();
    struct al_buf b = AL_BUF_INIT;
    uint32_t track = track_of(p, "t"), tick = 0;
    for (uint32_t i = 0; i < 300; i++) { // 60000 nodes
        uint32_t at = AL_PROFILE_NONE;
        for (uint32_t depth = 0; depth < 200; depth++)
            at = al_profile_stack(p, at, al_profile_frame(p, "f", "x.py", (int32_t)i));
        assert_int_equal(al_profile_add(p, track, at, tick++, AL_PROFILE_GIL), 0);
    }
    assert_int_equal(al_flame_picture(&b, p, &about), 0);
    assert_in_range(count_of(&b, "<rect"), 1501, 3001); // 300 a row: the deepest rows are left out
    assert_non_null(strstr(b.data, "0.25 % or deeper than 6 are left out; alula 0"));
    al_buf_free(&b);
    al_profile_free(p);
    p = al_profile_new(); // without a sample
    assert_int_equal(al_flame_svg(&b, p, &about), 0);
    assert_int_equal(count_of(&b, "<rect"), 1);
    assert_null(strstr(b.data, "nan"));
    al_buf_free(&b);
    al_profile_free(p);
}

int al_test_flame(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text),
        cmocka_unit_test(names_do_not_get_out),
        cmocka_unit_test(the_script_can_be_embedded),
        cmocka_unit_test(data),
        cmocka_unit_test(what_is_rare_is_put_together),
        cmocka_unit_test(equal_ones_fill_the_room),
        cmocka_unit_test(the_picture_is_bounded),
    };
    return cmocka_run_group_tests_name("flame", tests, NULL, NULL);
}
