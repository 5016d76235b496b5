// SPDX-License-Identifier: Apache-2.0
// A flame graph that needs no script: what a browser shows where scripts may not run, and other viewers of pictures.
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "export/flame.h"

static const int WIDTH = 1200, ROW = 18, TOP = 56;
enum { BOXES_MOST = 3000, DEPTH_MOST = 400 };
#define LETTER 6.7 // a letter's width, of 11 px

void al_flame_escaped(struct al_buf *b, const char *text) {
    char clean[AL_FLAME_TEXT];
    al_flame_text(clean, sizeof clean, text);
    for (const char *c = clean; *c; c++) {
        if (*c == '<' || *c == '>' || *c == '&' || *c == '"' || *c == '\'')
            al_buf_printf(b, "&#%d;", *c);
        else
            al_buf_char(b, *c);
    }
}

struct picture {
    struct al_buf *b;
    const struct al_profile *p;
    const struct al_profile_about *about;
    uint64_t *totals, *left, all; // left: samples in front of the node
    double scale;                 // of a sample
    double narrowest;             // what is drawn: at least so wide,
    uint32_t deepest;             // at most so deep
};

static bool is_library(const char *file) {
    return strstr(file, "/site-packages/") || strstr(file, "/dist-packages/") || strstr(file, "/lib/python") ||
           al_str_starts(file, "<frozen");
}

static const char *colour_of(const struct al_profile_frame *f) {
    return f->kind == AL_PROFILE_NATIVE ? "#d9c8ec" : f->kind == AL_PROFILE_MARK ? "#e2e2e0" : is_library(f->file) ? "#c3d6ea" : "#f6d49a";
}

// As many letters as fit, in whole characters.
static void put_label(struct al_buf *b, const char *name, double width) {
    char text[256];
    size_t letters = width > 4 * LETTER ? (size_t)((width - 6) / LETTER) : 0;
    if (!letters)
        return;
    al_flame_text(text, letters < sizeof text - 4 ? letters + 4 : sizeof text, name);
    al_flame_escaped(b, text);
}

static void put_box(const struct picture *s, uint32_t i) {
    const struct al_profile_node *n = &s->p->nodes[i];
    const struct al_profile_frame *f = &s->p->frames[n->frame];
    double x = (double)s->left[i] * s->scale, width = (double)s->totals[i] * s->scale, y = TOP + (n->depth - 1.0) * ROW;
    const char *slash = strrchr(f->object, '/'), *file = *f->file ? f->file : slash ? slash + 1 : f->object;
    al_buf_str(s->b, "<g><title>");
    al_flame_escaped(s->b, *f->name ? f->name : "?");
    if (*file) {
        al_buf_str(s->b, " (");
        al_flame_escaped(s->b, file);
        if (f->line > 0)
            al_buf_printf(s->b, ":%d", (int)f->line);
        al_buf_char(s->b, ')');
    }
    al_buf_printf(s->b, "\n%llu samples, ", (unsigned long long)s->totals[i]);
    al_buf_fixed(s->b, 100.0 * (double)s->totals[i] / (double)s->all, 2);
    al_buf_str(s->b, " %</title><rect x=\"");
    al_buf_fixed(s->b, x, 2);
    al_buf_str(s->b, "\" y=\"");
    al_buf_fixed(s->b, y, 0);
    al_buf_str(s->b, "\" width=\"");
    al_buf_fixed(s->b, width > 1.2 ? width - 0.6 : width, 2);
    al_buf_printf(s->b, "\" height=\"%d\" fill=\"%s\"/>", ROW - 1, colour_of(f));
    if (width > 4 * LETTER) {
        al_buf_str(s->b, "<text x=\"");
        al_buf_fixed(s->b, x + 3, 1);
        al_buf_str(s->b, "\" y=\"");
        al_buf_fixed(s->b, y + 12.5, 1);
        al_buf_str(s->b, "\">");
        put_label(s->b, *f->name ? f->name : "?", width);
        al_buf_str(s->b, "</text>");
    }
    al_buf_str(s->b, "</g>\n");
}

static bool drawn(const struct picture *s, uint32_t i) {
    return s->totals[i] && (double)s->totals[i] * s->scale >= s->narrowest && s->p->nodes[i].depth <= s->deepest;
}

// So narrow and so deep that no more than BOXES_MOST are left: first those go that show nothing, then the deepest. How deep
// the picture is.
static uint32_t choose_drawn(struct picture *s) {
    s->narrowest = 0.6;
    s->deepest = DEPTH_MOST;
    for (;;) {
        uint32_t count = 0, depth = 1;
        for (uint32_t i = 0; i < s->p->node_count; i++) {
            if (!drawn(s, i))
                continue;
            count++;
            depth = s->p->nodes[i].depth > depth ? s->p->nodes[i].depth : depth;
        }
        if (count <= BOXES_MOST)
            return depth;
        if (s->narrowest < 3)
            s->narrowest *= 1.5;
        else
            s->deepest /= 2;
    }
}

// Where each node begins: behind its elder siblings, within its caller.
static bool lay_out(struct picture *s) {
    const struct al_profile *p = s->p;
    uint64_t *next = calloc(p->node_count + 1u, sizeof *next); // [parent + 1]: the first place that is free
    s->totals = al_flame_totals(p);
    s->left = calloc(p->node_count + 1u, sizeof *s->left);
    for (uint32_t i = 0; next && s->totals && s->left && i < p->node_count; i++) {
        uint32_t above = p->nodes[i].parent == AL_PROFILE_NONE ? 0 : p->nodes[i].parent + 1;
        s->left[i] = next[above];
        next[i + 1] = s->left[i];
        next[above] += s->totals[i];
    }
    bool ok = next && s->totals && s->left;
    s->all = ok ? next[0] : 0;
    free(next);
    return ok;
}

static void put_head(const struct picture *s, uint32_t depth) {
    const struct al_profile_about *a = s->about;
    int height = TOP + (int)depth * ROW + 12;
    // Attributes rather than a style sheet: a page's policy may forbid one.
    al_buf_printf(s->b,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"picture\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                  "font-size=\"11\" font-family=\"ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace\" fill=\"#222\">\n"
                  "<title>Flame graph of ",
                  WIDTH, height, WIDTH, height);
    al_flame_escaped(s->b, a->name);
    al_buf_str(s->b, "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
                     "<text x=\"4\" y=\"20\" font-size=\"15\" font-weight=\"600\" font-family=\"system-ui, sans-serif\">");
    al_flame_escaped(s->b, *a->command ? a->command : a->name);
    al_buf_str(s->b, "</text><text x=\"4\" y=\"40\" font-size=\"12\" font-family=\"system-ui, sans-serif\" fill=\"#666\">"
                     "flame graph: width is the share of ");
    al_buf_printf(s->b, "%llu samples, at ", (unsigned long long)s->all);
    al_buf_number(s->b, a->rate);
    al_buf_str(s->b, " a second; callers above; boxes below ");
    al_buf_fixed(s->b, 100 * s->narrowest / WIDTH, 2);
    al_buf_printf(s->b, " %% or deeper than %u are left out; ", (unsigned)s->deepest);
    al_flame_escaped(s->b, a->exporter);
    al_buf_str(s->b, "</text>\n");
}

int al_flame_picture(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about) {
    struct picture s = {.b = b, .p = p, .about = about};
    bool ok = lay_out(&s);
    if (ok) {
        s.scale = (double)WIDTH / (s.all ? (double)s.all : 1);
        put_head(&s, choose_drawn(&s));
        for (uint32_t i = 0; i < p->node_count; i++)
            if (drawn(&s, i))
                put_box(&s, i);
    }
    free(s.totals);
    free(s.left);
    return !ok || b->failed ? AL_E_NOMEM : 0;
}
