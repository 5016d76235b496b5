// SPDX-License-Identifier: Apache-2.0
// A look at what a process of a job executes: samples of its main thread's Python stack, and of its DataLoader workers',
// over a few seconds. Taken on request of a rule; a recording keeps it as evidence.
#ifndef AL_MODEL_LOOK_H
#define AL_MODEL_LOOK_H

#include <sys/types.h>

#include "model/status.h"

// What a stack is about: X(ID, word, what the thread does)
#define AL_LOOK_KINDS(X)                                                                                               \
    X(OTHER, "other", "runs code of another kind")                                                                     \
    X(LOADER, "loader", "waits for its DataLoader's workers")                                                          \
    X(FETCH, "fetch", "makes batches itself")                                                                          \
    X(PREPROCESS, "preprocess", "tokenises or maps data")                                                              \
    X(ATTENTION, "attention", "is in attention")                                                                       \
    X(COLLECTIVE, "collective", "is in collectives")                                                                   \
    X(SYNCHRONISE, "synchronise", "waits for the GPU")                                                                 \
    X(SAVE, "save", "saves checkpoints")                                                                               \
    X(LOG, "log", "logs or reports")                                                                                   \
    X(LOAD, "load", "imports or loads")                                                                                \
    X(COMPILE, "compile", "compiles")                                                                                  \
    X(REQUESTS, "requests", "waits for requests")                                                                      \
    X(FORWARD, "forward", "is in the forward pass")                                                                    \
    X(BACKWARD, "backward", "is in the backward pass")                                                                 \
    X(OPTIMIZER, "optimizer", "is in the optimizer")

enum al_look_kind {
#define X(id, word, does) AL_LOOK_KIND_##id,
    AL_LOOK_KINDS(X)
#undef X
        AL_LOOK_KIND_COUNT
};

// Figures of a look: X(ID, name, unit, kind, help). At_ns is the end of the look. The shares by kind come in the order of
// AL_LOOK_KINDS; those of workers are of the samples of all workers together.
#define AL_LOOK_METRICS(X)                                                                                             \
    X(SAMPLES, "stack_samples", COUNT, GAUGE, "samples of the main thread's stack in the last look")                   \
    X(SECONDS, "stack_seconds", SECONDS, GAUGE, "length of the last look")                                             \
    X(IDLE, "stack_idle_ratio", RATIO, GAUGE, "share of those samples in which the thread slept in the kernel")        \
    X(LINE, "stack_line_ratio", RATIO, GAUGE, "share of samples in the line that most were in")                        \
    X(FUNCTION, "stack_function_ratio", RATIO, GAUGE, "share of samples in that line's function")                      \
    X(OTHER, "stack_other_ratio", RATIO, GAUGE, "share of samples in code of no kind below")                           \
    X(LOADER, "stack_loader_ratio", RATIO, GAUGE, "share of samples waiting for DataLoader workers")                   \
    X(FETCH, "stack_fetch_ratio", RATIO, GAUGE, "share of samples fetching batches without workers")                   \
    X(PREPROCESS, "stack_preprocess_ratio", RATIO, GAUGE, "share of samples tokenising or mapping data")               \
    X(ATTENTION, "stack_attention_ratio", RATIO, GAUGE, "share of samples in attention")                               \
    X(COLLECTIVE, "stack_collective_ratio", RATIO, GAUGE, "share of samples in collectives")                           \
    X(SYNCHRONISE, "stack_synchronise_ratio", RATIO, GAUGE, "share of samples waiting for the GPU")                    \
    X(SAVE, "stack_save_ratio", RATIO, GAUGE, "share of samples saving checkpoints")                                   \
    X(LOG, "stack_log_ratio", RATIO, GAUGE, "share of samples logging")                                                \
    X(LOAD, "stack_load_ratio", RATIO, GAUGE, "share of samples importing modules or loading weights")                 \
    X(COMPILE, "stack_compile_ratio", RATIO, GAUGE, "share of samples compiling")                                      \
    X(REQUESTS, "stack_requests_ratio", RATIO, GAUGE, "share of samples waiting for requests to serve")                \
    X(FORWARD, "stack_forward_ratio", RATIO, GAUGE, "share of samples in modules of the model")                        \
    X(BACKWARD, "stack_backward_ratio", RATIO, GAUGE, "share of samples in the backward pass")                         \
    X(OPTIMIZER, "stack_optimizer_ratio", RATIO, GAUGE, "share of samples in the optimizer")                           \
    X(WORKERS, "stack_workers", COUNT, GAUGE, "DataLoader workers that were sampled too")                              \
    X(WORKER_SAMPLES, "stack_worker_samples", COUNT, GAUGE, "samples of their main threads")                           \
    X(WORKER_WAITS, "stack_worker_waits_ratio", RATIO, GAUGE, "share of those in which a worker had nothing to do")    \
    X(WORKER_LINE, "stack_worker_line_ratio", RATIO, GAUGE, "share in the line that most were in")                     \
    X(WORKER_FUNCTION, "stack_worker_function_ratio", RATIO, GAUGE, "share in that line's function")

enum al_look_metric {
#define X(id, name, unit, kind, help) AL_LOOK_##id,
    AL_LOOK_METRICS(X)
#undef X
        AL_LOOK_METRIC_COUNT
};
_Static_assert(AL_LOOK_OPTIMIZER == AL_LOOK_OTHER + (int)AL_LOOK_KIND_OPTIMIZER, "a share for each kind");

struct al_metric_info;

// The line that most samples were in. "" and 0: none had a part worth a word.
struct al_look_line {
    char function[80]; // qualified where the interpreter tells it (3.11 on)
    char file[200];    // as the code object has it
    char call[80];     // what is called from there in most of those samples; "" nothing in Python, or not told
    int32_t line;
};

struct al_look {
    // identity, as of struct al_proc
    uint64_t start_ticks; // 0 when unknown
    pid_t pid;
    int32_t rank;         // -1 when unknown
    struct al_look_line line, worker;
    char problem[256];    // why nothing could be read; "" when it could
    struct al_value m[AL_LOOK_METRIC_COUNT];
};

extern const struct al_metric_info *const al_look_metric_table; // AL_LOOK_METRIC_COUNT rows
const char *al_look_kind_word(uint32_t kind);
const char *al_look_kind_does(uint32_t kind); // "waits for its DataLoader's workers"

#endif
