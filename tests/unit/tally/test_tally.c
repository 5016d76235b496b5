// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "suites.h"
#include "tally/tally.h"

#define MS 1000000LL

static void begin(struct al_tally *t, int64_t ms, enum al_phase_kind phase) {
    al_tally_event(t, ms * MS, AL_EVENT_PHASE_BEGIN, (uint16_t)phase, -1, 1, 0);
}

static void end(struct al_tally *t, int64_t ms, enum al_phase_kind phase) {
    al_tally_event(t, ms * MS, AL_EVENT_PHASE_END, (uint16_t)phase, -1, 1, 0);
}

static void step(struct al_tally *t, int64_t ms, enum al_step_state state, int64_t number, int64_t samples) {
    al_tally_event(t, ms * MS, AL_EVENT_STEP, (uint16_t)state, -1, number, samples);
}

static void assert_sums(const struct al_tally_span *s) {
    int64_t sum = 0;
    for (int i = 0; i < AL_PART_COUNT; i++)
        sum += s->part_ns[i];
    assert_int_equal(sum, s->wall_ns);
}

// 10 ms data, 20 forward with 5 of a collective inside, 4 nobody's, 30 backward, 6 optimizer; then 3 between steps.
static void one_step(struct al_tally *t, int64_t at, int64_t number) {
    begin(t, at, AL_IN_DATA);
    end(t, at + 10, AL_IN_DATA);
    begin(t, at + 10, AL_IN_FORWARD);
    begin(t, at + 12, AL_IN_COMMUNICATION);
    end(t, at + 17, AL_IN_COMMUNICATION);
    end(t, at + 30, AL_IN_FORWARD);
    begin(t, at + 34, AL_IN_BACKWARD);
    end(t, at + 64, AL_IN_BACKWARD);
    begin(t, at + 64, AL_IN_OPTIMIZER);
    end(t, at + 70, AL_IN_OPTIMIZER);
    step(t, at + 70, AL_STEP_DONE, number, 8);
}

static void test_time_belongs_to_the_innermost(void **unused) {
    (void)unused;
    struct al_tally *t = malloc(sizeof *t);
    al_tally_init(t);
    al_tally_event(t, 50 * MS, AL_EVENT_HELLO, 1, -1, 3, 8);
    one_step(t, 100, 1);
    one_step(t, 173, 2);
    assert_int_equal(t->rank, 3);
    assert_int_equal(t->world, 8);
    assert_int_equal(t->begin_ns, 100 * MS);
    assert_int_equal(t->step_end_ns, 243 * MS);
    assert_int_equal(t->done, 2);
    assert_int_equal(t->samples, 16);
    assert_false(t->samples_unknown);
    assert_int_equal(t->total.wall_ns, 143 * MS); // 70 and 73: the second one holds the time between them
    assert_int_equal(t->total.part_ns[AL_IN_DATA], 20 * MS);
    assert_int_equal(t->total.part_ns[AL_IN_FORWARD], 30 * MS);
    assert_int_equal(t->total.part_ns[AL_IN_COMMUNICATION], 10 * MS);
    assert_int_equal(t->total.part_ns[AL_IN_BACKWARD], 60 * MS);
    assert_int_equal(t->total.part_ns[AL_IN_OPTIMIZER], 12 * MS);
    assert_int_equal(t->total.part_ns[AL_PART_BETWEEN], 3 * MS);
    assert_int_equal(t->total.part_ns[AL_IN_OTHER], 8 * MS); // the 4 ms that no mark explains
    assert_int_equal(t->first.wall_ns, 70 * MS);
    assert_int_equal(t->shortest_ns, 70 * MS);
    assert_int_equal(t->longest_ns, 73 * MS);
    assert_sums(&t->total);
    free(t);
}

static void test_states_of_steps(void **unused) {
    (void)unused;
    struct al_tally *t = malloc(sizeof *t);
    al_tally_init(t);
    begin(t, 0 + 1, AL_IN_FORWARD);
    step(t, 11, AL_STEP_MICRO, 1, 2); // gradient accumulation: part of a step
    assert_int_equal(al_tally_steps(t), 0);
    step(t, 21, AL_STEP_MICRO, 1, 2);
    step(t, 31, AL_STEP_DONE, 1, 6); // all three of its batches
    step(t, 41, AL_STEP_SKIPPED, 2, 2);
    step(t, 51, AL_STEP_ABORTED, 3, 0);
    assert_int_equal(t->done, 1);
    assert_int_equal(t->micro, 2);
    assert_int_equal(t->skipped, 1);
    assert_int_equal(t->aborted, 1);
    assert_int_equal(al_tally_steps(t), 3);
    assert_int_equal(t->samples, 8);
    assert_false(t->samples_unknown);
    assert_int_equal(t->total.wall_ns, 50 * MS);
    assert_sums(&t->total);
    free(t);
}

static void test_evaluation_save_and_log_are_apart(void **unused) {
    (void)unused;
    struct al_tally *t = malloc(sizeof *t);
    al_tally_init(t);
    one_step(t, 100, 1);
    begin(t, 180, AL_IN_EVALUATION);
    begin(t, 180, AL_IN_DATA); // an evaluation's own loader and forward passes are evaluation
    end(t, 190, AL_IN_DATA);
    begin(t, 190, AL_IN_FORWARD);
    end(t, 240, AL_IN_FORWARD);
    end(t, 250, AL_IN_EVALUATION);
    begin(t, 250, AL_IN_SAVE);
    end(t, 290, AL_IN_SAVE);
    begin(t, 290, AL_IN_LOG);
    end(t, 295, AL_IN_LOG);
    one_step(t, 300, 2);
    assert_int_equal(t->total.part_ns[AL_IN_EVALUATION], 70 * MS);
    assert_int_equal(t->total.part_ns[AL_IN_SAVE], 40 * MS);
    assert_int_equal(t->total.part_ns[AL_IN_LOG], 5 * MS);
    assert_int_equal(t->total.part_ns[AL_PART_BETWEEN], 15 * MS);
    assert_int_equal(t->total.part_ns[AL_IN_DATA], 20 * MS);
    assert_int_equal(t->total.wall_ns, 270 * MS);
    assert_sums(&t->total);
    begin(t, 370, AL_IN_SAVE); // behind the last step: in no step
    end(t, 400, AL_IN_SAVE);
    assert_int_equal(t->total.wall_ns, 270 * MS);
    assert_int_equal(t->current.part_ns[AL_IN_SAVE], 30 * MS);
    free(t);
}

// Behind a phase's end that says so goes on a trainer's own loop, inside of a step, too.
static void test_a_trainers_own_loop_is_between(void **unused) {
    (void)unused;
    struct al_tally *t = malloc(sizeof *t);
    al_tally_init(t);
    begin(t, 100, AL_IN_FORWARD);
    al_tally_event(t, 110 * MS, AL_EVENT_PHASE_END, AL_IN_FORWARD, -1, 1, 1);
    begin(t, 130, AL_IN_BACKWARD);
    end(t, 140, AL_IN_BACKWARD);
    begin(t, 145, AL_IN_OPTIMIZER);
    end(t, 150, AL_IN_OPTIMIZER);
    step(t, 150, AL_STEP_DONE, 1, 1);
    assert_int_equal(t->total.part_ns[AL_PART_BETWEEN], 20 * MS);
    assert_int_equal(t->total.part_ns[AL_IN_OTHER], 5 * MS);
    assert_sums(&t->total);
    free(t);
}

static void test_lost_and_wild_records_do_no_harm(void **unused) {
    (void)unused;
    struct al_tally *t = malloc(sizeof *t);
    al_tally_init(t);
    one_step(t, 100, 1);
    end(t, 171, AL_IN_SAVE); // its begin was lost
    assert_int_equal(t->unmatched, 1);
    al_tally_lost(t, 1);
    begin(t, 172, AL_IN_DATA); // its end is lost
    begin(t, 182, AL_IN_DATA);
    end(t, 192, AL_IN_DATA);
    assert_int_equal(t->depth, 0);
    begin(t, 150, AL_IN_FORWARD); // back in time
    for (int i = 0; i < 100; i++)
        begin(t, 200, AL_IN_LOG + (i & 1));
    for (int i = 0; i < 300; i++)
        al_tally_event(t, INT64_MIN + i, (uint16_t)i, (uint16_t)(i * 7), i, INT64_MAX, INT64_MIN);
    step(t, 210, AL_STEP_DONE, 2, INT64_MAX);
    assert_true(t->depth <= AL_TALLY_DEPTH);
    assert_true(t->device_count <= AL_TALLY_DEVICES);
    assert_sums(&t->total);
    assert_int_equal(t->total.wall_ns, 110 * MS);
    free(t);
}

static void test_gpu_time_is_a_partition_of_its_own(void **unused) {
    (void)unused;
    struct al_tally *t = malloc(sizeof *t);
    double ratio;
    al_tally_init(t);
    assert_false(al_tally_gpu_ratio(t, &ratio));
    one_step(t, 100, 1);
    al_tally_event(t, 171 * MS, AL_EVENT_GPU_TIME, AL_IN_FORWARD, 0, 1, 14 * MS);
    al_tally_event(t, 171 * MS, AL_EVENT_GPU_TIME, AL_IN_BACKWARD, 0, 1, 21 * MS);
    assert_true(al_tally_gpu_ratio(t, &ratio));
    assert_true(ratio > 0.4999 && ratio < 0.5001); // 35 of 70 ms
    assert_int_equal(t->gpu_steps, 1);
    assert_int_equal(t->total.part_ns[AL_IN_FORWARD], 15 * MS);
    free(t);
}

static void test_allocator_and_texts(void **unused) {
    (void)unused;
    struct al_tally *t = malloc(sizeof *t);
    double value;
    static const char metrics[] = "{\"xtrain_runtime\": 7, \"train_runtime\": 12.5, \"train_steps_per_second\":-1e2}";
    al_tally_init(t);
    assert_false(al_tally_peak(t, &value));
    al_tally_event(t, 1, AL_EVENT_MEMORY, AL_ALLOCATOR_ALLOCATED_PEAK, 0, 5000, 1);
    al_tally_event(t, 2, AL_EVENT_MEMORY, AL_ALLOCATOR_ALLOCATED_PEAK, 1, 9000, 1);
    al_tally_event(t, 3, AL_EVENT_MEMORY, AL_ALLOCATOR_ALLOCATED_PEAK, 1, 8000, 2);
    al_tally_event(t, 4, AL_EVENT_MEMORY, AL_ALLOCATOR_ALLOCATED_PEAK, 1, -8000, 2);
    assert_true(al_tally_peak(t, &value));
    assert_true(value == 9000);
    assert_int_equal(t->device_count, 2);
    assert_int_equal(t->memory[1].last[AL_ALLOCATOR_ALLOCATED_PEAK], 8000);
    al_tally_text(t, AL_TEXT_METRICS, metrics, sizeof metrics - 1);
    assert_true(al_tally_metric(t, "train_runtime", &value) && value == 12.5);
    assert_true(al_tally_metric(t, "train_steps_per_second", &value) && value == -100);
    assert_false(al_tally_metric(t, "train_samples_per_second", &value));
    al_tally_text(t, AL_TEXT_ERROR, "Runtime\nError\033[2J", 17);
    assert_string_equal(t->text[AL_TEXT_ERROR], "Runtime?Error?[2J");
    al_tally_text(t, 99, "x", 1);
    free(t);
}

static void test_a_tally_is_a_row_of_the_snapshot(void **unused) {
    (void)unused;
    struct al_tally *t = malloc(sizeof *t);
    struct al_rank r = {.pid = 7, .job = 5};
    al_tally_init(t);
    al_tally_rank(t, &r);
    assert_int_equal(r.rank, -1);
    assert_int_equal(r.m[AL_RANK_TRAINING].status, AL_STATUS_UNREAD); // it said nothing yet
    al_tally_event(t, 50 * MS, AL_EVENT_HELLO, 1, -1, 3, 8);
    al_tally_text(t, AL_TEXT_SOURCE, "torch.optim hook", 16);
    al_tally_rank(t, &r);
    assert_int_equal(r.pid, 7);
    assert_int_equal(r.job, 5);
    assert_int_equal(r.rank, 3);
    assert_int_equal(r.world, 8);
    assert_string_equal(r.source, "torch.optim hook");
    assert_string_equal(al_rank_phase(&r), "starting");
    one_step(t, 100, 1);
    one_step(t, 173, 2);
    al_tally_event(t, 244 * MS, AL_EVENT_MEMORY, AL_ALLOCATOR_RESERVED, 0, 1000, 2);
    al_tally_event(t, 244 * MS, AL_EVENT_MEMORY, AL_ALLOCATOR_RESERVED, 1, 9000, 2);
    al_tally_rank(t, &r);
    assert_string_equal(al_rank_phase(&r), "between_steps");
    assert_true(r.m[AL_RANK_STEP].num == 2);
    assert_int_equal(r.m[AL_RANK_STEP].at_ns, 243 * MS);
    assert_true(r.m[AL_RANK_STEP_SECONDS].num == 0.0715);
    assert_true(r.m[AL_RANK_SHARE_DATA].num == 20.0 / 143);
    assert_true(r.m[AL_RANK_SHARE_BETWEEN].num == 3.0 / 143);
    assert_true(r.m[AL_RANK_SAMPLE_RATE].num == 16 / 0.143);
    assert_int_equal(r.device, 1); // the one that holds most
    assert_true(r.m[AL_RANK_RESERVED].num == 9000);
    assert_int_equal(r.m[AL_RANK_ALLOCATED].status, AL_STATUS_UNREAD);
    assert_int_equal(r.m[AL_RANK_EPOCH].status, AL_STATUS_UNREAD);
    begin(t, 250, AL_IN_EVALUATION);
    begin(t, 251, AL_IN_FORWARD);
    al_tally_rank(t, &r);
    assert_string_equal(al_rank_phase(&r), "evaluation"); // whatever runs inside it
    free(t);
}

int tally_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_belongs_to_the_innermost), cmocka_unit_test(test_states_of_steps),
        cmocka_unit_test(test_evaluation_save_and_log_are_apart), cmocka_unit_test(test_lost_and_wild_records_do_no_harm),
        cmocka_unit_test(test_a_trainers_own_loop_is_between),
        cmocka_unit_test(test_gpu_time_is_a_partition_of_its_own), cmocka_unit_test(test_allocator_and_texts),
        cmocka_unit_test(test_a_tally_is_a_row_of_the_snapshot)};
    return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
