// SPDX-License-Identifier: Apache-2.0
#include "launch/end.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "host/cgroup.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define STAT_MAX 2048
#define TREE_MAX 64 // generations

int al_end_fd(pid_t pid) {
    return (int)syscall(SYS_pidfd_open, pid, 0); // close-on-exec by itself
}

// PIDFD_GET_INFO of Linux 6.13, with the exit code of an ended process since 6.15 (linux/pidfd.h, first 64 bytes).
struct pidfd_info {
    uint64_t mask, cgroupid;
    uint32_t ids[11];
    int32_t exit_code;
};
#define PIDFD_GET_INFO_64 _IOWR(0xFF, 11, struct pidfd_info)
#define PIDFD_INFO_EXIT (1ULL << 3)

// Behind the command, which may hold anything, blanks and brackets too. field: as in proc(5), 3 and up.
static bool stat_field(const char *text, int field, char *out, size_t size) {
    const char *p = strrchr(text, ')');
    if (!p)
        return false;
    p++;
    for (int i = 3; i <= field; i++) {
        p += strspn(p, " \n");
        size_t len = strcspn(p, " \n");
        if (!len)
            return false;
        if (i == field)
            return al_str_copy_n(out, size, p, len);
        p += len;
    }
    return false;
}

static bool read_stat(pid_t pid, int field, char *out, size_t size) {
    char path[48], text[STAT_MAX];
    int root;
    if (al_fs_root("/", &root))
        return false;
    (void)snprintf(path, sizeof path, "proc/%d/stat", (int)pid);
    ssize_t len = al_fs_read(root, path, text, sizeof text);
    (void)close(root);
    return len > 0 && stat_field(text, field, out, size);
}

bool al_end_status(int pidfd, pid_t pid, int *ret_status) {
    struct pidfd_info info = {.mask = PIDFD_INFO_EXIT};
    char word[24];
    int64_t code;
    if (pidfd >= 0 && ioctl(pidfd, PIDFD_GET_INFO_64, &info) == 0 && (info.mask & PIDFD_INFO_EXIT)) {
        *ret_status = info.exit_code;
        return true;
    }
    if (!read_stat(pid, 3, word, sizeof word) || (word[0] != 'Z' && word[0] != 'X'))
        return false;
    if (!read_stat(pid, 52, word, sizeof word) || !al_str_i64(word, &code))
        return false;
    *ret_status = (int)code;
    return true;
}

bool al_end_descends(pid_t pid, pid_t ancestor) {
    char word[24];
    for (int i = 0; i < TREE_MAX && pid > 1; i++) {
        int64_t parent;
        if (pid == ancestor)
            return true;
        if (!read_stat(pid, 4, word, sizeof word) || !al_str_i64(word, &parent))
            return false;
        pid = (pid_t)parent;
    }
    return pid == ancestor;
}

// "oom_kill N" of a flat keyed file.
static int keyed(int root, const char *path, const char *key, uint64_t *ret) {
    char text[1024], word[24];
    if (al_fs_read(root, path, text, sizeof text) <= 0)
        return AL_E_NOENT;
    for (char *p = strstr(text, key); p; p = strstr(p + 1, key)) {
        size_t len = strlen(key);
        if ((p != text && p[-1] != '\n') || p[len] != ' ')
            continue;
        p += len + 1;
        return al_str_copy_n(word, sizeof word, p, strcspn(p, "\n")) && al_str_u64(word, ret) ? 0 : AL_E_FORMAT;
    }
    return AL_E_NOENT;
}

int al_end_oom_kills(pid_t pid, uint64_t *ret) {
    char path[AL_CGROUP_PATH_MAX + 64], text[4096];
    struct al_cgroup group;
    int root, result = AL_E_NOENT;
    if (al_fs_root("/", &root))
        return AL_E_NOENT;
    (void)snprintf(path, sizeof path, pid ? "proc/%d/cgroup" : "proc/self/cgroup", (int)pid);
    if (al_fs_read(root, path, text, sizeof text) > 0) {
        al_cgroup_parse(text, &group);
        const bool v1 = group.memory[0] != 0;
        const char *below = v1 ? "sys/fs/cgroup/memory" : "sys/fs/cgroup", *key = "oom_kill";
        const char *file = v1 ? "memory.oom_control" : "memory.events";
        (void)snprintf(path, sizeof path, "%s%s/%s", below, v1 ? group.memory : group.unified, file);
        result = keyed(root, path, key, ret);
        if (result) { // in a container the path is the host's, and its group is mounted as the root
            (void)snprintf(path, sizeof path, "%s/%s", below, file);
            result = keyed(root, path, key, ret);
        }
    }
    (void)close(root);
    return result;
}

// "200000 100000" or "max 100000" of cpu.max.
static double quota(int root, const char *folder) {
    char path[AL_CGROUP_PATH_MAX + 64], text[64], word[24];
    uint64_t most, period;
    (void)snprintf(path, sizeof path, "sys/fs/cgroup%s/cpu.max", folder);
    if (al_fs_read(root, path, text, sizeof text) <= 0)
        return 0;
    size_t len = strcspn(text, " ");
    if (!al_str_copy_n(word, sizeof word, text, len) || !al_str_u64(word, &most) || text[len] != ' ')
        return 0;
    const char *rest = text + len + 1;
    if (!al_str_copy_n(word, sizeof word, rest, strcspn(rest, "\n")) || !al_str_u64(word, &period) || !period)
        return 0;
    return (double)most / (double)period;
}

double al_end_cpus(void) {
    char text[4096];
    struct al_cgroup group;
    cpu_set_t set;
    int root;
    double cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (double)sysconf(_SC_NPROCESSORS_ONLN);
    if (al_fs_root("/", &root))
        return cpus;
    double limit = quota(root, "");
    if (limit > 0 && limit < cpus)
        cpus = limit;
    if (al_fs_read(root, "proc/self/cgroup", text, sizeof text) > 0) {
        al_cgroup_parse(text, &group);
        for (char *end; group.unified[0] == '/' && group.unified[1]; *end = '\0') {
            limit = quota(root, group.unified);
            if (limit > 0 && limit < cpus)
                cpus = limit;
            end = strrchr(group.unified, '/');
        }
    }
    (void)close(root);
    return cpus;
}
