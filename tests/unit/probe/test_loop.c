// SPDX-License-Identifier: Apache-2.0
// The loop's states by hand, written as a line: D F B O E S L for phases that begin, a small letter for one that ends,
// | step, - micro-step, ~ skipped, ! aborted, * an epoch.
#include "collector.h"

#include <stdio.h>

#include "probe/loop.h"

static struct al_loop loop;
static char line[256];

static void note(char c) {
    size_t n = strlen(line);
    assert_true(n + 1 < sizeof line);
    line[n] = c;
    line[n + 1] = '\0';
}

static const char letters[] = "?DFBOESLRC", ended[] = "?dfboeslrc", states[] = "|-~!";

static void told(const struct al_loop_move *m) {
    unsigned end = (uint8_t)(m->turn >> AL_PROBE_TURN_END), begin = (uint8_t)(m->turn >> AL_PROBE_TURN_BEGIN);
    unsigned state = (uint8_t)(m->turn >> AL_PROBE_TURN_STATE);
    if (m->epoch)
        note('*');
    if (end)
        note(ended[end - 1]);
    if (state)
        note(states[state - 1]);
    if (begin)
        note(letters[begin - 1]);
}

static int64_t samples_of(const struct al_loop_move *m) {
    return (int64_t)(uint32_t)(m->turn >> AL_PROBE_TURN_SAMPLES);
}

static void start(void) {
    loop = (struct al_loop){0};
    line[0] = '\0';
}

static bool fetch(bool gradients) {
    struct al_loop_move m = {0};
    bool begun = al_loop_data_begin(&loop, gradients, &m);
    told(&m);
    return begun;
}

static void batch(al_loop_id iterator, al_loop_id dataset, int64_t samples) {
    struct al_loop_move m = {0};
    if (!fetch(true))
        return;
    al_loop_batch(&loop, iterator, dataset, samples, &m);
    told(&m);
}

static void loader_ends(bool begun) {
    struct al_loop_move m = {0};
    al_loop_loader_ends(&loop, begun, &m);
    told(&m);
}

static bool backward_begins(void) {
    struct al_loop_move m = {0};
    bool begun = al_loop_backward_begin(&loop, &m);
    told(&m);
    return begun;
}

static void backward(void) {
    struct al_loop_move m = {0};
    assert_true(backward_begins());
    al_loop_backward_end(&loop, &m);
    told(&m);
}

// Returns the samples of the step that it ended, -1 none.
static int64_t optimizer(al_loop_id id) {
    struct al_loop_move m = {0}, n = {0};
    al_loop_optimizer_begin(&loop, &m);
    told(&m);
    al_loop_optimizer_end(&loop, id, &n);
    told(&n);
    return n.step ? samples_of(&n) : -1;
}

static void test_plain_loop(void **state) {
    (void)state;
    start();
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int i = 0; i < 2; i++) {
            batch(10 + (al_loop_id)epoch, 7, 8);
            backward();
            assert_int_equal(optimizer(1), 8);
        }
        assert_true(fetch(true));
        loader_ends(true);
    }
    assert_string_equal(line, "DdF*fBbOo|DdFfBbOo|Dd" "D*dFfBbOo|DdFfBbOo|Dd");
    assert_int_equal(loop.epoch, 1);
}

static void test_accumulation(void **state) {
    (void)state;
    start();
    batch(1, 7, 4);
    backward();
    batch(1, 7, 4);
    backward();
    assert_int_equal(optimizer(1), 8);
    assert_string_equal(line, "DdF*fBb-DdFfBbOo|");
}

// What raises leaves its phase open; the next mark closes it.
static void test_failures(void **state) {
    (void)state;
    start();
    assert_true(fetch(true));
    assert_false(fetch(true)); // a loader inside of a loader
    al_loop_data_raised(&loop);
    assert_true(fetch(true));
    assert_string_equal(line, "DdD");
    start();
    batch(1, 7, 4);
    assert_true(backward_begins());
    assert_false(backward_begins()); // inside of a checkpointed one
    batch(1, 7, 4);
    backward();
    struct al_loop_move m = {0};
    al_loop_optimizer_begin(&loop, &m);
    told(&m);
    assert_false(backward_begins()); // a closure's
    batch(1, 7, 4);
    assert_string_equal(line, "DdF*fBb!DdFfBbOo!DdF");
}

static void test_evaluation(void **state) {
    (void)state;
    start();
    assert_false(fetch(false));
    assert_false(fetch(false));
    loader_ends(false);
    assert_string_equal(line, "Ee");
    batch(1, 7, 4);
    backward();
    (void)optimizer(1);
    assert_false(fetch(false));
    batch(1, 7, 4); // the next training batch ends it as well
    assert_string_equal(line, "EeDdF*fBbOo|EeDdF");
}

static void test_scaler(void **state) {
    (void)state;
    start();
    for (int i = 0; i < 2; i++) {
        struct al_loop_move m = {0}, n = {0};
        assert_true(al_loop_scaler_begin(&loop, &m));
        told(&m);
        if (i == 0)
            assert_int_equal(optimizer(1), -1); // only noted
        al_loop_scaler_end(&loop, 1, false, &n);
        told(&n);
        assert_true(n.step);
    }
    assert_string_equal(line, "Oo|Oo~");
    struct al_loop_move m = {0};
    assert_true(al_loop_scaler_begin(&loop, &m));
    assert_false(al_loop_scaler_begin(&loop, &m));
    al_loop_scaler_end(&loop, 1, true, &m);
    assert_int_equal(loop.phase, AL_IN_OPTIMIZER);
    assert_false(loop.in_scaler);
}

static void test_optimizers(void **state) {
    (void)state;
    start();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(optimizer(1), 0);
        assert_int_equal(optimizer(2), -1);
        assert_int_equal(optimizer(3), -1);
    }
    assert_int_equal(optimizer(3), 0); // steps alone: the loop's from here on
    assert_int_equal(optimizer(3), 0);
    for (al_loop_id id = 100; id < 100 + 2 * AL_LOOP_OPTIMIZERS; id++)
        assert_int_equal(optimizer(id), -1);
    assert_int_equal(optimizer(3), 0);
}

static void test_trainer(void **state) {
    (void)state;
    start();
    al_loop_trainer(&loop, 1);
    struct al_loop_move m;
    for (int i = 0; i < 2; i++) {
        m = (struct al_loop_move){0};
        al_loop_forward_begin(&loop, 4, &m);
        told(&m);
        backward();
        m = (struct al_loop_move){0};
        al_loop_forward_end(&loop, &m); // a backward pass has closed it
        assert_int_equal(m.turn, 0);
    }
    m = (struct al_loop_move){0};
    assert_true(al_loop_clip_begin(&loop, &m));
    assert_false(al_loop_clip_begin(&loop, &m)); // torch's own inside of an accelerator's
    al_loop_clip_end(&loop, &m);
    assert_int_equal(optimizer(1), 8);
    m = (struct al_loop_move){0};
    assert_true(al_loop_enter(&loop, AL_IN_SAVE, &m));
    told(&m);
    assert_false(al_loop_enter(&loop, AL_IN_LOG, &m));
    m = (struct al_loop_move){0};
    al_loop_leave(&loop, AL_IN_SAVE, &m);
    told(&m);
    assert_string_equal(line, "FfBb-FfBbOo|Ss");
    al_loop_trainer(&loop, 1); // one inside of it
    al_loop_trainer(&loop, -1);
    assert_int_equal(optimizer(2), -1);
    al_loop_trainer(&loop, -1);
    al_loop_trainer(&loop, -1);
    assert_int_equal(loop.trainer, 0);
    al_loop_trainer(&loop, 1);
    assert_int_equal(optimizer(2), 0); // another trainer's optimizer
}

// An iterator that is no loader's: what its fetch ends and begins, and steps in a row without any fetch.
static void test_rollout_inside_of_a_forward_pass(void **state) {
    (void)state;
    start();
    al_loop_trainer(&loop, 1);
    struct al_loop_move m = {0};
    al_loop_forward_begin(&loop, 4, &m);
    told(&m);
    for (int i = 0; i < 2; i++) { // the second one is of a trainer's between its steps
        m = (struct al_loop_move){0};
        assert_true(al_loop_enter(&loop, AL_IN_ROLLOUT, &m));
        told(&m);
        m = (struct al_loop_move){0};
        assert_false(al_loop_data_begin(&loop, false, &m) || al_loop_enter(&loop, AL_IN_LOG, &m));
        al_loop_leave(&loop, AL_IN_ROLLOUT, &m);
        told(&m);
        if (!i) {
            backward();
            assert_int_equal(optimizer(1), 4);
        }
    }
    assert_string_equal(line, "FfRrFfBbOo|Rr");
}

static void test_other_iterators(void **state) {
    (void)state;
    start();
    for (uint32_t i = 0; i < 3; i++) {
        struct al_loop_move m = {0};
        al_loop_fed(&loop, &m); // of none
        assert_int_equal(m.turn, 0);
        backward();
        assert_int_equal(optimizer(1), 0);
        assert_int_equal(loop.unfed, i + 1);
    }
    struct al_loop_move m = {0};
    assert_true(fetch(true));
    al_loop_fed(&loop, &m);
    told(&m);
    assert_true(m.timed && m.begun == AL_IN_FORWARD);
    backward();
    (void)optimizer(1);
    assert_int_equal(loop.unfed, 0);
    assert_true(fetch(true));
    m = (struct al_loop_move){0};
    al_loop_data_end(&loop, &m); // the iterator's end
    told(&m);
    assert_string_equal(line, "BbOo|BbOo|BbOo|DdFfBbOo|Dd");
    loop.trainer = 1;
    (void)optimizer(1);
    assert_int_equal(loop.unfed, 0);
}

// Where the job says when an epoch begins nobody else does, but inside of a trainer's loop.
static void test_told_epochs(void **state) {
    (void)state;
    start();
    for (int64_t i = 0; i < 3; i++) {
        struct al_loop_move m = {0};
        assert_true(al_loop_epoch(&loop, i < 2 ? -1 : 7, &m));
        told(&m);
        assert_int_equal(loop.epoch, i < 2 ? i : 7);
        batch(10 + (al_loop_id)i, 7, 8);
        backward();
        (void)optimizer(1);
    }
    assert_string_equal(line, "*DdFfBbOo|*DdFfBbOo|*DdFfBbOo|");
    struct al_loop_move m = {0};
    loop.trainer = 1;
    assert_false(al_loop_epoch(&loop, -1, &m));
    assert_false(m.epoch);
}

// The GPU's own timeline hears of what it has to time, and the samples of a step have their limits.
static void test_moves(void **state) {
    (void)state;
    start();
    struct al_loop_move m = {0};
    assert_true(fetch(true));
    al_loop_batch(&loop, 1, 7, INT64_MAX / 2, &m);
    assert_true(m.timed && m.ended == 0 && m.begun == AL_IN_FORWARD);
    m = (struct al_loop_move){0};
    assert_true(al_loop_backward_begin(&loop, &m));
    assert_true(m.timed && m.ended == AL_IN_FORWARD && m.begun == AL_IN_BACKWARD);
    m = (struct al_loop_move){0};
    al_loop_backward_end(&loop, &m);
    assert_true(m.timed && m.ended == AL_IN_BACKWARD && m.begun == 0);
    assert_int_equal(optimizer(1), UINT32_MAX);
    m = (struct al_loop_move){0};
    al_loop_backward_end(&loop, &m); // of none
    al_loop_data_end(&loop, &m);
    assert_int_equal(m.turn, 0);
}

int loop_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_loop), cmocka_unit_test(test_accumulation), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_evaluation), cmocka_unit_test(test_scaler),       cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_trainer), cmocka_unit_test(test_rollout_inside_of_a_forward_pass),
        cmocka_unit_test(test_other_iterators), cmocka_unit_test(test_told_epochs), cmocka_unit_test(test_moves)};
    return cmocka_run_group_tests_name("probe: loop", tests, NULL, NULL);
}
