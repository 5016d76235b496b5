// SPDX-License-Identifier: Apache-2.0
#include "tui/cell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define REPLACEMENT '?'
#define ELLIPSIS 0x2026

int al_grid_resize(struct al_grid *g, int w, int h) {
    w = w < 1 ? 1 : w > AL_GRID_MAX ? AL_GRID_MAX : w;
    h = h < 1 ? 1 : h > AL_GRID_MAX ? AL_GRID_MAX : h;
    if (!g->cells || w != g->w || h != g->h) {
        struct al_cell *cells = calloc((size_t)w * (size_t)h, sizeof *cells);
        if (!cells)
            return AL_E_NOMEM;
        free(g->cells);
        g->cells = cells;
        g->w = w;
        g->h = h;
    }
    al_grid_clear(g);
    return 0;
}

void al_grid_free(struct al_grid *g) {
    free(g->cells);
    *g = (struct al_grid){0};
}

void al_grid_clear(struct al_grid *g) {
    for (int i = 0; i < g->w * g->h; i++)
        g->cells[i] = (struct al_cell){' ', AL_INK_PLAIN};
}

static struct al_cell *cell_at(const struct al_grid *g, int x, int y) {
    return x >= 0 && y >= 0 && x < g->w && y < g->h ? &g->cells[y * g->w + x] : NULL;
}

const struct al_cell *al_grid_at(const struct al_grid *g, int x, int y) {
    return cell_at(g, x, y);
}

int al_cell_width(uint32_t cp) {
    // Latin, arrows, lines, blocks: without asking the locale's tables.
    if (cp < 0x300 || (cp >= 0x2190 && cp < 0x2300) || (cp >= 0x2500 && cp < 0x25a0))
        return 1;
    int width = wcwidth((wchar_t)cp);
    return width < 0 ? 1 : width > 2 ? 2 : width;
}

// What stands for a sign where only ASCII can be shown; 0 for none.
static uint32_t ascii_for(uint32_t cp) {
    static const struct {
        uint32_t cp;
        char c;
    } table[] = {
        {0xb0, 0},      {0xb7, '.'},    {0xd7, 'x'},    {0x2013, '-'},  {0x2026, '~'},  {0x2190, '<'},  {0x2191, '^'},
        {0x2192, '>'},  {0x2193, 'v'},  {0x2500, '-'},  {0x2501, '='},  {0x2502, '|'},  {0x2514, '`'},  {0x251c, '|'},
        {0x2578, '-'},  {0x2581, '.'},  {0x2582, '.'},  {0x2583, ':'},  {0x2584, ':'},  {0x2585, '+'},  {0x2586, '+'},
        {0x2587, '#'},  {0x2588, '#'},  {0x2589, '#'},  {0x258a, '#'},  {0x258b, '#'},  {0x258c, '#'},  {0x258d, '-'},
        {0x258e, '-'},  {0x258f, '-'},  {0x25b2, '^'},  {0x25bc, 'v'},  {0x25cf, '*'},  {0x2713, '+'},  {0x25b6, '>'},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].cp == cp)
            return (uint32_t)table[i].c;
    return REPLACEMENT;
}

static uint32_t decode(const unsigned char *t, size_t len) {
    if (len == 1)
        return t[0];
    uint32_t cp = len == 2 ? t[0] & 0x1fu : len == 3 ? t[0] & 0x0fu : t[0] & 0x07u;
    for (size_t i = 1; i < len; i++)
        cp = cp << 6 | (t[i] & 0x3fu);
    return cp;
}

// The next code point to show and its columns; 0 columns: nothing to show. Moves *text on.
static uint32_t next_shown(const unsigned char **text, size_t *left, bool ascii, int *ret_width) {
    size_t len = al_utf8_len(*text, *left);
    uint32_t cp = len ? decode(*text, len) : REPLACEMENT;
    *text += len ? len : 1;
    *left -= len ? len : 1;
    if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0))
        cp = REPLACEMENT;
    *ret_width = al_cell_width(cp);
    if (ascii && cp >= 0x80) {
        cp = *ret_width ? ascii_for(cp) : 0;
        *ret_width = cp != 0;
    }
    return cp;
}

static int text_width(const char *text, bool ascii) {
    const unsigned char *t = (const unsigned char *)text;
    size_t left = strlen(text);
    int total = 0, width;
    while (left) {
        (void)next_shown(&t, &left, ascii, &width);
        total += width;
    }
    return total;
}

int al_text_width(const char *text) {
    return text_width(text, false);
}

// A wide character that loses one half loses both.
static void split_wide(struct al_grid *g, int x, int y) {
    struct al_cell *c = cell_at(g, x, y), *left = cell_at(g, x - 1, y), *right = cell_at(g, x + 1, y);
    if (c->cp == 0 && left)
        left->cp = ' ';
    if (c->cp != 0 && right && right->cp == 0)
        right->cp = ' ';
}

static void put(struct al_grid *g, int x, int y, uint32_t cp, int width, uint8_t style) {
    struct al_cell *c = cell_at(g, x, y);
    if (!c)
        return;
    struct al_cell *right = width == 2 ? cell_at(g, x + 1, y) : NULL;
    split_wide(g, x, y);
    if (width == 2 && !right)
        cp = REPLACEMENT;
    if (right) {
        split_wide(g, x + 1, y);
        *right = (struct al_cell){0, style};
    }
    *c = (struct al_cell){cp, style};
}

void al_grid_put(struct al_grid *g, int x, int y, uint32_t cp, uint8_t style) {
    if (g->ascii && cp >= 0x80) {
        cp = ascii_for(cp);
        if (!cp)
            return;
    }
    put(g, x, y, cp, al_cell_width(cp), style);
}

int al_grid_text(struct al_grid *g, int x, int y, int max, uint8_t style, const char *text) {
    const unsigned char *t = (const unsigned char *)text;
    size_t left = strlen(text);
    int used = 0, width;
    if (max > g->w - x)
        max = g->w - x;
    if (max <= 0 || y < 0 || y >= g->h)
        return 0;
    bool cut = text_width(text, g->ascii) > max;
    while (left) {
        uint32_t cp = next_shown(&t, &left, g->ascii, &width);
        if (!width)
            continue;
        if (used + width > max - cut) {
            al_grid_put(g, x + used, y, ELLIPSIS, style);
            return used + 1;
        }
        put(g, x + used, y, cp, width, style);
        used += width;
    }
    return used;
}

int al_grid_text_right(struct al_grid *g, int x, int y, int max, uint8_t style, const char *text) {
    int width = text_width(text, g->ascii);
    if (width >= max)
        return al_grid_text(g, x, y, max, style, text);
    (void)al_grid_text(g, x + max - width, y, width, style, text);
    return max;
}

void al_grid_fill(struct al_grid *g, struct al_rect r, uint32_t cp, uint8_t style) {
    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++)
            al_grid_put(g, x, y, cp, style);
}

void al_grid_restyle(struct al_grid *g, struct al_rect r, uint8_t style) {
    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++) {
            struct al_cell *c = cell_at(g, x, y);
            if (c)
                c->style = style;
        }
}

void al_grid_bar(struct al_grid *g, int x, int y, int w, double ratio, uint8_t style) {
    bool known = isfinite(ratio);
    ratio = !known || ratio < 0 ? 0 : ratio > 1 ? 1 : ratio;
    int halves = (int)lround(ratio * 2 * w);
    if (known && ratio > 0 && !halves)
        halves = 1; // a little is not nothing
    for (int i = 0; i < w; i++) {
        if (halves >= 2 * i + 2)
            al_grid_put(g, x + i, y, 0x2501, style);
        else if (halves == 2 * i + 1)
            al_grid_put(g, x + i, y, 0x2578, style);
        else
            al_grid_put(g, x + i, y, g->ascii ? '.' : 0x2500, AL_STYLE_DIM);
    }
}

void al_grid_chart(struct al_grid *g, struct al_rect r, const float *values, uint8_t style) {
    for (int i = 0; i < r.w; i++) {
        if (!isfinite(values[i]))
            continue;
        double v = values[i] < 0 ? 0 : values[i] > 1 ? 1 : values[i];
        // A single row never fills up, so that charts in neighbouring rows stay apart.
        int eighths = (int)lround(v * (r.h == 1 ? 7 : 8 * r.h));
        for (int row = 0; row < r.h; row++) {
            int part = eighths - 8 * (r.h - 1 - row);
            if (row == r.h - 1 && part < 1)
                part = 1; // the base line shows that there was a reading
            // The edge tells the value; what is below it stays in the background.
            if (part > 0)
                al_grid_put(g, r.x + i, r.y + row, (uint32_t)(0x2580 + (part > 8 ? 8 : part)),
                            part > 8 ? style | AL_STYLE_DIM : style);
        }
    }
}

static void add_cp(struct al_buf *b, uint32_t cp) {
    char t[4];
    size_t len = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    if (len == 1)
        t[0] = (char)cp;
    else
        t[0] = (char)((0xf00u >> len & 0xffu) | cp >> 6 * (len - 1));
    for (size_t i = 1; i < len; i++)
        t[i] = (char)(0x80u | (cp >> 6 * (len - 1 - i) & 0x3fu));
    al_buf_add(b, t, len);
}

static int row_end(const struct al_grid *g, int y, bool color) {
    int end = g->w;
    while (end > 0) {
        const struct al_cell *c = al_grid_at(g, end - 1, y);
        if (c->cp != ' ' || (color && (c->style & (AL_STYLE_REVERSE | AL_STYLE_LINE))))
            break;
        end--;
    }
    return end;
}

void al_grid_print(const struct al_grid *g, struct al_buf *b) {
    for (int y = 0; y < g->h; y++) {
        int end = row_end(g, y, false);
        for (int x = 0; x < end; x++)
            if (al_grid_at(g, x, y)->cp)
                add_cp(b, al_grid_at(g, x, y)->cp);
        al_buf_char(b, '\n');
    }
}

static void add_sgr(struct al_buf *b, uint8_t style) {
    static const char *const inks[AL_INK_COUNT] = {"", ";32", ";33", ";31", ";36", ";34", ";35"};
    uint8_t ink = style & AL_STYLE_INK;
    al_buf_printf(b, "\033[0%s%s%s%s%sm", style & AL_STYLE_BOLD ? ";1" : "", style & AL_STYLE_DIM ? ";2" : "",
                  style & AL_STYLE_REVERSE ? ";7" : "", style & AL_STYLE_LINE ? ";4" : "",
                  ink < AL_INK_COUNT ? inks[ink] : "");
}

void al_grid_print_color(const struct al_grid *g, struct al_buf *b) {
    for (int y = 0; y < g->h; y++) {
        int end = row_end(g, y, true);
        uint8_t style = AL_INK_PLAIN;
        for (int x = 0; x < end; x++) {
            const struct al_cell *c = al_grid_at(g, x, y);
            if (c->style != style)
                add_sgr(b, c->style);
            style = c->style;
            if (c->cp)
                add_cp(b, c->cp);
        }
        al_buf_str(b, style == AL_INK_PLAIN ? "\n" : "\033[0m\n");
    }
}
