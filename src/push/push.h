// SPDX-License-Identifier: Apache-2.0
// Sends what a session sees to those who cannot scrape it: OTLP/HTTP metrics, and webhooks for findings. A thread for
// each receiver; no tick waits for one, and the exit no longer than it was told to.
#ifndef AL_PUSH_PUSH_H
#define AL_PUSH_PUSH_H

#include "collect/collect.h"
#include "export/openmetrics.h"
#include "push/alerts.h"

struct al_push;

// Texts may be NULL or "".
struct al_push_options {
    struct al_collect *collect; // not taken over; must outlive al_push_free
    const char *version;
    const char *spool;          // folder of what waits; "": memory only
    uint64_t spool_max;         // bytes, of each receiver
    int64_t timeout_ns;         // of one POST
    int64_t retry_min_ns, retry_max_ns;
    int64_t flush_ns;           // what al_push_free may take, give or take a second
    const char *ca_file, *certificate, *key;

    const char *endpoint;       // OTLP; /v1/metrics where it has no path
    const char *headers_file;
    int64_t period_ns;
    bool gzip;

    const char *webhook_urls, *webhook_urls_file; // by newlines; one a line
    const char *webhook_headers_file;
    enum al_alert_format webhook_format;
    enum al_level webhook_level;   // and above
    int64_t webhook_repeat_ns;     // Alertmanager

    void (*log)(void *user, const char *text); // one line; called on any thread
    void *user;
};

// True when there is somebody to send to.
bool al_push_wanted(const struct al_push_options *o);
// AL_E_CONFIG (a URL or file, without what is secret in it), AL_E_NOLIB, AL_E_UNSUPPORTED (built without libcurl).
int al_push_new(const struct al_push_options *o, struct al_push **ret, char *error, size_t size);
// Add it to the collect before it runs.
struct al_sink *al_push_sink(struct al_push *p);
// A row for each receiver, at most max; returns how many. From any thread.
size_t al_push_stats(void *push, struct al_om_push *ret, size_t max);
// Sends what waits within flush_ns and keeps the rest in the spool folder.
struct al_push *al_push_free(struct al_push *p);

#define AL_PUSH_MAX 9 // one OTLP receiver, eight webhooks

#endif
