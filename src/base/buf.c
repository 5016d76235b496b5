// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void al_buf_free(struct al_buf *b) {
    if (!b)
        return;
    free(b->data);
    *b = (struct al_buf)AL_BUF_INIT;
}

void al_buf_clear(struct al_buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

static bool reserve(struct al_buf *b, size_t more) {
    if (b->failed || more > SIZE_MAX / 2 - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 256;
    while (cap < need)
        cap *= 2;
    char *data = realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void al_buf_add(struct al_buf *b, const char *bytes, size_t len) {
    if (!reserve(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, bytes, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void al_buf_str(struct al_buf *b, const char *text) {
    al_buf_add(b, text, strlen(text));
}

void al_buf_char(struct al_buf *b, char c) {
    al_buf_add(b, &c, 1);
}

void al_buf_pad(struct al_buf *b, char c, size_t count) {
    if (!reserve(b, count))
        return;
    memset(b->data + b->len, c, count);
    b->len += count;
    b->data[b->len] = '\0';
}

void al_buf_printf(struct al_buf *b, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0)
        b->failed = true;
    else if (reserve(b, (size_t)len)) {
        (void)vsnprintf(b->data + b->len, (size_t)len + 1, format, again);
        b->len += (size_t)len;
    }
    va_end(again);
}

// The C library prints the locale's radix character, which may be more than one byte; ours is always '.'.
static size_t force_point(char *text) {
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        if ((text[i] >= '0' && text[i] <= '9') || strchr("+-einfa.", text[i]))
            continue;
        size_t j = i + 1;
        while (j < len && !(text[j] >= '0' && text[j] <= '9'))
            j++;
        text[i] = '.';
        memmove(text + i + 1, text + j, len - j + 1);
        return len - (j - i - 1);
    }
    return len;
}

size_t al_fmt_fixed(char *out, size_t size, double value, int decimals) {
    char text[400];
    (void)snprintf(text, sizeof text, "%.*f", decimals < 0 ? 0 : decimals > 9 ? 9 : decimals, value);
    size_t len = force_point(text);
    if (!size)
        return 0;
    if (len >= size)
        len = size - 1;
    memcpy(out, text, len);
    out[len] = '\0';
    return len;
}

void al_buf_fixed(struct al_buf *b, double value, int decimals) {
    char text[400];
    al_buf_add(b, text, al_fmt_fixed(text, sizeof text, value, decimals));
}

// Writes the digits of an integer below 2^53 backwards from `end`; returns where they begin.
static char *digits_before(char *end, uint64_t value) {
    do
        *--end = (char)('0' + value % 10);
    while (value /= 10);
    return end;
}

// value = n / 10^k for a small k: then those digits read back as the same double, since both the division and strtod
// round correctly. Covers integers and everything that a driver gives in hundredths or thousandths.
static bool add_decimal(struct al_buf *b, double value) {
    static const double powers[] = {1, 1e3, 1e6};
    char text[40], *end = text + sizeof text;
    double magnitude = fabs(value);
    for (int i = 0; i < 3; i++) {
        double scaled = nearbyint(magnitude * powers[i]);
        if (scaled >= 9007199254740992.0 || scaled / powers[i] != magnitude)
            continue;
        uint64_t n = (uint64_t)scaled;
        int decimals = 3 * i;
        for (; decimals && n % 10 == 0; decimals--)
            n /= 10;
        uint64_t power = 1;
        for (int d = 0; d < decimals; d++)
            power *= 10;
        char *start = end;
        if (decimals) {
            start = digits_before(end, n % power);
            while (end - start < decimals)
                *--start = '0';
            *--start = '.';
        }
        start = digits_before(start, n / power);
        if (value < 0 && n)
            *--start = '-';
        al_buf_add(b, start, (size_t)(end - start));
        return true;
    }
    return false;
}

void al_buf_number(struct al_buf *b, double value) {
    char text[64];
    if (!isfinite(value)) {
        al_buf_str(b, "null");
        return;
    }
    if (add_decimal(b, value))
        return;
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        (void)force_point(text);
        double back;
        if (al_str_double(text, &back) && back == value)
            break;
    }
    al_buf_str(b, text);
}

size_t al_fmt_bytes(char *out, size_t size, double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (fabs(bytes) >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        unit++;
    }
    char number[64];
    (void)al_fmt_fixed(number, sizeof number, bytes, unit == 0 || fabs(bytes) >= 1000 ? 0 : 1);
    int len = snprintf(out, size, "%s %s", number, units[unit]);
    return len < 0 ? 0 : (size_t)len < size ? (size_t)len : size ? size - 1 : 0;
}

size_t al_fmt_duration(char *out, size_t size, double seconds) {
    int len;
    double s = fabs(seconds);
    char number[64];
    if (s < 0.0995) {
        (void)al_fmt_fixed(number, sizeof number, seconds * 1000, s < 0.00995 ? 1 : 0);
        len = snprintf(out, size, "%s ms", number);
    } else if (s < 99.5) {
        (void)al_fmt_fixed(number, sizeof number, seconds, s < 9.95 ? 1 : 0);
        len = snprintf(out, size, "%s s", number);
    } else if (s < 5970) {
        len = snprintf(out, size, "%.0f min", seconds / 60);
    } else if (s < 172800) {
        (void)al_fmt_fixed(number, sizeof number, seconds / 3600, 1);
        len = snprintf(out, size, "%s h", number);
    } else {
        len = snprintf(out, size, "%.0f d", seconds / 86400);
    }
    return len < 0 ? 0 : (size_t)len < size ? (size_t)len : size ? size - 1 : 0;
}
