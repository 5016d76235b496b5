// SPDX-License-Identifier: Apache-2.0
#include "cli/memory_proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "host/parse.h"

int al_memory_proc_root(void) {
    const char *path = getenv("ALULA_HOST_ROOT");
    int root;
    return al_fs_root(path ? path : "/", &root) == 0 ? root : -1;
}

static bool read_stat(int root, pid_t pid, struct al_host_stat *ret) {
    char text[1024];
    ssize_t len = al_fs_readf(root, text, sizeof text, "proc/%d/stat", (int)pid);
    return len > 0 && al_parse_stat(text, (size_t)len, ret) == 0;
}

bool al_memory_proc_exists(int root, pid_t pid) {
    struct al_host_stat stat;
    return read_stat(root, pid, &stat);
}

pid_t al_memory_proc_parent(int root, pid_t pid) {
    struct al_host_stat stat;
    return read_stat(root, pid, &stat) ? stat.ppid : 0;
}

// Up to `max` numbers behind "KEY:" in /proc/PID/status.
static size_t status_pids(int root, pid_t pid, const char *key, pid_t *ret, size_t max) {
    char text[4096], line[256];
    if (al_fs_readf(root, text, sizeof text, "proc/%d/status", (int)pid) <= 0)
        return 0;
    const char *at = strstr(text, key);
    if (!at)
        return 0;
    at += strlen(key);
    (void)al_str_copy_n(line, sizeof line, at, strcspn(at, "\n"));
    for (char *c = line; *c; c++)
        *c = *c == '\t' ? ' ' : *c;
    return al_parse_pids(line, ret, max);
}

pid_t al_memory_proc_leader(int root, pid_t pid) {
    pid_t leader;
    return status_pids(root, pid, "\nTgid:", &leader, 1) == 1 ? leader : 0;
}

bool al_memory_proc_is_called(int root, pid_t pid, pid_t inner) {
    pid_t names[32];
    size_t count = status_pids(root, pid, "\nNSpid:", names, sizeof names / sizeof names[0]);
    for (size_t i = 1; i < count; i++)
        if (names[i] == inner)
            return true;
    return false;
}

int al_memory_proc_uses_gpu(int root, pid_t pid) {
    char path[64], target[256];
    (void)snprintf(path, sizeof path, "proc/%d/fd", (int)pid);
    int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    int found = 0;
    const struct dirent *entry;
    while (!found && (entry = readdir(dir))) {
        ssize_t len = readlinkat(fd, entry->d_name, target, sizeof target - 1);
        if (len <= 0)
            continue;
        target[len] = '\0';
        found = al_str_starts(target, "/dev/nvidia") || al_str_starts(target, "/dev/dxg");
    }
    (void)closedir(dir);
    return found;
}
