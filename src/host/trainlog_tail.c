// SPDX-License-Identifier: Apache-2.0
// Finding and following the trainer's log.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "host/trainlog.h"

#define NAME "logging.jsonl"
#define CHUNK 16384
#define NS_PER_S 1000000000LL

static int64_t changed_ns(const struct stat *s) {
    return (int64_t)s->st_mtim.tv_sec * NS_PER_S + s->st_mtim.tv_nsec;
}

// File systems keep times coarsely: a file of the same second counts.
static bool is_log(const char *path, int64_t since_ns, int64_t *ret_changed) {
    struct stat s;
    if (stat(path, &s) || !S_ISREG(s.st_mode) || changed_ns(&s) < since_ns - NS_PER_S)
        return false;
    *ret_changed = changed_ns(&s);
    return true;
}

// v0-20240715-143139
static bool is_version(const char *name) {
    size_t digits = *name == 'v' ? strspn(name + 1, "0123456789") : 0;
    return digits && name[1 + digits] == '-' && strspn(name + 2 + digits, "0123456789-") == strlen(name + 2 + digits);
}

int al_trainlog_find(const char *folder, int64_t since_realtime_ns, char *out, size_t size) {
    int64_t newest = 0, changed;
    int len = snprintf(out, size, "%s/" NAME, folder);
    if (len < 0 || (size_t)len >= size)
        return AL_E_INVALID;
    if (is_log(out, since_realtime_ns, &changed))
        return 0;
    out[0] = '\0';
    DIR *d = opendir(folder);
    if (!d)
        return errno == EACCES ? AL_E_DENIED : AL_E_NOENT;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[4200];
        len = is_version(e->d_name) ? snprintf(path, sizeof path, "%s/%s/" NAME, folder, e->d_name) : -1;
        if (len < 0 || (size_t)len >= sizeof path || (size_t)len >= size || !is_log(path, since_realtime_ns, &changed) ||
            changed <= newest)
            continue;
        newest = changed;
        (void)al_str_copy(out, size, path);
    }
    (void)closedir(d);
    return newest ? 0 : AL_E_NOENT;
}

int al_trainlog_open(struct al_trainlog_tail *t, const char *path) {
    struct stat s;
    *t = (struct al_trainlog_tail){.fd = -1};
    // What is no file (a pipe of that name) must not hold us.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == EACCES ? AL_E_DENIED : errno == ENOENT ? AL_E_NOENT : AL_E_IO;
    t->line = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) ? malloc(AL_TRAINLOG_LINE) : NULL;
    if (!t->line) {
        (void)close(fd);
        return AL_E_FORMAT;
    }
    t->fd = fd;
    return 0;
}

static void take_bytes(struct al_trainlog_tail *t, struct al_trainlog *l, const char *bytes, size_t len) {
    while (len) {
        const char *newline = memchr(bytes, '\n', len);
        size_t part = newline ? (size_t)(newline - bytes) : len, room = AL_TRAINLOG_LINE - t->len;
        size_t kept = t->skips ? 0 : part < room ? part : room;
        memcpy(t->line + t->len, bytes, kept);
        t->len += kept;
        if (!t->skips && kept < part) { // longer than is looked at
            al_trainlog_line(l, t->line, t->len, true);
            t->skips = true;
            t->len = 0;
        }
        if (newline) {
            if (!t->skips)
                al_trainlog_line(l, t->line, t->len, false);
            t->skips = false;
            t->len = 0;
        }
        part += newline != NULL;
        bytes += part;
        len -= part;
    }
}

size_t al_trainlog_read(struct al_trainlog_tail *t, struct al_trainlog *l, size_t most, bool ended) {
    char chunk[CHUNK];
    size_t total = 0;
    while (t->fd >= 0 && total < most) {
        size_t want = most - total < sizeof chunk ? most - total : sizeof chunk;
        ssize_t n = read(t->fd, chunk, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        take_bytes(t, l, chunk, (size_t)n);
        total += (size_t)n;
    }
    if (ended && t->fd >= 0 && t->len) {
        al_trainlog_line(l, t->line, t->len, false);
        t->len = 0;
    }
    return total;
}

void al_trainlog_close(struct al_trainlog_tail *t) {
    if (t->fd >= 0)
        (void)close(t->fd);
    free(t->line);
    *t = (struct al_trainlog_tail){.fd = -1};
}
