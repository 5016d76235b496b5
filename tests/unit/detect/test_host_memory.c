// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "world.h"

#define JOB "job-1000-6000"

static void make(struct world *w)
{
    world_make(w, 1);
    world_job(w, 1);
    world_gpu(w, 0, AL_GPU_UTIL_MEAN, 0.9);
    world_host(w, 1000, AL_PROC_RSS_ANON, 8 * GIB);
    for (pid_t pid = 1100; pid < 1104; pid++) {
        world_proc(w, pid, AL_ROLE_WORKER, -1, 1000)->owner = 1000;
        world_host(w, pid, AL_PROC_RSS_ANON, 1 * GIB);
    }
}

// Adds bytes a second to a process for some seconds.
static void grow(struct world *w, pid_t pid, double per_second, int seconds)
{
    for (int i = 0; i < 2 * seconds; i++) {
        world_find(w, pid)->m[AL_PROC_RSS_ANON].num += per_second / 2;
        world_tick(w);
    }
}

static void test_steady_growth(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    grow(&w, 1102, 0, 130);
    assert_int_equal(w.count, 0);
    grow(&w, 1102, 8 * MIB, 60);
    assert_int_equal(w.count, 0); // 480 MiB
    grow(&w, 1102, 8 * MIB, 60);
    assert_int_equal(world_log_count(&w, "host_memory", AL_PHASE_BEGAN), 1);
    grow(&w, 1102, 8 * MIB, 60);
    const struct al_finding *f = world_open(&w, "host_memory");
    assert_string_equal(f->key, "host_memory/" JOB);
    assert_int_equal(f->level, AL_LEVEL_WARNING);
    assert_has(f->message, "job 1000: anonymous memory of its 5 processes rose");
    assert_has(f->message, "8.0 MiB/s; most of it pid 1102 (worker of rank 0), worker, by");
    assert_true(fabs(evidence(f, "anonymous_slope") - 8 * MIB) < 0.02 * MIB);
    assert_true(f->pid == 1102 && f->job == 1000 && f->gpu == -1);
    grow(&w, 1102, 0, 120);
    assert_null(world_open(&w, "host_memory"));
    world_free(&w);
}

static void test_time_to_the_cgroup_limit(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    world_host(&w, 1000, AL_PROC_CGROUP_LIMIT, 20 * GIB);
    world_host(&w, 1000, AL_PROC_CGROUP_USED, 16 * GIB);
    grow(&w, 1000, 10 * MIB, 125);
    const struct al_finding *f = world_open(&w, "host_memory");
    assert_non_null(f);
    assert_int_equal(f->level, AL_LEVEL_CRITICAL); // 4 GiB at 10 MiB/s: 7 minutes
    assert_true(fabs(evidence(f, "time_to_limit") - 409.6) < 4);
    assert_has(f->message, "cgroup limit reached in about 7 min");
    world_free(&w);
}

// Warm-up, a jump, noise, workers that come and go, shared memory, slow or little growth.
static void test_healthy_twins(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    for (uint32_t i = 0; i < w.s->proc_count; i++)
        w.s->procs[i].started_realtime_ns = w.s->realtime_ns - 10 * SEC;
    grow(&w, 1000, 50 * MIB, 100); // imports, model, first steps
    grow(&w, 1000, 0, 200);
    assert_int_equal(w.count, 0);
    world_find(&w, 1000)->m[AL_PROC_RSS_ANON].num += 6 * GIB; // a checkpoint buffer, once
    grow(&w, 1000, 0, 200);
    assert_int_equal(w.count, 0);
    for (int i = 0; i < 20; i++) { // a sawtooth of 2 GiB in 20 s
        grow(&w, 1100, 100 * MIB, 20);
        world_find(&w, 1100)->m[AL_PROC_RSS_ANON].num -= 2000 * MIB;
    }
    assert_int_equal(w.count, 0);
    grow(&w, 1101, 0.5 * MIB, 400); // under the slope
    assert_int_equal(w.count, 0);
    for (int epoch = 0; epoch < 6; epoch++) { // workers are made anew and fill up
        for (pid_t pid = 2000; pid < 2008; pid++) {
            world_proc(&w, pid + epoch * 10, AL_ROLE_WORKER, -1, 1000)->started_realtime_ns = w.s->realtime_ns;
            world_host(&w, pid + epoch * 10, AL_PROC_RSS_ANON, GIB);
        }
        grow(&w, 2000 + epoch * 10, 30 * MIB, 60);
        for (pid_t pid = 2000; pid < 2008; pid++)
            world_drop_proc(&w, pid + epoch * 10);
    }
    assert_int_equal(w.count, 0);
    world_free(&w);
}

// Up and down with a period near the window's length: the first climb may be told, the later ones are known.
static void test_a_long_sawtooth_is_learned(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    for (int i = 0; i < 14; i++) {
        grow(&w, 1100, 90 * MIB, 90);
        world_find(&w, 1100)->m[AL_PROC_RSS_ANON].num -= 90 * 90 * MIB;
    }
    assert_true(world_log_count(&w, "host_memory", AL_PHASE_BEGAN) <= 1);
    assert_null(world_open(&w, "host_memory"));
    world_free(&w);
}

static void test_noise_is_no_growth(void **unused)
{
    (void)unused;
    struct world w;
    uint32_t seed = 4711;
    make(&w);
    for (int i = 0; i < 4000; i++) {
        seed = seed * 1664525 + 1013904223;
        world_host(&w, 1100, AL_PROC_RSS_ANON, (2 + (seed >> 8) % 4096 / 1024.0) * GIB);
        world_tick(&w);
    }
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_too_little_and_cannot_tell(void **unused)
{
    (void)unused;
    struct world w;
    char why[160];
    make(&w);
    grow(&w, 1000, 50 * MIB, 60);
    assert_int_equal(world_verdict(&w, "host_memory", JOB, why, sizeof why), AL_VERDICT_TOO_LITTLE_DATA);
    world_find(&w, 1100)->m[AL_PROC_RSS_ANON].status = AL_STATUS_DENIED;
    grow(&w, 1000, 50 * MIB, 120);
    assert_int_equal(w.count, 0);
    assert_cannot(&w, "host_memory", JOB, "could not be read");
    world_free(&w);
}

// Processes that grow up one after the other, or leave, change the sum: that is no growth.
static void test_the_sum_starts_anew_with_its_processes(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    for (pid_t pid = 1100; pid < 1104; pid++)
        world_find(&w, pid)->started_realtime_ns = w.s->realtime_ns - 90 * SEC + (pid - 1100) * 20 * SEC;
    grow(&w, 1000, 0, 240);
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_cgroup_agrees(void **unused)
{
    (void)unused;
    struct world w;
    make(&w);
    world_proc(&w, 9000, AL_ROLE_OTHER, -1, 9000); // not of the job
    world_host(&w, 9000, AL_PROC_RSS_ANON, 500 * GIB);
    world_host(&w, 1000, AL_PROC_CGROUP_ANON, 10 * GIB);
    for (int i = 0; i < 250; i++) {
        world_find(&w, 1000)->m[AL_PROC_CGROUP_ANON].num += 5 * MIB;
        world_find(&w, 1000)->m[AL_PROC_RSS_ANON].num += 5 * MIB;
        world_tick(&w);
    }
    const struct al_finding *f = world_open(&w, "host_memory");
    assert_non_null(f);
    assert_int_equal(f->confidence, AL_CONFIDENCE_MEDIUM);
    assert_true(fabs(evidence(f, "cgroup_anonymous_slope") - 10 * MIB) < 0.1 * MIB);
    assert_true(evidence(f, "anonymous_memory_bytes") < 20 * GIB);
    assert_has(f->message, "end of the machine's available memory reached in about");
    world_free(&w);
}

int host_memory_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady_growth),
        cmocka_unit_test(test_time_to_the_cgroup_limit),
        cmocka_unit_test(test_healthy_twins),
        cmocka_unit_test(test_too_little_and_cannot_tell),
        cmocka_unit_test(test_a_long_sawtooth_is_learned),
        cmocka_unit_test(test_noise_is_no_growth),
        cmocka_unit_test(test_the_sum_starts_anew_with_its_processes),
        cmocka_unit_test(test_cgroup_agrees),
    };
    return cmocka_run_group_tests_name("host_memory", tests, NULL, NULL);
}
