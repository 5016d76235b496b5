// SPDX-License-Identifier: Apache-2.0
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"

static int from_errno(int error) {
    switch (error) {
    case ENOENT:
    case ENOTDIR: return AL_E_NOENT;
    case EACCES:
    case EPERM: return AL_E_DENIED;
    case ESRCH: return AL_E_GONE;
    case ENOMEM: return AL_E_NOMEM;
    default: return AL_E_IO;
    }
}

int al_fs_root(const char *path, int *ret_fd) {
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return from_errno(errno);
    *ret_fd = fd;
    return 0;
}

// A seq_file gives whole records up to a page, so that a read this short was the last one (records are shorter).
#define SURELY_ALL 1024

// Reads up to size bytes whatever the file's stated size is: /proc files say 0.
static ssize_t read_up_to(int fd, char *out, size_t size, size_t surely_all) {
    size_t len = 0;
    while (len < size) {
        ssize_t n = read(fd, out + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return from_errno(errno);
        if (n == 0)
            break;
        len += (size_t)n;
        if (len == (size_t)n && len < surely_all)
            break; // half of all system calls on /proc would only fetch an end of file
    }
    return (ssize_t)len;
}

ssize_t al_fs_read(int root_fd, const char *path, char *out, size_t size) {
    if (!size)
        return AL_E_INVALID;
    out[0] = '\0';
    int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return from_errno(errno);
    ssize_t len = read_up_to(fd, out, size - 1, SURELY_ALL);
    (void)close(fd);
    out[len > 0 ? len : 0] = '\0';
    return len;
}

ssize_t al_fs_readf(int root_fd, char *out, size_t size, const char *format, ...) {
    char path[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(path, sizeof path, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof path)
        return AL_E_INVALID;
    return al_fs_read(root_fd, path, out, size);
}

ssize_t al_fs_link(int root_fd, const char *path, char *out, size_t size) {
    if (!size)
        return AL_E_INVALID;
    ssize_t len = readlinkat(root_fd, path, out, size - 1);
    if (len < 0) {
        out[0] = '\0';
        return from_errno(errno);
    }
    out[len] = '\0';
    return len;
}

int al_fs_u64(int root_fd, const char *path, uint64_t *ret) {
    char text[64];
    ssize_t len = al_fs_read(root_fd, path, text, sizeof text);
    if (len < 0)
        return (int)len;
    while (len && (text[len - 1] == '\n' || text[len - 1] == ' '))
        text[--len] = '\0';
    return al_str_u64(text, ret) ? 0 : AL_E_FORMAT;
}

static int slurp_fd(int fd, size_t max, char **ret_data, size_t *ret_len) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return from_errno(errno);
    if (S_ISDIR(st.st_mode))
        return AL_E_FORMAT;
    size_t cap = st.st_size > 0 && (uint64_t)st.st_size < max ? (size_t)st.st_size + 2 : 65536, len = 0;
    char *data = NULL;
    for (;;) {
        char *more = realloc(data, cap);
        if (!more) {
            free(data);
            return AL_E_NOMEM;
        }
        data = more;
        ssize_t n = read_up_to(fd, data + len, cap - 1 - len, 0); // perhaps a pipe
        if (n < 0 || len + (size_t)n > max) {
            free(data);
            return n < 0 ? (int)n : AL_E_TOOBIG;
        }
        len += (size_t)n;
        if (len < cap - 1)
            break;
        cap *= 2;
    }
    data[len] = '\0';
    *ret_data = data;
    *ret_len = len;
    return 0;
}

int al_fs_slurp(const char *path, size_t max, char **ret_data, size_t *ret_len) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return from_errno(errno);
    int result = slurp_fd(fd, max, ret_data, ret_len);
    (void)close(fd);
    return result;
}

int al_fs_make_folder(const char *path, mode_t mode) {
    char part[4096];
    if (!*path || !al_str_copy(part, sizeof part, path))
        return AL_E_INVALID;
    for (char *at = part + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        int failed = mkdir(part, mode) && errno != EEXIST;
        *at = '/';
        if (failed)
            return from_errno(errno);
    }
    struct stat st;
    if (mkdir(part, mode) && errno != EEXIST)
        return from_errno(errno);
    return stat(part, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : AL_E_NOENT;
}

bool al_fs_remote(const char *path) {
    static const unsigned long magics[] = {0x6969 /* NFS */,       0x517b /* SMB */,        0xfe534d42 /* SMB2 */,
                                           0xff534d42 /* CIFS */,  0x0bd00bd0 /* Lustre */, 0x47504653 /* GPFS */,
                                           0x00c36400 /* Ceph */,  0x65735546 /* FUSE */,   0x5346414f /* AFS */,
                                           0x01021997 /* 9p */,    0x19830326 /* BeeGFS */, 0xaad7aaea /* PanFS */};
    struct statfs f;
    if (statfs(path, &f) != 0)
        return false;
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if ((unsigned long)f.f_type == magics[i])
            return true;
    return false;
}

ssize_t al_fs_head(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    int error = errno;
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    errno = error;
    return n;
}

int al_fs_ptrace_scope(int root_fd) {
    static const char path[] = "/proc/sys/kernel/yama/ptrace_scope";
    char text[16];
    ssize_t len = root_fd < 0 ? al_fs_head(path, text, sizeof text) : al_fs_read(root_fd, path + 1, text, sizeof text);
    return len > 0 ? atoi(text) : 0;
}

bool al_fs_write_all(int fd, const char *data, size_t len) {
    while (len) {
        ssize_t done = write(fd, data, len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        data += done;
        len -= (size_t)done;
    }
    return true;
}
