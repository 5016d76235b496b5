// SPDX-License-Identifier: Apache-2.0
#include "scenario/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int al_reader_fail(struct al_reader *r, int column, const char *format, ...) {
    if (r->error && r->error->line == 0) {
        r->error->line = r->line ? r->line : 1;
        r->error->column = column;
        va_list args;
        va_start(args, format);
        vsnprintf(r->error->message, sizeof r->error->message, format, args);
        va_end(args);
    }
    return AL_E_FORMAT;
}

static int column_of(const struct al_reader *r, const char *p) {
    return (int)(p - r->line_start) + 1;
}

static void skip_blanks(struct al_reader *r) {
    while (r->at < r->line_end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
}

bool al_reader_line(struct al_reader *r) {
    while (r->line_end < r->end) {
        r->line_start = r->line == 0 ? r->line_end : r->line_end + 1;
        r->line++;
        const char *newline = memchr(r->line_start, '\n', (size_t)(r->end - r->line_start));
        r->line_end = newline ? newline : r->end;
        r->at = r->line_start;
        skip_blanks(r);
        if (r->at < r->line_end && *r->at != '#' && *r->at != '\r')
            return true;
    }
    return false;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The byte behind a backslash; r->at stands on the character after it.
static int escape(struct al_reader *r) {
    if (r->at >= r->line_end)
        return -1;
    char c = *r->at++;
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case '"':
    case '\\':
        return c;
    case 'x':
        if (r->line_end - r->at >= 2 && hex_digit(r->at[0]) >= 0 && hex_digit(r->at[1]) >= 0) {
            int byte = hex_digit(r->at[0]) * 16 + hex_digit(r->at[1]);
            r->at += 2;
            return byte ? byte : -1;
        }
        return -1;
    default:
        return -1;
    }
}

static int add_byte(struct al_reader *r, char *out, size_t *len, int byte) {
    if (*len >= AL_WORD_MAX - 1)
        return al_reader_fail(r, column_of(r, r->at), "this word is longer than %d bytes; shorten it", AL_WORD_MAX - 1);
    out[(*len)++] = (char)byte;
    return 0;
}

static int quoted(struct al_reader *r, char *out) {
    const char *open = r->at++;
    size_t len = 0;
    while (r->at < r->line_end && *r->at != '"') {
        int byte = (unsigned char)*r->at++;
        if (byte == '\\' && (byte = escape(r)) < 0)
            return al_reader_fail(r, column_of(r, r->at) - 1, "unknown escape; \\\\ \\\" \\n \\t and \\x1b exist");
        if (byte == 0)
            return al_reader_fail(r, column_of(r, r->at) - 1, "a zero byte cannot be part of a text; remove it");
        int error = add_byte(r, out, &len, byte);
        if (error)
            return error;
    }
    if (r->at >= r->line_end)
        return al_reader_fail(r, column_of(r, open), "this quote is never closed; end the text with \"");
    r->at++;
    out[len] = 0;
    return 0;
}

static bool word_ends(const struct al_reader *r) {
    return r->at >= r->line_end || *r->at == ' ' || *r->at == '\t' || *r->at == '\r';
}

// One half of a word; the key half stops at '='.
static int half(struct al_reader *r, char *out, bool key) {
    if (!word_ends(r) && *r->at == '"')
        return quoted(r, out);
    size_t len = 0;
    while (!word_ends(r) && !(key && *r->at == '=')) {
        unsigned char c = (unsigned char)*r->at;
        if (c < 0x20 || c == 0x7f || c == '"')
            return al_reader_fail(r, column_of(r, r->at), "this character needs quotes around the whole value");
        int error = add_byte(r, out, &len, c);
        if (error)
            return error;
        r->at++;
    }
    out[len] = 0;
    return 0;
}

int al_reader_word(struct al_reader *r) {
    struct al_word *w = &r->word;
    skip_blanks(r);
    if (r->at >= r->line_end || *r->at == '\r' || *r->at == '#')
        return 0;
    w->key_column = column_of(r, r->at);
    w->has_value = false;
    w->value[0] = 0;
    int error = half(r, w->key, true);
    if (!error && !word_ends(r) && *r->at == '=') {
        r->at++;
        w->has_value = true;
        w->value_column = column_of(r, r->at);
        error = half(r, w->value, false);
    }
    if (!error && !word_ends(r))
        error = al_reader_fail(r, column_of(r, r->at), "a blank is missing here");
    return error ? error : 1;
}

int al_reader_need(struct al_reader *r, const char *what) {
    int got = al_reader_word(r);
    if (got == 0)
        return al_reader_fail(r, column_of(r, r->at), "%s is missing here", what);
    if (got > 0 && r->word.has_value)
        return al_reader_fail(r, r->word.key_column, "expected %s, not a key=value", what);
    return got < 0 ? got : 0;
}

int al_reader_done(struct al_reader *r) {
    int got = al_reader_word(r);
    return got > 0 ? al_reader_fail(r, r->word.key_column, "nothing may follow here; remove '%.40s'", r->word.key)
                   : got;
}

int al_grow(void *array, size_t *cap, size_t count, size_t size) {
    if (count < *cap)
        return 0;
    size_t want = *cap ? *cap * 2 : 64;
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = realloc(old, want * size);
    if (!grown)
        return AL_E_NOMEM;
    memset((char *)grown + *cap * size, 0, (want - *cap) * size);
    memcpy(array, &grown, sizeof grown);
    *cap = want;
    return 0; // cppcheck-suppress memleak
}

int al_add_event(struct al_reader *r, struct al_change e) {
    struct al_scenario *s = r->s;
    if (s->event_count >= AL_SCENARIO_EVENTS_MAX)
        return AL_E_TOOBIG;
    int error = al_grow(&s->events, &s->event_cap, s->event_count, sizeof *s->events);
    if (error)
        return error;
    e.at_ns = r->time_ns;
    s->events[s->event_count++] = e;
    return 0;
}

int al_add_mask(struct al_scenario *s, const struct al_gpu_mask *m, uint32_t *ret) {
    // Neighbouring lines mostly speak of the same few sets.
    for (size_t i = s->mask_count; i > 0 && i + 16 > s->mask_count; i--)
        if (memcmp(&s->masks[i - 1], m, sizeof *m) == 0) {
            *ret = (uint32_t)(i - 1);
            return 0;
        }
    int error = al_grow(&s->masks, &s->mask_cap, s->mask_count, sizeof *s->masks);
    if (error)
        return error;
    *ret = (uint32_t)s->mask_count;
    s->masks[s->mask_count++] = *m;
    return 0;
}

int al_add_text(struct al_scenario *s, const char *text, uint32_t *ret) {
    size_t len = strlen(text) + 1;
    if (s->text_len == 0)
        s->text_len = 1; // offset 0 is the empty text
    while (s->text_len + len > s->text_cap) {
        int error = al_grow(&s->texts, &s->text_cap, s->text_cap, 1);
        if (error)
            return error;
    }
    memcpy(s->texts + s->text_len, text, len);
    *ret = (uint32_t)s->text_len;
    s->text_len += len;
    return 0;
}

static struct al_index_slot *probe(const struct al_index *x, uint64_t key) {
    size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (x->cap - 1);
    while (x->slot[i].key && x->slot[i].key != key)
        i = (i + 1) & (x->cap - 1);
    return &x->slot[i];
}

struct al_index_slot *al_index_slot(struct al_index *x, uint64_t key) {
    if (x->count * 2 >= x->cap) {
        struct al_index grown = {.cap = x->cap ? x->cap * 2 : 256, .count = x->count};
        grown.slot = calloc(grown.cap, sizeof *grown.slot);
        if (!grown.slot)
            return NULL;
        for (size_t i = 0; i < x->cap; i++)
            if (x->slot[i].key)
                *probe(&grown, x->slot[i].key) = x->slot[i];
        free(x->slot);
        *x = grown;
    }
    struct al_index_slot *slot = probe(x, key);
    if (!slot->key) {
        *slot = (struct al_index_slot){key, UINT32_MAX};
        x->count++;
    }
    return slot;
}
