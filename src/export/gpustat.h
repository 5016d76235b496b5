// SPDX-License-Identifier: Apache-2.0
// gpustat's line format and JSON, for the scripts and eyes that are used to them (gpustat 1.1.1).
//
// Figures as gpustat has them: MiB rounded down (printed as "MB"), whole watts rounded down, percent, degrees; "??" or
// null for what is not known; a GPU that is lost keeps its row with the reason for a name.
#ifndef AL_EXPORT_GPUSTAT_H
#define AL_EXPORT_GPUSTAT_H

#include "base/buf.h"
#include "model/snapshot.h"

enum al_gpustat_color {
    AL_GPUSTAT_PLAIN,
    AL_GPUSTAT_COLOR,       // for a terminal
    AL_GPUSTAT_FORCED_COLOR // the reset is "\e[0;10m", which watch(1) understands
};

struct al_gpustat_options {
    bool show_cmd, show_full_cmd, show_user, show_pid, show_fan, show_enc, show_dec, show_power, show_power_limit;
    bool no_header, no_processes;
    bool roles;        // beyond gpustat: rank or role of each process, and processes that /proc does not show
    bool mig;          // beyond gpustat: MIG devices get rows of their own
    bool ascii;        // the terminal takes no UTF-8: 'C for the degree sign, "..." for the ellipsis
    bool deep_colors;  // the terminal has 256 colours
    enum al_gpustat_color color;
    int name_width;    // -1: as wide as the longest name; 0: no name
    const char *eol;   // behind every line; NULL: "\n"
    const uint32_t *gpus; // positions in the snapshot, in the order to print; NULL: all
    uint32_t gpu_count;
};

void al_gpustat_text(struct al_buf *b, const struct al_snapshot *s, const struct al_gpustat_options *o);
// Python's layout (indent 4, ASCII); `roles` adds the keys "role" and "rank" behind gpustat's own.
void al_gpustat_json(struct al_buf *b, const struct al_snapshot *s, const struct al_gpustat_options *o);

#endif
