// SPDX-License-Identifier: Apache-2.0
#include "host/memory.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "host/cgroup.h"
#include "host/parse.h"

#define CHILDREN_MAX 1024

int al_host_resident(int root_fd, pid_t pid, struct al_host_resident *ret) {
    static const char *const keys[] = {"VmRSS", "RssAnon", "RssFile", "RssShmem"};
    char text[4096];
    uint64_t values[4];
    ssize_t len = al_fs_readf(root_fd, text, sizeof text, "proc/%d/status", (int)pid);
    if (len < 0)
        return (int)len;
    if (al_parse_keys(text, keys, 4, values) != 15)
        return AL_E_FORMAT;
    *ret = (struct al_host_resident){values[0], values[1], values[2], values[3]};
    return 0;
}

int al_host_proportional(int root_fd, pid_t pid, struct al_host_proportional *ret) {
    static const char *const keys[] = {"Pss", "Pss_Anon"};
    char text[4096];
    uint64_t values[2] = {0};
    ssize_t len = al_fs_readf(root_fd, text, sizeof text, "proc/%d/smaps_rollup", (int)pid);
    if (len < 0)
        return (int)len;
    uint32_t found = al_parse_keys(text, keys, 2, values);
    if (!(found & 1))
        return AL_E_FORMAT;
    *ret = (struct al_host_proportional){values[0], values[1], found & 2};
    return 0;
}

// Inside a container that mounts only its own part, paths still count from the host's root: what our own group is called is
// then the mount itself.
static bool find_folder(int root_fd, const char *mount, const char *path, const char *own, const char *probe, char *dir,
                        size_t size) {
    char text[64];
    if (!path[0] || strstr(path, "/.."))
        return false;
    (void)snprintf(dir, size, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
    if (al_fs_readf(root_fd, text, sizeof text, "%s/%s", dir, probe) >= 0)
        return true;
    size_t len = strlen(own);
    if (len < 2 || strncmp(path, own, len) != 0 || (path[len] && path[len] != '/'))
        return false;
    (void)snprintf(dir, size, "%s%s", mount, path + len);
    return al_fs_readf(root_fd, text, sizeof text, "%s/%s", dir, probe) >= 0;
}

// v1's "no limit" is the largest page-aligned number; anything near it means the same.
#define UNLIMITED 0x7fffffff00000000ULL

static void read_limit(int root_fd, char *dir, size_t mount_len, const char *name, struct al_host_group *ret) {
    char text[64];
    uint64_t value;
    ret->limit = UNLIMITED;
    for (;;) {
        if (al_fs_readf(root_fd, text, sizeof text, "%s/%s", dir, name) > 0 && al_parse_number(text, &value) && value < ret->limit)
            ret->limit = value;
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < mount_len)
            break;
        *slash = '\0';
    }
    ret->limit_known = ret->limit < UNLIMITED;
}

static bool read_cgroup(int root_fd, const char *pid, struct al_cgroup *ret) {
    char text[4096];
    if (al_fs_readf(root_fd, text, sizeof text, "proc/%s/cgroup", pid) < 0)
        return false;
    al_cgroup_parse(text, ret);
    return true;
}

void al_host_group(int root_fd, pid_t pid, struct al_host_group *ret) {
    static const char *const keys_v2[] = {"anon", "file", "shmem"}, *const keys_v1[] = {"total_rss", "total_cache", "total_shmem"};
    struct al_cgroup group, own = {0};
    char name[16], dir[AL_CGROUP_PATH_MAX + 64], text[8192];
    uint64_t values[3];
    *ret = (struct al_host_group){0};
    (void)snprintf(name, sizeof name, "%d", (int)pid);
    if (!read_cgroup(root_fd, name, &group))
        return;
    (void)read_cgroup(root_fd, "self", &own);
    bool v1 = group.memory[0];
    const char *mount = v1 ? "sys/fs/cgroup/memory" : "sys/fs/cgroup";
    const char *used = v1 ? "memory.usage_in_bytes" : "memory.current";
    if (!find_folder(root_fd, mount, v1 ? group.memory : group.unified, v1 ? own.memory : own.unified, used, dir, sizeof dir))
        return;
    if (al_fs_readf(root_fd, text, sizeof text, "%s/%s", dir, used) <= 0 || !al_parse_number(text, &ret->used) ||
        al_fs_readf(root_fd, text, sizeof text, "%s/memory.stat", dir) <= 0 ||
        al_parse_keys(text, v1 ? keys_v1 : keys_v2, 3, values) != 7)
        return;
    ret->known = true;
    ret->anon = values[0];
    ret->file = values[1];
    ret->shmem = values[2];
    read_limit(root_fd, dir, strlen(mount), v1 ? "memory.limit_in_bytes" : "memory.max", ret);
}

static bool is_worker(int root_fd, pid_t child, const char *command, ssize_t len) {
    char text[4096];
    ssize_t got = al_fs_readf(root_fd, text, sizeof text, "proc/%d/comm", (int)child);
    if (got > 0 && (al_str_starts(text, "pt_data_worker") || al_str_starts(text, "pt_multiprocess")))
        return true;
    got = al_fs_readf(root_fd, text, sizeof text, "proc/%d/cmdline", (int)child);
    return len > 0 && got == len && memcmp(text, command, (size_t)len) == 0;
}

int al_host_workers(int root_fd, pid_t pid, pid_t *ret, int max) {
    char command[4096], text[16384];
    pid_t children[CHILDREN_MAX];
    ssize_t len = al_fs_readf(root_fd, command, sizeof command, "proc/%d/cmdline", (int)pid);
    if (al_fs_readf(root_fd, text, sizeof text, "proc/%d/task/%d/children", (int)pid, (int)pid) < 0)
        return -1;
    size_t count = al_parse_pids(text, children, CHILDREN_MAX);
    int workers = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_worker(root_fd, children[i], command, len))
            continue;
        if (workers < max)
            ret[workers] = children[i];
        workers++;
    }
    return workers;
}
