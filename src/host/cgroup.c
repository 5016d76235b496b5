// SPDX-License-Identifier: Apache-2.0
#include "host/cgroup.h"

#include <ctype.h>
#include <string.h>

#include "base/str.h"

static bool all_hex(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!isxdigit((unsigned char)text[i]))
            return false;
    return true;
}

static bool contains(const char *text, size_t len, const char *word) {
    return memmem(text, len, word, strlen(word)) != NULL;
}

// "docker-<id>.scope", "cri-containerd-<id>.scope", "<id>", "<id>" behind the last ':' (containerd without systemd's
// delegation). The runtimes' own monitors (crio-conmon-<id>) are not the container.
static void find_container(const char *part, size_t len, char *out, size_t size) {
    if (contains(part, len, "conmon"))
        return;
    if (al_str_starts(part, "lxc.payload.") && len > strlen("lxc.payload.")) {
        al_str_copy_n(out, size, part + strlen("lxc.payload."), len - strlen("lxc.payload."));
        return;
    }
    if (len > 6 && strncmp(part + len - 6, ".scope", 6) == 0)
        len -= 6;
    const char *start = part;
    for (size_t i = 0; i < len; i++)
        if (part[i] == '-' || part[i] == ':')
            start = part + i + 1;
    if ((size_t)(part + len - start) == 64 && all_hex(start, 64))
        al_str_copy_n(out, size, start, 64);
}

// A UID as "6d1f0c3e-…" with '-' or, from the systemd driver, '_'; static pods have 32 hex digits.
static size_t uid_len(const char *text, size_t len) {
    static const unsigned char group[] = {8, 4, 4, 4, 12};
    size_t at = 0;
    for (size_t g = 0; g < sizeof group; g++) {
        if (at + group[g] > len || !all_hex(text + at, group[g]))
            return len >= 32 && all_hex(text, 32) ? 32 : 0;
        at += group[g];
        if (g + 1 < sizeof group) {
            if (at >= len || (text[at] != '-' && text[at] != '_'))
                return len >= 32 && all_hex(text, 32) ? 32 : 0;
            at++;
        }
    }
    return at;
}

static void find_pod(const char *part, size_t len, char *out, size_t size) {
    for (size_t i = 0; i + 3 < len; i++) {
        if (strncmp(part + i, "pod", 3) != 0)
            continue;
        size_t n = uid_len(part + i + 3, len - i - 3);
        if (!n)
            continue;
        al_str_copy_n(out, size, part + i + 3, n);
        for (char *c = out; *c; c++)
            if (*c == '_')
                *c = '-';
        return;
    }
}

static void find_slurm(const char *part, size_t len, char *out, size_t size) {
    size_t digits = len > 4 && al_str_starts(part, "job_") ? strspn(part + 4, "0123456789") : 0;
    if (digits && digits == len - 4 && digits < size)
        al_str_copy_n(out, size, part + 4, digits);
}

// Parts from the root down, so that what is innermost (a container in a container) wins.
static void look_at_path(const char *path, struct al_cgroup *ret) {
    bool pods = strstr(path, "kubepods") != NULL, slurm = strstr(path, "slurm") != NULL, lxc = false;
    for (const char *part = path; *part;) {
        size_t len = strcspn(part, "/");
        if (lxc && len)
            al_str_copy_n(ret->container, sizeof ret->container, part, len);
        // "/lxc/NAME" and "/lxc.payload/NAME" of older LXC and of LXD.
        lxc = (len == 3 && strncmp(part, "lxc", 3) == 0) || (len == 11 && strncmp(part, "lxc.payload", 11) == 0);
        find_container(part, len, ret->container, sizeof ret->container);
        if (pods)
            find_pod(part, len, ret->pod, sizeof ret->pod);
        if (slurm)
            find_slurm(part, len, ret->slurm_job, sizeof ret->slurm_job);
        part += len;
        part += *part == '/';
    }
}

static void keep(char *out, const char *path) {
    if (!al_str_copy(out, AL_CGROUP_PATH_MAX, path))
        out[0] = '\0';
}

static bool has_controller(const char *list, size_t len, const char *name) {
    size_t name_len = strlen(name);
    for (const char *p = list; p < list + len; p++) {
        const char *comma = memchr(p, ',', (size_t)(list + len - p));
        const char *end = comma ? comma : list + len;
        if ((size_t)(end - p) == name_len && strncmp(p, name, name_len) == 0)
            return true;
        p = end;
    }
    return false;
}

void al_cgroup_parse(const char *text, struct al_cgroup *ret) {
    memset(ret, 0, sizeof *ret);
    char path[4097];
    for (const char *line = text; *line;) {
        const char *end = strchrnul(line, '\n');
        const char *list = memchr(line, ':', (size_t)(end - line));
        const char *colon = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
        // A line without its newline was cut off.
        if (colon && *end && colon[1] == '/' && al_str_copy_n(path, sizeof path, colon + 1, (size_t)(end - colon - 1))) {
            size_t len = (size_t)(colon - ++list);
            if (!len)
                keep(ret->unified, path);
            else if (has_controller(list, len, "memory"))
                keep(ret->memory, path);
            if (has_controller(list, len, "cpu"))
                keep(ret->cpu, path);
            if (has_controller(list, len, "name=systemd"))
                keep(ret->named, path);
            look_at_path(path, ret);
        }
        line = *end ? end + 1 : end;
    }
    al_str_clean(ret->container);
}

const char *al_cgroup_show(const struct al_cgroup *c) {
    const char *const order[] = {c->unified, c->memory, c->named};
    for (size_t i = 0; i < 3; i++)
        if (order[i][0] && strcmp(order[i], "/") != 0)
            return order[i];
    return c->unified[0] ? c->unified : c->memory[0] ? c->memory : c->named;
}
