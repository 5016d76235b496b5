// SPDX-License-Identifier: Apache-2.0
#include "push/destination.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "base/thread.h"
#include "push/otlp.h"
#include "push/queue.h"

#define INBOX_MAX 256
#define RETRY_AFTER_MAX_S 3600

struct letter {
    char *body;
    size_t len;
};

struct al_destination {
    struct al_destination_options o;
    char name[32], site[AL_HTTP_URL_MAX];
    struct al_http *http;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct letter inbox[INBOX_MAX]; // under the lock: a ring
    uint32_t inbox_first, inbox_count;
    uint64_t inbox_dropped;
    struct al_destination_stats stats;
    bool done;

    _Atomic int64_t deadline_ns; // 0: not stopping

    // The thread's own.
    struct al_queue *queue;
    uint64_t random;
    int64_t retry_at_ns, make_at_ns;
    uint32_t failures;
    uint64_t sent, retried, refused, refused_points;
    bool told_failure, told_refusal, told_points, made_last;
};

// --- words ---

__attribute__((format(printf, 2, 3))) static void say(const struct al_destination *d, const char *format, ...) {
    char text[400], line[560];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(line, sizeof line, "%s to %.100s: %s", d->name, d->site, text);
    if (d->o.log)
        d->o.log(d->o.user, line);
}

static void describe(const struct al_http_answer *a, char *out, size_t size) {
    if (a->status)
        (void)snprintf(out, size, "HTTP %ld", a->status);
    else
        (void)al_str_copy(out, size, a->error);
}

// --- sending ---

enum verdict { SENT, RETRY, REFUSED };

// OTLP names the codes that may be retried; webhooks have no such rule, and a server's own trouble passes.
static enum verdict judge(const struct al_destination *d, long status) {
    if (status == 0 || status == 429 || status == 502 || status == 503 || status == 504)
        return RETRY;
    if (status >= 200 && status < 300)
        return SENT;
    if (!d->o.otlp && (status == 408 || status >= 500))
        return RETRY;
    return REFUSED;
}

static uint64_t next_random(struct al_destination *d) {
    d->random ^= d->random << 13; // xorshift64 (Marsaglia 2003)
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return d->random;
}

// Doubled with each failure, and between half and all of that, so that a cluster's nodes do not come back at once.
static int64_t back_off(struct al_destination *d, int64_t retry_after_s) {
    int64_t delay = d->o.retry_min_ns;
    for (uint32_t i = 0; i < d->failures && delay < d->o.retry_max_ns; i++)
        delay *= 2;
    if (delay > d->o.retry_max_ns)
        delay = d->o.retry_max_ns;
    delay = delay / 2 + (int64_t)(next_random(d) % (uint64_t)(delay / 2 + 1));
    if (retry_after_s > RETRY_AFTER_MAX_S)
        retry_after_s = RETRY_AFTER_MAX_S;
    return delay > retry_after_s * AL_NS_PER_S ? delay : retry_after_s * AL_NS_PER_S;
}

static void on_sent(struct al_destination *d, const struct al_http_answer *a) {
    char message[256];
    uint64_t points = d->o.otlp && a->status != 0 ? al_otlp_rejected(a->body, a->len, message, sizeof message) : 0;
    d->sent++;
    d->refused_points += points;
    if (points && !d->told_points)
        say(d, "refused %llu points: %s", (unsigned long long)points, message);
    d->told_points = points != 0;
    if (d->told_failure)
        say(d, "works again");
    d->told_failure = d->told_refusal = false;
    d->failures = 0;
    d->retry_at_ns = 0;
    al_queue_pop(d->queue);
}

static void on_retry(struct al_destination *d, const struct al_http_answer *a, int64_t now_ns) {
    char why[256];
    describe(a, why, sizeof why);
    if (!d->told_failure)
        say(d, "%s; it is tried again, and what waits is kept", why);
    d->told_failure = true;
    d->retried++;
    d->retry_at_ns = now_ns + back_off(d, a->retry_after_s);
    d->failures += d->failures < 63;
    al_queue_keep(d->queue);
}

static void on_refused(struct al_destination *d, const struct al_http_answer *a) {
    if (!d->told_refusal)
        say(d, "HTTP %ld, which will not change by asking again: dropped", a->status);
    d->told_refusal = true;
    d->refused++;
    d->failures = 0;
    d->retry_at_ns = 0;
    al_queue_pop(d->queue);
}

static void send_head(struct al_destination *d) {
    const char *body;
    size_t len;
    struct al_http_answer answer;
    if (!al_queue_head(d->queue, &body, &len))
        return;
    al_http_post(d->http, body, len, &answer);
    switch (judge(d, answer.status)) {
    case SENT: on_sent(d, &answer); break;
    case RETRY: on_retry(d, &answer, al_monotonic_ns()); break;
    case REFUSED: on_refused(d, &answer); break;
    }
}

// --- the thread ---

static bool take(struct al_destination *d, struct letter *ret) {
    (void)pthread_mutex_lock(&d->lock);
    bool any = d->inbox_count > 0;
    if (any) {
        *ret = d->inbox[d->inbox_first];
        d->inbox_first = (d->inbox_first + 1) % INBOX_MAX;
        d->inbox_count--;
    }
    (void)pthread_mutex_unlock(&d->lock);
    return any;
}

static void take_inbox(struct al_destination *d) {
    struct letter letter;
    while (take(d, &letter)) {
        (void)al_queue_add(d->queue, letter.body, letter.len, d->o.keep);
        free(letter.body);
    }
}

static void make(struct al_destination *d, bool last) {
    struct al_buf b = AL_BUF_INIT;
    if (d->o.spare && (last || al_queue_count(d->queue)))
        return;
    d->o.make(d->o.user, &b);
    // While the receiver is away, messages wait in the folder.
    if (b.len && !b.failed)
        (void)al_queue_add(d->queue, b.data, b.len, d->retry_at_ns != 0);
    al_buf_free(&b);
}

static void make_when_due(struct al_destination *d, int64_t now_ns, bool stopping) {
    if (!d->o.period_ns || d->made_last)
        return;
    if (stopping) {
        d->made_last = true;
        if (now_ns < atomic_load(&d->deadline_ns)) // behind it, what make reads may be gone
            make(d, true);
    } else if (now_ns >= d->make_at_ns) {
        make(d, false);
        d->make_at_ns += d->o.period_ns;
        if (d->make_at_ns <= now_ns) // a send took longer than the period
            d->make_at_ns = now_ns + d->o.period_ns;
    }
}

static void publish(struct al_destination *d) {
    (void)pthread_mutex_lock(&d->lock);
    d->stats = (struct al_destination_stats){
        .sent = d->sent,
        .retried = d->retried,
        .dropped = d->refused + al_queue_dropped(d->queue),
        .refused_points = d->refused_points,
        .queued = al_queue_count(d->queue),
        .queued_bytes = al_queue_bytes(d->queue),
    };
    (void)pthread_mutex_unlock(&d->lock);
}

static void wait_until(struct al_destination *d, int64_t ns) {
    struct timespec until = {.tv_sec = ns / AL_NS_PER_S, .tv_nsec = ns % AL_NS_PER_S};
    (void)pthread_mutex_lock(&d->lock);
    if (!d->inbox_count && !atomic_load(&d->deadline_ns))
        (void)pthread_cond_timedwait(&d->changed, &d->lock, &until);
    (void)pthread_mutex_unlock(&d->lock);
}

static int64_t next_turn(const struct al_destination *d, int64_t now_ns) {
    int64_t next = now_ns + 3600 * AL_NS_PER_S;
    if (d->o.period_ns && d->make_at_ns < next)
        next = d->make_at_ns;
    if (al_queue_count(d->queue) && d->retry_at_ns < next)
        next = d->retry_at_ns;
    return next;
}

// One turn; false when it is the last.
static bool turn(struct al_destination *d) {
    int64_t deadline = atomic_load(&d->deadline_ns), now = al_monotonic_ns();
    bool stopping = deadline != 0;
    take_inbox(d);
    make_when_due(d, now, stopping);
    if (stopping) // whatever the sending comes to
        al_queue_keep(d->queue);
    if (al_queue_count(d->queue) && now >= d->retry_at_ns && !(stopping && now >= deadline))
        send_head(d);
    publish(d);
    if (stopping)
        return al_queue_count(d->queue) && al_monotonic_ns() < deadline && d->retry_at_ns <= al_monotonic_ns();
    wait_until(d, next_turn(d, al_monotonic_ns()));
    return true;
}

static void *run(void *arg) {
    struct al_destination *d = arg;
    while (turn(d))
        continue;
    size_t left = al_queue_count(d->queue);
    if (left)
        say(d, "%zu %s not sent%s", left, left == 1 ? "message was" : "messages were",
            *d->o.folder ? "; the next run sends what was kept" : "");
    (void)pthread_mutex_lock(&d->lock);
    d->done = true;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
    return NULL;
}

static bool aborted(void *user) {
    const struct al_destination *d = user;
    int64_t deadline = atomic_load(&d->deadline_ns);
    return deadline && al_monotonic_ns() >= deadline;
}

// --- from outside ---

static int open_queue(struct al_destination *d) {
    char error[512] = "";
    int result = al_queue_new(d->o.folder, d->o.queue_max, &d->queue, error, sizeof error);
    if (!result || result == AL_E_NOMEM)
        return result;
    if (result == AL_E_AGAIN) {
        say(d, "another alula on this machine sends there already; this one does not");
        return result;
    }
    say(d, "%s; what waits is kept in memory", *error ? error : al_error_text(result));
    d->o.folder = "";
    return al_queue_new("", d->o.queue_max, &d->queue, error, sizeof error);
}

static void discard(struct al_destination *d) {
    for (uint32_t i = 0; i < d->inbox_count; i++)
        free(d->inbox[(d->inbox_first + i) % INBOX_MAX].body);
    d->queue = al_queue_free(d->queue);
    d->http = al_http_free(d->http);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
}

int al_destination_new(const struct al_destination_options *o, struct al_destination **ret, char *error, size_t size) {
    struct al_destination *d = calloc(1, sizeof *d);
    *ret = NULL;
    if (!d)
        return AL_E_NOMEM;
    d->o = *o;
    (void)al_str_copy(d->name, sizeof d->name, o->name);
    (void)al_http_site(o->http.url, d->site, sizeof d->site);
    d->o.http.aborted = aborted;
    d->o.http.user = d;
    d->random = ((uint64_t)al_realtime_ns() ^ (uint64_t)getpid() << 32) | 1; // never 0
    d->make_at_ns = al_monotonic_ns() + o->period_ns;
    (void)pthread_mutex_init(&d->lock, NULL);
    al_thread_cond(&d->changed);
    int result = al_http_new(&d->o.http, &d->http, error, size);
    if (!result)
        result = open_queue(d);
    if (!result)
        result = al_thread_start(&d->thread, run, d);
    if (!result) {
        *ret = d;
        return 0;
    }
    discard(d);
    return result;
}

const char *al_destination_folder(const struct al_destination *d) {
    return d->o.folder;
}

void al_destination_send(struct al_destination *d, const char *body, size_t len) {
    char *copy = malloc(len + 1);
    if (copy)
        memcpy(copy, body, len);
    (void)pthread_mutex_lock(&d->lock);
    if (!copy || d->inbox_count == INBOX_MAX)
        d->inbox_dropped++;
    if (copy && d->inbox_count == INBOX_MAX) {
        free(d->inbox[d->inbox_first].body);
        d->inbox_first = (d->inbox_first + 1) % INBOX_MAX;
        d->inbox_count--;
    }
    if (copy) {
        struct letter *last = &d->inbox[(d->inbox_first + d->inbox_count) % INBOX_MAX];
        last->body = copy;
        last->len = len;
        d->inbox_count++;
    }
    (void)pthread_cond_signal(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
}

void al_destination_stats(struct al_destination *d, struct al_destination_stats *ret) {
    (void)pthread_mutex_lock(&d->lock);
    *ret = d->stats;
    ret->dropped += d->inbox_dropped;
    ret->queued += d->inbox_count;
    (void)pthread_mutex_unlock(&d->lock);
}

void al_destination_stop(struct al_destination *d, int64_t deadline_ns) {
    (void)pthread_mutex_lock(&d->lock);
    atomic_store(&d->deadline_ns, deadline_ns);
    (void)pthread_cond_signal(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
}

bool al_destination_free(struct al_destination *d, int64_t deadline_ns) {
    const struct timespec until = {.tv_sec = deadline_ns / AL_NS_PER_S, .tv_nsec = deadline_ns % AL_NS_PER_S};
    int result = 0;
    (void)pthread_mutex_lock(&d->lock);
    while (!d->done && !result)
        result = pthread_cond_timedwait(&d->changed, &d->lock, &until);
    bool done = d->done;
    (void)pthread_mutex_unlock(&d->lock);
    if (!done)
        return false;
    (void)pthread_join(d->thread, NULL);
    discard(d);
    return true;
}
