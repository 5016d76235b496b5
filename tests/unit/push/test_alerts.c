// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "push/alerts.h"
#include "suites.h"

static struct al_snapshot *snapshot;
static struct al_buf out;

static int set_up(void **state) {
    (void)state;
    snapshot = al_snapshot_new();
    return snapshot ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    al_buf_free(&out);
    snapshot = al_snapshot_free(snapshot);
    return 0;
}

static struct al_alerts *alerts(enum al_alert_format format, enum al_level least) {
    struct al_alerts *a;
    assert_int_equal(al_alerts_new(format, least, 60 * AL_NS_PER_S, &a), 0);
    return a;
}

static struct al_finding finding(const char *key, enum al_phase phase, enum al_level level) {
    struct al_finding f = {.rule = "memory", .phase = phase, .level = level, .gpu = -1, .gpu_index = -1};
    (void)snprintf(f.key, sizeof f.key, "%s", key);
    (void)snprintf(f.title, sizeof f.title, "title");
    return f;
}

// What is told of it at `seconds`: the word behind "phase":" of JSON, "" for nothing.
static const char *told(struct al_alerts *a, int seconds, struct al_finding f) {
    static char word[16];
    al_buf_clear(&out);
    snapshot->monotonic_ns = seconds * AL_NS_PER_S;
    assert_int_equal(al_alerts_finding(a, snapshot, &f, &out), 0);
    const char *at = out.len ? strstr(out.data, "\"phase\":\"") : NULL;
    word[0] = '\0';
    if (at)
        assert_int_equal(sscanf(at, "\"phase\":\"%15[a-z]", word), 1);
    assert_int_equal(out.len != 0, at != NULL);
    return word;
}

#define BEGAN AL_PHASE_BEGAN
#define UPDATED AL_PHASE_UPDATED
#define ENDED AL_PHASE_ENDED

static void only_news_is_told(void **state) {
    struct al_alerts *a = alerts(AL_ALERT_JSON, AL_LEVEL_WARNING);
    struct al_finding other = finding("k", UPDATED, AL_LEVEL_WARNING), all[4];
    (void)state;
    assert_string_equal(told(a, 1, finding("k", BEGAN, AL_LEVEL_INFO)), "");
    assert_string_equal(told(a, 2, finding("k", UPDATED, AL_LEVEL_WARNING)), "began"); // for who asked from warning on
    assert_string_equal(told(a, 3, finding("k", UPDATED, AL_LEVEL_WARNING)), "");
    assert_string_equal(told(a, 4, finding("k", UPDATED, AL_LEVEL_CRITICAL)), "updated");
    assert_string_equal(told(a, 5, finding("k", UPDATED, AL_LEVEL_INFO)), "updated"); // that it is better is news
    assert_string_equal(told(a, 6, finding("k", UPDATED, AL_LEVEL_WARNING)), "updated");
    strcpy(other.title, "another cause");
    assert_string_equal(told(a, 30, other), ""); // too soon after the last
    assert_string_equal(told(a, 70, other), "updated");
    assert_string_equal(told(a, 71, other), "");
    assert_int_equal(al_alerts_open(a, all, 4), 1);
    assert_string_equal(told(a, 80, finding("k", ENDED, AL_LEVEL_WARNING)), "ended");
    assert_string_equal(told(a, 81, finding("k", ENDED, AL_LEVEL_WARNING)), "");
    assert_int_equal(al_alerts_open(a, all, 4), 0);
    assert_string_equal(told(a, 90, finding("k", BEGAN, AL_LEVEL_WARNING)), "began");
    assert_string_equal(told(a, 91, finding("low", BEGAN, AL_LEVEL_INFO)), "");
    assert_string_equal(told(a, 92, finding("low", ENDED, AL_LEVEL_INFO)), ""); // its beginning was not told
    al_alerts_free(a);
}

static void there_is_a_bound(void **state) {
    struct al_alerts *a = alerts(AL_ALERT_JSON, AL_LEVEL_INFO);
    char key[16];
    (void)state;
    for (int i = 0; i < AL_ALERTS_MAX + 5; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        assert_string_equal(told(a, i, finding(key, BEGAN, AL_LEVEL_WARNING)), i < AL_ALERTS_MAX ? "began" : "");
    }
    assert_string_equal(told(a, 1000, finding("k3", ENDED, AL_LEVEL_WARNING)), "ended");
    assert_string_equal(told(a, 1001, finding("more", BEGAN, AL_LEVEL_WARNING)), "began");
    al_alerts_free(a);
}

static void a_restart_is_remembered(void **state) {
    struct al_alerts *a = alerts(AL_ALERT_JSON, AL_LEVEL_INFO), *b = alerts(AL_ALERT_JSON, AL_LEVEL_INFO);
    struct al_buf saved = AL_BUF_INIT;
    (void)state;
    (void)told(a, 1, finding("one", BEGAN, AL_LEVEL_WARNING));
    (void)told(a, 1, finding("two words", BEGAN, AL_LEVEL_WARNING));
    (void)told(a, 1, finding("over", BEGAN, AL_LEVEL_WARNING));
    (void)told(a, 2, finding("over", ENDED, AL_LEVEL_WARNING));
    al_alerts_save(a, 1000, &saved);
    assert_string_equal(saved.data, "1000\nwarning one\nwarning two words\n");
    al_alerts_load(b, 2000, saved.data);
    assert_string_equal(told(b, 1, finding("one", BEGAN, AL_LEVEL_WARNING)), "");
    assert_string_equal(told(b, 2, finding("one", UPDATED, AL_LEVEL_CRITICAL)), "updated");
    assert_string_equal(told(b, 3, finding("one", ENDED, AL_LEVEL_CRITICAL)), "ended");
    assert_string_equal(told(b, 4, finding("one", BEGAN, AL_LEVEL_WARNING)), "began"); // another occurrence
    assert_string_equal(told(b, 5, finding("two words", BEGAN, AL_LEVEL_CRITICAL)), "began"); // it got worse
    assert_string_equal(told(b, 5, finding("over", BEGAN, AL_LEVEL_WARNING)), "began");
    al_alerts_free(a);
    al_alerts_free(b);
    al_buf_free(&saved);
}

static void what_cannot_be_a_restart_is_not_believed(void **state) {
    static const char *const texts[] = {
        "", "x\nwarning k\n", "1000\nfatal k\n", "1000\nwarning\n", "1000\n\n\n", "99999999999999\nwarning k\n",
        "-700000000000\nwarning k\n", "1000",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct al_alerts *a = alerts(AL_ALERT_JSON, AL_LEVEL_INFO);
        char text[64];
        (void)snprintf(text, sizeof text, "%s", texts[i]);
        al_alerts_load(a, 2000, text);
        assert_string_equal(told(a, 1, finding("k", BEGAN, AL_LEVEL_WARNING)), "began");
        al_alerts_free(a);
    }
}

static void alertmanager_gets_ends_ahead(void **state) {
    struct al_alerts *a = alerts(AL_ALERT_ALERTMANAGER, AL_LEVEL_WARNING);
    struct al_finding f = finding("k\"", BEGAN, AL_LEVEL_WARNING);
    (void)state;
    snapshot->realtime_ns = 1795953600 * AL_NS_PER_S;
    f.began_realtime_ns = snapshot->realtime_ns;
    assert_int_equal(al_alerts_finding(a, snapshot, &f, &out), 0);
    assert_string_equal(out.data,
                        "[{\"labels\":{\"alertname\":\"AlulaFinding\",\"rule\":\"memory\",\"severity\":\"warning\",\"key\":\"k\\\"\"},"
                        "\"annotations\":{\"summary\":\"title\"},\"startsAt\":\"2026-11-29T12:00:00.000Z\","
                        "\"endsAt\":\"2026-11-29T12:04:00.000Z\"}]");
    al_buf_clear(&out);
    snapshot->realtime_ns += 60 * AL_NS_PER_S;
    al_alerts_repeat(a, snapshot, &out);
    assert_non_null(strstr(out.data, "\"endsAt\":\"2026-11-29T12:05:00.000Z\""));
    al_buf_clear(&out);
    f.phase = ENDED;
    assert_int_equal(al_alerts_finding(a, snapshot, &f, &out), 0);
    assert_non_null(strstr(out.data, "\"endsAt\":\"2026-11-29T12:01:00.000Z\"}]"));
    al_buf_clear(&out);
    al_alerts_repeat(a, snapshot, &out);
    assert_int_equal(out.len, 0);
    al_alerts_free(a);
}

int al_test_alerts(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_news_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_is_a_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restart_is_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_a_restart_is_not_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(alertmanager_gets_ends_ahead, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("alerts", tests, NULL, NULL);
}
