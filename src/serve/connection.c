// SPDX-License-Identifier: Apache-2.0
// Limits of number and time. libmicrohttpd's own timeout starts anew with every byte, so that a client that sends one now
// and then keeps a connection for ever; here each phase has an end. When there are too many connections, the one that has
// waited longest without asking anything makes room.
#include <stdlib.h>
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

static void make_room(struct al_serve *s, struct connection *newest) {
    struct connection *oldest = NULL;
    uint32_t live = 0;
    for (struct connection *c = s->connections; c; c = c->next) {
        live += !c->cut;
        bool waiting = c->phase == PHASE_NEW || c->phase == PHASE_HEADERS || c->phase == PHASE_IDLE;
        if (c != newest && !c->cut && waiting && (!oldest || c->since_ns < oldest->since_ns))
            oldest = c;
    }
    if (live > s->o.max_connections)
        cut(s, oldest ? oldest : newest);
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
    if (s->connection_count > s->o.max_connections)
        make_room(s, c);
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

void al_serve_sweep(struct al_serve *s, int64_t now_ns) {
    const int64_t limits[] = {[PHASE_NEW] = s->o.header_timeout_ns,
                              [PHASE_HEADERS] = s->o.header_timeout_ns,
                              [PHASE_ANSWER] = s->o.answer_timeout_ns,
                              [PHASE_STREAM] = s->o.answer_timeout_ns, // since it last took something
                              [PHASE_IDLE] = s->o.idle_timeout_ns};
    for (struct connection *c = s->connections; c; c = c->next)
        if (now_ns - c->since_ns > limits[c->phase])
            cut(s, c);
}
