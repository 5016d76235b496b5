// SPDX-License-Identifier: Apache-2.0
#include "serve/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"

int al_notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!path || !*path)
        return 0;
    size_t len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len >= sizeof to.sun_path)
        return AL_E_IO;
    memcpy(to.sun_path, path, len);
    if (path[0] == '@') // the abstract namespace: a NUL in front, and the length counts
        to.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return AL_E_IO;
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&to,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    close(fd);
    return sent == (ssize_t)strlen(state) ? 0 : AL_E_IO;
}

int64_t al_notify_watchdog_ns(void) {
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t value;
    if (!usec || !al_str_u64(usec, &value) || !value || value > INT64_MAX / 1000)
        return 0;
    uint64_t whose = (uint64_t)getpid();
    if (pid && (!al_str_u64(pid, &whose) || whose != (uint64_t)getpid()))
        return 0;
    return (int64_t)value * 1000 / 2;
}
