// SPDX-License-Identifier: Apache-2.0
// A screen of cells in memory: drawing goes here, is pure, and knows no terminal.
#ifndef AL_TUI_CELL_H
#define AL_TUI_CELL_H

#include <stdbool.h>
#include <stdint.h>

struct al_buf;

struct al_rect {
    int x, y, w, h;
};

enum al_ink { AL_INK_PLAIN, AL_INK_GOOD, AL_INK_WARN, AL_INK_BAD, AL_INK_COOL, AL_INK_BLUE, AL_INK_ODD, AL_INK_COUNT };

// A style is an ink with attributes.
enum {
    AL_STYLE_INK = 0x0f,
    AL_STYLE_BOLD = 0x10,
    AL_STYLE_DIM = 0x20,
    AL_STYLE_REVERSE = 0x40,
    AL_STYLE_LINE = 0x80 // underlined
};

struct al_cell {
    uint32_t cp; // code point; 0 is the right half of a wide character
    uint8_t style;
};

#define AL_GRID_MAX 1000 // columns and rows

struct al_grid {
    int w, h;
    struct al_cell *cells; // w * h, row by row
    bool ascii;            // the terminal shows ASCII only: lines, blocks and signs are replaced, other letters are '?'
};

// Sets the size (1..AL_GRID_MAX each, cut to it) and clears. AL_E_NOMEM keeps the old one.
int al_grid_resize(struct al_grid *g, int w, int h);
void al_grid_free(struct al_grid *g);
void al_grid_clear(struct al_grid *g);
const struct al_cell *al_grid_at(const struct al_grid *g, int x, int y); // NULL outside

// Columns of a code point: 0, 1 or 2. Under a locale without UTF-8 everything beyond ASCII takes 1.
int al_cell_width(uint32_t cp);
// Columns of a text.
int al_text_width(const char *text);

// Everything below is cut at the grid's edges. Texts may come from other processes: control bytes and broken UTF-8
// become '?', zero-width and bidirectional controls are left out.
// Writes at most `max` columns from (x, y); a text that is longer ends with "…". Returns the columns used.
int al_grid_text(struct al_grid *g, int x, int y, int max, uint8_t style, const char *text);
// The same, ending at column x + max - 1.
int al_grid_text_right(struct al_grid *g, int x, int y, int max, uint8_t style, const char *text);
void al_grid_put(struct al_grid *g, int x, int y, uint32_t cp, uint8_t style);
void al_grid_fill(struct al_grid *g, struct al_rect r, uint32_t cp, uint8_t style);
// Changes the style of what is there (a selection).
void al_grid_restyle(struct al_grid *g, struct al_rect r, uint8_t style);
// A horizontal bar over w columns, ratio 0..1; NaN leaves it empty.
void al_grid_bar(struct al_grid *g, int x, int y, int w, double ratio, uint8_t style);
// A column chart: values[r.w] as 0..1 from left to right, NaN for gaps.
void al_grid_chart(struct al_grid *g, struct al_rect r, const float *values, uint8_t style);

// Plain text, one line a row, blanks at the end of a line left out.
void al_grid_print(const struct al_grid *g, struct al_buf *b);
// The same with SGR colours and attributes.
void al_grid_print_color(const struct al_grid *g, struct al_buf *b);

#endif
