// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

struct reader {
    struct al_json_document *d;
    const char *begin, *p, *end;
    char *out; // where the next string goes in d->text
    int error;
};

static uint32_t fail(struct reader *r, int error) {
    if (!r->error)
        r->error = error;
    return 0;
}

static void blanks(struct reader *r) {
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
        r->p++;
}

static uint32_t add(struct reader *r, enum al_json_kind kind) {
    struct al_json_document *d = r->d;
    if (d->count >= AL_JSON_NODES)
        return fail(r, AL_E_TOOBIG);
    if (d->count == d->cap) {
        uint32_t cap = d->cap ? 2 * d->cap : 256;
        struct al_json *wider = realloc(d->nodes, cap * sizeof *wider);
        if (!wider)
            return fail(r, AL_E_NOMEM);
        d->nodes = wider;
        d->cap = cap;
    }
    d->nodes[d->count] = (struct al_json){.kind = kind};
    return d->count++;
}

static int hex(const char *p) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static void put_utf8(struct reader *r, uint32_t code) {
    if (code < 0x80) {
        *r->out++ = (char)code;
    } else if (code < 0x800) {
        *r->out++ = (char)(0xc0 | code >> 6);
        *r->out++ = (char)(0x80 | (code & 0x3f));
    } else {
        if (code < 0x10000) {
            *r->out++ = (char)(0xe0 | code >> 12);
        } else {
            *r->out++ = (char)(0xf0 | code >> 18);
            *r->out++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *r->out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *r->out++ = (char)(0x80 | (code & 0x3f));
    }
}

// Behind "\u". A lone half of a pair and NUL, which no C string holds, become U+FFFD.
static bool unicode(struct reader *r) {
    int high = r->end - r->p >= 4 ? hex(r->p) : -1, low;
    if (high < 0)
        return false;
    r->p += 4;
    uint32_t code = (uint32_t)high;
    if (high >= 0xd800 && high < 0xdc00 && r->end - r->p >= 6 && r->p[0] == '\\' && r->p[1] == 'u' &&
        (low = hex(r->p + 2)) >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        r->p += 6;
    }
    put_utf8(r, code == 0 || (code >= 0xd800 && code < 0xe000) ? 0xfffd : code);
    return true;
}

static bool escaped(struct reader *r) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->p == r->end)
        return false;
    char c = *r->p++;
    if (c == 'u')
        return unicode(r);
    const char *at = c ? strchr(from, c) : NULL;
    if (at)
        *r->out++ = to[at - from];
    return at;
}

// A string never grows: an escape is longer than what it stands for. NULL: it is none.
static const char *string(struct reader *r) {
    const char *begin = r->out;
    if (r->p == r->end || *r->p != '"')
        return NULL;
    r->p++;
    while (r->p < r->end && *r->p != '"') {
        if (*r->p == '\\') {
            r->p++;
            if (!escaped(r))
                return NULL;
            continue;
        }
        size_t n = (unsigned char)*r->p < ' ' ? 0 : al_utf8_len((const unsigned char *)r->p, (size_t)(r->end - r->p));
        if (!n)
            return NULL;
        memcpy(r->out, r->p, n);
        r->out += n;
        r->p += n;
    }
    if (r->p == r->end)
        return NULL;
    r->p++;
    *r->out++ = '\0';
    return begin;
}

static const char *digits(const char *p, const char *end) {
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

static uint32_t number(struct reader *r) {
    char text[64];
    const char *p = r->p, *q;
    double value;
    p += p < r->end && *p == '-';
    q = digits(p, r->end);
    if (q == p || (*p == '0' && q - p > 1))
        return fail(r, AL_E_FORMAT);
    if (q < r->end && *q == '.') {
        p = q + 1;
        q = digits(p, r->end);
        if (q == p)
            return fail(r, AL_E_FORMAT);
    }
    if (q < r->end && (*q == 'e' || *q == 'E')) {
        p = q + 1;
        p += p < r->end && (*p == '+' || *p == '-');
        q = digits(p, r->end);
        if (q == p)
            return fail(r, AL_E_FORMAT);
    }
    if (!al_str_copy_n(text, sizeof text, r->p, (size_t)(q - r->p)) || !al_str_double(text, &value) || !isfinite(value))
        return fail(r, AL_E_FORMAT);
    r->p = q;
    uint32_t n = add(r, AL_JSON_NUMBER);
    if (n)
        r->d->nodes[n].number = value;
    return n;
}

static uint32_t literal(struct reader *r) {
    static const struct {
        const char *word;
        enum al_json_kind kind;
    } words[] = {{"null", AL_JSON_NULL}, {"false", AL_JSON_FALSE}, {"true", AL_JSON_TRUE}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t len = strlen(words[i].word);
        if ((size_t)(r->end - r->p) >= len && memcmp(r->p, words[i].word, len) == 0) {
            r->p += len;
            return add(r, words[i].kind);
        }
    }
    return fail(r, AL_E_FORMAT);
}

static bool taken(struct reader *r, char c) {
    blanks(r);
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

static uint32_t value(struct reader *r, int depth);

// "key": of a member; NULL for none.
static const char *key_of(struct reader *r) {
    blanks(r);
    const char *key = string(r);
    return key && taken(r, ':') ? key : NULL;
}

static uint32_t container(struct reader *r, int depth) {
    bool object = *r->p++ == '{';
    uint32_t own = add(r, object ? AL_JSON_OBJECT : AL_JSON_ARRAY), last = 0;
    if (!own || depth >= AL_JSON_DEPTH)
        return own ? fail(r, AL_E_TOOBIG) : 0;
    if (taken(r, object ? '}' : ']'))
        return own;
    do {
        const char *key = object ? key_of(r) : NULL;
        uint32_t child = object && !key ? fail(r, AL_E_FORMAT) : value(r, depth + 1);
        if (!child)
            return 0;
        r->d->nodes[child].key = key;
        *(last ? &r->d->nodes[last].next : &r->d->nodes[own].first) = child;
        last = child;
    } while (taken(r, ','));
    return taken(r, object ? '}' : ']') ? own : fail(r, AL_E_FORMAT);
}

static uint32_t value(struct reader *r, int depth) {
    blanks(r);
    if (r->p == r->end)
        return fail(r, AL_E_FORMAT);
    if (*r->p == '{' || *r->p == '[')
        return container(r, depth);
    if (*r->p == '-' || (*r->p >= '0' && *r->p <= '9'))
        return number(r);
    if (*r->p != '"')
        return literal(r);
    const char *text = string(r);
    uint32_t n = text ? add(r, AL_JSON_STRING) : fail(r, AL_E_FORMAT);
    if (n)
        r->d->nodes[n].text = text;
    return n;
}

int al_json_parse(const char *bytes, size_t len, struct al_json_document *ret, size_t *ret_at) {
    *ret = (struct al_json_document){.text = malloc(len + 1)};
    struct reader r = {ret, bytes, bytes, bytes + len, ret->text, ret->text ? 0 : AL_E_NOMEM};
    if (!r.error)
        (void)add(&r, AL_JSON_NULL); // position 0 means none
    if (!r.error && value(&r, 0)) {
        blanks(&r);
        if (r.p != r.end)
            (void)fail(&r, AL_E_FORMAT);
    }
    if (ret_at)
        *ret_at = (size_t)(r.p - bytes);
    if (r.error)
        al_json_free(ret);
    return r.error;
}

void al_json_free(struct al_json_document *d) {
    free(d->nodes);
    free(d->text);
    *d = (struct al_json_document){0};
}

const struct al_json *al_json_root(const struct al_json_document *d) {
    return d->count > 1 ? &d->nodes[1] : NULL;
}

const struct al_json *al_json_first(const struct al_json_document *d, const struct al_json *n) {
    return n && n->first ? &d->nodes[n->first] : NULL;
}

const struct al_json *al_json_next(const struct al_json_document *d, const struct al_json *n) {
    return n && n->next ? &d->nodes[n->next] : NULL;
}

const struct al_json *al_json_get(const struct al_json_document *d, const struct al_json *n, const char *key) {
    if (!n || n->kind != AL_JSON_OBJECT)
        return NULL;
    for (const struct al_json *c = al_json_first(d, n); c; c = al_json_next(d, c))
        if (strcmp(c->key, key) == 0)
            return c;
    return NULL;
}

bool al_json_number(const struct al_json *n, double *ret) {
    if (!n || n->kind != AL_JSON_NUMBER)
        return false;
    *ret = n->number;
    return true;
}

const char *al_json_text(const struct al_json *n) {
    return n && n->kind == AL_JSON_STRING ? n->text : "";
}
