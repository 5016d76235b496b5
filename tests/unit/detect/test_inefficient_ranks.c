// SPDX-License-Identifier: Apache-2.0
// Running inefficiently, when the job's ranks tell what they do.
#include <math.h>
#include <string.h>

#include "world.h"

static struct al_rank *rank_of(struct world *w, pid_t pid, int32_t number, uint32_t phase, bool training)
{
    struct al_rank *r = al_snapshot_rank(w->s, pid);
    if (!r)
        r = al_snapshot_add_rank(w->s);
    r->pid = pid;
    r->rank = number;
    r->job = 900; // the command; the host calls the job 1000
    r->m[AL_RANK_PHASE] = al_value_ok(phase, w->s->monotonic_ns);
    r->m[AL_RANK_TRAINING] = al_value_ok(training, w->s->monotonic_ns);
    return r;
}

static void idle(struct world *w, uint32_t gpus)
{
    for (uint32_t g = 0; g < gpus; g++)
        world_gpu(w, g, AL_GPU_UTIL_MEAN, 0.05);
}

static void assert_quiet(struct world *w, const char *entity, const char *why)
{
    char text[160] = "";
    world_ticks(w, 30);
    assert_null(world_open(w, "inefficient"));
    assert_int_equal(world_verdict(w, "inefficient", entity, text, sizeof text), AL_VERDICT_TOO_LITTLE_DATA);
    assert_string_equal(text, why);
}

static void test_phases_in_which_a_gpu_may_idle(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    idle(&w, 1);
    world_find(&w, 1000)->started_realtime_ns = w.s->realtime_ns - 600 * SEC;
    rank_of(&w, 1000, 0, AL_IN_OTHER, false);
    assert_quiet(&w, "GPU-0", "rank 0 has not begun to train");
    rank_of(&w, 1000, 0, AL_IN_EVALUATION, true);
    assert_quiet(&w, "GPU-0", "rank 0 is in an evaluation");
    rank_of(&w, 1000, -1, AL_IN_SAVE, true);
    assert_quiet(&w, "GPU-0", "pid 1000 writes a checkpoint");
    assert_int_equal(w.count, 0);
    rank_of(&w, 1000, 0, AL_IN_FORWARD, true); // idle time of before does not count now
    world_ticks(&w, 4);
    assert_int_equal(w.count, 0);
    world_ticks(&w, 2);
    assert_non_null(world_open(&w, "inefficient"));
    world_free(&w);
}

// It waits for the one that saves; a rank of another job explains nothing.
static void test_one_rank_speaks_for_its_job_alone(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 3);
    world_job(&w, 2);
    (void)world_proc(&w, 2000, AL_ROLE_RANK, 0, 2000);
    (void)world_row(&w, 2, 2000, 30 * GIB);
    idle(&w, 3);
    rank_of(&w, 1000, 0, AL_IN_SAVE, true);
    rank_of(&w, 1001, 1, AL_IN_COMMUNICATION, true);
    world_ticks(&w, 30);
    assert_null(world_key(&w, "inefficient/GPU-0"));
    assert_null(world_key(&w, "inefficient/GPU-1"));
    assert_non_null(world_key(&w, "inefficient/GPU-2"));
    assert_int_equal(world_open_count(&w), 1);
    assert_null(strstr(world_key(&w, "inefficient/GPU-2")->message, "rank 1"));
    world_free(&w);
}

static void test_a_finding_names_rank_and_step(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    idle(&w, 1);
    struct al_rank *r = rank_of(&w, 1000, 0, AL_IN_DATA, true);
    r->m[AL_RANK_STEP] = al_value_ok(120, w.s->monotonic_ns);
    r->m[AL_RANK_SHARE_DATA] = al_value_ok(0.62, w.s->monotonic_ns);
    world_ticks(&w, 6);
    const struct al_finding *f = world_open(&w, "inefficient");
    assert_non_null(f);
    assert_has(f->message, "; rank 0 is past step 120, in data");
    assert_has(f->considered, "Its steps wait for data 62.0 % of their time");
    assert_true(evidence(f, "step") == 120 && evidence(f, "data_ratio") == 0.62);
    r = rank_of(&w, 1000, 0, AL_RANK_BETWEEN, true);
    r->m[AL_RANK_SHARE_DATA].num = 0.01;
    world_ticks(&w, 40);
    f = world_open(&w, "inefficient");
    assert_has(f->message, "; rank 0 is past step 120, between steps");
    assert_null(strstr(f->considered, "wait for data"));
    world_free(&w);
}

// For ever is not "soon": what has not begun an hour after its start is told.
static void test_a_start_lasts_an_hour_at_most(void **unused)
{
    (void)unused;
    struct world w;
    world_make(&w, 1);
    world_job(&w, 1);
    idle(&w, 1);
    rank_of(&w, 1000, 0, AL_IN_OTHER, false);
    world_find(&w, 1000)->started_realtime_ns = w.s->realtime_ns - 3590 * SEC;
    world_ticks(&w, 18); // 9 s
    assert_null(world_open(&w, "inefficient"));
    world_ticks(&w, 12);
    assert_non_null(world_open(&w, "inefficient"));
    assert_has(world_open(&w, "inefficient")->message, "; rank 0 has not begun to train");
    world_free(&w);
}

int inefficient_ranks_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phases_in_which_a_gpu_may_idle), cmocka_unit_test(test_one_rank_speaks_for_its_job_alone),
        cmocka_unit_test(test_a_finding_names_rank_and_step), cmocka_unit_test(test_a_start_lasts_an_hour_at_most)};
    return cmocka_run_group_tests_name("inefficient with ranks", tests, NULL, NULL);
}
