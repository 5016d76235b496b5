// SPDX-License-Identifier: Apache-2.0
#include "probe/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ring/calls.h"
#include "ring/ring.h"

// Out of the way of programs that count on small numbers.
#define FD_FROM 400

struct al_probe_fd al_probe_fd_take(int fd) {
    struct al_probe_fd f = {.fd = fd};
    struct stat st;
    int high = fd >= 0 ? al_ring_fcntl(fd, F_DUPFD_CLOEXEC, FD_FROM) : -1;
    if (high >= 0) {
        (void)close(fd);
        f.fd = high;
    }
    if (f.fd >= 0 && al_ring_fstat(f.fd, &st) == 0) {
        f.dev = st.st_dev;
        f.ino = st.st_ino;
    }
    return f;
}

bool al_probe_fd_ours(const struct al_probe_fd *f) {
    struct stat st;
    return f->fd >= 0 && al_ring_fstat(f->fd, &st) == 0 && st.st_dev == f->dev && st.st_ino == f->ino;
}

void al_probe_fd_close(struct al_probe_fd *f) {
    if (al_probe_fd_ours(f))
        (void)close(f->fd);
    f->fd = -1;
}

void al_probe_fd_empty(const struct al_probe_fd *f, size_t size) {
    (void)fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)size);
}

int al_probe_connect(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, length + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

int al_probe_greet(int socket, int memfd, uint64_t start_ticks) {
    struct al_ring_hello hello = {
        .pid = (int32_t)getpid(), .version = AL_RING_VERSION, .start_ticks = start_ticks};
    memcpy(hello.magic, AL_RING_HELLO_MAGIC, sizeof hello.magic);
    struct iovec part = {.iov_base = &hello, .iov_len = sizeof hello};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &memfd, sizeof memfd);
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof hello ? 0 : -1;
}

bool al_probe_peer_there(int socket) {
    char byte;
    ssize_t n = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}
