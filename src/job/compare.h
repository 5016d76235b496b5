// SPDX-License-Identifier: Apache-2.0
// Two jobs side by side, out of what their metrics_report.json say: what changed, by how much, and whether that is more
// than the steps' own spread. Pure; the documents are untrusted.
#ifndef AL_JOB_COMPARE_H
#define AL_JOB_COMPARE_H

#include "base/buf.h"
#include "base/json.h"

#define AL_SIDE_PARTS 24

struct al_side_figure {
    bool known;
    double value, error; // error: of the mean; 0 unknown
};

// X(ID, key, words, unit, scale from the report's unit, decimals, more is better, told for a step)
#define AL_SIDE_FIGURES(X)                                                                                             \
    X(UTILIZATION, "gpu_avg_utilization_percent", "GPU utilisation", "%", 1, 1, true, false)                           \
    X(STEPS, "train_steps_per_second", "steps a second", "", 1, 4, true, true)                                         \
    X(SAMPLES, "train_samples_per_second", "samples a second", "", 1, 3, true, false)                                  \
    X(TOKENS, "tokens_per_second", "tokens a second", "", 1, 0, true, false)                                           \
    X(MFU, "mfu_ratio", "MFU", "%", 100, 1, true, false)                                                               \
    X(DATA, "data_loading_time_ratio", "waiting for data", "%", 100, 1, false, false)                                  \
    X(COMMUNICATION, "communication_time_ratio", "communication", "%", 100, 1, false, false)                           \
    X(MEMORY, "gpu_peak_memory_allocated_gb", "peak memory", "GiB", 1, 2, false, false)                                \
    X(STEP, "step_seconds", "a step", "ms", 1000, 2, false, true)

enum al_side_key {
#define X(id, key, words, unit, scale, decimals, more, step) AL_SIDE_##id,
    AL_SIDE_FIGURES(X)
#undef X
        AL_SIDE_FIGURE_COUNT
};

struct al_side {
    const char *name; // of the file
    struct al_side_figure f[AL_SIDE_FIGURE_COUNT];
    uint32_t part_count;
    struct {
        char word[24];
        struct al_side_figure f; // seconds a step, mean of the ranks
    } part[AL_SIDE_PARTS];
    bool detailed;  // more than the eight keys was there
    bool finished, ended_well;
    double steps, samples_per_step; // samples_per_step: of all ranks; 0 unknown
    double world; // 0 unknown
    uint32_t gpu_count;
    char gpu[96];   // its model, "several models"; "" unknown
    char framework[256];
};

// False for a document that has none of the eight keys.
bool al_side_read(const struct al_json_document *d, const char *name, struct al_side *ret);

enum al_change { AL_CHANGE_UNKNOWN, AL_CHANGE_BETTER, AL_CHANGE_WORSE, AL_CHANGE_SAME, AL_CHANGE_INCOMPARABLE };
const char *al_change_word(enum al_change c);

struct al_compare_row {
    const char *key, *words, *unit;
    bool part; // of the step
    int decimals;
    struct al_side_figure a, b; // in `unit`
    double ratio, noise; // change and what chance alone may make of it, over a; NaN unknown
    enum al_change change;
};
#define AL_COMPARE_ROWS (AL_SIDE_FIGURE_COUNT + 2 * AL_SIDE_PARTS)

// Rows of what either side knows; returns how many. Their words point into the sides.
uint32_t al_compare(const struct al_side *a, const struct al_side *b, struct al_compare_row *ret);
// Why the two may not be compared: one line each, without an end of line; returns how many.
#define AL_COMPARE_CAUTIONS 10
uint32_t al_compare_cautions(const struct al_side *a, const struct al_side *b, char (*ret)[400]);

void al_compare_text(struct al_buf *out, const struct al_side *a, const struct al_side *b);
void al_compare_json(struct al_buf *out, const struct al_side *a, const struct al_side *b);

#endif
