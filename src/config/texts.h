// SPDX-License-Identifier: Apache-2.0
// Settings that are words rather than quantities: config path, default, help. The quantities are in detect/settings.h.
#ifndef AL_CONFIG_TEXTS_H
#define AL_CONFIG_TEXTS_H

#include <stdbool.h>
#include <stdint.h>

#define AL_TEXT_MAX 1024

// X(section, key, TEXT, LIST, URL or URLS, default, help). A LIST (URLS) is written as one word or [several]; it is kept
// with newlines between. Of a URL only scheme and host are printed: the rest may be secret.
#define AL_TEXTS(X)                                                                                                    \
    X(serve, listen, TEXT, "127.0.0.1:9810", "address and port; \":9810\" is every address")                           \
    X(serve, hosts, LIST, "", "names besides this host's own by which clients may call it (Host header)")              \
    X(serve, tokens_file, TEXT, "", "bearer tokens, one a line: the token or sha256:HEX")                              \
    X(serve, users_file, TEXT, "", "users of basic authentication, one a line: name:password, sha256:HEX or crypt(5)") \
    X(serve, tls_certificate, TEXT, "", "PEM file with the certificate and its chain; turns TLS on")                   \
    X(serve, tls_key, TEXT, "", "PEM file with the certificate's private key")                                         \
    X(push, endpoint, URL, "", "OTLP/HTTP receiver of metrics; /v1/metrics where the URL has no path")                 \
    X(push, headers_file, TEXT, "", "headers for it, one a line: Name: value")                                         \
    X(push, spool, TEXT, "", "folder of what waits; none: memory only; default alula/push below the state folder")     \
    X(push, ca_file, TEXT, "", "PEM file with the authorities to trust, of OTLP and webhooks; default the system's")   \
    X(push, client_certificate, TEXT, "", "PEM file with a certificate to show to receivers")                          \
    X(push, client_key, TEXT, "", "PEM file with its private key")                                                     \
    X(webhook, urls, URLS, "", "receivers of findings, at most 8")                                                     \
    X(webhook, urls_file, TEXT, "", "the same from a file, one a line, for URLs that are secret")                      \
    X(webhook, headers_file, TEXT, "", "headers for them, one a line: Name: value")                                    \
    X(webhook, format, TEXT, "json", "json: findings as watch --json prints them; alertmanager: its API v2")           \
    X(webhook, level, TEXT, "warning", "least level that is told: info, warning or critical")

struct al_texts {
#define X(section, key, kind, def, help) char section##_##key[AL_TEXT_MAX];
    AL_TEXTS(X)
#undef X
};

struct al_text_info {
    const char *section, *key;
    bool is_list, is_url;
    const char *def, *help;
    uint32_t offset; // of the array in struct al_texts
};

extern const struct al_text_info al_text_table[];
extern const unsigned al_text_count;

#endif
