// SPDX-License-Identifier: Apache-2.0
#include "launch/link.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "launch/folder.h"

#define STALE_S 60
#define STALE_MOST 64 // looked at in one start
#define LOCK_TRIES 50 // a reader of boards holds a lock for an instant
#define SILENT_NS 5000000000LL // a connection that says nothing for so long is dropped

static void remove_files(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    al_folder_clear(fd);
    (void)close(fd);
}

// Removes DIR if its alula was killed: it is ours, a minute old, and nobody answers at its socket.
static void clear_stale(const char *dir) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;
    int len = snprintf(a.sun_path, sizeof a.sun_path, "%s/ring", dir);
    if (len >= (int)sizeof a.sun_path || lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        time(NULL) - st.st_mtime < STALE_S)
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)&a, sizeof a) && errno == ECONNREFUSED) {
        remove_files(dir);
        (void)rmdir(dir);
    }
    (void)close(fd);
}

static void clear_stale_below(const char *place) {
    char pattern[128];
    glob_t found;
    if (snprintf(pattern, sizeof pattern, "%s/alula-run-??????", place) >= (int)sizeof pattern)
        return;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && i < STALE_MOST; i++)
            clear_stale(found.gl_pathv[i]);
        globfree(&found);
    }
}

static int make_dir(struct al_link *l) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *const places[] = {runtime && *runtime == '/' ? runtime : NULL, "/tmp"};
    int result = AL_E_IO;
    for (int i = 0; i < 2; i++) {
        if (!places[i] || snprintf(l->dir, sizeof l->dir, "%s/alula-run-XXXXXX", places[i]) >= (int)sizeof l->dir)
            continue;
        clear_stale_below(places[i]);
        if (mkdtemp(l->dir)) // 0700
            return 0;
        result = access(places[i], W_OK | X_OK) ? AL_E_DENIED : AL_E_IO;
    }
    l->dir[0] = '\0';
    return result;
}

static void init(struct al_link *l) {
    memset(l, 0, sizeof *l);
    l->listen_fd = l->dir_fd = l->place_fd = -1;
    l->guest = (uid_t)-1;
    for (int i = 0; i < AL_LINK_PENDING; i++)
        l->pending[i].fd = -1;
}

// The lock tells readers of the board, and who would take the folder over, that an alula runs behind it.
static int hold_dir(struct al_link *l) {
    struct stat st;
    char *slash = strrchr(l->dir, '/');
    *slash = '\0';
    l->place_fd = open(*l->dir ? l->dir : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    *slash = '/';
    l->dir_fd = open(l->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (l->dir_fd < 0)
        return errno == ENOENT ? AL_E_NOENT : AL_E_DENIED;
    if (fstat(l->dir_fd, &st) || st.st_uid != geteuid() || st.st_mode & 077)
        return AL_E_DENIED;
    for (int i = 0; flock(l->dir_fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; i++) {
        if (i == LOCK_TRIES)
            return AL_E_AGAIN;
        (void)usleep(1000);
    }
    return 0;
}

static int listen_there(struct al_link *l) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(l->path, sizeof l->path, "%s/ring", l->dir);
    memcpy(address.sun_path, l->path, strlen(l->path) + 1);
    l->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    if (l->listen_fd < 0 || setsockopt(l->listen_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) ||
        bind(l->listen_fd, (const struct sockaddr *)&address, sizeof address) || listen(l->listen_fd, 128))
        return AL_E_IO;
    return 0;
}

int al_link_open(struct al_link *l) {
    init(l);
    int result = make_dir(l);
    if (!result)
        result = hold_dir(l);
    if (!result)
        result = listen_there(l);
    if (result)
        al_link_close(l);
    return result;
}

int al_link_open_below(struct al_link *l, const char *place) {
    init(l);
    if (snprintf(l->dir, sizeof l->dir, "%s/alula-run-XXXXXX", place) >= (int)sizeof l->dir) {
        l->dir[0] = '\0';
        return AL_E_TOOBIG;
    }
    if (!mkdtemp(l->dir)) {
        int error = errno;
        l->dir[0] = '\0';
        return error == EACCES || error == EROFS ? AL_E_DENIED : AL_E_IO;
    }
    int result = hold_dir(l);
    if (!result)
        result = listen_there(l);
    if (result)
        al_link_close(l);
    return result;
}

// The shape that al_link_open gave it: nothing else is made or removed.
static bool take_path(struct al_link *l, const char *path) {
    const char *slash = path && *path == '/' ? strrchr(path, '/') : NULL;
    size_t len = slash ? (size_t)(slash - path) : 0;
    if (!slash || strcmp(slash, "/ring") != 0 || len >= sizeof l->dir || !al_str_copy_n(l->dir, sizeof l->dir, path, len))
        return false;
    const char *name = strrchr(l->dir, '/');
    return name && al_str_starts(name, "/alula-run-") && strlen(name) == strlen("/alula-run-XXXXXX");
}

int al_link_take_over(struct al_link *l, const char *path) {
    init(l);
    if (!take_path(l, path)) {
        l->dir[0] = '\0';
        return AL_E_INVALID;
    }
    int result = mkdir(l->dir, 0700) && errno != EEXIST ? (errno == EACCES ? AL_E_DENIED : AL_E_IO) : 0;
    if (!result)
        result = hold_dir(l);
    if (result) { // somebody else's: it stays as it is
        if (l->dir_fd >= 0)
            (void)close(l->dir_fd);
        if (l->place_fd >= 0)
            (void)close(l->place_fd);
        init(l);
        return result;
    }
    remove_files(l->dir);
    result = listen_there(l);
    if (result)
        al_link_close(l);
    return result;
}

void al_link_close(struct al_link *l) {
    if (l->listen_fd >= 0)
        (void)close(l->listen_fd);
    l->listen_fd = -1;
    for (int i = 0; i < AL_LINK_PENDING; i++) {
        if (l->pending[i].fd >= 0)
            (void)close(l->pending[i].fd);
        l->pending[i].fd = -1;
    }
    // By descriptors: the path may lead through a process that has ended.
    if (l->dir[0] && l->dir_fd >= 0 && l->place_fd >= 0) {
        al_folder_clear(l->dir_fd);
        (void)unlinkat(l->place_fd, strrchr(l->dir, '/') + 1, AT_REMOVEDIR);
    } else if (l->dir[0]) {
        (void)rmdir(l->dir);
    }
    if (l->dir_fd >= 0)
        (void)close(l->dir_fd);
    if (l->place_fd >= 0)
        (void)close(l->place_fd);
    l->dir_fd = l->place_fd = -1;
    l->path[0] = l->dir[0] = '\0';
}

uint32_t al_link_poll(const struct al_link *l, struct pollfd *ret) {
    uint32_t count = 0;
    if (l->listen_fd < 0)
        return 0;
    ret[count++] = (struct pollfd){.fd = l->listen_fd, .events = POLLIN};
    for (int i = 0; i < AL_LINK_PENDING; i++)
        if (l->pending[i].fd >= 0)
            ret[count++] = (struct pollfd){.fd = l->pending[i].fd, .events = POLLIN};
    return count;
}

static void accept_all(struct al_link *l, int64_t now_ns) {
    for (int i = 0; i < AL_LINK_PENDING; i++) {
        if (l->pending[i].fd >= 0)
            continue;
        struct sockaddr_un from;
        socklen_t size = sizeof from;
        int fd = accept4(l->listen_fd, (struct sockaddr *)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        const int on = 1;
        (void)setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
        l->pending[i].fd = fd;
        l->pending[i].since_ns = now_ns;
    }
}

static bool is_sealed(int fd) {
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

// Takes the descriptors and credentials of a message; descriptors beyond the first are closed.
static void take_control(struct msghdr *m, struct al_link_guest *g, struct ucred *who) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len >= CMSG_LEN(sizeof *who))
            memcpy(who, CMSG_DATA(c), sizeof *who);
        if (c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (g->ring_fd < 0)
                g->ring_fd = fd;
            else
                (void)close(fd);
        }
    }
}

// 1: nothing yet; 0: a guest; negative: refused.
static int greet(const struct al_link *l, int fd, struct al_link_guest *g) {
    union {
        char bytes[256];
        struct cmsghdr align;
    } control;
    struct ucred who = {.pid = 0, .uid = (uid_t)-1};
    struct iovec part = {&g->hello, sizeof g->hello};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    g->ring_fd = -1;
    ssize_t len = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (len >= 0)
        take_control(&m, g, &who);
    bool ours = who.uid == geteuid() || who.uid == 0 || (l->guest != (uid_t)-1 && who.uid == l->guest);
    if (len == sizeof g->hello && memcmp(g->hello.magic, AL_RING_HELLO_MAGIC, sizeof g->hello.magic) == 0 && ours &&
        who.pid > 0 && g->ring_fd >= 0 && is_sealed(g->ring_fd)) {
        g->pid = who.pid;
        g->connection_fd = fd;
        return 0;
    }
    if (g->ring_fd >= 0)
        (void)close(g->ring_fd);
    return AL_E_DENIED;
}

int al_link_take(struct al_link *l, int64_t now_ns, struct al_link_guest *ret) {
    if (l->listen_fd < 0)
        return AL_E_AGAIN;
    accept_all(l, now_ns);
    for (int i = 0; i < AL_LINK_PENDING; i++) {
        if (l->pending[i].fd < 0)
            continue;
        int result = greet(l, l->pending[i].fd, ret);
        if (result == 1 && now_ns - l->pending[i].since_ns < SILENT_NS)
            continue;
        if (result != 0) {
            (void)close(l->pending[i].fd);
            l->refused++;
        }
        l->pending[i].fd = -1;
        if (result == 0)
            return 0;
    }
    return AL_E_AGAIN;
}
