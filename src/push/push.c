// SPDX-License-Identifier: Apache-2.0
#include "push/push.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/gzip.h"
#include "base/str.h"
#include "push/destination.h"
#include "push/otlp.h"

#define TOLD_MAX_BYTES (256 * 1024)
#define TOLD_PERIOD_NS (30 * AL_NS_PER_S)
#define GRACE_NS AL_NS_PER_S // for a thread to come back from libcurl

struct receiver {
    struct al_destination *destination;
    char name[16];
    char url[AL_HTTP_URL_MAX], folder[4096];
};

struct al_push {
    struct al_sink sink; // first
    struct al_push_options o;
    struct receiver receivers[AL_PUSH_MAX];
    size_t count, webhooks; // the OTLP receiver, if there is one, comes first
    size_t seen;            // URLs of webhooks

    pthread_mutex_t lock; // of alerts; taken inside the collect's
    struct al_alerts *alerts;

    // Of the OTLP thread.
    struct al_otlp *otlp;
    struct al_snapshot *snapshot;
    struct al_finding *findings; // AL_ALERTS_MAX
};

static bool given(const char *text) {
    return text && *text;
}

bool al_push_wanted(const struct al_push_options *o) {
    return given(o->endpoint) || given(o->webhook_urls) || given(o->webhook_urls_file);
}

// --- on the collecting thread ---

static int on_finding(struct al_sink *sink, const struct al_snapshot *s, const struct al_finding *f) {
    struct al_push *p = (struct al_push *)sink;
    struct al_buf b = AL_BUF_INIT;
    (void)pthread_mutex_lock(&p->lock);
    int result = al_alerts_finding(p->alerts, s, f, &b);
    (void)pthread_mutex_unlock(&p->lock);
    for (size_t i = p->count - p->webhooks; i < p->count && b.len && !result; i++)
        al_destination_send(p->receivers[i].destination, b.data, b.len);
    al_buf_free(&b);
    return 0; // watching goes on, whatever becomes of a message
}

static const struct al_sink_ops metrics_ops = {.name = "push", .groups = AL_GROUP_ALL, .finding = on_finding};
static const struct al_sink_ops webhook_ops = {.name = "push", .finding = on_finding};

// --- on the receivers' threads ---

// False when there is no tick that was not sent yet.
static bool copy_snapshot(struct al_push *p) {
    al_collect_lock(p->o.collect);
    const struct al_snapshot *now = al_collect_snapshot(p->o.collect);
    bool newer = now && now->tick != p->snapshot->tick && al_snapshot_copy(p->snapshot, now) == 0;
    al_collect_unlock(p->o.collect);
    return newer;
}

static void make_metrics(void *user, struct al_buf *b) {
    struct al_push *p = user;
    if (!copy_snapshot(p))
        return;
    (void)pthread_mutex_lock(&p->lock);
    uint32_t count = al_alerts_open(p->alerts, p->findings, AL_ALERTS_MAX);
    (void)pthread_mutex_unlock(&p->lock);
    if (al_otlp_encode(p->otlp, p->snapshot, p->findings, count, b) == 0 && p->o.gzip)
        (void)al_gzip(b);
}

static void make_repeat(void *user, struct al_buf *b) {
    struct al_push *p = user;
    al_collect_lock(p->o.collect);
    const struct al_snapshot *s = al_collect_snapshot(p->o.collect);
    (void)pthread_mutex_lock(&p->lock);
    if (s)
        al_alerts_repeat(p->alerts, s, b);
    (void)pthread_mutex_unlock(&p->lock);
    al_collect_unlock(p->o.collect);
}

// --- what was told, over a restart: beside the first webhook's queue ---

static bool told_path(const struct al_push *p, char *out, size_t size) {
    const struct al_destination *d = p->webhooks ? p->receivers[p->count - p->webhooks].destination : NULL;
    const char *folder = d ? al_destination_folder(d) : "";
    return *folder && (size_t)snprintf(out, size, "%s/told", folder) < size;
}

static void replace_file(const char *path, const struct al_buf *b) {
    char beside[4200];
    (void)snprintf(beside, sizeof beside, "%.4100s.tmp", path);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    bool ok = write(fd, b->data, b->len) == (ssize_t)b->len;
    ok = close(fd) == 0 && ok;
    if (!ok || rename(beside, path))
        (void)unlink(beside);
}

// On the first webhook's thread, now and then and at the end.
static void keep_told(void *user, struct al_buf *none) {
    struct al_push *p = user;
    struct al_buf b = AL_BUF_INIT;
    char path[4200];
    (void)none;
    if (!told_path(p, path, sizeof path))
        return;
    (void)pthread_mutex_lock(&p->lock);
    al_alerts_save(p->alerts, al_realtime_ns(), &b);
    (void)pthread_mutex_unlock(&p->lock);
    if (!b.failed)
        replace_file(path, &b);
    al_buf_free(&b);
}

static void load_told(struct al_push *p) {
    char path[4200], *text;
    size_t len;
    if (!told_path(p, path, sizeof path) || al_fs_slurp(path, TOLD_MAX_BYTES, &text, &len))
        return;
    (void)pthread_mutex_lock(&p->lock);
    al_alerts_load(p->alerts, al_realtime_ns(), text);
    (void)pthread_mutex_unlock(&p->lock);
    free(text);
}

static void on_log(void *user, const char *text) {
    const struct al_push *p = user;
    if (p->o.log)
        p->o.log(p->o.user, text);
}

// --- opening ---

static uint64_t mix(uint64_t hash, const char *text) {
    for (; *text; text++) // FNV-1a
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ULL;
    return hash;
}

// A receiver's folder is its own, since a changed URL must not get what was meant for another; and its machine's, since
// many may share a home.
static void name_folder(struct receiver *r, const char *spool) {
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    uint64_t hash = mix(mix(0xcbf29ce484222325ULL, r->url), host);
    r->folder[0] = '\0';
    if (given(spool))
        (void)snprintf(r->folder, sizeof r->folder, "%.3900s/%.10s-%016llx", spool, r->name, (unsigned long long)hash);
}

static int open_receiver(struct al_push *p, struct receiver *r, bool otlp, char *error, size_t size) {
    const struct al_push_options *o = &p->o;
    char agent[64];
    (void)snprintf(agent, sizeof agent, "alula/%s", o->version);
    name_folder(r, o->spool);
    struct al_destination_options options = {
        .name = r->name,
        .folder = r->folder,
        .queue_max = o->spool_max,
        .http = {.url = r->url,
                 .content_type = otlp ? "application/x-protobuf" : "application/json",
                 .user_agent = agent,
                 .headers_file = otlp ? o->headers_file : o->webhook_headers_file,
                 .ca_file = o->ca_file,
                 .certificate = o->certificate,
                 .key = o->key,
                 .timeout_ns = o->timeout_ns},
        .retry_min_ns = o->retry_min_ns,
        .retry_max_ns = o->retry_max_ns,
        .otlp = otlp,
        .keep = !otlp,
        .log = on_log,
        .user = p,
    };
    if (otlp) {
        options.make = make_metrics;
        options.period_ns = o->period_ns;
    } else if (o->webhook_format == AL_ALERT_ALERTMANAGER) {
        options.make = make_repeat;
        options.period_ns = o->webhook_repeat_ns;
        options.spare = true;
    } else if (!p->webhooks) {
        options.make = keep_told;
        options.period_ns = TOLD_PERIOD_NS;
    }
    return al_destination_new(&options, &r->destination, error, size);
}

static int open_otlp(struct al_push *p, char *error, size_t size) {
    struct receiver *r = &p->receivers[p->count];
    if (!al_http_default_path(p->o.endpoint, "/v1/metrics", r->url, sizeof r->url)) {
        (void)snprintf(error, size, "push.endpoint: expected http://host:port or https://host:port");
        return AL_E_CONFIG;
    }
    (void)al_str_copy(r->name, sizeof r->name, "otlp");
    p->snapshot = al_snapshot_new();
    p->findings = calloc(AL_ALERTS_MAX, sizeof *p->findings);
    int result = p->snapshot && p->findings ? al_otlp_new(p->o.version, &p->otlp) : AL_E_NOMEM;
    if (!result)
        result = open_receiver(p, r, true, error, size);
    if (!result) {
        p->count++;
        p->sink.ops = &metrics_ops;
    }
    return result == AL_E_AGAIN ? 0 : result;
}

static int open_webhook(struct al_push *p, const char *url, char *error, size_t size) {
    struct receiver *r = &p->receivers[p->count];
    const char *path = p->o.webhook_format == AL_ALERT_ALERTMANAGER ? "/api/v2/alerts" : "";
    p->seen++;
    if (p->count == AL_PUSH_MAX) {
        (void)snprintf(error, size, "webhook.urls: at most %d", AL_PUSH_MAX - 1);
        return AL_E_CONFIG;
    }
    if (!al_http_default_path(url, path, r->url, sizeof r->url)) {
        (void)snprintf(error, size, "webhook.urls: number %zu is no http:// or https:// URL", p->seen);
        return AL_E_CONFIG;
    }
    (void)snprintf(r->name, sizeof r->name, "webhook-%zu", p->seen);
    int result = open_receiver(p, r, false, error, size);
    if (!result) {
        p->count++;
        p->webhooks++;
    }
    return result == AL_E_AGAIN ? 0 : result;
}

static int open_webhooks(struct al_push *p, char *urls, char *error, size_t size) {
    int result = 0;
    for (char *line; !result && (line = strsep(&urls, "\n"));) {
        line[strcspn(line, "\r")] = '\0';
        if (*line && *line != '#')
            result = open_webhook(p, line, error, size);
    }
    return result;
}

static int open_all(struct al_push *p, char *error, size_t size) {
    char *urls = NULL;
    int result = al_alerts_new(p->o.webhook_format, p->o.webhook_level, p->o.webhook_repeat_ns, &p->alerts);
    if (!result && given(p->o.endpoint))
        result = open_otlp(p, error, size);
    if (!result && given(p->o.webhook_urls)) {
        urls = strdup(p->o.webhook_urls);
        result = urls ? open_webhooks(p, urls, error, size) : AL_E_NOMEM;
        free(urls);
    }
    if (!result && given(p->o.webhook_urls_file)) {
        result = al_http_secret_file(p->o.webhook_urls_file, &urls, error, size);
        if (!result)
            result = open_webhooks(p, urls, error, size);
        free(urls);
    }
    if (!result && p->webhooks && p->o.webhook_format == AL_ALERT_JSON)
        load_told(p);
    return result;
}

int al_push_new(const struct al_push_options *o, struct al_push **ret, char *error, size_t size) {
    struct al_push *p = calloc(1, sizeof *p);
    *ret = NULL;
    (void)snprintf(error, size, "%s", al_error_text(AL_E_NOMEM));
    if (!p)
        return AL_E_NOMEM;
    p->o = *o;
    p->sink.ops = &webhook_ops;
    (void)pthread_mutex_init(&p->lock, NULL);
    int result = open_all(p, error, size);
    if (result)
        p = al_push_free(p);
    *ret = p;
    return result;
}

struct al_sink *al_push_sink(struct al_push *p) {
    return &p->sink;
}

size_t al_push_stats(void *push, struct al_om_push *ret, size_t max) {
    struct al_push *p = push;
    size_t count = p && p->count < max ? p->count : p ? max : 0;
    for (size_t i = 0; i < count; i++) {
        struct al_destination_stats s;
        al_destination_stats(p->receivers[i].destination, &s);
        ret[i] = (struct al_om_push){.receiver = p->receivers[i].name,
                                     .sent = s.sent,
                                     .retried = s.retried,
                                     .dropped = s.dropped,
                                     .refused_points = s.refused_points,
                                     .queued = s.queued,
                                     .queued_bytes = s.queued_bytes};
    }
    return count;
}

struct al_push *al_push_free(struct al_push *p) {
    if (!p)
        return NULL;
    int64_t deadline = al_monotonic_ns() + p->o.flush_ns;
    bool hangs = false;
    for (size_t i = 0; i < p->count; i++)
        al_destination_stop(p->receivers[i].destination, deadline);
    for (size_t i = 0; i < p->count; i++)
        hangs |= !al_destination_free(p->receivers[i].destination, deadline + GRACE_NS);
    if (hangs)
        return NULL; // its thread still reads this
    p->otlp = al_otlp_free(p->otlp);
    al_snapshot_free(p->snapshot);
    free(p->findings);
    p->alerts = al_alerts_free(p->alerts);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}
