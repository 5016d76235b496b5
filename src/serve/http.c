// SPDX-License-Identifier: Apache-2.0
// libmicrohttpd, its socket, and the one thread that runs it. The thread waits by itself (libmicrohttpd's external
// polling), so that ticks, limits and streams need no second one and no locks.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/dl.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "base/thread.h"
#include "serve/parts.h"

#define REQUEST_MEMORY (16 * 1024) // of a connection: its headers must fit, else 431
#define LIMIT_SLACK 32             // connections that may be on their way out while others come
#define TURN_MS 500
#define PEM_MAX (256 * 1024)

static int complain(char *error, size_t size, int code, const char *format, ...) __attribute__((format(printf, 4, 5)));
static int complain(char *error, size_t size, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error, size, format, args);
    va_end(args);
    return code;
}

static int load_library(struct al_serve *s, char *error, size_t size) {
    static const char *const paths[] = {"libmicrohttpd.so.12", NULL};
    static const struct al_dl_symbol symbols[] = {
#define X(name) {"MHD_" #name, offsetof(struct al_mhd, name), true},
        AL_MHD(X)
#undef X
    };
    const char *path, *missing = "";
    char why[160];
    if (al_dl_open(paths, &s->library, &path, why, sizeof why))
        return complain(error, size, AL_E_NOLIB, "libmicrohttpd.so.12 is needed to serve (Debian's libmicrohttpd12): %s",
                        why);
    if (al_dl_resolve(s->library, symbols, sizeof symbols / sizeof *symbols, &s->mhd, &missing))
        return complain(error, size, AL_E_NOSYM, "libmicrohttpd.so.12 lacks MHD_%s", missing);
    return 0;
}

// --- the socket ---

static bool is_loopback(const char *host) {
    return al_str_starts(host, "127.") || strcmp(host, "::1") == 0;
}

static int open_socket(const char *host, uint16_t port) {
    bool six = strchr(host, ':') != NULL;
    struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int one = 1, zero = 0;
    (void)inet_pton(six ? AF_INET6 : AF_INET, host, six ? (void *)&a6.sin6_addr : (void *)&a4.sin_addr);
    int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (six)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    int result = six ? bind(fd, (struct sockaddr *)&a6, sizeof a6) : bind(fd, (struct sockaddr *)&a4, sizeof a4);
    if (!result)
        result = listen(fd, 1024); // a flood waits there, not a second for its next SYN
    if (!result)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static uint16_t port_of(int fd) {
    struct sockaddr_in6 a = {0}; // large enough for both families; the port has the same place
    socklen_t len = sizeof a;
    return getsockname(fd, (struct sockaddr *)&a, &len) == 0 ? ntohs(a.sin6_port) : 0;
}

static int check_exposure(const struct al_serve *s, const char *host, char *error, size_t size) {
    if (s->loopback || s->o.insecure_listen)
        return 0;
    if (!al_auth_any(s->auth))
        return complain(error, size, AL_E_DENIED,
                        "%s can be reached by others, and there are no credentials: set serve.tokens_file or "
                        "serve.users_file in the config (see alula.yaml(5)), or insist with --insecure-listen", host);
    return 0;
}

static int open_listener(struct al_serve *s, char *error, size_t size) {
    char host[INET6_ADDRSTRLEN];
    uint16_t port;
    if (al_listen_parse(s->o.listen, host, sizeof host, &port))
        return complain(error, size, AL_E_INVALID, "\"%.60s\" is no address to listen on: expected 127.0.0.1:9810, "
                        "[::1]:9810 or :9810", s->o.listen);
    s->loopback = is_loopback(host);
    int result = check_exposure(s, host, error, size);
    if (result)
        return result;
    s->listen_fd = open_socket(host, port);
    if (s->listen_fd < 0 && errno == EAFNOSUPPORT && strcmp(host, "::") == 0) {
        (void)al_str_copy(host, sizeof host, "0.0.0.0"); // a kernel without IPv6
        s->listen_fd = open_socket(host, port);
    }
    if (s->listen_fd < 0)
        return complain(error, size, errno == EACCES ? AL_E_DENIED : AL_E_IO, "cannot listen on %s: %s", s->o.listen,
                        errno == EADDRINUSE ? "the port is taken (another alula serve? --listen chooses another)"
                                            : strerror(errno));
    bool six = strchr(host, ':') != NULL;
    (void)snprintf(s->url, sizeof s->url, "http%s://%s%s%s:%u", s->tls ? "s" : "", six ? "[" : "", host, six ? "]" : "",
                   port_of(s->listen_fd));
    return 0;
}

// --- TLS ---

static int read_pem(const char *path, bool secret, char **ret, char *error, size_t size) {
    size_t len;
    if (secret && al_auth_file_open_to_others(path))
        return complain(error, size, AL_E_CONFIG, "%s: other users can read it; chmod 640 or 600", path);
    int result = al_fs_slurp(path, PEM_MAX, ret, &len);
    return result ? complain(error, size, AL_E_CONFIG, "%s: %s", path, al_error_text(result)) : 0;
}

static int read_tls(struct al_serve *s, char **certificate, char **key, char *error, size_t size) {
    const char *c = s->o.tls_certificate, *k = s->o.tls_key;
    if ((!c || !*c) && (!k || !*k))
        return 0;
    if (!c || !*c || !k || !*k)
        return complain(error, size, AL_E_CONFIG, "serve.tls_certificate and serve.tls_key belong together");
    if (s->mhd.is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return complain(error, size, AL_E_UNSUPPORTED, "this libmicrohttpd was built without TLS");
    s->tls = true;
    int result = read_pem(c, false, certificate, error, size);
    return result ? result : read_pem(k, true, key, error, size);
}

// --- the daemon ---

__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *format, va_list args) {
    struct al_serve *s = cls;
    (void)vsnprintf(s->log, sizeof s->log, format, args);
    s->log[strcspn(s->log, "\n")] = '\0';
    (void)al_str_clean(s->log);
}

// No unescaping: paths are compared as they came, and queries are taken apart by our own reader.
static size_t leave_escaped(void *cls, struct MHD_Connection *c, char *text) {
    (void)cls;
    (void)c;
    return strlen(text);
}

static void start_daemon(struct al_serve *s, const char *certificate, const char *key) {
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_LISTEN_SOCKET, s->listen_fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)s->o.max_connections + LIMIT_SLACK, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, REQUEST_MEMORY, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_INCREMENT, 1024, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)al_serve_connection_event, s},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)al_serve_completed, s},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)al_serve_target, s},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, s},
        {s->tls ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, (void *)(uintptr_t)certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (s->tls ? MHD_USE_TLS : 0);
    s->daemon = s->mhd.start_daemon(flags, 0, NULL, NULL, al_serve_access, s, MHD_OPTION_EXTERNAL_LOGGER, on_log, s,
                                    MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

static int open_daemon(struct al_serve *s, char *error, size_t size) {
    char *certificate = NULL, *key = NULL;
    int result = read_tls(s, &certificate, &key, error, size);
    if (!result)
        result = open_listener(s, error, size);
    if (!result) {
        start_daemon(s, certificate, key);
        if (!s->daemon)
            result = complain(error, size, s->tls ? AL_E_CONFIG : AL_E_IO, "the HTTP server did not start: %s%s",
                              s->tls ? "are serve.tls_certificate and serve.tls_key a PEM pair? " : "", s->log);
    }
    if (key)
        explicit_bzero(key, strlen(key));
    free(key);
    free(certificate);
    if (!s->daemon && s->listen_fd >= 0)
        close(s->listen_fd);
    return result;
}

// --- the thread ---

static void reload_credentials(struct al_serve *s) {
    char error[256];
    struct al_auth *auth;
    if (!atomic_exchange(&s->reload, 0))
        return;
    if (al_auth_load(s->o.tokens_file, s->o.users_file, &auth, error, sizeof error))
        return; // the caller of al_serve_reload has read the files too, and said so
    al_auth_free(s->auth);
    s->auth = auth;
}

static void wait_for_work(struct al_serve *s) {
    MHD_UNSIGNED_LONG_LONG due;
    int wait = TURN_MS;
    uint64_t count;
    if (s->mhd.get_timeout(s->daemon, &due) == MHD_YES && due < TURN_MS)
        wait = (int)due;
    if (s->connection_count > s->o.max_connections && wait > AL_SERVE_MOMENT_NS / AL_NS_PER_MS)
        wait = AL_SERVE_MOMENT_NS / AL_NS_PER_MS;
    struct pollfd fds[] = {{.fd = s->epoll_fd, .events = POLLIN}, {.fd = s->wake_fd, .events = POLLIN}};
    if (poll(fds, 2, wait) > 0 && (fds[1].revents & POLLIN)) {
        (void)!read(s->wake_fd, &count, sizeof count);
        al_serve_streams_wake(s);
    }
}

static void *run(void *argument) {
    struct al_serve *s = argument;
    int64_t swept = 0;
    while (!atomic_load(&s->stop)) {
        wait_for_work(s);
        (void)s->mhd.run(s->daemon);
        al_serve_make_room(s);
        int64_t now = al_monotonic_ns();
        if (now - swept >= TURN_MS * AL_NS_PER_MS) {
            al_serve_sweep(s, now);
            reload_credentials(s);
            swept = now;
        }
        atomic_store(&s->alive_ns, now);
    }
    s->ending = true;
    al_serve_streams_wake(s);
    (void)s->mhd.run(s->daemon);
    s->mhd.stop_daemon(s->daemon);
    s->daemon = NULL;
    return NULL;
}

int al_serve_start(struct al_serve *s, char *error, size_t size) {
    int result = load_library(s, error, size);
    if (!result)
        result = open_daemon(s, error, size);
    if (result)
        return result;
    s->epoll_fd = s->mhd.get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->running = s->wake_fd >= 0 && al_thread_start(&s->thread, run, s) == 0;
    if (s->running)
        return 0;
    s->mhd.stop_daemon(s->daemon);
    s->daemon = NULL;
    return complain(error, size, AL_E_NOMEM, "cannot start the HTTP thread");
}

void al_serve_wake(struct al_serve *s) {
    const uint64_t one = 1;
    (void)!write(s->wake_fd, &one, sizeof one);
}

void al_serve_stop(struct al_serve *s) {
    if (s->running) {
        atomic_store(&s->stop, 1);
        al_serve_wake(s);
        (void)pthread_join(s->thread, NULL);
        s->running = false;
    }
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    s->wake_fd = -1;
}
