// SPDX-License-Identifier: Apache-2.0
// Reading what a client sent: target, Accept, Host, Authorization. Pure; any bytes may come.
#ifndef AL_SERVE_REQUEST_H
#define AL_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AL_TARGET_MAX 2048
#define AL_QUERY_MAX 16

struct al_query_item {
    char name[32], value[160];
};

struct al_query {
    char path[128]; // as sent, without the query; no percent sign is undone in it
    struct al_query_item items[AL_QUERY_MAX];
    uint32_t count;
};

// Takes "/path?name=value&…" apart; '+' and %XX in names and values are undone. An absolute target ("http://host/path")
// is taken by its path. AL_E_FORMAT: no path, broken or forbidden %XX (NUL, control bytes), a name given twice.
// AL_E_TOOBIG: more or longer parts than fit.
int al_query_parse(const char *target, struct al_query *ret);
const char *al_query_get(const struct al_query *q, const char *name); // NULL when not given

// True when Accept ranks OpenMetrics 1.0 (or 0.0.1) at least as high as text/plain. NULL: no header.
bool al_accept_openmetrics(const char *accept);

// Whether a Host header can not come from a page that had its own name rebound to this machine: an IP address,
// localhost, or one of `names` (divided by newlines; may be NULL or ""). Case and a port do not matter.
bool al_host_allowed(const char *host, const char *names);

enum al_scheme { AL_SCHEME_NONE, AL_SCHEME_BEARER, AL_SCHEME_BASIC };
struct al_credentials {
    enum al_scheme scheme; // NONE: not a form that is known, or broken
    char user[64];
    char secret[256];
};
void al_credentials_parse(const char *authorization, struct al_credentials *ret);

// "127.0.0.1:9810", "[::1]:9810", "localhost:9810", ":9810" (all addresses), "9810" (loopback). AL_E_FORMAT otherwise.
int al_listen_parse(const char *text, char *ret_host, size_t size, uint16_t *ret_port);

// A time of a query: seconds since the epoch, or seconds from now when negative. False when it is neither.
bool al_query_time(const char *text, double now, double *ret);

#endif
