// SPDX-License-Identifier: Apache-2.0
// What counts as a rise, over many made series: a leak is found whatever lies on top of it, and nothing else is one.
#include <math.h>
#include <stdlib.h>

#include "suites.h"
#include "tally/floor.h"

#define MIB 1048576.0
#define GIB 1073741824.0
#define ABOVE (32 * MIB)
#define LEAST 20
#define SERIES 1000

static uint64_t state;

static double random_between(double low, double high) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(state >> 33) / 2147483648.0;
}

// What a healthy job's figure does: a level, a wave between two levels, growth that ends, now and then a spike.
struct shape {
    double base, noise, wave, flattens_at, warm_up, jump, jump_at, spike_every;
    int period, high_for;
};

static struct shape random_shape(int steps) {
    struct shape s = {.base = random_between(0.5, 60) * GIB, .noise = random_between(0, 100) * MIB};
    if (random_between(0, 1) < 0.6) {
        s.wave = random_between(0.01, 30) * GIB;
        s.period = (int)random_between(2, (double)steps * 0.6);
        s.high_for = (int)random_between(1, s.period);
    }
    if (random_between(0, 1) < 0.5) {
        s.warm_up = random_between(0.1, 8) * GIB;
        s.flattens_at = random_between(1, (double)steps * 0.7);
    }
    if (random_between(0, 1) < 0.3) {
        s.jump = random_between(0.1, 8) * GIB;
        s.jump_at = random_between(1, steps);
    }
    if (random_between(0, 1) < 0.3)
        s.spike_every = random_between(7, 60); // an evaluation leaves something for a step
    return s;
}

static double value_at(const struct shape *s, int step) {
    double v = s->base + random_between(0, s->noise);
    if (s->period && step % s->period >= s->period - s->high_for)
        v += s->wave;
    if (s->flattens_at > 0)
        v += s->warm_up * fmin(1, step / s->flattens_at);
    if (step > s->jump_at)
        v += s->jump;
    if (s->spike_every > 0 && fmod(step, s->spike_every) < 1)
        v += 2 * GIB;
    return v;
}

static int rises(const struct shape *s, int steps, int every, double per_step, int from, struct al_floor_trend *t) {
    struct al_floor f = {0};
    for (int step = 1; step <= steps; step += every)
        al_floor_push(&f, step, value_at(s, step) + (step > from ? per_step * (step - from) : 0));
    return al_floor_rises(&f, LEAST, ABOVE, t);
}

static void test_nothing_else_rises(void **unused) {
    (void)unused;
    struct al_floor_trend t;
    int alarms = 0;
    state = 1;
    for (int i = 0; i < SERIES; i++) {
        int steps = (int)random_between(60, 3000);
        struct shape s = random_shape(steps);
        int every = 1 + (int)random_between(0, 3);
        if (rises(&s, steps, every, 0, 0, &t) == 1) {
            print_error("steps %d every %d: wave %.0f MiB period %d high %d, warm-up %.0f MiB to %.0f, jump %.0f MiB at %.0f, "
                        "noise %.0f MiB\n", steps, every, s.wave / MIB, s.period, s.high_for, s.warm_up / MIB, s.flattens_at,
                        s.jump / MIB, s.jump_at, s.noise / MIB);
            alarms++;
        }
    }
    assert_int_equal(alarms, 0);
}

static void test_a_leak_is_found_within_200_steps(void **unused) {
    (void)unused;
    struct al_floor_trend t;
    state = 2;
    for (int i = 0; i < SERIES; i++) {
        struct shape s = {.base = 20 * GIB, .noise = random_between(0, 60) * MIB};
        if (i % 2) { // engine and trainer take turns
            s.wave = random_between(1, 30) * GIB;
            s.period = 2 + i % 12;
            s.high_for = 1;
        }
        if (i % 3 == 0)
            s.spike_every = 25;
        double leak = random_between(1, 40) * MIB;
        assert_int_equal(rises(&s, 200, 1, leak, 0, &t), 1);
        assert_true(t.low > 0 && t.low <= leak * 1.1 && t.high >= leak * 0.7);
        assert_true(t.per_step > 0.6 * leak && t.per_step < 1.5 * leak);
    }
}

static void test_a_leak_that_begins_late(void **unused) {
    (void)unused;
    struct al_floor_trend t;
    state = 3;
    for (int i = 0; i < SERIES / 4; i++) {
        struct shape s = {.base = 20 * GIB, .noise = random_between(0, 60) * MIB};
        int from = (int)random_between(200, 1000);
        assert_int_equal(rises(&s, from, 1, MIB, from, &t), 0);
        assert_int_equal(rises(&s, 2 * from + 100, 1, MIB, from, &t), 1);
        assert_true(t.first_step > from / 2);
    }
}

static void test_too_little(void **unused) {
    (void)unused;
    struct al_floor_trend t;
    struct shape s = {.base = GIB};
    assert_true(rises(&s, 20, 1, 100 * MIB, 0, &t) < 0);
    assert_int_equal(rises(&s, 30, 1, 100 * MIB, 0, &t), 1);
    assert_int_equal(rises(&s, 30, 1, MIB / 2, 0, &t), 0); // 15 MiB
}

int rises_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_else_rises), cmocka_unit_test(test_a_leak_is_found_within_200_steps),
        cmocka_unit_test(test_a_leak_that_begins_late), cmocka_unit_test(test_too_little)};
    return cmocka_run_group_tests_name("rises", tests, NULL, NULL);
}
