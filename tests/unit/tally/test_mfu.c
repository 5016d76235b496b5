// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "suites.h"
#include "tally/mfu.h"

#define MS 1000000LL

static struct al_tally *made(const char *model) {
    struct al_tally *t = malloc(sizeof *t);
    al_tally_init(t);
    al_tally_text(t, AL_TEXT_MODEL, model, strlen(model));
    return t;
}

static void tokens(struct al_tally *t, int64_t count) {
    al_tally_event(t, 1, AL_EVENT_TOKENS, 0, -1, count, 0);
}

static void step(struct al_tally *t, int64_t ms, enum al_step_state state) {
    al_tally_event(t, ms * MS, AL_EVENT_STEP, (uint16_t)state, -1, -1, 1);
}

static struct al_mfu of(const struct al_tally *t, double seconds, double peak) {
    struct al_mfu m;
    al_mfu(&t, 1, seconds, peak, &m);
    return m;
}

static void test_tokens_belong_to_their_step(void **unused) {
    (void)unused;
    struct al_tally *t = made("");
    tokens(t, 100);
    step(t, 10, AL_STEP_MICRO);
    tokens(t, 20);
    assert_int_equal(t->tokens, 0);
    step(t, 20, AL_STEP_DONE);
    assert_int_equal(t->tokens, 120);
    tokens(t, -5);
    tokens(t, INT64_MAX);
    tokens(t, 7);
    step(t, 30, AL_STEP_SKIPPED);
    assert_int_equal(t->tokens, 127);
    assert_false(t->tokens_unknown);
    al_tally_event(t, 31 * MS, AL_EVENT_PHASE_BEGIN, AL_IN_EVALUATION, -1, 0, 0);
    tokens(t, 1000); // none is trained on
    al_tally_event(t, 32 * MS, AL_EVENT_PHASE_END, AL_IN_EVALUATION, -1, 0, 0);
    step(t, 40, AL_STEP_DONE);
    assert_int_equal(t->tokens, 127);
    assert_true(t->tokens_unknown);
    free(t);
}

static void test_the_formula_is_6n_and_4n(void **unused) {
    (void)unused;
    struct al_tally *full = made("parameters=1000 trainable=1000 dtype=bfloat16"),
                    *lora = made("dtype=bfloat16 parameters=1000 trainable=0");
    struct al_mfu m;
    tokens(full, 50);
    step(full, 10, AL_STEP_DONE);
    m = of(full, 2, 1e6);
    assert_true(m.tokens_known && m.flops_known && m.mfu_known && !m.missing);
    assert_true(m.tokens_per_second == 25 && m.flops_per_second == 25 * 6000 && m.ratio == 0.15);
    m = of(full, 2, 0);
    assert_true(m.flops_known && !m.mfu_known);
    assert_non_null(strstr(m.missing, "peak"));
    m = of(full, 2, 1e5);
    assert_true(!m.mfu_known && strstr(m.missing, "above"));
    tokens(lora, 50);
    step(lora, 10, AL_STEP_DONE);
    assert_true(of(lora, 2, 1e6).flops_per_second == 25 * 4000);
    const struct al_tally *both[] = {full, full};
    al_mfu(both, 2, 2, 2e6, &m);
    assert_true(m.tokens == 100 && m.ratio == 0.15);
    free(full);
    free(lora);
}

static void test_unknown_stays_unknown_with_the_reason(void **unused) {
    static const struct {
        const char *model, *missing;
        bool tokens;
    } cases[] = {
        {"parameters=1000 trainable=1000", "input_ids", false},
        {"trainable=1000", "number of parameters", true},
        {"parameters=10 trainable=1000", "cannot be", true},
        {"parameters=nan trainable=0", "number of parameters", true},
        {"parameters=1000 trainable=10 experts=8", "experts", true},
        {"parameters=1000 trainable=10 parts=2", "split", true},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct al_tally *t = made(cases[i].model);
        if (cases[i].tokens)
            tokens(t, 50);
        step(t, 10, AL_STEP_DONE);
        struct al_mfu m = of(t, 2, 1e6);
        assert_int_equal(m.tokens_known, cases[i].tokens);
        assert_false(m.flops_known || m.mfu_known);
        assert_non_null(strstr(m.missing, cases[i].missing));
        free(t);
    }
    struct al_mfu m;
    al_mfu(NULL, 0, 0, 1e6, &m);
    assert_true(!m.tokens_known && m.missing && isnan(m.parameters));
}

int mfu_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tokens_belong_to_their_step),
                                       cmocka_unit_test(test_the_formula_is_6n_and_4n),
                                       cmocka_unit_test(test_unknown_stays_unknown_with_the_reason)};
    return cmocka_run_group_tests_name("mfu", tests, NULL, NULL);
}
