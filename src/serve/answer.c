// SPDX-License-Identifier: Apache-2.0
// What is asked, by whom, and the answer. Everything is checked in this order: method, Host, credentials, path.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "serve/parts.h"

#define TYPE_JSON "application/json"
#define TYPE_TEXT "text/plain; charset=utf-8"

extern const char al_openapi_json[];

struct ask {
    struct al_serve *s;
    struct MHD_Connection *c;
    struct request *request;
    struct al_query query;
    bool full; // came with right credentials
};

struct route {
    const char *path;
    bool open; // no credentials needed, ever
    enum MHD_Result (*answer)(struct ask *a);
};

static const char index_page[] =
    "<!doctype html><html lang=en><meta charset=utf-8><title>alula</title><body><h1>alula</h1><ul>"
    "<li><a href=/metrics>/metrics</a> Prometheus text, OpenMetrics by Accept"
    "<li><a href=/metrics.json>/metrics.json</a> three figures of one GPU"
    "<li><a href=/api/v1/snapshot>/api/v1/snapshot</a> everything the last tick saw"
    "<li><a href=/api/v1/findings>/api/v1/findings</a> what is wrong, with evidence and advice"
    "<li><a href='/api/v1/series?metric=utilization_ratio'>/api/v1/series</a> the last minute of a metric"
    "<li><a href=/api/v1/events>/api/v1/events</a> samples and findings as they come"
    "<li><a href=/healthz>/healthz</a> <a href=/readyz>/readyz</a>"
    "<li><a href=/api/openapi.json>/api/openapi.json</a></ul>\n";

struct MHD_Response *al_serve_response(struct al_serve *s, const char *type, struct al_buf *body) {
    struct MHD_Response *r = NULL;
    if (!body->failed)
        r = s->mhd.create_response_from_buffer(body->len, body->data, MHD_RESPMEM_MUST_FREE);
    if (!r) {
        al_buf_free(body);
        return NULL;
    }
    *body = (struct al_buf)AL_BUF_INIT; // the response frees it
    (void)s->mhd.add_response_header(r, "Content-Type", type);
    (void)s->mhd.add_response_header(r, "Cache-Control", "no-store");
    (void)s->mhd.add_response_header(r, "X-Content-Type-Options", "nosniff");
    (void)s->mhd.add_response_header(r, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    return r;
}

static enum MHD_Result queue(struct al_serve *s, struct MHD_Connection *c, unsigned status, struct MHD_Response *r) {
    if (!r)
        return MHD_NO;
    s->requests[status / 100 < 6 ? status / 100 : 5]++;
    return s->mhd.queue_response(c, status, r);
}

enum MHD_Result al_serve_send(struct al_serve *s, struct MHD_Connection *c, unsigned status, const char *type,
                              struct al_buf *body) {
    struct MHD_Response *r = al_serve_response(s, type, body);
    enum MHD_Result result = queue(s, c, status, r);
    if (r)
        s->mhd.destroy_response(r);
    return result;
}

static struct MHD_Response *failure(struct al_serve *s, const char *what) {
    struct al_buf b = AL_BUF_INIT;
    al_buf_str(&b, "{\"error\":");
    al_json_string(&b, what);
    al_buf_str(&b, "}\n");
    return al_serve_response(s, TYPE_JSON, &b);
}

// `name` may be NULL: no further header.
static enum MHD_Result fail_with(struct al_serve *s, struct MHD_Connection *c, unsigned status, const char *what,
                                 const char *name, const char *value) {
    struct MHD_Response *r = failure(s, what);
    if (r && name)
        (void)s->mhd.add_response_header(r, name, value);
    if (r && status == 401)
        (void)s->mhd.add_response_header(r, "WWW-Authenticate", "Bearer realm=\"alula\"");
    enum MHD_Result result = queue(s, c, status, r);
    if (r)
        s->mhd.destroy_response(r);
    return result;
}

enum MHD_Result al_serve_fail(struct al_serve *s, struct MHD_Connection *c, unsigned status, const char *what) {
    return fail_with(s, c, status, what, NULL, NULL);
}

static enum MHD_Result send_text(struct ask *a, unsigned status, const char *type, const char *text) {
    struct al_buf b = AL_BUF_INIT;
    al_buf_str(&b, text);
    return al_serve_send(a->s, a->c, status, type, &b);
}

// --- routes ---

static enum MHD_Result send_page(struct ask *a, enum page_kind kind) {
    struct page *p = al_serve_page(a->s, kind, a->full);
    return p ? queue(a->s, a->c, 200, p->response) : al_serve_fail(a->s, a->c, 503, "out of memory");
}

static enum MHD_Result index_answer(struct ask *a) {
    return send_text(a, 200, "text/html; charset=utf-8", index_page);
}

static enum MHD_Result metrics(struct ask *a) {
    const char *accept = a->s->mhd.lookup_connection_value(a->c, MHD_HEADER_KIND, "Accept");
    return send_page(a, al_accept_openmetrics(accept) ? PAGE_OPENMETRICS : PAGE_METRICS);
}

static enum MHD_Result no_sample(struct ask *a) {
    return al_serve_fail(a->s, a->c, 503, a->s->view.have ? "the last sample is too old" : "no sample yet");
}

static enum MHD_Result snapshot(struct ask *a) {
    al_serve_view(a->s);
    return al_serve_fresh(a->s) ? send_page(a, PAGE_SNAPSHOT) : no_sample(a);
}

static enum MHD_Result documents(struct ask *a) {
    struct al_buf b = AL_BUF_INIT;
    al_serve_view(a->s);
    if (!al_serve_fresh(a->s))
        return no_sample(a);
    int result = al_serve_documents_json(a->s, &b, al_query_get(&a->query, "gpu"));
    if (!result)
        return al_serve_send(a->s, a->c, 200, TYPE_JSON, &b);
    al_buf_free(&b);
    return al_serve_fail(a->s, a->c, result == AL_E_INVALID ? 400 : 404, "gpu: no such GPU");
}

static enum MHD_Result findings(struct ask *a) {
    struct al_buf b = AL_BUF_INIT;
    const char *state = al_query_get(&a->query, "state");
    if (state && strcmp(state, "open") != 0 && strcmp(state, "ended") != 0)
        return al_serve_fail(a->s, a->c, 400, "state: expected open or ended");
    al_serve_view(a->s);
    if (!a->s->view.have)
        return no_sample(a);
    al_serve_findings_json(a->s, &b, state ? state : "open", a->full);
    return al_serve_send(a->s, a->c, 200, TYPE_JSON, &b);
}

static enum MHD_Result series(struct ask *a) {
    struct al_buf b = AL_BUF_INIT;
    char error[160] = "out of memory";
    int result = al_serve_series_json(a->s, &b, &a->query, error, sizeof error);
    if (!result)
        return al_serve_send(a->s, a->c, 200, TYPE_JSON, &b);
    al_buf_free(&b);
    return al_serve_fail(a->s, a->c, result == AL_E_INVALID ? 400 : result == AL_E_NOENT ? 404 : 503, error);
}

static enum MHD_Result events(struct ask *a) {
    a->request->events = true;
    return al_serve_stream(a->s, a->c, &a->query, a->full);
}

static enum MHD_Result openapi(struct ask *a) {
    return send_text(a, 200, TYPE_JSON, al_openapi_json);
}

static enum MHD_Result healthz(struct ask *a) {
    return send_text(a, 200, TYPE_TEXT, "ok\n");
}

static enum MHD_Result readyz(struct ask *a) {
    al_serve_view(a->s);
    if (!a->s->view.have)
        return send_text(a, 503, TYPE_TEXT, "no sample yet\n");
    if (!al_serve_fresh(a->s))
        return send_text(a, 503, TYPE_TEXT, "the last sample is too old\n");
    if (!al_serve_up(a->s))
        return send_text(a, 503, TYPE_TEXT, "a driver call hangs\n");
    return send_text(a, 200, TYPE_TEXT, "ready\n");
}

static const struct route routes[] = {
    {"/", false, index_answer},
    {"/metrics", false, metrics},
    {"/metrics.json", false, documents},
    {"/api/v1/snapshot", false, snapshot},
    {"/api/v1/findings", false, findings},
    {"/api/v1/series", false, series},
    {"/api/v1/events", false, events},
    {"/api/openapi.json", false, openapi},
    {"/healthz", true, healthz},
    {"/readyz", true, readyz},
};

static const struct route *find_route(const char *path) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (strcmp(path, routes[i].path) == 0)
            return &routes[i];
    return NULL;
}

// --- who may ---

static bool host_right(struct ask *a, const char *version) {
    const char *host = a->s->mhd.lookup_connection_value(a->c, MHD_HEADER_KIND, "Host");
    // HTTP/1.0 knows no Host; what speaks it is no browser.
    return host ? al_host_allowed(host, a->s->names) : strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
}

// 0 to go on, or the status of the refusal.
static unsigned check_credentials(struct ask *a, const struct route *route) {
    const char *sent = a->s->mhd.lookup_connection_value(a->c, MHD_HEADER_KIND, "Authorization");
    if (!al_auth_any(a->s->auth) || (route && route->open))
        return 0;
    switch (al_auth_check(a->s->auth, sent, al_monotonic_ns())) {
    case AL_AUTH_RIGHT: a->full = true; return 0;
    case AL_AUTH_LATER: return 429;
    case AL_AUTH_ABSENT: return a->s->o.anonymous ? 0 : 401;
    default: return 401;
    }
}

static bool is_read(const char *method) {
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

static enum MHD_Result refuse_method(struct al_serve *s, struct MHD_Connection *c) {
    return fail_with(s, c, 405, "only GET and HEAD", "Allow", "GET, HEAD");
}

static enum MHD_Result decide(struct ask *a, const char *method, const char *version) {
    if (!is_read(method))
        return refuse_method(a->s, a->c);
    if (a->request->too_long)
        return al_serve_fail(a->s, a->c, 414, "the target is too long");
    if (!host_right(a, version))
        return al_serve_fail(a->s, a->c, 421, "this Host is not served here (serve.hosts in the config names more)");
    int parsed = al_query_parse(a->request->target, &a->query);
    const struct route *route = parsed ? NULL : find_route(a->query.path);
    unsigned refused = check_credentials(a, route);
    if (refused == 429)
        return fail_with(a->s, a->c, 429, "too many wrong passwords", "Retry-After", "1");
    if (refused)
        return fail_with(a->s, a->c, 401, "credentials are needed", "WWW-Authenticate",
                         "Basic realm=\"alula\", charset=\"UTF-8\"");
    if (parsed)
        return al_serve_fail(a->s, a->c, 400, "the target cannot be read");
    return route ? route->answer(a) : al_serve_fail(a->s, a->c, 404, "no such page; / lists them");
}

static bool announces_body(struct al_serve *s, struct MHD_Connection *c) {
    const char *length = s->mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
    return s->mhd.lookup_connection_value(c, MHD_HEADER_KIND, "Transfer-Encoding") ||
           (length && strcmp(length, "0") != 0);
}

enum MHD_Result al_serve_access(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_size, void **context) {
    struct al_serve *s = cls;
    struct request *r = *context;
    (void)url;
    (void)upload;
    if (!r)
        return MHD_NO;
    if (!r->begun) { // the headers are there; an answer now would end the connection
        r->begun = true;
        al_serve_connection_phase(s, c, PHASE_ANSWER);
        if (!announces_body(s, c))
            return MHD_YES;
        return is_read(method) ? al_serve_fail(s, c, 413, "a request takes no body") : refuse_method(s, c);
    }
    if (*upload_size)
        return MHD_NO;
    struct ask a = {.s = s, .c = c, .request = r};
    return decide(&a, method, version);
}

void *al_serve_target(void *cls, const char *uri, struct MHD_Connection *c) {
    struct al_serve *s = cls;
    struct request *r = calloc(1, sizeof *r);
    if (r) {
        r->too_long = !al_str_copy(r->target, sizeof r->target, uri);
        al_serve_connection_phase(s, c, PHASE_HEADERS);
    }
    return r;
}

void al_serve_completed(void *cls, struct MHD_Connection *c, void **context, enum MHD_RequestTerminationCode code) {
    (void)code;
    free(*context);
    *context = NULL;
    al_serve_connection_phase(cls, c, PHASE_IDLE);
}
