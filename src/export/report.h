// SPDX-License-Identifier: Apache-2.0
// metrics_report.json: the eight figures of a training run, and under "alula" everything behind them. docs/run.md.
#ifndef AL_EXPORT_REPORT_H
#define AL_EXPORT_REPORT_H

#include "base/buf.h"
#include "export/report_communication.h"
#include "export/report_memory.h"
#include "model/event.h"
#include "model/finding.h"

#define AL_REPORT_VERSION 1

// X(key, decimals): the keys of the file's top level, in its order
#define AL_REPORT_FIGURES(X)                                                                                           \
    X(train_runtime, 4)                                                                                                \
    X(train_samples_per_second, 4)                                                                                     \
    X(train_steps_per_second, 4)                                                                                       \
    X(gpu_peak_memory_allocated_gb, 4)                                                                                 \
    X(gpu_avg_utilization_percent, 2)                                                                                  \
    X(gpu_max_utilization_percent, 2)                                                                                  \
    X(data_loading_time_ratio, 6)                                                                                      \
    X(communication_time_ratio, 6)

enum al_report_key {
#define X(key, decimals) AL_REPORT_##key,
    AL_REPORT_FIGURES(X)
#undef X
        AL_REPORT_FIGURE_COUNT
};

// null unless known; then `source` tells where it is from, else why it is not known.
struct al_report_figure {
    bool known;
    double value;
    const char *confidence; // "exact", "inferred"; NULL when not known
    double error;           // standard error of the mean, as far as steps and samples tell; 0: not known
    char source[160];
};

#define AL_REPORT_PARTS 24

struct al_report_rank {
    int64_t rank, world, epoch; // -1: null
    pid_t pid;
    const char *framework, *step_source, *error, *where; // "" : null
    uint64_t done, skipped, aborted, micro, lost;
    bool samples_known;
    double samples;
    double wall_seconds, step_mean_seconds, step_least_seconds, step_most_seconds; // of whole steps
    uint32_t part_count;
    const char *part_words[AL_REPORT_PARTS]; // "other" is the remainder
    double part_seconds[AL_REPORT_PARTS], after_seconds[AL_REPORT_PARTS]; // after: behind the last step
    bool errors_known; // standard errors of the means a step
    double step_error_seconds, part_error_seconds[AL_REPORT_PARTS];
    bool gpu_known;
    uint64_t gpu_steps;
    double gpu_seconds[AL_PHASE_COUNT], gpu_ratio;
    const char *gpu_words[AL_PHASE_COUNT];
    struct al_report_rank_memory memory;
    const char *ended; // in words; "" while it runs or when it ended well
    const char *phase; // that it was last in
    int64_t step;
};

struct al_report_gpu {
    const char *uuid, *name;
    uint32_t index;
    bool used_by_job, utilization_known, memory_known;
    double utilization_mean, utilization_max, covered_seconds; // ratios
    double utilization_error; // of the mean; 0 unknown
    double memory_most, memory_total;
};

struct al_report_verdict {
    const char *rule, *verdict;
    const struct al_finding *finding;
};

// The job's work: tokens, and the model's own arithmetic against the peak of its GPUs. NaN unknown.
struct al_report_useful {
    bool tokens_known, flops_known, mfu_known;
    double tokens, tokens_per_second, parameters, trainable, flops_per_second, mfu;
    double peak; // 0 unknown
    uint32_t gpus;
    const char *formula, *missing; // missing: why the first that is not known is not; NULL
};

// The trainer's log. NaN, -1, NULL: not told.
struct al_report_log {
    const char *path, *writer, *speed_key, *explanation;
    double steps_per_second, measured_steps_per_second, difference, elapsed_seconds, memory_gib;
    int64_t step, steps_of_all;
    uint64_t lines, damaged;
};
#define AL_REPORT_LOG_MEMORY                                                                                           \
    "the greatest torch.cuda.max_memory_reserved() so far: it never falls, and that it rises is no leak by itself"

struct al_report {
    struct al_report_figure figures[AL_REPORT_FIGURE_COUNT];
    const char *version, *command, *output_dir_source, *job_end;
    int64_t started_realtime_ns, written_realtime_ns;
    bool finished;          // false: the job still ran
    double runtime_seconds; // of the whole command
    const char *device_missing; // NULL: read
    const struct al_report_gpu *gpus;
    uint32_t gpu_count;
    const char *processes; // JSON object of the tree's kinds, or "null"
    struct al_report_communication communication;
    const struct al_report_rank *ranks;
    uint32_t rank_count;
    const struct al_report_verdict *verdicts;
    uint32_t verdict_count;
    struct al_report_useful useful;
    const struct al_report_log *log; // NULL: none was read
};

void al_report_json(struct al_buf *b, const struct al_report *r);
// Into folder/metrics_report.json by way of a file beside it. AL_E_NOENT, AL_E_DENIED, AL_E_IO (errno tells more).
int al_report_write(const struct al_buf *b, const char *folder);

#endif
