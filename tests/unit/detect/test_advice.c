// SPDX-License-Identifier: Apache-2.0
// Advice names options that exist in the framework and version found, and none that is set already.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/advice.h"
#include "detect/steps_part.h"

#include "world.h"

struct job {
    struct al_tally tally;
    struct al_steps_rank rank;
    struct al_steps_view view;
    char advice[320];
};

static struct job *made(const char *framework, const char *source, const char *options, const char *command) {
    struct job *j = calloc(1, sizeof *j);
    al_tally_init(&j->tally);
    al_tally_text(&j->tally, AL_TEXT_FRAMEWORK, framework, strlen(framework));
    al_tally_text(&j->tally, AL_TEXT_SOURCE, source, strlen(source));
    al_tally_text(&j->tally, AL_TEXT_OPTIONS, options, strlen(options));
    j->rank = (struct al_steps_rank){&j->tally, 0, 1, -1, NULL};
    j->view = (struct al_steps_view){.ranks = &j->rank, .count = 1, .cpus = 8, .command = command};
    return j;
}

static const char *advice(struct job *j, const char *rule) {
    j->advice[0] = '\0';
    (void)al_advice_rule(&j->view, rule, j->advice, sizeof j->advice);
    return j->advice;
}

static void holds(struct job *j, const char *rule, const char *part) {
    if (!strstr(advice(j, rule), part))
        fail_msg("%s: \"%s\" lacks \"%s\"", rule, j->advice, part);
}

static void lacks(struct job *j, const char *rule, const char *part) {
    if (strstr(advice(j, rule), part))
        fail_msg("%s: \"%s\" holds \"%s\"", rule, j->advice, part);
}

static const char trainer[] = "transformers.Trainer";

static void the_framework_and_its_version_are_found(void **state) {
    static const struct {
        const char *framework, *source, *command;
        enum al_framework want;
        int major;
    } cases[] = {
        {"torch=2.13.0+cu130 transformers=5.24.0 swift=4.5.2", trainer, "swift sft --model x", AL_FRAMEWORK_SWIFT, 4},
        {"torch=2.6.0 transformers=4.51.3 swift=3.12.6", trainer, "bash train.sh", AL_FRAMEWORK_SWIFT, 3},
        {"torch=2.6.0 swift=3.12.6", "torch.optim hook", "megatron sft --load x", AL_FRAMEWORK_MEGATRON_SWIFT, 3},
        {"torch=2.6.0 transformers=4.51.3 trl=0.17.0", trainer, "python sft.py", AL_FRAMEWORK_TRL, 0},
        {"torch=2.6.0 transformers=4.51.3", trainer, "python x.py", AL_FRAMEWORK_TRAINER, 4},
        {"torch=2.6.0 transformers=4.51.3 accelerate=1.0", "torch.optim hook", "accelerate launch x.py", AL_FRAMEWORK_TORCH, -1},
        {"", "", NULL, AL_FRAMEWORK_TORCH, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *j = made(cases[i].framework, cases[i].source, "", cases[i].command);
        struct al_advice a;
        al_advice_of(&j->view, &a);
        assert_int_equal(a.framework, cases[i].want);
        assert_int_equal(a.major, cases[i].major);
        free(j);
    }
}

static void options_are_called_as_they_are_there(void **state) {
    static const struct {
        const char *framework, *source, *command, *rule, *want;
    } cases[] = {
        {"transformers=4.51.3 swift=3.12.6", trainer, "swift sft", "data_wait", "--dataloader_num_workers 7"},
        {"swift=3.12.6", "", "megatron sft", "data_wait", "--num_workers 7"},
        {"swift=4.1.0", "", "megatron sft", "data_wait", "--dataloader_num_workers 7"},
        {"swift=3.12.6", "", "megatron sft", "save", "--save_interval"},
        {"swift=4.1.0", "", "megatron sft", "save", "--no_save_optim true"},
        {"swift=4.1.0", "", "megatron sft", "log", "--logging_steps"},
        {"transformers=5.24.0", trainer, "python x.py", "data_wait", "TrainingArguments(dataloader_num_workers=7)"},
        {"transformers=5.24.0", trainer, "python x.py --output_dir o", "data_wait", "--dataloader_num_workers 7"},
        {"transformers=5.24.0", trainer, "python x.py", "save", "TrainingArguments(save_only_model=True)"},
        {"transformers=5.24.0 trl=0.20", trainer, "python x.py", "host_bound", "packing=True in the trainer's config"},
        {"torch=2.13.0", "torch.optim hook", "python x.py", "data_wait", "DataLoader(num_workers=7)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *j = made(cases[i].framework, cases[i].source, "", cases[i].command);
        holds(j, cases[i].rule, cases[i].want);
        free(j);
    }
}

static void what_is_set_or_would_not_help_is_not_advised(void **state) {
    (void)state;
    struct job *j = made("transformers=5.24.0 swift=4.5.2", trainer,
                         "dataloader_num_workers=1 dataloader_prefetch_factor=2 dataloader_pin_memory=1 "
                         "dataloader_persistent_workers=0 per_device_train_batch_size=1 gradient_accumulation_steps=16 "
                         "optim=adamw_torch_fused logging_steps=1 save_steps=50",
                         "swift sft --packing true");
    holds(j, "data_wait", "--dataloader_num_workers 7 (now 1)");
    holds(j, "data_wait", "--dataloader_prefetch_factor 4");
    lacks(j, "data_wait", "pin_memory");
    lacks(j, "data_wait", "persistent"); // one epoch: its workers start once
    j->tally.epoch = 1;
    holds(j, "data_wait", "--dataloader_persistent_workers true");
    holds(j, "host_bound", "--per_device_train_batch_size 2 with --gradient_accumulation_steps 8");
    lacks(j, "host_bound", "packing");
    lacks(j, "host_bound", "optim");
    holds(j, "save", "--save_steps 200 (now 50)");
    holds(j, "log", "--logging_steps 4 (now 1)");
    j->view.cpus = 2;
    holds(j, "data_wait", "more workers will not help");
    j->view.cpus = 8;
    j->view.command = "swift sft --streaming true";
    lacks(j, "data_wait", "num_workers");
    holds(j, "data_wait", "one worker at most");
    free(j);
    j = made("torch=2.13.0", "", "num_workers=0 prefetch_factor=0 pin_memory=0 persistent_workers=0", "python x.py");
    lacks(j, "data_wait", "prefetch"); // without workers there is nothing to prefetch
    lacks(j, "data_wait", "pin_memory"); // without CUDA nothing to pin for
    assert_false(al_advice_rule(&j->view, "save", j->advice, sizeof j->advice));
    j->tally.device_count = 1;
    holds(j, "data_wait", "DataLoader(pin_memory=True)");
    free(j);
}

static void the_command_line_tells_where_the_trainer_does_not(void **state) {
    struct al_advice a;
    char value[32];
    (void)state;
    struct job *j = made("swift=3.12.6", "", "", "megatron sft --num_workers 6 --micro_batch_size=2 --packing true");
    al_advice_of(&j->view, &a);
    assert_true(al_advice_now(&a, AL_OPTION_WORKERS, value, sizeof value));
    assert_string_equal(value, "6");
    assert_true(al_advice_now(&a, AL_OPTION_BATCH, value, sizeof value));
    assert_string_equal(value, "2");
    assert_true(al_advice_on(&a, AL_OPTION_PACKING));
    assert_false(al_advice_now(&a, AL_OPTION_SAVE, value, sizeof value));
    free(j);
}

static const struct al_finding *settings_of(struct job *j, const char *model, enum al_verdict want) {
    static struct al_steps_verdict v;
    al_tally_text(&j->tally, AL_TEXT_MODEL, model, strlen(model));
    al_steps_settings(&j->view, &v);
    assert_int_equal(v.verdict, want);
    return &v.finding;
}

static void slow_settings_are_told_as_information(void **state) {
    (void)state;
    struct job *j = made("transformers=5.24.0 swift=4.5.2", trainer, "bf16=0 fp16=0", "swift sft");
    (void)settings_of(j, "attn=eager dtype=float32", AL_VERDICT_QUIET); // no GPU
    j->tally.device_count = 1;
    const struct al_finding *f = settings_of(j, "attn=eager dtype=float32", AL_VERDICT_FINDING);
    assert_int_equal(f->level, AL_LEVEL_INFO);
    assert_non_null(strstr(f->advice, "--attn_impl flash_attn"));
    assert_non_null(strstr(f->advice, "--torch_dtype bfloat16"));
    (void)settings_of(j, "attn=sdpa dtype=bfloat16", AL_VERDICT_QUIET);
    free(j);
    j = made("transformers=5.24.0", trainer, "bf16=1 fp16=0", "python x.py");
    j->tally.device_count = 1;
    f = settings_of(j, "attn=eager dtype=float32", AL_VERDICT_FINDING); // mixed precision
    assert_non_null(strstr(f->advice, "from_pretrained(..., attn_implementation=\"sdpa\")"));
    assert_null(strstr(f->advice, "bf16"));
    free(j);
    j = made("torch=2.13.0", "", "", "python x.py");
    (void)settings_of(j, "", AL_VERDICT_CANNOT_TELL);
    j->tally.device_count = 1;
    (void)settings_of(j, "parameters=5 trainable=5 dtype=float32", AL_VERDICT_QUIET);
    free(j);
}

int advice_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_framework_and_its_version_are_found),
        cmocka_unit_test(options_are_called_as_they_are_there),
        cmocka_unit_test(what_is_set_or_would_not_help_is_not_advised),
        cmocka_unit_test(the_command_line_tells_where_the_trainer_does_not),
        cmocka_unit_test(slow_settings_are_told_as_information),
    };
    return cmocka_run_group_tests_name("advice", tests, NULL, NULL);
}
