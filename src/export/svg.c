// SPDX-License-Identifier: Apache-2.0
// A series as a standalone SVG picture: no fonts, scripts or links.
#include <math.h>
#include <string.h>

#include "export/jsonl.h"
#include "export/plot.h"

enum { WIDTH = 900, HEIGHT = 360, LEFT = 90, RIGHT = 20, TOP = 40, BOTTOM = 50, POINTS = 1500 };

struct frame {
    double low, high;
    int64_t from, to;
};

static void put_text(struct al_buf *b, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            al_buf_str(b, "&lt;");
        else if (c == '>')
            al_buf_str(b, "&gt;");
        else if (c == '&')
            al_buf_str(b, "&amp;");
        else if (c == '"')
            al_buf_str(b, "&quot;");
        else
            al_buf_char(b, c < 0x20 || c >= 0x7f ? '?' : (char)c);
    }
}

static double x_of(const struct frame *f, int64_t at_ns) {
    return LEFT + (double)(at_ns - f->from) / (double)(f->to - f->from) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct frame *f, double v) {
    return TOP + (f->high - v) / (f->high - f->low) * (HEIGHT - TOP - BOTTOM);
}

static struct frame frame_of(const struct al_plot *p) {
    struct frame f = {0, 1, 0, 1};
    for (uint32_t i = 0; i < p->count; i++) {
        double v = p->samples[i].value;
        f.low = !i || v < f.low ? v : f.low;
        f.high = !i || v > f.high ? v : f.high;
    }
    double margin = f.high > f.low ? (f.high - f.low) * 0.05 : f.low != 0 ? fabs(f.low) * 0.1 : 1;
    f.low -= margin;
    f.high += margin;
    if (p->count) {
        f.from = p->samples[0].at_ns;
        f.to = p->samples[p->count - 1].at_ns;
    }
    if (f.to <= f.from)
        f.to = f.from + 1;
    return f;
}

static void put_point(struct al_buf *b, const struct frame *f, const struct al_sample *s) {
    al_buf_fixed(b, x_of(f, s->at_ns), 1);
    al_buf_char(b, ',');
    al_buf_fixed(b, y_of(f, s->value), 1);
    al_buf_char(b, ' ');
}

// At most POINTS groups, each by its least and greatest in the order that they came: no peak is lost.
static void put_line(struct al_buf *b, const struct al_plot *p, const struct frame *f) {
    uint32_t step = p->count / POINTS + 1;
    al_buf_str(b, "<polyline fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"1.2\" points=\"");
    for (uint32_t from = 0; from < p->count; from += step) {
        uint32_t to = from + step < p->count ? from + step : p->count, low = from, high = from;
        for (uint32_t i = from; i < to; i++) {
            low = p->samples[i].value < p->samples[low].value ? i : low;
            high = p->samples[i].value > p->samples[high].value ? i : high;
        }
        put_point(b, f, &p->samples[low < high ? low : high]);
        if (low != high)
            put_point(b, f, &p->samples[low < high ? high : low]);
    }
    al_buf_str(b, "\"/>\n");
}

static void put_segment(struct al_buf *b, double x1, double y1, double x2, double y2, const char *style) {
    const double at[] = {x1, y1, x2, y2};
    static const char *const names[] = {"x1", "y1", "x2", "y2"};
    al_buf_str(b, "<line");
    for (int i = 0; i < 4; i++) {
        al_buf_printf(b, " %s=\"", names[i]);
        al_buf_fixed(b, at[i], 1);
        al_buf_char(b, '"');
    }
    al_buf_printf(b, " %s/>\n", style);
}

static void begin_label(struct al_buf *b, double x, double y, const char *anchor) {
    al_buf_str(b, "<text x=\"");
    al_buf_fixed(b, x, 1);
    al_buf_str(b, "\" y=\"");
    al_buf_fixed(b, y, 1);
    al_buf_printf(b, "\" text-anchor=\"%s\">", anchor);
}

static void put_scale(struct al_buf *b, const struct al_plot *p, const struct frame *f) {
    for (int i = 0; i <= 4; i++) {
        double v = f->low + (f->high - f->low) * i / 4, y = y_of(f, v);
        put_segment(b, LEFT, y, WIDTH - RIGHT, y, "stroke=\"#ddd\"");
        begin_label(b, LEFT - 6, y + 4, "end");
        al_plot_value(b, v, p->unit);
        al_buf_str(b, "</text>\n");
    }
    for (int i = 0; i <= 2; i++) {
        int64_t at = f->from + (f->to - f->from) / 2 * i;
        static const char *const anchors[] = {"start", "middle", "end"};
        begin_label(b, x_of(f, at), HEIGHT - BOTTOM + 18, anchors[i]);
        if (p->start_realtime_ns) {
            struct al_buf t = AL_BUF_INIT;
            al_jsonl_time(&t, p->start_realtime_ns + at);
            if (t.len > 2)
                al_buf_add(b, t.data + 1, t.len - 2);
            al_buf_free(&t);
        } else {
            al_buf_fixed(b, (double)at / 1e9, 0);
            al_buf_str(b, " s");
        }
        al_buf_str(b, "</text>\n");
    }
}

static void put_segments(struct al_buf *b, const struct al_plot *p, const struct frame *f) {
    for (uint32_t i = 0; i < p->segment_count; i++) {
        const struct al_segment *g = &p->segments[i];
        double from = x_of(f, p->samples[g->from].at_ns), to = x_of(f, p->samples[g->to - 1].at_ns);
        put_segment(b, from, y_of(f, g->first), to, y_of(f, g->last), "stroke=\"#d62728\"");
        if (i)
            put_segment(b, from, TOP, from, HEIGHT - BOTTOM, "stroke=\"#d62728\" stroke-dasharray=\"4 3\" class=\"change\"");
    }
}

void al_plot_svg(struct al_buf *b, const struct al_plot *p) {
    struct frame f = frame_of(p);
    al_buf_printf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                  "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
                  "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    begin_label(b, LEFT, 20, "start");
    put_text(b, p->title);
    al_buf_str(b, "</text>\n");
    put_scale(b, p, &f);
    put_line(b, p, &f);
    put_segments(b, p, &f);
    if (p->slope) {
        struct al_buf words = AL_BUF_INIT;
        struct al_plot trend = *p;
        trend.segment_count = 0;
        al_plot_words(&words, &trend);
        if (words.len && words.data[words.len - 1] == '\n')
            words.data[--words.len] = '\0';
        begin_label(b, LEFT, HEIGHT - 10, "start");
        put_text(b, words.data ? words.data : "");
        al_buf_str(b, "</text>\n");
        al_buf_free(&words);
    }
    al_buf_str(b, "</svg>\n");
}
