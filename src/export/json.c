// SPDX-License-Identifier: Apache-2.0
#include "export/json.h"

#include <string.h>

#include "base/str.h"

static void escape(struct al_buf *b, uint32_t c) {
    if (c > 0xffff) {
        c -= 0x10000;
        al_buf_printf(b, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
    } else {
        al_buf_printf(b, "\\u%04x", c);
    }
}

// Adds one character that is not printable ASCII and returns its length; `t` is valid UTF-8.
static size_t add_other(struct al_buf *b, const unsigned char *t) {
    static const char *const shorts[0x20] = {['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f",
                                             ['\r'] = "\\r"};
    if (*t < 0x80) {
        if (*t < 0x20 && shorts[*t])
            al_buf_str(b, shorts[*t]);
        else
            escape(b, *t);
        return 1;
    }
    size_t len = *t >= 0xf0 ? 4 : *t >= 0xe0 ? 3 : 2;
    uint32_t c = *t & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (t[i] & 0x3f);
    escape(b, c);
    return len;
}

void al_json_ascii(struct al_buf *b, const char *text) {
    al_buf_char(b, '"');
    const unsigned char *t = (const unsigned char *)text, *end = t + strlen(text);
    while (t < end) {
        size_t len = al_utf8_len(t, (size_t)(end - t));
        if (!len) {
            al_buf_str(b, "\\ufffd");
            t++;
        } else if (*t == '"' || *t == '\\') {
            al_buf_char(b, '\\');
            al_buf_char(b, (char)*t++);
        } else if (*t >= 0x20 && *t < 0x7f) {
            al_buf_char(b, (char)*t++);
        } else {
            t += add_other(b, t);
        }
    }
    al_buf_char(b, '"');
}
