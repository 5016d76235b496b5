// SPDX-License-Identifier: Apache-2.0
// One POST after another by libcurl, which is opened with the first al_http_new. Certificates are verified, redirects
// are not followed (they would carry credentials elsewhere), proxies are taken from the environment as curl does.
#ifndef AL_PUSH_HTTP_H
#define AL_PUSH_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AL_HTTP_URL_MAX 1024
#define AL_HTTP_ANSWER_MAX 4096

struct al_http_options {
    const char *url, *content_type, *user_agent;
    const char *headers_file;              // "Name: value" lines; read anew when it changed; NULL or "": none
    const char *ca_file, *certificate, *key; // PEM; NULL or "": the system's authorities, no client certificate
    int64_t timeout_ns;                    // of one POST
    bool (*aborted)(void *user);           // asked about once a second and more often while data flows
    void *user;
};

struct al_http_answer {
    long status;           // 0: none came
    char error[200];       // why none came; cleaned
    int64_t retry_after_s; // as the answer asks; 0: it does not
    char body[AL_HTTP_ANSWER_MAX];
    size_t len;
};

struct al_http;
// AL_E_NOLIB, AL_E_UNSUPPORTED (built without), AL_E_CONFIG (headers file), with the reason in error[size].
int al_http_new(const struct al_http_options *o, struct al_http **ret, char *error, size_t size);
struct al_http *al_http_free(struct al_http *h);
void al_http_post(struct al_http *h, const char *body, size_t len, struct al_http_answer *ret);

// Who is called, without what may be secret: "https://host:port". False when it is no http:// or https:// URL.
bool al_http_site(const char *url, char *out, size_t size);
// The same with `path` behind it where the URL has none of its own. False when it is no URL or too long.
bool al_http_default_path(const char *url, const char *path, char *out, size_t size);
// Reads a headers or URLs file: AL_E_CONFIG with the reason when others may read it or it cannot be read.
int al_http_secret_file(const char *path, char **ret_text, char *error, size_t size);

#endif
