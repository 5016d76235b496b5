// SPDX-License-Identifier: Apache-2.0
// Rules on steps: what they say of tallies made by hand.
#include <stdlib.h>
#include <string.h>

#include "detect/steps.h"
#include "world.h"

#define MS 1000000LL

struct job {
    struct al_tally tally[4];
    struct al_steps_rank ranks[4];
    struct al_steps_view view;
    struct al_settings set;
    struct al_steps_verdict verdicts[AL_STEPS_VERDICTS];
    uint32_t count;
};

static struct job *job_new(uint32_t ranks) {
    struct job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    al_settings_default(&j->set);
    for (uint32_t i = 0; i < ranks; i++) {
        al_tally_init(&j->tally[i]);
        al_tally_event(&j->tally[i], 1, AL_EVENT_HELLO, 1, -1, i, ranks);
        j->ranks[i] = (struct al_steps_rank){&j->tally[i], i, 1000 + (pid_t)i, 0, NULL};
    }
    j->view = (struct al_steps_view){.ranks = j->ranks, .count = ranks, .cpus = 16, .utilization_missing = "no driver"};
    return j;
}

static void phase(struct al_tally *t, int64_t *at, enum al_phase_kind kind, int64_t ms) {
    al_tally_event(t, *at, AL_EVENT_PHASE_BEGIN, (uint16_t)kind, -1, 1, 0);
    *at += ms * MS;
    al_tally_event(t, *at, AL_EVENT_PHASE_END, (uint16_t)kind, -1, 1, 0);
}

// Steps of 100 ms with so much of data and of a collective.
static void steps(struct job *j, uint32_t rank, int n, int64_t data_ms, int64_t communication_ms) {
    struct al_tally *t = &j->tally[rank];
    int64_t at = t->cursor_ns ? t->cursor_ns : 1000 * MS;
    for (int i = 0; i < n; i++) {
        phase(t, &at, AL_IN_DATA, data_ms);
        phase(t, &at, AL_IN_COMMUNICATION, communication_ms);
        phase(t, &at, AL_IN_FORWARD, 100 - data_ms - communication_ms);
        al_tally_event(t, at, AL_EVENT_STEP, AL_STEP_DONE, -1, t->step + 1, 4);
    }
}

static const struct al_steps_verdict *judge(struct job *j, const char *rule) {
    j->count = al_steps_judge(&j->set, &j->view, j->verdicts, AL_STEPS_VERDICTS);
    for (uint32_t i = 0; i < j->count; i++)
        if (strcmp(j->verdicts[i].rule, rule) == 0)
            return &j->verdicts[i];
    fail_msg("no verdict of %s", rule);
    return NULL;
}

// What the last look at rank 0's stacks saw.
static struct al_look seen(enum al_look_kind kind, double share) {
    struct al_look l = {.pid = 1000, .line = {"main", "/home/u/train.py", "", 58}, .worker = {"collate_fn", "/home/u/data.py", "", 88}};
    l.m[AL_LOOK_SAMPLES] = al_value_ok(30, 1);
    l.m[AL_LOOK_LINE] = l.m[AL_LOOK_FUNCTION] = al_value_ok(share, 1);
    l.m[AL_LOOK_OTHER + (int)kind] = al_value_ok(share, 1);
    if (kind == AL_LOOK_KIND_OTHER)
        return l;
    l.m[AL_LOOK_OTHER] = al_value_ok(1 - share, 1);
    l.m[AL_LOOK_WORKERS] = al_value_ok(8, 1);
    l.m[AL_LOOK_WORKER_SAMPLES] = al_value_ok(240, 1);
    l.m[AL_LOOK_WORKER_LINE] = l.m[AL_LOOK_WORKER_FUNCTION] = al_value_ok(0.61, 1);
    return l;
}

static void test_the_stacks_name_the_line(void **unused) {
    (void)unused;
    struct job *j = job_new(1);
    struct al_look look = seen(AL_LOOK_KIND_LOADER, 0.87);
    steps(j, 0, 60, 60, 0);
    const struct al_steps_verdict *v = judge(j, "data_wait");
    assert_true(v->look); // one is wanted
    assert_null(strstr(v->finding.message, "samples"));
    j->ranks[0].look = &look;
    v = judge(j, "data_wait");
    assert_non_null(strstr(v->finding.message, "over 59 steps; the main thread waits for its DataLoader in 87 % of samples; 61 % of "
                                               "samples in collate_fn at data.py:88, in 8 DataLoader workers"));
    // Another part of the time was looked at: nothing is said of it
    look = seen(AL_LOOK_KIND_SAVE, 0.87);
    assert_null(strstr(judge(j, "data_wait")->finding.message, "samples"));
    free(j);
}

static void test_no_look_is_wanted_of_a_healthy_job(void **unused) {
    (void)unused;
    struct job *j = job_new(1);
    steps(j, 0, 80, 1, 0);
    j->view.live = j->view.utilization_known = true;
    j->view.utilization = 0.9;
    (void)judge(j, "healthy");
    for (uint32_t i = 0; i < j->count; i++)
        assert_false(j->verdicts[i].look);
    j->view.utilization = 0.6;
    assert_true(judge(j, "healthy")->look);
    free(j);
}

// More samples at the loader than time waiting for it: both numbers, and what that means.
static void test_preprocessing_and_not_loading(void **unused) {
    (void)unused;
    struct job *j = job_new(1);
    struct al_look look = seen(AL_LOOK_KIND_FETCH, 0.15);
    steps(j, 0, 60, 8, 0);
    j->view.utilization_known = true;
    j->view.utilization = 0.62;
    j->ranks[0].look = &look;
    const char *words = "15.0 % of samples have the main thread at its loader (_next_data), while by the marks 8.0 % of step time "
                        "waits for data: making batches takes the time (preprocessing";
    assert_non_null(strstr(judge(j, "data_wait")->finding.message, words));
    assert_non_null(strstr(judge(j, "healthy")->finding.message, words));
    look = seen(AL_LOOK_KIND_FETCH, 0.09);
    assert_string_equal(judge(j, "data_wait")->finding.message, "8.0 % of wall time waiting for data");
    free(j);
}

static void test_waiting_for_data(void **unused) {
    (void)unused;
    struct job *j = job_new(2);
    steps(j, 0, 1, 90, 0); // the first step waits for the workers' start: left out
    steps(j, 1, 1, 90, 0);
    steps(j, 0, 40, 14, 0);
    steps(j, 1, 40, 15, 0);
    assert_int_equal(judge(j, "data_wait")->verdict, AL_VERDICT_QUIET);
    steps(j, 1, 80, 30, 0);
    const struct al_steps_verdict *v = judge(j, "data_wait");
    assert_int_equal(v->verdict, AL_VERDICT_FINDING); // (40*14 + 40*15 + 80*30) / 16000
    assert_string_equal(v->finding.message, "22.2 % of wall time goes into waiting for the next batch (limit 15.0 %) over 120 "
                                            "steps; most in rank 1: 25.0 %");
    assert_non_null(strstr(v->finding.advice, "DataLoader(num_workers=7)")); // 16 cores, 2 ranks, less the rank's own
    assert_int_equal(v->finding.level, AL_LEVEL_WARNING);
    free(j);
}

static void test_no_advice_that_would_not_help(void **unused) {
    (void)unused;
    struct job *j = job_new(1);
    steps(j, 0, 40, 50, 0);
    al_tally_text(&j->tally[0], AL_TEXT_SOURCE, "transformers.Trainer", 20);
    assert_non_null(strstr(judge(j, "data_wait")->finding.advice, "TrainingArguments(dataloader_num_workers=15)"));
    j->ranks[0].workers = 15;
    const char *advice = judge(j, "data_wait")->finding.advice;
    assert_null(strstr(advice, "num_workers"));
    assert_non_null(strstr(advice, "more workers will not help"));
    assert_int_equal(al_steps_workers(2, 8), 1);
    assert_int_equal(al_steps_workers(128, 2), 16);
    assert_int_equal(al_steps_workers(16, 4), 3);
    free(j);
}

static void test_live_says_only_what_lasts(void **unused) {
    (void)unused;
    struct job *j = job_new(1);
    j->view.live = true;
    steps(j, 0, 31, 50, 0);
    assert_int_equal(judge(j, "data_wait")->verdict, AL_VERDICT_QUIET); // too few for a window
    steps(j, 0, 1, 50, 0);
    assert_int_equal(judge(j, "data_wait")->verdict, AL_VERDICT_FINDING);
    steps(j, 0, 300, 5, 0);
    steps(j, 0, 32, 50, 0); // a slow stretch: the run as a whole is below the limit
    assert_int_equal(judge(j, "data_wait")->verdict, AL_VERDICT_QUIET);
    struct job *near = job_new(1);
    near->view.live = true;
    steps(near, 0, 64, 16, 0);
    assert_int_equal(judge(near, "data_wait")->verdict, AL_VERDICT_QUIET); // 16 %: told at the end only
    near->view.live = false;
    assert_int_equal(judge(near, "data_wait")->verdict, AL_VERDICT_FINDING);
    free(near);
    free(j);
}

static void test_communication(void **unused) {
    (void)unused;
    struct al_steps_communication c;
    struct job *one = job_new(1), *two = job_new(2);
    steps(one, 0, 40, 0, 0);
    al_steps_communication(&one->view, &c);
    assert_true(c.known && c.ratio == 0);
    steps(two, 0, 40, 0, 0);
    steps(two, 1, 40, 0, 0);
    assert_int_equal(judge(two, "communication")->verdict, AL_VERDICT_CANNOT_TELL);
    steps(two, 0, 40, 0, 20);
    steps(two, 1, 40, 0, 20);
    const struct al_steps_verdict *v = judge(two, "communication");
    assert_int_equal(v->verdict, AL_VERDICT_FINDING); // 20 ms in half of the steps
    assert_null(strstr(v->finding.advice, "NCCL_IB_DISABLE=1"));
    two->set.training_communication_above = 0.2;
    assert_int_equal(judge(two, "communication")->verdict, AL_VERDICT_QUIET);
    // Two ranks of which the others run elsewhere: one here does not make it one process.
    two->view.count = 1;
    al_steps_communication(&two->view, &c);
    assert_true(c.ratio > 0);
    free(one);
    free(two);
}

static void test_healthy_point(void **unused) {
    (void)unused;
    struct job *j = job_new(1);
    steps(j, 0, 40, 4, 0);
    assert_int_equal(judge(j, "healthy")->verdict, AL_VERDICT_CANNOT_TELL);
    assert_string_equal(judge(j, "healthy")->finding.message, "GPU utilisation is missing: no driver");
    j->view.utilization_known = true;
    j->view.utilization = 0.80;
    assert_string_equal(judge(j, "healthy")->finding.message, "healthy: GPU utilisation 80.0 %, data 4.0 %, communication 0.0 %");
    j->view.utilization = 0.79;
    assert_memory_equal(judge(j, "healthy")->finding.message, "no bottleneck found, but", 24);
    j->view.utilization = 0.95;
    steps(j, 0, 400, 20, 0);
    assert_string_equal(judge(j, "healthy")->finding.message, "not healthy: see the finding");
    free(j);
}

// Steps of 100 ms with so much of a part, and what follows the step's end.
static void steps_with(struct job *j, int n, enum al_phase_kind kind, int64_t part_ms, int64_t between_ms) {
    struct al_tally *t = &j->tally[0];
    int64_t at = t->cursor_ns ? t->cursor_ns : 1000 * MS;
    for (int i = 0; i < n; i++) {
        phase(t, &at, AL_IN_DATA, 1);
        phase(t, &at, kind, part_ms);
        phase(t, &at, AL_IN_FORWARD, 99 - part_ms - between_ms);
        al_tally_event(t, at, AL_EVENT_STEP, AL_STEP_DONE, -1, t->step + 1, 4);
        at += between_ms * MS;
    }
}

static void use_gpu(struct job *j, double utilization) {
    al_tally_event(&j->tally[0], 2, AL_EVENT_MEMORY, AL_ALLOCATOR_ALLOCATED, 0, 1, 1);
    j->view.utilization_known = true;
    j->view.utilization = utilization;
}

static void test_checkpoints_logging_evaluation(void **unused) {
    (void)unused;
    static const struct {
        enum al_phase_kind kind; // "other" is what no phase names
        const char *rule;
        int level;
    } cases[] = {{AL_IN_SAVE, "save", AL_LEVEL_WARNING}, {AL_IN_LOG, "log", AL_LEVEL_WARNING},
                 {AL_IN_EVALUATION, "evaluation", AL_LEVEL_INFO}, {AL_IN_OTHER, "own_code", AL_LEVEL_WARNING}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *j = job_new(1);
        steps_with(j, 60, cases[i].kind, 60, 0);
        const struct al_steps_verdict *v = judge(j, cases[i].rule);
        assert_int_equal(v->verdict, AL_VERDICT_FINDING);
        assert_int_equal(v->finding.level, cases[i].level);
        assert_int_equal(judge(j, "data_wait")->verdict, AL_VERDICT_QUIET);
        assert_int_equal(judge(j, "between_steps")->verdict, AL_VERDICT_QUIET);
        struct job *twin = job_new(1);
        steps_with(twin, 60, cases[i].kind, 5, 0);
        assert_int_equal(judge(twin, cases[i].rule)->verdict, AL_VERDICT_QUIET);
        free(twin);
        free(j);
    }
}

static void test_time_between_steps_is_lost_only_if_the_gpu_idles(void **unused) {
    (void)unused;
    struct job *cpu = job_new(1);
    steps_with(cpu, 60, AL_IN_FORWARD, 0, 60);
    assert_int_equal(judge(cpu, "between_steps")->verdict, AL_VERDICT_FINDING); // no GPU to wait for
    al_tally_event(&cpu->tally[0], 2, AL_EVENT_MEMORY, AL_ALLOCATOR_ALLOCATED, 0, 1, 1);
    assert_int_equal(judge(cpu, "between_steps")->verdict, AL_VERDICT_CANNOT_TELL);
    use_gpu(cpu, 0.97); // the loss is read at each step's end: the host waits for a busy GPU
    assert_int_equal(judge(cpu, "between_steps")->verdict, AL_VERDICT_QUIET);
    assert_memory_equal(judge(cpu, "healthy")->finding.message, "healthy", 7);
    use_gpu(cpu, 0.4);
    assert_int_equal(judge(cpu, "between_steps")->verdict, AL_VERDICT_FINDING);
    assert_int_equal(judge(cpu, "host_bound")->verdict, AL_VERDICT_QUIET); // one finding for one cause
    free(cpu);
    struct job *starved = job_new(1); // the GPU idles for the data, and the host waits for its work at the step's end
    steps_with(starved, 60, AL_IN_DATA, 59, 30);
    use_gpu(starved, 0.35);
    assert_int_equal(judge(starved, "data_wait")->verdict, AL_VERDICT_FINDING);
    assert_int_equal(judge(starved, "between_steps")->verdict, AL_VERDICT_QUIET);
    free(starved);
}

static void test_host_bound_is_what_nothing_else_explains(void **unused) {
    (void)unused;
    struct job *j = job_new(1);
    steps_with(j, 60, AL_IN_BACKWARD, 40, 2);
    assert_int_equal(judge(j, "host_bound")->verdict, AL_VERDICT_QUIET); // no CUDA
    use_gpu(j, 0.35);
    assert_int_equal(judge(j, "host_bound")->verdict, AL_VERDICT_FINDING);
    j->view.live = true;
    assert_int_equal(judge(j, "host_bound")->verdict, AL_VERDICT_QUIET);
    j->view.live = false;
    use_gpu(j, 0.85);
    assert_int_equal(judge(j, "host_bound")->verdict, AL_VERDICT_QUIET);
    j->view.utilization_known = false;
    assert_int_equal(judge(j, "host_bound")->verdict, AL_VERDICT_CANNOT_TELL);
    free(j);
}

static void test_too_little_and_off(void **unused) {
    (void)unused;
    struct job *j = job_new(1);
    assert_int_equal(judge(j, "data_wait")->verdict, AL_VERDICT_TOO_LITTLE_DATA);
    j->view.count = 0;
    assert_int_equal(judge(j, "data_wait")->verdict, AL_VERDICT_CANNOT_TELL);
    j->view.count = 1;
    steps(j, 0, 20, 90, 0); // 19 steps of 100 ms are less than 2 s
    assert_int_equal(judge(j, "data_wait")->verdict, AL_VERDICT_TOO_LITTLE_DATA);
    steps(j, 0, 2, 90, 0);
    assert_int_equal(judge(j, "data_wait")->verdict, AL_VERDICT_FINDING);
    j->set.training_enabled = 0;
    assert_int_equal(al_steps_judge(&j->set, &j->view, j->verdicts, AL_STEPS_VERDICTS), 0);
    free(j);
}

static void allocate(struct job *j, int64_t step, double allocated, double reserved, double inactive, int64_t retries) {
    const int64_t values[] = {(int64_t)allocated, (int64_t)reserved, (int64_t)inactive, retries};
    static const uint16_t codes[] = {AL_ALLOCATOR_ALLOCATED, AL_ALLOCATOR_RESERVED, AL_ALLOCATOR_INACTIVE_SPLIT,
                                     AL_ALLOCATOR_RETRIES};
    for (int i = 0; i < 4; i++)
        al_tally_event(&j->tally[0], step, AL_EVENT_MEMORY, codes[i], 3, values[i], step);
}

static const struct al_finding *memory_of(struct job *j, double allocated, double reserved, double inactive, int retries) {
    al_tally_init(&j->tally[0]);
    for (int64_t step = 1; step <= 60; step++)
        allocate(j, step, GIB + allocated * (double)step, 2 * GIB + reserved * (double)step, inactive * (double)step,
                 retries * step);
    return &judge(j, "allocated")->finding;
}

static void test_allocated(void **unused) {
    (void)unused;
    struct job *j = job_new(1);
    assert_int_equal(judge(j, "allocated")->verdict, AL_VERDICT_CANNOT_TELL);
    assert_string_equal(memory_of(j, MIB, MIB, 0, 0)->title, "tensors are kept from step to step");
    assert_string_equal(judge(j, "allocated")->finding.key, "allocated/rank 0 cuda:3");
    assert_string_equal(memory_of(j, 0, MIB, 0, 0)->title, "the allocator's cache grows");
    assert_int_equal(judge(j, "allocated")->finding.level, AL_LEVEL_INFO);
    assert_string_equal(memory_of(j, 0, 2 * MIB, 2 * MIB, 1)->title, "the allocator's memory is fragmented");
    assert_string_equal(memory_of(j, 0, 0, 0, 0)->title, "");
    assert_int_equal(judge(j, "allocated")->verdict, AL_VERDICT_QUIET);
    assert_string_equal(memory_of(j, MIB / 4, 0, 0, 0)->title, ""); // 15 MiB in 60 steps
    free(j);
}

int steps_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waiting_for_data), cmocka_unit_test(test_the_stacks_name_the_line),
        cmocka_unit_test(test_no_look_is_wanted_of_a_healthy_job), cmocka_unit_test(test_preprocessing_and_not_loading), cmocka_unit_test(test_no_advice_that_would_not_help),
        cmocka_unit_test(test_live_says_only_what_lasts), cmocka_unit_test(test_communication),
        cmocka_unit_test(test_healthy_point), cmocka_unit_test(test_too_little_and_off), cmocka_unit_test(test_allocated),
        cmocka_unit_test(test_checkpoints_logging_evaluation),
        cmocka_unit_test(test_time_between_steps_is_lost_only_if_the_gpu_idles),
        cmocka_unit_test(test_host_bound_is_what_nothing_else_explains)};
    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
