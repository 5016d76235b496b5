// SPDX-License-Identifier: Apache-2.0
#include "host/command.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "model/process.h"

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The argument behind `arg`, or NULL; a last one without its NUL counts too, since the caller's buffer ends with one.
static const char *next_arg(const char *arg, const char *end) {
    arg += strlen(arg) + 1;
    return arg < end ? arg : NULL;
}

static bool is_python(const char *exe) {
    return al_str_starts(exe, "python") || al_str_starts(exe, "pypy");
}

void al_program_parse(const char *args, size_t len, struct al_program *ret) {
    memset(ret, 0, sizeof *ret);
    if (!len)
        return;
    const char *end = args + len, *program = args, *arg = args;
    const char *exe = base_name(args);
    al_str_copy(ret->exe, sizeof ret->exe, exe + (*exe == '-'));
    if (is_python(ret->exe)) {
        for (arg = next_arg(args, end); arg && *arg == '-'; arg = next_arg(arg, end)) {
            // -mMODULE and -cCODE are legal as well as the two-word forms; options that take a word are -W and -X.
            const char letter = arg[1];
            if (letter == 'm' || letter == 'c') {
                arg = arg[2] ? arg + 2 : next_arg(arg, end);
                break;
            }
            if ((letter == 'W' || letter == 'X') && !arg[2])
                arg = next_arg(arg, end);
            if (!arg)
                break;
        }
        program = arg;
    }
    if (program)
        al_str_copy(ret->name, sizeof ret->name, program);
    const char *verb = program ? next_arg(program, end) : NULL;
    if (verb)
        al_str_copy(ret->verb, sizeof ret->verb, verb);
    al_str_clean(ret->exe);
    al_str_clean(ret->name);
    al_str_clean(ret->verb);
}

struct writer {
    char *out;
    size_t len, size;
};

static void put(struct writer *w, const char *text, size_t len) {
    if (len > w->size - w->len)
        len = w->size - w->len;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        w->out[w->len++] = c == '\n' || c == '\t' || c == '\r' ? ' ' : c < 0x20 || c == 0x7f ? '?' : text[i];
    }
}

static void put_mask(struct writer *w) {
    put(w, "***", 3);
}

// Harmless longer words that begin like a secret's: what people look at in a training command.
static bool is_harmless(const char *text, size_t len) {
    static const char *const words[] = {"tokens", "tokeni", "author", "keyword"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t word_len = strlen(words[i]);
        if (len >= word_len && strncasecmp(text, words[i], word_len) == 0)
            return !(len > 7 && strncasecmp(text, "authoriz", 8) == 0);
    }
    return false;
}

static bool is_secret_name(const char *name, size_t len) {
    static const char *const words[] = {"token", "key", "secret", "password", "passwd", "credential", "auth"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t word_len = strlen(words[i]);
        for (size_t at = 0; at + word_len <= len; at++)
            if (strncasecmp(name + at, words[i], word_len) == 0 && !is_harmless(name + at, len - at))
                return true;
    }
    return false;
}

bool al_command_secret(const char *name) {
    return is_secret_name(name, strlen(name));
}

static bool is_name_byte(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' || c == '+' || c == '/' || c == '%';
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Length of a value at text: a quoted string with its quotes, else up to what can end it.
static size_t value_len(const char *text, size_t len, const char *stops) {
    if (len && (*text == '"' || *text == '\'')) {
        const char *close = text + 1;
        while (close < text + len && *close != *text)
            close += *close == '\\' && close + 1 < text + len ? 2 : 1;
        return close < text + len ? (size_t)(close + 1 - text) : len;
    }
    size_t n = 0;
    while (n < len && !strchr(stops, text[n]))
        n++;
    return n;
}

// What lies between a secret's name and its value: `=`, `": "`, `: ` or, behind an option's name, blanks. 0: no value.
static size_t joint_len(const char *text, size_t len, bool option, const char **ret_stops) {
    size_t n = 0;
    if (n < len && (text[n] == '"' || text[n] == '\''))
        n++;
    while (n < len && is_blank(text[n]))
        n++;
    if (n < len && (text[n] == '=' || text[n] == ':')) {
        // Behind a colon blanks belong to the value: "Authorization: Bearer x".
        *ret_stops = text[n] == ':' ? ",}\"'\n" : "&;,} \t\n\"'";
        for (n++; n < len && is_blank(text[n]); n++)
            ;
        return n;
    }
    *ret_stops = " \t\n\"';";
    return option && n && is_blank(text[n - 1]) && !(n + 1 < len && text[n] == '-' && text[n + 1] == '-') ? n : 0;
}

// Behind "://": how many bytes end with the '@' of a user's name and password; 0 when there is none.
static size_t userinfo_len(const char *text, size_t len) {
    size_t at = 0;
    bool colon = false, slash = false, secret = false;
    for (size_t i = 0; i < len && !is_blank(text[i]) && text[i] != '"' && text[i] != '\''; i++) {
        if (text[i] == '@' && (colon || !slash)) {
            at = i + 1;
            secret = true;
        }
        colon |= text[i] == ':';
        slash |= text[i] == '/';
    }
    return secret ? at : 0;
}

static size_t put_userinfo(struct writer *w, const char *text, size_t len) {
    size_t n = userinfo_len(text, len);
    if (!n)
        return 0;
    const char *colon = memchr(text, ':', n);
    if (colon)
        put(w, text, (size_t)(colon + 1 - text));
    put_mask(w);
    put(w, "@", 1);
    return n;
}

// Text inside an argument: URLs, `sh -c` scripts, JSON, query strings.
static void put_inside(struct writer *w, const char *text, size_t len) {
    for (size_t i = 0; i < len && w->len < w->size;) {
        if (len - i >= 3 && strncmp(text + i, "://", 3) == 0) {
            put(w, text + i, 3);
            i += 3;
            i += put_userinfo(w, text + i, len - i);
            continue;
        }
        size_t n = 0;
        while (i + n < len && is_name_byte(text[i + n]))
            n++;
        if (!n) {
            put(w, text + i++, 1);
            continue;
        }
        put(w, text + i, n);
        bool secret = is_secret_name(text + i, n), option = text[i] == '-', url = i + n + 3 <= len &&
                      strncmp(text + i + n, "://", 3) == 0;
        i += n;
        const char *stops;
        size_t joint = secret && !url ? joint_len(text + i, len - i, option, &stops) : 0;
        if (!joint)
            continue;
        put(w, text + i, joint);
        i += joint;
        put_mask(w);
        i += value_len(text + i, len - i, stops);
    }
}

// One argument; returns true when the next one is a secret option's value.
static bool put_argument(struct writer *w, const char *arg) {
    size_t len = strlen(arg), name = 0;
    while (name < len && is_name_byte(arg[name]))
        name++;
    if (!is_secret_name(arg, name)) {
        put_inside(w, arg, len);
        return false;
    }
    if (arg[name] == '=') {
        put(w, arg, name + 1);
        put_mask(w);
        return false;
    }
    put_inside(w, arg, len);
    return name == len && arg[0] == '-';
}

void al_command_mask(const char *args, size_t len, char *out, size_t size) {
    char text[AL_CMD_MAX + 8];
    struct writer w = {text, 0, sizeof text};
    // A process that renames itself leaves NULs behind its new name.
    while (len && !args[len - 1])
        len--;
    bool secret = false;
    const char *end = args + len;
    for (const char *arg = len ? args : NULL; arg && w.len < w.size; arg = next_arg(arg, end)) {
        if (arg != args)
            put(&w, " ", 1);
        if (secret && !al_str_starts(arg, "--")) {
            put_mask(&w);
            secret = false;
            continue;
        }
        secret = put_argument(&w, arg);
    }
    if (w.len == w.size) // al_str_copy_n looks at the byte behind the cut
        w.len--;
    al_str_copy_n(out, size, text, w.len);
}
