// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "job/compare.h"
#include "suites.h"

static void side(struct al_side *ret, const char *text) {
    struct al_json_document d;
    assert_int_equal(al_json_parse(text, strlen(text), &d, NULL), 0);
    assert_true(al_side_read(&d, "x", ret));
    al_json_free(&d);
}

// One rank; times a step in seconds, errors of their means.
static void made(struct al_side *ret, double data, double forward, double error, int world, int samples, const char *gpu) {
    char text[2000];
    double step = data + forward;
    (void)snprintf(text, sizeof text,
                   "{\"train_steps_per_second\": %g, \"data_loading_time_ratio\": %g, \"gpu_peak_memory_allocated_gb\": 10,"
                   "\"alula\": {\"finished\": true, \"job_end\": \"exit status 0\","
                   "\"figures\": {\"train_steps_per_second\": {\"error\": %g}},"
                   "\"device\": {\"gpus\": [{\"name\": \"%s\", \"used_by_job\": true}]},"
                   "\"ranks\": [{\"rank\": 0, \"world_size\": %d, \"steps\": 100, \"samples\": %d,"
                   "\"host_timeline\": {\"wall_seconds\": %g, \"seconds\": {\"data\": %g, \"forward\": %g},"
                   "\"step_error_seconds\": %g, \"errors_seconds\": {\"data\": %g, \"forward\": %g}}}]}}",
                   1 / step, data / step, error / step / step, gpu, world, samples, 100 * step, 100 * data, 100 * forward,
                   error, error, error);
    side(ret, text);
}

static const struct al_compare_row *row_of(const struct al_compare_row *rows, uint32_t count, const char *key) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(rows[i].key, key) == 0)
            return &rows[i];
    fail_msg("no row %s", key);
    return NULL;
}

static void test_the_documents_own_table(void **state) {
    (void)state;
    static struct al_side a, b;
    struct al_compare_row rows[AL_COMPARE_ROWS];
    side(&a, "{\"gpu_avg_utilization_percent\":61.8,\"train_steps_per_second\":0.275,\"data_loading_time_ratio\":0.08}");
    side(&b, "{\"gpu_avg_utilization_percent\":86.5,\"train_steps_per_second\":0.392,\"data_loading_time_ratio\":0.03}");
    uint32_t count = al_compare(&a, &b, rows);
    const struct al_compare_row *r = row_of(rows, count, "train_steps_per_second");
    assert_true(fabs(r->ratio - 0.425) < 0.001 && r->change == AL_CHANGE_BETTER);
    r = row_of(rows, count, "data_loading_time_ratio");
    assert_true(fabs(r->ratio + 0.625) < 1e-9 && r->change == AL_CHANGE_BETTER);
    struct al_buf text = AL_BUF_INIT;
    al_compare_text(&text, &a, &b);
    assert_non_null(strstr(text.data, "steps a second          0.2750        0.3920        +42.5 %     better\n"));
    assert_non_null(strstr(text.data, "caution: how much steps differ within a run is not known"));
    al_buf_free(&text);
}

static void test_noise(void **state) {
    (void)state;
    static struct al_side a, b;
    struct al_compare_row rows[AL_COMPARE_ROWS];
    made(&a, 0.02, 0.08, 0.004, 1, 400, "H200");
    made(&b, 0.02, 0.07, 0.004, 1, 400, "H200"); // 10 ms of 100, each mean sure to 4
    uint32_t count = al_compare(&a, &b, rows);
    assert_int_equal(row_of(rows, count, "step_seconds")->change, AL_CHANGE_SAME);
    made(&a, 0.02, 0.08, 0.0004, 1, 400, "H200");
    made(&b, 0.02, 0.07, 0.0004, 1, 400, "H200");
    count = al_compare(&a, &b, rows);
    assert_int_equal(row_of(rows, count, "step_seconds")->change, AL_CHANGE_BETTER);
    assert_int_equal(row_of(rows, count, "forward")->change, AL_CHANGE_BETTER);
    assert_int_equal(row_of(rows, count, "data")->change, AL_CHANGE_SAME);
    assert_int_equal(row_of(rows, count, "data_loading_time_ratio")->change, AL_CHANGE_WORSE); // of a shorter step
    made(&b, 0.02, 0.0795, 0.00001, 1, 400, "H200"); // sure, and still less than what two runs of the same differ by
    assert_int_equal(row_of(rows, al_compare(&a, &b, rows), "step_seconds")->change, AL_CHANGE_SAME);
}

static void test_cautions(void **state) {
    (void)state;
    static struct al_side a, b;
    struct al_compare_row rows[AL_COMPARE_ROWS];
    char cautions[AL_COMPARE_CAUTIONS][400];
    made(&a, 0.02, 0.08, 0.0004, 1, 400, "H200");
    made(&b, 0.02, 0.05, 0.0004, 1, 400, "H200");
    assert_int_equal(al_compare_cautions(&a, &b, cautions), 0);
    made(&b, 0.02, 0.05, 0.0004, 1, 800, "H200");
    assert_int_equal(al_compare_cautions(&a, &b, cautions), 1);
    assert_non_null(strstr(cautions[0], "samples a step differ (4, 8)"));
    uint32_t count = al_compare(&a, &b, rows);
    assert_int_equal(row_of(rows, count, "step_seconds")->change, AL_CHANGE_INCOMPARABLE);
    assert_int_equal(row_of(rows, count, "forward")->change, AL_CHANGE_INCOMPARABLE);
    assert_int_equal(row_of(rows, count, "gpu_peak_memory_allocated_gb")->change, AL_CHANGE_SAME);
    made(&b, 0.02, 0.05, 0.0004, 2, 400, "A100");
    assert_int_equal(al_compare_cautions(&a, &b, cautions), 2);
    assert_non_null(strstr(cautions[0], "world sizes differ (1, 2)"));
    assert_non_null(strstr(cautions[1], "GPU models differ (H200, A100)"));
}

static void test_where_the_rest_goes(void **state) {
    (void)state;
    static struct al_side a;
    struct al_buf text = AL_BUF_INIT;
    made(&a, 0.02, 0.08, 0.0004, 1, 400, "H200");
    a.f[AL_SIDE_UTILIZATION] = (struct al_side_figure){true, 62, 1};
    al_compare_text(&text, &a, &a);
    assert_non_null(strstr(text.data, "a: a step is forward 80.0 %, data 20.0 %\n"));
    assert_non_null(strstr(text.data, "a: the GPUs were busy 62.0 % of the time; the other 38.0 %: waiting for data up to 20.0 %, "
                                      "within the step's own work 18.0 %"));
    al_buf_free(&text);
}

static void test_what_is_no_report(void **state) {
    (void)state;
    static const char *const none[] = {"{}", "[]", "1", "{\"alula\":{}}", "{\"loss\":1}"};
    static struct al_side s;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct al_json_document d;
        assert_int_equal(al_json_parse(none[i], strlen(none[i]), &d, NULL), 0);
        assert_false(al_side_read(&d, "x", &s));
        al_json_free(&d);
    }
}

int test_compare(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_documents_own_table), cmocka_unit_test(test_noise),
                                       cmocka_unit_test(test_cautions), cmocka_unit_test(test_where_the_rest_goes),
                                       cmocka_unit_test(test_what_is_no_report)};
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
