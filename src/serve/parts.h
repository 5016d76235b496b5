// SPDX-License-Identifier: Apache-2.0
// What the files of this folder share. Everything but the fields marked so belongs to the HTTP thread.
#ifndef AL_SERVE_PARTS_H
#define AL_SERVE_PARTS_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "model/finding.h"
#include "serve/auth.h"
#include "serve/request.h"
#include "serve/serve.h"

// The functions of libmicrohttpd that are used, found at run time.
#define AL_MHD(X)                                                                                                      \
    X(start_daemon) X(stop_daemon) X(run) X(get_timeout) X(get_daemon_info) X(create_response_from_buffer)             \
    X(create_response_from_callback) X(add_response_header) X(destroy_response) X(queue_response)                      \
    X(lookup_connection_value) X(get_connection_info) X(suspend_connection) X(resume_connection)                       \
    X(is_feature_supported)
struct al_mhd {
#define X(name) __typeof__(&MHD_##name) name;
    AL_MHD(X)
#undef X
};

#define FINDINGS_OPEN_MAX 256
#define FINDINGS_ENDED_MAX 64
#define EVENTS_KEPT 64
#define STREAMS_MAX 16
#define AL_SERVE_MOMENT_NS (20 * AL_NS_PER_MS) // that a connection has before it may have to make room

// Findings as the sink hears them; under the collect's lock.
struct finding_log {
    struct al_finding *open; // FINDINGS_OPEN_MAX
    uint32_t open_count;
    struct al_finding *ended; // a ring of FINDINGS_ENDED_MAX
    uint64_t ended_count;     // ever
    struct al_finding *event; // a ring of EVENTS_KEPT: every call
    uint64_t event_count;     // ever; the id of the newest event
};

// What the answers are made from: copied once a tick, when somebody asks.
struct view {
    struct al_snapshot *snapshot;
    bool have; // a snapshot was there
    uint64_t tick, event_count;
    struct al_collect_cost cost;
    struct finding_log findings; // open and ended only
};

// Pages that are the same for all who may see as much, kept for the time of a tick.
enum page_kind { PAGE_METRICS, PAGE_OPENMETRICS, PAGE_SNAPSHOT, PAGE_KINDS };
struct page {
    struct MHD_Response *response; // owns text
    const char *text;
    size_t len;
    uint64_t tick, event_count;
    int64_t made_ns;
};

enum phase { PHASE_NEW, PHASE_HEADERS, PHASE_ANSWER, PHASE_STREAM, PHASE_IDLE };
struct connection {
    struct connection *next, *before;
    int fd;
    enum phase phase;
    int64_t since_ns;
    bool cut;
};

struct stream;
struct al_serve {
    struct al_sink sink; // first
    struct al_serve_options o;
    char *strings[6];    // copies of the options' texts
    struct al_mhd mhd;
    void *library;
    struct MHD_Daemon *daemon;
    int listen_fd, wake_fd, epoll_fd;
    bool tls, loopback;
    char url[128];
    char names[1024];    // of Host
    char log[256];       // libmicrohttpd's last complaint
    pthread_t thread;
    bool running;
    struct al_auth *auth;

    // Written by the collecting thread.
    struct finding_log findings;   // under the collect's lock
    struct al_collect_cost cost;   // under the collect's lock
    _Atomic int64_t ticked_ns;     // real time of the last tick; 0 before the first
    _Atomic int stop, reload;
    _Atomic int64_t alive_ns;      // written by the HTTP thread: its last turn
    int64_t watchdog_ns, watched_ns;

    struct view view;
    struct page pages[PAGE_KINDS][2]; // [1]: with credentials
    struct connection *connections;
    uint32_t connection_count;
    uint64_t cut_count, requests[6];
    struct stream *streams;
    uint32_t stream_count;
    bool ending;
};

// A request on its way; made when its first line is there.
struct request {
    char target[AL_TARGET_MAX];
    bool too_long, begun, events;
};

// http.c: the library, the socket, the thread.
int al_serve_start(struct al_serve *s, char *error, size_t size);
void al_serve_stop(struct al_serve *s);
void al_serve_wake(struct al_serve *s);
// connection.c: limits of number and time.
void al_serve_connection_event(void *cls, struct MHD_Connection *c, void **context,
                               enum MHD_ConnectionNotificationCode code);
void al_serve_connection_phase(struct al_serve *s, struct MHD_Connection *c, enum phase phase);
void al_serve_make_room(struct al_serve *s);
void al_serve_sweep(struct al_serve *s, int64_t now_ns);
// answer.c: routes.
enum MHD_Result al_serve_access(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_size, void **context);
void *al_serve_target(void *cls, const char *uri, struct MHD_Connection *c);
void al_serve_completed(void *cls, struct MHD_Connection *c, void **context, enum MHD_RequestTerminationCode code);
enum MHD_Result al_serve_send(struct al_serve *s, struct MHD_Connection *c, unsigned status, const char *type,
                              struct al_buf *body);
enum MHD_Result al_serve_fail(struct al_serve *s, struct MHD_Connection *c, unsigned status, const char *what);
struct MHD_Response *al_serve_response(struct al_serve *s, const char *type, struct al_buf *body);
// view.c
void al_serve_view(struct al_serve *s);
bool al_serve_fresh(const struct al_serve *s);
// True when the view says that the driver answers.
bool al_serve_up(const struct al_serve *s);
// pages.c: what is kept, and the JSON that is not.
struct page *al_serve_page(struct al_serve *s, enum page_kind kind, bool full);
void al_serve_pages_free(struct al_serve *s);
void al_serve_finding_json(struct al_serve *s, struct al_buf *b, const struct al_finding *f, bool full);
void al_serve_findings_json(struct al_serve *s, struct al_buf *b, const char *state, bool full);
int al_serve_documents_json(struct al_serve *s, struct al_buf *b, const char *gpu);
// series.c: AL_E_NOENT unknown metric or GPU, AL_E_INVALID a wrong value; error says which.
int al_serve_series_json(struct al_serve *s, struct al_buf *b, const struct al_query *q, char *error, size_t size);
// events.c
enum MHD_Result al_serve_stream(struct al_serve *s, struct MHD_Connection *c, const struct al_query *q, bool full);
void al_serve_streams_wake(struct al_serve *s);

#endif
