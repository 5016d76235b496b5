// SPDX-License-Identifier: Apache-2.0
// What to change, in the option names of the framework and version that were found. Only what exists there, is not set
// already and would help is advised.
#ifndef AL_DETECT_ADVICE_H
#define AL_DETECT_ADVICE_H

#include "base/buf.h"
#include "detect/steps.h"

enum al_framework {
    AL_FRAMEWORK_TORCH, // a loop of its own, accelerate included
    AL_FRAMEWORK_TRAINER,
    AL_FRAMEWORK_TRL,
    AL_FRAMEWORK_SWIFT,
    AL_FRAMEWORK_MEGATRON_SWIFT
};

// X(ID, name in torch's DataLoader, in TrainingArguments, in ms-swift, in Megatron-SWIFT 3.x, from its 4.0 on). NULL: none.
// ms-swift: swift/arguments and swift/megatron/arguments of v3.0.0 to v4.5.2; TrainingArguments: transformers 4.38 to 5.24.
#define AL_ADVICE_OPTIONS(X)                                                                                           \
    X(WORKERS, "num_workers", "dataloader_num_workers", "dataloader_num_workers", "num_workers", "dataloader_num_workers") \
    X(PREFETCH, "prefetch_factor", "dataloader_prefetch_factor", "dataloader_prefetch_factor",                         \
      "dataloader_prefetch_factor", "dataloader_prefetch_factor")                                                      \
    X(PERSISTENT, "persistent_workers", "dataloader_persistent_workers", "dataloader_persistent_workers",              \
      "dataloader_persistent_workers", "dataloader_persistent_workers")                                                \
    X(PIN, "pin_memory", "dataloader_pin_memory", "dataloader_pin_memory", "dataloader_pin_memory",                    \
      "dataloader_pin_memory")                                                                                         \
    X(BATCH, "batch_size", "per_device_train_batch_size", "per_device_train_batch_size", "micro_batch_size",           \
      "micro_batch_size")                                                                                              \
    X(ACCUMULATE, NULL, "gradient_accumulation_steps", "gradient_accumulation_steps", NULL, NULL)                      \
    X(ATTENTION, NULL, "attn_implementation", "attn_impl", "attention_backend", "attention_backend")                   \
    X(BF16, NULL, "bf16", "torch_dtype", "bf16", "torch_dtype")                                                        \
    X(PACKING, NULL, "packing", "packing", "packing", "packing")                                                       \
    X(PADDING_FREE, NULL, "padding_free", "padding_free", "padding_free", "padding_free")                              \
    X(GROUP, NULL, "group_by_length", "group_by_length", NULL, "group_by_length")                                      \
    X(OPTIM, NULL, "optim", "optim", NULL, NULL)                                                                       \
    X(SAVE, NULL, "save_steps", "save_steps", "save_interval", "save_steps")                                           \
    X(SAVE_MODEL, NULL, "save_only_model", "save_only_model", "no_save_optim", "no_save_optim")                        \
    X(LOG, NULL, "logging_steps", "logging_steps", "log_interval", "logging_steps")                                    \
    X(EVALUATE, NULL, "eval_steps", "eval_steps", "eval_interval", "eval_steps")

enum al_option {
#define X(id, ...) AL_OPTION_##id,
    AL_ADVICE_OPTIONS(X)
#undef X
        AL_OPTION_COUNT
};

struct al_advice {
    enum al_framework framework;
    int major, minor;                // of it; -1 unknown
    int transformers;                // major version; -1 unknown
    bool by_command;                 // options are given on the command line
    const struct al_steps_view *view;
    const struct al_tally *tally;    // of the rank that told its options
};

void al_advice_of(const struct al_steps_view *v, struct al_advice *ret);
// The option's name there; NULL when that framework and version have none.
const char *al_advice_name(const struct al_advice *a, enum al_option option);
// What it is set to, by the trainer's own word or else by the command line; false when neither tells.
bool al_advice_now(const struct al_advice *a, enum al_option option, char *out, size_t size);
bool al_advice_now_number(const struct al_advice *a, enum al_option option, double *ret);
bool al_advice_on(const struct al_advice *a, enum al_option option);
// "--name value", "TrainingArguments(name=value)", "DataLoader(name=value)"; nothing when there is no such option.
void al_advice_put(struct al_buf *b, const struct al_advice *a, enum al_option option, const char *value);

// For a finding of the rule ("data_wait", "save", "log", "evaluation", "host_bound"); false: nothing is known that is better
// than the rule's own words.
bool al_advice_rule(const struct al_steps_view *v, const char *rule, char *out, size_t size);

#endif
