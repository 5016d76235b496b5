// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

// Overlong forms and surrogates are invalid too.
size_t al_utf8_len(const unsigned char *t, size_t max) {
    size_t len;
    if (t[0] < 0x80)
        return 1;
    if (t[0] >= 0xc2 && t[0] <= 0xdf)
        len = 2;
    else if ((t[0] & 0xf0) == 0xe0)
        len = 3;
    else if (t[0] >= 0xf0 && t[0] <= 0xf4)
        len = 4;
    else
        return 0;
    if (len > max)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((t[i] & 0xc0) != 0x80)
            return 0;
    if ((t[0] == 0xe0 && t[1] < 0xa0) || (t[0] == 0xed && t[1] > 0x9f) || (t[0] == 0xf0 && t[1] < 0x90) ||
        (t[0] == 0xf4 && t[1] > 0x8f))
        return 0;
    return len;
}

bool al_str_copy_n(char *out, size_t size, const char *text, size_t len) {
    if (!size)
        return false;
    bool whole = len < size;
    if (!whole) {
        len = size - 1;
        // Step back over a sequence that the cut would split.
        while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(out, text, len);
    out[len] = '\0';
    return whole;
}

bool al_str_copy(char *out, size_t size, const char *text) {
    return al_str_copy_n(out, size, text, strlen(text));
}

bool al_str_equal(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool al_str_starts(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool al_str_ends(const char *text, const char *suffix) {
    size_t len = strlen(text), tail = strlen(suffix);
    return len >= tail && strcmp(text + len - tail, suffix) == 0;
}

bool al_str_u64(const char *text, uint64_t *ret) {
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        unsigned digit = (unsigned)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = value;
    return true;
}

bool al_str_i64(const char *text, int64_t *ret) {
    uint64_t value;
    bool negative = *text == '-';
    if (!al_str_u64(text + (negative || *text == '+'), &value) || value > (uint64_t)INT64_MAX)
        return false;
    *ret = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool al_str_double(const char *text, double *ret) {
    char *end = NULL;
    // Only plain decimal notation: no hex, no "nan", no "inf", no leading blanks.
    if (!(isdigit((unsigned char)*text) || *text == '-' || *text == '+' || *text == '.') ||
        strpbrk(text, "xXnNiIpP"))
        return false;
    static _Atomic(locale_t) c_locale; // made once and kept; a race makes one more, which stays unused
    locale_t l = c_locale;
    if (!l)
        c_locale = l = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    errno = 0;
    double value = l ? strtod_l(text, &end, l) : strtod(text, &end);
    if (end == text || *end || errno == ERANGE)
        return false;
    *ret = value;
    return true;
}

static void json_escape(struct al_buf *b, unsigned char c) {
    if (c == '"' || c == '\\')
        al_buf_printf(b, "\\%c", c);
    else if (c == '\n')
        al_buf_str(b, "\\n");
    else if (c == '\t')
        al_buf_str(b, "\\t");
    else if (c < 0x80)
        al_buf_printf(b, "\\u%04x", c);
    else
        al_buf_str(b, "\xef\xbf\xbd"); // no valid sequence begins here
}

void al_json_string(struct al_buf *b, const char *text) {
    size_t left = strlen(text), run = 0; // bytes that go out as they are
    const unsigned char *t = (const unsigned char *)text;
    al_buf_char(b, '"');
    while (run < left) {
        unsigned char c = t[run];
        size_t len = c < 0x80 ? (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) : al_utf8_len(t + run, left - run);
        if (len) {
            run += len;
            continue;
        }
        al_buf_add(b, (const char *)t, run);
        json_escape(b, c);
        t += run + 1;
        left -= run + 1;
        run = 0;
    }
    al_buf_add(b, (const char *)t, run);
    al_buf_char(b, '"');
}

void al_json_string_or_null(struct al_buf *b, const char *text) {
    if (text && *text)
        al_json_string(b, text);
    else
        al_buf_str(b, "null");
}

void al_json_integer_or_null(struct al_buf *b, bool known, int64_t value) {
    if (known)
        al_buf_printf(b, "%lld", (long long)value);
    else
        al_buf_str(b, "null");
}

// U+0080..U+009F: C1 controls, which some terminals obey.
static bool is_c1(const unsigned char *t, size_t len) {
    return len == 2 && t[0] == 0xc2 && t[1] < 0xa0;
}

void al_term_string(struct al_buf *b, const char *text) {
    size_t left = strlen(text);
    const unsigned char *t = (const unsigned char *)text;
    while (left) {
        size_t len = al_utf8_len(t, left);
        if (!len || *t < 0x20 || *t == 0x7f || is_c1(t, len)) {
            al_buf_char(b, '?');
            len = len ? len : 1;
        } else {
            al_buf_add(b, (const char *)t, len);
        }
        t += len;
        left -= len;
    }
}

char *al_str_clean(char *text) {
    size_t left = strlen(text);
    unsigned char *t = (unsigned char *)text;
    while (left) {
        size_t len = al_utf8_len(t, left);
        if (!len || *t < 0x20 || *t == 0x7f) {
            *t = '?';
            len = len ? len : 1;
        } else if (is_c1(t, len)) {
            t[0] = t[1] = '?';
        }
        t += len;
        left -= len;
    }
    return text;
}
