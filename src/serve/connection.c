// SPDX-License-Identifier: Apache-2.0
// Limits of number and time. libmicrohttpd's own timeout starts anew with every byte, so that a client that sends one
// now and then keeps a connection for ever; here each phase has an end. When there are too many connections, the one
// that has been silent for longest makes room.
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "serve/parts.h"

static void cut(struct al_serve *s, struct connection *c) {
    if (c->cut)
        return;
    c->cut = true;
    s->cut_count++;
    // libmicrohttpd sees the end of the stream and closes; the descriptor stays its own.
    (void)shutdown(c->fd, SHUT_RDWR);
}

// Something has come that was not read yet: a request, most likely.
static bool has_said_something(const struct connection *c) {
    int bytes = 0;
    return ioctl(c->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

// Whether a is a better one to close than b, which may be NULL.
static bool rather(const struct connection *a, const struct connection *b) {
    if (!b)
        return true;
    bool said = has_said_something(a), b_said = has_said_something(b);
    return said != b_said ? !said : a->since_ns < b->since_ns;
}

// Everyone has a moment to say something: under a flood new connections wait meanwhile (libmicrohttpd's own limit lies
// a little higher), so that a scraper among them is answered.
static void make_room(struct al_serve *s) {
    int64_t now = al_monotonic_ns();
    uint32_t live = 0;
    for (struct connection *c = s->connections; c; c = c->next)
        live += !c->cut;
    for (; live > s->o.max_connections; live--) {
        struct connection *chosen = NULL;
        for (struct connection *c = s->connections; c; c = c->next) {
            bool waiting = c->phase == PHASE_NEW || c->phase == PHASE_HEADERS || c->phase == PHASE_IDLE;
            if (!c->cut && waiting && now - c->since_ns >= AL_SERVE_MOMENT_NS && rather(c, chosen))
                chosen = c;
        }
        if (!chosen)
            return; // later; those that are being answered have an end of their own
        cut(s, chosen);
    }
}

// The other side has closed. libmicrohttpd misses that when it comes together with a request.
static bool has_left(const struct connection *c) {
    char byte;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void started(struct al_serve *s, struct MHD_Connection *connection, void **context) {
    const union MHD_ConnectionInfo *info = s->mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct connection *c = info ? calloc(1, sizeof *c) : NULL;
    *context = c;
    if (!c)
        return;
    c->fd = info->connect_fd;
    c->since_ns = al_monotonic_ns();
    c->next = s->connections;
    if (c->next)
        c->next->before = c;
    s->connections = c;
    s->connection_count++;
}

void al_serve_connection_event(void *cls, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode code) {
    struct al_serve *s = cls;
    struct connection *c = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        started(s, connection, context);
        return;
    }
    if (!c)
        return;
    if (c->before)
        c->before->next = c->next;
    else
        s->connections = c->next;
    if (c->next)
        c->next->before = c->before;
    s->connection_count--;
    free(c);
    *context = NULL;
}

void al_serve_connection_phase(struct al_serve *s, struct MHD_Connection *connection, enum phase phase) {
    const union MHD_ConnectionInfo *info = s->mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *c = info ? info->socket_context : NULL;
    if (!c)
        return;
    c->phase = phase;
    c->since_ns = al_monotonic_ns();
}

void al_serve_make_room(struct al_serve *s) {
    if (s->connection_count > s->o.max_connections)
        make_room(s);
}

void al_serve_sweep(struct al_serve *s, int64_t now_ns) {
    const int64_t limits[] = {[PHASE_NEW] = s->o.header_timeout_ns,
                              [PHASE_HEADERS] = s->o.header_timeout_ns,
                              [PHASE_ANSWER] = s->o.answer_timeout_ns,
                              [PHASE_STREAM] = s->o.answer_timeout_ns, // since it last took something
                              [PHASE_IDLE] = s->o.idle_timeout_ns};
    for (struct connection *c = s->connections; c; c = c->next) {
        bool answering = c->phase == PHASE_ANSWER || c->phase == PHASE_STREAM;
        if (now_ns - c->since_ns > limits[c->phase])
            cut(s, c);
        else if (!answering && !c->cut && has_left(c))
            (void)shutdown(c->fd, SHUT_RDWR);
    }
}
