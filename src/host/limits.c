// SPDX-License-Identifier: Apache-2.0
// What control groups allow and use. Both versions are looked for at their usual mount points below the root.
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "host/procfs.h"

// v1's "no limit" is the largest page-aligned number; anything near it means the same.
#define V1_UNLIMITED 0x7fffffff00000000ULL

// The folder of a group below the root in dir[size]; false when it can't be told. Inside a container that mounts only
// its own part, a v1 path still counts from the host's root: what alula's own group is called is then the mount itself.
static bool find_folder(struct al_procfs *p, const char *mount, const char *path, const char *own, const char *probe,
                        char *dir, size_t size) {
    char text[8];
    if (!path[0] || strstr(path, "/.."))
        return false;
    (void)snprintf(dir, size, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
    if (al_procfs_readf_at(p, p->root_fd, text, sizeof text, "%s/%s", dir, probe) >= 0)
        return true;
    size_t own_len = strlen(own);
    if (own_len < 2 || strncmp(path, own, own_len) != 0 || (path[own_len] && path[own_len] != '/'))
        return false;
    (void)snprintf(dir, size, "%s%s", mount, path + own_len);
    return al_procfs_readf_at(p, p->root_fd, text, sizeof text, "%s/%s", dir, probe) >= 0;
}

// One folder up, but not above the mount point.
static bool one_up(char *dir, size_t mount_len) {
    char *slash = strrchr(dir, '/');
    if (!slash || (size_t)(slash - dir) < mount_len)
        return false;
    *slash = '\0';
    return true;
}

static struct al_value lowest_memory_limit(struct al_procfs *p, const char *dir, size_t mount_len, bool v1, int64_t now_ns) {
    char up[AL_CGROUP_PATH_MAX + 64], text[64];
    uint64_t lowest = UINT64_MAX, value;
    al_str_copy(up, sizeof up, dir);
    do {
        if (al_procfs_readf_at(p, p->root_fd, text, sizeof text, "%s/%s", up, v1 ? "memory.limit_in_bytes" : "memory.max") > 0 &&
            al_parse_number(text, &value) && value < lowest)
            lowest = value;
    } while (one_up(up, mount_len));
    return lowest < V1_UNLIMITED ? al_value_ok((double)lowest, now_ns) : al_value_none(AL_STATUS_UNSUPPORTED);
}

static void read_memory(struct al_procfs *p, struct al_limit *l, int64_t now_ns) {
    const char *mount = l->v1 ? "sys/fs/cgroup/memory" : "sys/fs/cgroup";
    const char *used = l->v1 ? "memory.usage_in_bytes" : "memory.current";
    const char *const anon = l->v1 ? "total_rss" : "anon";
    char dir[AL_CGROUP_PATH_MAX + 64], text[8192];
    l->limit = l->used = l->anon = al_value_none(AL_STATUS_UNSUPPORTED);
    if (!find_folder(p, mount, l->path, l->v1 ? p->own.memory : p->own.unified, used, dir, sizeof dir))
        return;
    uint64_t value;
    l->limit = lowest_memory_limit(p, dir, strlen(mount), l->v1, now_ns);
    if (al_procfs_readf_at(p, p->root_fd, text, sizeof text, "%s/%s", dir, used) > 0 && al_parse_number(text, &value))
        l->used = al_value_ok((double)value, now_ns);
    ssize_t len = al_procfs_readf_at(p, p->root_fd, text, sizeof text, "%s/memory.stat", dir);
    if (len > 0 && al_parse_keys(text, &anon, 1, &value))
        l->anon = al_value_ok((double)value, now_ns);
}

const struct al_limit *al_procfs_limit(struct al_procfs *p, const char *path, bool v1, int64_t now_ns) {
    struct al_limit *l = NULL;
    for (unsigned i = 0; !l && i < AL_HOST_LIMITS; i++)
        if (p->limit[i].generation && p->limit[i].v1 == v1 && strcmp(p->limit[i].path, path) == 0)
            l = &p->limit[i];
    if (l && l->generation == p->generation)
        return l;
    if (!l)
        l = &p->limit[p->limit_next++ % AL_HOST_LIMITS];
    al_str_copy(l->path, sizeof l->path, path);
    l->v1 = v1;
    l->generation = p->generation;
    read_memory(p, l, now_ns);
    return l;
}

// CPUs by one folder's quota; false when it sets none.
static bool quota(struct al_procfs *p, const char *dir, bool v1, double *ret_cpus) {
    char text[64];
    uint64_t amount, period;
    if (!v1) { // "max 100000" or "250000 100000"
        if (al_procfs_readf_at(p, p->root_fd, text, sizeof text, "%s/cpu.max", dir) <= 0 || !al_parse_number(text, &amount))
            return false;
        const char *blank = strchr(text, ' ');
        if (!blank || !al_parse_number(blank, &period))
            return false;
    } else { // -1 is no quota
        if (al_procfs_readf_at(p, p->root_fd, text, sizeof text, "%s/cpu.cfs_quota_us", dir) <= 0 || !al_parse_number(text, &amount) ||
            al_procfs_readf_at(p, p->root_fd, text, sizeof text, "%s/cpu.cfs_period_us", dir) <= 0 || !al_parse_number(text, &period))
            return false;
    }
    if (!period || !amount)
        return false;
    *ret_cpus = (double)amount / (double)period;
    return true;
}

bool al_procfs_cpu_limit(struct al_procfs *p, double *ret_cpus) {
    bool v1 = p->own.cpu[0], found = false;
    // Distributions mount cpu and cpuacct together under either name.
    static const char *const mounts[] = {"sys/fs/cgroup", "sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"};
    const char *path = v1 ? p->own.cpu : p->own.unified;
    for (size_t m = v1; m < (v1 ? 3 : 1) && !found; m++) {
        char dir[AL_CGROUP_PATH_MAX + 64];
        if (!find_folder(p, mounts[m], path, path, v1 ? "cpu.cfs_period_us" : "cgroup.controllers", dir, sizeof dir))
            continue;
        do {
            double cpus;
            if (quota(p, dir, v1, &cpus) && (!found || cpus < *ret_cpus)) {
                *ret_cpus = cpus;
                found = true;
            }
        } while (one_up(dir, strlen(mounts[m])));
    }
    return found;
}
