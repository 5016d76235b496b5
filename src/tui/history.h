// SPDX-License-Identifier: Apache-2.0
// What the charts draw: a ring of readings for each GPU, and the rates that no driver value gives.
#ifndef AL_TUI_HISTORY_H
#define AL_TUI_HISTORY_H

#include "model/snapshot.h"

// X(ID, title)
#define AL_CHARTS(X)                                                                                                   \
    X(UTIL, "utilisation")                                                                                             \
    X(MEM, "memory used")                                                                                              \
    X(SM, "SM active")                                                                                                 \
    X(TENSOR, "tensor active")                                                                                         \
    X(DRAM, "DRAM active")                                                                                             \
    X(POWER, "power")                                                                                                  \
    X(TEMP, "temperature")                                                                                             \
    X(CLOCK, "SM clock")                                                                                               \
    X(PCIE_RX, "PCIe to GPU")                                                                                          \
    X(PCIE_TX, "PCIe from GPU")                                                                                        \
    X(NVLINK_RX, "NVLink in")                                                                                          \
    X(NVLINK_TX, "NVLink out")

enum al_chart {
#define X(id, title) AL_CHART_##id,
    AL_CHARTS(X)
#undef X
        AL_CHART_COUNT
};

const char *al_chart_title(enum al_chart chart);
enum al_unit al_chart_unit(enum al_chart chart);

// The figure of a chart now; NVLink rates of GPUs without GPM need a history (may be NULL).
struct al_history;
struct al_value al_chart_value(const struct al_history *h, const struct al_gpu *g, enum al_chart chart);
// What fills a chart: capacity, limit or highest clock; 0 when there is none (rates).
double al_chart_full(const struct al_gpu *g, enum al_chart chart);

// `samples` readings a GPU are kept.
int al_history_new(uint32_t samples, struct al_history **ret);
struct al_history *al_history_free(struct al_history *h);
// Takes a snapshot's readings; one with the time of the last is left out. AL_E_NOMEM keeps what is there.
int al_history_push(struct al_history *h, const struct al_snapshot *s);

// True when the GPU ever had a value of this kind.
bool al_history_has(const struct al_history *h, const char *uuid, enum al_chart chart);
// values[columns]: the mean of the readings in [k, k + 1) * column_ns, where the last column is the one of now_ns; NaN
// where there were none. Columns keep their readings while time moves on: a chart scrolls, it does not shimmer.
void al_history_columns(const struct al_history *h, const char *uuid, enum al_chart chart, int64_t now_ns,
                        int64_t column_ns, float *values, int columns);

#endif
