// SPDX-License-Identifier: Apache-2.0
// What gpustat's text and its JSON have in common: which GPUs and processes there are, and their figures.
#ifndef AL_EXPORT_GPUSTAT_ROWS_H
#define AL_EXPORT_GPUSTAT_ROWS_H

#include "export/gpustat.h"

enum al_gpustat_figure {
    AL_GPUSTAT_TEMP,
    AL_GPUSTAT_FAN,
    AL_GPUSTAT_UTIL,
    AL_GPUSTAT_ENC,
    AL_GPUSTAT_DEC,
    AL_GPUSTAT_POWER,
    AL_GPUSTAT_LIMIT,
    AL_GPUSTAT_USED,
    AL_GPUSTAT_TOTAL,
    AL_GPUSTAT_FIGURES
};

struct al_gpustat_cell {
    bool known;
    long long num;
};

// JSON key of a figure ("temperature.gpu"), in gpustat's order.
extern const char *const al_gpustat_keys[AL_GPUSTAT_FIGURES];
struct al_gpustat_cell al_gpustat_figure(const struct al_gpu *gpu, enum al_gpustat_figure figure);
// Text in double parentheses for a GPU that does not answer, NULL for one that does.
const char *al_gpustat_lost(const struct al_gpu *gpu);
// The next GPU to print from *cursor on, which starts at 0; NULL at the end.
const struct al_gpu *al_gpustat_next_gpu(const struct al_snapshot *s, const struct al_gpustat_options *o,
                                         uint32_t *cursor);

struct al_gpustat_process {
    const struct al_proc_gpu *row;
    const struct al_proc *proc; // NULL when /proc does not show it
    struct al_gpustat_cell mib;
    const char *command;        // as started, "" when not known; a bare name when the command line is not read
    size_t path_len, name_len;  // of its first word: folder with the '/', and name
};

// The rows of a GPU, each pid once, in the driver's order.
struct al_gpustat_list {
    const struct al_proc_gpu **rows;
    uint32_t count;
};
// False when memory is out. Free `rows` in any case.
bool al_gpustat_list(const struct al_snapshot *s, const struct al_gpustat_options *o, const struct al_gpu *gpu,
                     struct al_gpustat_list *ret);
// The next process to print from *cursor on, which starts at 0; false at the end.
bool al_gpustat_next_process(const struct al_snapshot *s, const struct al_gpustat_options *o,
                             const struct al_gpustat_list *list, uint32_t *cursor, struct al_gpustat_process *ret);

#endif
