// SPDX-License-Identifier: Apache-2.0
#include "push/http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/dl.h"
#include "base/err.h"
#include "base/str.h"

// The functions of libcurl that are used, found at run time.
#define AL_CURL(X)                                                                                                     \
    X(global_init) X(easy_init) X(easy_setopt) X(easy_perform) X(easy_getinfo) X(easy_cleanup) X(easy_strerror)        \
    X(slist_append) X(slist_free_all)
struct curl_table {
#define X(name) __typeof__(&curl_##name) name;
    AL_CURL(X)
#undef X
};

static struct curl_table curl;
static pthread_mutex_t curl_lock = PTHREAD_MUTEX_INITIALIZER;
static bool curl_ready; // libcurl stays open: it has threads and handlers that outlive a dlclose

struct al_http {
    struct al_http_options o;
    char *strings[7];
    CURL *easy;
    struct curl_slist *headers, *headers_gzip;
    struct timespec headers_time;
    char error[CURL_ERROR_SIZE];
    struct al_http_answer *answer;
};

static int load_library(char *error, size_t size) {
    static const char *const paths[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};
    static const struct al_dl_symbol symbols[] = {
#define X(name) {"curl_" #name, offsetof(struct curl_table, name), true},
        AL_CURL(X)
#undef X
    };
    const char *path, *missing = "";
    char why[160];
    void *library;
    if (curl_ready)
        return 0;
    if (al_dl_open(paths, &library, &path, why, sizeof why)) {
        (void)snprintf(error, size, "libcurl.so.4 is needed to push (Debian's libcurl4): %s", why);
        return AL_E_NOLIB;
    }
    if (al_dl_resolve(library, symbols, sizeof symbols / sizeof *symbols, &curl, &missing) ||
        curl.global_init(CURL_GLOBAL_DEFAULT)) {
        (void)snprintf(error, size, "%s cannot be used%s%s", path, *missing ? ": it lacks curl_" : "", missing);
        return AL_E_NOSYM;
    }
    curl_ready = true;
    return 0;
}

static int keep_strings(struct al_http *h) {
    const char **fields[] = {&h->o.url, &h->o.content_type, &h->o.user_agent, &h->o.headers_file,
                             &h->o.ca_file, &h->o.certificate, &h->o.key};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        h->strings[i] = strdup(*fields[i] ? *fields[i] : "");
        if (!h->strings[i])
            return AL_E_NOMEM;
        *fields[i] = h->strings[i];
    }
    return 0;
}

// --- headers ---

static bool add(struct curl_slist **list, const char *line) {
    struct curl_slist *more = curl.slist_append(*list, line);
    if (more)
        *list = more;
    return more != NULL;
}

static bool is_header(const char *line) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t name = strspn(line, allowed);
    return name && line[name] == ':' && !line[strcspn(line, "\r\n")];
}

static int add_file(struct al_http *h, struct curl_slist **list, char *error, size_t size) {
    char *text, *rest;
    int number = 0, result = al_http_secret_file(h->o.headers_file, &text, error, size);
    rest = text;
    for (char *line; !result && (line = strsep(&rest, "\n"));) {
        number++;
        line[strcspn(line, "\r")] = '\0';
        if (!*line || *line == '#')
            continue;
        if (!is_header(line)) {
            (void)snprintf(error, size, "%.200s:%d: expected Name: value", h->o.headers_file, number);
            result = AL_E_CONFIG;
        } else if (!add(list, line)) {
            result = AL_E_NOMEM;
        }
    }
    free(text);
    return result;
}

static int make_headers(const struct al_http *h, struct curl_slist **list) {
    char type[96];
    (void)snprintf(type, sizeof type, "Content-Type: %s", h->o.content_type);
    // No "Expect: 100-continue": it would cost a round trip, or a second where the receiver ignores it.
    return add(list, type) && add(list, "Expect:") ? 0 : AL_E_NOMEM;
}

// Tokens are rotated while alula runs: the file is read again when it changed. A broken one leaves the old ones in
// force.
static int load_headers(struct al_http *h, char *error, size_t size) {
    struct stat st = {0};
    struct curl_slist *plain = NULL, *gzip = NULL;
    if (h->headers && (!*h->o.headers_file || stat(h->o.headers_file, &st) ||
                       (st.st_mtim.tv_sec == h->headers_time.tv_sec && st.st_mtim.tv_nsec == h->headers_time.tv_nsec)))
        return 0;
    if (*h->o.headers_file)
        (void)stat(h->o.headers_file, &st);
    h->headers_time = st.st_mtim;
    struct curl_slist **lists[] = {&plain, &gzip};
    int result = 0;
    for (int i = 0; i < 2 && !result; i++) {
        result = make_headers(h, lists[i]);
        if (!result && i == 1 && !add(lists[i], "Content-Encoding: gzip"))
            result = AL_E_NOMEM;
        if (!result && *h->o.headers_file)
            result = add_file(h, lists[i], error, size);
    }
    if (result) {
        curl.slist_free_all(plain);
        curl.slist_free_all(gzip);
        return result;
    }
    curl.slist_free_all(h->headers);
    curl.slist_free_all(h->headers_gzip);
    h->headers = plain;
    h->headers_gzip = gzip;
    return 0;
}

// --- a POST ---

static size_t on_body(char *data, size_t size, size_t count, void *user) {
    struct al_http *h = user;
    size_t len = size * count, left = sizeof h->answer->body - h->answer->len;
    size_t take = len < left ? len : left; // more than fits is read and forgotten, so that the connection can stay
    memcpy(h->answer->body + h->answer->len, data, take);
    h->answer->len += take;
    return len;
}

static int on_progress(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now) {
    const struct al_http *h = user;
    (void)total;
    (void)now;
    (void)up_total;
    (void)up_now;
    return h->o.aborted && h->o.aborted(h->o.user);
}

static void set_text(const struct al_http *h, CURLoption option, const char *text) {
    if (*text)
        (void)curl.easy_setopt(h->easy, option, text);
}

static int set_options(struct al_http *h) {
    long timeout_ms = (long)(h->o.timeout_ns / AL_NS_PER_MS);
    if (curl.easy_setopt(h->easy, CURLOPT_URL, h->o.url) != CURLE_OK)
        return AL_E_NOMEM;
    (void)curl.easy_setopt(h->easy, CURLOPT_POST, 1L);
    (void)curl.easy_setopt(h->easy, CURLOPT_NOSIGNAL, 1L); // signals belong to the main thread
    (void)curl.easy_setopt(h->easy, CURLOPT_TIMEOUT_MS, timeout_ms);
    (void)curl.easy_setopt(h->easy, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
    (void)curl.easy_setopt(h->easy, CURLOPT_ERRORBUFFER, h->error);
    (void)curl.easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl.easy_setopt(h->easy, CURLOPT_WRITEDATA, h);
    (void)curl.easy_setopt(h->easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl.easy_setopt(h->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl.easy_setopt(h->easy, CURLOPT_XFERINFODATA, h);
    (void)curl.easy_setopt(h->easy, CURLOPT_BUFFERSIZE, 4096L);
    set_text(h, CURLOPT_USERAGENT, h->o.user_agent);
    set_text(h, CURLOPT_CAINFO, h->o.ca_file);
    set_text(h, CURLOPT_SSLCERT, h->o.certificate);
    set_text(h, CURLOPT_SSLKEY, h->o.key);
    return 0;
}

int al_http_new(const struct al_http_options *o, struct al_http **ret, char *error, size_t size) {
    *ret = NULL;
    (void)snprintf(error, size, "%s", al_error_text(AL_E_NOMEM));
    (void)pthread_mutex_lock(&curl_lock);
    int result = load_library(error, size);
    (void)pthread_mutex_unlock(&curl_lock);
    if (result)
        return result;
    struct al_http *h = calloc(1, sizeof *h);
    if (!h)
        return AL_E_NOMEM;
    h->o = *o;
    result = keep_strings(h);
    if (!result)
        result = load_headers(h, error, size);
    if (!result)
        h->easy = curl.easy_init();
    if (!result)
        result = h->easy ? set_options(h) : AL_E_NOMEM;
    if (result)
        h = al_http_free(h);
    *ret = h;
    return result;
}

struct al_http *al_http_free(struct al_http *h) {
    if (!h)
        return NULL;
    if (h->easy)
        curl.easy_cleanup(h->easy);
    curl.slist_free_all(h->headers);
    curl.slist_free_all(h->headers_gzip);
    for (size_t i = 0; i < sizeof h->strings / sizeof *h->strings; i++)
        free(h->strings[i]);
    free(h);
    return NULL;
}

void al_http_post(struct al_http *h, const char *body, size_t len, struct al_http_answer *ret) {
    bool gzip = len > 2 && (unsigned char)body[0] == 0x1f && (unsigned char)body[1] == 0x8b; // neither JSON nor OTLP
    curl_off_t retry_after = 0;
    *ret = (struct al_http_answer){0};
    h->answer = ret;
    h->error[0] = '\0';
    if (load_headers(h, ret->error, sizeof ret->error))
        ret->error[0] = '\0';
    (void)curl.easy_setopt(h->easy, CURLOPT_HTTPHEADER, gzip ? h->headers_gzip : h->headers);
    (void)curl.easy_setopt(h->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
    (void)curl.easy_setopt(h->easy, CURLOPT_POSTFIELDS, body);
    CURLcode code = curl.easy_perform(h->easy);
    if (code != CURLE_OK) {
        (void)al_str_copy(ret->error, sizeof ret->error, h->error[0] ? h->error : curl.easy_strerror(code));
        (void)al_str_clean(ret->error);
        return;
    }
    (void)curl.easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &ret->status);
    (void)curl.easy_getinfo(h->easy, CURLINFO_RETRY_AFTER, &retry_after);
    ret->retry_after_s = (int64_t)retry_after;
}
