// SPDX-License-Identifier: Apache-2.0
// libalula on a made-up device: two GPUs whose figures follow the virtual clock.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "lib/tracker.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

struct fake {
    struct al_device device;
    int step;         // counts the readings
    int same_until;   // readings up to this one carry the time of the first
    int lost_from;    // GPU 1 is lost from this reading on; 0 never
    int fails_from;   // the whole reading fails
    int *freed;
};

static void put(struct al_gpu *g, int64_t at, double util, double used) {
    g->m[AL_GPU_UTIL] = al_value_ok(util, at);
    g->m[AL_GPU_MEM_USED] = al_value_ok(used, at);
    g->m[AL_GPU_MEM_TOTAL] = al_value_ok(80 * GIB, at);
    g->m[AL_GPU_POWER] = al_value_ok(300.5, at);
    g->m[AL_GPU_TEMP] = al_value_none(AL_STATUS_DENIED);
}

static int fake_sample(struct al_device *d, struct al_snapshot *s, uint32_t groups, int64_t now_ns) {
    struct fake *f = (struct fake *)d;
    (void)groups;
    (void)now_ns;
    f->step++;
    if (f->fails_from && f->step >= f->fails_from)
        return AL_E_NODRIVER;
    int64_t at = (int64_t)(f->step <= f->same_until ? 1 : f->step) * AL_NS_PER_S;
    for (uint32_t i = 0; i < 2; i++) {
        struct al_gpu *g = al_snapshot_add_gpu(s);
        if (!g)
            return AL_E_NOMEM;
        g->info.index = i ? 5 : 2;
        (void)snprintf(g->info.uuid, sizeof g->info.uuid, "GPU-%u", i);
        (void)snprintf(g->info.name, sizeof g->info.name, "Fake %u", i);
        g->info.status = AL_STATUS_OK;
        if (i && f->lost_from && f->step >= f->lost_from) {
            g->info.status = AL_STATUS_LOST;
            continue;
        }
        put(g, at, 0.1 * f->step, (10.0 + f->step) * GIB);
    }
    return 0;
}

static void fake_free(struct al_device *d) {
    struct fake *f = (struct fake *)d;
    ++*f->freed;
    free(f);
}

static const struct al_device_ops fake_ops = {.name = "fake", .sample = fake_sample, .free = fake_free};
static int freed;

static struct fake *new_fake(void) {
    struct fake *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->device.ops = &fake_ops;
    f->freed = &freed;
    freed = 0;
    return f;
}

static alula_tracker *open_fake(struct fake *f, unsigned window_size) {
    struct al_clock clock;
    alula_tracker *t = NULL;
    al_clock_virtual(&clock, 0, 1700000000 * AL_NS_PER_S, 0);
    assert_int_equal(al_lib_tracker_open(&f->device, &clock, NULL, window_size, &t), 0);
    assert_non_null(t);
    return t;
}

static void samples_carry_numbers_and_statuses(void **state) {
    (void)state;
    alula_tracker *t = open_fake(new_fake(), 120);
    struct alula_sample s[3] = {{.size = sizeof s[0]}, {0}, {.size = 77}};
    assert_int_equal(alula_tracker_device_count(t), 2);
    assert_string_equal(alula_tracker_device_uuid(t, 1), "GPU-1");
    assert_string_equal(alula_tracker_device_name(t, 0), "Fake 0");
    assert_null(alula_tracker_device_uuid(t, 2));
    assert_int_equal(alula_tracker_sample_all(t, s, 3), 2); // the second reading: the first one looked around
    assert_int_equal(s[2].size, 77);
    assert_int_equal(s[0].gpu_id, 2);
    assert_int_equal(s[1].gpu_id, 5);
    assert_int_equal(s[1].size, sizeof s[0]);
    assert_true(s[0].timestamp == 1700000000);
    assert_true(fabs(s[0].gpu_util_percent - 20) < 1e-9);
    assert_true(s[0].mem_used_gb == 12 && s[0].mem_total_gb == 80 && s[0].mem_usage_ratio == 0.15);
    assert_true(s[0].power_watts == 300.5 && s[0].power_status == ALULA_STATUS_OK);
    assert_true(isnan(s[0].temperature_celsius) && s[0].temperature_status == ALULA_STATUS_DENIED);
    assert_true(isnan(s[0].pytorch_allocated_gb) && s[0].pytorch_status == ALULA_STATUS_UNSUPPORTED);
    char json[512];
    static const char expected[] =
        "{\"timestamp\": 1700000000.000000, \"gpu_id\": 2, \"gpu_util_percent\": 20, \"mem_used_gb\": 12.00, "
        "\"mem_total_gb\": 80.00, \"mem_usage_ratio\": 0.150, \"pytorch_allocated_gb\": null, "
        "\"pytorch_reserved_gb\": null}";
    assert_int_equal(alula_sample_json(&s[0], json, sizeof json), sizeof expected - 1);
    assert_string_equal(json, expected);
    assert_int_equal(alula_sample_json(&s[0], json, 12), sizeof expected - 1); // cut, as snprintf cuts
    assert_string_equal(json, "{\"timestamp");
    assert_null(alula_tracker_free(t));
    assert_int_equal(freed, 1);
    assert_null(alula_tracker_free(NULL));
}

static void window_is_what_was_sampled(void **state) {
    (void)state;
    alula_tracker *t = open_fake(new_fake(), 4);
    struct alula_sample s = {.size = sizeof s};
    struct alula_window w = {.size = sizeof w};
    double q, times[8], values[8];
    assert_int_equal(alula_tracker_window(t, 0, ALULA_MEM_USED_GB, &w), ALULA_E_AGAIN);
    for (int i = 0; i < 6; i++)
        assert_int_equal(alula_tracker_sample(t, &s), 0); // readings 2 to 7: 12 to 17 GiB
    assert_int_equal(alula_tracker_window(t, 0, ALULA_MEM_USED_GB, &w), 0);
    assert_int_equal(w.count, 4);
    assert_true(w.seconds == 3 && w.last == 17 && w.peak == 17 && w.min == 14 && w.mean == 15.5);
    assert_true(fabs(w.deviation - sqrt(1.25)) < 1e-12);
    assert_true(fabs(w.slope_per_second - 1) < 1e-9);
    assert_int_equal(alula_tracker_quantile(t, 0, ALULA_MEM_USED_GB, 0.5, &q), 0);
    assert_true(q == 15.5);
    assert_int_equal(alula_tracker_history(t, 0, ALULA_MEM_USED_GB, times, values, 8), 4);
    assert_true(values[0] == 14 && values[3] == 17 && times[3] - times[0] == 3);
    assert_int_equal(alula_tracker_history(t, 0, ALULA_MEM_USED_GB, NULL, values, 2), 2);
    assert_true(values[0] == 16 && values[1] == 17);
    assert_int_equal(alula_tracker_window(t, 0, ALULA_TEMPERATURE_CELSIUS, &w), ALULA_E_AGAIN);
    alula_tracker_free(t);
}

static void one_reading_counts_once(void **state) {
    (void)state;
    struct fake *f = new_fake();
    f->same_until = 4;
    alula_tracker *t = open_fake(f, 10);
    struct alula_sample s = {.size = sizeof s};
    struct alula_window w = {.size = sizeof w};
    for (int i = 0; i < 4; i++)
        assert_int_equal(alula_tracker_sample(t, &s), 0);
    assert_int_equal(alula_tracker_window(t, 0, ALULA_GPU_UTIL_PERCENT, &w), 0);
    assert_int_equal(w.count, 2);
    assert_true(isnan(w.slope_per_second));
    alula_tracker_free(t);
}

static void lost_gpu_gives_no_numbers(void **state) {
    (void)state;
    struct fake *f = new_fake();
    f->lost_from = 3;
    alula_tracker *t = open_fake(f, 10);
    struct alula_sample s[2] = {{.size = sizeof s[0]}};
    struct alula_window w = {.size = sizeof w};
    char json[512];
    for (int i = 0; i < 3; i++)
        assert_int_equal(alula_tracker_sample_all(t, s, 2), 2);
    assert_int_equal(s[0].util_status, ALULA_STATUS_OK);
    assert_int_equal(s[1].gpu_id, 5);
    assert_int_equal(s[1].util_status, ALULA_STATUS_LOST);
    assert_true(isnan(s[1].mem_used_gb));
    assert_true(alula_sample_json(&s[1], json, sizeof json) > 0);
    assert_non_null(strstr(json, "\"gpu_id\": 5, \"gpu_util_percent\": null, \"mem_used_gb\": null"));
    assert_int_equal(alula_tracker_window(t, 1, ALULA_MEM_USED_GB, &w), 0);
    assert_int_equal(w.count, 1);
    f->fails_from = 1;
    assert_int_equal(alula_tracker_sample(t, s), ALULA_E_NODRIVER);
    assert_string_equal(alula_error_message(), "no NVIDIA driver answers on this machine");
    alula_tracker_free(t);
}

static void wrong_calls_are_refused(void **state) {
    (void)state;
    alula_tracker *t = open_fake(new_fake(), 10);
    struct alula_sample s = {0};
    struct alula_window w = {.size = 8};
    double q;
    assert_int_equal(alula_tracker_sample(t, &s), ALULA_E_INVALID);
    assert_non_null(strstr(alula_error_message(), "alula_sample.size"));
    assert_int_equal(alula_tracker_sample(NULL, &s), ALULA_E_INVALID);
    assert_int_equal(alula_tracker_window(t, 0, ALULA_MEM_USED_GB, &w), ALULA_E_INVALID);
    w.size = sizeof w;
    s.size = sizeof s;
    assert_int_equal(alula_tracker_sample(t, &s), 0);
    assert_int_equal(alula_tracker_window(t, 2, ALULA_MEM_USED_GB, &w), ALULA_E_INVALID);
    assert_int_equal(alula_tracker_window(t, 0, (enum alula_metric)99, &w), ALULA_E_INVALID);
    assert_int_equal(alula_tracker_quantile(t, 0, ALULA_MEM_USED_GB, 1.5, &q), ALULA_E_INVALID);
    alula_tracker_free(t);
    alula_tracker *none = NULL;
    assert_int_equal(alula_tracker_new(0, 1, &none), ALULA_E_INVALID);
    assert_int_equal(alula_tracker_new_list("0,what", 120, &none), ALULA_E_INVALID);
    assert_null(none);
    assert_string_equal(alula_error_text(ALULA_E_TIMEOUT), "the driver did not answer in time");
}

// A caller built against a later header has a bigger struct; its end is left as it was.
static void bigger_structs_keep_their_tail(void **state) {
    (void)state;
    alula_tracker *t = open_fake(new_fake(), 10);
    struct { struct alula_sample s; double later; } big[2];
    memset(big, 0, sizeof big);
    big[0].s.size = sizeof big[0];
    big[0].later = big[1].later = 42;
    assert_int_equal(alula_tracker_sample_all(t, &big[0].s, 2), 2);
    assert_true(big[0].later == 42 && big[1].later == 42);
    assert_int_equal(big[1].s.gpu_id, 5);
    alula_tracker_free(t);
}

static void *sample_often(void *user) {
    struct alula_sample s = {.size = sizeof s};
    struct alula_window w = {.size = sizeof w};
    intptr_t failed = 0;
    for (int i = 0; i < 200; i++)
        failed += alula_tracker_sample(user, &s) != 0 || alula_tracker_window(user, 0, ALULA_MEM_USED_GB, &w) != 0;
    return (void *)failed;
}

static void threads_take_turns(void **state) {
    (void)state;
    alula_tracker *t = open_fake(new_fake(), 1000);
    struct alula_window w = {.size = sizeof w};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sample_often, t), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(alula_tracker_window(t, 0, ALULA_MEM_USED_GB, &w), 0);
    assert_int_equal(w.count, 800);
    alula_tracker_free(t);
}

static void forked_child_is_told(void **state) {
    (void)state;
    alula_tracker *t = open_fake(new_fake(), 10);
    struct alula_sample s = {.size = sizeof s};
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(alula_tracker_sample(t, &s) == ALULA_E_INVALID && strstr(alula_error_message(), "fork") ? 0 : 1);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(alula_tracker_sample(t, &s), 0);
    alula_tracker_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_carry_numbers_and_statuses),
        cmocka_unit_test(window_is_what_was_sampled),
        cmocka_unit_test(one_reading_counts_once),
        cmocka_unit_test(lost_gpu_gives_no_numbers),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(bigger_structs_keep_their_tail),
        cmocka_unit_test(threads_take_turns),
        cmocka_unit_test(forked_child_is_told),
    };
    return cmocka_run_group_tests_name("lib", tests, NULL, NULL);
}
