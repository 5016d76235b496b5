// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "world.h"

static void low(struct world *w, uint32_t gpu, double util)
{
    world_gpu(w, gpu, AL_GPU_UTIL_MEAN, util);
}

static void test_fifth_low_tick_fires(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.95);
    world_ticks(&w, 20);
    low(&w, 0, 0.062);
    world_ticks(&w, 4);
    assert_int_equal(w.count, 0);
    world_tick(&w);
    assert_int_equal(w.count, 1);
    const struct al_finding *f = &w.log[0];
    assert_string_equal(f->rule, "inefficient");
    assert_string_equal(f->key, "inefficient/GPU-0");
    assert_int_equal(f->phase, AL_PHASE_BEGAN);
    assert_int_equal(f->level, AL_LEVEL_INFO);
    assert_int_equal(f->confidence, AL_CONFIDENCE_HIGH);
    assert_string_equal(f->message, "GPU 0: 6.2 % utilisation over 2.5 s (5 ticks under 20.0 %) while pid 1000 rank 0 "
                                    "holds 30.0 GiB; no I/O wait (0.0 %)");
    assert_true(f->pid == 1000 && f->job == 1000 && f->gpu == 0 && f->gpu_index == 0);
    assert_true(fabs(evidence(f, "utilization_mean_ratio") - 0.062) < 1e-12);
    assert_true(fabs(evidence(f, "power_share_of_limit") - 75.0 / 700) < 1e-12);
    assert_true(f->began_ns == w.s->monotonic_ns && f->ended_ns == 0 && f->advice[0]);
    world_free(&w);
}

static void test_warning_then_end_with_hysteresis(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.05);
    world_ticks(&w, 20); // 10 s
    assert_int_equal(w.count, 2);
    assert_int_equal(w.log[1].phase, AL_PHASE_UPDATED);
    assert_int_equal(w.log[1].level, AL_LEVEL_WARNING);
    low(&w, 0, 0.25); // between the limits: goes on
    world_ticks(&w, 10);
    assert_non_null(world_open(&w, "inefficient"));
    low(&w, 0, 0.90);
    world_ticks(&w, 2);
    assert_non_null(world_open(&w, "inefficient"));
    world_tick(&w);
    assert_null(world_open(&w, "inefficient"));
    const struct al_finding *f = world_last(&w, "inefficient");
    assert_int_equal(f->phase, AL_PHASE_ENDED);
    assert_true(f->ended_ns == w.s->monotonic_ns);
    assert_true(f->ended_ns > f->began_ns);
    world_free(&w);
}

static void test_updates_at_most_each_10_s(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.05);
    world_ticks(&w, 125);
    // began at 2.5 s, warning at 10 s, then each 10 s until 62.5 s
    assert_int_equal(world_log_count(&w, "inefficient", AL_PHASE_BEGAN), 1);
    assert_int_equal(world_log_count(&w, "inefficient", AL_PHASE_UPDATED), 6);
    world_free(&w);
}

// The healthy twins: nothing may be said.
static void test_healthy_twins(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 2);
    world_job(&w, 1);        // GPU 1 is idle without a process
    low(&w, 0, 0.93);
    world_ticks(&w, 40);
    for (int i = 0; i < 10; i++) { // a pause of four ticks now and then: logging
        low(&w, 0, 0.0);
        world_ticks(&w, 4);
        low(&w, 0, 0.9);
        world_ticks(&w, 4);
    }
    world_find(&w, 1000)->m[AL_PROC_WRITE_RATE].num = 800 * MIB; // a checkpoint
    low(&w, 0, 0.0);
    world_ticks(&w, 30);
    low(&w, 0, 0.9);
    world_ticks(&w, 4);
    world_find(&w, 1000)->m[AL_PROC_WRITE_RATE].num = 0;
    low(&w, 0, 0.0);
    for (int i = 0; i < 30; i++) { // loading a model
        w.s->gpus[0].m[AL_GPU_MEM_USED].num += 200 * MIB;
        world_tick(&w);
    }
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_graphics_alone_is_no_holder(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_proc(&w, 900, AL_ROLE_UNKNOWN, -1, 0);
    world_row(&w, 0, 900, 200 * MIB)->type = AL_PROC_GRAPHICS;
    world_ticks(&w, 40);
    assert_int_equal(w.count, 0);
    world_free(&w);
}

static void test_stale_ticks_neither_count_nor_reset(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.1);
    world_ticks(&w, 3);
    world_gpu_status(&w, 0, AL_GPU_UTIL_MEAN, AL_STATUS_STALE);
    world_ticks(&w, 6);
    assert_int_equal(w.count, 0);
    low(&w, 0, 0.1);
    world_tick(&w);
    assert_int_equal(w.count, 0);
    world_tick(&w);
    assert_int_equal(w.count, 1);
    world_gpu_status(&w, 0, AL_GPU_UTIL_MEAN, AL_STATUS_STALE);
    world_ticks(&w, 29); // told as unknown from 5 s, held for 10 s more
    assert_non_null(world_open(&w, "inefficient"));
    world_ticks(&w, 3);
    assert_null(world_open(&w, "inefficient"));
    assert_cannot(&w, "inefficient", "GPU-0", "old");
    world_free(&w);
}

static void test_short_ticks_are_pooled(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    w.s->interval_ns = SEC / 10;
    world_job(&w, 1);
    for (int i = 0; i < 24; i++) {
        low(&w, 0, i % 5 == 0 ? 0.5 : 0.05); // 14 % in the mean of each half second
        world_tick(&w);
        assert_int_equal(w.count, 0);
    }
    low(&w, 0, 0.05);
    world_tick(&w);
    assert_int_equal(w.count, 1);
    assert_true(fabs(evidence(&w.log[0], "utilization_mean_ratio") - 0.14) < 1e-9);
    world_free(&w);
}

static void test_starved_by_input(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    world_proc(&w, 1100, AL_ROLE_WORKER, -1, 1000)->owner = 1000;
    world_host(&w, 1100, AL_PROC_IO_WAIT, 0.62);
    w.s->node.m[AL_NODE_PSI_IO].num = 0.4;
    low(&w, 0, 0.08);
    world_ticks(&w, 5);
    assert_int_equal(w.count, 1);
    const struct al_finding *f = &w.log[0];
    assert_string_equal(f->rule, "starved");
    assert_string_equal(f->key, "starved/GPU-0");
    assert_string_equal(f->title, "starved by input");
    assert_has(f->message, "pid 1100 (worker of rank 0) waits for I/O 62.0 % of the time");
    assert_true(evidence(f, "io_wait_ratio") == 0.62);
    world_host(&w, 1100, AL_PROC_IO_WAIT, 0.03); // one calm reading does not change the cause
    world_ticks(&w, 8);
    assert_non_null(world_open(&w, "starved"));
    world_host(&w, 1100, AL_PROC_IO_WAIT, 0.0);
    w.s->node.m[AL_NODE_PSI_IO].num = 0;
    world_ticks(&w, 16);
    assert_null(world_open(&w, "starved"));
    assert_non_null(world_open(&w, "inefficient"));
    world_free(&w);
}

static void test_blocked_threads_need_pressure(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    struct al_proc *p = world_find(&w, 1000);
    p->m[AL_PROC_IO_WAIT] = al_value_none(AL_STATUS_UNSUPPORTED);
    p->m[AL_PROC_BLOCKED].num = 2;
    low(&w, 0, 0.02);
    world_ticks(&w, 5);
    assert_string_equal(w.log[0].rule, "inefficient"); // state D may be the driver
    w.s->node.m[AL_NODE_PSI_IO].num = 0.55;
    world_ticks(&w, 1);
    assert_non_null(world_open(&w, "starved"));
    assert_has(world_open(&w, "starved")->message, "2 of its threads are blocked and the node's I/O pressure is 55.0 %");
    world_free(&w);
}

// Without delay accounting blocked threads are all there is; once they are gone, input is no longer the cause.
static void test_starved_by_blocked_threads_passes(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.02);
    world_find(&w, 1000)->m[AL_PROC_IO_WAIT] = al_value_none(AL_STATUS_UNSUPPORTED);
    w.s->node.m[AL_NODE_PSI_IO] = al_value_ok(0.3, w.s->monotonic_ns);
    world_host(&w, 1000, AL_PROC_BLOCKED, 2);
    world_ticks(&w, 30);
    assert_non_null(world_open(&w, "starved"));
    world_host(&w, 1000, AL_PROC_BLOCKED, 0);
    world_ticks(&w, 40);
    assert_null(world_open(&w, "starved"));
    assert_non_null(world_open(&w, "inefficient"));
    world_free(&w);
}

// The next job on the GPU is not blamed for the one before it.
static void test_another_holder_starts_anew(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_proc(&w, 1000, AL_ROLE_RANK, 0, 1000);
    world_row(&w, 0, 1000, 20 * GIB);
    low(&w, 0, 0.02);
    world_ticks(&w, 30);
    assert_int_equal(world_open(&w, "inefficient")->pid, 1000);
    world_proc(&w, 2000, AL_ROLE_RANK, 0, 2000);
    world_row(&w, 0, 2000, 20 * GIB);
    world_ticks(&w, 2);
    world_drop_proc(&w, 1000);
    world_tick(&w);
    assert_null(world_open(&w, "inefficient"));
    world_ticks(&w, 30);
    assert_int_equal(world_open(&w, "inefficient")->pid, 2000);
    world_free(&w);
}

static void test_unknown_io_wait_is_said(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    struct al_proc *p = world_find(&w, 1000);
    p->m[AL_PROC_IO_WAIT] = p->m[AL_PROC_BLOCKED] = al_value_none(AL_STATUS_DENIED);
    w.s->node.m[AL_NODE_PSI_IO] = al_value_none(AL_STATUS_UNSUPPORTED);
    low(&w, 0, 0.02);
    world_ticks(&w, 5);
    assert_int_equal(w.count, 1);
    assert_string_equal(w.log[0].rule, "inefficient");
    assert_has(w.log[0].considered, "could not be read");
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_MEDIUM);
    assert_null(strstr(w.log[0].message, "I/O"));
    world_free(&w);
}

static void test_cannot_tell(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 5);
    for (uint32_t g = 0; g < 5; g++)
        low(&w, g, 0.02);
    world_row(&w, 0, 77, 5 * GIB); // not in /proc
    world_proc(&w, 78, AL_ROLE_UNKNOWN, -1, 0)->foreign = true;
    world_row(&w, 1, 78, 5 * GIB);
    w.s->gpus[2].process_status = AL_STATUS_UNSUPPORTED;
    w.s->gpus[3].info.mig_enabled = true;
    world_gpu_status(&w, 3, AL_GPU_UTIL_MEAN, AL_STATUS_UNSUPPORTED);
    world_gpu_status(&w, 4, AL_GPU_UTIL_MEAN, AL_STATUS_UNSUPPORTED);
    world_ticks(&w, 10);
    assert_null(world_open(&w, "inefficient"));
    assert_cannot(&w, "inefficient", "GPU-0", "not found in /proc");
    assert_cannot(&w, "inefficient", "GPU-1", "another pid namespace");
    assert_cannot(&w, "inefficient", "GPU-2", "process list could not be read");
    assert_cannot(&w, "inefficient", "GPU-3", "MIG");
    assert_cannot(&w, "inefficient", "GPU-4", "no utilisation sample");
    w.s->gpus[1].info.status = AL_STATUS_LOST;
    world_tick(&w);
    assert_cannot(&w, "inefficient", "GPU-1", "the GPU is lost");
    world_free(&w);
}

static void test_gpus_of_a_job_share_a_finding(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 4);
    world_job(&w, 4);
    for (uint32_t g = 0; g < 4; g++)
        low(&w, g, 0.95);
    world_ticks(&w, 4);
    for (int i = 0; i < 12; i++) { // they fall one after the other
        for (uint32_t g = 0; g < 4; g++)
            low(&w, g, i >= (int)g ? 0.04 : 0.95);
        world_tick(&w);
    }
    assert_int_equal(w.count, 1);
    assert_string_equal(w.log[0].key, "inefficient/job-1000-6000");
    assert_has(w.log[0].message, "GPUs 0,1,2,3 of one job: 4.0 % utilisation");
    assert_has(w.log[0].message, "while job 1000 holds memory on each");
    low(&w, 2, 0.95); // one works, and the others wait for it: still one finding
    world_ticks(&w, 40);
    assert_int_equal(world_log_count(&w, "inefficient", AL_PHASE_BEGAN), 1);
    assert_has(world_open(&w, "inefficient")->message, "GPUs 0,1,3 of one job: 4.0 % utilisation");
    world_free(&w);
}

static void test_one_low_gpu_of_a_job(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 2);
    world_job(&w, 2);
    low(&w, 0, 0.9);
    low(&w, 1, 0.1);
    world_ticks(&w, 5);
    assert_string_equal(w.log[0].key, "inefficient/GPU-1");
    world_free(&w);
}

static void test_process_end_ends_it(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.01);
    world_ticks(&w, 6);
    assert_non_null(world_open(&w, "inefficient"));
    world_drop_proc(&w, 1000);
    world_tick(&w);
    assert_null(world_open(&w, "inefficient"));
    world_ticks(&w, 3);
    world_job(&w, 1);
    world_ticks(&w, 4); // the count starts anew
    assert_null(world_open(&w, "inefficient"));
    world_free(&w);
}

static void test_startup_and_serving(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 2);
    world_job(&w, 1);
    world_find(&w, 1000)->started_realtime_ns = w.s->realtime_ns - 5 * SEC;
    world_proc(&w, 2000, AL_ROLE_ENGINE, -1, 2000);
    world_row(&w, 1, 2000, 120 * GIB);
    world_ticks(&w, 100); // to 55 s of age, no kernel seen
    assert_int_equal(world_log_count(&w, "inefficient", AL_PHASE_BEGAN), 1); // the engine
    assert_string_equal(world_open(&w, "inefficient")->gpu_uuid, "GPU-1");
    assert_int_equal(world_open(&w, "inefficient")->level, AL_LEVEL_INFO);
    assert_has(world_open(&w, "inefficient")->considered, "without requests");
    world_ticks(&w, 17); // and five low ticks behind it
    assert_int_equal(world_log_count(&w, "inefficient", AL_PHASE_BEGAN), 2);
    world_free(&w);
}

// A job that comes to the GPU while alula looks is starting, whatever its start time says (as in the recorded session).
static void test_a_holder_that_comes_is_starting(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_ticks(&w, 4);
    world_job(&w, 1);
    low(&w, 0, 0.04); // its first two kernels
    world_ticks(&w, 2);
    low(&w, 0, 0);
    world_ticks(&w, 100);
    assert_int_equal(w.count, 0);
    world_ticks(&w, 30);
    assert_int_equal(world_log_count(&w, "inefficient", AL_PHASE_BEGAN), 1);
    world_free(&w);
}

// Compiling and autotuning: kernels run, but the job was not busy yet. Waiting for input is another matter.
static void test_warming_up_is_no_warning(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    world_find(&w, 1000)->started_realtime_ns = w.s->realtime_ns - 5 * SEC;
    low(&w, 0, 0.05);
    world_ticks(&w, 60);
    assert_int_equal(world_open(&w, "inefficient")->level, AL_LEVEL_INFO);
    world_ticks(&w, 60);
    assert_int_equal(world_open(&w, "inefficient")->level, AL_LEVEL_WARNING);
    world_free(&w);

    world_make(&w, 1);
    world_job(&w, 1);
    world_find(&w, 1000)->started_realtime_ns = w.s->realtime_ns - 5 * SEC;
    world_host(&w, 1000, AL_PROC_IO_WAIT, 0.5);
    low(&w, 0, 0.05);
    world_ticks(&w, 30);
    assert_int_equal(world_open(&w, "starved")->level, AL_LEVEL_WARNING);
    world_free(&w);
}

static void test_a_phase_that_ends_leaves_no_finding(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    for (int idle_after = 0; idle_after < 5; idle_after += 4) {
        world_host(&w, 1000, AL_PROC_WRITE_RATE, 800 * MIB);
        low(&w, 0, 0);
        world_ticks(&w, 60);
        world_host(&w, 1000, AL_PROC_WRITE_RATE, 0);
        world_ticks(&w, idle_after);
        low(&w, 0, 0.95);
        world_ticks(&w, 20);
        assert_int_equal(w.count, 0);
    }
    world_free(&w);
}

// Busy again, though not yet for long enough to end: it gets no worse.
static void test_a_busy_tick_raises_no_level(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.05);
    world_ticks(&w, 19); // 9.5 s
    low(&w, 0, 0.9);
    world_ticks(&w, 2);
    assert_int_equal(world_open(&w, "inefficient")->level, AL_LEVEL_INFO);
    world_tick(&w);
    assert_int_equal(w.count, 2);
    assert_true(w.log[1].phase == AL_PHASE_ENDED && w.log[1].level == AL_LEVEL_INFO);
    world_free(&w);
}

// A checkpoint that begins while a finding is open is not held against the job.
static void test_a_checkpoint_makes_an_open_finding_unsure(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.05);
    world_ticks(&w, 8);
    world_host(&w, 1000, AL_PROC_WRITE_RATE, 800 * MIB);
    world_ticks(&w, 19);
    assert_int_equal(world_open(&w, "inefficient")->level, AL_LEVEL_INFO);
    world_ticks(&w, 6);
    assert_null(world_open(&w, "inefficient"));
    world_free(&w);
}

static void test_the_limit_itself_is_not_low(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    low(&w, 0, 0.20);
    world_ticks(&w, 20);
    assert_int_equal(w.count, 0);
    low(&w, 0, 0.1999);
    world_ticks(&w, 5);
    assert_int_equal(w.count, 1);
    world_free(&w);
}

// What the CPU side shows is named beside the finding, with what to do about it.
static void test_cpu_picture(void **unused)
{
    (void)unused;
    static const struct {
        double rank, worker;
        const char *considered, *advice;
    } cases[] = {
        {0.1, 0.98, "Its DataLoader workers use 98.0 % of a core each: preprocessing", "More DataLoader workers"},
        {1.0, 0.1, "The rank uses 100.0 % of a core", "many small kernels"},
        {0.02, 0.0, "Neither rank nor workers use the CPU much", "what it waits for"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world w;
        world_make(&w, 1);
        world_job(&w, 1);
        world_proc(&w, 1100, AL_ROLE_WORKER, -1, 1000);
        world_proc(&w, 1101, AL_ROLE_WORKER, -1, 1000);
        world_proc(&w, 3000, AL_ROLE_RANK, 0, 3000); // of another job
        world_host(&w, 3000, AL_PROC_CPU, 5);
        world_host(&w, 3000, AL_PROC_IO_WAIT, 1);
        world_host(&w, 1000, AL_PROC_CPU, cases[i].rank);
        world_host(&w, 1100, AL_PROC_CPU, cases[i].worker);
        world_host(&w, 1101, AL_PROC_CPU, cases[i].worker);
        world_ticks(&w, 5);
        assert_int_equal(w.count, 1);
        assert_string_equal(w.log[0].rule, "inefficient");
        assert_has(w.log[0].considered, cases[i].considered);
        assert_has(w.log[0].advice, cases[i].advice);
        assert_true(evidence(&w.log[0], "worker_cpu_ratio") == cases[i].worker);
        assert_true(evidence(&w.log[0], "rank_cpu_ratio") == cases[i].rank);
        world_free(&w);
    }
}

static void test_unread_cpu_is_not_idle(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    world_find(&w, 1000)->m[AL_PROC_CPU] = al_value_none(AL_STATUS_UNREAD);
    world_ticks(&w, 5);
    assert_null(strstr(w.log[0].considered, "use the CPU"));
    world_free(&w);
}

static void test_no_pressure_shows_no_io_wait(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    struct al_proc *p = world_find(&w, 1000);
    p->m[AL_PROC_IO_WAIT] = p->m[AL_PROC_BLOCKED] = al_value_none(AL_STATUS_UNSUPPORTED);
    w.s->node.m[AL_NODE_PSI_IO].num = 0.001;
    world_ticks(&w, 5);
    assert_has(w.log[0].message, "; no I/O wait seen");
    assert_int_equal(w.log[0].confidence, AL_CONFIDENCE_HIGH);
    world_free(&w);
}

static void test_gpu_shared_by_two_jobs(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 2);
    world_job(&w, 2);
    world_proc(&w, 4000, AL_ROLE_NOTEBOOK, -1, 4000);
    world_row(&w, 1, 4000, 2 * GIB);
    world_host(&w, 4000, AL_PROC_IO_WAIT, 0.5);
    world_ticks(&w, 5);
    assert_int_equal(w.count, 2); // not one of the job: GPU 1 is not the job's alone
    assert_string_equal(w.log[0].key, "inefficient/GPU-0");
    assert_string_equal(w.log[1].key, "starved/GPU-1");
    assert_int_equal(w.log[1].pid, 1001); // the one that holds most
    assert_has(w.log[1].message, "holds 30.0 GiB (1 more process on it); pid 4000 (python) waits for I/O 50.0 %");
    world_free(&w);
}

int inefficient_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifth_low_tick_fires),
        cmocka_unit_test(test_warning_then_end_with_hysteresis),
        cmocka_unit_test(test_updates_at_most_each_10_s),
        cmocka_unit_test(test_healthy_twins),
        cmocka_unit_test(test_graphics_alone_is_no_holder),
        cmocka_unit_test(test_stale_ticks_neither_count_nor_reset),
        cmocka_unit_test(test_short_ticks_are_pooled),
        cmocka_unit_test(test_starved_by_input),
        cmocka_unit_test(test_blocked_threads_need_pressure),
        cmocka_unit_test(test_starved_by_blocked_threads_passes),
        cmocka_unit_test(test_another_holder_starts_anew),
        cmocka_unit_test(test_unknown_io_wait_is_said),
        cmocka_unit_test(test_cannot_tell),
        cmocka_unit_test(test_gpus_of_a_job_share_a_finding),
        cmocka_unit_test(test_one_low_gpu_of_a_job),
        cmocka_unit_test(test_process_end_ends_it),
        cmocka_unit_test(test_startup_and_serving),
        cmocka_unit_test(test_a_holder_that_comes_is_starting), cmocka_unit_test(test_warming_up_is_no_warning),
        cmocka_unit_test(test_a_phase_that_ends_leaves_no_finding), cmocka_unit_test(test_a_busy_tick_raises_no_level),
        cmocka_unit_test(test_a_checkpoint_makes_an_open_finding_unsure),
        cmocka_unit_test(test_the_limit_itself_is_not_low),
        cmocka_unit_test(test_cpu_picture),
        cmocka_unit_test(test_unread_cpu_is_not_idle),
        cmocka_unit_test(test_no_pressure_shows_no_io_wait),
        cmocka_unit_test(test_gpu_shared_by_two_jobs),
    };
    return cmocka_run_group_tests_name("inefficient", tests, NULL, NULL);
}
