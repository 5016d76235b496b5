// SPDX-License-Identifier: Apache-2.0
#include "export/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "export/jsonl.h"

#define LABEL 12u // cells of the labels at the left

void al_plot_value(struct al_buf *b, double value, enum al_unit unit) {
    char text[40];
    if (unit == AL_UNIT_BYTES || unit == AL_UNIT_BYTES_PER_SECOND) {
        if (value < 0)
            al_buf_char(b, '-');
        (void)al_fmt_bytes(text, sizeof text, fabs(value));
        al_buf_str(b, text);
        al_buf_str(b, unit == AL_UNIT_BYTES ? "" : "/s");
        return;
    }
    double scale = unit == AL_UNIT_RATIO ? 100 : unit == AL_UNIT_HERTZ ? 1e-6 : 1;
    const char *word = unit == AL_UNIT_RATIO     ? " %"
                       : unit == AL_UNIT_HERTZ   ? " MHz"
                       : unit == AL_UNIT_WATTS   ? " W"
                       : unit == AL_UNIT_CELSIUS ? " C"
                       : unit == AL_UNIT_JOULES  ? " J"
                       : unit == AL_UNIT_SECONDS ? " s"
                                                 : "";
    double shown = value * scale;
    int decimals = fabs(shown) >= 100 || shown == nearbyint(shown) ? 0 : fabs(shown) >= 1 ? 1 : 3;
    al_buf_fixed(b, shown, decimals);
    al_buf_str(b, word);
}

struct range {
    double low, high; // of values
    int64_t from, to; // of times
};

static struct range range_of(const struct al_plot *p) {
    struct range r = {0, 1, 0, 1};
    for (uint32_t i = 0; i < p->count; i++) {
        double v = p->samples[i].value;
        r.low = !i || v < r.low ? v : r.low;
        r.high = !i || v > r.high ? v : r.high;
    }
    if (p->count) {
        r.from = p->samples[0].at_ns;
        r.to = p->samples[p->count - 1].at_ns;
    }
    if (r.high <= r.low) { // a flat line in the middle
        double margin = r.low != 0 ? fabs(r.low) * 0.1 : 1;
        r.low -= margin;
        r.high += margin;
    }
    if (r.to <= r.from)
        r.to = r.from + 1;
    return r;
}

// ---- terminal ----

struct canvas {
    unsigned columns, rows; // dots
    unsigned char *dot;
};

static void dot(struct canvas *c, unsigned x, unsigned y) {
    if (x < c->columns && y < c->rows)
        c->dot[(size_t)y * c->columns + x] = 1;
}

static unsigned place(double share, unsigned size) {
    double at = share * (size - 1) + 0.5;
    return at <= 0 ? 0 : at >= size - 1 ? size - 1 : (unsigned)at;
}

// From one point to the next, column by column, so that the line has no holes.
static void draw(struct canvas *c, const struct al_plot *p, const struct range *r) {
    unsigned last_x = 0, last_y = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        unsigned x = place((double)(p->samples[i].at_ns - r->from) / (double)(r->to - r->from), c->columns);
        unsigned y = c->rows - 1 - place((p->samples[i].value - r->low) / (r->high - r->low), c->rows);
        if (!i) {
            last_x = x;
            last_y = y;
        }
        unsigned steps_x = x - last_x, steps_y = y > last_y ? y - last_y : last_y - y;
        unsigned steps = steps_x > steps_y ? steps_x : steps_y;
        for (unsigned k = 0; k <= steps; k++) {
            double share = steps ? (double)k / steps : 0;
            dot(c, last_x + (unsigned)(steps_x * share + 0.5),
                (unsigned)(last_y + ((double)y - last_y) * share + 0.5));
        }
        last_x = x;
        last_y = y;
    }
}

static void put_cell(struct al_buf *b, const struct canvas *c, unsigned cx, unsigned cy, bool utf8) {
    static const unsigned char bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    unsigned mask = 0;
    for (unsigned y = 0; y < (utf8 ? 4U : 1U); y++)
        for (unsigned x = 0; x < (utf8 ? 2U : 1U); x++) {
            unsigned px = cx * (utf8 ? 2 : 1) + x, py = cy * (utf8 ? 4 : 1) + y;
            if (px < c->columns && py < c->rows && c->dot[(size_t)py * c->columns + px])
                mask |= bits[y][x];
        }
    if (!mask) {
        al_buf_char(b, ' ');
    } else if (!utf8) {
        al_buf_char(b, '*');
    } else { // U+2800 and the dots
        al_buf_char(b, (char)0xe2);
        al_buf_char(b, (char)(0xa0 | mask >> 6));
        al_buf_char(b, (char)(0x80 | (mask & 0x3f)));
    }
}

static void put_label(struct al_buf *b, double value, enum al_unit unit) {
    struct al_buf text = AL_BUF_INIT;
    al_plot_value(&text, value, unit);
    if (text.len < LABEL - 1)
        al_buf_pad(b, ' ', LABEL - 1 - text.len);
    al_buf_str(b, text.data ? text.data : "");
    al_buf_char(b, ' ');
    al_buf_free(&text);
}

static void put_span(struct al_buf *b, int64_t ns) {
    char text[40];
    (void)al_fmt_duration(text, sizeof text, (double)ns / 1e9);
    al_buf_str(b, text);
}

// '^' under each change point, then the times of both ends.
static void put_axis(struct al_buf *b, const struct al_plot *p, const struct range *r, unsigned cells) {
    if (p->segment_count > 1) {
        char *marks = malloc(cells + 1);
        if (marks) {
            memset(marks, ' ', cells);
            marks[cells] = '\0';
            for (uint32_t i = 1; i < p->segment_count; i++)
                marks[place((double)(p->samples[p->segments[i].from].at_ns - r->from) / (double)(r->to - r->from), cells)] = '^';
            al_buf_pad(b, ' ', LABEL);
            al_buf_str(b, marks);
            al_buf_char(b, '\n');
        }
        free(marks);
    }
    struct al_buf end = AL_BUF_INIT;
    size_t before = b->len;
    al_buf_pad(b, ' ', LABEL);
    put_span(b, r->from);
    put_span(&end, r->to);
    size_t used = b->len - before;
    if (used + end.len < LABEL + cells)
        al_buf_pad(b, ' ', LABEL + cells - used - end.len);
    else
        al_buf_char(b, ' ');
    al_buf_str(b, end.data ? end.data : "");
    al_buf_char(b, '\n');
    al_buf_free(&end);
}

void al_plot_terminal(struct al_buf *b, const struct al_plot *p, unsigned width, unsigned height, bool utf8) {
    width = width < 20 ? 20 : width > 1000 ? 1000 : width;
    height = height < 5 ? 5 : height > 500 ? 500 : height;
    unsigned cells = width - LABEL, lines = height - 3;
    struct canvas c = {cells * (utf8 ? 2 : 1), lines * (utf8 ? 4 : 1), NULL};
    struct range r = range_of(p);
    c.dot = calloc((size_t)c.columns * c.rows, 1);
    if (!c.dot) {
        b->failed = true;
        return;
    }
    draw(&c, p, &r);
    al_term_string(b, p->title);
    al_buf_char(b, '\n');
    for (unsigned y = 0; y < lines; y++) {
        if (y == 0 || y == lines - 1 || y == lines / 2)
            put_label(b, r.high - (r.high - r.low) * y / (lines > 1 ? lines - 1 : 1), p->unit);
        else
            al_buf_pad(b, ' ', LABEL);
        for (unsigned x = 0; x < cells; x++)
            put_cell(b, &c, x, y, utf8);
        al_buf_char(b, '\n');
    }
    put_axis(b, p, &r, cells);
    free(c.dot);
}

static void put_time(struct al_buf *b, const struct al_plot *p, int64_t at_ns) {
    struct al_buf t = AL_BUF_INIT;
    al_jsonl_time(&t, p->start_realtime_ns ? p->start_realtime_ns + at_ns : 0);
    if (t.len > 2 && t.data[0] == '"')
        al_buf_add(b, t.data + 1, t.len - 2);
    al_buf_free(&t);
}

static void put_rate(struct al_buf *b, double per_second, enum al_unit unit) {
    al_plot_value(b, per_second * 60, unit);
    al_buf_str(b, "/min");
}

void al_plot_words(struct al_buf *b, const struct al_plot *p) {
    if (p->slope) {
        bool sure = p->slope->low > 0 || p->slope->high < 0;
        al_buf_str(b, sure ? p->slope->per_second > 0 ? "rises by " : "falls by " : "no trend: ");
        put_rate(b, sure ? fabs(p->slope->per_second) : p->slope->per_second, p->unit);
        al_buf_str(b, " (Theil-Sen; 95 % between ");
        put_rate(b, p->slope->low, p->unit);
        al_buf_str(b, " and ");
        put_rate(b, p->slope->high, p->unit);
        al_buf_str(b, ")\n");
    }
    for (uint32_t i = 1; i < p->segment_count; i++) {
        const struct al_segment *old = &p->segments[i - 1], *now = &p->segments[i];
        al_buf_str(b, "changes at ");
        put_time(b, p, p->samples[now->from].at_ns);
        al_buf_str(b, " from ");
        al_plot_value(b, old->last, p->unit);
        al_buf_str(b, " (");
        put_rate(b, old->per_second, p->unit);
        al_buf_str(b, ") to ");
        al_plot_value(b, now->first, p->unit);
        al_buf_str(b, " (");
        put_rate(b, now->per_second, p->unit);
        al_buf_str(b, ")\n");
    }
}

// ---- CSV ----

// The line of the part that the sample belongs to.
static double fit_of(const struct al_plot *p, uint32_t segment, uint32_t i) {
    const struct al_segment *g = &p->segments[segment];
    return g->first + g->per_second * (double)(p->samples[i].at_ns - p->samples[g->from].at_ns) / 1e9;
}

static void put_slope(struct al_buf *b, const struct al_slope *slope) {
    if (!slope) {
        al_buf_str(b, ",,");
        return;
    }
    al_buf_number(b, slope->per_second);
    al_buf_char(b, ',');
    al_buf_number(b, slope->low);
    al_buf_char(b, ',');
    al_buf_number(b, slope->high);
}

void al_plot_csv(struct al_buf *b, const struct al_plot *p) {
    uint32_t segment = 0;
    al_buf_str(b, "time,seconds,value,fit,change,slope_per_second,slope_low,slope_high\n");
    for (uint32_t i = 0; i < p->count; i++) {
        bool begins = segment + 1 < p->segment_count && p->segments[segment + 1].from == i;
        segment += begins;
        put_time(b, p, p->samples[i].at_ns);
        al_buf_char(b, ',');
        al_buf_number(b, (double)p->samples[i].at_ns / 1e9);
        al_buf_char(b, ',');
        al_buf_number(b, p->samples[i].value);
        al_buf_char(b, ',');
        if (p->segment_count)
            al_buf_number(b, fit_of(p, segment, i));
        al_buf_printf(b, ",%d,", begins);
        put_slope(b, p->slope);
        al_buf_char(b, '\n');
    }
}
