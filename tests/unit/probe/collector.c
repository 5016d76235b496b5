// SPDX-License-Identifier: Apache-2.0
#include "collector.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

void collector_listen(struct collector *c) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", c->path);
    (void)unlink(c->path);
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    assert_int_equal(setsockopt(c->listener, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    assert_int_equal(bind(c->listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(c->listener, 16), 0);
}

void collector_open(struct collector *c) {
    *c = (struct collector){.listener = -1, .socket = -1};
    (void)snprintf(c->folder, sizeof c->folder, "/tmp/alula-probe-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    (void)snprintf(c->path, sizeof c->path, "%s/socket", c->folder);
    assert_int_equal(setenv("ALULA_SOCKET", c->path, 1), 0);
}

void collector_close(struct collector *c) {
    c->reader = al_ring_reader_free(c->reader);
    if (c->socket >= 0)
        (void)close(c->socket);
    if (c->listener >= 0)
        (void)close(c->listener);
    (void)unlink(c->path);
    (void)rmdir(c->folder);
}

bool collector_has_caller(struct collector *c) {
    struct pollfd p = {.fd = c->listener, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

void collector_accept(struct collector *c) {
    struct pollfd p = {.fd = c->listener, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 5000), 1);
    c->socket = accept(c->listener, NULL, NULL);
    assert_true(c->socket >= 0);
    union {
        char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = &c->hello, .iov_len = sizeof c->hello};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    assert_int_equal(recvmsg(c->socket, &message, MSG_CMSG_CLOEXEC), sizeof c->hello);
    int memfd = -1;
    c->peer = 0;
    for (struct cmsghdr *m = CMSG_FIRSTHDR(&message); m; m = CMSG_NXTHDR(&message, m)) {
        struct ucred who;
        if (m->cmsg_type == SCM_RIGHTS)
            memcpy(&memfd, CMSG_DATA(m), sizeof memfd);
        if (m->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&who, CMSG_DATA(m), sizeof who);
            c->peer = who.pid;
        }
    }
    c->reader = al_ring_reader_free(c->reader);
    assert_int_equal(al_ring_reader_open(memfd, &c->reader), 0);
}

static void keep(void *user, const struct al_ring_item *item) {
    struct collector *c = user;
    assert_true(c->count < SEEN_MAX);
    c->seen[c->count] = item->record;
    c->tids[c->count] = item->tid;
    (void)snprintf(c->text[c->count], sizeof c->text[0], "%s", item->text ? item->text : "");
    c->count++;
}

void collector_drain(struct collector *c) {
    (void)al_ring_reader_drain(c->reader, keep, c);
}

pid_t child_start(void (*job)(struct collector *c), struct collector *c) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        job(c);
        _exit(0);
    }
    return child;
}

void child_end(pid_t child) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}
