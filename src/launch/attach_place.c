// SPDX-License-Identifier: Apache-2.0
// Where a process lives, and a folder that it and alula both reach.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "launch/attach_parts.h"
#include "launch/folder.h"

int al_attach_find_place(pid_t pid, struct al_place *ret) {
    char path[48], own[64] = "", other[64] = "";
    struct stat st, root;
    *ret = (struct al_place){0};
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    if (stat(path, &st))
        return AL_E_GONE;
    ret->uid = st.st_uid;
    ret->gid = st.st_gid;
    (void)snprintf(path, sizeof path, "/proc/%d/root/", (int)pid);
    if (stat(path, &st) || stat("/", &root))
        return AL_E_DENIED;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
    (void)!readlink(path, other, sizeof other - 1);
    (void)!readlink("/proc/self/ns/mnt", own, sizeof own - 1);
    ret->dev = st.st_dev;
    ret->ino = st.st_ino;
    (void)al_str_copy(ret->mounts, sizeof ret->mounts, other);
    bool root_ours = st.st_dev == root.st_dev && st.st_ino == root.st_ino && strcmp(own, other) == 0;
    if (!root_ours)
        (void)snprintf(ret->root, sizeof ret->root, "/proc/%d/root", (int)pid);
    ret->foreign = !root_ours || ret->uid != geteuid();
    return 0;
}

bool al_attach_same_place(const struct al_place *a, const struct al_place *b) {
    return a->uid == b->uid && a->dev == b->dev && a->ino == b->ino && strcmp(a->mounts, b->mounts) == 0;
}

// The first place of the other root that can be written to and that libraries can be loaded from.
static int open_there(const struct al_attach *a, struct al_link *link) {
    static const char *const places[] = {"/tmp", "/var/tmp", "/dev/shm", "/run"};
    int result = AL_E_DENIED;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char place[64];
        struct statvfs v;
        (void)snprintf(place, sizeof place, "%s%s", a->root, places[i]);
        if (statvfs(place, &v) || v.f_flag & (ST_NOEXEC | ST_RDONLY))
            continue;
        result = al_link_open_below(link, place);
        if (!result)
            return 0;
    }
    return result;
}

int al_attach_open(struct al_attach *a, struct al_link *link, const char *hook, const char *probe, char *why, size_t size) {
    int result = a->foreign ? open_there(a, link) : al_link_open(link);
    if (result) {
        (void)snprintf(why, size, "no folder could be made that the process reaches (%s): tried /tmp, /var/tmp, /dev/shm, /run%s%s",
                       al_error_text(result), *a->root ? " below " : "", a->root);
        return result;
    }
    result = al_attach_listen(a, link);
    if (!result && a->foreign)
        result = al_folder_copy(link->dir_fd, AL_ATTACH_PROBE, probe, 0700);
    if (!result)
        result = al_attach_put_scripts(a, link, hook, probe);
    if (!result && a->uid != geteuid()) {
        link->guest = a->uid;
        result = al_folder_give(link->dir_fd, a->uid, a->gid);
    }
    if (!result)
        return 0;
    (void)snprintf(why, size, "the hook could not be put in place: %s", errno ? strerror(errno) : al_error_text(result));
    al_link_close(link);
    return result;
}
