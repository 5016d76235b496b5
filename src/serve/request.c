// SPDX-License-Identifier: Apache-2.0
#include "serve/request.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/str.h"

static int hex(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Undoes the escapes of text[len] into out[size].
static int unescape(const char *text, size_t len, char *out, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)text[i];
        if (c == '%') {
            int high = i + 2 < len ? hex(text[i + 1]) : -1, low = i + 2 < len ? hex(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return AL_E_FORMAT;
            c = high << 4 | low;
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        if (c < 0x20 || c == 0x7f)
            return AL_E_FORMAT;
        if (n + 1 >= size)
            return AL_E_TOOBIG;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return 0;
}

static int take_item(struct al_query *q, const char *text, size_t len) {
    const char *equals = memchr(text, '=', len);
    size_t name_len = equals ? (size_t)(equals - text) : len;
    if (!len)
        return 0; // "a=1&&b=2"
    if (q->count == AL_QUERY_MAX)
        return AL_E_TOOBIG;
    struct al_query_item *item = &q->items[q->count];
    int result = unescape(text, name_len, item->name, sizeof item->name);
    if (!result)
        result = unescape(text + name_len + (equals ? 1 : 0), len - name_len - (equals ? 1 : 0), item->value,
                          sizeof item->value);
    if (!result && al_query_get(q, item->name))
        result = AL_E_FORMAT;
    q->count += !result;
    return result;
}

int al_query_parse(const char *target, struct al_query *ret) {
    *ret = (struct al_query){0};
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        target = strchr(strchr(target, ':') + 3, '/');
        if (!target)
            target = "/";
    }
    size_t path_len = strcspn(target, "?#");
    if (target[0] != '/')
        return AL_E_FORMAT;
    if (!al_str_copy_n(ret->path, sizeof ret->path, target, path_len))
        return AL_E_TOOBIG;
    const char *at = target + path_len;
    if (*at != '?')
        return 0;
    for (;;) {
        at++;
        size_t len = strcspn(at, "&#");
        int result = take_item(ret, at, len);
        if (result)
            return result;
        at += len;
        if (*at != '&')
            return 0;
    }
}

const char *al_query_get(const struct al_query *q, const char *name) {
    for (uint32_t i = 0; i < q->count; i++)
        if (strcmp(q->items[i].name, name) == 0)
            return q->items[i].value;
    return NULL;
}

// --- Accept ---

struct range {
    char type[64], version[16];
    double q;
};

// Copies a part without the blanks around it.
static void trimmed(char *out, size_t size, const char *text, size_t len) {
    while (len && (*text == ' ' || *text == '\t')) {
        text++;
        len--;
    }
    while (len && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    (void)al_str_copy_n(out, size, text, len);
}

static void take_parameter(struct range *r, const char *text, size_t len) {
    char part[64];
    trimmed(part, sizeof part, text, len);
    if (strncasecmp(part, "q=", 2) == 0) {
        double q;
        r->q = al_str_double(part + 2, &q) && q >= 0 && q <= 1 ? q : 0;
    } else if (strncasecmp(part, "version=", 8) == 0) {
        (void)al_str_copy(r->version, sizeof r->version, part + 8);
    }
}

static const char *take_range(const char *at, struct range *r) {
    size_t len = strcspn(at, ",");
    const char *end = at + len;
    size_t part = strcspn(at, ",;");
    *r = (struct range){.q = 1};
    trimmed(r->type, sizeof r->type, at, part);
    for (at += part; at < end && *at == ';'; at += part) {
        at++;
        part = strcspn(at, ",;");
        take_parameter(r, at, part);
    }
    return *end ? end + 1 : end;
}

bool al_accept_openmetrics(const char *accept) {
    double open = 0, text = 0, any = 0;
    if (!accept)
        return false;
    while (*accept) {
        struct range r;
        accept = take_range(accept, &r);
        bool known = !*r.version || strcmp(r.version, "1.0.0") == 0 || strcmp(r.version, "0.0.1") == 0;
        if (strcasecmp(r.type, "application/openmetrics-text") == 0 && known)
            open = fmax(open, r.q);
        else if (strcasecmp(r.type, "text/plain") == 0 || strcasecmp(r.type, "text/*") == 0)
            text = fmax(text, r.q);
        else if (strcmp(r.type, "*/*") == 0)
            any = fmax(any, r.q);
    }
    // A browser's or curl's */* gets what it can show.
    return open > 0 && open >= text && open >= any * (text > 0 ? 0 : 1);
}

// --- Host ---

// The name part of "name:port" and "[v6]:port".
static bool host_name(const char *host, char *out, size_t size) {
    bool six = *host == '[';
    const char *start = host + six, *end = start + strcspn(start, six ? "]" : ":");
    const char *port = end + (six && *end); // behind the bracket
    if ((six && !*end) || (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")])))
        return false;
    if (!six && end > start && end[-1] == '.') // the root's dot
        end--;
    return end > start && al_str_copy_n(out, size, start, (size_t)(end - start));
}

bool al_host_allowed(const char *host, const char *names) {
    char name[256];
    unsigned char address[16];
    if (!host_name(host, name, sizeof name))
        return false;
    if (*host == '[')
        return inet_pton(AF_INET6, name, address) == 1;
    // An address is nobody's name: rebinding needs a name that an attacker's DNS answers for.
    if (strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1)
        return true;
    for (const char *at = names; at && *at;) {
        size_t len = strcspn(at, "\n");
        if (len == strlen(name) && strncasecmp(at, name, len) == 0)
            return true;
        at += len + (at[len] == '\n');
    }
    return false;
}

// --- Authorization ---

static int base64_value(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// Decodes text into out[size] with a NUL behind; false when it is broken, too long, or holds a NUL.
static bool base64(const char *text, char *out, size_t size) {
    size_t len = strlen(text), n = 0;
    while (len && text[len - 1] == '=')
        len--;
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < len; i++) {
        int value = base64_value(text[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        have += 6;
        if (have < 8)
            continue;
        have -= 8;
        char c = (char)(bits >> have & 0xff);
        if (!c || n + 1 >= size)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return n > 0 && (bits & ((1u << have) - 1)) == 0; // one spelling only
}

void al_credentials_parse(const char *authorization, struct al_credentials *ret) {
    *ret = (struct al_credentials){0};
    size_t word = strcspn(authorization, " ");
    const char *rest = authorization + word + strspn(authorization + word, " ");
    if (word == 6 && strncasecmp(authorization, "Bearer", 6) == 0) {
        if (*rest && al_str_copy(ret->secret, sizeof ret->secret, rest))
            ret->scheme = AL_SCHEME_BEARER;
    } else if (word == 5 && strncasecmp(authorization, "Basic", 5) == 0) {
        char pair[sizeof ret->user + sizeof ret->secret];
        char *colon = base64(rest, pair, sizeof pair) ? strchr(pair, ':') : NULL;
        if (colon && al_str_copy_n(ret->user, sizeof ret->user, pair, (size_t)(colon - pair)) &&
            al_str_copy(ret->secret, sizeof ret->secret, colon + 1))
            ret->scheme = AL_SCHEME_BASIC;
    }
    if (ret->scheme == AL_SCHEME_NONE)
        *ret = (struct al_credentials){0};
}

int al_listen_parse(const char *text, char *ret_host, size_t size, uint16_t *ret_port) {
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    uint64_t number;
    unsigned char address[16];
    if (!isdigit((unsigned char)*port) || !al_str_u64(port, &number) || number > 65535)
        return AL_E_FORMAT;
    *ret_port = (uint16_t)number;
    size_t len = colon ? (size_t)(colon - text) : 0;
    if (!colon)
        return al_str_copy(ret_host, size, "127.0.0.1") ? 0 : AL_E_FORMAT;
    if (!len)
        return al_str_copy(ret_host, size, "::") ? 0 : AL_E_FORMAT;
    if (*text == '[' && text[len - 1] == ']') {
        if (!al_str_copy_n(ret_host, size, text + 1, len - 2))
            return AL_E_FORMAT;
        return inet_pton(AF_INET6, ret_host, address) == 1 ? 0 : AL_E_FORMAT;
    }
    if (len == 9 && strncasecmp(text, "localhost", 9) == 0)
        return al_str_copy(ret_host, size, "127.0.0.1") ? 0 : AL_E_FORMAT;
    if (!al_str_copy_n(ret_host, size, text, len))
        return AL_E_FORMAT;
    return inet_pton(AF_INET, ret_host, address) == 1 ? 0 : AL_E_FORMAT;
}

bool al_query_time(const char *text, double now, double *ret) {
    double value;
    if (!al_str_double(text, &value) || !isfinite(value) || fabs(value) > 1e11)
        return false;
    *ret = value < 0 || (value == 0 && *text == '-') ? now + value : value;
    return true;
}
