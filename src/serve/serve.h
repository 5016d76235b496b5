// SPDX-License-Identifier: Apache-2.0
// The HTTP service over a running collect: /metrics, /api, events. One thread of its own; it reads what the last tick
// left and never asks the driver anything, so that one scraper and a thousand cost the GPUs the same.
#ifndef AL_SERVE_SERVE_H
#define AL_SERVE_SERVE_H

#include "collect/collect.h"
#include "export/openmetrics.h"
#include "model/source.h"

struct al_serve;

struct al_serve_options {
    struct al_collect *collect;  // not taken over
    struct al_device *device;    // for its cost table; not taken over
    const char *listen;          // "127.0.0.1:9810"; port 0 takes a free one
    const char *tls_certificate, *tls_key; // PEM files; NULL or "": no TLS
    const char *tokens_file, *users_file;  // serve/auth.h; NULL or "": none
    const char *hosts;           // names that Host may hold besides addresses, localhost and the node's; by newlines
    bool anonymous;              // answer also without credentials, with less
    bool insecure_listen;        // beyond loopback without credentials or without TLS
    bool dcgm_names;
    uint32_t max_connections;    // 0: 256
    uint32_t max_processes;      // with series of their own
    int64_t header_timeout_ns;   // from a connection's first byte to the end of its request's headers
    int64_t idle_timeout_ns;     // of a kept-alive connection
    int64_t answer_timeout_ns;   // for taking an answer
    int64_t stale_after_ns;      // real time after which a sample is not fresh any more
    const char *version;
    const char *(*xid_text)(uint32_t code);
    // Fills at most max receivers of what is pushed, from the HTTP thread; NULL: nothing is.
    size_t (*push_stats)(void *push, struct al_om_push *ret, size_t max);
    void *push;
    // Fills at most max uses of devices by pods, in the same way; NULL: no kubelet is asked.
    size_t (*pods_read)(void *pods, struct al_pod_use *ret, size_t max, bool *ret_up);
    void *pods;
};

// Starts to answer. error[size] says what is wrong: AL_E_INVALID an address that is none, AL_E_CONFIG credentials or
// TLS files, AL_E_DENIED an address beyond loopback with nothing that protects it, AL_E_IO the port is taken,
// AL_E_NOLIB libmicrohttpd is not there, AL_E_UNSUPPORTED built without it.
int al_serve_new(const struct al_serve_options *o, struct al_serve **ret, char *error, size_t size);
// "http://127.0.0.1:9810"
const char *al_serve_url(const struct al_serve *s);
// Add it to the collect before it runs.
struct al_sink *al_serve_sink(struct al_serve *s);
// Reads the credential files anew at the next turn of the HTTP thread. Wrong files leave the old ones in force.
void al_serve_reload(struct al_serve *s);
// Ends all connections. Must come before the collect is freed.
struct al_serve *al_serve_free(struct al_serve *s);

#endif
