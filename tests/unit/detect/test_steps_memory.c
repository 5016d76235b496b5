// SPDX-License-Identifier: Apache-2.0
// What is said of a rank's memory: on the device, outside torch, on the host.
#include <stdlib.h>
#include <string.h>

#include "detect/allocator.h"
#include "detect/steps.h"
#include "world.h"

#define STEP_NS 500000000LL
#define NOW (1000 * STEP_NS)

struct job {
    struct al_tally tally;
    struct al_steps_rank rank;
    struct al_steps_view view;
    struct al_settings set;
    struct al_steps_verdict verdicts[AL_STEPS_VERDICTS];
    int64_t step;
};

static struct job *job_new(void) {
    struct job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    al_settings_default(&j->set);
    al_tally_init(&j->tally);
    al_tally_event(&j->tally, 1, AL_EVENT_HELLO, 1, -1, 2, 4);
    j->rank = (struct al_steps_rank){&j->tally, 2, 1002, 0, NULL};
    j->view = (struct al_steps_view){.ranks = &j->rank, .count = 1, .cpus = 16, .utilization_missing = "no driver"};
    return j;
}

static void event(struct job *j, uint16_t kind, int code, int32_t device, double a) {
    al_tally_event(&j->tally, NOW + j->step * STEP_NS, kind, (uint16_t)code, device, (int64_t)a, j->step);
}

static void step(struct job *j) {
    int64_t at = NOW + ++j->step * STEP_NS;
    al_tally_event(&j->tally, at, AL_EVENT_STEP, AL_STEP_DONE, -1, j->step, 4);
}

// GiB at the begin, MiB a step.
struct device {
    double allocated, allocated_step, reserved, reserved_step, used, used_step, inactive, retries_step;
    bool process; // the driver names the process
};

static void run_device(struct job *j, const struct device *d, int steps) {
    for (int i = 0; i < steps; i++) {
        double n = i * MIB;
        event(j, AL_EVENT_MEMORY, AL_ALLOCATOR_ALLOCATED, 0, d->allocated * GIB + d->allocated_step * n);
        event(j, AL_EVENT_MEMORY, AL_ALLOCATOR_RESERVED, 0, d->reserved * GIB + d->reserved_step * n);
        event(j, AL_EVENT_MEMORY, AL_ALLOCATOR_INACTIVE_SPLIT, 0, d->inactive * GIB);
        event(j, AL_EVENT_MEMORY, AL_ALLOCATOR_RETRIES, 0, d->retries_step * i);
        if (d->process)
            event(j, AL_EVENT_DRIVER, AL_DRIVER_PROCESS_USED, 0, d->used * GIB + d->used_step * n);
        event(j, AL_EVENT_DRIVER, AL_DRIVER_DEVICE_USED, 0, (d->used + 1) * GIB + d->used_step * n);
        event(j, AL_EVENT_DRIVER, AL_DRIVER_DEVICE_TOTAL, 0, 80 * GIB);
        step(j);
    }
}

static const struct al_steps_verdict *judge(struct job *j, const char *rule) {
    uint32_t count = al_steps_judge(&j->set, &j->view, j->verdicts, AL_STEPS_VERDICTS);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(j->verdicts[i].rule, rule) == 0)
            return &j->verdicts[i];
    fail_msg("no verdict of %s", rule);
    return NULL;
}

static void expect(struct job *j, const char *rule, const char *title) {
    const struct al_steps_verdict *v = judge(j, rule);
    assert_string_equal(v->finding.title, title);
    assert_int_equal(v->verdict, *title ? AL_VERDICT_FINDING : AL_VERDICT_QUIET);
}

static void test_kept_tensors_are_one_finding(void **unused) {
    (void)unused;
    struct job *j = job_new();
    // Reserved and the driver's figure follow; only the tensors are told.
    run_device(j, &(struct device){.allocated = 20, .allocated_step = 10, .reserved = 22, .reserved_step = 10, .used = 23,
                                   .used_step = 10, .process = true}, 200);
    expect(j, "allocated", "tensors are kept from step to step");
    expect(j, "outside_torch", "");
    const struct al_finding *f = &judge(j, "allocated")->finding;
    assert_non_null(strstr(f->message, "rank 2 cuda:0: allocated memory at its lowest grows by 10.0 MiB a step"));
    // 80 - 24 - 1.9 GiB free on the device and 2 GiB in the pool, 10 MiB in 0.5 s
    assert_non_null(strstr(f->message, "; the device is full in about 48 min at this rate"));
    assert_int_equal(f->level, AL_LEVEL_WARNING);
    free(j);
}

static void test_outside_torch(void **unused) {
    (void)unused;
    struct job *j = job_new();
    run_device(j, &(struct device){.allocated = 20, .reserved = 22, .used = 23, .used_step = 2, .process = true}, 200);
    expect(j, "allocated", "");
    expect(j, "outside_torch", "GPU memory grows outside torch");
    assert_int_equal(judge(j, "outside_torch")->finding.confidence, AL_CONFIDENCE_HIGH);
    free(j);
    j = job_new(); // in a container: by the device, an upper bound
    run_device(j, &(struct device){.allocated = 20, .reserved = 22, .used = 23, .used_step = 2}, 200);
    expect(j, "outside_torch", "GPU memory grows outside torch");
    assert_int_equal(judge(j, "outside_torch")->finding.confidence, AL_CONFIDENCE_LOW);
    assert_non_null(strstr(judge(j, "outside_torch")->finding.considered, "other processes on the device count too"));
    free(j);
    j = job_new(); // no driver
    for (int i = 0; i < 60; i++) {
        event(j, AL_EVENT_MEMORY, AL_ALLOCATOR_RESERVED, 0, GIB);
        step(j);
    }
    assert_int_equal(judge(j, "outside_torch")->verdict, AL_VERDICT_CANNOT_TELL);
    free(j);
}

static void test_readings_of_different_moments_are_not_compared(void **unused) {
    (void)unused;
    struct job *j = job_new();
    // The pool goes up and down between the driver's readings, more and more: nothing is outside.
    for (int i = 1; i < 200; i++) {
        event(j, AL_EVENT_MEMORY, AL_ALLOCATOR_RESERVED, 0, 10 * GIB + (i % 2 ? 0 : 100 * MIB * i));
        event(j, AL_EVENT_DRIVER, AL_DRIVER_PROCESS_USED, 0, 11 * GIB + 100 * MIB * i);
        event(j, AL_EVENT_MEMORY, AL_ALLOCATOR_ALLOCATED, 0, 5 * GIB);
        step(j);
    }
    assert_int_equal(j->tally.memory[0].outside.readings, 0);
    assert_int_equal(judge(j, "outside_torch")->verdict, AL_VERDICT_CANNOT_TELL);
    free(j);
}

static void test_fragmentation_needs_evidence(void **unused) {
    (void)unused;
    struct job *j = job_new();
    run_device(j, &(struct device){.allocated = 40, .reserved = 74, .used = 75, .inactive = 20, .retries_step = 1, .process = true}, 60);
    expect(j, "allocated", "the allocator's memory is fragmented");
    assert_non_null(strstr(judge(j, "allocated")->finding.advice, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
    free(j);
    j = job_new();
    run_device(j, &(struct device){.allocated = 70, .reserved = 74, .used = 75, .inactive = 0.5, .retries_step = 1, .process = true}, 60);
    expect(j, "allocated", "the allocator runs against the device's limit");
    assert_null(strstr(judge(j, "allocated")->finding.advice, "expandable_segments"));
    free(j);
    j = job_new(); // a full device whose GPU idles
    run_device(j, &(struct device){.allocated = 40, .reserved = 74, .used = 75, .inactive = 20, .process = true}, 60);
    expect(j, "allocated", "");
    j->view.utilization_known = true;
    j->view.utilization = 0.05;
    expect(j, "allocated", "pool reserved, idle");
    assert_int_equal(judge(j, "allocated")->finding.level, AL_LEVEL_INFO);
    free(j);
}

static void test_emptying_is_advised_by_phase(void **unused) {
    (void)unused;
    struct job *j = job_new();
    const struct device grows = {.allocated = 20, .reserved = 22, .reserved_step = 4, .used = 60, .process = true};
    run_device(j, &grows, 60);
    expect(j, "allocated", "the allocator's cache grows");
    assert_non_null(strstr(judge(j, "allocated")->finding.advice, "behind inference and between tasks"));
    j->tally.total.part_ns[AL_IN_EVALUATION] = 1;
    assert_non_null(strstr(judge(j, "allocated")->finding.advice, "behind each evaluation;"));
    j->tally.total.part_ns[AL_IN_ROLLOUT] = 1;
    assert_non_null(strstr(judge(j, "allocated")->finding.advice, "behind each rollout"));
    free(j);
}

static void allocator(struct job *j, const char *framework, const char *text, struct al_allocator *ret, char *advice) {
    al_tally_text(&j->tally, AL_TEXT_FRAMEWORK, framework, strlen(framework));
    al_tally_text(&j->tally, AL_TEXT_ALLOCATOR, text, strlen(text));
    al_allocator_of(&j->tally, ret);
    al_allocator_advise(ret, advice, 320);
}

static void test_advice_knows_the_settings(void **unused) {
    (void)unused;
    struct job *j = job_new();
    struct al_allocator a;
    char advice[320];
    allocator(j, "torch=2.13.0+cu128", "backend=native", &a, advice);
    assert_memory_equal(advice, "PYTORCH_ALLOC_CONF=expandable_segments:True, or", 47);
    allocator(j, "torch=2.8.0", "backend=native", &a, advice);
    assert_memory_equal(advice, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or", 52);
    allocator(j, "torch=2.8.0", "backend=native PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128", &a, advice);
    assert_true(a.expandable);
    assert_memory_equal(advice, "expandable_segments is on already", 33);
    allocator(j, "torch=2.10.1", "backend=native PYTORCH_ALLOC_CONF=expandable_segments:True", &a, advice);
    assert_true(a.expandable && strcmp(a.variable, "PYTORCH_ALLOC_CONF") == 0);
    allocator(j, "torch=2.8.0", "backend=native PYTORCH_ALLOC_CONF=expandable_segments:True", &a, advice); // not read by it
    assert_false(a.expandable);
    assert_non_null(strstr(advice, "PYTORCH_ALLOC_CONF is set but not read (this torch knows the old name only)"));
    allocator(j, "torch=2.13.0", "backend=native PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64 PYTORCH_ALLOC_CONF=expandable_segments:True",
              &a, advice);
    assert_non_null(strstr(advice, "add expandable_segments:True to PYTORCH_CUDA_ALLOC_CONF (now max_split_size_mb:64)"));
    assert_non_null(strstr(advice, "the other name goes first"));
    allocator(j, "torch=2.13.0", "backend=native PYTORCH_ALLOC_CONF=expandable_segments:True,expandable_segments:False", &a, advice);
    assert_false(a.expandable);
    allocator(j, "torch=2.13.0", "backend=cudaMallocAsync PYTORCH_ALLOC_CONF=backend:cudaMallocAsync", &a, advice);
    assert_true(a.async && !strstr(advice, "expandable_segments"));
    allocator(j, "", "", &a, advice);
    assert_false(a.known);
    allocator(j, "torch=2.", "PYTORCH_ALLOC_CONF= backend", &a, advice);
    assert_false(a.expandable);
    free(j);
}

static void host(struct job *j, double own, double workers) {
    event(j, AL_EVENT_HOST, AL_HOST_ANON, AL_HOST_AT_TICK, own);
    event(j, AL_EVENT_HOST, AL_HOST_WORKERS_ANON, AL_HOST_AT_TICK, workers);
    event(j, AL_EVENT_HOST, AL_HOST_CGROUP_ANON, AL_HOST_AT_TICK, own + workers);
    event(j, AL_EVENT_HOST, AL_HOST_LIMIT, AL_HOST_AT_TICK, 64 * GIB);
}

static void test_host(void **unused) {
    (void)unused;
    struct job *j = job_new();
    step(j);
    assert_int_equal(judge(j, "host")->verdict, AL_VERDICT_CANNOT_TELL);
    host(j, GIB, 0);
    assert_int_equal(judge(j, "host")->verdict, AL_VERDICT_TOO_LITTLE_DATA);
    for (int i = 0; i < 200; i++) {
        host(j, 2 * GIB + 1.0 * MIB * i, GIB);
        step(j);
    }
    expect(j, "host", "host memory grows from step to step");
    const struct al_finding *f = &judge(j, "host")->finding;
    assert_non_null(strstr(f->message, "rank 2: anonymous host memory grows by 1.0 MiB a step"));
    assert_non_null(strstr(f->message, "; the cgroup's limit is full in about"));
    for (int i = 0; i < 40; i++) // behind the last step the job lets go of it: no floor of training
        host(j, GIB / 4, GIB);
    expect(j, "host", "host memory grows from step to step");
    j->view.live = true;
    expect(j, "host", "host memory grows from step to step");
    free(j);
    j = job_new(); // in the first minute it may still be a beginning
    step(j);
    for (int i = 0; i < 100; i++) {
        host(j, 2 * GIB + 8.0 * MIB * i, GIB);
        step(j);
    }
    j->view.live = true;
    assert_int_equal(judge(j, "host")->verdict, AL_VERDICT_TOO_LITTLE_DATA);
    j->view.live = false;
    expect(j, "host", "host memory grows from step to step");
    free(j);
    j = job_new();
    step(j);
    for (int i = 0; i < 200; i++) {
        host(j, 2 * GIB, GIB + 4.0 * MIB * i);
        step(j);
    }
    assert_non_null(strstr(judge(j, "host")->finding.message, "of its DataLoader workers grows by 4.0 MiB a step"));
    free(j);
    j = job_new();
    step(j);
    for (int i = 0; i < 200; i++) { // what a generational collector and batches of different sizes do
        host(j, 2 * GIB + 50 * MIB * (i * 37 % 11), GIB + 30 * MIB * (i % 7));
        step(j);
    }
    expect(j, "host", "");
    free(j);
}

static void epoch(struct job *j, int64_t number, double anon, double pss, double workers) {
    struct al_tally *t = &j->tally;
    int64_t at = NOW + j->step * STEP_NS;
    al_tally_event(t, at, AL_EVENT_HOST, AL_HOST_ANON, AL_HOST_AT_EPOCH, (int64_t)anon, number);
    if (pss > 0) {
        al_tally_event(t, at, AL_EVENT_HOST, AL_HOST_PSS_ANON, AL_HOST_AT_EPOCH, (int64_t)pss, number);
        al_tally_event(t, at, AL_EVENT_HOST, AL_HOST_WORKERS_PSS_ANON, AL_HOST_AT_EPOCH, (int64_t)workers, number);
    }
    step(j);
}

static void test_epochs(void **unused) {
    (void)unused;
    struct job *j = job_new();
    double growth;
    epoch(j, 0, 2 * GIB, 0, 0);
    epoch(j, 1, 4 * GIB, 0, 0); // warm-up
    epoch(j, 2, 4.4 * GIB, 0, 0);
    assert_int_equal(judge(j, "host")->verdict, AL_VERDICT_TOO_LITTLE_DATA);
    epoch(j, 3, 5 * GIB, 0, 0);
    expect(j, "host", "host memory grows from epoch to epoch");
    host(j, 6 * GIB, 0); // of the last epoch up to now: only when it is over
    j->view.live = true;
    assert_non_null(strstr(judge(j, "host")->finding.message, "in epoch 2 "));
    j->view.live = false;
    assert_non_null(strstr(judge(j, "host")->finding.message, "grew by 1.0 GiB in epoch 3 "));
    host(j, 5 * GIB, 0);
    assert_string_equal(judge(j, "host")->finding.message,
                        "rank 2: anonymous host memory grew by 614.4 MiB in epoch 2 (limit 512.0 MiB)");
    j->set.training_epoch_growth_above = GIB;
    assert_int_equal(judge(j, "host")->verdict, AL_VERDICT_TOO_LITTLE_DATA);
    assert_true(al_tally_epoch_growth(&j->tally.host, 0, &growth) && growth == 2 * GIB);
    free(j);
    j = job_new(); // shares by fork are counted once: workers that only look at their rank's pages cost nothing
    epoch(j, 0, 2 * GIB, 1 * GIB, 1 * GIB);
    epoch(j, 1, 2 * GIB, 1 * GIB, 1 * GIB);
    epoch(j, 2, 9 * GIB, 1 * GIB, 1.1 * GIB);
    assert_true(al_tally_epoch_growth(&j->tally.host, 1, &growth) && growth < 0.11 * GIB);
    free(j);
}

static void test_many_epochs_keep_the_first_and_the_last(void **unused) {
    (void)unused;
    struct job *j = job_new();
    double growth;
    for (int64_t i = 0; i < 500; i++)
        epoch(j, i, GIB + MIB * (double)i, 0, 0);
    const struct al_tally_host *h = &j->tally.host;
    assert_int_equal(h->epoch_count, AL_TALLY_EPOCHS);
    assert_int_equal(h->epoch[0].epoch, 0);
    assert_int_equal(h->epoch[AL_TALLY_EPOCHS - 1].epoch, 499);
    assert_int_equal(h->epochs_left_out, 500 - AL_TALLY_EPOCHS);
    assert_false(al_tally_epoch_growth(h, AL_TALLY_EPOCHS / 2 - 1, &growth)); // not between epochs that do not follow
    free(j);
}

int steps_memory_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_tensors_are_one_finding), cmocka_unit_test(test_outside_torch),
        cmocka_unit_test(test_readings_of_different_moments_are_not_compared),
        cmocka_unit_test(test_fragmentation_needs_evidence), cmocka_unit_test(test_emptying_is_advised_by_phase), cmocka_unit_test(test_advice_knows_the_settings),
        cmocka_unit_test(test_host), cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_many_epochs_keep_the_first_and_the_last)};
    return cmocka_run_group_tests_name("steps: memory", tests, NULL, NULL);
}
