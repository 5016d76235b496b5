// SPDX-License-Identifier: Apache-2.0
// /api/v1/events: server-sent events. A client that is slow misses samples, not findings, up to the EVENTS_KEPT newest;
// one that takes nothing for answer_timeout is cut by the sweep. What a client holds here is one event.
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "serve/parts.h"

#define SILENCE_NS (15 * AL_NS_PER_S) // then a comment goes out, so that both ends see that the other lives
#define BLOCK 8192

struct stream {
    struct stream *next;
    struct al_serve *s;
    struct MHD_Connection *c;
    struct al_buf out;
    size_t sent;
    uint64_t event, tick; // what has gone out
    int64_t spoke_ns;
    bool full, samples, findings, suspended;
};

static void add_findings(struct stream *t) {
    struct al_serve *s = t->s;
    al_collect_lock(s->o.collect);
    const struct finding_log *l = &s->findings;
    if (l->event_count - t->event > EVENTS_KEPT) {
        al_buf_printf(&t->out, "event: lost\ndata: {\"findings\":%llu}\n\n",
                      (unsigned long long)(l->event_count - EVENTS_KEPT - t->event));
        t->event = l->event_count - EVENTS_KEPT;
    }
    while (t->event < l->event_count) {
        const struct al_finding *f = &l->event[t->event % EVENTS_KEPT];
        t->event++;
        al_buf_printf(&t->out, "id: %llu\nevent: finding\ndata: ", (unsigned long long)t->event);
        al_serve_finding_json(s, &t->out, f, t->full);
        al_buf_str(&t->out, "\n\n");
    }
    al_collect_unlock(s->o.collect);
}

static void add_sample(struct stream *t) {
    if (t->tick == t->s->view.tick)
        return;
    const struct page *p = al_serve_page(t->s, PAGE_SNAPSHOT, t->full);
    t->tick = t->s->view.tick;
    if (!p)
        return;
    al_buf_str(&t->out, "event: sample\ndata: ");
    al_buf_add(&t->out, p->text, p->len - (p->len && p->text[p->len - 1] == '\n'));
    al_buf_str(&t->out, "\n\n");
}

static void refill(struct stream *t) {
    int64_t now = al_monotonic_ns();
    al_buf_clear(&t->out);
    t->sent = 0;
    al_serve_view(t->s);
    if (t->s->view.have && t->findings)
        add_findings(t);
    if (t->s->view.have && t->samples)
        add_sample(t);
    if (!t->out.len && now - t->spoke_ns >= SILENCE_NS)
        al_buf_str(&t->out, ": still here\n\n");
    if (t->out.len)
        t->spoke_ns = now;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max) {
    struct stream *t = cls;
    (void)pos;
    if (t->s->ending)
        return MHD_CONTENT_READER_END_OF_STREAM;
    al_serve_connection_phase(t->s, t->c, PHASE_STREAM);
    if (t->sent == t->out.len)
        refill(t);
    if (t->out.failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t left = t->out.len - t->sent;
    if (!left) {
        t->suspended = true;
        t->s->mhd.suspend_connection(t->c);
        return 0;
    }
    if (left > max)
        left = max;
    memcpy(buf, t->out.data + t->sent, left);
    t->sent += left;
    return (ssize_t)left;
}

static void free_stream(void *cls) {
    struct stream *t = cls;
    struct stream **at = &t->s->streams;
    while (*at && *at != t)
        at = &(*at)->next;
    if (*at) {
        *at = t->next;
        t->s->stream_count--;
    }
    al_buf_free(&t->out);
    free(t);
}

void al_serve_streams_wake(struct al_serve *s) {
    for (struct stream *t = s->streams; t; t = t->next)
        if (t->suspended) {
            t->suspended = false;
            s->mhd.resume_connection(t->c);
        }
}

static uint64_t first_event(struct al_serve *s, struct MHD_Connection *c) {
    const char *last = s->mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Last-Event-ID");
    uint64_t id;
    al_collect_lock(s->o.collect);
    uint64_t count = s->findings.event_count;
    al_collect_unlock(s->o.collect);
    // A client that comes back goes on where it was.
    return last && al_str_u64(last, &id) && id < count ? id : count;
}

enum MHD_Result al_serve_stream(struct al_serve *s, struct MHD_Connection *c, const struct al_query *q, bool full) {
    const char *types = al_query_get(q, "types");
    bool samples = !types || strstr(types, "sample"), findings = !types || strstr(types, "finding");
    if (!samples && !findings)
        return al_serve_fail(s, c, 400, "types: expected sample, finding, or both with a comma");
    if (s->stream_count >= STREAMS_MAX)
        return al_serve_fail(s, c, 503, "too many event streams");
    struct stream *t = calloc(1, sizeof *t);
    if (!t)
        return MHD_NO;
    *t = (struct stream){.s = s, .c = c, .full = full, .samples = samples, .findings = findings,
                         .event = first_event(s, c), .spoke_ns = al_monotonic_ns()};
    struct MHD_Response *r = s->mhd.create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, t, free_stream);
    if (!r) {
        free(t);
        return MHD_NO;
    }
    t->next = s->streams;
    s->streams = t;
    s->stream_count++;
    (void)s->mhd.add_response_header(r, "Content-Type", "text/event-stream");
    (void)s->mhd.add_response_header(r, "Cache-Control", "no-store");
    (void)s->mhd.add_response_header(r, "X-Content-Type-Options", "nosniff");
    s->requests[2]++;
    enum MHD_Result result = s->mhd.queue_response(c, 200, r);
    s->mhd.destroy_response(r);
    return result;
}
