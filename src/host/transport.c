// SPDX-License-Identifier: Apache-2.0
#include "host/transport.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"

#define ENVIRON_MOST 262144 // of a process's environment; what is behind is not looked at
#define VALUE_MOST 40
#define FILES_MOST 65536 // open files looked at

// Names of this list alone are ever read, and shown as they are.
static const char *const shown[] = {"NCCL_NET",         "NCCL_NET_PLUGIN",  "NCCL_IB_DISABLE",
                                    "NCCL_SOCKET_IFNAME", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"};

static void add(struct al_buf *b, const char *key, const char *value) {
    char clean[VALUE_MOST + 1];
    (void)al_str_copy_n(clean, sizeof clean, value, strnlen(value, VALUE_MOST));
    (void)al_str_clean(clean);
    for (char *p = clean; *p; p++)
        if (*p == ' ' || *p == '=')
            *p = '_';
    if (clean[0])
        al_buf_printf(b, "%s%s=%s", b->len ? " " : "", key, clean);
}

void al_transport_environ(struct al_buf *b, const char *text, size_t len) {
    const char *end;
    for (const char *p = text; p < text + len && (end = memchr(p, '\0', (size_t)(text + len - p))); p = end + 1) {
        for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
            size_t n = strlen(shown[i]);
            if (strncmp(p, shown[i], n) == 0 && p[n] == '=')
                add(b, shown[i], p + n + 1);
        }
        if (al_str_starts(p, "LOCAL_WORLD_SIZE="))
            add(b, "local_world", p + strlen("LOCAL_WORLD_SIZE="));
    }
}

static DIR *folder(int root_fd, const char *path) {
    int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir)
        (void)close(fd);
    return dir;
}

// Open verbs devices of a process; -1 when its files may not be seen.
static int verbs_open(int root_fd, pid_t pid) {
    char path[64], target[64];
    int count = 0;
    (void)snprintf(path, sizeof path, "proc/%d/fd", (int)pid);
    DIR *dir = folder(root_fd, path);
    if (!dir)
        return -1;
    const struct dirent *e;
    int fd = dirfd(dir);
    for (int i = 0; fd >= 0 && i < FILES_MOST && (e = readdir(dir)); i++) {
        ssize_t len = readlinkat(fd, e->d_name, target, sizeof target - 1);
        if (len <= 0)
            continue;
        target[len] = '\0';
        count += al_str_starts(target, "/dev/infiniband/uverbs");
    }
    (void)closedir(dir);
    return count;
}

static int verbs_devices(int root_fd) {
    static const char path[] = "sys/class/infiniband";
    int count = 0;
    DIR *dir = folder(root_fd, path);
    if (!dir)
        return faccessat(root_fd, path, F_OK, 0) ? 0 : -1;
    for (const struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

static void add_count(struct al_buf *b, const char *key, int count) {
    if (count >= 0)
        al_buf_printf(b, "%s%s=%d", b->len ? " " : "", key, count);
}

int al_transport_text(int root_fd, pid_t pid, char *out, size_t size) {
    struct al_buf b = AL_BUF_INIT;
    char *text = malloc(ENVIRON_MOST);
    if (!text)
        return AL_E_NOMEM;
    int open = verbs_open(root_fd, pid), error = errno;
    add_count(&b, "verbs_open", open);
    add_count(&b, "verbs_devices", verbs_devices(root_fd));
    ssize_t len = al_fs_readf(root_fd, text, ENVIRON_MOST, "proc/%d/environ", (int)pid);
    if (len > 0)
        al_transport_environ(&b, text, (size_t)len);
    free(text);
    int result = open < 0 && len < 0 ? error == ENOENT ? AL_E_NOENT : AL_E_DENIED : b.failed ? AL_E_NOMEM : 0;
    if (!result)
        (void)al_str_copy_n(out, size, b.data ? b.data : "", b.len);
    al_buf_free(&b);
    return result;
}
