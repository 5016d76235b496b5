// SPDX-License-Identifier: Apache-2.0
#include "launch/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"

#define DEPTH 3
#define NAMES_MOST 512
#define FILE_MOST (16u << 20)

// Calls fn for each name; nested folders come with their descriptor, after what lies in them.
typedef int each_fn(int dir_fd, const char *name, int folder_fd, void *user);

static int each(int dir_fd, int depth, each_fn *fn, void *user) {
    int result = 0, own = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); // a position of its own
    DIR *d = own >= 0 ? fdopendir(own) : NULL;
    if (!d) {
        if (own >= 0)
            (void)close(own);
        return AL_E_IO;
    }
    struct dirent *e;
    for (int count = 0; (e = readdir(d)) && count < NAMES_MOST; count++) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int folder = depth > 0 ? openat(dir_fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (folder >= 0)
            (void)each(folder, depth - 1, fn, user);
        int failed = fn(dir_fd, e->d_name, folder, user);
        result = result ? result : failed;
        if (folder >= 0)
            (void)close(folder);
    }
    (void)closedir(d);
    return result;
}

static int clear(int dir_fd, const char *name, int folder_fd, void *user) {
    (void)user;
    return unlinkat(dir_fd, name, folder_fd >= 0 ? AT_REMOVEDIR : 0) ? AL_E_IO : 0;
}

void al_folder_clear(int dir_fd) {
    (void)each(dir_fd, DEPTH, clear, NULL);
}

int al_folder_write(int dir_fd, const char *name, const char *bytes, size_t length, mode_t mode) {
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return AL_E_IO;
    bool well = al_fs_write_all(fd, bytes, length);
    well &= close(fd) == 0;
    return well ? 0 : AL_E_IO;
}

int al_folder_copy(int dir_fd, const char *name, const char *from, mode_t mode) {
    char *bytes;
    size_t length;
    int result = al_fs_slurp(from, FILE_MOST, &bytes, &length);
    if (result)
        return result;
    result = al_folder_write(dir_fd, name, bytes, length, mode);
    free(bytes);
    return result;
}

struct owner {
    uid_t uid;
    gid_t gid;
};

static int give(int dir_fd, const char *name, int folder_fd, void *user) {
    const struct owner *o = user;
    (void)folder_fd;
    return fchownat(dir_fd, name, o->uid, o->gid, AT_SYMLINK_NOFOLLOW) ? AL_E_DENIED : 0;
}

int al_folder_give(int dir_fd, uid_t uid, gid_t gid) {
    struct owner o = {uid, gid};
    int result = each(dir_fd, DEPTH, give, &o);
    return fchown(dir_fd, uid, gid) ? AL_E_DENIED : result;
}
