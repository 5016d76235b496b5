// SPDX-License-Identifier: Apache-2.0
// One series as a picture: for a terminal, as SVG, as CSV.
#ifndef AL_EXPORT_PLOT_H
#define AL_EXPORT_PLOT_H

#include "base/buf.h"
#include "base/units.h"
#include "series/change.h"

struct al_plot {
    const struct al_sample *samples; // times are ns since the start
    uint32_t count;
    const char *title; // "memory_bytes of pid 4300"
    enum al_unit unit;
    int64_t start_realtime_ns;       // of time 0; 0 unknown
    const struct al_slope *slope;    // NULL: too few samples
    const struct al_segment *segments; // by index into samples; a change lies between two
    uint32_t segment_count;
};

// width and height in cells, labels included; braille dots or, with utf8 false, '*'. At least 20 by 5.
void al_plot_terminal(struct al_buf *b, const struct al_plot *p, unsigned width, unsigned height, bool utf8);
// Trend and change points in words, a line each.
void al_plot_words(struct al_buf *b, const struct al_plot *p);
void al_plot_svg(struct al_buf *b, const struct al_plot *p);
// time, seconds, value, fit (the line of the part), change (1 at the first of a part), slope and its interval.
void al_plot_csv(struct al_buf *b, const struct al_plot *p);
// "12.3 GiB", "655 W" for people.
void al_plot_value(struct al_buf *b, double value, enum al_unit unit);

#endif
