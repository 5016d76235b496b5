// SPDX-License-Identifier: Apache-2.0
// Bounded strings and escaping. Text that came from another process is never trusted.
#ifndef AL_BASE_STR_H
#define AL_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct al_buf;

// Copies at most size - 1 bytes and ends with NUL; returns false when it had to cut (never inside a UTF-8 sequence).
bool al_str_copy(char *out, size_t size, const char *text);
bool al_str_copy_n(char *out, size_t size, const char *text, size_t len);
bool al_str_equal(const char *a, const char *b); // both may be NULL
// Length of the valid UTF-8 sequence at text (at most max bytes, max > 0), or 0 when there is none.
size_t al_utf8_len(const unsigned char *text, size_t max);
bool al_str_starts(const char *text, const char *prefix);
bool al_str_ends(const char *text, const char *suffix);
// Whole-string parses: false on empty text, trailing bytes or overflow. Never look at the locale.
bool al_str_u64(const char *text, uint64_t *ret);
bool al_str_i64(const char *text, int64_t *ret);
bool al_str_double(const char *text, double *ret);

// JSON string with quotes; invalid UTF-8 becomes U+FFFD, control bytes become \u00xx.
void al_json_string(struct al_buf *b, const char *text);
void al_json_string_or_null(struct al_buf *b, const char *text); // null for "" and NULL
void al_json_integer_or_null(struct al_buf *b, bool known, int64_t value);
// One line for a terminal: control bytes and invalid UTF-8 become '?', so that a process name cannot steer the screen.
void al_term_string(struct al_buf *b, const char *text);
// Replaces control bytes (newline, escape, ...) by '?' in place; returns text.
char *al_str_clean(char *text);

#endif
