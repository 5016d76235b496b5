// SPDX-License-Identifier: Apache-2.0
#include "export/summary.h"

#include <string.h>

#include "base/str.h"

static const struct {
    const char *key, *words;
    bool bytes;
} rows[] = {
#define X(key, words, bytes) {#key, words, bytes},
    AL_SUMMARY_ROWS(X)
#undef X
};

static const char *skip_blanks(const char *p) {
    return p + strspn(p, " ");
}

// "  1530 MiB " or "     42 K": a count and the unit that torch scaled it to.
static const char *cell(const char *p, bool bytes, double *ret) {
    static const struct {
        const char *word;
        double scale;
    } units[] = {{"B ", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
                 {"PiB", 1125899906842624.0}, {"K", 1e3}, {"M", 1e6}};
    char digits[24];
    p = skip_blanks(p);
    size_t len = strspn(p, "0123456789");
    if (!len || !al_str_copy_n(digits, sizeof digits, p, len) || !al_str_double(digits, ret))
        return NULL;
    p = skip_blanks(p + len);
    for (size_t i = bytes ? 0 : 6; i < (bytes ? 6 : sizeof units / sizeof *units); i++)
        if (al_str_starts(p, units[i].word)) {
            *ret *= units[i].scale;
            p += strlen(units[i].word);
            break;
        }
    p = skip_blanks(p);
    return *p == '|' ? p + 1 : NULL;
}

static bool take_row(const char *p, struct al_summary *s) {
    for (int i = 0; i < AL_SUMMARY_COUNT; i++) {
        size_t len = strlen(rows[i].words);
        if (strncmp(p, rows[i].words, len) != 0)
            continue;
        const char *q = skip_blanks(p + len); // not before: the text may end sooner
        if (*q != '|' || s->row[i].known)
            continue;
        double *const cells[] = {&s->row[i].current, &s->row[i].peak, &s->row[i].allocated, &s->row[i].freed};
        q++;
        for (int n = 0; n < 4 && q; n++)
            q = cell(q, rows[i].bytes, cells[n]);
        return s->row[i].known = q != NULL;
    }
    return false;
}

static void take_count(const char *line, const char *words, bool *known, double *ret) {
    const char *p = strstr(line, words), *end = strchr(line, '\n');
    if (!p || (end && p > end) || *known)
        return;
    *known = cell(p + strlen(words), false, ret) != NULL;
}

int al_summary_parse(const char *text, struct al_summary *ret) {
    int count = 0;
    memset(ret, 0, sizeof *ret);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (*line == '|')
            count += take_row(skip_blanks(line + 1), ret);
        take_count(line, "CUDA OOMs:", &ret->ooms_known, &ret->ooms);
        take_count(line, "cudaMalloc retries:", &ret->retries_known, &ret->retries);
        if (!*line)
            break;
    }
    return count;
}

static void key_number(struct al_buf *b, const char *key, bool known, double value) {
    al_buf_printf(b, "\"%s\":", key);
    if (known)
        al_buf_number(b, value);
    else
        al_buf_str(b, "null");
}

void al_summary_json(struct al_buf *b, const struct al_summary *s) {
    al_buf_char(b, '{');
    key_number(b, "ooms", s->ooms_known, s->ooms);
    al_buf_char(b, ',');
    key_number(b, "retries", s->retries_known, s->retries);
    for (int i = 0; i < AL_SUMMARY_COUNT; i++) {
        al_buf_printf(b, ",\"%s\":", rows[i].key);
        if (!s->row[i].known) {
            al_buf_str(b, "null");
            continue;
        }
        al_buf_char(b, '{');
        key_number(b, "current", true, s->row[i].current);
        al_buf_char(b, ',');
        key_number(b, "peak", true, s->row[i].peak);
        al_buf_char(b, ',');
        key_number(b, "allocated", true, s->row[i].allocated);
        al_buf_char(b, ',');
        key_number(b, "freed", true, s->row[i].freed);
        al_buf_char(b, '}');
    }
    al_buf_char(b, '}');
}
