// SPDX-License-Identifier: Apache-2.0
// Stacks that were counted, as folded lines and for speedscope.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "export/profile.h"
#include "export/profile_parts.h"
#include "suites.h"

static uint32_t stack_of(struct al_profile *p, uint32_t parent, const char *name, const char *file, int32_t line) {
    return al_profile_stack(p, parent, al_profile_frame(p, name, file, line));
}

static uint32_t track_of(struct al_profile *p, int tid, const char *thread) {
    return al_profile_track(p, &(struct al_profile_who){7, tid, tid == 7 ? 0 : -1, "process 7", thread});
}

static const struct al_profile_about about = {
    .name = "process 7", .command = "python train.py", .exporter = "alula 0", .rate = 100, .seconds = 0.06, .start_ns = 1, .pid = 7};

// main: load load step - - load, with a second thread at step.
static struct al_profile *small(void) {
    struct al_profile *p = al_profile_new();
    assert_non_null(p);
    uint32_t root = stack_of(p, AL_PROFILE_NONE, "main", "/w/train.py", 9), load = stack_of(p, root, "load", "/w/data.py", 4),
             step = stack_of(p, root, "step", "/w/train.py", 5);
    uint32_t a = track_of(p, 7, "first"), b = track_of(p, 8, "second \"x\"");
    (void)track_of(p, 9, "never seen");
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(al_profile_add(p, a, load, i, AL_PROFILE_GIL), 0);
    assert_int_equal(al_profile_add(p, a, step, 2, AL_PROFILE_RUNNING), 0);
    assert_int_equal(al_profile_add(p, a, load, 5, AL_PROFILE_GIL), 0);
    assert_int_equal(al_profile_add(p, b, step, 5, AL_PROFILE_IDLE), 0);
    return p;
}

static void same_stack_has_one_number(void **state) {
    (void)state;
    struct al_profile *p = small();
    uint32_t root = stack_of(p, AL_PROFILE_NONE, "main", "/w/train.py", 9);
    assert_int_equal(root, 0);
    assert_int_equal(p->node_count, 3);
    assert_int_not_equal(al_profile_frame(p, "main", "/w/train.py", 10), al_profile_frame(p, "main", "/w/train.py", 9));
    assert_int_equal(al_profile_samples(p), 5);
    for (int i = 0; i < 5000; i++) // the indexes grow
        assert_int_equal(stack_of(p, root, "many", "f.py", i), 3 + i);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(stack_of(p, root, "many", "f.py", i), 3 + i);
    al_profile_free(p);
}

static void folded(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_profile *p = small();
    uint32_t odd = stack_of(p, AL_PROFILE_NONE, "a;b\n\x1b[2J", "", 0);
    odd = stack_of(p, odd, "", "x;y.py", 0);
    assert_int_equal(al_profile_add(p, 0, odd, 6, AL_PROFILE_GIL), 0);
    assert_int_equal(al_folded(&b, p, &about), 0);
    assert_string_equal(b.data, "main (/w/train.py:9);load (/w/data.py:4) 3\n"
                                "main (/w/train.py:9);step (/w/train.py:5) 2\n"
                                "a:b??[2J;? (x:y.py) 1\n");
    al_buf_free(&b);
    al_profile_free(p);
}

static double member(const struct al_json_document *d, const struct al_json *n, const char *key) {
    double value = -1;
    assert_true(al_json_number(al_json_get(d, n, key), &value));
    return value;
}

static void speedscope(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_json_document d = {0};
    struct al_profile *p = small();
    size_t at;
    assert_int_equal(al_speedscope(&b, p, &about), 0);
    assert_int_equal(al_json_parse(b.data, b.len, &d, &at), 0);
    const struct al_json *root = al_json_root(&d), *profile = al_json_first(&d, al_json_get(&d, root, "profiles"));
    assert_string_equal(al_json_text(al_json_get(&d, root, "$schema")), "https://www.speedscope.app/file-format-schema.json");
    assert_string_equal(al_json_text(al_json_get(&d, profile, "type")), "sampled");
    assert_true(member(&d, profile, "endValue") > 0.0399 && member(&d, profile, "endValue") < 0.0401);
    assert_non_null(strstr(b.data, "\"samples\":[\n[0,1],\n[0,2],\n[0,1]],\"weights\":[0.02,0.01,0.01]"));
    profile = al_json_next(&d, profile);
    assert_string_equal(al_json_text(al_json_get(&d, profile, "name")), "process 7, thread 8 second \"x\"");
    assert_null(al_json_next(&d, profile)); // a thread without samples has no profile
    al_json_free(&d);
    al_buf_free(&b);
    al_profile_free(p);
}

// Three of six samples came late and were left out: each of the others stands for twice the time.
static void late_samples_are_no_time_lost(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_profile *p = small();
    struct al_profile_about half = about;
    half.ticks = 3;
    half.late = 3;
    assert_true(al_profile_sample_seconds(&about) > 0.00999 && al_profile_sample_seconds(&about) < 0.01001); // nothing known but the rate
    assert_int_equal(al_speedscope(&b, p, &half), 0);
    assert_non_null(strstr(b.data, "\"weights\":[0.04,0.02,0.02]"));
    b.len = 0;
    assert_int_equal(al_flame_html(&b, p, &half), 0);
    assert_non_null(strstr(b.data, "\"sample_seconds\":0.02,"));
    al_buf_free(&b);
    al_profile_free(p);
}

// A program whose stacks never repeat: what is new beyond the bounds is counted where its known callers end.
static void memory_is_bounded(void **state) {
    (void)state;
    struct al_profile *p = al_profile_new();
    uint32_t track = track_of(p, 7, "t");
    p->node_most = 100;
    p->frame_most = 60;
    for (uint32_t i = 0; i < 5000; i++) {
        uint32_t stack = stack_of(p, AL_PROFILE_NONE, "main", "", 1);
        for (uint32_t d = 0; d < 5; d++)
            stack = stack_of(p, stack, "call", "", (int32_t)((i + d) % (d ? 200 : 3)));
        assert_int_not_equal(stack, AL_PROFILE_NONE);
        assert_int_equal(al_profile_add(p, track, stack, i, AL_PROFILE_GIL), 0);
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < p->node_count; i++) {
        total += p->nodes[i].count;
        assert_true(p->nodes[i].parent == AL_PROFILE_NONE || p->nodes[p->nodes[i].parent].frame != p->rest);
    }
    assert_int_equal(total, 5000);
    assert_true(p->node_count <= 201 && p->frame_count <= 61);
    assert_true(al_profile_further(p) > 4000 && al_profile_further(p) < 5000);
    al_profile_free(p);
}

static void empty(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_json_document d = {0};
    struct al_profile *p = al_profile_new();
    size_t at;
    assert_int_equal(al_folded(&b, p, &about), 0);
    assert_int_equal(b.len, 0);
    assert_int_equal(al_speedscope(&b, p, &about), 0);
    assert_int_equal(al_json_parse(b.data, b.len, &d, &at), 0);
    al_json_free(&d);
    al_buf_free(&b);
    al_profile_free(p);
}

static void order_is_given_up_for_memory_not_counts(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_profile *p = al_profile_new();
    uint32_t one = stack_of(p, AL_PROFILE_NONE, "one", "", 0), two = stack_of(p, AL_PROFILE_NONE, "two", "", 0);
    uint32_t track = track_of(p, 7, "t");
    p->run_most = 16;
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(al_profile_add(p, track, i % 2 ? two : one, i, AL_PROFILE_GIL), 0);
    uint64_t total = 0;
    for (uint32_t i = 0; i < p->tracks[0].count; i++)
        total += p->tracks[0].runs[i].count;
    assert_int_equal(total, 1000);
    assert_true(p->tracks[0].count <= 16);
    assert_int_equal(al_folded(&b, p, &about), 0);
    assert_string_equal(b.data, "one 500\ntwo 500\n");
    al_buf_free(&b);
    al_profile_free(p);
}

// Spans of one thread, as "name@begin-end" in the order of their ends.
static void spans_of(const struct al_json_document *d, double tid, char *out, size_t size) {
    const char *names[8];
    double begins[8], value;
    uint32_t depth = 0;
    *out = '\0';
    for (const struct al_json *e = al_json_first(d, al_json_get(d, al_json_root(d), "traceEvents")); e; e = al_json_next(d, e)) {
        const char *kind = al_json_text(al_json_get(d, e, "ph"));
        if (*kind == 'M' || member(d, e, "tid") != tid)
            continue;
        value = member(d, e, "ts");
        if (*kind == 'B') {
            assert_true(depth < 8);
            names[depth] = al_json_text(al_json_get(d, e, "name"));
            begins[depth++] = value;
            continue;
        }
        assert_true(depth-- > 0);
        size_t len = strlen(out);
        (void)snprintf(out + len, size - len, "%s@%g-%g ", names[depth], begins[depth], value);
    }
    assert_int_equal(depth, 0);
}

static void chrome(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_json_document d = {0};
    struct al_profile *p = small();
    char spans[256];
    size_t at;
    assert_int_equal(al_chrome(&b, p, &about), 0);
    assert_int_equal(al_json_parse(b.data, b.len, &d, &at), 0);
    spans_of(&d, 7, spans, sizeof spans); // ticks of 10000 us; nothing at ticks 3 and 4
    assert_string_equal(spans, "load@0-20000 step@20000-30000 main@0-30000 load@50000-60000 main@50000-60000 ");
    spans_of(&d, 8, spans, sizeof spans);
    assert_string_equal(spans, "step@50000-60000 main@50000-60000 ");
    assert_non_null(strstr(b.data, "\"thread_name\",\"pid\":7,\"tid\":8,\"args\":{\"name\":\"second \\\"x\\\"\"}"));
    assert_non_null(strstr(b.data, "\"process_sort_index\",\"pid\":7,\"args\":{\"sort_index\":0}"));
    al_json_free(&d);
    al_buf_free(&b);
    al_profile_free(p);
}

// Without their order, spans are still as long as they were seen.
static void chrome_without_order(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_json_document d = {0};
    struct al_profile *p = al_profile_new();
    uint32_t one = stack_of(p, AL_PROFILE_NONE, "one", "", 0), two = stack_of(p, AL_PROFILE_NONE, "two", "", 0);
    uint32_t track = track_of(p, 7, "t");
    char spans[256];
    size_t at;
    p->run_most = 8;
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(al_profile_add(p, track, i % 4 ? two : one, i, AL_PROFILE_GIL), 0);
    double from[2] = {-1, -1}, until[2] = {0}, lasted[2] = {0};
    assert_int_equal(al_chrome(&b, p, &about), 0);
    assert_int_equal(al_json_parse(b.data, b.len, &d, &at), 0);
    spans_of(&d, 7, spans, sizeof spans);
    for (char *span = strtok(spans, " "); span; span = strtok(NULL, " ")) {
        int which = span[0] == 't';
        assert_int_equal(sscanf(span + 3, "@%lf-%lf", &from[which], &until[which]), 2);
        lasted[which] += until[which] - from[which];
    }
    assert_true(lasted[0] > 99999 && lasted[0] < 100001 && lasted[1] > 299999 && lasted[1] < 300001);
    assert_non_null(strstr(b.data, "\"order\":\"given up"));
    al_json_free(&d);
    al_buf_free(&b);
    al_profile_free(p);
}

static void thinned(void **state) {
    (void)state;
    struct al_profile *p = al_profile_new();
    uint32_t one = stack_of(p, AL_PROFILE_NONE, "one", "", 0), two = stack_of(p, AL_PROFILE_NONE, "two", "", 0);
    uint32_t track = track_of(p, 7, "t"), seen = 0;
    for (uint32_t i = 0; i < 1024; i++)
        assert_int_equal(al_profile_add(p, track, i % 2 ? two : one, i, AL_PROFILE_GIL), 0);
    assert_int_equal(al_profile_thin_to(p, 1024), 1);
    assert_int_equal(al_profile_thin_to(p, 1023), 2);
    assert_int_equal(al_profile_thin_to(p, 100), 16);
    struct al_profile_thinned i = {0};
    for (; al_profile_thin(&p->tracks[0], 16, &i); seen++) {
        assert_int_equal(i.run.node, one); // tick 0, 16, 32 ...
        assert_int_equal(i.run.tick, seen);
        assert_int_equal(i.run.count, 1);
    }
    assert_int_equal(seen, 64);
    al_profile_free(p);
}

static void format_by_ending(void **state) {
    (void)state;
    static const char *const expected[][2] = {
        {"a.html", "flamegraph"}, {"a.svg", "svg"}, {"a.json", "speedscope"}, {"b/x.trace.json", "chrome"}, {"x.pb.gz", "pprof"},
        {"x.folded", "folded"}, {"x.txt", "folded"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_string_equal(al_profile_format_of_file(expected[i][0])->name, expected[i][1]);
    assert_null(al_profile_format_of_file("json"));
    assert_null(al_profile_format_of_file(""));
    assert_string_equal(al_profile_format_named("chrometrace")->name, "chrome");
    assert_string_equal(al_profile_format_named("html")->name, "flamegraph");
    assert_null(al_profile_format_named(""));
}

// Read by protobuf's own code in tests/integration/test_profile.py.
static void pprof_of_nothing_is_a_file(void **state) {
    (void)state;
    struct al_buf b = AL_BUF_INIT;
    struct al_profile *p = al_profile_new();
    assert_int_equal(al_pprof(&b, p, &about), 0);
    assert_true(b.len > 20);
    al_buf_free(&b);
    al_profile_free(p);
}

int al_test_profile(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_stack_has_one_number), cmocka_unit_test(folded),
        cmocka_unit_test(speedscope),                cmocka_unit_test(late_samples_are_no_time_lost),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(empty),
        cmocka_unit_test(order_is_given_up_for_memory_not_counts),
        cmocka_unit_test(chrome),
        cmocka_unit_test(chrome_without_order),
        cmocka_unit_test(thinned),
        cmocka_unit_test(format_by_ending),
        cmocka_unit_test(pprof_of_nothing_is_a_file),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
