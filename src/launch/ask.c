// SPDX-License-Identifier: Apache-2.0
#include "launch/ask.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "model/event.h"

#define HEAD "alula ask 1 "
#define SILENT_NS 5000000000LL // a client that says nothing for so long is dropped
#define ANSWER_MS 2000         // an alula says at once whether a process is its own
#define SEND_BYTES (1 << 20)   // an answer waits in the socket until it is read

static const struct {
    const char *word;
    uint32_t bit;
} words[] = {{"memory-summary", AL_REQUEST_MEMORY_SUMMARY}, {"empty-cache", AL_REQUEST_EMPTY_CACHE}};

uint32_t al_ask_from_word(const char *word) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, word) == 0)
            return words[i].bit;
    return 0;
}

const char *al_ask_word(uint32_t bit) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].bit == bit)
            return words[i].word;
    return "";
}

int al_ask_open(struct al_ask *a, const char *dir) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memset(a, 0, sizeof *a);
    for (int i = 0; i < AL_ASK_CLIENTS; i++)
        a->client[i].fd = -1;
    a->listen_fd = -1;
    if (snprintf(a->path, sizeof a->path, "%s/" AL_ASK_NAME, dir) >= (int)sizeof a->path)
        return AL_E_IO;
    memcpy(address.sun_path, a->path, strlen(a->path) + 1);
    a->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (a->listen_fd >= 0 && bind(a->listen_fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        listen(a->listen_fd, AL_ASK_CLIENTS) == 0)
        return 0;
    if (a->listen_fd >= 0)
        (void)close(a->listen_fd);
    a->listen_fd = -1;
    return AL_E_IO;
}

void al_ask_done(struct al_ask *a, uint32_t client) {
    if (a->client[client].fd >= 0)
        (void)close(a->client[client].fd);
    memset(&a->client[client], 0, sizeof a->client[client]);
    a->client[client].fd = -1;
}

void al_ask_close(struct al_ask *a) {
    if (a->listen_fd < 0)
        return;
    for (uint32_t i = 0; i < AL_ASK_CLIENTS; i++)
        al_ask_done(a, i);
    (void)close(a->listen_fd);
    a->listen_fd = -1;
    (void)unlink(a->path);
}

uint32_t al_ask_poll(const struct al_ask *a, struct pollfd *ret) {
    uint32_t count = 0;
    if (a->listen_fd < 0)
        return 0;
    ret[count++] = (struct pollfd){.fd = a->listen_fd, .events = POLLIN};
    for (int i = 0; i < AL_ASK_CLIENTS; i++)
        if (a->client[i].fd >= 0 && !a->client[i].asked)
            ret[count++] = (struct pollfd){.fd = a->client[i].fd, .events = POLLIN};
    return count;
}

static bool is_friend(int fd) {
    struct ucred who;
    socklen_t len = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && (who.uid == geteuid() || who.uid == 0);
}

static void accept_all(struct al_ask *a, int64_t now_ns) {
    const int bytes = SEND_BYTES;
    for (uint32_t i = 0; i < AL_ASK_CLIENTS; i++) {
        if (a->client[i].fd >= 0)
            continue;
        struct sockaddr_un from;
        socklen_t length = sizeof from;
        int fd = accept4(a->listen_fd, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (!is_friend(fd)) {
            (void)close(fd);
            continue;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
        a->client[i].fd = fd;
        a->client[i].since_ns = now_ns;
    }
}

// "alula ask 1 4242 empty-cache" without its newline.
static bool parse(char *line, struct al_ask_request *ret) {
    char number[24];
    uint64_t pid;
    const char *p = line + sizeof HEAD - 1;
    if (!al_str_starts(line, HEAD))
        return false;
    size_t digits = strcspn(p, " ");
    if (!p[digits] || !al_str_copy_n(number, sizeof number, p, digits) || !al_str_u64(number, &pid) || pid > INT32_MAX)
        return false;
    ret->pid = (pid_t)pid;
    ret->bits = al_ask_from_word(p + digits + 1);
    return ret->bits != 0;
}

// 1: nothing whole yet; 0: a request; negative: none will come.
static int take_line(struct al_ask *a, uint32_t i, struct al_ask_request *ret) {
    char *line = a->client[i].line;
    size_t room = sizeof a->client[i].line - 1 - a->client[i].len;
    ssize_t len = recv(a->client[i].fd, line + a->client[i].len, room, MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (len <= 0)
        return AL_E_GONE;
    a->client[i].len += (size_t)len;
    line[a->client[i].len] = '\0';
    char *end = memchr(line, '\n', a->client[i].len);
    if (!end)
        return (size_t)len == room ? AL_E_FORMAT : 1;
    *end = '\0';
    ret->client = i;
    return parse(line, ret) ? 0 : AL_E_FORMAT;
}

int al_ask_take(struct al_ask *a, int64_t now_ns, struct al_ask_request *ret) {
    if (a->listen_fd < 0)
        return AL_E_AGAIN;
    accept_all(a, now_ns);
    for (uint32_t i = 0; i < AL_ASK_CLIENTS; i++) {
        if (a->client[i].fd < 0 || a->client[i].asked)
            continue;
        int result = take_line(a, i, ret);
        if (result == 1 && now_ns - a->client[i].since_ns < SILENT_NS)
            continue;
        if (result != 0) {
            al_ask_done(a, i);
            continue;
        }
        a->client[i].asked = true;
        return 0;
    }
    return AL_E_AGAIN;
}

bool al_ask_reply(struct al_ask *a, uint32_t client, const char *text, size_t len) {
    int fd = a->client[client].fd;
    if (fd >= 0 && send(fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len)
        return true;
    al_ask_done(a, client);
    return false;
}

// ---- the other side ----

static bool is_trusted(const char *path) {
    char dir[128];
    struct stat st;
    const char *slash = strrchr(path, '/');
    return slash && al_str_copy_n(dir, sizeof dir, path, (size_t)(slash - path)) && lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
           (st.st_uid == geteuid() || geteuid() == 0) && !(st.st_mode & 077);
}

static int dial(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path || !is_trusted(path))
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

// Whether the alula behind the socket takes the request.
static bool is_taken(int fd, const char *line) {
    char first[sizeof AL_ASK_NOT_MINE] = "";
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (send(fd, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line) || poll(&p, 1, ANSWER_MS) <= 0)
        return false;
    return recv(fd, first, sizeof first - 1, MSG_PEEK) > 0 && al_str_starts(first, AL_ASK_TAKEN);
}

// All sockets where somebody answers; without a line they are only counted. A socket that took the request, or -1.
static int ask_all(const char *line, uint32_t *runs) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *const places[] = {runtime && *runtime == '/' && strcmp(runtime, "/tmp") != 0 ? runtime : NULL,
                                  geteuid() == 0 ? "/run/user/*" : NULL, "/tmp"};
    int taken = -1;
    *runs = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char pattern[256];
        glob_t found;
        if (!places[i] || snprintf(pattern, sizeof pattern, "%s/alula-run-*/" AL_ASK_NAME, places[i]) >= (int)sizeof pattern ||
            glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
            continue;
        for (size_t n = 0; n < found.gl_pathc && taken < 0; n++) {
            int fd = dial(found.gl_pathv[n]);
            *runs += fd >= 0;
            if (fd >= 0 && line && is_taken(fd, line))
                taken = fd;
            else if (fd >= 0)
                (void)close(fd);
        }
        globfree(&found);
    }
    return taken;
}

int al_ask_send(pid_t pid, uint32_t bit, int *ret_fd, uint32_t *ret_runs) {
    char line[96];
    *ret_fd = -1;
    if (!pid && (ask_all(NULL, ret_runs), *ret_runs > 1))
        return AL_E_INVALID;
    (void)snprintf(line, sizeof line, HEAD "%d %s\n", (int)pid, al_ask_word(bit));
    *ret_fd = ask_all(line, ret_runs);
    return *ret_fd >= 0 ? 0 : AL_E_NOENT;
}
