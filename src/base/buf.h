// SPDX-License-Identifier: Apache-2.0
// A growing byte buffer that every printer writes into. Numbers are printed without looking at the locale.
#ifndef AL_BASE_BUF_H
#define AL_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct al_buf {
    char *data; // always NUL-terminated once something was added
    size_t len;
    size_t cap;
    bool failed; // an allocation failed: content is incomplete, further adds are ignored
};

#define AL_BUF_INIT {0}

void al_buf_free(struct al_buf *b);
void al_buf_clear(struct al_buf *b); // keeps the memory
void al_buf_add(struct al_buf *b, const char *bytes, size_t len);
void al_buf_str(struct al_buf *b, const char *text);
void al_buf_char(struct al_buf *b, char c);
void al_buf_printf(struct al_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Fixed notation with `decimals` (0..9) digits after a '.', whatever the locale; rounds half to even as printf does.
void al_buf_fixed(struct al_buf *b, double value, int decimals);
// Shortest text that reads back as the same double ("93", "0.93", "1e+300"); NaN and infinity give "null".
void al_buf_number(struct al_buf *b, double value);
void al_buf_pad(struct al_buf *b, char c, size_t count);

// The same numbers into a caller's array; returns the length written (truncated to size - 1).
size_t al_fmt_fixed(char *out, size_t size, double value, int decimals);
// "93 %" "12.3 GiB" "655 W" "1.98 GHz" for people, by unit word; see base/units.h for the reverse.
size_t al_fmt_bytes(char *out, size_t size, double bytes);
size_t al_fmt_duration(char *out, size_t size, double seconds);

#endif
