// SPDX-License-Identifier: Apache-2.0
#include "serve/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "serve/notify.h"
#include "serve/parts.h"

static void log_finding(struct finding_log *l, const struct al_finding *f) {
    uint32_t i = 0;
    l->event[l->event_count++ % EVENTS_KEPT] = *f;
    while (i < l->open_count && strcmp(l->open[i].key, f->key) != 0)
        i++;
    if (f->phase == AL_PHASE_ENDED) {
        l->ended[l->ended_count++ % FINDINGS_ENDED_MAX] = *f;
        if (i < l->open_count)
            l->open[i] = l->open[--l->open_count];
    } else if (i < l->open_count || l->open_count < FINDINGS_OPEN_MAX) {
        l->open[i] = *f;
        l->open_count += i == l->open_count;
    }
}

static int on_finding(struct al_sink *sink, const struct al_snapshot *snapshot, const struct al_finding *f) {
    struct al_serve *s = (struct al_serve *)sink;
    (void)snapshot;
    log_finding(&s->findings, f); // the collect's lock is held
    al_serve_wake(s);
    return 0;
}

// The service manager hears of us as long as both threads turn.
static void feed_watchdog(struct al_serve *s, int64_t now) {
    if (!s->watchdog_ns || now - s->watched_ns < s->watchdog_ns / 2)
        return;
    if (now - atomic_load(&s->alive_ns) > s->watchdog_ns)
        return;
    (void)al_notify("WATCHDOG=1");
    s->watched_ns = now;
}

static int on_tick(struct al_sink *sink, const struct al_snapshot *snapshot) {
    struct al_serve *s = (struct al_serve *)sink;
    int64_t now = al_monotonic_ns();
    (void)snapshot;
    al_collect_lock(s->o.collect);
    al_collect_cost(s->o.collect, &s->cost);
    al_collect_unlock(s->o.collect);
    atomic_store(&s->ticked_ns, now);
    feed_watchdog(s, now);
    al_serve_wake(s);
    return 0;
}

static const struct al_sink_ops ops = {
    .name = "serve",
    .groups = AL_GROUP_ALL,
    .tick = on_tick,
    .finding = on_finding,
};

static int copy_strings(struct al_serve *s) {
    const char **from[] = {&s->o.listen,      &s->o.tls_certificate, &s->o.tls_key,
                           &s->o.tokens_file, &s->o.users_file,      &s->o.hosts};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        s->strings[i] = strdup(*from[i] ? *from[i] : "");
        if (!s->strings[i])
            return AL_E_NOMEM;
        *from[i] = s->strings[i];
    }
    return 0;
}

static int make_logs(struct al_serve *s) {
    struct finding_log *logs[] = {&s->findings, &s->view.findings};
    for (int i = 0; i < 2; i++) {
        logs[i]->open = calloc(FINDINGS_OPEN_MAX, sizeof *logs[i]->open);
        logs[i]->ended = calloc(FINDINGS_ENDED_MAX, sizeof *logs[i]->ended);
        if (!logs[i]->open || !logs[i]->ended)
            return AL_E_NOMEM;
    }
    s->findings.event = calloc(EVENTS_KEPT, sizeof *s->findings.event);
    s->view.snapshot = al_snapshot_new();
    return s->findings.event && s->view.snapshot ? 0 : AL_E_NOMEM;
}

// The node's own name, short and as it is, besides what the config names.
static void make_names(struct al_serve *s) {
    char host[256] = "", *dot;
    (void)gethostname(host, sizeof host - 1);
    int len = snprintf(s->names, sizeof s->names, "%s\n%s", host, s->o.hosts);
    dot = strchr(host, '.');
    if (dot && len >= 0 && (size_t)len < sizeof s->names)
        (void)snprintf(s->names + len, sizeof s->names - (size_t)len, "\n%.*s", (int)(dot - host), host);
}

int al_serve_new(const struct al_serve_options *o, struct al_serve **ret, char *error, size_t size) {
    struct al_serve *s = calloc(1, sizeof *s);
    (void)snprintf(error, size, "%s", al_error_text(AL_E_NOMEM));
    if (!s)
        return AL_E_NOMEM;
    s->sink.ops = &ops;
    s->o = *o;
    s->listen_fd = s->wake_fd = -1;
    s->watchdog_ns = al_notify_watchdog_ns();
    atomic_store(&s->alive_ns, al_monotonic_ns());
    int result = copy_strings(s);
    if (!result)
        result = make_logs(s);
    if (!result)
        result = al_auth_load(s->o.tokens_file, s->o.users_file, &s->auth, error, size);
    if (!result) {
        make_names(s);
        result = al_serve_start(s, error, size);
    }
    if (result)
        s = al_serve_free(s);
    else
        error[0] = '\0';
    *ret = s;
    return result;
}

const char *al_serve_url(const struct al_serve *s) {
    return s->url;
}

struct al_sink *al_serve_sink(struct al_serve *s) {
    return &s->sink;
}

void al_serve_reload(struct al_serve *s) {
    atomic_store(&s->reload, 1);
    al_serve_wake(s);
}

struct al_serve *al_serve_free(struct al_serve *s) {
    if (!s)
        return NULL;
    al_serve_stop(s);
    al_serve_pages_free(s);
    al_auth_free(s->auth);
    al_snapshot_free(s->view.snapshot);
    free(s->findings.event);
    free(s->findings.open);
    free(s->findings.ended);
    free(s->view.findings.open);
    free(s->view.findings.ended);
    for (size_t i = 0; i < sizeof s->strings / sizeof *s->strings; i++)
        free(s->strings[i]);
    free(s);
    return NULL;
}
