// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/dl.h"
#include "base/str.h"
#include "unwind/texts.h"

// A name can be made so that it grows by a factor at each back reference: longer ones, or those with more of them than
// this, are cut short rather than given to the library, whose memory cannot be bounded.
#define RAW_MOST 1024u
#define BACK_MOST 14u

typedef char *demangle_fn(const char *raw, char *out, size_t *size, int *status);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static demangle_fn *demangle;

static void open_once(void) {
    static const char *const paths[] = {"libstdc++.so.6", "libc++abi.so.1", NULL};
    static const struct al_dl_symbol symbol = {"__cxa_demangle", 0, false};
    const char *path;
    void *handle;
    if (al_dl_open(paths, &handle, &path, NULL, 0) == 0)
        (void)al_dl_resolve(handle, &symbol, 1, &demangle, &path);
}

static unsigned back_references(const char *raw) {
    unsigned count = 0;
    for (; *raw; raw++) // S_, S0_, T_, T0_: an upper bound, for letters of names count too
        if ((*raw == 'S' || *raw == 'T') && (raw[1] == '_' || ((raw[1] >= '0' && raw[1] <= '9') && raw[2] == '_') ||
                                             ((raw[1] >= 'A' && raw[1] <= 'Z') && raw[2] == '_')))
            count++;
    return count;
}

// "_ZN2at6native3fooI...": the names that stand at its head, without what needs the whole grammar.
static bool head_only(const char *raw, char *out, size_t size) {
    const char *at = raw + 2;
    size_t used = 0;
    bool nested = *at == 'N';
    if (nested)
        at++;
    while (*at == 'K' || *at == 'V' || *at == 'L' || *at == 'R' || *at == 'O')
        at++;
    out[0] = '\0';
    if (at[0] == 'S' && at[1] == 't') {
        (void)al_str_copy(out, size, "std");
        used = strlen(out);
        at += 2;
    }
    while (*at >= '1' && *at <= '9') {
        char *end;
        unsigned long length = strtoul(at, &end, 10);
        if (length > strlen(end) || used + length + 16 > size)
            break;
        if (used)
            used = (size_t)(stpcpy(out + used, "::") - out);
        bool hidden = length >= 10 && strncmp(end, "_GLOBAL__N", 10) == 0;
        if (hidden)
            (void)al_str_copy(out + used, size - used, "{anonymous}");
        else
            (void)al_str_copy_n(out + used, size - used, end, length);
        used += strlen(out + used);
        at = end + length;
        if (!nested)
            break;
    }
    if (!used)
        return false;
    if (*at != 'E' && nested)
        (void)al_str_copy(out + used, size - used, "<...>");
    return true;
}

// Rust's older names are C++'s with a hash of 16 digits as the last part: "core::ops::call::h0123456789abcdef".
static void drop_rust_hash(char *out) {
    size_t length = strlen(out);
    if (length > 19 && strncmp(out + length - 19, "::h", 3) == 0 &&
        strspn(out + length - 16, "0123456789abcdef") == 16)
        out[length - 19] = '\0';
}

void al_demangle(const char *raw, char *out, size_t size) {
    if (raw[0] != '_' || raw[1] != 'Z') {
        (void)al_str_copy(out, size, raw);
        return;
    }
    pthread_once(&once, open_once);
    char *text = NULL;
    int status = -1;
    if (demangle && strlen(raw) <= RAW_MOST && back_references(raw) <= BACK_MOST)
        text = demangle(raw, NULL, NULL, &status);
    if (text && status == 0)
        (void)al_str_copy(out, size, text);
    else if (!head_only(raw, out, size))
        (void)al_str_copy(out, size, raw);
    free(text);
    drop_rust_hash(out);
}
